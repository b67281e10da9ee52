package fuzzy

import (
	"context"
	"errors"
	"slices"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/signature/rspamd"
)

// A pendingCheck is a check while its questions are asked.
type pendingCheck struct {
	job   *job
	asked bool // in the present round
	first int  // of the counts it asked for in the present round
	judge int  // of the judgements
	hits  []hit
	near  []uint8 // lists on which a band of the first half is known
	voted bool    // a band of the first half is listed by votes
	// even and evenVoted are the answers for the first half: of each list in
	// near, and of the votes.
	even, evenVoted []bulkhead.Look
	// takenToo: what was taken away is among the questions of this round.
	takenToo bool
	deleted  bool // a digest is known to be deleted
	// held is what is known of bands of which some were deleted once.
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

// questions are signatures of many checks that are looked up together: first
// those whose counts are wanted, then those whose judgement is.
type questions struct {
	sigs, judged  []bulkhead.Signature
	looks, judges []bulkhead.Look
	// counted: they ask for checks that were counted, or for no client at all.
	counted bool
}

func (q *questions) reset() { q.sigs, q.judged = q.sigs[:0], q.judged[:0] }

// ask asks the questions. Those of all rounds of some checks count as one check.
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

// A round is one set of questions: which checks ask, what each of them asks,
// and what it makes of the answers.
type round struct {
	of   checkState
	ask  func(s *Server, q *questions, c *pendingCheck, flags []uint8)
	take func(s *Server, c *pendingCheck, looks, judges []bulkhead.Look, flags []uint8)
}

// rounds are in their order: digests; of those known, the other counters; what
// other front doors say of those unknown; half the bands of those still
// unknown; all bands where one is known.
var rounds = [...]round{
	{checkOpen, askDigests, takeDigests},
	{checkExact, askCopies, takeCopies},
	{checkSince, askSince, takeSince},
	{checkOpen, askVotes, takeVotes},
	{checkOpen, askHalf, takeHalf},
	{checkOpen, askBands, takeBands},
	{checkNear, askNearSince, takeNearSince},
}

// check answers sc.checks. The questions of all of them are asked together.
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
		if err := q.ask(ctx, s.house); err != nil {
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
		s.tell(c)
	}
}

// cleared reports whether the clearinghouse's white list has the digest of a check
// that found something, or one of its bands: a list holds them in counters of its
// own, which the white list does not know.
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
		// Of what was written here, the counts say all there is to say.
		if c.state = checkExact; sure {
			c.state = checkClosed
		}
	}
}

// askCopies asks for the other counters of digests that are known, and for what
// was taken from them.
func askCopies(s *Server, q *questions, c *pendingCheck, _ []uint8) {
	d := &c.job.req.Digest
	takenToo := s.lists.taken.Seen()
	for _, h := range c.hits {
		q.sigs = append(q.sigs, digestSignature(d, h.flag, added, 1), digestSignature(d, h.flag, added, 2))
		if takenToo {
			q.sigs = append(q.sigs, digestSignature(d, h.flag, taken, 0), digestSignature(d, h.flag, taken, 1), digestSignature(d, h.flag, deletes, 0))
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
			// One of the two alone would be shown by error now and then.
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

// settle takes what was taken away from the hits of a digest, and closes the check
// unless bands may say more.
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
	// A digest that was deleted is gone, whatever its bands say. One whose
	// counters do not make it sure is left to its bands.
	c.state = checkOpen
	if len(left) > 0 || c.deleted || !c.job.req.Shingled {
		c.state = checkClosed
	}
}

// confirm takes the second and third counter of a digest, and reports whether
// all of them together could be shown by error with a probability of at most
// maxChance. The third is there only if the digest was written without shingles.
func (h *hit) confirm(second, third *bulkhead.Look) bool {
	for _, f := range [...]*bulkhead.Look{second, third} {
		if f.Sightings > 0 {
			h.chance *= f.Error
			h.value = min(h.value, f.Sightings)
		}
	}
	return second.Sightings > 0 && h.chance <= maxChance
}

// askVotes asks what other front doors say of the digest.
func askVotes(s *Server, q *questions, c *pendingCheck, _ []uint8) {
	if len(s.SpamFlags) > 0 {
		q.judged = append(q.judged, plainSignature(&c.job.req.Digest))
	}
}

// takeVotes: what another front door listed is found under the list for spam.
func takeVotes(s *Server, c *pendingCheck, _, judges []bulkhead.Look, _ []uint8) {
	l := &judges[0]
	switch c.voted = true; l.Judged {
	case bulkhead.JudgedSpam:
		c.hits = append(c.hits, hit{flag: s.SpamFlags[0], value: listingValue(float64(l.Confidence), 1), first: seconds(l)})
		c.state = checkClosed
	case bulkhead.Revoked:
		// A revocation of the very message outweighs its bands.
		c.voted = false
	}
	if !c.job.req.Shingled {
		c.state = checkClosed
	}
}

// half is how many bands are asked for first: those of even number. Of texts
// that have enough bands in common with a stored one, 97 in 100 have one of these
// too at 20 equal shingles and 99 at 24, and nearly all unrelated texts have none,
// so that their other bands need no look-up.
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
		if c.voted = slices.ContainsFunc(judges[:half], func(l bulkhead.Look) bool { return l.Judged == bulkhead.JudgedSpam }); c.voted {
			c.evenVoted = append(c.evenVoted, judges[:half]...)
		}
	}
	if len(c.near) == 0 && !c.voted {
		c.state = checkClosed
	}
}

// askBands asks for the other half where the first has something.
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
		if h, ok := votedHit(s.SpamFlags[0], all[:]); ok && !slices.ContainsFunc(c.hits, func(o hit) bool { return o.flag == h.flag }) {
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
	if best.agree != 0 {
		j.reply.Digest = nearDigest(&j.req, best)
	}
	j.reply.FlagValue = best.flagValue()
	for _, h := range hits[1:min(len(hits), 1+maxExtraFlags)] {
		j.reply.Extra = append(j.reply.Extra, h.flagValue())
	}
}

func (h *hit) flagValue() FlagValue { return FlagValue{Value: int32(h.value), Flag: uint32(h.flag)} }
