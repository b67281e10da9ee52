package mesh

import (
	"maps"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/testing/bubble"
)

// TestSeen checks that the time up to which each broker was read is saved at intervals, for a
// broker that is connected and caught up.
func TestSeen(t *testing.T) {
	inBubble(t, func(t *testing.T, k *memBroker) {
		r := newRig(t, k, nil)
		names := []string{"caught", "away", "read", "read before", "known", "new"}
		r.buses = nil
		begun := time.Now().UTC()
		r.state.Seen = map[string]time.Time{"away": begun, "read": begun, "read before": begun, "known": begun}
		for _, name := range names {
			b := k.connect()
			b.server = name
			r.buses = append(r.buses, b)
			switch name {
			case "caught", "away":
				r.receiver.caught[b] = true
				b.set(name == "caught")
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
		saved, err := loadState(r.opts.Dir)
		if err != nil || !maps.EqualFunc(saved.Seen, want, time.Time.Equal) {
			t.Errorf("saved %v, %v; want %v", saved.Seen, err, want)
		}
		for _, tt := range []struct {
			after time.Duration
			want  bool
		}{{0, false}, {time.Minute - 1, false}, {time.Minute, true}, {-time.Hour, true}} {
			r.receiver.seenSaved = now
			r.receiver.saveSeen(now.Add(tt.after))
			if got := !r.receiver.seenSaved.Equal(now) || tt.after == 0 && r.state.Seen["caught"] != now; got != tt.want {
				t.Errorf("saved %v later: %v", tt.after, got)
			}
		}
	})
}

// TestOwnMessages checks that a message in a node's own name that it did not send is attributed to
// another server with its key. Stored messages are compared with the node's state.
func TestOwnMessages(t *testing.T) {
	inBubble(t, func(t *testing.T, k *memBroker) {
		r := newRig(t, k, nil)
		r.state.Boot = 20
		for _, tt := range []struct {
			kind   kind
			boot   uint64
			stored bool
			twin   bool
		}{{kindHead, 20, false, false}, {kindDelta, 21, false, false}, {kindHead, 21, true, false},
			{kindHead, 19, false, false}, {kindHead, 21, false, true}} {
			m := &message{kind: tt.kind, from: r.opts.Identity.public.hint(), stamp: stamp{boot: tt.boot}}
			r.receiver.take(t.Context(), &incoming{m: m, stored: tt.stored})
			if r.twin.IsZero() == tt.twin || (r.Status().Strangers["own key elsewhere"] == 1) != tt.twin ||
				(len(r.sender.pasts) == 1) != tt.stored {
				t.Errorf("%+v: twin %v, %v", tt, r.twin, r.Status().Strangers)
			}
			for len(r.sender.pasts) > 0 {
				<-r.sender.pasts
			}
		}
	})
}

// TestTaken checks what is recorded of each message of a peer, and which messages a node handles.
func TestTaken(t *testing.T) {
	inBubble(t, func(t *testing.T, k *memBroker) {
		for _, role := range []Role{Both, Publish} {
			r := newRig(t, k, func(o *Options) { o.Role = role })
			me, from := r.opts.Identity.public.hint(), r.peer.public.hint()
			r.members[from].network = "another"
			ask := func(to hint) int {
				r.receiver.take(t.Context(), &incoming{m: &message{kind: kindAsk, from: from, to: to}, size: 10})
				return len(r.sender.asks)
			}
			if ask(hint{1}) != 0 || ask(me) != 1 || r.status().Messages != 0 {
				t.Errorf("%s: %d asks are taken", role, len(r.sender.asks))
			}
			bubble.Advance(time.Second)
			r.receiver.take(t.Context(), &incoming{m: &message{kind: kindHead, from: from, stamp: stamp{1, 1, 1, 1}}, size: 10})
			if s := r.status(); role == Publish {
				if s.Messages != 0 || r.t.dirty {
					t.Errorf("a trap takes what it hears: %+v", s)
				}
				continue
			}
			if s := r.status(); s.Messages != 1 || s.Bytes != 10 || !s.Heard.Equal(time.Now()) ||
				r.members[from].network != "" || r.t.head.seq != 1 || !r.t.dirty {
				t.Errorf("%+v, head %+v", s, r.t.head)
			}
			r.receiver.take(t.Context(), &incoming{m: &message{kind: kindDelta, from: hint{7}}, size: 10})
			if n := r.Status().Strangers[reasonStranger]; n != 1 {
				t.Errorf("%d messages of strangers are refused, want 1", n)
			}
		}
		synctest.Wait()
	})
}

// TestGrowthOfSilence checks that the adds that a peer may have made during a silence may arrive at
// once: since its last message, its addition, or this node's last run.
func TestGrowthOfSilence(t *testing.T) {
	inBubble(t, func(t *testing.T, k *memBroker) {
		for name, tt := range map[string]struct {
			heard, began time.Duration // ago; 0: never
			want         float64       // minutes
		}{
			"heard before": {2 * time.Hour, 90 * time.Minute, 120}, "never heard": {0, 0, 180},
			"never, this node was away": {0, 2 * time.Hour, 120},
			"heard lately":              {59 * time.Minute, 0, 0}, "heard an hour ago": {time.Hour, 0, 60},
			"long ago": {100 * time.Hour, 0, 72 * 60},
		} {
			r := newRig(t, k, nil)
			bubble.Advance(3 * time.Hour)
			mem := r.members[r.peer.public.hint()]
			if tt.heard > 0 {
				mem.heard = time.Now().Add(-tt.heard)
			}
			r.receiver.began = time.Time{}
			if tt.began > 0 {
				r.receiver.began = time.Now().Add(-tt.began)
			}
			r.receiver.take(t.Context(),
				&incoming{m: &message{kind: kindHead, from: r.peer.public.hint(), stamp: stamp{1, 1, 1, 1}}})
			if got := -mem.growth.adds / r.opts.MaxAdds; math.Abs(got-tt.want) > 0.1 ||
				tt.want > 0 && !mem.growth.credited.Equal(time.Now()) {
				t.Errorf("%s: %v minutes' worth may come, want %v", name, got, tt.want)
			}
		}
	})
}

// TestShowsTooMuch checks that an array that would report signatures which were never added is out
// of order, and is inspected again when it has grown.
func TestShowsTooMuch(t *testing.T) {
	inBubble(t, func(t *testing.T, k *memBroker) {
		r := newRig(t, k, nil)
		x := ref{engine.ArraySpam, 7}
		a := engine.ArrayState{Array: x.array, Start: x.start, Geometry: bitsOf, Keys: 1 << 30}
		r.e.held = []engine.ArrayState{a}
		for _, shown := range []float64{maxShown, maxShown + 0.001} {
			r.again()
			r.e.shown = shown
			if why := r.receiver.showsTooMuch(&r.p, r.t, a); (why != "") != (shown > maxShown) {
				t.Errorf("shown %v: %q", shown, why)
			}
			if r.t.looked[x] != a.Keys {
				t.Errorf("noted %v", r.t.looked)
			}
			if why := r.receiver.showsTooMuch(&r.p, r.t, a); why != "" {
				t.Errorf("looked at again at once: %q", why)
			}
		}
		few := a
		few.Keys = 1
		r.again()
		if why := r.receiver.showsTooMuch(&r.p, r.t, few); why != "" || len(r.t.looked) != 0 {
			t.Errorf("a few keys: %q", why)
		}
		r.receiver.suspend(t.Context(), &r.p, "")
		if r.status().Quarantine != "" {
			t.Error("in quarantine for nothing")
		}
		r.receiver.suspend(t.Context(), &r.p, "why")
		r.receiver.suspend(t.Context(), &r.p, "another")
		if r.status().Quarantine != "why" || r.p.Quarantine != "why" {
			t.Errorf("quarantine %q", r.status().Quarantine)
		}
	})
}

// TestCarefulSuccession checks that only a head with a proof replaces an old key with a new one.
// The old key is then forgotten, and the state of the peer stays.
func TestCarefulSuccession(t *testing.T) {
	inBubble(t, func(t *testing.T, k *memBroker) {
		r := newRig(t, k, nil)
		old, to := rotated(t)
		if err := r.AddPeer(t.Context(), old.ID(), "changed", 0.5); err != nil {
			t.Fatal(err)
		}
		tr := r.receiver.track(old.public.hint())
		stopped := 0
		tr.stop = []func(){func() { stopped++ }}
		for name, m := range map[string]*message{"no head": {kind: kindDelta, proof: to.proof, key: to.public},
			"no proof": {kind: kindHead}} {
			m.from = to.public.hint()
			if p, ok := r.receiver.successor(t.Context(), m); ok || p.ID != "" {
				t.Errorf("%s: %+v", name, p)
			}
		}
		stranger := *to.proof
		stranger.old = mustIdentity(t).public
		if p, ok := r.receiver.successor(t.Context(),
			&message{kind: kindHead, from: to.public.hint(), proof: &stranger, key: to.public}); ok {
			t.Errorf("the successor of a stranger: %+v", p)
		}
		p, ok := r.receiver.successor(t.Context(),
			&message{kind: kindHead, from: to.public.hint(), proof: to.proof, key: to.public})
		if !ok || p.ID != to.ID() || p.Name != "changed" || p.Weight != 0.5 ||
			r.receiver.origins[to.public.hint()] != tr || r.receiver.origins[old.public.hint()] != nil || stopped != 1 ||
			tr.stop != nil {
			t.Errorf("%+v, %v, ended %d subscriptions", p, ok, stopped)
		}
		if err := r.succeed(t.Context(), to.proof, to.public); err == nil {
			t.Error("it succeeded twice")
		}
	})
}

// TestBadAddress checks that an invalid address of a hub is reported, whatever the state of the
// other hubs.
func TestBadAddress(t *testing.T) {
	dir, id := identity(t)
	o := Options{Dir: dir, Identity: id, Engine: smallEngine(t, nil), KeyID: 1, Mode: Join, Servers: []string{"a b:1"}}
	if m, err := Open(t.Context(), o); err == nil || m != nil || !strings.Contains(err.Error(), "broker") {
		t.Errorf("opened: %v", err)
	}
	o.Mode, o.Servers, o.Credentials = External, []string{"nats://a b:1"}, NoCredentials
	if m, err := Open(t.Context(), o); err == nil || m != nil {
		t.Errorf("opened: %v", err)
	}
}

// TestCaughtUp checks that stored messages are read in order, and that the reading position is
// reported every markEvery messages and at the end. An interrupted reading reports no end.
func TestCaughtUp(t *testing.T) {
	inBubble(t, func(t *testing.T, k *memBroker) {
		for _, tt := range []struct{ stored, broken, marks, messages, caught int }{
			{0, 0, 0, 0, 1}, {markEvery - 1, 0, 0, markEvery - 1, 1}, {markEvery, 0, 1, markEvery, 1},
			{2*markEvery + 5, 0, 2, 2*markEvery + 5, 1}, {9, 4, 0, 4, 0},
		} {
			r := newRig(t, k, nil)
			now := uint64(time.Now().UnixMilli())
			k.wipe()
			var at []time.Time
			for n := range tt.stored {
				bubble.Advance(time.Minute)
				at = append(at, time.Now())
				m := &message{kind: kindDelta, stamp: stamp{now, now, uint64(n + 1), now}, from: r.peer.public.hint()}
				k.deltas = append(k.deltas,
					storedMsg{time.Now(), topic{kind: kindDelta, origin: m.from}, appendMessage(nil, m, r.peer)})
			}
			if tt.broken > 0 {
				r.bus.breaks, r.bus.drops = tt.broken, 1
			}
			r.receiver.catchUp(t.Context(), r.bus)
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
				case first != x.catches || x.m == nil && x.bus != bus(r.bus):
					t.Errorf("%+v comes first: %v", x, first)
				case x.caught:
					caught++
				case x.m != nil:
					if messages++; x.m.stamp.seq != uint64(messages) || !x.stored {
						t.Errorf("message %d after %d, stored %v", x.m.stamp.seq, messages-1, x.stored)
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
				r.receiver.caught[r.bus] != (tt.caught == 1) {
				t.Errorf("%d stored: %d marks, %d messages, caught up %d; want %d, %d, %d", tt.stored, marks, messages, caught,
					tt.marks, tt.messages, tt.caught)
			}
			if messages > 0 && !r.receiver.unread(r.bus).Equal(at[messages-1]) {
				t.Errorf("unread since %v, want %v", r.receiver.unread(r.bus), at[messages-1])
			}
		}
	})
}

// TestUnread checks that stored messages are read since a margin before the last reading, or from
// the start if there was none. Messages that this process has read are not read again.
func TestUnread(t *testing.T) {
	inBubble(t, func(t *testing.T, k *memBroker) {
		r := newRig(t, k, nil)
		b := r.buses[0]
		now := time.Now()
		for _, tt := range []struct{ seen, any, read, want time.Time }{
			{}, {any: now, want: now.Add(-seenMargin)}, {seen: now, any: now.Add(time.Hour), want: now.Add(-seenMargin)},
			{seen: now, read: now.Add(-seenMargin), want: now.Add(-seenMargin)},
			{seen: now, read: now.Add(-time.Minute), want: now.Add(-time.Minute)}, {read: now, want: now},
		} {
			r.state.Seen, r.state.SeenAny = nil, tt.any
			if !tt.seen.IsZero() {
				r.state.Seen = map[string]time.Time{b.name(): tt.seen}
			}
			r.receiver.read[b] = tt.read
			if got := r.receiver.unread(b); !got.Equal(tt.want) {
				t.Errorf("%+v: unread since %v", tt, got)
			}
		}
	})
}
