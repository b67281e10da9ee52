package mesh

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
)

// TestForeignHeads: that a peer is in another network is believed from a head that it has
// signed lately, and from nothing else.
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
		time.Sleep(networkRest - time.Nanosecond)
		if r.status().Network == "" {
			t.Error("forgotten before an hour is over")
		}
		time.Sleep(time.Nanosecond)
		if got := r.status().Network; got != "" {
			t.Errorf("in %q after an hour of silence", got)
		}
	})
}

// TestOverItsShare: a message of a sender whose share of the queue is full is dropped, and
// booked.
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

// TestSucceed: what is counted of a peer goes over to its new key, where anything is
// counted; the list stays as it was if that fails, and if the new key is on it already.
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
			if err := r.succeed(t.Context(), to.proof, to.public); !errors.Is(err, bulkhead.ErrMalformed) || !on(old) || !on(to) {
				t.Errorf("%s: both are on the list: %v", role, err)
			}
		}
	})
}

// TestProofs: a node that is shown what it has said begins a new incarnation if it has
// forgotten that, above what it said, and otherwise not.
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

// TestNoLongerCramped: for an array that had no room, and has it again, nothing waits.
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
