package book

import (
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/arrays"
)

const day = 24 * time.Hour

var monday = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)

var tallyOptions = Options{Generation: day, Keep: 3, Capacity: 100, Error: 1e-2}

// fill adds n keys to a counting array, from the given number on.
func fill(c Counter, from, n int) {
	ks, ones := make([]filter.Key, n), make([]uint32, n)
	for i := range ks {
		ks[i], ones[i] = filter.Key{Hi: uint64(from + i), Lo: uint64(from+i) * 0x9e3779b97f4a7c15}, 1
	}
	c.AddBatch(1, ks, ones, nil)
}

// turn plans and applies the change that is due.
func turn[S spec, G generation](t *testing.T, k *Keeper[S, G], b Book[G], now time.Time) (Book[G], Change[S]) {
	t.Helper()
	c, err := k.Plan(b, now, false)
	if err != nil {
		t.Fatal(err)
	}
	next, err := k.Apply(b, c)
	if err != nil {
		t.Fatal(err)
	}
	again, err := k.Apply(next, c)
	if err != nil || !reflect.DeepEqual(again, next) {
		t.Fatalf("applied twice: %v, %v, want %v", again, err, next)
	}
	return next, c
}

func starts[G generation](b Book[G]) (out []uint64) {
	for _, g := range b.Live {
		out = append(out, g.begin())
	}
	return out
}

// TestDays checks that a generation opens at each midnight, and that the book keeps the right
// number of generations, even if it is not used for some days.
func TestDays(t *testing.T) {
	k := NewTally(tallyOptions, 10, 7, true, slog.New(slog.DiscardHandler))
	var b Book[*Tally]
	midnight := uint64(monday.Truncate(day).Unix())
	const length = uint64(day / time.Second)
	for _, tt := range []struct {
		days float64
		want []uint64
	}{
		{0, []uint64{midnight}},
		{0.5, []uint64{midnight}},
		{0.7, []uint64{midnight + length, midnight}},
		{1.7, []uint64{midnight + 2*length, midnight + length, midnight}},
		{2.7, []uint64{midnight + 3*length, midnight + 2*length, midnight + length}},
		{2.8, []uint64{midnight + 3*length, midnight + 2*length, midnight + length}},
		{4.7, []uint64{midnight + 5*length, midnight + 3*length}},
		{400, []uint64{midnight + 400*length}},
	} {
		now := monday.Add(time.Duration(tt.days * float64(day)))
		b, _ = turn(t, k, b, now)
		if got := starts(b); !slices.Equal(got, tt.want) {
			t.Errorf("after %v days: generations of %v, want %v", tt.days, got, tt.want)
		}
		for _, start := range tt.want {
			if g := b.Find(start); g == nil || g.Start != start {
				t.Errorf("generation of %d is not found", start)
			}
		}
		if g := b.Find(1); g != nil {
			t.Errorf("found a generation of %d, want none", g.Start)
		}
	}
}

// TestFull checks that when a generation is full the next one opens at once, and is larger.
func TestFull(t *testing.T) {
	k := NewTally(tallyOptions, 10, 7, true, slog.New(slog.DiscardHandler))
	b, _ := turn(t, k, Book[*Tally]{}, monday.Truncate(day))
	now := monday.Truncate(day).Add(6 * time.Hour)
	fill(b.Live[0].Counts, 0, 125)
	if got, c := turn(t, k, b, now); !c.Empty() || len(got.Live) != 1 {
		t.Errorf("filled to %v: %+v, want nothing to change", b.Live[0].Fill(), c)
	}
	fill(b.Live[0].Counts, 125, 1)
	b, c := turn(t, k, b, now)
	if c.Open == nil || c.Open.Start != uint64(now.Unix()) || len(b.Live) != 2 {
		t.Fatalf("filled to %v: %+v, want a generation from %d on", b.Live[0].Fill(), c, now.Unix())
	}
	if got := float64(c.Open.Capacity) / 126; got < 1.25 || got > 1.25*math.Sqrt2+0.01 {
		t.Errorf("the next one is sized for %d signatures, want 1.25 to 1.77 times 126", c.Open.Capacity)
	}
	if c.Open.UniqueCapacity != 10 {
		t.Errorf("the next one is sized for %d reports, want no fewer than the first", c.Open.UniqueCapacity)
	}
	for n := range 3 { // reports also fill it
		b.Live[0].Unique.SetBatch(1, []filter.Key{{Hi: uint64(n), Lo: 1}}, nil)
	}
	if got := b.Live[0].Fill(); got != 0.3 {
		t.Errorf("filled to %v with 3 keys of 10 reports, want 0.3", got)
	}
}

