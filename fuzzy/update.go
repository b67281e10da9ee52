package fuzzy

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/ledger"
)

// maxUpdates is the largest number of updates that are done together.
const maxUpdates = 128

// updateAll performs the writes and deletes of jobs and sets their replies. Jobs of one reporter that vote alike
// become one step of the clearinghouse, which counts and votes.
func (s *Server) updateAll(ctx context.Context, jobs []*job) {
	var b updates
	var up raising
	for _, j := range jobs {
		j.less = false
		up.reset()
		if j.err = s.plan(ctx, &up, j); j.err == nil {
			b.add(j, s.vote(j), &up)
		}
	}
	s.commit(ctx, b)
	for _, j := range jobs {
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
type updates []*group

// A group is jobs of one reporter that vote alike, or jobs that do not vote.
type group struct {
	vote bulkhead.Vote     // a sighting is no vote
	who  bulkhead.Reporter // of a vote
	sigs []bulkhead.Signature
	up   raising
	jobs []*job // by signature of a vote
}

// maxCounted is the largest number of counters that one step raises.
const maxCounted = 1 << 15

// add adds a job that raises counters, and votes.
func (b *updates) add(j *job, vote bulkhead.Vote, up *raising) {
	if vote == bulkhead.Sighting && len(up.Sigs) == 0 && len(up.lists) == 0 {
		return
	}
	who := bulkhead.Reporter{}
	if vote != bulkhead.Sighting {
		who = j.reporter()
	}
	i := slices.IndexFunc(*b, func(g *group) bool {
		return g.vote == vote && g.who == who && len(g.up.Sigs)+len(up.Sigs) <= maxCounted
	})
	if i < 0 {
		i, *b = len(*b), append(*b, &group{vote: vote, who: who})
	}
	g := (*b)[i]
	g.jobs = append(g.jobs, j)
	if vote != bulkhead.Sighting {
		g.sigs = append(g.sigs, plainSignature(&j.req.Digest))
	}
	g.up.join(up)
}

// A raising is counters that are raised together.
type raising struct {
	ledger.Raising
	// The counters of lists in use, and of taking away, are raised once in every step, so that they live as long
	// as the rest.
	lists []uint8
	taken bool
}

func (r *raising) reset() {
	r.Raising.Reset()
	r.lists, r.taken = r.lists[:0], false
}

func (r *raising) join(o *raising) {
	r.Sigs, r.N = append(r.Sigs, o.Sigs...), append(r.N, o.N...)
	r.taken = r.taken || o.taken
	for _, flag := range o.lists {
		if !slices.Contains(r.lists, flag) {
			r.lists = append(r.lists, flag)
		}
	}
}

// commit performs the groups together, since each waits for the disk. An error becomes the error of the group's
// jobs.
func (s *Server) commit(ctx context.Context, b updates) {
	var wg sync.WaitGroup
	for _, g := range b {
		wg.Go(func() {
			unlisted, err := s.commitGroup(ctx, g)
			for i, j := range g.jobs {
				if j.err = err; err == nil && len(unlisted) > 0 && slices.Contains(unlisted, g.sigs[i]) {
					j.err = errUnlisted
				}
			}
		})
	}
	wg.Wait()
}

// commitGroup counts and votes, and returns the signatures that may not be listed.
func (s *Server) commitGroup(ctx context.Context, g *group) (unlisted []bulkhead.Signature, err error) {
	for _, flag := range g.up.lists {
		g.up.Raise(listSignature(flag), 1)
	}
	if g.up.taken {
		s.lists.taken.Raise(&g.up.Raising)
	}
	if g.vote == bulkhead.Sighting {
		return nil, s.setup.house.Count(ctx, g.up.Sigs, g.up.N)
	}
	r := bulkhead.Report{Vote: g.vote, Reporter: g.who, Signatures: g.sigs}
	receipt, err := bulkhead.CountAndReport(ctx, s.setup.house, g.up.Sigs, g.up.N, r)
	if err != nil {
		return nil, bulkhead.Tolerate(err)
	}
	return bulkhead.Refusals(ctx, s.setup.house, &r, &receipt)
}

// plan adds the counters of a write or delete.
func (s *Server) plan(ctx context.Context, up *raising, j *job) error {
	r := &j.req
	if r.Command == Delete {
		return s.planDelete(ctx, up, j)
	}
	if !s.lists.add(r.Flag) {
		return fmt.Errorf("fuzzy: %w: list %d would exceed the limit of %d lists in use", bulkhead.ErrForbidden, r.Flag,
			maxLists)
	}
	if r.Value == 0 {
		return nil
	}
	up.lists = append(up.lists, r.Flag)
	if r.Value < 0 {
		return s.planTake(ctx, up, j, uint32(min(-int64(r.Value), bulkhead.Many)))
	}
	accounts, n := j.accounts(r.Flag), uint32(min(int64(r.Value), bulkhead.Many))
	if s.lists.taken.Seen() {
		if err := ledger.Read(ctx, s.setup.house, accounts); err != nil {
			return err
		}
	}
	for i, m := range s.weights(&j.req, n) {
		if m > 0 {
			up.Add(accounts[i], m)
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

// planTake plans to take n away on one list.
func (s *Server) planTake(ctx context.Context, up *raising, j *job, n uint32) error {
	s.unlearn(&j.req, j.req.Flag)
	accounts := j.accounts(j.req.Flag)
	if err := ledger.Read(ctx, s.setup.house, accounts); err != nil {
		return err
	}
	s.lists.taken.Set()
	up.taken = true
	// One of the two alone may be a filter error.
	j.less = max(accounts[0].Left(), accounts[1].Left()) > n
	for _, a := range accounts {
		up.Take(a, n)
	}
	return nil
}

// planDelete plans to take away everything that was added to the digest, on all lists,
// and to the bands if shingles came along.
func (s *Server) planDelete(ctx context.Context, up *raising, j *job) error {
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
		s.lists.taken.Set()
		up.taken = true
		for i, a := range accounts {
			up.Delete(fresh[i], a)
		}
	}
	return nil
}

// vote returns the vote of an update: of a delete, and of a write to a spam or ham list. A write that
// takes away only a part of a weight is not a vote.
func (s *Server) vote(j *job) bulkhead.Vote {
	if j.req.Command == Delete {
		return bulkhead.Revocation
	}
	if j.req.Value == 0 || j.less {
		return bulkhead.Sighting
	}
	spam, ham := slices.Contains(s.SpamFlags, j.req.Flag), slices.Contains(s.HamFlags, j.req.Flag)
	switch positive := j.req.Value > 0; {
	case spam && positive, ham && !positive:
		return bulkhead.Spam
	case spam, ham:
		return bulkhead.Ham
	}
	return bulkhead.Sighting
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
