package door

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/mmsg"
	"github.com/bulkhead-mail/bulkhead/internal/testing/await"
)

func echoPacket(_ context.Context, p *Packet) {
	if bytes.HasPrefix(p.Data, []byte("panic")) {
		panic("as asked")
	}
	if bytes.HasPrefix(p.Data, []byte("silence")) {
		return
	}
	p.Reply = append(p.Reply, p.Data...)
}

func startPackets(t *testing.T, s *PacketServer, address string, readers int) (port uint16, stop func()) {
	t.Helper()
	if s.Handler == nil {
		s.Handler = s.Each(echoPacket)
	}
	conns, err := ListenPackets(t.Context(), address, readers)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, len(conns))
	for _, c := range conns {
		go func() { done <- s.ServePacket(c) }()
	}
	var once sync.Once
	stop = func() {
		once.Do(func() {
			if err := s.Shutdown(context.Background()); err != nil {
				t.Errorf("Shutdown = %v", err)
			}
			for range conns {
				if err := <-done; err != ErrServerClosed {
					t.Errorf("ServePacket = %v, want %v", err, ErrServerClosed)
				}
			}
		})
	}
	t.Cleanup(stop)
	return conns[0].LocalAddr().(*net.UDPAddr).AddrPort().Port(), stop
}

// dialUDP returns a connected socket, which receives only from host:port.
func dialUDP(t *testing.T, host string, port uint16) net.Conn {
	t.Helper()
	c, err := net.Dial("udp", net.JoinHostPort(host, fmt.Sprint(port)))
	if err != nil {
		t.Skipf("no route to %s: %v", host, err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(20 * time.Second))
	return c
}

func askUDP(t *testing.T, c net.Conn, data string) string {
	t.Helper()
	if _, err := c.Write([]byte(data)); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 65536)
	n, err := c.Read(buf)
	if err != nil {
		t.Fatalf("answer to %.40q: %v", data, err)
	}
	return string(buf[:n])
}

// quiet reports that no answer comes to c's datagrams so far. A datagram sent after them is
// answered, so they have been processed.
func quiet(t *testing.T, c net.Conn) bool {
	t.Helper()
	return askUDP(t, c, "marker") == "marker"
}

func TestPacketsReplySource(t *testing.T) {
	tests := []struct {
		bind  string
		hosts []string
	}{
		{"127.0.0.1:0", []string{"127.0.0.1"}},
		{"[::1]:0", []string{"::1"}},
		// 127.0.0.77 is not the address that the kernel would answer from.
		{"0.0.0.0:0", []string{"127.0.0.1", "127.0.0.77"}},
		{"[::]:0", []string{"::1"}},
		{":0", []string{"127.0.0.1", "127.0.0.77", "::1"}},
	}
	for _, tt := range tests {
		for _, readers := range []int{1, 3} {
			t.Run(fmt.Sprintf("%s/%d", tt.bind, readers), func(t *testing.T) {
				port, _ := startPackets(t, &PacketServer{}, tt.bind, readers)
				for _, host := range tt.hosts {
					for i := range 5 {
						c := dialUDP(t, host, port)
						if got, want := askUDP(t, c, fmt.Sprint("hello", i)), fmt.Sprint("hello", i); got != want {
							t.Errorf("%s answered %q, want %q", host, got, want)
						}
					}
					askTrain(t, dialUDP(t, host, port))
				}
			})
		}
	}
}

// askTrain sends datagrams of one length at once: their answers leave together,
// and come from the address that was asked, or the socket would not take them.
func askTrain(t *testing.T, c net.Conn) {
	t.Helper()
	w := mmsg.NewWriter(c.(*net.UDPConn), 32)
	want := make(map[string]bool)
	for i := range 32 {
		data := fmt.Sprintf("wagon %02d", i)
		want[data] = true
		w.Add(nil, nil, []byte(data))
	}
	if sent, refused := w.Flush(); sent != 32 || refused != 0 {
		t.Fatalf("%d datagrams sent, %d refused", sent, refused)
	}
	buf := make([]byte, 2048)
	for len(want) > 0 {
		n, err := c.Read(buf)
		if err != nil {
			t.Fatalf("%d answers are missing: %v", len(want), err)
		}
		if !want[string(buf[:n])] {
			t.Fatalf("answer %q was not asked for, or came twice", buf[:n])
		}
		delete(want, string(buf[:n]))
	}
}

