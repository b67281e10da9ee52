package mesh

import (
	"context"
	"errors"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/member"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
)

// A node asks each peer for its lessons with each heartbeat, and the peer answers with what the node
// lacks. Lost messages therefore cost one heartbeat. A peer of an earlier release cannot read the question,
// so the time between two of them doubles until it answers.
const (
	maxUnanswered = 64               // heartbeats between two questions to a peer that never answered
	saveLessons   = 10 * time.Minute // between two times that the peers' lessons are written
	lessonBytes   = 64               // of one token, at most
)

// budgets bound what peers can make a node send.
type budgets struct {
	draws   map[wire.Hint]*draw
	refills map[wire.Hint]*draw // of pages that peers have lost themselves
	lessons map[wire.Hint]*draw
	// beats are the heartbeats until the next question to a peer that has never answered.
	beats map[wire.Hint]*unanswered
}

type unanswered struct{ left, next int }

func newBudgets() budgets {
	return budgets{draws: make(map[wire.Hint]*draw), refills: make(map[wire.Hint]*draw),
		lessons: make(map[wire.Hint]*draw), beats: make(map[wire.Hint]*unanswered)}
}

// openLessons reads what was taught and studied before.
func (m *Mesh) openLessons() {
	if x := m.opts.Lessons; x != nil {
		if err := x.Load(m.opts.Dir, weightsOf(m.Book, m.opts.Role)); err != nil {
			m.opts.Log.Warn("words learnt together not read: peers are asked again, and taught anew", "err", err)
		}
		m.keepLessons()
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

// keepLessons drops what nodes have taught that are no peers now, and what was rolled back.
func (m *Mesh) keepLessons() {
	x := m.opts.Lessons
	if x == nil {
		return
	}
	x.Keep(weightsOf(m.Book, m.opts.Role))
	for _, p := range m.Book.List() {
		if len(p.Refused) > 0 {
			x.Forget(p.ID, p.Refuses)
		}
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
	tick := time.NewTicker(m.opts.Interval)
	defer tick.Stop()
	saved, rest := time.Now(), time.Time{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		var err error
		if m.opts.Role != member.Subscribe && x.Round() {
			err = x.SaveTaught(m.opts.Dir)
		}
		// A combination may take a second. It then takes a tenth of the time at most.
		if began := time.Now(); began.After(rest) {
			m.keepLessons()
			rest = time.Now().Add(9 * time.Since(began))
		}
		if time.Since(saved) > saveLessons {
			saved = time.Now()
			err = errors.Join(err, x.SaveHeld(m.opts.Dir))
		}
		if err != nil {
			m.opts.Log.Warn("words learnt together not saved", "err", err)
		}
	}
}

// study asks the peers for their lessons.
func (s *sender) study() {
	x := s.opts.Lessons
	if x == nil || s.opts.Role == member.Publish {
		return
	}
	for _, p := range s.book.List() {
		q, h := x.Study(p.ID), p.Key.Hint()
		if q.Table == 0 && !s.due(h) {
			continue
		}
		s.sendTo(h, &wire.Message{Kind: wire.KindStudy, To: h, Teaching: wire.Teaching{Study: q}})
	}
}

// due reports whether a peer that has never answered is asked now.
func (s *sender) due(h wire.Hint) bool {
	b := s.beats[h]
	if b == nil {
		b = &unanswered{next: 1}
		s.beats[h] = b
	}
	if b.left > 0 {
		b.left--
		return false
	}
	b.left, b.next = b.next, min(2*b.next, maxUnanswered)
	return true
}

// teach answers a peer's question for lessons.
func (s *sender) teach(m *wire.Message) {
	x := s.opts.Lessons
	if x == nil || s.opts.Role == member.Subscribe {
		return
	}
	if !may(s.lessons, m.From, drawLeast+2*lessonBytes*float64(x.Taught().Features)) {
		s.book.Refuse(m.From, member.ReasonAsks, "")
		return
	}
	for _, l := range x.Answer(m.Study) {
		s.sendTo(m.From, &wire.Message{Kind: wire.KindLesson, To: m.From, Teaching: wire.Teaching{Lesson: l}})
		s.chargeTo(s.lessons, m.From, lessonBytes*len(l.Entries))
	}
}

// lesson takes a lesson of a peer.
func (r *receiver) lesson(p *member.Peer, m *wire.Message) {
	x, l := r.opts.Lessons, m.Lesson
	if x == nil || r.opts.Role == member.Publish || l.Parts > 0 && p.Refuses(l.Live[l.Of].Start) {
		return
	}
	o := r.origin(m.From)
	if m.Stamp.Incarnation < o.taught.Incarnation ||
		m.Stamp.Incarnation == o.taught.Incarnation && !m.Stamp.Newer(o.taught) {
		return // a broker has repeated it
	}
	o.taught = m.Stamp
	if err := x.Take(p.ID, l); errors.Is(err, bulkhead.ErrOverLimit) {
		r.book.Refuse(m.From, member.ReasonLimit, err.Error())
	}
}
