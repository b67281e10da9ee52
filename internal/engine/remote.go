package engine

import (
	"context"
	"fmt"
	"slices"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/arrays"
	"github.com/bulkhead-mail/bulkhead/internal/engine/codec"
	"github.com/bulkhead-mail/bulkhead/internal/engine/replica"
)

// SetOrigins durably sets the origins that count. It drops the replicas of all other origins, which
// evicts a peer. It keeps the remaining replicas, with the new weights.
func (e *Engine) SetOrigins(ctx context.Context, origins []Origin) error {
	if err := replica.CheckOrigins(origins); err != nil {
		return err
	}
	entry := &codec.Origins{Origins: slices.Clone(origins)}
	return e.queue.change(ctx, func() error { return e.commit(entry) })
}

// ForgetGenerations durably drops the generations of an origin's replica that started at or after
// the given Unix second, to roll back a faulty peer.
func (e *Engine) ForgetGenerations(ctx context.Context, origin string, since uint64) error {
	return e.queue.change(ctx, func() error {
		if err := e.replicas.CheckOrigin(origin); err != nil {
			return err
		}
		return e.commit(&codec.Forget{Origin: origin, Since: since})
	})
}

// Renew records that the origin counts anew, in an incarnation with a larger number: it has lost
// its store or was restored from a backup, so its versions may have gone back. The replica of the
// previous incarnation continues to count, see [Engine.FormerIncarnations].
func (e *Engine) Renew(ctx context.Context, origin string, incarnation uint64) error {
	return e.queue.change(ctx, func() error {
		if err := e.replicas.CheckRenewal(origin, incarnation); err != nil {
			return err
		}
		return e.commit(&codec.Renew{Origin: origin, Incarnation: incarnation})
	})
}

// RenameOrigin renames an origin and keeps everything else: the server has changed its
// key.
func (e *Engine) RenameOrigin(ctx context.Context, from, to string) error {
	if !replica.ValidOrigin(to) {
		return fmt.Errorf("%w: origin %.128q: want up to 64 letters and digits", bulkhead.ErrMalformed, to)
	}
	return e.queue.change(ctx, func() error {
		if err := e.replicas.CheckName(from, to); err != nil {
			return err
		}
		return e.commit(&codec.Renew{Origin: from, To: to})
	})
}

// ParsePart decodes and checks a part for [Engine.ApplyRemote], and retains its bytes. It returns
// an error that wraps [bulkhead.ErrGeometry], [bulkhead.ErrMalformed] or [bulkhead.ErrOverLimit]
// for an invalid one.
func (e *Engine) ParsePart(p Part) (Parsed, error) { return e.replicas.Parse(p) }

// ApplyRemote durably applies parts of an origin to its replica, all of them or none. It returns an
// error that wraps [ErrGap] if a round does not continue the replica, [bulkhead.ErrForbidden] for
// an origin that does not count, and [bulkhead.ErrGeometry] or [bulkhead.ErrMalformed] for parts
// that do not match it or each other, or were made with different secrets. The caller has checked
// that the parts are the origin's.
func (e *Engine) ApplyRemote(ctx context.Context, origin string, parts []Parsed) error {
	remote := &codec.Remote{Origin: origin}
	for i := range parts {
		if parts[i].Geometry.KeyID != parts[0].Geometry.KeyID {
			return fmt.Errorf("%w: parts made with two secrets of the network at once", bulkhead.ErrMalformed)
		}
		remote.Parts = append(remote.Parts, parts[i].Part)
	}
	entry, err := remote.Append(nil)
	if err != nil {
		return err
	}
	return e.queue.change(ctx, func() error {
		if err := e.journal.refusing(); err != nil {
			return err
		}
		if err := e.replicas.Prepare(origin, parts); err != nil {
			return err
		}
		index, err := e.journal.append(entry)
		if err != nil {
			return err
		}
		return e.replicas.Apply(index, origin, parts, false)
	})
}

// Origins returns the origins that count.
func (e *Engine) Origins() []Origin {
	var out []Origin
	for _, r := range e.replicas.View().Origins {
		if r.Owner() == r.ID {
			out = append(out, r.Origin)
		}
	}
	return out
}

