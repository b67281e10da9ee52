package fuzzy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/signature"
)

// Limits of what is put into one report.
const (
	maxUpdates    = 128 // that are done together
	maxSignatures = 960
)

// updateAll does the writes and deletes of jobs and sets their replies. What
// is alike in many becomes one report to the clearinghouse.
func (s *Server) updateAll(ctx context.Context, jobs []*job) {
	var b updates
	for _, j := range jobs {
		if j.err = s.plan(ctx, &b, j); j.err != nil {
			continue
		}
		if j.req.Command == Write {
			s.planVote(&b, j)
		}
	}
	b.commit(ctx, s.House)
	for _, j := range jobs {
		if j.err == nil && j.req.Command == Delete {
			j.err = s.revoke(ctx, j)
		}
		s.conclude(j)
	}
}

func (s *Server) conclude(j *job) {
	if j.err != nil {
		for _, mark := range j.marks {
			s.lists.undue(mark)
		}
		s.recent.forget(j.recent)
		j.refuse(s.status(j.err))
		return
	}
	s.recent.finish(j.recent)
	if j.req.Command == Write {
		s.Stats.Writes.Add(1)
	} else {
		s.Stats.Deletes.Add(1)
	}
	j.accept()
}

// updates are the reports that a number of jobs come to.
type updates struct {
	raises map[uint32]*group // by the count to add
	votes  map[voteKey]*group
}

type voteKey struct {
	vote bulkhead.Vote
	who  bulkhead.Reporter
}

// A group is signatures that are reported alike, and whose they are.
type group struct {
	sigs []bulkhead.Signature
	jobs []*job
	who  bulkhead.Reporter
}

func (g *group) add(j *job, sigs ...bulkhead.Signature) {
	g.sigs = append(g.sigs, sigs...)
	if len(g.jobs) == 0 || g.jobs[len(g.jobs)-1] != j {
		g.jobs = append(g.jobs, j)
	}
}

func (b *updates) raise(j *job, n uint32, sigs ...bulkhead.Signature) {
	g := b.raises[n]
	if g == nil {
		if b.raises == nil {
			b.raises = make(map[uint32]*group)
		}
		// Counting takes no account's word, so that all may be counted as one's.
		g = &group{who: bulkhead.Reporter{Addr: j.client.Addr()}}
		b.raises[n] = g
	}
	g.add(j, sigs...)
}

func (b *updates) vote(j *job, vote bulkhead.Vote, sig bulkhead.Signature) {
	k := voteKey{vote, j.reporter()}
	g := b.votes[k]
	if g == nil {
		if b.votes == nil {
			b.votes = make(map[voteKey]*group)
		}
		g = &group{who: k.who}
		b.votes[k] = g
	}
	g.add(j, sig)
}

// commit makes all reports, and waits for them together: each of them waits
// for the disk. An error becomes that of the jobs concerned.
func (b *updates) commit(ctx context.Context, house bulkhead.Clearinghouse) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	report := func(g *group, r bulkhead.Report, tolerant bool) {
		for start := 0; start < len(g.sigs); start += maxSignatures {
			part := r
			part.Signatures, part.Reporter = g.sigs[start:min(start+maxSignatures, len(g.sigs))], g.who
			wg.Go(func() {
				_, err := house.Report(ctx, part)
				if tolerant {
					err = tolerate(err)
				}
				if err == nil {
					return
				}
				mu.Lock()
				defer mu.Unlock()
				for _, j := range g.jobs {
					j.err = err
				}
			})
		}
	}
	for n, g := range b.raises {
		report(g, bulkhead.Report{Vote: bulkhead.Sighting, Count: n}, false)
	}
	for k, g := range b.votes {
		report(g, bulkhead.Report{Vote: k.vote}, true)
	}
	wg.Wait()
}

// tolerate drops the refusal of a vote: whoever may write to a list need not
// have a say on the blocklist.
func tolerate(err error) error {
	if errors.Is(err, bulkhead.ErrForbidden) || errors.Is(err, bulkhead.ErrUnauthorised) || errors.Is(err, bulkhead.ErrOverLimit) {
		return nil
	}
	return err
}

