package engine

import (
	"log/slog"
	"time"

	"golang.org/x/time/rate"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/engine/resolve"
)

// A gatheringLog logs gatherings of voters whose votes are not yet enough, so that an attack is noticed
// before it succeeds. An attacker with many accounts could fill the log, so lines above a rate are
// omitted and counted in the next one.
type gatheringLog struct {
	rate    *rate.Limiter
	omitted int
}

func newGatheringLog() gatheringLog {
	return gatheringLog{rate: rate.NewLimiter(rate.Every(10*time.Second), 10)}
}

// what describes a gathering in words.
func what(g *resolve.Gathering) string {
	switch {
	case g.Lists:
		return "votes list a text that many received"
	case g.Spreads:
		return "a letter of a known sender reaches as many as hardly any mail of that sender did; \"not " +
			"spam\" keeps it from being bulk"
	case g.Peers > 0:
		return "peers list together what is delivered here, and their weight does not decide"
	case g.Turns > 0:
		return "a text is listed and taken off again and again"
	case g.Signature.Scheme() == bulkhead.Sender:
		return "votes fall on a sender of good standing"
	case g.Signature.Scheme() == bulkhead.Network:
		return "votes fall on a network that is known for days"
	}
	return "many vote on a text, and their weight does not decide"
}

// add logs the gatherings of a batch.
func (w *gatheringLog) add(log *slog.Logger, now func() time.Time, all []resolve.Gathering) {
	for i := range all {
		g := &all[i]
		if !w.rate.AllowN(now(), 1) {
			w.omitted++
			continue
		}
		log.Warn(what(g), "signature", g.Signature, "vote", g.Vote,
			"voters", g.Voters, "deliveries", g.Deliveries, "turns", g.Turns, "peers", g.Peers, "latest", g.Reporter,
			"unsaid", w.omitted)
		w.omitted = 0
	}
}
