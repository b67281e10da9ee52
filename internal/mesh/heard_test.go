package mesh

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/member"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
	"github.com/bulkhead-mail/bulkhead/internal/testing/bubble"
)

// TestForeignHeads checks that only a recent head, signed by a peer, proves that the peer is in
// another network.
func TestForeignHeads(t *testing.T) {
	inBubble(t, func(t *testing.T, k *memBroker) {
		r := newRig(t, k, nil)
		from := r.peer.Hint()
		signed := func(kind wire.Kind, by *member.Identity, at time.Time) []byte {
			ms := uint64(at.UnixMilli())
			m := &wire.Message{Kind: kind, From: by.Hint(), Stamp: wire.Stamp{Incarnation: ms - 2, Boot: ms - 1, Seq: 1, At: ms}}
			if kind == wire.KindImage {
				m.Image.Ref, m.Image.Geometry, m.Image.Lineage = wire.Ref{Array: engine.ArrayCounts,
					Start: 7}, cellsOf, wire.Lineage{{Boot: ms - 1, Base: 0}}
			}
			return wire.AppendMessage(nil, m, by)
		}
		now := time.Now()
		head := wire.Topic{Kind: wire.KindHead, Origin: from}
		cut := signed(wire.KindHead, r.peer, now)
		for name, tt := range map[string]struct {
			topic wire.Topic
			msg   []byte
			want  bool
		}{
			"its head":         {head, signed(wire.KindHead, r.peer, now), true},
			"of an hour ago":   {head, signed(wire.KindHead, r.peer, now.Add(-networkRest)), true},
			"of before":        {head, signed(wire.KindHead, r.peer, now.Add(-networkRest-time.Second)), false},
			"of an hour to be": {head, signed(wire.KindHead, r.peer, now.Add(networkRest)), true},
			"of later":         {head, signed(wire.KindHead, r.peer, now.Add(networkRest+time.Second)), false},
			"forged":           {head, append(cut[:len(cut)-1:len(cut)-1], cut[len(cut)-1]^1), false},
			"cut":              {head, cut[:20], false},
			"of another":       {head, signed(wire.KindHead, mustIdentity(t), now), false},
			"no head":          {head, signed(wire.KindImage, r.peer, now), false},
			"of who is no peer": {wire.Topic{Kind: wire.KindHead, Origin: wire.Hint{1}}, signed(wire.KindHead, r.peer, now),
				false},
		} {
			r.Book.Figures(from, func(s *member.Stats) { s.Network = "" })
			for len(r.sender.hello) > 0 {
				<-r.sender.hello
			}
			for range 2 {
				r.receiver.deliver(t.Context(), r.bus, wire.Arrival{Topic: tt.topic, Network: "cafe", Data: tt.msg}, false)
			}
			if got := r.status().Network; (got == "cafe") != tt.want || got != "cafe" && got != "" {
				t.Errorf("%s: the peer is in network %q", name, got)
			}
			if notified := len(r.sender.hello) == 1; notified != tt.want {
				t.Errorf("%s: the peer is told %v", name, notified)
			}
		}
		if r.receiver.in.bytes != 0 {
			t.Error("a message of another network waits to be taken")
		}
		r.Book.Figures(from, func(s *member.Stats) { s.Network, s.NetworkAt = "cafe", time.Now() })
		bubble.Advance(networkRest - time.Nanosecond)
		if r.status().Network == "" {
			t.Error("forgotten before an hour is over")
		}
		bubble.Advance(time.Nanosecond)
		if got := r.status().Network; got != "" {
			t.Errorf("in %q after an hour of silence", got)
		}
	})
}

// TestOverItsShare checks that a message of a sender whose share of the queue is full is dropped
// and counted.
func TestOverItsShare(t *testing.T) {
	inBubble(t, func(t *testing.T, k *memBroker) {
		r := newRig(t, k, nil)
		from := r.peer.Hint()
		ms := uint64(time.Now().UnixMilli())
		m := &wire.Message{Kind: wire.KindHead, From: from, Stamp: wire.Stamp{Incarnation: ms - 2, Boot: ms - 1, Seq: 1,
			At: ms}}
		a := wire.Arrival{Topic: wire.Topic{Kind: wire.KindHead, Origin: from}, Data: wire.AppendMessage(nil, m, r.peer)}
		if got := r.refused(func() { r.receiver.deliver(t.Context(), r.bus, a, false) }); got != "" {
			t.Errorf("with room: %q", got)
		}
		r.receiver.in.put(t.Context(), incoming{from: from, m: &wire.Message{}, size: maxQueuedShare - 3*queuedCost}, false)
		if got := r.refused(func() { r.receiver.deliver(t.Context(), r.bus, a, false) }); got != member.ReasonShare {
			t.Errorf("without room: %q, want %q", got, member.ReasonShare)
		}
	})
}

