package door

import (
	"bufio"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// TestRefuser checks that clients that send a request while they are refused read the whole answer and
// then the end, and never a reset; and that no more connections are held than the limit.
func TestRefuser(t *testing.T) {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &Refuser{Answer: []byte("try again later\r\n")}
	var server sync.WaitGroup
	server.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			r.Refuse(conn)
		}
	})
	var clients sync.WaitGroup
	for range maxRefusals / 2 {
		clients.Go(func() {
			conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", l.Addr().String())
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			conn.SetDeadline(time.Now().Add(20 * time.Second))
			if _, err := conn.Write(make([]byte, 2000)); err != nil {
				t.Errorf("request: %v", err)
			}
			if got, err := io.ReadAll(bufio.NewReader(conn)); err != nil || string(got) != string(r.Answer) {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
	clients.Wait()
	l.Close()
	server.Wait()
	r.Wait()
	// Beyond the limit connections are closed at once.
	var held []net.Conn
	for range maxRefusals + 5 {
		here, there := net.Pipe()
		r.Refuse(there)
		held = append(held, here)
	}
	r.mu.Lock()
	if r.open > maxRefusals {
		t.Errorf("%d connections are held, want at most %d", r.open, maxRefusals)
	}
	r.mu.Unlock()
	for _, conn := range held {
		conn.Close()
	}
	r.Wait()
}
