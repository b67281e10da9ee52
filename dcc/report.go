package dcc

import (
	"sync"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/door"
	"github.com/bulkhead-mail/bulkhead/internal/ledger"
)

// maxGroup is the largest number of reports that are counted together.
const maxGroup = 512

// gather adds other waiting batches to b.
func (s *Server) gather(b *reportBatch, work <-chan *reportBatch) {
	for len(b.items) < maxGroup {
		select {
		case other, ok := <-work:
			if !ok {
				return
			}
			b.items = append(b.items, other.items...)
			s.pools.batches.Put(other)
		default:
			return
		}
	}
}

// write counts a batch of reports, answers them and releases it. For the clearinghouse
// it is one request, which waits for the disk once.
func (s *Server) write(b *reportBatch, a *asking) {
	answered := false
	defer func() {
		if r := recover(); r != nil {
			s.Log.Error("reports panicked", "panic", r)
			if !answered {
				s.abandon(b)
			}
		}
	}()
	tallies, err := s.count(b, a)
	var totals [maxChecksums]Total
	for i, it := range b.items {
		switch {
		case b.errs[i] != nil:
			s.recent.forget(it.key)
			s.fault(it, b.errs[i])
			continue
		case it.op == Delete:
			s.Stats.Deletes.Add(1)
			s.simple(it)
		case err != nil:
			// Counted, but the totals are unknown: the retransmission will look them up.
			s.fault(it, err)
		default:
			s.Stats.Reports.Add(1)
			s.totals(it, totals[:0], tallies)
		}
		s.recent.finish(it.key)
	}
	answered = true
	s.release(b)
}

// release sends the answers of a batch and frees it.
func (s *Server) release(b *reportBatch) {
	b.packets = b.packets[:0]
	for _, it := range b.items {
		b.packets = append(b.packets, it.in)
		it.in = nil
		s.pools.items.Put(it)
	}
	door.FinishAll(b.packets)
	s.pools.batches.Put(b)
}

// count counts the reports of a batch, performs its DELETEs, and looks up the new
// totals. It sets b.errs for each item and returns the error of the look-up.
func (s *Server) count(b *reportBatch, a *asking) ([]tally, error) {
	b.sums, b.errs = b.sums[:0], append(b.errs[:0], make([]error, len(b.items))...)
	b.up.Reset()
	for i, it := range b.items {
		it.kept = 0
		if it.op == Delete {
			b.errs[i] = s.delete(b, it)
			continue
		}
		b.sums = s.appendKept(b.sums, it)
		b.up.targets(b.sums[it.first:], it.targets)
	}
	for _, it := range b.items {
		if it.spam && it.kept > 0 {
			b.up.claims(b.sums[it.first : it.first+it.kept])
		}
	}
	if len(b.sums) == 0 {
		return nil, nil
	}
	deletes, err := s.setup.book.deletesOf(b.ctx, a, b.sums)
	if err == nil {
		for _, it := range b.items {
			if it.kept > 0 && deletes != nil {
				b.up.since(b.sums[it.first:it.first+it.kept], deletes[it.first:it.first+it.kept], it.targets, it.spam)
			}
		}
		err = s.countAndVote(b)
	}
	if err != nil {
		for i, it := range b.items {
			if it.kept > 0 {
				b.errs[i] = err
			}
		}
		return nil, nil
	}
	n := len(b.sums)
	return s.setup.book.talliesOf(b.ctx, a, b.sums, b.up.Sigs[:n], b.up.N[:n])
}

// countAndVote counts a batch, and passes on claims of spam, grouped by reporter. The counts are one step with the
// claims of the first reporter. It sets b.errs for claims that were not passed on, and returns the error of the
// counts.
func (s *Server) countAndVote(b *reportBatch) error {
	byReporter := make(map[bulkhead.Reporter][]int, 1)
	for i, it := range b.items {
		if it.op == Delete || !it.spam {
			continue
		}
		s.Stats.Spam.Add(1)
		if !it.byRep && it.kept > 0 {
			byReporter[it.who] = append(byReporter[it.who], i)
		}
	}
	up := b.up.Raising
	if len(byReporter) == 0 {
		return s.setup.book.house.Count(b.ctx, up.Sigs, up.N)
	}
	var wg sync.WaitGroup
	var counted error
	for who, members := range byReporter {
		with := up
		up = ledger.Raising{}
		wg.Go(func() {
			var sums []Checksum
			for _, i := range members {
				it := b.items[i]
				sums = append(sums, b.sums[it.first:it.first+it.kept]...)
			}
			err := s.setup.book.vote(b.ctx, with, sums, bulkhead.Spam, who)
			if len(with.Sigs) > 0 {
				counted = err
				return
			}
			for _, i := range members {
				b.errs[i] = err
			}
		})
	}
	wg.Wait()
	return counted
}

func (s *Server) delete(b *reportBatch, it *item) error {
	if it.sender < MinServerID || it.sender > MaxServerID {
		return errNotYours
	}
	if skew := s.clockSkew(it); skew != 0 {
		return clockError(skew)
	}
	return s.setup.book.delete(b.ctx, it.checksums[0], it.who)
}