// TestSucceed checks that a peer's counts are transferred to its new key, where anything is
// counted. The list is unchanged if that fails, or if the new key is already on it.
func TestSucceed(t *testing.T) {
	inBubble(t, func(t *testing.T, k *memBroker) {
		for _, role := range []member.Role{member.Both, member.Subscribe, member.Publish} {
			r := newRig(t, k, func(o *member.Options) { o.Role = role })
			old, to := rotated(t)
			if err := r.AddPeer(t.Context(), old.ID(), "old", 0.5); err != nil {
				t.Fatal(err)
			}
			on := func(id *member.Identity) bool { _, ok := r.Find(id.Hint()); return ok }
			if role != member.Publish {
				r.e.renameErr = errors.New("disk full")
				if err := r.Succeed(t.Context(), to.Proof(), to.Public()); !errors.Is(err, r.e.renameErr) || !on(old) || on(to) {
					t.Errorf("%s: %v; old key listed %v, new one %v", role, err, on(old), on(to))
				}
				r.e.renameErr, r.e.renamed = nil, nil
			}
			if err := r.Succeed(t.Context(), to.Proof(), to.Public()); err != nil || on(old) || !on(to) {
				t.Errorf("%s: %v; old key listed %v, new one %v", role, err, on(old), on(to))
			}
			want := [][2]string{{old.ID(), to.ID()}}
			if role == member.Publish {
				want = nil
			}
			if !slices.Equal(r.e.renamed, want) {
				t.Errorf("%s: renamed %v, want %v", role, r.e.renamed, want)
			}
			if p, _ := r.Find(to.Hint()); p.Name != "old" || p.Weight != 0.5 || p.ID != to.ID() {
				t.Errorf("%s: %+v", role, p)
			}
			if err := r.Succeed(t.Context(), to.Proof(), to.Public()); !errors.Is(err, bulkhead.ErrMalformed) {
				t.Errorf("%s: again: %v", role, err)
			}
			if err := r.AddPeer(t.Context(), old.ID(), "again", 1); err != nil {
				t.Fatal(err)
			}
			if err := r.Succeed(t.Context(), to.Proof(), to.Public()); !errors.Is(err, bulkhead.ErrMalformed) || !on(old) ||
				!on(to) {
				t.Errorf("%s: both are on the list: %v", role, err)
			}
		}
	})
}

// TestProofs checks that a node that receives its own statements begins a new incarnation above
// them if it has forgotten them, and otherwise not.
func TestProofs(t *testing.T) {
	inBubble(t, func(t *testing.T, k *memBroker) {
		r := newRig(t, k, nil)
		life := func() uint64 { return r.state.Incarnation }
		statement := func(by *member.Identity, s wire.Stamp) []byte {
			m := &wire.Message{Kind: wire.KindHead, From: by.Hint(), Stamp: s}
			e, err := wire.OpenEnvelope(wire.AppendMessage(nil, m, by))
			if err != nil {
				t.Fatal(err)
			}
			return e.Statement()
		}
		now := wire.Stamp{Incarnation: life(), Boot: r.state.Boot, Seq: 1, At: r.state.Boot}
		later := now
		later.Boot, later.At = now.Boot+5000, now.At+5000
		own := r.opts.Identity
		for name, tt := range map[string]struct {
			proofs [][]byte
			new    bool
		}{
			"none":                  {nil, false},
			"what it still knows":   {[][]byte{statement(own, now)}, false},
			"no statement":          {[][]byte{{1, 2, 3}}, false},
			"of another":            {[][]byte{statement(r.peer, later)}, false},
			"what it has forgotten": {[][]byte{statement(own, now), statement(own, later), {1}}, true},
		} {
			before := life()
			r.sender.renewals = nil
			r.sender.answer(t.Context(), &wire.Message{Kind: wire.KindAsk, From: r.peer.Hint(), Incarnation: life(),
				Proofs: tt.proofs})
			if got := life() > before; got != tt.new {
				t.Errorf("%s: a new incarnation %v, want %v", name, got, tt.new)
			}
			if tt.new && (life() <= later.Boot || r.state.Boot <= life()) {
				t.Errorf("%s: incarnation %d, process %d, after it said %+v", name, life(), r.state.Boot, later)
			}
			r.state.Incarnation, r.state.Boot = now.Incarnation, now.Boot
		}
	})
}

