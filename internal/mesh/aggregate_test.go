package mesh

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/aggregate"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/member"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
	"github.com/bulkhead-mail/bulkhead/internal/store"
	"github.com/bulkhead-mail/bulkhead/internal/testing/bubble"
	"github.com/bulkhead-mail/bulkhead/internal/testing/enginetest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/meshtest"
)

// A topology is organisations in groups, with aggregates under two higher aggregates. A reading
// organisation counts the others of its group, the aggregates of the other groups under its own
// top, and the other top.
type topology struct {
	t        *testing.T
	rng      *rand.Rand
	groups   []*meshtest.Broker // one broker each
	above    *meshtest.Broker   // for the aggregates
	orgs     []*org
	tops     []*org
	capacity uint64
	log      *slog.Logger
	done     map[string]int
}

// An org is one organisation, with a map of the reports to it.
type org struct {
	w     *topology
	group int // -1 for a top
	root  string
	data  int
	id    *member.Identity
	sumID *member.Identity // nil if it is no aggregator
	role  member.Role
	peers map[string]bool // keys that it counts; true for members of its aggregate

	st     *store.Store
	engine *engine.Engine
	mesh   *Mesh
	agg    *aggregate.Aggregate
	stop   func() error
	truth  counts
	lost   counts // that its peers may still count, from before it lost its store
}

func (w *topology) brokers(o *org) []*meshtest.Broker {
	switch {
	case o.group < 0:
		return []*meshtest.Broker{w.above}
	case o.role == member.Both:
		return []*meshtest.Broker{w.groups[o.group], w.above}
	}
	return []*meshtest.Broker{w.groups[o.group]}
}

func (w *topology) newOrg(group int, role member.Role, aggregates bool) *org {
	o := &org{w: w, group: group, root: memoryDir(w.t), role: role, peers: make(map[string]bool), truth: make(counts),
		lost: make(counts)}
	var err, extra error
	o.id, err = member.OpenIdentity(filepath.Join(o.root, "mesh"))
	if aggregates {
		o.sumID, extra = member.OpenIdentity(filepath.Join(o.root, "sum"))
	}
	if err = errors.Join(err, extra); err != nil {
		w.t.Fatal(err)
	}
	return o
}

// start opens the organisation's engine and mesh, and its aggregate, and runs them.
func (o *org) start() {
	t := o.w.t
	var err error
	if o.st, err = store.Open(filepath.Join(o.root, fmt.Sprint("data", o.data)),
		store.Options{Durability: store.Relaxed}); err != nil {
		t.Fatal(err)
	}
	o.engine, err = engine.Open(context.Background(), engine.Options{
		Secret: enginetest.Secret, Store: o.st,
		Tally: engine.BookOptions{Generation: 24 * time.Hour, Keep: 3, Capacity: o.w.capacity, Error: 1e-4},
		Block: engine.BookOptions{Generation: 7 * 24 * time.Hour, Keep: 2, Capacity: 200, Error: 1e-6},
	})
	if err != nil {
		t.Fatal(err)
	}
	o.agg = aggregate.New(aggregate.Options{
		Engine: o.engine, Members: o.members, Open: o.open, Audit: 5 * time.Second, Rest: 20 * time.Second, Log: o.w.log,
	})
	opts := member.Options{
		Dir: filepath.Join(o.root,
			"mesh"), Identity: o.id, Engine: o.agg.Tap(), KeyID: enginetest.Secret.ID(), Mode: member.External,
		Role:  o.role,
		Store: o.st.Manifest().Incarnation, Heartbeat: time.Minute, Log: o.w.log,
	}
	if o.mesh, err = prepare(t.Context(), opts); err != nil {
		t.Fatal(err)
	}
	for _, k := range o.w.brokers(o) {
		o.mesh.use(k.Connect())
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 2)
	go func() { done <- o.mesh.Run(ctx) }()
	go func() {
		if o.sumID == nil {
			done <- nil
			return
		}
		done <- o.agg.Run(ctx)
	}()
	o.stop = func() error {
		cancel()
		return errors.Join(<-done, <-done, o.mesh.Close(), o.engine.Close(context.Background()), o.st.Close())
	}
}

