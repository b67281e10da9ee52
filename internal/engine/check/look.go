package check

import (
	"fmt"
	"slices"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/engine/evidence"
	"github.com/bulkhead-mail/bulkhead/internal/engine/verdict"
)

// lookPart is the number of signatures that are looked up together. It is large enough to overlap
// cache misses, and small enough for the buffers to stay in the first-level cache.
const lookPart = 128

// Look implements the look-up of [bulkhead.Counter].
func (c *Checker) Look(sigs []bulkhead.Signature, out []bulkhead.Look, what bulkhead.Aspect) error {
	out = out[:len(sigs)]
	s := c.scratch.Get().(*scratch)
	defer c.scratch.Put(s)
	s.begin(c.Sources())
	defer s.reader.End()
	s.reader.Threshold = c.threshold.Load()
	for len(sigs) > 0 {
		n := min(len(sigs), lookPart)
		if err := c.lookUp(s, sigs[:n], out[:n], what); err != nil {
			return err
		}
		sigs, out = sigs[n:], out[n:]
	}
	if what&bulkhead.Aside == 0 {
		c.count.Add(1)
	}
	return nil
}

func (c *Checker) lookUp(s *scratch, sigs []bulkhead.Signature, out []bulkhead.Look, what bulkhead.Aspect) error {
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
	odds, white := c.Odds(), c.whitelist.Load()
	listed := s.listed[:0]
	for i := range sigs {
		l, r := &out[i], &s.records[i]
		*l = bulkhead.Look{}
		if c.Hides(white, &sigs[i]) {
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
		c.judgeLooks(s, sigs, out, odds.Odds)
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
func (c *Checker) judgeLooks(s *scratch, sigs []bulkhead.Signature, out []bulkhead.Look, odds *verdict.Odds) {
	s.asks, s.records = s.asks[:0], s.records[:len(s.listed)]
	for _, i := range s.listed {
		s.asks = append(s.asks, evidence.Ask{Key: s.keys.Base(&sigs[i]), Wants: wantsOf(&sigs[i])})
	}
	s.reader.Read(s.asks, s.records)
	policy := c.Policy()
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
