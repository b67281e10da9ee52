package mesh

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
)

// A Mesh is a node's part in a network of nodes. Its methods may be called concurrently.
type Mesh struct {
	opts  Options
	buses []bus
	hub   func() // stops the broker of this process; nil if there is none
	// showOut closes a node's connections to that broker.
	showOut func(id string)
	// renewed is set if this process has begun a new incarnation.
	renewed bool
	healing atomic.Bool // see sender.heal

	// admin makes reading, changing and writing the peer list one atomic step.
	admin sync.Mutex

	mu      sync.Mutex
	members map[wire.Hint]*member
	state   state
	strange refusals  // messages from senders that are not peers
	twin    time.Time // when another server with this node's key was last detected
	// rotation is the change of the network's secret that was announced last; nil if there was
	// none. The value that it points to is immutable.
	rotation *rotation
	hurry    chan struct{} // requests the change at once
	began    time.Time     // when this mesh was made
	// postponed is the reason, as logged, why a due secret was not announced. Only the announcing
	// goroutine uses it.
	postponed string

	pairing  pairing
	sender   *sender
	receiver *receiver
	done     sync.WaitGroup // waits for the readings that the receiver has begun
}

// A member is a peer and its statistics. Mesh.mu guards it.
type member struct {
	peer
	stats
}

