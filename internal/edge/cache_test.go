package edge

import (
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
)

func signatureOf(n int) bulkhead.Signature {
	sum := make([]byte, 20)
	sum[0], sum[1] = byte(n>>8), byte(n)
	return bulkhead.MustSignature(bulkhead.PyzorDigest, sum)
}

// TestCacheAgainstLog compares the answers of the cache with a log of all events: an answer is
// reused only during its life, and not if one of its signatures was reported at the time of the
// query or later.
func TestCacheAgainstLog(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 1))
	for range 300 {
		now := time.Unix(1_800_000_000, 0)
		ttl := time.Duration(rng.IntN(3)) * 5 * time.Second
		c := newCache(ttl, func() time.Time { return now })
		type answer struct {
			asked     time.Time
			sightings uint32
		}
		answers := make(map[int]answer)
		reports := make(map[int]time.Time)
		queryOf := func(n int) bulkhead.Query {
			return bulkhead.Query{Signatures: []bulkhead.Signature{signatureOf(n), signatureOf(n + 1)}}
		}
		for step := range uint32(200) {
			now = now.Add(time.Duration(rng.IntN(2)) * time.Second)
			n := rng.IntN(6)
			q := queryOf(n)
			key, ok := keyOf(q)
			if !ok {
				t.Fatal("a query has no key")
			}
			switch rng.IntN(3) {
			case 0:
				asked := now.Add(-time.Duration(rng.IntN(3)) * time.Second)
				c.put(key, &bulkhead.Verdict{Threshold: step, Findings: make([]bulkhead.Finding, 2)}, asked)
				if ttl > 0 {
					answers[n] = answer{asked, step}
				}
			case 1:
				c.forget([]bulkhead.Signature{signatureOf(n)})
				reports[n] = now
			}
			a, known := answers[n]
			for _, sig := range []int{n, n + 1} {
				at, reported := reports[sig]
				known = known && (!reported || at.Before(a.asked))
			}
			known = known && now.Sub(a.asked) < ttl
			v, got := c.get(key, q.Signatures)
			if got != known || got && v.Threshold != a.sightings {
				t.Fatalf("step %d: %+v, %v; want %+v, %v", step, v, got, a, known)
			}
			if got {
				v.Findings[0].Sightings = 99 // the caller's own copy
			}
		}
	}
}

// TestCacheOfUnknown checks that only answers without knowledge of the message are kept.
func TestCacheOfUnknown(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	for name, tt := range map[string]struct {
		v    bulkhead.Verdict
		kept bool
	}{
		"unknown":      {bulkhead.Verdict{Findings: make([]bulkhead.Finding, 2), Reasons: []string{"unknown"}}, true},
		"whitelisted":  {bulkhead.Verdict{Whitelisted: "w"}, false},
		"judged":       {bulkhead.Verdict{Judged: bulkhead.Revoked}, false},
		"bulk":         {bulkhead.Verdict{Bulk: true}, false},
		"good":         {bulkhead.Verdict{Class: bulkhead.ClassGood}, false},
		"seen":         {bulkhead.Verdict{Findings: []bulkhead.Finding{{}, {Sightings: 1}}}, false},
		"revoked part": {bulkhead.Verdict{Findings: []bulkhead.Finding{{Judged: bulkhead.Revoked}, {}}}, false},
	} {
		c := newCache(time.Minute, func() time.Time { return now })
		c.put(cacheKey{1}, &tt.v, now)
		if _, ok := c.get(cacheKey{1}, nil); ok != tt.kept {
			t.Errorf("%s: kept %v", name, ok)
		}
		if _, ok := c.get(cacheKey{2}, nil); ok {
			t.Errorf("%s: given to another question", name)
		}
	}
}

// TestCacheIsBounded checks that the cache forgets answers rather than reports.
func TestCacheIsBounded(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	c := newCache(time.Minute, func() time.Time { return now })
	unknown := &bulkhead.Verdict{}
	for i := range 3 * cacheSize {
		c.put(cacheKey{byte(i), byte(i >> 8)}, unknown, now)
		if len(c.answers) > cacheSize {
			t.Fatalf("%d answers, limit %d", len(c.answers), cacheSize)
		}
		if _, ok := c.get(cacheKey{byte(i), byte(i >> 8)}, nil); !ok {
			t.Fatalf("answer %d is not kept", i)
		}
	}
	// Answers in transit when reports are forgotten may be outdated.
	asked := now
	now = now.Add(time.Second)
	old := cacheKey{0, 0, 4}
	c.put(old, unknown, now)
	for i := range 4*cacheSize + 1 {
		if _, ok := c.get(old, nil); !ok {
			t.Fatalf("an answer is forgotten after %d reports on others", i)
		}
		c.forget([]bulkhead.Signature{signatureOf(i)})
		if len(c.reported) > 4*cacheSize {
			t.Fatalf("%d reports, limit %d", len(c.reported), 4*cacheSize)
		}
	}
	if _, ok := c.get(old, nil); ok {
		t.Error("an answer outlives the reports since it")
	}
	c.put(cacheKey{0, 0, 1}, unknown, asked)
	c.put(cacheKey{0, 0, 2}, unknown, now)
	c.put(cacheKey{0, 0, 3}, unknown, now.Add(1))
	for n, want := range map[byte]bool{1: false, 2: false, 3: true} {
		if _, ok := c.get(cacheKey{0, 0, n}, []bulkhead.Signature{signatureOf(0)}); ok != want {
			t.Errorf("answer %d is kept %v, want %v", n, ok, want)
		}
	}
}

// TestNoCache checks that a cache which never answers takes no memory.
func TestNoCache(t *testing.T) {
	c := newCache(0, time.Now)
	c.put(cacheKey{1}, &bulkhead.Verdict{}, time.Now())
	c.forget([]bulkhead.Signature{signatureOf(1)})
	if len(c.answers)+len(c.reported) > 0 {
		t.Errorf("the cache holds %d answers and %d reports", len(c.answers), len(c.reported))
	}
}

// TestKeyOf checks that queries with the same answer have the same key.
func TestKeyOf(t *testing.T) {
	q := bulkhead.Query{Signatures: []bulkhead.Signature{signatureOf(1), signatureOf(2)}, Threshold: 5}
	key, _ := keyOf(q)
	same := q
	same.Reporter = bulkhead.Reporter{Account: "a", Addr: netip.MustParseAddr("192.0.2.1")}
	if k, ok := keyOf(same); !ok || k != key {
		t.Error("who asks changes the key")
	}
	for name, change := range map[string]func(*bulkhead.Query){
		"order":     func(q *bulkhead.Query) { q.Signatures = []bulkhead.Signature{signatureOf(2), signatureOf(1)} },
		"fewer":     func(q *bulkhead.Query) { q.Signatures = q.Signatures[:1] },
		"threshold": func(q *bulkhead.Query) { q.Threshold++ },
		"terse":     func(q *bulkhead.Query) { q.Terse = true },
		"sender":    func(q *bulkhead.Query) { q.Source.Sender = "a@example.com" },
		"claimed":   func(q *bulkhead.Query) { q.Source.ClaimedSender = "a@example.com" },
		"client":    func(q *bulkhead.Query) { q.Source.Client = netip.MustParseAddr("192.0.2.1") },
		"DKIM":      func(q *bulkhead.Query) { q.Source.DKIM = []string{"example.com"} },
	} {
		other := q
		change(&other)
		if k, ok := keyOf(other); !ok || k == key {
			t.Errorf("another %s has the same key", name)
		}
	}
}
