package member

import (
	"fmt"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/arrays"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
)

// Growth measures a peer's adds against its allowance. An hour's allowance may arrive at once; a
// peer that exceeds it is out of order.
type Growth struct {
	Adds, Listings float64 // used part of the allowance; negative: extra credit
	At             time.Time
	Credited       time.Time // when extra credit was last given
}

// Burst is the number of minutes whose allowance may arrive at once.
const Burst = 60

// Charge adds the adds of a round. It returns the reason if they exceed the allowance, or "".
func (g *Growth) Charge(o *Options, now time.Time, a engine.Array, r *arrays.Round) string {
	if minutes := now.Sub(g.At).Minutes(); minutes > 0 {
		kept := now.Sub(g.Credited).Minutes() < Burst
		g.Adds = leak(g.Adds, minutes*o.MaxAdds, kept)
		g.Listings = leak(g.Listings, minutes*o.MaxListings, kept)
		g.At = now
	}
	if a == engine.ArrayCounts {
		g.Adds += float64(r.Increase())
	} else {
		g.Listings += float64(r.Len())
	}
	return g.Excess(o)
}

// leak returns the used part of an allowance after the elapsed time has restored some of it.
func leak(used, back float64, credit bool) float64 {
	if used < 0 && credit {
		return used
	}
	return max(0, used-back)
}

// Credit allows, for an hour, the adds that a peer may have made while it was silent. They all
// arrive at once after the node or the peer was away.
func (g *Growth) Credit(o *Options, now time.Time, silence time.Duration) {
	silence = min(silence, o.StreamAge) // older adds arrive as images
	if silence.Minutes() < Burst {
		return
	}
	g.Adds, g.Listings = -silence.Minutes()*o.MaxAdds, -silence.Minutes()*o.MaxListings
	g.Credited = now
}

// Excess returns why the adds exceed the allowance, or "".
func (g *Growth) Excess(o *Options) string {
	switch {
	case g.Adds > Burst*o.MaxAdds:
		return fmt.Sprintf("%.0f adds above its rate, limit %v a minute", g.Adds-Burst*o.MaxAdds, o.MaxAdds)
	case g.Listings > Burst*o.MaxListings:
		return fmt.Sprintf("%.0f listings above its rate, limit %v a minute", g.Listings-Burst*o.MaxListings, o.MaxListings)
	}
	return ""
}