func (o *org) named() (list []string) {
	for key, member := range o.peers {
		if member {
			list = append(list, key)
		}
	}
	return list
}

func (o *org) members() []string {
	keys, _, _ := o.mesh.Choose(o.named())
	return keys
}

// open opens the mesh of the organisation's aggregate.
func (o *org) open(ctx context.Context, sum *aggregate.Sum, life string) (aggregate.Mesh, error) {
	m, err := prepare(ctx, member.Options{
		Dir: filepath.Join(o.root,
			"sum"), Identity: o.sumID, Engine: sum, KeyID: enginetest.Secret.ID(), Mode: member.External,
		Role:  member.Publish,
		Store: life, Heartbeat: time.Minute, Log: o.w.log,
		Organisations: func() []wire.Organisation { _, all, _ := o.mesh.Choose(o.named()); return all },
	})
	if err == nil {
		// Only peers get answers.
		for _, p := range o.w.everybody() {
			if _, known := m.Find(p.id.Hint()); !known && p.role == member.Both {
				err = errors.Join(err, m.AddPeer(ctx, p.id.ID(), "", 0))
			}
		}
		m.use(o.w.above.Connect())
	}
	return m, err
}

func (w *topology) everybody() []*org { return slices.Concat(w.tops, w.orgs) }

func (o *org) addPeers() {
	var err error
	for key := range o.peers {
		err = errors.Join(err, o.mesh.AddPeer(o.w.t.Context(), key, "", 1))
	}
	for _, p := range o.w.everybody() {
		if _, counted := o.peers[p.id.ID()]; o.group < 0 && p.role == member.Both && p != o && !counted {
			err = errors.Join(err, o.mesh.AddPeer(o.w.t.Context(), p.id.ID(), "", 0)) // otherwise its questions are not answered
		}
	}
	if err != nil {
		o.w.t.Fatal(err)
	}
}

func (o *org) report() {
	n, vote, count := o.w.rng.IntN(60), bulkhead.Vote(o.w.rng.IntN(3)), uint32(1+o.w.rng.IntN(20))
	if o.truth[n][vote] > 0 {
		vote = bulkhead.Sighting
	}
	if vote != bulkhead.Sighting {
		count = 1
	}
	enginetest.Report(o.w.t, o.engine, n, vote, count)
	if o.truth[n] == nil {
		o.truth[n] = make(map[bulkhead.Vote]uint32)
	}
	o.truth[n][vote] += count
}

