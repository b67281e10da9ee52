package engine

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/store"
)

const day = 24 * time.Hour

// A heldNode is a node on disk whose clock tests set wrong, and a map of the counts it has
// acknowledged.
type heldNode struct {
	*Engine
	t        *testing.T
	dir      string
	store    *store.Store
	clock    *clock
	uptime   atomic.Int64 // nanoseconds
	log      bytes.Buffer
	confirms func(time.Time) string
	counts   map[int]uint32 // sightings by number of the signature
	listed   map[int]bool
}

func newHeldNode(t *testing.T) *heldNode {
	n := &heldNode{t: t, dir: filepath.Join(t.TempDir(), "data"), clock: newClock(), counts: make(map[int]uint32),
		listed: make(map[int]bool)}
	n.start()
	t.Cleanup(func() { n.stop() })
	for i := range 400 {
		n.count(i, 1+uint32(i%3))
	}
	for i := 1000; i < 1050; i++ {
		report(t, n.Engine, bulkhead.Report{Signatures: []bulkhead.Signature{sig(bulkhead.Exact, i)}, Vote: bulkhead.Spam,
			Reporter: bulkhead.Reporter{Addr: netip.MustParseAddr("127.0.0.1")}})
		n.listed[i] = true
	}
	return n
}

func (n *heldNode) start() {
	n.t.Helper()
	var err error
	if n.store, err = store.Open(n.dir, store.Options{}); err != nil {
		n.t.Fatal(err)
	}
	tally := BookOptions{Generation: day, Keep: 7, Capacity: 20_000, Error: 1e-3}
	block := BookOptions{Generation: 7 * day, Keep: 8, Capacity: 10_000, Error: 1e-6}
	n.Engine, err = Open(n.t.Context(), small(Options{
		Store: n.store, Tally: tally, Block: block, Now: n.clock.Now,
		Uptime:   func() time.Duration { return time.Duration(n.uptime.Load()) },
		SetAside: filepath.Join(n.dir, "aged"), MaxStep: StepLimit(tally, block), Plausible: func(wall time.Time) string {
			if n.confirms == nil {
				return ""
			}
			return n.confirms(wall)
		}, Log: slog.New(slog.NewTextHandler(&n.log, nil)),
	}))
	if err != nil {
		n.t.Fatal(err)
	}
}

func (n *heldNode) stop() {
	n.t.Helper()
	if err := n.Close(context.Background()); err != nil {
		n.t.Error(err)
	}
	if err := n.store.Close(); err != nil {
		n.t.Error(err)
	}
}

// restart restarts the node with its clock moved by d, away from the right time or back.
func (n *heldNode) restart(d time.Duration) {
	n.t.Helper()
	n.stop()
	n.clock.Advance(d)
	n.start()
}

func (n *heldNode) count(i int, times uint32) {
	n.t.Helper()
	if err := n.Count(n.t.Context(), []bulkhead.Signature{sig(bulkhead.Exact, i)}, []uint32{times}); err != nil {
		n.t.Fatal(err)
	}
	n.counts[i] += times
}

// exact checks that the node's counts equal the map.
func (n *heldNode) exact(when string) {
	n.t.Helper()
	wrong, missing := 0, 0
	for i, want := range n.counts {
		if got := verdictOf(n.t, n.Engine, sig(bulkhead.Exact, i)); got.Sightings != want {
			wrong++
		}
	}
	for i := range n.listed {
		if got := verdictOf(n.t, n.Engine, sig(bulkhead.Exact, i)); got.Judged != bulkhead.JudgedSpam {
			missing++
		}
	}
	if wrong+missing > 0 {
		n.t.Errorf("%s: %d of %d counts are wrong, %d of %d listings are gone", when, wrong, len(n.counts), missing,
			len(n.listed))
	}
}

// turn makes the writer read the clock, set aside what has aged out, and drop it.
func (n *heldNode) turn() {
	n.t.Helper()
	for range 2 {
		if err := n.queue.inTurn(n.t.Context(), func() {}); err != nil {
			n.t.Fatal(err)
		}
		n.writer.leaving.work.Wait()
	}
	if err := n.queue.inTurn(n.t.Context(), func() {}); err != nil {
		n.t.Fatal(err)
	}
}

