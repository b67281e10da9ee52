package fuzzy

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/door"
	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/prototest"
)

// TestClientReads: the client skips datagrams that are not its answer, resends unanswered requests,
// and gives up in time.
func TestClientReads(t *testing.T) {
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	must(t, err)
	requests := make(chan []byte, 16)
	var mu sync.Mutex
	var answer func(Request, int) [][]byte
	done := make(chan struct{})
	t.Cleanup(func() { pc.Close(); <-done })
	go func() {
		defer close(done)
		buf := make([]byte, 2048)
		for n := 0; ; {
			size, from, err := pc.ReadFrom(buf)
			if err != nil {
				return
			}
			n++
			var r Request
			ParseRequest(buf[:size], &r)
			select {
			case requests <- bytes.Clone(buf[:size]):
			default:
			}
			mu.Lock()
			all := answer(r, n)
			mu.Unlock()
			for _, a := range all {
				pc.WriteTo(a, from)
			}
		}
	}()
	to := func(r Request, reply Reply, tag uint32) []byte {
		reply.Tag = tag
		return r.AppendReply(nil, &reply)
	}
	set := func(f func(Request, int) [][]byte) { mu.Lock(); defer mu.Unlock(); answer = f }
	found := Reply{FlagValue: FlagValue{Value: 5, Flag: 1}, Prob: 1}
	c := dial(t, pc.LocalAddr().String(), nil)
	set(func(r Request, _ int) [][]byte {
		good := to(r, found, r.Tag)
		return [][]byte{{}, good[:20], to(r, Reply{Prob: 1}, r.Tag+1), good}
	})
	if r, err := c.Check(t.Context(), digestOf(1), nil); err != nil || r.Value != 5 {
		t.Errorf("%+v, %v, want the answer with the request's tag", r, err)
	}
	var sent Request
	must(t, ParseRequest(<-requests, &sent))
	if sent.Version != 4 || !sent.LongForm || sent.Tag == 0 || sent.Command != Check || sent.Digest != digestOf(1) {
		t.Errorf("sent %+v", sent)
	}
	for name, do := range map[string]func() error{
		"write":  func() error { return c.Write(t.Context(), digestOf(1), nil, 1, 1) },
		"delete": func() error { return c.Delete(t.Context(), digestOf(1), nil) },
	} {
		for prob, want := range map[float32]error{1: nil, 0: bulkhead.ErrForbidden} {
			set(func(r Request, _ int) [][]byte { return [][]byte{to(r, Reply{Prob: prob}, r.Tag)} })
			if err := do(); !errors.Is(err, want) || (err == nil) != (want == nil) {
				t.Errorf("%s answered with %v: %v, want %v", name, prob, err, want)
			}
		}
	}
	// A request without an answer is sent once, and then resent the given number of times.
	for again, want := range map[int]int{-1: 1, 1: 2, 2: 3, 0: 4} {
		c.opts.Timeout, c.opts.Retransmits = 5*time.Millisecond, again
		got := make(chan uint32, 16)
		set(func(r Request, _ int) [][]byte { got <- r.Tag; return nil })
		if _, err := c.Check(t.Context(), digestOf(1), nil); !errors.Is(err, ErrNoReply) {
			t.Errorf("sent again %d times: %v", again, err)
		}
		tag := <-got
		for range want - 1 {
			if next := <-got; next != tag {
				t.Errorf("sent again with the tag %x, first with %x", next, tag)
			}
		}
		if len(got) > 0 {
			t.Errorf("sent again %d times: more than %d datagrams", again, want)
		}
	}
	c.opts.Retransmits = 1000
	var first atomic.Int64
	set(func(r Request, n int) [][]byte {
		first.CompareAndSwap(0, int64(n))
		if int64(n) < first.Load()+2 {
			return nil
		}
		return [][]byte{to(r, found, r.Tag)}
	})
	if _, err := c.Check(t.Context(), digestOf(1), nil); err != nil {
		t.Errorf("the third transmission is answered: %v", err)
	}
	set(func(Request, int) [][]byte { return nil })
	c.opts.Timeout, c.opts.Retransmits = time.Minute, 0
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Check(ctx, digestOf(1), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of the context: %v", err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := c.Check(ctx, digestOf(1), nil); !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, ErrNoReply) {
		t.Errorf("after the deadline of the context: %v", err)
	}
	if _, err := Dial(t.Context(), "127.0.0.1:nothing", nil); err == nil || !strings.HasPrefix(err.Error(), "fuzzy: ") {
		t.Errorf("an address that is none: %v", err)
	}
	if _, err := Dial(t.Context(), "127.0.0.1:1", &Options{
		ServerKey: new([32]byte),
	}); !errors.Is(err, bulkhead.ErrMalformed) {
		t.Errorf("a key of low order: %v", err)
	}
}

