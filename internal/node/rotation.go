package node

import (
	"context"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/mesh"
)

// switchRest is the pause between two attempts to share anew under another secret.
const switchRest = 5 * time.Second

// ChangeSecret implements [api.Pairing].
func (p *peers) ChangeSecret(_ context.Context, in admin.NewSecret) (admin.SecretChange, error) {
	m, err := p.get()
	if err != nil {
		return admin.SecretChange{}, err
	}
	n := mesh.NewRotation{After: time.Duration(in.Seconds * float64(time.Second))}
	var other filter.Secret // any but the node's present and former secrets
	if in.Secret != "" {
		raw, err := hex.DecodeString(in.Secret)
		if err != nil || len(raw) != len(other) {
			return admin.SecretChange{}, fmt.Errorf("%w: a secret is %d hexadecimal digits", bulkhead.ErrMalformed,
				2*len(other))
		}
		other = filter.Secret(raw)
		n.Secret = &other
	}
	if err := p.node.engine.CanRekey(other); err != nil {
		return admin.SecretChange{}, err
	}
	s, err := m.Rotate(n)
	return secretChange(&s), err
}

// KeepSecret implements [api.Pairing].
func (p *peers) KeepSecret(context.Context) (admin.SecretChange, error) {
	m, err := p.get()
	if err != nil {
		return admin.SecretChange{}, err
	}
	s, err := m.CancelRotation()
	return secretChange(&s), err
}

func secretChange(s *mesh.RotationStatus) admin.SecretChange {
	return admin.SecretChange{From: s.From, To: s.To, At: s.At, By: s.By, Done: s.Done,
		Told: append([]string{}, s.Told...), Through: append([]string{}, s.Through...),
		Untold: append([]string{}, s.Untold...)}
}

// switchSecret makes the node count under another secret of its network, and share anew. It does
// not wait until that is done: its caller is part of the mesh that ends.
func (n *Node) switchSecret(secret filter.Secret) {
	n.sharing.mu.Lock()
	defer n.sharing.mu.Unlock()
	if n.sharing.over {
		return
	}
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
		n.log.Error(
			"ALERT: the network has another secret, which this node cannot take yet: it shares with those alone who have not, either",
			"network", fingerprint(secret), "err", err)
		return
	}
	n.quietMesh()
	err := n.rekeyAll(ctx, secret)
	if err == nil {
		err = mesh.ForgetInvitations(n.meshFolder())
	}
	if err != nil {
		n.log.Error("ALERT: the network has another secret, which this node cannot take", "network", fingerprint(secret),
			"err", err)
	}
	for {
		err := n.closeMesh()
		if err != nil {
			n.log.Error("sharing under the former secret did not end well", "err", err)
		}
		if err = n.openMesh(ctx); err == nil {
			return
		}
		n.log.Error("ALERT: sharing does not begin anew under another secret; trying again", "err", err)
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
