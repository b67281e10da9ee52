package door

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"
)

// DefaultMaxMail is the largest mail in bytes that a [MailServer] takes.
const DefaultMaxMail = 32 << 20

// A MailServer reads one mail from each connection, up to the end of what the
// client writes, as the modules of rspamd send it that otherwise start a
// command. A mail that is too large gets no answer, which they take for a
// failure. Set the fields before Serve.
type MailServer struct {
	// MaxMail is the largest mail in bytes; 0 means DefaultMaxMail.
	MaxMail int64
	// Rate limits the mails of one client; Exempt lists clients without limit.
	Rate     Rate
	Exempt   []netip.Prefix
	MaxConns int           // 0: DefaultMaxConns
	Time     time.Duration // that a mail may take to arrive, and again its answer; 0 means 30 seconds
	Log      *slog.Logger  // nil discards

	once   sync.Once
	stream *StreamServer
}

// Serve serves the connections of l until ctx ends and calls answer with each
// mail, which must return when its context ends. All calls must have the same answer.
func (m *MailServer) Serve(ctx context.Context, l net.Listener, answer func(ctx context.Context, c *Conn, mail []byte)) error {
	m.once.Do(func() {
		if m.MaxMail == 0 {
			m.MaxMail = DefaultMaxMail
		}
		if m.Time == 0 {
			m.Time = 30 * time.Second
		}
		if m.Log == nil {
			m.Log = slog.New(slog.DiscardHandler)
		}
		m.stream = &StreamServer{
			MaxConns: m.MaxConns, RequestRate: m.Rate, Exempt: m.Exempt, RequestTime: m.Time, Log: m.Log,
			Handler: func(ctx context.Context, c *Conn) {
				if mail, ok := m.read(c); ok {
					ctx, cancel := context.WithTimeout(ctx, m.Time)
					defer cancel()
					answer(ctx, c, mail)
				}
			},
		}
	})
	return m.stream.Serve(ctx, l)
}

func (m *MailServer) read(c *Conn) ([]byte, bool) {
	if !c.Allow(1) {
		return nil, false
	}
	mail, err := io.ReadAll(io.LimitReader(c, m.MaxMail+1))
	if err != nil || int64(len(mail)) > m.MaxMail {
		m.Log.Warn("mail not read", "client", c.Client(), "bytes", len(mail), "limit", m.MaxMail, "err", err)
		return nil, false
	}
	return mail, true
}
