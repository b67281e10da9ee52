package mesh

import (
	"context"
	"errors"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/mesh/member"
)

const (
	saveLessons = 10 * time.Minute // between two times that the peers' lessons are written
	// combineRest is the least pause after a combination, as a multiple of its time. It may take a second.
	combineRest = 9
)

// openLessons reads what was taught and studied before.
func (m *Mesh) openLessons() {
	if x := m.opts.Lessons; x != nil {
		if err := x.Load(m.opts.Dir, weightsOf(m.Book, m.opts.Role)); err != nil {
			m.opts.Log.Warn("words learnt together not read", "err", err,
				"consequence", "peers are asked again, and taught anew")
		}
	}
}

// closeLessons writes what peers have taught. From then on it no longer counts, since the node may leave
// the network.
func (m *Mesh) closeLessons() error {
	x := m.opts.Lessons
	if x == nil {
		return nil
	}
	err := errors.Join(x.SaveHeld(m.opts.Dir), x.SaveTaught(m.opts.Dir))
	x.Keep(nil)
	x.Combine()
	return err
}

// keepLessons drops what nodes have taught that are no peers now, and what was rolled back, and combines the rest.
func (m *Mesh) keepLessons() {
	x := m.opts.Lessons
	x.Keep(weightsOf(m.Book, m.opts.Role))
	for _, p := range m.Book.List() {
		x.Forget(p.ID, p.Refuses)
	}
	x.Combine()
}

// weightsOf returns the weights of the peers whose counts this node takes.
func weightsOf(b *member.Book, r member.Role) map[string]float64 {
	out := make(map[string]float64)
	if r != member.Publish {
		for _, p := range b.List() {
			out[p.ID] = p.Origin().Weight
		}
	}
	return out
}

// learnTogether ends rounds and combines what peers teach, until ctx ends.
func (m *Mesh) learnTogether(ctx context.Context) {
	x := m.opts.Lessons
	if x == nil {
		return
	}
	save := time.NewTicker(saveLessons)
	defer save.Stop()
	for {
		began := time.Now()
		m.keepLessons()
		pause := max(m.opts.Interval, combineRest*time.Since(began))
		var err error
		select {
		case <-ctx.Done():
			return
		case <-save.C:
			err = x.SaveHeld(m.opts.Dir)
		case <-time.After(pause):
			if m.opts.Role != member.Subscribe && x.Round() {
				err = x.SaveTaught(m.opts.Dir)
			}
		}
		if err != nil {
			m.opts.Log.Warn("words learnt together not saved", "err", err)
		}
	}
}
