package razor2

import (
	"fmt"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bulkhead-mail/bulkhead/door"
	"github.com/bulkhead-mail/bulkhead/internal/testing/bubble"
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
		{"2001:db8:1:%x00::1", 5},
		{"2001:db8:%x00::1", 20},
		{"2001:%x::1", 200},
		{"127.%d.0.1", 50},
		{"fd00::%x00:0:0:1", 50},
		{"10.0.0.%d", 50},
	} {
		r := newRegistrar(door.Rate{PerSecond: 1e-9, Burst: 5}, append(door.Loopback(), netip.MustParsePrefix("10.0.0.0/8"),
			netip.MustParsePrefix("fd00::/8")))
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

// TestRegistrarInside checks that callers without an address, in this process, have no limit.
func TestRegistrarInside(t *testing.T) {
	r := newRegistrar(door.Rate{PerSecond: 1e-9, Burst: 1}, nil)
	for n := range 100 {
		if !r.allow(netip.Addr{}) {
			t.Fatalf("registration %d is refused", n)
		}
	}
}

// TestRegistrarRefills counts the registrations that pass a second after the limit was reached.
func TestRegistrarRefills(t *testing.T) {
	for from, want := range map[string]int{"198.51.100.%d": 1, "2001:db8:1:%x00::1": 1, "2001:db8:%x00::1": 4,
		"10.0.0.%d": 10} {
		synctest.Test(t, func(t *testing.T) {
			r := newRegistrar(door.Rate{PerSecond: 1, Burst: 2}, []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")})
			got := 0
			for n := range 200 {
				if n == 100 {
					bubble.Advance(time.Second)
				}
				if r.allow(netip.MustParseAddr(fmt.Sprintf(from, n))) && n >= 100 {
					got++
				}
			}
			if got != want {
				t.Errorf("%d registrations from %s after a second, want %d", got, from, want)
			}
		})
	}
}
