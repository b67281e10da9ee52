package mesh

import (
	"fmt"
	"time"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
)

// growth measures what a peer adds against what it may. An hour's worth may
// come at once; what is over it shows a peer that has gone mad.
type growth struct {
	adds, listings float64 // of the allowance, used
	at             time.Time
}

// burst is how many minutes' worth of adds may come at once.
const burst = 60

// charge adds what a round brings, and returns why it is too much, or "".
func (g *growth) charge(o *Options, now time.Time, a engine.Array, r *filter.Round) string {
	if minutes := now.Sub(g.at).Minutes(); minutes > 0 {
		g.adds = max(0, g.adds-minutes*o.MaxAdds)
		g.listings = max(0, g.listings-minutes*o.MaxListings)
		g.at = now
	}
	if a == engine.ArrayCounts {
		g.adds += float64(r.Increase())
	} else {
		g.listings += float64(r.Len())
	}
	return g.excess(o)
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

// tooFull returns why an array of a peer, brought by images, holds more than
// the peer may have added since its generation began, or "". Counts of one key
// cannot be told from images, its keys can.
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
