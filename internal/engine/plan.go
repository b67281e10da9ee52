package engine

import (
	"fmt"

	"github.com/bulkhead-mail/bulkhead/internal/engine/book"
)

// A Use is the load that a node is sized for.
type Use struct {
	// Signatures is the number of different signatures counted a day. Listed is the number of these
	// that are voted spam.
	Signatures, Listed uint64
}

// A Plan is the resources and error rates of a node under a steady use. The sizes are the ones that
// its books choose themselves, by the same formulae.
type Plan struct {
	Tally, Blocklist BookPlan
	// Memory is the memory of both books' arrays in bytes.
	Memory uint64
	// Disk is the maximum size of checkpoints and journal in bytes: each array once, the largest
	// twice while it is written, and two journals.
	Disk uint64
	// PeerLow and PeerHigh are the numbers of bytes a day that a node sends to each subscriber. A
	// new signature takes the fewest bytes if many are sent together, and the most if few are.
	PeerLow, PeerHigh uint64
}

// The sizes of a new signature on the wire, in bytes: docs/mesh-reference.md#bytes-and-memory.
const (
	wireLow  = 5.4
	wireHigh = 13.0
)

// journals is the maximum number of journals of the size at which a checkpoint begins: the current
// one and the one before it.
const journals = 2

// PlanFor returns the plan of a node with these books. It returns an error if they are not valid,
// or if an array for the use exceeds the maximum size.
func PlanFor(o Options, use Use) (Plan, error) {
	if err := o.complete(); err != nil {
		return Plan{}, err
	}
	if use.Signatures < 1 || use.Signatures > 1<<40 || use.Listed > use.Signatures {
		return Plan{}, fmt.Errorf("engine: %d signatures a day, of which %d are listed: "+
			"want 1 to 2^40, and no more listed than there are", use.Signatures, use.Listed)
	}
	perTally, perBlock := generationUse(use.Signatures, o.Tally), generationUse(use.Listed, o.Block)
	var p Plan
	var err error
	if p.Tally, err = book.PlanTally(o.Tally, perTally, scaled(perTally, o.Reports, o.Tally.Capacity), o.Reports,
		o.Threshold); err != nil {
		return Plan{}, fmt.Errorf("engine: tally: %w", err)
	}
	votes, named := scaled(perBlock, o.Votes, o.Block.Capacity), scaled(perBlock, o.Names, o.Block.Capacity)
	if p.Blocklist, err = book.PlanBlocklist(o.Block, perBlock, votes, named, [2]uint64{o.Votes, o.Names}); err != nil {
		return Plan{}, fmt.Errorf("engine: blocklist: %w", err)
	}
	p.Memory = p.Tally.All + p.Blocklist.All
	p.Disk = p.Memory + max(p.Tally.Array, p.Blocklist.Array) + journals*o.CheckpointBytes
	news := float64(use.Signatures + 2*use.Listed) // a vote travels for both books
	p.PeerLow, p.PeerHigh = uint64(wireLow*news), uint64(wireHigh*news)
	return p, nil
}

// generationUse returns the number of keys that a generation gets, given the number of daily keys.
func generationUse(daily uint64, o BookOptions) uint64 {
	return uint64(float64(daily) * o.Generation.Hours() / 24)
}

// scaled returns the number of keys of another sort, assuming that it is in the same proportion to
// the used signatures as least is to capacity.
func scaled(used, least, capacity uint64) uint64 {
	return uint64(float64(used) * float64(least) / float64(capacity))
}
