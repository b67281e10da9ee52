package replica

import (
	"maps"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/member"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
	"github.com/bulkhead-mail/bulkhead/internal/testing/bubble"
	"github.com/bulkhead-mail/bulkhead/internal/testing/meshtest"
)

// TestSeen checks that the time up to which each broker was read is saved at intervals, for a
// broker that is connected and caught up.
func TestSeen(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		r := newRig(t, k, nil)
		names := []string{"caught", "away", "read", "read before", "known", "new"}
		r.receiver.buses = nil
		begun := time.Now().UTC()
		r.State.Seen = map[string]time.Time{"away": begun, "read": begun, "read before": begun, "known": begun}
		for _, name := range names {
			b := k.Connect()
			b.Server = name
			r.receiver.Use(b)
			switch name {
			case "caught", "away":
				r.receiver.caught[b] = true
				b.Set(name == "caught")
			case "read":
				r.receiver.upTo[b] = begun.Add(time.Minute)
			case "read before":
				r.receiver.upTo[b] = begun
			}
		}
		bubble.Advance(time.Hour)
		now := time.Now().UTC()
		r.receiver.saveSeen(now)
		want := map[string]time.Time{"caught": now, "away": begun, "read": begun.Add(time.Minute), "read before": begun,
			"known": begun}
		saved, err := member.LoadState(r.Options.Dir)
		if err != nil || !maps.EqualFunc(saved.Seen, want, time.Time.Equal) {
			t.Errorf("saved %v, %v; want %v", saved.Seen, err, want)
		}
		for _, tt := range []struct {
			after time.Duration
			want  bool
		}{{0, false}, {time.Minute - 1, false}, {time.Minute, true}, {-time.Hour, true}} {
			r.receiver.seenSaved = now
			r.receiver.saveSeen(now.Add(tt.after))
			if got := !r.receiver.seenSaved.Equal(now) || tt.after == 0 && r.State.Seen["caught"] != now; got != tt.want {
				t.Errorf("saved %v later: %v", tt.after, got)
			}
		}
	})
}

// TestOwnMessages checks that a message in a node's own name that it did not send is attributed to
// another server with its key. Stored messages are compared with the node's state.
func TestOwnMessages(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		r := newRig(t, k, nil)
		r.State.Boot = 20
		for _, tt := range []struct {
			kind   wire.Kind
			boot   uint64
			stored bool
			twin   bool
		}{{wire.KindHead, 20, false, false}, {wire.KindDelta, 21, false, false}, {wire.KindHead, 21, true, false},
			{wire.KindHead, 19, false, false}, {wire.KindHead, 21, false, true}} {
			m := &wire.Message{Kind: tt.kind, From: r.Options.Identity.Hint(), Stamp: wire.Stamp{Boot: tt.boot}}
			r.receiver.take(t.Context(), &incoming{m: m, stored: tt.stored})
			if r.State.TwinAt.IsZero() == tt.twin || (r.Strangers()["own key elsewhere"] == 1) != tt.twin ||
				(len(r.asked.pasts) == 1) != tt.stored {
				t.Errorf("%+v: twin %v, %v", tt, r.State.TwinAt, r.Strangers())
			}
			for len(r.asked.pasts) > 0 {
				<-r.asked.pasts
			}
		}
	})
}

// TestOlderTwin checks that heads of an older process with the node's own key show another server if they go on, and
// that one head does not: it may have been on its way.
func TestOlderTwin(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		r := newRig(t, k, nil)
		life, boot := r.State.Life()
		for n, want := range []bool{false, true} {
			bubble.Advance(r.Options.Heartbeat)
			m := &wire.Message{Kind: wire.KindHead, From: r.Options.Identity.Hint(), Stamp: wire.Stamp{Incarnation: life,
				Boot: boot - 1000, Seq: uint64(n + 1), At: uint64(time.Now().UnixMilli())}}
			r.receiver.take(t.Context(), &incoming{m: m})
			if r.State.TwinAt.IsZero() == want || (r.Strangers()["own key elsewhere"] == 1) != want {
				t.Errorf("head %d: twin %v, %v; want %v", n+1, r.State.TwinAt, r.Strangers(), want)
			}
		}
	})
}

