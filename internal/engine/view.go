package engine

import (
	"github.com/bulkhead-mail/bulkhead/internal/engine/book"
	"github.com/bulkhead-mail/bulkhead/internal/engine/evidence"
	"github.com/bulkhead-mail/bulkhead/internal/engine/replica"
	"github.com/bulkhead-mail/bulkhead/internal/engine/verdict"
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

// sources are what look-ups read of a view.
type sources struct {
	*evidence.Sources
	view      view
	promotion float64
}

// sources returns what there is to read at present. They are made anew when the view
// or the promotion weight has changed.
func (e *Engine) sources() *evidence.Sources {
	v, promotion := e.view(), e.policy().Promotion
	if s := e.read.Load(); s != nil && s.view == v && s.promotion == promotion {
		return s.Sources
	}
	s := &sources{evidence.NewSources(evidence.View{Tally: v.tally, Block: v.block, Remote: v.remote}, promotion), v, promotion}
	s.Mature = e.mature(s.Sources)
	e.read.Store(s)
	return s.Sources
}

// mature reports whether the node knows what mail usually comes to it. What came before
// today decides, which changes only where a view does.
func (e *Engine) mature(s *evidence.Sources) bool {
	r := evidence.Reader{Keys: e.keys, Day: e.day()}
	r.Begin(s)
	var all [1]evidence.Record
	r.Read([]evidence.Ask{{Key: e.keys.Everything(), Wants: evidence.Delivered | evidence.Names}}, all[:])
	return verdict.Mature(&all[0].Evidence)
}
