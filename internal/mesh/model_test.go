package mesh

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/store"
)

var (
	schedules = flag.Int("schedules", 400, "random schedules of TestModel")
	firstSeed = flag.Uint64("seed", 1, "seed of the first schedule of TestModel")
)

// TestModel runs random schedules of reports, publications, losses, repetitions,
// reorderings, crashes, restores, clock jumps and evictions on two to eight
// nodes, and compares what they say at the end with maps that took the reports
// alone. A soak: go test ./internal/mesh -run TestModel$ -schedules 5000 -seed 1000
func TestModel(t *testing.T) {
	n := *schedules
	if testing.Short() {
		n = 20
	}
	var done tallyOfSteps
	t.Run("seed", func(t *testing.T) {
		for i := range n {
			seed := *firstSeed + uint64(i)
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { runModel(t, seed, &done) })
			})
		}
	})
	done.complete(t, n)
}

// TestModelAgain runs schedules that once failed, several times each: goroutines
// take turns at random.
func TestModelAgain(t *testing.T) {
	var done tallyOfSteps
	for _, seed := range []uint64{
		117,  // sound arrays of a peer that went back kept its other ones refused
		5267, // who went back was not shown its newest life by those who had only heard of it
		6061, // that proof was lost with a restart of who held it
	} {
		for range 8 {
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { runModel(t, seed, &done) })
			})
		}
	}
}

// Kinds of steps that a model without them would not be worth much.
var stepKinds = []string{
	"reports", "pause", "faults", "cut off", "connected", "stopped", "killed", "backup", "restored", "copied back",
	"machine rolled back", "broker wiped", "clock set", "evicted", "long pause", "merged",
}

// A tallyOfSteps counts what schedules did.
type tallyOfSteps struct {
	mu sync.Mutex
	n  map[string]int
}

func (s *tallyOfSteps) add(kind string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n == nil {
		s.n = make(map[string]int)
	}
	s.n[kind]++
}

// complete fails the test if some kind of step never happened in many schedules.
func (s *tallyOfSteps) complete(t *testing.T, schedules int) {
	t.Helper()
	t.Logf("steps of %d schedules: %v", schedules, s.n)
	for _, kind := range stepKinds {
		if s.n[kind] == 0 && schedules >= 20 {
			t.Errorf("no step of kind %q in %d schedules", kind, schedules)
		}
	}
}

func runModel(t *testing.T, seed uint64, done *tallyOfSteps) {
	rng := rand.New(rand.NewPCG(seed, 7))
	w := newWorld(t, rng, done)
	w.net, w.pause = memNet{newMemBroker(rand.New(rand.NewPCG(seed, 8)))}, time.Second
	w.populate()
	for range 80 {
		w.step()
	}
	w.calm()
	time.Sleep(4 * time.Minute)
	synctest.Wait()
	for _, wrong := range w.compare() {
		t.Error(wrong)
	}
	w.stop()
}

// step does something at random.
func (w *world) step() {
	n := w.nodes[w.rng.IntN(len(w.nodes))]
	say := func(what string) {
		w.done.add(what)
		w.log.Info("--- "+what, "node", n.i, "time", time.Now().Format(time.TimeOnly))
	}
	switch x := w.rng.IntN(100); {
	case x < 45:
		w.done.add("reports")
		for range 1 + w.rng.IntN(5) {
			n.report()
		}
	case x < 70:
		w.done.add("pause")
		time.Sleep(time.Duration(w.rng.Int64N(int64(4 * w.pause))))
	case x < 75:
		say("faults")
		w.net.faults(w.rng.Float64()*0.5, w.rng.Float64()*0.3, w.rng.Float64())
	case x < 79:
		on := w.rng.IntN(2) == 0
		say(map[bool]string{false: "cut off", true: "connected"}[on])
		w.net.cut(n, !on)
	case x < 84:
		hard := w.rng.IntN(3) > 0
		say(map[bool]string{false: "stopped", true: "killed"}[hard])
		n.stop(hard)
		n.start()
	case x < 87:
		say("backup")
		n.takeBackup()
	case x < 90:
		if how := []string{"restored", "copied back", "machine rolled back"}[w.rng.IntN(3)]; n.backup != nil {
			say(how)
			n.restore(how)
		}
	case x < 92:
		say("broker wiped")
		w.net.wipe()
	case x < 95:
		say("clock set")
		n.offset.Store(w.rng.Int64N(int64(4*time.Hour)) - int64(2*time.Hour))
	case x < 98:
		o := w.nodes[(n.i+1+w.rng.IntN(len(w.nodes)-1))%len(w.nodes)]
		say("evicted")
		err := n.mesh.EvictPeer(w.t.Context(), o.id.ID())
		time.Sleep(time.Duration(w.rng.Int64N(int64(5 * w.pause))))
		if err = errors.Join(err, n.mesh.AddPeer(w.t.Context(), o.id.ID(), "", 1)); err != nil {
			w.t.Fatal(err)
		}
	default:
		say("long pause")
		time.Sleep(60 * w.pause)
	}
}

