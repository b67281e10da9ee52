package node

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client"
	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/clock"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/mesh"
	"github.com/bulkhead-mail/bulkhead/internal/wholefile"
)

// Invite implements [api.Pairing].
func (p *peers) Invite(_ context.Context, in admin.NewInvitation) (admin.Invitation, error) {
	m, err := p.get()
	if err != nil {
		return admin.Invitation{}, err
	}
	hubs := in.Hubs
	if len(hubs) == 0 {
		hub, err := hubAddress(p.node.cfg.Load().Mesh.Listen)
		if err != nil {
			return admin.Invitation{}, err
		}
		hubs = []string{hub}
	}
	line, s, err := m.Invite(mesh.NewInvitation{
		Name: in.Name, Weight: in.Weight, Uses: in.Uses, Accept: in.Accept, Group: in.Group,
		Lifetime: time.Duration(in.Seconds * float64(time.Second)), Hubs: hubs,
	})
	if err != nil {
		return admin.Invitation{}, err
	}
	out := invitationOf(s)
	out.Line = line
	return out, nil
}

// hubAddress returns the address at which other nodes reach a hub that listens on an address. If
// that has no host, it is the name of the machine.
func hubAddress(listen string) (string, error) {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return "", fmt.Errorf("%w: mesh.listen %.80q is not host:port", bulkhead.ErrMalformed, listen)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		if host, err = os.Hostname(); err != nil {
			return "", fmt.Errorf("%w: the name of this machine is not known; say where the hub is found: %v",
				bulkhead.ErrMalformed, err)
		}
	}
	return net.JoinHostPort(host, port), nil
}

func invitationOf(s mesh.InvitationStatus) admin.Invitation {
	out := admin.Invitation{ID: s.ID, Name: s.Name, Weight: s.Weight, Uses: s.Uses, Accept: s.Accept, Group: s.Group,
		Expires: s.Expires, Joiners: []admin.Joiner{}}
	for _, j := range s.Joined {
		out.Joiners = append(out.Joiners, admin.Joiner{Key: j.Key, Name: j.Name, At: j.At, State: j.State})
	}
	return out
}

// Invitations implements [api.Pairing].
func (p *peers) Invitations(context.Context) (out []admin.Invitation, err error) {
	m, err := p.get()
	if err != nil {
		return nil, err
	}
	for _, s := range m.Invitations() {
		out = append(out, invitationOf(s))
	}
	return out, nil
}

// Withdraw implements [api.Pairing].
func (p *peers) Withdraw(_ context.Context, id string) error {
	m, err := p.get()
	if err != nil {
		return err
	}
	return m.Withdraw(id)
}

// Decide implements [api.Pairing].
func (p *peers) Decide(ctx context.Context, key string, accept bool) error {
	m, err := p.get()
	if err != nil {
		return err
	}
	return m.Decide(ctx, key, accept)
}

// Join implements [api.Pairing].
func (p *peers) Join(ctx context.Context, in admin.Join) (admin.Joining, error) {
	v, err := mesh.ParseInvitation(in.Line)
	if err != nil {
		return admin.Joining{}, err
	}
	return p.node.join(ctx, v, in.Weight, in.Dry)
}

// Leave implements [api.Pairing].
func (p *peers) Leave(ctx context.Context) (admin.Left, error) { return p.node.leave(ctx) }

// errStopping is the error of requests to join or leave while the node stops.
var errStopping = fmt.Errorf("%w: the node is stopping", bulkhead.ErrReadOnly)

// join joins the network of an invitation.
func (n *Node) join(ctx context.Context, v *mesh.Invitation, weight float64, dry bool) (admin.Joining, error) {
	n.sharing.mu.Lock()
	defer n.sharing.mu.Unlock()
	out := admin.Joining{
		State: "possible", Network: v.NetworkName(), Inviter: v.Inviter, Name: v.Name, Group: v.Group, Hubs: v.Hubs,
		Expires: v.Expires,
		From:    fingerprint(n.secret()), Rekey: v.Network != n.secret().ID(),
	}
	if err := n.mayJoin(v, out.Rekey); err != nil || dry {
		return out, err
	}
	id, err := mesh.OpenIdentity(n.meshFolder())
	if err != nil {
		return out, err
	}
	answer, err := mesh.JoinBy(ctx, v, id, meshName(n.cfg.Load().Node.Name), clock.Now)
	switch {
	case err != nil:
		n.log.Error("ALERT: cannot join the network of an invitation", "network", out.Network, "inviter", v.Inviter,
			"err", err)
		if _, known := client.StatusOf(err); !known {
			err = &client.Problem{Title: http.StatusText(http.StatusBadGateway), Status: http.StatusBadGateway,
				Detail: err.Error()}
		}
		return out, err
	case answer.Waiting:
		out.State = "waiting"
		return out, nil
	}
	ctx = context.WithoutCancel(ctx) // half a change would be of no use
	if err := n.enter(ctx, v, answer, weight, out.Rekey); err != nil {
		return out, err
	}
	out.State = "joined"
	return out, nil
}

