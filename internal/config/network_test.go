package config

import (
	"net/netip"
	"testing"
)

// TestParseNetworkMapped wants IPv4 addresses in the form that IPv6 sockets show
// to be what clients are compared as: IPv4.
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
