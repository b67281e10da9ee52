package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"path/filepath"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/store"
)

func countSignature(t testing.TB, scheme bulkhead.Scheme, i int) bulkhead.Signature {
	t.Helper()
	sig, err := bulkhead.NewSignature(scheme, fmt.Appendf(nil, "signature number %d", i))
	if err != nil {
		t.Fatal(err)
	}
	return sig
}

// hidden takes the Counter away from an engine.
type hidden struct{ bulkhead.Clearinghouse }

// TestCounterAgrees: Count and Look have the same effects and results as Report and Check, over
// several generations, votes and revocations.
func TestCounterAgrees(t *testing.T) {
	for _, exact := range []bool{false, true} {
		lean, err := Open(t.Context(), Options{Now: newClock().Now, Tally: DefaultTally(), Exact: exact})
		if err != nil {
			t.Fatal(err)
		}
		plain, err := Open(t.Context(), Options{Now: newClock().Now, Tally: DefaultTally(), Exact: exact})
		if err != nil {
			t.Fatal(err)
		}
		counters := []bulkhead.Counter{bulkhead.CounterOf(lean), bulkhead.CounterOf(hidden{plain})}
		if _, ok := counters[0].(*Engine); !ok {
			t.Fatal("an engine is no Counter")
		}
		random := rand.New(rand.NewPCG(1, 2))
		local := bulkhead.Reporter{Addr: netip.MustParseAddr("127.0.0.1")}
		for round := range 20 {
			var sigs []bulkhead.Signature
			var n []uint32
			for range random.IntN(1500) {
				sigs = append(sigs, countSignature(t, bulkhead.DCCBody, random.IntN(2000)))
				n = append(n, 1+uint32(random.IntN(3)))
			}
			if round == 7 {
				n[0], n[1] = bulkhead.Many, bulkhead.Many-1
			}
			vote := bulkhead.Report{Signatures: []bulkhead.Signature{countSignature(t, bulkhead.DCCBody, round)},
				Vote: bulkhead.Spam, Reporter: local}
			for _, c := range counters {
				if err := c.Count(t.Context(), sigs, n); err != nil {
					t.Fatal(err)
				}
				if _, err := c.Report(t.Context(), vote); err != nil {
					t.Fatal(err)
				}
				if round%3 == 0 {
					again := vote
					again.Vote = bulkhead.Revocation
					if _, err := c.Report(t.Context(), again); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		lean.checker.Measure()
		plain.checker.Measure()
		var sigs []bulkhead.Signature
		for i := range 2500 {
			sigs = append(sigs, countSignature(t, bulkhead.DCCBody, i))
		}
		var looks [2][]bulkhead.Look
		for i, c := range counters {
			looks[i] = make([]bulkhead.Look, len(sigs))
			for k := range looks[i] {
				looks[i][k].Sightings = 99 // an old answer
			}
			if err := c.Look(t.Context(), sigs, looks[i], bulkhead.Counts|bulkhead.Judgements); err != nil {
				t.Fatal(err)
			}
		}
		known, judged := 0, 0
		for k := range sigs {
			a, b := looks[0][k], looks[1][k]
			if b.Sightings == 0 {
				b.First = a.First // of a vote alone a Finding has a date too
			}
			// The odds of a Finding cover all its numbers. A reported sighting of a listed
			// signature is also counted as caught, which takes a few more keys.
			if a.Judged != bulkhead.Unjudged || max(a.Error, b.Error) < 1e-6 {
				a.Error = b.Error
			}
			if a != b {
				t.Fatalf("exact %v, signature %d: lean %+v, plain %+v", exact, k, a, b)
			}
			if a.Sightings > 0 {
				known++
			}
			if a.Judged != bulkhead.Unjudged {
				judged++
			}
		}
		if known < 1500 || judged < 20 {
			t.Errorf("%d signatures known, %d judged", known, judged)
		}
		for _, e := range []*Engine{lean, plain} {
			if err := e.Close(context.WithoutCancel(t.Context())); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestCountRefuses: a bad signature or number leaves nothing counted.
func TestCountRefuses(t *testing.T) {
	white, err := NewWhitelist(WhitelistEntries{Signatures: []string{countSignature(t, bulkhead.DCCBody, 3).String()}})
	if err != nil {
		t.Fatal(err)
	}
	never := countSignature(t, bulkhead.DCCBody, 4)
	e, err := Open(t.Context(), Options{Tally: DefaultTally(), Whitelist: white, NeverList: []bulkhead.Signature{never}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close(context.WithoutCancel(t.Context()))
	good := countSignature(t, bulkhead.DCCBody, 1)
	for _, tt := range []struct {
		sigs []bulkhead.Signature
		n    []uint32
		want error
	}{
		{[]bulkhead.Signature{good, {}}, []uint32{1, 1}, bulkhead.ErrMalformed},
		{[]bulkhead.Signature{good, good}, []uint32{1, 0}, bulkhead.ErrMalformed},
		{[]bulkhead.Signature{good}, []uint32{bulkhead.Many + 1}, bulkhead.ErrMalformed},
		{[]bulkhead.Signature{good}, []uint32{1, 2}, bulkhead.ErrMalformed},
		{make([]bulkhead.Signature, maxVotes+1), make([]uint32, maxVotes+1), bulkhead.ErrOverLimit},
	} {
		if err := e.Count(t.Context(), tt.sigs, tt.n); !errors.Is(err, tt.want) {
			t.Errorf("%d signatures: %v, want %v", len(tt.sigs), err, tt.want)
		}
	}
	sigs := []bulkhead.Signature{good, countSignature(t, bulkhead.DCCBody, 3), never}
	if err := e.Count(t.Context(), sigs[1:], []uint32{5, 5}); err != nil {
		t.Fatal(err)
	}
	out := make([]bulkhead.Look, len(sigs))
	if err := e.Look(t.Context(), sigs, out, bulkhead.Counts|bulkhead.Judgements); err != nil {
		t.Fatal(err)
	}
	for i := range out {
		if out[i] != (bulkhead.Look{}) {
			t.Errorf("signature %d: %+v, want nothing", i, out[i])
		}
	}
	if err := e.Look(t.Context(), make([]bulkhead.Signature, 1), out[:1],
		bulkhead.Counts|bulkhead.Judgements); !errors.Is(err, bulkhead.ErrMalformed) {
		t.Errorf("look at an invalid signature: %v", err)
	}
}

// TestCountDurable: what was counted is there after a start from the journal.
func TestCountDurable(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	sig := countSignature(t, bulkhead.DCCFuz1, 1)
	for round := range 3 {
		st, err := store.Open(dir, store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		e, err := Open(t.Context(), Options{Tally: DefaultTally(), Store: st})
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Count(t.Context(), []bulkhead.Signature{sig, sig}, []uint32{2, 3}); err != nil {
			t.Fatal(err)
		}
		var out [1]bulkhead.Look
		if err := e.Look(t.Context(), []bulkhead.Signature{sig}, out[:], bulkhead.Counts|bulkhead.Judgements); err != nil ||
			out[0].Sightings != uint32(5*(round+1)) {
			t.Errorf("round %d: %+v, %v", round, out[0], err)
		}
		if err := errors.Join(e.Close(context.WithoutCancel(t.Context())), st.Close()); err != nil {
			t.Fatal(err)
		}
		if err := e.Count(t.Context(), []bulkhead.Signature{sig}, []uint32{1}); !errors.Is(err, bulkhead.ErrReadOnly) {
			t.Errorf("a closed engine counts: %v", err)
		}
	}
}

// BenchmarkLook measures 192 signatures at once, those of 64 DCC queries.
func BenchmarkLook(b *testing.B) {
	e, err := Open(b.Context(), Options{Tally: DefaultTally()})
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close(context.WithoutCancel(b.Context()))
	for _, known := range []bool{false, true} {
		var sigs []bulkhead.Signature
		var n []uint32
		for i := range 192 {
			sigs, n = append(sigs, countSignature(b, bulkhead.DCCBody, i)), append(n, 1)
		}
		if known {
			if err := e.Count(b.Context(), sigs, n); err != nil {
				b.Fatal(err)
			}
		}
		out := make([]bulkhead.Look, len(sigs))
		b.Run(fmt.Sprintf("known=%v", known), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := e.Look(b.Context(), sigs, out, bulkhead.Counts|bulkhead.Judgements); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(sigs)), "ns/signature")
		})
	}
}

// TestChecksAreClients: of all looks, those for clients alone count as checks,
// each once, whatever it finds.
func TestChecksAreClients(t *testing.T) {
	e, err := Open(t.Context(), Options{Now: newClock().Now, Tally: DefaultTally()})
	if err != nil {
		t.Fatal(err)
	}
	sigs := []bulkhead.Signature{countSignature(t, bulkhead.DCCBody, 1), countSignature(t, bulkhead.DCCBody, 2)}
	local := bulkhead.Reporter{Addr: netip.MustParseAddr("127.0.0.1")}
	if _, err := e.Report(t.Context(), bulkhead.Report{Signatures: sigs, Vote: bulkhead.Spam,
		Reporter: local}); err != nil {
		t.Fatal(err)
	}
	var out [2]bulkhead.Look
	for i, tt := range []struct {
		what bulkhead.Aspect
		want uint64
	}{{bulkhead.Counts, 1}, {bulkhead.Counts | bulkhead.Judgements, 2}, {bulkhead.Counts | bulkhead.Aside,
		2}, {bulkhead.Judgements | bulkhead.Aside, 2}, {bulkhead.Judgements, 3}} {
		if err := e.Look(t.Context(), sigs, out[:], tt.what); err != nil {
			t.Fatal(err)
		}
		if judged := tt.what&bulkhead.Judgements != 0; judged != (out[1].Judged == bulkhead.JudgedSpam) {
			t.Errorf("look %d: judged %v", i, out[1].Judged)
		}
		if got := e.Info().Checks; got != tt.want {
			t.Errorf("after look %d: %d checks, want %d", i, got, tt.want)
		}
	}
	if _, err := e.Check(t.Context(), bulkhead.Query{Signatures: sigs}); err != nil || e.Info().Checks != 4 {
		t.Errorf("after a check: %d, %v", e.Info().Checks, err)
	}
	if err := e.CheckBatch(t.Context(), []bulkhead.Query{{Signatures: sigs}, {Signatures: sigs}},
		make([]bulkhead.Verdict, 2)); err != nil || e.Info().Checks != 6 {
		t.Errorf("after a batch of two: %d, %v", e.Info().Checks, err)
	}
}

// TestCountAndReport: one journal entry has both, and an error leaves both or none.
func TestCountAndReport(t *testing.T) {
	st, err := store.Open(filepath.Join(t.TempDir(), "store"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	e := open(t, Options{Store: st, Tally: DefaultTally()})
	counted, reported := countSignature(t, bulkhead.RspamdShingle, 1), countSignature(t, bulkhead.RspamdText, 1)
	sightings := func(s bulkhead.Signature) uint32 { return verdictOf(t, e, s).Findings[0].Sightings }
	both := func(r bulkhead.Report, n ...uint32) (bulkhead.Receipt, error) {
		sigs := make([]bulkhead.Signature, len(n))
		for i := range sigs {
			sigs[i] = counted
		}
		return e.CountAndReport(t.Context(), sigs, n, r)
	}
	vote := bulkhead.Report{Vote: bulkhead.Spam, Signatures: []bulkhead.Signature{reported}}
	before := st.LastIndex()
	if receipt, err := both(vote, 2, 3); err != nil || receipt.Counted != 1 {
		t.Fatal(receipt, err)
	}
	if n := st.LastIndex() - before; n != 1 {
		t.Errorf("%d journal entries, want 1", n)
	}
	if v := verdictOf(t, e, reported); v.SpamVotes != 1 || sightings(counted) != 5 {
		t.Errorf("%d votes, %d counted, want 1 and 5", v.SpamVotes, sightings(counted))
	}

	stranger, tooMany, invalid := vote, vote, vote
	stranger.Reporter.Account = "nobody"
	tooMany.Signatures = make([]bulkhead.Signature, MaxSignatures+1)
	invalid.Vote = bulkhead.NumVotes
	for name, tt := range map[string]struct {
		r     bulkhead.Report
		n     []uint32
		want  error
		count uint32 // more than before
	}{
		"unknown account":     {stranger, []uint32{1}, bulkhead.ErrUnauthorised, 1},
		"too many to report":  {tooMany, []uint32{1}, bulkhead.ErrOverLimit, 1},
		"invalid report":      {invalid, []uint32{1}, bulkhead.ErrMalformed, 0},
		"invalid count":       {vote, []uint32{1, 0}, bulkhead.ErrMalformed, 0},
		"too many to count":   {vote, make([]uint32, maxVotes+1), bulkhead.ErrMalformed, 0},
		"nothing to count":    {invalid, nil, bulkhead.ErrMalformed, 0},
		"nothing of the same": {stranger, nil, bulkhead.ErrUnauthorised, 0},
	} {
		was := sightings(counted)
		receipt, err := both(tt.r, tt.n...)
		if !errors.Is(err, tt.want) || receipt != (bulkhead.Receipt{}) {
			t.Errorf("%s: %+v, %v, want %v", name, receipt, err, tt.want)
		}
		if got := sightings(counted) - was; got != tt.count {
			t.Errorf("%s: %d counted, want %d", name, got, tt.count)
		}
	}
}
