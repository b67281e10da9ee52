package fuzzy

import (
	"fmt"
	"math"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/digest/rspamd"
	"github.com/bulkhead-mail/bulkhead/internal/ledger"
	"github.com/bulkhead-mail/bulkhead/internal/testing/prototest"
)

// TestBandsWanted: the smallest number of bands that filter errors show for an unknown text at most
// once in 100,000 times.
func TestBandsWanted(t *testing.T) {
	const bound = 1e-5
	tail := func(p float64, m int) (sum float64) { // of the binomial distribution
		for k := m; k <= rspamd.Bands; k++ {
			choose := math.Gamma(rspamd.Bands+1) / math.Gamma(float64(k+1)) / math.Gamma(float64(rspamd.Bands-k+1))
			sum += choose * math.Pow(p, float64(k)) * math.Pow(1-p, float64(rspamd.Bands-k))
		}
		return sum
	}
	for p := 1e-6; p < 1; p *= 1.1 {
		m := bandsWanted(p)
		if m < rspamd.Match || m > rspamd.Bands+1 {
			t.Fatalf("error %g: %d bands", p, m)
		}
		if m <= rspamd.Bands && tail(p, m) > bound {
			t.Errorf("error %g: %d bands agree by chance with %g", p, m, tail(p, m))
		}
		// The bound used is no more than a factor of the tail above it.
		if m > rspamd.Match && tail(p, m-1) < bound*math.Pow(1-p, rspamd.Bands) {
			t.Errorf("error %g: %d bands are wanted, where %d would do: %g", p, m, m-1, tail(p, m-1))
		}
	}
}

func TestConfirm(t *testing.T) {
	for _, tt := range []struct {
		chance, second, third float64 // of an error; third 0: there is none
		want                  bool
	}{
		{1e-3, 1e-3, 0, true},
		{1e-2, 1e-2, 0, false}, // 1e-4
		{4e-3, 2e-3, 0, true},  // 8e-6
		{4e-3, 3e-3, 0, false}, // 1.2e-5
		{4e-3, 3e-3, 0.5, true},
		{1e-2, 1e-2, 0.2, false},
	} {
		h := hit{value: 9, chance: tt.chance}
		third := bulkhead.Look{}
		if tt.third > 0 {
			third = bulkhead.Look{Sightings: 8, Error: tt.third}
		}
		if got := h.confirm(&bulkhead.Look{Sightings: 7, Error: tt.second}, &third); got != tt.want || h.value != 7 {
			t.Errorf("%+v: %v, value %d", tt, got, h.value)
		}
	}
	h := hit{value: 9}
	if h.confirm(&bulkhead.Look{}, &bulkhead.Look{Sightings: 9}) {
		t.Error("a digest without its second counter is taken for known")
	}
}

// TestMedian: the value of a near match is the lower median of its bands.
func TestMedian(t *testing.T) {
	for _, tt := range []struct {
		values []uint32
		want   uint32
	}{{[]uint32{7, 5, 1}, 5}, {[]uint32{7, 100, 5, 1}, 5}, {[]uint32{1, 1, 9, 9, 9}, 9}, {[]uint32{1, 1, 1, 9, 9, 9}, 1}} {
		bands, votes := make([]bulkhead.Look, rspamd.Bands), make([]bulkhead.Look, rspamd.Bands)
		for b, v := range tt.values {
			bands[b] = bulkhead.Look{Sightings: v}
			votes[b] = bulkhead.Look{Judged: bulkhead.JudgedSpam, Spam: 2, Confidence: int(10 * v)}
		}
		if h, ok := nearHit(1, bands); !ok || h.value != tt.want {
			t.Errorf("bands %d: %v, value %d, want %d", tt.values, ok, h.value, tt.want)
		}
		h, ok := votedHit(1, votes)
		if want := listingValue(10*float64(tt.want), float64(h.prob())); !ok || h.value != want {
			t.Errorf("votes of confidence 10 x %d: %v, value %d, want %d", tt.values, ok, h.value, want)
		}
	}
}

// TestRevocationOutweighsBands: bands listed by votes find a text, unless its own digest was
// revoked.
func TestRevocationOutweighsBands(t *testing.T) {
	ctx := t.Context()
	var shingles [32]uint64
	for i := range shingles {
		shingles[i] = uint64(i) * 0x9e3779b97f4a7c15
	}
	house := new(prototest.House)
	revoked := digestOf(1)
	sigs := append(rspamd.AppendBands(nil, &shingles, rspamd.Votes), plainSignature(&revoked))
	if _, err := house.Report(ctx, bulkhead.Report{Signatures: sigs, Vote: bulkhead.Spam}); err != nil {
		t.Fatal(err)
	}
	c := dial(t, serve(t, &Server{Clearinghouse: house, SpamFlags: []uint8{1}}), nil)
	for _, d := range []byte{1, 2} {
		if r := mustCheck(t, c, digestOf(d), &shingles); !r.OK() || r.Flag != 1 {
			t.Fatalf("digest %d, whose bands are listed: %+v", d, r)
		}
	}
	if _, err := house.Report(ctx, bulkhead.Report{Signatures: sigs[len(sigs)-1:],
		Vote: bulkhead.Revocation}); err != nil {
		t.Fatal(err)
	}
	if r := mustCheck(t, c, revoked, &shingles); r.OK() {
		t.Errorf("the revoked digest is found by its bands: %+v", r)
	}
	if r := mustCheck(t, c, digestOf(2), &shingles); !r.OK() {
		t.Errorf("another digest with these bands is not found: %+v", r)
	}
}

