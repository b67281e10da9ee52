package engine

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/engine/replica"
	"github.com/bulkhead-mail/bulkhead/internal/store"
	"github.com/bulkhead-mail/bulkhead/internal/testing/await"
)

// crowded returns a node with memory for the arrays of two peers, and the n engines
// that it counts as p0, p1 and so on.
func crowded(t *testing.T, n int) (home *Engine, peers []*Engine) {
	t.Helper()
	ctx := context.Background()
	c := newClock()
	st, err := store.Open(filepath.Join(t.TempDir(), "data"), store.Options{Durability: store.Relaxed})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	var origins []Origin
	for i := range n {
		p := open(t, Options{Now: c.Now})
		if err := p.Record(ctx, true); err != nil {
			t.Fatal(err)
		}
		peers, origins = append(peers, p), append(origins, Origin{ID: fmt.Sprint("p", i), Weight: 1})
	}
	home, err = Open(ctx, small(Options{Store: st, Now: c.Now, RemoteBytes: 2 * peers[0].Own()[0].Geometry.Bytes()}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { home.Close(ctx) })
	if err := home.SetOrigins(ctx, origins); err != nil {
		t.Fatal(err)
	}
	return home, peers
}

// TestMergeServing: while arrays are merged, and taken out again because images of them come, every
// check sees all counts: none is missing for a moment or counted twice, and no round that arrives
// during a merge is lost.
func TestMergeServing(t *testing.T) {
	const nPeers, rounds, sigs = 4, 600, 20
	home, peers := crowded(t, nPeers)
	origins, g := home.Origins(), peers[0].Own()[0].Geometry
	var begun, counted [sigs]atomic.Uint32
	var writers, readers sync.WaitGroup
	stop := make(chan struct{})
	for i, p := range peers {
		writers.Go(func() {
			for n := range rounds {
				s := n % sigs
				begun[s].Add(5)
				report(t, p, bulkhead.Report{Signatures: []bulkhead.Signature{sig(bulkhead.Exact, s)}, Count: 5})
				pass(t, p, home, origins[i].ID)
				counted[s].Add(5)
				home.Room("", Need{Geometry: g, Pages: g.Pages()})
				if n%80 == 20*i {
					transfer(t, p, home, origins[i].ID)
				}
			}
		})
	}
	var checks atomic.Int64
	for s := range sigs {
		readers.Go(func() {
			for {
				least := counted[s].Load()
				got := verdictOf(t, home, sig(bulkhead.Exact, s)).Findings[0].Sightings
				if most := begun[s].Load(); got < least || got > most {
					t.Errorf("signature %d is counted %d times, want %d to %d", s, got, least, most)
					return
				}
				checks.Add(1)
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	writers.Wait()
	close(stop)
	readers.Wait()
	if !await.Within(await.Patience, func() bool {
		if home.RemoteMemory().Merged >= nPeers {
			return true
		}
		home.Room("", Need{Geometry: g, Pages: g.Pages()})
		return false
	}) {
		t.Fatalf("not all is merged: %+v", home.RemoteMemory())
	}
	t.Logf("%d checks; %+v", checks.Load(), home.RemoteMemory())
}

// merged returns a crowded node on which the arrays of n peers are merged, each with five sightings of a signature, and
// the images of the first one's array.
func merged(t *testing.T, n int, s bulkhead.Signature) (home *Engine, images []Parsed) {
	t.Helper()
	home, peers := crowded(t, n)
	origins, g := home.Origins(), peers[0].Own()[0].Geometry
	for i, p := range peers {
		report(t, p, bulkhead.Report{Signatures: []bulkhead.Signature{s}, Count: 5})
		_, parts, err := p.Images(t.Context(), ArrayCounts, p.Own()[0].Start)
		if err != nil {
			t.Fatal(err)
		}
		if err := applyParts(home, origins[i].ID, parts); err != nil {
			t.Fatal(err)
		}
		for _, part := range parts {
			if parsed, err := home.ParsePart(part); err != nil {
				t.Fatal(err)
			} else if i == 0 {
				images = append(images, parsed)
			}
		}
	}
	if !await.Within(await.Patience, func() bool {
		if home.RemoteMemory().Merged >= n {
			return true
		}
		home.Room("", Need{Geometry: g, Pages: g.Pages()})
		return false
	}) {
		t.Fatalf("not all is merged: %+v", home.RemoteMemory())
	}
	return home, images
}

// TestRenameWhileWarm: an origin gets another name while an array of its that
// came back into memory waits to be taken out of the merged one: what it counted
// is not there twice.
func TestRenameWhileWarm(t *testing.T) {
	const nPeers = 3
	s := sig(bulkhead.Exact, 1)
	home, images := merged(t, nPeers, s)
	home.queue.between(func() { // before the merged array is made anew
		if err := home.replicas.Prepare("p0", images); err != nil {
			t.Error(err)
		}
		home.replicas.Rename("p0", "q0")
		if got := verdictOf(t, home, s).Findings[0].Sightings; got != 5*nPeers {
			t.Errorf("%d sightings, want %d", got, 5*nPeers)
		}
	})
}

// TestWarmAfterRename checks that an array that is not in memory can be read at each moment of the checkpoint that
// follows a new name of its origin, which gives its file another name.
func TestWarmAfterRename(t *testing.T) {
	home, images := merged(t, 3, sig(bulkhead.Exact, 1))
	if err := home.RenameOrigin(t.Context(), "p0", "q0"); err != nil {
		t.Fatal(err)
	}
	key := replica.Key{Array: ArrayCounts, Start: images[0].Start}
	moments := 0
	err := home.checkpoint(t.Context(), func(f func()) {
		home.queue.between(func() {
			moments++
			if _, _, err := home.replicas.Copy("q0", key); err != nil {
				t.Errorf("moment %d, checkpoint %d: %v", moments, home.opts.Store.Manifest().Checkpoint, err)
			}
			f()
		})
	})
	if err != nil || moments < 2 {
		t.Errorf("%d moments, %v", moments, err)
	}
}
