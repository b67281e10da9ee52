package trust

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/bulkhead-mail/bulkhead"
)

// Day returns the day of t, in days since 1970.
func Day(t time.Time) uint32 { return uint32(max(0, t.Unix()/86400)) }

// self reports whether an account registered itself from another machine, and nobody
// has given it anything since.
func (a *Account) self() bool { return a.Role == Member && a.From.IsValid() && !IsLocal(a.From) }

// idle returns for how many days the account has not voted, nor existed.
func (a *Account) idle(now time.Time) int {
	if last := max(a.Active, Day(a.Created)); last > 0 {
		return int(Day(now)) - int(last)
	}
	return 0 // who knows
}

// Stale returns the names of the accounts that registered themselves, never helped
// anybody and have not voted for as long as the policy says. Who closed an account
// wants it to keep its name.
func (b *Book) Stale(now time.Time) []string {
	b.mu.RLock()
	defer b.mu.RUnlock()
	var names []string
	for name, a := range b.byName {
		if a.self() && !a.Closed && a.Days == 0 && a.idle(now) >= b.policy.IdleDays {
			names = append(names, name)
		}
	}
	return names
}

// Room says whether an account may register itself from the address: evict names one
// that must be removed for it first, "" for none. The error wraps
// [bulkhead.ErrOverLimit]: the network has as many as it may, or there are as many as
// there may be and all of them are in use.
func (b *Book) Room(from netip.Addr, now time.Time) (evict string, err error) {
	if IsLocal(from) {
		return "", nil
	}
	b.mu.RLock()
	defer b.mu.RUnlock()
	all, near, longest := 0, 0, 0
	for name, a := range b.byName {
		if !a.self() {
			continue
		}
		all++
		if Voucher(a.From) == Voucher(from) {
			near++
		}
		// The name decides between equals, so that the answer is always the same.
		if idle := a.idle(now); !a.Closed && a.Days == 0 && idle > 0 && (idle > longest || idle == longest && name < evict) {
			evict, longest = name, idle
		}
	}
	switch {
	case near >= b.policy.PerNetwork:
		return "", fmt.Errorf("%w: the network of %v has %d accounts here, as many as it may", bulkhead.ErrOverLimit, from, near)
	case all < b.policy.Accounts:
		return "", nil
	case evict == "":
		return "", fmt.Errorf("%w: %d accounts have registered themselves here, as many as may, and all are in use", bulkhead.ErrOverLimit, all)
	}
	return evict, nil
}
