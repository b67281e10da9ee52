package policy

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bulkhead-mail/bulkhead/door"
)

// DefaultIdleTime is how long a connection may be idle. Postfix closes its own side
// after 300 s (smtpd_policy_service_timeout is 100 s, max_idle is 300 s).
const DefaultIdleTime = 330 * time.Second

// An Action is what a [Limiter] decides. An unknown action is the same as Dunno.
type Action string

// The actions, and the answers to Postfix. Source: docs/protocols/policy.md#answers.
const (
	Dunno  Action = "dunno"  // DUNNO
	Defer  Action = "defer"  // 450 4.7.1 TEXT
	Reject Action = "reject" // 550 5.7.1 TEXT
	Hold   Action = "hold"   // HOLD TEXT
	Header Action = "header" // PREPEND TEXT, where TEXT is a header field
	Log    Action = "log"    // INFO TEXT: accepted, and TEXT in Postfix's log
	Delay  Action = "delay"  // sleep TEXT, where TEXT is a number of seconds, up to 999
)

// A Limiter decides one request. attr returns the value of an attribute, nil if the
// request does not have it. It must not block for long, and must not keep what attr
// returns. On an error the server fails open, or defers, see [Server].FailDefer. It is
// called concurrently.
type Limiter interface {
	Limit(ctx context.Context, attr func(name string) []byte) (action Action, text string, err error)
}

// A Server answers policy requests. Set the fields before Serve.
type Server struct {
	Limiter Limiter
	// FailDefer answers "defer" when the Limiter fails; otherwise mail passes.
	FailDefer bool
	// MaxConns and MaxConnsPerClient cap the open connections, see [door.StreamServer].
	// Postfix opens one for each of its smtpd processes, all from one address, so 0
	// means no cap for a client.
	MaxConns          int
	MaxConnsPerClient int
	// IdleTime is how long a connection may be idle between requests; 0 means
	// DefaultIdleTime.
	IdleTime time.Duration
	// Rate limits the requests of one client; a client above it is disconnected, and
	// Postfix defers the mail.
	Rate door.Rate
	// Exempt lists the clients that Rate does not apply to.
	Exempt []netip.Prefix
	// Log records malformed requests and faults; nil discards them.
	Log *slog.Logger
	// Stats are the counters.
	Stats Stats

	once   sync.Once
	stream door.StreamServer
}

// Stats are the counters of a [Server]; all may be read at any time.
type Stats struct {
	Requests  atomic.Int64 // requests that were answered
	Deferred  atomic.Int64
	Rejected  atomic.Int64
	Held      atomic.Int64
	Annotated atomic.Int64 // accepted, with a header field or a line for the log
	Delayed   atomic.Int64 // accepted after some time
	Malformed atomic.Int64 // connections closed because of a request that broke the rules
	Faults    atomic.Int64 // requests for which the Limiter had no answer
}

// Serve serves the connections of l until Shutdown, then returns
// door.ErrServerClosed; or until l fails. It may be called concurrently, for several
// listeners.
func (s *Server) Serve(l net.Listener) error {
	s.once.Do(func() {
		if s.Log == nil {
			s.Log = slog.New(slog.DiscardHandler)
		}
		s.stream.Handler, s.stream.Log, s.stream.RequestTime = s.serve, s.Log, s.IdleTime
		s.stream.MaxConns, s.stream.MaxConnsPerClient = s.MaxConns, s.MaxConnsPerClient
		s.stream.Refusal = []byte(dunno)
		if s.FailDefer {
			s.stream.Refusal = []byte("action=450 4.7.1 policy service is busy, try again later\n\n")
		}
		s.stream.RequestRate, s.stream.Exempt = s.Rate, s.Exempt
		if s.MaxConnsPerClient == 0 {
			s.stream.MaxConnsPerClient = -1
		}
		if s.IdleTime == 0 {
			s.stream.RequestTime = DefaultIdleTime
		}
	})
	return s.stream.Serve(l)
}

// Shutdown ends the server when current requests are answered, or ctx ends; see
// [door.StreamServer.Shutdown].
func (s *Server) Shutdown(ctx context.Context) error { return s.stream.Shutdown(ctx) }

