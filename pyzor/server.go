package pyzor

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/door"
)

const (
	maxDatagram = 8192              // bytes; longer ones are dropped
	maxSkew     = 300 * time.Second // of the clock of a signed request
	// The largest counts that are shown: SpamAssassin ignores a digest with 1,000,000
	// reports or 10,000 whitelistings.
	maxCount   = 999_999
	maxWLCount = 9_999
)

// Accounts stores users and their keys. The protocol's signatures need the key
// itself, so an implementation should encrypt it at rest. Its methods are called
// concurrently.
type Accounts interface {
	// Secret returns the key, 40 hexadecimal characters, of the account called
	// name. Ok is false if there is no such account, or none with a key for
	// Pyzor. An error that wraps bulkhead.ErrForbidden means a closed account.
	Secret(ctx context.Context, name string) (secret []byte, ok bool, err error)
}

// A Server answers Pyzor requests. Set the fields before Serve and do not change them
// afterwards.
type Server struct {
	Clearinghouse bulkhead.Clearinghouse // asked for every digest, in batches if it is a bulkhead.BatchChecker
	Accounts      Accounts               // nil: no account is known
	// Anonymous and Users are the operations that clients without and with an account
	// may use. Nil means all but whitelist for Anonymous, and all for Users.
	Anonymous, Users []Op
	// Rate limits the datagrams of one client; Exempt lists clients without a limit.
	Rate   door.Rate
	Exempt []netip.Prefix
	// Amplified limits the answers to one client that are longer than their requests; the zero Rate
	// means 10 a second, 50 at once. No answer is more than 1.5 times as long. Exempt clients and signed
	// requests have neither limit.
	Amplified door.Rate
	// Listed is the Count from which clients consider mail spam: mail that the clearinghouse calls
	// spam shows at least this Count, and other mail less. 0 shows the votes unchanged.
	Listed int
	// Failures is notified of unknown users and wrong signatures, which the log sums up. nil means
	// no notification.
	Failures *door.Failures
	// Votes is how many reports may be processed at once; more are dropped. 0 means
	// door.DefaultMaxDetached.
	Votes int
	// Memory bounds the memory of datagrams, see [door.PacketServer]; nil sets no bound.
	Memory *door.Memory
	Log    *slog.Logger // nil discards
	Stats  Stats

	once      sync.Once
	packets   door.PacketServer
	amplified *door.Limiter
	batches   sync.Pool
	serving   door.Work
	voting    sync.WaitGroup
}

// Stats are the counters of a [Server]; all may be read at any time.
type Stats struct {
	Pings, Checks, Infos atomic.Int64 // answered
	Reports, Whitelists  atomic.Int64 // digests counted
	Strange              atomic.Int64 // datagrams that are not requests: no answer
	Refused              atomic.Int64 // requests that were not signed, permitted or well-formed
	Unanswered           atomic.Int64 // answers held back because of their length
	Busy                 atomic.Int64 // votes dropped because of the limit Votes
	Faults               atomic.Int64 // errors of the node itself
	_                    [0]func()
}

func (s *Server) prepare() {
	s.once.Do(func() {
		if s.Log == nil {
			s.Log = slog.New(slog.DiscardHandler)
		}
		if s.Anonymous == nil {
			s.Anonymous = []Op{OpPing, OpPong, OpCheck, OpReport, OpInfo}
		}
		if s.Users == nil {
			s.Users = Ops()
		}
		if s.Amplified.PerSecond == 0 {
			s.Amplified = door.Rate{PerSecond: 10, Burst: 50}
		}
		s.amplified = door.NewLimiter(s.Amplified, s.Exempt)
		s.batches.New = func() any { return new(batch) }
		s.packets.Handler, s.packets.Log, s.packets.MaxPacket = s.handle, s.Log, maxDatagram
		s.packets.Rate, s.packets.Exempt, s.packets.MaxDetached = s.Rate, s.Exempt, s.Votes
		s.packets.Memory = s.Memory
	})
}

// ServePacket answers the datagrams of pc until Shutdown, then returns
// door.ErrServerClosed; or until pc fails. It may be called concurrently, for several
// sockets; see [door.ListenPackets].
func (s *Server) ServePacket(pc net.PacketConn) error {
	s.prepare()
	return s.serving.During(func() func() { return s.voting.Wait }, func() error { return s.packets.ServePacket(pc) })
}

