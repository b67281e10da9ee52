package stream

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/trust"
)

// A node is the judge that is shipped: the engine of one node, or of one for each site.
type node struct {
	*plan
	opts    *Options
	now     atomic.Pointer[time.Time] // engines read it when they like
	engines []*engine.Engine
	slices  [2]int64 // of time, of both books, that the engines have seen
}

func newNode(ctx context.Context, p *plan, opts *Options) (*node, error) {
	s := &node{plan: p, opts: opts}
	s.now.Store(&begin)
	servers := 1
	if opts.Lone {
		servers = opts.Sites
	}
	for server := range servers {
		e, err := engine.Open(ctx, s.shape(server))
		if err != nil {
			return nil, errors.Join(err, s.close(ctx))
		}
		s.engines = append(s.engines, e)
		for site := range opts.Sites {
			if err := e.PutAccount(ctx, siteAccount(site)); err != nil {
				return nil, errors.Join(err, s.close(ctx))
			}
		}
	}
	return s, nil
}

func siteAccount(site int) trust.Account {
	return trust.Account{Name: siteName(site), Role: trust.Trusted, Weight: 1}
}

// shape is an engine with room for twice what comes to it on its busiest day, so
// that no generation turns early.
func (s *node) shape(server int) engine.Options {
	tally, block := engine.DefaultTally(), engine.DefaultBlocklist()
	days := map[int64]int{}
	busiest := 0
	for i := range s.deliveries {
		d := &s.deliveries[i]
		if s.opts.Lone && d.site != server {
			continue
		}
		day := d.at.UnixNano() / int64(tally.Generation)
		days[day] += len(d.letter.sigs)
		busiest = max(busiest, days[day])
	}
	tally.Capacity = max(s.capacity, uint64(max(1000, 2*busiest)))
	block.Capacity = tally.Capacity
	return engine.Options{
		Secret: filter.Secret(networkKey), Tally: tally, Block: block, Exact: s.opts.Exact,
		Now: func() time.Time { return *s.now.Load() },
	}
}

// server returns the engine of a site.
func (s *node) server(site int) *engine.Engine {
	if s.opts.Lone {
		return s.engines[site]
	}
	return s.engines[0]
}

// deliver checks a copy and counts it.
func (s *node) deliver(ctx context.Context, d *delivery) (answer, error) {
	a, err := s.check(ctx, d)
	if err != nil {
		return answer{}, err
	}
	return a, s.count(ctx, d)
}

func (s *node) check(ctx context.Context, d *delivery) (answer, error) {
	v, err := s.server(d.site).Check(ctx, bulkhead.Query{
		Signatures: d.letter.sigs, Source: d.letter.source, Reporter: bulkhead.Reporter{Account: d.account()}, Terse: true,
	})
	return answer{v.Class, v.Confidence}, err
}

// count reports that a copy was delivered.
func (s *node) count(ctx context.Context, d *delivery) error {
	_, err := s.server(d.site).Report(ctx, bulkhead.Report{
		Signatures: d.letter.sigs, Vote: bulkhead.Sighting, Reporter: bulkhead.Reporter{Account: d.account()},
		Source: d.letter.source, Recipients: []string{d.address()},
	})
	return err
}

// vote reports on behalf of the site.
func (s *node) vote(ctx context.Context, d *delivery, vote bulkhead.Vote) error {
	_, err := s.server(d.site).Report(ctx, bulkhead.Report{
		Signatures: d.letter.sigs, Vote: vote, Source: d.letter.source, Reporter: bulkhead.Reporter{Account: d.account(),
			User: d.name()},
	})
	return err
}

// turn sets the clock, and makes all engines open and drop their generations at the
// same message, whatever the speed of the machine: the writer does it before it
// takes a request, so a request without effect is enough.
func (s *node) turn(ctx context.Context, now time.Time) error {
	s.now.Store(&now)
	slices := [2]int64{
		now.UnixNano() / int64(engine.DefaultTally().Generation),
		now.UnixNano() / int64(engine.DefaultBlocklist().Generation),
	}
	if slices == s.slices {
		return nil
	}
	s.slices = slices
	for _, e := range s.engines {
		if err := e.PutAccount(ctx, siteAccount(0)); err != nil {
			return err
		}
	}
	return nil
}

func (s *node) close(ctx context.Context) (err error) {
	for _, e := range s.engines {
		err = errors.Join(err, e.Close(context.WithoutCancel(ctx)))
	}
	return err
}
