package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

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

// ErrGap: a part does not continue the replica that it is for. Images of the
// whole array close a gap.
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

// A replica is what this node holds of one origin.
type replica struct {
	Origin
	incarnation uint64
	tally       []*remoteTally // newest first
	block       []*remoteBlock // newest first
	// partial has, for arrays of which some images are still missing, the
	// version that they will have. It is never changed, only replaced.
	partial map[arrayKey]uint64
}

type remoteTally struct {
	start  uint64
	counts *filter.Counting
}

type remoteBlock struct {
	start         uint64
	spam, revoked *filter.Bits // nil until the origin has sent it
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
	return e.submit(ctx, &request{origins: &originsChange{Origins: slices.Clone(origins)}})
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
	return e.submit(ctx, &request{forget: &forgetChange{Origin: origin, Since: since}})
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
	return e.submit(ctx, &request{renew: &renewChange{Origin: origin, Incarnation: incarnation}})
}

// RenameOrigin gives an origin another name, and keeps all else of it: the
// server has changed its key.
func (e *Engine) RenameOrigin(ctx context.Context, from, to string) error {
	if !validOrigin(to) {
		return fmt.Errorf("%w: origin %.128q: want up to 64 letters and digits", bulkhead.ErrMalformed, to)
	}
	return e.submit(ctx, &request{renew: &renewChange{Origin: from, To: to}})
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
	return e.submit(ctx, &request{remote: c})
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
}

// Replica returns where the replica of an origin stands, array by array.
func (e *Engine) Replica(origin string) []ArrayState {
	view := e.view.Load()
	i := slices.IndexFunc(view.remote, func(r *replica) bool { return r.ID == origin })
	if i < 0 {
		return nil
	}
	var out []ArrayState
	view.remote[i].each(func(a Array, start uint64, array replicated) {
		state := arrayState(a, start, array)
		state.Partial = view.remote[i].partial[arrayKey{a, start}]
		out = append(out, state)
	})
	return out
}

func arrayState(a Array, start uint64, array replicated) ArrayState {
	return ArrayState{Array: a, Start: start, Geometry: array.Geometry(), Version: array.Version(), Keys: array.Keys(), Bytes: array.Geometry().Bytes()}
}

// parsedPart is a part whose bytes have been decoded.
type parsedPart struct {
	*Part
	round *filter.Round
	image *filter.Image
}

// parseParts decodes and checks the parts. Nothing of them is believed before.
func (e *Engine) parseParts(parts []Part) ([]parsedPart, error) {
	out := make([]parsedPart, 0, len(parts))
	for i := range parts {
		p := parsedPart{Part: &parts[i]}
		kind := filter.Bitmap
		switch p.Array {
		case ArrayCounts:
			kind = filter.Cells
		case ArraySpam, ArrayRevoked:
		default:
			return nil, fmt.Errorf("%w: part of array %.20q", bulkhead.ErrMalformed, p.Array)
		}
		if err := e.admitGeometry(p.Geometry, kind); err != nil {
			return nil, err
		}
		var err error
		var generation uint64
		switch {
		case len(p.Round) > 0 && len(p.Image) == 0:
			if p.round, err = filter.ParseRound(p.Round, p.Geometry); err == nil {
				generation = p.round.Generation
			}
		case len(p.Image) > 0 && len(p.Round) == 0:
			if p.image, err = filter.ParseImage(p.Image, p.Geometry); err == nil {
				generation = p.image.Generation
			}
		default:
			err = errors.New("neither a round nor an image")
		}
		if err == nil && generation != p.Start {
			err = fmt.Errorf("generation %d in a part of %d", generation, p.Start)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: part of %s, generation %d: %v", bulkhead.ErrMalformed, p.Array, p.Start, err)
		}
		out = append(out, p)
	}
	return out, nil
}

// maxRemoteLines bounds the array that a peer can make this node allocate:
// 1 GiB.
const maxRemoteLines = 1 << 24