// Open starts nothing yet, except the broker of a hub. It reads the files in opts.Dir, sets the
// origins that the engine counts, makes the engine record its adds from now on, and connects. An
// unreachable broker is no error: the mesh waits for it.
func Open(ctx context.Context, opts Options) (*Mesh, error) {
	m, err := prepare(ctx, opts)
	if err != nil {
		return nil, err
	}
	if err := m.connect(ctx); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// prepare makes a mesh without a bus.
func prepare(ctx context.Context, opts Options) (*Mesh, error) {
	if err := opts.complete(); err != nil {
		return nil, err
	}
	m := &Mesh{opts: opts, members: make(map[wire.Hint]*member), strange: newRefusals(), hurry: make(chan struct{}, 1),
		began: time.Now()}
	peers, err := loadPeers(opts.Dir)
	if err != nil {
		return nil, err
	}
	for _, p := range peers {
		m.members[p.key.Hint()] = &member{peer: *p, stats: newStats()}
	}
	if m.state, err = loadState(opts.Dir); err != nil {
		return nil, err
	}
	if err := errors.Join(m.loadInvitations(), m.loadRotation()); err != nil {
		return nil, err
	}
	if err := m.begin(ctx); err != nil {
		return nil, err
	}
	if err := m.tellEngine(ctx); err != nil {
		return nil, err
	}
	if err := m.forgetRefused(ctx); err != nil {
		return nil, err
	}
	if opts.Role != Subscribe && !m.healing.Load() {
		if err := opts.Engine.Record(ctx, true); err != nil {
			return nil, fmt.Errorf("mesh: %w", err)
		}
	}
	m.sender = newSender(m)
	m.receiver = newReceiver(m)
	return m, m.receiver.loadHeard()
}

// begin makes the node an origin, at once or when its lost pages are back.
func (m *Mesh) begin(ctx context.Context) error {
	lost, err := m.opts.Engine.Wounds(ctx)
	if err != nil {
		return fmt.Errorf("mesh: %w", err)
	}
	salvaged := lost.Store != "" && lost.Store == m.state.Store && m.opts.Role != Subscribe
	if salvaged && m.state.Incarnation != 0 && len(lost.Pages) > 0 {
		m.healing.Store(true)
		return nil
	}
	err = m.live(salvaged && lost.Whole)
	if err == nil && lost.Store != "" {
		m.forgetWounds(ctx)
	}
	return err
}

// live gives this process a boot number. It begins a new incarnation if the versions of the node's
// arrays may have gone back; whole rules that out although the store is another one.
func (m *Mesh) live(whole bool) error {
	now := uint64(max(m.opts.Now().UnixMilli(), 1))
	own := m.opts.Engine.Own()
	m.mu.Lock()
	defer m.mu.Unlock()
	s := &m.state
	before := s.Boot
	m.renewed = s.Incarnation == 0 || s.Store != m.opts.Store && !whole || s.Unsynced
	if m.renewed {
		s.Incarnation = max(now, s.Incarnation+1, s.Boot+1)
		before = 0
	}
	// A random part keeps two processes of one copied folder, under a clock that was set back, from
	// having the same number.
	s.Boot = max(now, s.Boot+1, s.Incarnation) + rand.Uint64N(1024)
	s.found(own, before)
	s.Store, s.Unsynced, s.Key = m.opts.Store, m.opts.Unsynced, m.opts.Identity.ID()
	return s.save(m.opts.Dir)
}

// tellEngine makes the engine count the origins of the peer list.
func (m *Mesh) tellEngine(ctx context.Context) error {
	want := m.origins()
	if slices.Equal(m.opts.Engine.Origins(), want) {
		return nil
	}
	return m.opts.Engine.SetOrigins(ctx, want)
}

// forgetRefused drops the generations present here that an administrator has rolled back: the store
// was restored from an older backup, or the node ended in the middle of a rollback. Later
// generations are fetched anew.
func (m *Mesh) forgetRefused(ctx context.Context) error {
	if m.opts.Role == Publish {
		return nil
	}
	for _, p := range m.peerList() {
		refused := false
		since := uint64(math.MaxUint64)
		for _, a := range m.opts.Engine.Replica(p.ID) {
			if p.refuses(a.Start) {
				refused, since = true, min(since, a.Start)
			}
		}
		if !refused {
			continue
		}
		if err := m.opts.Engine.ForgetGenerations(ctx, p.ID, since); err != nil {
			return fmt.Errorf("mesh: %w", err)
		}
	}
	return nil
}

func (m *Mesh) origins() []engine.Origin {
	if m.opts.Role == Publish {
		return nil
	}
	var out []engine.Origin
	for _, p := range m.peerList() {
		out = append(out, p.origin())
	}
	return out
}

// peerList returns copies of the peers in the order of their keys.
func (m *Mesh) peerList() []*peer {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := []*peer{}
	for _, mem := range m.members {
		p := mem.peer
		list = append(list, &p)
	}
	slices.SortFunc(list, func(a, b *peer) int { return slices.Compare(a.key[:], b.key[:]) })
	return list
}

// find returns a copy of the peer with a key hint.
func (m *Mesh) find(h wire.Hint) (peer, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if mem := m.members[h]; mem != nil {
		return mem.peer, true
	}
	return peer{}, false
}

// Run shares until ctx ends. It is called once.
func (m *Mesh) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, b := range m.buses {
		handle := func(a wire.Arrival) { m.receiver.deliver(ctx, b, a, false) }
		if err := b.listen(m.opts.Identity.Hint(), m.opts.Role != Publish, handle); err != nil {
			return fmt.Errorf("mesh: %w", err)
		}
	}
	var wg sync.WaitGroup
	wg.Go(func() { m.sender.run(ctx) })
	wg.Go(func() { m.receiver.run(ctx) })
	for _, b := range m.buses {
		wg.Go(func() { m.watch(ctx, b) })
		if b, ok := b.(*natsBus); ok {
			wg.Go(func() { b.watchEntry(ctx) })
			if m.opts.Mode == External {
				wg.Go(func() { m.watchBroker(ctx, b) })
			}
		}
	}
	wg.Go(func() { m.followGroups(ctx) })
	wg.Go(func() { m.followSecret(ctx) })
	wg.Go(func() { m.awaitRotation(ctx) })
	wg.Go(func() { m.announceRegularly(ctx) })
	wg.Wait()
	m.done.Wait()
	return nil
}

// watch catches up whenever a bus reconnects.
func (m *Mesh) watch(ctx context.Context, b bus) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.up():
		}
		m.sender.greet(ctx)
		if m.opts.Role != Publish {
			m.receiver.catchUp(ctx, b)
		}
	}
}

// Close closes the connections and stops the broker of a hub. Run must have returned.
func (m *Mesh) Close() error {
	var errs []error
	m.mu.Lock()
	if !m.healing.Load() {
		m.state.Unsynced = false
	}
	errs = append(errs, m.state.save(m.opts.Dir))
	m.mu.Unlock()
	errs = append(errs, m.receiver.saveHeard())
	for _, b := range m.buses {
		errs = append(errs, b.close())
	}
	if m.hub != nil {
		m.hub()
	}
	return errors.Join(errs...)
}

