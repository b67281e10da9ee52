package mesh

import (
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/engine"
)

// What peers have a node send again, because they ask, is bounded for each of them: all
// that it has twice, and as much again in so long a time. A new peer needs all of it
// once.
const (
	drawLeast = 1 << 20
	drawAgain = 10 * time.Minute
)

// A draw is what a peer may still have sent, in bytes; below 0 it waits.
type draw struct {
	left float64
	at   time.Time
}

// may reports whether a peer may have more sent, of arrays as they are.
func (s *sender) may(h hint, own map[ref]engine.ArrayState) bool {
	most := float64(drawLeast)
	for x, a := range own {
		size := min(a.Bytes, 1024+8*a.Keys)
		if mine := s.arrays[x]; mine != nil {
			size = max(size, uint64(mine.image))
		}
		most += 2 * float64(size)
	}
	d, now := s.draws[h], time.Now()
	if d == nil {
		d = &draw{left: most}
		s.draws[h] = d
	} else {
		d.left = min(most, d.left+most*now.Sub(d.at).Seconds()/drawAgain.Seconds())
	}
	d.at = now
	return d.left > 0
}

// charge books what was sent because a peer asked; images of a new life nobody has.
func (s *sender) charge(h hint, bytes int) {
	if d := s.draws[h]; d != nil {
		d.left -= float64(bytes)
	}
	s.m.receiver.figures(h, func(x *stats) { x.served += uint64(bytes) })
}

// forgetDraws forgets those who are no peers any more.
func (s *sender) forgetDraws() {
	for h := range s.draws {
		if _, ok := s.m.find(h); !ok {
			delete(s.draws, h)
		}
	}
}
