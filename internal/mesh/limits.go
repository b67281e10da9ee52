package mesh

import (
	"fmt"
	"time"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/arrays"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
)

// growth measures a peer's adds against its allowance. An hour's allowance may arrive at once; a
// peer that exceeds it is out of order.
type growth struct {
	adds, listings float64 // used part of the allowance; negative: extra credit
	at             time.Time
	credited       time.Time // when extra credit was last given
}

// burst is the number of minutes whose allowance may arrive at once.
const burst = 60

// charge adds the adds of a round. It returns the reason if they exceed the allowance, or "".
func (g *growth) charge(o *Options, now time.Time, a engine.Array, r *arrays.Round) string {
	if minutes := now.Sub(g.at).Minutes(); minutes > 0 {
		kept := now.Sub(g.credited).Minutes() < burst
		g.adds = leak(g.adds, minutes*o.MaxAdds, kept)
		g.listings = leak(g.listings, minutes*o.MaxListings, kept)
		g.at = now
	}
	if a == engine.ArrayCounts {
		g.adds += float64(r.Increase())
	} else {
		g.listings += float64(r.Len())
	}
	return g.excess(o)
}

// leak returns the used part of an allowance after the elapsed time has restored some of it.
func leak(used, back float64, credit bool) float64 {
	if used < 0 && credit {
		return used
	}
	return max(0, used-back)
}

// credit allows, for an hour, the adds that a peer may have made while it was silent. They all
// arrive at once after the node or the peer was away.
func (g *growth) credit(o *Options, now time.Time, silence time.Duration) {
	silence = min(silence, o.StreamAge) // older adds arrive as images
	if silence.Minutes() < burst {
		return
	}
	g.adds, g.listings = -silence.Minutes()*o.MaxAdds, -silence.Minutes()*o.MaxListings
	g.credited = now
}

func (g *growth) excess(o *Options) string {
	switch {
	case g.adds > burst*o.MaxAdds:
		return fmt.Sprintf("%.0f adds above its rate, limit %v a minute", g.adds-burst*o.MaxAdds, o.MaxAdds)
	case g.listings > burst*o.MaxListings:
		return fmt.Sprintf("%.0f listings above its rate, limit %v a minute", g.listings-burst*o.MaxListings, o.MaxListings)
	}
	return ""
}

// tooFull returns a reason if an array that arrived as images holds more keys than the peer may
// have added since its generation began, or "". An image does not show how often a key was added.
func tooFull(o *Options, now time.Time, s engine.ArrayState) string {
	rate := o.MaxListings
	if s.Array == engine.ArrayCounts {
		rate = o.MaxAdds
	}
	minutes := now.Sub(time.Unix(int64(s.Start), 0)).Minutes()
	if limit := rate * max(minutes+burst, burst); float64(s.Keys) > limit {
		return fmt.Sprintf("%d keys in %s of generation %d, limit %v a minute", s.Keys, s.Array, s.Start, rate)
	}
	return ""
}

// maxShown bounds the probability that a peer's array reports a signature that was never added. It
// equals the bound of an array into which arrays are merged. A few well-chosen keys suffice to make
// an array report every signature, far fewer than a peer may add.
const maxShown = 0.1

// A look records how many keys each array had at its last inspection.
type look map[ref]uint64

// due reports whether an array is to be inspected. It has grown since the last inspection, and
// could report too much if each of its keys set as many cells or bits as a key can.
func (l look) due(s engine.ArrayState) bool {
	slots := s.Geometry.Bytes() * 8
	if s.Geometry.Kind == filter.Cells {
		slots /= 4
	}
	last, ok := l[ref{s.Array, s.Start}]
	if s.Keys < last {
		ok = false // the array was begun anew
	}
	return float64(s.Keys)*float64(s.Geometry.K) > maxShown*float64(slots) && (!ok || s.Keys > last+last/16)
}

// showsTooMuch returns a reason if a peer's array reports too many signatures, or "".
func (r *receiver) showsTooMuch(p *peer, t *track, s engine.ArrayState) string {
	if !t.looked.due(s) {
		return ""
	}
	x := ref{s.Array, s.Start}
	t.looked[x] = r.replica(p.ID)[x].Keys // the key count of s may include duplicates
	if shown := r.m.opts.Engine.Shown(p.ID, s.Array, s.Start); shown > maxShown {
		return fmt.Sprintf("%s of generation %d shows %.0f %% of all signatures, limit %.0f %%", s.Array, s.Start,
			100*shown, 100*maxShown)
	}
	return ""
}
