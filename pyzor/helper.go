package pyzor

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/door"
	digests "github.com/bulkhead-mail/bulkhead/signature/pyzor"
)

// A Helper answers the pyzor module of rspamd: a connection brings one mail, and
// the answer is the line that the pyzor command prints: host:port, status, spam
// votes and ham votes, with tabs between. A mail that cannot be looked up gets no
// answer, which rspamd takes for a failure. Set the fields before Serve.
type Helper struct {
	Clearinghouse bulkhead.Clearinghouse
	// Cleared reports whether the clearinghouse's white list has a mail, by any of
	// its signatures or by what its header says of where it comes from; its error
	// is that of ctx. nil clears nothing.
	Cleared func(ctx context.Context, mail []byte) (bool, error)
	// MaxMail is the largest mail in bytes; 0 means door.DefaultMaxMail.
	MaxMail int64
	// Rate limits the mails of one client; Exempt lists clients without limit.
	Rate   door.Rate
	Exempt []netip.Prefix
	// MaxConns caps the connections; 0 means door.DefaultMaxConns.
	MaxConns int
	// RequestTime is how long a mail may take to arrive, and again its answer; 0
	// means door.DefaultMailTime.
	RequestTime time.Duration
	Log         *slog.Logger // nil discards

	once   sync.Once
	server door.MailServer
}

// Serve serves the connections of l until Shutdown, then returns
// door.ErrServerClosed; or until l fails. It may be called at once for several
// listeners.
func (h *Helper) Serve(l net.Listener) error {
	h.once.Do(func() {
		if h.Log == nil {
			h.Log = slog.New(slog.DiscardHandler)
		}
		h.server.Handler, h.server.Log, h.server.MaxMail = h.answer, h.Log, h.MaxMail
		h.server.Rate, h.server.Exempt = h.Rate, h.Exempt
		h.server.MaxConns, h.server.RequestTime = h.MaxConns, h.RequestTime
	})
	return h.server.Serve(l)
}

// Shutdown ends the helper when the mails under way are answered, or ctx ends; see
// [door.StreamServer.Shutdown].
func (h *Helper) Shutdown(ctx context.Context) error { return h.server.Shutdown(ctx) }

// ConnStats returns the counters of the connections.
func (h *Helper) ConnStats() *door.ConnStats { return h.server.ConnStats() }

func (h *Helper) answer(ctx context.Context, c *door.Conn, mail []byte) {
	spam, ham, err := h.look(ctx, mail, bulkhead.Reporter{Addr: c.Client()})
	if err != nil {
		h.Log.Error("mail not looked up", "client", c.Client(), "err", err)
		return
	}
	// A client that has gone away is told nothing.
	_, _ = fmt.Fprintf(c, "%s\t(200, 'OK')\t%d\t%d\n", c.LocalAddr(), spam, ham)
}

// look returns the votes on a mail.
func (h *Helper) look(ctx context.Context, mail []byte, who bulkhead.Reporter) (spam, ham int64, err error) {
	var f bulkhead.Finding
	sigs, err := digests.Signatures(ctx, mail)
	if err != nil {
		return 0, 0, err
	}
	if len(sigs) > 0 {
		v, err := h.Clearinghouse.Check(ctx, bulkhead.Query{Signatures: sigs, Reporter: who})
		if err != nil {
			return 0, 0, err
		}
		if v.Whitelisted == "" && len(v.Findings) == 1 {
			f = v.Findings[0]
		}
		if f.Spam > 0 && h.Cleared != nil {
			cleared, err := h.Cleared(ctx, mail)
			if err != nil {
				return 0, 0, err
			}
			if cleared {
				f = bulkhead.Finding{}
			}
		}
	}
	spam, ham = counts(&f)
	return spam, ham, nil
}