// Incarnation returns the incarnation of an origin's replica; 0 if none is recorded.
func (e *Engine) Incarnation(origin string) uint64 { return e.replicas.Incarnation(origin) }

// Replica returns the state of an origin's replica, array by array.
func (e *Engine) Replica(origin string) []ArrayState { return e.replicas.Arrays(origin) }

// CopyReplica returns the pages of an array of an origin at one moment, and the array's version
// then. It returns an error that wraps [ErrGap] if the array is missing or incomplete.
func (e *Engine) CopyReplica(ctx context.Context, origin string, a Array, start uint64) (version uint64,
	images []*arrays.Image, err error) {
	var copied error
	err = e.queue.inTurn(ctx, func() {
		version, images, copied = e.replicas.Copy(origin, replica.Key{Array: a, Start: start})
	})
	if err == nil {
		err = copied
	}
	return version, images, err
}

// FullKeys returns the number of keys at which an array with geometry g that others are merged into
// is full, so that its error rate is little higher than theirs.
func (e *Engine) FullKeys(g filter.Geometry) uint64 { return e.replicas.FullKeys(g) }

// Shown returns the probability that an array of an origin's replica shows an unreported signature.
// It is [ArrayState].Ghost measured from the array's content instead of its number of keys, and 0
// if the array is not in memory.
func (e *Engine) Shown(origin string, a Array, start uint64) float64 {
	return e.replicas.Shown(origin, a, start)
}

// Room reports whether there is memory for the data that an origin sends. Each origin has a
// reserved part of the limit for all replicas. If there is no room, but merging arrays of several
// origins would free some, Room starts merging. later is then true, and the caller should ask
// again.
func (e *Engine) Room(origin string, n Need) (now, later bool) { return e.replicas.Room(origin, n) }

// RemoteMemory returns the memory used by replicas.
func (e *Engine) RemoteMemory() RemoteMemory { return e.replicas.Memory() }

// Keeps reports whether the node accepts parts of a generation that started at the given Unix
// second, because it has neither expired nor begun too far in the future.
func (e *Engine) Keeps(a Array, start uint64) bool {
	return e.clock.keeps(e.replicas.Book(a), start)
}

// Horizon returns the start, in Unix seconds, of the oldest generation that the node still keeps an
// array of.
func (e *Engine) Horizon(a Array) uint64 {
	return uint64(max(e.replicas.Book(a).Oldest(e.clock.now()).Unix(), 0))
}

// Floor returns the start, in Unix seconds, from which the node has its own generations:
// [Engine.Horizon], or later if some were dropped for lack of memory.
func (e *Engine) Floor(a Array) uint64 {
	own := e.current.Books()
	if a == ArrayCounts {
		return max(e.Horizon(a), own.Tally.From)
	}
	return max(e.Horizon(a), own.Block.From)
}

// FormerIncarnations returns the former incarnations of an origin that have replicas here, oldest
// first. [Engine.Replica] returns their arrays by their IDs.
func (e *Engine) FormerIncarnations(origin string) []FormerIncarnation {
	return e.replicas.Former(origin)
}

// ForgetFormer durably drops the replicas of an origin's former incarnations.
func (e *Engine) ForgetFormer(ctx context.Context, origin string) error {
	for _, f := range e.FormerIncarnations(origin) {
		if err := e.ForgetGenerations(ctx, f.ID, 0); err != nil {
			return err
		}
	}
	return nil
}

// Supersede durably drops arrays of an origin's former incarnations. Their counts are in the arrays
// of the present incarnation, which was restored from a backup.
func (e *Engine) Supersede(ctx context.Context, origin string, arrays []ArrayKey) error {
	if len(arrays) == 0 {
		return nil
	}
	return e.queue.change(ctx, func() error {
		if err := e.replicas.CheckOrigin(origin); err != nil {
			return err
		}
		return e.commit(&codec.Renew{Origin: origin, Superseded: arrays})
	})
}
