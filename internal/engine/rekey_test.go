package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/store"
	"github.com/bulkhead-mail/bulkhead/internal/trust"
)

// TestRekeyVotes has a few voters change their minds about one message while the secret
// changes: what they said before is taken back where it was counted.
func TestRekeyVotes(t *testing.T) {
	for seed := range uint64(6) {
		rng := rand.New(rand.NewPCG(seed, 5))
		c := newClock()
		opts := Options{
			Now: c.Now, Votes: 20_000,
			Tally: BookOptions{Generation: 24 * time.Hour, Keep: 4, Capacity: 5_000, Error: 1e-6},
			Block: BookOptions{Generation: 7 * 24 * time.Hour, Keep: 3, Capacity: 5_000, Error: 1e-9},
		}
		p := &twins{t: t, dir: filepath.Join(t.TempDir(), "data"), opts: opts}
		p.node, p.store = openDurable(t, p.dir, opts, nil)
		opts.Exact = true
		p.exact = open(t, opts)
		account := func(a trust.Account) {
			both(p, "account "+a.Name, func(e *Engine) (int, error) { return 0, e.PutAccount(t.Context(), a) })
		}
		account(trust.Account{Name: "a", Role: trust.Trusted, Weight: 1})
		account(trust.Account{Name: "half", Role: trust.Trusted, Weight: 0.5})
		for i := range 3 {
			account(trust.Account{Name: fmt.Sprint("member", i), Role: trust.Member, Weight: 0.05,
				From: netip.AddrFrom4([4]byte{198, 51, byte(i), 1}), Created: c.Now()})
		}
		reporters := []bulkhead.Reporter{{Account: "a"}, {Account: "half"}, {Account: "half", User: "ann"},
			{Account: "member0"}, {Account: "member1"}, {Account: "member2"}, {}}
		m := bulkhead.Query{Signatures: []bulkhead.Signature{
			sig(bulkhead.Exact, 1), sig(bulkhead.Near, 2), sig(bulkhead.Near, 3),
			bulkhead.NamedSignature(bulkhead.Sender, "s.example"), bulkhead.NamedSignature(bulkhead.Link, "l.example"),
		}}
		for step := range 60 {
			if step == 20 || step == 40 {
				p.rekey(filter.Secret{byte(seed), byte(step)})
				p.compare([]bulkhead.Query{m})
			}
			r := bulkhead.Report{Signatures: m.Signatures, Reporter: reporters[rng.IntN(len(reporters))],
				Vote: bulkhead.Vote(rng.IntN(int(bulkhead.NumVotes)))}
			both(p, fmt.Sprintf("step %d: report %+v", step, r),
				func(e *Engine) (bulkhead.Receipt, error) { return e.Report(t.Context(), r) })
			p.compare([]bulkhead.Query{m})
		}
		p.restart(seed%2 == 0)
		p.compare([]bulkhead.Query{m})
		if err := errors.Join(p.node.Close(t.Context()), p.store.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRekeyExpires: a secret is forgotten with the last generation that was made with it,
// and then another may come.
func TestRekeyExpires(t *testing.T) {
	c := newClock()
	e := open(t, Options{Now: c.Now, Exact: true})
	next := func(n byte) error { return e.Rekey(t.Context(), filter.Secret{n, 9}) }
	count := func() {
		report(t, e, bulkhead.Report{Signatures: []bulkhead.Signature{sig(bulkhead.Exact, 1)}, Vote: bulkhead.Spam})
	}
	for n := range byte(2 * MaxSecrets) {
		if err := next(100 + n); err != nil {
			t.Fatalf("change %d, without counts: %v", n, err)
		}
		if got := e.Secrets(); len(got) > MaxSecrets || got[0] != (filter.Secret{100 + n, 9}) {
			t.Fatalf("change %d, without counts: secrets %v", n, got)
		}
	}
	count()
	for n := range byte(MaxSecrets - 1) {
		if err := next(n); err != nil {
			t.Fatal(err)
		}
		count()
	}
	if err := next(7); !errors.Is(err, bulkhead.ErrOverLimit) || e.Secrets()[0] != (filter.Secret{MaxSecrets - 2, 9}) {
		t.Errorf("one secret too many: %v", err)
	}
	if err := next(MaxSecrets - 2); err != nil {
		t.Errorf("the secret that is in use already: %v", err)
	}
	if err := e.RekeyAnyway(t.Context(), filter.Secret{77}); err != nil {
		t.Errorf("a change that gives up the oldest: %v", err)
	}
	if got := e.Secrets(); len(got) != MaxSecrets || got[0] != (filter.Secret{77}) ||
		got[MaxSecrets-1] != (filter.Secret{0, 9}) {
		t.Errorf("%v after the oldest was given up", got)
	}
	if got := verdictOf(t, e, sig(bulkhead.Exact, 1)).Findings[0].Spam; got != MaxSecrets-1 {
		t.Errorf("%d votes, want those under the %d other secrets", got, MaxSecrets-1)
	}
	c.Advance(15 * 24 * time.Hour)
	report(t, e, bulkhead.Report{Signatures: []bulkhead.Signature{sig(bulkhead.Exact, 1)}}) // the clock opens generations
	if got := e.Secrets(); len(got) != 1 {
		t.Errorf("%d secrets after all generations of the others expired", len(got))
	}
	if err := next(7); err != nil {
		t.Error(err)
	}
}

// TestRekeyBusy: no report is lost and no check misses anything while the secret changes.
func TestRekeyBusy(t *testing.T) {
	e := open(t, Options{})
	known := sig(bulkhead.Exact, 1)
	report(t, e, bulkhead.Report{Signatures: []bulkhead.Signature{known}, Vote: bulkhead.Spam})
	const workers, each = 4, 200
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := range each {
				s := sig(bulkhead.Exact, 10+w*each+i)
				if _, err := e.Report(t.Context(), bulkhead.Report{Signatures: []bulkhead.Signature{s}, Count: 3}); err != nil {
					t.Error(err)
				}
				if i%2 == 0 {
					if err := e.Count(t.Context(), []bulkhead.Signature{s}, []uint32{2}); err != nil {
						t.Error(err)
					}
				}
				if v, err := e.Check(t.Context(), bulkhead.Query{Signatures: []bulkhead.Signature{known}}); err != nil ||
					v.Class != bulkhead.ClassSpam {
					t.Errorf("%v, %v", v.Class, err)
				}
			}
		})
	}
	for n := range byte(MaxSecrets - 1) {
		if err := e.Rekey(t.Context(), filter.Secret{n, 8}); err != nil {
			t.Error(err)
		}
	}
	wg.Wait()
	for i := range workers * each {
		want := uint32(3)
		if i%each%2 == 0 {
			want = 5
		}
		if got := verdictOf(t, e, sig(bulkhead.Exact, 10+i)).Findings[0].Sightings; got < want {
			t.Fatalf("signature %d: %d sightings, want %d", i, got, want)
		}
	}
}

