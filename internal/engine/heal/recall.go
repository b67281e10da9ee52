package heal

import (
	"errors"
	"fmt"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/arrays"
	"github.com/bulkhead-mail/bulkhead/internal/engine/codec"
	"github.com/bulkhead-mail/bulkhead/internal/engine/replica"
)

// A recalled is an array that is rebuilt from published messages.
type recalled interface {
	Array
	ApplyRound(index uint64, r *arrays.Round, replayed bool) error
	SetGeneration(uint64)
}

func newRecalled(g filter.Geometry, start uint64) (array recalled, err error) {
	if g.Kind == filter.Cells {
		array, err = arrays.NewSparseCounting(g)
	} else {
		array, err = arrays.NewSparseBits(g)
	}
	if err == nil {
		array.SetGeneration(start)
	}
	return array, err
}

// Recall returns an array rebuilt from the encoded images of its pages at one moment, or none, and
// from the later rounds, each of which continues the one before.
func Recall(g filter.Geometry, start uint64, images [][]byte, rounds []replica.Part) (Array, error) {
	array, err := newRecalled(g, start)
	if err != nil {
		return nil, err
	}
	for _, b := range images {
		m, err := arrays.ParseImage(b, g)
		if err == nil {
			err = array.Load(m)
		}
		if err != nil {
			return nil, err
		}
	}
	list := make([]*arrays.Round, len(rounds))
	for i := range rounds {
		if list[i], err = arrays.ParseRoundBody(rounds[i].Round, g, start, rounds[i].From); err != nil {
			return nil, err
		}
	}
	// A full round may have been split without regard to time. The state before it existed at some
	// moment, but the state between its parts never did.
	for len(list) > 0 && list[len(list)-1].Len() >= codec.MaxRound {
		list = list[:len(list)-1]
	}
	for _, r := range list {
		if err := array.ApplyRound(0, r, false); err != nil {
			return nil, err
		}
	}
	return array, nil
}

// grown returns the page of an array with the given floor after the later adds. The page may
// already have the first of these adds.
func (w *wound) grown(m *arrays.Image, floor uint32) (*arrays.Image, error) {
	array, err := newRecalled(m.Geometry, m.Generation)
	if err != nil {
		return nil, err
	}
	counts, _ := array.(*arrays.Counting)
	if counts != nil && floor > 0 {
		err = counts.SetFloor(floor)
	}
	if err = errors.Join(err, array.Load(m)); err != nil {
		return nil, err
	}
	changes := m.Info.Version - w.sum.Version
	switch {
	case counts == nil:
		array.(*arrays.Bits).SetBatch(0, w.keys, nil) // keys that it already has change nothing
	case floor > 0 && changes > 0:
		w.raise(counts)
	default:
		has, err := w.has(changes, counts)
		if err != nil {
			return nil, err
		}
		counts.AddBatch(0, w.keys[has:], w.n[has:], nil)
	}
	return array.Image(m.Page), nil
}

// raise raises the count of every key added since to at least its number of adds. With a floor, not
// all adds were shown to peers, so the adds that the page already has cannot be determined.
func (w *wound) raise(page *arrays.Counting) {
	since := make(map[filter.Key]uint64)
	for i, k := range w.keys {
		since[k] += uint64(w.n[i])
	}
	for _, k := range w.keys {
		if n := min(since[k], filter.Many); n > uint64(page.Count(k)) {
			page.Add(k, uint32(n)-page.Count(k))
		}
	}
}

// has returns the number of later adds that a page already has, given the number of changes by
// which it is newer than the lost page. Every add is one change, except an add of 0 or to a count
// at the maximum.
func (w *wound) has(changes uint64, page *arrays.Counting) (n int, err error) {
	for changes > 0 && n < len(w.keys) {
		if w.n[n] > 0 {
			changes--
		}
		if page.Count(w.keys[n]) == filter.Many {
			return 0, fmt.Errorf("%w: which of its adds it has is not known", ErrOtherPage)
		}
		n++
	}
	if changes > 0 {
		return 0, fmt.Errorf("%w: it has more than was ever added", ErrOtherPage)
	}
	return n, nil
}