// TestWithinASecond checks that starts run ahead of the clock a little, and no further.
func TestWithinASecond(t *testing.T) {
	k := NewTally(Options{Generation: time.Hour, Keep: 2, Capacity: 1, Error: 0.1}, 1, 7, true,
		slog.New(slog.DiscardHandler))
	b, _ := turn(t, k, Book[*Tally]{}, monday)
	opened := 0
	for range 200 {
		fill(b.Live[0].Counts, 0, int(2*b.Live[0].Capacity))
		var c Change[TallySpec]
		if b, c = turn(t, k, b, monday.Add(time.Second)); c.Open != nil {
			opened++
		}
		b.Live[0].Capacity = min(b.Live[0].Capacity, 2) // it would grow past all memory
	}
	if ahead := int64(b.Live[0].Start) - monday.Add(time.Second).Unix(); ahead != 60 || opened != 61 {
		t.Errorf("%d generations, the last one %d seconds ahead of the clock, want 61 and 60", opened, ahead)
	}
	if len(b.Live) != 62 {
		t.Errorf("%d live, want all of this hour", len(b.Live))
	}
}

// TestShort checks that starts of generations of a few seconds run ahead by at most half
// their length: peers take none that is further ahead than its length.
func TestShort(t *testing.T) {
	for _, seconds := range []int64{2, 9, 10, 60, 120, 600} {
		o := Options{Generation: time.Duration(seconds) * time.Second, Keep: 2, Capacity: 1, Error: 0.1}
		k := NewTally(o, 1, 7, true, slog.New(slog.DiscardHandler))
		b, _ := turn(t, k, Book[*Tally]{}, monday)
		for range 100 {
			fill(b.Live[0].Counts, 0, int(2*b.Live[0].Capacity))
			b, _ = turn(t, k, b, monday)
			b.Live[0].Capacity = 2
		}
		if ahead := int64(b.Live[0].Start) - monday.Unix(); ahead != min(60, seconds/2) {
			t.Errorf("generations of %d s: %d s ahead, want %d", seconds, ahead, min(60, seconds/2))
		}
	}
}

// TestBehind checks that generations are dropped by their number while the clock is far behind the
// open one, since it is unknown whether the clock was wrong then or is wrong now.
func TestBehind(t *testing.T) {
	k := NewTally(tallyOptions, 10, 7, true, slog.New(slog.DiscardHandler))
	year := monday.Add(365 * day)
	b, _ := turn(t, k, Book[*Tally]{}, year)
	first := b.Live[0].Start
	for _, tt := range []struct {
		hours int
		want  []uint64
	}{
		{0, []uint64{first}},
		{23, []uint64{first}},
		{24, []uint64{first + 1, first}},
		{47, []uint64{first + 1, first}},
		{48, []uint64{first + 2, first + 1, first}},
		{72, []uint64{first + 3, first + 2, first + 1}},
	} {
		now := monday.Add(time.Duration(tt.hours) * time.Hour)
		var c Change[TallySpec]
		b, c = turn(t, k, b, now)
		if n := k.GivenUp(c, now); n != 0 {
			t.Errorf("after %d hours: %d given up for want of memory, want none", tt.hours, n)
		}
		if got := starts(b); !slices.Equal(got, tt.want) {
			t.Errorf("after %d hours: generations of %v, want %v", tt.hours, got, tt.want)
		}
	}
	fill(b.Live[0].Counts, 0, 126)
	b, _ = turn(t, k, b, monday.Add(73*time.Hour))
	if got := starts(b)[0]; got != first+4 {
		t.Errorf("the full one is followed by %d, want %d", got, first+4)
	}
}

