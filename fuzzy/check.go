package fuzzy

import (
	"context"
	"errors"
	"slices"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/digest/rspamd"
)

// A pendingCheck is a check in progress.
type pendingCheck struct {
	job   *job
	asked bool // in the current round
	first int  // of its counts in the current round
	judge int  // of the judgements
	hits  []hit
	near  []uint8 // lists on which a band of the first half is known
	voted bool    // a band of the first half is listed by votes
	// even and evenVoted are the results for the first half: for each list in near, and for the
	// votes.
	even, evenVoted []bulkhead.Look
	// takenToo means that this round also looks up the counters of what was taken away.
	takenToo bool
	deleted  bool // a digest is known to be deleted
	// held are bands of which some were deleted once.
	held  []heldBands
	state checkState
}

type checkState uint8

const (
	checkOpen   checkState = iota // nothing found yet
	checkExact                    // the digest has a count that is not confirmed
	checkSince                    // the digest was deleted once
	checkNear                     // bands were deleted once
	checkClosed                   // settled: hits is final
)

// questions are signatures of many checks that are looked up together: first those for
// counts, then those for judgements.
type questions struct {
	sigs, judged  []bulkhead.Signature
	looks, judges []bulkhead.Look
	// counted is set if the checks were counted against a limit, or have no client.
	counted bool
}

func (q *questions) reset() { q.sigs, q.judged = q.sigs[:0], q.judged[:0] }

// ask looks up the questions. All rounds of some checks count as one check.
func (q *questions) ask(ctx context.Context, house bulkhead.Counter) error {
	aside := func() (what bulkhead.Aspect) {
		if q.counted {
			what = bulkhead.Aside
		}
		q.counted = true
		return what
	}
	q.looks = slices.Grow(q.looks[:0], len(q.sigs))[:len(q.sigs)]
	q.judges = slices.Grow(q.judges[:0], len(q.judged))[:len(q.judged)]
	var err error
	if len(q.sigs) > 0 {
		err = house.Look(ctx, q.sigs, q.looks, bulkhead.Counts|aside())
	}
	if len(q.judged) > 0 {
		err = errors.Join(err, house.Look(ctx, q.judged, q.judges, bulkhead.Judgements|aside()))
	}
	return err
}

// A round is one set of questions: which checks take part, what each looks up, and how
// it uses the results.
type round struct {
	of   checkState
	ask  func(s *Server, q *questions, c *pendingCheck, flags []uint8)
	take func(s *Server, c *pendingCheck, looks, judges []bulkhead.Look, flags []uint8)
}

// The rounds, in order: digests; the other counters of known ones; judgements by other
// front doors of unknown ones; half the bands of those still unknown; all bands if one
// is known.
var rounds = [...]round{
	{checkOpen, askDigests, takeDigests},
	{checkExact, askCopies, takeCopies},
	{checkSince, askSince, takeSince},
	{checkOpen, askVotes, takeVotes},
	{checkOpen, askHalf, takeHalf},
	{checkOpen, askBands, takeBands},
	{checkNear, askNearSince, takeNearSince},
}

// check answers sc.checks, with the look-ups of all of them together.
func (s *Server) check(ctx context.Context, sc *scratch) {
	flags := s.lists.inUse()
	q := &sc.questions
	q.counted = false
	for i := range rounds {
		r := &rounds[i]
		q.reset()
		for k := range sc.checks {
			c := &sc.checks[k]
			c.first, c.judge = len(q.sigs), len(q.judged)
			if c.asked = c.state == r.of; c.asked {
				r.ask(s, q, c, flags)
			}
		}
		if len(q.sigs)+len(q.judged) == 0 {
			continue
		}
		if err := q.ask(ctx, s.setup.house); err != nil {
			code := s.status(err)
			for k := range sc.checks {
				sc.checks[k].job.refuse(code)
			}
			return
		}
		for k := range sc.checks {
			if c := &sc.checks[k]; c.asked {
				r.take(s, c, q.looks[c.first:], q.judges[c.judge:], flags)
			}
		}
	}
	if err := s.unlearnt(ctx, sc); err != nil {
		code := s.status(err)
		for k := range sc.checks {
			sc.checks[k].job.refuse(code)
		}
		return
	}
	for i := range sc.checks {
		c := &sc.checks[i]
		if s.cleared(c) {
			c.hits = c.hits[:0]
		}
		s.writeResult(c)
	}
}

