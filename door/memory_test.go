package door

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"
)

// TestMemoryNeverExceeds lets many holders take and release, and compares what they hold
// with the limit at every moment. All come to an end.
func TestMemoryNeverExceeds(t *testing.T) {
	const limit = 1000
	m := NewMemory(limit)
	always := m.Hold() // so that little is left
	if err := always.Take(t.Context(), limit-500, 0); err != nil {
		t.Fatal(err)
	}
	var held atomic.Int64
	held.Store(limit - 500)
	var refused, taken atomic.Int64
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(i)))
			for range 300 {
				h := m.Hold()
				sum := int64(0)
				for range 1 + rng.IntN(4) {
					n := 1 + rng.Int64N(400)
					err := h.Take(t.Context(), n, time.Duration(rng.IntN(3))*time.Millisecond)
					if err != nil {
						if !errors.Is(err, ErrCrowded) {
							t.Error(err)
						}
						refused.Add(1)
						break
					}
					n = min(n, limit-sum)
					sum += n
					taken.Add(1)
					if held.Add(n) > limit {
						t.Error("more is held than there is")
					}
				}
				held.Add(-sum)
				h.Release()
			}
		})
	}
	all.Wait()
	always.Release()
	if _, left, refusals := m.Usage(); left != 0 || refusals != refused.Load() ||
		taken.Load() == 0 || refused.Load() == 0 {
		t.Errorf("%d bytes are left behind, %d refusals counted, %d seen, %d taken", left, refusals, refused.Load(),
			taken.Load())
	}
}

// TestMemoryTurns: empty holds wait in line, a hold that has something is refused at once, and a
// hold that gives up lets the next one in.
func TestMemoryTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMemory(100)
		first := m.Hold()
		if err := first.Take(t.Context(), 60, 0); err != nil {
			t.Fatal(err)
		}
		second := m.Hold()
		if err := second.Take(t.Context(), 30, 0); err != nil {
			t.Fatal(err)
		}
		order := make(chan string, 3)
		wait := func(name string, n int64, patience time.Duration) {
			go func() {
				h := m.Hold()
				if err := h.Take(t.Context(), n, patience); err != nil {
					order <- name + " gave up"
					return
				}
				order <- name
				h.Release()
			}()
			synctest.Wait()
		}
		wait("large", 80, time.Second)
		wait("small", 10, time.Minute) // there is room, but it is not its turn
		if len(order) != 0 {
			t.Fatal("one came in before its turn")
		}
		if err := first.Take(t.Context(), 20, time.Hour); !errors.Is(err, ErrCrowded) {
			t.Errorf("a hold of 60 took 20 more where 10 are left: %v", err)
		}
		if err := first.Take(t.Context(), 10, 0); err != nil {
			t.Errorf("a hold that has something goes before those that wait: %v", err)
		}
		second.Release()
		if synctest.Wait(); len(order) != 0 {
			t.Errorf("%s: 70 of 100 are held, and who is first wants 80", <-order)
		}
		first.Release()
		if a, b := <-order, <-order; min(a, b) != "large" || max(a, b) != "small" {
			t.Errorf("%s and %s, want both to get in", a, b) // at once: there is room for both
		}
		if err := first.Take(t.Context(), 1000, time.Hour); err != nil {
			t.Errorf("a message larger than all there is: %v", err)
		}
		wait("late", 1, time.Second)
		if got := <-order; got != "late gave up" {
			t.Error(got)
		}
		wait("larger than all", 1000, time.Hour)
		if len(order) != 0 {
			t.Error(<-order)
		}
		first.Release()
		if got := <-order; got != "larger than all" {
			t.Error(got)
		}
		if err := first.Take(t.Context(), 0, 0); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if _, held, refusals := m.Usage(); held != 0 || refusals != 2 {
			t.Errorf("%d bytes held, %d refusals", held, refusals)
		}
		if limit, _, _ := NewMemory(0).Usage(); limit != 1 {
			t.Errorf("a memory of nothing has %d bytes, want 1", limit)
		}
		if err := first.Take(t.Context(), 90, 0); err != nil {
			t.Error(err)
		}
		wait("impatient", 20, time.Second)
		wait("behind", 10, time.Minute)
		if a, b := <-order, <-order; min(a, b) != "behind" || max(a, b) != "impatient gave up" {
			t.Errorf("%s and %s: who waited behind one that gave up fits", a, b)
		}
		first.Release()
		synctest.Wait()
		if _, held, _ := m.Usage(); held != 0 {
			t.Errorf("%d bytes held", held)
		}
		var none *Memory
		h := none.Hold()
		if err := h.Take(t.Context(), 1<<40, 0); err != nil {
			t.Errorf("without a bound: %v", err)
		}
		if limit, held, refusals := none.Usage(); limit != 0 || held != 0 || refusals != 0 {
			t.Errorf("without a bound: %d, %d, %d", limit, held, refusals)
		}
		h.Release()
	})
}

// TestHoldReadAll: ReadAll reads the same bytes as io.ReadAll, for any size and any announced size,
// and holds Cost times as much.
func TestHoldReadAll(t *testing.T) {
	for _, size := range []int{0, 1, 511, 16 << 10, 16<<10 + 1, 100_000} {
		want := bytes.Repeat([]byte("x"), size)
		for _, announced := range []int64{-1, 0, int64(size), int64(size) + 5, 1 << 40} {
			m := NewMemory(1 << 30)
			h := m.Hold()
			got, err := h.ReadAll(t.Context(), iotest.HalfReader(bytes.NewReader(want)), announced, 0)
			if err != nil || !bytes.Equal(got, want) {
				t.Fatalf("%d bytes, said to be %d: %d, %v", size, announced, len(got), err)
			}
			most := 2*size + 17<<10
			if announced == int64(size) && size <= 16<<10 {
				most = size + 1
			}
			if _, held, _ := m.Usage(); held < int64(Cost*size) || held > int64(Cost*most) {
				t.Errorf("%d bytes, said to be %d: %d are held", size, announced, held)
			}
			h.Release()
		}
	}
	broken := NewMemory(100 << 10)
	b := broken.Hold()
	if got, err := b.ReadAll(t.Context(), iotest.TimeoutReader(iotest.OneByteReader(bytes.NewReader([]byte("xy")))), -1,
		0); string(got) != "x" || !errors.Is(err, iotest.ErrTimeout) {
		t.Errorf("a reader that fails: %q, %v", got, err)
	}
	m := NewMemory(100 << 10)
	other, h := m.Hold(), m.Hold()
	if err := other.Take(t.Context(), 1, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := h.ReadAll(t.Context(), bytes.NewReader(make([]byte, 1<<20)), -1, time.Hour); !errors.Is(err, ErrCrowded) {
		t.Errorf("1 MiB where 100 KiB are free: %v", err)
	}
}