// TestNoLongerCramped checks that an array that had no room, and has it again, waits for nothing.
func TestNoLongerCramped(t *testing.T) {
	inBubble(t, func(t *testing.T, k *memBroker) {
		r := newRig(t, k, nil)
		x := wire.Ref{Array: engine.ArraySpam, Start: 7}
		r.e.held = []engine.ArrayState{{Array: x.Array, Start: x.Start, Version: 9, Geometry: bitsOf, Boot: 5}}
		r.t.heads[x] = wire.ArrayHead{Ref: x, Version: 9, Geometry: bitsOf, Boot: 5}
		r.t.cramped[x] = true
		r.e.full, r.e.later = true, true
		if wants, _, waits := r.t.missing(); !waits || wants != nil {
			t.Errorf("without room: wants %v, waits %v", wants, waits)
		}
		r.e.now = true
		r.t.missing()
		r.e.now = false
		if wants, _, waits := r.t.missing(); waits || wants != nil {
			t.Errorf("after there was room: wants %v, waits %v", wants, waits)
		}
	})
}

// TestNewcomers checks that only the head in which a peer's old key names it is accepted from an
// unlisted key.
func TestNewcomers(t *testing.T) {
	inBubble(t, func(t *testing.T, k *memBroker) {
		r := newRig(t, k, nil)
		old, to := rotated(t)
		if err := r.AddPeer(t.Context(), old.ID(), "", 1); err != nil {
			t.Fatal(err)
		}
		_, other := rotated(t) // unknown to all nodes
		now := uint64(time.Now().UnixMilli())
		say := func(by *member.Identity, change func(*wire.Message)) []byte {
			m := &wire.Message{Kind: wire.KindHead, From: by.Hint(),
				Stamp: wire.Stamp{Incarnation: now - 2, Boot: now - 1, Seq: 1, At: now}, Proof: by.Proof()}
			if change != nil {
				change(m)
			}
			return wire.AppendMessage(nil, m, by)
		}
		head := func(by *member.Identity) wire.Topic { return wire.Topic{Kind: wire.KindHead, Origin: by.Hint()} }
		forged := say(to, nil)
		forged[len(forged)-1] ^= 1
		eve := mustIdentity(t)
		for name, tt := range map[string]struct {
			topic wire.Topic
			msg   []byte
			want  bool
		}{
			"a successor":     {head(to), say(to, nil), true},
			"without a proof": {head(to), say(to, func(m *wire.Message) { m.Proof = nil }), false},
			"with another's":  {head(eve), say(eve, func(m *wire.Message) { m.Proof = to.Proof() }), false},
			"of no peer":      {head(other), say(other, nil), false},
			"forged":          {head(to), forged, false},
			"far ahead": {head(to), say(to, func(m *wire.Message) {
				m.Stamp.At += uint64(2 * wire.MaxAhead / time.Millisecond)
			}), false},
			"under a delta": {wire.Topic{Kind: wire.KindDelta, Origin: to.Hint()}, say(to, nil), false},
			"a delta": {wire.Topic{Kind: wire.KindDelta, Origin: to.Hint()}, say(to, func(m *wire.Message) {
				m.Kind = wire.KindDelta
			}), false},
			"a delta as a head":   {head(to), say(to, func(m *wire.Message) { m.Kind = wire.KindDelta }), false},
			"nothing but a start": {head(to), say(to, nil)[:30], false},
		} {
			refused := r.Status().Strangers[member.ReasonStranger]
			r.receiver.deliver(t.Context(), r.bus, wire.Arrival{Topic: tt.topic, Data: tt.msg}, false)
			x, taken := r.receiver.in.take()
			if refused = r.Status().Strangers[member.ReasonStranger] - refused; taken != tt.want || (refused == 1) == tt.want {
				t.Errorf("%s: taken %v, refused %d times; want taken %v", name, taken, refused, tt.want)
			}
			if taken && (x.m.Key != to.Public() || x.m.Proof.Old != old.Public() || len(x.m.Statement) == 0 ||
				x.from != wire.Hint{}) {
				t.Errorf("%s: %+v", name, x)
			}
		}
	})
}

