package dcc

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	digests "github.com/bulkhead-mail/bulkhead/digest/dcc"
	"github.com/bulkhead-mail/bulkhead/door"
)

// Defaults of an [Ifd].
const (
	DefaultMaxMessage = 32 << 20         // bytes
	DefaultTimeout    = 10 * time.Second // for one message
)

// An Ifd serves dccifd's socket: a program sends a message with its envelope, and the
// Ifd counts it and answers with its counts. Set the fields before Serve and do not
// change them afterwards.
type Ifd struct {
	Clearinghouse bulkhead.Clearinghouse
	// ServerID and Brand are as in [Server]; Host is the name of this server in
	// headers; "" means the host name.
	ServerID uint32
	Brand    string
	Host     string
	// Keep lists the types that are counted; nil means Body, Fuz1 and Fuz2.
	Keep []digests.Type
	// Rules and Words select how checksums are computed, and Substitute names the header
	// field for the substitute sum; see digests.Options.
	Rules      digests.Rules
	Words      *digests.Words
	Substitute string
	// Signatures returns all signatures of a message and its sender, and its source,
	// from the message, the envelope's sender and the client (which may be invalid).
	// With it, the answer rests on a verdict on the whole message, and its delivery
	// or spam report counts for all front doors. nil means that only the DCC
	// checksums count.
	Signatures func(ctx context.Context, message []byte, sender string, client netip.Addr) ([]bulkhead.Signature,
		bulkhead.Source, error)
	// Cleared reports whether the clearinghouse's own whitelist matches a message, by the
	// envelope's sender, the client (which may be invalid) and the header and, if signatures is
	// set, by its signatures, which takes longer. Its error is the error of ctx. nil clears
	// nothing.
	Cleared func(ctx context.Context, message []byte, sender string, client netip.Addr, signatures bool) (bool, error)
	// Thresholds are the totals at which mail is bulk and refused, by type; nil means
	// that none is. A user's whitelist may override them.
	Thresholds map[digests.Type]uint32
	// White returns the whitelist of all users, UserWhite the whitelist of one user; either may be
	// nil or return nil. UserWhite is given names as callers send them.
	White     func() *Whitelist
	UserWhite func(user string) *Whitelist
	// Grey delays unknown senders; nil switches greylisting off.
	Grey *Greylist
	// MaxMessage is the size of the largest message in bytes, 0 means the default, and Memory
	// bounds the memory of all messages, each [door.Cost] times its size; nil sets no bound. A
	// message beyond either gets a temporary failure.
	MaxMessage int64
	Memory     *door.Memory
	// Timeout is how long the answer to a message may take; one that takes longer
	// gets a temporary failure. 0 means DefaultTimeout.
	Timeout time.Duration
	// MaxConns caps the connections; 0 means [door.DefaultMaxConns].
	MaxConns int
	// Rate limits the messages of one client, Exempt lists clients that it does
	// not apply to.
	Rate   door.Rate
	Exempt []netip.Prefix
	Now    func() time.Time // nil means time.Now
	Log    *slog.Logger     // nil discards
	Stats  IfdStats

	once   sync.Once
	stream door.StreamServer
	beside door.Work
	book   *book
}

// IfdStats are the counters of an [Ifd]; all may be read at any time.
type IfdStats struct {
	Messages, Reported, Queried, Spam, White      atomic.Int64
	Rejected, Greylisted, Temporary, Bulk, Broken atomic.Int64
}

