package replica

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/learn"
	"github.com/bulkhead-mail/bulkhead/internal/lesson"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/member"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
	"github.com/bulkhead-mail/bulkhead/internal/testing/meshtest"
)

// learns returns a change of options by which a node has a class of the given size.
func learns(bytes uint64, role member.Role) func(*member.Options) {
	return func(o *member.Options) {
		o.Role = role
		o.Lessons = lesson.New(lesson.Options{Bytes: bytes, Known: func(uint64) bool { return true },
			Set: func(*learn.Others) {}})
	}
}

// TestLessonsInOrder checks that a lesson is taken exactly if it is addressed to this node, comes from a
// peer, is about no refused generation, and is newer than each lesson taken from the peer before.
// Brokers repeat and reorder messages, and an older lesson would void a newer one.
func TestLessonsInOrder(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		for _, role := range []member.Role{member.Both, member.Subscribe, member.Publish} {
			r := newRig(t, k, learns(1<<20, role))
			r.Members[r.Peer.Hint()].Refused = []member.Stretch{{From: 5, To: 7}}
			r.Options.Lessons.Keep(map[string]float64{r.Peer.ID(): 1})
			me, from := r.Options.Identity.Hint(), r.Peer.Hint()
			random := rand.New(rand.NewPCG(7, 1))
			var newest []uint64 // incarnation, boot and number of the newest lesson taken
			table, taken := uint64(0), 0
			for number := range uint64(3000) {
				at := []uint64{1 + (number+random.Uint64N(900))/900, 1 + random.Uint64N(4), 1 + random.Uint64N(40)}
				m := &wire.Message{Kind: wire.KindLesson, From: from, To: me,
					Stamp:    wire.Stamp{Incarnation: at[0], Boot: at[1], Seq: at[2]},
					Teaching: wire.Teaching{Lesson: &lesson.Lesson{Table: number + 1}}}
				want := role != member.Publish && slices.Compare(at, newest) > 0
				switch start := 4 + random.Uint64N(5); random.IntN(8) {
				case 0:
					m.To, want = wire.Hint{1}, false
				case 1:
					m.From, want = wire.Hint{2}, false
				case 2, 3:
					m.Lesson.Live, m.Lesson.Parts = []lesson.Mark{{Start: 100}, {Start: start, Round: 1}}, 1
					m.Lesson.Of = 1
					want = want && (start < 5 || start > 7)
				}
				r.receiver.take(t.Context(), &incoming{m: m})
				if want {
					table, newest = m.Lesson.Table, at
					taken++
				}
				if got := r.Options.Lessons.Study(r.Peer.ID()).Table; got != table {
					t.Fatalf("%s: after %v to %x from %x about %v the table is %d, want %d; the newest was %v", role, at, m.To, m.From,
						m.Lesson.Live, got, table, newest)
				}
			}
			if (taken < 20) != (role == member.Publish) || r.Entry().Messages != 0 {
				t.Errorf("%s: %d lessons taken, %d messages counted", role, taken, r.Entry().Messages)
			}
		}
	})
}

// TestLessonsBeyondTheQuota checks that the refusal of a lesson is counted by its reason, and that a node
// that does not learn takes none.
func TestLessonsBeyondTheQuota(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		for name, tt := range map[string]struct {
			change  func(*member.Options)
			refused string
		}{
			"room":             {learns(1<<20, member.Both), ""},
			"no room":          {learns(0, member.Both), member.ReasonLimit},
			"does not learn":   {nil, ""},
			"takes no message": {learns(0, member.Publish), ""},
		} {
			r := newRig(t, k, tt.change)
			if x := r.Options.Lessons; x != nil {
				x.Keep(map[string]float64{r.Peer.ID(): 1})
			}
			m := &wire.Message{Kind: wire.KindLesson, From: r.Peer.Hint(), To: r.Options.Identity.Hint(),
				Stamp: wire.Stamp{Incarnation: 1, Boot: 1, Seq: 1},
				Teaching: wire.Teaching{Lesson: &lesson.Lesson{Table: 1, Live: []lesson.Mark{{Start: 7, Round: 1}}, Parts: 1,
					Entries: []lesson.Entry{{Token: 9}}}}}
			if got := r.Refused(func() { r.receiver.take(t.Context(), &incoming{m: m}) }); got != tt.refused {
				t.Errorf("%s: refused for %q, want %q", name, got, tt.refused)
			}
		}
	})
}

// TestAsksByKind checks where each kind of message goes that is addressed to one node: to the part
// that answers, to the part that mends, or nowhere if another node is meant.
func TestAsksByKind(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		r := newRig(t, k, nil)
		me := r.Options.Identity.Hint()
		for _, kind := range []wire.Kind{wire.KindAsk, wire.KindPages, wire.KindRefill, wire.KindStudy, wire.KindLesson} {
			if kind.Topic() != wire.KindAsk {
				t.Errorf("%v has the topic %v", kind, kind.Topic())
			}
			for _, to := range []wire.Hint{me, {1}} {
				m := &wire.Message{Kind: kind, From: r.Peer.Hint(), To: to,
					Teaching: wire.Teaching{Lesson: &lesson.Lesson{Table: 1}}}
				r.receiver.take(t.Context(), &incoming{m: m})
				asks, fills := len(r.asked.asks), len(r.asked.fills)
				mine := to == me
				if (asks == 1) != (mine && kind != wire.KindRefill && kind != wire.KindLesson) ||
					(fills == 1) != (mine && kind == wire.KindRefill) || asks+fills > 1 {
					t.Errorf("%v to this node: %v: %d asks, %d refills", kind, mine, asks, fills)
				}
				for len(r.asked.asks) > 0 {
					<-r.asked.asks
				}
				for len(r.asked.fills) > 0 {
					<-r.asked.fills
				}
			}
		}
	})
}