func (e *Engine) admitGeometry(g filter.Geometry, kind filter.Kind) error {
	if err := g.Validate(); err != nil {
		return fmt.Errorf("%w: %v", bulkhead.ErrGeometry, err)
	}
	switch {
	case g.Kind != kind:
		return fmt.Errorf("%w: %s array, want %s", bulkhead.ErrGeometry, g.Kind, kind)
	case g.KeyID != e.opts.Secret.ID():
		return fmt.Errorf("%w: network key %016x, this node has %016x", bulkhead.ErrGeometry, g.KeyID, e.opts.Secret.ID())
	case g.Lines > maxRemoteLines:
		return fmt.Errorf("%w: array of %d lines, limit %d", bulkhead.ErrOverLimit, g.Lines, maxRemoteLines)
	}
	return nil
}

// changeRemote is the writer's part of ApplyRemote.
func (e *Engine) changeRemote(c *remoteChange) error {
	if err := e.refusing(); err != nil {
		return err
	}
	parts := c.parsed
	view := e.view.Load()
	now := e.opts.Now()
	images, rounds := make(map[arrayKey]bool), make(map[arrayKey]bool)
	for _, p := range parts {
		// One index goes to each page of an entry, so an array takes images or
		// one round at a time.
		key := arrayKey{p.Array, p.Start}
		if p.round != nil && (rounds[key] || images[key]) || p.image != nil && rounds[key] {
			return fmt.Errorf("%w: two rounds, or a round and images, of %s, generation %d, at once", bulkhead.ErrMalformed, p.Array, p.Start)
		}
		if p.round != nil {
			rounds[key] = true
		} else {
			images[key] = true
		}
		if !e.keeps(now, p.Array, p.Start) {
			return fmt.Errorf("%w: part of a generation that starts at %d", bulkhead.ErrMalformed, p.Start)
		}
		if err := e.continues(view, c.Origin, p); err != nil {
			return err
		}
	}
	index, err := e.journal(c.entry)
	if err != nil {
		return err
	}
	return e.applyRemote(index, c.Origin, parts, false)
}

// continues returns an error unless the part continues the origin's replica.
func (e *Engine) continues(view *view, origin string, p parsedPart) error {
	r := view.origin(origin)
	if r == nil {
		return fmt.Errorf("%w: origin %.128q does not count here", bulkhead.ErrForbidden, origin)
	}
	array := r.array(p.Array, p.Start)
	switch {
	case array != nil && array.Geometry() != p.Geometry:
		return fmt.Errorf("%w: part of %v for a replica of %v", bulkhead.ErrGeometry, p.Geometry, array.Geometry())
	case p.round == nil:
		return nil
	case r.partial[arrayKey{p.Array, p.Start}] != 0:
		return fmt.Errorf("%w: images of the array are still missing", ErrGap)
	case array == nil && p.round.From != 0:
		return fmt.Errorf("%w: a round from version %d of an array that is not here", ErrGap, p.round.From)
	case array != nil && array.Version() != p.round.From:
		return fmt.Errorf("%w: a round from version %d, the replica is at %d", ErrGap, p.round.From, array.Version())
	}
	return nil
}

// replicated is what the writer does to an array of a replica.
type replicated interface {
	paged
	Keys() uint64
	Version() uint64
	ApplyRound(index uint64, r *filter.Round, replayed bool) error
	LoadAt(index uint64, m *filter.Image) error
	SetGeneration(uint64)
}

// applyRemote takes durable parts into the replica. On replay parts of an
// origin that has been evicted since are passed over.
func (e *Engine) applyRemote(index uint64, origin string, parts []parsedPart, replayed bool) error {
	view := e.view.Load()
	r := view.origin(origin)
	if r == nil {
		return nil
	}
	for _, p := range parts {
		array := r.array(p.Array, p.Start)
		if array == nil {
			var err error
			if view, array, err = e.openReplica(view, origin, p); err != nil {
				return err
			}
			r = view.origin(origin)
		}
		var err error
		if p.round != nil {
			err = array.ApplyRound(index, p.round, replayed)
		} else {
			err = array.LoadAt(index, p.image)
		}
		if err != nil {
			return fmt.Errorf("engine: replica of %s: %w", origin, err)
		}
	}
	e.notePartial(origin, parts)
	return nil
}