// Shutdown ends the server when current votes are counted, or ctx ends; see
// [door.PacketServer.Shutdown].
func (s *Server) Shutdown(ctx context.Context) error { return s.packets.Shutdown(ctx) }

// PacketStats returns the counters of the datagrams.
func (s *Server) PacketStats() *door.PacketStats { return &s.packets.Stats }

// A batch is memory for answering datagrams that arrived together.
type batch struct {
	requests []Request
	asked    []int // the index among the packets of each query
	sigs     []bulkhead.Signature
	queries  []bulkhead.Query
	verdicts []bulkhead.Verdict
	ballots  []*ballot
}

// handle answers a batch: everything but votes at once, all checks in one call, and
// votes, which wait for the disk, concurrently.
func (s *Server) handle(ctx context.Context, packets []*door.Packet) {
	b := s.batches.Get().(*batch)
	defer s.batches.Put(b)
	for len(b.requests) < len(packets) {
		b.requests = append(b.requests, Request{})
	}
	b.asked, b.sigs = b.asked[:0], b.sigs[:0]
	for i, p := range packets {
		r := &b.requests[i]
		if !r.Parse(p.Data) {
			s.Stats.Strange.Add(1)
			continue
		}
		if err := s.admit(ctx, r); err != nil {
			if err == errUnknownUser || err == errSignature {
				s.Failures.Note("pyzor", p.Client.Addr(), time.Now())
			}
			s.refuse(p, r, err)
			continue
		}
		s.serve(b, i, p)
	}
	s.answerChecks(ctx, b, packets)
	s.cast(ctx, b)
	for i, p := range packets {
		if r := &b.requests[i]; !r.handedOn {
			s.holdBack(p, r.authentic)
		}
	}
}

// holdBack drops an answer that is longer than its request, if the client's address may be forged,
// and the answer is far longer or the client is over its limit. Requests of real clients are longer
// than their answers or nearly so, because they are signed, by the anonymous user as well.
func (s *Server) holdBack(p *door.Packet, authentic bool) {
	if authentic || len(p.Reply) <= len(p.Data) || door.Within(s.Exempt, p.Client.Addr()) {
		return
	}
	if door.Amplifies(len(p.Data), len(p.Reply)) || !s.amplified.Allow(p.Client.Addr(), 1) {
		s.Stats.Unanswered.Add(1)
		p.Reply = p.Reply[:0]
	}
}

// serve begins to answer an admitted request.
func (s *Server) serve(b *batch, i int, p *door.Packet) {
	r := &b.requests[i]
	switch op := Op(r.Op); op {
	case OpPing:
		s.Stats.Pings.Add(1)
		p.Reply = append(appendHead(p.Reply, 200, "OK", r.Thread), '\n')
	case OpPong:
		s.Stats.Pings.Add(1)
		p.Reply = appendHead(p.Reply, 200, "OK", r.Thread)
		p.Reply = append(p.Reply, "Count: 9223372036854775807\nWL-Count: 0\n\n"...)
	case OpCheck, OpInfo:
		if len(r.Digests) == 0 {
			p.Reply = append(appendHead(p.Reply, 200, "OK", r.Thread), '\n')
			return
		}
		sig, ok := ParseDigest(r.Digests[0])
		if !ok || empty(&sig) {
			s.answerCounts(p, r, &bulkhead.Verdict{})
			return
		}
		b.asked = append(b.asked, i)
		b.sigs = append(b.sigs, sig)
	case OpReport, OpWhitelist:
		s.vote(b, p, r, op)
	}
}

// empty reports whether a signature is the signature of empty text, which is never counted.
func empty(sig *bulkhead.Signature) bool {
	const nothing = "\xda\x39\xa3\xee\x5e\x6b\x4b\x0d\x32\x55\xbf\xef\x95\x60\x18\x90\xaf\xd8\x07\x09"
	return string(sig.Sum()) == nothing
}

func (r *Request) reporter(addr netip.AddrPort) bulkhead.Reporter {
	who := bulkhead.Reporter{Addr: addr.Addr()}
	if r.authentic {
		who.Account = string(r.User)
	}
	return who
}

