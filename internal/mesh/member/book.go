package member

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
	Members   map[wire.Hint]*Entry
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

// A Entry is a peer and its statistics. Mesh.mu guards it.
type Entry struct {
	Peer
	Stats
}

// OpenBook reads the peer list of the folder o.Dir. The watcher must not be called before the first
// change of the list.
func OpenBook(o *Options, w Watcher) (*Book, error) {
	b := &Book{opts: o, watcher: w, Members: make(map[wire.Hint]*Entry), strange: newRefusals(),
		strangers: make(map[wire.Hint]bool)}
	peers, err := LoadPeers(o.Dir)
	if err != nil {
		return nil, err
	}
	for _, p := range peers {
		b.Members[p.Key.Hint()] = &Entry{Peer: *p, Stats: newStats()}
	}
	return b, nil
}

// SetOrigins makes the engine count the origins of the peer list.
func (b *Book) SetOrigins(ctx context.Context) error {
	want := b.Origins()
	if slices.Equal(b.opts.Engine.Origins(), want) {
		return nil
	}
	return b.opts.Engine.SetOrigins(ctx, want)
}

// DropRefused drops the generations present here that an administrator has rolled back: the store
// was restored from an older backup, or the node ended in the middle of a rollback. Later
// generations are fetched anew.
func (b *Book) DropRefused(ctx context.Context) error {
	if b.opts.Role == Publish {
		return nil
	}
	for _, p := range b.List() {
		refused := false
		since := uint64(math.MaxUint64)
		for _, a := range b.arrays(p.ID) {
			if p.Refuses(a.Start) {
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

// Origins returns the origins of the peers, which the engine counts; none if the node only publishes.
func (b *Book) Origins() []engine.Origin {
	if b.opts.Role == Publish {
		return nil
	}
	var out []engine.Origin
	for _, p := range b.List() {
		out = append(out, p.Origin())
	}
	return out
}

// List returns copies of the peers in the order of their keys.
func (b *Book) List() []*Peer {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := []*Peer{}
	for _, mem := range b.Members {
		p := mem.Peer
		list = append(list, &p)
	}
	slices.SortFunc(list, func(a, b *Peer) int { return slices.Compare(a.Key[:], b.Key[:]) })
	return list
}

// Find returns a copy of the peer with a key hint.
func (b *Book) Find(h wire.Hint) (Peer, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if mem := b.Members[h]; mem != nil {
		return mem.Peer, true
	}
	return Peer{}, false
}

// changePeers edits the peer list, durably, and updates the engine's origins.
func (b *Book) changePeers(ctx context.Context, edit func(map[wire.Hint]*Entry) error) error {
	b.admin.Lock()
	defer b.admin.Unlock()
	b.mu.Lock()
	before := make(map[wire.Hint]*Entry, len(b.Members))
	next := make(map[wire.Hint]*Entry, len(b.Members))
	for h, mem := range b.Members {
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
	err := SavePeers(b.opts.Dir, b.List())
	if err == nil {
		// A caller that left before the engine has answered would not know which list the engine
		// counts.
		err = b.SetOrigins(context.WithoutCancel(ctx))
	}
	if err != nil {
		b.swap(before)
		return errors.Join(err, SavePeers(b.opts.Dir, b.List()))
	}
	return nil
}

func (b *Book) swap(members map[wire.Hint]*Entry) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.Members = members
}

func unknownPeer(id string) error {
	return fmt.Errorf("%w: mesh: no peer has the key %.80q", bulkhead.ErrMalformed, id)
}

// AddPeer accepts the key of another node, with a weight from 0 to 1.
func (b *Book) AddPeer(ctx context.Context, id, name string, weight float64) error {
	return b.AddMember(ctx, id, name, "", false, weight)
}

// AddMember is [Book.AddPeer] for a member of a group, or for its keeper: the peer that sends this node the list of
// the group. An empty group stands for none.
func (b *Book) AddMember(ctx context.Context, id, name, group string, keeper bool, weight float64) error {
	key, err := wire.ParsePublic(id)
	if err != nil {
		return fmt.Errorf("%w: %v", bulkhead.ErrMalformed, err)
	}
	if err := errors.Join(CheckPeer(name, weight), CheckPeer(group, 0)); err != nil {
		return err
	}
	if keeper && group == "" {
		return fmt.Errorf("%w: mesh: a keeper without a group", bulkhead.ErrMalformed)
	}
	if key == b.opts.Identity.Public() {
		return fmt.Errorf("%w: mesh: %s is this node's own key", bulkhead.ErrMalformed, id)
	}
	return b.Put(ctx, &Peer{ID: id, Name: name, Weight: weight, Added: b.opts.Now().UTC().Truncate(time.Second),
		Group: group, Keeper: keeper, Key: key})
}

// Keeps reports whether this node is the keeper of a group.
func (b *Book) Keeps() bool {
	return slices.ContainsFunc(b.List(), func(p *Peer) bool { return p.Group != "" && !p.Keeper })
}

// Put adds a peer to the list.
func (b *Book) Put(ctx context.Context, p *Peer) error {
	h := p.Key.Hint()
	err := b.changePeers(ctx, func(list map[wire.Hint]*Entry) error {
		if list[h] != nil {
			return fmt.Errorf("%w: mesh: peer %s is already on the list", bulkhead.ErrMalformed, p.ID)
		}
		if len(list) >= MaxPeers {
			return fmt.Errorf("%w: mesh: %d peers, limit %d", bulkhead.ErrOverLimit, len(list), MaxPeers)
		}
		list[h] = &Entry{Peer: *p, Stats: newStats()}
		return nil
	})
	if err == nil {
		b.watcher.Added(h)
	}
	return err
}

// EditPeer changes the entry of the peer with a key, durably.
func (b *Book) EditPeer(ctx context.Context, id string, edit func(*Entry) error) error {
	return b.changePeers(ctx, func(list map[wire.Hint]*Entry) error {
		key, err := wire.ParsePublic(id)
		if err != nil || list[key.Hint()] == nil || list[key.Hint()].ID != id {
			return unknownPeer(id)
		}
		return edit(list[key.Hint()])
	})
}

// WeighPeer sets a peer's weight, 0 to 1, and ends its quarantine.
func (b *Book) WeighPeer(ctx context.Context, id string, weight float64) error {
	if err := CheckPeer("", weight); err != nil {
		return err
	}
	return b.EditPeer(ctx, id, func(mem *Entry) error {
		mem.Weight, mem.Quarantine = weight, ""
		mem.Growth = Growth{}
		return nil
	})
}

// EvictPeer removes a peer from the list, drops its replica, and closes its connection to a hub. An
// evicted member of a group is not accepted again, whatever the keeper's list contains. If this
// node is the keeper, all members drop the peer.
func (b *Book) EvictPeer(ctx context.Context, id string) error {
	if key, err := wire.ParsePublic(id); err == nil {
		if p, ok := b.Find(key.Hint()); ok && p.ID == id && p.Group != "" && !p.Keeper {
			if err := Strike(b.opts.Dir, id); err != nil {
				return err
			}
		}
	}
	return b.dropPeer(ctx, id)
}

func (b *Book) dropPeer(ctx context.Context, id string) error {
	err := b.changePeers(ctx, func(list map[wire.Hint]*Entry) error {
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

// A Loss is the part of a peer's replicas that an eviction or a rollback drops, former incarnations
// included.
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
	if p, ok := b.Find(key.Hint()); !ok || p.ID != id {
		return out, unknownPeer(id)
	}
	if err := b.notAhead(since); err != nil {
		return out, err
	}
	from := uint64(max(since.Unix(), 0))
	oldest := uint64(math.MaxUint64)
	for _, a := range b.arrays(id) {
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
	err := b.EditPeer(ctx, id, func(mem *Entry) error {
		if err := b.notAhead(since); err != nil {
			return err
		}
		to := uint64(b.opts.Now().Unix())
		for _, a := range b.arrays(id) {
			to = max(to, a.Start) // it has begun by the peer's clock
		}
		mem.Refused = append(mem.Refused, Stretch{from, to})
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
		if err := b.DropRefused(ctx); err != nil && ctx.Err() == nil {
			b.opts.Log.Error("what a rollback has dropped may be here again until the node is restarted", "peer", id, "err", err)
		}
	})
	return nil
}

// Quarantine stops counting a peer, durably, and logs it as an error.
func (b *Book) Quarantine(ctx context.Context, h wire.Hint, why string) {
	err := b.changePeers(ctx, func(list map[wire.Hint]*Entry) error {
		if list[h] == nil || list[h].Quarantine != "" {
			return nil
		}
		list[h].Quarantine = why
		b.opts.Log.Error("peer is quarantined", "peer", list[h].Label(), "key", list[h].ID, "why", why,
			"consequence", "its counts are kept and not counted", "hint", "to count it again, run \"bulkhead peer weigh\"")
		return nil
	})
	if err != nil {
		b.opts.Log.Error("quarantine of a peer is not durable", "key", h, "err", err)
	}
}
