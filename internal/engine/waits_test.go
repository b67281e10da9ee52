//go:build linux

package engine

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/engine/ballots"
	"github.com/bulkhead-mail/bulkhead/internal/store"
	"github.com/bulkhead-mail/bulkhead/internal/testing/await"
	"github.com/bulkhead-mail/bulkhead/internal/trust"
)

// TestWaits measures how long reports wait, from the moment at which each is due, while ten checkpoints are
// written and two generations open. The reports come by the clock, however long the ones before them take. It
// runs with BULKHEAD_MEASURE set, in TMPDIR. There, as many files are synced beside as reports are made: what the disk
// alone takes. A process of its own does nothing but wake up by the clock: times at which it slept too long are the
// machine's, and the longest waits outside them are the node's.
//
//	BULKHEAD_MEASURE=1 TMPDIR=/dev/shm go test ./internal/engine -run 'TestWaits/1e[+]06' -v -timeout 20m
func TestWaits(t *testing.T) {
	if os.Getenv("BULKHEAD_MEASURE") == "" {
		t.Skip("a measurement: set BULKHEAD_MEASURE to run it")
	}
	for _, known := range []int{1e6, 1e7, 1e8} {
		t.Run(fmt.Sprintf("%.0e", float64(known)), func(t *testing.T) { measureWaits(t, known) })
	}
}

const (
	waitsRate     = 500 // reports a second: deliveries, and every fifth a vote
	waitsAccounts = 20_000
	waitsQuiet    = "between"
)