// answerChecks looks up all digests of the batch.
func (s *Server) answerChecks(ctx context.Context, b *batch, packets []*door.Packet) {
	n := len(b.asked)
	if n == 0 {
		return
	}
	b.queries = b.queries[:0]
	for k, i := range b.asked {
		b.queries = append(b.queries, bulkhead.Query{
			Signatures: b.sigs[k : k+1], Reporter: b.requests[i].reporter(packets[i].Client),
		})
	}
	for len(b.verdicts) < n {
		b.verdicts = append(b.verdicts, bulkhead.Verdict{})
	}
	err := bulkhead.CheckBatch(ctx, s.Clearinghouse, b.queries, b.verdicts[:n])
	for k, i := range b.asked {
		p, r := packets[i], &b.requests[i]
		if err != nil {
			s.refuse(p, r, err)
			continue
		}
		s.answerCounts(p, r, &b.verdicts[k])
	}
}

// counts returns Count and WL-Count of the digest whose finding is the first of a
// verdict, and that finding. Clients compare Count with a threshold, so spam shows at
// least listed, if that is not 0, and everything else less:
// docs/protocols/pyzor.md#meaning-of-the-counts.
func counts(v *bulkhead.Verdict, listed int) (spam, ham int64, f bulkhead.Finding) {
	if v.Whitelisted != "" || len(v.Findings) == 0 {
		return 0, 0, f
	}
	f = v.Findings[0]
	if f.Judged != bulkhead.Revoked {
		spam = int64(f.Spam)
	}
	ham = int64(f.Ham)
	if listed > 0 {
		switch most := int64(listed) - 1; v.Class {
		case bulkhead.ClassSpam:
			// The verdict includes the ham votes; for clients, one ham vote is a veto.
			spam, ham = max(spam, int64(listed)), 0
		case bulkhead.ClassSuspected:
			spam = min(max(spam, 1), most)
		case bulkhead.ClassGood:
			spam = 0
		default:
			spam = min(spam, most)
		}
	}
	return min(spam, maxCount), min(ham, maxWLCount), f
}

// answerCounts writes the answer to check and info, with the counts of a digest.
func (s *Server) answerCounts(p *door.Packet, r *Request, v *bulkhead.Verdict) {
	spam, ham, f := counts(v, s.Listed)
	p.Reply = appendHead(p.Reply, 200, "OK", r.Thread)
	if Op(r.Op) == OpInfo {
		s.Stats.Infos.Add(1)
		for _, side := range []struct {
			name  string
			votes int64
		}{{"", spam}, {"WL-", ham}} {
			entered, updated := int64(0), int64(0)
			if side.votes > 0 && !f.First.IsZero() {
				entered, updated = f.First.Unix(), f.Last.Unix()
			}
			p.Reply = appendInt(p.Reply, side.name+"Entered", entered)
			p.Reply = appendInt(p.Reply, side.name+"Updated", updated)
		}
	} else {
		s.Stats.Checks.Add(1)
	}
	p.Reply = appendInt(p.Reply, "Count", spam)
	p.Reply = append(appendInt(p.Reply, "WL-Count", ham), '\n')
}

// refuse answers a request with an error.
func (s *Server) refuse(p *door.Packet, r *Request, err error) {
	code, diag := s.status(string(r.Op), err)
	p.Reply = append(appendHead(p.Reply[:0], code, diag, r.Thread), '\n')
}

// A refusal is an error with the answer that the protocol has for it.
type refusal struct {
	code int
	diag string
}

func (e *refusal) Error() string { return "pyzor: " + e.diag }

// status maps an error to the code and text of the answer: docs/specs/pyzor.md#replies.
// No other function does. It logs the node's own faults.
func (s *Server) status(op string, err error) (int, string) {
	if err == nil {
		return 200, "OK"
	}
	s.Stats.Refused.Add(1)
	var own *refusal
	switch {
	case errors.As(err, &own):
		return own.code, own.diag
	case errors.Is(err, bulkhead.ErrMalformed):
		return 400, "Bad request: the node does not take it"
	case errors.Is(err, bulkhead.ErrUnauthorised):
		return 401, "Unauthorized: Signature Error: Unknown user."
	case errors.Is(err, bulkhead.ErrForbidden):
		return 403, "Forbidden: User is not authorized to request the operation."
	case errors.Is(err, bulkhead.ErrOverLimit), errors.Is(err, bulkhead.ErrReadOnly):
		return 503, "Service Unavailable: try again later"
	}
	s.Stats.Faults.Add(1)
	s.Log.Error("pyzor request not served", "op", op, "err", err)
	return 500, "Internal Server Error: see the log of the node"
}
