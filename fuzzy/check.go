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
	near  []uint8 // lists on which a band of the first half is known
	state checkState
}

type checkState uint8

const (
	checkOpen   checkState = iota // nothing found yet
	checkExact                    // the digest has a count that is not confirmed
	checkClosed                   // settled: hits is final
)

// check answers sc.checks in at most four rounds of questions, each of which
// takes those of all checks together: digests; of those known, the other
// counters; half the bands of those unknown; all bands where one is known.
func (s *Server) check(ctx context.Context, sc *scratch) {
	flags := s.lists.inUse()
	for _, round := range []func(*scratch, []uint8) func(){s.askDigests, s.askCopies, s.askHalf, s.askBands} {
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
			l.sigs = append(l.sigs, digestSignature(&c.job.req.Digest, flag, added, 0))
		}
	})
	return func() {
		sc.each(func(c *pendingCheck, v *bulkhead.Verdict) {
			sure := !s.lists.taken.Load()
			for i, flag := range flags {
				if f := &v.Findings[i+1]; f.Sightings > 0 {
					c.hits = append(c.hits, hit{flag: flag, value: f.Sightings, first: seconds(f), chance: f.Error})
					sure = sure && f.Error <= maxChance
				}
			}
			f := &v.Findings[0]
			switch {
			case len(c.hits) > 0:
				// Of what was written here, the counts say all there is to say.
				if c.state = checkExact; sure {
					c.state = checkClosed
				}
			case f.Judged == bulkhead.JudgedSpam && v.Whitelisted == "" && len(s.SpamFlags) > 0:
				// What another front door listed is found under the list for spam.
				c.hits = append(c.hits, hit{flag: s.SpamFlags[0], value: max(f.Spam, 1), first: seconds(f)})
				c.state = checkClosed
			case !c.job.req.Shingled || len(flags) == 0:
				c.state = checkClosed
			}
		})
	}
}

// askCopies asks for the other counters of digests that are known, and for what
// was taken from them.
func (s *Server) askCopies(sc *scratch, _ []uint8) func() {
	l := &sc.ledger
	takenToo := s.lists.taken.Load()
	sc.ask(checkExact, func(c *pendingCheck) {
		d := &c.job.req.Digest
		for _, h := range c.hits {
			l.sigs = append(l.sigs, digestSignature(d, h.flag, added, 1), digestSignature(d, h.flag, added, 2))
			if takenToo {
				l.sigs = append(l.sigs, digestSignature(d, h.flag, taken, 0))
			}
		}
	})
	return func() {
		sc.each(func(c *pendingCheck, v *bulkhead.Verdict) {
			findings, left, deleted := v.Findings, c.hits[:0], false
			for _, h := range c.hits {
				sure := h.confirm(&findings[0], &findings[1])
				findings = findings[2:]
				minus := uint32(0)
				if takenToo {
					minus = findings[0].Sightings
					findings = findings[1:]
				}
				switch {
				case !sure:
				case minus >= h.value:
					deleted = true
				default:
					h.value -= minus
					left = append(left, h)
				}
			}
			c.hits = left
			// A digest that was deleted is gone, whatever its bands say. One whose
			// counters do not make it sure is left to its bands.
			c.state = checkOpen
			if len(left) > 0 || deleted || !c.job.req.Shingled {
				c.state = checkClosed
			}
		})
	}
}

// confirm takes the second and third counter of a digest, and reports whether
// all of them together could be shown by error with a probability of at most
// maxChance. The third is there only if the digest was written without shingles.
func (h *hit) confirm(second, third *bulkhead.Finding) bool {
	for _, f := range [...]*bulkhead.Finding{second, third} {
		if f.Sightings > 0 {
			h.chance *= f.Error
			h.value = min(h.value, f.Sightings)
		}
	}
	return second.Sightings > 0 && h.chance <= maxChance
}

// askHalf asks for every second band. Of texts that have enough bands in common
// with a stored one, 97 in 100 have one of these too at 20 equal shingles and 99
// at 24, and nearly all unrelated texts have none, so that their other bands
// need no look-up.
func (s *Server) askHalf(sc *scratch, flags []uint8) func() {
	l := &sc.ledger
	sc.ask(checkOpen, func(c *pendingCheck) {
		for _, flag := range flags {
			for b := 0; b < signature.RspamdBands; b += 2 {
				l.sigs = append(l.sigs, bandSignature(&c.job.req, flag, added, b))
			}
		}
	})
	return func() {
		sc.each(func(c *pendingCheck, v *bulkhead.Verdict) {
			const half = signature.RspamdBands / 2
			for i, flag := range flags {
				for _, f := range v.Findings[i*half : (i+1)*half] {
					if f.Sightings > 0 {
						c.near = append(c.near, flag)
						break
					}
				}
			}
			if len(c.near) == 0 {
				c.state = checkClosed
			}
		})
	}
}

func (s *Server) askBands(sc *scratch, _ []uint8) func() {
	l := &sc.ledger
	takenToo := s.lists.taken.Load()
	sc.ask(checkOpen, func(c *pendingCheck) {
		for _, flag := range c.near {
			l.sigs = appendBands(l.sigs, &c.job.req, flag, added)
			if takenToo {
				l.sigs = appendBands(l.sigs, &c.job.req, flag, taken)
			}
		}
	})
	return func() {
		sc.each(func(c *pendingCheck, v *bulkhead.Verdict) {
			findings := v.Findings
			next := func() (bands []bulkhead.Finding) {
				bands, findings = findings[:signature.RspamdBands], findings[signature.RspamdBands:]
				return bands
			}
			for _, flag := range c.near {
				plus, minus := next(), []bulkhead.Finding(nil)
				if takenToo {
					minus = next()
				}
				if h, ok := nearHit(flag, plus, minus); ok {
					c.hits = append(c.hits, h)
				}
			}
			c.state = checkClosed
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
