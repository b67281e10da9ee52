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
	marks []int // that are raised already
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

// mark raises a counter that says that a list is in use, or that something was
// taken away. It does so in every batch: then it lives as long as the rest.
func (b *updates) mark(j *job, mark int) {
	if slices.Contains(b.marks, mark) {
		return
	}
	b.marks = append(b.marks, mark)
	if mark == markTaken {
		b.raise(j, 1, takenSignature())
	} else {
		b.raise(j, 1, listSignature(uint8(mark)))
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
	b.mark(j, int(r.Flag))
	if r.Value < 0 {
		return s.planTake(ctx, b, j, uint32(min(-int64(r.Value), bulkhead.Many)))
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
		switch {
		case c.epochs > 0:
			b.raise(j, n, counterSignature(r, r.Flag, sinceKind(epochOf(c.epochs), added), i))
		case c.minus > c.plus:
			// What something was taken from has aged out, and the taking has not: make
			// up for it.
			m = min(m+c.minus-c.plus, bulkhead.Many)
		}
		b.raise(j, m, counterSignature(r, r.Flag, added, i))
	}
	return nil
}

// markTaken notes that something is about to be taken away.
func (s *Server) markTaken(b *updates, j *job) {
	s.lists.taken.Store(true)
	b.mark(j, markTaken)
}

// planTake takes n away on one list.
func (s *Server) planTake(ctx context.Context, b *updates, j *job, n uint32) error {
	r := &j.req
	counters, err := s.counters(ctx, j, r.Flag)
	if err != nil {
		return err
	}
	s.markTaken(b, j)
	for i := range counters {
		b.raise(j, n, counterSignature(r, r.Flag, taken, i))
		if e := counters[i].epochs; e > 0 {
			b.raise(j, n, counterSignature(r, r.Flag, sinceKind(epochOf(e), taken), i))
		}
	}
	return nil
}

// planDelete takes away all that was ever added to the digest, on all lists,
// and to the bands if shingles came along.
func (s *Server) planDelete(ctx context.Context, b *updates, j *job) error {
	for _, flag := range s.lists.inUse() {
		counters, err := s.counters(ctx, j, flag)
		if err != nil {
			return err
		}
		fresh, err := s.freshEpochs(ctx, j, flag, counters)
		if err != nil {
			return err
		}
		for i := range counters {
			c := &counters[i]
			if c.value() == 0 {
				continue
			}
			s.markTaken(b, j)
			if c.plus > c.minus {
				b.raise(j, c.plus-c.minus, counterSignature(&j.req, flag, taken, i))
			}
			switch {
			case fresh[i] < maxEpochs:
				b.raise(j, 1<<fresh[i], counterSignature(&j.req, flag, epochs, i))
			case c.plusSince > c.minusSince:
				b.raise(j, c.plusSince-c.minusSince, counterSignature(&j.req, flag, sinceKind(epochOf(c.epochs), taken), i))
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

// A counter is a digest or band on one list, with its counts.
type counter struct {
	plus, minus           uint32
	epochs                uint32
	plusSince, minusSince uint32 // since the last of them
}

// value is what is left of what was added.
func (c *counter) value() uint32 {
	return max(total(c.plus, c.minus), total(c.plusSince, c.minusSince))
}

// counters returns the counters of the digest of j, and of its bands.
func (s *Server) counters(ctx context.Context, j *job, flag uint8) ([]counter, error) {
	n := numCounters(&j.req)
	q := questions{counted: true}
	for _, kind := range []byte{added, taken, epochs} {
		q.sigs = append(q.sigs, j.signatures(flag, kind)...)
	}
	if err := q.ask(ctx, s.house); err != nil {
		return nil, err
	}
	counters := make([]counter, n)
	q.reset()
	for i := range counters {
		c := &counters[i]
		c.plus, c.minus, c.epochs = q.looks[i].Sightings, q.looks[n+i].Sightings, q.looks[2*n+i].Sightings
		if c.epochs > 0 {
			q.sigs = appendSince(q.sigs, &j.req, flag, c.epochs, i)
		}
	}
	if err := q.ask(ctx, s.house); err != nil {
		return nil, err
	}
	looks := q.looks
	for i := range counters {
		if c := &counters[i]; c.epochs > 0 {
			c.plusSince, c.minusSince = looks[0].Sightings, looks[1].Sightings
			looks = looks[2:]
		}
	}
	return counters, nil
}
