package engine

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/engine/book"
	"github.com/bulkhead-mail/bulkhead/internal/engine/verdict"
)

// scratch is the buffers of one check, reused so that a check of known size
// allocates nothing but its findings.
type scratch struct {
	base    []filter.Key
	kinds   []filter.Key         // countKinds for each signature
	counts  []uint32             // of one generation
	sums    []uint32             // over all generations
	weights [][weightKinds]int64 // of the latest votes
	peers   []verdict.Peers
	own     []verdict.State

	secret     filter.Secret
	weightKeys [weightKinds]filter.Key
	columns    []column
	spam       []bool // of one generation
	revoked    []bool // of one generation
	one        []bool // of one array of several
	state      []verdict.State
}

// Check implements [bulkhead.Clearinghouse]. It takes no lock.
func (e *Engine) Check(_ context.Context, q bulkhead.Query) (bulkhead.Verdict, error) {
	var v bulkhead.Verdict
	if err := e.check(&q, &v); err != nil {
		return bulkhead.Verdict{}, err
	}
	e.counters.checks.Add(1)
	return v, nil
}

// CheckBatch checks queries[i] into verdicts[i], reusing the Findings that the
// verdicts hold. The slices must be of equal length. On an error, which is the
// first query's that is malformed, all verdicts are zero.
func (e *Engine) CheckBatch(_ context.Context, queries []bulkhead.Query, verdicts []bulkhead.Verdict) error {
	for i := range queries {
		if err := e.check(&queries[i], &verdicts[i]); err != nil {
			clear(verdicts)
			return err
		}
	}
	e.counters.checks.Add(uint64(len(queries)))
	return nil
}

func (e *Engine) check(q *bulkhead.Query, v *bulkhead.Verdict) error {
	if err := checkSignatures(q.Signatures); err != nil {
		return err
	}
	view := e.view()
	s := e.scratch.Get().(*scratch)
	defer e.scratch.Put(s)
	s.prepare(e.opts.Secret, q.Signatures)

	findings := slices.Grow(v.Findings[:0], len(q.Signatures))[:len(q.Signatures)]
	clear(findings)
	*v = bulkhead.Verdict{Findings: findings, Threshold: q.Threshold}
	if v.Threshold == 0 {
		v.Threshold = e.threshold.Load()
	}
	for i := range findings {
		findings[i].Signature = q.Signatures[i]
	}
	policy := verdict.Policy{Promotion: e.book.Policy().Promotion, NearMatch: e.opts.NearMatch}
	s.tally(view, findings)
	s.judge(view, findings, e.opts.RevocationFirst, policy.Promotion)
	s.weigh(view, findings)
	odds, white := e.odds.Load(), e.whitelist.Load()
	for i := range findings {
		f := &findings[i]
		if e.hides(white, &f.Signature) {
			*f = bulkhead.Finding{Signature: f.Signature}
			continue
		}
		f.Bulk = f.Sightings >= v.Threshold
		policy.Finding(f, verdict.Evidence{Votes: balanceOf(&s.weights[i]), Peers: s.peers[i]}, odds.Odds)
	}
	v.Whitelisted = e.Whitelisted(&q.Source, q.Signatures)
	policy.Message(v, q.Terse)
	return nil
}

func (s *scratch) prepare(secret filter.Secret, sigs []bulkhead.Signature) {
	n := len(sigs)
	s.secret = secret
	s.base = slices.Grow(s.base[:0], n)[:n]
	s.kinds = slices.Grow(s.kinds[:0], n*countKinds)[:0]
	s.counts = slices.Grow(s.counts[:0], n*countKinds)[:n*countKinds]
	s.sums = slices.Grow(s.sums[:0], n*countKinds)[:n*countKinds]
	s.spam = slices.Grow(s.spam[:0], n)[:n]
	s.revoked = slices.Grow(s.revoked[:0], n)[:n]
	s.state = slices.Grow(s.state[:0], n)[:n]
	s.weights = slices.Grow(s.weights[:0], n)[:n]
	clear(s.sums)
	clear(s.weights)
	s.peers = slices.Grow(s.peers[:0], n)[:n]
	clear(s.peers)
	clear(s.state)
	for i := range sigs {
		s.base[i] = baseKey(secret, &sigs[i])
		for kind := range uint8(countKinds) {
			s.kinds = append(s.kinds, s.base[i].With(kind))
		}
	}
}