// TestClockAheadHoldsAgeing starts a node with a clock that is far ahead, counts, writes
// checkpoints, restarts with the wrong clock and with the right one: nothing is lost.
func TestClockAheadHoldsAgeing(t *testing.T) {
	for _, ahead := range []time.Duration{10 * day, 60 * day, 365 * day} {
		t.Run(ahead.String(), func(t *testing.T) {
			n := newHeldNode(t)
			n.restart(ahead)
			if a := n.Ageing(); !a.Held || a.Clock.Sub(a.Newest).Round(time.Hour) != ahead {
				t.Fatalf("%v ahead: %+v", ahead, a)
			}
			if text := n.log.String(); strings.Count(text, "level=WARN") != 1 ||
				!strings.Contains(text, "bulkhead clock confirm") {
				t.Errorf("logged:\n%s", text)
			}
			n.exact("clock ahead")
			n.count(5, 2)
			n.count(5000, 7)
			if err := n.checkpoint(t.Context(), n.queue.between); err != nil {
				t.Fatal(err)
			}
			// Days pass with the wrong clock: generations open, and none is dropped.
			for range 9 {
				n.uptime.Add(int64(day))
				n.clock.Advance(day)
				n.turn()
				n.count(5, 1)
			}
			n.exact("nine days later")
			if got := len(n.current.View().Tally.Live); got < 9 {
				t.Errorf("%d generations after nine days", got)
			}
			n.restart(0)
			if !n.Ageing().Held {
				t.Error("not held after another start with the wrong clock")
			}
			n.exact("clock still ahead")
			n.restart(-ahead - 8*day) // the machine was really off for some days, fewer than are kept
			if n.Ageing().Held {
				t.Error("held with the right clock")
			}
			for i := range n.listed {
				if verdictOf(t, n.Engine, sig(bulkhead.Exact, i)).Judged != bulkhead.JudgedSpam {
					t.Fatalf("listing %d is gone with the right clock", i)
				}
			}
		})
	}
}

// TestClockComesRight: a clock that was wrong for a short while does no harm, whether it is
// corrected while the node runs or before a start.
func TestClockComesRight(t *testing.T) {
	for _, running := range []bool{false, true} {
		for _, ahead := range []time.Duration{10 * day, 3650 * day} {
			t.Run(fmt.Sprint(running, ahead), func(t *testing.T) {
				n := newHeldNode(t)
				if running {
					n.clock.Advance(ahead)
					n.turn()
				} else {
					n.restart(ahead)
				}
				if !n.Ageing().Held {
					t.Fatal("not held")
				}
				n.count(1, 4)
				if running {
					n.clock.Advance(-ahead)
					n.turn()
				} else {
					n.restart(-ahead)
				}
				if n.Ageing().Held {
					t.Error("held with the right clock")
				}
				n.count(2, 4)
				n.exact("clock right again")
				n.restart(day)
				n.exact("a day later")
			})
		}
	}
}

// TestClockConfirmed: after a machine was really off for long, generations age once an
// administrator confirms the clock, and not again after the next start.
func TestClockConfirmed(t *testing.T) {
	n := newHeldNode(t)
	n.restart(10 * day)
	if a := n.Ageing(); a.Tally != 1 || a.Blocklist != 0 {
		t.Errorf("10 days: %d generations of the tally and %d of the blocklist would expire, want 1 and 0", a.Tally,
			a.Blocklist)
	}
	n.count(7000, 3)
	if err := n.ConfirmClock(t.Context()); err != nil {
		t.Fatal(err)
	}
	n.turn()
	for i := range 400 { // all counts before the start are ten days old
		n.counts[i] = 0
	}
	n.count(8000, 2)
	n.exact("confirmed")
	n.restart(time.Minute)
	if n.Ageing().Held {
		t.Error("held again after a confirmation and a restart")
	}
	n.exact("after a restart")
	n.restart(60 * day)
	if err := n.ConfirmClock(t.Context()); err != nil {
		t.Fatal(err)
	}
	n.turn()
	if v := verdictOf(t, n.Engine, sig(bulkhead.Exact, 1000)); v.Judged == bulkhead.JudgedSpam {
		t.Error("listed 70 days later")
	}
}

// TestClockWithoutBattery: a clock that begins in 1970 and is then corrected does not hold the
// ageing.
func TestClockWithoutBattery(t *testing.T) {
	n := newHeldNode(t)
	back := n.clock.Now().Sub(time.Unix(3600, 0))
	n.restart(-back)
	n.turn()
	n.clock.Advance(back + time.Minute)
	n.turn()
	if n.Ageing().Held {
		t.Error("held by a clock that was set right")
	}
	n.exact("set right")
}