// TestClientTCP: the client's requests over a connection, plain and encrypted; it connects again when the server has
// closed the connection, and fails when nothing listens.
func TestClientTCP(t *testing.T) {
	pair, err := NewKeyPair(nil)
	must(t, err)
	address := prototest.ServeStream(t, "127.0.0.1:0", &Server{Clearinghouse: new(prototest.House),
		Keys: []*Key{{KeyPair: pair, Update: true}}}).String()
	for _, key := range []*[32]byte{nil, &pair.Public} {
		c, err := Dial(t.Context(), address, &Options{TCP: true, ServerKey: key})
		must(t, err)
		defer c.Close()
		for range 3 {
			must(t, c.Write(t.Context(), digestOf(1), nil, 2, 7))
			if r, err := c.Check(t.Context(), digestOf(1), nil); err != nil || !r.OK() || r.Flag != 2 {
				t.Errorf("a check answers %+v, %v", r, err)
			}
			if _, err := c.Ping(t.Context()); err != nil {
				t.Error(err)
			}
			c.conn.Close() // as a server does with a connection that is idle
		}
		if n, err := c.Stored(t.Context()); err != nil || n == 0 {
			t.Errorf("%d digests are stored, %v", n, err)
		}
	}
	absent, err := Dial(t.Context(), nodetest.Address(t), &Options{TCP: true, Timeout: time.Second})
	must(t, err)
	defer absent.Close()
	if d, err := absent.Ping(t.Context()); d != 0 || err == nil || !strings.HasPrefix(err.Error(), "fuzzy: ") {
		t.Errorf("nothing listens: %v, %v", d, err)
	}
}

// TestClientService: the client finds the storage of a service by its SRV record.
func TestClientService(t *testing.T) {
	address := prototest.ServeStream(t, "127.0.0.1:0", &Server{Clearinghouse: new(prototest.House)})
	_, port, err := net.SplitHostPort(address.String())
	must(t, err)
	dns := nodetest.ServeDNS(t, map[string][]string{
		"SRV _fuzzy._tcp.storage.example": {"one.storage.example:" + port}, "A one.storage.example": {"127.0.0.1"}})
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", dns.Address)
	}}
	for _, service := range []string{"service=fuzzy+storage.example", "service=fuzzy+storage.example:10"} {
		c, err := Dial(t.Context(), service, &Options{Resolver: resolver, TCP: true})
		must(t, err)
		if _, err := c.Ping(t.Context()); err != nil {
			t.Errorf("%s: %v", service, err)
		}
		must(t, c.Close())
	}
	for _, bad := range []string{"service=fuzzy", "service=+storage.example", "service=fuzzy+", "service=fuzzy+:10"} {
		if _, err := Dial(t.Context(), bad, &Options{Resolver: resolver}); !errors.Is(err, bulkhead.ErrMalformed) {
			t.Errorf("%s: %v", bad, err)
		}
	}
	_, err = Dial(t.Context(), "service=fuzzy+other.example", &Options{Resolver: resolver})
	if missing := (*net.DNSError)(nil); !errors.As(err, &missing) || !missing.IsNotFound {
		t.Errorf("a service without a record: %v", err)
	}
}

