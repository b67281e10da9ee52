package engine

import (
	"context"
	"fmt"
	"slices"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/engine/keys"
)

// Secrets returns the network's secret and the past secrets of live generations, newest first.
func (e *Engine) Secrets() []filter.Secret { return slices.Clone(e.current.Books().Secrets.All) }

// Secret returns the network's present secret.
func (e *Engine) Secret() filter.Secret { return e.current.Books().Secrets.Present() }

// Rekey replaces the network's secret. New generations open at once and take everything from now
// on. Existing generations continue to answer under their own secret until they expire. Where there
// would be more than [MaxSecrets], secrets without counts are given up. Rekey returns an error that
// wraps [bulkhead.ErrOverLimit] while generations with counts of [MaxSecrets] other secrets are live,
// and an error that wraps [bulkhead.ErrReadOnly] while reports are refused. Nothing has changed then.
//
// Before the call, the caller must save the secret and the secrets of [Engine.Secrets] for the next
// start, as [Options].Secret and Past. Counts that a crash leaves on either side of the change are
// then found.
func (e *Engine) Rekey(ctx context.Context, secret filter.Secret) error {
	return e.queue.change(ctx, func() error { return e.rekey(secret, false, false) })
}

// RekeyAnyway is [Engine.Rekey] for a node that leaves its network or joins another one. Where Rekey
// would refuse because of [MaxSecrets], it gives up the counts of the oldest secrets.
func (e *Engine) RekeyAnyway(ctx context.Context, secret filter.Secret) error {
	return e.queue.change(ctx, func() error { return e.rekey(secret, false, true) })
}

// RekeyAll is [Engine.Rekey] for a secret that all members of the network change to. Counts under
// the former secrets are still shared: [Engine.Own] includes them, and [Options].Former has these
// secrets at the next start.
func (e *Engine) RekeyAll(ctx context.Context, secret filter.Secret) error {
	return e.queue.change(ctx, func() error { return e.rekey(secret, true, false) })
}

// Former returns the network's own past secrets that live generations were made with, newest first.
func (e *Engine) Former() []filter.Secret { return slices.Clone(e.current.Books().Secrets.Former()) }

// Knows reports whether the node has the secret that an array was made with, and can look up keys
// in it.
func (e *Engine) Knows(keyID uint64) bool { return e.current.Books().Secrets.Knows(keyID) }

// CanRekey returns the error that Rekey would return for another secret.
func (e *Engine) CanRekey(secret filter.Secret) error {
	if n := len(e.counted(secret)); n > MaxSecrets {
		return fmt.Errorf("%w; wait until the oldest have expired", keys.TooMany(n))
	}
	return e.journal.refusing()
}

// counted returns the IDs of the secrets after a change to secret, newest first, without those
// under which nothing was counted.
func (e *Engine) counted(secret filter.Secret) []uint64 {
	v := e.current.View()
	used := map[uint64]bool{secret.ID(): true}
	doubted := len(e.healer.Doubts()) > 0
	for _, g := range v.Tally.Live {
		if doubted || !g.Empty() {
			used[g.CountsGeometry.KeyID] = true
		}
	}
	for _, g := range v.Block.Live {
		if doubted || !g.Empty() {
			used[g.SpamGeometry.KeyID] = true
		}
	}
	v.Remote.EachGeometry(func(g filter.Geometry) { used[g.KeyID] = true })
	ids := keys.NewSecrets(secret, v.Secrets.All...).IDs
	return slices.DeleteFunc(ids, func(id uint64) bool { return !used[id] })
}

// surplus returns the IDs of the secrets that have to be given up for a change to secret: the oldest
// without counts, and then the oldest with counts.
func (e *Engine) surplus(secret filter.Secret) map[uint64]bool {
	ids, counted := keys.NewSecrets(secret, e.current.Books().Secrets.All...).IDs, e.counted(secret)
	given := make(map[uint64]bool)
	for _, empty := range []bool{true, false} {
		for _, id := range slices.Backward(ids[1:]) {
			if len(ids)-len(given) > MaxSecrets && empty != slices.Contains(counted, id) {
				given[id] = true
			}
		}
	}
	return given
}

