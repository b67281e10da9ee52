package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/bulkhead-mail/bulkhead"
)

// Peers manages the nodes that this one shares with. Errors wrap the sentinels
// of package bulkhead; changes are durable when a method returns. Methods may
// be called concurrently.
type Peers interface {
	// Network returns what the node shares, and its peers. It returns an error
	// that wraps [ErrNoMesh] if the node shares nothing.
	Network(ctx context.Context) (Network, error)
	// AddPeer accepts what the holder of a key publishes.
	AddPeer(ctx context.Context, p NewPeer) error
	// WeighPeer gives a peer another weight, and ends its quarantine.
	WeighPeer(ctx context.Context, key string, weight float64) error
	// EvictPeer drops a peer and all that it counted.
	EvictPeer(ctx context.Context, key string) error
	// RollbackPeer drops what a peer counted in generations that started at
	// or after a time.
	RollbackPeer(ctx context.Context, key string, since time.Time) error
}

// ErrNoMesh: the node shares with nobody.
var ErrNoMesh = errors.New("the node shares with nobody: set mesh.mode in its configuration")

// A Network is what a node says of its part in a network of nodes.
type Network struct {
	Key         string            `json:"key" doc:"Public key of the node: its peers add it."`
	Mode        string            `json:"mode" enum:"hub,join,external"`
	Role        string            `json:"role" enum:"both,subscribe,publish"`
	Incarnation uint64            `json:"incarnation" doc:"Grows whenever the node was restored from a backup."`
	Memory      uint64            `json:"memory_bytes" doc:"Memory that the counts of peers take."`
	MaxMemory   uint64            `json:"max_memory_bytes"`
	Merged      int               `json:"merged_arrays" doc:"Arrays of peers without memory of their own: they were merged, because that of all would exceed the limit."`
	MergedInto  int               `json:"merged_into" doc:"Arrays that they were merged into."`
	Published   uint64            `json:"published" doc:"Messages since the start."`
	Bytes       uint64            `json:"published_bytes"`
	Rounds      uint64            `json:"published_rounds"`
	Images      uint64            `json:"published_images" doc:"Pages."`
	Dropped     uint64            `json:"dropped" doc:"Messages that no broker took in time; peers ask for what was in them."`
	Strangers   map[string]uint64 `json:"strangers" doc:"Messages refused of senders that are no peers, by reason."`
	Brokers     []Broker          `json:"brokers"`
	Peers       []Peer            `json:"peers"`
}

// A Broker is a connection to a server that carries messages.
type Broker struct {
	Server    string `json:"server"`
	Connected bool   `json:"connected"`
	Error     string `json:"error,omitempty"`
	BytesIn   uint64 `json:"bytes_in"`
	BytesOut  uint64 `json:"bytes_out"`
}

// A Peer is a node that this one shares with.
type Peer struct {
	Key         string            `json:"key"`
	Name        string            `json:"name"`
	Weight      float64           `json:"weight" minimum:"0" maximum:"1" doc:"What its word is worth here."`
	Quarantine  string            `json:"quarantine,omitempty" doc:"Why it is kept and not counted; absent if it is counted."`
	Added       time.Time         `json:"added"`
	Heard       time.Time         `json:"heard,omitzero" doc:"Last message; absent if none since the start."`
	Lag         float64           `json:"lag_seconds" doc:"From when the peer counted to when this node did, of its last message; the clocks of both count."`
	Behind      float64           `json:"behind_seconds" doc:"For how long something of it has been missing; 0 if nothing is."`
	Missing     uint64            `json:"missing" doc:"Changes of its arrays that have not arrived."`
	Incarnation uint64            `json:"incarnation"`
	Messages    uint64            `json:"messages" doc:"Taken since the start, as are the figures below."`
	Bytes       uint64            `json:"bytes"`
	Rounds      uint64            `json:"rounds"`
	Images      uint64            `json:"images" doc:"Pages."`
	Asked       uint64            `json:"asked" doc:"Times that the node asked it for something missing."`
	Refused     map[string]uint64 `json:"refused" doc:"Messages and parts refused, by reason."`
	Error       string            `json:"error,omitempty" doc:"The last refusal."`
	Keys        uint64            `json:"keys" doc:"Distinct keys of all its arrays, about."`
	Memory      uint64            `json:"memory_bytes" doc:"Of its arrays that are not merged."`
	Merged      int               `json:"merged_arrays" doc:"Arrays of it that are merged with those of others."`
	Ghost       float64           `json:"ghost" doc:"Probability that its arrays, or those they are merged into, show a signature that nobody reported, 0 to 1."`
}

