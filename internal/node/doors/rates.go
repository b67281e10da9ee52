package doors

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/clock"
	"github.com/bulkhead-mail/bulkhead/internal/web"
)

// doorRates holds the counters of the doors over the last minutes, for the pages. Its methods may
// be called concurrently.
type doorRates struct {
	mu    sync.Mutex
	looks []doorLook // the oldest first, up to doorLooks
}

// doorLook holds the counters of all doors at one time.
type doorLook struct {
	at    time.Time
	doors map[string]doorCounts
}

type doorCounts struct {
	answers uint64
	faults  uint64 // refused, failed, or ended by a fault of the program
	within  map[float64]uint64
}

// A look is taken every lookEvery. Rates cover the time since the oldest look.
const (
	lookEvery = time.Minute
	doorLooks = 6
)

// counts returns the present counters of every door.
func (s *Set) counts() map[string]doorCounts {
	all := make(map[string]doorCounts)
	for _, o := range s.opened {
		c := doorCounts{within: make(map[float64]uint64)}
		for _, t := range o.times {
			answers, _, within := t.Read()
			c.answers += answers
			for bound, count := range within {
				c.within[bound] += count
			}
		}
		if h := s.counted[o.key]; h != nil {
			c.faults += uint64(h.refused.Load())
		}
		if o.conns != nil {
			c.faults += uint64(o.conns.Panics.Load())
		}
		if o.packets != nil {
			c.faults += uint64(o.packets.Panics.Load())
		}
		all[o.key] = c
	}
	return all
}

// Watch records the doors' counters for their rates, until ctx ends.
func (s *Set) Watch(ctx context.Context) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		s.rates.note(clock.Now(), s.counts())
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (r *doorRates) note(at time.Time, doors map[string]doorCounts) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.looks = append(r.looks, doorLook{at, doors})
	r.looks = r.looks[max(0, len(r.looks)-doorLooks):]
}

// set sets the numbers of a door from its present counters.
func (r *doorRates) set(d *web.Door, now time.Time, c doorCounts) {
	r.mu.Lock()
	defer r.mu.Unlock()
	d.Answers, d.Faults = c.answers, c.faults
	if len(r.looks) == 0 || !now.After(r.looks[0].at) {
		return
	}
	before := r.looks[0].doors[d.Name]
	answers := c.answers - before.answers
	d.Rate = float64(answers) / now.Sub(r.looks[0].at).Seconds()
	d.Slowest = percentile(before, c, 0.99)
}

// percentile returns the least bound, in seconds, within which a share of the answers between two
// looks were given. It is 0 if there were none, and +Inf if no bound covers them.
func percentile(before, now doorCounts, share float64) float64 {
	answers := now.answers - before.answers
	if answers == 0 {
		return 0
	}
	least := math.Inf(1)
	for bound, count := range now.within {
		if bound < least && float64(count-before.within[bound]) >= share*float64(answers) {
			least = bound
		}
	}
	return least
}
