package engine

import (
	"github.com/bulkhead-mail/bulkhead/internal/engine/book"
	"github.com/bulkhead-mail/bulkhead/internal/engine/evidence"
	"github.com/bulkhead-mail/bulkhead/internal/engine/keys"
	"github.com/bulkhead-mail/bulkhead/internal/engine/replica"
	"github.com/bulkhead-mail/bulkhead/internal/engine/verdict"
)

// books are the node's own books. They are immutable: a change makes new ones.
type books struct {
	tally   book.Book[*book.Tally]
	block   book.Book[*book.Block]
	secrets *keys.Secrets // that the generations were made with
}

// evidence returns the view for package evidence.
func (v view) evidence() evidence.View {
	out := evidence.View{Tally: v.tally, Block: v.block, Remote: v.remote}
	if len(v.secrets.IDs) > 1 {
		out.KeyIDs = v.secrets.IDs
	}
	return out
}

// A view is the data that look-ups read: the node's own books, and the replicas of peers. Both are
// immutable.
type view struct {
	*books
	remote *replica.View
}

// view returns the current view.
func (e *Engine) view() view { return view{e.books.Load(), e.replicas.View()} }

// sources are the parts of a view that look-ups read.
type sources struct {
	*evidence.Sources
	view      view
	promotion float64
}

// sources returns the current sources. It makes new ones when the view or the promotion weight has
// changed.
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

// mature reports whether the node is mature. Only deliveries before today count, so the
// result changes only with a view.
func (e *Engine) mature(s *sources) bool {
	maker := s.view.secrets.Maker()
	r := evidence.Reader{Keys: maker, Day: e.day()}
	r.Begin(s.Sources)
	var all [1]evidence.Record
	r.Read([]evidence.Ask{{Key: maker.Everything(), Wants: evidence.Delivered | evidence.Names}}, all[:])
	return verdict.Mature(&all[0].Evidence)
}
