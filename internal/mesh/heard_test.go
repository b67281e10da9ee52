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
	"github.com/bulkhead-mail/bulkhead/internal/testing/bubble"
)

// TestForeignHeads checks that only a recent head, signed by a peer, proves that the peer is in
// another network.
func TestForeignHeads(t *testing.T) {
	inBubble(t, func(t *testing.T, k *memBroker) {
		r := newRig(t, k, nil)
		from := r.peer.public.hint()
		signed := func(kind kind, by *Identity, at time.Time) []byte {
			ms := uint64(at.UnixMilli())
			m := &message{kind: kind, from: by.public.hint(), stamp: stamp{incarnation: ms - 2, boot: ms - 1, seq: 1, at: ms}}
			if kind == kindImage {
				m.image.ref, m.image.geometry, m.image.lineage = ref{engine.ArrayCounts, 7}, cellsOf, lineage{{ms - 1, 0}}
			}
			return appendMessage(nil, m, by)
		}
		now := time.Now()
		head := topic{kind: kindHead, origin: from}
		cut := signed(kindHead, r.peer, now)
		for name, tt := range map[string]struct {
			topic topic
			msg   []byte
			want  bool
		}{
			"its head":          {head, signed(kindHead, r.peer, now), true},
			"of an hour ago":    {head, signed(kindHead, r.peer, now.Add(-networkRest)), true},
			"of before":         {head, signed(kindHead, r.peer, now.Add(-networkRest-time.Second)), false},
			"of an hour to be":  {head, signed(kindHead, r.peer, now.Add(networkRest)), true},
			"of later":          {head, signed(kindHead, r.peer, now.Add(networkRest+time.Second)), false},
			"forged":            {head, append(cut[:len(cut)-1:len(cut)-1], cut[len(cut)-1]^1), false},
			"cut":               {head, cut[:20], false},
			"of another":        {head, signed(kindHead, mustIdentity(t), now), false},
			"no head":           {head, signed(kindImage, r.peer, now), false},
			"of who is no peer": {topic{kind: kindHead, origin: hint{1}}, signed(kindHead, r.peer, now), false},
		} {
			r.receiver.figures(from, func(s *stats) { s.network = "" })
			for len(r.sender.hello) > 0 {
				<-r.sender.hello
			}
			for range 2 {
				r.receiver.deliver(t.Context(), r.bus, arrival{topic: tt.topic, network: "cafe", msg: tt.msg}, false)
			}
			if got := r.status().Network; (got == "cafe") != tt.want || got != "cafe" && got != "" {
				t.Errorf("%s: the peer is in network %q", name, got)
			}
			if told := len(r.sender.hello) == 1; told != tt.want {
				t.Errorf("%s: the peer is told %v", name, told)
			}
		}
		if r.receiver.in.bytes != 0 {
			t.Error("a message of another network waits to be taken")
		}
		r.receiver.figures(from, func(s *stats) { s.network, s.networkAt = "cafe", time.Now() })
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
		from := r.peer.public.hint()
		ms := uint64(time.Now().UnixMilli())
		m := &message{kind: kindHead, from: from, stamp: stamp{incarnation: ms - 2, boot: ms - 1, seq: 1, at: ms}}
		a := arrival{topic: topic{kind: kindHead, origin: from}, msg: appendMessage(nil, m, r.peer)}
		if got := r.refused(func() { r.receiver.deliver(t.Context(), r.bus, a, false) }); got != "" {
			t.Errorf("with room: %q", got)
		}
		r.receiver.in.put(t.Context(), incoming{from: from, m: &message{}, size: maxQueuedShare - 3*queuedCost}, false)
		if got := r.refused(func() { r.receiver.deliver(t.Context(), r.bus, a, false) }); got != reasonShare {
			t.Errorf("without room: %q, want %q", got, reasonShare)
		}
	})
}

