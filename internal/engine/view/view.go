// Package view is what look-ups read: the node's own books, and the replicas of peers. Both are
// immutable, and the writer replaces them.
package view

import (
	"math"
	"sync/atomic"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/arrays"
	"github.com/bulkhead-mail/bulkhead/internal/engine/book"
	"github.com/bulkhead-mail/bulkhead/internal/engine/evidence"
	"github.com/bulkhead-mail/bulkhead/internal/engine/keys"
	"github.com/bulkhead-mail/bulkhead/internal/engine/replica"
)

// Books are the node's own books. They are immutable: a change makes new ones.
type Books struct {
	Tally   book.Book[*book.Tally]
	Block   book.Book[*book.Block]
	Secrets *keys.Secrets // that the generations were made with
}

// Oldest returns the start of the oldest generation of either book, in Unix seconds. Without
// generations it returns the largest number.
func (b *Books) Oldest() uint64 {
	start := uint64(math.MaxUint64)
	for _, g := range b.Tally.Live {
		start = min(start, g.Start)
	}
	for _, g := range b.Block.Live {
		start = min(start, g.Start)
	}
	return start
}

// Newest returns the start of the newest generation of either book, in Unix seconds; 0 if there is
// none.
func (b *Books) Newest() (start uint64) {
	for _, g := range b.Tally.Live {
		start = max(start, g.Start)
	}
	for _, g := range b.Block.Live {
		start = max(start, g.Start)
	}
	return start
}

// Array returns an array by its name in a checkpoint, and by the start of its generation in Unix
// seconds. It returns nil if there is none.
func (b *Books) Array(name string, start uint64) (array any) {
	if g := b.Tally.Find(start); g != nil {
		switch name {
		case "counts":
			array = g.Counts
		case "unique":
			array = g.Unique
		}
	}
	if g := b.Block.Find(start); g != nil {
		spam, revoked := g.Shared()
		switch name {
		case "spam":
			array = spam
		case "revoked":
			array = revoked
		case book.ListedArray:
			array = g.Spam
		case book.UnlistedArray:
			array = g.Revoked
		case "weights":
			array = g.Weights
		case "votes":
			array = g.Votes
		case "names":
			array = g.Names
		}
	}
	return array
}

// Each calls f for every array.
func (b *Books) Each(f func(array any)) {
	for _, g := range b.Tally.Live {
		f(g.Counts)
		f(g.Unique)
	}
	for _, g := range b.Block.Live {
		for _, array := range []any{g.Spam, g.Revoked, g.Weights, g.Votes, g.Names, g.PublishedSpam, g.PublishedRevoked} {
			f(array)
		}
	}
}

// EachKey calls f with the ID of the secret of every generation.
func (b *Books) EachKey(f func(keyID uint64)) {
	for _, g := range b.Tally.Live {
		f(g.CountsGeometry.KeyID)
	}
	for _, g := range b.Block.Live {
		f(g.SpamGeometry.KeyID)
	}
}

// A Shared is an own array of which peers have replicas: *arrays.Counting or *arrays.Bits, in the
// form that peers see.
type Shared interface {
	Geometry() filter.Geometry
	Pages() int
	Image(page int) *arrays.Image
	Version() uint64
}

// Shared returns the node's own array that peers see under a key, or nil if there is none.
func (b *Books) Shared(k replica.Key) Shared {
	if g := b.Tally.Find(k.Start); g != nil && k.Array == replica.ArrayCounts &&
		b.Secrets.Shares(g.CountsGeometry.KeyID) {
		if own, ok := g.Counts.(*arrays.Counting); ok {
			return own.Above()
		}
	}
	if g := b.Block.Find(k.Start); g != nil && b.Secrets.Shares(g.SpamGeometry.KeyID) {
		spam, revoked := g.Shared()
		switch k.Array {
		case replica.ArraySpam:
			return shared(spam)
		case replica.ArrayRevoked:
			return shared(revoked)
		}
	}
	return nil
}

func shared(array book.Bitset) Shared {
	if own, ok := array.(*arrays.Bits); ok {
		return own
	}
	return nil
}

// States returns the states of the arrays that peers see, newest generations first.
func (b *Books) States() (out []replica.ArrayState) {
	for _, g := range b.Tally.Live {
		if own, ok := g.Counts.(*arrays.Counting); ok && b.Secrets.Shares(g.CountsGeometry.KeyID) {
			out = append(out, replica.StateOf(replica.ArrayCounts, g.Start, own.Above()))
		}
	}
	for _, g := range b.Block.Live {
		if !b.Secrets.Shares(g.SpamGeometry.KeyID) {
			continue
		}
		spam, revoked := g.Shared()
		if own, ok := spam.(*arrays.Bits); ok {
			out = append(out, replica.StateOf(replica.ArraySpam, g.Start, own))
		}
		if own, ok := revoked.(*arrays.Bits); ok {
			out = append(out, replica.StateOf(replica.ArrayRevoked, g.Start, own))
		}
	}
	return out
}

// A View is the node's own books and the replicas of peers at one moment.
type View struct {
	*Books
	Remote *replica.View
}

// Evidence returns the view in the form of package evidence.
func (v View) Evidence() evidence.View {
	out := evidence.View{Tally: v.Tally, Block: v.Block, Remote: v.Remote}
	if len(v.Secrets.IDs) > 1 {
		out.KeyIDs = v.Secrets.IDs
	}
	return out
}

// A Current is the present view. Its methods may be called concurrently; only the writer calls Set.
type Current struct {
	books  atomic.Pointer[Books]
	remote func() *replica.View
}

// New returns the view of books, and of the replicas that remote returns.
func New(b *Books, remote func() *replica.View) *Current {
	c := &Current{remote: remote}
	c.Set(b)
	return c
}

// View returns the present view.
func (c *Current) View() View { return View{c.Books(), c.remote()} }

// Books returns the present books.
func (c *Current) Books() *Books { return c.books.Load() }

// Set replaces the books.
func (c *Current) Set(b *Books) { c.books.Store(b) }
