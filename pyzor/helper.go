package pyzor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"

	"github.com/bulkhead-mail/bulkhead"
	digests "github.com/bulkhead-mail/bulkhead/digest/pyzor"
	"github.com/bulkhead-mail/bulkhead/door"
)

// A Helper serves rspamd's pyzor module: a connection sends one mail, and the answer is
// the line that the pyzor command prints: host:port, status, spam votes and ham votes,
// separated by tabs. A mail that cannot be looked up gets no answer, which rspamd takes
// for a failure. Set the fields before Serve.
type Helper struct {
	door.MailServer // reads the mails; Serve sets its Handler
	Clearinghouse   bulkhead.Clearinghouse
	// Read returns all signatures of a whole mail and its source, so that the verdict
	// rests on all of it. If its error wraps bulkhead.ErrMalformed, or Read is nil, only
	// the digest is looked up.
	Read func(ctx context.Context, mail []byte) ([]bulkhead.Signature, bulkhead.Source, error)
	// Listed has the meaning of Listed in a [Server].
	Listed int

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
	spam, ham, err := h.look(ctx, mail, bulkhead.Reporter{Addr: c.Client()})
	if err != nil {
		h.Log.Error("mail not looked up", "client", c.Client(), "err", err)
		return
	}
	_, _ = fmt.Fprintf(c, "%s\t(200, 'OK')\t%d\t%d\n", c.LocalAddr(), spam, ham)
}

// look returns the votes on a mail.
func (h *Helper) look(ctx context.Context, mail []byte, who bulkhead.Reporter) (spam, ham int64, err error) {
	sigs, err := digests.Signatures(ctx, mail)
	if err != nil {
		return 0, 0, err
	}
	q := bulkhead.Query{Signatures: sigs, Reporter: who, Terse: true}
	if h.Read != nil {
		all, source, err := h.Read(ctx, mail)
		if err != nil && !errors.Is(err, bulkhead.ErrMalformed) {
			return 0, 0, err
		}
		q.Source = source
		for _, sig := range all {
			if !slices.Contains(sigs, sig) {
				q.Signatures = append(q.Signatures, sig)
			}
		}
	}
	if len(q.Signatures) == 0 {
		return 0, 0, nil
	}
	v, err := h.Clearinghouse.Check(ctx, q)
	if err != nil {
		return 0, 0, err
	}
	spam, ham, _ = counts(&v, h.Listed)
	return spam, ham, nil
}
