package book

import (
	"log/slog"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/arrays"
)

// TestAhead checks that the next generation is made shortly before it is due or when the
// open one is nearly full, and that it is used if it still has about the right size.
func TestAhead(t *testing.T) {
	midnight := monday.Truncate(day).Add(day)
	for _, tt := range []struct {
		name   string
		before time.Duration // time before midnight at which Ahead is called
		filled [2]int        // keys at that time, and at midnight
		made   bool
		taken  bool
	}{
		{"in time", 5 * time.Minute, [2]int{1000, 1010}, true, true},
		{"too early", 20 * time.Minute, [2]int{1000, 1010}, false, false},
		{"full before its time", 12 * time.Hour, [2]int{1300, 1302}, true, true},
		{"full long before its time", 12 * time.Hour, [2]int{1300, 2400}, true, false},
		{"grown since", 5 * time.Minute, [2]int{200, 1000}, true, false},
		{"of the least size", 5 * time.Minute, [2]int{0, 3}, true, true},
	} {
		o := Options{Generation: day, Keep: 3, Capacity: 100, Error: 1e-2}
		k := NewTally(o, 10, 7, false, slog.New(slog.DiscardHandler))
		g, err := k.Make(TallySpec{Start: uint64(midnight.Add(-day).Unix()), Capacity: 1200, UniqueCapacity: 10,
			CountsGeometry: geometry(t, filter.Cells, 1200), UniqueGeometry: geometry(t, filter.Bitmap, 10)})
		if err != nil {
			t.Fatal(err)
		}
		b := Book[*Tally]{}.With(g)
		hashed(g.Counts, 0, tt.filled[0])
		work := k.Ahead(b, midnight.Add(-tt.before))
		if made := work != nil; made != tt.made {
			t.Errorf("%s: made ahead %v, want %v", tt.name, made, tt.made)
			continue
		}
		var made *Tally
		if work != nil {
			if k.Ahead(b, midnight.Add(-tt.before)) != nil {
				t.Errorf("%s: made twice at once", tt.name)
			}
			done := make(chan bool)
			go func() { defer close(done); work() }()
			<-done
			if k.Ahead(b, midnight.Add(-tt.before)) != nil {
				t.Errorf("%s: made again", tt.name)
			}
			made = k.ready.g
		}
		hashed(g.Counts, tt.filled[0], tt.filled[1])
		b, c := turn(t, k, b, midnight)
		if c.Open == nil || b.Live[0].Start != uint64(midnight.Unix()) {
			t.Fatalf("%s: %+v", tt.name, c)
		}
		if taken := b.Live[0] == made; taken != tt.taken {
			t.Errorf("%s: taken %v, want %v: for %d signatures", tt.name, taken, tt.taken, b.Live[0].Capacity)
		}
		if k.ready != nil {
			t.Errorf("%s: something is left", tt.name)
		}
		r := b.Live[0].Counts.(*arrays.Counting).NewRound()
		if r.Generation != b.Live[0].Start || r.Geometry != b.Live[0].CountsGeometry || b.Live[0].Counts.Keys() != 0 {
			t.Errorf("%s: arrays of %d with %d keys, want of %d and empty", tt.name, r.Generation, b.Live[0].Counts.Keys(),
				b.Live[0].Start)
		}
		if b.Live[0].Capacity < uint64(1.1*float64(tt.filled[1])) && tt.filled[1] > 100 {
			t.Errorf("%s: sized for %d after %d", tt.name, b.Live[0].Capacity, tt.filled[1])
		}
	}
}

// TestAheadOfMidnight checks that a generation made at noon, because the open one was full, is made again
// shortly before midnight for the use of the whole day.
func TestAheadOfMidnight(t *testing.T) {
	midnight := monday.Truncate(day).Add(day)
	k := NewTally(Options{Generation: day, Keep: 3, Capacity: 100, Error: 1e-2}, 10, 7, false,
		slog.New(slog.DiscardHandler))
	b, _ := turn(t, k, Book[*Tally]{}, midnight.Add(-day))
	open := b.Live[0]
	for _, tt := range []struct {
		before time.Duration
		filled int
		made   bool
	}{{16 * time.Hour, 101, true}, {15 * time.Hour, 110, false}, {6 * time.Hour, 120, false},
		{5 * time.Minute, 240, true}, {time.Minute, 241, false}} {
		hashed(open.Counts, int(open.Counts.Keys()), tt.filled)
		work := k.Ahead(b, midnight.Add(-tt.before))
		if made := work != nil; made != tt.made {
			t.Fatalf("%v before midnight: made %v, want %v", tt.before, made, tt.made)
		}
		if work != nil {
			work()
		}
	}
	k.collect()
	made := k.ready.g
	if b, _ = turn(t, k, b, midnight); b.Live[0] != made {
		t.Error("what was made ahead of time is not used")
	}
}

// hashed adds keys to a counting array, each with a journal entry of its own.
func hashed(c Counter, from, to int) {
	for n := from; n < to; n++ {
		c.AddBatch(uint64(n+1), []filter.Key{filter.Secret{}.Key([]byte{byte(n), byte(n >> 8)})}, []uint32{1}, nil)
	}
}

func geometry(t *testing.T, kind filter.Kind, n uint64) filter.Geometry {
	t.Helper()
	g, err := filter.SizeFor(filter.Target{Kind: kind, Signatures: n, Error: filter.Ghost, Rate: 1e-2, KeyID: 7})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestAheadFails checks that a generation that cannot be made ahead of time is tried again
// when it is due, and that the error is returned then.
func TestAheadFails(t *testing.T) {
	k := NewBlocklist(Options{Generation: day, Keep: 3, Capacity: 100, Error: 1e-2}, 10, 10, 7, false,
		slog.New(slog.DiscardHandler))
	b, _ := turn(t, k, Book[*Block]{}, monday)
	k.shape = func(uint64, keys, sizer) (s BlockSpec, err error) { return s, filter.ErrGeometry }
	eve := monday.Truncate(day).Add(day - time.Minute)
	work := k.Ahead(b, eve)
	if work == nil {
		t.Fatal("nothing is made")
	}
	work()
	if k.Ahead(b, eve) == nil || k.ready != nil {
		t.Error("not tried again")
	}
	if _, err := k.Plan(b, eve.Add(time.Minute), false); err == nil {
		t.Error("and no word of it")
	}
}
