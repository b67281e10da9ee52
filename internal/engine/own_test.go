package engine

import (
	"encoding/json"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/arrays"
	"github.com/bulkhead-mail/bulkhead/internal/engine/codec"
	"github.com/bulkhead-mail/bulkhead/internal/engine/replica"
	"github.com/bulkhead-mail/bulkhead/internal/store"
	"github.com/bulkhead-mail/bulkhead/internal/testing/await"
	"github.com/bulkhead-mail/bulkhead/internal/trust"
)

// TestRecording: a round continues the one before, and begins where images were made, and only
// there.
func TestRecording(t *testing.T) {
	array, err := arrays.NewCounting(filter.Geometry{Kind: filter.Cells, Lines: filter.PageLines, K: 4})
	if err != nil {
		t.Fatal(err)
	}
	rec := &recording{rounds: []*arrays.Round{array.NewRound()}}
	total := 0
	add := func(n int) {
		total += n
		keys, ones, before := make([]filter.Key, n), make([]uint32, n), make([]uint32, n)
		for i := range keys {
			keys[i], ones[i] = filter.Key{Hi: uint64(total), Lo: uint64(i)}, 1
		}
		rec.note(func(r *arrays.Round) { r.Record(keys, ones, before) })
	}
	lens := func() (out []int) {
		from := rec.rounds[0].From
		for _, r := range rec.rounds {
			if r.From != from {
				t.Errorf("a round from %d after one to %d", r.From, from)
			}
			from += uint64(r.Len())
			out = append(out, r.Len())
		}
		if rec.adds != total {
			t.Errorf("%d adds are noted, want %d", rec.adds, total)
		}
		return out
	}
	rec.cut = true // where nothing was recorded, no round ends
	for _, step := range []struct {
		add  int
		cut  bool
		want []int
	}{
		{maxRound - 1, false, []int{maxRound - 1}},
		{1, false, []int{maxRound}},
		{1, false, []int{maxRound + 1}},
		{1, true, []int{maxRound + 1, 1}},
		{2, false, []int{maxRound + 1, 3}},
		{2*maxRound - 2, false, []int{maxRound + 1, 2*maxRound + 1}},
		{0, true, []int{maxRound + 1, 2*maxRound + 1}},
		{1, false, []int{maxRound + 1, 2*maxRound + 1, 1}},
	} {
		rec.cut = rec.cut || step.cut
		if add(step.add); !slices.Equal(lens(), step.want) {
			t.Errorf("after %d more, cut %v: rounds of %v, want %v", step.add, step.cut, lens(), step.want)
		}
	}
	begun := 0
	first := func() *arrays.Round { begun++; return array.NewRound() }
	key := replica.Key{Array: ArrayCounts, Start: 1}
	idle := recorder{}
	if idle.begin(key, first) != nil || begun != 0 {
		t.Error("recorded though nobody wants it")
	}
	r := recorder{on: true, rounds: make(map[replica.Key]*recording)}
	one := r.begin(key, first)
	one.adds = maxRecorded
	if r.begin(key, first) != one || begun != 1 {
		t.Error("what may be recorded was thrown away")
	}
	one.adds++
	if r.begin(key, first) == one || begun != 2 {
		t.Error("more is recorded than may be")
	}
	if r.begin(replica.Key{Array: ArraySpam, Start: 1}, first) == r.begin(key, first) ||
		r.begin(replica.Key{Array: ArrayCounts, Start: 2}, first) == r.begin(key, first) {
		t.Error("two arrays share their rounds")
	}
}

