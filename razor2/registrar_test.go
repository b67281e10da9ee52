package razor2

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/bulkhead-mail/bulkhead/door"
)

// TestRegistrar counts the registrations that pass from ever new addresses.
func TestRegistrar(t *testing.T) {
	for _, tt := range []struct {
		from string // format of the address, for the number of the attempt
		want int
	}{
		{"198.51.100.%d", 5},
		{"::ffff:198.51.100.%d", 5},
		{"198.51.%d.1", 200},
		{"2001:db8:1:%x::1", 5},
		{"2001:db8:%x::1", 20},
		{"2001:%x::1", 200},
		{"127.0.%d.1", 50},
		{"10.0.0.%d", 50},
	} {
		r := newRegistrar(door.Rate{PerSecond: 1e-9, Burst: 5}, append(door.Loopback(), netip.MustParsePrefix("10.0.0.0/8")))
		got := 0
		for n := range 200 {
			if r.allow(netip.MustParseAddr(fmt.Sprintf(tt.from, n))) {
				got++
			}
		}
		if got != tt.want {
			t.Errorf("%d of 200 registrations from %s, want %d", got, tt.from, tt.want)
		}
	}
}
