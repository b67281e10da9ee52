package engine

import (
	"context"
	"fmt"
	"slices"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/arrays"
	"github.com/bulkhead-mail/bulkhead/internal/engine/replica"
)

// Types of package replica for the data of peers.
type (
	Array        = replica.Array
	Part         = replica.Part
	Parsed       = replica.Parsed
	Origin       = replica.Origin
	ArrayState   = replica.ArrayState
	Need         = replica.Need
	RemoteMemory = replica.Memory
)

// The arrays that are shared.
const (
	ArrayCounts  = replica.ArrayCounts
	ArraySpam    = replica.ArraySpam
	ArrayRevoked = replica.ArrayRevoked
)

// ErrGap means that a part does not continue its replica. Images of the whole array close the gap.
var ErrGap = replica.ErrGap

// originsChange is the body of an origins entry: all origins from now on.
type originsChange struct {
	Origins []Origin `json:"origins"`
}

// SetOrigins durably sets the origins that count. It drops the replicas of all other origins, which
// evicts a peer. It keeps the remaining replicas, with the new weights.
func (e *Engine) SetOrigins(ctx context.Context, origins []Origin) error {
	if err := replica.CheckOrigins(origins); err != nil {
		return err
	}
	return e.change(ctx, &originsChange{Origins: slices.Clone(origins)})
}

func (c *originsChange) do(e *Engine) error { return e.journalled(entryOrigins, c) }

func (c *originsChange) apply(e *Engine, _ uint64) error {
	e.replicas.SetOrigins(c.Origins)
	return nil
}

// forgetChange is the body of a forget entry.
type forgetChange struct {
	Origin string `json:"origin"`
	Since  uint64 `json:"since"`
}

// ForgetGenerations durably drops the generations of an origin's replica that started at or after
// the given Unix second, to roll back a faulty peer.
func (e *Engine) ForgetGenerations(ctx context.Context, origin string, since uint64) error {
	return e.change(ctx, &forgetChange{Origin: origin, Since: since})
}

func (c *forgetChange) do(e *Engine) error {
	if err := e.replicas.CheckOrigin(c.Origin); err != nil {
		return err
	}
	return e.journalled(entryForget, c)
}

func (c *forgetChange) apply(e *Engine, _ uint64) error {
	e.replicas.Forget(c.Origin, c.Since)
	return nil
}

// renewChange is the body of a renew entry: a new incarnation, or a new name.
type renewChange struct {
	Origin      string `json:"origin"`
	Incarnation uint64 `json:"incarnation,omitempty"`
	To          string `json:"to,omitempty"`
	// Superseded is arrays of former incarnations that are dropped.
	Superseded []replica.Key `json:"superseded,omitempty"`
}

// Renew records that the origin counts anew, in an incarnation with a larger number: it has lost
// its store or was restored from a backup, so its versions may have gone back. The replica of the
// previous incarnation continues to count, see [Engine.FormerIncarnations].
func (e *Engine) Renew(ctx context.Context, origin string, incarnation uint64) error {
	return e.change(ctx, &renewChange{Origin: origin, Incarnation: incarnation})
}

// RenameOrigin renames an origin and keeps everything else: the server has changed its
// key.
func (e *Engine) RenameOrigin(ctx context.Context, from, to string) error {
	if !replica.ValidOrigin(to) {
		return fmt.Errorf("%w: origin %.128q: want up to 64 letters and digits", bulkhead.ErrMalformed, to)
	}
	return e.change(ctx, &renewChange{Origin: from, To: to})
}

func (c *renewChange) do(e *Engine) error {
	var err error
	switch {
	case c.Superseded != nil:
		err = e.replicas.CheckOrigin(c.Origin)
	case c.To == "":
		err = e.replicas.CheckRenewal(c.Origin, c.Incarnation)
	default:
		err = e.replicas.CheckName(c.Origin, c.To)
	}
	if err != nil {
		return err
	}
	return e.journalled(entryRenew, c)
}

func (c *renewChange) apply(e *Engine, _ uint64) error {
	switch {
	case c.Superseded != nil:
		e.replicas.Supersede(c.Origin, c.Superseded)
	case c.To != "":
		e.replicas.Rename(c.Origin, c.To)
	default:
		e.replicas.Renew(c.Origin, c.Incarnation)
	}
	return nil
}

// remoteChange applies parts to the replica of an origin.
type remoteChange struct {
	origin string
	parts  []Parsed
	entry  []byte
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
	body := remoteBody{origin: origin}
	for i := range parts {
		if parts[i].Geometry.KeyID != parts[0].Geometry.KeyID {
			return fmt.Errorf("%w: parts made with two secrets of the network at once", bulkhead.ErrMalformed)
		}
		body.parts = append(body.parts, parts[i].Part)
	}
	return e.change(ctx, &remoteChange{origin, parts, body.entry()})
}

func (c *remoteChange) do(e *Engine) error {
	if err := e.refusing(); err != nil {
		return err
	}
	if err := e.replicas.Prepare(c.origin, c.parts); err != nil {
		return err
	}
	index, err := e.journal(c.entry)
	if err != nil {
		return err
	}
	return e.replicas.Apply(index, c.origin, c.parts, false)
}

// apply applies the parts on start.
func (b *remoteBody) apply(e *Engine, index uint64) error {
	parsed := make([]Parsed, len(b.parts))
	for i, p := range b.parts {
		var err error
		if parsed[i], err = e.replicas.Parse(p); err != nil {
			return err
		}
	}
	return e.replicas.Apply(index, b.origin, parsed, true)
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
	err = e.inTurn(ctx, func() { version, images, copied = e.replicas.Copy(origin, replica.Key{Array: a, Start: start}) })
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
	return e.keeps(e.replicas.Book(a), start)
}

// Horizon returns the start, in Unix seconds, of the oldest generation that the node still keeps an
// array of.
func (e *Engine) Horizon(a Array) uint64 {
	return uint64(max(e.replicas.Book(a).Oldest(e.clock.now()).Unix(), 0))
}

// Floor returns the start, in Unix seconds, from which the node has its own generations:
// [Engine.Horizon], or later if some were dropped for lack of memory.
func (e *Engine) Floor(a Array) uint64 {
	own := e.books.Load()
	if a == ArrayCounts {
		return max(e.Horizon(a), own.tally.From)
	}
	return max(e.Horizon(a), own.block.From)
}