func TestPacketsPortInUse(t *testing.T) {
	conns, err := ListenPackets(t.Context(), "127.0.0.1:0", 2)
	if err != nil {
		t.Fatal(err)
	}
	defer closeAll(conns)
	again, err := ListenPackets(t.Context(), conns[0].LocalAddr().String(), 2)
	if err == nil {
		closeAll(again)
		t.Error("a second server shares the port of the first")
	}
	for _, bad := range []string{"", "127.0.0.1", "127.0.0.1:http2703", "127.0.0.1:70000"} {
		if conns, err := ListenPackets(t.Context(), bad, 1); err == nil {
			closeAll(conns)
			t.Errorf("ListenListenPackets(%q) succeeded", bad)
		}
	}
}

func TestPacketLargest(t *testing.T) {
	s := &PacketServer{MaxPacket: 100}
	port, stop := startPackets(t, s, "127.0.0.1:0", 1)
	c := dialUDP(t, "127.0.0.1", port)
	if got := askUDP(t, c, string(make([]byte, 100))); len(got) != 100 {
		t.Errorf("largest datagram: answer of %d bytes", len(got))
	}
	c.Write(make([]byte, 101))
	c.Write(nil) // reaches the handler; an empty answer is not sent
	if !quiet(t, c) {
		t.Error("answer to a datagram above MaxPacket")
	}
	stop()
	if got := s.Stats.Oversize.Load(); got != 1 {
		t.Errorf("Stats.Oversize = %d, want 1", got)
	}
}

func TestPacketRate(t *testing.T) {
	s := &PacketServer{MaxPacket: 100, Rate: Rate{PerSecond: 1e-6, Burst: 3}}
	port, stop := startPackets(t, s, "127.0.0.1:0", 1)
	c := dialUDP(t, "127.0.0.1", port)
	other := dialUDP(t, "127.0.0.1", port) // the same client to the limiter
	c.Write(make([]byte, 101))             // dropped before it is charged
	for range 3 {
		askUDP(t, c, "x")
	}
	for range 10 {
		other.Write([]byte("x"))
	}
	await.True(t, "ten packets are limited", func() bool { return s.Stats.Limited.Load() >= 10 })
	stop()
	if got := s.Stats.Received.Load(); got != 3 {
		t.Errorf("Stats.Received = %d, want 3", got)
	}
	if got := s.Stats.Oversize.Load(); got != 1 {
		t.Errorf("Stats.Oversize = %d, want 1", got)
	}
}

func TestPacketSilenceAndPanic(t *testing.T) {
	s := &PacketServer{}
	port, stop := startPackets(t, s, "127.0.0.1:0", 1)
	c := dialUDP(t, "127.0.0.1", port)
	for range 10 {
		c.Write([]byte("silence"))
		c.Write([]byte("panic"))
		if !quiet(t, c) {
			t.Error("answer to a datagram that has none")
		}
	}
	stop() // the counters follow the datagrams
	if got := s.Stats.Panics.Load(); got != 10 {
		t.Errorf("Stats.Panics = %d, want 10", got)
	}
	if got := s.Stats.Sent.Load(); got != 10 {
		t.Errorf("Stats.Sent = %d, want 10", got)
	}
}

