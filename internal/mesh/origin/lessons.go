package origin

import (
	"github.com/bulkhead-mail/bulkhead/internal/mesh/member"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
)

// A node asks each peer for its lessons with each heartbeat, and the peer answers with what the node
// lacks. Lost messages therefore cost one heartbeat, with up to maxStudies peers. A peer of an earlier
// release cannot read the question, so the time between two of them doubles until it answers.
const (
	maxUnanswered = 64 // heartbeats between two questions to a peer that never answered
	lessonBytes   = 64 // of one token, at most
	// maxStudies is the number of peers that are asked with one heartbeat. More peers take turns, so that
	// the questions of a group do not grow with the square of its members.
	maxStudies = 32
)

// budgets bound what peers can make a node send.
type budgets struct {
	draws   map[wire.Hint]*draw
	refills map[wire.Hint]*draw // of pages that peers have lost themselves
	lessons map[wire.Hint]*draw
	// beats are the heartbeats until the next question to a peer that has never answered.
	beats map[wire.Hint]*unanswered
	turn  int // peers asked so far
}

type unanswered struct{ left, next int }

func newBudgets() budgets {
	return budgets{draws: make(map[wire.Hint]*draw), refills: make(map[wire.Hint]*draw),
		lessons: make(map[wire.Hint]*draw), beats: make(map[wire.Hint]*unanswered)}
}

// study asks the peers for their lessons.
func (s *Sender) study() {
	x := s.opts.Lessons
	if x == nil || s.opts.Role == member.Publish {
		return
	}
	list := s.book.List()
	n := min(len(list), maxStudies)
	for i := range n {
		p := list[(s.turn+i)%len(list)]
		q, h := x.Study(p.ID), p.Key.Hint()
		if q.Table == 0 && !s.due(h) {
			continue
		}
		s.sendTo(h, &wire.Message{Kind: wire.KindStudy, To: h, Teaching: wire.Teaching{Study: q}})
	}
	s.turn += n
}

// due reports whether a peer that has never answered is asked now.
func (s *Sender) due(h wire.Hint) bool {
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
func (s *Sender) teach(m *wire.Message) {
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
