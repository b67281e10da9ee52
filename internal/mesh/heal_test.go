package mesh

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/arrays"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/member"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
	"github.com/bulkhead-mail/bulkhead/internal/testing/bubble"
	"github.com/bulkhead-mail/bulkhead/internal/testing/enginetest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/meshtest"
)

// A ward is nodes that know each other, the first of which will lose pages.
type ward struct {
	*world
	k   *meshtest.Broker
	ill *node
}

// newWard makes several nodes count, and share everything.
func newWard(t *testing.T, seed uint64, nodes int) *ward {
	w := &ward{k: meshtest.NewBroker(rand.New(rand.NewPCG(seed, 2)))}
	w.world = &world{t: t, rng: rand.New(rand.NewPCG(seed, 3)), done: new(tallyOfSteps),
		log: slog.New(slog.DiscardHandler), pause: time.Second, capacity: 20_000, messages: 384 << 10}
	w.net = memNet{w.k}
	for i := range nodes {
		n := &node{w: w.world, i: i, root: memoryDir(t), truth: make(counts)}
		var err error
		if n.id, err = member.OpenIdentity(n.meshFolder()); err != nil {
			t.Fatal(err)
		}
		n.start()
		w.nodes = append(w.nodes, n)
	}
	w.peers()
	w.ill = w.nodes[0]
	for _, n := range w.nodes {
		for range 200 {
			n.report()
		}
	}
	bubble.Advance(20 * time.Second)
	synctest.Wait()
	if wrong := w.compare(); wrong != nil {
		t.Fatal(wrong)
	}
	return w
}

// hurt stops the first node, and deletes all files of its own arrays of the given kinds. lose does
// the deletion.
func (w *ward) hurt(kinds ...string) {
	w.t.Helper()
	w.ill.stop(false)
	w.lose(kinds...)
}

func (w *ward) lose(kinds ...string) {
	w.t.Helper()
	names, err := os.ReadDir(filepath.Join(w.ill.folder(), "files"))
	if err != nil {
		w.t.Fatal(err)
	}
	for _, name := range names {
		if slices.ContainsFunc(kinds, func(kind string) bool { return strings.HasPrefix(name.Name(), kind+"-") }) {
			if err := os.Remove(filepath.Join(w.ill.folder(), "files", name.Name())); err != nil {
				w.t.Fatal(err)
			}
		}
	}
	w.ill.aside = filepath.Join(w.ill.root, "aside")
}

// low returns how many sighting counts of the node are lower than the number of reports to all
// nodes.
func (w *ward) low(n *node) (low int) {
	for sig := range 60 {
		want := uint32(0)
		for _, o := range w.nodes {
			want += o.truth[sig][bulkhead.Sighting]
		}
		got := enginetest.Check(w.t, n.engine, sig).Sightings
		if got < want {
			low++
		}
	}
	return low
}

// seen returns a node's findings for all signatures.
func (w *ward) seen(n *node) (out []bulkhead.Finding) {
	for sig := range 60 {
		out = append(out, enginetest.Check(w.t, n.engine, sig))
	}
	return out
}

// lowered reports whether a count is lower than it was.
func lowered(before, now []bulkhead.Finding) bool {
	for i := range now {
		if now[i].Sightings < before[i].Sightings || now[i].Spam < before[i].Spam || now[i].Ham < before[i].Ham {
			return true
		}
	}
	return false
}

// expectHealed lets all nodes rest. It fails unless their counts are right, and the first node is healed in its
// incarnation.
func (w *ward) expectHealed(seed, incarnation uint64) {
	w.t.Helper()
	w.calm()
	bubble.Advance(2 * time.Minute)
	synctest.Wait()
	for _, wrong := range w.compare() {
		w.t.Errorf("seed %d: %s", seed, wrong)
	}
	s := w.ill.mesh.Status()
	if d := w.ill.engine.Doubts(); len(d) != 0 || s.Healing || s.Incarnation != incarnation {
		w.t.Errorf("seed %d: in doubt %v, heals %v, incarnation %d, want %d", seed, d, s.Healing, s.Incarnation,
			incarnation)
	}
}

