package mesh

import (
	"context"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
)

// JoinBy presents an invitation to its inviter, at one hub after the other: see [JoinAt].
func JoinBy(ctx context.Context, v *Invitation, id *Identity, name string, now func() time.Time) (Joined, error) {
	ask := func(ctx context.Context, hub, invitation string, inviter wire.Public, request []byte) ([]byte, bool, error) {
		return askToJoin(ctx, id, hub, invitation, inviter, request)
	}
	return JoinAt(ctx, ask, v, id, name, now)
}