// TestBehindForAMoment checks that a clock that was right in between has not been behind all
// the time.
func TestBehindForAMoment(t *testing.T) {
	k := NewTally(tallyOptions, 10, 7, true, slog.New(slog.DiscardHandler))
	year := monday.Add(365 * day)
	b, _ := turn(t, k, Book[*Tally]{}, year)
	for _, now := range []time.Time{monday, year, monday.Add(25 * time.Hour)} {
		var c Change[TallySpec]
		if b, c = turn(t, k, b, now); !c.Empty() {
			t.Errorf("at %v: %+v, want nothing to change", now, c)
		}
	}
}

// TestGivenUp checks that among the generations that a change drops, only unexpired ones count as
// given up.
func TestGivenUp(t *testing.T) {
	k := NewTally(tallyOptions, 10, 7, true, slog.New(slog.DiscardHandler))
	today := uint64(monday.Truncate(day).Unix())
	c := Change[TallySpec]{Drop: []uint64{today, today - 2*86400, today - 3*86400}, From: today + 1}
	if n := k.GivenUp(c, monday); n != 2 {
		t.Errorf("%d given up, want 2", n)
	}
}

// TestArrays checks that the arrays of a generation record the generation that they belong to, and
// that its bytes are the sum of theirs.
func TestArrays(t *testing.T) {
	tally := NewTally(tallyOptions, 10, 7, false, slog.New(slog.DiscardHandler))
	b, _ := turn(t, tally, Book[*Tally]{}, monday)
	checkArrays(t, tally, b, b.Live[0].Start, b.Live[0].Counts, b.Live[0].Unique)
	block := NewBlocklist(tallyOptions, 10, 20, 7, false, slog.New(slog.DiscardHandler))
	c, _ := turn(t, block, Book[*Block]{}, monday)
	g := c.Live[0]
	checkArrays(t, block, c, g.Start, g.Spam, g.Revoked, g.Weights, g.Votes, g.Names)
}

func checkArrays[S spec, G generation](t *testing.T, k *Keeper[S, G], b Book[G], start uint64, all ...any) {
	t.Helper()
	var bytes uint64
	for _, array := range all {
		a := array.(interface {
			Geometry() filter.Geometry
			NewRound() *arrays.Round
		})
		if r := a.NewRound(); r.Generation != start || r.Geometry.KeyID != 7 {
			t.Errorf("array of generation %d for the keys of %d, want %d and 7", r.Generation, r.Geometry.KeyID, start)
		}
		bytes += a.Geometry().Bytes()
	}
	if first, err := k.First(); b.Bytes() != bytes || first != bytes || err != nil {
		t.Errorf("%d bytes, %d of the first generation, %v; want %d", b.Bytes(), first, err, bytes)
	}
}

