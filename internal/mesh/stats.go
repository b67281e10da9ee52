package mesh

import (
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
)

// stats are the statistics of one peer.
type stats struct {
	ownName   string    // by which the peer calls itself
	heard     time.Time // since the start
	lastHeard time.Time // including before the start
	lag       time.Duration
	behind    time.Time // since when; zero if not
	missing   uint64
	messages  uint64
	bytes     uint64
	applied   uint64
	pages     uint64
	asked     uint64
	conflicts int
	served    uint64
	network   string    // another network in which it was seen
	networkAt time.Time // when
	refusals  refusals
	growth    growth
	// organisations is the list in its last head.
	organisations []wire.Organisation
}

func newStats() stats { return stats{refusals: newRefusals()} }

// silentAfter is how many heartbeats a peer may be silent before its status reports that.
const silentAfter = 10

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// refusals counts refusals by reason. Each reason is logged once.
type refusals struct {
	count map[string]uint64
	last  string
}

func newRefusals() refusals { return refusals{count: make(map[string]uint64)} }

// add counts a refusal, and reports whether it is the first for its reason.
func (r *refusals) add(reason, detail string) (first bool) {
	r.count[reason]++
	r.last = reason
	if detail != "" {
		r.last += ": " + detail
	}
	return r.count[reason] == 1
}

func (b *Book) figures(h wire.Hint, change func(*stats)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if mem := b.members[h]; mem != nil {
		change(&mem.stats)
	}
}

// maxStrangers bounds the strangers whose first refusal is logged.
const maxStrangers = 1024

// refuse counts a refused message of a peer, and logs the first one for each reason.
func (b *Book) refuse(h wire.Hint, reason, detail string) {
	b.mu.Lock()
	mem := b.members[h]
	var first bool
	name := h.String()
	if mem != nil {
		first = mem.refusals.add(reason, detail)
		name = mem.label()
	} else {
		b.strange.add(reason, detail)
		first = !b.strangers[h] && len(b.strangers) < maxStrangers
		b.strangers[h] = b.strangers[h] || first
	}
	b.mu.Unlock()
	if first {
		b.opts.Log.Warn("message refused; others like it are only counted", "from", name, "reason", reason,
			"detail", detail)
	}
}

// refuseStranger counts a refusal of a sender that is no peer, and reports whether it is the first for
// its reason.
func (b *Book) refuseStranger(reason, detail string) (first bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.strange.add(reason, detail)
}

// reject counts a refused message whose sender is not proven.
func (b *Book) reject(reason, detail string) {
	if b.refuseStranger(reason, detail) {
		b.opts.Log.Warn("message of an unknown sender refused; others like it are only counted", "reason", reason,
			"detail", detail)
	}
}

// Reasons for refusals. They are values of a metric's label, so there are few.
const (
	reasonVersion   = "other version"
	reasonMalformed = "malformed"
	reasonStranger  = "unknown key"
	reasonForged    = "forged"
	reasonSubject   = "subject of another"
	reasonShare     = "over its share of the queue"
	reasonWaiting   = "over its share of what waits"
	reasonClock     = "clock ahead"
	reasonOld       = "old incarnation"
	reasonAbsurd    = "absurd part"
	reasonGeometry  = "wrong geometry"
	reasonLimit     = "over limit"
	reasonMemory    = "over mesh.memory"
	reasonRollback  = "rolled back"
	reasonAsks      = "asks for too much"
	reasonSuspect   = "went back in time"
	reasonEarly     = "in the future"
)
