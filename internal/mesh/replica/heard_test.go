package replica

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/member"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
	"github.com/bulkhead-mail/bulkhead/internal/testing/meshtest"
)

// TestForeignHeads checks that only a recent head, signed by a peer, proves that the peer is in
// another network.
func TestForeignHeads(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		r := newRig(t, k, nil)
		from := r.Peer.Hint()
		signed := func(kind wire.Kind, by *member.Identity, at time.Time) []byte {
			ms := uint64(at.UnixMilli())
			m := &wire.Message{Kind: kind, From: by.Hint(), Stamp: wire.Stamp{Incarnation: ms - 2, Boot: ms - 1, Seq: 1, At: ms}}
			if kind == wire.KindImage {
				m.Image.Ref, m.Image.Geometry, m.Image.Lineage = wire.Ref{Array: engine.ArrayCounts,
					Start: 7}, meshtest.Cells, wire.Lineage{{Boot: ms - 1, Base: 0}}
			}
			return wire.AppendMessage(nil, m, by)
		}
		now := time.Now()
		head := wire.Topic{Kind: wire.KindHead, Origin: from}
		cut := signed(wire.KindHead, r.Peer, now)
		for name, tt := range map[string]struct {
			topic wire.Topic
			msg   []byte
			want  bool
		}{
			"its head":         {head, signed(wire.KindHead, r.Peer, now), true},
			"of an hour ago":   {head, signed(wire.KindHead, r.Peer, now.Add(-NetworkRest)), true},
			"of before":        {head, signed(wire.KindHead, r.Peer, now.Add(-NetworkRest-time.Second)), false},
			"of an hour to be": {head, signed(wire.KindHead, r.Peer, now.Add(NetworkRest)), true},
			"of later":         {head, signed(wire.KindHead, r.Peer, now.Add(NetworkRest+time.Second)), false},
			"forged":           {head, append(cut[:len(cut)-1:len(cut)-1], cut[len(cut)-1]^1), false},
			"cut":              {head, cut[:20], false},
			"of another":       {head, signed(wire.KindHead, meshtest.Identity(t), now), false},
			"no head":          {head, signed(wire.KindImage, r.Peer, now), false},
			"of who is no peer": {wire.Topic{Kind: wire.KindHead, Origin: wire.Hint{1}}, signed(wire.KindHead, r.Peer, now),
				false},
		} {
			r.Book.Figures(from, func(s *member.Stats) { s.Network = "" })
			for len(r.asked.hello) > 0 {
				<-r.asked.hello
			}
			for range 2 {
				r.receiver.Deliver(t.Context(), r.Bus, wire.Arrival{Topic: tt.topic, Network: "cafe", Data: tt.msg}, false)
			}
			if got := r.Entry().Network; (got == "cafe") != tt.want || got != "cafe" && got != "" {
				t.Errorf("%s: the peer is in network %q", name, got)
			}
			if notified := len(r.asked.hello) == 1; notified != tt.want {
				t.Errorf("%s: the peer is told %v", name, notified)
			}
		}
		if r.receiver.in.bytes != 0 {
			t.Error("a message of another network waits to be taken")
		}
	})
}

// TestOverItsShare checks that a message of a sender whose share of the queue is full is dropped
// and counted.
func TestOverItsShare(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		r := newRig(t, k, nil)
		from := r.Peer.Hint()
		ms := uint64(time.Now().UnixMilli())
		m := &wire.Message{Kind: wire.KindHead, From: from, Stamp: wire.Stamp{Incarnation: ms - 2, Boot: ms - 1, Seq: 1,
			At: ms}}
		a := wire.Arrival{Topic: wire.Topic{Kind: wire.KindHead, Origin: from}, Data: wire.AppendMessage(nil, m, r.Peer)}
		if got := r.Refused(func() { r.receiver.Deliver(t.Context(), r.Bus, a, false) }); got != "" {
			t.Errorf("with room: %q", got)
		}
		r.receiver.in.put(t.Context(), incoming{from: from, m: &wire.Message{}, size: maxQueuedShare - 3*queuedCost}, false)
		if got := r.Refused(func() { r.receiver.Deliver(t.Context(), r.Bus, a, false) }); got != member.ReasonShare {
			t.Errorf("without room: %q, want %q", got, member.ReasonShare)
		}
	})
}