// TestMemory checks that a generation takes at most a quarter of the memory, and that the
// oldest are given up where not all have room, except the one before the open one.
func TestMemory(t *testing.T) {
	o := Options{Generation: day, Keep: 20, Capacity: 1000, Error: 1e-3}
	least, err := NewTally(o, 100, 7, false, nil).First()
	if err != nil {
		t.Fatal(err)
	}
	o.Memory = 12 * least
	k := NewTally(o, 100, 7, true, slog.New(slog.DiscardHandler))
	var b Book[*Tally]
	var given uint64
	for i := range 12 {
		now := monday.Add(time.Duration(i) * day)
		next, c := turn(t, k, b, now)
		if n := k.GivenUp(c, now); n != uint64(len(b.Live)+1-len(next.Live)) || (n > 0) != (c.From > 0) {
			t.Errorf("day %d: %d given up of %d, %d live, from %d", i, n, len(b.Live), len(next.Live), c.From)
		} else {
			given += n
		}
		if b = next; b.Bytes() > o.Memory || b.Live[0].bytes() > o.Memory/4 {
			t.Errorf("day %d: %d bytes, of which the open one has %d, limit %d", i, b.Bytes(), b.Live[0].bytes(), o.Memory)
		}
		if oldest := b.Live[len(b.Live)-1].Start; b.From > oldest || given > 0 && b.From == 0 {
			t.Errorf("day %d: given up below %d, the oldest is of %d", i, b.From, oldest)
		}
		fill(b.Live[0].Counts, 0, 100_000)
	}
	if given == 0 || len(b.Live) < 2 {
		t.Errorf("%d given up, %d live; want some, and two", given, len(b.Live))
	}
	o.Memory = 1
	k = NewTally(o, 100, 7, true, slog.New(slog.DiscardHandler))
	b = Book[*Tally]{}
	for i := range 4 {
		b, _ = turn(t, k, b, monday.Add(time.Duration(i)*day))
	}
	if len(b.Live) != 2 {
		t.Errorf("%d generations in memory for none, want the open one and the one before", len(b.Live))
	}
}

func TestSmaller(t *testing.T) {
	least := keys{1000, 100, 10}
	for capacity := (keys{50_000, 2000, 900}); capacity != least; {
		next := capacity.smaller(least)
		var most, changed int
		for i := range capacity {
			if capacity[i]*least[most] > capacity[most]*least[i] {
				most = i
			}
			if next[i] != capacity[i] {
				changed = i
				if r := float64(next[i]) / float64(capacity[i]); next[i] < least[i] || r < 0.5 || r >= 1 {
					t.Fatalf("%v is followed by %v, want a little less", capacity, next)
				}
			}
		}
		if changed != most || next == capacity {
			t.Fatalf("%v is followed by %v", capacity, next)
		}
		capacity = next
	}
	for capacity := (keys{5000}); capacity[signatures] > 1000; {
		next := capacity.smaller(keys{1000})
		if next[marks] != 0 || next[signatures] >= capacity[signatures] || next[signatures] < 1000 {
			t.Fatalf("%v is followed by %v", capacity, next)
		}
		capacity = next
	}
	if got := (keys{5000, 5000, 5000}).after(keys{100}); got[marks] != 0 || got[names] != 0 {
		t.Errorf("a book of signatures alone is sized for %v", got)
	}
}

