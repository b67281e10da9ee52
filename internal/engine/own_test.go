package engine

import (
	"errors"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/arrays"
	"github.com/bulkhead-mail/bulkhead/internal/engine/ballots"
	"github.com/bulkhead-mail/bulkhead/internal/engine/replica"
	"github.com/bulkhead-mail/bulkhead/internal/engine/resolve"
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
	off := recorder{}
	if off.begin(ArrayCounts, 1, first) != nil || begun != 0 {
		t.Error("recorded though nobody wants it")
	}
	r := recorder{on: true, rounds: make(map[replica.Key]*recording)}
	one := r.begin(ArrayCounts, 1, first)
	one.adds = maxRecorded
	if r.begin(ArrayCounts, 1, first) != one || begun != 1 {
		t.Error("what may be recorded was thrown away")
	}
	one.adds++
	if r.begin(ArrayCounts, 1, first) == one || begun != 2 {
		t.Error("more is recorded than may be")
	}
	if r.begin(ArraySpam, 1, first) == r.begin(ArrayCounts, 1, first) ||
		r.begin(ArrayCounts, 2, first) == r.begin(ArrayCounts, 1, first) {
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

// TestLeastEntries: entries of the smallest items that can be are read, and what claims
// to hold more items than it has bytes for takes no memory.
func TestLeastEntries(t *testing.T) {
	v := &votes{Counts: resolve.Adds{Keys: []filter.Key{}, N: []uint32{}}, Unique: []filter.Key{}, Voted: []filter.Key{},
		Spam: []filter.Key{}, Revoked: []filter.Key{}}
	v.Names, v.Weights = v.Counts, v.Counts
	for range 30 {
		v.Counts.Keys, v.Counts.N = append(v.Counts.Keys, filter.Key{}), append(v.Counts.N, 0)
		v.Late = append(v.Late, resolve.Late{Adds: v.Names})
		v.Credits = append(v.Credits, trust.Credit{})
		v.Ballots = append(v.Ballots, ballots.Ballot{Items: []ballots.Item{}})
	}
	got, err := decodeEntry(v.appendEntry(nil))
	if err != nil || !reflect.DeepEqual(got, v) {
		t.Errorf("decoded %+v, %v; want %+v", got, err, v)
	}
	for size := 1; size < 20; size++ {
		for n := range 4 {
			for left := range 60 {
				d := decoder{b: append([]byte{byte(n)}, make([]byte, left)...)}
				want, ok := n, n*size <= left
				if !ok {
					want = 0
				}
				if got := d.count(size); got != want || d.bad == ok || len(d.b) != left*btoi(ok) {
					t.Fatalf("%d items of %d bytes in %d: %d, bad %v", n, size, left, got, d.bad)
				}
			}
		}
	}
	d := decoder{b: append([]byte{1}, make([]byte, keyBytes)...)}
	if a := d.adds(); len(a.Keys) != 0 || len(a.N) != 0 || !d.bad {
		t.Errorf("adds without their numbers: %+v", a)
	}
	for limit, ok := range map[uint64]bool{6: false, 7: true} {
		d := decoder{b: []byte{7}}
		if got := d.small(limit); d.bad == ok || ok && got != 7 {
			t.Errorf("7 of at most %d: %d, bad %v", limit, got, d.bad)
		}
	}
	one := remoteBody{"x", sampleRemote().parts[:1]}
	if got, err := decodeEntry(one.entry()); err != nil || !reflect.DeepEqual(got, &one) {
		t.Errorf("one part: %+v, %v", got, err)
	}
	for range 99 {
		one.parts = append(one.parts, sampleRemote().parts...)
	}
	if n := testing.AllocsPerRun(10, func() { one.entry() }); n > 1 {
		t.Errorf("%v allocations for an entry whose size is known, want 1", n)
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// TestJournal: a node that refuses reports writes nothing, and the journal asks for a
// checkpoint when it has grown enough.
func TestJournal(t *testing.T) {
	e, st := openDurable(t, filepath.Join(t.TempDir(), "data"), Options{}, nil)
	defer st.Close()
	if err := e.Close(t.Context()); err != nil { // the requested checkpoint is never written
		t.Fatal(err)
	}
	for len(e.wake) > 0 {
		<-e.wake
	}
	e.opts.CheckpointBytes, e.journalBytes = 100, 0
	entries := e.Info().Entries
	for i, step := range []struct {
		bytes int
		asked int
	}{{60, 0}, {39, 0}, {1, 1}, {1, 1}} {
		index, err := e.journal(make([]byte, step.bytes))
		if err != nil || index != st.LastIndex() || e.Info().Entries != entries+uint64(i)+1 || len(e.wake) != step.asked {
			t.Errorf("entry %d: index %d, %v; asked for a checkpoint %d times, want %d", i, index, err, len(e.wake), step.asked)
		}
	}
	e.fail("test", errors.New("trouble"))
	first := e.Refusing()
	e.fail("test", errors.New("more trouble"))
	if e.Refusing() == first || !errors.Is(e.Refusing(), bulkhead.ErrReadOnly) {
		t.Errorf("refusing: %v", e.Refusing())
	}
	before := st.LastIndex()
	if index, err := e.journal([]byte{1}); !errors.Is(err, bulkhead.ErrReadOnly) || index != 0 ||
		st.LastIndex() != before {
		t.Errorf("written as %d while refusing: %v", index, err)
	}
	e.failed.Store(nil)
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if index, err := e.journal([]byte{1}); !errors.Is(err, bulkhead.ErrReadOnly) || index != 0 {
			t.Errorf("written as %d into a closed store: %v", index, err)
		}
	}
	if err := e.journalled(entryAccount, &accountChange{Put: &trust.Account{Name: "a",
		Role: trust.Member}}); !errors.Is(err, bulkhead.ErrReadOnly) || e.Accounts().Len() != 0 {
		t.Errorf("an account that was not written: %v, %d accounts", err, e.Accounts().Len())
	}
}