// TestNoLongerCramped checks that an array that had no room, and has it again, waits for nothing.
func TestNoLongerCramped(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		r := newRig(t, k, nil)
		x := wire.Ref{Array: engine.ArraySpam, Start: 7}
		r.Engine.Held = []engine.ArrayState{{Array: x.Array, Start: x.Start, Version: 9, Geometry: meshtest.Bits, Boot: 5}}
		r.t.heads[x] = wire.ArrayHead{Ref: x, Version: 9, Geometry: meshtest.Bits, Boot: 5}
		r.t.cramped[x] = true
		r.Engine.Full, r.Engine.RoomLater = true, true
		if wants, _, waits := r.t.missing(); !waits || wants != nil {
			t.Errorf("without room: wants %v, waits %v", wants, waits)
		}
		r.Engine.RoomNow = true
		r.t.missing()
		r.Engine.RoomNow = false
		if wants, _, waits := r.t.missing(); waits || wants != nil {
			t.Errorf("after there was room: wants %v, waits %v", wants, waits)
		}
	})
}

// TestCrampedGap checks that the missing rounds of an array without room are asked for once there is room, and are
// waited for only if there will be.
func TestCrampedGap(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		for _, tt := range []struct{ now, later bool }{{false, false}, {false, true}, {true, false}, {true, true}} {
			r := newRig(t, k, nil)
			x := wire.Ref{Array: engine.ArraySpam, Start: 7}
			r.Engine.Held = []engine.ArrayState{{Array: x.Array, Start: x.Start, Version: 9, Geometry: meshtest.Bits, Boot: 5}}
			r.t.heads[x] = wire.ArrayHead{Ref: x, Version: 12, Geometry: meshtest.Bits, Boot: 5}
			r.t.cramped[x] = true
			r.Engine.Full, r.Engine.RoomLater, r.Engine.RoomNow = true, tt.later, tt.now
			wants, changes, waits := r.t.missing()
			if asks := len(wants) == 1 && changes == 3 && wants[0].Version == 9; asks != tt.now ||
				!tt.now && (len(wants) > 0 || waits != tt.later) || r.t.cramped[x] == tt.now {
				t.Errorf("%+v: wants %v, %d changes, waits %v, cramped %v", tt, wants, changes, waits, r.t.cramped[x])
			}
		}
	})
}

// An imageless transport fails to read stored images, and counts the readings of stored deltas.
type imageless struct {
	wire.Transport
	err    error
	deltas int
}

func (b *imageless) StoredImages(context.Context, wire.Hint, func(wire.Arrival) bool) error {
	return b.err
}

func (b *imageless) StoredDeltas(context.Context, *wire.Hint, time.Time, func(wire.Arrival) bool) error {
	b.deltas++
	return nil
}

// TestFetch checks that the stored deltas of an origin are read after its images, if they are wanted and the images
// could be read.
func TestFetch(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		r := newRig(t, k, nil)
		for _, err := range []error{nil, io.ErrUnexpectedEOF} {
			for _, deltas := range []bool{false, true} {
				b := &imageless{Transport: r.Bus, err: err}
				r.receiver.fetch(t.Context(), b, r.Peer.Hint(), deltas)
				if (b.deltas == 1) != (deltas && err == nil) {
					t.Errorf("images: %v, deltas wanted: %v, read %d times", err, deltas, b.deltas)
				}
			}
		}
	})
}