// TestTaken checks what is recorded of each message of a peer, and which messages a node handles.
func TestTaken(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		for _, role := range []member.Role{member.Both, member.Publish} {
			r := newRig(t, k, func(o *member.Options) { o.Role = role })
			me, from := r.Options.Identity.Hint(), r.Peer.Hint()
			r.Members[from].Network = "another"
			ask := func(to wire.Hint) int {
				r.receiver.take(t.Context(), &incoming{m: &wire.Message{Kind: wire.KindAsk, From: from, To: to}, size: 10})
				return len(r.asked.asks)
			}
			if ask(wire.Hint{1}) != 0 || ask(me) != 1 || r.Entry().Messages != 0 {
				t.Errorf("%s: %d asks are taken", role, len(r.asked.asks))
			}
			bubble.Advance(time.Second)
			r.receiver.take(t.Context(), &incoming{m: &wire.Message{Kind: wire.KindHead, From: from,
				Stamp: wire.Stamp{Incarnation: 1, Boot: 1, Seq: 1, At: 1}}, size: 10})
			if s := r.Entry(); role == member.Publish {
				if s.Messages != 0 || r.t.dirty {
					t.Errorf("a trap takes what it hears: %+v", s)
				}
				continue
			}
			if s := r.Entry(); s.Messages != 1 || s.Bytes != 10 || !s.Heard.Equal(time.Now()) ||
				r.Members[from].Network != "" || r.t.head.Seq != 1 || !r.t.dirty {
				t.Errorf("%+v, head %+v", s, r.t.head)
			}
			r.receiver.take(t.Context(), &incoming{m: &wire.Message{Kind: wire.KindDelta, From: wire.Hint{7}}, size: 10})
			if n := r.Strangers()[member.ReasonStranger]; n != 1 {
				t.Errorf("%d messages of strangers are refused, want 1", n)
			}
		}
		synctest.Wait()
	})
}

// TestGrowthOfSilence checks that the adds that a peer may have made during a silence may arrive at
// once: since its last message, its addition, or this node's last run.
func TestGrowthOfSilence(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		for name, tt := range map[string]struct {
			received, began time.Duration // ago; 0: never
			want            float64       // minutes
		}{
			"heard before": {2 * time.Hour, 90 * time.Minute, 120}, "never heard": {0, 0, 180},
			"never, this node was away": {0, 2 * time.Hour, 120},
			"heard lately":              {59 * time.Minute, 0, 0}, "heard an hour ago": {time.Hour, 0, 60},
			"long ago": {100 * time.Hour, 0, 72 * 60},
		} {
			r := newRig(t, k, nil)
			bubble.Advance(3 * time.Hour)
			mem := r.Members[r.Peer.Hint()]
			if tt.received > 0 {
				mem.Heard = time.Now().Add(-tt.received)
			}
			r.receiver.began = time.Time{}
			if tt.began > 0 {
				r.receiver.began = time.Now().Add(-tt.began)
			}
			r.receiver.take(t.Context(),
				&incoming{m: &wire.Message{Kind: wire.KindHead, From: r.Peer.Hint(), Stamp: wire.Stamp{Incarnation: 1, Boot: 1,
					Seq: 1, At: 1}}})
			if got := -mem.Growth.Adds / r.Options.MaxAdds; math.Abs(got-tt.want) > 0.1 ||
				tt.want > 0 && !mem.Growth.Credited.Equal(time.Now()) {
				t.Errorf("%s: %v minutes' worth may come, want %v", name, got, tt.want)
			}
		}
	})
}

