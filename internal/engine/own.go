package engine

import (
	"context"
	"fmt"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
)

// maxRecorded is how many adds a round holds at most. A round that would grow
// past it, because nobody takes the rounds, is thrown away: receivers then find
// a gap and ask for images.
const maxRecorded = 1 << 20

// arrayKey names an own array.
type arrayKey struct {
	array Array
	start uint64
}

// A recorder keeps the rounds of the own arrays. Only the writer uses it.
type recorder struct {
	on     bool
	rounds map[arrayKey]*filter.Round
}

// round returns the open round of an array, nil if none is recorded.
func (r *recorder) round(a Array, start uint64, open func() *filter.Round) *filter.Round {
	if !r.on {
		return nil
	}
	key := arrayKey{a, start}
	round := r.rounds[key]
	if round == nil || round.Len() > maxRecorded {
		round = open()
		r.rounds[key] = round
	}
	return round
}

// addCounts applies adds to an own array, and records them.
func (e *Engine) addCounts(index uint64, g *tallyGen, v *votes) {
	own, ok := g.counts.(*filter.Counting)
	if !ok || len(v.cells) == 0 {
		g.counts.AddBatch(index, v.cells, v.n, nil)
		return
	}
	round := e.recorder.round(ArrayCounts, g.Start, own.NewRound)
	if round == nil {
		own.AddBatch(index, v.cells, v.n, nil)
		return
	}
	before := make([]uint32, len(v.cells))
	own.AddBatch(index, v.cells, v.n, before)
	round.Record(v.cells, v.n, before)
}

func (e *Engine) setBits(index uint64, a Array, start uint64, set bitset, keys []filter.Key) {
	own, ok := set.(*filter.Bits)
	if !ok || len(keys) == 0 {
		set.SetBatch(index, keys, nil)
		return
	}
	round := e.recorder.round(a, start, own.NewRound)
	if round == nil {
		own.SetBatch(index, keys, nil)
		return
	}
	before := make([]bool, len(keys))
	own.SetBatch(index, keys, before)
	round.RecordBits(keys, before)
}

// Record starts or stops the recording of what the own arrays take, for
// [Engine.TakeRounds].
func (e *Engine) Record(ctx context.Context, on bool) error {
	return e.submit(ctx, &request{run: func() {
		e.recorder = recorder{on: on, rounds: make(map[arrayKey]*filter.Round)}
	}})
}

// TakeRounds returns what the own arrays took since the last call, encoded. An
// array that took nothing has no part.
func (e *Engine) TakeRounds(ctx context.Context) ([]Part, error) {
	var rounds map[arrayKey]*filter.Round
	err := e.submit(ctx, &request{run: func() {
		rounds = e.recorder.rounds
		e.recorder.rounds = make(map[arrayKey]*filter.Round)
	}})
	if err != nil {
		return nil, err
	}
	var parts []Part
	for key, r := range rounds {
		r.Close()
		if r.Len() > 0 {
			parts = append(parts, Part{Array: key.array, Start: key.start, Geometry: r.Geometry, Round: r.Append(nil), From: r.From, To: r.To})
		}
	}
	return parts, nil
}

// Own returns the own arrays that are shared, newest generations first.
func (e *Engine) Own() []ArrayState {
	view := e.view.Load()
	var out []ArrayState
	for _, g := range view.tally {
		if own, ok := g.counts.(*filter.Counting); ok {
			out = append(out, arrayState(ArrayCounts, g.Start, own))
		}
	}
	for _, g := range view.block {
		if own, ok := g.spam.(*filter.Bits); ok {
			out = append(out, arrayState(ArraySpam, g.Start, own))
		}
		if own, ok := g.revoked.(*filter.Bits); ok {
			out = append(out, arrayState(ArrayRevoked, g.Start, own))
		}
	}
	return out
}

// Images returns the images of all pages of an own array at one moment, as
// parts, and the array's version at that moment. An array that is not there is an error that
// wraps [bulkhead.ErrMalformed].
func (e *Engine) Images(ctx context.Context, a Array, start uint64) (version uint64, parts []Part, err error) {
	var images []*filter.Image
	found := false
	err = e.submit(ctx, &request{run: func() {
		// Copying is quick, encoding is not: only the copy is between batches.
		images, version, found = e.copyPages(a, start)
	}})
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

func (e *Engine) copyPages(a Array, start uint64) (images []*filter.Image, version uint64, found bool) {
	view := e.view.Load()
	var array any
	if g := view.tallyGen(start); g != nil && a == ArrayCounts {
		array = g.counts
	}
	if g := view.blockGen(start); g != nil {
		switch a {
		case ArraySpam:
			array = g.spam
		case ArrayRevoked:
			array = g.revoked
		}
	}
	own, ok := array.(interface {
		Pages() int
		Image(p int) *filter.Image
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
