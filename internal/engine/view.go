package engine

import (
	"github.com/bulkhead-mail/bulkhead/internal/engine/book"
	"github.com/bulkhead-mail/bulkhead/internal/engine/evidence"
	"github.com/bulkhead-mail/bulkhead/internal/engine/replica"
)

// books are the node's own books. They never change: whoever changes anything makes
// new ones.
type books struct {
	tally book.Book[*book.Tally]
	block book.Book[*book.Block]
}

// A view is what look-ups read: the node's own books, and the replicas of those of
// others. Neither changes.
type view struct {
	*books
	remote *replica.View
}

// view returns what there is at present.
func (e *Engine) view() view { return view{e.books.Load(), e.replicas.View()} }

// evidence returns v as it is read.
func (v view) evidence() evidence.View {
	return evidence.View{Tally: v.tally, Block: v.block, Remote: v.remote}
}
