package node

import (
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestConnectionsAtEveryDoor checks that each TCP door takes the number of connections in
// `connections` of [limits]. One more closes a silent one.
func TestConnectionsAtEveryDoor(t *testing.T) {
	const most = 3
	doors := []string{"http", "razor2", "razor_helper", "pyzor_helper", "dccifd", "milter", "policy"}
	var text strings.Builder
	fmt.Fprintf(&text, "[limits]\nconnections = %d\n[listen]\n", most)
	for _, door := range doors {
		fmt.Fprintf(&text, "%s = \"127.0.0.1:0\"\n", door)
	}
	n, _ := start(t, Options{Config: parse(t, text.String()), Dir: filepath.Join(t.TempDir(), "data")})
	var wg sync.WaitGroup
	for _, door := range doors {
		wg.Go(func() {
			to := strings.TrimPrefix(address(t, n, door), "http://")
			var conns []net.Conn
			open := func(i int) {
				d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, byte(i+1), 1)}} // networks of their own
				c, err := d.Dial("tcp", to)
				if err != nil {
					t.Errorf("%s: %v", door, err)
					return
				}
				conns = append(conns, c)
				time.Sleep(10 * time.Millisecond) // their silence begins at different times
			}
			closed := func(i int, within time.Duration) bool {
				if err := conns[i].SetReadDeadline(time.Now().Add(within)); err != nil {
					t.Error(err)
				}
				_, err := io.Copy(io.Discard, conns[i]) // some doors greet
				var timeout net.Error
				return !errors.As(err, &timeout) || !timeout.Timeout()
			}
			for i := range most {
				open(i)
			}
			gone := false
			for range 20 { // a connection that was silent for less than a second is kept
				time.Sleep(time.Second)
				open(most)
				if t.Failed() {
					return
				}
				for i := range most { // a busy machine may have accepted them in another order
					gone = gone || closed(i, 200*time.Millisecond)
				}
				conns[most].Close()
				conns = conns[:most]
				if gone {
					break
				}
			}
			if !gone {
				t.Errorf("%s: nobody gives way to one more than %d", door, most)
			}
			for _, c := range conns {
				c.Close()
			}
		})
	}
	wg.Wait()
}
