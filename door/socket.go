package door

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"

	"github.com/bulkhead-mail/bulkhead/internal/mmsg"
)

// A socket is one socket for datagrams with its reader and its writer.
type socket struct {
	server   *PacketServer
	conn     net.PacketConn
	in       reader
	out      writer // of the reader
	lateMu   sync.Mutex
	late     writer // of detached packets, guarded by lateMu
	control  controls
	asked    []byte // the last control message and its answer
	from     []byte
	packets  []*Packet // the slots of the reader
	handed   []bool    // the slots whose packet was detached in this batch
	detached atomic.Int64
	idle     chan struct{} // signalled when detached falls to zero
	finished chan *Packet
	pool     sync.Pool
}

// newSocket makes a socket of c. The caller holds the server's mu.
func newSocket(s *PacketServer, c net.PacketConn) (*socket, error) {
	k := &socket{server: s, conn: c, finished: make(chan *Packet, s.MaxDetached), idle: make(chan struct{}, 1)}
	if err := k.open(); err != nil {
		return nil, err
	}
	k.pool.New = func() any {
		// One byte more than allowed reveals a datagram that was cut.
		return &Packet{owner: k, buf: make([]byte, s.MaxPacket+1)}
	}
	k.packets = make([]*Packet, s.Batch)
	k.handed = make([]bool, s.Batch)
	for i := range k.packets {
		k.fill(i)
	}
	return k, nil
}

// open makes the reader and the writers.
func (k *socket) open() error {
	c, ok := k.conn.(*net.UDPConn)
	if !ok {
		k.in, k.out, k.late = &single{conn: k.conn}, &single{conn: k.conn}, &single{conn: k.conn}
		return nil
	}
	// A burst must fit the kernel's buffer while the handler runs. The limit of
	// the machine may be lower, which is no error.
	_ = c.SetReadBuffer(socketBuffer)
	_ = c.SetWriteBuffer(socketBuffer)
	if err := k.choose(c); err != nil {
		return err
	}
	space := 0
	if k.control != nil {
		space = k.control.size()
	}
	k.in = batchReader{mmsg.NewReader(c, k.server.Batch, space)}
	k.out, k.late = batchWriter{mmsg.NewWriter(c, k.server.Batch)}, batchWriter{mmsg.NewWriter(c, k.server.Batch)}
	return nil
}

// interrupt ends reading. The server is closed already, so an error of a socket that is gone also
// ends it.
func (k *socket) interrupt() { _ = k.conn.SetReadDeadline(time.Unix(1, 0)) }

// choose makes a wildcard socket report which of its addresses was asked.
func (k *socket) choose(c *net.UDPConn) error {
	local, ok := c.LocalAddr().(*net.UDPAddr)
	if !ok {
		return fmt.Errorf("door: %s is not a UDP address", c.LocalAddr())
	}
	if !local.IP.IsUnspecified() {
		return nil
	}
	if local.IP.To4() != nil {
		k.control = control4{}
		if err := ipv4.NewPacketConn(c).SetControlMessage(ipv4.FlagDst, true); err != nil {
			return fmt.Errorf("door: destination of IPv4 datagrams: %w", err)
		}
		return nil
	}
	k.control = control6{}
	if err := ipv6.NewPacketConn(c).SetControlMessage(ipv6.FlagDst|ipv6.FlagInterface, true); err != nil {
		return fmt.Errorf("door: destination of IPv6 datagrams: %w", err)
	}
	return nil
}

// replyControl remembers the last answer: most clients ask the same address.
func (k *socket) replyControl(oob []byte) []byte {
	if !bytes.Equal(oob, k.asked) {
		k.asked, k.from = bytes.Clone(oob), k.control.reply(oob)
	}
	return k.from
}

// fill puts a fresh packet into a slot of the reader.
func (k *socket) fill(i int) {
	p := k.pool.Get().(*Packet)
	p.Reply, p.oob, p.slot = p.Reply[:0], nil, i
	k.packets[i] = p
	k.handed[i] = false
	k.in.SetBuffer(i, p.buf)
}

// read is the reader: it returns when reading ends, or when the socket fails.
func (k *socket) read() error {
	s := k.server
	batch := make([]*Packet, 0, len(k.packets))
	for failures := 0; ; {
		n, err := k.in.Read()
		if s.closed() {
			return ErrServerClosed
		}
		if err != nil {
			// On some systems the ICMP answer to a reply surfaces here; that is
			// no fault of the socket, unless it does not stop.
			if failures++; failures > maxReadFailures || errors.Is(err, net.ErrClosed) {
				return fmt.Errorf("door: read: %w", err)
			}
			s.Log.Debug("datagram read failed", "err", err)
			continue
		}
		failures = 0
		batch = k.charge(k.screen(batch[:0], n))
		if len(batch) == 0 {
			continue
		}
		k.handle(s.handling, batch)
		k.answer(batch)
		// A detached packet may be in the pool again by now, so only the mark of its slot shows
		// that it was detached.
		held := int64(0)
		for i := range n {
			if k.handed[i] {
				k.fill(i)
				continue
			}
			held += k.packets[i].held
			k.packets[i].held = 0
		}
		s.Memory.giveBack(held)
	}
}

