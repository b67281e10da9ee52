package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
)

// An Array names one of the arrays of a generation that origins share. Weights
// and unique filters stay at home: they are about accounts that other servers
// do not know.
type Array string

// The arrays that are shared.
const (
	ArrayCounts  Array = "counts"  // of the tally
	ArraySpam    Array = "spam"    // of the blocklist
	ArrayRevoked Array = "revoked" // of the blocklist
)

// ErrGap says that a part does not continue the replica that it is for. Images of
// the whole array close a gap.
var ErrGap = errors.New("engine: a part is missing before this one")

// A Part is something that one array of an origin took: a round of adds, or the
// image of one page.
type Part struct {
	Array    Array           `json:"array"`
	Start    uint64          `json:"start"`    // of the generation, Unix seconds
	Geometry filter.Geometry `json:"geometry"` // of the array
	// Round is an encoded filter.Round. Image is an encoded page; a replica is
	// exact again once it has the images of all pages of one moment. One of
	// the two is empty.
	Round []byte `json:"round,omitempty"`
	Image []byte `json:"image,omitempty"`
	// At goes with an image: the version of the whole array at the moment of
	// the images. Until a replica has reached it, page by page, it takes no
	// rounds.
	At uint64 `json:"at,omitempty"`
	// Boot is the origin's number of the process that led to what the part
	// brings; the replica remembers it. 0 if it is not known.
	Boot uint64 `json:"boot,omitempty"`
	// From and To go with a round of [Engine.TakeRounds]: the versions of the
	// array before and after. Receivers read them in the round itself.
	From uint64 `json:"-"`
	To   uint64 `json:"-"`
}

// An Origin is a server whose reports this one counts.
type Origin struct {
	ID string `json:"id"` // its public key: 1 to 64 letters and digits
	// Weight is what its word is worth, 0..1: counts are multiplied by it, and
	// a place on its blocklist weighs it against the promotion weight. 0 keeps
	// the replica and looks nothing up in it: quarantine.
	Weight float64 `json:"weight"`
}

// originsChange is the body of an origins entry: all origins from now on.
type originsChange struct {
	Origins []Origin `json:"origins"`
}

// remoteChange is the body of a remote entry.
type remoteChange struct {
	Origin string `json:"origin"`
	Parts  []Part `json:"parts"`

	parsed []parsedPart
	entry  []byte
}

// SetOrigins makes these the origins that count, durably. Replicas of origins
// that are not among them are dropped, which evicts a peer; those of the others
// are kept, with the new weight.
func (e *Engine) SetOrigins(ctx context.Context, origins []Origin) error {
	seen := make(map[string]bool)
	for _, o := range origins {
		if !validOrigin(o.ID) || seen[o.ID] || !(o.Weight >= 0 && o.Weight <= 1) {
			return fmt.Errorf("%w: origin %.128q with weight %v: want distinct ids of up to 64 letters and digits, and weights in 0..1", bulkhead.ErrMalformed, o.ID, o.Weight)
		}
		seen[o.ID] = true
	}
	return e.change(ctx, &originsChange{Origins: slices.Clone(origins)})
}

// validOrigin reports whether id may name an origin: it becomes part of file
// names.
func validOrigin(id string) bool {
	for _, c := range []byte(id) {
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9') {
			return false
		}
	}
	return len(id) >= 1 && len(id) <= 64
}

// Origins returns the origins that count.
func (e *Engine) Origins() []Origin {
	var out []Origin
	for _, r := range e.view.Load().remote {
		out = append(out, r.Origin)
	}
	return out
}

// ForgetGenerations drops what the replica of an origin holds of generations
// that started at or after the given Unix second: a peer that has gone mad is
// rolled back to the time before.
func (e *Engine) ForgetGenerations(ctx context.Context, origin string, since uint64) error {
	return e.change(ctx, &forgetChange{Origin: origin, Since: since})
}

// forgetChange is the body of a forget entry.
type forgetChange struct {
	Origin string `json:"origin"`
	Since  uint64 `json:"since"`
}

// Renew notes that the origin counts anew, in an incarnation with a larger
// number: it was restored from a backup, so its versions may have gone back.
// What was held of the incarnation before is dropped.
func (e *Engine) Renew(ctx context.Context, origin string, incarnation uint64) error {
	return e.change(ctx, &renewChange{Origin: origin, Incarnation: incarnation})
}