// TestHeal checks that a node whose arrays are lost gets them back from its peers' replicas, and
// adds its new counts. Its peers never see less than before, and nothing twice; the node continues
// in its incarnation.
func TestHeal(t *testing.T) {
	for seed := range uint64(4) {
		synctest.Test(t, func(t *testing.T) {
			w := newWard(t, seed, 2+int(seed)%2)
			life := w.ill.mesh.Status().Incarnation
			before := w.seen(w.nodes[1])
			w.hurt("counts", "spam", "revoked")
			if seed%2 == 0 {
				w.net.wipe() // only the peers have it
			}
			if seed == 3 {
				w.net.faults(0.3, 0.3, 0.3)
			}
			w.ill.start()
			if w.low(w.ill) == 0 || len(w.ill.engine.Doubts()) == 0 || !w.ill.mesh.Status().Healing {
				t.Fatal("nothing is lost: this test sees nothing")
			}
			for i := range 200 {
				if i%20 == 0 {
					w.ill.report()
				}
				bubble.Advance(500 * time.Millisecond)
				if lowered(before, w.seen(w.nodes[1])) {
					t.Fatalf("seed %d: a peer counts less than before", seed)
				}
			}
			w.expectHealed(seed, life)
			if h := w.ill.engine.Healings(); len(h) == 0 {
				t.Error("nobody has healed it")
			}
			w.stop()
		})
	}
}

// TestHealKilled kills the process again and again while it heals.
func TestHealKilled(t *testing.T) {
	for seed := range uint64(6) {
		synctest.Test(t, func(t *testing.T) {
			w := newWard(t, 100+seed, 3)
			life := w.ill.mesh.Status().Incarnation
			before := w.seen(w.nodes[2])
			w.hurt("counts", "spam")
			w.ill.start()
			for range 5 {
				w.ill.report()
				bubble.Advance(time.Duration(w.rng.Int64N(int64(3 * time.Second))))
				w.ill.report()
				w.ill.stop(w.rng.IntN(4) > 0)
				w.ill.start()
				if lowered(before, w.seen(w.nodes[2])) {
					t.Fatalf("seed %d: a peer counts less than before", seed)
				}
			}
			w.expectHealed(seed, life)
			w.stop()
		})
	}
}

// TestHealNobody checks that without peers that have the pages the doubt stays, and the node shares
// what it has after a while, in a new incarnation. A node without peers does so at once.
func TestHealNobody(t *testing.T) {
	for _, how := range []string{"away", "empty", "evicted"} {
		synctest.Test(t, func(t *testing.T) {
			w := newWard(t, 7, 2)
			life, other := w.ill.mesh.Status().Incarnation, w.nodes[1]
			switch how {
			case "away":
				other.stop(false)
			case "empty":
				if err := other.mesh.EvictPeer(t.Context(), w.ill.id.ID()); err != nil {
					t.Fatal(err)
				}
			case "evicted":
				if err := w.ill.mesh.EvictPeer(t.Context(), other.id.ID()); err != nil {
					t.Fatal(err)
				}
			}
			w.hurt("counts")
			w.net.wipe()
			w.ill.start()
			doubts := len(w.ill.engine.Doubts())
			wait := map[string]time.Duration{"away": 11 * time.Minute, "empty": 11 * time.Minute,
				"evicted": 5 * time.Second}[how]
			if how != "evicted" {
				bubble.Advance(time.Minute)
				if !w.ill.mesh.Status().Healing {
					t.Errorf("%s: has given up after a minute", how)
				}
			}
			w.ill.report()
			bubble.Advance(wait)
			synctest.Wait()
			s := w.ill.mesh.Status()
			if got := len(w.ill.engine.Doubts()); s.Healing || s.Incarnation <= life || got == 0 || got != doubts {
				t.Errorf("%s: heals %v, life %d after %d, %d doubts of %d", how, s.Healing, s.Incarnation, life, got, doubts)
			}
			if lost, err := w.ill.engine.Wounds(t.Context()); err != nil || lost.Store != "" {
				t.Errorf("%s: still waits for %+v, %v", how, lost, err)
			}
			w.stop()
		})
	}
}

