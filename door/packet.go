package door

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// The defaults of a [PacketServer].
const (
	DefaultMaxPacket   = 8192
	DefaultBatch       = 64
	DefaultMaxDetached = 4096
	maxReadFailures    = 1000    // failures in a row after which a socket is given up
	socketBuffer       = 4 << 20 // bytes asked of the kernel each way; it may give less
)

// A PacketServer serves datagrams, in batches. Set the fields before Serve and do not
// change them afterwards.
type PacketServer struct {
	// Handler answers a batch of 1 to Batch packets that arrived together at one socket, by
	// appending to their Reply. It runs once at a time for each socket. The socket reads no further
	// packets while it runs: see [Packet.Detach] for answers that take long. A panic is logged and
	// drops the batch, and has no other effect. [PacketServer.Each] makes a Handler of a function
	// that answers one packet. The context outlives the start of a shutdown and ends with the
	// shutdown's context.
	Handler func(context.Context, []*Packet)
	// MaxPacket is the largest datagram in bytes; larger ones are dropped. 0
	// means DefaultMaxPacket.
	MaxPacket int
	// Batch is the most datagrams that are read at once; 0 means DefaultBatch.
	Batch int
	// Unordered allows answers to questions that one client asked together to leave
	// in another order, the longest first, which costs the system less.
	Unordered bool
	// Rate limits the datagrams of one client. Those above it are dropped
	// before anything looks at them.
	Rate Rate
	// Exempt lists the clients that Rate does not apply to.
	Exempt []netip.Prefix
	// Memory bounds the memory of datagrams while they are processed. Each takes [Cost] times its
	// size, or its buffer of MaxPacket bytes if that is more. Datagrams that find no room are
	// dropped; clients of such protocols take that for a loss on the way and try again. Nil sets no
	// bound.
	Memory *Memory
	// MaxDetached caps the detached packets; 0 means DefaultMaxDetached.
	MaxDetached int
	// Log records panics and socket errors; nil discards them.
	Log *slog.Logger
	// Stats are the counters.
	Stats PacketStats

	life     // its mu guards sockets
	limiter  *Limiter
	sockets  map[*socket]struct{}
	detached atomic.Int64 // at most MaxDetached
}

// PacketStats are the counters of a [PacketServer]; all may be read at any time.
type PacketStats struct {
	Received atomic.Int64 // datagrams handed to the handler
	Sent     atomic.Int64 // answers sent
	Limited  atomic.Int64 // datagrams dropped because of Rate
	Oversize atomic.Int64 // datagrams dropped because of MaxPacket
	Crowded  atomic.Int64 // datagrams dropped because of Memory
	Unsent   atomic.Int64 // answers the kernel refused to send
	Panics   atomic.Int64 // batches (with Each: packets) lost to a panic
	// Times of the answers, from when the datagram was read until the answer was given to
	// the kernel.
	Times Times
}

// A Packet is one datagram and the place for its answer.
type Packet struct {
	// Data is the datagram. It is valid until the handler returns, or, for a
	// detached packet, until Finish.
	Data []byte
	// Client is the address that the datagram came from, IPv4 unmapped.
	Client netip.AddrPort
	// Reply is the answer. The handler appends to it and keeps no reference. If it is left empty,
	// no answer is sent.
	Reply []byte

	read  int64    // time of the read, by origin
	held  int64    // bytes of the server's Memory
	from  net.Addr // sender
	oob   []byte   // control message with which the answer leaves from the address asked
	owner *socket
	slot  int // of the reader that this packet was read into
	buf   []byte
}

// Each returns a Handler that calls f for each packet in turn. A panic of f costs one packet.
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
		s.detached.Add(-1)
		return false
	}
	p.owner.detached.Add(1)
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

// ServePacket answers the datagrams of pc until Shutdown, or until pc fails, and closes pc. It
// returns when detached packets are finished and all its goroutines have ended. The error is
// ErrServerClosed after Shutdown, and otherwise the error of pc. It may be called concurrently, for
// several sockets (see [ListenPackets]), each of which is read by one goroutine. A *net.UDPConn is
// read and written by system calls for many datagrams; of any other kind the addresses must be
// those of IP and a port.
func (s *PacketServer) ServePacket(pc net.PacketConn) error {
	defer pc.Close()
	k, err := s.enter(pc)
	if err != nil {
		return err
	}
	var writer sync.WaitGroup
	stopWriting := make(chan struct{})
	writer.Go(func() { k.writeFinished(stopWriting) })
	err = k.read()
	closed := s.closed() // before waiting for packets: the first failure counts
	k.awaitDetached()
	close(stopWriting)
	writer.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sockets, k)
	s.leave()
	if closed {
		return ErrServerClosed
	}
	return err
}

// Shutdown ends the server: no further datagrams are read, and detached packets
// are waited for. It returns nil when all have been answered. When ctx ends first,
// the context of the handlers is ended, and Shutdown returns the error of ctx; a
// second later calls of ServePacket give up on packets that are still out. It may
// be called more than once, and before ServePacket, which then serves nothing.
func (s *PacketServer) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.shut()
	for k := range s.sockets {
		k.interrupt()
	}
	s.mu.Unlock()
	return s.await(ctx)
}

// enter begins to serve pc, unless the server is closed.
func (s *PacketServer) enter(pc net.PacketConn) (*socket, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.join() {
		return nil, ErrServerClosed
	}
	s.prepare()
	k, err := newSocket(s, pc)
	if err != nil {
		s.leave()
		return nil, err
	}
	s.sockets[k] = struct{}{}
	return k, nil
}

// prepare fills in the defaults. The caller holds mu.
func (s *PacketServer) prepare() {
	if s.sockets != nil {
		return
	}
	s.sockets = make(map[*socket]struct{})
	s.MaxPacket = orDefault(s.MaxPacket, DefaultMaxPacket)
	s.Batch = orDefault(s.Batch, DefaultBatch)
	s.MaxDetached = orDefault(s.MaxDetached, DefaultMaxDetached)
	s.limiter = NewLimiter(s.Rate, s.Exempt)
	if s.Log == nil {
		s.Log = slog.New(slog.DiscardHandler)
	}
}
