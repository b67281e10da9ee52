package trial

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/bulkheadtest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/prototest"
	"github.com/bulkhead-mail/bulkhead/signature"
)

func sign(t *testing.T, raw string) []bulkhead.Signature {
	t.Helper()
	sigs, err := signature.Compute(t.Context(), []byte(raw), signature.Options{Key: [16]byte{1}})
	if err != nil {
		t.Fatal(err)
	}
	return sigs
}

func pick(sigs []bulkhead.Signature, schemes ...bulkhead.Scheme) (of []bulkhead.Signature) {
	for _, s := range sigs {
		if slices.Contains(schemes, s.Scheme()) {
			of = append(of, s)
		}
	}
	return of
}

var digests = []bulkhead.Scheme{bulkhead.RazorE4, bulkhead.PyzorDigest, bulkhead.DCCBody, bulkhead.DCCFuz1,
	bulkhead.RspamdText}

// TestMessage checks that the message has a digest for every protocol, that each is
// recognised alone by every call, and that none reaches the clearinghouse behind.
func TestMessage(t *testing.T) {
	all := sign(t, Message)
	behind := prototest.NewTally(1)
	h := New(behind, all)
	queries := [][]bulkhead.Signature{all, sign(t,
		"Received: from x\r\nSubject: another\r\nFrom: b@example.org\r\n\r\n"+Text)}
	for _, s := range digests {
		one := pick(all, s)
		if len(one) == 0 {
			t.Errorf("the message has no %v", s)
			continue
		}
		queries = append(queries, one)
		out := make([]bulkhead.Look, len(one))
		if err := h.Look(t.Context(), one, out, bulkhead.Judgements); err != nil || out[0].Judged != bulkhead.JudgedSpam {
			t.Errorf("%v: look %+v, %v", s, out, err)
		}
		if err := h.Count(t.Context(), one, slices.Repeat([]uint32{3}, len(one))); err != nil {
			t.Error(err)
		}
	}
	for i, sigs := range queries {
		v, err := h.Check(t.Context(), bulkhead.Query{Signatures: sigs})
		if err != nil || v.Class != bulkhead.ClassSpam || !v.Spam() || !IsReason(v.Reasons) || len(v.Findings) != len(sigs) {
			t.Errorf("query %d: %+v, %v", i, v, err)
		}
		for vote := range bulkhead.NumVotes {
			got, err := h.Report(t.Context(), bulkhead.Report{Signatures: sigs, Vote: vote})
			if want := (bulkhead.Receipt{Whitelisted: len(sigs)}); err != nil || got != want {
				t.Errorf("query %d, %v: %+v, %v", i, vote, got, err)
			}
		}
	}
	for _, s := range all {
		if n := behind.Sightings(s); n > 0 {
			t.Errorf("%v was counted %d times", s, n)
		}
	}
	v, err := behind.Check(t.Context(), bulkhead.Query{Signatures: all})
	if err != nil || v.SpamVotes+v.HamVotes+v.Sightings > 0 {
		t.Errorf("the house behind knows %+v, %v", v, err)
	}
}

// TestOthers checks that mail that shares signatures with the message, on purpose or not, is judged
// and counted like any other.
func TestOthers(t *testing.T) {
	all := sign(t, Message)
	letter := sign(t, "From: a@example.org\r\nSubject: x\r\n\r\n"+
		strings.Repeat("The ferry to the island leaves at nine, and tickets are sold on board by the captain.\r\n", 20))
	for name, sigs := range map[string][]bulkhead.Signature{
		"another mail":               letter,
		"with a digest made like it": append(slices.Clone(letter), pick(all, bulkhead.PyzorDigest)...),
		"another digest":             pick(letter, bulkhead.PyzorDigest),
		"two digests, one of it":     append(pick(letter, bulkhead.RazorE4), pick(all, bulkhead.PyzorDigest)...),
		"its bands alone":            pick(all, bulkhead.Near),
	} {
		behind := prototest.NewTally(1)
		h := New(behind, all)
		if v, err := h.Check(t.Context(), bulkhead.Query{Signatures: sigs}); err != nil || IsReason(v.Reasons) {
			t.Errorf("%s: %+v, %v", name, v, err)
		}
		if got, err := h.Report(t.Context(), bulkhead.Report{Signatures: sigs, Vote: bulkhead.Spam}); err != nil ||
			got.Counted == 0 {
			t.Errorf("%s: reported, %+v, %v", name, got, err)
		}
	}
	behind := prototest.NewTally(1)
	h := New(behind, all)
	mixed := append(pick(all, digests...), pick(letter, bulkhead.DCCBody)...)
	if err := h.Count(t.Context(), mixed, slices.Repeat([]uint32{2}, len(mixed))); err != nil {
		t.Fatal(err)
	}
	if n := behind.Sightings(mixed[len(mixed)-1]); n != 2 {
		t.Errorf("the other digest was counted %d times, want 2", n)
	}
	if err := h.Count(t.Context(), mixed, []uint32{1}); err == nil {
		t.Error("counts of other length were taken")
	}
}

