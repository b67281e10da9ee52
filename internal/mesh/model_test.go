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
	"github.com/bulkhead-mail/bulkhead/internal/mesh/member"
	"github.com/bulkhead-mail/bulkhead/internal/store"
	"github.com/bulkhead-mail/bulkhead/internal/testing/bubble"
	"github.com/bulkhead-mail/bulkhead/internal/testing/enginetest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/meshtest"
)

var (
	schedules = flag.Int("schedules", 400, "random schedules of TestModel")
	firstSeed = flag.Uint64("seed", 1, "seed of the first schedule of TestModel")
)

// TestModel runs random schedules of reports, publications, losses, repetitions, reorderings,
// crashes, restores, clock jumps and evictions on two to eight nodes. It compares their answers at
// the end with maps of the reports alone. A soak:
//
//	go test ./internal/mesh -run TestModel$ -schedules 5000 -seed 1000
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
	done.complete(t, n, stepKinds)
}

// TestModelAgain runs schedules that once failed, several times each: the order of goroutines is
// random.
func TestModelAgain(t *testing.T) {
	var done tallyOfSteps
	for _, seed := range []uint64{
		117,  // sound arrays of a peer that went back kept its other ones refused
		5267, // peers that had only seen the newest incarnation's head did not prove it to an origin that went back
		6061, // that proof was lost with a restart of its holder
	} {
		for range 8 {
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { runModel(t, seed, &done) })
			})
		}
	}
}

// TestModelDays is TestModel with clocks that step by days, so that there are many generations, and
// administrators who roll peers back.
func TestModelDays(t *testing.T) {
	n := *schedules / 10
	if testing.Short() {
		n = 12
	}
	var done tallyOfSteps
	t.Run("seed", func(t *testing.T) {
		for i := range max(n, 1) {
			seed := *firstSeed + uint64(i)
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { runModelOf(t, seed, &done, variant{days: true}) })
			})
		}
	})
	done.complete(t, n, daySteps)
}

// TestModelEdits is TestModel with a broker that also changes messages in flight and in storage,
// and delivers one message in place of another. Counts are exact all the same, and no peer is
// quarantined for the broker's faults.
func TestModelEdits(t *testing.T) {
	n := *schedules / 10
	if testing.Short() {
		n = 8
	}
	var done tallyOfSteps
	for i := range max(n, 1) {
		seed := *firstSeed + uint64(i)
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { runModelOf(t, seed, &done, variant{edits: true}) })
		})
	}
	t.Logf("steps of %d schedules: %v", n, done.n)
	if n >= 8 && done.n["message changed"] == 0 {
		t.Error("the broker has changed nothing")
	}
}

// An editor is a network whose broker changes messages as often as it loses them.
type editor struct{ memNet }

func (e editor) faults(loss, repeat, delay float64) {
	e.memNet.faults(loss, repeat, delay)
	e.Edits(loss)
}

// Steps without which a model would not be worth much.
var stepKinds = []string{
	"reports", "pause", "faults", "cut off", "connected", "stopped", "killed", "backup", "restored", "copied back",
	"machine rolled back", "broker wiped", "clock set", "evicted", "long pause", "merged",
}

// daySteps are the steps of schedules in which clocks step by days. Few of them merge arrays,
// because of the number of generations.
var daySteps = append([]string{"clock moved by days", "rolled back"}, stepKinds[:len(stepKinds)-1]...)

// A tallyOfSteps counts the steps of schedules.
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

// complete fails the test if one of the given kinds of steps never happened in many schedules.
func (s *tallyOfSteps) complete(t *testing.T, schedules int, kinds []string) {
	t.Helper()
	t.Logf("steps of %d schedules: %v", schedules, s.n)
	for _, kind := range kinds {
		if s.n[kind] == 0 && schedules >= 20 {
			t.Errorf("no step of kind %q in %d schedules", kind, schedules)
		}
	}
}

// A variant is how schedules differ from those of TestModel.
type variant struct {
	days  bool // clocks step by days, and peers are rolled back
	edits bool // the broker changes messages
}

func runModel(t *testing.T, seed uint64, done *tallyOfSteps) { runModelOf(t, seed, done, variant{}) }

