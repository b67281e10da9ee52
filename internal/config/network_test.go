package config

import (
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
