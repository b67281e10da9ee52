package origin

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
)

// maxMemory is how many bytes of its own messages a node takes from a broker at once.
const maxMemory = 128 << 20

// recollectLimit is how long a node reads its own messages from a broker.
const recollectLimit = 2 * time.Minute

// A memory holds a broker's stored messages of this node about some of its arrays.
type memory struct {
	bus    wire.Transport
	err    error
	arrays map[wire.Ref]*arrayMemory
	bytes  int
}

// An arrayMemory holds the stored images and rounds of one array.
type arrayMemory struct {
	pages  int // of the array
	images map[uint64]map[wire.Topic][][]byte
	rounds []engine.Part
}

// readOwn reads the node's own messages about its damaged arrays from a broker that has not been
// read yet.
func (s *Sender) readOwn(ctx context.Context, c *cure, lost *engine.Wounds) {
	i := slices.IndexFunc(s.buses, func(b wire.Transport) bool { return !c.read[b] && b.Connected() })
	if c.reading || i < 0 {
		return
	}
	x := &memory{bus: s.buses[i], arrays: make(map[wire.Ref]*arrayMemory)}
	for _, w := range lost.Pages {
		x.arrays[wire.Ref{Array: w.Array, Start: w.Start}] = &arrayMemory{pages: w.Geometry.Pages(),
			images: make(map[uint64]map[wire.Topic][][]byte)}
	}
	c.read[x.bus], c.reading = true, true
	s.done.Go(func() {
		limited, cancel := context.WithTimeout(ctx, recollectLimit)
		defer cancel()
		self := s.opts.Identity.Hint()
		take := func(a wire.Arrival) bool {
			s.recollect(x, a)
			return x.bytes <= maxMemory && limited.Err() == nil
		}
		if x.err = x.bus.StoredImages(limited, self, take); x.err == nil {
			x.err = x.bus.StoredDeltas(limited, &self, time.Time{}, take)
		}
		c.reads <- x
	})
}

// recollect takes a stored message if this node has signed it in its present incarnation, and if
// its content is still part of the node's arrays.
func (s *Sender) recollect(x *memory, a wire.Arrival) {
	e, err := wire.OpenEnvelope(a.Data)
	if err != nil || !e.SignedBy(s.opts.Identity.Public()) {
		return
	}
	statement, err := e.Parse(s.opts.KeyID)
	if err != nil {
		return
	}
	incarnation, boot := s.state.Life()
	if statement.Stamp.Incarnation != incarnation {
		return
	}
	part := func(r wire.Ref, version uint64) *arrayMemory {
		held := engine.ArrayState{Version: version, Boot: statement.Stamp.Boot}
		if x.arrays[r] == nil || !s.state.Lineage(r).Contains(held, boot) {
			return nil
		}
		return x.arrays[r]
	}
	for i := range statement.Rounds {
		r := &statement.Rounds[i]
		if to := part(r.Ref, r.To); to != nil {
			to.rounds = append(to.rounds,
				engine.Part{Array: r.Array, Start: r.Start, Round: bytes.Clone(r.Data), From: r.From, To: r.To})
			x.bytes += wire.RoundCost + len(r.Data)
		}
	}
	if statement.Kind != wire.KindImage {
		return
	}
	image := &statement.Image
	if to := part(image.Ref, image.At); to != nil {
		if to.images[image.At] == nil {
			to.images[image.At] = make(map[wire.Topic][][]byte)
		}
		to.images[image.At][a.Topic] = image.Pages
		x.bytes += len(a.Data)
	}
}

// longest returns the images and rounds that lead to the highest version.
func (a *arrayMemory) longest() (images [][]byte, rounds []engine.Part) {
	slices.SortFunc(a.rounds, func(x, y engine.Part) int {
		return cmp.Or(cmp.Compare(x.From, y.From), cmp.Compare(x.To, y.To))
	})
	rounds, end := a.from(0)
	for at, set := range a.images {
		var all [][]byte
		for _, pages := range set {
			all = append(all, pages...)
		}
		if len(all) != a.pages {
			continue // a later image has replaced the missing pages
		}
		if next, to := a.from(at); to > end {
			images, rounds, end = all, next, to
		}
	}
	return images, rounds
}

// from returns the rounds that continue each other from a version on, and the version that they
// lead to.
func (a *arrayMemory) from(version uint64) (rounds []engine.Part, end uint64) {
	end = version
	for i := range a.rounds {
		r := &a.rounds[i]
		if r.From > end {
			break
		}
		if r.From == end && r.To > end {
			rounds, end = append(rounds, *r), r.To
		}
	}
	return rounds, end
}

// remind restores pages from a broker's stored messages.
func (s *Sender) remind(ctx context.Context, c *cure, x *memory) {
	c.reading = false
	if x.err != nil {
		s.opts.Log.Warn("what this node has published was not read from the broker to its end", "broker", x.bus.Name(),
			"err", x.err)
	}
	for r, a := range x.arrays {
		images, rounds := a.longest()
		n, err := s.opts.Engine.HealPublished(ctx, r.Array, r.Start, images, rounds)
		if err != nil && ctx.Err() == nil {
			s.opts.Log.Warn("what this node has published does not make its pages whole", "array", r.Array,
				"generation", r.Start, "err", err)
		}
		if n > 0 {
			c.by[engine.Broker] += n
			c.last = time.Now()
		}
	}
}
