package mesh

import (
	"context"

	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
)

// organisations records which organisations a head lists for the sender's arrays.
func (r *receiver) organisations(ctx context.Context, p *peer, t *track, m *wire.Message) {
	if m.Stamp.Incarnation < t.named.Incarnation || m.Stamp.Incarnation == t.named.Incarnation && !m.Stamp.Newer(t.named) {
		return // replayed by another node
	}
	t.named = m.Stamp
	r.book.figures(p.key.Hint(), func(s *stats) { s.organisations = m.Organisations })
	r.suspend(ctx, p, r.book.twice(p.key.Hint()))
}
