package dcc

import (
	"sync"

	"github.com/bulkhead-mail/bulkhead"
)

// maxGroup is how many reports are counted together.
const maxGroup = 512

// gather adds to b what else waits.
func (s *Server) gather(b *reportBatch, work <-chan *reportBatch) {
	for len(b.items) < maxGroup {
		select {
		case more, ok := <-work:
			if !ok {
				return
			}
			b.items = append(b.items, more.items...)
			s.batches.Put(more)
		default:
			return
		}
	}
}

// write counts a batch of reports, answers them and ends their use. Reports of
// equally many targets are one report to the clearinghouse, so that a batch
// costs it one entry, not one for each packet.
func (s *Server) write(b *reportBatch, a *asking) {
	defer func() {
		if r := recover(); r != nil {
			s.Log.Error("reports panicked", "panic", r)
			for i, it := range b.items {
				if !b.done[i] {
					s.recent.forget(it.key)
					it.in.Finish()
				}
			}
		}
	}()
	b.sums, b.done = b.sums[:0], append(b.done[:0], make([]bool, len(b.items))...)
	b.own = b.own[:0]
	for _, it := range b.items {
		b.sums = s.appendKept(b.sums, it)
		for range it.kept {
			b.own = append(b.own, it.targets)
		}
	}
	errs := s.count(b)
	tallies, err := s.book.tallies(b.ctx, a, b.sums, b.own)
	var totals [maxChecksums]Total
	for i, it := range b.items {
		switch {
		case errs[i] != nil:
			s.recent.forget(it.key)
			s.fault(it, errs[i])
		case it.op == Delete:
			s.Stats.Deletes.Add(1)
			s.recent.finish(it.key)
			s.simple(it)
		case err != nil:
			// Counted, but not to be told: the retransmission will ask again.
			s.recent.finish(it.key)
			s.fault(it, err)
		default:
			s.Stats.Reports.Add(1)
			s.recent.finish(it.key)
			s.totals(it, totals[:0], tallies)
		}
		b.done[i] = true
		it.in.Finish()
		s.items.Put(it)
	}
	s.batches.Put(b)
}

// count counts the reports of a batch and does its DELETEs. It returns one
// error for each item.
func (s *Server) count(b *reportBatch) []error {
	errs := make([]error, len(b.items))
	type group struct {
		targets uint32
		spam    bool
	}
	groups := make(map[group][]int, 2)
	for i, it := range b.items {
		switch {
		case it.op == Delete:
			errs[i] = s.delete(b, it)
		case it.kept > 0:
			g := group{it.targets, it.spam}
			groups[g] = append(groups[g], i)
		}
	}
	var wg sync.WaitGroup
	for g, members := range groups {
		if len(groups) == 1 {
			s.countGroup(b, g.targets, g.spam, members, errs)
			break
		}
		// Each waits for the disk: together they wait once.
		wg.Go(func() { s.countGroup(b, g.targets, g.spam, members, errs) })
	}
	wg.Wait()
	return errs
}

func (s *Server) countGroup(b *reportBatch, targets uint32, spam bool, members []int, errs []error) {
	sums := make([]Checksum, 0, len(b.sums))
	for _, i := range members {
		it := b.items[i]
		sums = append(sums, b.sums[it.first:it.first+it.kept]...)
	}
	who := bulkhead.Reporter{Addr: b.items[members[0]].client.Addr()}
	err := s.book.report(b.ctx, sums, targets, spam, who)
	for _, i := range members {
		errs[i] = err
	}
	if err == nil && spam {
		s.voteGroup(b, members, errs)
	}
}

// voteGroup passes claims of spam on, those of one reporter together.
func (s *Server) voteGroup(b *reportBatch, members []int, errs []error) {
	s.Stats.Spam.Add(int64(len(members)))
	byReporter := make(map[bulkhead.Reporter][]int, 1)
	for _, i := range members {
		if it := b.items[i]; !it.byRep {
			byReporter[it.who] = append(byReporter[it.who], i)
		}
	}
	var wg sync.WaitGroup
	for who, members := range byReporter {
		wg.Go(func() {
			var sums []Checksum
			for _, i := range members {
				it := b.items[i]
				sums = append(sums, b.sums[it.first:it.first+it.kept]...)
			}
			err := s.book.vote(b.ctx, sums, false, who)
			for _, i := range members {
				errs[i] = err
			}
		})
	}
	wg.Wait()
}

func (s *Server) delete(b *reportBatch, it *item) error {
	if it.sender < MinServerID || it.sender > MaxServerID {
		return errNotYours
	}
	if off := s.clockOff(it); off != 0 {
		return clockError(off)
	}
	return s.book.delete(b.ctx, it.checksums[0], it.who)
}
