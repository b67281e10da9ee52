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

// Bounds of what is held of the keys that ask most: of each rule, so many keys of at most
// so many bytes.
const (
	heavyKeys  = 128
	heavyBytes = 256
)

// heavy is the keys that ask most of one rule, in clear and in memory alone: a table of
// states has hashes, which cannot be listed. Counts decay as rates do, by e in a period,
// so that a key that has ended gives way.
type heavy struct {
	mu    sync.Mutex
	table *top.Table
	base  time.Time // when an event counted 1
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
	// Later events count more instead of earlier ones less.
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

// A TopKeys is the keys of a rule with the highest rates.
type TopKeys struct {
	Rule string
	Keys []KeyStatus // the highest rate first
}

// Top returns up to n of the keys with the highest rates of every rule that has states of
// its own. They are among the 128 that asked most of the rule since it was loaded: a key
// is sure to be among these if it makes more than a 128th of all that the rule was asked
// lately. Keys of more than 256 bytes are left out. An error means that a state is damaged.
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

// show returns the state of a key as templates write it; ok is false if there is none.
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