// cleared reports whether the digest of a hit, or one of its bands, is on the
// clearinghouse's whitelist: a list holds them in counters of its own, which the
// whitelist does not know.
func (s *Server) cleared(c *pendingCheck) bool {
	if s.Cleared == nil || len(c.hits) == 0 {
		return false
	}
	sigs := []bulkhead.Signature{plainSignature(&c.job.req.Digest)}
	if c.job.req.Shingled {
		sigs = rspamd.AppendBands(sigs, &c.job.req.Shingles, rspamd.Votes)
	}
	return s.Cleared(sigs)
}

func askDigests(_ *Server, q *questions, c *pendingCheck, flags []uint8) {
	for _, flag := range flags {
		q.sigs = append(q.sigs, digestSignature(&c.job.req.Digest, flag, added, 0))
	}
}

func takeDigests(s *Server, c *pendingCheck, looks, _ []bulkhead.Look, flags []uint8) {
	sure := !s.lists.taken.Seen()
	for i, flag := range flags {
		if l := &looks[i]; l.Sightings > 0 && !c.job.hides(flag) {
			c.hits = append(c.hits, hit{flag: flag, value: l.Sightings, first: seconds(l), chance: l.Error})
			sure = sure && l.Error <= maxChance
		}
	}
	if len(c.hits) > 0 {
		// For digests written here, the counts are sufficient.
		if c.state = checkExact; sure {
			c.state = checkClosed
		}
	}
}

// askCopies looks up the other counters of known digests, and what was taken from them.
func askCopies(s *Server, q *questions, c *pendingCheck, _ []uint8) {
	d := &c.job.req.Digest
	takenToo := s.lists.taken.Seen()
	for _, h := range c.hits {
		q.sigs = append(q.sigs, digestSignature(d, h.flag, added, 1), digestSignature(d, h.flag, added, 2))
		if takenToo {
			q.sigs = append(q.sigs, digestSignature(d, h.flag, taken, 0), digestSignature(d, h.flag, taken, 1),
				digestSignature(d, h.flag, deletes, 0))
		}
	}
	c.takenToo = takenToo
}

func takeCopies(_ *Server, c *pendingCheck, looks, _ []bulkhead.Look, _ []uint8) {
	left := c.hits[:0]
	c.state = checkOpen
	for _, h := range c.hits {
		sure := h.confirm(&looks[0], &looks[1])
		looks = looks[2:]
		if c.takenToo {
			// One of the two alone may be a filter error.
			h.account.Taken, h.account.Deletes = min(looks[0].Sightings, looks[1].Sightings), looks[2].Sightings
			looks = looks[3:]
		}
		if sure {
			left = append(left, h)
			if h.account.Deletes > 0 {
				c.state = checkSince
			}
		}
	}
	c.hits = left
	if c.state == checkOpen {
		c.settle()
	}
}

// settle subtracts what was taken away from the hits of a digest, and closes the check
// unless bands may add something.
func (c *pendingCheck) settle() {
	left := c.hits[:0]
	for _, h := range c.hits {
		h.account.Added = h.value
		if h.value = h.account.Left(); h.value == 0 {
			c.deleted = true
			continue
		}
		left = append(left, h)
	}
	c.hits = left
	// A deleted digest is gone, whatever its bands say. An uncertain one depends on its
	// bands.
	c.state = checkOpen
	if len(left) > 0 || c.deleted || !c.job.req.Shingled {
		c.state = checkClosed
	}
}

// confirm adds the second and third counter of a digest, and reports whether the
// probability that filter errors show all of them is at most maxChance. The third exists
// only if the digest was written without shingles.
func (h *hit) confirm(second, third *bulkhead.Look) bool {
	for _, f := range [...]*bulkhead.Look{second, third} {
		if f.Sightings > 0 {
			h.chance *= f.Error
			h.value = min(h.value, f.Sightings)
		}
	}
	return second.Sightings > 0 && h.chance <= maxChance
}

// askVotes looks up the votes of other front doors on the digest.
func askVotes(s *Server, q *questions, c *pendingCheck, _ []uint8) {
	if len(s.SpamFlags) > 0 {
		q.judged = append(q.judged, plainSignature(&c.job.req.Digest))
	}
}

// takeVotes makes digests listed by another front door hits on the spam list.
func takeVotes(s *Server, c *pendingCheck, _, judges []bulkhead.Look, _ []uint8) {
	l := &judges[0]
	switch c.voted = true; l.Judged {
	case bulkhead.JudgedSpam:
		c.hits = append(c.hits, hit{flag: s.SpamFlags[0], value: listingValue(float64(l.Confidence), 1), first: seconds(l)})
		c.state = checkClosed
	case bulkhead.Revoked:
		// A revocation of the message itself overrides its bands.
		c.voted = false
	}
	if !c.job.req.Shingled {
		c.state = checkClosed
	}
}

