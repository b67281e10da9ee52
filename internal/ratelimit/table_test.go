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

// inlineBytes is the size of the states of small limits.
const inlineBytes = filter.RateHeader + 20

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
	tab.update(hash, now, func(state *[]byte) { m, err = tab.rate.Measure(state, now, []byte(item), 1) })
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestTableAgainstMap runs random operations on a table with room for all keys and on a map of
// states, and compares the states. States of the second limit outgrow their slots, become filters,
// and shrink again.
func TestTableAgainstMap(t *testing.T) {
	for _, limit := range []float64{5, 60} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) { testTableAgainstMap(t, limit) })
	}
}

func testTableAgainstMap(t *testing.T, limit float64) {
	random := rand.New(rand.NewPCG(7, 1))
	rate := newRate(t, limit)
	tab, err := newTable(rate, rate.MaxStateBytes(), 4<<20)
	if err != nil {
		t.Fatal(err)
	}
	oracle := make(map[uint64][]byte)
	hashes := make([]uint64, 15_000/int(limit))
	for i := range hashes {
		hashes[i] = random.Uint64()
	}
	now := epoch
	for step := range 60_000 {
		h := hashes[random.IntN(len(hashes))]
		switch op := random.IntN(100); {
		case op < 80:
			item := fmt.Sprint(random.IntN(2 * int(limit)))
			count(t, tab, h, now, item)
			if oracle[h] == nil {
				oracle[h] = make([]byte, rate.StateBytes())
			}
			state := oracle[h]
			if _, err := rate.Measure(&state, now, []byte(item), 1); err != nil {
				t.Fatal(err)
			}
			oracle[h] = state
		case op < 98:
			if got, want := tab.drop(h), oracle[h] != nil; got != want {
				t.Fatalf("step %d: drop = %v, want %v", step, got, want)
			}
			delete(oracle, h)
		case op == 98:
			tab.update(h, now, func(*[]byte) {}) // a visit that changes nothing is not kept
		default:
			for i := range tab.shards {
				tab.shards[i].compact()
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
	var large int64
	for _, state := range oracle {
		if len(state) > inlineBytes {
			large += largeBytes(state)
		}
	}
	if got := tab.large.Load(); got != large || large == 0 != (limit < 10) {
		t.Errorf("%d bytes of large states are booked, want %d", got, large)
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

// TestTableMemory measures the memory of a million keys.
func TestTableMemory(t *testing.T) {
	if testing.Short() || raceEnabled {
		t.Skip("takes 60 MB, which the race detector multiplies; there is one goroutine")
	}
	const keys = 1_000_000
	rate := newRate(t, 10)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	tab, err := newTable(rate, rate.MaxStateBytes(), DefaultMemory)
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
	t.Logf("%.1f bytes a key on the heap, %.1f booked; filter %d bytes", perKey, float64(booked)/keys,
		rate.StateBytes()-filter.RateHeader)
	if used != keys || evicted != 0 {
		t.Errorf("%d keys, %d evicted, want %d and 0", used, evicted, keys)
	}
	if want := float64(tab.key); perKey > want {
		t.Errorf("%.1f bytes a key, want at most %.0f: filter 20, head 24, tag 8, map and reserve", perKey, want)
	}
	runtime.KeepAlive(tab)
}

// TestTableBudget floods a small table, and checks that it stays within its memory and
// keeps the keys with high rates.
func TestTableBudget(t *testing.T) {
	rate := newRate(t, 10)
	const memory = 256 << 10
	tab, err := newTable(rate, rate.MaxStateBytes(), memory)
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
	if keys < memory*8/10/tab.key || evicted == 0 {
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

// TestTableLargeBudget checks that keys with ever more items stay within the memory, give way to
// keys nearer to their limit, and release the memory when their period is over.
func TestTableLargeBudget(t *testing.T) {
	rate := newRate(t, 1e4)
	const memory = 1 << 20
	tab, err := newTable(rate, rate.MaxStateBytes(), memory)
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(3, 5))
	busy := make([]uint64, 10)
	for i := range busy {
		busy[i] = random.Uint64()
		for n := range 3000 {
			count(t, tab, busy[i], epoch, fmt.Sprint(n))
		}
	}
	most := int64(0)
	for i := range 3000 {
		h := random.Uint64()
		for n := range 40 {
			count(t, tab, h, epoch.Add(time.Duration(i)*time.Millisecond), fmt.Sprint(n))
		}
		_, bytes, _, _ := tab.usage()
		most = max(most, bytes)
	}
	if _, bytes, evicted, _ := tab.usage(); most > memory || bytes < memory/2 || evicted == 0 {
		t.Errorf("%d bytes, %d at most, in a memory of %d, %d evicted", bytes, most, memory, evicted)
	}
	for _, h := range busy {
		tab.view(h, func(state []byte) {
			if state == nil {
				t.Error("a busy key was pushed out by small ones")
			}
		})
	}
	// A flood of keys with one item each does not affect the large states.
	before := tab.large.Load()
	for range 20_000 {
		count(t, tab, random.Uint64(), epoch.Add(4*time.Second), "x")
	}
	if _, bytes, _, _ := tab.usage(); bytes > memory || tab.large.Load() < before*9/10 {
		t.Errorf("%d bytes in a memory of %d; large states had %d bytes and have %d", bytes, memory, before, tab.large.Load())
	}
	// A period later the items are forgotten, but not the rates.
	tab.clean(epoch.Add(61 * time.Minute))
	if keys, _, _, _ := tab.usage(); tab.large.Load() != 0 || keys < len(busy) {
		t.Errorf("%d bytes of old items are left, %d keys", tab.large.Load(), keys)
	}
	for i := range tab.shards {
		if n := len(tab.shards[i].large); n != 0 {
			t.Errorf("shard %d has %d large states", i, n)
		}
	}
}

// TestTableClockWasAhead counts while the clock is a year ahead, and then corrects it: keys that do
// not come again must not hold their memory for that year.
func TestTableClockWasAhead(t *testing.T) {
	tab, err := newTable(newRate(t, 10), inlineBytes, 1<<20)
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

// TestTableSmall checks budgets that have room for a few keys, or for none.
func TestTableSmall(t *testing.T) {
	for _, memory := range []int64{0, 100, 1000, 2000, 5000, 64 << 10} {
		tab, err := newTable(newRate(t, 10), inlineBytes, memory)
		if err != nil {
			if memory >= 2000 {
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
	if _, err := newTable(newRate(t, 1e6), newRate(t, 1e6).MaxStateBytes(), 1<<20); err == nil {
		t.Error("a memory of half a key was taken")
	}
}
