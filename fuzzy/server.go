package fuzzy

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/door"
	"github.com/bulkhead-mail/bulkhead/internal/ledger"
)

// Defaults of a [Server].
const (
	DefaultSharedKeys = 4096             // pairs of keys whose shared key is remembered
	DefaultWriters    = 8                // groups of concurrent updates
	listsRefresh      = 2 * time.Second  // how soon a list filled by another node is served
	recentTime        = 10 * time.Second // how long a retransmitted update is recognised
	recentSize        = 1 << 16          // updates remembered
	raisedTime        = 10 * time.Minute // how long texts with common bands count as one
	raisedSize        = 1 << 17          // digests and bands remembered
)

// A Server is a fuzzy storage. Set the fields before Serve and do not change them
// afterwards. The zero value with a Clearinghouse serves plain requests, and plain
// updates from the machine itself.
type Server struct {
	Clearinghouse bulkhead.Clearinghouse
	// Keys are the key pairs for encrypted requests; the first also serves requests that
	// name none of them.
	Keys []*Key
	// EncryptedOnly refuses plain requests.
	EncryptedOnly bool
	// ReadOnly refuses all writes and deletes.
	ReadOnly bool
	// UpdateFrom lists the networks that may write and delete, encrypted or
	// not. Nil means the machine itself. Addresses of plain datagrams can be
	// forged: prefer keys that may update.
	UpdateFrom []netip.Prefix
	// Blocked lists networks that get no answer.
	Blocked []netip.Prefix
	// SpamFlags and HamFlags are the lists for spam and ham. A write to them is a vote,
	// and a digest listed through another door is answered with the first of SpamFlags.
	// Nil means 1 and 11, and 3 and 13, the lists FUZZY_DENIED and FUZZY_WHITE of
	// rspamd's documentation; empty means none.
	SpamFlags, HamFlags []uint8
	// Cleared reports whether one of a message's signatures is on the clearinghouse's
	// whitelist. Such a message is not found. nil clears nothing.
	Cleared func([]bulkhead.Signature) bool
	// Rate limits the requests of one client, Exempt lists clients that it does
	// not apply to; see door.PacketServer.
	Rate   door.Rate
	Exempt []netip.Prefix
	// NewKeys limits clients with new keys from one network: each costs a multiplication
	// on the curve. The zero Rate means 20/s, 200 at once.
	NewKeys door.Rate
	// SharedKeys is the size of the cache of shared keys; 0 means
	// DefaultSharedKeys.
	SharedKeys int
	// Writers is how many groups of updates may run at once; 0 means DefaultWriters.
	Writers int
	// Memory bounds the memory of datagrams, see [door.PacketServer]; nil sets no bound.
	Memory *door.Memory
	// Stored returns the number of digests for the command stat; nil means the number
	// accepted since the server started.
	Stored func() uint64
	Now    func() time.Time // nil means time.Now
	Log    *slog.Logger     // nil discards
	Stats  Stats

	setup   setup
	serving serving
	keys    keyCache
	seen    seen
	lists   lists
}

// A setup is what a server makes of its fields before it serves.
type setup struct {
	once    sync.Once
	limited bool // the clients that may update are configured
	house   bulkhead.Counter
}

// A serving is the sockets of a server and the work behind them.
type serving struct {
	packets door.PacketServer
	streams door.StreamServer
	reading door.Work
	writing door.Work
	updates chan *job // of the writers
	scratch sync.Pool
}

// A keyCache holds the keys shared with clients, and limits clients with new keys.
type keyCache struct {
	shared  *sharedKeys
	limiter *door.Limiter
}

// seen are the updates of the last seconds, the texts of the last minutes, and what clients may be sent.
type seen struct {
	credit  door.Credit
	updates *recent
	texts   *raised
}

// A Key is one of a server's key pairs and the rights of clients that use it.
type Key struct {
	KeyPair
	Name string // for logs
	// Account is the account for which updates under this key count; "" counts them
	// for the client's address.
	Account string
	// Update allows writes and deletes.
	Update bool
	// Expires is when the key becomes invalid; the zero Time means never.
	Expires time.Time
	// Hidden names the lists that are not shown to clients of this key.
	Hidden []uint8
	// Rate limits the requests of all its clients together.
	Rate door.Rate

	limiter *door.Limiter
}

// Stats are the counters of a [Server]; all may be read at any time.
type Stats struct {
	Checks, Found, Near           atomic.Int64 // checks, those that found the digest, those that found a near copy
	Writes, Deletes, Repeated     atomic.Int64 // updates done, and retransmissions of them
	Stat, Ping                    atomic.Int64
	Refused, Malformed, Encrypted atomic.Int64
	Faults                        atomic.Int64 // answered with code 500
	Unanswered                    atomic.Int64 // answers held back because of their length
}

