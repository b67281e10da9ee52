package check

import (
	"github.com/bulkhead-mail/bulkhead/internal/engine/evidence"
	"github.com/bulkhead-mail/bulkhead/internal/engine/verdict"
	"github.com/bulkhead-mail/bulkhead/internal/engine/view"
)

// Sources are the parts of a view that look-ups read.
type Sources struct {
	*evidence.Sources
	View      view.View
	promotion float64
}

// Sources returns the present sources. It makes new ones when the view or the promotion weight has
// changed.
func (c *Checker) Sources() *Sources {
	v, promotion := c.current.View(), c.Policy().Promotion
	if s := c.read.Load(); s != nil && s.View == v && s.promotion == promotion {
		return s
	}
	s := &Sources{evidence.NewSources(v.Evidence(), promotion), v, promotion}
	s.Mature = c.mature(s)
	c.read.Store(s)
	return s
}

// mature reports whether the node is mature. Only deliveries before today count, so the
// result changes only with a view.
func (c *Checker) mature(s *Sources) bool {
	maker := s.View.Secrets.Maker()
	r := evidence.Reader{Keys: maker, Day: c.opts.Day}
	r.Begin(s.Sources)
	var all [1]evidence.Record
	r.Read([]evidence.Ask{{Key: maker.Everything(), Wants: evidence.Delivered | evidence.Names}}, all[:])
	return verdict.Mature(&all[0].Evidence)
}