// TestPacketLengths: answers of many lengths to several clients, the longest
// of which leave first, arrive whole, once and at the right client.
func TestPacketLengths(t *testing.T) {
	port, stop := startPackets(t, &PacketServer{Unordered: true}, "127.0.0.1:0", 1)
	var clients []net.Conn
	for range 3 {
		clients = append(clients, dialUDP(t, "127.0.0.1", port))
	}
	const each = 60
	datagram := func(client, k int) string {
		return fmt.Sprintf("%d %d ", client, k) + strings.Repeat("x", k*k%17*10)
	}
	waiting := make(map[string]bool)
	for k := range each {
		// Runs of one client, and clients that change with each datagram.
		for i := range clients {
			client := i
			if k%2 == 0 {
				client = k / 2 % len(clients)
			}
			data := datagram(client, k*len(clients)+i)
			waiting[data] = true
			if _, err := clients[client].Write([]byte(data)); err != nil {
				t.Fatal(err)
			}
		}
	}
	buf := make([]byte, 2048)
	for i, c := range clients {
		for want := fmt.Sprintf("%d ", i); ; {
			done := true
			for data := range waiting {
				done = done && !strings.HasPrefix(data, want)
			}
			if done {
				break
			}
			n, err := c.Read(buf)
			if err != nil {
				t.Fatalf("%d answers are missing: %v", len(waiting), err)
			}
			if got := string(buf[:n]); !waiting[got] || !strings.HasPrefix(got, want) {
				t.Fatalf("client %d got %.40q", i, got)
			}
			delete(waiting, string(buf[:n]))
		}
		if !quiet(t, c) {
			t.Errorf("client %d got an answer too many", i)
		}
	}
	stop()
}

func TestPacketBatchPanic(t *testing.T) {
	s := &PacketServer{}
	s.Handler = func(ctx context.Context, batch []*Packet) {
		for _, p := range batch {
			echoPacket(ctx, p)
		}
	}
	port, _ := startPackets(t, s, "127.0.0.1:0", 1)
	c := dialUDP(t, "127.0.0.1", port)
	for i := range 10 {
		c.Write([]byte("panic"))
		await.True(t, "the handler panics", func() bool { return s.Stats.Panics.Load() > int64(i) })
		if !quiet(t, c) {
			t.Error("answer after a panic")
		}
	}
}

func TestPacketDetach(t *testing.T) {
	s := &PacketServer{Batch: 4, MaxDetached: 50}
	var workers sync.WaitGroup
	var refused sync.Map
	s.Handler = s.Each(func(_ context.Context, p *Packet) {
		if !p.Detach() {
			refused.Store(string(p.Data), true)
			p.Reply = append(p.Reply, p.Data...)
			return
		}
		workers.Go(func() {
			time.Sleep(time.Millisecond)
			p.Reply = append(p.Reply, p.Data...)
			p.Finish()
		})
	})
	port, stop := startPackets(t, s, "127.0.0.1:0", 2)
	var clients sync.WaitGroup
	for i := range 8 {
		c := dialUDP(t, "127.0.0.1", port)
		clients.Go(func() {
			for j := range 20 {
				// Twenty requests in flight, answered in any order, each once.
				const flight = 20
				want := make(map[string]bool, flight)
				for f := range flight {
					m := fmt.Sprintf("%d.%d.%d", i, j, f)
					want[m] = true
					c.Write([]byte(m))
				}
				buf := make([]byte, 100)
				for range flight {
					n, err := c.Read(buf)
					if err != nil {
						t.Errorf("client %d round %d: %v, %d answers missing", i, j, err, len(want))
						return
					}
					if !want[string(buf[:n])] {
						t.Errorf("client %d round %d: stray or repeated answer %q", i, j, buf[:n])
					}
					delete(want, string(buf[:n]))
				}
			}
		})
	}
	clients.Wait()
	stop()
	workers.Wait()
	if got := s.detached.Load(); got != 0 {
		t.Errorf("%d packets still detached", got)
	}
}

