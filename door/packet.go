package door

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/mmsg"
)

// The defaults of a [PacketServer].
const (
	DefaultMaxPacket   = 8192
	DefaultBatch       = 64
	DefaultMaxDetached = 4096
	maxReadFailures    = 1000    // in a row, after which a socket is given up
	socketBuffer       = 4 << 20 // bytes asked of the kernel each way; it may give less
)

// A PacketServer serves datagrams, in batches. Set the fields before Serve and
// leave them alone afterwards.
type PacketServer struct {
	// Handler answers a batch of 1 to Batch packets that arrived together at
	// one socket, by appending to their Reply. It runs once at a time for each
	// socket, and no further packets are read there meanwhile: see
	// [Packet.Detach] for answers that take long. A panic drops the batch, is
	// logged, and nothing else. [PacketServer.Each] makes a Handler of a function that
	// answers one packet. The context outlives ctx of Serve by DrainTime.
	Handler func(context.Context, []*Packet)
	// MaxPacket is the largest datagram in bytes; larger ones are dropped. 0
	// means DefaultMaxPacket.
	MaxPacket int
	// Batch is the most datagrams that are read at once; 0 means DefaultBatch.
	Batch int
	// Unordered lets the answers to one client that arrived together leave in
	// another order than they were asked for, the longest first, which the system
	// sends for less.
	Unordered bool
	// Rate limits the datagrams of one client. Those above it are dropped
	// before anything looks at them.
	Rate Rate
	// Exempt lists the clients that Rate does not apply to.
	Exempt []netip.Prefix
	// MaxDetached caps the detached packets; 0 means DefaultMaxDetached.
	MaxDetached int
	// DrainTime is how long detached packets may take to be answered once the
	// context of Serve ends; 0 means DefaultDrainTime.
	DrainTime time.Duration
	// Log takes panics and socket errors; nil discards them.
	Log *slog.Logger
	// Stats counts what happened.
	Stats PacketStats

	limiter  *Limiter
	detached atomic.Int64
	idle     chan struct{} // signalled when detached falls to zero
}

// PacketStats are the counters of a [PacketServer]; all may be read at any time.
type PacketStats struct {
	Received atomic.Int64 // datagrams handed to the handler
	Sent     atomic.Int64 // answers sent
	Limited  atomic.Int64 // datagrams dropped because of Rate
	Oversize atomic.Int64 // datagrams dropped because of MaxPacket
	Unsent   atomic.Int64 // answers the kernel refused to send
	Panics   atomic.Int64 // batches (with Each: packets) lost to a panic
}

// A Packet is one datagram and the place for its answer.
type Packet struct {
	// Data is the datagram. It is valid until the handler returns, or, for a
	// detached packet, until Finish.
	Data []byte
	// Client is where it came from, IPv4 unmapped.
	Client netip.AddrPort
	// Reply is the answer; the handler appends to it and keeps no reference.
	// Left empty, nothing is sent.
	Reply []byte

	addr  mmsg.Addr
	oob   []byte // control message with which the answer leaves from the address asked
	owner *socket
	slot  int // of the reader that this packet was read into
	buf   []byte
}

// Each returns a Handler that calls f for one packet after the other. A panic
// of f costs one packet.
func (s *PacketServer) Each(f func(context.Context, *Packet)) func(context.Context, []*Packet) {
	return func(ctx context.Context, batch []*Packet) {
		for _, p := range batch {
			s.one(ctx, p, f)
		}
	}
}

func (s *PacketServer) one(ctx context.Context, p *Packet, f func(context.Context, *Packet)) {
	defer s.recovered(func() { p.Reply = p.Reply[:0] })
	f(ctx, p)
}

// recovered stops a panic; call it by defer.
func (s *PacketServer) recovered(undo func()) {
	if r := recover(); r != nil {
		s.Stats.Panics.Add(1)
		s.Log.Error("handler panicked", "panic", r, "stack", string(debug.Stack()))
		undo()
	}
}