// TestBlocklist checks that revocations count four times, and that the arrays are as full
// as the error, summed over all live generations, allows.
func TestBlocklist(t *testing.T) {
	o := Options{Generation: 7 * day, Keep: 8, Capacity: 1000, Error: 1e-4}
	k := NewBlocklist(o, 100, 100, 7, false, slog.New(slog.DiscardHandler))
	b, _ := turn(t, k, Book[*Block]{}, monday)
	g := b.Live[0]
	for name, e := range map[string]float64{"spam": g.SpamGeometry.GhostError(1000),
		"revoked": g.RevokedGeometry.GhostError(250)} {
		if each := 1e-4 / 8; e > each || e < each/10 {
			t.Errorf("%s: error %.2g when full, want %.2g or a little less", name, e, each)
		}
	}
	if g.SpamGeometry.KeyID != 7 || g.RevokedGeometry.KeyID != 7 {
		t.Errorf("arrays for the keys of %d and %d, want 7", g.SpamGeometry.KeyID, g.RevokedGeometry.KeyID)
	}
	g, err := NewBlocklist(o, 100, 100, 7, true, nil).Make(g.BlockSpec)
	if err != nil {
		t.Fatal(err)
	}
	made, err := k.Make(g.BlockSpec)
	if err != nil {
		t.Fatal(err)
	}
	for _, bits := range []Bitset{made.Spam, made.Revoked} {
		if got := bits.(*arrays.Bits).Generation(); got != g.Start {
			t.Errorf("array of generation %d, want %d", got, g.Start)
		}
	}
	for n := range uint64(100) {
		g.Revoked.SetBatch(1, []filter.Key{{Hi: n}}, nil)
		g.Spam.SetBatch(1, []filter.Key{{Hi: n}, {Lo: n}}, nil)
	}
	if got := g.Fill(); got != 0.4 {
		t.Errorf("100 revocations fill a generation for 1000 to %v, want 0.4", got)
	}
	for n := range uint64(126) {
		if g.NamesFull() {
			t.Errorf("full with %d names, sized for 100", n)
		}
		g.Names.AddBatch(1, []filter.Key{{Hi: n}}, []uint32{1}, nil)
	}
	if got := g.Fill(); got != 0.4 || !g.NamesFull() {
		t.Errorf("126 names fill it to %v, full of names: %v, want 0.4 as before and true", got, g.NamesFull())
	}
	g.Weights.AddBatch(1, []filter.Key{{Hi: 1}}, []uint32{1}, nil)
	for n := range uint64(50) {
		g.Votes.SetBatch(1, []filter.Key{{Hi: n}}, nil)
	}
	if got := g.Fill(); got != 0.5 {
		t.Errorf("50 votes fill a generation for 100 to %v, want 0.5", got)
	}
}

// TestStored checks that the form of a generation in the journal has not changed.
func TestStored(t *testing.T) {
	tally := TallySpec{Start: 1, Capacity: 2, UniqueCapacity: 3}
	tally.CountsGeometry.Lines, tally.UniqueGeometry.Lines = 4, 6
	block := BlockSpec{Start: 7, Capacity: 8, VoteCapacity: 11, NameCapacity: 12}
	block.SpamGeometry.Lines, block.RevokedGeometry.Lines = 9, 10
	block.WeightsGeometry.Lines, block.VotesGeometry.Lines, block.NamesGeometry.Lines = 13, 14, 15
	for _, tt := range []struct {
		spec any
		want map[string]float64 // a number, or the lines of an array
	}{
		{tally, map[string]float64{"start": 1, "capacity": 2, "unique_capacity": 3, "counts": 4, "unique": 6}},
		{block, map[string]float64{"start": 7, "capacity": 8, "vote_capacity": 11, "name_capacity": 12, "spam": 9,
			"revoked": 10, "weights": 13, "votes": 14, "names": 15}},
	} {
		data, err := json.Marshal(tt.spec)
		if err != nil {
			t.Fatal(err)
		}
		var got map[string]any
		if err := json.Unmarshal(data, &got); err != nil {
			t.Fatal(err)
		}
		for name, want := range tt.want {
			n, ok := got[name].(float64)
			if array, is := got[name].(map[string]any); is {
				n, ok = array["Lines"].(float64)
			}
			if !ok || n != want {
				t.Errorf("%s of %s is %v, want %v", name, data, got[name], want)
			}
		}
		if len(got) != len(tt.want) {
			t.Errorf("%s, want %d fields", data, len(tt.want))
		}
	}
}

