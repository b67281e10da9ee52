package razor2

import (
	"net/netip"

	"github.com/bulkhead-mail/bulkhead/door"
)

// A registrar limits registrations from one network: addresses are cheap, and each
// account is a voice. IPv6 is allocated in /48s to single networks and in /32s to
// providers, so both are limited.
type registrar struct {
	network  *door.Limiter  // a /24, or a /48
	provider *door.Limiter  // a /32 of IPv6
	exempt   *door.Limiter  // clients without other limits, counted by network
	inside   []netip.Prefix // exempt networks
}

// Clients without other limits, such as clients on the node itself, may register more often, and an
// IPv6 provider as often as a few networks.
const (
	exemptFactor   = 10
	providerFactor = 4
)

func newRegistrar(r door.Rate, exempt []netip.Prefix) *registrar {
	times := func(n int) *door.Limiter {
		return door.NewLimiter(door.Rate{PerSecond: r.PerSecond * float64(n), Burst: r.Burst * n}, nil)
	}
	return &registrar{network: times(1), provider: times(providerFactor), exempt: times(exemptFactor), inside: exempt}
}

// allow counts one registration against the network of addr and reports whether it is
// within the limit.
func (r *registrar) allow(addr netip.Addr) bool {
	addr = addr.Unmap().WithZone("")
	if !addr.IsValid() {
		return true // a caller in this process
	}
	if door.Within(r.inside, addr) {
		return r.exempt.Allow(networkOf(addr, 8, 64), 1)
	}
	if addr.Is4() {
		return r.network.Allow(networkOf(addr, 24, 0), 1)
	}
	return r.network.Allow(networkOf(addr, 0, 48), 1) && r.provider.Allow(networkOf(addr, 0, 32), 1)
}

// networkOf returns the first address of a network, which represents the network.
func networkOf(addr netip.Addr, bits4, bits6 int) netip.Addr {
	bits := bits6
	if addr.Is4() {
		bits = bits4
	}
	return netip.PrefixFrom(addr, bits).Masked().Addr()
}
