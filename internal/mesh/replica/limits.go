package replica

import (
	"fmt"
	"time"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/member"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
)

// tooFull returns a reason if an array that arrived as images holds more keys than the peer may
// have added since its generation began, or "". An image does not show how often a key was added.
func tooFull(o *member.Options, now time.Time, s engine.ArrayState) string {
	rate := o.MaxListings
	if s.Array == engine.ArrayCounts {
		rate = o.MaxAdds
	}
	minutes := now.Sub(time.Unix(int64(s.Start), 0)).Minutes()
	if limit := rate * max(minutes+member.Burst, member.Burst); float64(s.Keys) > limit {
		return fmt.Sprintf("%d keys in %s of generation %d, limit %v a minute", s.Keys, s.Array, s.Start, rate)
	}
	return ""
}

// maxShown bounds the probability that a peer's array reports a signature that was never added. It
// equals the bound of an array into which arrays are merged. A few well-chosen keys suffice to make
// an array report every signature, far fewer than a peer may add.
const maxShown = 0.1

// A look records how many keys each array had at its last inspection.
type look map[wire.Ref]uint64

// due reports whether an array is to be inspected. It has grown since the last inspection, and
// could report too much if each of its keys set as many cells or bits as a key can.
func (l look) due(s engine.ArrayState) bool {
	slots := s.Geometry.Bytes() * 8
	if s.Geometry.Kind == filter.Cells {
		slots /= 4
	}
	last, ok := l[wire.Ref{Array: s.Array, Start: s.Start}]
	if s.Keys < last {
		ok = false // the array was begun anew
	}
	return float64(s.Keys)*float64(s.Geometry.K) > maxShown*float64(slots) && (!ok || s.Keys > last+last/16)
}

// showsTooMuch returns a reason if a peer's array reports too many signatures, or "".
func (o *origin) showsTooMuch(s engine.ArrayState) string {
	if !o.inspected.due(s) {
		return ""
	}
	x := wire.Ref{Array: s.Array, Start: s.Start}
	o.inspected[x] = o.replica()[x].Keys // the key count of s may include duplicates
	if shown := o.engine.Shown(o.peer.ID, s.Array, s.Start); shown > maxShown {
		return fmt.Sprintf("%s of generation %d shows %.0f %% of all signatures, limit %.0f %%", s.Array, s.Start,
			100*shown, 100*maxShown)
	}
	return ""
}
