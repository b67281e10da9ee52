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
