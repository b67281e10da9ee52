package dcc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/listen"
	"github.com/bulkhead-mail/bulkhead/signature"
)

// Defaults of a [Server].
const (
	DefaultServerID = 101
	DefaultBrand    = "bulkhead"
	DefaultWriters  = 6    // groups of reports under way at once
	maxQueued       = 1024 // batches of reports that wait
	maxClockOff     = 64   // seconds that the clock of an administrator may be off
)

// A Client is what a server knows of a client-id or server-id.
type Client struct {
	// Passwords are one or two of 1 to 32 bytes; either is good.
	Passwords []string
	// Account is whose word the spam claims of this client are on the
	// blocklist; "" makes it that of an anonymous client at its address.
	Account string
}

// A Server is a DCC server. Set the fields before Serve and leave them alone
// afterwards. The zero value with a House serves anonymous clients of the
// machine itself.
type Server struct {
	House bulkhead.Clearinghouse
	// ServerID is ours, 100 to 32767; 0 means DefaultServerID.
	ServerID uint32
	// Brand becomes part of the header X-DCC-brand-Metrics: letters and digits,
	// at most 32; "" means DefaultBrand.
	Brand string
	// Client looks an id up; nil knows none. It may be called concurrently.
	// Ids of servers (100 to 32767) may also delete.
	Client func(id uint32) (Client, bool)
	// AnonymousFrom lists the networks whose anonymous clients are served; nil
	// means the machine itself.
	AnonymousFrom []netip.Prefix
	// Blocked lists networks that get no answer.
	Blocked []netip.Prefix
	// Keep lists the types that are counted; nil means Body, Fuz1 and Fuz2.
	Keep []signature.DCCType
	// Whitelist says which checksums are ok, ok2 or many whatever was counted;
	// nil is empty.
	Whitelist func() *Whitelist
	// Rate limits the packets of one client, AnonymousRate besides those of one
	// anonymous client, AnonymousTotal those of all; Exempt lists clients that
	// none of them applies to.
	Rate, AnonymousRate, AnonymousTotal listen.Rate
	Exempt                              []netip.Prefix
	// Writers is how many groups of reports may be under way at once; 0 means
	// DefaultWriters. A group is all that waited, up to a limit.
	Writers int
	Now     func() time.Time // nil means time.Now
	Log     *slog.Logger     // nil discards
	Stats   Stats

	once      sync.Once
	book      *book
	anonymous *listen.Limiter
	total     *listen.Limiter
	recent    recent
	scratch   sync.Pool
	items     sync.Pool
	batches   sync.Pool
	started   time.Time
}

// Stats are the counters of a [Server]; all may be read at any time.
type Stats struct {
	NOPs, Queries, Reports, Repeated  atomic.Int64
	Spam, Deletes, Admin              atomic.Int64
	Anonymous, BadPassword, Malformed atomic.Int64
	Limited, Faults                   atomic.Int64
}

func (s *Server) prepare() error {
	var err error
	s.once.Do(func() {
		if s.ServerID == 0 {
			s.ServerID = DefaultServerID
		}
		if s.Brand == "" {
			s.Brand = DefaultBrand
		}
		if s.AnonymousFrom == nil {
			s.AnonymousFrom = listen.Loopback()
		}
		if s.Writers <= 0 {
			s.Writers = DefaultWriters
		}
		if s.Now == nil {
			s.Now = time.Now
		}
		if s.Log == nil {
			s.Log = slog.New(slog.DiscardHandler)
		}
		s.started = s.Now()
		s.book = newBook(s.House, s.Keep)
		s.anonymous = listen.NewLimiter(s.AnonymousRate, s.Exempt)
		s.total = listen.NewLimiter(s.AnonymousTotal, nil)
		s.recent.init()
		s.scratch.New = func() any { return new(scratch) }
		s.items.New = func() any { return new(item) }
		s.batches.New = func() any { return new(reportBatch) }
	})
	if s.ServerID < MinServerID || s.ServerID > MaxServerID {
		err = fmt.Errorf("dcc: server id %d, want %d to %d", s.ServerID, MinServerID, MaxServerID)
	}
	return errors.Join(err, checkBrand(s.Brand))
}

func checkBrand(brand string) error {
	const maxBrand = 32
	if len(brand) > maxBrand {
		return fmt.Errorf("dcc: brand %.40q of %d bytes, limit %d", brand, len(brand), maxBrand)
	}
	for _, c := range []byte(brand) {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') {
			return fmt.Errorf("dcc: brand %.40q: letters and digits only", brand)
		}
	}
	return nil
}

