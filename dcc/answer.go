package dcc

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/door"
)

// An item is one request on its way to its answer.
type item struct {
	packet
	client netip.AddrPort
	who    bulkhead.Reporter
	ans    answerer
	in     *door.Packet
	key    recentKey
	first  int // of its kept checksums in the batch
	kept   int // number of kept checksums
}

// scratch is memory for answering a batch, reused.
type scratch struct {
	asking  asking
	queries []*item
	sums    []Checksum
	totals  [maxChecksums]Total
}

// A reportBatch holds the reports of one batch, with their own copies of all data.
type reportBatch struct {
	ctx     context.Context
	items   []*item
	sums    []Checksum
	up      raising // first the counters of sums, in their order
	errs    []error // of each item
	packets []*door.Packet
}

// packets answers one batch of datagrams, and passes the reports on.
func (s *Server) packets(ctx context.Context, batch []*door.Packet) {
	sc := s.pools.scratch.Get().(*scratch)
	defer s.pools.scratch.Put(sc)
	sc.queries = sc.queries[:0]
	var reports *reportBatch
	var it *item // destination of the next packet
	now := s.Now()
	for _, in := range batch {
		if it == nil {
			it = s.pools.items.Get().(*item)
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
				reports = s.pools.batches.Get().(*reportBatch)
				reports.ctx, reports.items = ctx, reports.items[:0]
			}
			reports.items = append(reports.items, it)
			it = nil
		}
	}
	if it != nil {
		it.in = nil
		s.pools.items.Put(it)
	}
	if len(sc.queries) > 0 {
		s.query(ctx, sc)
	}
	if reports == nil {
		return
	}
	select {
	case s.serving.work <- reports:
	default:
		// Too many are being counted: the clients send these again.
		s.Stats.Limited.Add(int64(len(reports.items)))
		s.abandon(reports)
	}
}

// abandon drops a batch of reports: the clients will send them again.
func (s *Server) abandon(b *reportBatch) {
	for _, it := range b.items {
		s.recent.forget(it.key)
		it.in.Reply = it.in.Reply[:0]
	}
	s.release(b)
}

// A fate is the treatment of a request.
type fate uint8

const (
	dropped     fate = iota
	answerNow        // NOP, ADMN, or an answer that is remembered
	answerQuery      // with totals
	answerLater      // a report or a DELETE, which waits for the disk
)

// read parses a request, identifies its sender, and returns what to do with it.
func (s *Server) read(it *item, data []byte, now time.Time) fate {
	if err := it.parse(data); err != nil {
		s.Stats.Malformed.Add(1)
		return dropped
	}
	if it.client.Port() == 0 || door.Within(s.Blocked, it.client.Addr()) || !s.identify(it) {
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

// identify determines who sent a request and which password signs the answer, and
// reports whether the client is served at all.
//
// Source: docs/specs/dcc.md#identity-and-signature.
func (s *Server) identify(it *item) bool {
	addr := it.client.Addr()
	it.ans = answerer{version: it.version, id: it.id}
	it.who = bulkhead.Reporter{Addr: addr}
	if it.sender != AnonymousID && s.Account != nil {
		if c, ok := s.Account(it.sender); ok {
			for _, password := range c.Passwords {
				if password != "" && signedBy(it.raw, password) {
					it.ans.password, it.who.Account = password, c.Name
					return true
				}
			}
		}
	}
	if it.sender != AnonymousID {
		s.Stats.BadPassword.Add(1)
		s.Failures.Note("dcc", addr, time.Now())
	}
	// Unknown ids and wrong passwords are served like anonymous clients.
	it.sender = AnonymousID
	s.Stats.Anonymous.Add(1)
	if !door.Within(s.AnonymousFrom, addr) {
		return false
	}
	if !s.limits.anonymous.Allow(addr, 1) ||
		!door.Within(s.Exempt, addr) && !s.limits.total.Allow(netip.IPv4Unspecified(), 1) {
		s.Stats.Limited.Add(1)
		return false
	}
	return true
}

// unproven reports whether the address of a request may be forged.
func (s *Server) unproven(it *item) bool {
	addr := it.client.Addr()
	return it.sender == AnonymousID && !addr.IsLoopback() && !door.Within(s.Exempt, addr)
}

// simple answers what needs no totals.
func (s *Server) simple(it *item) {
	switch it.op {
	case NOP, Delete:
		it.in.Reply = it.ans.ok(it.in.Reply, s.ServerID, s.Brand)
		if s.unproven(it) && !s.limits.credit.Allow(it.client, len(it.in.Data), len(it.in.Reply)) {
			s.Stats.Limited.Add(1)
			it.in.Reply = it.in.Reply[:0] // the client will ask again, which pays for the answer
		}
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
	tallies, err := s.setup.book.tallies(ctx, &sc.asking, sc.sums)
	for _, it := range sc.queries {
		if err != nil {
			s.fault(it, err)
		} else {
			s.totals(it, sc.totals[:0], tallies)
		}
		it.in = nil
		s.pools.items.Put(it)
	}
}

// appendKept appends the checksums of it that are counted.
func (s *Server) appendKept(sums []Checksum, it *item) []Checksum {
	it.first = len(sums)
	for i := range it.n {
		if s.setup.book.keeps(it.checksums[i].Type) {
			sums = append(sums, it.checksums[i])
		}
	}
	it.kept = len(sums) - it.first
	return sums
}

// totals answers it from the tallies of its kept checksums.
//
// Source: docs/specs/dcc.md#answers.
func (s *Server) totals(it *item, totals []Total, tallies []tally) {
	white := s.whitelist()
	counted := it.op == Report && !it.none
	k := it.first
	for i := range it.n {
		c := &it.checksums[i]
		t := Total{Previous: NoValue}
		if s.setup.book.keeps(c.Type) {
			now := &tallies[k]
			k++
			t.Current = now.total()
			t.Previous = t.Current
			if counted {
				before := now.before(it.targets, it.spam)
				t.Previous = before.total()
				// A checksum that is still not counted is whitelisted.
				if it.spam && now.targets.Added > 0 {
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
	var refused refusal
	switch {
	case errors.As(err, &refused):
		text = string(refused)
	case errors.Is(err, bulkhead.ErrReadOnly):
		text = "temporarily read-only"
		fallthrough
	default:
		s.Stats.Faults.Add(1)
		s.Log.Error("request failed", "op", it.op, "client", it.client, "err", err)
	}
	it.in.Reply = it.ans.error(it.in.Reply, s.ServerID, text)
}
