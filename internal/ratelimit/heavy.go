package ratelimit

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/top"
)

// Bounds on the record of the busiest keys of each rule: the number of keys, and the size of a key
// in bytes.
const (
	heavyKeys  = 128
	heavyBytes = 256
)

// heavy holds the busiest keys of one rule in clear, in memory only: a table of states has hashes,
// which cannot be listed. Counts decay as rates do, by a factor of e in a period, so that a key
// that has stopped is replaced.
type heavy struct {
	mu    sync.Mutex
	table *top.Table
	base  time.Time // the time at which an event counted 1
}

// add counts n events of a key.
func (h *heavy) add(key []byte, n float64, now time.Time, period time.Duration) {
	if len(key) > heavyBytes || !(n > 0) {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.table == nil {
		h.table, h.base = top.New(heavyKeys), now
	}
	// Later events count more, in place of earlier ones decaying.
	age := float64(max(0, now.Sub(h.base))) / float64(period)
	if age > 16 {
		h.table.Scale(math.Exp(-min(age, 600)))
		h.base, age = now, 0
	}
	h.table.AddBytes(key, n*math.Exp(age))
}

func (h *heavy) names() (all []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.table == nil {
		return nil
	}
	for _, it := range h.table.Items(heavyKeys) {
		all = append(all, it.Name)
	}
	return all
}

func (h *heavy) remove(key string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.table != nil {
		h.table.Remove(key)
	}
}

// A KeyStatus is the state of one key.
type KeyStatus struct {
	Key string
	Status
}

// A TopKeys holds the keys of a rule with the highest rates.
type TopKeys struct {
	Rule string
	Keys []KeyStatus // highest rate first
}

// Top returns up to n of the keys with the highest rates for every rule that has states of its own.
// The keys are taken from the 128 busiest of the rule since it was loaded. A key is certain to be
// among these if it makes more than a 128th of the rule's recent requests. Keys longer than 256
// bytes are left out. An error means that a state is damaged.
func (l *Limiter) Top(n int) ([]TopKeys, error) {
	var all []TopKeys
	var errs []error
	for _, r := range *l.rules.Load() {
		if r.reads != nil {
			continue
		}
		t := TopKeys{Rule: r.Name}
		for _, key := range r.heavy.names() {
			s, ok, err := r.show([]byte(key), l.opts.Now())
			if errs = append(errs, err); ok && err == nil && s.Rate > 0 {
				t.Keys = append(t.Keys, KeyStatus{key, s})
			}
		}
		slices.SortFunc(t.Keys, func(a, b KeyStatus) int {
			return cmp.Or(cmp.Compare(b.Rate, a.Rate), cmp.Compare(a.Key, b.Key))
		})
		t.Keys = t.Keys[:min(n, len(t.Keys))]
		all = append(all, t)
	}
	return all, errors.Join(errs...)
}

// show returns the state of a key written as by the templates; ok is false if there is none.
func (r *rule) show(key []byte, now time.Time) (s Status, ok bool, err error) {
	hash := r.hash(key)
	s = Status{Rule: r.Name, Limit: r.rateOf(hash).Limit(), Period: r.Period}
	var errs [2]error
	r.states().view(hash, func(state []byte) {
		if ok = state != nil; ok {
			s.Rate, errs[0] = r.rate.Rate(state, now)
			s.Items, errs[1] = r.rate.Items(state)
		}
	})
	if err := errors.Join(errs[:]...); err != nil {
		return s, false, fmt.Errorf("ratelimit: rule %q: %w", r.Name, err)
	}
	return s, ok, nil
}