// ServePackets serves UDP on conns until ctx ends or one of them fails, and
// closes them. It refuses to serve an address that others can reach unless
// Client or AnonymousFrom say whom to serve.
func (s *Server) ServePackets(ctx context.Context, conns []*net.UDPConn) error {
	err := s.checkExposure(conns)
	if err == nil {
		err = s.prepare()
	}
	if err != nil {
		for _, c := range conns {
			c.Close()
		}
		return err
	}
	work := make(chan *reportBatch, maxQueued)
	p := &listen.PacketServer{
		MaxPacket: maxPacket, Rate: s.Rate, Exempt: s.Exempt, Log: s.Log, MaxDetached: 4 * listen.DefaultMaxDetached,
		Handler: func(ctx context.Context, batch []*listen.Packet) { s.packets(ctx, batch, work) },
	}
	var writers sync.WaitGroup
	for range s.Writers {
		writers.Go(func() {
			var a asking
			for b := range work {
				s.gather(b, work)
				s.write(b, &a)
			}
		})
	}
	following, stop := context.WithCancel(ctx)
	writers.Go(func() { s.book.follow(following) })
	err = p.Serve(ctx, conns)
	close(work)
	stop()
	writers.Wait()
	return err
}

func (s *Server) checkExposure(conns []*net.UDPConn) error {
	if s.Client != nil || s.AnonymousFrom != nil {
		return nil
	}
	for _, c := range conns {
		if ap, err := netip.ParseAddrPort(c.LocalAddr().String()); err == nil && !ap.Addr().Unmap().IsLoopback() {
			return fmt.Errorf("dcc: %s can be reached from the network: configure clients, or the networks of anonymous ones", c.LocalAddr())
		}
	}
	return nil
}

// An item is one request on its way to its answer.
type item struct {
	packet
	client netip.AddrPort
	who    bulkhead.Reporter
	ans    answerer
	in     *listen.Packet
	key    recentKey
	first  int // of its kept checksums in the batch
	kept   int // how many
}

// scratch is what answering a batch needs, reused.
type scratch struct {
	asking  asking
	queries []*item
	sums    []Checksum
	totals  [maxChecksums]Total
}

// A reportBatch is the reports that came in with one batch, with their own
// copies of everything.
type reportBatch struct {
	ctx     context.Context
	items   []*item
	sums    []Checksum
	up      raising // first the counters of sums, in their order
	errs    []error // of each item
	packets []*listen.Packet
}

// packets answers one batch of datagrams, and hands the reports on.
func (s *Server) packets(ctx context.Context, batch []*listen.Packet, work chan<- *reportBatch) {
	sc := s.scratch.Get().(*scratch)
	defer s.scratch.Put(sc)
	sc.queries = sc.queries[:0]
	var reports *reportBatch
	var it *item // that the next packet is read into
	now := s.Now()
	for _, in := range batch {
		if it == nil {
			it = s.items.Get().(*item)
		}
		it.in, it.client = in, in.Client
		switch s.read(it, in.Data, now) {
		case answerNow:
			s.simple(it)
		case answerQuery:
			sc.queries = append(sc.queries, it)
			it = nil
		case answerLater:
			if !in.Detach() {
				s.recent.forget(it.key)
				break
			}
			if reports == nil {
				reports = s.batches.Get().(*reportBatch)
				reports.ctx, reports.items = ctx, reports.items[:0]
			}
			reports.items = append(reports.items, it)
			it = nil
		}
	}
	if it != nil {
		it.in = nil
		s.items.Put(it)
	}
	if len(sc.queries) > 0 {
		s.query(ctx, sc)
	}
	if reports == nil {
		return
	}
	select {
	case work <- reports:
	default:
		// Too many are under way: the clients send these again.
		s.Stats.Limited.Add(int64(len(reports.items)))
		s.abandon(reports)
	}
}

// abandon gives a batch of reports up: the clients will send them again.
func (s *Server) abandon(b *reportBatch) {
	for _, it := range b.items {
		s.recent.forget(it.key)
		it.in.Reply = it.in.Reply[:0]
	}
	s.release(b)
}

// What becomes of a request.
type fate uint8

const (
	dropped     fate = iota
	answerNow        // NOP, ADMN, or an answer that is remembered
	answerQuery      // with totals
	answerLater      // a report or a DELETE, which waits for the disk
)

// read parses a request, finds out whose it is, and says what becomes of it.
func (s *Server) read(it *item, data []byte, now time.Time) fate {
	if err := it.parse(data); err != nil {
		s.Stats.Malformed.Add(1)
		return dropped
	}
	if it.client.Port() == 0 || within(s.Blocked, it.client.Addr()) || !s.identify(it) {
		return dropped
	}
	switch {
	case it.op == NOP:
		s.Stats.NOPs.Add(1)
		return answerNow
	case it.op == Admin:
		s.Stats.Admin.Add(1)
		return answerNow
	case it.op == Query || it.none:
		s.Stats.Queries.Add(1)
		return answerQuery
	}
	it.key = s.recent.key(&it.packet, it.client.Port())
	switch s.recent.enter(it.key, now) {
	case recentBusy:
		s.Stats.Repeated.Add(1)
		return dropped // the first transmission will be answered
	case recentDone:
		s.Stats.Repeated.Add(1)
		if it.op == Delete {
			return answerNow
		}
		return answerQuery
	}
	return answerLater
}

