package fuzzy

import (
	"context"
	"slices"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/signature"
)

// A pendingCheck is a check while its questions are asked.
type pendingCheck struct {
	job   *job
	query int // in the present round; -1 if it asks nothing
	hits  []hit
	state checkState
}

type checkState uint8

const (
	checkOpen   checkState = iota // nothing found yet
	checkExact                    // the digest has a count, subtractions unseen
	checkNear                     // bands agree, subtractions unseen
	checkClosed                   // settled: hits is final
)

// check answers sc.checks in at most four rounds of questions, each of which
// takes those of all checks together: digests; for those known, what was
// subtracted; bands of those unknown; what was subtracted from these.
func (s *Server) check(ctx context.Context, sc *scratch) {
	flags := s.lists.inUse()
	for _, round := range []func(*scratch, []uint8) func(){s.askDigests, s.askDigestsTaken, s.askBands, s.askBandsTaken} {
		sc.ledger.reset()
		take := round(sc, flags)
		if len(sc.ledger.queries) == 0 {
			continue
		}
		if err := sc.ledger.ask(ctx, s.House); err != nil {
			code := s.status(err)
			for i := range sc.checks {
				sc.checks[i].job.refuse(code)
			}
			return
		}
		take()
	}
	for i := range sc.checks {
		s.tell(&sc.checks[i])
	}
}

// each calls f for each check that asked in this round, with its findings.
func (sc *scratch) each(f func(c *pendingCheck, v *bulkhead.Verdict)) {
	for i := range sc.checks {
		if c := &sc.checks[i]; c.query >= 0 {
			f(c, &sc.ledger.verdicts[c.query])
		}
	}
}

// ask opens a query for each check in the given state and lets f append its
// signatures.
func (sc *scratch) ask(state checkState, f func(c *pendingCheck)) {
	for i := range sc.checks {
		c := &sc.checks[i]
		c.query = -1
		if c.state == state {
			c.query = sc.ledger.begin(c.job.reporter())
			f(c)
		}
	}
}

func (s *Server) askDigests(sc *scratch, flags []uint8) func() {
	l := &sc.ledger
	sc.ask(checkOpen, func(c *pendingCheck) {
		l.sigs = append(l.sigs, plainSignature(&c.job.req.Digest))
		for _, flag := range flags {
			l.sigs = append(l.sigs, digestSignature(&c.job.req.Digest, flag, added))
		}
	})
	return func() {
		sc.each(func(c *pendingCheck, v *bulkhead.Verdict) {
			for i, flag := range flags {
				if f := &v.Findings[i+1]; f.Sightings > 0 {
					c.hits = append(c.hits, hit{flag: flag, value: f.Sightings, first: seconds(f)})
					c.state = checkExact
				}
			}
			// What another front door listed is found under the list for spam; of
			// what was written here, the counts say all there is to say.
			f := &v.Findings[0]
			if c.state == checkOpen && f.Judged == bulkhead.JudgedSpam && v.Whitelisted == "" && len(s.SpamFlags) > 0 {
				c.hits = append(c.hits, hit{flag: s.SpamFlags[0], value: max(f.Spam, 1), first: seconds(f)})
				c.state = checkClosed
			}
		})
	}
}

func (s *Server) askDigestsTaken(sc *scratch, _ []uint8) func() {
	l := &sc.ledger
	sc.ask(checkExact, func(c *pendingCheck) {
		for _, h := range c.hits {
			l.sigs = append(l.sigs, digestSignature(&c.job.req.Digest, h.flag, taken))
		}
	})
	return func() {
		sc.each(func(c *pendingCheck, v *bulkhead.Verdict) {
			left := c.hits[:0]
			for i, h := range c.hits {
				if minus := v.Findings[i].Sightings; minus < h.value {
					h.value -= minus
					left = append(left, h)
				}
			}
			// A digest that was deleted is gone, whatever its bands say.
			c.hits, c.state = left, checkClosed
		})
	}
}

func (s *Server) askBands(sc *scratch, flags []uint8) func() {
	l := &sc.ledger
	sc.ask(checkOpen, func(c *pendingCheck) {
		if !c.job.req.Shingled || len(flags) == 0 {
			// The first of nothing: the query is taken back.
			l.queries, l.starts = l.queries[:len(l.queries)-1], l.starts[:len(l.starts)-1]
			c.query, c.state = -1, checkClosed
			return
		}
		for _, flag := range flags {
			l.sigs = appendBands(l.sigs, &c.job.req, flag, added)
		}
	})
	return func() {
		sc.each(func(c *pendingCheck, v *bulkhead.Verdict) {
			for i, flag := range flags {
				if h, ok := nearHit(flag, bandsOf(v, i), nil); ok {
					c.hits = append(c.hits, h)
					c.state = checkNear
				}
			}
		})
	}
}

func bandsOf(v *bulkhead.Verdict, i int) []bulkhead.Finding {
	return v.Findings[i*signature.RspamdBands : (i+1)*signature.RspamdBands]
}

func (s *Server) askBandsTaken(sc *scratch, _ []uint8) func() {
	l := &sc.ledger
	sc.ask(checkNear, func(c *pendingCheck) {
		for _, h := range c.hits {
			l.sigs = appendBands(l.sigs, &c.job.req, h.flag, added)
			l.sigs = appendBands(l.sigs, &c.job.req, h.flag, taken)
		}
	})
	return func() {
		sc.each(func(c *pendingCheck, v *bulkhead.Verdict) {
			left := c.hits[:0]
			for i, h := range c.hits {
				if h, ok := nearHit(h.flag, bandsOf(v, 2*i), bandsOf(v, 2*i+1)); ok {
					left = append(left, h)
				}
			}
			c.hits, c.state = left, checkClosed
		})
	}
}

// tell puts what a check found into its reply.
func (s *Server) tell(c *pendingCheck) {
	j := c.job
	hits := slices.DeleteFunc(c.hits, func(h hit) bool { return j.hides(h.flag) })
	if len(hits) == 0 {
		j.reply.Prob, j.reply.Value, j.reply.Flag = 0, 0, 0
		return
	}
	slices.SortFunc(hits, hit.better)
	best := &hits[0]
	s.Stats.Found.Add(1)
	if best.agree != 0 {
		s.Stats.Near.Add(1)
	}
	j.reply.Prob, j.reply.Time, j.reply.Stored = best.prob(), best.first, best.agree == 0
	j.reply.FlagValue = best.flagValue()
	for _, h := range hits[1:min(len(hits), 1+maxExtraFlags)] {
		j.reply.Extra = append(j.reply.Extra, h.flagValue())
	}
}

func (h *hit) flagValue() FlagValue { return FlagValue{Value: int32(h.value), Flag: uint32(h.flag)} }
