package member

import (
	"maps"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
)

// Stats are the statistics of one peer.
type Stats struct {
	OwnName   string    // by which the peer calls itself
	Heard     time.Time // since the start
	Clock     time.Time // of the peer at its last head, and when that arrived by the processor's clock
	ClockAt   time.Time
	LastHeard time.Time // including before the start
	Lag       time.Duration
	Behind    time.Time // since when; zero if not
	Missing   uint64
	Messages  uint64
	Bytes     uint64
	Applied   uint64
	Pages     uint64
	Asked     uint64
	Served    uint64
	Network   string    // another network in which it was seen
	NetworkAt time.Time // when
	Refusals  refusals
	Growth    Growth
	// Organisations is the list in its last head.
	Organisations []wire.Organisation
}

func newStats() Stats { return Stats{Refusals: newRefusals()} }

// refusals counts refusals by reason. Each reason is logged once.
type refusals struct {
	Count map[string]uint64
	Last  string
}

func newRefusals() refusals { return refusals{Count: make(map[string]uint64)} }

// add counts a refusal, and reports whether it is the first for its reason.
func (r *refusals) add(reason, detail string) (first bool) {
	r.Count[reason]++
	r.Last = reason
	if detail != "" {
		r.Last += ": " + detail
	}
	return r.Count[reason] == 1
}

// Figures calls change with the statistics of a peer, if it is one. change must not block.
func (b *Book) Figures(h wire.Hint, change func(*Stats)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if mem := b.Members[h]; mem != nil {
		change(&mem.Stats)
	}
}

// maxStrangers bounds the strangers whose first refusal is logged.
const maxStrangers = 1024

// Refuse counts a refused message of a peer, and logs the first one for each reason.
func (b *Book) Refuse(h wire.Hint, reason, detail string) {
	b.mu.Lock()
	mem := b.Members[h]
	var first bool
	name := h.String()
	if mem != nil {
		first = mem.Refusals.add(reason, detail)
		name = mem.Label()
	} else {
		b.strange.add(reason, detail)
		first = !b.strangers[h] && len(b.strangers) < maxStrangers
		if first {
			b.strangers[h] = true
		}
	}
	b.mu.Unlock()
	if first {
		b.opts.Log.Warn("message refused", "from", name, "reason", reason, "detail", detail,
			"consequence", "others like it are counted and not logged")
	}
}

// RefuseStranger counts a refusal of a sender that is no peer, and reports whether it is the first for
// its reason.
func (b *Book) RefuseStranger(reason, detail string) (first bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.strange.add(reason, detail)
}

// Reject counts a refused message whose sender is not proven.
func (b *Book) Reject(reason, detail string) {
	if b.RefuseStranger(reason, detail) {
		b.opts.Log.Warn("message of an unknown sender refused", "reason", reason, "detail", detail,
			"consequence", "others like it are counted and not logged")
	}
}

// Reasons for refusals. They are values of a metric's label, so there are few.
const (
	ReasonVersion   = "other version"
	ReasonMalformed = "malformed"
	ReasonStranger  = "unknown key"
	ReasonForged    = "forged"
	ReasonSubject   = "subject of another"
	ReasonShare     = "over its share of the queue"
	ReasonWaiting   = "over its share of what waits"
	ReasonClock     = "clock ahead"
	ReasonOld       = "old incarnation"
	ReasonAbsurd    = "absurd part"
	ReasonGeometry  = "wrong geometry"
	ReasonLimit     = "over limit"
	ReasonMemory    = "over mesh.memory"
	ReasonRollback  = "rolled back"
	ReasonAsks      = "asks for too much"
	ReasonSuspect   = "went back in time"
	ReasonEarly     = "in the future"
)

// Strangers returns the number of refusals of senders that are no peers, by reason.
func (b *Book) Strangers() map[string]uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.strange.Count)
}

// Each calls f for those peers of a list that are still peers, with their statistics. f must neither
// block nor call methods of the book.
func (b *Book) Each(list []*Peer, f func(p *Peer, s *Stats)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range list {
		if x := b.Members[p.Key.Hint()]; x != nil {
			f(&x.Peer, &x.Stats)
		}
	}
}
