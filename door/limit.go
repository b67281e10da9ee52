package door

import (
	"hash/maphash"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/clock"
)

// A Rate is a token bucket: Burst requests at once, refilled at PerSecond. The
// zero Rate, and any whose PerSecond is not positive, sets no limit. A Burst
// below 1 means 1.
type Rate struct {
	PerSecond float64
	Burst     int
	// Source, unless nil, replaces the other fields and the exempt clients, for
	// servers whose rate changes while they run.
	Source *Source
}

// A Source is the rate of servers that run. The zero Source sets no limit. Its
// methods may be called concurrently.
type Source struct{ rate atomic.Pointer[sourced] }

type sourced struct {
	Rate
	exempt []netip.Prefix
}

// followed is a limiter and the rate of a source from which it was made.
type followed struct {
	rate    *sourced
	limiter *Limiter
}

// Set changes the rate and the exempt clients of all limiters that follow the source.
// They forget what clients have used, unless nothing changes. The Source of r is
// ignored.
func (s *Source) Set(r Rate, exempt []netip.Prefix) {
	r.Source = nil
	old := s.rate.Load()
	if old != nil && old.Rate == r && slices.Equal(old.exempt, exempt) {
		return
	}
	s.rate.Store(&sourced{r, slices.Clone(exempt)})
}

// ClientOf returns the key of a client: an IPv4 address as it is (IPv4-mapped IPv6 addresses
// included), an IPv6 address cut to its /64, which one customer commonly holds whole, and the zero
// Addr as it is.
func ClientOf(a netip.Addr) netip.Addr {
	a = a.Unmap()
	if !a.Is6() {
		return a
	}
	p, _ := a.WithZone("").Prefix(64) // fails for more bits than a has
	return p.Addr()
}

const (
	limiterSets = 2048
	limiterWays = 8
)

// A Limiter holds one token bucket for each client in fixed memory: 16,384 clients, 0.7 MB. When a
// set of eight buckets is full, the one that has rested longest is reused, so a flood of forged
// addresses cannot make the Limiter grow, nor push out the clients that owe most. Its methods may
// be called concurrently. A nil *Limiter sets no limit.
type Limiter struct {
	interval int64 // nanoseconds for one token
	slack    int64 // nanoseconds a bucket may be in debt
	exempt   []netip.Prefix
	start    time.Time
	seed     maphash.Seed
	sets     []limiterSet

	source  *Source // nil for a limiter of its own rate
	current atomic.Pointer[followed]
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

// longest is the longest time that a bucket takes to fill, 73 years in nanoseconds: a longer time
// is as good as never.
const longest = 1 << 61

// NewLimiter returns a limiter for r that never limits clients within the exempt
// prefixes. It returns nil if r sets no limit and has no Source.
func NewLimiter(r Rate, exempt []netip.Prefix) *Limiter {
	if r.Source != nil {
		return &Limiter{source: r.Source}
	}
	if !(r.PerSecond > 0) {
		return nil
	}
	burst := min(int64(max(r.Burst, 1)), longest)
	interval := max(int64(min(float64(time.Second)/r.PerSecond, float64(longest/burst))), 1)
	return &Limiter{
		interval: interval,
		slack:    interval * burst,
		exempt:   exempt,
		start:    clock.Now(),
		seed:     maphash.MakeSeed(),
		sets:     make([]limiterSet, limiterSets),
	}
}

// limiter returns the limiter of the rate that holds now, made if need be.
func (s *Source) limiter(at *atomic.Pointer[followed]) *Limiter {
	rate := s.rate.Load()
	for {
		f := at.Load()
		if f != nil && f.rate == rate {
			return f.limiter
		}
		fresh := &followed{rate: rate}
		if rate != nil {
			fresh.limiter = NewLimiter(rate.Rate, rate.exempt)
		}
		if at.CompareAndSwap(f, fresh) {
			return fresh.limiter
		}
	}
}

// Allow charges n tokens to the client at addr and reports whether it had them;
// if not, nothing is charged. The zero Addr (a unix socket, a caller in this
// process) is never limited. More than Burst tokens are never granted.
func (l *Limiter) Allow(addr netip.Addr, n int) bool {
	if l == nil || !addr.IsValid() || n <= 0 {
		return true
	}
	if l.source != nil {
		return l.source.limiter(&l.current).Allow(addr, n)
	}
	return l.allowAt(addr, n, int64(clock.Since(l.start)))
}

func (l *Limiter) allowAt(addr netip.Addr, n int, now int64) bool {
	if Within(l.exempt, addr) {
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

// Within reports whether an address lies in one of the networks. An IPv4 address
// mapped into IPv6 is the IPv4 address; a zone does not matter.
func Within(prefixes []netip.Prefix, addr netip.Addr) bool {
	addr = addr.Unmap().WithZone("")
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
