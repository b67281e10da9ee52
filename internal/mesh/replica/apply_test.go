package replica

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/member"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
	"github.com/bulkhead-mail/bulkhead/internal/testing/bubble"
	"github.com/bulkhead-mail/bulkhead/internal/testing/meshtest"
)

// TestJitter checks that pauses are spread over the upper half of the longest one.
func TestJitter(t *testing.T) {
	for _, d := range []time.Duration{0, 1, 2, time.Second, time.Hour} {
		least, most := d, time.Duration(0)
		for range 1000 {
			got := jitter(d)
			least, most = min(least, got), max(most, got)
		}
		if least < d/2 || most > d || d > 2 && (least > d/2+d/20 || most < d-d/20) {
			t.Errorf("pauses of up to %v are from %v to %v", d, least, most)
		}
	}
}

// TestEmptyArrival checks that a message without bytes is malformed, unless it is a hub's word that the sender still
// publishes a head.
func TestEmptyArrival(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		r := newRig(t, k, nil)
		from := r.Peer.Hint()
		for still, want := range map[wire.HeadSum]string{{}: member.ReasonMalformed, {1}: ""} {
			a := wire.Arrival{Topic: wire.Topic{Kind: wire.KindHead, Origin: from}, Still: still}
			got := r.Refused(func() { r.receiver.Deliver(t.Context(), r.Bus, a, false) })
			x, queued := r.receiver.in.take()
			if got != want || queued != (want == "") || queued && (x.from != from || x.sum != still || x.m != nil) {
				t.Errorf("with the sum %v: refused %q, queued %v %+v", still, got, queued, x)
			}
		}
	})
}

// TestHeadSupersedes checks that a head that names restored arrays drops these of former incarnations, and that all
// former incarnations of an aggregate are dropped.
func TestHeadSupersedes(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		r := newRig(t, k, nil)
		x, y := wire.Ref{Array: engine.ArraySpam, Start: 7}, wire.Ref{Array: engine.ArraySpam, Start: 8}
		heads := []wire.ArrayHead{{Ref: x, Version: 5, Geometry: meshtest.Bits, Lineage: wire.Lineage{{Boot: 20, Base: 5}}},
			{Ref: y, Version: 5, Geometry: meshtest.Bits, Lineage: wire.Lineage{{Boot: 20, Base: 0}}}}
		restored := []engine.ArrayKey{{Array: x.Array, Start: x.Start}}
		for name, tt := range map[string]struct {
			former    bool
			aggregate bool
			err       error
			want      []engine.ArrayKey
			dropped   bool
			refused   string
		}{
			"no former incarnation": {false, false, nil, nil, false, ""},
			"one":                   {true, false, nil, restored, false, ""},
			"of an aggregate":       {true, true, nil, nil, true, ""},
			"a failure":             {true, true, bulkhead.ErrOverLimit, nil, false, member.ReasonLimit},
		} {
			r.again()
			r.Engine.Former, r.Engine.Superseded, r.Engine.Dropped, r.Engine.FormerErr = nil, nil, nil, tt.err
			if tt.former {
				r.Engine.Former = []engine.FormerIncarnation{{ID: "former1", Incarnation: 1}}
			}
			var organisations []wire.Organisation
			if tt.aggregate {
				organisations = []wire.Organisation{{1}}
			}
			r.Figures(r.Peer.Hint(), func(s *member.Stats) { s.Organisations = organisations })
			r.Engine.Held = []engine.ArrayState{{Array: x.Array, Start: x.Start, Version: 5, Boot: 20},
				{Array: y.Array, Start: y.Start, Version: 5, Boot: 20}}
			m := &wire.Message{Kind: wire.KindHead, Stamp: wire.Stamp{Incarnation: 2, Boot: 20, Seq: 1}, Heads: heads}
			got := r.Refused(func() { r.t.applyHead(t.Context(), m) })
			if !slices.Equal(r.Engine.Superseded, tt.want) || (len(r.Engine.Dropped) == 1) != tt.dropped || got != tt.refused {
				t.Errorf("%s: %v superseded, %v dropped, refused %q", name, r.Engine.Superseded, r.Engine.Dropped, got)
			}
		}
	})
}

