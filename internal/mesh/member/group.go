package member

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
	"github.com/bulkhead-mail/bulkhead/internal/wholefile"
)

// The nodes of one operator form a group. A hub, its keeper, invites each node and sends every
// member the list of the others. A node that joined by such an invitation gives every member the
// keeper's weight, and drops members that the keeper removes.

const (
	StruckFile = "struck.json"
	MaxGroup   = 256
	groupBeats = 2 // heartbeats between two requests for the members of a group
	groupRetry = 2 * time.Second
	groupFails = 5 // failures in a row before the administrator is notified
)

// Groups follows the groups of a node: those that it keeps, and those whose keeper invited it.
type Groups struct {
	Opts *Options
	book *Book
	hubs []Requester
}

// NewGroups returns the groups of the peers in a book.
func NewGroups(o *Options, b *Book) *Groups { return &Groups{Opts: o, book: b} }

// UseHub makes members of groups ask the owner of another broker for the members. It is called before
// [Groups.FollowGroups].
func (g *Groups) UseHub(h Requester) { g.hubs = append(g.hubs, h) }

// A GroupList is a keeper's list of the group for one member.
type GroupList struct {
	Group     string    `json:"group"`
	To        string    `json:"to"`
	At        time.Time `json:"at"`
	Members   []Member  `json:"members"`
	Signature []byte    `json:"signature,omitempty"` // the keeper's, over all other fields
}

// Text returns the text that the keeper signs.
func (l GroupList) Text() ([]byte, error) {
	l.Signature = nil
	data, err := json.Marshal(l)
	return append([]byte("bulkhead mesh group v1\x00"), data...), err
}

// ServeGroup answers a member's request for the list of its group. It returns nil if the peer is in
// none.
func (g *Groups) ServeGroup(from wire.Hint, _ []byte) []byte {
	p, ok := g.book.Find(from)
	if !ok || p.Group == "" || p.Keeper {
		return nil
	}
	l := GroupList{Group: p.Group, To: p.ID, At: g.Opts.Now().UTC(), Members: []Member{}}
	for _, q := range g.book.List() {
		if q.Group == p.Group && !q.Keeper && q.ID != p.ID && len(l.Members) < MaxGroup {
			l.Members = append(l.Members, Member{Key: q.ID, Name: q.Name})
		}
	}
	text, err := l.Text()
	if err != nil {
		return nil
	}
	l.Signature = g.Opts.Identity.Sign(text)
	data, err := json.Marshal(l)
	if err != nil {
		return nil
	}
	return data
}

