package member

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
	"github.com/bulkhead-mail/bulkhead/internal/wholefile"
)

const (
	InvitationsFile = "invitations.json"
	MaxInvitations  = 256
	MaxLifetime     = 90 * 24 * time.Hour
	// keepInvitation is how long an expired invitation is remembered, so that a node that presents
	// it learns why it is invalid.
	keepInvitation = 30 * 24 * time.Hour
	// MaxClocksApart is how far the clocks of a joining node and its inviter may differ:
	// generations follow the clock.
	MaxClocksApart = 5 * time.Minute
)

// A NewInvitation describes an invitation to be made.
type NewInvitation struct {
	Name     string        // of the invited node, for people; "" for the node's own name
	Weight   float64       // of the invited node here, 0 to 1
	Uses     int           // how many nodes may join with it; 0: one
	Accept   bool          // a node that presents it joins at once, without being accepted by hand
	Lifetime time.Duration // from now; 0: two days
	Hubs     []string      // addresses of this node: "host:port"
	Group    string        // group that the invited node becomes a member of, with this node as keeper; "" for none
}

// InvitationStatus is the state of an invitation.
type InvitationStatus struct {
	ID      string
	Name    string
	Weight  float64
	Uses    int
	Accept  bool
	Group   string
	Expires time.Time
	Joined  []Joiner // nodes that presented it
}

// A Joiner is a node that has presented an invitation.
type Joiner struct {
	Key   string    `json:"key"`
	Name  string    `json:"name,omitempty"`
	At    time.Time `json:"at"` // of the first time
	State string    `json:"state"`
}

// An Invite is an invitation as its inviter stores it.
type Invite struct {
	ID      string    `json:"id"`
	Secret  []byte    `json:"secret"`
	Name    string    `json:"name,omitempty"`
	Weight  float64   `json:"weight"`
	Uses    int       `json:"uses"`
	Accept  bool      `json:"accept,omitempty"`
	Group   string    `json:"group,omitempty"`
	Expires time.Time `json:"expires"`
	Joiners []Joiner  `json:"joiners,omitempty"`
}

// A Pairing holds the invitations of a node. Its methods may be called concurrently.
type Pairing struct {
	opts *Options
	book *Book

	mu      sync.Mutex
	Invites []*Invite
}

// OpenPairing reads the invitations in the folder o.Dir. Nodes that are accepted are added to the
// book.
func OpenPairing(o *Options, b *Book) (*Pairing, error) {
	list, err := ReadInvitations(o.Dir)
	if err != nil {
		return nil, err
	}
	list = slices.DeleteFunc(list, func(v *Invite) bool { return v == nil || len(v.Secret) != SecretBytes })
	return &Pairing{opts: o, book: b, Invites: list}, nil
}

// ReadInvitations reads the invitations of the mesh folder dir; an absent file has none.
func ReadInvitations(dir string) (list []*Invite, err error) {
	if err := wholefile.ReadJSON(filepath.Join(dir, InvitationsFile), &list); err != nil {
		return nil, fmt.Errorf("mesh: %w", err)
	}
	return list, nil
}

// ForgetInvitations revokes all invitations of a node with the mesh folder dir. The node must not
// be sharing: it is about to enter another network.
func ForgetInvitations(dir string) error { return remove(dir, InvitationsFile) }

func remove(dir, file string) error {
	if err := os.Remove(filepath.Join(dir, file)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("mesh: %w", err)
	}
	return nil
}

// saveInvitations writes the list, without long expired invitations. The caller holds its lock.
func (g *Pairing) saveInvitations() error {
	now := g.opts.Now()
	g.Invites = slices.DeleteFunc(g.Invites, func(v *Invite) bool { return now.Sub(v.Expires) > keepInvitation })
	data, err := json.Marshal(g.Invites)
	if err != nil {
		return fmt.Errorf("mesh: %w", err)
	}
	return WriteFile(filepath.Join(g.opts.Dir, InvitationsFile), data)
}

