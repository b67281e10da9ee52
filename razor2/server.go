package razor2

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/digest/razor"
	"github.com/bulkhead-mail/bulkhead/door"
)

// The parameters of a [Server] when its fields are zero.
const (
	DefaultConfidence  = 20 // ac, percent
	DefaultMaxHosts    = 32 // engine-8 signatures of one part of a reported mail
	DefaultRequestTime = 60 * time.Second
)

// The server's parameters: docs/specs/razor2.md#state.
const (
	batchRows  = 50  // bql: rows of one batch
	batchKiB   = 128 // bqs: size of one message
	maxLine    = 8 << 10
	maxMessage = batchKiB<<10 + 16<<10
	// partRoom is the size of the largest part with its header. A message with less room
	// left may be a piece of a mail.
	partRoom = 65 << 10
	// fullScore is the least cf for SpamAssassin's full score.
	fullScore = 51
)

// ErrTaken is returned by [Accounts].Register for a name that exists.
var ErrTaken = errors.New("razor2: user name is taken")

// Accounts stores users and their passwords. Razor's login needs the password itself, so
// an implementation should encrypt it at rest. Its methods are called concurrently.
type Accounts interface {
	// Secret returns the password of the account called name. Ok is false if
	// there is no such account, or none with a password for Razor. An error that
	// wraps bulkhead.ErrForbidden means a closed account.
	Secret(ctx context.Context, name string) (secret []byte, ok bool, err error)
	// Register adds an account for a client at the address from, durably. It returns
	// ErrTaken for a name that exists, whatever its password, and an error that wraps
	// bulkhead.ErrMalformed for an invalid one.
	Register(ctx context.Context, name string, secret []byte, from netip.Addr) error
}

// A Server is catalogue, nomination and discovery server. Set the fields before Serve
// and do not change them afterwards.
type Server struct {
	Clearinghouse bulkhead.Clearinghouse // asked for every signature, in batches if it is a bulkhead.BatchChecker
	Accounts      Accounts
	// Read returns the signatures of a whole message, of every scheme, and its source. A
	// reported message is reported under all of them. If Read is nil, only Razor's own
	// signatures are reported.
	Read func(ctx context.Context, mail []byte) ([]bulkhead.Signature, bulkhead.Source, error)
	// Names are the "host:port" that discovery announces; hosts must contain a dot. With
	// fewer than two, clients repeat the discovery at each run. Nil means the address
	// that the client has connected to.
	Names []string
	// Confidence is the ac, the clients' threshold for confidences, 0 to 100; 0 means
	// DefaultConfidence, below 0 means 0.
	Confidence int
	// Serial is the serial number of the server's parameters. Raise it whenever you
	// change Confidence, so that clients fetch the parameters again.
	Serial int
	// MaxHosts is the number of links of one part of a reported message that are listed, from the
	// first; 0 means DefaultMaxHosts, below 0 none.
	MaxHosts int
	// ExemptHosts are the domains whose links are never listed and never found, in lower
	// case; a domain covers its subdomains.
	ExemptHosts []string
	// Registrations limits registrations from one network, a /24 or an IPv6 /48. An IPv6
	// /32 has four times as many, and clients without other limits ten times. The zero
	// Rate means 20 a minute, 40 at once.
	Registrations door.Rate
	// Rate limits one client's rows, before they are parsed. Exempt lists clients to
	// which only Registrations applies.
	Rate   door.Rate
	Exempt []netip.Prefix
	// MaxConns and MaxConnsPerClient cap connections; see door.StreamServer.
	MaxConns, MaxConnsPerClient int
	// Memory bounds the memory of reported mails, each [door.Cost] times its size; nil sets no
	// bound. A mail that finds no memory within a second is refused like a mail over the rate.
	Memory *door.Memory
	// Failures slows down failed log-ins; nil does not.
	Failures *door.Failures
	// RequestTime is how long a connection may be idle and a request may take;
	// 0 means DefaultRequestTime.
	RequestTime time.Duration
	Log         *slog.Logger // nil discards
	Stats       Stats

	setup  setup
	stream door.StreamServer
}

