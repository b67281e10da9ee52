package origin

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/member"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
	"github.com/bulkhead-mail/bulkhead/internal/testing/bubble"
	"github.com/bulkhead-mail/bulkhead/internal/testing/meshtest"
)

// TestRun checks what a running sender publishes, by the kinds of its messages: images of all arrays in a new
// incarnation, heads with each heartbeat and on request, questions, answers, and its last adds when it ends.
func TestRun(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		r := newRig(t, k, func(o *member.Options) { o.Store = "new" })
		s, h := r.sender, r.Peer.Hint()
		r.State.Store = "old"
		r.Engine.Mine = []engine.ArrayState{{Array: spam.Array, Start: spam.Start, Version: 1, Geometry: meshtest.Bits}}
		r.Engine.Pages = []engine.Part{{Array: spam.Array, Start: spam.Start, Geometry: meshtest.Bits, Image: []byte{1}}}
		if err := s.Start(t.Context()); err != nil || !s.renewed {
			t.Fatalf("renewed %v, %v", s.renewed, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan bool)
		go func() {
			s.Run(ctx)
			close(ended)
		}()
		wants := func(what, want string) {
			t.Helper()
			synctest.Wait()
			got := ""
			for _, m := range r.Bus.Messages(t) {
				got += string(rune(m.Kind))
			}
			if got != want {
				t.Errorf("%s: messages %q, want %q", what, got, want)
			}
		}
		wants("the start", "")
		bubble.Advance(r.Options.Interval)
		wants("the first interval", "i")
		bubble.Advance(r.Options.Heartbeat - r.Options.Interval)
		wants("a heartbeat", "h")
		r.Engine.Give(engine.Part{Array: spam.Array, Start: spam.Start, From: 0, To: 1, Geometry: meshtest.Bits,
			Round: []byte{1}})
		bubble.Advance(r.Options.Interval)
		wants("adds", "d")
		s.Want(&wire.Message{To: h})
		wants("a wish", "a")
		bubble.Advance(member.HeadRest)
		s.Greet()
		wants("another connection", "ha")
		s.Ask(&wire.Message{Kind: wire.KindAsk, From: h})
		wants("a question soon after a head", "")
		bubble.Advance(2 * r.Options.Interval)
		wants("two intervals after it", "h")
		life := r.State.Incarnation
		s.Recall(wire.Past{Stamp: wire.Stamp{Incarnation: life + uint64(time.Hour.Milliseconds())}})
		bubble.Advance(longRest)
		if wants("a past that is forgotten", "ih"); r.State.Incarnation <= life {
			t.Errorf("incarnation %d after %d", r.State.Incarnation, life)
		}
		r.Engine.Give(engine.Part{Array: spam.Array, Start: spam.Start, From: 1, To: 2, Geometry: meshtest.Bits,
			Round: []byte{1}})
		cancel()
		<-ended
		wants("the end", "d")
	})
}
