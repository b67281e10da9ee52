package mesh

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
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

// Kinds of steps that a model without them would not be worth much.
var stepKinds = []string{
	"reports", "pause", "faults", "cut off", "connected", "stopped", "killed", "backup", "restored", "copied back",
	"machine rolled back", "broker wiped", "clock set", "evicted", "long pause",
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

type counts map[int]map[bulkhead.Vote]uint32

func (c counts) clone() counts {
	out := make(counts)
	for n, votes := range c {
		out[n] = maps.Clone(votes)
	}
	return out
}

// A world is all nodes of a schedule.
type world struct {
	t     *testing.T
	rng   *rand.Rand
	net   network
	nodes []*node
	pause time.Duration // most pauses last up to four of it, long ones sixty
	log   *slog.Logger
	done  *tallyOfSteps
	// capacity of the tally: arrays of one page, or of several. messages bounds
	// what one message carries: all pages of an image, or one.
	capacity uint64
	messages int
}

// A network carries the messages of a world, badly on purpose.
type network interface {
	// open returns a mesh whose bus is on.
	open(ctx context.Context, n *node, o Options) (*Mesh, error)
	// cut ends what the node has open, and lets nothing through until it is
	// connected again.
	cut(n *node, off bool)
	// faults sets how bad it is: probabilities, and a share of the longest time on the way.
	faults(loss, repeat, delay float64)
	wipe() // forgets what is stored
}

// A node is one server, with a map of what was reported to it.
type node struct {
	w      *world
	i      int
	root   string
	data   int // number of the store's folder
	id     *Identity
	offset atomic.Int64 // of its clock

	st     *store.Store
	engine *engine.Engine
	mesh   *Mesh
	bus    *memBus // of a network in memory
	wire   *wire   // of a real one
	cancel context.CancelFunc
	done   chan error

	truth  counts
	backup []byte
	saved  counts
	state  state // of the mesh, at the backup
}

func (n *node) now() time.Time { return time.Now().Add(time.Duration(n.offset.Load())) }

func (n *node) folder() string { return filepath.Join(n.root, fmt.Sprint("data", n.data)) }

func (n *node) meshFolder() string { return filepath.Join(n.root, "mesh") }

func (n *node) start() {
	t := n.w.t
	var err error
	// The disk of a test does not lose power.
	if n.st, err = store.Open(n.folder(), store.Options{Durability: store.Relaxed}); err != nil {
		t.Fatal(err)
	}
	n.engine, err = engine.Open(context.Background(), engine.Options{
		Secret: testSecret, Now: n.now, Store: n.st,
		Tally: engine.BookOptions{Generation: 24 * time.Hour, Keep: 4, Capacity: n.w.capacity, Error: 1e-4},
		Block: engine.BookOptions{Generation: 7 * 24 * time.Hour, Keep: 3, Capacity: 200, Error: 1e-6},
	})
	if err != nil {
		t.Fatal(err)
	}
	n.mesh, err = n.w.net.open(t.Context(), n, Options{
		Dir: n.meshFolder(), Identity: n.id, Engine: n.engine, KeyID: testSecret.ID(), Mode: External,
		Store: n.st.Manifest().Incarnation, Now: n.now, Log: n.w.log.With("node", n.i), imageBytes: n.w.messages, Name: fmt.Sprint("node ", n.i),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	n.cancel, n.done = cancel, make(chan error, 1)
	go func() { n.done <- n.mesh.Run(ctx) }()
}

// stop ends the node; hard, as if its process had been killed.
func (n *node) stop(hard bool) {
	if n.mesh == nil {
		return
	}
	if hard {
		n.w.net.cut(n, true)
	}
	n.cancel()
	err := <-n.done
	if hard {
		for _, b := range n.mesh.buses {
			err = errors.Join(err, b.close())
		}
		err = errors.Join(err, n.st.Close())
		n.engine.Close(context.Background()) // fails: its store is gone
	} else {
		err = errors.Join(err, n.mesh.Close(), n.engine.Close(context.Background()), n.st.Close())
	}
	if err != nil {
		n.w.t.Fatal(err)
	}
	n.mesh = nil
}

func (n *node) report() {
	r := n.w.rng
	sig, vote, count := r.IntN(60), bulkhead.Vote(r.IntN(3)), uint32(1+r.IntN(20))
	if n.truth[sig][vote] > 0 {
		vote = bulkhead.Sighting // who votes the same twice is counted once
	}
	report(n.w.t, n.engine, sig, vote, count)
	if n.truth[sig] == nil {
		n.truth[sig] = make(map[bulkhead.Vote]uint32)
	}
	n.truth[sig][vote] += count
}

// memoryDir returns a temporary folder, in memory where that exists: a test of
// hundreds of restarts should not wait for a disk.
func memoryDir(t *testing.T) string {
	dir, err := os.MkdirTemp("/dev/shm", "mesh-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// peers makes every node know every other.
func (w *world) peers() {
	for _, n := range w.nodes {
		for _, o := range w.nodes {
			if o != n {
				if err := n.mesh.AddPeer(w.t.Context(), o.id.ID(), "", 1); err != nil {
					w.t.Fatal(err)
				}
			}
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

func newWorld(t *testing.T, rng *rand.Rand, done *tallyOfSteps) *world {
	w := &world{t: t, rng: rng, done: done, log: slog.New(slog.DiscardHandler)}
	if testing.Verbose() && *schedules == 1 {
		w.log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	w.capacity = []uint64{2000, 2000, 2000, 20_000}[rng.IntN(4)]
	w.messages = []int{1, 384 << 10}[rng.IntN(2)]
	return w
}

// populate starts the nodes, and makes every one know every other.
func (w *world) populate() {
	t, rng := w.t, w.rng
	for i := range 2 + rng.IntN(7)%(1+rng.IntN(7)) {
		n := &node{w: w, i: i, root: memoryDir(t), truth: make(counts)}
		var err error
		if n.id, err = OpenIdentity(n.meshFolder()); err != nil {
			t.Fatal(err)
		}
		n.start()
		w.nodes = append(w.nodes, n)
	}
	w.peers()
}

// calm ends the faults of the network.
func (w *world) calm() {
	w.net.faults(0, 0, 0)
	for _, n := range w.nodes {
		w.net.cut(n, false)
	}
}

func (w *world) stop() {
	for _, n := range w.nodes {
		n.stop(false)
	}
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

// compare holds what every node says against the sum of what was reported, and
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
	for sig := range 60 {
		want := make(map[bulkhead.Vote]uint32)
		for _, n := range w.nodes {
			for vote, c := range n.truth[sig] {
				want[vote] += c
			}
		}
		first := check(t, w.nodes[0].engine, sig)
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
			if f.Sightings != first.Sightings || f.Spam != first.Spam || f.Ham != first.Ham {
				fail("signature %d: node %d says %d, %d spam, %d ham, node 0 %d, %d, %d", sig, n.i, f.Sightings, f.Spam, f.Ham, first.Sightings, first.Spam, first.Ham)
			}
		}
	}
	// 180 counts among arrays for 2,000 signatures with one wrong in 10,000.
	if limit := 2 * len(w.nodes); over > limit {
		fail("%d counts too high, limit %d", over, limit)
	}
	return wrong
}

// memNet is a network in memory.
type memNet struct{ *memBroker }

func (k memNet) open(ctx context.Context, n *node, o Options) (*Mesh, error) {
	m, err := prepare(ctx, o)
	if err == nil {
		n.bus = k.connect()
		m.buses = []bus{n.bus}
	}
	return m, err
}

func (k memNet) cut(n *node, off bool) { n.bus.set(!off) }

func (k memNet) faults(loss, repeat, delay float64) {
	k.memBroker.faults(loss, repeat, time.Duration(delay*float64(3*time.Second)))
}
