package admin

import (
	"context"
	"net/url"
	"time"
)

// Network returns the node's part in a network.
func (c *Client) Network(ctx context.Context) (*Network, error) {
	return call[*Network](ctx, c, "GET", "/v1/network", nil, nil)
}

// Peers returns every peer of the node.
func (c *Client) Peers(ctx context.Context) ([]Peer, error) {
	return call[[]Peer](ctx, c, "GET", "/v1/peers", nil, nil)
}

// Peer returns the peer that has a key.
func (c *Client) Peer(ctx context.Context, key string) (*Peer, error) {
	return call[*Peer](ctx, c, "GET", peerPath(key), nil, nil)
}

// AddPeer adds a peer: the node then accepts messages that the holder of the key publishes.
func (c *Client) AddPeer(ctx context.Context, p NewPeer) (*Peer, error) {
	return call[*Peer](ctx, c, "POST", "/v1/peers", nil, p)
}

// WeighPeer gives a peer another weight, and ends its quarantine.
func (c *Client) WeighPeer(ctx context.Context, key string, weight float64) (*Peer, error) {
	return call[*Peer](ctx, c, "PATCH", peerPath(key), nil, PeerChange{Weight: &weight})
}

// EvictPeer drops a peer and all that it counted.
func (c *Client) EvictPeer(ctx context.Context, key string) error {
	_, err := call[*struct{}](ctx, c, "DELETE", peerPath(key), nil, nil)
	return err
}

// RollbackPeer drops what a peer counted in generations that started at or
// after a time.
func (c *Client) RollbackPeer(ctx context.Context, key string, since time.Time) (*Peer, error) {
	return call[*Peer](ctx, c, "POST", peerPath(key)+"/rollback", nil, Rollback{Since: since})
}

// ForgetPeer drops the counts that are kept of incarnations that a peer has lost.
func (c *Client) ForgetPeer(ctx context.Context, key string) (*Peer, error) {
	return call[*Peer](ctx, c, "POST", peerPath(key)+"/forget", nil, nil)
}

// PreviewEvict returns what [Client.EvictPeer] would drop now. It changes nothing.
func (c *Client) PreviewEvict(ctx context.Context, key string) (*PeerLoss, error) {
	return call[*PeerLoss](ctx, c, "GET", peerPath(key)+"/eviction", nil, nil)
}

// PreviewRollback returns what [Client.RollbackPeer] would drop now. It changes nothing.
func (c *Client) PreviewRollback(ctx context.Context, key string, since time.Time) (*PeerLoss, error) {
	return call[*PeerLoss](ctx, c, "GET", peerPath(key)+"/rollback"+sinceQuery(since), nil, nil)
}

// sinceQuery is the query of a preview that has a time.
func sinceQuery(since time.Time) string {
	return "?since=" + url.QueryEscape(since.UTC().Format(time.RFC3339Nano))
}

func peerPath(key string) string { return "/v1/peers/" + pathSegment(key) }

// Invite makes an invitation into the node's network.
func (c *Client) Invite(ctx context.Context, n NewInvitation) (*Invitation, error) {
	return call[*Invitation](ctx, c, "POST", "/v1/invitations", nil, n)
}

// Invitations returns the invitations that the node remembers.
func (c *Client) Invitations(ctx context.Context) ([]Invitation, error) {
	return call[[]Invitation](ctx, c, "GET", "/v1/invitations", nil, nil)
}

// Withdraw makes an invitation void. A node that joined with it stays a peer.
func (c *Client) Withdraw(ctx context.Context, id string) error {
	_, err := call[*struct{}](ctx, c, "DELETE", "/v1/invitations/"+pathSegment(id), nil, nil)
	return err
}

// AcceptPeer accepts a node that has shown an invitation and waits.
func (c *Client) AcceptPeer(ctx context.Context, key string) (*Peer, error) {
	return call[*Peer](ctx, c, "POST", peerPath(key)+"/accept", nil, nil)
}

// RefusePeer refuses a node that has shown an invitation and waits.
func (c *Client) RefusePeer(ctx context.Context, key string) error {
	_, err := call[*struct{}](ctx, c, "POST", peerPath(key)+"/refuse", nil, nil)
	return err
}

// Join makes the node join the network of an invitation, or returns what that would do.
func (c *Client) Join(ctx context.Context, j Join) (*Joining, error) {
	return call[*Joining](ctx, c, "POST", "/v1/network/join", nil, j)
}

// Leave makes the node leave its network: it drops its peers and takes another secret.
func (c *Client) Leave(ctx context.Context) (*Left, error) {
	return call[*Left](ctx, c, "POST", "/v1/network/leave", nil, nil)
}

// ChangeSecret announces another secret of the node's network.
func (c *Client) ChangeSecret(ctx context.Context, n NewSecret) (*SecretChange, error) {
	return call[*SecretChange](ctx, c, "POST", "/v1/network/secret", nil, n)
}

// KeepSecret takes back the secret that was announced and is not used yet.
func (c *Client) KeepSecret(ctx context.Context) (*SecretChange, error) {
	return call[*SecretChange](ctx, c, "DELETE", "/v1/network/secret", nil, nil)
}
