package fuzzy

import (
	"context"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/digest/rspamd"
	"github.com/bulkhead-mail/bulkhead/internal/testing/prototest"
)

// TestHitsOracle compares the hits of bands with their rules: enough bands that show anything, the
// lower median of their values, and the oldest of their times.
func TestHitsOracle(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 2))
	for range 20_000 {
		looks := make([]bulkhead.Look, rspamd.Bands)
		share := rng.Float64()
		for b := range looks {
			l := &looks[b]
			if rng.Float64() < share {
				l.Sightings, l.Error = uint32(rng.IntN(5)), rng.Float64()*rng.Float64()*0.02
			}
			l.First = rng.Int64N(1<<33) - 1<<31
			l.Judged = []bulkhead.Judgement{bulkhead.Unjudged, bulkhead.JudgedSpam,
				bulkhead.JudgedSpam, bulkhead.Revoked}[rng.IntN(4)]
			l.Spam, l.Confidence = uint32(rng.IntN(4)), rng.IntN(101)
			if rng.Float64() > share {
				l.Judged = bulkhead.Unjudged
			}
		}
		var counts, confidences []float64
		chance := 0.0
		seen := hit{flag: 7, first: math.MaxUint32}
		voted := seen
		note := func(h *hit, b int) {
			h.agree |= 1 << b
			h.first = min(h.first, uint32(max(0, min(looks[b].First, math.MaxUint32))))
		}
		for b, l := range looks {
			if l.Sightings > 0 {
				counts, chance = append(counts, float64(l.Sightings)), max(chance, l.Error)
				note(&seen, b)
			}
			if l.Judged == bulkhead.JudgedSpam {
				c := float64(l.Confidence)
				if l.Spam <= 1 { // one voice only makes it suspected
					c = min(c, 20)
				}
				confidences = append(confidences, c)
				note(&voted, b)
			}
		}
		median := func(x []float64) float64 { slices.Sort(x); return x[(len(x)-1)/2] }
		got, ok := nearHit(7, slices.Clone(looks))
		if want := len(counts) > 0 && len(counts) >= bandsWanted(chance); ok != want || ok &&
			(got.value != uint32(median(counts)) || got.first != seen.first || got.agree != seen.agree) || !ok &&
			got != (hit{}) {
			t.Fatalf("%v: near hit %+v, %v; want %v, %+v of %v", looks, got, ok, want, seen, counts)
		}
		got, ok = votedHit(7, slices.Clone(looks))
		if want := len(confidences) >= rspamd.Match; ok != want || !ok && got != (hit{}) {
			t.Fatalf("%v: voted hit %+v, %v; want %v", looks, got, ok, want)
		}
		if ok {
			value := math.Round(median(confidences) / 4 * float64(rspamd.Equal(voted.agree)) / rspamd.Shingles)
			if math.Abs(float64(got.value)-max(1, value)) > 0 || got.first != voted.first || got.agree != voted.agree ||
				got.flag != 7 {
				t.Fatalf("%v: voted hit %+v; want %+v of %v", looks, got, voted, confidences)
			}
		}
	}
}

// TestBetterOrders: hits of bands are ordered by the number of bands that agree. Equal ones, like
// hits of the digest, are ordered by value and list. The two kinds never occur together.
func TestBetterOrders(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 2))
	for range 2000 {
		agree := []uint32{7, 11, 15, 1 << 19}
		if rng.IntN(2) == 0 {
			agree = []uint32{0}
		}
		hits := make([]hit, 6)
		for i := range hits {
			hits[i] = hit{flag: uint8(rng.IntN(3)), value: rng.Uint32N(3), agree: agree[rng.IntN(len(agree))]}
		}
		slices.SortFunc(hits, hit.better)
		for i, b := range hits[1:] {
			a := hits[i]
			closer := strings.Count(strconv.FormatUint(uint64(a.agree), 2),
				"1") - strings.Count(strconv.FormatUint(uint64(b.agree), 2), "1")
			if closer < 0 || closer == 0 && (a.value < b.value || a.value == b.value && a.flag > b.flag) {
				t.Fatalf("%+v before %+v", a, b)
			}
		}
	}
}

