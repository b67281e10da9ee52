package doors

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/testing/await"
)

// TestClientOf checks that a connection from this machine belongs to no client.
func TestClientOf(t *testing.T) {
	for addr, want := range map[string]string{
		"127.0.0.1:9": "invalid IP", "[::1]:9": "invalid IP", "[::ffff:127.0.0.1]:9": "invalid IP",
		"192.0.2.1:9": "192.0.2.1", "[2001:db8::1:2:3:4]:9": "2001:db8::1:2:3:4",
	} {
		if got := clientOf(remoteConn{addr: addr}).String(); got != want {
			t.Errorf("clientOf(%s) = %v, want %v", addr, got, want)
		}
	}
}

// A remoteConn is a connection with nothing but a remote address.
type remoteConn struct {
	net.Conn
	addr string
}

func (c remoteConn) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(c.addr))
}

// TestSilentConnections checks that connections that send nothing, or not all of a request, keep no
// client out of the HTTP door. A connection whose request is being answered keeps its place.
func TestSilentConnections(t *testing.T) {
	for _, encrypted := range []bool{false, true} {
		begun, answer := make(chan struct{}), make(chan struct{})
		front := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/slow" {
				close(begun)
				<-answer
			}
			io.WriteString(w, "hello")
		}))
		front.Listener = newCappedListener(front.Listener, 4, 0)
		front.Config.ConnState = follow
		dial := func() (net.Conn, error) { return net.Dial("tcp", front.Listener.Addr().String()) }
		if encrypted {
			front.StartTLS()
			dial = func() (net.Conn, error) {
				return tls.Dial("tcp", front.Listener.Addr().String(), &tls.Config{InsecureSkipVerify: true})
			}
		} else {
			front.Start()
		}
		ask := func(path string) (net.Conn, error) {
			c, err := dial()
			if err != nil {
				return nil, err
			}
			t.Cleanup(func() { c.Close() })
			_, err = io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: x\r\n\r\n")
			return c, err
		}
		slow, err := ask("/slow")
		if err != nil {
			t.Fatal(err)
		}
		<-begun
		for i := range 3 {
			c, err := net.Dial("tcp", front.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			io.WriteString(c, "GET / HTTP/1.1\r\n"[:8*i])
		}
		read := func(c net.Conn) error {
			c.SetReadDeadline(time.Now().Add(20 * time.Second))
			r, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				return err
			}
			body, err := io.ReadAll(r.Body)
			if err == nil && string(body) != "hello" {
				err = errors.New(string(body))
			}
			return err
		}
		// All are from this machine, where connections that are idle for a second are closed.
		var failure error
		if !await.Within(await.Patience, func() bool {
			var c net.Conn
			if c, failure = ask("/"); failure == nil {
				failure = read(c)
			}
			return failure == nil
		}) {
			t.Fatalf("encrypted %v: no connection gave way: %v", encrypted, failure)
		}
		close(answer)
		if err := read(slow); err != nil {
			t.Errorf("encrypted %v: the request under way: %v", encrypted, err)
		}
		front.Close()
	}
}

// TestCappedConn checks what the server sees of a connection before and after another one has its place.
func TestCappedConn(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	capped := newCappedListener(l, 2, 0)
	clients, served := make([]net.Conn, 2), make([]*cappedConn, 2)
	for i := range clients {
		if clients[i], err = net.Dial("tcp", l.Addr().String()); err != nil {
			t.Fatal(err)
		}
		defer clients[i].Close()
		conn, err := capped.Accept()
		if err != nil {
			t.Fatal(err)
		}
		served[i] = conn.(*cappedConn)
	}
	stays, goes := served[0], served[1]
	read := make([]byte, 10)
	for _, c := range []net.Conn{clients[0], clients[1]} {
		if _, err := io.WriteString(c, "ask"); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := stays.Read(read); n != 3 || err != nil {
		t.Errorf("%d bytes read, %v", n, err)
	}
	if n, err := stays.Write([]byte("answer")); n != 6 || err != nil {
		t.Errorf("%d bytes written, %v", n, err)
	}
	if n, err := io.ReadFull(clients[0], read[:6]); err != nil || string(read[:6]) != "answer" {
		t.Errorf("the client has %q of %d, %v", read, n, err)
	}
	for range 2 { // the second time changes nothing
		if err := (&evicted{goes, capped.refuser}).Close(); err != nil {
			t.Error(err)
		}
	}
	if n, err := goes.Read(read); n != 0 || !errors.Is(err, errGivenWay) {
		t.Errorf("without a place %d bytes are read: %v", n, err)
	}
	if n, err := goes.Write(read); n != 0 || !errors.Is(err, errGivenWay) {
		t.Errorf("without a place %d bytes are written: %v", n, err)
	}
	if err := goes.Close(); err != nil { // by its refusal
		t.Error(err)
	}
	clients[1].SetReadDeadline(time.Now().Add(20 * time.Second))
	if got, err := io.ReadAll(clients[1]); string(got) != overloaded {
		t.Errorf("the client without a place has %q, %v", got, err)
	}
	if err := stays.Close(); err != nil {
		t.Error(err)
	}
	var last net.Conn
	for i := range 2 { // the place of the closed connection is free, and no other: all others wait too briefly
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if i == 0 {
			conn, err := capped.Accept()
			if err != nil {
				t.Fatal(err)
			}
			last = conn
			follow(conn, http.StateActive) // it keeps its place
			goes.place.Load().Work()
			continue
		}
		go capped.Accept()
		c.SetReadDeadline(time.Now().Add(20 * time.Second))
		if got, err := io.ReadAll(c); string(got) != overloaded {
			t.Errorf("one too many has %q, %v", got, err)
		}
	}
	// Both places are taken. A client of another network gets one once a connection waits for its client.
	enter := func() bool {
		place, _ := capped.crowd.Enter(io.NopCloser(nil), netip.MustParseAddr("192.0.2.1"))
		return place != nil
	}
	if enter() {
		t.Error("a connection whose request is answered gave way")
	}
	follow(last, http.StateIdle)
	if !enter() {
		t.Error("an idle connection did not give way")
	}
	l.Close()
	if _, err := capped.Accept(); err == nil {
		t.Error("a closed listener accepts")
	}
}
