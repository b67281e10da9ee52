package node

import (
	"context"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/bulkhead-mail/bulkhead/api"
	"github.com/bulkhead-mail/bulkhead/client"
	"github.com/bulkhead-mail/bulkhead/internal/clock"
	"github.com/bulkhead-mail/bulkhead/internal/mesh"
)

// meshFolder is where the node keeps its key, its peers and a hub's broker.
const meshFolder = "mesh"

// startMesh connects the node to its peers, unless it shares with nobody.
func (n *Node) startMesh(ctx context.Context, st *stage) error {
	cfg := n.cfg.Load()
	c := &cfg.Mesh
	if c.Mode == "off" {
		return nil
	}
	dir := filepath.Join(n.dir, meshFolder)
	id, err := mesh.OpenIdentity(dir)
	if err != nil {
		return err
	}
	ctx, end := context.WithCancel(context.WithoutCancel(ctx)) // of what mesh runs by itself
	m, err := mesh.Open(ctx, mesh.Options{
		Dir: dir, Identity: id, Engine: n.engine, KeyID: n.secret().ID(),
		Store: n.store.Manifest().Incarnation, Unsynced: cfg.Node.Durability != "always", Name: meshName(cfg.Node.Name),
		Mode: mesh.Mode(c.Mode), Role: mesh.Role(c.Role), Listen: c.Listen, Servers: c.Servers,
		Credentials: c.Credentials, CA: c.CA,
		Interval: time.Duration(c.Interval), Heartbeat: time.Duration(c.Heartbeat),
		MaxAdds: c.MaxAdds, MaxListings: c.MaxListings,
		StreamAge: time.Duration(c.StreamAge), StreamBytes: c.StreamBytes, Replicas: c.Replicas, Now: clock.Now, Log: n.log,
	})
	if err != nil {
		end()
		return err
	}
	n.peers.mesh.Store(m)
	n.log.Info("sharing", "mode", c.Mode, "role", c.Role, "key", id.ID(), "peers", len(m.Status().Peers))
	st.tasks = []task{{name: "mesh", run: m.Run}}
	st.close = func(context.Context) error {
		defer end()
		return m.Close()
	}
	return nil
}

// meshName is what the node tells peers of its name: as much as they take.
func meshName(name string) string { return name[:min(len(name), 64)] }

// peers manages the node's peers for the API: [api.Peers].
type peers struct{ mesh atomic.Pointer[mesh.Mesh] }

func (p *peers) get() (*mesh.Mesh, error) {
	if m := p.mesh.Load(); m != nil {
		return m, nil
	}
	return nil, api.ErrNoMesh
}

// Network implements [api.Peers].
func (p *peers) Network(context.Context) (client.Network, error) {
	m, err := p.get()
	if err != nil {
		return client.Network{}, err
	}
	s := m.Status()
	n := client.Network{
		Key: s.ID, Mode: string(s.Mode), Role: string(s.Role), Incarnation: s.Incarnation,
		Memory: s.Memory.Bytes, MaxMemory: s.Memory.Limit, Merged: s.Memory.Merged, MergedInto: s.Memory.Into,
		Published: s.Published, Bytes: s.Bytes, Rounds: s.Rounds, Images: s.Images, Dropped: s.Dropped, Strangers: s.Strangers,
	}
	for _, b := range s.Brokers {
		n.Brokers = append(n.Brokers, client.Broker{Server: b.Server, Connected: b.Connected, Error: b.Error, BytesIn: b.BytesIn, BytesOut: b.BytesOut})
	}
	for _, q := range s.Peers {
		n.Peers = append(n.Peers, client.Peer{
			Key: q.ID, Name: q.Name, Weight: q.Weight, Quarantine: q.Quarantine, Added: q.Added, Heard: q.Heard, Silent: q.Silent.Seconds(), Network: q.Network, Served: q.Served,
			Lag: q.Lag.Seconds(), Behind: q.Behind.Seconds(), Missing: q.Missing, Incarnation: q.Incarnation,
			Messages: q.Messages, Bytes: q.Bytes, Rounds: q.Applied, Images: q.Pages, Asked: q.Asked,
			Refused: q.Refusals, Error: q.Error, Keys: q.Keys, Memory: q.Memory, Merged: q.Merged, Ghost: q.Ghost,
		})
	}
	return n, nil
}

// AddPeer implements [api.Peers].
func (p *peers) AddPeer(ctx context.Context, in client.NewPeer) error {
	m, err := p.get()
	if err != nil {
		return err
	}
	return m.AddPeer(ctx, in.Key, in.Name, in.Weight)
}

// WeighPeer implements [api.Peers].
func (p *peers) WeighPeer(ctx context.Context, key string, weight float64) error {
	m, err := p.get()
	if err != nil {
		return err
	}
	return m.WeighPeer(ctx, key, weight)
}

// EvictPeer implements [api.Peers].
func (p *peers) EvictPeer(ctx context.Context, key string) error {
	m, err := p.get()
	if err != nil {
		return err
	}
	return m.EvictPeer(ctx, key)
}

// RollbackPeer implements [api.Peers].
func (p *peers) RollbackPeer(ctx context.Context, key string, since time.Time) error {
	m, err := p.get()
	if err != nil {
		return err
	}
	return m.RollbackPeer(ctx, key, since)
}