func TestOptions(t *testing.T) {
	good := Options{Generation: time.Hour, Keep: 3, Capacity: 10, Error: 0.1}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for _, change := range []func(*Options){
		func(o *Options) { o.Generation = time.Second },
		func(o *Options) { o.Keep = 1 },
		func(o *Options) { o.Keep = 366 },
		func(o *Options) { o.Capacity = 1 },
		func(o *Options) { o.Capacity = 1 << 40 },
		func(o *Options) { o.Error = math.SmallestNonzeroFloat64 },
		func(o *Options) { o.Error = math.Nextafter(1, 0) },
	} {
		o := good
		change(&o)
		if err := o.Validate(); err != nil {
			t.Errorf("%+v: %v", o, err)
		}
	}
	for _, change := range []func(*Options){
		func(o *Options) { o.Generation = time.Second - 1 },
		func(o *Options) { o.Keep = 0 },
		func(o *Options) { o.Keep = 367 },
		func(o *Options) { o.Capacity = 0 },
		func(o *Options) { o.Capacity = 1<<40 + 1 },
		func(o *Options) { o.Error = 0 },
		func(o *Options) { o.Error = 1 },
		func(o *Options) { o.Error = math.NaN() },
	} {
		bad := good
		change(&bad)
		if bad.Validate() == nil {
			t.Errorf("%+v is valid", bad)
		}
	}
	// At nine the hour's generation begins; the generation of seven is the third.
	now := uint64(monday.Unix())
	for _, tt := range []struct {
		start uint64
		want  bool
	}{
		{now, true}, {now - 7200, true}, {now - 7201, false}, {now + 3600, true}, {now + 3601, false},
		{math.MaxInt64, false}, {math.MaxUint64, false}, {0, false},
	} {
		if got := good.Keeps(monday, tt.start); got != tt.want {
			t.Errorf("keeps what starts at now %+d: %v, want %v", int64(tt.start-now), got, tt.want)
		}
	}
}

// TestTooLarge checks that an array that is too large is an error, not a panic.
func TestTooLarge(t *testing.T) {
	o := Options{Generation: day, Keep: 3, Capacity: 1 << 40, Error: 1e-300}
	if _, err := NewTally(o, 1, 0, false, nil).First(); !errors.Is(err, filter.ErrGeometry) {
		t.Errorf("tally: %v, want %v", err, filter.ErrGeometry)
	}
	if _, err := NewBlocklist(o, 1, 1, 0, false, nil).First(); !errors.Is(err, filter.ErrGeometry) {
		t.Errorf("blocklist: %v, want %v", err, filter.ErrGeometry)
	}
	k := NewTally(Options{Generation: day, Keep: 3, Capacity: 10, Error: 0.1}, 10, 0, false, nil)
	if _, err := k.Make(TallySpec{Start: 1}); err == nil {
		t.Error("a generation without geometry was made")
	}
	good, err := k.spec(1, keys{})
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range []func(*TallySpec){
		func(s *TallySpec) { s.CountsGeometry = filter.Geometry{} },
		func(s *TallySpec) { s.UniqueGeometry = filter.Geometry{} },
	} {
		bad := good
		change(&bad)
		if g, err := k.Make(bad); err == nil || g != nil {
			t.Errorf("a generation without one geometry: %v, %v", g, err)
		}
	}
	lists := NewBlocklist(Options{Generation: day, Keep: 3, Capacity: 10, Error: 0.1}, 10, 10, 0, false, nil)
	list, err := lists.Least(1)
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range []func(*BlockSpec){
		func(s *BlockSpec) { s.SpamGeometry = filter.Geometry{} },
		func(s *BlockSpec) { s.RevokedGeometry = filter.Geometry{} },
		func(s *BlockSpec) { s.WeightsGeometry = filter.Geometry{} },
		func(s *BlockSpec) { s.VotesGeometry = filter.Geometry{} },
		func(s *BlockSpec) { s.NamesGeometry = filter.Geometry{} },
	} {
		bad := list
		change(&bad)
		if g, err := lists.Make(bad); err == nil || g != nil {
			t.Errorf("lists without geometry of one: %v, %v", g, err)
		}
	}
	bad := TallySpec{Start: 1}
	var b Book[*Tally]
	if got, err := k.Apply(b, Change[TallySpec]{Open: &bad}); err == nil || len(got.Live) != 0 {
		t.Errorf("%v, %v: want an error and the book as it was", got, err)
	}
}