// TestDoubtedSince checks that a peer that stays in doubt with each head is so since the first one.
func TestDoubtedSince(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		r := newRig(t, k, nil)
		x := wire.Ref{Array: engine.ArraySpam, Start: 7}
		r.Engine.Held = []engine.ArrayState{{Array: x.Array, Start: x.Start, Version: 10, Geometry: meshtest.Bits, Boot: 20}}
		first := time.Now()
		for seq := range uint64(3) {
			at := wire.Stamp{Incarnation: 1, Boot: 20, Seq: seq + 1}
			r.t.last = at
			heads := []wire.ArrayHead{{Ref: x, Version: 9, Geometry: meshtest.Bits, Lineage: wire.Lineage{{Boot: 20, Base: 0}}}}
			r.t.applyHead(t.Context(), &wire.Message{Kind: wire.KindHead, Stamp: at, Heads: heads})
			if !r.t.suspect || !r.t.doubted.Equal(first) {
				t.Errorf("head %d: suspect %v since %v, want %v", seq, r.t.suspect, r.t.doubted, first)
			}
			bubble.Advance(resetAfter / 4)
		}
	})
}

// TestRunRepairs checks that a running receiver asks for what a peer's head names and this node lacks, however many
// messages arrive meanwhile, and that it asks for nothing once nothing is missing.
func TestRunRepairs(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		r := newRig(t, k, nil)
		r.Engine.Life = 1
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			r.receiver.Run(ctx)
			close(done)
		}()
		seq := uint64(0)
		head := func(arrays ...wire.ArrayHead) {
			seq++
			m := &wire.Message{Kind: wire.KindHead, From: r.Peer.Hint(),
				Stamp: wire.Stamp{Incarnation: 1, Boot: 1, Seq: seq, At: 1}, Heads: arrays}
			if err := r.receiver.in.put(ctx, incoming{from: m.From, m: m}, true); err != nil {
				t.Error(err)
			}
			synctest.Wait()
		}
		asked := func(after time.Duration) (n int) {
			bubble.Advance(after)
			synctest.Wait()
			for ; len(r.asked.wants) > 0; n++ {
				<-r.asked.wants
			}
			return n
		}
		missing := wire.ArrayHead{Ref: wire.Ref{Array: engine.ArraySpam, Start: 7}, Version: 9, Geometry: meshtest.Bits}
		for round := range 2 {
			if n := asked(time.Hour); n != 0 {
				t.Errorf("round %d: asked %d times for nothing", round, n)
			}
			n := 0
			for range 40 {
				head(missing)
				n += asked(gapWait / 8)
			}
			if n == 0 {
				t.Errorf("round %d: not asked while messages arrive", round)
			}
			if n := asked(10 * time.Minute); n < 8 || n > 30 {
				t.Errorf("round %d: asked %d times in ten minutes, want about every %v", round, n, maxBackoff)
			}
			head()
		}
		called := false
		r.receiver.Do(func(context.Context) { called = true })
		if synctest.Wait(); !called {
			t.Error("a call was not made")
		}
		head(missing)
		asked(time.Minute)
		if len(r.Bus.Subs) == 0 {
			t.Error("nothing is listened for while something is missing")
		}
		cancel()
		<-done
		if len(r.Bus.Subs) != 0 {
			t.Error("a receiver that has ended listens on")
		}
	})
}

