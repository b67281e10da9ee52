package razor2

import (
	"context"
	"io"
	"net"

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
	*door.MailServer
}

// Serve serves the connections of l until ctx ends.
func (h *Helper) Serve(ctx context.Context, l net.Listener) error {
	return h.MailServer.Serve(ctx, l, h.answer)
}

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
