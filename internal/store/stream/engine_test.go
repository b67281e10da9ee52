package stream_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/store"
	"github.com/bulkhead-mail/bulkhead/internal/store/stream"
	"github.com/bulkhead-mail/bulkhead/internal/testing/await"
	"github.com/bulkhead-mail/bulkhead/internal/testing/enginetest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/natstest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

// A node is an engine whose journal is in a stream.
type node struct {
	engine  *engine.Engine
	store   *store.Store
	journal *stream.Journal
}

// begin is a time at which no generation ends during a test.
var begin = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

func open(t *testing.T, dir string, urls []string, follow error) *node {
	t.Helper()
	n := new(node)
	var err error
	n.journal, err = stream.Open(stream.Options{Servers: urls, Name: "test", MaxBytes: 64 << 20, Keep: 32 << 20,
		Key: [32]byte{1}, Wait: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if n.store, err = store.Open(dir, store.Options{}); err != nil {
		t.Fatal(err)
	}
	n.engine, err = engine.Open(t.Context(), engine.Options{Secret: enginetest.Secret, Store: n.store, Shared: n.journal,
		Follow: follow, Now: func() time.Time { return begin },
		Tally: engine.BookOptions{Generation: 24 * time.Hour, Keep: 3, Capacity: 20_000, Error: 1e-3},
		Block: engine.BookOptions{Generation: 7 * 24 * time.Hour, Keep: 2, Capacity: 2000, Error: 1e-6}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.close(t) })
	return n
}

func (n *node) close(t *testing.T) {
	t.Helper()
	if err := errors.Join(n.engine.Close(context.Background()), n.journal.Close(), n.store.Close()); err != nil {
		t.Log(err)
	}
}

// copyStore makes a copy of a store, as the second node of a pair gets one.
func copyStore(t *testing.T, from *store.Store, dir string) {
	t.Helper()
	var b bytes.Buffer
	if _, err := from.Backup(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Restore(t.Context(), &b, dir, store.Options{}); err != nil {
		t.Fatal(err)
	}
}

// An oracle is what was acknowledged, in a map.
type oracle struct {
	mu    sync.Mutex
	count map[int]uint32
	acked atomic.Int64
}

// load sends n reports from each of some clients, each until some node has acknowledged it. at returns the node to ask.
func (o *oracle) load(t *testing.T, clients, n int, at func() *engine.Engine) *sync.WaitGroup {
	var all sync.WaitGroup
	for c := range clients {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(34, uint64(c)))
			for i := range n {
				k := rng.IntN(100)
				r := bulkhead.Report{Vote: bulkhead.Sighting, ID: fmt.Sprintf("%d-%d", c, i), Count: 1,
					Signatures: []bulkhead.Signature{enginetest.Signature(k)}}
				for {
					if _, err := at().Report(t.Context(), r); err == nil {
						break
					}
					select {
					case <-t.Context().Done():
						return
					case <-time.After(5 * time.Millisecond):
					}
				}
				o.mu.Lock()
				o.count[k]++
				o.mu.Unlock()
				o.acked.Add(1)
			}
		})
	}
	return &all
}

func (o *oracle) check(t *testing.T, what string, e *engine.Engine) {
	t.Helper()
	for k := range 100 {
		if got := enginetest.Check(t, e, k).Sightings; got != o.count[k] {
			t.Errorf("%s counted signature %d %d times, want %d", what, k, got, o.count[k])
		}
	}
}

// TestServersDie stops each server of a cluster in turn while reports arrive, the leader of the stream first. Every
// acknowledged report is counted once: at the node, and at one that begins without a store and reads the stream.
func TestServersDie(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three servers")
	}
	cluster := natstest.StartCluster(t)
	dir := t.TempDir()
	n := open(t, filepath.Join(dir, "store"), cluster.URLs(), nil)
	if s := n.journal.State(); s.Replicas != 3 {
		t.Fatalf("%d replicas of a cluster", s.Replicas)
	}
	o := &oracle{count: make(map[int]uint32)}
	running := o.load(t, 8, 1500, func() *engine.Engine { return n.engine })
	for range 3 {
		before := o.acked.Load()
		await.True(t, "reports before a server dies", func() bool {
			return o.acked.Load() > before+300 || o.acked.Load() == 12000
		})
		leader := cluster.Leader("test")
		if leader < 0 {
			leader = 0
		}
		cluster.Stop(leader)
		before = o.acked.Load()
		began := time.Now()
		await.True(t, "reports with two servers", func() bool {
			return o.acked.Load() > before+300 || o.acked.Load() == 12000
		})
		t.Logf("reports are acknowledged again after at most %v", time.Since(began).Round(10*time.Millisecond))
		cluster.Start(leader)
	}
	running.Wait()
	o.check(t, "the node", n.engine)
	n.close(t)
	await.True(t, "a leader of the stream", func() bool { return cluster.Leader("test") >= 0 })
	other := open(t, filepath.Join(dir, "other"), cluster.URLs(), nil)
	o.check(t, "a node without a store", other.engine)
	t.Logf("%d reports in %d entries", o.acked.Load(), n.journal.LastIndex())
}