// TestKeyChangesAtTheTurn: a generation that opens with another secret shortly before the next
// one is due begins when that would, and is the only one.
func TestKeyChangesAtTheTurn(t *testing.T) {
	midnight := monday.Truncate(day).Add(day)
	for _, tt := range []struct {
		early  time.Duration
		start  time.Time
		opened int // generations that open at midnight
	}{
		{30 * time.Second, midnight, 0},
		{60 * time.Second, midnight, 0},
		{61 * time.Second, midnight.Add(-61 * time.Second), 1},
		{5 * time.Hour, midnight.Add(-5 * time.Hour), 1},
		{0, midnight.Add(time.Second), 0},
	} {
		k := NewTally(tallyOptions, 10, 7, false, slog.New(slog.DiscardHandler))
		b, _ := turn(t, k, Book[*Tally]{}, monday)
		fill(b.Live[0].Counts, 0, 90)
		if tt.early == 0 {
			b, _ = turn(t, k, b, midnight) // it has opened already
		}
		before := len(b.Live)
		k.SetKey(8)
		b, _ = turn(t, k, b, midnight.Add(-tt.early))
		if g := b.Live[0]; len(b.Live) != before+1 || g.begin() != uint64(tt.start.Unix()) || g.keyID() != 8 {
			t.Errorf("%v before midnight: generations %v, want one from %d on", tt.early, starts(b), tt.start.Unix())
		}
		for _, after := range []time.Duration{0, time.Second, time.Hour} {
			b, _ = turn(t, k, b, midnight.Add(after))
		}
		if len(b.Live) != before+1+tt.opened {
			t.Errorf("%v before midnight: generations %v an hour after it, want %d", tt.early, starts(b), before+1+tt.opened)
		}
	}
}

// TestFloors: a tally's generations have the floor of its options, and one opens when that has
// changed.
func TestFloors(t *testing.T) {
	o := tallyOptions
	var b Book[*Tally]
	for _, floor := range []uint32{0, 1, 3, 3, 2} {
		o.Floor = floor
		k, had := NewTally(o, 10, 7, false, slog.New(slog.DiscardHandler)), len(b.Live)
		changed := had == 0 || max(1, b.Live[0].Floor) != max(1, floor)
		b, _ = turn(t, k, b, monday)
		if g := b.Live[0]; (len(b.Live) > had) != changed || max(1, g.Floor) != max(1, floor) {
			t.Fatalf("floor %d: generations %v, the newest with floor %d", floor, starts(b), g.Floor)
		}
		k.SetKey(7) // generations made ahead of time have it as well
		if f := k.Ahead(b, monday.Truncate(day).Add(day-time.Second)); f != nil {
			f()
		}
		next, _ := turn(t, k, b, monday.Add(day))
		if g := next.Live[0]; max(1, g.Floor) != max(1, floor) || g.Counts.(*arrays.Counting).Above().Keys() != 0 {
			t.Errorf("floor %d: the next generation has %d", floor, g.Floor)
		}
	}
	o.Floor = arrays.MaxFloor + 1
	if err := o.Validate(); err == nil {
		t.Error("a floor above what an array can have")
	}
}

