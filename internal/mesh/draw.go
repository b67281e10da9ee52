package mesh

import (
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/engine"
)

// What a peer can have a node send again is bounded: twice all that the node has, and as
// much again in each period of this length. A new peer needs all of it once.
const (
	drawLeast = 1 << 20
	drawAgain = 10 * time.Minute
)

// A draw is what may still be sent because a peer asks, in bytes; below 0 the peer waits.
type draw struct {
	left float64
	at   time.Time
}

// may reports whether more may be sent because a peer asks; own are the node's arrays.
func (s *sender) may(h hint, own map[ref]engine.ArrayState) bool {
	most := float64(drawLeast)
	for x, a := range own {
		size := min(a.Bytes, 1024+8*a.Keys)
		if mine := s.arrays[x]; mine != nil {
			size = max(size, uint64(mine.image))
		}
		most += 2 * float64(size)
	}
	return may(s.draws, h, most)
}

// may reports whether more may be sent to a peer, which may have most of it at once.
func may(draws map[hint]*draw, h hint, most float64) bool {
	d, now := draws[h], time.Now()
	if d == nil {
		d = &draw{left: most}
		draws[h] = d
	} else {
		d.left = min(most, d.left+most*now.Sub(d.at).Seconds()/drawAgain.Seconds())
	}
	d.at = now
	return d.left > 0
}

// charge books what was sent because a peer asked; the images of a new life are charged
// to nobody.
func (s *sender) charge(h hint, bytes int) { s.chargeTo(s.draws, h, bytes) }

func (s *sender) chargeTo(draws map[hint]*draw, h hint, bytes int) {
	if d := draws[h]; d != nil {
		d.left -= float64(bytes)
	}
	s.m.receiver.figures(h, func(x *stats) { x.served += uint64(bytes) })
}

// forgetDraws forgets those who are peers no longer.
func (s *sender) forgetDraws() {
	for _, draws := range []map[hint]*draw{s.draws, s.refills} {
		for h := range draws {
			if _, ok := s.m.find(h); !ok {
				delete(draws, h)
			}
		}
	}
}