// TestStill checks what a hub's word does that a peer still publishes a head: the peer is heard if this node has the
// head, and else it is asked for it, once a heartbeat.
func TestStill(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		for _, role := range []member.Role{member.Both, member.Publish} {
			r := newRig(t, k, func(o *member.Options) { o.Role = role })
			from, mine, other := r.Peer.Hint(), wire.HeadSum{1}, wire.HeadSum{2}
			r.t.sum = mine
			word := func(x incoming, taken bool, alive, asked bool) {
				t.Helper()
				bubble.Advance(time.Second)
				if got := r.receiver.still(&x); got != taken {
					t.Errorf("%s: %+v is a hub's word: %v", role, x, got)
				}
				if s := r.Entry(); s.Heard.Equal(time.Now()) != alive || s.Messages != 0 || s.Bytes != 0 {
					t.Errorf("%s: %+v: heard at %v, %d messages", role, x, s.Heard, s.Messages)
				}
				if got := len(r.asked.wants) == 1; got != asked || asked && (<-r.asked.wants).To != from {
					t.Errorf("%s: %+v: asked %v", role, x, got)
				}
			}
			counts := role == member.Both
			word(incoming{from: from, sum: mine, m: &wire.Message{}}, false, false, false)
			word(incoming{from: from}, false, false, false)
			word(incoming{from: wire.Hint{9}, sum: mine}, true, false, false)
			if len(r.receiver.origins) != 1 {
				t.Errorf("%s: a stranger has a state", role)
			}
			word(incoming{from: from, sum: mine}, true, counts, false)
			word(incoming{from: from, sum: other}, true, false, counts)
			word(incoming{from: from, sum: other}, true, false, false)
			bubble.Advance(r.Options.Heartbeat - 3*time.Second)
			word(incoming{from: from, sum: other}, true, false, false)
			word(incoming{from: from, sum: other}, true, false, counts)
		}
	})
}

// TestHeardSaved checks that the last messages of peers survive a restart, and that a statement that the peer did not
// sign does not.
func TestHeardSaved(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		r := newRig(t, k, nil)
		m := &wire.Message{Kind: wire.KindHead, From: r.Peer.Hint(),
			Stamp: wire.Stamp{Incarnation: 1, Boot: 1, Seq: 1, At: 1}}
		for name, tt := range map[string]struct {
			by    *member.Identity
			known bool
			want  bool
		}{
			"its head": {r.Peer, true, true}, "of another key": {meshtest.Identity(t), true, false},
			"nothing": {nil, true, false}, "of a peer that was removed": {r.Peer, false, false},
		} {
			r.again()
			at := time.Now().UTC()
			r.Figures(r.Peer.Hint(), func(s *member.Stats) { s.LastHeard = at })
			if r.t.evidence.Head = nil; tt.by != nil {
				e, err := wire.OpenEnvelope(wire.AppendMessage(nil, m, tt.by))
				if err != nil {
					t.Fatal(err)
				}
				r.t.evidence.Head = e.Statement()
			}
			if err := r.receiver.Save(); err != nil {
				t.Fatal(err)
			}
			list, err := ReadHeard(r.Options.Dir)
			if err != nil || len(list) != 1 || list[0].Key != r.Peer.ID() || !list[0].At.Equal(at) ||
				!bytes.Equal(list[0].Head, r.t.evidence.Head) {
				t.Fatalf("%s: saved %+v, %v", name, list, err)
			}
			next := newRig(t, k, nil)
			next.Options.Dir = r.Options.Dir
			if tt.known {
				if err := next.AddPeer(t.Context(), r.Peer.ID(), "", 1); err != nil {
					t.Fatal(err)
				}
			}
			if err := next.receiver.Load(); err != nil {
				t.Fatal(err)
			}
			var last time.Time
			next.Figures(r.Peer.Hint(), func(s *member.Stats) { last = s.LastHeard })
			o := next.receiver.origins[r.Peer.Hint()]
			if kept := o != nil && len(o.evidence.Head) > 0; kept != tt.want || last.Equal(at) != tt.known ||
				!tt.known && o != nil {
				t.Errorf("%s: kept %v, heard %v", name, kept, last)
			}
			bubble.Advance(time.Minute)
		}
	})
}

// TestOwnName checks which name of a head is noted as the peer's own: one that is valid, of a peer without a name in
// the list.
func TestOwnName(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		r := newRig(t, k, nil)
		for _, tt := range []struct{ listed, own, want string }{
			{"", "north", "north"}, {"", "", "before"}, {"peer", "north", "before"}, {"", "two\nlines", "before"},
		} {
			r.again()
			r.p.Name = tt.listed
			r.Figures(r.Peer.Hint(), func(s *member.Stats) { s.OwnName = "before" })
			r.t.applyHead(t.Context(), &wire.Message{Kind: wire.KindHead, Stamp: wire.Stamp{Boot: 1, Seq: 1}, Name: tt.own})
			if got := r.Entry().OwnName; got != tt.want {
				t.Errorf("%+v: the own name is %q", tt, got)
			}
		}
	})
}

