package mesh

import (
	"fmt"
	"time"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
)

// growth measures what a peer adds against what it may add. An hour's allowance may come
// at once; a peer that exceeds it is out of order.
type growth struct {
	adds, listings float64 // of the allowance, used; below 0 what may come beside it
	at             time.Time
	credited       time.Time // when something was allowed beside it
}

// burst is how many minutes' allowance may come at once.
const burst = 60

// charge adds what a round brings, and returns why it is too much, or "".
func (g *growth) charge(o *Options, now time.Time, a engine.Array, r *filter.Round) string {
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

// leak returns the used part of an allowance once the time that passed has restored some.
func leak(used, back float64, credit bool) float64 {
	if used < 0 && credit {
		return used
	}
	return max(0, used-back)
}

// credit allows, for an hour, what a peer may have added while it was not heard, since
// all of that comes at once after the node or the peer was away.
func (g *growth) credit(o *Options, now time.Time, silence time.Duration) {
	silence = min(silence, o.StreamAge) // what is older comes as images
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

// tooFull returns why an array of a peer, brought by images, holds more keys than the
// peer may have added since its generation began, or "". An image does not show how
// often a key was added.
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

// maxShown bounds the probability that an array of a peer shows a signature that nobody
// reported; it is that of an array into which arrays are merged. A few well-chosen keys
// suffice to show every signature, far fewer than a peer may add.
const maxShown = 0.1

// A look notes how many keys each array had when it was last looked at.
type look map[ref]uint64

// due reports whether an array is to be looked at: it has grown since the last time, and
// could show too much if each of its keys set as many cells or bits as a key can.
func (l look) due(s engine.ArrayState) bool {
	slots := s.Geometry.Bytes() * 8
	if s.Geometry.Kind == filter.Cells {
		slots /= 4
	}
	last, ok := l[ref{s.Array, s.Start}]
	if s.Keys < last {
		ok = false // it began anew
	}
	return float64(s.Keys)*float64(s.Geometry.K) > maxShown*float64(slots) && (!ok || s.Keys > last+last/16)
}

// showsTooMuch returns why an array of a peer shows too much, or "".
func (r *receiver) showsTooMuch(p *peer, t *track, s engine.ArrayState) string {
	if !t.looked.due(s) {
		return ""
	}
	x := ref{s.Array, s.Start}
	t.looked[x] = r.replica(p.ID)[x].Keys // those of s may hold some twice
	if shown := r.m.opts.Engine.Shown(p.ID, s.Array, s.Start); shown > maxShown {
		return fmt.Sprintf("%s of generation %d shows %.0f %% of all signatures, limit %.0f %%", s.Array, s.Start, 100*shown, 100*maxShown)
	}
	return ""
}
