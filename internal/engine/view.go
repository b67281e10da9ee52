package engine

import (
	"slices"

	"github.com/bulkhead-mail/bulkhead/internal/engine/book"
)

// A view is what look-ups read: the node's own books and the replicas of those of
// others. It never changes: whoever changes anything makes a new one.
type view struct {
	tally book.Book[*book.Tally]
	block book.Book[*book.Block]

	remote []*replica // of the origins that count
	merged []*merged  // what the cold arrays of replicas hold

	// What is looked up of merged; see refresh.
	mergedCounts []mergedCounts
	mergedLists  []*mergedList
}

func (v *view) clone() *view {
	c := *v
	c.remote, c.merged = slices.Clone(v.remote), slices.Clone(v.merged)
	return &c
}