// TestHeadSum checks that a head is queued with the sum of its content, by which a hub refers to it, and that no other
// message has one.
func TestHeadSum(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		r := newRig(t, k, nil)
		ms := uint64(time.Now().UnixMilli())
		for _, kind := range []wire.Kind{wire.KindHead, wire.KindDelta} {
			m := &wire.Message{Kind: kind, From: r.Peer.Hint(),
				Stamp: wire.Stamp{Incarnation: ms - 2, Boot: ms - 1, Seq: 1, At: ms}}
			data := wire.AppendMessage(nil, m, r.Peer)
			e, err := wire.OpenEnvelope(data)
			if err != nil {
				t.Fatal(err)
			}
			_, want, _ := e.Content()
			if kind != wire.KindHead {
				want = wire.HeadSum{}
			}
			a := wire.Arrival{Topic: wire.Topic{Kind: kind, Origin: m.From}, Data: data}
			r.receiver.Deliver(t.Context(), r.Bus, a, false)
			if x, ok := r.receiver.in.take(); !ok || x.sum != want {
				t.Errorf("%c: queued %v with the sum %v, want %v", kind, ok, x.sum, want)
			}
		}
	})
}

// TestFormerNetworkHeads checks what is logged about a peer in another network, and in a former one of this node. While
// the secret is new, a peer in a former network may be about to change.
func TestFormerNetworkHeads(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		former := filter.Secret{9}
		r := newRig(t, k, func(o *member.Options) { o.Former = []filter.Secret{former} })
		r.Secrets.Began = time.Now()
		for _, tt := range []struct {
			after         time.Duration
			network, want string
		}{
			{0, member.NetworkOf(former), ""}, {0, "cafe", "peer has another network secret"},
			{time.Hour, member.NetworkOf(former), "peer still has a former secret of the network"},
		} {
			bubble.Advance(tt.after)
			r.Log.Reset()
			ms := uint64(time.Now().UnixMilli())
			m := &wire.Message{Kind: wire.KindHead, From: r.Peer.Hint(), Stamp: wire.Stamp{Incarnation: ms - 2, Boot: ms - 1,
				Seq: 1, At: ms}}
			r.receiver.Deliver(t.Context(), r.Bus, wire.Arrival{Topic: wire.Topic{Kind: wire.KindHead, Origin: m.From},
				Network: tt.network, Data: wire.AppendMessage(nil, m, r.Peer)}, false)
			if log := r.Log.String(); !strings.Contains(log, tt.want) || (log == "") != (tt.want == "") {
				t.Errorf("network %s: log %q, want %q", tt.network, log, tt.want)
			}
		}
	})
}

// TestUnknownSecrets checks that a message about arrays of secrets that this node never had alone is dropped.
func TestUnknownSecrets(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		r := newRig(t, k, nil)
		ms := uint64(time.Now().UnixMilli())
		for _, known := range []bool{true, false} {
			one := meshtest.Round(t, wire.Ref{Array: engine.ArrayCounts, Start: 7}, 0, 1)
			one.Lineage = wire.Lineage{{Boot: ms - 1, Base: 0}}
			if one.Geometry.KeyID = r.Options.KeyID; !known {
				one.Geometry.KeyID++
			}
			m := &wire.Message{Kind: wire.KindDelta, From: r.Peer.Hint(), Rounds: []wire.Round{one}, KeyID: r.Options.KeyID,
				Stamp: wire.Stamp{Incarnation: ms - 2, Boot: ms - 1, Seq: 1, At: ms}}
			a := wire.Arrival{Topic: wire.Topic{Kind: wire.KindDelta, Origin: m.From}, Data: wire.AppendMessage(nil, m, r.Peer)}
			got := r.Refused(func() { r.receiver.Deliver(t.Context(), r.Bus, a, false) })
			if x, queued := r.receiver.in.take(); queued != known || got != "" {
				t.Errorf("known %v: queued %v %+v, refused %q", known, queued, x, got)
			}
		}
	})
}