// TestHouse checks that all other mail goes to the clearinghouse behind.
func TestHouse(t *testing.T) {
	sigs := sign(t, Message)
	bulkheadtest.TestClearinghouse(t, func(testing.TB) bulkhead.Clearinghouse { return New(prototest.NewTally(2), sigs) })
}

// TestBatch checks that a batch with the message and others is answered in its order.
func TestBatch(t *testing.T) {
	all := sign(t, Message)
	h := New(&batcher{Tally: prototest.NewTally(1)}, all)
	letter := sign(t,
		"From: a@example.org\r\nSubject: x\r\n\r\nThe ferry to the island leaves at nine in the morning.\r\n")
	verdicts := make([]bulkhead.Verdict, 3)
	if err := h.CheckBatch(t.Context(), []bulkhead.Query{{Signatures: letter}, {Signatures: all}, {Signatures: letter}},
		verdicts); err != nil {
		t.Fatal(err)
	}
	for i, v := range verdicts {
		if IsReason(v.Reasons) != (i == 1) {
			t.Errorf("verdict %d: %+v", i, v)
		}
	}
	if b := h.Counter.(*batcher); b.batches != 0 {
		t.Errorf("%d batches went on", b.batches)
	}
	if err := h.CheckBatch(t.Context(), []bulkhead.Query{{Signatures: letter}}, verdicts); err != nil ||
		h.Counter.(*batcher).batches != 1 {
		t.Errorf("a batch without it was not handed on: %v", err)
	}
}

// A batcher checks in batches.
type batcher struct {
	*prototest.Tally
	batches int
}

func (b *batcher) CheckBatch(ctx context.Context, queries []bulkhead.Query, verdicts []bulkhead.Verdict) error {
	b.batches++
	for i := range queries {
		v, err := b.Check(ctx, queries[i])
		if err != nil {
			return err
		}
		verdicts[i] = v
	}
	return nil
}

// TestCost checks that other mail passes without an allocation.
func TestCost(t *testing.T) {
	h := New(quiet{}, sign(t, Message))
	letter := sign(t,
		"From: a@example.org\r\nSubject: x\r\n\r\nThe ferry to the island leaves at nine in the morning.\r\n")
	n, out := slices.Repeat([]uint32{1}, len(letter)), make([]bulkhead.Look, len(letter))
	got := testing.AllocsPerRun(100, func() {
		h.Check(t.Context(), bulkhead.Query{Signatures: letter})
		h.Count(t.Context(), letter, n)
		h.Look(t.Context(), letter, out, bulkhead.Judgements)
	})
	if got > 0 {
		t.Errorf("%g allocations", got)
	}
}

// quiet is a Counter that knows nothing and counts nothing.
type quiet struct{}

func (quiet) Check(context.Context, bulkhead.Query) (v bulkhead.Verdict, err error)   { return v, nil }
func (quiet) Report(context.Context, bulkhead.Report) (r bulkhead.Receipt, err error) { return r, nil }
func (quiet) Count(context.Context, []bulkhead.Signature, []uint32) error             { return nil }
func (quiet) Look(context.Context, []bulkhead.Signature, []bulkhead.Look, bulkhead.Aspect) error {
	return nil
}