// TestSucceed checks that a peer's counts are transferred to its new key, where anything is
// counted. The list is unchanged if that fails, or if the new key is already on it.
func TestSucceed(t *testing.T) {
	inBubble(t, func(t *testing.T, k *memBroker) {
		for _, role := range []Role{Both, Subscribe, Publish} {
			r := newRig(t, k, func(o *Options) { o.Role = role })
			old, to := rotated(t)
			if err := r.AddPeer(t.Context(), old.ID(), "old", 0.5); err != nil {
				t.Fatal(err)
			}
			on := func(id *Identity) bool { _, ok := r.find(id.public.hint()); return ok }
			if role != Publish {
				r.e.renameErr = errors.New("disk full")
				if err := r.succeed(t.Context(), to.proof, to.public); !errors.Is(err, r.e.renameErr) || !on(old) || on(to) {
					t.Errorf("%s: %v; old key listed %v, new one %v", role, err, on(old), on(to))
				}
				r.e.renameErr, r.e.renamed = nil, nil
			}
			if err := r.succeed(t.Context(), to.proof, to.public); err != nil || on(old) || !on(to) {
				t.Errorf("%s: %v; old key listed %v, new one %v", role, err, on(old), on(to))
			}
			want := [][2]string{{old.ID(), to.ID()}}
			if role == Publish {
				want = nil
			}
			if !slices.Equal(r.e.renamed, want) {
				t.Errorf("%s: renamed %v, want %v", role, r.e.renamed, want)
			}
			if p, _ := r.find(to.public.hint()); p.Name != "old" || p.Weight != 0.5 || p.ID != to.ID() {
				t.Errorf("%s: %+v", role, p)
			}
			if err := r.succeed(t.Context(), to.proof, to.public); !errors.Is(err, bulkhead.ErrMalformed) {
				t.Errorf("%s: again: %v", role, err)
			}
			if err := r.AddPeer(t.Context(), old.ID(), "again", 1); err != nil {
				t.Fatal(err)
			}
			if err := r.succeed(t.Context(), to.proof, to.public); !errors.Is(err, bulkhead.ErrMalformed) || !on(old) ||
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
		statement := func(by *Identity, s stamp) []byte {
			m := &message{kind: kindHead, from: by.public.hint(), stamp: s}
			e, err := openEnvelope(appendMessage(nil, m, by))
			if err != nil {
				t.Fatal(err)
			}
			return e.statement()
		}
		now := stamp{incarnation: life(), boot: r.state.Boot, seq: 1, at: r.state.Boot}
		later := now
		later.boot, later.at = now.boot+5000, now.at+5000
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
			r.sender.renewed = nil
			r.sender.answer(t.Context(), &message{kind: kindAsk, from: r.peer.public.hint(), life: life(), proofs: tt.proofs})
			if got := life() > before; got != tt.new {
				t.Errorf("%s: a new incarnation %v, want %v", name, got, tt.new)
			}
			if tt.new && (life() <= later.boot || r.state.Boot <= life()) {
				t.Errorf("%s: incarnation %d, process %d, after it said %+v", name, life(), r.state.Boot, later)
			}
			r.state.Incarnation, r.state.Boot = now.incarnation, now.boot
		}
	})
}