// TestCountersDiffer: no two counters of a message are the same, on all lists.
func TestCountersDiffer(t *testing.T) {
	seen := map[bulkhead.Signature]string{}
	r := &Request{Digest: digestOf(1), Shingled: true}
	for _, flag := range []uint8{0, 1, 255} {
		for i := range numAccounts(r) {
			add := func(p ledger.Part) {
				sig, what := counterSignature(r, flag, p, i), fmt.Sprint(flag, p, i)
				if seen[sig] != "" {
					t.Errorf("%s and %s are one counter", what, seen[sig])
				}
				seen[sig] = what
			}
			add(added)
			add(taken)
			add(deletes)
			for epoch := range uint8(24) {
				add(ledger.Part{Kind: ledger.AddedSince, Epoch: epoch})
				add(ledger.Part{Kind: ledger.TakenSince, Epoch: epoch})
			}
		}
	}
}

// TestExactBeforeNear: the digest itself precedes the bands that it shares with others, even after
// weights were taken away once, and is not a near match.
func TestExactBeforeNear(t *testing.T) {
	ctx := t.Context()
	var shingles [32]uint64
	s := &Server{Clearinghouse: prototest.NewTally(1)}
	c := dial(t, serve(t, s), nil)
	must(t, c.Write(ctx, digestOf(3), nil, 1, 1))
	must(t, c.Delete(ctx, digestOf(3), nil))
	must(t, c.Write(ctx, digestOf(1), &shingles, 1, 10))
	must(t, c.Write(ctx, digestOf(2), &shingles, 1, 5))
	for d, want := range map[byte]int32{1: 10, 2: 5} {
		if r := mustCheck(t, c, digestOf(d), &shingles); r.Value != want || !r.Stored || r.Prob != 1 {
			t.Errorf("digest %d: %+v, want itself with value %d", d, r, want)
		}
	}
	if n := s.Stats.Near.Load(); n != 0 {
		t.Errorf("%d near matches of digests that are known", n)
	}
	if r := mustCheck(t, c, digestOf(4), &shingles); r.Value != 10 || r.Stored {
		t.Errorf("near copy: %+v, want value 10, that of the heavier one", r)
	}
	if n := s.Stats.Near.Load(); n != 1 {
		t.Errorf("%d near matches, want 1", n)
	}
}

// TestFullFilters: a digest that the filters may show by error is found only if enough counters
// confirm it. A digest has three counters; a digest with shingles has two and its bands.
func TestFullFilters(t *testing.T) {
	ctx := t.Context()
	var shingles [32]uint64
	for i := range shingles {
		shingles[i] = uint64(i) * 0x9e3779b97f4a7c15
	}
	for _, tt := range []struct {
		chance         float64
		digest         bool // found without shingles
		text, textNear bool // found with shingles: by its digest, or by its bands alone
	}{
		{0, true, true, false},
		{1e-6, true, true, false},
		{3e-3, true, true, false},
		{1e-2, true, false, true},
		{3e-2, false, false, true},
		{0.5, false, false, true}, // 0.5^20 is less than one in a hundred thousand
		{0.6, false, false, false},
		{1, false, false, false},
	} {
		house := prototest.NewTally(1)
		house.Chance = tt.chance
		c := dial(t, serve(t, &Server{Clearinghouse: house, SpamFlags: []uint8{}}), nil)
		must(t, c.Write(ctx, digestOf(1), nil, 1, 10))
		must(t, c.Write(ctx, digestOf(2), &shingles, 1, 10))
		if r := mustCheck(t, c, digestOf(1), nil); r.OK() != tt.digest || r.Stored != tt.digest {
			t.Errorf("chance %g: a digest: %+v, want it found: %v", tt.chance, r, tt.digest)
		}
		if r := mustCheck(t, c, digestOf(2), &shingles); r.OK() != (tt.text || tt.textNear) || r.Stored != tt.text {
			t.Errorf("chance %g: a text: %+v, want it found as itself: %v, by its bands: %v", tt.chance, r, tt.text, tt.textNear)
		}
	}
}
