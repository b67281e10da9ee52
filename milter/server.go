package milter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/door"
	"github.com/bulkhead-mail/bulkhead/internal/mail"
	"github.com/bulkhead-mail/bulkhead/policy"
	"github.com/bulkhead-mail/bulkhead/signature"
)

// The defaults of a [Server].
const (
	DefaultMaxMessage = 16 << 20         // bytes
	DefaultTimeout    = 10 * time.Second // for one message
	DefaultIdleTime   = 15 * time.Minute // of a connection, between two commands
)

// A Limiter decides whether a recipient may be added: the action is [policy.Dunno], [policy.Defer],
// [policy.Reject] or [policy.Hold], and any other action is the same as [policy.Dunno]. It is called
// concurrently.
type Limiter interface {
	Limit(ctx context.Context, attr func(name string) []byte) (action policy.Action, text string, err error)
}

// A Server judges the mail of mail servers. Set the fields before Prepare or
// Serve.
type Server struct {
	Clearinghouse bulkhead.Clearinghouse
	// Features returns the words and the style of a message that count; nil: they are not read. See
	// [bulkhead.Source]. Its error is the error of ctx.
	Features func(ctx context.Context, raw []byte) ([]string, error)
	// Signatures are the options for computing signatures.
	Signatures signature.Options
	// Reporter is the reporter of sightings and of mail that came to a trap. The zero
	// Reporter is the node itself.
	Reporter bulkhead.Reporter
	// Lists looks up senders, clients and URLs; nil means no lists.
	Lists Lists
	// AuthResults returns the names of the hosts whose Authentication-Results fields are trusted
	// (RFC 8601). Nothing else in a message proves its sender. nil trusts no host.
	AuthResults func() []string
	// Verify returns the verified domains of a message: dkim are the domains of valid DKIM
	// signatures, and spf is the domain of the envelope's sender if SPF lets the client send for
	// it, or else "". It ends with ctx. nil verifies nothing.
	Verify func(ctx context.Context, raw []byte, client netip.Addr, sender string) (dkim []string, spf string)
	// Limiter limits recipients, by the attributes of the policy protocol; nil means no
	// limits. It is for mail servers without that protocol.
	Limiter Limiter
	// Policies are the actions for each recipient domain.
	Policies []Policy
	// Traps are addresses ("local@domain") and domains ("@domain") that receive only
	// spam. Mail to them is reported.
	Traps []string
	// DiscardTrapped discards mail whose recipients are all traps. Otherwise such
	// mail is treated like any other.
	DiscardTrapped bool
	// Ballots are addresses to which users send messages that they call spam or ham. Such a mail is
	// a vote on each message in it, on behalf of the user who has logged in to send it, and is
	// discarded if it has no other recipients. Mail to a ballot without a log-in is treated like
	// any other mail.
	Ballots []Ballot
	// Unpack returns the messages in a mail to a ballot. Its error is returned to the sender.
	Unpack func(raw []byte) ([][]byte, error)
	// ExemptNetworks are the client networks whose mail is neither counted nor checked,
	// and ExemptLogins does the same for authenticated senders. Mail submitted on the
	// machine itself is always exempt.
	ExemptNetworks []netip.Prefix
	ExemptLogins   bool
	// FailTempfail defers mail that cannot be judged; otherwise it passes.
	FailTempfail bool
	// Host is the name of this server in the headers; empty means the machine's.
	Host string
	// Memory bounds the memory of messages, each [door.Cost] times its size; nil sets no bound. A
	// message that finds no memory within half of Timeout is treated as one that cannot be judged,
	// see FailTempfail.
	Memory *door.Memory
	// MaxMessage is the largest message that is judged, in bytes; larger ones pass. 0 means
	// DefaultMaxMessage. The maximum is 64 MiB.
	MaxMessage int
	// Timeout is how long judging one message may take; 0 means DefaultTimeout.
	Timeout time.Duration
	// MaxConns caps the connections; 0 means the default of door.
	MaxConns int
	// IdleTime is how long a connection may be idle; 0 means DefaultIdleTime.
	IdleTime time.Duration
	// Log records verdicts and faults; nil discards them.
	Log *slog.Logger
	// Stats are the counters.
	Stats Stats

	setup    setup
	counting counting
	serving  door.Work
	stream   door.StreamServer
}

// A setup is what Prepare makes of the fields.
type setup struct {
	once     sync.Once
	err      error
	policies atomic.Pointer[policies]
	traps    traps
	ballots  []ballotBox
}

// A counting is the deliveries that are counted after their answer.
type counting struct {
	slots   chan struct{} // one for each delivery that is being counted
	running sync.WaitGroup
	done    deliveries // counted lately
}

// Stats are the counters of a [Server]; all may be read at any time.
type Stats struct {
	Connections atomic.Int64 // SMTP clients
	Messages    atomic.Int64 // received completely
	Exempt      atomic.Int64 // messages of authenticated or local senders
	Oversize    atomic.Int64 // messages that passed unread: too large, or for too many recipients
	Faults      atomic.Int64 // messages not judged, or judged but not counted
	Malformed   atomic.Int64 // connections closed for malformed packets
	Forged      atomic.Int64 // headers of ours that came with messages
	Verified    atomic.Int64 // messages with a verified domain
	Trapped     atomic.Int64 // messages reported for a trap
	Limited     atomic.Int64 // recipients refused by the Limiter, or held
	Classes     ClassStats
	Actions     ActionStats
	Ballots     BallotStats
	// Times of the answers to messages, from when they had been received completely.
	Times door.Times
}

// ClassStats are the numbers of judged messages, by class.
type ClassStats struct {
	White, Spam, Listed, Suspected, Bulk, Grey, Clean atomic.Int64
}