func TestPacketDrain(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	s := &PacketServer{}
	var workers sync.WaitGroup
	s.Handler = s.Each(func(ctx context.Context, p *Packet) {
		p.Detach()
		workers.Go(func() {
			close(entered)
			<-leave
			if ctx.Err() != nil {
				t.Error("context ended before the drain")
			}
			p.Reply = append(p.Reply, "late"...)
			p.Finish()
		})
	})
	port, stop := startPackets(t, s, "127.0.0.1:0", 1)
	c := dialUDP(t, "127.0.0.1", port)
	c.Write([]byte("x"))
	<-entered
	stopped := make(chan struct{})
	go func() { stop(); close(stopped) }()
	select {
	case <-stopped:
		t.Fatal("Serve returned while a packet was detached")
	case <-time.After(20 * time.Millisecond):
	}
	close(leave)
	buf := make([]byte, 10)
	if n, err := c.Read(buf); err != nil || string(buf[:n]) != "late" {
		t.Errorf("answer after the drain began: %q, %v", buf[:n], err)
	}
	<-stopped
	workers.Wait()
}

// TestPacketShutdownGivesUp: a packet that is never finished is given up after the
// end of Shutdown's context, and its Finish is harmless then.
func TestPacketShutdownGivesUp(t *testing.T) {
	entered := make(chan *Packet, 1)
	handling := make(chan context.Context, 1)
	s := &PacketServer{}
	s.Handler = s.Each(func(ctx context.Context, p *Packet) { p.Detach(); handling <- ctx; entered <- p })
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.ServePacket(pc) }()
	dialUDP(t, "127.0.0.1", addrPortOf(pc.LocalAddr()).Port()).Write([]byte("x"))
	ctx, p := <-handling, <-entered
	if ctx.Err() != nil {
		t.Error("the context ended before the shutdown")
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Shutdown(over); !errors.Is(err, context.Canceled) {
		t.Errorf("Shutdown = %v, want the error of its context", err)
	}
	<-ctx.Done()
	if err := <-done; err != ErrServerClosed {
		t.Errorf("ServePacket = %v, want %v", err, ErrServerClosed)
	}
	p.Finish()
}

func TestPacketServeFails(t *testing.T) {
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	pc.Close()
	s := &PacketServer{}
	s.Handler = s.Each(echoPacket)
	if err := s.ServePacket(pc); err == nil || errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, ErrServerClosed) {
		t.Errorf("ServePacket on a closed socket = %v, want its error", err)
	}
}

// wrapped is a socket that is not a *net.UDPConn.
type wrapped struct{ net.PacketConn }

// TestPacketConn: any net.PacketConn is served, in addition to the kernel's sockets.
func TestPacketConn(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		t.Run(address, func(t *testing.T) {
			pc, err := net.ListenPacket("udp", address)
			if err != nil {
				t.Skipf("no address: %v", err)
			}
			host, _, _ := net.SplitHostPort(pc.LocalAddr().String())
			late := make(chan *Packet, 1)
			s := &PacketServer{MaxPacket: 100, Rate: Rate{PerSecond: 1e-6, Burst: 4}}
			s.Handler = s.Each(func(ctx context.Context, p *Packet) {
				echoPacket(ctx, p)
				if string(p.Data) == "detach" && p.Detach() {
					late <- p
				}
			})
			done := make(chan error, 1)
			go func() { done <- s.ServePacket(wrapped{pc}) }()
			port, _ := startPackets(t, s, "127.0.0.1:0", 1)
			c := dialUDP(t, host, addrPortOf(pc.LocalAddr()).Port())
			if got := askUDP(t, c, "hello"); got != "hello" {
				t.Errorf("answer %q, want hello", got)
			}
			c.Write(make([]byte, 101))
			c.Write([]byte("detach"))
			p := <-late
			if got := askUDP(t, c, "again"); got != "again" {
				t.Errorf("answer %q, want again", got)
			}
			p.Finish()
			buf := make([]byte, 100)
			if n, err := c.Read(buf); err != nil || string(buf[:n]) != "detach" {
				t.Errorf("answer of the detached packet %q, %v", buf[:n], err)
			}
			if got := p.owner.conn; got != (wrapped{pc}) {
				t.Errorf("the packet came to %v", got)
			}
			if got := askUDP(t, dialUDP(t, "127.0.0.1", port), "kernel"); got != "kernel" {
				t.Errorf("answer %q, want kernel", got)
			}
			if err := s.Shutdown(t.Context()); err != nil {
				t.Errorf("Shutdown = %v", err)
			}
			if err := <-done; err != ErrServerClosed {
				t.Errorf("ServePacket = %v, want %v", err, ErrServerClosed)
			}
			if got := s.Stats.Oversize.Load(); got != 1 {
				t.Errorf("Stats.Oversize = %d, want 1", got)
			}
		})
	}
}

