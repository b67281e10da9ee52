package engine

import (
	"context"
	"fmt"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/arrays"
	"github.com/bulkhead-mail/bulkhead/internal/engine/book"
	"github.com/bulkhead-mail/bulkhead/internal/engine/keys"
	"github.com/bulkhead-mail/bulkhead/internal/engine/replica"
)

// maxRecorded is the maximum number of recorded adds to one array. If the rounds are not taken
// before they exceed it, they are discarded; receivers then find a gap and request images. maxRound
// is the maximum number of adds in a round: less than 400 kB, so that any broker accepts it in one
// message.
const (
	maxRecorded = 1 << 20
	maxRound    = 1 << 15
)

// A recorder stores the rounds of the node's own arrays. Only the writer uses it.
type recorder struct {
	on     bool
	rounds map[replica.Key]*recording
}

// A recording holds the changes of one array since its rounds were last taken.
type recording struct {
	rounds []*arrays.Round // each begins where the one before ends
	adds   int
	cut    bool // the next add begins a new round
}

// begin returns the recording of an array that is about to change, or nil if recording is off.
// first begins a round at the array's present version.
func (r *recorder) begin(a Array, start uint64, first func() *arrays.Round) *recording {
	if !r.on {
		return nil
	}
	key := replica.Key{Array: a, Start: start}
	rec := r.rounds[key]
	if rec == nil || rec.adds > maxRecorded {
		rec = &recording{rounds: []*arrays.Round{first()}}
		r.rounds[key] = rec
	}
	return rec
}

// note calls record with the round that takes the adds.
func (c *recording) note(record func(r *arrays.Round)) {
	last := c.rounds[len(c.rounds)-1]
	r := last
	if c.cut && last.Len() > 0 {
		r = last.Next()
	}
	had := r.Len()
	record(r)
	if r.Len() == had {
		return // no peer sees these adds
	}
	if r != last {
		c.rounds = append(c.rounds, r)
	}
	c.adds += r.Len() - had
	c.cut = false
}

// addCounts applies adds to an own array, and records them.
func (e *Engine) addCounts(index uint64, g *book.Tally, v *votes) {
	own, ok := g.Counts.(*arrays.Counting)
	if ok && e.wounds != nil {
		e.wounds.note(index, ArrayCounts, g.Start, own.PageOf, v.Counts.Keys, v.Counts.N)
	}
	if !ok || len(v.Counts.Keys) == 0 {
		g.Counts.AddBatch(index, v.Counts.Keys, v.Counts.N, nil)
		return
	}
	rec := e.recorder.begin(ArrayCounts, g.Start, own.Above().NewRound)
	if rec == nil {
		own.AddBatch(index, v.Counts.Keys, v.Counts.N, nil)
		return
	}
	before := make([]uint32, len(v.Counts.Keys))
	own.AddBatch(index, v.Counts.Keys, v.Counts.N, before)
	rec.note(func(r *arrays.Round) { r.Record(v.Counts.Keys, v.Counts.N, before) })
}

func (e *Engine) setBits(index uint64, a Array, start uint64, set book.Bitset, keys []filter.Key) {
	own, ok := set.(*arrays.Bits)
	if ok && e.wounds != nil {
		e.wounds.note(index, a, start, own.PageOf, keys, nil)
	}
	if !ok || len(keys) == 0 {
		set.SetBatch(index, keys, nil)
		return
	}
	rec := e.recorder.begin(a, start, own.NewRound)
	if rec == nil {
		own.SetBatch(index, keys, nil)
		return
	}
	before := make([]bool, len(keys))
	own.SetBatch(index, keys, before)
	rec.note(func(r *arrays.Round) { r.RecordBits(keys, before) })
}

// Record starts or stops recording the changes of the own arrays, for
// [Engine.TakeRounds].
func (e *Engine) Record(ctx context.Context, on bool) error {
	return e.inTurn(ctx, func() {
		e.recorder = recorder{on: on, rounds: make(map[replica.Key]*recording)}
	})
}

