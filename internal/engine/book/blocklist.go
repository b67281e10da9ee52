package book

import (
	"log/slog"

	"github.com/bulkhead-mail/bulkhead/filter"
)

// With a floor, these are the arrays of the signatures that the node itself lists and takes off.
// The arrays "spam" and "revoked" then have the part that peers see.
const (
	ListedArray   = "listed"
	UnlistedArray = "unlisted"
)

// A BlockSpec describes the arrays of a generation of the blocklist.
type BlockSpec struct {
	Start           uint64          `json:"start"`         // Unix seconds
	Capacity        uint64          `json:"capacity"`      // signatures it is sized for
	VoteCapacity    uint64          `json:"vote_capacity"` // keys of votes it is sized for, two for each voter
	NameCapacity    uint64          `json:"name_capacity"` // named facets it is sized for
	SpamGeometry    filter.Geometry `json:"spam"`
	RevokedGeometry filter.Geometry `json:"revoked"`
	WeightsGeometry filter.Geometry `json:"weights"`
	VotesGeometry   filter.Geometry `json:"votes"`
	NamesGeometry   filter.Geometry `json:"names"`
	Floor           uint32          `json:"floor,omitempty"` // see [Options]; 0: none
	// Aged is the time in Unix seconds from which the generation ages; 0: from its start on. It is later than the
	// start if the clock was wrong while the generation was open.
	Aged uint64 `json:"aged,omitempty"`
}

// A Block is a generation of the blocklist. It has a spam filter and a revocation filter. It also
// has the weights of the votes behind them and the record of who voted on what, so that votes and
// listings age together. Finally it counts how often named facets were delivered, which must be
// known for longer than the tally lives.
type Block struct {
	BlockSpec
	Spam, Revoked Bitset
	Weights       Counter
	Votes         Bitset
	Names         Counter
	// PublishedSpam and PublishedRevoked are the parts of Spam and Revoked that peers see. Both are nil
	// without a floor; peers then see everything.
	PublishedSpam, PublishedRevoked Bitset
}

// Shared returns the filters that peers have replicas of.
func (g *Block) Shared() (spam, revoked Bitset) {
	if g.Floor > 0 {
		return g.PublishedSpam, g.PublishedRevoked
	}
	return g.Spam, g.Revoked
}

func (s BlockSpec) begin() uint64 { return s.Start }

func (s BlockSpec) ages() uint64 { return max(s.Start, s.Aged) }

func (s BlockSpec) keyID() uint64 { return s.SpamGeometry.KeyID }

func (s BlockSpec) floor() uint32 { return s.Floor }

func (s BlockSpec) bytes() uint64 {
	lists := s.SpamGeometry.Bytes() + s.RevokedGeometry.Bytes()
	if s.Floor > 0 {
		lists *= 2
	}
	return lists + s.WeightsGeometry.Bytes() + s.VotesGeometry.Bytes() + s.NamesGeometry.Bytes()
}

// fewRevoked is the ratio of listed to revoked signatures that the filters are sized for.
const fewRevoked = 4

func (g *Block) uses() keys {
	return keys{
		signatures: max(g.Spam.Keys(), fewRevoked*g.Revoked.Keys()),
		marks:      max(g.Votes.Keys(), g.Weights.Keys()),
		names:      g.Names.Keys(),
	}
}

// Empty reports whether nothing was voted on or named in the generation.
func (g *Block) Empty() bool {
	return g.Spam.Keys()+g.Revoked.Keys()+g.Weights.Keys()+g.Votes.Keys()+g.Names.Keys() == 0
}

func (g *Block) touch() { touch(g.Spam, g.Revoked, g.Weights, g.Votes, g.Names) }

// Fill returns the number of keys of its fullest array as a share of the capacity. Names do not
// count: senders choose them, and must not be able to make a node forget what is listed. See
// [Block.NamesFull].
func (g *Block) Fill() float64 {
	used := g.uses()
	used[names] = 0
	return used.share(keys{signatures: g.Capacity, marks: g.VoteCapacity})
}

// NamesFull reports whether the generation has as many names as it can distinguish. It must then
// take no new ones; the next generation has room for more.
func (g *Block) NamesFull() bool { return share(g.Names.Keys(), g.NameCapacity) > Early }

// ShownFull reports whether the spam filter that peers see takes no keys of delivered names: it is half full. Senders
// choose names, so listings keep the other half.
func (g *Block) ShownFull() bool {
	spam, _ := g.Shared()
	return spam.Keys() >= g.Capacity/2
}