// OpenGroup reads a keeper's list. It returns an error unless the keeper has just made the list for
// this node.
func (g *Groups) OpenGroup(keeper *Peer, data []byte) (*GroupList, error) {
	if len(data) > MaxPair {
		return nil, fmt.Errorf("mesh: list of a group of %d bytes, limit %d", len(data), MaxPair)
	}
	l := new(GroupList)
	if err := json.Unmarshal(data, l); err != nil {
		return nil, fmt.Errorf("mesh: list of a group: %w", err)
	}
	text, err := l.Text()
	switch {
	case err != nil:
		return nil, fmt.Errorf("mesh: list of a group: %w", err)
	case !ed25519.Verify(keeper.Key[:], text, l.Signature):
		return nil, errors.New("mesh: list of a group: the signature is not of its keeper")
	case l.To != g.Opts.Identity.ID() || l.Group != keeper.Group:
		return nil, fmt.Errorf("mesh: list of group %.80q for %.80q", l.Group, l.To)
	case l.At.Sub(g.Opts.Now()).Abs() > MaxClocksApart:
		return nil, fmt.Errorf("mesh: list of a group of %s: played back, or the clocks are apart",
			l.At.UTC().Format(time.RFC3339))
	case len(l.Members) > MaxGroup:
		return nil, fmt.Errorf("mesh: %d members of a group, limit %d", len(l.Members), MaxGroup)
	}
	for i := range l.Members {
		if _, err := wire.ParsePublic(l.Members[i].Key); err != nil {
			return nil, err
		}
		if err := CheckPeer(l.Members[i].Name, 0); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// TakeGroup makes the members on a keeper's list peers, except those that this node has evicted
// itself. It drops members that are no longer on the list.
func (g *Groups) TakeGroup(ctx context.Context, keeper *Peer, l *GroupList) error {
	struck, err := ReadStruck(g.Opts.Dir)
	if err != nil {
		return err
	}
	named := map[string]bool{g.Opts.Identity.ID(): true, keeper.ID: true}
	var fresh []*Peer
	for _, x := range l.Members {
		key, err := wire.ParsePublic(x.Key)
		if err != nil {
			return err
		}
		known := named[x.Key] || slices.Contains(struck, x.Key)
		named[x.Key] = true
		if _, here := g.book.Find(key.Hint()); !known && !here {
			fresh = append(fresh, &Peer{ID: x.Key, Name: x.Name, Weight: keeper.Weight,
				Added: g.Opts.Now().UTC().Truncate(time.Second), Group: l.Group, Key: key})
		}
	}
	var gone []string
	for _, p := range g.book.List() {
		if p.Group == l.Group && !p.Keeper && !named[p.ID] {
			gone = append(gone, p.ID)
		}
	}
	for _, p := range fresh {
		if err := g.book.Put(ctx, p); err != nil {
			return err
		}
		g.Opts.Log.Warn("a member of the group is a peer now", "group", l.Group, "peer", p.Label(), "key", p.ID,
			"weight", p.Weight, "keeper", keeper.Label())
	}
	for _, id := range gone {
		if err := g.book.dropPeer(ctx, id); err != nil {
			return err
		}
		g.Opts.Log.Warn("a member was expelled from the group, and is dropped", "group", l.Group, "key", id,
			"keeper", keeper.Label())
	}
	return nil
}

// FollowGroups asks keepers regularly for the members of their groups, and retries sooner if a
// keeper did not answer.
func (g *Groups) FollowGroups(ctx context.Context) {
	failed := make(map[string]int) // consecutive failures by keeper
	for {
		pause := groupBeats * g.Opts.Heartbeat
		for _, p := range g.book.List() {
			if !p.Keeper || p.Group == "" {
				continue
			}
			err := g.followGroup(ctx, p)
			if err == nil || ctx.Err() != nil {
				failed[p.ID] = 0
				continue
			}
			pause = min(pause, groupRetry)
			if failed[p.ID]++; failed[p.ID] == groupFails {
				g.Opts.Log.Warn("who is in the group is not known at present", "group", p.Group, "keeper", p.Label(), "err", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

func (g *Groups) followGroup(ctx context.Context, keeper *Peer) error {
	err := errors.New("mesh: no hub answers")
	for _, h := range g.hubs {
		var data []byte
		var l *GroupList
		if data, err = h.Request(ctx, wire.GroupPrefix+g.Opts.Identity.Hint().String(), nil); err != nil {
			continue
		}
		if l, err = g.OpenGroup(keeper, data); err == nil {
			return g.TakeGroup(ctx, keeper, l)
		}
	}
	return err
}

// ReadStruck returns the group members that the administrator of the node with the mesh folder dir has
// evicted.
func ReadStruck(dir string) (keys []string, err error) {
	if err := wholefile.ReadJSON(filepath.Join(dir, StruckFile), &keys); err != nil {
		return nil, fmt.Errorf("mesh: %w", err)
	}
	return keys, nil
}

// Strike records that a group member is unwanted on this node, whatever its keeper's list contains.
func Strike(dir, id string) error {
	keys, err := ReadStruck(dir)
	if err != nil || slices.Contains(keys, id) {
		return err
	}
	data, err := json.Marshal(append(keys, id))
	if err != nil {
		return fmt.Errorf("mesh: %w", err)
	}
	return WriteFile(filepath.Join(dir, StruckFile), data)
}