// Invite makes an invitation to the network and returns its line. Only a hub can, because nodes
// that are not peers yet can connect to it. For any other node the error wraps
// [bulkhead.ErrForbidden].
func (g *Pairing) Invite(n NewInvitation) (line string, s InvitationStatus, err error) {
	if g.opts.Mode != Hub || g.opts.Secret.ID() != g.opts.KeyID {
		return "", s, fmt.Errorf("%w: mesh: a node in mode %q cannot invite: use a hub of the network",
			bulkhead.ErrForbidden, g.opts.Mode)
	}
	n.Uses, n.Lifetime = max(n.Uses, 1), cmp.Or(n.Lifetime, 48*time.Hour)
	if err := CheckPeer(n.Name, n.Weight); err != nil {
		return "", s, err
	}
	if n.Uses > MaxPeers || n.Lifetime < time.Minute || n.Lifetime > MaxLifetime {
		return "", s, fmt.Errorf("%w: mesh: an invitation for %d nodes and %v, want 1 to %d, and 1m to %v",
			bulkhead.ErrMalformed, n.Uses, n.Lifetime, MaxPeers, MaxLifetime)
	}
	name := g.opts.Name
	v := &Invitation{
		Network: g.opts.Secret.ID(), Inviter: g.opts.Identity.ID(), Name: name, Group: n.Group, Hubs: n.Hubs,
		Expires: g.opts.Now().Add(n.Lifetime).UTC().Truncate(time.Second), Secret: newInvitationSecret(),
	}
	if line, err = v.Line(); err != nil {
		return "", s, err
	}
	x := &Invite{ID: v.ID(), Secret: v.Secret[:], Name: n.Name, Weight: n.Weight, Uses: n.Uses, Accept: n.Accept,
		Group: n.Group, Expires: v.Expires}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.Invites) >= MaxInvitations {
		return "", s, fmt.Errorf("%w: mesh: %d invitations, limit %d: withdraw some", bulkhead.ErrOverLimit,
			len(g.Invites), MaxInvitations)
	}
	g.Invites = append(g.Invites, x)
	if err := g.saveInvitations(); err != nil {
		g.Invites = g.Invites[:len(g.Invites)-1]
		return "", s, err
	}
	g.opts.Log.Info("invitation made", "invitation", x.ID, "for", n.Name, "weight", n.Weight, "uses", n.Uses,
		"expires", v.Expires)
	return line, x.status(), nil
}

func (v *Invite) status() InvitationStatus {
	return InvitationStatus{ID: v.ID, Name: v.Name, Weight: v.Weight, Uses: v.Uses, Accept: v.Accept, Group: v.Group,
		Expires: v.Expires, Joined: slices.Clone(v.Joiners)}
}

// Invitations returns the stored invitations.
func (g *Pairing) Invitations() (out []InvitationStatus) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, v := range g.Invites {
		out = append(out, v.status())
	}
	return out
}

// Withdraw revokes an invitation. A node that has joined with it stays a peer.
func (g *Pairing) Withdraw(id string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.IndexFunc(g.Invites, func(v *Invite) bool { return v.ID == id })
	if i < 0 {
		return fmt.Errorf("%w: mesh: no invitation %.80q", bulkhead.ErrMalformed, id)
	}
	g.Invites = slices.Delete(g.Invites, i, i+1)
	return g.saveInvitations()
}

// Decide accepts or refuses a node that has presented an invitation and waits. An accepted node is
// a peer from now on, and learns of it when it asks again.
func (g *Pairing) Decide(ctx context.Context, key string, accept bool) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, v := range g.Invites {
		for i := range v.Joiners {
			j := &v.Joiners[i]
			if j.Key != key || j.State != PairWaiting {
				continue
			}
			if !accept {
				j.State = PairRefused
				return g.saveInvitations()
			}
			if v.accepted() >= v.Uses {
				return fmt.Errorf("%w: mesh: invitation %s was used by others", bulkhead.ErrOverLimit, v.ID)
			}
			return g.accept(ctx, v, j)
		}
	}
	return fmt.Errorf("%w: mesh: no node with the key %.80q waits", bulkhead.ErrMalformed, key)
}

// Invited reports whether there is an invitation with that ID. A client that names it knows its
// line.
func (g *Pairing) Invited(id string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.ContainsFunc(g.Invites, func(v *Invite) bool { return v.ID == id })
}

func (v *Invite) accepted() (n int) {
	for _, j := range v.Joiners {
		if j.State == PairAccepted {
			n++
		}
	}
	return n
}

// accept makes a joiner a peer. The caller holds the lock of the pairing.
func (g *Pairing) accept(ctx context.Context, v *Invite, j *Joiner) error {
	key, err := wire.ParsePublic(j.Key)
	if err != nil {
		return err
	}
	if _, known := g.book.Find(key.Hint()); !known {
		name := cmp.Or(v.Name, j.Name)
		if v.Uses > 1 {
			name = cmp.Or(j.Name, v.Name)
		}
		if err := g.book.AddPeer(ctx, j.Key, name, v.Weight); err != nil {
			return err
		}
	}
	if v.Group != "" {
		err := g.book.EditPeer(ctx, j.Key, func(mem *Entry) error {
			mem.Group, mem.Keeper = v.Group, false
			return nil
		})
		if err != nil {
			return err
		}
	}
	j.State = PairAccepted
	if err := g.saveInvitations(); err != nil {
		return err
	}
	g.opts.Log.Warn("a node has joined by invitation", "invitation", v.ID, "peer", cmp.Or(v.Name, j.Name), "key", j.Key,
		"weight", v.Weight)
	return nil
}