// notePartial notes which arrays lack images after these parts, and which no
// longer do. Versions of pages only grow within an incarnation, so the sum
// tells: the array has reached the moment of the images when all pages have.
func (e *Engine) notePartial(origin string, parts []parsedPart) {
	view := e.view.Load()
	r := view.origin(origin)
	partial := make(map[arrayKey]uint64)
	for key, at := range r.partial {
		partial[key] = at
	}
	for _, p := range parts {
		if p.image == nil {
			continue
		}
		key := arrayKey{p.Array, p.Start}
		if r.array(p.Array, p.Start).Version() >= p.At {
			delete(partial, key)
		} else {
			partial[key] = p.At
		}
	}
	if len(partial) == 0 && len(r.partial) == 0 {
		return
	}
	e.changeReplica(origin, func(r *replica) { r.partial = partial })
}

// changeReplica publishes a view in which change was done to a copy of the
// replica of an origin, if there is one.
func (e *Engine) changeReplica(origin string, change func(*replica)) {
	next := e.view.Load().clone()
	for i, r := range next.remote {
		if r.ID == origin {
			r = r.clone()
			change(r)
			next.remote[i] = r
		}
	}
	e.view.Store(next)
}

// changeRenew is the writer's part of Renew and RenameOrigin.
func (e *Engine) changeRenew(c *renewChange) error {
	view := e.view.Load()
	switch r := view.origin(c.Origin); {
	case r == nil:
		return fmt.Errorf("%w: origin %.128q does not count here", bulkhead.ErrForbidden, c.Origin)
	case c.To != "" && view.origin(c.To) != nil:
		return fmt.Errorf("%w: origin %.128q is here already", bulkhead.ErrMalformed, c.To)
	case c.To == "" && c.Incarnation <= r.incarnation:
		return fmt.Errorf("%w: incarnation %d of an origin that is at %d", bulkhead.ErrMalformed, c.Incarnation, r.incarnation)
	}
	entry, err := encodeJSONEntry(entryRenew, c)
	if err != nil {
		return err
	}
	if _, err := e.journal(entry); err != nil {
		return err
	}
	e.applyRenew(c)
	return nil
}

func (e *Engine) applyRenew(c *renewChange) {
	e.changeReplica(c.Origin, func(r *replica) {
		if c.To != "" {
			r.ID = c.To
			return
		}
		*r = replica{Origin: r.Origin, incarnation: c.Incarnation}
	})
}

// openReplica publishes a view in which the replica has an empty array for p.
func (e *Engine) openReplica(old *view, origin string, p parsedPart) (*view, replicated, error) {
	next := old.clone()
	i := slices.IndexFunc(next.remote, func(r *replica) bool { return r.ID == origin })
	r := next.remote[i].clone()
	next.remote[i] = r
	array, err := newReplicated(p.Array, p.Start, p.Geometry)
	if err != nil {
		return nil, nil, err
	}
	r.put(p.Array, p.Start, array)
	r.sort()
	e.view.Store(next)
	return next, array, nil
}

func (r *replica) clone() *replica {
	return &replica{Origin: r.Origin, incarnation: r.incarnation, partial: r.partial, tally: slices.Clone(r.tally), block: slices.Clone(r.block)}
}

func newReplicated(a Array, start uint64, g filter.Geometry) (replicated, error) {
	var array replicated
	var err error
	if a == ArrayCounts {
		array, err = filter.NewCounting(g)
	} else {
		array, err = filter.NewBits(g)
	}
	if err != nil {
		return nil, err
	}
	array.SetGeneration(start)
	return array, nil
}

// put gives r an array. Generations that readers may see are not changed.
func (r *replica) put(a Array, start uint64, array replicated) {
	if a == ArrayCounts {
		r.tally = append(r.tally, &remoteTally{start: start, counts: array.(*filter.Counting)})
		return
	}
	i := slices.IndexFunc(r.block, func(g *remoteBlock) bool { return g.start == start })
	g := &remoteBlock{start: start}
	if i >= 0 {
		*g = *r.block[i]
		r.block[i] = g
	} else {
		r.block = append(r.block, g)
	}
	if a == ArraySpam {
		g.spam = array.(*filter.Bits)
	} else {
		g.revoked = array.(*filter.Bits)
	}
}

