package origin

import (
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/lesson"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/member"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
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