// TestHealLate checks that a peer that was away first answers when it is back.
func TestHealLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWard(t, 9, 2)
		life := w.ill.mesh.Status().Incarnation
		w.nodes[1].stop(true)
		w.hurt("counts", "spam", "revoked")
		w.net.wipe()
		w.ill.start()
		bubble.Advance(5 * time.Minute)
		w.calmNode(w.nodes[1])
		bubble.Advance(2 * time.Minute)
		synctest.Wait()
		for _, wrong := range w.compare() {
			t.Error(wrong)
		}
		if s := w.ill.mesh.Status(); s.Healing || s.Incarnation != life || len(w.ill.engine.Doubts()) != 0 {
			t.Errorf("heals %v, life %d after %d, in doubt %v", s.Healing, s.Incarnation, life, w.ill.engine.Doubts())
		}
		w.stop()
	})
}

func (w *ward) calmNode(n *node) {
	n.start()
	w.net.cut(n, false)
}

// TestHealLiar checks that a peer that sends pages of its own making, asked or not, changes
// nothing, and does not keep the node from healing.
func TestHealLiar(t *testing.T) {
	for _, honest := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWard(t, 11, 2)
			other := w.nodes[1]
			_, liar := meshtest.Folder(t)
			if err := w.ill.mesh.AddPeer(t.Context(), liar.ID(), "liar", 1); err != nil {
				t.Fatal(err)
			}
			pages := make(map[wire.Ref][][]byte) // pages that the liar knows, and raises
			for _, a := range other.engine.Replica(w.ill.id.ID()) {
				_, images, err := other.engine.CopyReplica(t.Context(), w.ill.id.ID(), a.Array, a.Start)
				if err != nil {
					t.Fatal(err)
				}
				for _, m := range images {
					pages[wire.Ref{Array: a.Array, Start: a.Start}] = append(pages[wire.Ref{Array: a.Array, Start: a.Start}],
						fattened(t, m))
				}
			}
			bus := w.k.Connect()
			at := wire.Stamp{Incarnation: uint64(time.Now().UnixMilli()), Boot: uint64(time.Now().UnixMilli())}
			lies := 0
			bus.Subscribe(func(x wire.Topic) bool { return x.Kind == wire.KindAsk && x.Origin == liar.Hint() },
				func(a wire.Arrival) {
					m, err := meshtest.Parse(a.Data, enginetest.Secret.ID())
					if err != nil || m.Kind != wire.KindPages {
						return
					}
					out := &wire.Message{Kind: wire.KindRefill, To: m.From, Lost: wire.LostPages{Ref: m.Lost.Ref,
						Geometry: m.Lost.Geometry}}
					for _, page := range m.Lost.List {
						out.Lost.List = append(out.Lost.List, page)
						out.Lost.Pages = append(out.Lost.Pages, pages[m.Lost.Ref][page])
					}
					at.Seq++
					at.At = uint64(time.Now().UnixMilli())
					out.Stamp, out.From, out.KeyID = at, liar.Hint(), enginetest.Secret.ID()
					to := wire.Topic{Kind: wire.KindAsk, Origin: m.From, Key: liar.Hint().String()}
					for range 30 { // more than were requested
						lies++
						_ = bus.Publish(to, wire.AppendMessage(nil, out, liar))
					}
				})
			w.hurt("counts", "spam", "revoked")
			w.net.wipe()
			if !honest {
				other.stop(false)
			}
			w.ill.start()
			low, doubts := w.low(w.ill), len(w.ill.engine.Doubts())
			bubble.Advance(15 * time.Minute)
			synctest.Wait()
			if lies == 0 {
				t.Fatal("nobody has asked the liar")
			}
			if honest {
				for sig := range 60 {
					for vote, c := range w.ill.truth[sig] {
						f := enginetest.Check(t, w.ill.engine, sig)
						got := map[bulkhead.Vote]uint32{bulkhead.Sighting: f.Sightings, bulkhead.Spam: f.Spam, bulkhead.Ham: f.Ham}[vote]
						if want := c + other.truth[sig][vote]; got != want {
							t.Errorf("signature %d: %d %v, want %d", sig, got, vote, want)
						}
					}
				}
				if d := w.ill.engine.Doubts(); len(d) > 0 {
					t.Errorf("in doubt: %v", d)
				}
			} else if got := w.low(w.ill); got != low || len(w.ill.engine.Doubts()) != doubts ||
				len(w.ill.engine.Healings()) != 0 {
				t.Errorf("%d counts are low, and %d were; doubts %v, healed %v", got, low, w.ill.engine.Doubts(),
					w.ill.engine.Healings())
			}
			if err := bus.Close(); err != nil {
				t.Fatal(err)
			}
			w.stop()
		})
	}
}

