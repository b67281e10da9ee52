package manage

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/api"
	"github.com/bulkhead-mail/bulkhead/internal/mesh"
)

// A Member is the node as a member of a network. Its methods may be called concurrently.
type Member interface {
	// Listen returns the address at which the node's hub listens.
	Listen() string
	// CanRekey returns an error if the node cannot count under another secret yet. The zero secret
	// stands for any but its present and former secrets.
	CanRekey(secret filter.Secret) error
	// Join joins the network of an invitation, or with dry only checks whether it could.
	Join(ctx context.Context, v *mesh.Invitation, weight float64, dry bool) (admin.Joining, error)
	// Leave leaves the network.
	Leave(ctx context.Context) (admin.Left, error)
}

// Peers manages the node's peers for the API: [api.Peers] and [api.Pairing].
type Peers struct {
	member Member
	shared atomic.Pointer[shared] // nil: the node does not share
}

// shared is what a node shares with.
type shared struct {
	mesh      *mesh.Mesh
	aggregate func() *admin.Aggregate // nil: the node publishes none
}

// NewPeers returns the peers of a member that does not share yet.
func NewPeers(member Member) *Peers { return &Peers{member: member} }

// Share sets the mesh through which the node shares, and what describes the aggregate that it
// publishes, nil for none.
func (p *Peers) Share(m *mesh.Mesh, aggregate func() *admin.Aggregate) {
	p.shared.Store(&shared{m, aggregate})
}

// Stop records that the node does not share any more.
func (p *Peers) Stop() { p.shared.Store(nil) }

// Mesh returns the mesh through which the node shares, or an error if it does not share.
func (p *Peers) Mesh() (*mesh.Mesh, error) {
	if s := p.shared.Load(); s != nil {
		return s.mesh, nil
	}
	return nil, api.ErrNoMesh
}

// Network implements [api.Peers].
func (p *Peers) Network(context.Context) (admin.Network, error) {
	shared := p.shared.Load()
	if shared == nil {
		return admin.Network{}, api.ErrNoMesh
	}
	m := shared.mesh
	s := m.Status()
	n := admin.Network{
		Key: s.ID, Mode: string(s.Mode), Role: string(s.Role), Incarnation: s.Incarnation,
		Memory: s.Memory.Bytes, MaxMemory: s.Memory.Limit, Merged: s.Memory.Merged, MergedInto: s.Memory.Into,
		Published: s.Published, Bytes: s.Bytes, Rounds: s.Rounds, Images: s.Images, Dropped: s.Dropped,
		Strangers: s.Strangers, Healing: s.Healing, Twin: s.Twin,
	}
	if r, ok := m.Rotation(); ok {
		c := secretChange(&r)
		n.Secret = &c
	}
	if shared.aggregate != nil {
		n.Aggregate = shared.aggregate()
	}
	for _, b := range s.Brokers {
		n.Brokers = append(n.Brokers,
			admin.Broker{Server: b.Server, Connected: b.Connected, Error: b.Error, BytesIn: b.BytesIn, BytesOut: b.BytesOut,
				Trouble: b.Trouble, Answer: b.Answer.Seconds()})
	}
	for _, q := range s.Peers {
		n.Peers = append(n.Peers, admin.Peer{
			Key: q.ID, Name: q.Name, Weight: q.Weight, Quarantine: q.Quarantine, Expels: q.Expels,
			Added: q.Added, Group: q.Group,
			Organisations: q.Organisations, Heard: q.Heard, Silent: q.Silent.Seconds(), Network: q.Network, Served: q.Served,
			Lag: q.Lag.Seconds(), Behind: q.Behind.Seconds(), Missing: q.Missing, Incarnation: q.Incarnation,
			Messages: q.Messages, Bytes: q.Bytes, Rounds: q.Applied, Images: q.Pages, Asked: q.Asked,
			Refused: q.Refusals, Error: q.Error, Keys: q.Keys, Memory: q.Memory, Merged: q.Merged, Ghost: q.Ghost,
			Former: formerOf(q.Former),
		})
	}
	return n, nil
}

// AddPeer implements [api.Peers].
func (p *Peers) AddPeer(ctx context.Context, in admin.NewPeer) error {
	m, err := p.Mesh()
	if err != nil {
		return err
	}
	return m.AddMember(ctx, in.Key, in.Name, in.Group, in.Keeper, in.Weight)
}

// WeighPeer implements [api.Peers].
func (p *Peers) WeighPeer(ctx context.Context, key string, weight float64) error {
	m, err := p.Mesh()
	if err != nil {
		return err
	}
	return m.WeighPeer(ctx, key, weight)
}

// EvictPeer implements [api.Peers].
func (p *Peers) EvictPeer(ctx context.Context, key string) error {
	m, err := p.Mesh()
	if err != nil {
		return err
	}
	return m.EvictPeer(ctx, key)
}

func formerOf(list []mesh.FormerStatus) (out []admin.Incarnation) {
	for _, f := range list {
		out = append(out, admin.Incarnation(f))
	}
	return out
}

// ForgetPeer implements [api.Peers].
func (p *Peers) ForgetPeer(ctx context.Context, key string) error {
	m, err := p.Mesh()
	if err != nil {
		return err
	}
	return m.ForgetFormer(ctx, key)
}

// RollbackPeer implements [api.Peers].
func (p *Peers) RollbackPeer(ctx context.Context, key string, since time.Time) error {
	m, err := p.Mesh()
	if err != nil {
		return err
	}
	return m.RollbackPeer(ctx, key, since)
}

// PeerLoss implements [api.Peers].
func (p *Peers) PeerLoss(_ context.Context, key string, since time.Time) (admin.PeerLoss, error) {
	m, err := p.Mesh()
	if err != nil {
		return admin.PeerLoss{}, err
	}
	l, err := m.Loss(key, since)
	return admin.PeerLoss{
		Counted: l.Counted, Listed: l.Listed, Revoked: l.Revoked,
		Arrays: l.Arrays, Memory: l.Bytes, From: l.From,
	}, err
}