// mayJoin returns why the node cannot join.
func (n *Node) mayJoin(v *mesh.Invitation, rekey bool) error {
	cfg := n.cfg.Load()
	switch {
	case n.sharing.over:
		return errStopping
	case cfg.Upstream.URL != "":
		return fmt.Errorf("%w: this node has its knowledge from an upstream: have that join", bulkhead.ErrForbidden)
	case cfg.Mesh.Mode == string(mesh.External):
		return fmt.Errorf("%w: mesh.mode is \"external\": invitations are to the hubs of a network", bulkhead.ErrForbidden)
	case !rekey:
		return nil
	}
	if m := n.sharing.mesh; m != nil {
		if k := len(m.Status().Peers); k > 0 {
			return fmt.Errorf(
				"%w: this node shares with %d peers in network %s, and the invitation is to %s: leave that first, with \"bulkhead leave\"",
				bulkhead.ErrForbidden, k, fingerprint(n.secret()), v.NetworkName())
		}
	}
	known := n.engine.Secrets()
	if len(known) >= engine.MaxSecrets && !slices.ContainsFunc(known, func(s filter.Secret) bool {
		return s.ID() == v.Network
	}) {
		return fmt.Errorf(
			"%w: this node still holds what it counted in %d networks; it can join another one when the oldest has expired",
			bulkhead.ErrOverLimit, len(known))
	}
	return nil
}

// enter makes the node a member of a network. A failed attempt can be repeated with the same
// invitation. The caller holds the lock.
func (n *Node) enter(ctx context.Context, v *mesh.Invitation, answer mesh.Joined, weight float64, rekey bool) error {
	by, err := n.joined()
	if err != nil {
		return err
	}
	for _, hub := range v.Hubs {
		if !slices.Contains(by.Hubs, hub) {
			by.Hubs = append(by.Hubs, hub)
		}
	}
	if len(by.Hubs) > maxServers {
		return fmt.Errorf("%w: %d hubs, limit %d", bulkhead.ErrOverLimit, len(by.Hubs), maxServers)
	}
	if rekey {
		if err := n.changeSecret(ctx, answer.Secret); err != nil {
			return err
		}
	}
	// The inviter must be a peer before the node connects, because the node would not recognise the
	// hub otherwise.
	err = errors.Join(n.closeMesh(), mesh.Befriend(n.meshFolder(), v.Inviter, answer.Name, v.Group, weight, clock.Now()))
	if err := errors.Join(err, n.restart(ctx, &by)); err != nil {
		return err
	}
	n.log.Warn("joined a network by invitation", "network", v.NetworkName(), "inviter", v.Inviter, "name", answer.Name,
		"weight", weight)
	return nil
}

// changeSecret makes another secret the network's. The node publishes its last counts under the
// former secret first, and its invitations become invalid. On an error it shares as before. The
// caller holds the lock, and makes the node share anew.
func (n *Node) changeSecret(ctx context.Context, secret filter.Secret) error {
	n.quietMesh()
	if err := n.rekey(ctx, secret); err != nil {
		by, bad := n.joined()
		if bad == nil {
			bad = n.restart(ctx, &by)
		}
		return errors.Join(err, bad)
	}
	return errors.Join(mesh.ForgetInvitations(n.meshFolder()), mesh.ForgetRotation(n.meshFolder()))
}

// restart makes the node share anew, with the hubs that it joined, under its present secret. The
// caller holds the lock.
func (n *Node) restart(ctx context.Context, by *joined) error {
	err := n.closeMesh()
	path := filepath.Join(n.meshFolder(), joinedFile)
	if len(by.Hubs) == 0 {
		if gone := os.Remove(path); gone != nil && !errors.Is(gone, fs.ErrNotExist) {
			err = errors.Join(err, gone)
		}
	} else {
		data, bad := json.Marshal(by)
		err = errors.Join(err, bad, wholefile.Replace(path, wholefile.Bytes(data)))
	}
	return errors.Join(err, n.openMesh(ctx))
}

// leave leaves the network: the node drops its peers, and counts under a secret of its own.
func (n *Node) leave(ctx context.Context) (admin.Left, error) {
	n.sharing.mu.Lock()
	defer n.sharing.mu.Unlock()
	m := n.sharing.mesh
	switch {
	case n.sharing.over:
		return admin.Left{}, errStopping
	case m == nil:
		_, err := n.peers.get()
		return admin.Left{}, err
	}
	ctx = context.WithoutCancel(ctx)
	var secret filter.Secret
	rand.Read(secret[:])
	if err := n.engine.CanRekey(secret); err != nil {
		return admin.Left{}, err
	}
	list := m.Status().Peers
	for i := range list {
		if err := m.EvictPeer(ctx, list[i].ID); err != nil {
			return admin.Left{}, err
		}
	}
	if err := n.changeSecret(ctx, secret); err != nil {
		return admin.Left{}, err
	}
	if err := n.restart(ctx, &joined{}); err != nil {
		return admin.Left{}, err
	}
	if n.sharing.mesh == nil {
		if err := n.engine.Record(ctx, false); err != nil {
			return admin.Left{}, err
		}
	}
	n.log.Warn("left the network", "peers", len(list), "network", fingerprint(secret))
	return admin.Left{Network: fingerprint(secret), Peers: len(list)}, nil
}