// fattened returns a page with the same version and number of keys that reports more keys.
func fattened(t *testing.T, m *arrays.Image) []byte {
	t.Helper()
	info := m.Info
	key := filter.Key{Hi: uint64(m.Page) << 54, Lo: 0x0102030405060708}
	if m.Geometry.Kind == filter.Cells {
		c, err := arrays.NewCounting(m.Geometry)
		if err != nil {
			t.Fatal(err)
		}
		c.SetGeneration(m.Generation)
		if err := c.Load(m); err != nil {
			t.Fatal(err)
		}
		for i := uint64(0); c.PageOf(key) != m.Page; i++ {
			key.Hi = i << 40
		}
		c.Add(key, 1000)
		m = c.Image(m.Page)
	} else {
		b, err := arrays.NewBits(m.Geometry)
		if err != nil {
			t.Fatal(err)
		}
		b.SetGeneration(m.Generation)
		if err := b.Load(m); err != nil {
			t.Fatal(err)
		}
		for i := uint64(0); b.PageOf(key) != m.Page; i++ {
			key.Hi = i << 40
		}
		b.Set(key)
		m = b.Image(m.Page)
	}
	m.Info.Version, m.Info.Keys = info.Version, max(m.Info.Keys, info.Keys)
	return m.Append(nil)
}

// TestRefillBounds checks that a peer that asks for its pages again and again gets at most twice
// its arrays, and no peer gets pages of others.
func TestRefillBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWard(t, 13, 2)
		home := w.nodes[1]
		var counts engine.ArrayState
		for _, a := range home.engine.Replica(w.ill.id.ID()) {
			if a.Array == engine.ArrayCounts {
				counts = a
			}
		}
		w.ill.stop(false)
		bus := w.k.Connect()
		got := 0
		bus.Subscribe(func(x wire.Topic) bool { return x.Kind == wire.KindAsk && x.Origin == w.ill.id.Hint() },
			func(a wire.Arrival) {
				m, err := meshtest.Parse(a.Data, enginetest.Secret.ID())
				if err == nil && m.Kind == wire.KindRefill {
					for _, page := range m.Lost.Pages {
						got += len(page)
					}
				}
			})
		at := wire.Stamp{Incarnation: uint64(time.Now().UnixMilli()), Boot: uint64(time.Now().UnixMilli())}
		ask := func(id *member.Identity, x wire.LostPages) {
			at.Seq++
			at.At = uint64(time.Now().UnixMilli())
			m := &wire.Message{Kind: wire.KindPages, To: home.id.Hint(), Lost: x, Stamp: at, From: id.Hint(),
				KeyID: enginetest.Secret.ID()}
			home.mesh.replicas.Deliver(context.Background(), bus,
				wire.Arrival{Topic: wire.Topic{Kind: wire.KindAsk, Origin: m.To, Key: id.Hint().String()},
					Data: wire.AppendMessage(nil, m, id)}, true)
			bubble.Advance(time.Second)
			synctest.Wait()
		}
		x := wire.LostPages{Ref: wire.Ref{Array: engine.ArrayCounts, Start: counts.Start}, Geometry: counts.Geometry}
		for page := range counts.Geometry.Pages() {
			x.List = append(x.List, uint64(page), 1<<40, uint64(page))
		}
		ask(w.ill.id, x)
		once := got
		if once == 0 {
			t.Fatal("nothing is sent")
		}
		_, stranger := meshtest.Folder(t)
		ask(stranger, x)
		other := x
		other.Geometry.K ^= 1
		ask(w.ill.id, other)
		other = x
		other.Start++
		ask(w.ill.id, other)
		if got != once {
			t.Errorf("%d bytes for nobody's pages", got-once)
		}
		limit := 1 << 20 // beside twice the size of all arrays
		for _, a := range home.engine.Replica(w.ill.id.ID()) {
			limit += 2 * int(min(a.Geometry.Bytes(), 1024+8*a.Keys)+64*uint64(a.Geometry.Pages()))
		}
		begun := time.Now()
		for range 3 * limit / once {
			ask(w.ill.id, x)
		}
		if most := int(float64(limit)*(1+time.Since(begun).Seconds()/(10*time.Minute).Seconds())) + 2*once; got > most {
			t.Errorf("%d bytes were sent again, limit %d", got, most)
		}
		if n := home.mesh.Status().Peers[0].Refusals[member.ReasonAsks]; n == 0 {
			t.Error("nothing is refused")
		}
		if err := bus.Close(); err != nil {
			t.Fatal(err)
		}
		w.nodes[1].stop(false)
	})
}