// plan adds what the counters of a write or delete come to.
func (s *Server) plan(ctx context.Context, b *updates, j *job) error {
	r := &j.req
	if r.Command == Delete {
		return s.planDelete(ctx, b, j)
	}
	if !s.lists.add(r.Flag) {
		return fmt.Errorf("fuzzy: %w: list %d would be one more than the %d that are served", bulkhead.ErrForbidden, r.Flag, maxLists)
	}
	if r.Value == 0 {
		return nil
	}
	if s.lists.due(int(r.Flag), s.Now()) {
		j.marks = append(j.marks, int(r.Flag))
		b.raise(j, 1, listSignature(r.Flag))
	}
	if r.Value < 0 {
		s.planTaken(b, j)
		b.raise(j, uint32(min(-int64(r.Value), bulkhead.Many)), j.signatures(r.Flag, taken)...)
		return nil
	}
	n := uint32(min(int64(r.Value), bulkhead.Many))
	if !s.lists.taken.Load() {
		b.raise(j, n, j.signatures(r.Flag, added)...)
		return nil
	}
	counters, err := s.counters(ctx, j, r.Flag)
	if err != nil {
		return err
	}
	for i := range counters {
		c, m := &counters[i], n
		if c.minus > c.plus {
			// What was deleted has aged out and its deletion has not: make up for it.
			m = min(m+c.minus-c.plus, bulkhead.Many)
		}
		b.raise(j, m, c.sig[added])
	}
	return nil
}

// planTaken notes that something is about to be taken away.
func (s *Server) planTaken(b *updates, j *job) {
	s.lists.taken.Store(true)
	if s.lists.due(markTaken, s.Now()) {
		j.marks = append(j.marks, markTaken)
		b.raise(j, 1, takenSignature())
	}
}

// planDelete takes away all that was ever added to the digest, on all lists,
// and to the bands if shingles came along.
func (s *Server) planDelete(ctx context.Context, b *updates, j *job) error {
	for _, flag := range s.lists.inUse() {
		counters, err := s.counters(ctx, j, flag)
		if err != nil {
			return err
		}
		for i := range counters {
			if c := &counters[i]; c.plus > c.minus {
				s.planTaken(b, j)
				b.raise(j, c.plus-c.minus, c.sig[taken])
			}
		}
	}
	return nil
}

// planVote tells the other front doors of a write to a list for spam or ham.
func (s *Server) planVote(b *updates, j *job) {
	if j.req.Value == 0 {
		return
	}
	spam, ham := slices.Contains(s.SpamFlags, j.req.Flag), slices.Contains(s.HamFlags, j.req.Flag)
	switch positive := j.req.Value > 0; {
	case spam && positive, ham && !positive:
		b.vote(j, bulkhead.Spam, plainSignature(&j.req.Digest))
	case spam, ham:
		b.vote(j, bulkhead.Ham, plainSignature(&j.req.Digest))
	}
}

func (s *Server) revoke(ctx context.Context, j *job) error {
	_, err := s.House.Revoke(ctx, bulkhead.Report{
		Signatures: []bulkhead.Signature{plainSignature(&j.req.Digest)}, Reporter: j.reporter(),
	})
	return tolerate(err)
}

// signatures returns the counters of the digest of j on a list and, if shingles
// came along, those of its bands.
func (j *job) signatures(flag uint8, kind byte) []bulkhead.Signature {
	d := &j.req.Digest
	sigs := append(make([]bulkhead.Signature, 0, 2+signature.RspamdBands), digestSignature(d, flag, kind, 0), digestSignature(d, flag, kind, 1))
	if j.req.Shingled {
		return appendBands(sigs, &j.req, flag, int(kind))
	}
	return append(sigs, digestSignature(d, flag, kind, 2))
}

// A counter is a digest or band on one list, with its two counts.
type counter struct {
	sig         [2]bulkhead.Signature // added, taken
	plus, minus uint32
}

// counters returns the counters of the digest of j, and of its bands.
func (s *Server) counters(ctx context.Context, j *job, flag uint8) ([]counter, error) {
	plus, minus := j.signatures(flag, added), j.signatures(flag, taken)
	v, err := s.House.Check(ctx, bulkhead.Query{Signatures: append(slices.Clone(plus), minus...), Reporter: j.reporter(), Terse: true})
	if err != nil {
		return nil, err
	}
	counters := make([]counter, len(plus))
	for i := range counters {
		counters[i] = counter{
			sig:  [2]bulkhead.Signature{plus[i], minus[i]},
			plus: v.Findings[i].Sightings, minus: v.Findings[len(plus)+i].Sightings,
		}
	}
	return counters, nil
}
