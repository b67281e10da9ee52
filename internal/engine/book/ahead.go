package book

import "time"

// A ready is a generation made ahead of time, because making large arrays takes longer than a vote
// should wait.
type ready[S spec, G generation] struct {
	capacity keys
	spec     S
	g        G
	err      error
}

// lead is how long before a generation is due it is made.
const lead = 10 * time.Minute

// Ahead returns a function that makes the next generation ahead of time, or nil if none is due soon
// or it is already made. A generation made because the open one seemed to fill early is made again
// if the day ends first. Any goroutine may run the function, once. The generation is used if it
// still has about the right size when it is due.
func (k *Keeper[S, G]) Ahead(b Book[G], now time.Time) func() {
	k.collect()
	if k.making || len(b.Live) == 0 {
		return nil
	}
	last := b.Live[0]
	next := now.Truncate(k.opts.Generation).Add(k.opts.Generation)
	var use keys
	switch {
	case next.Sub(now) <= min(lead, k.opts.Generation/10):
		use = k.expected(b, uint64(next.Unix()))
	case last.Fill() > 1:
		use = filled(last)
	default:
		return nil
	}
	capacity := use.after(k.least)
	if k.ready != nil && k.ready.capacity.suits(capacity) {
		return nil
	}
	k.making, k.ready = true, nil
	return func() {
		r := &ready[S, G]{capacity: capacity}
		// A sizer of its own: the keeper's belongs to another goroutine.
		if r.spec, r.err = k.within(0, capacity, sizes{}.size); r.err == nil {
			if r.g, r.err = k.make(r.spec); r.err == nil {
				r.g.touch()
			}
		}
		k.made <- r
	}
}

// collect receives the generation that Ahead has made, if it is finished.
func (k *Keeper[S, G]) collect() {
	select {
	case r := <-k.made:
		if k.making = false; r.err == nil && r.spec.keyID() == k.key.Load() {
			k.ready = r
		}
	default:
	}
}

// suits reports whether a generation made for one capacity may be used for another. The headroom
// allows half a step of difference in either direction.
func (made keys) suits(wanted keys) bool {
	const step = 1.45 // more than the root of two
	for i := range wanted {
		if m, w := float64(made[i]), float64(wanted[i]); m > step*w || w > step*m {
			return false
		}
	}
	return true
}

// take returns the generation made ahead of time for s, and whether there is one.
func (k *Keeper[S, G]) take(s S) (g G, ok bool) {
	r := k.ready
	if r == nil || any(k.at(r.spec, s.begin())) != any(s) {
		return g, false
	}
	k.ready = nil
	k.begin(r.g, s)
	return r.g, true
}