// TestAbsentArrays: there are no images of an absent array, of maps, or of a
// closed engine.
func TestAbsentArrays(t *testing.T) {
	e, err := Open(t.Context(), small(Options{}))
	if err != nil {
		t.Fatal(err)
	}
	exact := open(t, Options{Exact: true})
	for _, on := range []*Engine{e, exact} {
		if err := on.Record(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		report(t, on, bulkhead.Report{Signatures: []bulkhead.Signature{sig(bulkhead.Exact, 1)}, Vote: bulkhead.Spam})
	}
	if parts, own, err := exact.TakeRounds(t.Context()); err != nil || len(parts)+len(own) != 0 {
		t.Errorf("maps have %d rounds of %d arrays, %v", len(parts), len(own), err)
	}
	own := e.Own()
	var arrays []Array
	for _, a := range own {
		arrays = append(arrays, a.Array)
	}
	if !slices.Equal(arrays, []Array{ArrayCounts, ArraySpam, ArrayRevoked}) {
		t.Fatalf("own arrays %v", arrays)
	}
	for name, tt := range map[string]struct {
		e     *Engine
		array Array
		start uint64
	}{
		"counts of another generation": {e, ArrayCounts, 12345}, "lists of another generation": {e, ArraySpam, 12345},
		"an array that is not shared": {e, "weights", own[1].Start}, "maps": {exact, ArrayCounts, own[0].Start},
	} {
		if version, parts, err := tt.e.Images(t.Context(), tt.array, tt.start); !errors.Is(err, bulkhead.ErrMalformed) ||
			version != 0 || parts != nil {
			t.Errorf("%s: %d images at %d, %v", name, len(parts), version, err)
		}
	}
	for _, a := range own {
		version, parts, err := e.Images(t.Context(), a.Array, a.Start)
		if err != nil || version != a.Version || len(parts) != int((a.Geometry.Lines+filter.PageLines-1)/filter.PageLines) {
			t.Errorf("%s: %d images at %d, %v; want them at %d", a.Array, len(parts), version, err, a.Version)
		}
	}
	if err := e.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if version, parts, err := e.Images(t.Context(), ArraySpam, own[1].Start); !errors.Is(err, bulkhead.ErrReadOnly) ||
		version != 0 || parts != nil {
		t.Errorf("of a closed engine: %d images at %d, %v", len(parts), version, err)
	}
	if parts, own, err := e.TakeRounds(t.Context()); !errors.Is(err, bulkhead.ErrReadOnly) || parts != nil || own != nil {
		t.Errorf("of a closed engine: %d rounds, %v", len(parts), err)
	}
}

// TestNothingTaken: there are no rounds of arrays that took nothing.
func TestNothingTaken(t *testing.T) {
	e := open(t, Options{})
	if err := e.Record(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	report(t, e, bulkhead.Report{Signatures: []bulkhead.Signature{sig(bulkhead.Exact, 1)}})
	for _, want := range []int{1, 0} {
		if parts, _, err := e.TakeRounds(t.Context()); err != nil || len(parts) != want {
			t.Errorf("%d rounds, %v; want %d", len(parts), err, want)
		}
	}
	if err := e.Record(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	report(t, e, bulkhead.Report{Signatures: []bulkhead.Signature{sig(bulkhead.Exact, 2)}})
	if parts, _, err := e.TakeRounds(t.Context()); err != nil || len(parts) != 0 {
		t.Errorf("%d rounds of a node that records none, %v", len(parts), err)
	}
}

// TestJournal: a node that refuses reports writes nothing, and the journal asks for a
// checkpoint when it has grown enough.
func TestJournal(t *testing.T) {
	e, st := openDurable(t, filepath.Join(t.TempDir(), "data"), Options{}, nil)
	defer st.Close()
	if err := e.Close(t.Context()); err != nil { // the requested checkpoint is never written
		t.Fatal(err)
	}
	for len(e.journal.wake) > 0 {
		<-e.journal.wake
	}
	e.journal.limit, e.journal.bytes = 100, 0
	entries := e.Info().Entries
	for i, step := range []struct {
		bytes int
		asked int
	}{{60, 0}, {39, 0}, {1, 1}, {1, 1}} {
		index, err := e.journal.append(make([]byte, step.bytes))
		if err != nil || index != st.LastIndex() || e.Info().Entries != entries+uint64(i)+1 ||
			len(e.journal.wake) != step.asked {
			t.Errorf("entry %d: index %d, %v; asked for a checkpoint %d times, want %d", i, index, err,
				len(e.journal.wake), step.asked)
		}
	}
	e.journal.fail("test", errors.New("trouble"))
	first := e.Refusing()
	e.journal.fail("test", errors.New("more trouble"))
	if e.Refusing() == first || !errors.Is(e.Refusing(), bulkhead.ErrReadOnly) {
		t.Errorf("refusing: %v", e.Refusing())
	}
	before := st.LastIndex()
	if index, err := e.journal.append([]byte{1}); !errors.Is(err, bulkhead.ErrReadOnly) || index != 0 ||
		st.LastIndex() != before {
		t.Errorf("written as %d while refusing: %v", index, err)
	}
	e.journal.failed.Store(nil)
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if index, err := e.journal.append([]byte{1}); !errors.Is(err, bulkhead.ErrReadOnly) || index != 0 {
			t.Errorf("written as %d into a closed store: %v", index, err)
		}
	}
	if err := e.commit(&codec.Account{Put: &trust.Account{Name: "a",
		Role: trust.Member}}); !errors.Is(err, bulkhead.ErrReadOnly) || e.Accounts().Len() != 0 {
		t.Errorf("an account that was not written: %v, %d accounts", err, e.Accounts().Len())
	}
}

// TestOldEntries: a node does not start with entries of an older version, and says how
// to go on.
func TestOldEntries(t *testing.T) {
	st, err := store.Open(filepath.Join(t.TempDir(), "data"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	if _, err := st.Append([]byte("A\x01{}")); err != nil {
		t.Fatal(err)
	}
	var damage *store.DamageError
	_, err = Open(t.Context(), small(Options{Store: st}))
	if !errors.As(err, &damage) || !strings.Contains(err.Error(), "restore it with the program that made it") {
		t.Errorf("opened with an old entry: %v", err)
	}
}

// TestConverted: a node that was opened with a checkpoint of an older version writes one of its own at once.
func TestConverted(t *testing.T) {
	st, err := store.Open(filepath.Join(t.TempDir(), "data"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	meta, err := json.Marshal(codec.Meta{Version: 1, KeyID: testSecret.ID(), Accounts: "accounts"})
	if err == nil {
		err = st.Checkpoint(t.Context(), 1, meta, []store.File{{Name: "accounts", Write: func(w io.Writer) error {
			_, err := io.WriteString(w, "[]")
			return err
		}}})
	}
	if err != nil {
		t.Fatal(err)
	}
	e, err := Open(t.Context(), small(Options{Store: st, CheckpointEvery: time.Hour}))
	if err != nil {
		t.Fatal(err)
	}
	await.True(t, "a checkpoint of this version was written", func() bool {
		return Former(st.Manifest().Meta) == 0
	})
	if err := e.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}
