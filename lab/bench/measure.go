package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/perf/benchmath"
)

// A result is one row: a subject at one size. Times are in nanoseconds of
// processor time per item; on a machine that does other things too, that says
// more than the clock. Two threads are timed by the clock.
type result struct {
	Subject, Note  string
	N              int
	Insert         [2]timing            // in calls of one key, and of maxBatch
	Hit            [len(batches)]timing // in calls of as many keys as batches says
	Miss           timing               // in calls of maxBatch
	Hit2           timing               // two threads, by the clock
	Heap, Resident float64              // bytes a key: live heap, and growth of the process
	Ghost          float64              // share of unseen items that are found
	Wrong          float64              // share of items whose count is too high; -1: not asked
	Under          float64              // share of items whose count is too low
	Access         float64              // one dependent access to as much memory, by the clock
}

// A timing is the median of some rounds, and how far the interval that holds the
// true median with 95 % confidence reaches from it, in per cent: what benchstat
// prints.
type timing struct{ Median, Range float64 }

// rounds is the least number from which 95 % confidence can be had.
const rounds = 6

func timingOf(rounds []float64) timing {
	s := benchmath.AssumeNothing.Summary(benchmath.NewSample(rounds, &benchmath.DefaultThresholds), 0.95)
	return timing{s.Center, 100 * max(s.Hi-s.Center, s.Center-s.Lo) / s.Center}
}

func cpu() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// measure runs in a process of its own, so that memory is one subject's. With memoryOnly it takes
// no times of looking up.
func measure(s subject, n int, memoryOnly bool) (result, error) {
	r := result{Subject: s.name, Note: s.note, N: n, Wrong: -1}
	in, unseen, counts := items(n, 1), items(min(n, 1<<20), 7), skew(n)
	out := make([]uint32, n)
	for i := range out {
		out[i] = 1 // take the memory before the baseline is read
	}
	heap, resident, err := memory()
	if err != nil {
		return r, err
	}
	f, inserts, err := build(s, in, counts, maxBatch)
	if err != nil {
		return r, err
	}
	r.Insert[1] = timingOf(inserts)
	heap2, resident2, err := memory()
	if err != nil {
		return r, err
	}
	r.Heap, r.Resident = float64(heap2-heap)/float64(n), float64(resident2-resident)/float64(n)

	if !memoryOnly {
		for i, size := range batches {
			r.Hit[i] = timed(in, func(part []item) { lookAll(f, part, out, size) })
		}
		r.Miss = timed(unseen, func(part []item) { lookAll(f, part, out, maxBatch) })
		if !s.solo {
			r.Hit2 = timedTwo(f, in, out)
		}
	}
	if err := r.errors(s, f, in, unseen, counts, out); err != nil {
		return r, err
	}
	runtime.KeepAlive(f)
	if memoryOnly {
		return r, nil
	}
	if _, inserts, err = build(s, in, counts, 1); err != nil {
		return r, err
	}
	r.Insert[0] = timingOf(inserts)
	if s.name == countSubjects()[0].name || s.name == memberSubjects()[0].name {
		r.Access, err = dependentAccess(int(r.Heap * float64(n)))
	}
	return r, err
}

// build inserts all items into a new structure and returns it, and how long an
// insert took in each of some rounds, in calls of size keys. A small structure is built many times in a
// round; of a big one the rounds are parts of the items.
func build(s subject, in []item, counts []uint32, size int) (f structure, took []float64, err error) {
	if len(in) > window {
		if f, err = s.build(len(in)); err != nil {
			return nil, nil, err
		}
		total := len(in)
		for len(in) > 0 {
			n := min(window, len(in))
			start := cpu()
			insertAll(f, in[:n], counts[:n], size)
			took = append(took, float64(cpu()-start)/float64(n))
			in, counts = in[n:], counts[n:]
		}
		if last, ok := f.(finisher); ok {
			// The whole set is one step, so that each part gets its share.
			start := cpu()
			err = last.finish()
			for i, share := 0, float64(cpu()-start)/float64(total); i < len(took); i++ {
				took[i] += share
			}
		}
		return f, took, err
	}
	for range rounds {
		var total time.Duration
		built := 0
		for total < 20*time.Millisecond {
			f = nil
			runtime.GC() // not among the inserts
			if f, err = s.build(len(in)); err != nil {
				return nil, nil, err
			}
			start := cpu()
			insertAll(f, in, counts, size)
			if last, ok := f.(finisher); ok {
				err = last.finish()
			}
			total += cpu() - start
			if err != nil {
				return nil, nil, err
			}
			built++
		}
		took = append(took, float64(total)/float64(built)/float64(len(in)))
	}
	return f, took, nil
}