// TestNewcomers checks that only the head in which a peer's old key names it is accepted from an
// unlisted key.
func TestNewcomers(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		r := newRig(t, k, nil)
		old, to := meshtest.Rotated(t)
		if err := r.AddPeer(t.Context(), old.ID(), "", 1); err != nil {
			t.Fatal(err)
		}
		_, other := meshtest.Rotated(t) // unknown to all nodes
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
		eve := meshtest.Identity(t)
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
			refused := r.Strangers()[member.ReasonStranger]
			r.receiver.Deliver(t.Context(), r.Bus, wire.Arrival{Topic: tt.topic, Data: tt.msg}, false)
			x, taken := r.receiver.in.take()
			if refused = r.Strangers()[member.ReasonStranger] - refused; taken != tt.want || (refused == 1) == tt.want {
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
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		r := newRig(t, k, nil)
		one, two := r.Peer, meshtest.Identity(t)
		if err := r.AddPeer(t.Context(), two.ID(), "", 1); err != nil {
			t.Fatal(err)
		}
		now := uint64(time.Now().UnixMilli())
		for i, by := range []*member.Identity{one, one, two, meshtest.Identity(t)} {
			m := &wire.Message{Kind: wire.KindImage, From: by.Hint(),
				Stamp: wire.Stamp{Incarnation: now - 2, Boot: now - 1, Seq: uint64(i + 1), At: now}}
			m.Image.Ref, m.Image.At, m.Image.Geometry, m.Image.Lineage, m.Image.Pages = wire.Ref{Array: engine.ArrayCounts,
				Start: 7}, 5, meshtest.Cells, wire.Lineage{{Boot: now - 1, Base: 0}}, [][]byte{{1}}
			at := wire.Topic{Kind: wire.KindImage, Origin: by.Hint(), Key: string(rune('a' + i))}
			k.Images[at] = meshtest.Stored{At: time.Now(), Topic: at, Data: wire.AppendMessage(nil, m, by)}
		}
		for _, held := range []bool{false, true} {
			want := map[wire.Hint]int{one.Hint(): 2, two.Hint(): 1}
			if r.Engine.Held = nil; held {
				r.Engine.Held, want = []engine.ArrayState{{Array: engine.ArrayCounts, Start: 7, Version: 5}}, map[wire.Hint]int{}
			}
			r.receiver.CatchUp(t.Context(), r.Bus)
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
		r.Engine.Held = nil
		if err := r.EvictPeer(t.Context(), one.ID()); err != nil {
			t.Fatal(err)
		}
		r.Bus.Handed = 0
		r.receiver.fetch(t.Context(), r.Bus, one.Hint(), true)
		if r.Bus.Handed != 1 {
			t.Errorf("%d messages were read, want one", r.Bus.Handed)
		}
	})
}

// TestHeadLetsRoundsIn checks that rounds that wait for the lineage of an array are applied when a
// head has it.
func TestHeadLetsRoundsIn(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		r := newRig(t, k, nil)
		x := wire.Ref{Array: engine.ArrayCounts, Start: 7}
		from := r.Peer.Hint()
		r.Engine.Held = []engine.ArrayState{{Array: x.Array, Start: x.Start, Version: 9, Geometry: meshtest.Cells, Boot: 10}}
		r.Engine.Life = 1
		next := meshtest.Round(t, x, 9, 3)
		next.Announce, next.Lineage = false, nil // of a later process, whose lineage is unknown
		r.receiver.take(t.Context(),
			&incoming{m: &wire.Message{Kind: wire.KindDelta, From: from, Stamp: wire.Stamp{Incarnation: 1, Boot: 20, Seq: 1,
				At: 20}, Rounds: []wire.Round{next}}, size: 10})
		if len(r.Engine.Applied) != 0 || len(r.t.pending) != 1 {
			t.Fatalf("%d applied, %d wait", len(r.Engine.Applied), len(r.t.pending))
		}
		head := wire.ArrayHead{Ref: x, Version: next.To, Geometry: meshtest.Cells, Lineage: wire.Lineage{{Boot: 10, Base: 0},
			{Boot: 20, Base: 9}}}
		r.receiver.take(t.Context(),
			&incoming{m: &wire.Message{Kind: wire.KindHead, From: from, Stamp: wire.Stamp{Incarnation: 1, Boot: 20, Seq: 2,
				At: 21}, Heads: []wire.ArrayHead{head}}, size: 10})
		if len(r.Engine.Applied) != 1 || len(r.t.pending) != 0 {
			t.Errorf("after the head %d applied, %d wait; refused %v", len(r.Engine.Applied), len(r.t.pending),
				r.Entry().Refusals)
		}
		if len(r.Engine.Applied) == 1 {
			if p := r.Engine.Applied[0]; len(p) != 1 || p[0].From != 9 || p[0].To != next.To {
				t.Errorf("applied %+v", p)
			}
		}
	})
}

