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
	"github.com/bulkhead-mail/bulkhead/internal/listen"
	"github.com/bulkhead-mail/bulkhead/signature"
)

// DefaultMaxMail is the largest mail in bytes that a [Helper] takes.
const DefaultMaxMail = 32 << 20

// A Helper answers the razor module of rspamd: a connection brings one mail, up
// to the end of what the client writes, and the answer is "spam" or "ham",
// without a line end. A mail that is too large or cannot be looked up gets no
// answer, which rspamd takes for a failure. Set the fields before Serve.
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
// razor2.md section 11.
func (h *Helper) spam(ctx context.Context, mail []byte, who bulkhead.Reporter) (bool, error) {
	for _, p := range signature.RazorParts(mail) {
		var sigs []bulkhead.Signature
		if p.Listable() {
			sigs = append(sigs, p.E4)
		}
		sigs = append(sigs, p.E8...)
		for len(sigs) > 0 {
			n := min(len(sigs), maxSignatures)
			v, err := h.House.Check(ctx, bulkhead.Query{Signatures: sigs[:n], Reporter: who})
			if err != nil {
				return false, err
			}
			if listedPart(v.Findings) && v.Whitelisted == "" {
				return true, nil
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
