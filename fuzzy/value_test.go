package fuzzy

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/digest/rspamd"
	"github.com/bulkhead-mail/bulkhead/internal/testing/prototest"
)

// documentedLimit is max_score, hits_limit of newer clients, of docs/protocols/fuzzy.md.
const documentedLimit = 20

// share returns the share of the symbol's weight that a client derives from an answer, for clients
// up to 4.0 and for newer ones.
func share(r *Reply) (old, newer float64) {
	norm := math.Tanh(math.E * float64(r.Value) / documentedLimit)
	return norm * math.Sqrt(float64(r.Prob)), norm * (float64(r.Prob) - 0.5) / 0.5
}

// TestValueFollowsConfidence: a listing of confidence 80 has nearly all of the score, for any
// number of voters. A doubtful listing has less, and a near copy has no more.
func TestValueFollowsConfidence(t *testing.T) {
	last := 0.0
	for confidence := 0; confidence <= 100; confidence++ {
		all := make([]bulkhead.Look, rspamd.Bands)
		for b := range all {
			all[b] = bulkhead.Look{Judged: bulkhead.JudgedSpam, Spam: 2 + uint32(b)*1000, Confidence: confidence}
		}
		exact := Reply{FlagValue: FlagValue{Value: int32(listingValue(float64(confidence), 1))}, Prob: 1}
		got, _ := share(&exact)
		if got < last || confidence >= 80 && got < 0.99 || confidence <= 25 && got > 0.8 || exact.Value < 1 {
			t.Errorf("confidence %d: value %d, share %.3f after %.3f", confidence, exact.Value, got, last)
		}
		last = got
		for bands := minBands; bands <= rspamd.Bands; bands++ {
			h, ok := votedHit(1, append(all[:bands:bands], make([]bulkhead.Look, rspamd.Bands-bands)...))
			near := Reply{FlagValue: h.flagValue(), Prob: h.prob()}
			old, newer := share(&near)
			if !ok || near.Value > exact.Value || near.Value < 1 || old > got || newer > got {
				t.Errorf("confidence %d, %d bands: %+v, shares %.3f, %.3f of %.3f", confidence, bands, near, old, newer, got)
			}
			if want := float64(confidence) / 4 * float64(near.Prob); math.Abs(float64(near.Value)-want) > 0.5 && want > 1 {
				t.Errorf("confidence %d, %d bands: value %d, want %.2f", confidence, bands, near.Value, want)
			}
		}
	}
}

// TestOneVoiceSuspects: a changed copy of a mail that one voice calls spam has at most six tenths
// of the score. If two voices call the mail spam, the copy has nearly all of it.
func TestOneVoiceSuspects(t *testing.T) {
	for voices, least := range map[uint32]float64{1: 0.1, 2: 0.9} {
		all := make([]bulkhead.Look, rspamd.Bands)
		for b := range all {
			all[b] = bulkhead.Look{Judged: bulkhead.JudgedSpam, Spam: voices, Confidence: 80}
		}
		h, ok := votedHit(1, all)
		got, _ := share(&Reply{FlagValue: h.flagValue(), Prob: h.prob()})
		if !ok || got < least || voices == 1 && got > 0.6 {
			t.Errorf("%d voices: value %d, share %.2f", voices, h.value, got)
		}
	}
}

func randomShingles(random *rand.Rand) (s [32]uint64) {
	for i := range s {
		s[i] = random.Uint64()
	}
	return s
}

// TestNearNeverAboveOriginal: a mail's plain text and HTML are two digests with the same or nearly
// the same shingles. A near copy has no more weight than the mail, however often the mail was
// learnt, and whatever others learnt in between.
func TestNearNeverAboveOriginal(t *testing.T) {
	ctx := t.Context()
	random := rand.New(rand.NewPCG(5, 6))
	text := randomShingles(random)
	html, near := text, text
	html[7], near[20] = random.Uint64(), random.Uint64()
	for name, of := range map[string]*[32]uint64{"equal": &text, "nearly equal": &html} {
		c := dial(t, serve(t, &Server{Clearinghouse: new(prototest.House)}), nil)
		for times := int32(1); times <= 3; times++ {
			must(t, c.Write(ctx, digestOf(1), &text, 1, 10))
			must(t, c.Write(ctx, digestOf(2), of, 1, 10))
			must(t, c.Write(ctx, digestOf(2+byte(times)), of, 1, 4))
			for d := range byte(2) {
				if r := mustCheck(t, c, digestOf(1+d), &text); r.Value != 10*times || r.Prob != 1 || !r.Stored {
					t.Fatalf("%s: learnt %d times: %+v", name, times, r)
				}
			}
			if r := mustCheck(t, c, digestOf(9), &near); r.Value != 10*times || r.Prob >= 1 || r.Stored {
				t.Errorf("%s: near copy of what was learnt %d times: %+v", name, times, r)
			}
		}
	}
}

