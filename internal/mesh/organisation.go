package mesh

import (
	"context"

	"github.com/bulkhead-mail/bulkhead/internal/mesh/member"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
)

// organisations records which organisations a head lists for the sender's arrays.
func (o *origin) organisations(ctx context.Context, m *wire.Message) {
	if m.Stamp.Incarnation < o.named.Incarnation || m.Stamp.Incarnation == o.named.Incarnation && !m.Stamp.Newer(o.named) {
		return // replayed by another node
	}
	o.named = m.Stamp
	o.r.book.Figures(o.peer.Key.Hint(), func(s *member.Stats) { s.Organisations = m.Organisations })
	o.suspend(ctx, o.r.book.CountedTwice(o.peer.Key.Hint()))
}
