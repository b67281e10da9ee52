package aggregate

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/engine"
)

// Options are the settings of an aggregate. All fields are required.
type Options struct {
	Engine *engine.Engine
	// Members returns the present origins in the sum, besides the node. It is called often.
	Members func() []string
	// Open makes a mesh that publishes a sum, as an origin whose store has the name life.
	Open func(ctx context.Context, sum *Sum, life string) (Mesh, error)
	// Audit is the time between two comparisons of the sum with the members' arrays. Rest is the
	// least time that a sum is published before another replaces it, which is sent whole.
	Audit, Rest time.Duration
	Log         *slog.Logger
}

// A Mesh publishes one sum.
type Mesh interface {
	Run(ctx context.Context) error
	Close() error
}

// An Aggregate publishes the sum of the counts of a node and its members. Its methods may be called
// concurrently.
type Aggregate struct {
	opts Options

	mu    sync.Mutex
	sum   *Sum // the published one; nil if there is none
	next  *Sum // the one being made
	fault string
	sums  uint64
}

// New returns an aggregate that publishes once it runs.
func New(o Options) *Aggregate { return &Aggregate{opts: o} }

// Status is the state of an aggregate.
type Status struct {
	Members int                 // besides the node
	Sums    uint64              // sums made since the start
	Arrays  []engine.ArrayState // of the present sum
	Fault   string              // why there is no sum, or what it lacks; "" for no fault
}

// Status returns the state of the aggregate.
func (a *Aggregate) Status() Status {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := Status{Sums: a.sums, Fault: a.fault}
	if a.sum != nil {
		s.Members, s.Arrays = len(a.sum.members), a.sum.Own()
		a.sum.mu.Lock()
		if a.sum.full != "" {
			s.Fault = a.sum.full
		}
		a.sum.mu.Unlock()
	}
	return s
}

// A Tap is the node's engine. It also passes the node's counts and the members' counts to the
// aggregate.
type Tap struct {
	*engine.Engine
	aggregate *Aggregate
}

// Tap returns the engine for the mesh of the members.
func (a *Aggregate) Tap() *Tap { return &Tap{a.opts.Engine, a} }

// ApplyRemote is [engine.Engine.ApplyRemote].
func (t *Tap) ApplyRemote(ctx context.Context, origin string, parts []engine.Parsed) error {
	if err := t.Engine.ApplyRemote(ctx, origin, parts); err != nil {
		return err
	}
	for i := range parts {
		t.aggregate.feed(origin, &parts[i].Part)
	}
	return nil
}

// TakeRounds is [engine.Engine.TakeRounds].
func (t *Tap) TakeRounds(ctx context.Context) ([]engine.Part, []engine.ArrayState, error) {
	parts, states, err := t.Engine.TakeRounds(ctx)
	// Rounds of one array must be fed in order.
	sorted := slices.Clone(parts)
	slices.SortFunc(sorted, func(a, b engine.Part) int { return cmp.Compare(a.From, b.From) })
	for i := range sorted {
		t.aggregate.feed(own, &sorted[i])
	}
	return parts, states, err
}

func (a *Aggregate) feed(origin string, p *engine.Part) {
	a.mu.Lock()
	sums := []*Sum{a.sum, a.next}
	a.mu.Unlock()
	for _, s := range sums {
		if s != nil {
			s.feed(origin, p)
		}
	}
}

// Run publishes until ctx ends.
func (a *Aggregate) Run(ctx context.Context) error {
	end := func() error { return nil }
	tick := time.NewTicker(a.opts.Audit)
	defer tick.Stop()
	var began time.Time
	why := "it begins"
	for {
		if why != "" && (began.IsZero() || time.Since(began) >= a.opts.Rest) {
			began = time.Now()
			next, err := a.make(ctx)
			if err == nil {
				err = end()
				end, err = a.publish(ctx, next, err)
			}
			a.note(err)
			if err == nil {
				a.opts.Log.Info("aggregate published anew", "why", why, "members", len(next.members))
			}
		}
		select {
		case <-ctx.Done():
			return end()
		case <-tick.C:
		}
		why = a.audit()
	}
}

// audit returns why another sum has to be made, or "".
func (a *Aggregate) audit() string {
	a.mu.Lock()
	sum := a.sum
	a.mu.Unlock()
	if sum == nil {
		return "there was none"
	}
	if !slices.Equal(sum.members, slices.Sorted(slices.Values(a.opts.Members()))) {
		return "it has other members"
	}
	return sum.audit()
}

// make makes a sum of the members' counts.
func (a *Aggregate) make(ctx context.Context) (*Sum, error) {
	next := newSum(a.opts.Engine, a.opts.Members())
	a.mu.Lock()
	a.next = next
	a.mu.Unlock()
	err := next.make(ctx)
	if err != nil {
		a.mu.Lock()
		a.next = nil
		a.mu.Unlock()
	}
	return next, err
}

// publish opens and runs a mesh for a new sum, and returns the function that ends it.
func (a *Aggregate) publish(ctx context.Context, next *Sum, err error) (end func() error, _ error) {
	nothing := func() error { return nil }
	var m Mesh
	if err == nil {
		m, err = a.opts.Open(ctx, next, rand.Text())
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sum, a.next = next, nil
	if err != nil {
		a.sum = nil
		return nothing, err
	}
	a.sums++
	running, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		err := m.Run(running)
		if running.Err() == nil {
			a.lost(next, err)
		}
		done <- err
	}()
	return func() error {
		cancel()
		return errors.Join(<-done, m.Close())
	}, nil
}

// lost records that a mesh has ended by itself: the next audit opens another one.
func (a *Aggregate) lost(sum *Sum, err error) {
	a.mu.Lock()
	if a.sum == sum {
		a.sum = nil
	}
	a.mu.Unlock()
	a.opts.Log.Error("aggregate is not published any more", "err", err)
}

func (a *Aggregate) note(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	before := a.fault
	a.fault = ""
	if err != nil {
		a.fault = err.Error()
		if before != a.fault {
			a.opts.Log.Error("aggregate not published", "err", err)
		}
	}
}