// TestHealPublished checks pages that were changed since the last checkpoint, of which the peers now
// have newer states. The node's published messages, stored by a broker, restore the pages, with the
// counts that were not published before the node was killed.
func TestHealPublished(t *testing.T) {
	for seed := range uint64(4) {
		synctest.Test(t, func(t *testing.T) {
			w := newWard(t, 200+seed, 2)
			if seed%2 == 0 { // images are stored, and no rounds before them
				w.k.Mu.Lock()
				w.k.Deltas = nil
				w.k.Mu.Unlock()
				w.ill.stop(false) // it forgets its rounds
				w.ill.start()
				other := w.nodes[1].mesh
				if err := errors.Join(other.EvictPeer(t.Context(), w.ill.id.ID()),
					other.AddPeer(t.Context(), w.ill.id.ID(), "", 1)); err != nil {
					t.Fatal(err)
				}
				bubble.Advance(20 * time.Second)
				w.k.Mu.Lock()
				stored := len(w.k.Images)
				w.k.Mu.Unlock()
				if stored == 0 {
					t.Fatal("no images are stored")
				}
			}
			w.ill.stop(false) // with a checkpoint
			w.ill.start()
			for range 10 {
				for range 5 {
					w.ill.report()
				}
				bubble.Advance(5 * time.Second)
			}
			life := w.ill.mesh.Status().Incarnation
			before := w.seen(w.nodes[1])
			w.net.cut(w.ill, true)
			for range 10 {
				w.ill.report() // never sent to a peer
			}
			w.ill.stop(true)
			w.lose("counts", "spam", "revoked")
			w.ill.start()
			if w.low(w.ill) == 0 {
				t.Fatal("nothing is lost: this test sees nothing")
			}
			for range 100 {
				w.ill.report()
				bubble.Advance(time.Second)
				if lowered(before, w.seen(w.nodes[1])) {
					t.Fatalf("seed %d: a peer counts less than before", seed)
				}
			}
			bubble.Advance(time.Minute)
			synctest.Wait()
			for _, wrong := range w.compare() {
				t.Errorf("seed %d: %s", seed, wrong)
			}
			s, by := w.ill.mesh.Status(), w.ill.engine.Healings()
			if d := w.ill.engine.Doubts(); len(d) != 0 || s.Healing || s.Incarnation != life {
				t.Errorf("seed %d: in doubt %v, heals %v, life %d after %d, healed by %v", seed, d, s.Healing, s.Incarnation,
					life, by)
			}
			if !slices.ContainsFunc(by, func(h engine.Healing) bool { return h.Peer == engine.Broker }) {
				t.Errorf("seed %d: healed by %v", seed, by)
			}
			w.stop()
		})
	}
}