// TestFrames: on a connection each request follows its length. A broken frame, or a request that
// must not be answered, ends the connection.
func TestFrames(t *testing.T) {
	ping := (&Request{Version: 4, Command: Ping, Value: 7}).Append(nil)
	frame := func(n int, data []byte) []byte {
		return append(binary.LittleEndian.AppendUint16(nil, uint16(n)), data...)
	}
	good := frame(len(ping), ping)
	padded := append(bytes.Clone(ping), bytes.Repeat([]byte{0x90, 0}, (8192-len(ping))/2)...)
	few := door.Rate{PerSecond: 1e-6, Burst: 2}
	for _, tt := range []struct {
		name string
		s    *Server
		in   []byte
		want int // answers
	}{
		{"two", &Server{}, append(bytes.Clone(good), good...), 2},
		{"nothing", &Server{}, append(append(bytes.Clone(good), 0, 0), good...), 1},
		{"largest", &Server{}, append(frame(len(padded), padded), good...), 2},
		{"larger", &Server{}, append(frame(8193, append(padded, 0)), good...), 0},
		{"cut", &Server{}, append(bytes.Clone(good), good[:20]...), 1},
		{"half a length", &Server{}, append(bytes.Clone(good), 1), 1},
		{"noise", &Server{}, append(frame(5, []byte("noise")), good...), 0},
		{"blocked", &Server{Blocked: door.Loopback()}, good, 0},
		{"over the rate", &Server{Rate: few}, bytes.Repeat(good, 3), 2},
		{"exempt", &Server{Rate: few, Exempt: door.Loopback()}, bytes.Repeat(good, 3), 3},
	} {
		tt.s.Clearinghouse = new(prototest.House)
		address := prototest.ServeStream(t, "127.0.0.1:0", tt.s)
		conn, err := net.Dial("tcp", address.String())
		must(t, err)
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(20 * time.Second))
		conn.Write(tt.in)
		conn.(*net.TCPConn).CloseWrite()
		got, err := io.ReadAll(conn)
		if err != nil && !strings.Contains(err.Error(), "reset") {
			t.Errorf("%s: %v", tt.name, err)
		}
		if len(got) != tt.want*(2+replySize4) {
			t.Errorf("%s: %d bytes, want %d answers", tt.name, len(got), tt.want)
			continue
		}
		for i := range tt.want {
			one := got[i*(2+replySize4):]
			if r, err := ParseReply(one[2 : 2+replySize4]); err != nil || r.Value != 7 ||
				binary.LittleEndian.Uint16(one) != replySize4 {
				t.Errorf("%s: answer %d: %+v, %v", tt.name, i+1, r, err)
			}
		}
	}
	l, err := net.Listen("tcp", ":0")
	must(t, err)
	if err := (&Server{Clearinghouse: new(prototest.House)}).Serve(l); err == nil || errors.Is(err, door.ErrServerClosed) {
		t.Errorf("an open server on all addresses ends with %v, want a refusal", err)
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("its listener is open: %v", err)
	}
}

// TestKeys: reading and writing keys, at the bounds of their forms.
func TestKeys(t *testing.T) {
	for n := range 40 {
		b := bytes.Repeat([]byte{0xa5}, n)
		text := EncodeBase32(b)
		if got, err := DecodeBase32(strings.ToUpper(text)); err != nil || !bytes.Equal(got, b) {
			t.Errorf("%d bytes: %q is read as %x, %v", n, text, got, err)
		}
		if want := (8*n + 4) / 5; len(text) != want {
			t.Errorf("%d bytes: %d characters, want %d", n, len(text), want)
		}
	}
	if got, err := DecodeBase32(strings.Repeat("y", 1024)); err != nil || len(got) != 640 {
		t.Errorf("1024 characters: %d bytes, %v", len(got), err)
	}
	for _, bad := range []string{strings.Repeat("y", 1025), "y", "yyy", "yo", "y@", "y[", "y`", "y{", "yyyyyy", "\xff"} {
		if _, err := DecodeBase32(bad); !errors.Is(err, bulkhead.ErrMalformed) {
			t.Errorf("%.20q of %d characters: %v", bad, len(bad), err)
		}
	}
	if _, err := ParseSecret("short"); !errors.Is(err, bulkhead.ErrMalformed) || strings.Contains(err.Error(), "short") {
		t.Errorf("a secret that is none: %v", err)
	}
	if _, err := NewKeyPair(strings.NewReader("too little")); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a key pair of ten bytes: %v", err)
	}
	pair, err := NewKeyPair(bytes.NewReader(unhex(t, vectorSecret)))
	if err != nil || hex.EncodeToString(pair.Public[:]) != vectorPublic {
		t.Errorf("key pair %x, %v", pair.Public, err)
	}
}