// TestWelcome checks that an added peer is greeted, and that its messages stored by brokers are
// read, unless this node counts no peers.
func TestWelcome(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		for _, role := range []member.Role{member.Both, member.Publish} {
			r := newRig(t, k, func(o *member.Options) { o.Role = role })
			from := r.Peer.Hint()
			k.Wipe()
			now := uint64(time.Now().UnixMilli())
			m := &wire.Message{Kind: wire.KindDelta, Stamp: wire.Stamp{Incarnation: now, Boot: now, Seq: 1, At: now}, From: from}
			k.Deltas = append(k.Deltas,
				meshtest.Stored{At: time.Now(), Topic: wire.Topic{Kind: wire.KindDelta, Origin: from},
					Data: wire.AppendMessage(nil, m, r.Peer)})
			for len(r.asked.hello) > 0 {
				<-r.asked.hello
			}
			r.receiver.Welcome(t.Context(), from)
			r.receiver.done.Wait()
			x, taken := r.receiver.in.take()
			if want := role == member.Both; taken != want || taken && x.from != from || (len(r.asked.hello) == 1) != want {
				t.Errorf("%s: read %v, greeted %d times", role, taken, len(r.asked.hello))
			}
		}
	})
}

// TestOrganisationsOfANewerHead checks that a head that another node repeats does not change the list of
// the organisations in a peer's arrays.
func TestOrganisationsOfANewerHead(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		r := newRig(t, k, nil)
		for _, tt := range []struct {
			life, boot, seq uint64
			taken           bool
		}{
			{5, 6, 2, true}, {5, 6, 2, false}, {5, 6, 1, false}, {5, 6, 3, true}, {4, 9, 9, false}, {6, 7, 1, true},
			{5, 8, 9, false},
		} {
			list := []wire.Organisation{{byte(tt.life), byte(tt.boot), byte(tt.seq)}}
			r.Figures(r.Peer.Hint(), func(s *member.Stats) { s.Organisations = nil })
			r.t.organisations(t.Context(), &wire.Message{Kind: wire.KindHead, Organisations: list,
				Stamp: wire.Stamp{Incarnation: tt.life, Boot: tt.boot, Seq: tt.seq}})
			if got := r.Entry().Organisations; slices.Equal(got, list) != tt.taken {
				t.Errorf("%+v: the list is %v", tt, got)
			}
		}
	})
}

// TestHeardFile checks that a damaged file of last messages is as good as none, and that one that cannot
// be read is an error.
func TestHeardFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, HeardFile)
	if list, err := ReadHeard(dir); list != nil || err != nil {
		t.Errorf("no file: %v, %v", list, err)
	}
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if list, err := ReadHeard(dir); list != nil || err == nil || !strings.Contains(err.Error(), HeardFile) {
		t.Errorf("damaged: %v, %v", list, err)
	}
	if err := errors.Join(os.Remove(path), os.Mkdir(path, 0o700)); err != nil {
		t.Fatal(err)
	}
	var at *fs.PathError
	if _, err := ReadHeard(dir); !errors.As(err, &at) {
		t.Errorf("a folder: %v", err)
	}
}