// identify finds out who sent a request and with which password the answer is
// to be signed, and reports whether the client is served at all.
//
// Source: dcc.md section 1.5.
func (s *Server) identify(it *item) bool {
	addr := it.client.Addr()
	it.ans = answerer{version: it.version, id: it.id}
	it.who = bulkhead.Reporter{Addr: addr}
	if it.sender != AnonymousID && s.Client != nil {
		if c, ok := s.Client(it.sender); ok {
			for _, password := range c.Passwords {
				if password != "" && signedBy(it.raw, password) {
					it.ans.password, it.who.Account = password, c.Account
					return true
				}
			}
		}
	}
	if it.sender != AnonymousID {
		s.Stats.BadPassword.Add(1)
	}
	// Unknown ids and wrong passwords are served like anonymous clients.
	it.sender = AnonymousID
	s.Stats.Anonymous.Add(1)
	if !within(s.AnonymousFrom, addr) {
		return false
	}
	if !s.anonymous.Allow(addr, 1) || !within(s.Exempt, addr) && !s.total.Allow(netip.IPv4Unspecified(), 1) {
		s.Stats.Limited.Add(1)
		return false
	}
	return true
}

func within(networks []netip.Prefix, addr netip.Addr) bool {
	addr = addr.Unmap().WithZone("")
	for _, n := range networks {
		if n.Contains(addr) {
			return true
		}
	}
	return false
}

// simple answers what needs no totals.
func (s *Server) simple(it *item) {
	switch it.op {
	case NOP, Delete:
		it.in.Reply = it.ans.ok(it.in.Reply, s.ServerID, s.Brand)
	case Admin:
		it.in.Reply = s.admin(it.in.Reply, it)
	}
}

// query answers the queries of a batch, and the reports that were counted
// before, by one look-up.
func (s *Server) query(ctx context.Context, sc *scratch) {
	sc.sums = sc.sums[:0]
	for _, it := range sc.queries {
		sc.sums = s.appendKept(sc.sums, it)
	}
	tallies, err := s.book.tallies(ctx, &sc.asking, sc.sums)
	for _, it := range sc.queries {
		if err != nil {
			s.fault(it, err)
		} else {
			s.totals(it, sc.totals[:0], tallies)
		}
		it.in = nil
		s.items.Put(it)
	}
}

// appendKept appends the checksums of it that are counted.
func (s *Server) appendKept(sums []Checksum, it *item) []Checksum {
	it.first = len(sums)
	for i := range it.n {
		if s.book.keeps(it.checksums[i].Type) {
			sums = append(sums, it.checksums[i])
		}
	}
	it.kept = len(sums) - it.first
	return sums
}

// totals answers it with what the tallies of its kept checksums say.
//
// Source: dcc.md section 1.4.
func (s *Server) totals(it *item, totals []Total, tallies []tally) {
	white := s.whitelist()
	counted := it.op == Report && !it.none
	k := it.first
	for i := range it.n {
		c := &it.checksums[i]
		t := Total{Previous: NoValue}
		if s.book.keeps(c.Type) {
			now := &tallies[k]
			k++
			t.Current = now.total()
			t.Previous = t.Current
			if counted {
				before := now.before(it.targets, it.spam)
				t.Previous = before.total()
				if it.spam {
					t.Current = Many
				}
			}
		}
		if v, ok := white.lookup(c); ok {
			t = Total{v, v}
		}
		totals = append(totals, t)
	}
	it.in.Reply = it.ans.answer(it.in.Reply, s.ServerID, totals)
}

func (s *Server) whitelist() *Whitelist {
	if s.Whitelist == nil {
		return nil
	}
	return s.Whitelist()
}

// fault answers a request that the clearinghouse could not serve.
func (s *Server) fault(it *item, err error) {
	text := "internal error"
	var told refusal
	switch {
	case errors.As(err, &told):
		text = string(told)
	case errors.Is(err, bulkhead.ErrReadOnly):
		text = "temporarily read-only"
		fallthrough
	default:
		s.Stats.Faults.Add(1)
		s.Log.Error("request failed", "op", it.op, "client", it.client, "err", err)
	}
	it.in.Reply = it.ans.error(it.in.Reply, s.ServerID, text)
}