func (s *Server) prepare() {
	s.setup.once.Do(func() {
		s.setup.limited = len(s.Keys) > 0 || s.UpdateFrom != nil || s.ReadOnly
		s.setup.house = bulkhead.CounterOf(s.Clearinghouse)
		s.lists.taken = ledger.NewMark(takenSignature())
		if s.UpdateFrom == nil {
			s.UpdateFrom = door.Loopback()
		}
		if s.SpamFlags == nil {
			s.SpamFlags = []uint8{1, 11}
		}
		if s.HamFlags == nil {
			s.HamFlags = []uint8{3, 13}
		}
		if s.NewKeys == (door.Rate{}) {
			s.NewKeys = door.Rate{PerSecond: 20, Burst: 200}
		}
		if s.SharedKeys <= 0 {
			s.SharedKeys = DefaultSharedKeys
		}
		if s.Writers <= 0 {
			s.Writers = DefaultWriters
		}
		if s.Now == nil {
			s.Now = time.Now
		}
		if s.Log == nil {
			s.Log = slog.New(slog.DiscardHandler)
		}
		for _, k := range s.Keys {
			k.limiter = door.NewLimiter(k.Rate, nil)
		}
		s.keys.shared = newSharedKeys(s.SharedKeys)
		s.keys.limiter = door.NewLimiter(s.NewKeys, s.Exempt)
		s.seen.updates = newRecent(recentSize)
		s.seen.texts = newRaised(raisedSize)
		s.serving.scratch.New = func() any { return new(scratch) }
		s.serving.packets.Handler, s.serving.packets.Log, s.serving.packets.MaxPacket = s.packets, s.Log, maxRequestSize
		s.serving.packets.Rate, s.serving.packets.Exempt, s.serving.packets.Memory = s.Rate, s.Exempt, s.Memory
		s.serving.streams.Handler, s.serving.streams.Log, s.serving.streams.RequestTime = s.stream, s.Log, 5*time.Second
		s.serving.streams.RequestRate, s.serving.streams.ConnRate, s.serving.streams.Exempt = s.Rate, s.Rate, s.Exempt
	})
}

// ServePacket answers the datagrams of pc until Shutdown, then returns door.ErrServerClosed; or
// until pc fails. It refuses to serve an address that others can reach unless keys are set or
// UpdateFrom restricts the clients that may update. It may be called concurrently, for several
// sockets; see [door.ListenPackets].
func (s *Server) ServePacket(pc net.PacketConn) error {
	s.prepare()
	if err := s.checkExposure(pc.LocalAddr()); err != nil {
		pc.Close()
		return err
	}
	return s.serving.reading.During(s.startRefresh, func() error {
		return s.serving.writing.During(s.startWriting, func() error { return s.serving.packets.ServePacket(pc) })
	})
}

// Serve serves the connections of l until Shutdown, then returns
// door.ErrServerClosed; or until l fails: the same requests and replies, each behind
// its length in two bytes, the least significant first. It refuses what ServePacket
// refuses, and may be called concurrently, for several listeners.
//
// Source: docs/specs/rspamd-fuzzy.md#tcp.
func (s *Server) Serve(l net.Listener) error {
	s.prepare()
	if err := s.checkExposure(l.Addr()); err != nil {
		l.Close()
		return err
	}
	return s.serving.reading.During(s.startRefresh, func() error { return s.serving.streams.Serve(l) })
}

// Shutdown ends the server when current updates are done and the requests of connections
// answered, or ctx ends; see [door.PacketServer.Shutdown] and
// [door.StreamServer.Shutdown].
func (s *Server) Shutdown(ctx context.Context) error {
	return door.ShutdownBoth(ctx, &s.serving.packets, &s.serving.streams)
}

// PacketStats returns the counters of the datagrams.
func (s *Server) PacketStats() *door.PacketStats { return &s.serving.packets.Stats }

// ConnStats returns the counters of the connections.
func (s *Server) ConnStats() *door.ConnStats { return &s.serving.streams.Stats }

// startRefresh starts looking for lists in use, and returns a function that ends it.
func (s *Server) startRefresh() (end func()) {
	var background sync.WaitGroup
	refreshing, stop := context.WithCancel(context.Background())
	background.Go(func() { s.refresh(refreshing) })
	return func() {
		stop()
		background.Wait()
	}
}

// startWriting starts the goroutines that perform updates of datagrams, and returns a
// function that ends them.
func (s *Server) startWriting() (end func()) {
	updates := make(chan *job, door.DefaultMaxDetached)
	s.serving.updates = updates
	var writers sync.WaitGroup
	for range s.Writers {
		writers.Go(func() {
			jobs := make([]*job, 0, maxUpdates)
			for j := range updates {
				jobs = gather(append(jobs[:0], j), updates)
				s.finishUpdates(jobs)
			}
		})
	}
	return func() {
		close(updates)
		writers.Wait()
	}
}

// checkExposure refuses an address that others can reach if access is not restricted.
func (s *Server) checkExposure(a net.Addr) error {
	if !s.setup.limited && door.Exposed(a) {
		return fmt.Errorf("fuzzy: %s can be reached from the network: configure keys, or the networks that may update", a)
	}
	return nil
}

func (s *Server) stream(ctx context.Context, c *door.Conn) {
	const maxFrame = 8192
	buf := make([]byte, maxFrame)
	out := make([]byte, 0, 2+replyOverhead+replySizeLong)
	for !c.Draining() {
		c.Await()
		if _, err := io.ReadFull(c, buf[:2]); err != nil {
			return
		}
		n := int(buf[0]) | int(buf[1])<<8
		if n < 1 || n > maxFrame {
			return
		}
		if _, err := io.ReadFull(c, buf[:n]); err != nil {
			return
		}
		if !c.Allow(1) {
			return
		}
		j := &job{client: netip.AddrPortFrom(c.Client(), 0), data: buf[:n]}
		sc := s.serving.scratch.Get().(*scratch)
		sc.jobs = append(sc.jobs[:0], j)
		s.answer(ctx, sc)
		s.serving.scratch.Put(sc)
		if j.update {
			s.updateAll(ctx, []*job{j})
		}
		if j.silent {
			return // after an unreadable frame the stream is out of step
		}
		out = s.appendOut(append(out[:0], 0, 0), j)
		out[0], out[1] = byte(len(out)-2), byte((len(out)-2)>>8)
		if _, err := c.Write(out); err != nil {
			return
		}
	}
}