// tally adds up the counts over the generations that live: the node's own, and
// those of each origin, multiplied by its weight. Adding the minima of several
// arrays is tighter than the minimum of their sum.
func (s *scratch) tally(view view, findings []bulkhead.Finding) {
	for _, g := range view.tally.Live {
		if g.Counts.Keys() > 0 {
			g.Counts.CountBatch(s.kinds, s.counts)
			s.addUp(g.Start, 1, findings)
		}
	}
	for _, r := range view.remote.Origins {
		if r.Weight == 0 {
			continue
		}
		for _, g := range r.Tally {
			if g.Counts.Keys() > 0 {
				g.Counts.CountBatch(s.kinds, s.counts)
				s.addUp(g.Start, r.Weight, findings)
			}
		}
	}
	for _, m := range view.remote.Counts {
		m.Counts.CountBatch(s.kinds, s.counts)
		s.addUp(m.Start, m.Weight, findings)
	}
	for i := range findings {
		sums := s.sums[i*countKinds:]
		findings[i].Sightings, findings[i].Spam, findings[i].Ham = sums[kindSighting], sums[kindSpam], sums[kindHam]
	}
}

// addUp adds the counts of one array, which weigh as much as given.
func (s *scratch) addUp(start uint64, weight float64, findings []bulkhead.Finding) {
	for i := range findings {
		counts := s.counts[i*countKinds : (i+1)*countKinds]
		sums := s.sums[i*countKinds : (i+1)*countKinds]
		for k, n := range counts {
			sums[k] = book.Add(sums[k], weighedCount(n, weight))
		}
		if counts[kindSighting]|counts[kindSpam]|counts[kindHam] != 0 {
			seen(&findings[i], start)
		}
	}
}

// weighedCount is what a count of an origin of the given weight adds.
func weighedCount(n uint32, weight float64) uint32 {
	if weight < 1 {
		return uint32(math.Ceil(weight * float64(n)))
	}
	return n
}

func seen(f *bulkhead.Finding, start uint64) {
	t := time.Unix(int64(start), 0).UTC()
	if f.First.IsZero() || t.Before(f.First) {
		f.First = t
	}
	if t.After(f.Last) {
		f.Last = t
	}
}

// judge looks the signatures up in the blocklists: in a spam filter and in no
// revocation filter as new or newer means spam (Yan and Cho, section 3). The
// order of the two look-ups changes the cost and never the answer.
//
// The node's own blocklist decides where it says anything. Otherwise the origins
// that list a signature must weigh as much as a report needs to be promoted,
// after those that have revoked it are taken off.
func (s *scratch) judge(view view, findings []bulkhead.Finding, revocationFirst bool, promotion float64) {
	if !revocationFirst && !s.anySpam(view) {
		return
	}
	end := uint64(math.MaxInt64)
	for _, g := range view.block.Live {
		s.walk(span{g.Start, end}, g.Spam, g.Revoked, findings)
		end = g.Start
	}
	own := append(s.own[:0], s.state...)
	s.own = own
	for _, r := range view.remote.Origins {
		if r.Weight == 0 {
			continue
		}
		clear(s.state)
		end := uint64(math.MaxInt64)
		for _, g := range r.Block {
			s.walk(span{g.Start, end}, orEmpty(g.Spam), orEmpty(g.Revoked), findings)
			end = g.Start
		}
		for i, state := range s.state {
			s.peers[i].Add(state, r.Weight, false)
		}
	}
	for _, l := range view.remote.Lists {
		clear(s.state)
		end := uint64(math.MaxInt64)
		for _, g := range l.Block {
			s.union(g.Revoked, s.revoked)
			s.union(g.Spam, s.spam)
			for i := range s.base {
				if s.spam[i] && s.revoked[i] && relisted(s.secret, s.base[i], anyHas(g.Spam), anyHas(g.Revoked)) {
					s.revoked[i] = false
				}
			}
			s.walked(span{g.Start, end}, findings)
			end = g.Start
		}
		for i, state := range s.state {
			s.peers[i].Add(state, l.Weight, true)
		}
	}
	for i := range findings {
		findings[i].Judged = verdict.Judge(own[i], s.peers[i], promotion)
	}
}

// span is the time of a generation: its start, and that of the next one.
type span struct{ start, end uint64 }