// rekey changes the network's secret. all means that all members of the network change to it, and
// anyway that counts are given up if there are too many secrets. Only the writer calls it.
func (e *Engine) rekey(secret filter.Secret, all, anyway bool) error {
	before := e.current.Books()
	if before.Secrets.Present() == secret {
		return nil
	}
	if err := e.journal.refusing(); err != nil {
		return err
	}
	counted := len(e.counted(secret))
	if counted > MaxSecrets && !anyway {
		return e.CanRekey(secret)
	}
	given := e.surplus(secret)
	secrets := keys.NewSecrets(secret, before.Secrets.All...)
	if err := secrets.Check(); err != nil {
		return err
	}
	if all {
		secrets = secrets.Sharing(before.Secrets.All[:before.Secrets.Shared])
	}
	e.setSecrets(secrets)
	err := e.rotateWithout(given)
	if err == nil {
		err = e.decidable()
	}
	if err != nil {
		e.setSecrets(before.Secrets)
		return err
	}
	e.opts.Log.Info("counting under another secret of the network", "network", fmt.Sprintf("%016x", secrets.IDs[0]),
		"before", fmt.Sprintf("%016x", before.Secrets.IDs[0]))
	if counted > MaxSecrets {
		e.opts.Log.Warn("the counts of the oldest secrets were given up", "secrets", counted-MaxSecrets, "limit", MaxSecrets)
	}
	return nil
}

// setSecrets sets the secrets of the node. Only the writer calls it.
func (e *Engine) setSecrets(s *keys.Secrets) {
	next := *e.current.Books()
	next.Secrets = s
	e.current.Set(&next)
	e.writer.tally.SetKey(s.IDs[0])
	e.writer.block.SetKey(s.IDs[0])
	e.writer.resolver.SetKeys(s.Maker())
}

// decidable returns an error unless reports are accepted, and the open generations take keys of the
// present secret. Only the writer calls it.
func (e *Engine) decidable() error {
	if err := e.journal.refusing(); err != nil {
		return err
	}
	b := e.current.Books()
	for _, id := range []uint64{b.Tally.Live[0].CountsGeometry.KeyID, b.Block.Live[0].SpamGeometry.KeyID} {
		if id != b.Secrets.IDs[0] {
			return fmt.Errorf("%w: no generation is open under the network's secret", bulkhead.ErrReadOnly)
		}
	}
	return nil
}

// checkKey refuses data written with another network's key.
func (e *Engine) checkKey(written uint64) error {
	if e.current.Books().Secrets.Knows(written) {
		return nil
	}
	return fmt.Errorf("engine: %w: the data directory belongs to network key %016x, the key given is %016x",
		bulkhead.ErrGeometry, written, e.opts.Secret.ID())
}

// trimSecrets removes the secrets without a live array, unless peers may have arrays of a lost store. Only the writer
// calls it.
func (e *Engine) trimSecrets() {
	v := e.current.View()
	if len(v.Secrets.All) == 1 || e.opts.Recover != nil && e.opts.Recover() {
		return
	}
	live := map[uint64]bool{v.Secrets.IDs[0]: true}
	v.EachKey(func(keyID uint64) { live[keyID] = true })
	v.Remote.EachGeometry(func(g filter.Geometry) { live[g.KeyID] = true })
	var used []filter.Secret
	for i, s := range v.Secrets.All {
		if live[v.Secrets.IDs[i]] {
			used = append(used, s)
		}
	}
	if len(used) < len(v.Secrets.All) {
		next := *v.Books
		next.Secrets = keys.NewSecrets(used[0], used[1:]...).Sharing(v.Secrets.Former())
		e.current.Set(&next)
		e.writer.resolver.SetKeys(next.Secrets.Maker())
	}
}