func (s *Ifd) prepare() error {
	s.once.Do(func() {
		if s.ServerID == 0 {
			s.ServerID = DefaultServerID
		}
		if s.Brand == "" {
			s.Brand = DefaultBrand
		}
		if s.Host == "" {
			s.Host = "localhost"
			if name, err := os.Hostname(); err == nil {
				s.Host, _, _ = strings.Cut(name, ".")
			}
		}
		if s.MaxMessage <= 0 {
			s.MaxMessage = DefaultMaxMessage
		}
		if s.Timeout <= 0 {
			s.Timeout = DefaultTimeout
		}
		if s.Now == nil {
			s.Now = time.Now
		}
		if s.Log == nil {
			s.Log = slog.New(slog.DiscardHandler)
		}
		s.book = newBook(s.Clearinghouse, s.Keep)
		s.stream.Handler, s.stream.Log, s.stream.MaxConns = s.handle, s.Log, s.MaxConns
		s.stream.Refusal = temporary(&ifdRequest{recipients: make([]ifdRecipient, 1)})
		s.stream.RequestRate, s.stream.Exempt = s.Rate, s.Exempt
	})
	return checkBrand(s.Brand)
}

// Serve serves the connections of l, of TCP or a unix socket, until Shutdown, then
// returns door.ErrServerClosed; or until l fails. The address, or the permissions of
// the socket's folder, decide who may connect: the protocol has no passwords. It may
// be called concurrently, for several listeners.
func (s *Ifd) Serve(l net.Listener) error {
	if err := s.prepare(); err != nil {
		l.Close()
		return err
	}
	return s.beside.During(s.follow, func() error { return s.stream.Serve(l) })
}

// Shutdown ends the server when the messages under way are answered, or ctx ends;
// see [door.StreamServer.Shutdown].
func (s *Ifd) Shutdown(ctx context.Context) error { return s.stream.Shutdown(ctx) }

// ConnStats returns the counters of the connections.
func (s *Ifd) ConnStats() *door.ConnStats { return &s.stream.Stats }

// follow starts following the book, and returns a function that ends it.
func (s *Ifd) follow() (end func()) {
	var background sync.WaitGroup
	following, stop := context.WithCancel(context.Background())
	background.Go(func() { s.book.follow(following) })
	return func() {
		stop()
		background.Wait()
	}
}

// handle serves one connection: one message.
func (s *Ifd) handle(ctx context.Context, c *door.Conn) {
	in := bufio.NewReaderSize(c, 16<<10)
	q, err := readIfdRequest(in)
	if err != nil {
		s.Stats.Broken.Add(1)
		s.Log.Debug("dccifd request not read", "client", c.Client(), "err", err)
		return
	}
	s.Stats.Messages.Add(1)
	who := bulkhead.Reporter{Addr: c.Client()}
	reply := temporary(q)
	if c.Allow(1) {
		hold := s.Memory.Hold()
		defer hold.Release()
		message, err := s.readMessage(ctx, in, &hold)
		switch {
		case errors.Is(err, bulkhead.ErrOverLimit), errors.Is(err, door.ErrCrowded):
			s.Log.Warn("message not taken", "client", c.Client(), "err", err)
		case err != nil:
			s.Stats.Broken.Add(1)
			return
		default:
			reply = s.answerInTime(ctx, q, message, who)
		}
	}
	if reply[0] == letterTemporary {
		s.Stats.Temporary.Add(1)
		// Unread data would turn the close into a reset.
		io.Copy(io.Discard, io.LimitReader(in, s.MaxMessage))
	}
	if _, err := c.Write(reply); err != nil {
		s.Log.Debug("dccifd reply not sent", "client", c.Client(), "err", err)
	}
}

func (s *Ifd) answerInTime(ctx context.Context, q *ifdRequest, message []byte, who bulkhead.Reporter) []byte {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	return s.answer(ctx, q, message, who)
}

func temporary(q *ifdRequest) []byte {
	return []byte("T\n" + strings.Repeat("T", len(q.recipients)) + "\n")
}

// readMessage reads to the end of the stream, within the limits. It waits for memory
// half as long as an answer may take.
func (s *Ifd) readMessage(ctx context.Context, r io.Reader, hold *door.Hold) ([]byte, error) {
	message, err := hold.ReadAll(ctx, io.LimitReader(r, s.MaxMessage+1), -1, s.Timeout/2)
	if err == nil && int64(len(message)) > s.MaxMessage {
		return nil, fmt.Errorf("dcc: %w: message of more than %d bytes", bulkhead.ErrOverLimit, s.MaxMessage)
	}
	return message, err
}
