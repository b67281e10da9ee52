package trust

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
)

// TestRoomOracle compares Stale and Room with a direct implementation of their rules, on random
// books.
func TestRoomOracle(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 9))
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	// Two networks of IPv4, two of an IPv6 /32 that share one voice, the node itself, and accounts
	// that an administrator made.
	from := []netip.Addr{
		netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.200"), netip.MustParseAddr("198.51.100.1"),
		netip.MustParseAddr("2001:db8:1::1"), netip.MustParseAddr("2001:db8:5::1"), netip.MustParseAddr("127.0.0.1"), {},
	}
	for range 3000 {
		p := DefaultPolicy()
		p.Accounts, p.PerNetwork, p.IdleDays = 1+rng.IntN(12), 1+rng.IntN(5), 1+rng.IntN(6)
		b := NewBook(p)
		var self []Account
		for i := range rng.IntN(14) {
			a := Account{Name: fmt.Sprintf("a%02d", i), Role: Member, From: from[rng.IntN(len(from))],
				Created: now.AddDate(0, 0, -rng.IntN(8))}
			switch rng.IntN(8) {
			case 0:
				a.Role = Trusted
			case 1:
				a.Closed = true
			case 2:
				a.Days = 1
			case 3:
				a.Active = Day(now.AddDate(0, 0, -rng.IntN(8)))
			case 4:
				a.Created = time.Time{} // from a version that did not record it
			}
			if err := b.Put(a); err != nil {
				t.Fatal(err)
			}
			if a.Role == Member && a.From.IsValid() && !a.From.IsLoopback() {
				self = append(self, a)
			}
		}
		idle := func(a Account) int {
			if a.Created.IsZero() && a.Active == 0 {
				return 0
			}
			return int(Day(now) - max(a.Active, Day(a.Created)))
		}
		unhelpful := slices.DeleteFunc(slices.Clone(self), func(a Account) bool {
			return a.Closed || a.Days > 0 ||
				idle(a) == 0
		})
		slices.SortStableFunc(unhelpful, func(x, y Account) int { return cmp.Compare(idle(y), idle(x)) })
		var stale []string
		for _, a := range unhelpful {
			if idle(a) >= p.IdleDays {
				stale = append(stale, a.Name)
			}
		}
		for _, a := range b.All() {
			if is := b.IsStale(a.Name, now); is != slices.Contains(stale, a.Name) {
				t.Fatalf("%q is stale: %v, of %q", a.Name, is, stale)
			}
		}
		if b.IsStale("nowhere", now) {
			t.Fatal("an account that is not there is stale")
		}
		for _, addr := range from {
			near := 0
			for _, a := range self {
				if Voucher(a.From) == Voucher(addr) {
					near++
				}
			}
			evict, full := "", false
			switch {
			case IsLocal(addr):
			case near >= p.PerNetwork:
				full = true
			case len(self) < p.Accounts:
			case len(unhelpful) > 0:
				evict = unhelpful[0].Name
			default:
				full = true
			}
			if got, err := b.Room(addr, now); got != evict || errors.Is(err, bulkhead.ErrOverLimit) != full ||
				(err != nil) != full {
				t.Fatalf("room for %v with %d accounts, %d near, %+v: evict %q, %v; want %q, full %v", addr, len(self), near, p,
					got, err, evict, full)
			}
		}
	}
}

func TestDay(t *testing.T) {
	for at, want := range map[int64]uint32{-1: 0, -86401: 0, 0: 0, 86399: 0, 86400: 1, 20_000*86400 + 5: 20_000} {
		if got := Day(time.Unix(at, 0)); got != want {
			t.Errorf("day of second %d is %d, want %d", at, got, want)
		}
	}
}
