package ledger

import (
	"math/bits"

	"github.com/bulkhead-mail/bulkhead"
)

// MaxEpochs is how many deletes of one account can be told apart, see the
// package's comment.
const MaxEpochs = 22

// A Kind is the kind of a counter of an account.
type Kind uint8

// The kinds.
const (
	Added      Kind = iota
	Taken           // by deletes too
	Deletes         // bit e is delete number e
	AddedSince      // after the delete of a number
	TakenSince
)

// A Part is one counter of an account.
type Part struct {
	Kind Kind
	// Epoch is the number of a delete, 0 to 23, for AddedSince and TakenSince: one
	// that several nodes did at once shows as a higher one than [MaxEpochs] - 1.
	Epoch uint8
}

// A Naming returns the signature of each counter of an account. Different parts must
// have different ones, not used otherwise; accounts that are always deleted together may
// share that of Deletes.
type Naming func(Part) bulkhead.Signature

// A Balance is the values of an account's counters. The zero Balance is of an unknown
// account.
type Balance struct {
	Added, Taken           uint32
	Deletes                uint32 // those not forgotten, as bits
	AddedSince, TakenSince uint32 // after the last of them
}

// An Account is a balance and the names of its counters.
type Account struct {
	Balance
	Name Naming
}

// Left is what is left of what was added.
func (b *Balance) Left() uint32 {
	return max(left(b.Added, b.Taken), left(b.AddedSince, b.TakenSince))
}

func left(added, taken uint32) uint32 { return added - min(added, taken) }

// Before returns the balance as it was before n were added.
func (b Balance) Before(n uint32) Balance {
	lower(&b.Added, n)
	lower(&b.AddedSince, n)
	return b
}

// lower subtracts n from a counter, unless it is full: then its value is unknown.
func lower(counter *uint32, n uint32) {
	if *counter < bulkhead.Many {
		*counter -= min(n, *counter)
	}
}

// Since returns the counter of the given kind, AddedSince or TakenSince, that goes
// with the last delete. There must be one: Deletes is not 0.
func (b *Balance) Since(kind Kind) Part {
	return Part{Kind: kind, Epoch: uint8(bits.Len32(b.Deletes) - 1)}
}

// nextEpoch is the lowest number that a delete may get.
func (b *Balance) nextEpoch() int { return bits.Len32(b.Deletes) }