func runModelOf(t *testing.T, seed uint64, done *tallyOfSteps, v variant) {
	rng := rand.New(rand.NewPCG(seed, 7))
	w := newWorld(t, rng, done)
	w.days = v.days
	broker := meshtest.NewBroker(rand.New(rand.NewPCG(seed, 8)))
	w.net, w.pause = memNet{broker}, time.Second
	if v.edits {
		w.net = editor{w.net.(memNet)}
	}
	w.populate()
	for range 80 {
		if v.days && rng.IntN(8) == 0 {
			w.stepOfDays()
		} else {
			w.step()
		}
	}
	w.calm()
	for range broker.Changed {
		done.add("message changed")
	}
	if v.days {
		w.sameTime()
	}
	bubble.Advance(4 * time.Minute)
	synctest.Wait()
	w.forgetFormer()
	bubble.Advance(time.Minute) // merged arrays that held former incarnations are made anew
	synctest.Wait()
	for _, wrong := range w.compare() {
		t.Error(wrong)
	}
	w.stop()
}

// forgetFormer has every node forget the former incarnations of its peers. The truth of a node
// that lost its store began anew with it, and what is held of the lost incarnation depends on who
// was its peer then.
func (w *world) forgetFormer() {
	for _, n := range w.nodes {
		for _, p := range n.mesh.Status().Peers {
			if err := n.mesh.ForgetFormer(w.t.Context(), p.ID); err != nil {
				w.t.Fatal(err)
			}
		}
	}
}

// daysOfClocks is how far apart clocks may be in schedules where they step by days.
const daysOfClocks = 6

// stepOfDays moves a clock by days, forward or back, or rolls a peer back.
func (w *world) stepOfDays() {
	n, o := w.two()
	if w.rng.IntN(2) == 0 {
		w.say("clock moved by days", n)
		n.offset.Store(w.rng.Int64N(int64(daysOfClocks * 24 * time.Hour)))
		return
	}
	w.say("rolled back", n)
	if newest := time.Unix(int64(o.newest()), 0); n.now().Before(newest) {
		// A generation further ahead is dropped or not, depending on whether it has already arrived
		// here.
		n.offset.Store(int64(time.Until(newest) + time.Hour))
	}
	oldest := uint64(n.now().Unix())
	for start := range o.begun {
		oldest = min(oldest, start)
	}
	since := oldest + w.rng.Uint64N(uint64(n.now().Unix())-oldest+1)
	if w.rng.IntN(2) == 0 {
		since -= since % (24 * 60 * 60) // start of a generation
	}
	if err := n.mesh.RollbackPeer(w.t.Context(), o.id.ID(), time.Unix(int64(since), 0)); err != nil {
		w.t.Fatal(err)
	}
	n.refused[o] = append(n.refused[o], member.Stretch{From: since, To: uint64(n.now().Unix())})
}

// sameTime sets all clocks to the furthest, so that no generation is in a node's future.
func (w *world) sameTime() {
	furthest := int64(0)
	for _, n := range w.nodes {
		furthest = max(furthest, n.offset.Load(), int64(time.Until(time.Unix(int64(n.newest()), 0))))
	}
	for _, n := range w.nodes {
		n.offset.Store(furthest)
	}
}

// two returns two different nodes.
func (w *world) two() (n, o *node) {
	n = w.nodes[w.rng.IntN(len(w.nodes))]
	return n, w.nodes[(n.i+1+w.rng.IntN(len(w.nodes)-1))%len(w.nodes)]
}

func (w *world) say(what string, n *node) {
	w.done.add(what)
	w.log.Info("--- "+what, "node", n.i, "time", time.Now().Format(time.TimeOnly))
}

// rest lets the nodes run for d, on the simulated clock or, with a real NATS server, on the real one.
func (w *world) rest(d time.Duration) { time.Sleep(d) }

// step takes a random step.
func (w *world) step() {
	n := w.nodes[w.rng.IntN(len(w.nodes))]
	say := func(what string) { w.say(what, n) }
	switch x := w.rng.IntN(100); {
	case x < 45:
		w.done.add("reports")
		for range 1 + w.rng.IntN(5) {
			n.report()
		}
	case x < 70:
		w.done.add("pause")
		w.rest(time.Duration(w.rng.Int64N(int64(4 * w.pause))))
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
		w.rest(time.Duration(w.rng.Int64N(int64(5 * w.pause))))
		if err = errors.Join(err, n.mesh.AddPeer(w.t.Context(), o.id.ID(), "", 1)); err != nil {
			w.t.Fatal(err)
		}
		delete(n.refused, o)
	default:
		say("long pause")
		w.rest(60 * w.pause)
	}
}