// changePeers edits the peer list, durably, and updates the engine's origins.
func (m *Mesh) changePeers(ctx context.Context, edit func(map[wire.Hint]*member) error) error {
	m.admin.Lock()
	defer m.admin.Unlock()
	m.mu.Lock()
	before := make(map[wire.Hint]*member, len(m.members))
	next := make(map[wire.Hint]*member, len(m.members))
	for h, mem := range m.members {
		before[h] = mem
		c := *mem
		c.Refused = slices.Clone(mem.Refused)
		next[h] = &c
	}
	m.mu.Unlock()
	if err := edit(next); err != nil {
		return err
	}
	m.swap(next)
	err := savePeers(m.opts.Dir, m.peerList())
	if err == nil {
		// A caller that left before the engine has answered would not know which list the engine
		// counts.
		err = m.tellEngine(context.WithoutCancel(ctx))
	}
	if err != nil {
		m.swap(before)
		return errors.Join(err, savePeers(m.opts.Dir, m.peerList()))
	}
	return nil
}

func (m *Mesh) swap(members map[wire.Hint]*member) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.members = members
}

func unknownPeer(id string) error {
	return fmt.Errorf("%w: mesh: no peer has the key %.80q", bulkhead.ErrMalformed, id)
}

// AddPeer accepts the key of another node, with a weight from 0 to 1.
func (m *Mesh) AddPeer(ctx context.Context, id, name string, weight float64) error {
	key, err := wire.ParsePublic(id)
	if err != nil {
		return fmt.Errorf("%w: %v", bulkhead.ErrMalformed, err)
	}
	if err := checkPeer(name, weight); err != nil {
		return err
	}
	if key == m.opts.Identity.Public() {
		return fmt.Errorf("%w: mesh: %s is this node's own key", bulkhead.ErrMalformed, id)
	}
	return m.addPeer(ctx, &peer{ID: id, Name: name, Weight: weight, Added: m.opts.Now().UTC().Truncate(time.Second),
		key: key})
}

func (m *Mesh) addPeer(ctx context.Context, p *peer) error {
	h := p.key.Hint()
	err := m.changePeers(ctx, func(list map[wire.Hint]*member) error {
		if list[h] != nil {
			return fmt.Errorf("%w: mesh: peer %s is already on the list", bulkhead.ErrMalformed, p.ID)
		}
		if len(list) >= maxPeers {
			return fmt.Errorf("%w: mesh: %d peers, limit %d", bulkhead.ErrOverLimit, len(list), maxPeers)
		}
		list[h] = &member{peer: *p, stats: newStats()}
		return nil
	})
	if err == nil {
		m.receiver.call(func(ctx context.Context) { m.receiver.welcome(ctx, h) })
	}
	return err
}

func (m *Mesh) editPeer(ctx context.Context, id string, edit func(*member) error) error {
	return m.changePeers(ctx, func(list map[wire.Hint]*member) error {
		key, err := wire.ParsePublic(id)
		if err != nil || list[key.Hint()] == nil || list[key.Hint()].ID != id {
			return unknownPeer(id)
		}
		return edit(list[key.Hint()])
	})
}

// WeighPeer sets a peer's weight, 0 to 1, and ends its quarantine.
func (m *Mesh) WeighPeer(ctx context.Context, id string, weight float64) error {
	if err := checkPeer("", weight); err != nil {
		return err
	}
	return m.editPeer(ctx, id, func(mem *member) error {
		mem.Weight, mem.Quarantine, mem.conflicts = weight, "", 0
		mem.growth = growth{}
		return nil
	})
}

// EvictPeer removes a peer from the list, drops its replica, and closes its connection to a hub. An
// evicted member of a group is not accepted again, whatever the keeper's list contains. If this
// node is the keeper, all members drop the peer.
func (m *Mesh) EvictPeer(ctx context.Context, id string) error {
	if key, err := wire.ParsePublic(id); err == nil {
		if p, ok := m.find(key.Hint()); ok && p.ID == id && p.Group != "" && !p.Keeper {
			if err := m.strike(id); err != nil {
				return err
			}
		}
	}
	return m.dropPeer(ctx, id)
}