func (n *node) takeBackup() {
	var b bytes.Buffer
	if _, err := n.st.Backup(n.w.t.Context(), &b); err != nil {
		n.w.t.Fatal(err)
	}
	n.backup, n.saved = b.Bytes(), n.truth.clone()
	var err error
	if n.state, err = loadState(n.meshFolder()); err != nil {
		n.w.t.Fatal(err)
	}
}

// restore starts the node again from its backup: "restored" as bulkhead restore
// does; "copied back" with a copy of the store of which nobody is told; "machine
// rolled back", where what the mesh remembers is as old as the store.
func (n *node) restore(how string) {
	n.stop(n.w.rng.IntN(2) == 0)
	old := n.folder()
	n.data++
	_, err := store.Restore(n.w.t.Context(), bytes.NewReader(n.backup), n.folder(), store.Options{Durability: store.Relaxed})
	if err != nil {
		n.w.t.Fatal(err)
	}
	if err := os.RemoveAll(old); err != nil {
		n.w.t.Fatal(err)
	}
	n.truth = n.saved.clone()
	if how != "restored" {
		// The mesh takes the restored store for the one that it knows.
		st, err := store.Open(n.folder(), store.Options{})
		if err != nil {
			n.w.t.Fatal(err)
		}
		id := st.Manifest().Incarnation
		s := n.state
		if how == "copied back" {
			s, err = loadState(n.meshFolder())
		}
		s.Store = id
		if err := errors.Join(err, st.Close(), s.save(n.meshFolder())); err != nil {
			n.w.t.Fatal(err)
		}
	}
	n.start()
}

// compare compares what every node says with the sum of what was reported, and
// returns what is wrong.
func (w *world) compare() (wrong []string) {
	t := w.t
	fail := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	for _, n := range w.nodes {
		for _, p := range n.mesh.Status().Peers {
			if p.Quarantine != "" || p.Missing > 0 {
				fail("node %d of peer %s: quarantine %q, %d changes missing, asked %d times, error %q, refused %v", n.i, p.Name, p.Quarantine, p.Missing, p.Asked, p.Error, p.Refusals)
			}
		}
	}
	over := 0
	var exact *node // without a limit, so that nothing is merged
	for _, n := range w.nodes {
		if n.limit == 0 {
			exact = n
		}
		if m := n.engine.RemoteMemory(); m.Merged > 0 {
			w.done.add("merged")
			if m.Bytes > m.Limit {
				fail("node %d: %+v", n.i, m)
			}
		}
	}
	for sig := range 60 {
		want := make(map[bulkhead.Vote]uint32)
		for _, n := range w.nodes {
			for vote, c := range n.truth[sig] {
				want[vote] += c
			}
		}
		var first bulkhead.Finding
		if exact != nil {
			first = check(t, exact.engine, sig)
		}
		for _, n := range w.nodes {
			f := check(t, n.engine, sig)
			got := map[bulkhead.Vote]uint32{bulkhead.Sighting: f.Sightings, bulkhead.Spam: f.Spam, bulkhead.Ham: f.Ham}
			for vote, c := range got {
				if c < want[vote] {
					fail("node %d: %d %v of signature %d, want %d: counted too little", n.i, c, vote, sig, want[vote])
				}
				if c > want[vote] {
					over++
				}
			}
			if n.limit == 0 && (f.Sightings != first.Sightings || f.Spam != first.Spam || f.Ham != first.Ham) {
				fail("signature %d: node %d says %d, %d spam, %d ham, node %d %d, %d, %d", sig, n.i, f.Sightings, f.Spam, f.Ham, exact.i, first.Sightings, first.Spam, first.Ham)
			}
		}
	}
	// 180 counts among arrays for 2,000 signatures with one wrong in 10,000.
	if limit := 2 * len(w.nodes); over > limit {
		fail("%d counts too high, limit %d", over, limit)
	}
	return wrong
}