// each calls fn for every array of r.
func (r *replica) each(fn func(a Array, start uint64, array replicated)) {
	for _, g := range r.tally {
		fn(ArrayCounts, g.start, g.counts)
	}
	for _, g := range r.block {
		if g.spam != nil {
			fn(ArraySpam, g.start, g.spam)
		}
		if g.revoked != nil {
			fn(ArrayRevoked, g.start, g.revoked)
		}
	}
}

func (r *replica) sort() {
	slices.SortFunc(r.tally, func(a, b *remoteTally) int { return compareNewest(a.start, b.start) })
	slices.SortFunc(r.block, func(a, b *remoteBlock) int { return compareNewest(a.start, b.start) })
}

// array returns the array of a generation, nil if the replica has none.
func (r *replica) array(a Array, start uint64) (found replicated) {
	r.each(func(b Array, s uint64, array replicated) {
		if a == b && s == start {
			found = array
		}
	})
	return found
}

func (v *view) origin(id string) *replica {
	for _, r := range v.remote {
		if r.ID == id {
			return r
		}
	}
	return nil
}

func (v *view) clone() *view {
	return &view{tally: v.tally, block: v.block, remote: slices.Clone(v.remote)}
}

// changeOrigins is the writer's part of SetOrigins.
func (e *Engine) changeOrigins(c *originsChange) error {
	entry, err := encodeJSONEntry(entryOrigins, c)
	if err != nil {
		return err
	}
	if _, err := e.journal(entry); err != nil {
		return err
	}
	e.applyOrigins(c)
	return nil
}

func (e *Engine) applyOrigins(c *originsChange) {
	old := e.view.Load()
	next := &view{tally: old.tally, block: old.block}
	for _, o := range c.Origins {
		r := &replica{}
		if kept := old.origin(o.ID); kept != nil {
			r = kept.clone()
		}
		r.Origin = o
		next.remote = append(next.remote, r)
	}
	e.view.Store(next)
}

// changeForget is the writer's part of ForgetGenerations.
func (e *Engine) changeForget(c *forgetChange) error {
	if e.view.Load().origin(c.Origin) == nil {
		return fmt.Errorf("%w: origin %.128q does not count here", bulkhead.ErrForbidden, c.Origin)
	}
	entry, err := encodeJSONEntry(entryForget, c)
	if err != nil {
		return err
	}
	if _, err := e.journal(entry); err != nil {
		return err
	}
	e.applyForget(c)
	return nil
}

func (e *Engine) applyForget(c *forgetChange) {
	e.changeReplica(c.Origin, func(r *replica) {
		r.keep(func(_ Array, start uint64) bool { return start < c.Since })
	})
}

// keep drops the generations of which keep says no.
func (r *replica) keep(keep func(a Array, start uint64) bool) {
	r.tally = slices.DeleteFunc(r.tally, func(g *remoteTally) bool { return !keep(ArrayCounts, g.start) })
	r.block = slices.DeleteFunc(r.block, func(g *remoteBlock) bool { return !keep(ArraySpam, g.start) })
	partial := make(map[arrayKey]uint64)
	for key, at := range r.partial {
		if keep(key.array, key.start) {
			partial[key] = at
		}
	}
	r.partial = partial
}

// dropExpiredReplicas drops the generations of replicas that the books no
// longer keep. Which those are follows from the clock, so no entry says it.
func (e *Engine) dropExpiredReplicas() {
	old := e.view.Load()
	if len(old.remote) == 0 {
		return
	}
	now := e.opts.Now()
	next := old.clone()
	for i, r := range next.remote {
		r = r.clone()
		r.keep(func(a Array, start uint64) bool {
			if a == ArrayCounts {
				return !expired(now, e.opts.Tally, start)
			}
			return !expired(now, e.opts.Block, start)
		})
		next.remote[i] = r
	}
	e.view.Store(next)
}

// Keeps reports whether the node takes parts of a generation that started at
// the given Unix second: it has not expired, and does not lie in the future.
func (e *Engine) Keeps(a Array, start uint64) bool {
	return e.keeps(e.opts.Now(), a, start)
}

func (e *Engine) keeps(now time.Time, a Array, start uint64) bool {
	book := e.opts.Tally
	if a != ArrayCounts {
		book = e.opts.Block
	}
	return start <= math.MaxInt64/2 && !expired(now, book, start) && int64(start) <= now.Add(book.Generation).Unix()
}
