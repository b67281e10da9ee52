package evidence

import (
	"math"
	"slices"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/engine/book"
	"github.com/bulkhead-mail/bulkhead/internal/engine/replica"
)

// A kindCounts is one voice's counts of a key, multiplied by its weight: sightings, voters for spam, and
// voters for ham.
type kindCounts [CountKinds]uint32

// voices numbers the voices of a view, from 1. A voice is an origin that may not list alone because
// its weight is below the promotion weight, or several such origins whose counts are merged. The
// counts of voices are bounded by their weights, see [Reader.bound].
type voices struct {
	promotion float64
	number    map[string]int // by origin
	shares    []float64      // of the promotion weight, by voice
}

// newVoices returns the voices of a view. Origins merged into one array are indistinguishable in
// it, so they share one voice everywhere; otherwise one origin could be counted twice. Former
// incarnations share the voice of their owner.
func newVoices(v *replica.View, promotion float64) *voices {
	vs := &voices{promotion: promotion, number: make(map[string]int)}
	same := make(map[string]string) // for an origin that shares a voice, another origin with the same voice
	of := func(origin string) string {
		for next, ok := same[origin]; ok; next, ok = same[origin] {
			origin = next
		}
		return origin
	}
	join := func(origin, with string, weight float64) {
		if a, b := of(origin), of(with); weight < promotion && a != b {
			same[a] = b
		}
	}
	for _, m := range v.Counts {
		for _, origin := range m.Origins {
			join(origin, m.Origins[0], m.Weight)
		}
	}
	for _, r := range v.Origins {
		join(r.ID, r.Owner(), r.Weight)
	}
	add := func(origin string, weight float64) {
		if weight <= 0 || weight >= promotion {
			return
		}
		first := of(origin)
		n, ok := vs.number[first]
		if !ok {
			vs.shares = append(vs.shares, 0)
			n = len(vs.shares)
			vs.number[first] = n
		}
		vs.number[origin] = n
		vs.shares[n-1] = max(vs.shares[n-1], weight/promotion)
	}
	for _, r := range v.Origins {
		add(r.ID, r.Weight)
	}
	for _, m := range v.Counts {
		for _, origin := range m.Origins {
			add(origin, m.Weight)
		}
	}
	return vs
}

// of returns the number of the voice of an origin with a weight, or 0 if the weight is enough for
// counts without a bound.
func (vs *voices) of(origin string, weight float64) int {
	if weight >= vs.promotion {
		return 0
	}
	return vs.number[origin]
}

// A hearing is the counts of all voices for the keys of a reading.
type hearing struct {
	at     []int    // by ask: where its rows begin, plus 1; 0: no voice has counts
	rows   []uint32 // counts of each such ask, by kind and voice
	bounds []uint32 // by voice
}

func (h *hearing) begin(asks int) {
	h.at, h.rows, h.bounds = slices.Grow(h.at[:0], asks)[:asks], h.rows[:0], h.bounds[:0]
	clear(h.at)
}

// row returns the counts of one kind of an ask, by voice.
func (r *Reader) row(i int, kind uint8) []uint32 {
	h, all := &r.voices, len(r.sources.voices)
	if h.at[i] == 0 {
		first := len(h.rows)
		h.at[i] = first + 1
		h.rows = slices.Grow(h.rows, CountKinds*all)[:first+CountKinds*all]
		clear(h.rows[first:])
	}
	return h.rows[h.at[i]-1+int(kind)*all:][:all]
}

// say records a voice's counts of an ask.
func (r *Reader) say(i, voice int, n kindCounts) {
	for kind, by := range n {
		if by > 0 {
			x := &r.row(i, uint8(kind))[voice-1]
			*x = book.Add(*x, by)
		}
	}
}

// bound adds the counts of voices to the records. Each voice adds at most its share of the
// threshold. All voices with counts of a key together add at most the sum of their shares, and less
// than the threshold unless they may list together. So voices can make a key bulk only if they
// could also list it, regardless of their counts.
func (r *Reader) bound() {
	h, all := &r.voices, r.sources.voices
	for i, at := range h.at {
		if at == 0 {
			continue
		}
		if len(h.bounds) == 0 {
			for v := range all {
				h.bounds = append(h.bounds, r.most(all[v]))
			}
		}
		x := &r.request.out[i]
		for kind, sum := range [...]*uint32{Sighting: &x.Sightings, Spam: &x.Spam, Ham: &x.Ham} {
			n, share := uint64(0), 0.0
			for v, count := range h.rows[at-1+kind*len(all):][:len(all)] {
				if count > 0 {
					n += uint64(min(count, h.bounds[v]))
					share += all[v]
				}
			}
			if n > 0 {
				*sum = book.Add(*sum, min(uint32(min(n, filter.Many)), r.mostTogether(share)))
			}
		}
	}
}

// slack is the rounding error allowed when shares are added up.
const slack = 1e-9

// most returns the maximum that a voice with a share of the promotion weight may add to a count:
// the same share of the threshold, rounded up.
func (r *Reader) most(share float64) uint32 {
	if r.Threshold == 0 {
		return filter.Many
	}
	return uint32(min(math.Ceil(share*float64(r.Threshold)-slack), filter.Many))
}

// mostTogether returns the maximum that voices may add which together have a share of the promotion
// weight. It is the same share of the threshold and at least 1, but less than the threshold unless
// the voices may list.
func (r *Reader) mostTogether(share float64) uint32 {
	if r.Threshold == 0 {
		return filter.Many
	}
	n := math.Floor(share*float64(r.Threshold) + slack)
	if share < 1-slack {
		n = min(max(n, 1), float64(r.Threshold)-1)
	}
	return uint32(min(n, filter.Many))
}
