package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client/admin"
)

// Peers manages the nodes with which this node shares. Errors wrap the sentinels of package
// bulkhead; changes are durable when a method returns. Methods may be called concurrently.
type Peers interface {
	// Network returns the state of sharing, and the peers. It returns an error that wraps [ErrNoMesh]
	// if the node shares nothing.
	Network(ctx context.Context) (admin.Network, error)
	// AddPeer accepts the messages of the holder of a key.
	AddPeer(ctx context.Context, p admin.NewPeer) error
	// WeighPeer gives a peer another weight, and ends its quarantine.
	WeighPeer(ctx context.Context, key string, weight float64) error
	// EvictPeer drops a peer and all that it counted.
	EvictPeer(ctx context.Context, key string) error
	// RollbackPeer drops what a peer counted in generations that started at
	// or after a time.
	RollbackPeer(ctx context.Context, key string, since time.Time) error
	// ForgetPeer drops the counts of a peer's lost incarnations.
	ForgetPeer(ctx context.Context, key string) error
	// PeerLoss returns what RollbackPeer with the same time would drop now, or with the zero time what
	// EvictPeer would drop. It changes nothing.
	PeerLoss(ctx context.Context, key string, since time.Time) (admin.PeerLoss, error)
}

// ErrNoMesh is the error of a node that does not share.
var ErrNoMesh = errors.New(
	"this node shares with no peer: set mesh.mode in its configuration, or have it join a network")

func (s *Server) network(r *request) (admin.Network, error) {
	if s.opts.Peers == nil {
		return admin.Network{}, newProblem(http.StatusNotFound, ErrNoMesh.Error())
	}
	n, err := s.opts.Peers.Network(r.Context())
	if errors.Is(err, ErrNoMesh) {
		return admin.Network{}, newProblem(http.StatusNotFound, ErrNoMesh.Error())
	}
	if n.Peers == nil {
		n.Peers = []admin.Peer{}
	}
	if n.Brokers == nil {
		n.Brokers = []admin.Broker{}
	}
	if n.Strangers == nil {
		n.Strangers = map[string]uint64{}
	}
	return n, err
}

func (s *Server) showNetwork(r *request) (any, error) {
	n, err := s.network(r)
	if err != nil {
		return nil, err
	}
	return &n, nil
}

func (s *Server) listPeers(r *request) (any, error) {
	n, err := s.network(r)
	if err != nil {
		return nil, err
	}
	return n.Peers, nil
}

func (s *Server) peer(r *request, key string) (any, error) {
	n, err := s.network(r)
	if err != nil {
		return nil, err
	}
	for i := range n.Peers {
		if n.Peers[i].Key == key {
			return &n.Peers[i], nil
		}
	}
	return nil, newProblem(http.StatusNotFound, fmt.Sprintf("no peer has the key %.80q", key))
}

func (s *Server) showPeer(r *request) (any, error) { return s.peer(r, r.PathValue("key")) }

func (s *Server) addPeer(r *request) (any, error) {
	p, err := one[admin.NewPeer](r)
	if err != nil {
		return nil, err
	}
	r.did = []any{"peer", p.Key, "name", p.Name, "weight", p.Weight}
	n, err := s.network(r)
	if err != nil {
		return nil, err
	}
	for i := range n.Peers {
		if n.Peers[i].Key == p.Key {
			return nil, newProblem(http.StatusConflict, fmt.Sprintf("peer %.80q is already on the list", p.Key))
		}
	}
	if err := s.opts.Peers.AddPeer(r.Context(), p); err != nil {
		return nil, err
	}
	return s.peer(r, p.Key)
}

func (s *Server) weighPeer(r *request) (any, error) {
	c, err := one[admin.PeerChange](r)
	if err != nil {
		return nil, err
	}
	key := r.PathValue("key")
	r.did = []any{"peer", key}
	if c.Weight != nil {
		r.did = append(r.did, "weight", *c.Weight)
	}
	if _, err := s.peer(r, key); err != nil {
		return nil, err
	}
	if c.Weight == nil {
		return nil, fmt.Errorf("%w: no weight", bulkhead.ErrMalformed)
	}
	if err := s.opts.Peers.WeighPeer(r.Context(), key, *c.Weight); err != nil {
		return nil, err
	}
	return s.peer(r, key)
}

func (s *Server) evictPeer(r *request) (any, error) {
	key := r.PathValue("key")
	r.did = []any{"peer", key}
	if _, err := s.peer(r, key); err != nil {
		return nil, err
	}
	return nil, s.opts.Peers.EvictPeer(r.Context(), key)
}

func (s *Server) forgetPeer(r *request) (any, error) {
	key := r.PathValue("key")
	r.did = []any{"peer", key}
	if _, err := s.peer(r, key); err != nil {
		return nil, err
	}
	if err := s.opts.Peers.ForgetPeer(r.Context(), key); err != nil {
		return nil, err
	}
	return s.peer(r, key)
}

func (s *Server) rollbackPeer(r *request) (any, error) {
	back, err := one[admin.Rollback](r)
	if err != nil {
		return nil, err
	}
	key := r.PathValue("key")
	r.did = []any{"peer", key, "since", back.Since}
	if _, err := s.peer(r, key); err != nil {
		return nil, err
	}
	if back.Since.IsZero() {
		return nil, fmt.Errorf("%w: no time", bulkhead.ErrMalformed)
	}
	if err := s.opts.Peers.RollbackPeer(r.Context(), key, back.Since); err != nil {
		return nil, err
	}
	return s.peer(r, key)
}

func (s *Server) previewEvict(r *request) (any, error) { return s.loss(r, time.Time{}) }

func (s *Server) previewRollback(r *request) (any, error) {
	since, err := r.since()
	if err != nil {
		return nil, err
	}
	return s.loss(r, since)
}

func (s *Server) loss(r *request, since time.Time) (any, error) {
	key := r.PathValue("key")
	if _, err := s.peer(r, key); err != nil {
		return nil, err
	}
	loss, err := s.opts.Peers.PeerLoss(r.Context(), key, since)
	return &loss, err
}

// since returns the time of a preview, a required parameter.
func (r *request) since() (time.Time, error) {
	since, _, _, _, err := pageOf(r.query)
	if err == nil && since.IsZero() {
		err = fmt.Errorf("%w: no time", bulkhead.ErrMalformed)
	}
	return since, err
}

// sinceParam documents the time of a preview.
func sinceParam() *huma.Param {
	p := bounded(queryParam("since", "string",
		"The time that the change would be asked for with, for example 2006-01-02T15:04:05Z."), 64)
	p.Required = true
	return p
}
