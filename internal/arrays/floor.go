package arrays

import (
	"fmt"
	"slices"
)

// MaxFloor is the largest floor of a counting array.
const MaxFloor = escape

// SetFloor sets the count, 2 to [MaxFloor], from which c shows a key to others. [Counting.Above]
// returns what others see. Floors of 0 and 1 hide nothing. It returns an error that wraps
// [ErrGeometry] for any other floor, and for an array that is not empty.
func (c *Counting) SetFloor(floor uint32) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case floor > MaxFloor:
		return fmt.Errorf("%w: a floor of %d, limit %d", ErrGeometry, floor, MaxFloor)
	case c.version() > 0:
		return fmt.Errorf("%w: a floor under an array that holds keys", ErrGeometry)
	case floor == 1:
		floor = 0
	}
	c.floor = floor
	return nil
}

// Floor returns the floor of c, 0 if it has none.
func (c *Counting) Floor() uint32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.floor
}

// An Above is the part of a counting array that others see: the count of each key that has reached
// the floor, and nothing about any other key. Its replicas are made of its images and rounds, and
// equal it cell by cell.
//
// It takes no memory of its own, and is exact. By H1 a cell is as high as the highest count to
// which one of its keys was raised. Each cell at or above the floor was therefore raised by a key
// that has reached the floor, and a key below the floor has at least one cell below it. The array
// without its cells below the floor thus counts each key that has reached the floor as before, and
// shows no other. Keys below the floor affect it only through their part in counts that are too
// high.
type Above struct{ c *Counting }

// Above returns what c shows to others: all of it if c has no floor.
func (c *Counting) Above() Above { return Above{c} }

// Geometry returns the geometry of the array.
func (a Above) Geometry() Geometry { return a.c.geo }

// Pages returns the number of pages.
func (a Above) Pages() int { return a.c.Pages() }

// Keys returns how many keys have reached the floor.
func (a Above) Keys() (sum uint64) {
	if a.c.floor == 0 {
		return a.c.Keys()
	}
	a.c.mu.Lock()
	defer a.c.mu.Unlock()
	for i := range a.c.pages {
		sum += a.c.pages[i].ShownKeys
	}
	return sum
}

// Version returns how often the shown content has changed.
func (a Above) Version() uint64 {
	a.c.mu.Lock()
	defer a.c.mu.Unlock()
	return a.version()
}

func (a Above) version() (sum uint64) {
	if a.c.floor == 0 {
		return a.c.version()
	}
	for i := range a.c.pages {
		sum += a.c.pages[i].Shown
	}
	return sum
}

// NewRound is [Counting.NewRound] for the shown content. The round must be given every add to the
// array, and leaves out those that change nothing that is shown.
func (a Above) NewRound() *Round {
	a.c.mu.Lock()
	defer a.c.mu.Unlock()
	return &Round{Geometry: a.c.geo, Generation: a.c.generation, From: a.version(), floor: a.c.floor}
}

// Image returns a copy of the shown content of page p, 0 to Pages()-1. With a floor, it does not
// state which journal entry changed the page last.
func (a Above) Image(p int) *Image {
	return a.c.Image(p).Above()
}

// Above returns what the page shows to others: m itself if it has no floor.
func (m *Image) Above() *Image {
	if m.floor == 0 {
		return m
	}
	shown := *m
	shown.Info = PageInfo{Version: m.Info.Shown, Keys: m.Info.ShownKeys, Overflow: m.Info.Overflow}
	shown.floor = 0
	shown.lines = slices.Clone(m.lines)
	for i := range shown.lines {
		for j, w := range shown.lines[i] {
			shown.lines[i][j] = fromOn(w, m.floor)
		}
	}
	return &shown
}

// fromOn returns w without its nibbles below floor, 1 to 15.
func fromOn(w uint64, floor uint32) uint64 {
	const low = 0x0f * lanes
	return above(w&low, floor) | above(w>>4&low, floor)<<4
}

// above is fromOn for the low nibble of each byte.
func above(w uint64, floor uint32) uint64 {
	reached := (w + uint64(16-floor)*lanes) >> 4 & lanes
	return w & (reached * 0x0f)
}

// show records on p that a key was raised from before to after. The array has a floor.
func (c *Counting) show(p *page, before, after uint32) {
	if after < c.floor {
		return
	}
	p.Shown++
	if before < c.floor {
		p.ShownKeys++
	}
}

// shown returns how much an add of n to a key with count before raises the shown count: 0 if
// nothing shown changes.
func shown(floor, before, n uint32) uint32 {
	n = min(n, Many)
	switch {
	case before+n < floor:
		return 0
	case before < floor:
		return min(before+n, Many)
	}
	return n
}

// Next returns an empty round that continues where r ends. Neither is closed yet.
func (r *Round) Next() *Round {
	return &Round{Geometry: r.Geometry, Generation: r.Generation, From: r.From + uint64(len(r.ops)), floor: r.floor}
}

// Split returns the closed round as rounds of at most n adds, each of which continues the previous
// one.
func (r *Round) Split(n int) (out []*Round) {
	from := r.From
	for ops := range slices.Chunk(r.ops, n) {
		part := &Round{Geometry: r.Geometry, Generation: r.Generation, From: from, To: from, ops: ops}
		for i := range ops {
			part.To += uint64(ops[i].times)
		}
		from = part.To
		out = append(out, part)
	}
	return out
}
