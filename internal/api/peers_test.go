package api

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client"
	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/testing/prototest"
)

// fakePeers is a list of peers; with off the node does not share.
type fakePeers struct {
	mu       sync.Mutex
	disabled bool
	lonely   bool // it has met no peer
	peers    []admin.Peer
	back     time.Time // time of the last rollback
}

func (f *fakePeers) Network(context.Context) (admin.Network, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.disabled {
		return admin.Network{}, ErrNoMesh
	}
	if f.lonely {
		return admin.Network{}, nil
	}
	return admin.Network{
		Key: testKey('A'), Mode: "hub", Role: "both", Published: 7, Strangers: map[string]uint64{"unknown key": 3},
		Brokers: []admin.Broker{{Server: "one:8421", Connected: true}, {Server: "two:8421", Error: "refused"}},
		Peers:   append([]admin.Peer(nil), f.peers...),
	}, nil
}

func (f *fakePeers) find(key string) *admin.Peer {
	for i := range f.peers {
		if f.peers[i].Key == key {
			return &f.peers[i]
		}
	}
	return nil
}

func (f *fakePeers) AddPeer(_ context.Context, p admin.NewPeer) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !strings.HasPrefix(p.Key, "U") {
		return fmt.Errorf("%w: %.80q is not the key of a node", bulkhead.ErrMalformed, p.Key)
	}
	f.peers = append(f.peers, admin.Peer{
		Key: p.Key, Name: p.Name, Weight: p.Weight, Quarantine: "counts without measure", Missing: 5, Behind: 2.5,
		Refused: map[string]uint64{"forged": 2}, Error: "forged", Keys: 12, Bytes: 345, Heard: time.UnixMilli(1500),
	})
	return nil
}

func (f *fakePeers) WeighPeer(_ context.Context, key string, weight float64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !(weight >= 0 && weight <= 1) {
		return fmt.Errorf("%w: weight %v of a peer, want 0 to 1", bulkhead.ErrMalformed, weight)
	}
	p := f.find(key)
	p.Weight, p.Quarantine = weight, ""
	return nil
}

func (f *fakePeers) EvictPeer(_ context.Context, key string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.peers {
		if f.peers[i].Key == key {
			f.peers = append(f.peers[:i], f.peers[i+1:]...)
			break
		}
	}
	return nil
}

func (f *fakePeers) ForgetPeer(context.Context, string) error { return nil }

func (f *fakePeers) RollbackPeer(_ context.Context, _ string, since time.Time) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.back = since
	return nil
}

func (f *fakePeers) PeerLoss(_ context.Context, key string, since time.Time) (admin.PeerLoss, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if since.IsZero() {
		return admin.PeerLoss{Counted: 12, Listed: 3, Arrays: 4}, nil
	}
	return admin.PeerLoss{Counted: 5, Listed: 1, Arrays: 2, From: since}, nil
}

func testKey(c byte) string { return "U" + strings.Repeat(string(c), 55) }

