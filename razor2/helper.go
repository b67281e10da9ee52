package razor2

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/door"
	"github.com/bulkhead-mail/bulkhead/signature/razor"
)

// A Helper answers the razor module of rspamd: a connection brings one mail, and
// the answer is "spam" or "ham", without a line end. A mail that cannot be looked
// up gets no answer, which rspamd takes for a failure. Set the fields before
// Serve.
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
	spam, err := h.spam(ctx, mail, bulkhead.Reporter{Addr: c.Client()})
	if err != nil {
		h.Log.Error("mail not looked up", "client", c.Client(), "err", err)
		return
	}
	answer := "ham"
	if spam {
		answer = "spam"
	}
	// A client that has gone away is told nothing.
	_, _ = io.WriteString(c, answer)
}

// spam judges a mail as the client does by default: it is spam if one of its
// parts is, and a part with a contested signature is not looked at. Source:
// docs/specs/razor2.md#client-verdict.
func (h *Helper) spam(ctx context.Context, mail []byte, who bulkhead.Reporter) (bool, error) {
	parts, err := razor.Parts(ctx, mail)
	if err != nil {
		return false, err
	}
	for _, p := range parts {
		var sigs []bulkhead.Signature
		if p.Listable() {
			sigs = append(sigs, p.E4)
		}
		sigs = append(sigs, p.E8...)
		for len(sigs) > 0 {
			n := min(len(sigs), maxSignatures)
			v, err := h.Clearinghouse.Check(ctx, bulkhead.Query{Signatures: sigs[:n], Reporter: who})
			if err != nil {
				return false, err
			}
			if v.Whitelisted != "" {
				return false, nil
			}
			if listedPart(v.Findings) {
				if h.Cleared == nil {
					return true, nil
				}
				cleared, err := h.Cleared(ctx, mail)
				return !cleared && err == nil, err
			}
			sigs = sigs[n:]
		}
	}
	return false, nil
}

func listedPart(findings []bulkhead.Finding) bool {
	listed := false
	for i := range findings {
		f := &findings[i]
		if f.Judged == bulkhead.JudgedSpam {
			if f.Contested {
				return false
			}
			listed = true
		}
	}
	return listed
}