// TestRaisedAgainstList compares one set of the memory of raised counters with a plain list, whose
// oldest entry makes room for a new one.
func TestRaisedAgainstList(t *testing.T) {
	type entry struct {
		sig   bulkhead.Signature
		since time.Time
		n     uint32
	}
	rng := rand.New(rand.NewPCG(5, 2))
	for range 200 {
		r := newRaised(setSize)
		var list []*entry // in the order of their entry
		now := time.Unix(1_800_000_000, 0)
		forget := func(sig bulkhead.Signature) {
			list = slices.DeleteFunc(list, func(e *entry) bool { return e.sig == sig })
		}
		at := func(sig bulkhead.Signature) (*entry, bool) {
			for _, e := range list {
				if e.sig == sig && now.Sub(e.since) < raisedTime {
					return e, true
				}
			}
			forget(sig)
			if len(list) == setSize {
				list = list[1:]
			}
			list = append(list, &entry{sig: sig, since: now})
			return list[len(list)-1], false
		}
		for range 200 {
			now = now.Add(time.Duration(1 + rng.Int64N(int64(raisedTime/4))))
			sum := make([]byte, DigestSize)
			sum[0] = byte(rng.IntN(7))
			sig := bulkhead.MustSignature(bulkhead.RspamdText, sum)
			n := []uint32{0, 1, 5, bulkhead.Many - 2, bulkhead.Many}[rng.IntN(5)]
			switch rng.IntN(5) {
			case 0, 1:
				e, _ := at(sig)
				e.n = uint32(min(uint64(e.n)+uint64(n), bulkhead.Many))
				if got := r.digest(sig, n, now); got != e.n {
					t.Fatalf("a digest was raised by %d, want %d", got, e.n)
				}
			case 2, 3:
				total := uint32(rng.IntN(12))
				e, known := at(sig)
				want := n
				if known {
					want = min(n, max(total, e.n)-e.n)
				}
				e.n = uint32(min(uint64(e.n)+uint64(want), bulkhead.Many))
				if got := r.band(sig, n, total, now); got != want {
					t.Fatalf("a band is raised by %d, want %d", got, want)
				}
			default:
				r.forget([]bulkhead.Signature{sig})
				forget(sig)
			}
		}
	}
}

// TestUpdatesTellApart: an update is the same only if client, key, tag, command, list,
// value and digest are.
func TestUpdatesTellApart(t *testing.T) {
	make1 := func() *job {
		return &job{
			client: netip.MustParseAddrPort("192.0.2.1:1000"),
			req:    Request{Command: Write, Tag: 5, Value: 7, Flag: 1, Digest: [DigestSize]byte{1, 63: 2}},
		}
	}
	seen := map[recentID]int{make1().recentID(): -1}
	if one, same := make1(), make1(); one.recentID() != same.recentID() {
		t.Fatal("one update is two")
	}
	for i, change := range []func(*job){
		func(j *job) { j.client = netip.MustParseAddrPort("192.0.2.1:1001") },
		func(j *job) { j.client = netip.MustParseAddrPort("192.0.2.1:1256") },
		func(j *job) { j.client = netip.MustParseAddrPort("192.0.2.2:1000") },
		func(j *job) { j.req.Tag = 6 },
		func(j *job) { j.req.Tag = 5 << 24 },
		func(j *job) { j.req.Value = -7 },
		func(j *job) { j.req.Value = 7 << 24 },
		func(j *job) { j.req.Command = Delete },
		func(j *job) { j.req.Flag = 2 },
		func(j *job) { j.req.Digest[0]++ },
		func(j *job) { j.req.Digest[63]++ },
		func(j *job) { j.shared = new(sharedKey) },
		func(j *job) { j.shared = &sharedKey{1} },
	} {
		j := make1()
		change(j)
		if other, ok := seen[j.recentID()]; ok {
			t.Errorf("changes %d and %d give one update", i, other)
		}
		seen[j.recentID()] = i
	}
}

// watched is a Counter that records the look-ups.
type watched struct {
	bulkhead.Counter
	mu    sync.Mutex
	asked map[bulkhead.Signature]bool
}

func (w *watched) Look(ctx context.Context, sigs []bulkhead.Signature,
	out []bulkhead.Look, what bulkhead.Aspect) error {
	w.mu.Lock()
	for _, sig := range sigs {
		w.asked[sig] = true
	}
	w.mu.Unlock()
	return w.Counter.Look(ctx, sigs, out, what)
}

// TestUnknownTextIsCheap: only every second band is looked up for a text that resembles no stored
// one. All bands are looked up for a text that shares a band with a stored text.
func TestUnknownTextIsCheap(t *testing.T) {
	house := &watched{Counter: prototest.NewTally(4), asked: make(map[bulkhead.Signature]bool)}
	c := dial(t, serve(t, &Server{Clearinghouse: house}), nil)
	var stored, like, other [rspamd.Shingles]uint64
	for i := range stored {
		stored[i], like[i], other[i] = uint64(i+1), uint64(i+1), uint64(i+1001)
	}
	like[0], like[9], like[20] = 5000, 5001, 5002
	must(t, c.Write(t.Context(), digestOf(1), &stored, 1, 9))
	for _, tt := range []struct {
		shingles *[rspamd.Shingles]uint64
		digest   byte
		odd      bool
	}{{&other, 2, false}, {&like, 3, true}} {
		house.mu.Lock()
		clear(house.asked)
		house.mu.Unlock()
		r := mustCheck(t, c, digestOf(tt.digest), tt.shingles)
		if r.OK() != tt.odd {
			t.Fatalf("digest %d: %+v", tt.digest, r)
		}
		house.mu.Lock()
		for b := range rspamd.Bands {
			if got, want := house.asked[rspamd.Band(tt.shingles, 1, b)], b%2 == 0 || tt.odd; got != want {
				t.Errorf("digest %d: band %d asked for %v, want %v", tt.digest, b, got, want)
			}
		}
		house.mu.Unlock()
	}
}
