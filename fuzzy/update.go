package fuzzy

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/ledger"
)

// Limits of one report.
const (
	maxUpdates    = 128     // done together
	maxSignatures = 960     // of one vote
	maxCounted    = 1 << 15 // counters raised by one request
)

// updateAll performs the writes and deletes of jobs and sets their replies. Similar
// parts of many become one report to the clearinghouse.
func (s *Server) updateAll(ctx context.Context, jobs []*job) {
	var b updates
	for _, j := range jobs {
		raised := len(b.up.Sigs)
		j.less = false
		j.err = s.plan(ctx, &b, j)
		if len(b.up.Sigs) > raised {
			b.jobs = append(b.jobs, j)
		}
		if j.err != nil {
			continue
		}
		if j.req.Command == Write {
			s.planVote(&b, j)
		}
	}
	b.commit(ctx, s.setup.house)
	for _, j := range jobs {
		if j.err == nil && j.req.Command == Delete {
			j.err = s.revoke(ctx, j)
		}
		s.conclude(j)
	}
}

func (s *Server) conclude(j *job) {
	if j.err != nil {
		s.seen.updates.forget(j.recent)
		s.unlearn(&j.req, j.req.Flag)
		j.refuse(s.status(j.err))
		return
	}
	s.seen.updates.finish(j.recent)
	if j.req.Command == Write {
		s.Stats.Writes.Add(1)
	} else {
		s.Stats.Deletes.Add(1)
	}
	j.accept()
}

// updates are the changes of a number of jobs.
type updates struct {
	jobs  []*job // that raise a counter
	up    ledger.Raising
	votes map[voteKey]*group
	lists []uint8 // already marked as in use
	taken bool    // taking away is already marked
}

type voteKey struct {
	vote bulkhead.Vote
	who  bulkhead.Reporter
}

// A group holds signatures that are reported alike, and their reporter.
type group struct {
	sigs []bulkhead.Signature
	jobs []*job
}

// markList raises the counter of a list in use. It does so in every batch, so that it
// lives as long as the rest.
func (b *updates) markList(flag uint8) {
	if !slices.Contains(b.lists, flag) {
		b.lists = append(b.lists, flag)
		b.up.Raise(listSignature(flag), 1)
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

// commit counts and votes, and waits for all parts together, since each waits for the disk. An
// error becomes the error of the affected jobs.
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
			end := min(start+maxSignatures, len(g.sigs))
			part := bulkhead.Report{Vote: k.vote, Reporter: k.who, Signatures: g.sigs[start:end]}
			do(g.jobs, func() error {
				receipt, err := house.Report(ctx, part)
				if err != nil {
					return bulkhead.Tolerate(err)
				}
				refused, err := bulkhead.Refusals(ctx, house, &part, &receipt)
				mu.Lock()
				defer mu.Unlock()
				for i, j := range g.jobs[start:end] {
					if slices.Contains(refused, g.sigs[start+i]) {
						j.err = errUnlisted
					}
				}
				return err
			})
		}
	}
	for start := 0; start < len(b.up.Sigs); start += maxCounted {
		end := min(start+maxCounted, len(b.up.Sigs))
		do(b.jobs, func() error { return house.Count(ctx, b.up.Sigs[start:end], b.up.N[start:end]) })
	}
	wg.Wait()
}

// plan adds the counters of a write or delete.
func (s *Server) plan(ctx context.Context, b *updates, j *job) error {
	r := &j.req
	if r.Command == Delete {
		return s.planDelete(ctx, b, j)
	}
	if !s.lists.add(r.Flag) {
		return fmt.Errorf("fuzzy: %w: list %d would exceed the limit of %d lists in use", bulkhead.ErrForbidden, r.Flag,
			maxLists)
	}
	if r.Value == 0 {
		return nil
	}
	b.markList(r.Flag)
	if r.Value < 0 {
		return s.planTake(ctx, b, j, uint32(min(-int64(r.Value), bulkhead.Many)))
	}
	accounts, n := j.accounts(r.Flag), uint32(min(int64(r.Value), bulkhead.Many))
	if s.lists.taken.Seen() {
		if err := ledger.Read(ctx, s.setup.house, accounts); err != nil {
			return err
		}
	}
	for i, m := range s.weights(&j.req, n) {
		if m > 0 {
			b.up.Add(accounts[i], m)
		}
	}
	return nil
}