// Pair answers a request to join that names an invitation.
func (g *Pairing) Pair(ctx context.Context, id string, from wire.Hint, box []byte) []byte {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.IndexFunc(g.Invites, func(v *Invite) bool { return v.ID == id })
	if i < 0 {
		return g.turnAway(id, from, "no such invitation: it was withdrawn, or expired long ago")
	}
	v := g.Invites[i]
	secret := [SecretBytes]byte(v.Secret)
	q, key, err := OpenRequest(secret, id, box)
	if err == nil && key.Hint() != from {
		err = errors.New("mesh: request to join: sent under the name of another key")
	}
	if err != nil {
		return g.turnAway(id, from, err.Error())
	}
	r := g.Answer(ctx, v, &q)
	r.Clock, r.Name = g.opts.Now().UTC(), g.opts.Name
	reply, err := sealReply(secret, id, &q, r)
	if err != nil {
		return g.turnAway(id, from, err.Error())
	}
	return reply
}

// turnAway refuses a request that cannot be answered in secret.
func (g *Pairing) turnAway(id string, from wire.Hint, why string) []byte {
	first := g.book.RefuseStranger(ReasonInvitation, why)
	if first {
		g.opts.Log.Warn("request to join refused", "invitation", id, "key", from, "why", why,
			"consequence", "others are counted and not logged")
	}
	out, err := json.Marshal(pairEnvelope{Why: why})
	if err != nil {
		return nil
	}
	return out
}

// Answer decides a request to join. It also logs each refusal because of an invalid invitation:
// only a node with the line can cause one.
func (g *Pairing) Answer(ctx context.Context, v *Invite, q *PairRequest) *pairReply {
	refuse := func(format string, args ...any) *pairReply {
		why := fmt.Sprintf(format, args...)
		g.opts.Log.Error("node that shows an invitation is refused", "invitation", v.ID, "for", v.Name,
			"key", q.Key, "name", q.Name, "why", why)
		return &pairReply{State: PairRefused, Why: why}
	}
	now := g.opts.Now()
	i := slices.IndexFunc(v.Joiners, func(j Joiner) bool { return j.Key == q.Key })
	switch apart := q.Clock.Sub(now); {
	case now.After(v.Expires):
		return refuse("the invitation expired at %s; it is %s here", v.Expires.UTC().Format(time.RFC3339),
			now.UTC().Format(time.RFC3339))
	case apart.Abs() > MaxClocksApart:
		return refuse(
			"the clocks are %v apart: it is %s at the node that joins and %s at its inviter; set the one that is wrong",
			apart.Abs().Round(time.Second), q.Clock.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	case q.Key == g.opts.Identity.ID():
		return refuse("the invitation is this node's own")
	case i >= 0 && v.Joiners[i].State == PairRefused:
		return &pairReply{State: PairRefused, Why: "the inviter has refused this node"}
	case (i < 0 || v.Joiners[i].State == PairWaiting) && v.accepted() >= v.Uses:
		last := v.Joiners[slices.IndexFunc(v.Joiners, func(j Joiner) bool { return j.State == PairAccepted })]
		return refuse("the invitation was used already, by %s at %s: if that was not you, another person has the line",
			last.Key, last.At.UTC().Format(time.RFC3339))
	case i < 0 && len(v.Joiners) >= 2*v.Uses+8:
		return refuse("too many nodes have shown the invitation")
	}
	if i < 0 {
		i = len(v.Joiners)
		v.Joiners = append(v.Joiners,
			Joiner{Key: q.Key, Name: q.Name, At: now.UTC().Truncate(time.Second), State: PairWaiting})
		if err := g.saveInvitations(); err != nil {
			v.Joiners = v.Joiners[:i]
			return refuse("%v", err)
		}
		if !v.Accept {
			g.opts.Log.Warn("a node wants to join", "invitation", v.ID, "for", v.Name,
				"key", q.Key, "name", q.Name, "hint", "see \"bulkhead peer requests\"")
		}
	}
	j := &v.Joiners[i]
	if j.State == PairWaiting && v.Accept {
		if err := g.accept(ctx, v, j); err != nil {
			return refuse("%v", err)
		}
	}
	if j.State != PairAccepted {
		return &pairReply{State: PairWaiting}
	}
	if key, err := wire.ParsePublic(q.Key); err != nil {
		return refuse("%v", err)
	} else if _, still := g.book.Find(key.Hint()); !still {
		return refuse("the inviter has evicted this node")
	}
	return &pairReply{State: PairAccepted, Secret: g.opts.Secret[:]}
}

// ReasonInvitation counts requests to join that cannot be answered.
const ReasonInvitation = "invitation refused"
