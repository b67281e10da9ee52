package doors

import (
	"context"
	"net"
	"os"

	"github.com/bulkhead-mail/bulkhead/internal/api"
	"github.com/bulkhead-mail/bulkhead/internal/local"
)

// withPeer is the ConnContext of the HTTP server. It adds the process at the other end of a unix
// socket.
func (s *Set) withPeer(ctx context.Context, conn net.Conn) context.Context {
	capped, ok := conn.(cappedConn)
	if !ok { // TLS is never on a unix socket
		return ctx
	}
	c, ok := capped.Conn.(*net.UnixConn)
	if !ok {
		return ctx
	}
	uid, gid, err := local.PeerOf(c)
	if err != nil {
		s.opts.Log.Warn("process on the node's socket cannot be identified", "err", err,
			"consequence", "it has the rights of any user")
		return api.WithPeer(ctx, api.Peer{UID: local.Overflow})
	}
	own := uint32(os.Geteuid())
	return api.WithPeer(ctx, api.Peer{UID: uid, Admin: local.Administers(uid, gid, own, local.Member)})
}
