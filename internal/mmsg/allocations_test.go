//go:build !race

package mmsg

import "testing"

// TestAllocations checks that an exchange allocates only addresses: of each datagram received, a
// net.UDPAddr and its IP. The race detector allocates more.
func TestAllocations(t *testing.T) {
	server, client := pair(t, "udp4", "127.0.0.1")
	r, buffers := readers(t, server, 16, 100)
	back, backBuffers := readers(t, client, 16, 100)
	out, answer := NewWriter(client, 16), NewWriter(server, 16)
	data := make([]byte, 60)
	exchange := func() {
		for range 8 {
			out.Add(nil, nil, data)
		}
		out.Flush()
		receive(t, r, buffers, 8, func(i int, data []byte) {
			answer.Add(r.Addr(i), nil, data)
		})
		answer.Flush()
		receive(t, back, backBuffers, 8, func(int, []byte) {})
	}
	if n := testing.AllocsPerRun(50, exchange); n > 32 {
		t.Errorf("%v allocations for 8 datagrams and their answers, want at most 2 for each of the 16", n)
	}
}