func measureWaits(t *testing.T, known int) {
	c := newClock()
	dir := t.TempDir()
	st, err := store.Open(filepath.Join(dir, "data"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	e, err := Open(context.Background(), small(Options{
		Store: st, Now: c.Now, CheckpointEvery: time.Hour, CheckpointBytes: 1 << 40, LearnBytes: 32 << 20,
		Tally: BookOptions{Generation: 24 * time.Hour, Keep: 3, Capacity: uint64(known), Error: 1e-3},
		Block: DefaultBlocklist(),
	}))
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close(context.Background())
	fillForWaits(t, e, known*9/10)

	stalls := startStalls(t)
	g := &reporter{e: e, stop: make(chan struct{})}
	g.phase.Store(new(waitsQuiet))
	var running sync.WaitGroup
	running.Go(func() { g.run(t) })
	synced := make(chan []time.Duration)
	go func() { synced <- syncs(t, filepath.Join(dir, "beside"), g.stop) }()

	var held time.Duration // of the writer's processor, by a checkpoint
	between := func(f func()) {
		e.queue.between(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			before := processor(t)
			f()
			held = max(held, processor(t)-before)
		})
	}
	pass := func(d time.Duration) { <-time.After(d) }
	in := func(phase string, do func()) {
		g.phase.Store(&phase)
		do()
		pass(100 * time.Millisecond) // while the reports that it held are answered
		g.phase.Store(new(waitsQuiet))
		pass(500 * time.Millisecond)
	}
	pass(3 * time.Second)
	for n := range 10 {
		in("checkpoint", func() {
			if err := e.checkpoint(t.Context(), between); err != nil {
				t.Error(err)
			}
		})
		open := e.current.Books().Tally.Live[0].Start
		switch n {
		case 2, 6:
			in("making a generation", func() {
				now := c.Now()
				c.Advance(now.Truncate(24 * time.Hour).Add(24*time.Hour - 5*time.Minute).Sub(now))
				pass(2*time.Second + time.Duration(known)*50*time.Nanosecond)
			})
		case 4, 8:
			in("opening a generation", func() {
				c.Advance(10 * time.Minute)
				await.True(t, "a generation opens", func() bool { return e.current.Books().Tally.Live[0].Start > open })
			})
		}
	}
	close(g.stop)
	running.Wait()
	g.print(t, stalls())
	t.Logf("a checkpoint held the writer for %v of its processor at most", held)
	disk := <-synced
	slices.Sort(disk)
	t.Logf("beside, %d files of 4 KiB synced: p50 %v, p99 %v, longest %v", len(disk), disk[len(disk)/2],
		disk[len(disk)*99/100], disk[len(disk)-1])
}

// fillForWaits counts keys in the open generation, and fills what a checkpoint writes besides arrays: accounts
// that registered themselves, and the record of votes.
func fillForWaits(t *testing.T, e *Engine, keys int) {
	err := e.queue.inTurn(t.Context(), func() {
		countKeys(e.current.Books().Tally.Live[0], 0, keys)
		for i := range waitsAccounts {
			err := e.accounts.Put(trust.Account{Name: fmt.Sprint("x", i), Role: trust.Member, Weight: 0.05,
				From: netip.AddrFrom4([4]byte{198, byte(18 + i>>16), byte(i >> 8), byte(i)}), Created: e.clock.now()})
			if err != nil {
				t.Error(err)
				return
			}
		}
		for _, n := e.ballots.Oldest(); ; {
			e.ballots.Add(ballots.Ballot{Voice: uint64(n), Items: make([]ballots.Item, 40)})
			before := n
			if _, n = e.ballots.Oldest(); n == before {
				break // the oldest one had to go
			}
		}
	})
	if err != nil || t.Failed() {
		t.Fatal(err)
	}
	for _, name := range []string{"ana", "ben"} {
		put(t, e, name, trust.Trusted, 1, netip.Addr{})
	}
}

// A reporter makes reports by the clock.
type reporter struct {
	e     *Engine
	stop  chan struct{}
	phase atomic.Pointer[string]

	mu    sync.Mutex
	waits map[string][]wait // by phase
	late  time.Duration     // the longest time by which a report was made too late
}

func (g *reporter) run(t *testing.T) {
	g.waits = make(map[string][]wait)
	var answered sync.WaitGroup
	defer answered.Wait()
	began := time.Now()
	for n := 0; ; n++ {
		r := bulkhead.Report{Signatures: nodeMessage(5_000_000 + n), Recipients: []string{"ana@here.example"}}
		if n%5 == 0 {
			r.Recipients, r.Vote, r.Reporter.Account = nil, bulkhead.Spam, "ana"
		}
		due := began.Add(time.Duration(n) * time.Second / waitsRate)
		select {
		case <-time.After(time.Until(due)):
		case <-g.stop:
			return
		}
		g.late = max(g.late, time.Since(due))
		answered.Go(func() {
			_, err := g.e.Report(context.Background(), r)
			waited := time.Since(due)
			if err != nil {
				t.Error(err)
			}
			phase := *g.phase.Load()
			g.mu.Lock()
			defer g.mu.Unlock()
			g.waits[phase] = append(g.waits[phase], wait{due, waited})
		})
	}
}

// A wait is a time from due on.
type wait struct {
	due  time.Time
	took time.Duration
}

// meets reports whether some of w is within a stall, or shortly after it, while what had to wait is done.
func (w wait) meets(stalls []wait) bool {
	return slices.ContainsFunc(stalls, func(s wait) bool {
		return w.due.Before(s.due.Add(3*s.took/2)) && s.due.Before(w.due.Add(w.took))
	})
}

// print logs the waits of each phase, and the longest ones apart from stalls of the machine.
func (g *reporter) print(t *testing.T, stalls []wait) {
	for _, phase := range []string{waitsQuiet, "checkpoint", "making a generation", "opening a generation"} {
		w := g.waits[phase]
		if len(w) == 0 {
			t.Errorf("no report during %s", phase)
			continue
		}
		slices.SortFunc(w, func(x, y wait) int { return cmp.Compare(y.took, x.took) })
		all := w[:min(len(w), 5)]
		alone := slices.DeleteFunc(slices.Clone(w), func(x wait) bool { return x.meets(stalls) })
		t.Logf("%s: %d reports, p50 %v, p99 %v, p99.9 %v, longest %v; of %d outside stalls of the machine, longest %v",
			phase, len(w), w[len(w)/2].took, w[len(w)/100].took, w[len(w)/1000].took, times(all), len(alone),
			times(alone[:min(len(alone), 5)]))
	}
	t.Logf("the generator itself was late by %v at most; the machine stalled %d times", g.late, len(stalls))
}

func times(waits []wait) (took []time.Duration) {
	for _, w := range waits {
		took = append(took, w.took)
	}
	return took
}

const (
	stallsEnv = "BULKHEAD_ENGINE_STALLS_CHILD"
	stalled   = 3 * time.Millisecond
)

// startStalls starts a process that notes stalls of the machine. The result ends it, and returns them.
func startStalls(t *testing.T) func() []wait {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), stallsEnv+"=1")
	end, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return func() (all []wait) {
		end.Close()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
		for line := range strings.Lines(out.String()) {
			var due, took int64
			if _, err := fmt.Sscan(line, &due, &took); err != nil {
				t.Error(err)
			}
			all = append(all, wait{time.Unix(0, due), time.Duration(took)})
		}
		return all
	}
}

// printStalls wakes up every millisecond until in ends, and prints when it slept too long, and how much.
func printStalls(in io.Reader, out io.Writer) {
	ended := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, in)
		close(ended)
	}()
	for {
		due := time.Now().Add(time.Millisecond)
		select {
		case <-ended:
			return
		case <-time.After(time.Millisecond):
		}
		if late := time.Since(due); late > stalled {
			fmt.Fprintln(out, due.UnixNano(), late.Nanoseconds())
		}
	}
}

// syncs writes and syncs a file by the clock, and returns how long each took from the moment at which it was due.
func syncs(t *testing.T, path string, stop chan struct{}) (took []time.Duration) {
	f, err := os.Create(path)
	if err != nil {
		t.Error(err)
		return nil
	}
	defer f.Close()
	block := make([]byte, 4096)
	tick := time.NewTicker(time.Second / waitsRate)
	defer tick.Stop()
	for {
		var due time.Time
		select {
		case <-stop:
			return took
		case due = <-tick.C:
		}
		if _, err := f.WriteAt(block, int64(len(took)*len(block))); err != nil {
			t.Error(err)
			return took
		}
		if err := f.Sync(); err != nil {
			t.Error(err)
			return took
		}
		took = append(took, time.Since(due))
	}
}
