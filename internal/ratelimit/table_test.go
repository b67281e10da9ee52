package ratelimit

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead/filter"
)

var epoch = time.Unix(1_800_000_000, 0)

func newRate(t testing.TB, limit float64) *filter.UniqueRate {
	t.Helper()
	u, err := filter.NewUniqueRate(filter.UniqueRateConfig{Limit: limit, Period: time.Hour, Mode: filter.Strict})
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func count(t testing.TB, tab *table, hash uint64, now time.Time, item string) filter.RateMeasurement {
	t.Helper()
	var m filter.RateMeasurement
	var err error
	tab.update(hash, now, func(state []byte) { m, err = tab.rate.Measure(state, now, []byte(item), 1) })
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestTableAgainstMap runs random operations on a table with room for all keys
// and on a map of states, and wants the same states in both.
func TestTableAgainstMap(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 1))
	rate := newRate(t, 5)
	tab, err := newTable(rate, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	oracle := make(map[uint64][]byte)
	hashes := make([]uint64, 3000)
	for i := range hashes {
		hashes[i] = random.Uint64()
	}
	now := epoch
	for step := range 60_000 {
		h := hashes[random.IntN(len(hashes))]
		switch op := random.IntN(100); {
		case op < 80:
			item := fmt.Sprint(random.IntN(9))
			count(t, tab, h, now, item)
			if oracle[h] == nil {
				oracle[h] = make([]byte, rate.StateBytes())
			}
			if _, err := rate.Measure(oracle[h], now, []byte(item), 1); err != nil {
				t.Fatal(err)
			}
		case op < 98:
			if got, want := tab.drop(h), oracle[h] != nil; got != want {
				t.Fatalf("step %d: drop = %v, want %v", step, got, want)
			}
			delete(oracle, h)
		case op == 98:
			tab.update(h, now, func([]byte) {}) // a visit that changes nothing is not kept
		default:
			for i := range tab.shards {
				tab.compact(&tab.shards[i])
			}
		}
		now = now.Add(time.Second)
	}
	for _, h := range hashes {
		tab.view(h, func(state []byte) {
			if string(state) != string(oracle[h]) {
				t.Fatalf("key %#x: state %x, want %x", h, state, oracle[h])
			}
		})
	}
	if keys, _, evicted, _ := tab.usage(); keys != len(oracle) || evicted != 0 {
		t.Errorf("usage: %d keys and %d evicted, want %d and 0", keys, evicted, len(oracle))
	}
	n := 0
	for key, state := range tab.all() {
		found := false
		for h, want := range oracle {
			if h&tagMask == binary.LittleEndian.Uint64(key) {
				found = string(state) == string(want)
			}
		}
		if !found {
			t.Fatalf("all yields %x, which is not in the map", key)
		}
		if n++; n == 50 {
			break
		}
	}
}

// TestTableMemory measures what a million keys cost.
func TestTableMemory(t *testing.T) {
	if testing.Short() || raceEnabled {
		t.Skip("takes 60 MB, which the race detector multiplies; there is one goroutine")
	}
	const keys = 1_000_000
	rate := newRate(t, 10)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	tab, err := newTable(rate, DefaultMemory)
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 1))
	for range keys {
		count(t, tab, random.Uint64(), epoch, "a")
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	used, booked, evicted, _ := tab.usage()
	perKey := float64(after.HeapAlloc-before.HeapAlloc) / keys
	t.Logf("%.1f bytes a key on the heap, %.1f booked; filter %d bytes", perKey, float64(booked)/keys, rate.StateBytes()-filter.RateHeader)
	if used != keys || evicted != 0 {
		t.Errorf("%d keys, %d evicted, want %d and 0", used, evicted, keys)
	}
	if want := float64(20 + 32 + 4); perKey > want {
		t.Errorf("%.1f bytes a key, want at most %.0f: filter 20, head 32, and a little for index and rest of chunks", perKey, want)
	}
	runtime.KeepAlive(tab)
}

// TestTableBudget floods a small table and wants the memory kept, and the keys
// with high rates with it.
func TestTableBudget(t *testing.T) {
	rate := newRate(t, 10)
	const memory = 256 << 10
	tab, err := newTable(rate, memory)
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(3, 4))
	busy := make([]uint64, 100)
	for i := range busy {
		busy[i] = random.Uint64()
		for n := range 20 {
			count(t, tab, busy[i], epoch, fmt.Sprint(n))
		}
	}
	for i := range 200_000 {
		count(t, tab, random.Uint64(), epoch.Add(time.Duration(i)*time.Millisecond), "x")
	}
	keys, bytes, evicted, _ := tab.usage()
	if bytes > memory {
		t.Errorf("%d bytes, budget %d", bytes, memory)
	}
	if keys < memory*8/10/(tab.slot+2) || evicted == 0 {
		t.Errorf("%d keys and %d evicted in %d bytes", keys, evicted, memory)
	}
	kept := 0
	for _, h := range busy {
		tab.view(h, func(state []byte) {
			if state != nil {
				kept++
			}
		})
	}
	if kept != len(busy) {
		t.Errorf("%d of %d busy keys are left after the flood", kept, len(busy))
	}
	// A day later everything is idle.
	tab.clean(epoch.Add(24 * time.Hour))
	if keys, bytes, _, _ := tab.usage(); keys != 0 || bytes > memory/8 {
		t.Errorf("%d keys in %d bytes are left after a day of silence", keys, bytes)
	}
}

// TestTableClockWasAhead counts while the clock is a year ahead, and sets it
// right: keys that do not come again must not hold the memory for that year.
func TestTableClockWasAhead(t *testing.T) {
	tab, err := newTable(newRate(t, 10), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	for i := range uint64(100) {
		count(t, tab, i<<40, epoch.Add(365*24*time.Hour), "x")
	}
	for i := range 12 {
		tab.clean(epoch.Add(time.Duration(i) * time.Hour))
	}
	if keys, _, _, dropped := tab.usage(); keys != 0 || dropped != 100 {
		t.Errorf("%d keys, %d dropped twelve periods after the clock was set right, want 0 and 100", keys, dropped)
	}
}

// TestTableSmall checks budgets that hold a few keys, or none.
func TestTableSmall(t *testing.T) {
	for _, memory := range []int64{0, 100, 1000, 2000, 5000, 64 << 10} {
		tab, err := newTable(newRate(t, 10), memory)
		if err != nil {
			if memory >= 1000 {
				t.Errorf("newTable(%d): %v", memory, err)
			}
			continue
		}
		for i := range 5000 {
			count(t, tab, rand.Uint64(), epoch, fmt.Sprint(i))
		}
		if _, bytes, _, _ := tab.usage(); bytes > memory {
			t.Errorf("%d bytes in a budget of %d", bytes, memory)
		}
	}
	if _, err := newTable(newRate(t, 1e6), 1<<20); err == nil {
		t.Error("a budget of half a key was taken")
	}
}