// TestSteps has a tally count days of random use with bursts, on the least capacity and far above it. At any time, the
// live generations are sized for at most two keys beyond each key that they have, and beyond each that they were
// expected to have. No generation is fuller than it may be.
func TestSteps(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 34))
		o := Options{Generation: day, Keep: 3, Capacity: 1000, Error: 1e-2}
		k := NewTally(o, 10, 7, true, slog.New(slog.DiscardHandler))
		k.least = keys{signatures: 100, marks: 10}
		var b Book[*Tally]
		next, usual := 0, 50+rng.IntN(2000)
		var uses, expected []int
		for d := range 12 {
			today := 0
			if d > 0 {
				today = max(100, min(uses[d-1], uses[max(0, d-2)]))
			}
			expected = append(expected, today)
			use := usual/2 + rng.IntN(usual)
			if rng.IntN(4) == 0 {
				use *= 1 + rng.IntN(30) // a burst
			}
			opened := 0
			for hour := range 24 {
				now := monday.Truncate(day).Add(time.Duration(24*d+hour) * time.Hour)
				for n := use / 24; n > 0; {
					var c Change[TallySpec]
					if b, c = turn(t, k, b, now); c.Open != nil {
						opened++
					}
					part := min(n, max(1, int(b.Live[0].Capacity/20)))
					fill(b.Live[0].Counts, next, part)
					next, n, now = next+part, n-part, now.Add(time.Second)
					sized, used := 0, 0
					for _, g := range b.Live {
						if g.Fill() > Early+0.06 {
							t.Fatalf("seed %d, day %d: a generation for %d has %d keys", seed, d, g.Capacity, g.Counts.Keys())
						}
						sized, used = sized+int(g.Capacity), used+int(g.Counts.Keys())
					}
					most := 3*used + 1000
					for _, n := range expected[max(0, d-2):] {
						most += 2 * n
					}
					if sized > most {
						t.Fatalf("seed %d, day %d: %d generations are sized for %d keys and have %d, limit %d", seed, d, len(b.Live),
							sized, used, most)
					}
				}
			}
			if most := 2 + int(math.Ceil(2*math.Log2(max(1, float64(use)/100)))); opened > most {
				t.Errorf("seed %d, day %d: %d generations for %d keys, want at most %d", seed, d, opened, use, most)
			}
			uses = append(uses, use)
		}
	}
}

// TestBurst checks that a day of many keys between quiet ones leaves the next generations small, that two such days are
// the new use, and that names keep their room.
func TestBurst(t *testing.T) {
	k := NewBlocklist(Options{Generation: day, Keep: 9, Capacity: 8 * smallest, Error: 1e-2}, 10, 10, 7, true,
		slog.New(slog.DiscardHandler))
	var b Book[*Block]
	const few, many = smallest / 10, 2 * smallest
	for d, tt := range []struct{ use, capacity, names uint64 }{
		{few, 8 * smallest, 10}, // the first one, as configured
		{many, smallest, 10},
		{few, smallest, 1024},
		{many, smallest, 1024},
		{many, smallest, 1024},
		{few, 0, 1024}, // as for two days of many
		{few, smallest, 1024},
	} {
		b, _ = turn(t, k, b, monday.Truncate(day).Add(time.Duration(d)*day))
		g := b.Live[0]
		want := tt.capacity
		if want == 0 {
			want = capacityAfter(many, smallest)
		}
		if g.Capacity != want || g.NameCapacity != tt.names {
			t.Errorf("day %d is sized for %d signatures and %d names, want %d and %d", d, g.Capacity, g.NameCapacity, want,
				tt.names)
		}
		for i := range tt.use {
			g.Spam.SetBatch(1, []filter.Key{{Hi: i}}, nil)
		}
		if tt.use == many {
			fill(g.Names, 0, 700)
		}
	}
}

// A touchedCounter records that its memory was allocated.
type touchedCounter struct {
	Counter
	touched bool
}

func (c *touchedCounter) Touch() { c.touched = true }

// TestFirstIsTouched checks that no vote waits for the memory of the generation that a node opens as it
// starts. The memory of later generations is allocated ahead of time, or by their use.
func TestFirstIsTouched(t *testing.T) {
	k := NewTally(tallyOptions, 1, 0, true, slog.New(slog.DiscardHandler))
	k.make = func(s TallySpec) (*Tally, error) {
		return &Tally{TallySpec: s, Counts: &touchedCounter{Counter: newExactCounter()}, Unique: newExactBits()}, nil
	}
	b, _ := turn(t, k, Book[*Tally]{}, monday)
	b, _ = turn(t, k, b, monday.Add(day))
	for i, want := range []bool{false, true} { // newest first
		if got := b.Live[i].Counts.(*touchedCounter).touched; got != want {
			t.Errorf("generation %d: allocated is %v, want %v", i, got, want)
		}
	}
}