// TestBandsOutliveDelete: after a digest or its bands are forgotten, the next write raises them in
// full, and no more.
func TestBandsOutliveDelete(t *testing.T) {
	ctx := t.Context()
	text := randomShingles(rand.New(rand.NewPCG(7, 8)))
	house := prototest.NewTally(3)
	c := dial(t, serve(t, &Server{Clearinghouse: house}), nil)
	want := func(when string, value int32) {
		t.Helper()
		if r := mustCheck(t, c, digestOf(9), &text); r.Value != value {
			t.Errorf("%s: near copy: %+v, want value %d", when, r, value)
		}
	}
	must(t, c.Write(ctx, digestOf(1), &text, 1, 10))
	must(t, c.Delete(ctx, digestOf(1), nil)) // by hash: the bands stay
	must(t, c.Write(ctx, digestOf(1), &text, 1, 10))
	want("deleted by hash and learnt again", 10)
	must(t, c.Delete(ctx, digestOf(1), &text))
	want("deleted", 0)
	must(t, c.Write(ctx, digestOf(2), &text, 1, 10))
	want("another one learnt", 10)
	must(t, c.Write(ctx, digestOf(2), &text, 1, -4))
	want("4 taken away", 6)
	must(t, c.Write(ctx, digestOf(2), &text, 1, 4))
	want("4 added", 10)
	house.Fail(bulkhead.ErrReadOnly)
	if err := c.Write(ctx, digestOf(2), &text, 1, 10); err == nil {
		t.Error("a write to a node that is read-only is acknowledged")
	}
	house.Fail(nil)
	must(t, c.Write(ctx, digestOf(2), &text, 1, 10))
	want("10 more, after a failure", 20)
}

// TestNearDigest: the answer to a near copy has neither the digest of the request, which clients
// take for an exact match, nor a different digest each time.
func TestNearDigest(t *testing.T) {
	ctx := t.Context()
	text := randomShingles(rand.New(rand.NewPCG(1, 9)))
	c := dial(t, serve(t, &Server{Clearinghouse: new(prototest.House)}), nil)
	must(t, c.Write(ctx, digestOf(1), &text, 1, 10))
	first, second := mustCheck(t, c, digestOf(8), &text), mustCheck(t, c, digestOf(9), &text)
	if first.Digest == digestOf(8) || first.Digest != second.Digest || first.Digest == [DigestSize]byte{} {
		t.Errorf("near copies of one text: %x and %x", first.Digest, second.Digest)
	}
	if r := mustCheck(t, c, digestOf(1), &text); r.Digest != digestOf(1) {
		t.Errorf("the text itself: %x", r.Digest)
	}
	if r := mustCheck(t, c, digestOf(7), nil); r.OK() || r.Digest != digestOf(7) {
		t.Errorf("unknown: %+v", r)
	}
}

func TestRaisedForgets(t *testing.T) {
	r := newRaised(4)
	now := time.Unix(1000, 0)
	sig := func(n byte) bulkhead.Signature { d := digestOf(n); return plainSignature(&d) }
	if sum := r.digest(sig(1), 10, now); sum != 10 {
		t.Errorf("sum %d, want 10", sum)
	}
	if sum := r.digest(sig(1), bulkhead.Many, now); sum != bulkhead.Many {
		t.Errorf("sum %d, want at most %d", sum, bulkhead.Many)
	}
	for _, tt := range []struct {
		n, sum uint32
		after  time.Duration
		want   uint32
	}{{10, 10, 0, 10}, {10, 10, raisedTime - 1, 0}, {12, 12, 0, 2}, {5, 30, 0, 5}, {10, 10, raisedTime, 10}} {
		if got := r.band(sig(2), tt.n, tt.sum, now.Add(tt.after)); got != tt.want {
			t.Errorf("%+v: raised by %d", tt, got)
		}
	}
}

// TestListedByOne: one trusted vote is a hit with the full score, over the network and on a real
// engine.
func TestListedByOne(t *testing.T) {
	e := openEngine(t)
	d := digestOf(5)
	if _, err := e.Report(t.Context(), bulkhead.Report{Signatures: []bulkhead.Signature{plainSignature(&d)},
		Vote: bulkhead.Spam, Reporter: local}); err != nil {
		t.Fatal(err)
	}
	c := dial(t, serve(t, &Server{Clearinghouse: e}), nil)
	r := mustCheck(t, c, d, nil)
	if got, _ := share(&r); got < 0.98 || r.Flag != 1 || r.Value != 20 {
		t.Errorf("one listing: %+v, share %.3f of the score", r, got)
	}
	var plain bulkhead.Clearinghouse = struct{ bulkhead.Clearinghouse }{e}
	c = dial(t, serve(t, &Server{Clearinghouse: plain}), nil)
	if again := mustCheck(t, c, d, nil); again.Value != r.Value {
		t.Errorf("through a clearinghouse that does not count: value %d, want %d", again.Value, r.Value)
	}
}

// TestNoListForSpam: if no list is a spam list, a text listed by other front doors is not found
// here, and neither is a near copy.
func TestNoListForSpam(t *testing.T) {
	e := openEngine(t)
	d := digestOf(5)
	var shingles [rspamd.Shingles]uint64
	for i := range shingles {
		shingles[i] = uint64(i + 1)
	}
	sigs := append([]bulkhead.Signature{plainSignature(&d)}, rspamd.AppendBands(nil, &shingles, rspamd.Votes)...)
	if _, err := e.Report(t.Context(), bulkhead.Report{Signatures: sigs,
		Vote: bulkhead.Spam, Reporter: local}); err != nil {
		t.Fatal(err)
	}
	for _, flags := range [][]uint8{nil, {}} {
		c := dial(t, serve(t, &Server{Clearinghouse: e, SpamFlags: flags}), nil)
		for what, r := range map[string]Reply{
			"the text": mustCheck(t, c, d, nil), "the text with shingles": mustCheck(t, c, d, &shingles),
			"one like it": mustCheck(t, c, digestOf(6), &shingles),
		} {
			if r.OK() != (flags == nil) {
				t.Errorf("lists for spam %v, %s: %+v", flags, what, r)
			}
		}
	}
}
