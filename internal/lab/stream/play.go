package stream

import (
	"container/heap"
	"context"
	"errors"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/trust"
)

// A voice is what a recipient is going to say of a delivery.
type voice struct {
	at   time.Time
	of   int // index of the delivery
	vote bulkhead.Vote
}

// voices is a heap of them in order of time, and of the deliveries.
type voices []voice

func (v voices) Len() int { return len(v) }
func (v voices) Less(i, j int) bool {
	if c := v[i].at.Compare(v[j].at); c != 0 {
		return c < 0
	}
	return v[i].of < v[j].of
}
func (v voices) Swap(i, j int) { v[i], v[j] = v[j], v[i] }
func (v *voices) Push(x any)   { *v = append(*v, x.(voice)) }
func (v *voices) Pop() any {
	last := (*v)[len(*v)-1]
	*v = (*v)[:len(*v)-1]
	return last
}

// A player plays one plan.
type player struct {
	*plan
	opts    *Options
	now     time.Time
	engines []*engine.Engine // one, or one of each site
	slices  [2]int64         // of time, of both books, that the engines have seen
	pending voices
	tally   *tally
}

// play plays a plan and returns what was counted.
func play(ctx context.Context, p *plan, opts *Options) (run *RunResult, err error) {
	s, err := newPlayer(ctx, p, opts)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close(ctx)) }()
	for i := range p.deliveries {
		if err := s.speak(ctx, p.deliveries[i].at); err != nil {
			return nil, err
		}
		if err := s.deliver(ctx, i); err != nil {
			return nil, err
		}
		opts.Progress("delivering", i+1, len(p.deliveries))
	}
	if err := s.speak(ctx, time.Time{}); err != nil {
		return nil, err
	}
	return s.tally.result(p), nil
}

func newPlayer(ctx context.Context, p *plan, opts *Options) (*player, error) {
	s := &player{plan: p, opts: opts, now: begin, tally: newTally(p)}
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
func (s *player) shape(server int) engine.Options {
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
	tally.Capacity = uint64(max(1000, 2*busiest))
	block.Capacity = tally.Capacity
	return engine.Options{
		Secret: filter.Secret(networkKey), Tally: tally, Block: block, Exact: s.opts.Exact,
		Now: func() time.Time { return s.now },
	}
}

// server returns the engine of a site.
func (s *player) server(site int) *engine.Engine {
	if s.opts.Lone {
		return s.engines[site]
	}
	return s.engines[0]
}

// deliver checks a copy, counts it, and lets its recipient make up his mind.
func (s *player) deliver(ctx context.Context, i int) error {
	d := &s.deliveries[i]
	if err := s.turn(ctx, d.at); err != nil {
		return err
	}
	class := bulkhead.ClassUnknown
	if len(d.letter.sigs) > 0 {
		door := bulkhead.Reporter{Account: d.account()}
		v, err := s.server(d.site).Check(ctx, bulkhead.Query{Signatures: d.letter.sigs, Source: d.letter.source, Reporter: door, Terse: true})
		if err != nil {
			return err
		}
		class = v.Class
		seen := bulkhead.Report{
			Signatures: d.letter.sigs, Vote: bulkhead.Sighting, Reporter: door, Source: d.letter.source, Recipients: []string{d.address()},
		}
		if _, err := s.server(d.site).Report(ctx, seen); err != nil {
			return err
		}
	}
	s.tally.delivered(d, class)
	if vote := s.opts.reaction(d, class); vote != bulkhead.Sighting && len(d.letter.sigs) > 0 {
		heap.Push(&s.pending, voice{d.at.Add(d.delay), i, vote})
	}
	return nil
}

// reaction is what the recipient will say of a copy that was given a class;
// [bulkhead.Sighting] stands for nothing.
func (o *Options) reaction(d *delivery, class bulkhead.Class) bulkhead.Vote {
	kind := d.letter.Kind
	rate, vote := o.Mistakes*kinds[kind].mistaken, bulkhead.Spam
	switch flagged := class == bulkhead.ClassSpam; {
	case flagged && kind.Spam():
		return bulkhead.Sighting
	case flagged:
		rate, vote = o.Objecting, bulkhead.Ham
	case kind.Spam():
		rate = o.Reporting
	}
	if d.luck < rate {
		return vote
	}
	return bulkhead.Sighting
}

// speak lets everybody speak whose time comes by the given one; the zero time means
// everybody.
func (s *player) speak(ctx context.Context, end time.Time) error {
	for len(s.pending) > 0 && (end.IsZero() || !s.pending[0].at.After(end)) {
		v := heap.Pop(&s.pending).(voice)
		d := &s.deliveries[v.of]
		if err := s.turn(ctx, v.at); err != nil {
			return err
		}
		report := bulkhead.Report{
			Signatures: d.letter.sigs, Vote: v.vote, Source: d.letter.source, Reporter: bulkhead.Reporter{Account: d.account(), User: d.name()},
		}
		if _, err := s.server(d.site).Report(ctx, report); err != nil {
			return err
		}
		s.tally.spoke(d, v.vote)
	}
	return nil
}

// turn sets the clock, and makes all engines open and drop their generations at the
// same message, whatever the speed of the machine: the writer does it before it
// takes a request, so a request without effect is enough.
func (s *player) turn(ctx context.Context, now time.Time) error {
	s.now = now
	slices := [2]int64{
		now.UnixNano() / int64(engine.DefaultTally().Generation), now.UnixNano() / int64(engine.DefaultBlocklist().Generation),
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

func (s *player) close(ctx context.Context) (err error) {
	for _, e := range s.engines {
		err = errors.Join(err, e.Close(context.WithoutCancel(ctx)))
	}
	return err
}
