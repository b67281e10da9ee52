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
	maxUpdates    = 128     // that are done together
	maxSignatures = 960     // of one vote
	maxCounted    = 1 << 15 // counters that are raised by one request
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
	b.commit(ctx, s.house)
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

// updates are what a number of jobs come to.
type updates struct {
	jobs  []*job // that raise something
	sigs  []bulkhead.Signature
	n     []uint32 // by how much each of sigs is raised
	votes map[voteKey]*group
}

type voteKey struct {
	vote bulkhead.Vote
	who  bulkhead.Reporter
}

// A group is signatures that are reported alike, and whose they are.
type group struct {
	sigs []bulkhead.Signature
	jobs []*job
}

func (b *updates) raise(j *job, n uint32, sigs ...bulkhead.Signature) {
	if len(b.jobs) == 0 || b.jobs[len(b.jobs)-1] != j {
		b.jobs = append(b.jobs, j)
	}
	b.sigs = append(b.sigs, sigs...)
	for range sigs {
		b.n = append(b.n, n)
	}
}

func (b *updates) vote(j *job, vote bulkhead.Vote, sig bulkhead.Signature) {
	k := voteKey{vote, j.reporter()}
	g := b.votes[k]
	if g == nil {
		if b.votes == nil {
			b.votes = make(map[voteKey]*group)
		}
		g = new(group)
		b.votes[k] = g
	}
	g.sigs, g.jobs = append(g.sigs, sig), append(g.jobs, j)
}

// commit counts and votes, and waits for all of it together: each part waits
// for the disk. An error becomes that of the jobs concerned.
func (b *updates) commit(ctx context.Context, house bulkhead.Counter) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	do := func(jobs []*job, f func() error) {
		wg.Go(func() {
			if err := f(); err != nil {
				mu.Lock()
				defer mu.Unlock()
				for _, j := range jobs {
					j.err = err
				}
			}
		})
	}
	for k, g := range b.votes {
		for start := 0; start < len(g.sigs); start += maxSignatures {
			part := bulkhead.Report{Vote: k.vote, Reporter: k.who, Signatures: g.sigs[start:min(start+maxSignatures, len(g.sigs))]}
			do(g.jobs, func() error {
				_, err := house.Report(ctx, part)
				return tolerate(err)
			})
		}
	}
	for start := 0; start < len(b.sigs); start += maxCounted {
		end := min(start+maxCounted, len(b.sigs))
		do(b.jobs, func() error { return house.Count(ctx, b.sigs[start:end], b.n[start:end]) })
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
	_, err := s.house.Revoke(ctx, bulkhead.Report{
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
	q := questions{sigs: append(slices.Clone(plus), minus...)}
	if err := q.ask(ctx, s.house); err != nil {
		return nil, err
	}
	counters := make([]counter, len(plus))
	for i := range counters {
		counters[i] = counter{
			sig:  [2]bulkhead.Signature{plus[i], minus[i]},
			plus: q.looks[i].Sightings, minus: q.looks[len(plus)+i].Sightings,
		}
	}
	return counters, nil
}
