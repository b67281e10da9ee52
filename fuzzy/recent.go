package fuzzy

import (
	"crypto/sha256"
	"encoding/binary"
	"sync"
	"time"
)

// recent recognises retransmitted updates: a client without an answer sends the same datagram
// again, which must not count twice. It remembers a bounded number of updates for recentTime. It
// may be used concurrently.
type recent struct {
	mu      sync.Mutex
	entries map[recentID]*recentEntry
	ring    []*recentEntry // in the order of their entry; nil where none
	next    int
}

type recentID [16]byte

type recentEntry struct {
	id    recentID
	since time.Time
	done  bool
}

type recentState uint8

const (
	recentNew  recentState = iota
	recentBusy             // under way
	recentDone
)

func newRecent(size int) *recent {
	return &recent{entries: make(map[recentID]*recentEntry), ring: make([]*recentEntry, size)}
}

// recentID identifies an update: its client, key, and whole command.
func (j *job) recentID() (id recentID) {
	h := sha256.New()
	addr := j.client.Addr().As16()
	h.Write(addr[:])
	var b [16]byte
	binary.LittleEndian.PutUint16(b[:], j.client.Port())
	binary.LittleEndian.PutUint32(b[2:], j.req.Tag)
	binary.LittleEndian.PutUint32(b[6:], uint32(j.req.Value))
	b[10], b[11] = byte(j.req.Command), j.req.Flag
	h.Write(b[:])
	if j.shared != nil {
		h.Write(j.shared[:])
	}
	h.Write(j.req.Digest[:])
	copy(id[:], h.Sum(nil))
	return id
}

// enter looks up an update and, if it is new, marks it as pending.
func (r *recent) enter(id recentID, now time.Time) (*recentEntry, recentState) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.entries[id]; e != nil && now.Sub(e.since) < recentTime {
		if e.done {
			return e, recentDone
		}
		return e, recentBusy
	}
	if old := r.ring[r.next]; old != nil && r.entries[old.id] == old {
		delete(r.entries, old.id)
	}
	e := &recentEntry{id: id, since: now}
	r.entries[id], r.ring[r.next] = e, e
	r.next = (r.next + 1) % len(r.ring)
	return e, recentNew
}

// finish marks an update as done.
func (r *recent) finish(e *recentEntry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.done = true
}

// forget removes an update that was not done.
func (r *recent) forget(e *recentEntry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e != nil && r.entries[e.id] == e {
		delete(r.entries, e.id)
	}
}
