package engine

import (
	"fmt"

	"github.com/bulkhead-mail/bulkhead/internal/engine/book"
)

// A Use is what a node is to be sized for.
type Use struct {
	// Signatures is how many different signatures are counted a day, and Listed how many of
	// them are voted spam.
	Signatures, Listed uint64
}

// A Plan is what a node takes and how often it errs under a steady use: the sizes that its
// books choose for themselves, by the same formulae.
type Plan struct {
	Tally, Blocklist BookPlan
	// Memory is that of both books' arrays, bytes.
	Memory uint64
	// Disk is the most that checkpoints and journal take, bytes: each array once, the
	// largest twice while it is written, and two journals.
	Disk uint64
	// PeerLow and PeerHigh are how many bytes a day one node sends for each that subscribes to
	// it: from the least that a new signature takes, where many come together, to the
	// most, where few do.
	PeerLow, PeerHigh uint64
}

// BookPlan is the share of a book in a [Plan].
type BookPlan = book.Plan

// What a new signature takes on the wire, in bytes: docs/mesh-reference.md#bytes-and-memory.
const (
	wireLow  = 5.4
	wireHigh = 13.0
)

// journals is how many journals of the size at which a checkpoint begins there are at
// most: the one that is written, and the one before it.
const journals = 2

// PlanFor returns the plan of a node with these books. It fails if they are not valid, or
// if an array for the use is larger than any may be.
func PlanFor(o Options, use Use) (Plan, error) {
	if err := o.complete(); err != nil {
		return Plan{}, err
	}
	if use.Signatures < 1 || use.Signatures > 1<<40 || use.Listed > use.Signatures {
		return Plan{}, fmt.Errorf("engine: %d signatures a day, of which %d are listed: want 1 to 2^40, and no more listed than there are", use.Signatures, use.Listed)
	}
	perTally, perBlock := generationUse(use.Signatures, o.Tally), generationUse(use.Listed, o.Block)
	var p Plan
	var err error
	if p.Tally, err = book.PlanTally(o.Tally, perTally, scaled(perTally, o.Reports, o.Tally.Capacity), o.Reports, o.Threshold); err != nil {
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

// generationUse returns how many of daily keys a generation sees.
func generationUse(daily uint64, o BookOptions) uint64 {
	return uint64(float64(daily) * o.Generation.Hours() / 24)
}

// scaled returns of which use other keys are, if they grow with the signatures as their
// least numbers do.
func scaled(used, least, capacity uint64) uint64 {
	return uint64(float64(used) * float64(least) / float64(capacity))
}