// TestPartition cuts the first of two nodes off the servers of the journal while reports arrive at both. The second
// takes over, and the first acknowledges nothing from then on.
func TestPartition(t *testing.T) {
	address := natstest.Start(t)
	dir := t.TempDir()
	o := &oracle{count: make(map[int]uint32)}
	wires := [2]*nodetest.Wire{nodetest.NewWire(t, address), nodetest.NewWire(t, address)}
	urls := func(i int) []string { return []string{"nats://" + wires[i].Address()} }
	var nodes [2]atomic.Pointer[node]
	for i := range nodes {
		follow := error(nil)
		if i > 0 {
			follow = errors.New("follows")
			copyStore(t, nodes[0].Load().store, filepath.Join(dir, "1"))
		}
		nodes[i].Store(open(t, filepath.Join(dir, fmt.Sprint(i)), urls(i), follow))
	}
	var asked atomic.Int64
	running := o.load(t, 8, 500, func() *engine.Engine { // clients ask both nodes
		return nodes[asked.Add(1)%2].Load().engine
	})
	first := 0
	for term := range uint64(6) {
		before := o.acked.Load()
		await.True(t, "reports", func() bool { return o.acked.Load() > before+200 || o.acked.Load() == 4000 })
		if term%2 == 0 {
			wires[first].Partition(true)
		}
		second := nodes[1-first].Load()
		await.True(t, "the second node takes over", func() bool {
			return second.engine.Promote(t.Context(), second.engine.Term().Number+1) == nil
		})
		wires[first].Partition(false)
		former := nodes[first].Load()
		r := bulkhead.Report{Vote: bulkhead.Sighting, Signatures: []bulkhead.Signature{enginetest.Signature(1)}, Count: 1,
			ID: fmt.Sprint("late", term)}
		for range 20 {
			if _, err := former.engine.Report(t.Context(), r); err == nil {
				t.Fatal("two nodes acknowledge reports")
			}
		}
		former.close(t)
		nodes[first].Store(open(t, filepath.Join(dir, fmt.Sprint(first)), urls(first), errors.New("follows")))
		first = 1 - first
	}
	running.Wait()
	o.check(t, "the first node", nodes[first].Load().engine)
	second := nodes[1-first].Load().engine
	await.True(t, "the second node catches up", func() bool { return second.CatchUp(t.Context()) == nil })
	o.check(t, "the second node", second)
}

// TestStreamLost deletes the stream while the second node lacks entries: it does not take over. The first node has them
// all, and begins a new stream.
func TestStreamLost(t *testing.T) {
	urls := []string{"nats://" + natstest.Start(t)}
	dir := t.TempDir()
	first := open(t, filepath.Join(dir, "0"), urls, nil)
	copyStore(t, first.store, filepath.Join(dir, "1"))
	second := open(t, filepath.Join(dir, "1"), urls, errors.New("follows"))
	send := func(id string) {
		t.Helper()
		await.True(t, "a report", func() bool {
			_, err := first.engine.Report(t.Context(), bulkhead.Report{Vote: bulkhead.Sighting, Count: 1, ID: id,
				Signatures: []bulkhead.Signature{enginetest.Signature(1)}})
			return err == nil
		})
	}
	send("a")
	if err := natstest.JetStream(t, urls[0]).DeleteStream(t.Context(), "test"); err != nil {
		t.Fatal(err)
	}
	if err := second.engine.Promote(t.Context(), 1); !errors.Is(err, bulkhead.ErrReadOnly) {
		t.Errorf("a node that lacks entries takes over without the stream: %v", err)
	}
	send("b")
	if err := second.engine.CatchUp(t.Context()); !errors.Is(err, store.ErrGap) {
		t.Errorf("a node from before the new stream reads it: %v", err)
	}
	if got := enginetest.Check(t, first.engine, 1).Sightings; got != 2 {
		t.Errorf("the first node counted %d, want 2", got)
	}
}