// errors measures how often f is wrong. Counts are checked after single reports
// in random order where that takes no longer than a minute, else after one
// weighted insert a key.
func (r *result) errors(s subject, f structure, in, unseen []item, counts, out []uint32) (err error) {
	lookAll(f, unseen, out, maxBatch)
	for _, c := range out[:len(unseen)] {
		if c > 0 {
			r.Ghost++
		}
	}
	r.Ghost /= float64(len(unseen))
	if !s.counts {
		lookAll(f, in, out, maxBatch)
		for _, c := range out[:len(in)] {
			if c == 0 {
				r.Under++
			}
		}
		r.Under /= float64(len(in))
		return nil
	}
	if len(in) <= 1e6 {
		if f, err = s.build(len(in)); err != nil {
			return err
		}
		insertShuffled(f, in, counts)
	}
	lookAll(f, in, out, maxBatch)
	r.Wrong = 0
	for i, c := range out[:len(in)] {
		switch {
		case c > counts[i]:
			r.Wrong++
		case c < counts[i]:
			r.Under++
		}
	}
	r.Wrong /= float64(len(in))
	r.Under /= float64(len(in))
	return nil
}

func insertShuffled(f structure, in []item, counts []uint32) {
	var reports []uint32
	for i, c := range counts {
		for range c {
			reports = append(reports, uint32(i))
		}
	}
	rng := rand.New(rand.NewPCG(5, 6))
	rng.Shuffle(len(reports), func(i, j int) { reports[i], reports[j] = reports[j], reports[i] })
	batch := make([]item, maxBatch)
	ones := make([]uint32, maxBatch)
	for i := range ones {
		ones[i] = 1
	}
	for len(reports) > 0 {
		n := min(maxBatch, len(reports))
		for i, at := range reports[:n] {
			batch[i] = in[at]
		}
		f.insert(batch[:n], ones[:n])
		reports = reports[n:]
	}
}

func insertAll(f structure, in []item, counts []uint32, size int) {
	for len(in) > 0 {
		n := min(size, len(in))
		f.insert(in[:n], counts[:n])
		in, counts = in[n:], counts[n:]
	}
}

func lookAll(f structure, in []item, out []uint32, size int) {
	for len(in) > 0 {
		n := min(size, len(in))
		f.look(in[:n], out[:n])
		in, out = in[n:], out[n:]
	}
}

// window is how many items a round works on at most. The next round takes the
// next ones, so that none finds what the one before left in the caches.
const window = 1 << 20

// part returns the items of a round.
func part(in []item, round int) []item {
	if len(in) <= window {
		return in
	}
	parts := len(in) / window
	at := round % parts * window
	return in[at : at+window]
}

// timed returns processor nanoseconds per item. A round repeats f until it takes
// long enough.
func timed(in []item, f func([]item)) timing {
	var all []float64
	for i := range rounds {
		start, done := cpu(), 0
		var took time.Duration
		for took < 20*time.Millisecond {
			f(part(in, i))
			done += len(part(in, i))
			took = cpu() - start
		}
		all = append(all, float64(took)/float64(done))
	}
	return timingOf(all)
}

// timedTwo returns nanoseconds by the clock per item, two threads looking at once.
func timedTwo(f structure, in []item, out []uint32) timing {
	var all []float64
	for i := range rounds {
		in := part(in, i)
		half := len(in) / 2
		start, done := time.Now(), 0
		for time.Since(start) < 20*time.Millisecond {
			var wg sync.WaitGroup
			wg.Go(func() { lookAll(f, in[:half], out[:half], maxBatch) })
			wg.Go(func() { lookAll(f, in[half:], out[half:len(in)], maxBatch) })
			wg.Wait()
			done += len(in)
		}
		all = append(all, float64(time.Since(start))/float64(done))
	}
	return timingOf(all)
}

// memory returns the live heap and the resident size of the process, in bytes.
func memory() (heap, resident int64, err error) {
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, 0, err
	}
	fields := bytes.Fields(b)
	if len(fields) < 2 {
		return 0, 0, fmt.Errorf("/proc/self/statm: %d fields", len(fields))
	}
	pages, err := strconv.ParseInt(string(fields[1]), 10, 64)
	return int64(m.HeapAlloc), pages * int64(os.Getpagesize()), err
}

// dependentAccess returns nanoseconds by the clock of one access to size bytes
// whose address depends on the access before. It is an error if the accesses left
// the order that was laid out for them, which also keeps them from being left out.
func dependentAccess(size int) (float64, error) {
	n := max(size/64, 2)
	order := rand.New(rand.NewPCG(5, 6)).Perm(n)
	next := make([][16]uint32, n)
	for i, at := range order {
		next[at][0] = uint32(order[(i+1)%n])
	}
	at, least := uint32(order[0]), 0.0
	const steps = 1 << 18
	for i := range rounds {
		start := time.Now()
		for range steps {
			at = next[at][0]
		}
		if per := float64(time.Since(start)) / steps; i == 0 || per < least {
			least = per
		}
	}
	if want := order[rounds*steps%n]; int(at) != want {
		return 0, fmt.Errorf("%d accesses to %d lines ended at line %d, want %d", rounds*steps, n, at, want)
	}
	return least, nil
}