// TestShowsTooMuch checks that an array that would report signatures which were never added is out
// of order, and is inspected again when it has grown.
func TestShowsTooMuch(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		r := newRig(t, k, nil)
		x := wire.Ref{Array: engine.ArraySpam, Start: 7}
		a := engine.ArrayState{Array: x.Array, Start: x.Start, Geometry: meshtest.Bits, Keys: 1 << 30}
		r.Engine.Held = []engine.ArrayState{a}
		for _, shown := range []float64{maxShown, maxShown + 0.001} {
			r.again()
			r.Engine.ShownShare = shown
			if why := r.t.showsTooMuch(a); (why != "") != (shown > maxShown) {
				t.Errorf("shown %v: %q", shown, why)
			}
			r.Engine.ShownShare = 0.9
			if why := r.t.showsTooMuch(engine.ArrayState{Array: a.Array, Start: 8, Geometry: a.Geometry, Keys: a.Keys}); why !=
				"spam of generation 8 shows 90 % of all signatures, limit 10 %" {
				t.Errorf("the reason is %q", why)
			}
			if r.t.inspected[x] != a.Keys {
				t.Errorf("noted %v", r.t.inspected)
			}
			if why := r.t.showsTooMuch(a); why != "" {
				t.Errorf("looked at again at once: %q", why)
			}
		}
		few := a
		few.Keys = 1
		r.again()
		if why := r.t.showsTooMuch(few); why != "" || len(r.t.inspected) != 0 {
			t.Errorf("a few keys: %q", why)
		}
		r.t.suspend(t.Context(), "")
		if r.Entry().Quarantine != "" {
			t.Error("in quarantine for nothing")
		}
		r.t.suspend(t.Context(), "why")
		r.t.suspend(t.Context(), "another")
		if r.Entry().Quarantine != "why" || r.p.Quarantine != "why" {
			t.Errorf("quarantine %q", r.Entry().Quarantine)
		}
	})
}

// TestCarefulSuccession checks that only a head with a proof replaces an old key with a new one.
// The old key is then forgotten, and the state of the peer stays.
func TestCarefulSuccession(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		r := newRig(t, k, nil)
		old, to := meshtest.Rotated(t)
		if err := r.AddPeer(t.Context(), old.ID(), "changed", 0.5); err != nil {
			t.Fatal(err)
		}
		tr := r.receiver.origin(old.Hint())
		stopped := 0
		tr.stop = []func(){func() { stopped++ }}
		for name, m := range map[string]*wire.Message{"no head": {Kind: wire.KindDelta, Proof: to.Proof(), Key: to.Public()},
			"no proof": {Kind: wire.KindHead}} {
			m.From = to.Hint()
			if p, ok := r.receiver.successor(t.Context(), m); ok || p.ID != "" {
				t.Errorf("%s: %+v", name, p)
			}
		}
		stranger := *to.Proof()
		stranger.Old = meshtest.Identity(t).Public()
		if p, ok := r.receiver.successor(t.Context(),
			&wire.Message{Kind: wire.KindHead, From: to.Hint(), Proof: &stranger, Key: to.Public()}); ok {
			t.Errorf("the successor of a stranger: %+v", p)
		}
		p, ok := r.receiver.successor(t.Context(),
			&wire.Message{Kind: wire.KindHead, From: to.Hint(), Proof: to.Proof(), Key: to.Public()})
		if !ok || p.ID != to.ID() || p.Name != "changed" || p.Weight != 0.5 ||
			r.receiver.origins[to.Hint()] != tr || r.receiver.origins[old.Hint()] != nil || stopped != 1 ||
			tr.stop != nil {
			t.Errorf("%+v, %v, ended %d subscriptions", p, ok, stopped)
		}
		if err := r.Succeed(t.Context(), to.Proof(), to.Public()); err == nil {
			t.Error("it succeeded twice")
		}
		// Of a peer that was silent since the start there is no state.
		old, to = meshtest.Rotated(t)
		if err := r.AddPeer(t.Context(), old.ID(), "silent", 1); err != nil {
			t.Fatal(err)
		}
		if p, ok := r.receiver.successor(t.Context(), &wire.Message{Kind: wire.KindHead, From: to.Hint(), Proof: to.Proof(),
			Key: to.Public()}); !ok || p.ID != to.ID() || r.receiver.origins[to.Hint()] != nil {
			t.Errorf("the successor of a silent peer: %+v, %v", p, ok)
		}
	})
}