// screen applies the limits to the n datagrams just read and adds those that
// pass to batch.
func (k *socket) screen(batch []*Packet, n int) []*Packet {
	s, now := k.server, sinceOrigin()
	for i := range n {
		p, size := k.packets[i], k.in.Len(i)
		if k.in.Origin(i, p); !p.Client.IsValid() {
			continue
		}
		if size > s.MaxPacket {
			s.Stats.Oversize.Add(1)
			continue
		}
		if !s.limiter.Allow(p.Client.Addr(), 1) {
			s.Stats.Limited.Add(1)
			continue
		}
		p.Data, p.Reply, p.oob, p.read = p.buf[:size], p.Reply[:0], nil, now
		if k.control != nil {
			p.oob = k.replyControl(k.in.Control(i))
		}
		batch = append(batch, p)
	}
	return batch
}

// charge takes the memory for a batch: for all packets at once or, if the memory does not suffice,
// for one after the other. It returns the packets that have their memory.
func (k *socket) charge(batch []*Packet) []*Packet {
	s := k.server
	if s.Memory == nil {
		return batch
	}
	all := int64(0)
	for _, p := range batch {
		p.held = max(Cost*int64(len(p.Data)), int64(len(p.buf)))
		all += p.held
	}
	if taken, ok := s.Memory.grab(all); ok && taken == all {
		return batch
	} else if ok {
		s.Memory.giveBack(taken) // less than the batch needs, if that exceeds the limit
	}
	in := batch[:0]
	for _, p := range batch {
		taken, ok := s.Memory.grab(p.held)
		if p.held = taken; ok {
			in = append(in, p)
			continue
		}
		s.Stats.Crowded.Add(1)
		s.Memory.refuse()
	}
	return in
}

func (k *socket) handle(ctx context.Context, batch []*Packet) {
	defer k.server.recovered(func() {
		for _, p := range batch {
			if !k.handed[p.slot] {
				p.Reply = p.Reply[:0]
			}
		}
	})
	k.server.Stats.Received.Add(int64(len(batch)))
	k.server.Handler(ctx, batch)
}

// answer sends the replies of a batch, those of detached packets excepted.
func (k *socket) answer(batch []*Packet) {
	// Detached packets belong to other goroutines by now.
	batch = slices.DeleteFunc(batch, func(p *Packet) bool { return k.handed[p.slot] || len(p.Reply) == 0 })
	if k.server.Unordered {
		arrange(batch)
	}
	for _, p := range batch {
		k.out.Send(p)
	}
	k.count(k.out.Flush())
	k.time(batch)
}

// time counts the times of the answers in a batch that has been sent.
func (k *socket) time(batch []*Packet) {
	now := sinceOrigin()
	for i := 0; i < len(batch); {
		read, n := batch[i].read, 0
		for ; i < len(batch) && batch[i].read == read; i++ {
			if len(batch[i].Reply) > 0 {
				n++
			}
		}
		k.server.Stats.Times.Add(time.Duration(now-read), n)
	}
}

// arrange puts the longest answers first among those in a row to one client: the
// kernel sends datagrams of one length, and one shorter after them, for little
// receive than the price of one.
func arrange(batch []*Packet) {
	for start := 0; start < len(batch); {
		end := start + 1
		for ; end < len(batch) && batch[end].Client == batch[start].Client; end++ {
			// Insertion: the rows are short, and mostly in order.
			p, i := batch[end], end
			for ; i > start && len(batch[i-1].Reply) < len(p.Reply); i-- {
				batch[i] = batch[i-1]
			}
			batch[i] = p
		}
		start = end
	}
}

// count counts answers. Answers that the kernel refuses (no route, a forged source) are skipped.
func (k *socket) count(sent, refused int) {
	k.server.Stats.Sent.Add(int64(sent))
	if refused > 0 {
		k.server.Stats.Unsent.Add(int64(refused))
		k.server.Log.Debug("answers not sent", "answers", refused)
	}
}

// writeFinished sends the answers of detached packets until stop is closed.
func (k *socket) writeFinished(stop <-chan struct{}) {
	batch := make([]*Packet, 0, k.server.Batch)
	for {
		select {
		case <-stop:
			return
		case p := <-k.finished:
			batch = append(batch[:0], p)
		}
		batch = k.gather(batch)
		k.sendLate(batch)
	}
}

// sendLate sends the replies of detached packets, and ends their use.
func (k *socket) sendLate(batch []*Packet) {
	k.lateMu.Lock()
	for _, p := range batch {
		if len(p.Reply) > 0 {
			k.late.Send(p)
		}
	}
	sent, refused := k.late.Flush()
	k.lateMu.Unlock()
	k.count(sent, refused)
	k.time(batch)
	held := int64(0)
	for _, p := range batch {
		held += p.held
		p.held = 0
		k.pool.Put(p)
	}
	k.server.Memory.giveBack(held)
	k.release(len(batch))
}

// gather adds the packets that are finished by now, up to a batch.
func (k *socket) gather(batch []*Packet) []*Packet {
	for len(batch) < cap(batch) {
		select {
		case p := <-k.finished:
			batch = append(batch, p)
		default:
			return batch
		}
	}
	return batch
}

// release notes that n detached packets are finished.
func (k *socket) release(n int) {
	k.server.detached.Add(-int64(n))
	if k.detached.Add(-int64(n)) == 0 {
		select {
		case k.idle <- struct{}{}:
		default:
		}
	}
}

// awaitDetached waits until no packet is out. A second after the handlers' context has ended, it
// gives up on packets that are still out.
func (k *socket) awaitDetached() {
	s := k.server
	var late <-chan time.Time
	cut := s.handling.Done()
	for k.detached.Load() > 0 {
		select {
		case <-k.idle:
		case <-cut:
			cut, late = nil, time.After(time.Second)
		case <-late:
			s.Log.Error("detached packets never finished", "packets", k.detached.Load())
			return
		}
	}
}
