package origin

import (
	"slices"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/learn"
	"github.com/bulkhead-mail/bulkhead/internal/lesson"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/member"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
	"github.com/bulkhead-mail/bulkhead/internal/testing/bubble"
	"github.com/bulkhead-mail/bulkhead/internal/testing/meshtest"
)

// TestTurns checks that a node asks at most maxStudies of its peers for lessons with one heartbeat, and
// each of them in turn.
func TestTurns(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		r := newRig(t, k, func(o *member.Options) { o.Lessons = lesson.New(lesson.Options{Bytes: 1 << 20}) })
		const peers = 70
		for range peers - 1 {
			if err := r.AddPeer(t.Context(), meshtest.Identity(t).ID(), "", 1); err != nil {
				t.Fatal(err)
			}
		}
		asked := make(map[wire.Hint]int)
		for beat := range 3 {
			r.sender.study()
			list := r.Bus.Messages(t)
			if len(list) > maxStudies || beat == 0 && len(list) != maxStudies {
				t.Errorf("heartbeat %d: %d questions, limit %d", beat, len(list), maxStudies)
			}
			for _, m := range list {
				if m.Kind != wire.KindStudy {
					t.Errorf("a message of kind %q", byte(m.Kind))
				}
				asked[m.To]++
			}
		}
		if len(asked) != peers {
			t.Errorf("%d of %d peers were asked in three heartbeats", len(asked), peers)
		}
	})
}

// TestUnanswered checks that a peer that never answers is asked less and less often.
func TestUnanswered(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		r := newRig(t, k, nil)
		var asked []int
		for beat := range 260 {
			if r.sender.due(r.Peer.Hint()) {
				asked = append(asked, beat)
			}
		}
		if want := []int{0, 2, 5, 10, 19, 36, 69, 134, 199}; !slices.Equal(asked, want) {
			t.Errorf("asked at heartbeats %v, want %v", asked, want)
		}
		r.sender.lessons[r.Peer.Hint()] = &draw{}
		if err := r.EvictPeer(t.Context(), r.Peer.ID()); err != nil {
			t.Fatal(err)
		}
		if r.sender.forgetDraws(); len(r.sender.beats) != 0 || len(r.sender.lessons) != 0 {
			t.Error("a former peer is not forgotten")
		}
	})
}

// every has a count of each token.
type every struct{}

func (every) Entries(_ uint64, tokens []learn.Token) (all lesson.Entry, entries []lesson.Entry, ok bool) {
	for _, k := range tokens {
		entries = append(entries, lesson.Entry{Token: k, Delivered: 3})
	}
	return all, entries, true
}

// TestTeach checks that a peer's question is answered within its budget, and the volume charged.
func TestTeach(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		r := newRig(t, k, nil)
		s, h := r.sender, r.Peer.Hint()
		ask := func() int {
			s.answer(t.Context(), &wire.Message{Kind: wire.KindStudy, From: h, Teaching: wire.Teaching{Study: &lesson.Study{}}})
			list := r.Bus.Messages(t)
			for _, m := range list {
				if m.Kind != wire.KindLesson || m.To != h {
					t.Errorf("sent %+v", m)
				}
			}
			return len(list)
		}
		if n := ask(); n != 0 {
			t.Errorf("%d lessons of a node that learns nothing with others", n)
		}
		x := lesson.New(lesson.Options{Source: every{}, Bytes: 1 << 20})
		r.Options.Lessons = x
		for n := range uint64(lesson.LeastRound) {
			x.Learnt(lesson.Learnt{Start: 1, KeyID: 7, Text: learn.Token(n), Who: lesson.PersonOf(n, true),
				Tokens: []learn.Token{3, 4, 5}})
		}
		if !x.Round() || ask() != 1 {
			t.Error("no lesson")
		}
		if got, want := s.lessons[h].left, float64(drawLeast+2*lessonBytes*3-3*lessonBytes); got != want {
			t.Errorf("%.0f bytes are left, want %.0f", got, want)
		}
		if got := r.Entry().Served; got != 3*lessonBytes {
			t.Errorf("%d bytes served", got)
		}
		s.lessons[h].left = 0
		if got := r.Refused(func() { ask() }); got != member.ReasonAsks {
			t.Errorf("refused %q", got)
		}
		r.Options.Role = member.Subscribe
		bubble.Advance(time.Hour)
		if n := ask(); n != 0 {
			t.Errorf("%d lessons of a node that shares nothing", n)
		}
		r.Options.Role = member.Publish
		if s.study(); len(r.Bus.Sent) != 0 {
			t.Error("a node that counts no peer asks for lessons")
		}
		r.Options.Role, r.Options.Lessons = member.Both, nil
		if s.study(); len(r.Bus.Sent) != 0 {
			t.Error("a node that learns nothing with others asks for lessons")
		}
	})
}
