package replica

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/engine/book"
	"github.com/bulkhead-mail/bulkhead/internal/store"
)

// Options are the settings of a set of replicas.
type Options struct {
	Known        func(keyID uint64) bool // whether a secret is the network's, or was when a live generation was made
	Tally, Block book.Options            // how long generations are kept, and the error rate of lists
	Bytes        uint64                  // bound of the memory; 0: none
	Store        *store.Store            // store of cold arrays; nil: no array leaves the memory
	Still        bool                    // nothing expires
	Now          func() time.Time
	// Keeps reports whether parts of a generation of a book are taken; nil: if the book keeps the
	// generation at Now.
	Keeps      func(o book.Options, start uint64) bool
	Promotion  func() float64 // weight from which an origin alone lists
	Checkpoint func()         // requests a checkpoint soon, because cold arrays have many later rounds
}

// A Set is the replicas of all origins that count. The methods that change it may be called only by
// the writer, or between two of its batches. Any goroutine may call the other methods.
type Set struct {
	opts    Options
	view    atomic.Pointer[View]
	last    atomic.Pointer[Snapshot] // whose files may be in force; nil once Written knows
	wake    chan struct{}
	crowded chan struct{}
	wanted  atomic.Uint64 // bytes of an array for which there is no room
	limits  sync.Map      // results of keysAt; peers have few geometries
}

// NewSet returns a set without origins.
func NewSet(o Options) *Set {
	if o.Keeps == nil {
		o.Keeps = func(b book.Options, start uint64) bool { return b.Keeps(o.Now(), start) }
	}
	s := &Set{opts: o, wake: make(chan struct{}, 1), crowded: make(chan struct{}, 1)}
	s.view.Store(&View{})
	return s
}

// A View is the replicas in the form that look-ups read. It never changes: every change makes a new
// one.
type View struct {
	Origins []*Held   // that count
	Merged  []*Merged // the content of the cold arrays
	Indexes []*Index

	// The part of Merged that look-ups read; see refresh.
	Counts []MergedCounts
	Lists  []*MergedList
}

func (v *View) clone() *View {
	c := *v
	c.Origins, c.Merged = slices.Clone(v.Origins), slices.Clone(v.Merged)
	return &c
}

// View returns the present content of the replicas.
func (s *Set) View() *View { return s.view.Load() }

// Keys returns the approximate number of keys of all replicas. When it changes, the odds of errors
// change.
func (v *View) Keys() (sum uint64) {
	for _, r := range v.Origins {
		for _, x := range r.arrays {
			sum += x.replicated().Keys()
		}
	}
	return sum
}

// Each calls f for every array of an origin that is in memory.
func (v *View) Each(f func(array any)) {
	for _, r := range v.Origins {
		for _, x := range r.arrays {
			if x.memory != nil {
				f(x.memory)
			}
		}
	}
}

// EachGeometry calls f for the geometry of every array of an origin.
func (v *View) EachGeometry(f func(filter.Geometry)) {
	for _, r := range v.Origins {
		for _, x := range r.arrays {
			f(x.replicated().Geometry())
		}
	}
}

// Wanted returns a channel that receives a value when Merge has work.
func (s *Set) Wanted() <-chan struct{} { return s.wake }

// Wake requests a call of Merge.
func (s *Set) Wake() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Book returns the shape of the book that an array belongs to.
func (s *Set) Book(a Array) book.Options {
	if a == ArrayCounts {
		return s.opts.Tally
	}
	return s.opts.Block
}

// CheckOrigins returns an error that wraps [bulkhead.ErrMalformed] unless SetOrigins may be
// called with these origins.
func CheckOrigins(origins []Origin) error {
	seen := make(map[string]bool)
	for _, o := range origins {
		if !ValidOrigin(o.ID) || seen[o.ID] || !(o.Weight >= 0 && o.Weight <= 1) {
			return fmt.Errorf("%w: origin %.128q with weight %v: want distinct ids of up to 64 letters and digits, "+
				"and weights in 0..1", bulkhead.ErrMalformed, o.ID, o.Weight)
		}
		seen[o.ID] = true
	}
	return nil
}

// SetOrigins sets the origins that count. It drops the replicas of all other origins.
func (s *Set) SetOrigins(origins []Origin) {
	old := s.View()
	next := old.clone()
	next.Origins = nil
	for _, o := range origins {
		r := &Held{}
		if kept := old.origin(o.ID); kept != nil {
			r = kept.clone()
		}
		r.Origin = o
		next.Origins = append(next.Origins, r)
	}
	for _, r := range old.Origins {
		if owner := next.origin(r.of); r.of != "" && owner != nil {
			r = r.clone()
			r.Weight = owner.Weight
			next.Origins = append(next.Origins, r)
		}
	}
	s.view.Store(next)
	s.settle()
}

// CheckOrigin returns an error that wraps [bulkhead.ErrForbidden] unless the origin
// counts.
func (s *Set) CheckOrigin(origin string) error {
	if s.View().origin(origin) == nil {
		return fmt.Errorf("%w: origin %.128q does not count here", bulkhead.ErrForbidden, origin)
	}
	return nil
}

// CheckRenewal returns an error unless the origin counts and has not yet been in this
// incarnation or a later one.
func (s *Set) CheckRenewal(origin string, incarnation uint64) error {
	if err := s.CheckOrigin(origin); err != nil {
		return err
	}
	if r := s.View().origin(origin); incarnation <= r.incarnation {
		return fmt.Errorf("%w: incarnation %d of an origin that is at %d", bulkhead.ErrMalformed, incarnation, r.incarnation)
	}
	return nil
}

// CheckName returns an error unless an origin may be renamed to the name to.
func (s *Set) CheckName(origin, to string) error {
	if err := s.CheckOrigin(origin); err != nil {
		return err
	}
	if s.View().origin(to) != nil {
		return fmt.Errorf("%w: origin %.128q already exists", bulkhead.ErrMalformed, to)
	}
	return nil
}

// Rename gives an origin another name.
func (s *Set) Rename(origin, to string) {
	for _, m := range s.View().Merged {
		m.rename(origin, to)
	}
	s.changeReplica(origin, func(r *Held) {
		r.ID = to
		for _, x := range r.arrays {
			if x.cold != nil {
				x.cold.origin = to
			}
		}
	})
	next := s.View().clone()
	for i, r := range next.Origins {
		if r.of == origin {
			r = r.clone()
			r.of = to
			next.Origins[i] = r
		}
	}
	s.view.Store(next)
	s.settle()
}

// Forget drops the generations of an origin from the given start on, including the generations of
// its former incarnations.
func (s *Set) Forget(origin string, since uint64) {
	next := s.View().clone()
	for i, r := range next.Origins {
		if r.ID == origin || r.of == origin {
			r = r.clone()
			r.keep(func(key Key) bool { return key.Start < since })
			next.Origins[i] = r
		}
	}
	next.dropEmpty()
	s.view.Store(next)
	s.settle()
}

// Incarnation returns the incarnation of an origin's replica; 0 if none is known.
func (s *Set) Incarnation(origin string) uint64 {
	if r := s.View().origin(origin); r != nil {
		return r.incarnation
	}
	return 0
}