// A NewPeer is a node to share with.
type NewPeer struct {
	Key    string  `json:"key" minLength:"56" maxLength:"56" doc:"Its public key, as \"bulkhead network show\" prints it there."`
	Name   string  `json:"name,omitempty" maxLength:"64"`
	Weight float64 `json:"weight" minimum:"0" maximum:"1"`
}

// A PeerChange is what to change of a peer.
type PeerChange struct {
	Weight *float64 `json:"weight" minimum:"0" maximum:"1" doc:"Another weight also ends a quarantine."`
}

// A Rollback says from when on a peer's counts are dropped.
type Rollback struct {
	Since time.Time `json:"since" doc:"Generations that started at or after it are dropped."`
}

func (s *Server) network(r *request) (Network, error) {
	if s.peers == nil {
		return Network{}, newProblem(http.StatusNotFound, ErrNoMesh.Error())
	}
	n, err := s.peers.Network(r.Context())
	if errors.Is(err, ErrNoMesh) {
		return Network{}, newProblem(http.StatusNotFound, ErrNoMesh.Error())
	}
	if n.Peers == nil {
		n.Peers = []Peer{}
	}
	if n.Brokers == nil {
		n.Brokers = []Broker{}
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
	p, err := one[NewPeer](r)
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
			return nil, newProblem(http.StatusConflict, fmt.Sprintf("peer %.80q is on the list already", p.Key))
		}
	}
	if err := s.peers.AddPeer(r.Context(), p); err != nil {
		return nil, err
	}
	return s.peer(r, p.Key)
}

func (s *Server) weighPeer(r *request) (any, error) {
	c, err := one[PeerChange](r)
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
	if err := s.peers.WeighPeer(r.Context(), key, *c.Weight); err != nil {
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
	return nil, s.peers.EvictPeer(r.Context(), key)
}

func (s *Server) rollbackPeer(r *request) (any, error) {
	back, err := one[Rollback](r)
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
	if err := s.peers.RollbackPeer(r.Context(), key, back.Since); err != nil {
		return nil, err
	}
	return s.peer(r, key)
}

// Network returns what the node says of its part in a network; administrators
// only, as all that follows.
func (c *Client) Network(ctx context.Context) (*Network, error) {
	return call[*Network](ctx, c, exchange{method: "GET", path: "/v1/network"})
}

// Peers returns every peer of the node.
func (c *Client) Peers(ctx context.Context) ([]Peer, error) {
	return call[[]Peer](ctx, c, exchange{method: "GET", path: "/v1/peers"})
}

// AddPeer accepts what the holder of a key publishes.
func (c *Client) AddPeer(ctx context.Context, p NewPeer) (*Peer, error) {
	return call[*Peer](ctx, c, exchange{method: "POST", path: "/v1/peers", body: p})
}

// WeighPeer gives a peer another weight, and ends its quarantine.
func (c *Client) WeighPeer(ctx context.Context, key string, weight float64) (*Peer, error) {
	return call[*Peer](ctx, c, exchange{method: "PATCH", path: peerPath(key), body: PeerChange{Weight: &weight}})
}

// EvictPeer drops a peer and all that it counted.
func (c *Client) EvictPeer(ctx context.Context, key string) error {
	_, err := call[*struct{}](ctx, c, exchange{method: "DELETE", path: peerPath(key)})
	return err
}

// RollbackPeer drops what a peer counted in generations that started at or
// after a time.
func (c *Client) RollbackPeer(ctx context.Context, key string, since time.Time) (*Peer, error) {
	return call[*Peer](ctx, c, exchange{method: "POST", path: peerPath(key) + "/rollback", body: Rollback{Since: since}})
}

func peerPath(key string) string { return "/v1/peers/" + pathSegment(key) }
