package mesh

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
)

// A Book is the peer list of a node with the statistics of the peers. It keeps the list on disk, and
// the engine's origins equal to it. Its methods may be called concurrently.
type Book struct {
	opts    *Options
	watcher Watcher

	// admin makes reading, changing and writing the peer list one atomic step.
	admin sync.Mutex

	// mu guards the fields below; no call under it may block.
	mu        sync.Mutex
	members   map[wire.Hint]*member
	strange   refusals           // messages from senders that are not peers
	strangers map[wire.Hint]bool // logged
}

// A Watcher follows the changes of the peer list.
type Watcher interface {
	// Added is called after a node has become a peer.
	Added(h wire.Hint)
	// Dropped is called after a peer has left the list, with its key and the start of it.
	Dropped(id string, h wire.Hint) error
	// Between runs f when no message of a peer is being handled.
	Between(f func(ctx context.Context))
}

// A member is a peer and its statistics. Mesh.mu guards it.
type member struct {
	peer
	stats
}

// OpenBook reads the peer list of the folder o.Dir. The watcher must not be called before the first
// change of the list.
func OpenBook(o *Options, w Watcher) (*Book, error) {
	b := &Book{opts: o, watcher: w, members: make(map[wire.Hint]*member), strange: newRefusals(),
		strangers: make(map[wire.Hint]bool)}
	peers, err := loadPeers(o.Dir)
	if err != nil {
		return nil, err
	}
	for _, p := range peers {
		b.members[p.key.Hint()] = &member{peer: *p, stats: newStats()}
	}
	return b, nil
}

// tellEngine makes the engine count the origins of the peer list.
func (b *Book) tellEngine(ctx context.Context) error {
	want := b.origins()
	if slices.Equal(b.opts.Engine.Origins(), want) {
		return nil
	}
	return b.opts.Engine.SetOrigins(ctx, want)
}

// forgetRefused drops the generations present here that an administrator has rolled back: the store
// was restored from an older backup, or the node ended in the middle of a rollback. Later
// generations are fetched anew.
func (b *Book) forgetRefused(ctx context.Context) error {
	if b.opts.Role == Publish {
		return nil
	}
	for _, p := range b.peerList() {
		refused := false
		since := uint64(math.MaxUint64)
		for _, a := range b.opts.Engine.Replica(p.ID) {
			if p.refuses(a.Start) {
				refused, since = true, min(since, a.Start)
			}
		}
		if !refused {
			continue
		}
		if err := b.opts.Engine.ForgetGenerations(ctx, p.ID, since); err != nil {
			return fmt.Errorf("mesh: %w", err)
		}
	}
	return nil
}

func (b *Book) origins() []engine.Origin {
	if b.opts.Role == Publish {
		return nil
	}
	var out []engine.Origin
	for _, p := range b.peerList() {
		out = append(out, p.origin())
	}
	return out
}

// peerList returns copies of the peers in the order of their keys.
func (b *Book) peerList() []*peer {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := []*peer{}
	for _, mem := range b.members {
		p := mem.peer
		list = append(list, &p)
	}
	slices.SortFunc(list, func(a, b *peer) int { return slices.Compare(a.key[:], b.key[:]) })
	return list
}

// find returns a copy of the peer with a key hint.
func (b *Book) find(h wire.Hint) (peer, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if mem := b.members[h]; mem != nil {
		return mem.peer, true
	}
	return peer{}, false
}

// changePeers edits the peer list, durably, and updates the engine's origins.
func (b *Book) changePeers(ctx context.Context, edit func(map[wire.Hint]*member) error) error {
	b.admin.Lock()
	defer b.admin.Unlock()
	b.mu.Lock()
	before := make(map[wire.Hint]*member, len(b.members))
	next := make(map[wire.Hint]*member, len(b.members))
	for h, mem := range b.members {
		before[h] = mem
		c := *mem
		c.Refused = slices.Clone(mem.Refused)
		next[h] = &c
	}
	b.mu.Unlock()
	if err := edit(next); err != nil {
		return err
	}
	b.swap(next)
	err := savePeers(b.opts.Dir, b.peerList())
	if err == nil {
		// A caller that left before the engine has answered would not know which list the engine
		// counts.
		err = b.tellEngine(context.WithoutCancel(ctx))
	}
	if err != nil {
		b.swap(before)
		return errors.Join(err, savePeers(b.opts.Dir, b.peerList()))
	}
	return nil
}

func (b *Book) swap(members map[wire.Hint]*member) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.members = members
}

func unknownPeer(id string) error {
	return fmt.Errorf("%w: mesh: no peer has the key %.80q", bulkhead.ErrMalformed, id)
}

// AddPeer accepts the key of another node, with a weight from 0 to 1.
func (b *Book) AddPeer(ctx context.Context, id, name string, weight float64) error {
	key, err := wire.ParsePublic(id)
	if err != nil {
		return fmt.Errorf("%w: %v", bulkhead.ErrMalformed, err)
	}
	if err := checkPeer(name, weight); err != nil {
		return err
	}
	if key == b.opts.Identity.Public() {
		return fmt.Errorf("%w: mesh: %s is this node's own key", bulkhead.ErrMalformed, id)
	}
	return b.addPeer(ctx, &peer{ID: id, Name: name, Weight: weight, Added: b.opts.Now().UTC().Truncate(time.Second),
		key: key})
}