// TestCaughtUp checks that stored messages are read in order, and that the reading position is
// reported every markEvery messages and at the end. An interrupted reading reports no end.
func TestCaughtUp(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		for _, tt := range []struct{ stored, broken, marks, messages, caught int }{
			{0, 0, 0, 0, 1}, {markEvery - 1, 0, 0, markEvery - 1, 1}, {markEvery, 0, 1, markEvery, 1},
			{2*markEvery + 5, 0, 2, 2*markEvery + 5, 1}, {9, 4, 0, 4, 0},
		} {
			r := newRig(t, k, nil)
			now := uint64(time.Now().UnixMilli())
			k.Wipe()
			var at []time.Time
			for n := range tt.stored {
				bubble.Advance(time.Minute)
				at = append(at, time.Now())
				m := &wire.Message{Kind: wire.KindDelta, Stamp: wire.Stamp{Incarnation: now, Boot: now, Seq: uint64(n + 1),
					At: now}, From: r.Peer.Hint()}
				k.Deltas = append(k.Deltas,
					meshtest.Stored{At: time.Now(), Topic: wire.Topic{Kind: wire.KindDelta, Origin: m.From},
						Data: wire.AppendMessage(nil, m, r.Peer)})
			}
			if tt.broken > 0 {
				r.Bus.Breaks, r.Bus.Drops = tt.broken, 1
			}
			r.receiver.CatchUp(t.Context(), r.Bus)
			if r.receiver.catching != 0 {
				t.Errorf("%d are being read", r.receiver.catching)
			}
			marks, messages, caught := 0, 0, 0
			for first := true; ; first = false {
				x, ok := r.receiver.in.take()
				if !ok {
					break
				}
				switch {
				case first != x.catches || x.m == nil && x.bus != wire.Transport(r.Bus):
					t.Errorf("%+v comes first: %v", x, first)
				case x.caught:
					caught++
				case x.m != nil:
					if messages++; x.m.Stamp.Seq != uint64(messages) || !x.stored {
						t.Errorf("message %d after %d, stored %v", x.m.Stamp.Seq, messages-1, x.stored)
					}
				case !x.catches:
					if marks++; !x.until.Equal(at[messages-1]) || messages != marks*markEvery {
						t.Errorf("after %d messages: read until %v", messages, x.until)
					}
				}
				if passed := r.receiver.passed(&x); passed != (x.m == nil) {
					t.Errorf("%+v is no message: %v", x, passed)
				}
			}
			if marks != tt.marks || messages != tt.messages || caught != tt.caught ||
				r.receiver.caught[r.Bus] != (tt.caught == 1) {
				t.Errorf("%d stored: %d marks, %d messages, caught up %d; want %d, %d, %d", tt.stored, marks, messages, caught,
					tt.marks, tt.messages, tt.caught)
			}
			if logged := strings.Contains(r.Log.String(), "not read to the end"); logged != (tt.broken > 0) {
				t.Errorf("%d stored, broken after %d: log %s", tt.stored, tt.broken, r.Log)
			}
			if messages > 0 && !r.receiver.unread(r.Bus).Equal(at[messages-1]) {
				t.Errorf("unread since %v, want %v", r.receiver.unread(r.Bus), at[messages-1])
			}
		}
	})
}

// TestUnread checks that stored messages are read since a margin before the last reading, or from
// the start if there was none. Messages that this process has read are not read again.
func TestUnread(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		r := newRig(t, k, nil)
		b := r.receiver.buses[0]
		now := time.Now()
		for _, tt := range []struct{ seen, any, read, want time.Time }{
			{}, {any: now, want: now.Add(-seenMargin)}, {seen: now, any: now.Add(time.Hour), want: now.Add(-seenMargin)},
			{seen: now, read: now.Add(-seenMargin), want: now.Add(-seenMargin)},
			{seen: now, read: now.Add(-time.Minute), want: now.Add(-time.Minute)}, {read: now, want: now},
		} {
			r.State.Seen, r.State.SeenAny = nil, tt.any
			if !tt.seen.IsZero() {
				r.State.Seen = map[string]time.Time{b.Name(): tt.seen}
			}
			r.receiver.read[b] = tt.read
			if got := r.receiver.unread(b); !got.Equal(tt.want) {
				t.Errorf("%+v: unread since %v", tt, got)
			}
		}
	})
}

// TestSeenAsRead checks that a node that never reaches the end of the stored messages continues,
// after a restart, where it was.
func TestSeenAsRead(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		r := newRig(t, k, nil)
		read := time.Now().Add(-time.Minute).UTC()
		r.receiver.passed(&incoming{bus: r.Bus, catches: true})
		r.receiver.passed(&incoming{bus: r.Bus, until: read})
		r.receiver.saveSeen(time.Now())
		s, err := member.LoadState(r.Options.Dir)
		if at := s.Seen[r.Bus.Name()]; err != nil || !at.Equal(read) {
			t.Errorf("seen until %v, %v; want %v", at, err, read)
		}
	})
}
