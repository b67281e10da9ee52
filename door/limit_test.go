package door

import (
	"math"
	"math/rand/v2"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/testing/bubble"
)

// TestLimiterOracle compares the limiter with a token bucket in plain
// arithmetic, over random clients, charges and pauses.
func TestLimiterOracle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rnd := rand.New(rand.NewPCG(1, 2))
		const perSecond, burst = 8, 5 // an interval of whole nanoseconds
		l := NewLimiter(Rate{PerSecond: perSecond, Burst: burst}, nil)
		type model struct {
			tokens float64
			at     time.Time
		}
		oracle := map[netip.Addr]*model{}
		for step := range 20000 {
			bubble.Advance(time.Duration(rnd.IntN(3)) * time.Second / perSecond / 2)
			addr := netip.AddrFrom4([4]byte{192, 0, 2, byte(rnd.IntN(20))})
			n := 1 + rnd.IntN(6)
			m := oracle[addr]
			if m == nil {
				m = &model{tokens: burst, at: time.Now()}
				oracle[addr] = m
			}
			m.tokens = min(burst, m.tokens+time.Since(m.at).Seconds()*perSecond)
			m.at = time.Now()
			want := m.tokens > float64(n)-1e-6
			if want {
				m.tokens -= float64(n)
			}
			if got := l.Allow(addr, n); got != want {
				t.Fatalf("step %d: Allow(%v, %d) = %v, want %v with %.3f tokens", step, addr, n, got, want, m.tokens)
			}
		}
	})
}

func TestLimiterOff(t *testing.T) {
	addr := netip.MustParseAddr("192.0.2.1")
	for name, l := range map[string]*Limiter{
		"nil":       nil,
		"zero rate": NewLimiter(Rate{Burst: 1}, nil),
		"negative":  NewLimiter(Rate{PerSecond: -1}, nil),
		"exempt":    NewLimiter(Rate{PerSecond: 1e-9}, []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}),
	} {
		for range 10 {
			if !l.Allow(addr, 1000) {
				t.Errorf("%s limiter refuses", name)
			}
		}
	}
	l := NewLimiter(Rate{PerSecond: 1e-9, Burst: 1}, Loopback())
	for _, free := range []netip.Addr{{}, netip.MustParseAddr("127.0.0.9"), netip.MustParseAddr("::1"),
		netip.MustParseAddr("::ffff:127.0.0.1")} {
		for range 3 {
			if !l.Allow(free, 1) {
				t.Errorf("%v is limited", free)
			}
		}
	}
	if !l.Allow(addr, 1) || l.Allow(addr, 1) {
		t.Error("a burst of one is not one")
	}
	if l.Allow(netip.MustParseAddr("192.0.2.2"), math.MaxInt) {
		t.Error("an overflowing charge was granted")
	}
}

// TestLimiterExtremes takes the slowest and the fastest rates with the smallest and the largest
// bursts: exactly the burst is granted.
func TestLimiterExtremes(t *testing.T) {
	for _, perSecond := range []float64{math.SmallestNonzeroFloat64, 1e-12, 1e-9, 1e-3, 1} {
		for _, burst := range []int{1, 1000, 1e9, math.MaxInt} {
			l := NewLimiter(Rate{PerSecond: perSecond, Burst: burst}, nil)
			addr := netip.MustParseAddr("192.0.2.1")
			if !l.Allow(addr, 1) {
				t.Errorf("%g a second, burst %d: the first request is refused", perSecond, burst)
			}
			if got := l.Allow(addr, 1); got != (burst > 1) {
				t.Errorf("%g a second, burst %d: the second request: %v", perSecond, burst, got)
			}
			// Beyond 2^40 the exact size of the burst does not matter.
			if int64(burst) <= 1<<40 && (burst > 2 && !l.Allow(addr, burst-2) || l.Allow(addr, 1)) {
				t.Errorf("%g a second: the burst is not %d", perSecond, burst)
			}
		}
	}
}

// TestLimiterSource changes the rate that two limiters follow.
func TestLimiterSource(t *testing.T) {
	var s Source
	addr, other := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("198.51.100.1")
	limiters := []*Limiter{NewLimiter(Rate{Source: &s, PerSecond: 1e-9}, nil), NewLimiter(Rate{Source: &s}, nil)}
	granted := func(l *Limiter, addr netip.Addr) (n int) {
		for n < 100 && l.Allow(addr, 1) {
			n++
		}
		return n
	}
	slow := Rate{PerSecond: 1e-9, Burst: 3}
	for i, step := range []struct {
		set        func()
		addr, rest int
	}{
		{func() {}, 100, 100},
		{func() { s.Set(slow, nil) }, 3, 3},
		{func() { s.Set(slow, nil) }, 0, 0},
		{func() { s.Set(slow, []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}) }, 100, 3},
		{func() { s.Set(Rate{}, nil) }, 100, 100},
	} {
		step.set()
		for j, l := range limiters {
			if a, r := granted(l, addr), granted(l, other); a != step.addr || r != step.rest {
				t.Errorf("step %d, limiter %d: %d and %d requests granted, want %d and %d", i, j, a, r, step.addr, step.rest)
			}
		}
	}
}

// TestLimiterFlood shows that forged addresses do not free a client in debt.
func TestLimiterFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLimiter(Rate{PerSecond: 0.001, Burst: 1000}, nil)
		debtor := netip.MustParseAddr("192.0.2.1")
		if !l.Allow(debtor, 1000) {
			t.Fatal("burst refused")
		}
		rnd := rand.New(rand.NewPCG(3, 4))
		for range 150_000 {
			var a [16]byte
			for i := range 8 {
				a[i] = byte(rnd.Uint32())
			}
			l.Allow(netip.AddrFrom16(a), 1)
		}
		if l.Allow(debtor, 1) {
			t.Error("a flood of addresses gave the client a new bucket")
		}
	})
}