func (m *Mesh) dropPeer(ctx context.Context, id string) error {
	err := m.changePeers(ctx, func(list map[wire.Hint]*member) error {
		key, err := wire.ParsePublic(id)
		if err != nil || list[key.Hint()] == nil || list[key.Hint()].ID != id {
			return unknownPeer(id)
		}
		delete(list, key.Hint())
		return nil
	})
	if key, bad := wire.ParsePublic(id); err == nil && bad == nil {
		if m.showOut != nil {
			m.showOut(id)
		}
		m.receiver.call(func(context.Context) { m.receiver.forget(key.Hint()) })
		err = m.leftRotation(id)
	}
	return err
}

// A Loss is the part of a peer's replica that an eviction or a rollback drops.
type Loss struct {
	Arrays  int       // arrays of generations
	Counted uint64    // keys in the counts
	Listed  uint64    // keys in the blocklist
	Revoked uint64    // keys that the peer took off the blocklist
	Bytes   uint64    // memory
	From    time.Time // start of the oldest generation; zero if there is none
}

// Loss returns what [Mesh.RollbackPeer] with the same time would drop now. With the zero time it
// returns what [Mesh.EvictPeer] would drop. It changes nothing.
func (m *Mesh) Loss(id string, since time.Time) (Loss, error) {
	var out Loss
	key, err := wire.ParsePublic(id)
	if err != nil {
		return out, unknownPeer(id)
	}
	if p, ok := m.find(key.Hint()); !ok || p.ID != id {
		return out, unknownPeer(id)
	}
	if err := m.notAhead(since); err != nil {
		return out, err
	}
	from := uint64(max(since.Unix(), 0))
	oldest := uint64(math.MaxUint64)
	for _, a := range m.opts.Engine.Replica(id) {
		if a.Start < from {
			continue
		}
		out.Arrays++
		out.Bytes += a.Bytes
		oldest = min(oldest, a.Start)
		switch a.Array {
		case engine.ArrayCounts:
			out.Counted += a.Keys
		case engine.ArraySpam:
			out.Listed += a.Keys
		case engine.ArrayRevoked:
			out.Revoked += a.Keys
		}
	}
	if out.Arrays > 0 {
		out.From = time.Unix(int64(oldest), 0).UTC()
	}
	return out, nil
}

// notAhead returns an error for a rollback to a time in the future.
func (m *Mesh) notAhead(since time.Time) error {
	if since.Unix() > m.opts.Now().Unix() {
		return fmt.Errorf("%w: mesh: rollback to %v, which is in the future", bulkhead.ErrMalformed, since.UTC())
	}
	return nil
}

// RollbackPeer drops a peer's generations that started at or after a time. It refuses them from
// then on if they have started by now, or are present early because the peer's clock is ahead. The
// peer's adds to later generations count again.
func (m *Mesh) RollbackPeer(ctx context.Context, id string, since time.Time) error {
	from := uint64(max(since.Unix(), 0))
	err := m.editPeer(ctx, id, func(mem *member) error {
		if err := m.notAhead(since); err != nil {
			return err
		}
		to := uint64(m.opts.Now().Unix())
		for _, a := range m.opts.Engine.Replica(id) {
			to = max(to, a.Start) // it has begun by the peer's clock
		}
		mem.Refused = append(mem.Refused, stretch{from, to})
		if len(mem.Refused) > 64 {
			mem.Refused = mem.Refused[1:]
		}
		return nil
	})
	if err != nil {
		return err
	}
	if m.opts.Role == Publish {
		return nil
	}
	if err := m.opts.Engine.ForgetGenerations(ctx, id, from); err != nil {
		return err
	}
	// The receiver may be handling a message with a copy of the list from before the rollback, and
	// bring back dropped arrays.
	m.receiver.call(func(ctx context.Context) {
		if err := m.forgetRefused(ctx); err != nil && ctx.Err() == nil {
			m.opts.Log.Error("what a rollback has dropped may be here again until the node is restarted", "peer", id, "err", err)
		}
	})
	return nil
}

// quarantine stops counting a peer, durably, and logs an alert.
func (m *Mesh) quarantine(ctx context.Context, h wire.Hint, why string) {
	err := m.changePeers(ctx, func(list map[wire.Hint]*member) error {
		if list[h] == nil || list[h].Quarantine != "" {
			return nil
		}
		list[h].Quarantine = why
		m.opts.Log.Error("ALERT: peer is quarantined and not counted until its weight is set again",
			"peer", list[h].label(), "key", list[h].ID, "why", why)
		return nil
	})
	if err != nil {
		m.opts.Log.Error("quarantine of a peer is not durable", "key", h, "err", err)
	}
}
