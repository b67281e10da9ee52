package mesh

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/member"
	"github.com/bulkhead-mail/bulkhead/internal/store"
	"github.com/bulkhead-mail/bulkhead/internal/testing/enginetest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/meshtest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

type counts map[int]map[bulkhead.Vote]uint32

func (c counts) clone() counts {
	out := make(counts)
	for n, votes := range c {
		out[n] = maps.Clone(votes)
	}
	return out
}

func (c counts) add(sig int, vote bulkhead.Vote, n uint32) {
	if c[sig] == nil {
		c[sig] = make(map[bulkhead.Vote]uint32)
	}
	c[sig][vote] += n
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
	// capacity of the tally: arrays of one page, or of several. messages bounds the content of one
	// message: all pages of an image, or one.
	capacity uint64
	messages int
	// days: clocks step by days, and peers are rolled back, so there are several generations.
	days bool
}

// A network carries the messages of a world, deliberately badly.
type network interface {
	// open returns a mesh whose bus is on.
	open(ctx context.Context, n *node, o member.Options) (*Mesh, error)
	// cut ends the node's connections, and blocks new ones until it is connected again.
	cut(n *node, away bool)
	// faults sets the rate of faults: probabilities, and a share of the longest time in flight.
	faults(loss, repeat, delay float64)
	wipe() // deletes stored messages
}

// A node is one server, with a map of the reports to it.
type node struct {
	w      *world
	i      int
	root   string
	data   int    // number of the store's folder
	aside  string // if the store is to be salvaged at the next start
	id     *member.Identity
	offset atomic.Int64 // of its clock
	limit  uint64       // bytes of replicas; 0: none

	own    []engine.ArrayState // at its first start
	st     *store.Store
	engine *engine.Engine
	mesh   *Mesh
	bus    *meshtest.Bus  // of a network in memory
	wire   *nodetest.Wire // of a real network
	cancel context.CancelFunc
	done   chan error

	truth  counts
	begun  map[uint64]counts // counts by the start of the generation
	backup []byte
	saved  counts
	before map[uint64]counts // begun, at the backup
	state  member.Record     // of the mesh, at the backup
	// refused are the generations of others that an administrator has rolled back.
	refused map[*node][]member.Stretch
}

func (n *node) now() time.Time { return time.Now().Add(time.Duration(n.offset.Load())) }

func (n *node) folder() string { return filepath.Join(n.root, fmt.Sprint("data", n.data)) }

func (n *node) meshFolder() string { return filepath.Join(n.root, "mesh") }

func (n *node) start() {
	t := n.w.t
	var err error
	// The disk of a test does not lose power.
	if n.st, err = store.Open(n.folder(), n.storeOptions()); err != nil {
		t.Fatal(err)
	}
	n.engine, err = engine.Open(context.Background(), engine.Options{
		Secret: enginetest.Secret, Now: n.now, Store: n.st, RemoteBytes: n.limit,
		Tally: engine.BookOptions{Generation: 24 * time.Hour, Keep: n.w.keep(), Capacity: n.w.capacity, Error: 1e-4},
		Block: engine.BookOptions{Generation: 7 * 24 * time.Hour, Keep: 3, Capacity: 200, Error: 1e-6},
	})
	if err != nil {
		t.Fatal(err)
	}
	if n.own == nil {
		n.own = n.engine.Own()
	}
	n.mesh, err = n.w.net.open(t.Context(), n, member.Options{
		Dir: n.meshFolder(), Identity: n.id, Engine: n.engine, KeyID: enginetest.Secret.ID(), Mode: member.External,
		Store: n.st.Manifest().Incarnation, Now: n.now, Log: n.w.log.With("node", n.i), MessageBytes: n.w.messages,
		Name: fmt.Sprint("node ", n.i),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	n.cancel, n.done = cancel, make(chan error, 1)
	go func() { n.done <- n.mesh.Run(ctx) }()
}

func (n *node) storeOptions() store.Options {
	o := store.Options{Durability: store.Relaxed}
	if n.aside != "" {
		o.Salvage = &store.Salvage{Aside: n.aside}
		n.aside = ""
	}
	return o
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
			err = errors.Join(err, b.Close())
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
		vote = bulkhead.Sighting // a repeated vote of one voter counts once
	}
	if vote != bulkhead.Sighting {
		count = 1 // whatever higher count a voter reports
	}
	enginetest.Report(n.w.t, n.engine, sig, vote, count)
	n.truth.add(sig, vote, count)
	start := n.newest()
	if n.begun == nil {
		n.begun = make(map[uint64]counts)
	}
	if n.begun[start] == nil {
		n.begun[start] = make(counts)
	}
	n.begun[start].add(sig, vote, count)
}

// newest returns the start of the present generation.
func (n *node) newest() (start uint64) {
	for _, a := range n.engine.Own() {
		if a.Array == engine.ArrayCounts {
			start = max(start, a.Start)
		}
	}
	return start
}

// keep is how many generations nodes keep: none expires in a schedule.
func (w *world) keep() int {
	if w.days {
		return 40
	}
	return 4
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

// peers makes all nodes peers of each other.
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

func newWorld(t *testing.T, rng *rand.Rand, done *tallyOfSteps) *world {
	w := &world{t: t, rng: rng, done: done, log: slog.New(slog.DiscardHandler)}
	if testing.Verbose() && *schedules == 1 {
		w.log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	w.capacity = []uint64{2000, 2000, 2000, 20_000}[rng.IntN(4)]
	w.messages = []int{1, 384 << 10}[rng.IntN(2)]
	return w
}

// populate starts the nodes, and makes them peers of each other.
func (w *world) populate() {
	t, rng := w.t, w.rng
	for i := range 2 + rng.IntN(7)%(1+rng.IntN(7)) {
		n := &node{w: w, i: i, root: memoryDir(t), truth: make(counts), refused: make(map[*node][]member.Stretch)}
		var err error
		if n.id, err = member.OpenIdentity(n.meshFolder()); err != nil {
			t.Fatal(err)
		}
		n.start()
		w.nodes = append(w.nodes, n)
		if i%2 == 1 {
			n.stop(false)
			n.limit = n.tightLimit()
			n.start()
		}
	}
	w.peers()
}

// tightLimit returns enough memory for the lists of seven peers in three generations, and for three
// arrays of counts. A schedule has no more than two generations of them, unless its clocks step by
// days.
func (n *node) tightLimit() (limit uint64) {
	counts, lists := uint64(3), uint64(3)
	if n.w.days {
		counts, lists = daysOfClocks+5, 6
	}
	for _, a := range n.own {
		if a.Array == engine.ArrayCounts {
			limit += counts * a.Bytes
		} else {
			limit += lists * 7 * a.Bytes
		}
	}
	return limit
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

// memNet is a network in memory.
type memNet struct{ *meshtest.Broker }

func (k memNet) open(ctx context.Context, n *node, o member.Options) (*Mesh, error) {
	m, err := prepare(ctx, o)
	if err == nil {
		n.bus = k.Connect()
		m.use(n.bus)
	}
	return m, err
}

func (k memNet) wipe() { k.Wipe() }

func (k memNet) cut(n *node, away bool) { n.bus.Set(!away) }

func (k memNet) faults(loss, repeat, delay float64) {
	k.Broker.Faults(loss, repeat, time.Duration(delay*float64(3*time.Second)))
}
