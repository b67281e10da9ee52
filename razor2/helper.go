package razor2

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/digest/razor"
	"github.com/bulkhead-mail/bulkhead/door"
)

// A Helper serves rspamd's razor module: a connection sends one mail, and the answer is
// "spam" or "ham", without a line end. A mail that cannot be looked up gets no answer,
// which rspamd takes for a failure. Set the fields before Serve.
type Helper struct {
	door.MailServer // reads the mails; Serve sets its Handler
	Clearinghouse   bulkhead.Clearinghouse
	// Read returns all signatures of a whole mail and its source, so that the verdict
	// rests on all of it. If its error wraps bulkhead.ErrMalformed, or Read is nil, only
	// Razor's signatures are looked up.
	Read func(ctx context.Context, mail []byte) ([]bulkhead.Signature, bulkhead.Source, error)

	once sync.Once
}

// Serve serves the connections of l until Shutdown, then returns
// door.ErrServerClosed; or until l fails. It may be called concurrently, for several
// listeners.
func (h *Helper) Serve(l net.Listener) error {
	h.once.Do(func() { h.Handler = h.answer })
	return h.MailServer.Serve(l)
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
	_, _ = io.WriteString(c, answer)
}

// spam judges a mail both as a whole and by the client's default rule: it is spam if one of its
// parts is, ignoring parts with a contested signature. The verdict on the whole takes precedence
// over its texts, but not over its links. Source: docs/specs/razor2.md#client-verdict.
func (h *Helper) spam(ctx context.Context, mail []byte, who bulkhead.Reporter) (bool, error) {
	decides := func(*bulkhead.Finding) bool { return true }
	if h.Read != nil {
		v, err := h.whole(ctx, mail, who)
		switch {
		case err == nil && (v.Class == bulkhead.ClassSpam || v.Class == bulkhead.ClassGood):
			return v.Class == bulkhead.ClassSpam, nil
		case err == nil:
			decides = linkListed
		case !errors.Is(err, bulkhead.ErrMalformed):
			return false, err
		}
	}
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
			if listedPart(v.Findings, decides) {
				return true, nil
			}
			sigs = sigs[n:]
		}
	}
	return false, nil
}

// whole returns the verdict on the whole mail. Without signatures, the verdict is unknown.
func (h *Helper) whole(ctx context.Context, mail []byte, who bulkhead.Reporter) (bulkhead.Verdict, error) {
	sigs, source, err := h.Read(ctx, mail)
	if err != nil || len(sigs) == 0 {
		return bulkhead.Verdict{}, err
	}
	return h.Clearinghouse.Check(ctx, bulkhead.Query{Signatures: sigs, Source: source, Reporter: who, Terse: true})
}

// listedPart reports whether a deciding finding is listed, and none is contested.
func listedPart(findings []bulkhead.Finding, decides func(*bulkhead.Finding) bool) bool {
	listed := false
	for i := range findings {
		f := &findings[i]
		if f.Judged == bulkhead.JudgedSpam {
			if f.Contested {
				return false
			}
			listed = listed || decides(f)
		}
	}
	return listed
}
