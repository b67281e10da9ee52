package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/engine/evidence"
	"github.com/bulkhead-mail/bulkhead/internal/engine/keys"
	"github.com/bulkhead-mail/bulkhead/internal/engine/resolve"
	"github.com/bulkhead-mail/bulkhead/internal/engine/verdict"
)

// A countAddition holds sightings to count: cells of the tally, and the increase of each.
type countAddition struct {
	secrets *keys.Secrets
	cells   []filter.Key
	n       []uint32
}

func (c *countAddition) signatures() int { return len(c.cells) }

func (c *countAddition) under() *keys.Secrets { return c.secrets }

// decide only passes the counts on: these sightings need no look-up in the arrays.
func (c *countAddition) decide(r *resolve.Resolver) error {
	r.Count(c.cells, c.n)
	return nil
}

// Count implements [bulkhead.Counter]. It takes up to 65,536 signatures at once.
func (e *Engine) Count(ctx context.Context, sigs []bulkhead.Signature, n []uint32) error {
	for {
		c, err := e.countAddition(sigs, n)
		if err != nil {
			e.counters.refused.Add(1)
			return err
		}
		if len(c.cells) == 0 {
			return nil
		}
		if err := e.add(ctx, c); !errors.Is(err, errOtherSecret) {
			return err
		}
	}
}

// countAddition hashes in the caller's goroutine, because there is only one writer.
func (e *Engine) countAddition(sigs []bulkhead.Signature, n []uint32) (*countAddition, error) {
	if len(sigs) > maxVotes {
		return nil, fmt.Errorf("%w: %d signatures to count, limit %d", bulkhead.ErrOverLimit, len(sigs), maxVotes)
	}
	if err := bulkhead.ValidCounts(sigs, n); err != nil {
		return nil, err
	}
	white := e.whitelist.Load()
	secrets := e.books.Load().secrets
	maker := keys.Maker{Secret: secrets.Present()}
	c := &countAddition{secrets: secrets, cells: make([]filter.Key, 0, len(sigs)), n: make([]uint32, 0, len(sigs))}
	for i := range sigs {
		sig := &sigs[i]
		if e.hides(white, sig) {
			continue
		}
		c.cells = append(c.cells, maker.Base(sig).With(evidence.Sighting))
		c.n = append(c.n, n[i])
	}
	return c, nil
}

// lookPart is the number of signatures that are looked up together. It is large enough to overlap
// cache misses, and small enough for the buffers to stay in the first-level cache.
const lookPart = 128

// Look implements [bulkhead.Counter]. It takes no lock.
func (e *Engine) Look(_ context.Context, sigs []bulkhead.Signature, out []bulkhead.Look, what bulkhead.Aspect) error {
	out = out[:len(sigs)]
	s := e.scratch.Get().(*scratch)
	defer e.scratch.Put(s)
	s.begin(e.sources())
	defer s.reader.End()
	s.reader.Threshold = e.threshold.Load()
	for len(sigs) > 0 {
		n := min(len(sigs), lookPart)
		if err := e.lookUp(s, sigs[:n], out[:n], what); err != nil {
			return err
		}
		sigs, out = sigs[n:], out[n:]
	}
	if what&bulkhead.Aside == 0 {
		e.counters.checks.Add(1)
	}
	return nil
}

func (e *Engine) lookUp(s *scratch, sigs []bulkhead.Signature, out []bulkhead.Look, what bulkhead.Aspect) error {
	n := len(sigs)
	s.asks = slices.Grow(s.asks[:0], n)[:n]
	s.records = slices.Grow(s.records[:0], n)[:n]
	for i := range sigs {
		if !sigs[i].Valid() {
			return fmt.Errorf("%w: signature %d is invalid", bulkhead.ErrMalformed, i)
		}
		s.asks[i] = evidence.Ask{Key: s.keys.Base(&sigs[i]), Wants: looksFor[what&(bulkhead.Counts|bulkhead.Judgements)]}
	}
	s.reader.Read(s.asks, s.records)
	odds, white := e.odds.Load(), e.whitelist.Load()
	listed := s.listed[:0]
	for i := range sigs {
		l, r := &out[i], &s.records[i]
		*l = bulkhead.Look{}
		if e.hides(white, &sigs[i]) {
			continue
		}
		if what&bulkhead.Counts != 0 {
			l.Sightings, l.First, l.Error = r.Sightings, int64(r.First), odds.Count(r.Sightings)
		}
		if r.Own != verdict.Nothing || r.Peers != (verdict.Peers{}) {
			listed = append(listed, i)
		}
	}
	s.listed = listed
	if len(listed) > 0 {
		e.judgeLooks(s, sigs, out, odds.Odds)
	}
	return nil
}

// looksFor maps the requested aspect to the aspects that Look looks up for a signature.
var looksFor = [...]evidence.Wants{
	bulkhead.Counts:                       evidence.Sightings,
	bulkhead.Judgements:                   evidence.Listings,
	bulkhead.Counts | bulkhead.Judgements: evidence.Sightings | evidence.Listings,
}

// judgeLooks judges the few signatures that a blocklist has: sigs[i] for each i in s.listed.
func (e *Engine) judgeLooks(s *scratch, sigs []bulkhead.Signature, out []bulkhead.Look, odds *verdict.Odds) {
	s.asks, s.records = s.asks[:0], s.records[:len(s.listed)]
	for _, i := range s.listed {
		s.asks = append(s.asks, evidence.Ask{Key: s.keys.Base(&sigs[i]), Wants: wantsOf(&sigs[i])})
	}
	s.reader.Read(s.asks, s.records)
	policy := e.policy()
	for n, i := range s.listed {
		f := bulkhead.Finding{Signature: sigs[i]}
		fill(&f, &s.records[n])
		policy.Finding(&f, &s.records[n].Evidence, odds)
		if f.Judged == bulkhead.Unjudged || f.Judged == bulkhead.JudgedSpam && s.records[n].Guarded() {
			continue
		}
		l := &out[i]
		l.Judged, l.Spam, l.Confidence = f.Judged, f.Spam, f.Confidence
		if l.First == 0 {
			l.First = f.First.Unix()
		}
	}
}