// RenameOrigin gives an origin another name, and keeps all else of it: the
// server has changed its key.
func (e *Engine) RenameOrigin(ctx context.Context, from, to string) error {
	if !validOrigin(to) {
		return fmt.Errorf("%w: origin %.128q: want up to 64 letters and digits", bulkhead.ErrMalformed, to)
	}
	return e.change(ctx, &renewChange{Origin: from, To: to})
}

// renewChange is the body of a renew entry: a new incarnation, or a new name.
type renewChange struct {
	Origin      string `json:"origin"`
	Incarnation uint64 `json:"incarnation,omitempty"`
	To          string `json:"to,omitempty"`
}

// Incarnation returns which incarnation of an origin its replica holds; 0 if
// none has been noted.
func (e *Engine) Incarnation(origin string) uint64 {
	if r := e.view.Load().origin(origin); r != nil {
		return r.incarnation
	}
	return 0
}

// ApplyRemote takes parts of an origin into its replica, durably, all of them
// or none. It returns an error that wraps [ErrGap] if a round does not continue
// the replica, [bulkhead.ErrForbidden] for an origin that does not count, and
// [bulkhead.ErrGeometry] or [bulkhead.ErrMalformed] for parts that make no
// sense. The caller has checked that the parts are the origin's.
func (e *Engine) ApplyRemote(ctx context.Context, origin string, parts []Part) error {
	c := &remoteChange{Origin: origin, Parts: parts}
	// Decoding takes longer than all the rest, and the writer has others to serve.
	var err error
	if c.parsed, err = e.parseParts(parts); err != nil {
		return err
	}
	if c.entry, err = encodeJSONEntry(entryRemote, c); err != nil {
		return err
	}
	return e.change(ctx, c)
}

// An ArrayState is where the replica of one array stands.
type ArrayState struct {
	Array    Array
	Start    uint64
	Geometry filter.Geometry
	Version  uint64
	Keys     uint64
	Bytes    uint64
	// Partial is the version that the array of a replica will have once all
	// its images are here; 0 if none is missing.
	Partial uint64
	// Boot is the [Part.Boot] of the last part that the array of a replica took.
	Boot uint64
	// Merged: the array has no memory of its own, and Bytes is 0. See [Engine.Room].
	Merged bool
	// Ghost is the probability that the array, or the one it is merged into,
	// shows a signature that nobody reported, by its number of keys.
	Ghost float64
}

// Replica returns where the replica of an origin stands, array by array.
func (e *Engine) Replica(origin string) []ArrayState {
	view := e.view.Load()
	i := slices.IndexFunc(view.remote, func(r *replica) bool { return r.ID == origin })
	if i < 0 {
		return nil
	}
	into := make(map[*cold]*merged)
	for _, m := range view.merged {
		for _, c := range m.members {
			into[c] = m
		}
	}
	var out []ArrayState
	for _, x := range view.remote[i].arrays {
		state := arrayState(x.array, x.start, x.replicated())
		m := view.remote[i].marks[x.arrayKey]
		state.Partial, state.Boot = m.partial, m.boot
		if x.memory != nil {
			state.Bytes = charged(x.memory)
		} else {
			state.Merged, state.Bytes = true, 0
			if m := into[x.cold]; m != nil {
				state.Ghost = m.geometry.GhostError(m.load())
			}
		}
		out = append(out, state)
	}
	return out
}

// Shown returns the probability that an array of the replica of an origin shows a
// signature that nobody reported, by what is in it and not, as [ArrayState].Ghost,
// by its number of keys. Of an array that is not in memory it is 0.
func (e *Engine) Shown(origin string, a Array, start uint64) float64 {
	r := e.view.Load().origin(origin)
	if r == nil {
		return 0
	}
	x := r.find(arrayKey{a, start})
	if x == nil || x.memory == nil {
		return 0
	}
	return x.memory.Shown(rand.Uint64()) // nobody foresees which lines
}

func arrayState(a Array, start uint64, array replicated) ArrayState {
	g, keys := array.Geometry(), array.Keys()
	return ArrayState{Array: a, Start: start, Geometry: g, Version: array.Version(), Keys: keys, Bytes: g.Bytes(), Ghost: g.GhostError(keys)}
}
