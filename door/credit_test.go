package door

import (
	"net/netip"
	"testing"

	"pgregory.net/rapid"
)

// TestCredit checks for any requests and answers that an address is sent at most 1.5 times the bytes
// that came from it, and that an answer is refused only if it would be too much.
func TestCredit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var c Credit
		in, out := make(map[netip.AddrPort]int), make(map[netip.AddrPort]int)
		for range rapid.IntRange(1, 100).Draw(t, "requests") {
			client := netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, rapid.Byte().Draw(t, "client") % 3}), 53)
			request, answer := rapid.IntRange(0, 2000).Draw(t, "request"), rapid.IntRange(0, 3000).Draw(t, "answer")
			in[client] += request
			ok := c.Allow(client, request, answer)
			if ok {
				out[client] += answer
			}
			if Amplifies(in[client], out[client]) {
				t.Fatalf("%v was sent %d bytes for %d", client, out[client], in[client])
			}
			if !ok && !Amplifies(request, answer) {
				t.Fatalf("%d bytes for %d were refused", answer, request)
			}
		}
	})
}

// TestCreditIsBounded checks that many addresses do not make a credit grow without bound, and that an
// address keeps its credit while fewer ask.
func TestCreditIsBounded(t *testing.T) {
	var c Credit
	at := func(i int) netip.AddrPort {
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), 1)
	}
	c.Allow(at(0), 40, 108)
	for i := range maxCreditClients {
		c.Allow(at(1+i), 40, 108)
	}
	if !c.Allow(at(0), 40, 108) {
		t.Error("the credit of a client was forgotten at once")
	}
	for i := range 5 * maxCreditClients {
		c.Allow(at(1+i), 40, 108)
	}
	if n := len(c.young) + len(c.old); n > 2*maxCreditClients {
		t.Errorf("%d addresses are remembered", n)
	}
}