// TestNoLongerCramped checks that an array that had no room, and has it again, waits for nothing.
func TestNoLongerCramped(t *testing.T) {
	inBubble(t, func(t *testing.T, k *memBroker) {
		r := newRig(t, k, nil)
		x := ref{engine.ArraySpam, 7}
		r.e.held = []engine.ArrayState{{Array: x.array, Start: x.start, Version: 9, Geometry: bitsOf, Boot: 5}}
		r.t.heads[x] = arrayHead{ref: x, version: 9, geometry: bitsOf, boot: 5}
		r.t.cramped[x] = true
		r.e.full, r.e.later = true, true
		if wants, _, waits := r.receiver.missing(&r.p, r.t); !waits || wants != nil {
			t.Errorf("without room: wants %v, waits %v", wants, waits)
		}
		r.e.now = true
		r.receiver.missing(&r.p, r.t)
		r.e.now = false
		if wants, _, waits := r.receiver.missing(&r.p, r.t); waits || wants != nil {
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
		say := func(by *Identity, change func(*message)) []byte {
			m := &message{kind: kindHead, from: by.public.hint(),
				stamp: stamp{incarnation: now - 2, boot: now - 1, seq: 1, at: now}, proof: by.proof}
			if change != nil {
				change(m)
			}
			return appendMessage(nil, m, by)
		}
		head := func(by *Identity) topic { return topic{kind: kindHead, origin: by.public.hint()} }
		forged := say(to, nil)
		forged[len(forged)-1] ^= 1
		eve := mustIdentity(t)
		for name, tt := range map[string]struct {
			topic topic
			msg   []byte
			want  bool
		}{
			"a successor":     {head(to), say(to, nil), true},
			"without a proof": {head(to), say(to, func(m *message) { m.proof = nil }), false},
			"with another's":  {head(eve), say(eve, func(m *message) { m.proof = to.proof }), false},
			"of no peer":      {head(other), say(other, nil), false},
			"forged":          {head(to), forged, false},
			"far ahead": {head(to), say(to, func(m *message) {
				m.stamp.at += uint64(2 * maxLifeAhead / time.Millisecond)
			}), false},
			"under a delta": {topic{kind: kindDelta, origin: to.public.hint()}, say(to, nil), false},
			"a delta": {topic{kind: kindDelta, origin: to.public.hint()}, say(to, func(m *message) {
				m.kind = kindDelta
			}), false},
			"a delta as a head":   {head(to), say(to, func(m *message) { m.kind = kindDelta }), false},
			"nothing but a start": {head(to), say(to, nil)[:30], false},
		} {
			refused := r.Status().Strangers[reasonStranger]
			r.receiver.deliver(t.Context(), r.bus, arrival{topic: tt.topic, msg: tt.msg}, false)
			x, taken := r.receiver.in.take()
			if refused = r.Status().Strangers[reasonStranger] - refused; taken != tt.want || (refused == 1) == tt.want {
				t.Errorf("%s: taken %v, refused %d times; want taken %v", name, taken, refused, tt.want)
			}
			if taken && (x.m.key != to.public || x.m.proof.old != old.public || len(x.m.said) == 0 || x.from != hint{}) {
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
		for i, by := range []*Identity{one, one, two, mustIdentity(t)} {
			m := &message{kind: kindImage, from: by.public.hint(),
				stamp: stamp{incarnation: now - 2, boot: now - 1, seq: uint64(i + 1), at: now}}
			m.image.ref, m.image.at, m.image.geometry, m.image.lineage, m.image.pages = ref{engine.ArrayCounts,
				7}, 5, cellsOf, lineage{{now - 1, 0}}, [][]byte{{1}}
			at := topic{kindImage, by.public.hint(), string(rune('a' + i))}
			k.images[at] = storedMsg{time.Now(), at, appendMessage(nil, m, by)}
		}
		for _, held := range []bool{false, true} {
			want := map[hint]int{one.public.hint(): 2, two.public.hint(): 1}
			if r.e.held = nil; held {
				r.e.held, want = []engine.ArrayState{{Array: engine.ArrayCounts, Start: 7, Version: 5}}, map[hint]int{}
			}
			r.receiver.catchUp(t.Context(), r.bus)
			got := make(map[hint]int)
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
		r.receiver.fetch(t.Context(), r.bus, one.public.hint(), true)
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
		member := mustIdentity(t)
		keeper := &peer{ID: r.peer.ID(), Weight: 0.5, Group: "mail", Keeper: true, key: r.peer.public}
		if err := r.takeGroup(t.Context(), keeper,
			&groupList{Group: "mail", Members: []Member{{Key: member.ID()}}}); err != nil {
			t.Fatal(err)
		}
		peers := filepath.Join(r.opts.Dir, PeersFile)
		damage := func() {
			t.Helper()
			if err := errors.Join(os.Remove(peers), os.MkdirAll(filepath.Join(peers, "x"), 0o700)); err != nil {
				t.Fatal(err)
			}
		}
		damage()
		if err := r.takeGroup(t.Context(), keeper, &groupList{Group: "mail"}); err == nil {
			t.Error("a member is not dropped, and nobody hears of it")
		}
		if err := r.takeGroup(t.Context(), keeper,
			&groupList{Group: "mail", Members: []Member{{Key: member.ID()}, {Key: mustIdentity(t).ID()}}}); err == nil {
			t.Error("a member is not added, and nobody hears of it")
		}
		if got := len(r.Status().Peers); got != 2 {
			t.Errorf("%d peers, want the keeper and the member", got)
		}
		if err := os.RemoveAll(peers); err != nil {
			t.Fatal(err)
		}
		if err := r.takeGroup(t.Context(), keeper, &groupList{Group: "mail", Members: []Member{{Key: "U"}}}); err == nil {
			t.Error("a member without a key")
		}
		for range 2 {
			if err := r.strike(member.ID()); err != nil {
				t.Fatal(err)
			}
		}
		if keys, err := r.struck(); err != nil || !slices.Equal(keys, []string{member.ID()}) {
			t.Errorf("struck off: %v, %v", keys, err)
		}
		if err := os.WriteFile(filepath.Join(r.opts.Dir, struckFile), []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := r.takeGroup(t.Context(), keeper, &groupList{Group: "mail"}); err == nil {
			t.Error("who was evicted is not known, and the list is followed")
		}
		if err := r.EvictPeer(t.Context(), member.ID()); err == nil || len(r.Status().Peers) != 2 {
			t.Errorf("evicted: %v, %d peers", err, len(r.Status().Peers))
		}
	})
}

// TestHeadLetsRoundsIn checks that rounds that wait for the lineage of an array are applied when a
// head has it.
func TestHeadLetsRoundsIn(t *testing.T) {
	inBubble(t, func(t *testing.T, k *memBroker) {
		r := newRig(t, k, nil)
		x := ref{engine.ArrayCounts, 7}
		from := r.peer.public.hint()
		r.e.held = []engine.ArrayState{{Array: x.array, Start: x.start, Version: 9, Geometry: cellsOf, Boot: 10}}
		r.e.life = 1
		next := roundOf(t, x, 9, 3)
		next.announce, next.lineage = false, nil // of a later process, whose lineage is unknown
		r.receiver.take(t.Context(),
			&incoming{m: &message{kind: kindDelta, from: from, stamp: stamp{1, 20, 1, 20}, rounds: []round{next}}, size: 10})
		if len(r.e.applied) != 0 || len(r.t.pending) != 1 {
			t.Fatalf("%d applied, %d wait", len(r.e.applied), len(r.t.pending))
		}
		head := arrayHead{ref: x, version: next.to, geometry: cellsOf, lineage: lineage{{10, 0}, {20, 9}}}
		r.receiver.take(t.Context(),
			&incoming{m: &message{kind: kindHead, from: from, stamp: stamp{1, 20, 2, 21}, heads: []arrayHead{head}}, size: 10})
		if len(r.e.applied) != 1 || len(r.t.pending) != 0 {
			t.Errorf("after the head %d applied, %d wait; refused %v", len(r.e.applied), len(r.t.pending), r.status().Refusals)
		}
		if len(r.e.applied) == 1 {
			if p := r.e.applied[0]; len(p) != 1 || p[0].From != 9 || p[0].To != next.to {
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
		add := func(name, group string, keeper bool) *peer {
			id := mustIdentity(t)
			p := &peer{ID: id.ID(), Name: name, Weight: 1, Group: group, Keeper: keeper, key: id.public}
			if err := r.addPeer(t.Context(), p); err != nil {
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
			if err := r.takeGroup(t.Context(), keeper,
				&groupList{Group: "mail", Members: []Member{{Key: kept.ID}, {Key: r.Status().ID}, {Key: kept.ID}}}); err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, p := range r.peerList() {
				names = append(names, p.Name)
			}
			slices.Sort(names)
			if want := []string{"keeper", "kept", "of web", "other keeper", "peer"}; !slices.Equal(names, want) {
				t.Errorf("peers %q, want %q", names, want)
			}
		}
	})
}
