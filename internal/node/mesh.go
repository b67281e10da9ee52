package node

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/mesh"
	"github.com/bulkhead-mail/bulkhead/internal/wholefile"
)

// meshFolder is where the node keeps its key, its peers and a hub's broker.
const meshFolder = "mesh"

// joinedFile is where the node keeps the hubs of the network that it joined by invitation.
const joinedFile = "joined.json"

// A joined is the content of that file.
type joined struct {
	Hubs []string `json:"hubs"`
}

// maxServers is how many hubs a node connects to.
const maxServers = 16

func (n *Node) meshFolder() string { return filepath.Join(n.dir, meshFolder) }

// joined returns the hubs of the network that the node joined by invitation.
func (n *Node) joined() (j joined, err error) {
	err = wholefile.ReadJSON(filepath.Join(n.meshFolder(), joinedFile), &j)
	return j, err
}

// sharing is the part of a node that shares. It may begin, end and begin anew while the node runs.
type sharing struct {
	mu     sync.Mutex
	mesh   *mesh.Mesh // nil: the node does not share
	sum    *sum       // the published aggregate; nil: none
	end    func()     // ends what the mesh runs by itself
	stop   func()     // ends the mesh's Run and waits for it; nil while it does not run
	serves bool
	over   bool // the node is stopping
	failed chan error

	ending   chan struct{}  // closed once over is true
	changing sync.WaitGroup // changes of the network's secret
}

// startMesh connects the node to its peers, if it shares.
func (n *Node) startMesh(ctx context.Context, st *stage) error {
	n.sharing.failed, n.sharing.ending = make(chan error, 1), make(chan struct{})
	n.sharing.mu.Lock()
	defer n.sharing.mu.Unlock()
	if !n.pair.Second() { // the first node shares; this one begins when it takes over
		if err := n.openMesh(ctx); err != nil {
			return err
		}
	}
	st.tasks = []task{{name: "mesh", run: n.share}}
	st.close = func(context.Context) error {
		n.sharing.mu.Lock()
		n.endSharing()
		err := n.closeMesh()
		n.sharing.mu.Unlock()
		n.sharing.changing.Wait()
		return err
	}
	return nil
}

// openMesh connects the node as configured, and to the hubs that it joined. The caller holds the
// lock.
func (n *Node) openMesh(ctx context.Context) error {
	cfg := n.cfg.Load()
	c := &cfg.Mesh
	by, err := n.joined()
	if err != nil {
		return err
	}
	mode, servers := c.Mode, c.Servers
	if len(by.Hubs) > 0 && mode != string(mesh.External) {
		if mode == "off" {
			mode, servers = string(mesh.Join), nil
		}
		servers = append(slices.Clone(servers), by.Hubs...)
		slices.Sort(servers)
		servers = slices.Compact(servers)
	}
	if mode == "off" {
		return nil
	}
	dir := n.meshFolder()
	id, err := mesh.OpenIdentity(dir)
	if err != nil {
		return err
	}
	total, counts, err := n.newSum(cfg)
	if err != nil {
		return err
	}
	ctx, end := context.WithCancel(context.WithoutCancel(ctx)) // for everything that mesh runs by itself
	m, err := mesh.Open(ctx, mesh.Options{
		Dir: dir, Identity: id, Engine: counts, KeyID: n.secret().ID(), Secret: n.secret(),
		Former: n.engine.Former(), Switch: n.switchSecret, RekeyEvery: time.Duration(c.RekeyEvery),
		MayRekey: func() error { return n.engine.CanRekey(filter.Secret{}) }, // any but the node's present and former secrets
		Store:    n.store.Manifest().Incarnation, Unsynced: cfg.Node.Durability == "relaxed", Name: meshName(cfg.Node.Name),
		Mode: mesh.Mode(mode), Role: mesh.Role(c.Role), Listen: c.Listen, Servers: servers,
		Credentials: c.Credentials, CA: c.CA, Cert: c.Cert, Key: c.Key, Domain: c.Domain,
		Interval: time.Duration(c.Interval), Heartbeat: time.Duration(c.Heartbeat),
		MaxAdds: c.MaxAdds, MaxListings: c.MaxListings,
		StreamAge: time.Duration(c.StreamAge), StreamBytes: c.StreamBytes, Replicas: c.Replicas, Now: n.engine.Now,
		Lessons: n.engine.Lessons(), Log: n.log,
	})
	if err != nil {
		end()
		return err
	}
	n.sharing.mesh, n.sharing.sum, n.sharing.end = m, total, end
	if total != nil {
		total.of.Store(m)
		n.peers.Share(m, total.status)
	} else {
		n.peers.Share(m, nil)
	}
	if n.sharing.serves {
		n.runMesh()
	}
	n.log.Info("sharing", "mode", mode, "role", c.Role, "key", id.ID(), "network", fingerprint(n.secret()),
		"peers", len(m.Status().Peers))
	return nil
}

// runMesh runs the mesh until closeMesh. The caller holds the lock.
func (n *Node) runMesh() {
	m, total := n.sharing.mesh, n.sharing.sum
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	var summing sync.WaitGroup
	if total != nil {
		summing.Go(func() { total.run(ctx, n.log) })
	}
	go func() {
		defer close(done)
		err := m.Run(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			err = errors.New("node: mesh ended by itself")
		}
		select {
		case n.sharing.failed <- err:
		default:
		}
	}()
	n.sharing.stop = func() {
		cancel()
		<-done
		summing.Wait()
	}
}

// quietMesh stops the mesh's Run, which first publishes the latest counts. The caller holds the
// lock.
func (n *Node) quietMesh() {
	if n.sharing.stop != nil {
		n.sharing.stop()
		n.sharing.stop = nil
	}
}

// closeMesh disconnects the node. The caller holds the lock.
func (n *Node) closeMesh() error {
	s := &n.sharing
	if s.mesh == nil {
		return nil
	}
	n.quietMesh()
	n.peers.Stop()
	err := s.mesh.Close()
	s.end()
	s.mesh = nil
	return err
}

// share shares until ctx ends.
func (n *Node) share(ctx context.Context) error {
	n.sharing.mu.Lock()
	n.sharing.serves = true
	if n.sharing.mesh != nil {
		n.runMesh()
	}
	n.sharing.mu.Unlock()
	var err error
	select {
	case <-ctx.Done():
	case err = <-n.sharing.failed:
	}
	n.sharing.mu.Lock()
	defer n.sharing.mu.Unlock()
	n.sharing.serves = false
	n.endSharing()
	n.quietMesh()
	return err
}

// yield ends sharing before the doors have finished their requests. The other node of the pair shares with the same key
// by then, and peers count neither of two nodes with one key.
func (n *Node) yield() {
	n.sharing.mu.Lock()
	defer n.sharing.mu.Unlock()
	n.endSharing()
	n.quietMesh()
}

// endSharing records that the node is stopping. The caller holds the lock.
func (n *Node) endSharing() {
	if !n.sharing.over {
		n.sharing.over = true
		close(n.sharing.ending)
	}
}

// meshName shortens the node's name to the length that peers accept.
func meshName(name string) string { return name[:min(len(name), 64)] }