func (b *Book) addPeer(ctx context.Context, p *peer) error {
	h := p.key.Hint()
	err := b.changePeers(ctx, func(list map[wire.Hint]*member) error {
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
		b.watcher.Added(h)
	}
	return err
}

func (b *Book) editPeer(ctx context.Context, id string, edit func(*member) error) error {
	return b.changePeers(ctx, func(list map[wire.Hint]*member) error {
		key, err := wire.ParsePublic(id)
		if err != nil || list[key.Hint()] == nil || list[key.Hint()].ID != id {
			return unknownPeer(id)
		}
		return edit(list[key.Hint()])
	})
}

// WeighPeer sets a peer's weight, 0 to 1, and ends its quarantine.
func (b *Book) WeighPeer(ctx context.Context, id string, weight float64) error {
	if err := checkPeer("", weight); err != nil {
		return err
	}
	return b.editPeer(ctx, id, func(mem *member) error {
		mem.Weight, mem.Quarantine, mem.conflicts = weight, "", 0
		mem.growth = growth{}
		return nil
	})
}

// EvictPeer removes a peer from the list, drops its replica, and closes its connection to a hub. An
// evicted member of a group is not accepted again, whatever the keeper's list contains. If this
// node is the keeper, all members drop the peer.
func (b *Book) EvictPeer(ctx context.Context, id string) error {
	if key, err := wire.ParsePublic(id); err == nil {
		if p, ok := b.find(key.Hint()); ok && p.ID == id && p.Group != "" && !p.Keeper {
			if err := strike(b.opts.Dir, id); err != nil {
				return err
			}
		}
	}
	return b.dropPeer(ctx, id)
}

func (b *Book) dropPeer(ctx context.Context, id string) error {
	err := b.changePeers(ctx, func(list map[wire.Hint]*member) error {
		key, err := wire.ParsePublic(id)
		if err != nil || list[key.Hint()] == nil || list[key.Hint()].ID != id {
			return unknownPeer(id)
		}
		delete(list, key.Hint())
		return nil
	})
	if key, bad := wire.ParsePublic(id); err == nil && bad == nil {
		err = b.watcher.Dropped(id, key.Hint())
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
func (b *Book) Loss(id string, since time.Time) (Loss, error) {
	var out Loss
	key, err := wire.ParsePublic(id)
	if err != nil {
		return out, unknownPeer(id)
	}
	if p, ok := b.find(key.Hint()); !ok || p.ID != id {
		return out, unknownPeer(id)
	}
	if err := b.notAhead(since); err != nil {
		return out, err
	}
	from := uint64(max(since.Unix(), 0))
	oldest := uint64(math.MaxUint64)
	for _, a := range b.opts.Engine.Replica(id) {
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
func (b *Book) notAhead(since time.Time) error {
	if since.Unix() > b.opts.Now().Unix() {
		return fmt.Errorf("%w: mesh: rollback to %v, which is in the future", bulkhead.ErrMalformed, since.UTC())
	}
	return nil
}

// RollbackPeer drops a peer's generations that started at or after a time. It refuses them from
// then on if they have started by now, or are present early because the peer's clock is ahead. The
// peer's adds to later generations count again.
func (b *Book) RollbackPeer(ctx context.Context, id string, since time.Time) error {
	from := uint64(max(since.Unix(), 0))
	err := b.editPeer(ctx, id, func(mem *member) error {
		if err := b.notAhead(since); err != nil {
			return err
		}
		to := uint64(b.opts.Now().Unix())
		for _, a := range b.opts.Engine.Replica(id) {
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
	if b.opts.Role == Publish {
		return nil
	}
	if err := b.opts.Engine.ForgetGenerations(ctx, id, from); err != nil {
		return err
	}
	// The receiver may be handling a message with a copy of the list from before the rollback, and
	// bring back dropped arrays.
	b.watcher.Between(func(ctx context.Context) {
		if err := b.forgetRefused(ctx); err != nil && ctx.Err() == nil {
			b.opts.Log.Error("what a rollback has dropped may be here again until the node is restarted", "peer", id, "err", err)
		}
	})
	return nil
}

// quarantine stops counting a peer, durably, and logs an alert.
func (b *Book) quarantine(ctx context.Context, h wire.Hint, why string) {
	err := b.changePeers(ctx, func(list map[wire.Hint]*member) error {
		if list[h] == nil || list[h].Quarantine != "" {
			return nil
		}
		list[h].Quarantine = why
		b.opts.Log.Error("ALERT: peer is quarantined and not counted until its weight is set again",
			"peer", list[h].label(), "key", list[h].ID, "why", why)
		return nil
	})
	if err != nil {
		b.opts.Log.Error("quarantine of a peer is not durable", "key", h, "err", err)
	}
}