// TestPeers: every endpoint of the network and its peers through the client, the operations for
// administrators alone, and the refusals.
func TestPeers(t *testing.T) {
	users, peers := newFakeUsers(), &fakePeers{}
	srv := httptest.NewServer(newServer(t, &prototest.House{}, func(o *Options) {
		o.Accounts, o.Users, o.Peers = users, users, peers
	}))
	defer srv.Close()
	c := &admin.Client{Client: client.Client{Server: srv.URL, HTTP: srv.Client(), Token: "token-alice"}}
	ctx := t.Context()
	bob := testKey('B')

	if list, err := c.Peers(ctx); err != nil || list == nil || len(list) != 0 {
		t.Errorf("Peers of nobody = %#v, %v; want an empty list", list, err)
	}
	p, err := c.AddPeer(ctx, admin.NewPeer{Key: bob, Name: "bob", Weight: 0.5})
	if err != nil || p.Key != bob || p.Name != "bob" || p.Weight != 0.5 {
		t.Fatalf("AddPeer = %+v, %v", p, err)
	}
	n, err := c.Network(ctx)
	if err != nil || n.Key != testKey('A') || len(n.Peers) != 1 || n.Peers[0].Refused["forged"] != 2 ||
		n.Strangers["unknown key"] != 3 || len(n.Brokers) != 2 {
		t.Errorf("Network = %+v, %v", n, err)
	}
	if p, err = c.WeighPeer(ctx, bob, 0); err != nil || p.Weight != 0 || p.Quarantine != "" {
		t.Errorf("WeighPeer = %+v, %v", p, err)
	}
	since := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	if p, err = c.RollbackPeer(ctx, bob, since); err != nil || p.Key != bob || !peers.back.Equal(since) {
		t.Errorf("RollbackPeer = %+v, %v; rolled back to %v", p, err, peers.back)
	}

	if l, err := c.PreviewEvict(ctx, bob); err != nil || *l != (admin.PeerLoss{Counted: 12, Listed: 3, Arrays: 4}) ||
		len(peers.peers) != 1 {
		t.Errorf("PreviewEvict = %+v, %v, left %+v", l, err, peers.peers)
	}
	if l, err := c.PreviewRollback(ctx, bob, since.Add(time.Hour)); err != nil || l.Counted != 5 ||
		!l.From.Equal(since.Add(time.Hour)) || !peers.back.Equal(since) {
		t.Errorf("PreviewRollback = %+v, %v; rolled back to %v", l, err, peers.back)
	}

	for what, tt := range map[string]struct {
		err    error
		status int
	}{
		"preview unknown":  {second(c.PreviewEvict(ctx, testKey('C'))), 404},
		"preview no time":  {second(c.PreviewRollback(ctx, bob, time.Time{})), 400},
		"add again":        {second(c.AddPeer(ctx, admin.NewPeer{Key: bob, Weight: 1})), 409},
		"add no key":       {second(c.AddPeer(ctx, admin.NewPeer{Key: "bob", Weight: 1})), 400},
		"add another kind": {second(c.AddPeer(ctx, admin.NewPeer{Key: "S" + bob[1:], Weight: 1})), 400},
		"weigh too much":   {second(c.WeighPeer(ctx, bob, 1.5)), 400},
		"weigh unknown":    {second(c.WeighPeer(ctx, testKey('C'), 1)), 404},
		"weigh nonsense":   {second(c.WeighPeer(ctx, "../users/x y?", 1)), 404},
		"evict unknown":    {c.EvictPeer(ctx, testKey('C')), 404},
		"rollback unknown": {second(c.RollbackPeer(ctx, testKey('C'), since)), 404},
		"rollback to none": {second(c.RollbackPeer(ctx, bob, time.Time{})), 400},
	} {
		if got := statusOf(tt.err); got != tt.status {
			t.Errorf("%s: %v, want status %d", what, tt.err, tt.status)
		}
	}
	if len(peers.peers) != 1 || peers.peers[0].Weight != 0 {
		t.Errorf("peers after refusals: %+v", peers.peers)
	}

	for token, want := range map[string]error{"": bulkhead.ErrUnauthorised, "token-bob": bulkhead.ErrForbidden} {
		other := &admin.Client{Client: client.Client{Server: srv.URL, HTTP: srv.Client(), Token: token}}
		for what, err := range map[string]error{
			"Network": second(other.Network(ctx)), "Peers": second(other.Peers(ctx)),
			"AddPeer":   second(other.AddPeer(ctx, admin.NewPeer{Key: testKey('D')})),
			"WeighPeer": second(other.WeighPeer(ctx, bob, 1)), "EvictPeer": other.EvictPeer(ctx, bob),
			"PreviewEvict":    second(other.PreviewEvict(ctx, bob)),
			"PreviewRollback": second(other.PreviewRollback(ctx, bob, since)),
			"RollbackPeer":    second(other.RollbackPeer(ctx, bob, since)),
		} {
			if !errors.Is(err, want) {
				t.Errorf("%s with token %q: %v, want %v", what, token, err, want)
			}
		}
	}

	if err := c.EvictPeer(ctx, bob); err != nil || len(peers.peers) != 0 {
		t.Errorf("EvictPeer: %v, left %+v", err, peers.peers)
	}
	peers.disabled = true
	if err := second(c.Peers(ctx)); statusOf(err) != 404 || !strings.Contains(err.Error(), "mesh.mode") {
		t.Errorf("Peers of a node that shares nothing: %v, want status 404 and the name of the setting", err)
	}
}

func second[T any](_ T, err error) error { return err }

// TestLonely checks that a node without peers and brokers answers with empty lists: a script need not know null.
func TestLonely(t *testing.T) {
	s := newServer(t, &prototest.House{}, func(o *Options) { o.Peers = &fakePeers{lonely: true} })
	got := send(s, local, "GET", "/v1/network", "", "", "Authorization", "Bearer token-alice").Body.String()
	for _, want := range []string{`"peers":[]`, `"brokers":[]`, `"strangers":{}`} {
		if !strings.Contains(got, want) {
			t.Errorf("%s lacks %s", got, want)
		}
	}
}

// TestPeerMetrics: the metrics of a peer, and of a node without peers.
func TestPeerMetrics(t *testing.T) {
	peers := &fakePeers{}
	if err := peers.AddPeer(t.Context(), admin.NewPeer{Key: testKey('B'), Weight: 0.5}); err != nil {
		t.Fatal(err)
	}
	s := newServer(t, &prototest.House{}, func(o *Options) { o.Peers = peers })
	scrape := func() string { return send(s, "127.0.0.1:1", "GET", "/metrics", "", "").Body.String() }
	got := scrape()
	label := `{peer="` + testKey('B') + `"}`
	for _, want := range []string{
		"bulkhead_mesh_published_messages_total 7", `bulkhead_mesh_stranger_messages_total{reason="unknown key"} 3`,
		`bulkhead_mesh_broker_up{server="one:8421"} 1`, `bulkhead_mesh_broker_up{server="two:8421"} 0`,
		"bulkhead_peer_weight" + label + " 0.5", "bulkhead_peer_quarantined" + label + " 1",
		"bulkhead_peer_missing_changes" + label + " 5",
		"bulkhead_peer_behind_seconds" + label + " 2.5", "bulkhead_peer_keys" + label + " 12",
		"bulkhead_peer_bytes_total" + label + " 345", "bulkhead_peer_heard_timestamp_seconds" + label + " 1.5",
		`bulkhead_peer_refused_total{peer="` + testKey('B') + `",reason="forged"} 2`,
	} {
		if !strings.Contains(got, want+"\n") {
			t.Errorf("metrics lack %s", want)
		}
	}
	peers.disabled = true
	if got := scrape(); strings.Contains(got, "bulkhead_peer_") || strings.Contains(got, "bulkhead_mesh_") {
		t.Error("metrics of a node that shares nothing speak of peers")
	}
}
