package config

import (
	"fmt"
	"net/netip"
	"testing"
)

// TestParseNetworkMapped checks that IPv4 addresses in the form that IPv6 sockets show are
// read as IPv4, since clients are compared in that form.
func TestParseNetworkMapped(t *testing.T) {
	for text, want := range map[string]string{
		"::ffff:192.0.2.0/120": "192.0.2.0/24", "::ffff:192.0.2.7": "192.0.2.7/32", "::ffff:0:0/96": "0.0.0.0/0", "::/0": "::/0",
	} {
		if p, err := ParseNetwork(text); err != nil || p != netip.MustParsePrefix(want) {
			t.Errorf("ParseNetwork(%q) = %v, %v, want %s", text, p, err, want)
		}
	}
	if p, err := ParseNetwork("::ffff:192.0.2.7/120"); err == nil {
		t.Errorf("host bits: %v", p)
	}
}

func TestShareCountsFrom(t *testing.T) {
	for from, ok := range map[int]bool{0: false, 1: true, 2: true, 15: true, 16: false} {
		if _, err := Parse(fmt.Appendf(nil, "[mesh]\nshare_counts_from = %d\n", from)); (err == nil) != ok {
			t.Errorf("%d: %v", from, err)
		}
	}
	if got := Default().Mesh.ShareCounts; got != 2 {
		t.Errorf("by default %d", got)
	}
}