// Detach takes p out of its batch, so that it may be answered by another
// goroutine after the handler has returned. Only the handler itself may call
// it, before it hands p on; then Finish must be called once. It reports false,
// and p stays in the batch, if MaxDetached packets are out.
func (p *Packet) Detach() bool {
	s := p.owner.server
	if s.detached.Add(1) > int64(s.MaxDetached) {
		s.release()
		return false
	}
	p.owner.handed[p.slot] = true
	return true
}

// Finish sends the reply of a detached packet, if it has one, and ends its use.
// It does not block. The packets of one socket are sent in batches.
func (p *Packet) Finish() {
	// The channel has room for every packet that can be detached.
	p.owner.finished <- p
}

// FinishAll does what Finish does for detached packets of one server, at once:
// when it returns, their replies are sent. It may wait for the kernel to take
// them.
func FinishAll(packets []*Packet) {
	for len(packets) > 0 {
		n := 1
		for n < len(packets) && packets[n].owner == packets[0].owner {
			n++
		}
		packets[0].owner.sendLate(packets[:n])
		packets = packets[n:]
	}
}

func (s *PacketServer) release() { s.releaseAll(1) }

func (s *PacketServer) releaseAll(n int) {
	if s.detached.Add(-int64(n)) == 0 {
		select {
		case s.idle <- struct{}{}:
		default:
		}
	}
}

// Serve reads from conns (see [ListenPackets]) until ctx ends or one of them fails,
// waits for detached packets, closes conns and returns when everything it
// started has ended. After the end of ctx it returns nil.
func (s *PacketServer) Serve(ctx context.Context, conns []*net.UDPConn) error {
	s.prepare()
	handling, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	sockets := make([]*socket, 0, len(conns))
	for _, c := range conns {
		k, err := newSocket(s, c)
		if err != nil {
			closeAll(conns)
			return err
		}
		sockets = append(sockets, k)
	}
	// One failed socket stops the others: half a port is worse than none.
	reading, stopReading := context.WithCancel(ctx)
	defer stopReading()
	unblock := context.AfterFunc(reading, func() {
		for _, c := range conns {
			c.SetReadDeadline(time.Unix(1, 0))
		}
	})
	defer unblock()

	var readers, writers sync.WaitGroup
	errs := make([]error, len(sockets))
	stopWriting := make(chan struct{})
	for i, k := range sockets {
		readers.Go(func() {
			defer stopReading()
			errs[i] = k.read(reading, handling)
		})
		writers.Go(func() { k.writeFinished(stopWriting) })
	}
	readers.Wait()
	s.awaitDetached(cancel)
	close(stopWriting)
	writers.Wait()
	closeAll(conns)
	if ctx.Err() != nil {
		return nil
	}
	return errors.Join(errs...)
}

func (s *PacketServer) prepare() {
	s.MaxPacket = orDefault(s.MaxPacket, DefaultMaxPacket)
	s.Batch = orDefault(s.Batch, DefaultBatch)
	s.MaxDetached = orDefault(s.MaxDetached, DefaultMaxDetached)
	s.DrainTime = orDefault(s.DrainTime, DefaultDrainTime)
	s.limiter = NewLimiter(s.Rate, s.Exempt)
	s.idle = make(chan struct{}, 1)
	if s.Log == nil {
		s.Log = slog.New(slog.DiscardHandler)
	}
}

// awaitDetached waits until no packet is out. When the time is over it ends the
// handlers' context, and soon after gives up on packets that still are.
func (s *PacketServer) awaitDetached(cancel context.CancelFunc) {
	timer := time.NewTimer(s.DrainTime)
	defer timer.Stop()
	for expired := false; s.detached.Load() > 0; {
		select {
		case <-s.idle:
		case <-timer.C:
			if expired {
				s.Log.Error("detached packets never finished", "packets", s.detached.Load())
				return
			}
			expired = true
			cancel()
			timer.Reset(time.Second)
		}
	}
}
