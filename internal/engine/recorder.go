package engine

import (
	"github.com/bulkhead-mail/bulkhead/internal/arrays"
	"github.com/bulkhead-mail/bulkhead/internal/engine/replica"
)

// maxRecorded is the maximum number of recorded adds to one array. If the rounds are not taken
// before they exceed it, they are discarded; receivers then find a gap and request images.
const maxRecorded = 1 << 20

// A recorder stores the rounds of the node's own arrays. Only the writer uses it.
type recorder struct {
	on     bool
	rounds map[replica.Key]*recording
}

// A recording holds the changes of one array since its rounds were last taken.
type recording struct {
	rounds []*arrays.Round // each begins where the one before ends
	adds   int
	cut    bool // the next add begins a new round
}

// begin returns the recording of an array that is about to change, or nil if recording is off.
// first begins a round at the array's present version.
func (r *recorder) begin(key replica.Key, first func() *arrays.Round) *recording {
	if !r.on {
		return nil
	}
	rec := r.rounds[key]
	if rec == nil || rec.adds > maxRecorded {
		rec = &recording{rounds: []*arrays.Round{first()}}
		r.rounds[key] = rec
	}
	return rec
}

// note calls record with the round that takes the adds.
func (c *recording) note(record func(r *arrays.Round)) {
	last := c.rounds[len(c.rounds)-1]
	r := last
	if c.cut && last.Len() > 0 {
		r = last.Next()
	}
	had := r.Len()
	record(r)
	if r.Len() == had {
		return // no peer sees these adds
	}
	if r != last {
		c.rounds = append(c.rounds, r)
	}
	c.adds += r.Len() - had
	c.cut = false
}

// take returns the recorded rounds, and starts new recordings.
func (r *recorder) take() map[replica.Key]*recording {
	rounds := r.rounds
	r.rounds = make(map[replica.Key]*recording)
	return rounds
}

// cut makes the next add to an array begin a new round.
func (r *recorder) cut(key replica.Key) {
	if rec := r.rounds[key]; rec != nil {
		rec.cut = true
	}
}

// forget discards the recording of an array whose content was replaced.
func (r *recorder) forget(key replica.Key) { delete(r.rounds, key) }