// TestRekeyFails: if the change cannot be made durable, nothing changes. If a
// start finds another secret than the node stopped with, generations open
// under that.
func TestRekeyFails(t *testing.T) {
	dir, disk := filepath.Join(t.TempDir(), "data"), new(diskFS)
	e, st := openDurable(t, dir, Options{}, disk)
	known := []bulkhead.Signature{sig(bulkhead.Exact, 1)}
	report(t, e, bulkhead.Report{Signatures: known, Count: 7})
	disk.full.Store(true)
	other := filter.Secret{5}
	if err := e.Rekey(t.Context(), other); !errors.Is(err, bulkhead.ErrReadOnly) {
		t.Errorf("on a full disk: %v", err)
	}
	if got := e.Secrets(); len(got) != 1 || got[0] != testSecret {
		t.Errorf("secrets %v", got)
	}
	disk.full.Store(false)
	st.Close()
	e.Close(context.Background())
	st, err := store.Open(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), small(Options{Secret: other, Store: st})); !errors.Is(err, bulkhead.ErrGeometry) {
		t.Errorf("start with a secret of which nothing was made: %v", err)
	}
	st.Close()
	e, st = openDurable(t, dir, Options{Secret: other, Past: []filter.Secret{testSecret}}, nil)
	report(t, e, bulkhead.Report{Signatures: known, Count: 2})
	if got := verdictOf(t, e, known...).Findings[0].Sightings; got != 9 {
		t.Errorf("%d sightings, want 9", got)
	}
	for _, a := range e.Own() {
		if a.Geometry.KeyID != other.ID() {
			t.Errorf("an array of another network is shared: %+v", a)
		}
	}
	if err := errors.Join(e.Close(t.Context()), st.Close()); err != nil {
		t.Error(err)
	}
}

// BenchmarkRekeyed is a check of a message of 40 signatures that were seen every day, by a
// node whose network changed its secret 0 to 2 times in that week.
func BenchmarkRekeyed(b *testing.B) {
	for changes := range MaxSecrets {
		c := newClock()
		e := open(b, Options{Now: c.Now, Tally: BookOptions{Generation: 24 * time.Hour, Keep: 7, Capacity: 50_000,
			Error: 1e-3}})
		message := func(n int) (sigs []bulkhead.Signature) {
			for i := range 40 {
				sigs = append(sigs, sig(bulkhead.Near, 40*n+i))
			}
			return sigs
		}
		for day := range 7 {
			if day > 2 && day <= 2+changes {
				if err := e.Rekey(b.Context(), filter.Secret{byte(day)}); err != nil {
					b.Fatal(err)
				}
			}
			for n := range 500 {
				report(b, e, bulkhead.Report{Signatures: message(n)})
			}
			c.Advance(24 * time.Hour)
		}
		for _, tt := range []struct {
			name  string
			first int
		}{{"unknown", 500}, {"seen", 0}} {
			b.Run(fmt.Sprintf("%s/secrets=%d", tt.name, changes+1), func(b *testing.B) {
				var asked [500][]bulkhead.Signature
				for i := range asked {
					asked[i] = message(tt.first + i)
				}
				queries, verdicts := []bulkhead.Query{{Terse: true}}, make([]bulkhead.Verdict, 1)
				b.ReportAllocs()
				i := 0
				for b.Loop() {
					queries[0].Signatures = asked[i%500]
					if err := e.CheckBatch(b.Context(), queries, verdicts); err != nil {
						b.Fatal(err)
					}
					i++
				}
			})
		}
	}
}