// TestImagesOfNewOrigins checks that, when a broker is back, its stored images are read for origins
// without a replica, and for no others.
func TestImagesOfNewOrigins(t *testing.T) {
	inBubble(t, func(t *testing.T, k *memBroker) {
		r := newRig(t, k, nil)
		one, two := r.peer, mustIdentity(t)
		if err := r.AddPeer(t.Context(), two.ID(), "", 1); err != nil {
			t.Fatal(err)
		}
		now := uint64(time.Now().UnixMilli())
		for i, by := range []*member.Identity{one, one, two, mustIdentity(t)} {
			m := &wire.Message{Kind: wire.KindImage, From: by.Hint(),
				Stamp: wire.Stamp{Incarnation: now - 2, Boot: now - 1, Seq: uint64(i + 1), At: now}}
			m.Image.Ref, m.Image.At, m.Image.Geometry, m.Image.Lineage, m.Image.Pages = wire.Ref{Array: engine.ArrayCounts,
				Start: 7}, 5, cellsOf, wire.Lineage{{Boot: now - 1, Base: 0}}, [][]byte{{1}}
			at := wire.Topic{Kind: wire.KindImage, Origin: by.Hint(), Key: string(rune('a' + i))}
			k.images[at] = storedMsg{time.Now(), at, wire.AppendMessage(nil, m, by)}
		}
		for _, held := range []bool{false, true} {
			want := map[wire.Hint]int{one.Hint(): 2, two.Hint(): 1}
			if r.e.held = nil; held {
				r.e.held, want = []engine.ArrayState{{Array: engine.ArrayCounts, Start: 7, Version: 5}}, map[wire.Hint]int{}
			}
			r.receiver.catchUp(t.Context(), r.bus)
			got := make(map[wire.Hint]int)
			for {
				x, ok := r.receiver.in.take()
				if !ok {
					break
				}
				if x.m != nil {
					got[x.from]++
				}
			}
			if !maps.Equal(got, want) {
				t.Errorf("something is held %v: images of %v, want %v", held, got, want)
			}
		}
		// The reading ends for an origin that is removed in the meantime.
		r.e.held = nil
		if err := r.EvictPeer(t.Context(), one.ID()); err != nil {
			t.Fatal(err)
		}
		r.bus.handed = 0
		r.receiver.fetch(t.Context(), r.bus, one.Hint(), true)
		if r.bus.handed != 1 {
			t.Errorf("%d messages were read, want one", r.bus.handed)
		}
	})
}

