package origin

import (
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/member"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
)

// A peer's requests can make a node resend a bounded volume: twice the size of all its arrays, and
// as much again in each period of this length. A new peer needs all of it once.
const (
	drawLeast = 1 << 20
	drawAgain = 10 * time.Minute
)

// A draw is the volume in bytes that may still be sent at a peer's request; below 0 the peer waits.
type draw struct {
	left float64
	at   time.Time
}

// may reports whether more may be sent at a peer's request; own has the node's arrays.
func (s *Sender) may(h wire.Hint, own map[wire.Ref]engine.ArrayState) bool {
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

// may reports whether more may be sent to a peer. The budget starts at most bytes and refills to
// that.
func may(draws map[wire.Hint]*draw, h wire.Hint, most float64) bool {
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

// charge deducts bytes sent at a peer's request. Images of a new incarnation are charged to no
// peer.
func (s *Sender) charge(h wire.Hint, bytes int) { s.chargeTo(s.draws, h, bytes) }

func (s *Sender) chargeTo(draws map[wire.Hint]*draw, h wire.Hint, bytes int) {
	if d := draws[h]; d != nil {
		d.left -= float64(bytes)
	}
	s.book.Figures(h, func(x *member.Stats) { x.Served += uint64(bytes) })
}

// forgetDraws drops the budgets of former peers.
func (s *Sender) forgetDraws() {
	for _, draws := range []map[wire.Hint]*draw{s.draws, s.refills, s.lessons} {
		for h := range draws {
			if _, ok := s.book.Find(h); !ok {
				delete(draws, h)
				delete(s.beats, h)
			}
		}
	}
}
