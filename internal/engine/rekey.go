package engine

import (
	"context"
	"fmt"
	"slices"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/engine/keys"
)

// MaxSecrets is the maximum number of secrets that the generations of a node may have been made
// with.
const MaxSecrets = keys.MaxSecrets

// Secrets returns the network's secret and the past secrets of live generations, newest first.
func (e *Engine) Secrets() []filter.Secret { return slices.Clone(e.books.Load().secrets.All) }

// Rekey replaces the network's secret. New generations open at once and take everything from now
// on. Existing generations continue to answer under their own secret until they expire. Rekey
// returns an error that wraps [bulkhead.ErrOverLimit] while generations of [MaxSecrets] other
// secrets are live, and an error that wraps [bulkhead.ErrReadOnly] while reports are refused.
// Nothing has changed then.
//
// Before the call, the caller must save the secret and the secrets of [Engine.Secrets] for the next
// start, as [Options].Secret and Past. Counts that a crash leaves on either side of the change are
// then found.
func (e *Engine) Rekey(ctx context.Context, secret filter.Secret) error {
	return e.change(ctx, rekeying{secret: secret})
}

// RekeyAll is [Engine.Rekey] for a secret that all members of the network change to. Counts under
// the former secrets are still shared: [Engine.Own] includes them, and [Options].Former has these
// secrets at the next start.
func (e *Engine) RekeyAll(ctx context.Context, secret filter.Secret) error {
	return e.change(ctx, rekeying{secret: secret, all: true})
}

// Former returns the network's own past secrets that live generations were made with, newest first.
func (e *Engine) Former() []filter.Secret { return slices.Clone(e.books.Load().secrets.Former()) }

// Knows reports whether the node has the secret that an array was made with, and can look up keys
// in it.
func (e *Engine) Knows(keyID uint64) bool { return e.books.Load().secrets.Knows(keyID) }

// CanRekey returns the error that Rekey would return for another secret.
func (e *Engine) CanRekey(secret filter.Secret) error {
	_, err := e.after(secret)
	if err == nil {
		err = e.refusing()
	}
	return err
}

// after returns the secrets after a change to secret.
func (e *Engine) after(secret filter.Secret) (*keys.Secrets, error) {
	s := keys.NewSecrets(secret, e.books.Load().secrets.All...)
	if err := s.Check(); err != nil {
		return nil, fmt.Errorf("%w; wait until the oldest have expired", err)
	}
	return s, nil
}

type rekeying struct {
	secret filter.Secret
	all    bool // all members of the network change to it
}

func (r rekeying) do(e *Engine) error {
	before := e.books.Load()
	if before.secrets.Present() == r.secret {
		return nil
	}
	if err := e.refusing(); err != nil {
		return err
	}
	secrets, err := e.after(r.secret)
	if err != nil {
		return err
	}
	if r.all {
		secrets = secrets.Sharing(before.secrets.All[:before.secrets.Shared])
	}
	e.setSecrets(secrets)
	if err = e.rotate(); err == nil {
		err = e.refusing()
	}
	if err == nil {
		err = e.open()
	}
	if err != nil {
		e.setSecrets(before.secrets)
		return err
	}
	e.opts.Log.Info("counting under another secret of the network", "network", fmt.Sprintf("%016x", secrets.IDs[0]),
		"before", fmt.Sprintf("%016x", before.secrets.IDs[0]))
	return nil
}

// setSecrets sets the secrets of the node. Only the writer calls it.
func (e *Engine) setSecrets(s *keys.Secrets) {
	next := *e.books.Load()
	next.secrets = s
	e.books.Store(&next)
	e.tally.SetKey(s.IDs[0])
	e.block.SetKey(s.IDs[0])
	e.resolver.SetKeys(s.Maker())
}

// open returns an error unless the open generations take keys of the present secret.
func (e *Engine) open() error {
	v := e.view()
	for _, id := range []uint64{v.tally.Live[0].CountsGeometry.KeyID, v.block.Live[0].SpamGeometry.KeyID} {
		if id != v.secrets.IDs[0] {
			return fmt.Errorf("%w: no generation is open under the network's secret", bulkhead.ErrReadOnly)
		}
	}
	return nil
}

// trimSecrets removes the secrets without a live array. Only the writer calls it.
func (e *Engine) trimSecrets() {
	v := e.view()
	if len(v.secrets.All) == 1 {
		return
	}
	live := map[uint64]bool{v.secrets.IDs[0]: true}
	for _, g := range v.tally.Live {
		live[g.CountsGeometry.KeyID] = true
	}
	for _, g := range v.block.Live {
		live[g.SpamGeometry.KeyID] = true
	}
	v.remote.EachGeometry(func(g filter.Geometry) { live[g.KeyID] = true })
	var kept []filter.Secret
	for i, s := range v.secrets.All {
		if live[v.secrets.IDs[i]] {
			kept = append(kept, s)
		}
	}
	if len(kept) < len(v.secrets.All) {
		next := *e.books.Load()
		next.secrets = keys.NewSecrets(kept[0], kept[1:]...).Sharing(v.secrets.Former())
		e.books.Store(&next)
		e.resolver.SetKeys(next.secrets.Maker())
	}
}
