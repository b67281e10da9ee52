package node

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
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
	"github.com/bulkhead-mail/bulkhead/internal/mesh"
	"github.com/bulkhead-mail/bulkhead/internal/wholefile"
)

// A member is the node as a member of a network: [admin.Member].
type member struct{ node *Node }

// Listen implements [admin.Member].
func (m member) Listen() string { return m.node.cfg.Load().Mesh.Listen }

// CanRekey implements [admin.Member].
func (m member) CanRekey(secret filter.Secret) error { return m.node.engine.CanRekey(secret) }

// Join implements [admin.Member].
func (m member) Join(ctx context.Context, v *mesh.Invitation, weight float64, dry bool) (admin.Joining, error) {
	return m.node.join(ctx, v, weight, dry)
}

// Leave implements [admin.Member].
func (m member) Leave(ctx context.Context) (admin.Left, error) { return m.node.leave(ctx) }

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
		n.log.Error("cannot join the network of an invitation", "network", out.Network, "inviter", v.Inviter,
			"err", err, "consequence", "the node stays in its network")
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
	case cfg.IsEdge():
		return fmt.Errorf("%w: this node has its knowledge from an upstream: have that join", bulkhead.ErrForbidden)
	case cfg.Mesh.Mode == string(mesh.External):
		return fmt.Errorf("%w: mesh.mode is \"external\": invitations are to the hubs of a network", bulkhead.ErrForbidden)
	case !rekey:
		return nil
	}
	if m := n.sharing.mesh; m != nil {
		if k := len(m.Status().Peers); k > 0 {
			return fmt.Errorf(
				"%w: this node shares with %d peers in network %s, and the invitation is to %s: leave that first, with "+
					"\"bulkhead leave\"",
				bulkhead.ErrForbidden, k, fingerprint(n.secret()), v.NetworkName())
		}
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
		_, err := n.peers.Mesh()
		return admin.Left{}, err
	}
	ctx = context.WithoutCancel(ctx)
	var secret filter.Secret
	rand.Read(secret[:])
	// With too many secrets, the counts of the oldest are given up.
	if err := n.engine.CanRekey(secret); err != nil && !errors.Is(err, bulkhead.ErrOverLimit) {
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

// switchRest is the pause between two attempts to share anew under another secret.
const switchRest = 5 * time.Second

// switchSecret makes the node count under another secret of its network, and share anew. It neither
// waits until that is done nor takes the lock: its caller is part of the mesh that ends, and the lock
// is held until that mesh has returned.
func (n *Node) switchSecret(secret filter.Secret) {
	n.sharing.changing.Go(func() { n.follow(secret) })
}

// follow takes another secret of the network. If it cannot, the mesh asks again.
func (n *Node) follow(secret filter.Secret) {
	n.sharing.mu.Lock()
	defer n.sharing.mu.Unlock()
	if n.sharing.over || n.sharing.mesh == nil || n.secret() == secret {
		return
	}
	ctx := context.Background() // half a change would be of no use
	if err := n.engine.CanRekey(secret); err != nil {
		n.log.Error("cannot change to the new secret of the network", "network", fingerprint(secret), "err", err,
			"consequence", "the node shares only with peers that still use the former secret")
		return
	}
	n.quietMesh()
	err := n.rekeyAll(ctx, secret)
	if err == nil {
		err = mesh.ForgetInvitations(n.meshFolder())
	}
	if err != nil {
		n.log.Error("change to the new secret of the network failed", "network", fingerprint(secret), "err", err,
			"consequence", "the mesh tries again")
	}
	for {
		err := n.closeMesh()
		if err != nil {
			n.log.Error("mesh under the former secret not closed cleanly", "err", err)
		}
		if err = n.openMesh(ctx); err == nil {
			return
		}
		n.log.Error("mesh cannot be opened under the new secret", "err", err,
			"consequence", "the node does not share; it tries again", "pause", switchRest)
		n.sharing.mu.Unlock()
		select {
		case <-n.sharing.ending:
		case <-time.After(switchRest):
		}
		n.sharing.mu.Lock()
		if n.sharing.over || n.sharing.mesh != nil {
			return
		}
	}
}
