package resolve

import (
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/engine/book"
)

// An overlay is what the decisions of the batch so far will do to the arrays. It
// implements evidence.Overlay.
type overlay struct {
	tally, block uint64 // starts of the open generations
	counts       map[filter.Key]uint32
	names        map[filter.Key]uint32
	weights      map[cell]uint32
	unique       map[filter.Key]bool // of the tally
	voted        map[filter.Key]bool
	spam         map[filter.Key]bool
	revoked      map[filter.Key]bool
}

// A cell is one of the weights of a generation.
type cell struct {
	gen uint64
	key filter.Key
}

func newOverlay() overlay {
	return overlay{
		counts: make(map[filter.Key]uint32), names: make(map[filter.Key]uint32), weights: make(map[cell]uint32),
		unique: make(map[filter.Key]bool), voted: make(map[filter.Key]bool),
		spam: make(map[filter.Key]bool), revoked: make(map[filter.Key]bool),
	}
}

func (o *overlay) begin(tally, block uint64) {
	o.tally, o.block = tally, block
	empty(&o.counts)
	empty(&o.names)
	empty(&o.weights)
	empty(&o.unique)
	empty(&o.voted)
	empty(&o.spam)
	empty(&o.revoked)
}

// empty empties a map. One that has grown large is made anew: clearing it would take as long
// with every batch after, however few entries it had.
func empty[K comparable, V any](m *map[K]V) {
	const large = 1 << 12
	if len(*m) > large {
		*m = make(map[K]V)
		return
	}
	clear(*m)
}

// Counts implements evidence.Overlay.
func (o *overlay) Counts(gen uint64, keys []filter.Key, n []uint32) {
	if gen == o.tally {
		raise(o.counts, keys, n)
	}
}

func raise(m map[filter.Key]uint32, keys []filter.Key, n []uint32) {
	for i, k := range keys {
		n[i] = book.Add(n[i], m[k])
	}
}

// Weights implements evidence.Overlay.
func (o *overlay) Weights(gen uint64, keys []filter.Key, n []uint32) {
	for i, k := range keys {
		n[i] = book.Add(n[i], o.weights[cell{gen, k}])
	}
}

// Spam implements evidence.Overlay.
func (o *overlay) Spam(gen uint64, keys []filter.Key, has []bool) {
	if gen == o.block {
		also(o.spam, keys, has)
	}
}

// Revoked implements evidence.Overlay.
func (o *overlay) Revoked(gen uint64, keys []filter.Key, has []bool) {
	if gen == o.block {
		also(o.revoked, keys, has)
	}
}

func also(m map[filter.Key]bool, keys []filter.Key, has []bool) {
	for i, k := range keys {
		has[i] = has[i] || m[k]
	}
}