// TestGroupFails checks that a list of a group that cannot be applied whole is an error, and that
// evictions by the administrator are remembered.
func TestGroupFails(t *testing.T) {
	inBubble(t, func(t *testing.T, k *memBroker) {
		r := newRig(t, k, nil)
		joiner := mustIdentity(t)
		keeper := &member.Peer{ID: r.peer.ID(), Weight: 0.5, Group: "mail", Keeper: true, Key: r.peer.Public()}
		if err := r.groups.TakeGroup(t.Context(), keeper,
			&member.GroupList{Group: "mail", Members: []member.Member{{Key: joiner.ID()}}}); err != nil {
			t.Fatal(err)
		}
		peers := filepath.Join(r.opts.Dir, member.PeersFile)
		damage := func() {
			t.Helper()
			if err := errors.Join(os.Remove(peers), os.MkdirAll(filepath.Join(peers, "x"), 0o700)); err != nil {
				t.Fatal(err)
			}
		}
		damage()
		if err := r.groups.TakeGroup(t.Context(), keeper, &member.GroupList{Group: "mail"}); err == nil {
			t.Error("a member is not dropped, and nobody hears of it")
		}
		if err := r.groups.TakeGroup(t.Context(), keeper,
			&member.GroupList{Group: "mail", Members: []member.Member{{Key: joiner.ID()},
				{Key: mustIdentity(t).ID()}}}); err == nil {
			t.Error("a member is not added, and nobody hears of it")
		}
		if got := len(r.Status().Peers); got != 2 {
			t.Errorf("%d peers, want the keeper and the member", got)
		}
		if err := os.RemoveAll(peers); err != nil {
			t.Fatal(err)
		}
		if err := r.groups.TakeGroup(t.Context(), keeper, &member.GroupList{Group: "mail",
			Members: []member.Member{{Key: "U"}}}); err == nil {
			t.Error("a member without a key")
		}
		for range 2 {
			if err := member.Strike(r.opts.Dir, joiner.ID()); err != nil {
				t.Fatal(err)
			}
		}
		if keys, err := member.ReadStruck(r.opts.Dir); err != nil || !slices.Equal(keys, []string{joiner.ID()}) {
			t.Errorf("struck off: %v, %v", keys, err)
		}
		if err := os.WriteFile(filepath.Join(r.opts.Dir, member.StruckFile), []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := r.groups.TakeGroup(t.Context(), keeper, &member.GroupList{Group: "mail"}); err == nil {
			t.Error("who was evicted is not known, and the list is followed")
		}
		if err := r.EvictPeer(t.Context(), joiner.ID()); err == nil || len(r.Status().Peers) != 2 {
			t.Errorf("evicted: %v, %d peers", err, len(r.Status().Peers))
		}
	})
}

// TestHeadLetsRoundsIn checks that rounds that wait for the lineage of an array are applied when a
// head has it.
func TestHeadLetsRoundsIn(t *testing.T) {
	inBubble(t, func(t *testing.T, k *memBroker) {
		r := newRig(t, k, nil)
		x := wire.Ref{Array: engine.ArrayCounts, Start: 7}
		from := r.peer.Hint()
		r.e.held = []engine.ArrayState{{Array: x.Array, Start: x.Start, Version: 9, Geometry: cellsOf, Boot: 10}}
		r.e.life = 1
		next := roundOf(t, x, 9, 3)
		next.Announce, next.Lineage = false, nil // of a later process, whose lineage is unknown
		r.receiver.take(t.Context(),
			&incoming{m: &wire.Message{Kind: wire.KindDelta, From: from, Stamp: wire.Stamp{Incarnation: 1, Boot: 20, Seq: 1,
				At: 20}, Rounds: []wire.Round{next}}, size: 10})
		if len(r.e.applied) != 0 || len(r.t.pending) != 1 {
			t.Fatalf("%d applied, %d wait", len(r.e.applied), len(r.t.pending))
		}
		head := wire.ArrayHead{Ref: x, Version: next.To, Geometry: cellsOf, Lineage: wire.Lineage{{Boot: 10, Base: 0},
			{Boot: 20, Base: 9}}}
		r.receiver.take(t.Context(),
			&incoming{m: &wire.Message{Kind: wire.KindHead, From: from, Stamp: wire.Stamp{Incarnation: 1, Boot: 20, Seq: 2,
				At: 21}, Heads: []wire.ArrayHead{head}}, size: 10})
		if len(r.e.applied) != 1 || len(r.t.pending) != 0 {
			t.Errorf("after the head %d applied, %d wait; refused %v", len(r.e.applied), len(r.t.pending), r.status().Refusals)
		}
		if len(r.e.applied) == 1 {
			if p := r.e.applied[0]; len(p) != 1 || p[0].From != 9 || p[0].To != next.To {
				t.Errorf("applied %+v", p)
			}
		}
	})
}

// TestGroupDropsItsOwn checks that a keeper's list drops exactly the unlisted peers of its own
// group.
func TestGroupDropsItsOwn(t *testing.T) {
	inBubble(t, func(t *testing.T, k *memBroker) {
		r := newRig(t, k, nil)
		add := func(name, group string, keeper bool) *member.Peer {
			id := mustIdentity(t)
			p := &member.Peer{ID: id.ID(), Name: name, Weight: 1, Group: group, Keeper: keeper, Key: id.Public()}
			if err := r.Put(t.Context(), p); err != nil {
				t.Fatal(err)
			}
			return p
		}
		keeper := add("keeper", "mail", true)
		add("other keeper", "web", true)
		add("of web", "web", false)
		add("gone", "mail", false)
		kept := add("kept", "mail", false)
		for range 2 {
			if err := r.groups.TakeGroup(t.Context(), keeper,
				&member.GroupList{Group: "mail", Members: []member.Member{{Key: kept.ID}, {Key: r.Status().ID},
					{Key: kept.ID}}}); err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, p := range r.List() {
				names = append(names, p.Name)
			}
			slices.Sort(names)
			if want := []string{"keeper", "kept", "of web", "other keeper", "peer"}; !slices.Equal(names, want) {
				t.Errorf("peers %q, want %q", names, want)
			}
		}
	})
}