// walk takes one generation of a blocklist, older than those before.
func (s *scratch) walk(when span, spam, revoked book.Bitset, findings []bulkhead.Finding) {
	clear(s.revoked)
	clear(s.spam)
	if revoked != nil {
		revoked.HasBatch(s.base, s.revoked)
	}
	if spam != nil {
		spam.HasBatch(s.base, s.spam)
	}
	for i := range s.base {
		if s.spam[i] && s.revoked[i] && s.relisted(i, spam, revoked) {
			s.revoked[i] = false
		}
	}
	s.walked(when, findings)
}

// relisted is [relisted] of s.base[i]. Most mail never gets here.
func (s *scratch) relisted(i int, spam, revoked book.Bitset) bool {
	var found [1]bool
	has := func(set book.Bitset) func(filter.Key) bool {
		return func(k filter.Key) bool {
			set.HasBatch([]filter.Key{k}, found[:])
			return found[0]
		}
	}
	return relisted(s.secret, s.base[i], has(spam), has(revoked))
}

// union sets found[i] to whether any of the arrays has s.base[i].
func (s *scratch) union(arrays []*filter.Bits, found []bool) {
	clear(found)
	s.one = slices.Grow(s.one[:0], len(found))[:len(found)]
	for _, b := range arrays {
		b.HasBatch(s.base, s.one)
		for i, has := range s.one {
			found[i] = found[i] || has
		}
	}
}

// walked takes what was found in a generation.
func (s *scratch) walked(when span, findings []bulkhead.Finding) {
	for i, state := range s.state {
		if state.Decided() {
			continue // decided by a newer generation
		}
		s.state[i] = state.Next(s.spam[i], s.revoked[i])
		// The tally's generations are shorter: what one of this span's has seen
		// is dated better already.
		if f := &findings[i]; s.spam[i] && (f.First.IsZero() || f.First.Unix() >= int64(when.end)) {
			seen(f, when.start)
		}
	}
}

// orEmpty returns b as a bit set, nil if the origin has not sent the array.
func orEmpty(b *filter.Bits) book.Bitset {
	if b == nil {
		return nil
	}
	return b
}

// anySpam reports whether a spam filter has any of the signatures: most mail
// has none, and then the revocation filters need no look.
func (s *scratch) anySpam(view view) bool {
	for _, g := range view.block.Live {
		if g.Spam.Keys() == 0 {
			continue
		}
		g.Spam.HasBatch(s.base, s.spam)
		if slices.Contains(s.spam, true) {
			return true
		}
	}
	for _, r := range view.remote.Origins {
		for _, g := range r.Block {
			if g.Spam == nil || r.Weight == 0 {
				continue
			}
			g.Spam.HasBatch(s.base, s.spam)
			if slices.Contains(s.spam, true) {
				return true
			}
		}
	}
	for _, l := range view.remote.Lists {
		for _, g := range l.Block {
			s.union(g.Spam, s.spam)
			if slices.Contains(s.spam, true) {
				return true
			}
		}
	}
	return false
}

// weigh adds up the weights of the signatures that people voted on. Most mail
// has none, and costs nothing here.
func (s *scratch) weigh(view view, findings []bulkhead.Finding) {
	for i := range findings {
		if f := &findings[i]; f.Spam == 0 && f.Ham == 0 && f.Judged == bulkhead.Unjudged {
			continue
		}
		s.readWeights(view, s.base[i])
		for _, g := range s.columns {
			for kind := range uint8(weightKinds) {
				s.weights[i][kind] += int64(g.net(kind))
			}
		}
	}
}

// readWeights reads the weights of one signature in each generation.
func (s *scratch) readWeights(view view, base filter.Key) {
	s.columns = slices.Grow(s.columns[:0], len(view.tally.Live))[:len(view.tally.Live)]
	clear(s.columns)
	var sums weights
	s.kindsOf(base)
	for i, g := range view.tally.Live {
		g.Weights.CountBatch(s.weightKeys[:], s.columns[i].all[:])
		for kind, n := range s.columns[i].all {
			sums[kind] = book.Add(sums[kind], n)
		}
	}
	if !disputed(&sums) {
		return
	}
	s.kindsOf(backKey(s.secret, base))
	for i, g := range view.tally.Live {
		g.Weights.CountBatch(s.weightKeys[:], s.columns[i].back[:])
	}
}

func (s *scratch) kindsOf(k filter.Key) {
	for kind := range uint8(weightKinds) {
		s.weightKeys[kind] = k.With(kind)
	}
}