func newTopology(t *testing.T, seed uint64, groups, orgs int) *topology {
	w := &topology{t: t, rng: rand.New(rand.NewPCG(seed, 1)), capacity: 2000, done: make(map[string]int),
		log: slog.New(slog.DiscardHandler)}
	if os.Getenv("AGGREGATE_LOG") != "" {
		w.log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	broker := func() *meshtest.Broker { return meshtest.NewBroker(rand.New(rand.NewPCG(w.rng.Uint64(), 2))) }
	w.above = broker()
	for range groups {
		w.groups = append(w.groups, broker())
	}
	for range 2 {
		w.tops = append(w.tops, w.newOrg(-1, member.Both, true))
	}
	for i := range orgs {
		role := member.Publish
		if i < 2*groups {
			role = member.Both // the group's aggregator, and a reader
		}
		w.orgs = append(w.orgs, w.newOrg(i%groups, role, i < groups))
	}
	for _, o := range w.everybody() {
		w.befriend(o)
	}
	for _, o := range w.everybody() {
		o.start()
		o.addPeers()
	}
	return w
}

// befriend chooses the peers that an organisation counts.
func (w *topology) befriend(o *org) {
	groups := len(w.groups)
	half := func(group int) int { return group * 2 / groups }
	for _, p := range w.everybody() {
		switch {
		case p == o:
		case o.group < 0 && p.group < 0:
			o.peers[p.sumID.ID()] = false
		case o.group < 0 && p.sumID != nil && w.tops[half(p.group)] == o:
			o.peers[p.sumID.ID()] = true
		case o.group < 0:
		case p.group == o.group:
			o.peers[p.id.ID()] = true
		case p.group < 0 && w.tops[half(o.group)] != p:
			o.peers[p.sumID.ID()] = false
		case p.group < 0:
			o.peers[p.id.ID()] = false // the own top's counts, which no group has
		case p.sumID != nil && half(p.group) == half(o.group):
			o.peers[p.sumID.ID()] = false
		}
	}
}

func (c counts) addAll(other counts) {
	for n, votes := range other {
		for vote, k := range votes {
			c.add(n, vote, k)
		}
	}
}

// doubled returns how many counts exceed all that was ever reported, and how many were
// compared. A lost count may count where it is held, but once.
func (w *topology) doubled() (over, asked int) {
	most := w.total(nil)
	for _, o := range w.everybody() {
		most.addAll(o.lost)
	}
	for _, o := range w.everybody() {
		if o.role != member.Both {
			continue
		}
		for n := range 60 {
			f := enginetest.Check(w.t, o.engine, n)
			for vote, got := range map[bulkhead.Vote]uint32{bulkhead.Sighting: f.Sightings, bulkhead.Spam: f.Spam,
				bulkhead.Ham: f.Ham} {
				asked++
				if got > most[n][vote] {
					over++
				}
			}
		}
	}
	return over, asked
}

// total returns what all have counted but one, who may be nil.
func (w *topology) total(without *org) counts {
	total := make(counts)
	for _, o := range w.everybody() {
		for n, votes := range o.truth {
			for vote, c := range votes {
				if total[n] == nil {
					total[n] = make(map[bulkhead.Vote]uint32)
				}
				if o != without {
					total[n][vote] += c
				}
			}
		}
	}
	return total
}

// compare compares the readers' counts with the sum of all maps. An organisation expelled from its
// group's aggregate is counted only by the members of its group other than the aggregator.
func (w *topology) compare(expelled *org) (wrong []string, over, asked int) {
	all, rest := w.total(nil), w.total(expelled)
	for i, o := range w.everybody() {
		if o.role != member.Both {
			continue
		}
		want := all
		if expelled != nil && (o.group != expelled.group || o.sumID != nil) {
			want = rest
		}
		for _, p := range o.mesh.Status().Peers {
			if p.Weight > 0 && (p.Quarantine != "" || p.Missing > 0) {
				wrong = append(wrong, fmt.Sprintf("organisation %d of peer %s: %q, %d missing, %s", i, p.ID, p.Quarantine,
					p.Missing, p.Error))
			}
		}
		for n := range 60 {
			f := enginetest.Check(w.t, o.engine, n)
			for vote, got := range map[bulkhead.Vote]uint32{bulkhead.Sighting: f.Sightings, bulkhead.Spam: f.Spam,
				bulkhead.Ham: f.Ham} {
				asked++
				if got > want[n][vote] {
					over++
				}
				if got < want[n][vote] {
					wrong = append(wrong, fmt.Sprintf("organisation %d of group %d: %d %v of signature %d, want %d", i, o.group,
						got, vote, n, want[n][vote]))
				}
			}
		}
	}
	return wrong, over, asked
}

func (w *topology) each(f func(k *meshtest.Broker)) {
	for _, k := range append([]*meshtest.Broker{w.above}, w.groups...) {
		f(k)
	}
}

// step takes a random step.
func (w *topology) step() {
	all := w.everybody()
	o := all[w.rng.IntN(len(all))]
	if w.rng.IntN(2) == 0 {
		o = all[w.rng.IntN(2+2*len(w.groups))] // an organisation that matters to many
	}
	what := ""
	switch x := w.rng.IntN(100); {
	case x < 60:
		what = "reports"
		for range 1 + w.rng.IntN(5) {
			o.report()
		}
	case x < 75:
		what = "pause"
		bubble.Advance(time.Duration(w.rng.Int64N(int64(20 * time.Second))))
	case x < 82:
		what = "faults"
		loss, repeat, delay := w.rng.Float64()*0.4, w.rng.Float64()*0.3, time.Duration(w.rng.Int64N(int64(3*time.Second)))
		w.each(func(k *meshtest.Broker) { k.Faults(loss, repeat, delay) })
	case x < 92:
		what = "restarted"
		o.restart()
	case x < 95:
		what = "state lost"
		o.lose()
	case x < 97:
		what = "broker wiped"
		w.above.Wipe()
		w.groups[w.rng.IntN(len(w.groups))].Wipe()
	default:
		what = "aggregate lost"
		if o.sumID != nil {
			o.end()
			if err := os.Remove(filepath.Join(o.root, "sum", member.StateFile)); err != nil && !os.IsNotExist(err) {
				w.t.Fatal(err)
			}
			o.start()
		}
	}
	w.done[what]++
}

func (o *org) end() {
	if err := o.stop(); err != nil {
		o.w.t.Fatal(err)
	}
}

func (o *org) restart() {
	o.end()
	o.start()
}

// lose deletes everything of the organisation except its key and its peers.
func (o *org) lose() {
	o.end()
	if err := os.RemoveAll(filepath.Join(o.root, fmt.Sprint("data", o.data))); err != nil {
		o.w.t.Fatal(err)
	}
	o.data++
	o.lost.addAll(o.truth)
	o.truth = make(counts)
	o.start()
}

func (w *topology) close() {
	for _, o := range w.everybody() {
		o.end()
	}
}

// run runs a schedule, and returns the errors at its end.
func (w *topology) run(steps int) (wrong []string, over, asked int) {
	bubble.Advance(time.Minute)
	for range steps {
		w.step()
	}
	w.each(func(k *meshtest.Broker) { k.Faults(0, 0, 0) })
	bubble.Advance(10 * time.Minute)
	synctest.Wait()
	if extra, asked := w.doubled(); extra > asked/100 {
		wrong = append(wrong, fmt.Sprintf("%d of %d counts exceed all that was ever reported, limit %d", extra, asked,
			asked/100))
		return wrong, 0, asked
	}
	for _, o := range w.everybody() { // the truth of those that have lost their stores began anew
		for _, p := range o.mesh.Status().Peers {
			if err := o.mesh.ForgetFormer(w.t.Context(), p.ID); err != nil {
				w.t.Fatal(err)
			}
		}
	}
	if wrong, over, asked = w.compare(nil); len(wrong) > 0 {
		return wrong, over, asked
	}
	expelled := w.orgs[len(w.orgs)-1]
	for _, o := range w.orgs {
		if o.group == expelled.group && o.sumID != nil {
			if err := o.mesh.EvictPeer(w.t.Context(), expelled.id.ID()); err != nil {
				w.t.Fatal(err)
			}
		}
	}
	bubble.Advance(10 * time.Minute)
	synctest.Wait()
	wrong, extra, again := w.compare(expelled)
	return wrong, over + extra, asked + again
}

// TestTopology runs random schedules of reports, faults of brokers, restarts and losses on
// organisations in groups under two aggregates. It compares the readers' counts with the sum of all
// reports. 1,000 organisations in 32 groups:
//
//	BULKHEAD_TOPOLOGY=1000,32,600 go test ./internal/mesh -run TestTopology$ -v -timeout 2h
func TestTopology(t *testing.T) {
	orgs, groups, steps, seeds := 12, 4, 60, 3
	if testing.Short() {
		seeds = 1
	}
	if text := os.Getenv("BULKHEAD_TOPOLOGY"); text != "" {
		if n, err := fmt.Sscanf(text, "%d,%d,%d", &orgs, &groups, &steps); n != 3 {
			t.Fatal(err)
		}
		seeds = 1
	}
	for seed := range uint64(seeds) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newTopology(t, seed, groups, orgs)
				wrong, over, asked := w.run(steps)
				for _, x := range wrong[:min(len(wrong), 20)] {
					t.Error(x)
				}
				if limit := asked / 100; over > limit {
					t.Errorf("%d of %d counts too high, limit %d", over, asked, limit)
				}
				t.Logf("%d organisations, %d groups: %v; %d of %d counts too low, %d too high", len(w.everybody()), groups,
					w.done, len(wrong), asked, over)
				w.close()
			})
		})
	}
}
