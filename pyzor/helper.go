package pyzor

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/listen"
	"github.com/bulkhead-mail/bulkhead/signature"
)

// DefaultMaxMail is the largest mail in bytes that a [Helper] takes.
const DefaultMaxMail = 32 << 20

// A Helper answers the pyzor module of rspamd: a connection brings one mail, up
// to the end of what the client writes, and the answer is the line that the
// pyzor command prints: host:port, status, spam votes and ham votes, with tabs
// between. A mail that is too large or cannot be looked up gets no answer, which
// rspamd takes for a failure. Set the fields before Serve.
type Helper struct {
	House bulkhead.Clearinghouse
	// MaxMail is the largest mail in bytes; 0 means DefaultMaxMail.
	MaxMail int64
	// Rate limits the mails of one client; Exempt lists clients without limit.
	Rate     listen.Rate
	Exempt   []netip.Prefix
	MaxConns int           // 0: listen.DefaultMaxConns
	Time     time.Duration // that a mail may take to arrive; 0 means 30 seconds
	Log      *slog.Logger  // nil discards

	once   sync.Once
	stream *listen.StreamServer
}

// Serve serves the connections of l until ctx ends.
func (h *Helper) Serve(ctx context.Context, l net.Listener) error {
	h.once.Do(func() {
		if h.MaxMail == 0 {
			h.MaxMail = DefaultMaxMail
		}
		if h.Time == 0 {
			h.Time = 30 * time.Second
		}
		if h.Log == nil {
			h.Log = slog.New(slog.DiscardHandler)
		}
		h.stream = &listen.StreamServer{
			Handler: h.handle, MaxConns: h.MaxConns, RequestRate: h.Rate, Exempt: h.Exempt,
			RequestTime: h.Time, Log: h.Log,
		}
	})
	return h.stream.Serve(ctx, l)
}

func (h *Helper) handle(ctx context.Context, c *listen.Conn) {
	if !c.Allow(1) {
		return
	}
	mail, err := io.ReadAll(io.LimitReader(c, h.MaxMail+1))
	if err != nil || int64(len(mail)) > h.MaxMail {
		h.Log.Warn("mail not read", "client", c.Client(), "bytes", len(mail), "limit", h.MaxMail, "err", err)
		return
	}
	var f bulkhead.Finding
	if sigs := signature.Pyzor(mail); len(sigs) > 0 {
		v, err := h.House.Check(ctx, bulkhead.Query{Signatures: sigs, Reporter: bulkhead.Reporter{Addr: c.Client()}})
		if err != nil {
			h.Log.Error("mail not looked up", "client", c.Client(), "err", err)
			return
		}
		if v.Whitelisted == "" && len(v.Findings) == 1 {
			f = v.Findings[0]
		}
	}
	spam, ham := counts(&f)
	// A client that has gone away is told nothing.
	_, _ = fmt.Fprintf(c, "%s\t(200, 'OK')\t%d\t%d\n", c.LocalAddr(), spam, ham)
}
