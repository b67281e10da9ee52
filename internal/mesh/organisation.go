package mesh

import (
	"context"

	"github.com/bulkhead-mail/bulkhead/internal/mesh/member"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
)

// organisations records which organisations a head lists for the sender's arrays.
func (r *receiver) organisations(ctx context.Context, p *member.Peer, t *track, m *wire.Message) {
	if m.Stamp.Incarnation < t.named.Incarnation || m.Stamp.Incarnation == t.named.Incarnation && !m.Stamp.Newer(t.named) {
		return // replayed by another node
	}
	t.named = m.Stamp
	r.book.Figures(p.Key.Hint(), func(s *member.Stats) { s.Organisations = m.Organisations })
	r.suspend(ctx, p, r.book.CountedTwice(p.Key.Hint()))
}