func TestClientOf(t *testing.T) {
	tests := []struct{ in, want string }{
		{"192.0.2.7", "192.0.2.7"},
		{"::ffff:192.0.2.7", "192.0.2.7"},
		{"2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"},
		{"fe80::1%lo", "fe80::"},
	}
	for _, tt := range tests {
		if got := ClientOf(netip.MustParseAddr(tt.in)); got != netip.MustParseAddr(tt.want) {
			t.Errorf("ClientOf(%s) = %v, want %s", tt.in, got, tt.want)
		}
	}
	if got := ClientOf(netip.Addr{}); got.IsValid() {
		t.Errorf("ClientOf(zero) = %v", got)
	}
}

// A flaky socket fails a given number of times before each datagram, gives no source for datagrams
// that ask for that, and does not send the answer "lost".
type flaky struct {
	net.PacketConn
	failures, left int
}

func (c *flaky) ReadFrom(b []byte) (int, net.Addr, error) {
	if c.left--; c.left >= 0 {
		return 0, nil, errFlaky
	}
	c.left = c.failures
	n, from, err := c.PacketConn.ReadFrom(b)
	switch string(b[:n]) {
	case "nobody":
		from = nil
	case "elsewhere":
		from = &net.UnixAddr{Name: "/run/x", Net: "unixgram"}
	}
	return n, from, err
}

func (c *flaky) WriteTo(b []byte, to net.Addr) (int, error) {
	if string(b) == "lost" {
		return 0, errFlaky
	}
	return c.PacketConn.WriteTo(b, to)
}

var errFlaky = errors.New("as asked")

