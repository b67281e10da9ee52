package engine

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
)

// TestRepeatedAfterRekey: a client without an answer repeats its report after the secret has changed.
func TestRepeatedAfterRekey(t *testing.T) {
	e := open(t, Options{})
	r := bulkhead.Report{Signatures: []bulkhead.Signature{sig(bulkhead.Exact, 1), sig(bulkhead.Near, 2)}, ID: "a"}
	report(t, e, r)
	if err := e.RekeyAll(t.Context(), filter.Secret{1, 9}); err != nil {
		t.Fatal(err)
	}
	if got := report(t, e, r); got.Counted != 0 || got.Duplicate != 2 {
		t.Errorf("repeated under another secret: %+v", got)
	}
	if got := verdictOf(t, e, r.Signatures[0]).Sightings; got != 1 {
		t.Errorf("%d sightings of one report", got)
	}
}

// TestRepeated repeats reports at random in later days, under later secrets, and after restarts. A map of the
// generations in which IDs were counted says how many count: each once, as long as that generation lives.
func TestRepeated(t *testing.T) {
	for seed := range uint64(3) {
		rng := rand.New(rand.NewPCG(seed, 36))
		c := newClock()
		opts := Options{Now: c.Now}
		dir := filepath.Join(t.TempDir(), "data")
		e, st := openDurable(t, dir, opts, nil)
		stop := func() {
			t.Helper()
			if err := errors.Join(e.Close(t.Context()), st.Close()); err != nil {
				t.Fatal(err)
			}
		}
		sigs := []bulkhead.Signature{sig(bulkhead.Exact, 1), sig(bulkhead.Near, 2)}
		counted := make(map[string]uint64) // by ID, the start of the generation
		for step := range 150 {
			switch rng.IntN(16) {
			case 0:
				c.Advance(time.Duration(rng.IntN(20)) * time.Hour)
			case 1:
				had := e.Secrets()
				err := e.RekeyAll(t.Context(), filter.Secret{byte(seed), byte(step), byte(step >> 8), 1})
				if err != nil && !errors.Is(err, bulkhead.ErrOverLimit) {
					t.Fatal(err)
				}
				if err == nil {
					opts.Secret, opts.Past = e.Secret(), had
				}
			case 2:
				stop()
				e, st = openDurable(t, dir, opts, nil)
			default:
				id := fmt.Sprint(max(0, len(counted)-rng.IntN(9)))
				got := report(t, e, bulkhead.Report{Signatures: sigs, ID: id})
				live := e.current.Books().Tally.Starts()
				known := slices.Contains(live, counted[id])
				if got.Counted == 0 != known {
					t.Fatalf("seed %d, step %d: report %s, known: %v: %+v", seed, step, id, known, got)
				}
				if !known {
					counted[id] = live[0]
				}
				want := uint32(0)
				for _, start := range counted {
					if slices.Contains(live, start) {
						want++
					}
				}
				if got := verdictOf(t, e, sigs[0]).Sightings; got != want {
					t.Fatalf("seed %d, step %d: %d sightings of %d reports", seed, step, got, want)
				}
			}
		}
		stop()
	}
}
