package ledger

import (
	"math/bits"

	"github.com/bulkhead-mail/bulkhead"
)

// MaxEpochs is how many deletes of one account can be distinguished; see the package comment.
const MaxEpochs = 22

// A Kind is the kind of a counter of an account.
type Kind uint8

// The kinds.
const (
	Added      Kind = iota
	Taken           // includes what deletes took
	Deletes         // bit e stands for delete number e
	AddedSince      // after the delete with a given number
	TakenSince
)

// A Part is one counter of an account.
type Part struct {
	Kind Kind
	// Epoch is the number of a delete, 0 to 23, for AddedSince and TakenSince. A delete that
	// several nodes made at once can show as a number above [MaxEpochs] - 1.
	Epoch uint8
}

// A Naming returns the signature of each counter of an account. Different parts must have different
// signatures that nothing else uses. Accounts that are always deleted together may share the
// signature of Deletes.
type Naming func(Part) bulkhead.Signature

// A Balance is the values of an account's counters. The zero Balance belongs to an unknown account.
type Balance struct {
	Added, Taken           uint32
	Deletes                uint32 // the deletes that are not forgotten, as bits
	AddedSince, TakenSince uint32 // after the last delete
}

// An Account is a balance and the names of its counters.
type Account struct {
	Balance
	Name Naming
}

// Left returns what is left of the additions.
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

// lower subtracts n from a counter, unless the counter is full: its true value is then unknown.
func lower(counter *uint32, n uint32) {
	if *counter < bulkhead.Many {
		*counter -= min(n, *counter)
	}
}

// Since returns the counter of the given kind, AddedSince or TakenSince, of the last delete. There
// must be a delete: Deletes is not 0.
func (b *Balance) Since(kind Kind) Part {
	return Part{Kind: kind, Epoch: uint8(bits.Len32(b.Deletes) - 1)}
}

// nextEpoch returns the lowest number that the next delete may get.
func (b *Balance) nextEpoch() int { return bits.Len32(b.Deletes) }
