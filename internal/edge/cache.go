package edge

import (
	"crypto/sha256"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/bulkhead-mail/bulkhead"
)

// cacheSize is the number of answers in a cache.
const cacheSize = 4096

// A cache keeps "unknown" answers for a short time. It forgets answers whose signatures were
// reported since.
type cache struct {
	ttl time.Duration
	now func() time.Time

	mu       sync.Mutex
	answers  map[cacheKey]cached
	reported map[bulkhead.Signature]time.Time // time of the last report
	floor    time.Time                        // answers to queries sent before may be outdated
}

type cacheKey [sha256.Size]byte

type cached struct {
	verdict bulkhead.Verdict
	asked   time.Time
}

func newCache(ttl time.Duration, now func() time.Time) *cache {
	return &cache{ttl: ttl, now: now, answers: make(map[cacheKey]cached), reported: make(map[bulkhead.Signature]time.Time)}
}

// keyOf returns the key of a query, equal for queries with the same answer. It returns false if the
// query cannot be cached.
func keyOf(q bulkhead.Query) (cacheKey, bool) {
	q.Reporter = bulkhead.Reporter{} // does not affect the answer
	text, err := json.Marshal(q)
	return sha256.Sum256(text), err == nil
}

// get returns the answer to a query if it is fresh.
func (c *cache) get(key cacheKey, sigs []bulkhead.Signature) (bulkhead.Verdict, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a, ok := c.answers[key]
	if !ok || !a.asked.After(c.floor) || c.now().Sub(a.asked) >= c.ttl || c.changed(sigs, a.asked) {
		return bulkhead.Verdict{}, false
	}
	v := a.verdict
	v.Findings, v.Reasons = slices.Clone(v.Findings), slices.Clone(v.Reasons)
	return v, true
}

// changed reports whether any of the signatures was reported since a time.
func (c *cache) changed(sigs []bulkhead.Signature, since time.Time) bool {
	for i := range sigs {
		if at, ok := c.reported[sigs[i]]; ok && !at.Before(since) {
			return true
		}
	}
	return false
}

// put stores the answer to a query that was sent at the time asked, if the answer is "unknown".
func (c *cache) put(key cacheKey, v *bulkhead.Verdict, asked time.Time) {
	if c.ttl == 0 || v.Whitelisted != "" || v.Judged != bulkhead.Unjudged || v.Bulk || v.Class != bulkhead.ClassUnknown {
		return
	}
	for i := range v.Findings {
		if v.Findings[i].Known() {
			return
		}
	}
	kept := *v
	kept.Findings, kept.Reasons = slices.Clone(v.Findings), slices.Clone(v.Reasons)
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.answers) >= cacheSize {
		clear(c.answers)
	}
	c.answers[key] = cached{kept, asked}
}

// forget drops answers about signatures that were just reported.
func (c *cache) forget(sigs []bulkhead.Signature) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ttl == 0 {
		return
	}
	now := c.now()
	if len(c.reported)+len(sigs) > 4*cacheSize {
		clear(c.reported)
		c.floor = now // no answer before holds, nor one that is still to come
	}
	for i := range sigs {
		c.reported[sigs[i]] = now
	}
}