// TestSavedQuietly checks that only a failure to save, or to read what a broker has stored, is logged.
func TestSavedQuietly(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		var log strings.Builder
		r := newRig(t, k, func(o *member.Options) {
			o.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		})
		for _, fails := range []bool{false, true} {
			var bus wire.Transport = r.Bus
			if fails {
				r.Options.Dir = filepath.Join(r.Options.Dir, HeardFile) // a file
				bus = &imageless{Transport: r.Bus, err: io.ErrUnexpectedEOF}
			}
			for what, do := range map[string]func(){
				"last messages of peers not saved": func() { r.receiver.saveSeen(time.Now()) },
				"stored images were not read":      func() { r.receiver.fetch(t.Context(), bus, r.Peer.Hint(), false) },
				"last messages of peers not saved ": func() {
					r.t.renew(t.Context(), &wire.Message{Kind: wire.KindHead, Stamp: wire.Stamp{Incarnation: 40}})
				},
			} {
				log.Reset()
				if do(); strings.Contains(log.String(), strings.TrimSpace(what)) != fails {
					t.Errorf("fails %v: log %q, want %q", fails, log.String(), what)
				}
			}
			bubble.Advance(time.Hour)
		}
	})
}

// TestKeysBefore checks that the log names how many keys a peer had counted before it lost its store.
func TestKeysBefore(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		r := newRig(t, k, nil)
		r.Engine.Former = []engine.FormerIncarnation{{ID: "older", Incarnation: 1}, {ID: "former", Incarnation: 2}}
		r.Engine.HeldOf = map[string][]engine.ArrayState{"former": {{Keys: 5}, {Start: 1, Keys: 7}}, "older": {{Keys: 100}}}
		r.t.lostIncarnation(3)
		if log := r.Log.String(); !strings.Contains(log, "keys_before=12 ") {
			t.Errorf("log %q", log)
		}
	})
}

// TestLag checks how late a delta is by its sender's clock: not at all if that clock is ahead.
func TestLag(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		r := newRig(t, k, nil)
		for late, want := range map[time.Duration]time.Duration{5 * time.Second: 5 * time.Second, 0: 0, -time.Minute: 0} {
			at := uint64(time.Now().Add(-late).UnixMilli())
			r.t.delta(t.Context(), &wire.Message{Kind: wire.KindDelta, Stamp: wire.Stamp{Boot: 1, Seq: 1, At: at}})
			if got := r.Entry().Lag; got != want {
				t.Errorf("sent %v ago: lag %v, want %v", late, got, want)
			}
		}
	})
}

// TestTwinsAsked checks that a peer whose key two servers seem to use is asked for two more heads, the second one after
// both servers may send another.
func TestTwinsAsked(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		for _, beat := range []time.Duration{20 * time.Second, time.Hour} {
			r := newRig(t, k, func(o *member.Options) { o.Heartbeat = beat })
			rest := min(beat/4, conflictRest)
			start := uint64(time.Now().UnixMilli())
			for seq, boot := range []uint64{start, start + 1000, start} { // the older process is heard again
				bubble.Advance(2 * time.Second)
				r.t.conflict(t.Context(), &wire.Message{Kind: wire.KindHead, Stamp: wire.Stamp{Incarnation: 1, Boot: boot,
					Seq: uint64(seq + 1), At: uint64(time.Now().UnixMilli())}})
			}
			asked := func(after time.Duration, want int) {
				t.Helper()
				bubble.Advance(after)
				synctest.Wait()
				if got := len(r.asked.wants); got != want {
					t.Errorf("heartbeat %v: asked %d times, want %d", beat, got, want)
				}
			}
			asked(rest/2-1, 0)
			asked(1, 1)
			asked(rest/2+member.HeadRest-1, 1)
			asked(1, 2)
			asked(time.Hour, 2)
		}
	})
}
