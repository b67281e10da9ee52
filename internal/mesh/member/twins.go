package member

import (
	"maps"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
)

const (
	// HeadRest is the least time between two heads of one process.
	HeadRest = time.Second
	// TwinRest is how many heartbeats another server that uses the node's key is remembered.
	TwinRest = 3
)

const (
	// maxProcesses is the number of processes of one key whose last heads are remembered.
	maxProcesses = 16
	// twinSigns is the number of signs that show two running servers with one key. If their clocks
	// differ so much that a stamp proves nothing, skewedSigns are needed.
	twinSigns, skewedSigns = 2, 4
	// twinSkew is how far a clock may be off for a head to be recent.
	twinSkew = 10 * time.Minute
)

// A process is what is known of one process that signs with a key.
type process struct {
	stamp wire.Stamp    // of its newest head
	begun uint64        // time of its first head, by its clock
	lag   time.Duration // from then to the arrival
	last  time.Time     // when its newest head arrived
	first time.Time     // when its first head arrived
}

// Twins watches the heads under one key for two servers that run at the same time. Heads are not
// stored by brokers, so their senders are running, except for heads that were on their way when a
// process ended. A sign is therefore a new head of an older process after a new one of a newer
// process. The zero value is ready for use.
type Twins struct {
	seen   map[uint64]*process // by boot number
	Newest wire.Stamp          // of the process with the highest number
	moved  bool                // the newest process was heard since the last sign
	at     time.Time
	count  int // signs in a row
	skewed int // of them, those that no clock proves
}

// Note records a head that arrived now, by the wall clock at wall, and reports whether it is a sign. Signs are at
// least rest apart, and forgotten after forget.
func (t *Twins) Note(s wire.Stamp, wall time.Time, rest, forget time.Duration) (sign bool) {
	now, lag := time.Now(), wall.Sub(s.Time())
	p := t.seen[s.Boot]
	switch {
	case p == nil:
		p = t.add(&process{stamp: s, begun: s.At, lag: lag, last: now, first: now})
	case s.Seq <= p.stamp.Seq:
		return false // repeated, or overtaken
	}
	p.stamp, p.last = s, now
	if !precedes(s, t.Newest) {
		t.Newest, t.moved = s, true
		return false
	}
	if !t.moved || now.Sub(t.at) < rest {
		return false
	}
	proved, before := false, false
	for _, y := range t.seen {
		if precedes(s, y.stamp) {
			proved = proved || s.At > y.begun
			before = before || p.first.Before(y.first)
		}
	}
	if !proved && lag.Abs() > twinSkew && !(before && (lag-p.lag).Abs() < twinSkew) {
		return false // it may be a replay of what an earlier process sent
	}
	if now.Sub(t.at) > forget {
		t.count, t.skewed = 0, 0
	}
	t.at, t.moved = now, false
	t.count++
	if !proved {
		t.skewed++
	}
	return true
}

// add remembers another process, and forgets the one that has been silent for longest if there are
// too many.
func (t *Twins) add(p *process) *process {
	if t.seen == nil {
		t.seen = make(map[uint64]*process)
	}
	if len(t.seen) >= maxProcesses {
		oldest := p.stamp.Boot
		for boot, q := range maps.All(t.seen) {
			if o := t.seen[oldest]; boot != t.Newest.Boot && (o == nil || q.last.Before(o.last)) {
				oldest = boot
			}
		}
		delete(t.seen, oldest)
	}
	t.seen[p.stamp.Boot] = p
	return p
}

// Certain reports whether the signs show two running servers.
func (t *Twins) Certain() bool {
	return t.count-t.skewed >= twinSigns || t.count >= skewedSigns
}

// precedes reports whether the process of a stamp began before the process of another one.
func precedes(s, than wire.Stamp) bool {
	return s.Incarnation < than.Incarnation || s.Incarnation == than.Incarnation && s.Boot < than.Boot
}
