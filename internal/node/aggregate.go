package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/aggregate"
	"github.com/bulkhead-mail/bulkhead/internal/clock"
	"github.com/bulkhead-mail/bulkhead/internal/config"
	"github.com/bulkhead-mail/bulkhead/internal/mesh"
)

// aggregateFolder is where the mesh folder keeps the key of the node's aggregate.
const aggregateFolder = "aggregate"

// Heartbeats between two audits of the sum, and between two sums, each of which is sent whole.
const (
	auditBeats = 1. / 6
	restBeats  = 2.
)

// A sum is the aggregate that the node publishes.
type sum struct {
	*aggregate.Aggregate
	id    *mesh.Identity
	named []string                  // members
	of    atomic.Pointer[mesh.Mesh] // mesh of the members
	to    atomic.Pointer[mesh.Mesh] // mesh that publishes, or did last
}

// newSum returns the configured aggregate, nil for none, and the engine for the node's own mesh.
func (n *Node) newSum(cfg *config.Config) (*sum, mesh.Engine, error) {
	c := &cfg.Aggregate
	if len(c.Members) == 0 {
		return nil, n.engine, nil
	}
	dir := filepath.Join(n.meshFolder(), aggregateFolder)
	id, err := mesh.OpenIdentity(dir)
	if err != nil {
		return nil, nil, err
	}
	mode := mesh.Join
	if c.External() {
		mode = mesh.External
	}
	s := &sum{id: id, named: c.Members}
	s.Aggregate = aggregate.New(aggregate.Options{
		Engine: n.engine, Members: s.members, Audit: beats(cfg, auditBeats), Rest: beats(cfg, restBeats), Log: n.log,
		Open: func(ctx context.Context, total *aggregate.Sum, life string) (aggregate.Mesh, error) {
			m, err := mesh.Open(ctx, mesh.Options{
				Dir: dir, Identity: id, Engine: total, KeyID: n.secret().ID(), Secret: n.secret(), Former: n.engine.Former(),
				Taker: s.of.Load(), Store: life, Name: meshName("sum of " + cfg.Node.Name),
				Organisations: s.organisations, Mode: mode, Role: mesh.Publish, Servers: c.Servers, Credentials: c.Credentials,
				CA: c.CA, Cert: c.Cert, Key: c.Key, Domain: c.Domain,
				Interval: time.Duration(cfg.Mesh.Interval), Heartbeat: time.Duration(cfg.Mesh.Heartbeat),
				StreamAge: time.Duration(cfg.Mesh.StreamAge), StreamBytes: cfg.Mesh.StreamBytes, Replicas: cfg.Mesh.Replicas,
				Now: n.engine.Now, Log: n.log.With("mesh", "aggregate"),
			})
			if err != nil {
				return nil, err
			}
			s.to.Store(m)
			return &upper{m, s.of.Load(), beats(cfg, auditBeats), n.log}, nil
		},
	})
	return s, s.Tap(), nil
}

func beats(cfg *config.Config, n float64) time.Duration {
	return time.Duration(n * float64(cfg.Mesh.Heartbeat))
}

func (s *sum) members() []string {
	keys, _, _ := s.of.Load().Choose(s.named)
	return keys
}

func (s *sum) organisations() []mesh.Organisation {
	_, all, _ := s.of.Load().Choose(s.named)
	return all
}

func (s *sum) run(ctx context.Context, log *slog.Logger) {
	if err := s.Run(ctx); err != nil {
		log.Error("aggregate not closed cleanly", "err", err)
	}
}

func (s *sum) status() *admin.Aggregate {
	st := s.Status()
	_, all, left := s.of.Load().Choose(s.named)
	out := &admin.Aggregate{Key: s.id.ID(), Members: st.Members, Organisations: len(all), Arrays: len(st.Arrays),
		Sums: st.Sums, Fault: st.Fault}
	for _, a := range st.Arrays {
		out.Memory += a.Bytes
		out.Ghost = min(1, out.Ghost+a.Ghost)
	}
	if left > 0 && out.Fault == "" {
		out.Fault = "some peers are not in it: with them it would name too many organisations"
	}
	if out.Fault == "" {
		out.Fault = s.unheard()
	}
	return out
}

// unheard returns why no server accepts the sum, "" if one does.
func (s *sum) unheard() (why string) {
	m := s.to.Load()
	if m == nil {
		return "" // none was made yet
	}
	for _, b := range m.Status().Brokers {
		switch {
		case !b.Connected:
			why = fmt.Sprintf("not connected to %s: %s", b.Server, cmp.Or(b.Error, "no answer yet"))
		case b.Denied():
			why = b.Server + " denies something that this needs, which the log names"
		default:
			return ""
		}
	}
	return why
}

// upper is the mesh of the sum. The node's peers may ask it for what they missed.
type upper struct {
	*mesh.Mesh
	of    *mesh.Mesh
	every time.Duration
	log   *slog.Logger
}

// Run shares until ctx ends.
func (u *upper) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var following sync.WaitGroup
	defer following.Wait()
	defer cancel()
	following.Go(func() {
		u.follow(ctx)
		for range clock.Ticks(ctx, u.every) {
			u.follow(ctx)
		}
	})
	return u.Mesh.Run(ctx)
}

// follow keeps the upper mesh's peer list equal to the list of the node's peers.
func (u *upper) follow(ctx context.Context) {
	may := make(map[string]bool)
	for _, p := range u.Status().Peers {
		may[p.ID] = true
	}
	var err error
	for _, p := range u.of.Status().Peers {
		if !may[p.ID] && p.ID != u.Status().ID {
			err = errors.Join(err, u.AddPeer(ctx, p.ID, "", 0))
		}
		delete(may, p.ID)
	}
	for id := range may {
		err = errors.Join(err, u.EvictPeer(ctx, id))
	}
	if err != nil && ctx.Err() == nil {
		u.log.Debug("peers of the aggregate not changed", "err", err)
	}
}
