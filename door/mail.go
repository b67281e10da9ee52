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

// The defaults of a [MailServer].
const (
	DefaultMaxMail  = 32 << 20 // bytes
	DefaultMailTime = 30 * time.Second
)

// A MailServer reads one message from each connection, up to the end of the client's data. The
// rspamd modules that replace a command send messages in this way. A message that is too large gets
// no answer, which the modules take for a failure. Set the fields before Serve.
type MailServer struct {
	// Handler answers one mail, and must return when its context ends.
	Handler func(ctx context.Context, c *Conn, mail []byte)
	// MaxMail is the largest mail in bytes; 0 means DefaultMaxMail.
	MaxMail int64
	// Rate limits the mails of one client; Exempt lists clients without limit.
	Rate     Rate
	Exempt   []netip.Prefix
	MaxConns int // 0 means DefaultMaxConns
	// Memory bounds the memory of mails, each [Cost] times its size; nil sets no bound. A mail that
	// finds no memory gets no answer.
	Memory *Memory
	// RequestTime limits the time for a mail to arrive, and again the time for its answer; 0 means
	// DefaultMailTime.
	RequestTime time.Duration
	Log         *slog.Logger // nil discards

	once   sync.Once
	stream StreamServer
}

func (m *MailServer) prepare() {
	m.once.Do(func() {
		m.MaxMail = orDefault(m.MaxMail, DefaultMaxMail)
		m.RequestTime = orDefault(m.RequestTime, DefaultMailTime)
		if m.Log == nil {
			m.Log = slog.New(slog.DiscardHandler)
		}
		m.stream.MaxConns, m.stream.RequestRate, m.stream.Exempt = m.MaxConns, m.Rate, m.Exempt
		m.stream.RequestTime, m.stream.Log, m.stream.Handler = m.RequestTime, m.Log, m.handle
	})
}

// Serve serves the connections of l; see [StreamServer.Serve].
func (m *MailServer) Serve(l net.Listener) error {
	m.prepare()
	return m.stream.Serve(l)
}

// Shutdown ends the server; see [StreamServer.Shutdown].
func (m *MailServer) Shutdown(ctx context.Context) error { return m.stream.Shutdown(ctx) }

// ConnStats returns the counters of the connections.
func (m *MailServer) ConnStats() *ConnStats { return &m.stream.Stats }

func (m *MailServer) handle(ctx context.Context, c *Conn) {
	hold := m.Memory.Hold()
	defer hold.Release()
	if mail, ok := m.read(ctx, c, &hold); ok {
		ctx, cancel := context.WithTimeout(ctx, m.RequestTime)
		defer cancel()
		m.Handler(ctx, c, mail)
	}
}

func (m *MailServer) read(ctx context.Context, c *Conn, hold *Hold) ([]byte, bool) {
	if !c.Allow(1) {
		return nil, false
	}
	mail, err := hold.ReadAll(ctx, io.LimitReader(c, m.MaxMail+1), -1, m.RequestTime)
	if err != nil || int64(len(mail)) > m.MaxMail {
		m.Log.Warn("mail not read", "client", c.Client(), "bytes", len(mail), "limit", m.MaxMail, "err", err)
		return nil, false
	}
	return mail, true
}