// weights returns how much a write of n raises each account of its message.
func (s *Server) weights(r *Request, n uint32) []uint32 {
	weights := make([]uint32, numAccounts(r))
	for i := range weights {
		weights[i] = n
	}
	if r.Shingled {
		now := s.Now()
		sum := s.seen.texts.digest(counterSignature(r, r.Flag, added, 0), n, now)
		for i := 2; i < len(weights); i++ {
			weights[i] = s.seen.texts.band(counterSignature(r, r.Flag, added, i), n, sum, now)
		}
	}
	return weights
}

// errUnlisted refuses a vote for spam on a digest that may not be listed.
var errUnlisted = fmt.Errorf("fuzzy: %w: no client may list this digest here", bulkhead.ErrForbidden)

// unlearn makes the next write of a message raise all of its accounts in full.
func (s *Server) unlearn(r *Request, flag uint8) {
	sigs := make([]bulkhead.Signature, numAccounts(r))
	for i := range sigs {
		sigs[i] = counterSignature(r, flag, added, i)
	}
	s.seen.texts.forget(sigs)
}

// markTaken notes that something is about to be taken away.
func (s *Server) markTaken(b *updates) {
	s.lists.taken.Set()
	if !b.taken {
		b.taken = true
		s.lists.taken.Raise(&b.up)
	}
}

// planTake plans to take n away on one list.
func (s *Server) planTake(ctx context.Context, b *updates, j *job, n uint32) error {
	s.unlearn(&j.req, j.req.Flag)
	accounts := j.accounts(j.req.Flag)
	if err := ledger.Read(ctx, s.setup.house, accounts); err != nil {
		return err
	}
	s.markTaken(b)
	// One of the two alone may be a filter error.
	j.less = max(accounts[0].Left(), accounts[1].Left()) > n
	for _, a := range accounts {
		b.up.Take(a, n)
	}
	return nil
}

// planDelete plans to take away everything that was added to the digest, on all lists,
// and to the bands if shingles came along.
func (s *Server) planDelete(ctx context.Context, b *updates, j *job) error {
	for _, flag := range s.lists.inUse() {
		s.unlearn(&j.req, flag)
		accounts := j.accounts(flag)
		if err := ledger.Read(ctx, s.setup.house, accounts); err != nil {
			return err
		}
		accounts = slices.DeleteFunc(accounts, func(a *ledger.Account) bool { return a.Left() == 0 })
		if len(accounts) == 0 {
			continue
		}
		fresh, err := ledger.Fresh(ctx, s.setup.house, accounts)
		if err != nil {
			return err
		}
		s.markTaken(b)
		for i, a := range accounts {
			b.up.Delete(fresh[i], a)
		}
	}
	return nil
}

// planVote plans the vote of a write to a spam or ham list. A write that takes away only a part of
// a weight is not a vote.
func (s *Server) planVote(b *updates, j *job) {
	if j.req.Value == 0 || j.less {
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
	_, err := s.setup.house.Report(ctx, bulkhead.Report{
		Signatures: []bulkhead.Signature{plainSignature(&j.req.Digest)}, Vote: bulkhead.Revocation, Reporter: j.reporter(),
	})
	return bulkhead.Tolerate(err)
}

// accounts returns the accounts of the digest of j on a list and, if shingles came
// along, of its bands; not read yet.
func (j *job) accounts(flag uint8) []*ledger.Account {
	accounts := make([]*ledger.Account, numAccounts(&j.req))
	for i := range accounts {
		accounts[i] = &ledger.Account{Name: func(p ledger.Part) bulkhead.Signature {
			return counterSignature(&j.req, flag, p, i)
		}}
	}
	return accounts
}