// TestPacketFlaky: a socket whose reads fail now and then is served, datagrams without a source are
// dropped, and unsent answers are counted.
func TestPacketFlaky(t *testing.T) {
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &PacketServer{}
	s.Handler = s.Each(func(ctx context.Context, p *Packet) {
		if string(p.Data) == "nobody" || string(p.Data) == "elsewhere" {
			t.Errorf("the handler was given %q of %v", p.Data, p.Client)
		}
		echoPacket(ctx, p)
	})
	done := make(chan error, 1)
	go func() {
		done <- s.ServePacket(&flaky{PacketConn: pc, failures: maxReadFailures, left: maxReadFailures})
	}()
	c := dialUDP(t, "127.0.0.1", addrPortOf(pc.LocalAddr()).Port())
	for _, unanswered := range []string{"nobody", "elsewhere", "lost"} {
		c.Write([]byte(unanswered))
		if !quiet(t, c) {
			t.Errorf("%q was answered", unanswered)
		}
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-done; err != ErrServerClosed {
		t.Errorf("ServePacket = %v, want %v", err, ErrServerClosed)
	}
	if s.Stats.Received.Load() != 4 || s.Stats.Sent.Load() != 3 || s.Stats.Unsent.Load() != 1 {
		t.Errorf("%d received, %d sent, %d not sent; want 4, 3, 1", s.Stats.Received.Load(),
			s.Stats.Sent.Load(), s.Stats.Unsent.Load())
	}
}

// TestPacketGivenUp: a socket that keeps failing is given up, with its error.
func TestPacketGivenUp(t *testing.T) {
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &PacketServer{}
	s.Handler = s.Each(echoPacket)
	if err := s.ServePacket(&flaky{PacketConn: pc, left: maxReadFailures + 1}); !errors.Is(err, errFlaky) ||
		errors.Is(err, ErrServerClosed) {
		t.Errorf("ServePacket = %v, want %v", err, errFlaky)
	}
	if err := pc.Close(); !errors.Is(err, net.ErrClosed) {
		t.Error("the socket is open still")
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Errorf("Shutdown after it = %v", err)
	}
}

// TestFinishAll: detached packets of several sockets, in any order, are answered when
// FinishAll returns, and may be detached again.
func TestFinishAll(t *testing.T) {
	const each = 5
	s := &PacketServer{MaxDetached: 2 * each}
	detached := make(chan *Packet, 2*each)
	s.Handler = s.Each(func(_ context.Context, p *Packet) {
		if !p.Detach() {
			t.Error("too many detached packets")
			return
		}
		if string(p.Data) != "silence" {
			p.Reply = append(p.Reply, p.Data...)
		}
		detached <- p
	})
	var clients []net.Conn
	for range 2 {
		port, _ := startPackets(t, s, "127.0.0.1:0", 1)
		clients = append(clients, dialUDP(t, "127.0.0.1", port))
	}
	FinishAll(nil)
	for round := range int64(3) {
		for _, c := range clients {
			for i := range each - 1 {
				fmt.Fprint(c, i)
			}
			fmt.Fprint(c, "silence")
		}
		var all []*Packet
		for range 2 * each {
			all = append(all, <-detached)
		}
		switch round {
		case 0: // one socket after the other
			slices.SortFunc(all, func(a, b *Packet) int { return int(a.Client.Port()) - int(b.Client.Port()) })
		case 1: // in turn
			slices.SortFunc(all, func(a, b *Packet) int { return strings.Compare(string(a.Data), string(b.Data)) })
		}
		FinishAll(all)
		if got, want := s.Stats.Sent.Load(), (round+1)*2*(each-1); got != want {
			t.Fatalf("%d answers are sent, want %d", got, want)
		}
		for _, c := range clients {
			got := make(map[string]bool)
			for range each - 1 {
				b := make([]byte, 10)
				n, err := c.Read(b)
				if err != nil {
					t.Fatal(err)
				}
				got[string(b[:n])] = true
			}
			if len(got) != each-1 || got["silence"] {
				t.Errorf("answers %v", got)
			}
		}
	}
}

// A recorder notes the replies that are sent.
type recorder struct{ sent []string }

func (r *recorder) Send(p *Packet) { r.sent = append(r.sent, p.Client.String()+" "+string(p.Reply)) }

func (r *recorder) Flush() (sent, refused int) { return len(r.sent), 0 }

// TestAnswerOrder: answers leave in the order of their requests. If the order does not matter,
// consecutive answers to one client leave longest first.
func TestAnswerOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 3))
	for range 300 {
		var batch []*Packet
		var asked, arranged []string
		var row []string
		k := &socket{server: &PacketServer{}, handed: make([]bool, 20)}
		k.server.prepare()
		end := func() {
			slices.SortFunc(row, func(a, b string) int { return len(b) - len(a) }) // no two have the same length
			arranged, row = append(arranged, row...), nil
		}
		last := netip.AddrPort{}
		for i := range rng.IntN(20) {
			p := &Packet{Client: netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, 1}), uint16(1+rng.IntN(3))), slot: i}
			batch = append(batch, p)
			if rng.IntN(5) == 0 {
				continue // no answer
			}
			p.Reply = bytes.Repeat([]byte{'x'}, 1+i*7%20)
			if rng.IntN(5) == 0 {
				k.handed[i] = true // as if it belonged to another goroutine
				continue
			}
			if p.Client != last {
				end()
			}
			last = p.Client
			row = append(row, p.Client.String()+" "+string(p.Reply))
			asked = append(asked, row[len(row)-1])
		}
		end()
		for unordered, want := range map[bool][]string{false: asked, true: arranged} {
			var out recorder
			k.server.Unordered, k.out = unordered, &out
			before := k.server.Stats.Sent.Load()
			k.answer(slices.Clone(batch))
			if !slices.Equal(out.sent, want) || k.server.Stats.Sent.Load()-before != int64(len(want)) {
				t.Fatalf("unordered %v: sent %q, want %q", unordered, out.sent, want)
			}
		}
	}
}
