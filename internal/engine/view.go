package engine

import (
	"github.com/bulkhead-mail/bulkhead/internal/engine/book"
	"github.com/bulkhead-mail/bulkhead/internal/engine/evidence"
	"github.com/bulkhead-mail/bulkhead/internal/engine/keys"
	"github.com/bulkhead-mail/bulkhead/internal/engine/replica"
	"github.com/bulkhead-mail/bulkhead/internal/engine/verdict"
)

// books are the node's own books. They never change: whoever changes anything makes
// new ones.
type books struct {
	tally   book.Book[*book.Tally]
	block   book.Book[*book.Block]
	secrets *keys.Secrets // that the generations were made with
}

// evidence returns what there is to read.
func (v view) evidence() evidence.View {
	out := evidence.View{Tally: v.tally, Block: v.block, Remote: v.remote}
	if len(v.secrets.IDs) > 1 {
		out.KeyIDs = v.secrets.IDs
	}
	return out
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
func (e *Engine) sources() *sources {
	v, promotion := e.view(), e.policy().Promotion
	if s := e.read.Load(); s != nil && s.view == v && s.promotion == promotion {
		return s
	}
	s := &sources{evidence.NewSources(v.evidence(), promotion), v, promotion}
	s.Mature = e.mature(s)
	e.read.Store(s)
	return s
}

// mature reports whether the node knows what mail usually comes to it. What came before
// today decides, which changes only where a view does.
func (e *Engine) mature(s *sources) bool {
	maker := s.view.secrets.Maker()
	r := evidence.Reader{Keys: maker, Day: e.day()}
	r.Begin(s.Sources)
	var all [1]evidence.Record
	r.Read([]evidence.Ask{{Key: maker.Everything(), Wants: evidence.Delivered | evidence.Names}}, all[:])
	return verdict.Mature(&all[0].Evidence)
}
