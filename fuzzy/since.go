package fuzzy

import (
	"context"
	"math/bits"
	"slices"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/signature"
)

// What was deleted ages before its deletion does: the difference of the two alone
// would hide what was written since. So that is counted once more, under the
// number of the delete. epochs is raised by 1 at the first delete, by 2 at the
// next, by 4 and so on, so that its highest bit is the last one even when earlier
// ones have aged out.
const maxEpochs = 22

// epochOf returns the number of the last of the deletes, of which there must be
// one, that have not aged out.
func epochOf(epochs uint32) int { return bits.Len32(epochs) - 1 }

// sinceKind is what counts additions or subtractions since a delete.
func sinceKind(epoch int, kind byte) byte { return since + 2*byte(epoch) + kind }

// appendSince appends what counts additions and subtractions since the last
// delete of counter i.
func appendSince(dst []bulkhead.Signature, r *Request, flag uint8, deletes uint32, i int) []bulkhead.Signature {
	epoch := epochOf(deletes)
	return append(dst, counterSignature(r, flag, sinceKind(epoch, added), i), counterSignature(r, flag, sinceKind(epoch, taken), i))
}

// freshEpochs returns for each counter the number that a delete of it gets:
// beyond those that have not aged out, and one under which nothing is counted.
// It is maxEpochs where there is none left.
func (s *Server) freshEpochs(ctx context.Context, j *job, flag uint8, counters []counter) ([]int, error) {
	fresh := make([]int, len(counters))
	q := questions{counted: true}
	for i := range counters {
		fresh[i] = maxEpochs
		if counters[i].value() == 0 {
			continue
		}
		for epoch := bits.Len32(counters[i].epochs); epoch < maxEpochs; epoch++ {
			q.sigs = append(q.sigs, counterSignature(&j.req, flag, sinceKind(epoch, added), i))
		}
	}
	if err := q.ask(ctx, s.house); err != nil {
		return nil, err
	}
	looks := q.looks
	for i := range counters {
		if counters[i].value() == 0 {
			continue
		}
		first := bits.Len32(counters[i].epochs)
		for epoch := maxEpochs - 1; epoch >= first; epoch-- {
			if looks[epoch-first].Sightings == 0 {
				fresh[i] = epoch
			}
		}
		looks = looks[max(0, maxEpochs-first):]
	}
	return fresh, nil
}

// askSince asks for what was written to digests since they were deleted.
func askSince(_ *Server, q *questions, c *pendingCheck, _ []uint8) {
	for i := range c.hits {
		if h := &c.hits[i]; h.epochs > 0 {
			q.sigs = appendSince(q.sigs, &c.job.req, h.flag, h.epochs, 0)
			q.sigs = append(q.sigs, counterSignature(&c.job.req, h.flag, sinceKind(epochOf(h.epochs), added), 1))
		}
	}
}

func takeSince(_ *Server, c *pendingCheck, looks, _ []bulkhead.Look, _ []uint8) {
	for i := range c.hits {
		if h := &c.hits[i]; h.epochs > 0 {
			left := total(min(looks[0].Sightings, looks[2].Sightings), looks[1].Sightings)
			h.value, h.minus = max(total(h.value, h.minus), left), 0
			looks = looks[3:]
		}
	}
	c.settle()
}

// heldBands are the bands of a message on one list: additions, subtractions and
// deletes.
type heldBands struct {
	flag           uint8
	plus           [signature.RspamdBands]bulkhead.Look
	minus, deletes [signature.RspamdBands]uint32
}

func (c *pendingCheck) hold(flag uint8, plus *[signature.RspamdBands]bulkhead.Look, minus, deletes []bulkhead.Look) {
	h := heldBands{flag: flag, plus: *plus}
	for b := range plus {
		h.minus[b], h.deletes[b] = minus[b].Sightings, deletes[b].Sightings
	}
	c.held = append(c.held, h)
}

// askNearSince asks for what was written to bands since they were deleted.
func askNearSince(_ *Server, q *questions, c *pendingCheck, _ []uint8) {
	for i := range c.held {
		for b, e := range c.held[i].deletes {
			if e > 0 {
				q.sigs = appendSince(q.sigs, &c.job.req, c.held[i].flag, e, 2+b)
			}
		}
	}
}

func takeNearSince(_ *Server, c *pendingCheck, looks, _ []bulkhead.Look, _ []uint8) {
	for i := range c.held {
		h := &c.held[i]
		for b, e := range h.deletes {
			left := uint32(0)
			if e > 0 {
				left = total(looks[0].Sightings, looks[1].Sightings)
				looks = looks[2:]
			}
			h.plus[b].Sightings = max(total(h.plus[b].Sightings, h.minus[b]), left)
		}
		if near, ok := nearHit(h.flag, h.plus[:], nil); ok {
			// What was written to a list goes before votes.
			c.hits = slices.DeleteFunc(c.hits, func(o hit) bool { return o.flag == h.flag })
			c.hits = append(c.hits, near)
		}
	}
	c.state = checkClosed
}