// ConnStats returns the counters of the connections.
func (s *Server) ConnStats() *door.ConnStats { return &s.stream.Stats }

// serve answers the requests of one connection. A malformed request ends it without an
// answer, as the protocol demands: Postfix logs that and tries again.
func (s *Server) serve(ctx context.Context, c *door.Conn) {
	r := bufio.NewReaderSize(c, 4<<10)
	var in, out []byte
	var req Request
	for !c.Draining() {
		c.Await()
		var err error
		if in, err = readRequest(r, in[:0]); err == nil {
			err = req.ParseRequest(in)
		}
		if err != nil {
			s.ended(c, err)
			return
		}
		if !c.Allow(1) {
			s.Log.Warn("policy client exceeds its rate", "client", c.Client())
			return
		}
		out = s.answer(ctx, &req, out[:0])
		if _, err := c.Write(out); err != nil {
			return
		}
	}
}

// ended logs why a connection ends, unless the client just went away.
func (s *Server) ended(c *door.Conn, err error) {
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, net.ErrClosed):
		return
	}
	var op *net.OpError
	if errors.As(err, &op) {
		return
	}
	s.Stats.Malformed.Add(1)
	s.Log.Warn("policy request refused", "client", c.Client(), "err", err)
}

// readRequest appends the next request, without the empty line that ends it, to dst. It
// returns io.EOF only if the client closed between two requests, and stops early at
// anything that ParseRequest refuses.
func readRequest(r *bufio.Reader, dst []byte) ([]byte, error) {
	atStart := true // of a line
	for {
		line, err := r.ReadSlice('\n')
		if atStart && len(line) == 1 && err == nil {
			return dst, nil
		}
		dst = append(dst, line...)
		if len(dst) > MaxRequest || atStart && err == nil && bytes.IndexByte(line, '=') < 0 {
			return dst, nil // ParseRequest refuses it, without waiting for an end
		}
		switch {
		case err == nil:
			atStart = true
		case errors.Is(err, bufio.ErrBufferFull):
			atStart = false
		case errors.Is(err, io.EOF) && len(dst) > 0:
			return dst, io.ErrUnexpectedEOF
		default:
			return dst, err
		}
	}
}

// dunno is the answer that decides nothing.
const dunno = "action=DUNNO\n\n"

// answer appends the answer to one request to dst.
func (s *Server) answer(ctx context.Context, req *Request, dst []byte) []byte {
	s.Stats.Requests.Add(1)
	action, text, err := s.Limiter.Limit(ctx, req.Get)
	if err != nil {
		s.Stats.Faults.Add(1)
		s.Log.Error("policy request failed", "err", err, "defer", s.FailDefer)
		action = Dunno
		if s.FailDefer {
			action, text = Defer, "policy service is out of order, try again later"
		}
	}
	switch action {
	case Defer:
		s.Stats.Deferred.Add(1)
		dst = append(dst, "action=450 4.7.1 "...)
	case Reject:
		s.Stats.Rejected.Add(1)
		dst = append(dst, "action=550 5.7.1 "...)
	case Hold:
		s.Stats.Held.Add(1)
		dst = append(dst, "action=HOLD "...)
	case Header:
		s.Stats.Annotated.Add(1)
		dst = append(dst, "action=PREPEND "...)
	case Log:
		s.Stats.Annotated.Add(1)
		dst = append(dst, "action=INFO "...)
	case Delay:
		if !seconds(text) {
			return append(dst, dunno...)
		}
		s.Stats.Delayed.Add(1)
		dst = append(dst, "action=sleep "...)
	default:
		return append(dst, dunno...)
	}
	return append(appendText(dst, text), "\n\n"...)
}

// seconds reports whether text is what Postfix takes for a time to sleep. It defers mail for
// anything else.
func seconds(text string) bool {
	return text != "" && len(text) <= 3 && strings.Trim(text, "0123456789") == ""
}

// appendText appends text as one line of printable ASCII.
func appendText(dst []byte, text string) []byte {
	for _, c := range []byte(text) {
		if c < ' ' || c > '~' {
			c = '?'
		}
		dst = append(dst, c)
	}
	return bytes.TrimRight(dst, " ")
}
