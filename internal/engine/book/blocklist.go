package book

import (
	"fmt"
	"log/slog"

	"github.com/bulkhead-mail/bulkhead/filter"
)

// A BlockSpec says which arrays a generation of the blocklist has.
type BlockSpec struct {
	Start           uint64          `json:"start"`    // Unix seconds
	Capacity        uint64          `json:"capacity"` // signatures it is sized for
	SpamGeometry    filter.Geometry `json:"spam"`
	RevokedGeometry filter.Geometry `json:"revoked"`
}

// A Block is a generation of the blocklist: a spam filter and a revocation filter.
type Block struct {
	BlockSpec
	Spam, Revoked Bitset
}

func (s BlockSpec) begin() uint64 { return s.Start }

func (s BlockSpec) bytes() uint64 { return s.SpamGeometry.Bytes() + s.RevokedGeometry.Bytes() }

// fewRevoked is how many times fewer signatures are revoked than listed, as the
// filters are sized.
const fewRevoked = 4

func (g *Block) uses() keys { return keys{signatures: max(g.Spam.Keys(), fewRevoked*g.Revoked.Keys())} }

// Fill returns how many keys it has as a share of its capacity, of its fullest array.
func (g *Block) Fill() float64 { return g.uses().share(keys{signatures: g.Capacity}) }

// A BlockKeeper keeps a blocklist.
type BlockKeeper = Keeper[BlockSpec, *Block]

// NewBlocklist is [NewTally] of a blocklist.
func NewBlocklist(o Options, keyID uint64, exact bool, log *slog.Logger) *BlockKeeper {
	return &BlockKeeper{
		opts: o, name: "blocklist", log: log, least: keys{signatures: o.Capacity}, sizes: make(map[filter.Target]filter.Geometry),
		shape: func(start uint64, capacity keys, size sizer) (BlockSpec, error) {
			// The error of a judgement is the sum over the generations that live.
			return blockFor(start, capacity.signatures, o.Error/float64(o.Keep), keyID, size)
		},
		make: func(s BlockSpec) (*Block, error) {
			if exact {
				return &Block{s, newExactBits(), newExactBits()}, nil
			}
			return newBlock(s)
		},
	}
}

func blockFor(start, capacity uint64, ghost float64, keyID uint64, size sizer) (BlockSpec, error) {
	spam, err := size(filter.Target{Kind: filter.Bitmap, Signatures: capacity, Error: filter.Ghost, Rate: ghost, KeyID: keyID})
	if err != nil {
		return BlockSpec{}, err
	}
	// Few signatures are revoked. A false one hides a peer's listing.
	revoked, err := size(filter.Target{Kind: filter.Bitmap, Signatures: max(1, capacity/fewRevoked), Error: filter.Ghost, Rate: ghost, KeyID: keyID})
	if err != nil {
		return BlockSpec{}, err
	}
	return BlockSpec{Start: start, Capacity: capacity, SpamGeometry: spam, RevokedGeometry: revoked}, nil
}

func newBlock(s BlockSpec) (*Block, error) {
	spam, err := filter.NewBits(s.SpamGeometry)
	if err != nil {
		return nil, fmt.Errorf("book: blocklist generation %d: %w", s.Start, err)
	}
	revoked, err := filter.NewBits(s.RevokedGeometry)
	if err != nil {
		return nil, fmt.Errorf("book: blocklist generation %d: %w", s.Start, err)
	}
	spam.SetGeneration(s.Start)
	revoked.SetGeneration(s.Start)
	return &Block{s, spam, revoked}, nil
}
