// Package node runs a node as one object: it takes a configuration and opens the front doors.
//
//	n, err := node.Open(ctx, node.Options{Config: cfg, Dir: "bulkhead-data"})
//	...
//	err = n.Serve(ctx) // until ctx ends
//
// The parts of a node start and stop in the order of [Node.order]. [Node.Reload] applies the parts
// of a new configuration that a running node can. Other functions manage the data folder of a
// stopped node: [Restore], [NewNetwork], [RecoverAdmin], and [Backup], which also works while it
// runs.
//
// Three rooms divide the work. This package starts, stops and reloads a node. Package doors makes the
// front doors, and package manage answers an administrator. They know the parts that this package
// gives them, and neither each other nor the node.
package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/door"
	"github.com/bulkhead-mail/bulkhead/internal/config"
	"github.com/bulkhead-mail/bulkhead/internal/node/doors"
	"github.com/bulkhead-mail/bulkhead/internal/node/manage"
	"github.com/bulkhead-mail/bulkhead/internal/node/upstream"
)

// Options are the settings of a node.
type Options struct {
	// Config is a configuration that config.Load has accepted.
	Config *config.Config
	// Dir is the data folder, which is created if necessary.
	Dir string
	// Socket is the path of a unix socket for the commands of this machine; "" for none.
	Socket string
	// Version is the version shown to clients.
	Version string
	// Spare leaves a door closed if another program uses its port. The HTTP door must open.
	Spare bool
	// Salvage starts a node with a damaged store from the readable part of the store. Damaged files
	// are kept in the folder "set-aside" of Dir. [admin.NodeState] lists the counts that may be
	// low since.
	Salvage bool
	// Reread reads the configuration file again and calls [Node.Reload], when an administrator
	// requests that over HTTP; nil: there is no file. It may be called concurrently, once the node
	// serves.
	Reread func() (changed, restart []string, err error)
	// File reads the configuration file without applying it, so that administrators see what a reload
	// would change; nil: there is no preview.
	File func() (*config.Config, error)
	// Log records events; nil discards them.
	Log *slog.Logger
}

// A Node is a clearinghouse with its doors, in one process. It may be used concurrently.
type Node struct {
	*core
	version string
	socket  string
	spare   bool
	reread  func() (changed, restart []string, err error)
	file    func() (*config.Config, error)

	accounts *manage.Accounts
	state    *manage.State
	peers    *manage.Peers
	records  records
	upstream *upstream.Upstream // nil: the node has its own counts
	mta      *mta
	sharing  sharing // the node's meshes
	doors    *doors.Set
	messages *door.Memory // memory of messages in all doors
	failures *door.Failures
	registry *prometheus.Registry

	reloading sync.Mutex // held while a configuration is applied
	life      life
}

// A life is the course of a node from its start to its end.
type life struct {
	stages   []*stage // started stages, in order
	draining atomic.Bool
	mu       sync.Mutex
	served   bool
	closing  context.CancelFunc // ends Serve; nil before
	stopped  chan struct{}      // closed when all stages have stopped
	err      error              // of the stages, once stopped
	stop     sync.Once
}

// order returns the stages of a node in the order in which they start. They stop in the reverse
// order. Doors accept no more requests and finish current ones. Peers then receive the doors' last
// counts, and rate limits are saved once nothing counts any more. The engine writes its last
// snapshot when nothing uses it.
func (n *Node) order() []*stage {
	return []*stage{
		{name: "engine", start: n.startEngine},
		{name: "upstream", start: n.startUpstream},
		{name: "history", start: n.startHistory},
		{name: "rate limits and lists", start: n.startMTA},
		{name: "pair", start: n.startPair},
		{name: "mesh", start: n.startMesh},
		{name: "doors", start: n.startDoors},
	}
}

// newNode returns a node whose data folder is not open yet.
func newNode(o Options) *Node {
	n := &Node{core: newCore(o.Config, o.Dir, o.Log), version: o.Version, socket: o.Socket, spare: o.Spare,
		reread: o.Reread, file: o.File,
		doors: new(doors.Set), registry: prometheus.NewRegistry(), failures: door.NewFailures(o.Log)}
	n.life.stopped = make(chan struct{})
	if o.Salvage {
		n.mending = &mending{aside: asideFolder(o.Dir)}
	}
	n.peers = manage.NewPeers(member{n})
	n.network = n.peers.Mesh
	n.messages = door.NewMemory(messageMemory(o.Config.Limits.Memory, machineMemory()))
	n.registry.MustRegister(messageMetrics(n.messages)) // names are the program's own
	n.registry.MustRegister(processMetrics(o.Version)...)
	return n
}

// Open opens the data folder and binds every door; requests at doors wait until [Node.Serve]. If a
// step fails, all of them are undone.
func Open(ctx context.Context, o Options) (*Node, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	n := newNode(o)
	for _, st := range n.order() {
		n.life.stages = append(n.life.stages, st)
		if err := st.start(ctx, st); err != nil {
			return nil, errors.Join(err, n.Close(context.WithoutCancel(ctx)))
		}
	}
	n.foundMissing()
	return n, nil
}

// Serve serves until ctx ends, the node is closed or a part of it fails, and then stops the node in
// order. It returns what has failed, nil for nothing. It is called once.
func (n *Node) Serve(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	n.life.mu.Lock()
	if n.life.served {
		n.life.mu.Unlock()
		return errors.New("node: served or closed before")
	}
	n.life.served, n.life.closing = true, stop
	failed := make(chan error, 1)
	for _, st := range n.life.stages {
		st.run(context.WithoutCancel(ctx), failed)
	}
	n.life.mu.Unlock()
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	if errors.Is(err, ErrReopen) {
		n.yield()
	}
	return errors.Join(err, n.shutDown(context.WithoutCancel(ctx)))
}

// Close stops the node in order, waits until it has stopped or ctx ends, and returns what has
// failed. Closing a node again has no further effect.
func (n *Node) Close(ctx context.Context) error {
	n.life.mu.Lock()
	closing := n.life.closing
	n.life.served = true // or never will be
	n.life.mu.Unlock()
	if closing != nil {
		closing()
		select {
		case <-n.life.stopped:
			return n.life.err
		case <-ctx.Done():
			return fmt.Errorf("node: still stopping: %w", ctx.Err())
		}
	}
	return n.shutDown(ctx)
}

// shutDown stops all stages, the last one first, once.
func (n *Node) shutDown(ctx context.Context) error {
	n.life.stop.Do(func() {
		n.life.draining.Store(true)
		for _, st := range slices.Backward(n.life.stages) {
			err := st.stop(ctx)
			n.life.err = errors.Join(n.life.err, err)
			n.log.Debug("stopped", "part", st.name, "err", err)
		}
		close(n.life.stopped)
	})
	return n.life.err
}

// ready returns why the node currently accepts no requests, or nil.
func (n *Node) ready() error {
	if n.life.draining.Load() {
		return errors.New("the node is stopping")
	}
	if e := n.upstream.Edge(); e != nil {
		return e.Ready(context.Background())
	}
	return nil
}

// Doors returns the open doors, with the addresses that clients use, in the order of the
// configuration reference.
func (n *Node) Doors() []admin.Door { return n.doors.Addresses() }

// AdminTokenFile returns the path of the file with the administrator's token.
func (n *Node) AdminTokenFile() string { return filepath.Join(n.dir, AdminTokenFile) }
