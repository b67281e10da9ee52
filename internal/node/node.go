package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/door"
	"github.com/bulkhead-mail/bulkhead/internal/config"
)

// Options are the settings of a node.
type Options struct {
	// Config is a configuration that config.Load has accepted.
	Config *config.Config
	// Dir is the data folder, which is created if necessary.
	Dir string
	// Version is the version shown to clients.
	Version string
	// Spare leaves a door closed if another program uses its port. The HTTP door must open.
	Spare bool
	// Salvage starts a node with a damaged store from the readable part of the store. Damaged files
	// are kept in the folder "set-aside" of Dir. [client.NodeState] lists the counts that may be
	// low since.
	Salvage bool
	// Reread reads the configuration file again and calls [Node.Reload], when an administrator
	// requests that over HTTP; nil: there is no file. It may be called concurrently, once the node
	// serves.
	Reread func() (changed, restart []string, err error)
	// Log records events; nil discards them.
	Log *slog.Logger
}

// A Node is a clearinghouse with its doors, in one process. It may be used concurrently.
type Node struct {
	*core
	spare bool

	mta       *mta
	book      *accounts // one for all doors: its lock orders their changes
	peers     peers     // for the API
	sharing   sharing   // the node's meshes
	opened    []*opened // open doors
	rates     doorRates // of the doors
	registry  *prometheus.Registry
	failures  *door.Failures
	rate      door.Source // of a client of any front door but HTTP, which has its own
	reloading sync.Mutex  // held while a configuration is applied
	reread    func() (changed, restart []string, err error)

	stages  []*stage // started stages, in order
	mu      sync.Mutex
	served  bool
	closing context.CancelFunc // ends Serve; nil before
	stopped chan struct{}      // closed when all stages have stopped
	stopErr error              // of the stages, once stopped
	stop    sync.Once
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
		{name: "mesh", start: n.startMesh},
		{name: "doors", start: n.startDoors},
	}
}

// Open opens the data folder and binds every door; requests at doors wait until [Node.Serve]. If a
// step fails, all of them are undone.
func Open(ctx context.Context, o Options) (*Node, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	n := &Node{spare: o.Spare, reread: o.Reread, registry: prometheus.NewRegistry(), stopped: make(chan struct{})}
	n.core = newCore(o.Config, o.Dir, o.Log)
	n.version = o.Version
	if o.Salvage {
		n.mending = &mending{aside: asideFolder(o.Dir)}
	}
	n.book = &accounts{core: n.core}
	n.peers.node = n
	n.messages = door.NewMemory(messageMemory(o.Config.Limits.Memory, machineMemory()))
	n.registry.MustRegister(messageMetrics(n.messages)...) // names are the program's own
	n.registry.MustRegister(processMetrics(o.Version)...)
	n.failures = door.NewFailures(n.log)
	n.rate.Set(doorLimits(o.Config.Limits))
	for _, st := range n.order() {
		n.stages = append(n.stages, st)
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
	n.mu.Lock()
	if n.served {
		n.mu.Unlock()
		return errors.New("node: served or closed before")
	}
	n.served, n.closing = true, stop
	failed := make(chan error, 1)
	for _, st := range n.stages {
		st.run(context.WithoutCancel(ctx), failed)
	}
	n.mu.Unlock()
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	return errors.Join(err, n.shutDown(context.WithoutCancel(ctx)))
}

// Close stops the node in order, waits until it has stopped or ctx ends, and returns what has
// failed. Closing a node again has no further effect.
func (n *Node) Close(ctx context.Context) error {
	n.mu.Lock()
	closing := n.closing
	n.served = true // or never will be
	n.mu.Unlock()
	if closing != nil {
		closing()
		select {
		case <-n.stopped:
			return n.stopErr
		case <-ctx.Done():
			return fmt.Errorf("node: still stopping: %w", ctx.Err())
		}
	}
	return n.shutDown(ctx)
}

// shutDown stops all stages, the last one first, once.
func (n *Node) shutDown(ctx context.Context) error {
	n.stop.Do(func() {
		n.draining.Store(true)
		for _, st := range slices.Backward(n.stages) {
			err := st.stop(ctx)
			n.stopErr = errors.Join(n.stopErr, err)
			n.log.Debug("stopped", "part", st.name, "err", err)
		}
		close(n.stopped)
	})
	return n.stopErr
}

// Doors returns the open doors, with the addresses that clients use, in the order of the
// configuration reference.
func (n *Node) Doors() []admin.Door { return n.core.doors }

// Clearinghouse returns the clearinghouse behind all doors.
func (n *Node) Clearinghouse() bulkhead.Clearinghouse { return n.house }

// AdminTokenFile returns the path of the file with the administrator's token.
func (n *Node) AdminTokenFile() string { return filepath.Join(n.dir, AdminTokenFile) }