// ActionStats are the numbers of messages that were refused, deferred or put on hold.
type ActionStats struct {
	Rejected, Tempfailed, Quarantined atomic.Int64
}

// BallotStats are the numbers of messages that came to ballots: votes, mail with nothing to vote on,
// and mail from senders who had not logged in.
type BallotStats struct {
	Votes, Refused, Unauthenticated atomic.Int64
}

func (s *Stats) count(c Class, a Action) {
	n := &s.Classes
	classes := map[Class]*atomic.Int64{
		ClassWhite: &n.White, ClassSpam: &n.Spam, ClassListed: &n.Listed, ClassSuspected: &n.Suspected,
		ClassBulk: &n.Bulk, ClassGrey: &n.Grey, ClassNone: &n.Clean,
	}
	classes[c].Add(1)
	switch a {
	case Reject:
		s.Actions.Rejected.Add(1)
	case Tempfail:
		s.Actions.Tempfailed.Add(1)
	case Quarantine:
		s.Actions.Quarantined.Add(1)
	}
}

// Prepare checks the fields and fills in the defaults; Serve calls it too.
func (s *Server) Prepare() error {
	s.setup.once.Do(func() { s.setup.err = s.prepare() })
	return s.setup.err
}

func (s *Server) prepare() (err error) {
	if s.Clearinghouse == nil {
		return errors.New("milter: no clearinghouse")
	}
	if s.MaxMessage == 0 {
		s.MaxMessage = DefaultMaxMessage
	}
	if s.MaxMessage < 1024 || s.MaxMessage > mail.MaxMessage {
		return fmt.Errorf("milter: largest message of %d bytes, want 1024 to %d", s.MaxMessage, mail.MaxMessage)
	}
	if s.Timeout == 0 {
		s.Timeout = DefaultTimeout
	}
	if s.IdleTime == 0 {
		s.IdleTime = DefaultIdleTime
	}
	if s.Log == nil {
		s.Log = slog.New(slog.DiscardHandler)
	}
	if s.Host == "" {
		s.Host, _ = os.Hostname() // the name is for people only, so it may be missing
	}
	s.Host = strings.ReplaceAll(plain(s.Host), " ", "")
	s.counting.slots = make(chan struct{}, maxPending)
	if s.setup.traps, err = newTraps(s.Traps); err != nil {
		return err
	}
	if s.setup.ballots, err = newBallotBoxes(s.Ballots); err != nil {
		return err
	}
	if len(s.setup.ballots) > 0 && s.Unpack == nil {
		return errors.New("milter: ballots, and nothing to unpack their mail")
	}
	if err := s.SetPolicies(s.Policies); err != nil {
		return err
	}
	s.stream.Handler, s.stream.Log, s.stream.RequestTime = s.serve, s.Log, s.IdleTime
	s.stream.MaxConns, s.stream.MaxConnsPerClient = s.MaxConns, -1
	return nil
}

// SetPolicies replaces the policies of a running server. If one is wrong, nothing
// changes.
func (s *Server) SetPolicies(all []Policy) error {
	p, err := newPolicies(all)
	if err != nil {
		return err
	}
	s.setup.policies.Store(&p)
	return nil
}

// Serve serves the connections of l until Shutdown, then returns
// door.ErrServerClosed; or until l fails, or at once if a field is wrong. It may be
// called concurrently, for several listeners.
func (s *Server) Serve(l net.Listener) error {
	if err := s.Prepare(); err != nil {
		l.Close()
		return err
	}
	return s.serving.During(func() func() { return s.Flush }, func() error { return s.stream.Serve(l) })
}

// Shutdown ends the server: messages that have been received completely are answered,
// until ctx ends; for others the mail server acts as configured for an absent milter.
// See [door.StreamServer.Shutdown].
func (s *Server) Shutdown(ctx context.Context) error { return s.stream.Shutdown(ctx) }

// ConnStats returns the counters of the connections.
func (s *Server) ConnStats() *door.ConnStats { return &s.stream.Stats }

// exempts reports whether mail with this envelope passes unexamined.
func (s *Server) exempts(e *envelope) bool {
	return e.client.local || s.ExemptLogins && e.login != "" ||
		slices.ContainsFunc(s.ExemptNetworks, func(p netip.Prefix) bool { return p.Contains(e.client.addr) })
}

// limit applies the Limiter to one recipient and returns the refusal, or nil; a held
// message is put on hold at its end.
func (k *session) limit(recipient string) []byte {
	attributes := map[string]string{
		"request": "smtpd_access_policy", "protocol_state": "RCPT", "sender": k.msg.sender, "recipient": recipient,
		"sasl_username": k.msg.login, "client_name": k.client.name, "queue_id": k.macro("i"), "instance": k.macro("i"),
	}
	if k.client.addr.IsValid() {
		attributes["client_address"] = k.client.addr.String()
	}
	action, text, err := k.server.Limiter.Limit(context.Background(), func(name string) []byte {
		if v := attributes[name]; v != "" {
			return []byte(v)
		}
		return nil
	})
	switch {
	case err != nil:
		k.server.Stats.Faults.Add(1)
		k.server.Log.Error("rate limit failed", "err", err, "consequence", "the recipient passes")
		return nil
	case action == policy.Defer:
		k.server.Stats.Limited.Add(1)
		return smtpReply("450 4.7.1", text)
	case action == policy.Reject:
		k.server.Stats.Limited.Add(1)
		return smtpReply("550 5.7.1", text)
	case action == policy.Hold:
		k.server.Stats.Limited.Add(1)
		k.msg.held = text
	}
	return nil
}