func cloned(begun map[uint64]counts) map[uint64]counts {
	out := make(map[uint64]counts)
	for start, c := range begun {
		out[start] = c.clone()
	}
	return out
}

// counts returns the counts of a signature that a node should have: the reports to all nodes,
// without the generations that it has rolled back.
func (w *world) counts(n *node, sig int) map[bulkhead.Vote]uint32 {
	want := make(map[bulkhead.Vote]uint32)
	for _, o := range w.nodes {
		for start, c := range o.begun {
			if p := (member.Peer{Refused: n.refused[o]}); p.Refuses(start) {
				continue
			}
			for vote, v := range c[sig] {
				want[vote] += v
			}
		}
	}
	return want
}

func (n *node) takeBackup() {
	var b bytes.Buffer
	if _, err := n.st.Backup(n.w.t.Context(), &b); err != nil {
		n.w.t.Fatal(err)
	}
	n.backup, n.saved, n.before = b.Bytes(), n.truth.clone(), cloned(n.begun)
	var err error
	if n.state, err = member.LoadState(n.meshFolder()); err != nil {
		n.w.t.Fatal(err)
	}
}

// restore starts the node again from its backup: "restored" as bulkhead restore does; "copied back"
// with a copy of the store that no component is notified of; "machine rolled back", where the state
// of the mesh is as old as the store.
func (n *node) restore(how string) {
	n.stop(n.w.rng.IntN(2) == 0)
	old := n.folder()
	n.data++
	_, err := store.Restore(n.w.t.Context(), bytes.NewReader(n.backup), n.folder(),
		store.Options{Durability: store.Relaxed})
	if err != nil {
		n.w.t.Fatal(err)
	}
	if err := os.RemoveAll(old); err != nil {
		n.w.t.Fatal(err)
	}
	n.truth, n.begun = n.saved.clone(), cloned(n.before)
	if how != "restored" {
		// The mesh takes the restored store for the one that it knows.
		st, err := store.Open(n.folder(), store.Options{})
		if err != nil {
			n.w.t.Fatal(err)
		}
		id := st.Manifest().Incarnation
		s := n.state
		if how == "copied back" {
			s, err = member.LoadState(n.meshFolder())
		}
		s.Store = id
		if err := errors.Join(err, st.Close(), s.Save(n.meshFolder())); err != nil {
			n.w.t.Fatal(err)
		}
	}
	n.start()
}

// compare compares every node's answers with the sum of the reports, and returns the errors.
func (w *world) compare() (wrong []string) {
	t := w.t
	fail := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	for _, n := range w.nodes {
		for _, p := range n.mesh.Status().Peers {
			if p.Quarantine != "" || p.Missing > 0 {
				fail("node %d of peer %s: quarantine %q, %d changes missing, asked %d times, error %q, refused %v", n.i, p.Name,
					p.Quarantine, p.Missing, p.Asked, p.Error, p.Refusals)
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
		var first bulkhead.Finding
		if exact != nil {
			first = enginetest.Check(t, exact.engine, sig)
		}
		for _, n := range w.nodes {
			f, want := enginetest.Check(t, n.engine, sig), w.counts(n, sig)
			got := map[bulkhead.Vote]uint32{bulkhead.Sighting: f.Sightings, bulkhead.Spam: f.Spam, bulkhead.Ham: f.Ham}
			for vote, c := range got {
				if c < want[vote] {
					fail("node %d: %d %v of signature %d, want %d: counted too little", n.i, c, vote, sig, want[vote])
				}
				if c > want[vote] {
					over++
				}
			}
			if n.limit == 0 && !w.days && (f.Sightings != first.Sightings || f.Spam != first.Spam || f.Ham != first.Ham) {
				fail("signature %d: node %d says %d, %d spam, %d ham, node %d %d, %d, %d", sig, n.i, f.Sightings, f.Spam, f.Ham,
					exact.i, first.Sightings, first.Spam, first.Ham)
			}
		}
	}
	// 180 counts among arrays for 2,000 signatures with one wrong in 10,000.
	if limit := 2 * len(w.nodes); over > limit {
		fail("%d counts too high, limit %d", over, limit)
	}
	return wrong
}