// half is the number of bands that are looked up first: the even ones. If a text has enough bands
// in common with a stored one, at least one of these is among them in 97 of 100 cases at 20 equal
// shingles and in 99 at 24. Nearly all unrelated texts have none, so their other bands need no
// look-up.
const half = rspamd.Bands / 2

func askHalf(_ *Server, q *questions, c *pendingCheck, flags []uint8) {
	if !c.job.req.Shingled {
		return
	}
	for _, flag := range flags {
		q.sigs = appendHalf(q.sigs, &c.job.req, uint32(flag), 0)
	}
	if c.voted {
		q.judged = appendHalf(q.judged, &c.job.req, rspamd.Votes, 0)
	}
}

// appendHalf appends every second band, from first on.
func appendHalf(dst []bulkhead.Signature, r *Request, list uint32, first int) []bulkhead.Signature {
	for b := first; b < rspamd.Bands; b += 2 {
		dst = append(dst, rspamd.Band(&r.Shingles, list, b))
	}
	return dst
}

func takeHalf(_ *Server, c *pendingCheck, looks, judges []bulkhead.Look, flags []uint8) {
	if !c.job.req.Shingled {
		c.state = checkClosed
		return
	}
	for _, flag := range flags {
		if slices.ContainsFunc(looks[:half], known) && !c.job.hides(flag) {
			c.near, c.even = append(c.near, flag), append(c.even, looks[:half]...)
		}
		looks = looks[half:]
	}
	if c.voted {
		if c.voted = slices.ContainsFunc(judges[:half], func(l bulkhead.Look) bool {
			return l.Judged == bulkhead.JudgedSpam
		}); c.voted {
			c.evenVoted = append(c.evenVoted, judges[:half]...)
		}
	}
	if len(c.near) == 0 && !c.voted {
		c.state = checkClosed
	}
}

// askBands looks up the other half if the first has a hit.
func askBands(s *Server, q *questions, c *pendingCheck, _ []uint8) {
	c.takenToo = s.lists.taken.Seen()
	for _, flag := range c.near {
		q.sigs = appendHalf(q.sigs, &c.job.req, uint32(flag), 1)
		if c.takenToo {
			q.sigs = appendBands(q.sigs, &c.job.req, flag, taken)
			q.sigs = appendBands(q.sigs, &c.job.req, flag, deletes)
		}
	}
	if c.voted {
		q.judged = appendHalf(q.judged, &c.job.req, rspamd.Votes, 1)
	}
}

func takeBands(s *Server, c *pendingCheck, looks, judges []bulkhead.Look, _ []uint8) {
	next := func(n int) (bands []bulkhead.Look) {
		bands, looks = looks[:n], looks[n:]
		return bands
	}
	var all [rspamd.Bands]bulkhead.Look
	for i, flag := range c.near {
		interleave(&all, c.even[i*half:], next(half))
		held := heldBands{flag: flag, looks: all}
		if c.takenToo {
			minus, deletes := next(rspamd.Bands), next(rspamd.Bands)
			held.take(minus, deletes)
			if slices.ContainsFunc(deletes, known) {
				c.held = append(c.held, held)
				continue
			}
		}
		if h, ok := held.hit(); ok {
			c.hits = append(c.hits, h)
		}
	}
	if c.voted {
		interleave(&all, c.evenVoted, judges)
		if h, ok := votedHit(s.SpamFlags[0], all[:]); ok && !slices.ContainsFunc(c.hits, func(o hit) bool {
			return o.flag == h.flag
		}) {
			c.hits = append(c.hits, h)
		}
	}
	c.state = checkClosed
	if len(c.held) > 0 {
		c.state = checkNear
	}
}

func known(l bulkhead.Look) bool { return l.Sightings > 0 }

func interleave(all *[rspamd.Bands]bulkhead.Look, even, odd []bulkhead.Look) {
	for i := range half {
		all[2*i], all[2*i+1] = even[i], odd[i]
	}
}

// writeResult writes the result of a check to its reply.
func (s *Server) writeResult(c *pendingCheck) {
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
	if best.agree != 0 {
		j.reply.Digest = nearDigest(&j.req, best)
	}
	j.reply.FlagValue = best.flagValue()
	for _, h := range hits[1:min(len(hits), 1+maxExtraFlags)] {
		j.reply.Extra = append(j.reply.Extra, h.flagValue())
	}
}

func (h *hit) flagValue() FlagValue { return FlagValue{Value: int32(h.value), Flag: uint32(h.flag)} }