// A setup is what a server makes of its fields before it serves.
type setup struct {
	once          sync.Once
	greeting      []byte
	state         []byte
	exempt        map[[6]byte]bool
	registrations *registrar
}

// Stats are the counters of a [Server]; all may be read at any time.
type Stats struct {
	Checks, Listed     atomic.Int64 // signatures asked for, and answered with p=1
	Reports, Revokes   atomic.Int64 // mails reported, signatures revoked
	Logins, BadLogins  atomic.Int64
	Registered         atomic.Int64
	Malformed, Limited atomic.Int64 // rows refused
	Faults             atomic.Int64 // errors of the node itself
}

func (s *Server) prepare() {
	s.setup.once.Do(func() {
		if s.Log == nil {
			s.Log = slog.New(slog.DiscardHandler)
		}
		if s.Confidence == 0 {
			s.Confidence = DefaultConfidence
		}
		s.Confidence = min(max(s.Confidence, 0), 100)
		if s.MaxHosts == 0 {
			s.MaxHosts = DefaultMaxHosts
		}
		if s.Registrations.PerSecond == 0 {
			s.Registrations = door.Rate{PerSecond: 20.0 / 60, Burst: 40}
		}
		if s.RequestTime == 0 {
			s.RequestTime = DefaultRequestTime
		}
		s.setup.registrations = newRegistrar(s.Registrations, s.Exempt)
		s.setup.exempt = make(map[[6]byte]bool)
		for _, h := range s.ExemptHosts {
			s.setup.exempt[razor.Host(h)] = true
		}
		serial := strconv.Itoa(max(s.Serial, 1))
		s.setup.greeting = []byte("sn=CND&srl=" + serial + "&ep4=" + razor.EP4 + "\r\n")
		s.setup.state = []byte("-ac=" + strconv.Itoa(s.Confidence) + "\r\nbql=" + strconv.Itoa(batchRows) +
			"\r\nbqs=" + strconv.Itoa(batchKiB) + "\r\ndre=4\r\nep4=" + razor.EP4 +
			"\r\nse=88\r\nsrl=" + serial + "\r\n.\r\n")
		s.stream.Handler, s.stream.Log, s.stream.RequestTime = s.handle, s.Log, s.RequestTime
		s.stream.MaxConns, s.stream.MaxConnsPerClient = s.MaxConns, s.MaxConnsPerClient
		s.stream.RequestRate, s.stream.Exempt = s.Rate, s.Exempt
	})
}

// Serve serves the connections of l until Shutdown, then returns
// door.ErrServerClosed; or until l fails. It may be called concurrently, for several
// listeners.
func (s *Server) Serve(l net.Listener) error {
	s.prepare()
	return s.stream.Serve(l)
}

// Shutdown ends the server when current requests are answered, or ctx ends; see
// [door.StreamServer.Shutdown].
func (s *Server) Shutdown(ctx context.Context) error { return s.stream.Shutdown(ctx) }

// ConnStats returns the counters of the connections.
func (s *Server) ConnStats() *door.ConnStats { return &s.stream.Stats }

func (s *Server) handle(ctx context.Context, c *door.Conn) {
	if _, err := c.Write(s.setup.greeting); err != nil {
		return
	}
	newSession(s, c).run(ctx)
}

// status maps an error to the number in the answer: docs/specs/razor2.md#error-numbers.
// No other function does. It logs the node's own faults.
func (s *Server) status(what string, err error) string {
	switch {
	case errors.Is(err, ErrTaken):
		return "err=210"
	case errors.Is(err, bulkhead.ErrMalformed):
		return "err=200"
	case errors.Is(err, bulkhead.ErrUnauthorised), errors.Is(err, bulkhead.ErrForbidden):
		return "err=201"
	case errors.Is(err, bulkhead.ErrOverLimit):
		return "err=203"
	case errors.Is(err, bulkhead.ErrReadOnly):
		return "err=220"
	}
	s.Stats.Faults.Add(1)
	s.Log.Error("razor request not served", "request", what, "err", err)
	return "err=220"
}