// TakeRounds returns the changes of the own arrays since the last call, encoded. An unchanged array
// has no part. An array with many changes, or one whose images were made since, has several parts,
// each of which continues the one before. own is the result of [Engine.Own] at that moment: the
// versions to which the rounds lead. After an error, no changes have been taken.
func (e *Engine) TakeRounds(ctx context.Context) (parts []Part, own []ArrayState, err error) {
	var recorded map[replica.Key]*recording
	var secrets *keys.Secrets
	err = e.inTurn(ctx, func() {
		recorded, own, secrets = e.recorder.rounds, e.Own(), e.view().secrets
		e.recorder.rounds = make(map[replica.Key]*recording)
	})
	if err != nil {
		return nil, nil, err
	}
	for key, rec := range recorded {
		for _, r := range rec.rounds {
			if !secrets.Shares(r.Geometry.KeyID) {
				continue
			}
			r.Close()
			for _, r := range r.Split(maxRound) {
				parts = append(parts, Part{Array: key.Array, Start: key.Start, Geometry: r.Geometry, Round: r.AppendBody(nil),
					From: r.From, To: r.To})
			}
		}
	}
	return parts, own, nil
}

// Own returns the node's own arrays that are shared, newest generations first. They are the arrays
// made with the network's current secret and with its former secrets. Their states describe the
// part that peers see, see [BookOptions].
func (e *Engine) Own() []ArrayState {
	view := e.view()
	var out []ArrayState
	for _, g := range view.tally.Live {
		if own, ok := g.Counts.(*arrays.Counting); ok && view.secrets.Shares(g.CountsGeometry.KeyID) {
			out = append(out, replica.StateOf(ArrayCounts, g.Start, own.Above()))
		}
	}
	for _, g := range view.block.Live {
		if !view.secrets.Shares(g.SpamGeometry.KeyID) {
			continue
		}
		spam, revoked := g.Shared()
		if own, ok := spam.(*arrays.Bits); ok {
			out = append(out, replica.StateOf(ArraySpam, g.Start, own))
		}
		if own, ok := revoked.(*arrays.Bits); ok {
			out = append(out, replica.StateOf(ArrayRevoked, g.Start, own))
		}
	}
	return out
}

// Images returns the images of all pages of an own array at one moment, as parts, and the array's
// version at that moment. It returns an error that wraps [bulkhead.ErrMalformed] if there is no
// such array. A new round begins at that version.
func (e *Engine) Images(ctx context.Context, a Array, start uint64) (version uint64, parts []Part, err error) {
	var images []*arrays.Image
	found := false
	err = e.inTurn(ctx, func() {
		// Copying is fast and encoding is slow, so only the copy is made between batches.
		images, version, found = e.copyPages(a, start)
		// A receiver of the images continues with the rounds from there.
		if rec := e.recorder.rounds[replica.Key{Array: a, Start: start}]; rec != nil {
			rec.cut = true
		}
	})
	if err != nil {
		return 0, nil, err
	}
	if !found {
		return 0, nil, fmt.Errorf("%w: no own array %.20q of generation %d", bulkhead.ErrMalformed, a, start)
	}
	for _, m := range images {
		parts = append(parts, Part{Array: a, Start: start, Geometry: m.Geometry, Image: m.Append(nil), At: version})
	}
	return version, parts, nil
}

func (e *Engine) copyPages(a Array, start uint64) (images []*arrays.Image, version uint64, found bool) {
	view := e.view()
	var array any
	if g := view.tally.Find(start); g != nil && a == ArrayCounts && view.secrets.Shares(g.CountsGeometry.KeyID) {
		if own, ok := g.Counts.(*arrays.Counting); ok {
			array = own.Above()
		}
	}
	if g := view.block.Find(start); g != nil && view.secrets.Shares(g.SpamGeometry.KeyID) {
		spam, revoked := g.Shared()
		switch a {
		case ArraySpam:
			array = spam
		case ArrayRevoked:
			array = revoked
		}
	}
	own, ok := array.(interface {
		Pages() int
		Image(p int) *arrays.Image
		Version() uint64
	})
	if !ok {
		return nil, 0, false
	}
	for p := range own.Pages() {
		images = append(images, own.Image(p))
	}
	return images, own.Version(), true
}
