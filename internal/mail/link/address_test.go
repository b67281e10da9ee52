package link

import (
	"math/rand/v2"
	"net/netip"
	"testing"
)

// TestIsAddress compares isAddress, which need not parse every name, with [netip.ParseAddr].
func TestIsAddress(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	addresses := 0
	for range 100_000 {
		b := make([]byte, r.IntN(12))
		for i := range b {
			b[i] = "0123456789......::afgx%-_"[r.IntN(25)]
		}
		_, err := netip.ParseAddr(string(b))
		if got := isAddress(string(b)); got != (err == nil) {
			t.Fatalf("isAddress(%q) = %v, want %v", b, got, err == nil)
		} else if got {
			addresses++
		}
	}
	for _, name := range []string{"192.0.2.1", "::1", "2001:db8::a", "::ffff:192.0.2.1", "fe80::1%eth"} {
		if !isAddress(name) {
			t.Errorf("isAddress(%q) = false", name)
		}
	}
	if addresses < 20 {
		t.Errorf("%d addresses among what was tried, too few", addresses)
	}
}
