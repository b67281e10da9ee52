package engine

import (
	"context"
	"fmt"
	"slices"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/engine/book"
)

// A countAddition is sightings to count: cells of the tally and by how much to
// raise each.
type countAddition struct {
	cells []filter.Key
	n     []uint32
}

func (c *countAddition) signatures() int { return len(c.cells) }

// decide has nothing to decide: a sighting needs no look at the arrays.
func (c *countAddition) decide(r *resolver) error {
	r.out.cells, r.out.n = append(r.out.cells, c.cells...), append(r.out.n, c.n...)
	return nil
}

// Count implements [bulkhead.Counter]. It takes up to 65,536 signatures at once.
func (e *Engine) Count(ctx context.Context, sigs []bulkhead.Signature, n []uint32) error {
	c, err := e.countAddition(sigs, n)
	if err != nil {
		e.counters.refused.Add(1)
		return err
	}
	if len(c.cells) == 0 {
		return nil
	}
	return e.add(ctx, c)
}

// countAddition hashes in the caller's goroutine: there is one writer only.
func (e *Engine) countAddition(sigs []bulkhead.Signature, n []uint32) (*countAddition, error) {
	if len(sigs) > maxVotes {
		return nil, fmt.Errorf("%w: %d signatures to count, limit %d", bulkhead.ErrOverLimit, len(sigs), maxVotes)
	}
	if err := bulkhead.ValidCounts(sigs, n); err != nil {
		return nil, err
	}
	white := e.whitelist.Load()
	c := &countAddition{cells: make([]filter.Key, 0, len(sigs)), n: make([]uint32, 0, len(sigs))}
	for i := range sigs {
		sig := &sigs[i]
		if e.hides(white, sig) {
			continue
		}
		c.cells = append(c.cells, baseKey(e.opts.Secret, sig).With(kindSighting))
		c.n = append(c.n, n[i])
	}
	return c, nil
}

// lookPart is how many signatures are looked up together: enough to overlap
// their misses, few enough for the buffers to stay in the nearest cache.
const lookPart = 128

// Look implements [bulkhead.Counter]. It takes no lock.
func (e *Engine) Look(_ context.Context, sigs []bulkhead.Signature, out []bulkhead.Look, what bulkhead.Aspect) error {
	out = out[:len(sigs)]
	s := e.scratch.Get().(*scratch)
	defer e.scratch.Put(s)
	view := e.view()
	for len(sigs) > 0 {
		n := min(len(sigs), lookPart)
		if err := e.lookUp(s, view, sigs[:n], out[:n], what); err != nil {
			return err
		}
		sigs, out = sigs[n:], out[n:]
	}
	if what&bulkhead.Aside == 0 {
		e.counters.checks.Add(1)
	}
	return nil
}

func (e *Engine) lookUp(s *scratch, view view, sigs []bulkhead.Signature, out []bulkhead.Look, what bulkhead.Aspect) error {
	n := len(sigs)
	s.base = slices.Grow(s.base[:0], n)[:n]
	s.kinds = slices.Grow(s.kinds[:0], n)[:n]
	s.counts = slices.Grow(s.counts[:0], n)[:n]
	s.spam = slices.Grow(s.spam[:0], n)[:n]
	for i := range sigs {
		if !sigs[i].Valid() {
			return fmt.Errorf("%w: signature %d is invalid", bulkhead.ErrMalformed, i)
		}
		s.base[i] = baseKey(e.opts.Secret, &sigs[i])
		out[i] = bulkhead.Look{}
	}
	if what&bulkhead.Counts != 0 {
		e.countLooks(s, view, out)
	}
	if what&bulkhead.Judgements != 0 {
		if err := e.judgeLooks(s, view, sigs, out); err != nil {
			return err
		}
	}
	white := e.whitelist.Load()
	for i := range sigs {
		if e.hides(white, &sigs[i]) {
			out[i] = bulkhead.Look{}
		}
	}
	return nil
}

func (e *Engine) countLooks(s *scratch, view view, out []bulkhead.Look) {
	for i := range s.base {
		s.kinds[i] = s.base[i].With(kindSighting)
	}
	for _, g := range view.tally.Live {
		if g.Counts.Keys() > 0 {
			g.Counts.CountBatch(s.kinds, s.counts)
			s.gather(g.Start, 1, out)
		}
	}
	for _, r := range view.remote.Origins {
		for _, g := range r.Tally {
			if r.Weight > 0 && g.Counts.Keys() > 0 {
				g.Counts.CountBatch(s.kinds, s.counts)
				s.gather(g.Start, r.Weight, out)
			}
		}
	}
	for _, m := range view.remote.Counts {
		m.Counts.CountBatch(s.kinds, s.counts)
		s.gather(m.Start, m.Weight, out)
	}
	odds := e.odds.Load()
	for i := range out {
		out[i].Error = odds.Count(out[i].Sightings)
	}
}

// gather adds the counts of one array, which weigh as much as given.
func (s *scratch) gather(start uint64, weight float64, out []bulkhead.Look) {
	for i, n := range s.counts {
		if n == 0 {
			continue
		}
		l := &out[i]
		l.Sightings = book.Add(l.Sightings, weighedCount(n, weight))
		if l.First == 0 || int64(start) < l.First {
			l.First = int64(start)
		}
	}
}

// judgeLooks asks for the judgement of those few that a blocklist holds.
func (e *Engine) judgeLooks(s *scratch, view view, sigs []bulkhead.Signature, out []bulkhead.Look) error {
	s.revoked = slices.Grow(s.revoked[:0], len(sigs))[:len(sigs)]
	if !s.listed(view, s.revoked) {
		return nil
	}
	for i, found := range s.revoked {
		if !found {
			continue
		}
		var v bulkhead.Verdict
		if err := e.check(&bulkhead.Query{Signatures: sigs[i : i+1], Terse: true}, &v); err != nil {
			return err
		}
		if f := &v.Findings[0]; v.Whitelisted == "" && f.Judged != bulkhead.Unjudged {
			l := &out[i]
			l.Judged, l.Spam, l.Confidence = f.Judged, f.Spam, f.Confidence
			if l.First == 0 {
				l.First = f.First.Unix()
			}
		}
	}
	return nil
}

// listed sets found[i] to whether any spam filter has s.base[i], and reports
// whether there is one.
func (s *scratch) listed(view view, found []bool) (any bool) {
	clear(found)
	in := func(set book.Bitset) {
		if set == nil || set.Keys() == 0 {
			return
		}
		set.HasBatch(s.base, s.spam)
		for i, has := range s.spam {
			if has {
				found[i], any = true, true
			}
		}
	}
	for _, g := range view.block.Live {
		in(g.Spam)
	}
	for _, r := range view.remote.Origins {
		for _, g := range r.Block {
			if r.Weight > 0 {
				in(orEmpty(g.Spam))
			}
		}
	}
	for _, l := range view.remote.Lists {
		for _, g := range l.Block {
			for _, bits := range g.Spam {
				in(bits)
			}
		}
	}
	return any
}