// TestClockConfirmedBy: what confirms the clock ends the holding of the ageing, at the start and while
// the node runs. The node asks for it at most once a second.
func TestClockConfirmedBy(t *testing.T) {
	n := newHeldNode(t)
	var right, asked atomic.Int64
	n.confirms = func(time.Time) string {
		asked.Add(1)
		if right.Load() == 0 {
			return ""
		}
		return "2 peers"
	}
	const step = 36 * time.Hour // less than two generations of the tally
	for i := range 4 {
		if n.restart(step); n.Ageing().Held {
			t.Errorf("held after %v although no generation would expire", time.Duration(i+1)*step)
		}
	}
	n.restart(step)
	if a := n.Ageing(); !a.Held || a.Tally == 0 {
		t.Fatalf("a step that expires a generation is not held: %+v", a)
	}
	n.exact("held")
	n.count(7000, 3)
	before := asked.Load()
	for range 50 {
		n.turn()
		n.Now()
	}
	if got := asked.Load() - before; got > 1 {
		t.Errorf("asked %d times within a second", got)
	}
	right.Store(1)
	n.uptime.Add(int64(2 * time.Second))
	n.clock.Advance(2 * time.Second)
	n.turn()
	if n.Ageing().Held || !strings.Contains(n.log.String(), "2 peers") {
		t.Errorf("held although peers confirm the clock:\n%s", n.log.String())
	}
	for i := range 400 {
		n.counts[i] = 0
	}
	n.exact("confirmed by peers")
}

// TestClockWrongForDays: the clock shows 1970, or is held, for five days. Counts made meanwhile are exact
// when it is right again, over restarts, and age afterwards.
func TestClockWrongForDays(t *testing.T) {
	for name, way := range map[string]time.Duration{"1970": -1, "ten years ahead": 3650 * day} {
		for _, restarts := range []bool{false, true} {
			t.Run(fmt.Sprint(name, restarts), func(t *testing.T) {
				n := newHeldNode(t)
				if way < 0 {
					way = time.Unix(3600, 0).Sub(n.clock.Now())
				}
				pass := func(d time.Duration) {
					n.uptime.Add(int64(d))
					n.clock.Advance(d)
					n.turn()
				}
				n.clock.Advance(way)
				n.turn()
				made := make(map[int]uint32)
				for i := range 10 {
					n.count(9000+i, uint32(1+i))
					made[9000+i] = n.counts[9000+i]
					pass(12 * time.Hour)
					if restarts && i == 5 {
						n.restart(0)
					}
				}
				n.clock.Advance(-way)
				n.turn()
				if n.Ageing().Held {
					if err := n.ConfirmClock(t.Context()); err != nil {
						t.Fatal(err)
					}
					n.turn()
				}
				n.counts, n.listed = made, nil
				n.exact("right again")
				n.restart(time.Minute)
				pass(day)
				n.exact("a day later")
				for range 8 {
					pass(day)
				}
				for i := range made {
					if got := verdictOf(t, n.Engine, sig(bulkhead.Exact, i)).Sightings; got != 0 {
						t.Fatalf("nine days later signature %d still has %d sightings", i, got)
					}
				}
			})
		}
	}
}

// TestBroughtBack: an administrator confirms a wrong clock, so everything ages out. When the clock is right again,
// all of it comes back, once, and stays over a restart. Files are kept for a day of running time, whatever
// the clock shows.
func TestBroughtBack(t *testing.T) {
	n := newHeldNode(t)
	bring := func(when string, want, skipped int) {
		t.Helper()
		if got, left, err := n.BringBack(t.Context()); got != want || left != skipped || err != nil {
			t.Fatalf("%s: %d brought back, %d skipped, %v; want %d and %d", when, got, left, err, want, skipped)
		}
	}
	bring("nothing has aged out", 0, 0)
	const ahead = 3650 * day
	n.restart(ahead)
	if err := n.ConfirmClock(t.Context()); err != nil {
		t.Fatal(err)
	}
	n.turn()
	for i := range n.counts {
		if got := verdictOf(t, n.Engine, sig(bulkhead.Exact, i)).Sightings; got != 0 {
			t.Fatalf("signature %d has %d sightings ten years later", i, got)
		}
	}
	if got := len(n.SetAside()); got != 2 {
		t.Fatalf("%d generations are set aside, want one of each book", got)
	}
	bring("the clock is still wrong", 0, 2)
	n.restart(-ahead)
	n.count(1, 2)
	n.count(9999, 1)
	bring("the clock is right", 2, 0)
	n.exact("brought back")
	bring("again", 0, 0)
	n.restart(time.Minute)
	n.exact("after a restart")

	n.restart(3650 * day)
	if err := n.ConfirmClock(t.Context()); err != nil {
		t.Fatal(err)
	}
	n.turn()
	tick := func(ran time.Duration, restart bool, want bool) {
		t.Helper()
		if n.uptime.Add(int64(ran)); restart {
			n.restart(0)
		}
		n.writer.leaving.tick(n.opts.Log)
		if got := len(n.SetAside()) > 0; got != want {
			t.Errorf("%v later, kept %v, want %v", ran, got, want)
		}
	}
	tick(13*time.Hour, true, true)
	n.clock.Advance(30 * time.Minute)
	tick(10*time.Hour, false, true)
	tick(2*time.Hour, false, false)
}
