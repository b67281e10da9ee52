package engine

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/store"
)

// A patient is a stopped engine's store with the counts it has acknowledged.
type patient struct {
	floor     uint32 // of its tally
	dir       string
	counts    []uint32 // of each signature, by its number
	backup    []byte
	votesFrom uint32
}

// newPatient counts signatures before a checkpoint, and after it, where only the
// journal has them; a backup was made in between.
func newPatient(t *testing.T) *patient {
	t.Helper()
	p := &patient{dir: filepath.Join(t.TempDir(), "store"), counts: make([]uint32, 3000)}
	st := p.store(t, nil)
	e := p.engine(t, st, nil)
	rng := rand.New(rand.NewPCG(7, 8))
	p.count(t, e, rng, 60)
	if err := e.checkpoint(t.Context(), e.queue.between); err != nil {
		t.Fatal(err)
	}
	p.count(t, e, rng, 30)
	var b bytes.Buffer
	if _, err := st.Backup(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	p.backup = b.Bytes()
	p.count(t, e, rng, 10)
	// No last checkpoint: the process was killed.
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *patient) count(t *testing.T, e *Engine, rng *rand.Rand, rounds int) {
	t.Helper()
	for range rounds {
		var sigs []bulkhead.Signature
		var n []uint32
		for _, i := range rng.Perm(len(p.counts))[:50] {
			by := 1 + rng.Uint32N(9)
			sigs, n = append(sigs, countSignature(t, bulkhead.DCCBody, i)), append(n, by)
			p.counts[i] += by
		}
		if err := e.Count(t.Context(), sigs, n); err != nil {
			t.Fatal(err)
		}
	}
}

func (p *patient) store(t *testing.T, salvage *store.Salvage) *store.Store {
	t.Helper()
	st, err := store.Open(p.dir, store.Options{Salvage: salvage})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	return st
}

func (p *patient) engine(t *testing.T, st *store.Store, refill *Refill) *Engine {
	t.Helper()
	block := DefaultBlocklist()
	block.Floor = p.votesFrom
	e, err := Open(t.Context(), Options{
		Store: st, Refill: refill,
		Tally: BookOptions{Generation: DefaultTally().Generation, Keep: 7, Capacity: 200_000, Error: 1e-6, Floor: p.floor},
		Block: block,
	})
	if err != nil {
		t.Fatal(err)
	}
	// One that a test calls killed has lost its store, and would keep its arrays.
	t.Cleanup(func() { _ = e.Close(context.Background()) })
	return e
}

// copy returns a copy of the patient to damage.
func (p *patient) copy(t *testing.T) *patient {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "store")
	if err := os.CopyFS(dir, os.DirFS(p.dir)); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{dir, filepath.Join(dir, "files"), filepath.Join(dir, "journal")} {
		if err := os.Chmod(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return &patient{p.floor, dir, p.counts, p.backup, p.votesFrom}
}

// refill returns what a backup gives back to a damaged store, as package node has it.
func (p *patient) refill(t *testing.T) (*Refill, map[uint64][]byte) {
	t.Helper()
	from := &patient{dir: filepath.Join(t.TempDir(), "backup")}
	info, err := store.Restore(t.Context(), bytes.NewReader(p.backup), from.dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	st := from.store(t, nil)
	entries := make(map[uint64][]byte)
	err = st.Replay(t.Context(), st.Manifest().Start, func(i uint64, b []byte) error {
		entries[i] = bytes.Clone(b)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	e := from.engine(t, st, nil)
	t.Cleanup(func() { e.Close(t.Context()) })
	return &Refill{From: e, Index: info.LastIndex}, entries
}

// low returns the number of counts that are lower than acknowledged. A higher count is an error.
func (p *patient) low(t *testing.T, e *Engine, what string) (low int) {
	t.Helper()
	sigs := make([]bulkhead.Signature, len(p.counts))
	for i := range sigs {
		sigs[i] = countSignature(t, bulkhead.DCCBody, i)
	}
	seen := make([]bulkhead.Look, len(sigs))
	if err := e.Look(t.Context(), sigs, seen, bulkhead.Counts); err != nil {
		t.Fatal(err)
	}
	for i, want := range p.counts {
		got := seen[i].Sightings
		if got > want {
			t.Errorf("%s: signature %d counts %d, acknowledged were %d", what, i, got, want)
		}
		if got < want {
			low++
		}
	}
	return low
}

// heal opens the damaged store, and looks at what it holds, twice: as it was salvaged,
// and after a restart, which must find nothing wrong.
func (p *patient) heal(t *testing.T, what string, refill *Refill, entries map[uint64][]byte) (low int, doubts []Doubt) {
	t.Helper()
	st := p.store(t, &store.Salvage{Aside: filepath.Join(filepath.Dir(p.dir), "aside"), Entries: entries})
	e := p.engine(t, st, refill)
	low, doubts = p.low(t, e, what), e.Doubts()
	if low > 0 && len(doubts) == 0 {
		t.Errorf("%s: %d counts are low, and nobody says so", what, low)
	}
	counted := &patient{p.floor, p.dir, append([]uint32(nil), p.counts...), nil, p.votesFrom}
	counted.count(t, e, rand.New(rand.NewPCG(9, 9)), 5)
	if again := counted.low(t, e, what+", counted on"); again > low {
		t.Errorf("%s: %d counts are low, and %d once more was counted", what, low, again)
	}
	if err := e.Close(t.Context()); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	st.Close()
	if n, err := store.Inspect(t.Context(), p.dir); err != nil || len(n.Faults) > 0 {
		t.Fatalf("%s: after the repair: %+v, %v", what, n, err)
	}
	st = counted.store(t, nil)
	e = counted.engine(t, st, nil)
	if again := counted.low(t, e, what+", restarted"); again > low || len(e.Doubts()) != len(doubts) {
		t.Errorf("%s: %d counts are low, and %d after a restart; doubts %v, and %v", what, low, again, doubts, e.Doubts())
	}
	e.Close(t.Context())
	return low, doubts
}

// TestSalvage damages every file of a store in every way. No loss makes a count too high, a count
// that is too low is reported, and with a backup nothing is lost: the backup and the journal
// together have everything.
func TestSalvage(t *testing.T) {
	whole := newPatient(t)
	var paths []string
	err := fs.WalkDir(os.DirFS(whole.dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && path != "LOCK" {
			paths = append(paths, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	refill, entries := whole.refill(t)
	rng := rand.New(rand.NewPCG(11, 12))
	tried := 0
	for _, path := range paths {
		before, err := os.ReadFile(filepath.Join(whole.dir, path))
		if err != nil {
			t.Fatal(err)
		}
		other := bytes.Repeat([]byte("not what was written "), len(before)/21+1)[:len(before)]
		damage := map[string][]byte{
			"bit":      flipped(before, rng.IntN(len(before)), 1<<rng.IntN(8)),
			"byte":     flipped(before, rng.IntN(len(before)), 0xff),
			"cut":      before[:rng.IntN(len(before))],
			"deleted":  nil,
			"appended": append(bytes.Clone(before), other[:min(100, len(other))]...),
			"replaced": other,
		}
		for _, how := range slices.Sorted(maps.Keys(damage)) {
			after := damage[how]
			for _, with := range []string{"nothing", "a backup"} {
				if tried++; testing.Short() && tried%6 != 0 {
					continue
				}
				what := fmt.Sprintf("%s %s, with %s", path, how, with)
				p := whole.copy(t)
				file := filepath.Join(p.dir, path)
				if after == nil {
					err = os.Remove(file)
				} else {
					err = os.WriteFile(file, after, 0o600)
				}
				if err != nil {
					t.Fatal(err)
				}
				var low int
				var doubts []Doubt
				if with == "nothing" {
					low, doubts = p.heal(t, what, nil, nil)
				} else {
					low, doubts = p.heal(t, what, refill, entries)
				}
				journal := strings.HasPrefix(path, "journal/")
				switch {
				case how == "bit" && (low > 0 || journal && len(doubts) > 0):
					t.Errorf("%s: one flipped bit costs %d counts; %v", what, low, doubts)
				case with == "a backup" && !journal && (low > 0 || len(doubts) > 0):
					t.Errorf("%s: %d counts are low; %v", what, low, doubts)
				case how == "deleted" && strings.HasPrefix(path, "files/counts-") && with == "nothing" && low == 0:
					t.Errorf("%s: nothing is lost: this test sees nothing", what)
				}
			}
		}
	}
}

func flipped(b []byte, at, mask int) []byte {
	b = bytes.Clone(b)
	b[at] ^= byte(mask)
	return b
}