// A BlockKeeper keeps a blocklist.
type BlockKeeper = Keeper[BlockSpec, *Block]

// NewBlocklist returns the keeper of a blocklist whose arrays take keys of the secret with the
// given ID. votes and named are the numbers of keys of votes and of named facets that the first
// generation is sized for; both are 1 or more. If exact is set, maps
// take the place of arrays. o must be valid.
func NewBlocklist(o Options, votes, named, keyID uint64, exact bool, log *slog.Logger) *BlockKeeper {
	k := &BlockKeeper{
		opts: o, name: "blocklist", log: log, first: keys{o.Capacity, votes, named}, sizes: make(sizes),
		made: make(chan *ready[BlockSpec, *Block], 1),
		make: func(s BlockSpec) (*Block, error) {
			if exact {
				g := &Block{BlockSpec: s, Spam: newExactBits(), Revoked: newExactBits(), Weights: newExactCounter(),
					Votes: newExactBits(), Names: newExactCounter()}
				if s.Floor > 0 {
					g.PublishedSpam, g.PublishedRevoked = newExactBits(), newExactBits()
				}
				return g, nil
			}
			return newBlock(s)
		},
		age: func(g *Block, from uint64) *Block {
			c := *g
			c.Aged = from
			return &c
		},
		at: func(s BlockSpec, start uint64) BlockSpec {
			s.Start = start
			return s
		},
		begin: func(g *Block, s BlockSpec) {
			g.BlockSpec = s
			begin(s.Start, g.Spam, g.Revoked, g.Weights, g.Votes, g.Names, g.PublishedSpam, g.PublishedRevoked)
		},
	}
	if o.Floor > 1 {
		k.floor = o.Floor
	}
	k.least = k.first.least()
	k.key.Store(keyID)
	k.shape = func(start uint64, capacity keys, size sizer) (BlockSpec, error) {
		// The errors of all live generations add up in a judgement.
		s, err := blockFor(start, capacity, o.Error/float64(o.Keep), k.key.Load(), size)
		s.Floor = k.floor
		return s, err
	}
	return k
}

const (
	// weightGhost is the probability that a weight is too high, which lists or blocks a signature
	// wrongly.
	weightGhost = 1e-5
	// namesWrong is the probability that a name is taken for better known than it is.
	namesWrong = 1e-4
)

func blockFor(start uint64, capacity keys, ghost float64, keyID uint64, size sizer) (BlockSpec, error) {
	s := BlockSpec{Start: start, Capacity: capacity[signatures], VoteCapacity: capacity[marks],
		NameCapacity: capacity[names]}
	for _, a := range []struct {
		out    *filter.Geometry
		target filter.Target
	}{
		{&s.SpamGeometry, filter.Target{Kind: filter.Bitmap, Signatures: s.Capacity, Error: filter.Ghost, Rate: ghost}},
		// Few signatures are revoked. A false revocation hides a listing, including a peer's.
		{&s.RevokedGeometry, filter.Target{Kind: filter.Bitmap, Signatures: max(1, s.Capacity/fewRevoked),
			Error: filter.Ghost, Rate: ghost}},
		{&s.WeightsGeometry, filter.Target{Kind: filter.Cells, Signatures: s.VoteCapacity, Error: filter.Ghost,
			Rate: weightGhost}},
		{&s.VotesGeometry, filter.Target{Kind: filter.Bitmap, Signatures: s.VoteCapacity, Error: filter.Ghost,
			Rate: uniqueGhost}},
		{&s.NamesGeometry, filter.Target{Kind: filter.Cells, Signatures: s.NameCapacity, Error: filter.CountWrong,
			Rate: namesWrong}},
	} {
		var err error
		a.target.KeyID = keyID
		if *a.out, err = size(a.target); err != nil {
			return BlockSpec{}, err
		}
	}
	return s, nil
}

func newBlock(s BlockSpec) (*Block, error) {
	g := &Block{BlockSpec: s}
	m := maker{start: s.Start}
	g.Spam, g.Revoked = m.bits(s.SpamGeometry), m.bits(s.RevokedGeometry)
	g.Weights, g.Votes, g.Names = m.counter(s.WeightsGeometry), m.bits(s.VotesGeometry), m.counter(s.NamesGeometry)
	if s.Floor > 0 {
		g.PublishedSpam, g.PublishedRevoked = m.bits(s.SpamGeometry), m.bits(s.RevokedGeometry)
	}
	if m.err != nil {
		return nil, m.error("blocklist")
	}
	return g, nil
}
