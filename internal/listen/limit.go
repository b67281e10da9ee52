package listen

import (
	"hash/maphash"
	"net/netip"
	"sync"
	"time"
)

// A Rate is a token bucket: Burst requests at once, refilled at PerSecond. The
// zero Rate, and any whose PerSecond is not positive, sets no limit. A Burst
// below 1 means 1.
type Rate struct {
	PerSecond float64
	Burst     int
}

// ClientOf returns what counts as one client: an IPv4 address as it is
// (IPv4-mapped IPv6 addresses included), an IPv6 address cut to its /64, which
// one customer commonly holds whole, and the zero Addr as it is.
func ClientOf(a netip.Addr) netip.Addr {
	a = a.Unmap()
	if !a.Is6() {
		return a
	}
	p, err := a.WithZone("").Prefix(64)
	if err != nil {
		return a
	}
	return p.Addr()
}

const (
	limiterSets = 2048
	limiterWays = 8
)

// A Limiter holds one token bucket for each client in fixed memory: 16,384
// clients, 0.7 MB. When a set of eight buckets is full, the one that has rested
// longest is given away, so a flood of forged addresses cannot grow it and
// cannot push out the clients that are most in debt. Its methods may be called
// concurrently. A nil *Limiter limits nobody.
type Limiter struct {
	interval int64 // nanoseconds for one token
	slack    int64 // nanoseconds a bucket may be in debt
	exempt   []netip.Prefix
	start    time.Time
	seed     maphash.Seed
	sets     []limiterSet
}

type limiterSet struct {
	mu   sync.Mutex
	ways [limiterWays]bucket
}

// A bucket is a generic cell rate algorithm: the time at which it is full again.
type bucket struct {
	client netip.Addr
	full   int64 // nanoseconds since Limiter.start
}

// NewLimiter returns a limiter for r that never limits clients within the
// exempt prefixes. If r sets no limit it returns nil.
func NewLimiter(r Rate, exempt []netip.Prefix) *Limiter {
	if !(r.PerSecond > 0) {
		return nil
	}
	interval := max(int64(float64(time.Second)/r.PerSecond), 1)
	return &Limiter{
		interval: interval,
		slack:    interval * int64(max(r.Burst, 1)),
		exempt:   exempt,
		start:    time.Now(),
		seed:     maphash.MakeSeed(),
		sets:     make([]limiterSet, limiterSets),
	}
}

// Allow charges n tokens to the client at addr and reports whether it had them;
// if not, nothing is charged. The zero Addr (a unix socket, a caller in this
// process) is never limited. More than Burst tokens are never granted.
func (l *Limiter) Allow(addr netip.Addr, n int) bool {
	if l == nil || !addr.IsValid() || n <= 0 {
		return true
	}
	return l.allowAt(addr, n, int64(time.Since(l.start)))
}

func (l *Limiter) allowAt(addr netip.Addr, n int, now int64) bool {
	if l.exempted(addr) {
		return true
	}
	client := ClientOf(addr)
	set := &l.sets[maphash.Comparable(l.seed, client)%limiterSets]
	set.mu.Lock()
	defer set.mu.Unlock()
	b := set.find(client)
	full := max(b.full, now)
	// Compared by division: n * interval could overflow.
	if int64(n) > (l.slack-(full-now))/l.interval {
		return false
	}
	b.full = full + int64(n)*l.interval
	return true
}

// find returns the client's bucket, taking over the most rested one for a
// client without. The caller holds mu.
func (s *limiterSet) find(client netip.Addr) *bucket {
	rested := &s.ways[0]
	for i := range s.ways {
		b := &s.ways[i]
		if b.client == client {
			return b
		}
		if b.full < rested.full {
			rested = b
		}
	}
	*rested = bucket{client: client}
	return rested
}

func (l *Limiter) exempted(addr netip.Addr) bool {
	return contains(l.exempt, addr)
}

func contains(prefixes []netip.Prefix, addr netip.Addr) bool {
	addr = addr.Unmap()
	for _, p := range prefixes {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}

// Loopback returns the prefixes of the addresses that never leave the machine,
// the usual value of an Exempt field: a mail server asks from there.
func Loopback() []netip.Prefix {
	return []netip.Prefix{
		netip.PrefixFrom(netip.AddrFrom4([4]byte{127}), 8),
		netip.PrefixFrom(netip.IPv6Loopback(), 128),
	}
}
