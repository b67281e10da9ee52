package mmsg

import (
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"
)

func pair(t testing.TB, network, host string) (server, client *net.UDPConn) {
	t.Helper()
	server, err := net.ListenUDP(network, net.UDPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(host), 0)))
	if err != nil {
		t.Skipf("%s: %v", network, err)
	}
	client, err = net.DialUDP(network, nil, server.LocalAddr().(*net.UDPAddr))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close(); client.Close() })
	for _, c := range []*net.UDPConn{server, client} {
		c.SetDeadline(time.Now().Add(20 * time.Second))
	}
	return server, client
}

func readers(t testing.TB, c *net.UDPConn, n, size int) (*Reader, [][]byte) {
	t.Helper()
	r := NewReader(c, n, 0)
	buffers := make([][]byte, n)
	for i := range buffers {
		buffers[i] = make([]byte, size)
		r.SetBuffer(i, buffers[i])
	}
	return r, buffers
}

// receive reads datagrams until it has n.
func receive(t testing.TB, r *Reader, buffers [][]byte, n int, each func(i int, data []byte)) {
	t.Helper()
	for got := 0; got < n; {
		k, err := r.Read()
		if err != nil {
			t.Fatalf("after %d of %d datagrams: %v", got, n, err)
		}
		for i := range k {
			each(i, buffers[i][:r.Len(i)])
		}
		got += k
	}
}

// TestExchange checks that datagrams of equal and different lengths, to several clients in any
// order, arrive complete, once and at the right client.
func TestExchange(t *testing.T) {
	for _, tt := range []struct{ network, host string }{{"udp4", "127.0.0.1"}, {"udp6", "::1"}} {
		t.Run(tt.network, func(t *testing.T) {
			server, first := pair(t, tt.network, tt.host)
			clients := []*net.UDPConn{first}
			for range 2 {
				c, err := net.DialUDP(tt.network, nil, server.LocalAddr().(*net.UDPAddr))
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				c.SetDeadline(time.Now().Add(20 * time.Second))
				clients = append(clients, c)
			}
			const each = 150 // more than a Writer or a train holds
			lengths := func(k int) int { return []int{40, 40, 40, 700, 40, 41, 40, 40}[k%8] }
			in, inBuffers := readers(t, server, 32, 1500)
			out := NewWriter(server, 32)
			for round := range 3 {
				for c, client := range clients {
					w := NewWriter(client, 64)
					if round == 1 {
						w.Single()
					}
					for k := range each {
						data := bytes.Repeat([]byte{byte(k), byte(c), byte(round)}, lengths(k))[:lengths(k)]
						w.Add(nil, nil, data)
					}
					if sent, refused := w.Flush(); sent != each || refused != 0 {
						t.Fatalf("client sent %d, %d refused", sent, refused)
					}
					// The answer repeats the request.
					answered := 0
					for answered < each {
						n, err := in.Read()
						if err != nil {
							t.Fatal(err)
						}
						for i := range n {
							a := in.Addr(i)
							if a.(*net.UDPAddr).AddrPort() != client.LocalAddr().(*net.UDPAddr).AddrPort() {
								t.Fatalf("from %v, want %v", a, client.LocalAddr())
							}
							out.Add(a, nil, inBuffers[i][:in.Len(i)])
						}
						sent, refused := out.Flush()
						if sent != n || refused != 0 {
							t.Fatalf("server sent %d of %d, %d refused", sent, n, refused)
						}
						answered += n
					}
				}
				for c, client := range clients {
					r, buffers := readers(t, client, 64, 1500)
					k := 0
					receive(t, r, buffers, each, func(_ int, data []byte) {
						if len(data) != lengths(k) || data[0] != byte(k) || data[1] != byte(c) || data[2] != byte(round) {
							t.Fatalf("client %d, datagram %d: %d bytes, %x", c, k, len(data), data[:3])
						}
						k++
					})
				}
			}
		})
	}
}

// TestRefused checks that a datagram that cannot be sent is counted, and that the others are sent.
func TestRefused(t *testing.T) {
	server, client := pair(t, "udp4", "127.0.0.1")
	r, buffers := readers(t, server, 8, 1500)
	w := NewWriter(client, 8)
	w.Add(nil, nil, []byte("one"))
	w.Add(nil, nil, nil)
	w.Add(nil, nil, make([]byte, 70_000))
	w.Add(nil, nil, []byte("three"))
	if sent, refused := w.Flush(); sent != 2 || refused != 2 {
		t.Errorf("%d sent, %d refused, want 2 and 2", sent, refused)
	}
	var got []string
	receive(t, r, buffers, 2, func(_ int, data []byte) { got = append(got, string(data)) })
	if fmt.Sprint(got) != "[one three]" {
		t.Errorf("received %q", got)
	}
	if sent, refused := w.Flush(); sent != 0 || refused != 0 {
		t.Errorf("an empty Flush sent %d and refused %d", sent, refused)
	}
}

// TestTruncated checks that a datagram longer than its buffer is truncated.
func TestTruncated(t *testing.T) {
	server, client := pair(t, "udp4", "127.0.0.1")
	r, _ := readers(t, server, 2, 10)
	if _, err := client.Write(make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	if n, err := r.Read(); n != 1 || err != nil || r.Len(0) != 10 {
		t.Errorf("%d datagrams, the first of %d bytes, %v", n, r.Len(0), err)
	}
}

// TestClosed checks that a Read ends when the socket is closed.
func TestClosed(t *testing.T) {
	server, client := pair(t, "udp4", "127.0.0.1")
	r, _ := readers(t, server, 2, 10)
	server.SetReadDeadline(time.Unix(1, 0))
	if _, err := r.Read(); err == nil {
		t.Error("a Read past its deadline succeeds")
	}
	server.Close()
	if _, err := r.Read(); err == nil {
		t.Error("a Read of a closed socket succeeds")
	}
	w := NewWriter(client, 2)
	client.Close()
	w.Add(nil, nil, []byte("x"))
	if sent, refused := w.Flush(); sent != 0 || refused != 1 {
		t.Errorf("on a closed socket %d sent, %d refused", sent, refused)
	}
}
