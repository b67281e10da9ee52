package trust

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/bulkhead-mail/bulkhead"
)

// Day returns the day of t, in days since 1970.
func Day(t time.Time) uint32 { return uint32(max(0, t.Unix()/86400)) }

// self reports whether the account registered itself from another machine and has not been given
// another role since.
func (a *Account) self() bool { return a.Role == Member && a.From.IsValid() && !IsLocal(a.From) }

// idle returns the days since the account's last vote or its creation, 0 if neither is known.
func (a *Account) idle(now time.Time) int {
	if last := max(a.Active, Day(a.Created)); last > 0 {
		return int(Day(now)) - int(last)
	}
	return 0
}

// IsStale reports whether the account called name is open, registered itself, never had a report
// confirmed, and has not voted for Policy.IdleDays. A closed account stays, so that its name
// cannot be taken.
func (b *Book) IsStale(name string, now time.Time) bool {
	b.mu.RLock()
	defer b.mu.RUnlock()
	a := b.byName[name]
	return a != nil && a.self() && !a.Closed && a.Days == 0 && a.idle(now) >= b.policy.IdleDays
}

// Room reports whether an account may register itself from the address: evict is the name of the
// account that must be removed first, "" if none must. The error wraps [bulkhead.ErrOverLimit]: the
// network has reached its maximum of accounts, or the node has and all of its accounts are in use.
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
		// Ties are broken by the name, so that the answer is deterministic.
		if idle := a.idle(now); !a.Closed && a.Days == 0 && idle > 0 && (idle > longest || idle == longest && name < evict) {
			evict, longest = name, idle
		}
	}
	switch {
	case near >= b.policy.PerNetwork:
		return "", fmt.Errorf("%w: the network of %v has %d accounts here, the most that it may have",
			bulkhead.ErrOverLimit, from, near)
	case all < b.policy.Accounts:
		return "", nil
	case evict == "":
		return "", fmt.Errorf("%w: %d accounts have registered themselves here, the most that may, and all are in use",
			bulkhead.ErrOverLimit, all)
	}
	return evict, nil
}
