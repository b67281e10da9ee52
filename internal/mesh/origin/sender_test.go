package origin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/member"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
	"github.com/bulkhead-mail/bulkhead/internal/testing/bubble"
	"github.com/bulkhead-mail/bulkhead/internal/testing/enginetest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/meshtest"
)

// TestNewLife checks that a new incarnation is above all incarnations that the node has signed and
// seen. There are only a few in a period, and none while another server uses the key.
func TestNewLife(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		r := newRig(t, k, nil)
		r.Engine.Mine = []engine.ArrayState{{Array: engine.ArrayCounts, Start: 7, Version: 3}, {Array: engine.ArraySpam,
			Start: 7}}
		now := uint64(time.Now().UnixMilli())
		for _, tt := range []struct{ life, boot, received, want uint64 }{
			{1, 2, 3, now}, {now - 1, now - 1, now - 1, now}, {now, 5, 6, now + 1}, {5, now + 20, 6, now + 21},
			{5, 6, now + 30, now + 31},
		} {
			s := r.State
			s.Incarnation, s.Boot, r.sender.renewals = tt.life, tt.boot, nil
			clear(r.sender.wanted)
			r.sender.renew("peer", tt.received)
			if s.Incarnation != tt.want || s.Boot <= tt.want || s.Boot > tt.want+1024 {
				t.Errorf("after life %d, boot %d, and %d that was heard: life %d, boot %d; want life %d", tt.life, tt.boot,
					tt.received, s.Incarnation, s.Boot, tt.want)
			}
			saved, err := member.LoadState(r.Options.Dir)
			if err != nil || saved.Incarnation != s.Incarnation || saved.Boot != s.Boot || len(saved.Arrays) != 2 ||
				len(saved.Arrays[0].Epochs) != 1 {
				t.Errorf("saved %+v, %v", saved, err)
			}
			if want := map[wire.Ref]wire.Hint{{Array: engine.ArrayCounts, Start: 7}: {}}; !maps.Equal(r.sender.wanted, want) {
				t.Errorf("images of %v are to be published, want %v", r.sender.wanted, want)
			}
		}
		r.sender.renewals = nil
		begun := func(want bool, what string) {
			t.Helper()
			before := r.State.Incarnation
			r.sender.renew("peer", 0)
			if got := r.State.Incarnation != before; got != want {
				t.Errorf("%s: a new life: %v, want %v", what, got, want)
			}
		}
		for range maxRenewals {
			begun(true, "one of few")
		}
		begun(false, "one more")
		bubble.Advance(renewRest)
		begun(false, "as long after as counts")
		bubble.Advance(time.Nanosecond)
		begun(true, "later")
		r.State.TwinAt = time.Now()
		begun(false, "beside a twin")
		bubble.Advance(member.TwinRest*r.Options.Heartbeat - 1)
		begun(false, "a while after the twin")
		bubble.Advance(time.Nanosecond)
		begun(true, "long after the twin")
	})
}

// TestImageMessages checks that images are sent in messages of a bounded size, each under the
// number of its first page, and all of them.
func TestImageMessages(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		r := newRig(t, k, func(o *member.Options) { o.MessageBytes = 100 })
		x := wire.Ref{Array: engine.ArraySpam, Start: 7}
		for _, tt := range []struct {
			sizes []int
			want  [][]int
		}{
			{nil, nil}, {[]int{500}, [][]int{{500}}}, {[]int{50, 50}, [][]int{{50, 50}}}, {[]int{50, 51}, [][]int{{50}, {51}}},
			{[]int{30, 30, 30, 30, 200, 10}, [][]int{{30, 30, 30}, {30}, {200}, {10}}}, {[]int{0, 0, 101}, [][]int{{0, 0, 101}}},
		} {
			r.Engine.Pages, r.Bus.Sent = nil, nil
			sum, pages := 0, r.sender.Sent().Pages
			for _, n := range tt.sizes {
				r.Engine.Pages = append(r.Engine.Pages,
					engine.Part{Array: x.Array, Start: x.Start, Geometry: meshtest.Bits, Image: make([]byte, n)})
				sum += n
			}
			a := &ownArray{image: 5, since: 6}
			if err := r.sender.image(t.Context(), x, a); err != nil {
				t.Fatal(err)
			}
			var got [][]int
			first := 0
			for i, q := range r.Bus.Sent {
				if want := fmt.Sprintf("1-7-%d", first); q.Topic != (wire.Topic{Kind: wire.KindImage,
					Origin: r.Options.Identity.Hint(), Key: want}) {
					t.Errorf("%v: message %d is under %+v, want key %s", tt.sizes, i, q.Topic, want)
				}
				m, err := meshtest.Parse(q.Data, enginetest.Secret.ID())
				if err != nil {
					t.Fatal(err)
				}
				if m.Image.Ref != x || m.Image.At != 77 || m.Image.Geometry != meshtest.Bits || len(m.Image.Lineage) != 1 {
					t.Errorf("image %+v", m.Image)
				}
				var sizes []int
				for _, page := range m.Image.Pages {
					sizes = append(sizes, len(page))
				}
				got, first = append(got, sizes), first+len(sizes)
			}
			if !reflect.DeepEqual(got, tt.want) || a.image != sum || a.since != 0 ||
				r.sender.Sent().Pages-pages != uint64(len(tt.sizes)) {
				t.Errorf("pages of %v bytes go out as %v, %d bytes, %d since; want %v", tt.sizes, got, a.image, a.since, tt.want)
			}
		}
		r.Bus.Sent = nil
		r.Engine.Pages = make([]engine.Part, wire.MaxParts+1)
		for i := range r.Engine.Pages {
			r.Engine.Pages[i].Geometry = meshtest.Bits
		}
		if err := r.sender.image(t.Context(), x, &ownArray{}); err != nil || len(r.Bus.Messages(t)) != 2 {
			t.Errorf("one page more than a message holds: %v", err)
		}
		r.Engine.ImagesErr = bulkhead.ErrReadOnly
		if err := r.sender.image(t.Context(), x, &ownArray{}); !errors.Is(err, bulkhead.ErrReadOnly) {
			t.Errorf("images that there are not: %v", err)
		}
		r.Engine.ImagesErr = bulkhead.ErrMalformed
		if a := (&ownArray{image: 5}); r.sender.image(t.Context(), x, a) != nil || a.image != 5 || len(r.Bus.Sent) > 0 {
			t.Error("an array that has expired is published")
		}
	})
}

// TestImagesRest checks that repeatedly requested images are sent at limited intervals, and charged
// to the requesting peer; outdated ones are sent unasked.
func TestImagesRest(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		r := newRig(t, k, nil)
		x, h := wire.Ref{Array: engine.ArraySpam, Start: 7}, r.Peer.Hint()
		r.Engine.Pages = []engine.Part{{Array: x.Array, Start: x.Start, Geometry: meshtest.Bits, Image: make([]byte, 1000)}}
		sent := func() int {
			r.Bus.Sent = nil
			r.sender.images(t.Context())
			return len(r.Bus.Sent)
		}
		served := func() uint64 { return r.Entry().Served }
		r.sender.needs(x, h)
		r.sender.needs(x, wire.Hint{9}) // too late: the first is charged
		if n := sent(); n != 1 || served() != 1000 || len(r.sender.wanted) != 0 {
			t.Errorf("%d messages, %d bytes served", n, served())
		}
		if a := r.sender.arrays[x]; a == nil || a.image != 1000 || !a.imaged.Equal(time.Now()) {
			t.Errorf("noted: %+v", a)
		}
		r.sender.needs(x, h)
		bubble.Advance(imageRest - 1)
		if n := sent(); n != 0 || len(r.sender.wanted) != 1 {
			t.Errorf("%d messages too soon", n)
		}
		bubble.Advance(time.Nanosecond)
		if n := sent(); n != 1 || served() != 2000 {
			t.Errorf("%d messages after a rest, %d bytes served", n, served())
		}
		a := r.sender.arrays[x]
		// Large images may be on their way to the peer that asked. Another one gets them after a short rest.
		a.image = 60_000
		r.sender.needs(x, h)
		bubble.Advance(imageRest)
		if n := sent(); n != 0 {
			t.Errorf("%d messages while images are on their way", n)
		}
		r.sender.needs(x, wire.Hint{9})
		if n := sent(); n != 1 || len(r.sender.wanted) != 0 {
			t.Errorf("%d messages for another peer", n)
		}
		for _, tt := range []struct {
			since, image int
			want         int
		}{{refreshLeast, 0, 0}, {refreshLeast + 1, 0, 1}, {refreshLeast + 4, refreshLeast/4 + 1, 0},
			{refreshLeast + 5, refreshLeast/4 + 1, 1}} {
			bubble.Advance(longRest)
			a.since, a.image = tt.since, tt.image
			if n := sent(); n != tt.want {
				t.Errorf("%d bytes of rounds after images of %d: %d messages, want %d", tt.since, tt.image, n, tt.want)
			}
		}
		if served() != 2000 {
			t.Errorf("%d bytes served: what nobody asked for is charged", served())
		}
		// Rounds that were requested too soon are sent after a rest, or images in their place.
		x2 := wire.Ref{Array: engine.ArrayCounts, Start: 7}
		one := meshtest.Round(t, x2, 4, 1)
		*a = ownArray{imaged: time.Now()}
		r.sender.arrays[x2] = &ownArray{rounds: []wire.Round{one}, resent: time.Now(), resentRest: imageRest,
			due: true, dueFrom: 4, dueTo: h}
		if n := sent(); n != 0 {
			t.Errorf("%d messages: rounds go out again too soon", n)
		}
		bubble.Advance(imageRest)
		if n := sent(); n != 1 || r.sender.arrays[x2].due {
			t.Errorf("%d messages after a rest, due %v", n, r.sender.arrays[x2].due)
		}
		r.sender.arrays[x2] = &ownArray{rounds: []wire.Round{one}, due: true, dueFrom: 2, dueTo: h}
		if n := sent(); n != 1 || r.sender.arrays[x2].due || served() != 2000+uint64(len(one.Data))+1000 {
			t.Errorf("%d messages of rounds that are gone, %d bytes served", n, served())
		}
	})
}

// TestSentAgain checks that the held rounds since a version are sent again together, announced, and
// at limited intervals.
func TestSentAgain(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		r := newRig(t, k, nil)
		x, h := wire.Ref{Array: engine.ArrayCounts, Start: 7}, r.Peer.Hint()
		var rounds []wire.Round
		at := uint64(10)
		for range 4 {
			one := meshtest.Round(t, x, at, 3)
			one.Announce, one.Boot = false, 0
			rounds, at = append(rounds, one), one.To
		}
		size := len(rounds[0].Data)
		again := func(version uint64, limit int) (ok bool, messages [][]uint64) {
			t.Helper()
			r.Options.MessageBytes = limit
			ok = r.sender.resend(x, version, h)
			for _, m := range r.Bus.Messages(t) {
				var from []uint64
				for i, x := range m.Rounds {
					from = append(from, x.From)
					if x.Announce != (i == 0) {
						t.Errorf("round %d of a message is announced: %v", i, x.Announce)
					}
				}
				messages = append(messages, from)
			}
			return ok, messages
		}
		if ok, sent := again(10, 1<<20); ok || sent != nil {
			t.Errorf("of an array that is not there: %v, %v", ok, sent)
		}
		a := &ownArray{}
		r.sender.arrays[x] = a
		if ok, sent := again(10, 1<<20); ok || sent != nil {
			t.Errorf("of an array without rounds: %v, %v", ok, sent)
		}
		a.rounds = rounds
		for _, tt := range []struct {
			version uint64
			limit   int
			ok      bool
			want    [][]uint64
		}{
			{22, 1 << 20, true, nil}, {11, 1 << 20, false, nil}, {9, 1 << 20, false, nil}, {23, 1 << 20, false, nil},
			{10, 1 << 20, true, [][]uint64{{10, 13, 16, 19}}}, {19, 1 << 20, true, [][]uint64{{19}}},
			{10, 2 * size, true, [][]uint64{{10, 13}, {16, 19}}}, {13, 2*size - 1, true, [][]uint64{{13}, {16}, {19}}},
			{10, 3 * size, true, [][]uint64{{10, 13, 16}, {19}}}, {10, 1, true, [][]uint64{{10}, {13}, {16}, {19}}},
		} {
			bubble.Advance(imageRest)
			r.sender.draws[h] = &draw{left: 1e6}
			served := r.Entry().Served
			ok, sent := again(tt.version, tt.limit)
			if ok != tt.ok || !reflect.DeepEqual(sent, tt.want) {
				t.Errorf("since %d, %d bytes a message: %v, %v; want %v, %v", tt.version, tt.limit, ok, sent, tt.ok, tt.want)
			}
			bytes := 0
			for _, m := range sent {
				bytes += size * len(m)
			}
			if got := r.Entry().Served - served; got != uint64(bytes) || r.sender.draws[h].left != 1e6-float64(bytes) {
				t.Errorf("%d bytes served, %.0f are left; want %d", got, r.sender.draws[h].left, bytes)
			}
		}
		bubble.Advance(imageRest)
		if ok, sent := again(16, 1<<20); !ok || len(sent) != 1 {
			t.Errorf("since 16: %v, %v", ok, sent)
		}
		// Rounds that have just been sent are on their way; earlier ones are due after a rest.
		for _, tt := range []struct{ version, from uint64 }{{16, 0}, {19, 0}, {13, 13}, {10, 10}, {13, 10}, {19, 10}} {
			ok, sent := again(tt.version, 1<<20)
			if !ok || sent != nil || a.due != (tt.from > 0) || a.due && (a.dueFrom != tt.from || a.dueTo != h) {
				t.Errorf("again at once since %d: %v, %v, due %v from %d, want %d", tt.version, ok, sent, a.due, a.dueFrom, tt.from)
			}
		}
		bubble.Advance(imageRest - 1)
		if ok, sent := again(10, 1<<20); !ok || sent != nil {
			t.Errorf("too soon: %v, %v", ok, sent)
		}
		bubble.Advance(time.Nanosecond)
		if ok, sent := again(10, 1<<20); !ok || len(sent) != 1 || a.due {
			t.Errorf("after a rest: %v, %v, due %v", ok, sent, a.due)
		}
		bubble.Advance(imageRest)
		r.Bus.Max = 100
		r.sender.history = 1 << 20
		if ok, _ := again(10, 1<<20); ok || len(a.rounds) != 0 {
			t.Errorf("rounds that the broker does not take: %v, %d are held", ok, len(a.rounds))
		}
		r.Bus.Max = 0
		many := make([]wire.Round, wire.MaxParts+1)
		for i := range many {
			many[i] = wire.Round{Ref: x, From: uint64(i), To: uint64(i) + 1, Geometry: meshtest.Cells,
				Lineage: wire.Lineage{{Boot: r.State.Boot, Base: 0}}}
		}
		r.sender.again(many)
		if got := r.Bus.Messages(t); len(got) != 2 || len(got[0].Rounds) != wire.MaxParts || len(got[1].Rounds) != 1 ||
			!got[1].Rounds[0].Announce {
			t.Errorf("more rounds than a message holds: %d messages", len(got))
		}
	})
}

// TestOutbox checks that deltas for a disconnected broker wait, up to a limit, and are sent in
// order; a message that the broker never accepts is dropped.
func TestOutbox(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		r := newRig(t, k, nil)
		s, x := r.sender, wire.Ref{Array: engine.ArrayCounts, Start: 7}
		delta := func(size int) *wire.Message {
			one := wire.Round{Ref: x, From: 1, To: 2, Geometry: meshtest.Cells, Data: make([]byte, size),
				Lineage: wire.Lineage{{Boot: r.State.Boot, Base: 0}}}
			return &wire.Message{Kind: wire.KindDelta, Rounds: []wire.Round{one}}
		}
		away := errors.New("away")
		r.Bus.Err = away
		s.send(wire.Topic{Kind: wire.KindHead, Origin: s.own().Origin}, &wire.Message{Kind: wire.KindHead})
		if len(s.outbox[0].queue) != 0 || s.dropped.Load() != 1 || s.published.Load() != 1 || s.bytes.Load() == 0 {
			t.Errorf("a head: %d wait, %d dropped", len(s.outbox[0].queue), s.dropped.Load())
		}
		bytes := 0
		for n := range 3 {
			s.send(s.own(), delta(100))
			bytes += len(s.outbox[0].queue[n].msg)
			if len(s.outbox[0].queue) != n+1 || s.outbox[0].bytes != bytes || s.dropped.Load() != 1 {
				t.Errorf("delta %d: %d wait, %d bytes of %d, %d dropped", n, len(s.outbox[0].queue), s.outbox[0].bytes, bytes,
					s.dropped.Load())
			}
		}
		if s.flush(); len(s.outbox[0].queue) != 3 {
			t.Errorf("%d wait, after a broker that is away was tried", len(s.outbox[0].queue))
		}
		r.Bus.Err = nil
		// would arrive before the deltas
		s.send(wire.Topic{Kind: wire.KindHead, Origin: s.own().Origin}, &wire.Message{Kind: wire.KindHead})
		s.send(s.own(), delta(100))
		if len(r.Bus.Sent) != 0 || len(s.outbox[0].queue) != 4 {
			t.Errorf("%d sent before those that wait, of which there are %d", len(r.Bus.Sent), len(s.outbox[0].queue))
		}
		s.flush()
		var seqs []uint64
		for _, m := range r.Bus.Messages(t) {
			seqs = append(seqs, m.Stamp.Seq)
		}
		if !slices.Equal(seqs, []uint64{2, 3, 4, 6}) || s.outbox[0].bytes != 0 || len(s.outbox[0].queue) != 0 {
			t.Errorf("messages %v are sent, %d bytes wait", seqs, s.outbox[0].bytes)
		}
		if s.send(s.own(), delta(1)); len(r.Bus.Sent) != 1 {
			t.Error("a delta waits though the broker is there")
		}
		r.Bus.Err, r.Bus.Sent = away, nil
		dropped := s.dropped.Load()
		for range 3 {
			s.send(s.own(), delta(maxOutbox/2-300))
		}
		if len(s.outbox[0].queue) != 2 || s.outbox[0].bytes > maxOutbox || s.dropped.Load() != dropped+1 {
			t.Errorf("%d wait, %d bytes, %d dropped; want the two that fit", len(s.outbox[0].queue), s.outbox[0].bytes,
				s.dropped.Load()-dropped)
		}
		s.send(s.own(), delta(maxOutbox+1))
		if len(s.outbox[0].queue) != 0 || s.outbox[0].bytes != 0 || s.dropped.Load() != dropped+4 {
			t.Errorf("%d wait, %d bytes; want nothing beside one that is too large", len(s.outbox[0].queue), s.outbox[0].bytes)
		}
		// For a message that the broker never accepts, the rounds are dropped, at once or after
		// waiting.
		for _, waits := range []bool{false, true} {
			r.Bus.Err, r.Bus.Max = nil, 500
			if waits {
				r.Bus.Err = away
				r.Bus.Max = 0
			}
			m := delta(1000)
			s.arrays[x], s.order, s.history = nil, nil, 0
			s.remember(&m.Rounds[0])
			small := delta(10)
			s.send(s.own(), m)
			s.send(s.own(), small)
			before := s.dropped.Load()
			if waits {
				r.Bus.Err, r.Bus.Max = nil, 500
				s.flush()
				before++
			}
			if len(s.arrays[x].rounds) != 0 || s.history != 0 || s.dropped.Load() != before || len(s.outbox[0].queue) != 0 ||
				s.outbox[0].bytes != 0 || len(r.Bus.Messages(t)) != 1 {
				t.Errorf("waits %v: %d rounds, history %d, %d dropped, %d wait", waits, len(s.arrays[x].rounds), s.history,
					s.dropped.Load()-before, len(s.outbox[0].queue))
			}
		}
	})
}

// TestTooLarge checks that a message that the broker never accepts is logged once.
func TestTooLarge(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		r := newRig(t, k, nil)
		for range 3 {
			r.sender.tooLarge(1000, nil)
		}
		if n := strings.Count(r.Log.String(), "message too large for the broker"); n != 1 || r.sender.Sent().Dropped != 3 {
			t.Errorf("%d lines in the log for %d messages", n, r.sender.Sent().Dropped)
		}
	})
}

// TestRemembered checks that the last rounds of each array are held without a gap and in bounded
// memory, and that the first round of an array has its geometry.
func TestRemembered(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		s := newRig(t, k, nil).sender
		x, y := wire.Ref{Array: engine.ArrayCounts, Start: 7}, wire.Ref{Array: engine.ArraySpam, Start: 7}
		add := func(x wire.Ref, from, to uint64, size int) bool {
			r := wire.Round{Ref: x, Geometry: meshtest.Cells, From: from, To: to, Data: make([]byte, size)}
			s.remember(&r)
			return r.Announce
		}
		held := func(x wire.Ref) (out []uint64) {
			for _, r := range s.arrays[x].rounds {
				out = append(out, r.From)
			}
			return out
		}
		for i, want := range []bool{true, false, false} {
			if got := add(x, uint64(10+i), uint64(11+i), 5); got != want {
				t.Errorf("round %d is announced: %v", i, got)
			}
		}
		if !add(x, 0, 1, 5) {
			t.Error("the first round of all is not announced")
		}
		if got := held(x); !slices.Equal(got, []uint64{0}) || s.history != wire.RoundCost+5 || s.arrays[x].since != 20 {
			t.Errorf("after a gap %v are held, %d bytes, %d since", got, s.history, s.arrays[x].since)
		}
		const half = maxHistory/2 - wire.RoundCost
		s.order, s.history, s.arrays = nil, 0, make(map[wire.Ref]*ownArray)
		add(x, 0, 1, half)
		add(y, 0, 1, half)
		if s.history != maxHistory || len(held(x)) != 1 || len(held(y)) != 1 {
			t.Errorf("%d bytes, %v, %v: what may be held is not", s.history, held(x), held(y))
		}
		add(y, 1, 2, 0)
		if got := held(x); len(got) != 0 || !slices.Equal(held(y), []uint64{0, 1}) ||
			s.history != maxHistory/2+wire.RoundCost || len(s.order) != 2 {
			t.Errorf("one more: %v, %v, %d bytes, %d in order", got, held(y), s.history, len(s.order))
		}
		// A round that a gap dropped keeps its place in the order.
		s.order, s.history, s.arrays = nil, 0, make(map[wire.Ref]*ownArray)
		add(x, 0, 1, 0)
		add(x, 5, 6, 0)
		if got := held(x); !slices.Equal(got, []uint64{5}) {
			t.Errorf("after a gap behind one round %v are held", got)
		}
		add(y, 0, 1, half)
		add(y, 1, 2, half)
		add(y, 2, 3, half)
		if got := held(y); len(held(x)) != 0 || !slices.Equal(got, []uint64{1, 2}) || s.history != maxHistory {
			t.Errorf("after a gap: %v, %v, %d bytes", held(x), got, s.history)
		}
	})
}

// TestHeads checks that a head lists the non-empty arrays with their lineage, and the start of the
// kept generations. If there are too many for a message, it lists the newest. A node that shares
// nothing reports that.
func TestHeads(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		for _, role := range []member.Role{member.Both, member.Subscribe, member.Publish} {
			r := newRig(t, k, func(o *member.Options) { o.Role, o.Name = role, "post.example" })
			r.Engine.Oldest = 5
			r.Engine.Mine = []engine.ArrayState{{Array: engine.ArrayCounts, Start: 7, Version: 3, Geometry: meshtest.Cells},
				{Array: engine.ArraySpam, Start: 7, Geometry: meshtest.Bits},
				{Array: engine.ArraySpam, Start: 6, Version: 1, Geometry: meshtest.Bits}}
			live, gone := wire.Ref{Array: engine.ArrayCounts, Start: 7}, wire.Ref{Array: engine.ArrayCounts, Start: 1}
			for _, x := range []wire.Ref{live, gone} {
				r.sender.remember(&wire.Round{Ref: x, From: 1, To: 2, Data: []byte{1}})
			}
			r.sender.headDue = true
			r.sender.head(t.Context())
			sent := r.Bus.Messages(t)
			m := sent[len(sent)-1]
			if m.Kind != wire.KindHead || m.Name != "post.example" || r.sender.headDue || !r.sender.headed.Equal(time.Now()) {
				t.Errorf("%s: %c %q, due %v", role, m.Kind, m.Name, r.sender.headDue)
			}
			if role == member.Subscribe {
				if m.Floors != [2]uint64{wire.AllExpired, wire.AllExpired} || len(m.Heads) != 0 {
					t.Errorf("who tells nothing: %+v", m)
				}
				continue
			}
			if m.Floors != [2]uint64{5, 5} || len(m.Heads) != 2 || m.Heads[0].Ref != live || m.Heads[0].Version != 3 ||
				m.Heads[1].Ref != (wire.Ref{Array: engine.ArraySpam, Start: 6}) || len(m.Heads[0].Lineage) != 1 {
				t.Errorf("%s: %+v", role, m)
			}
			if len(r.sender.arrays) != 1 || r.sender.arrays[live] == nil || r.sender.history != wire.RoundCost+1 ||
				!slices.Equal(r.sender.order, []wire.Ref{live}) {
				t.Errorf("%s: %d arrays, %d bytes, %v are remembered", role, len(r.sender.arrays), r.sender.history, r.sender.order)
			}
			r.Engine.Mine = nil
			for start := range uint64(wire.MaxParts) {
				r.Engine.Mine = append(r.Engine.Mine,
					engine.ArrayState{Array: engine.ArraySpam, Start: 1000 + start, Version: 1, Geometry: meshtest.Bits})
			}
			r.sender.head(t.Context())
			if m = r.Bus.Messages(t)[0]; len(m.Heads) != wire.MaxParts || m.Floors != [2]uint64{5, 5} {
				t.Errorf("as many arrays as a head names: %d, floors %v", len(m.Heads), m.Floors)
			}
			r.Engine.Mine = append(r.Engine.Mine, engine.ArrayState{Array: engine.ArrayCounts, Start: 9, Version: 1,
				Geometry: meshtest.Cells},
				engine.ArrayState{Array: engine.ArraySpam, Start: 990, Version: 1, Geometry: meshtest.Bits},
				engine.ArrayState{Array: engine.ArraySpam, Start: 995, Version: 1, Geometry: meshtest.Bits})
			r.sender.head(t.Context())
			if m = r.Bus.Messages(t)[0]; len(m.Heads) != wire.MaxParts || m.Floors != [2]uint64{10, 996} ||
				m.Heads[wire.MaxParts-1].Start != 1000 {
				t.Errorf("three more: %d, floors %v, the last is %d", len(m.Heads), m.Floors, m.Heads[wire.MaxParts-1].Start)
			}
		}
		r := newRig(t, k, nil)
		for _, tt := range []struct {
			wait time.Duration
			want int
			due  bool
		}{{time.Hour, 1, false}, {0, 0, true}, {member.HeadRest - 1, 0, true}, {1, 1, false}} {
			bubble.Advance(tt.wait)
			r.sender.headSoon(t.Context())
			if n := len(r.Bus.Messages(t)); n != tt.want || r.sender.headDue != tt.due {
				t.Errorf("%v later: %d heads, due %v", tt.wait, n, r.sender.headDue)
			}
		}
	})
}

// TestDeltas checks that adds to arrays are sent in their order, in messages of a bounded size.
func TestDeltas(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		r := newRig(t, k, func(o *member.Options) { o.MessageBytes = 100 })
		part := func(a engine.Array, start, from uint64, size int) engine.Part {
			g := meshtest.Bits
			if a == engine.ArrayCounts {
				g = meshtest.Cells
			}
			return engine.Part{Array: a, Start: start, From: from, To: from + 1, Geometry: g, Round: make([]byte, size)}
		}
		r.Engine.Taken = []engine.Part{part("spam", 8, 0, 40), part("counts", 8, 1, 60), part("counts", 8, 0, 40),
			part("counts", 7, 0, 1), part("spam", 8, 1, 61)}
		r.sender.publish(t.Context())
		var got []string
		for _, m := range r.Bus.Messages(t) {
			text := ""
			for _, x := range m.Rounds {
				text += fmt.Sprint(x.Array, x.Start, x.From, len(x.Data), " ")
			}
			got = append(got, text)
		}
		want := []string{"counts7 0 1 counts8 0 40 ", "counts8 1 60 spam8 0 40 ", "spam8 1 61 "}
		for i := range want {
			want[i] = strings.ReplaceAll(want[i], " ", "")
		}
		for i := range got {
			got[i] = strings.ReplaceAll(got[i], " ", "")
		}
		if !slices.Equal(got, want) || r.sender.Sent().Rounds != 5 || r.sender.Sent().Messages != 3 {
			t.Errorf("sent %q, want %q; %d rounds in %d messages", got, want, r.sender.Sent().Rounds, r.sender.Sent().Messages)
		}
		if held := r.sender.arrays[wire.Ref{Array: engine.ArrayCounts, Start: 8}]; held == nil || len(held.rounds) != 2 {
			t.Errorf("held for peers that miss them: %+v", held)
		}
		if r.sender.publish(t.Context()); len(r.Bus.Sent) != 0 {
			t.Error("nothing was taken, and sent")
		}
		// A failure is logged, except a full disk, which the node reports elsewhere.
		r.Engine.Mine = []engine.ArrayState{{Array: engine.ArraySpam, Start: 8, Version: 1}}
		for _, err := range []error{bulkhead.ErrReadOnly, errBroken} {
			r.Engine.TakenErr, r.Engine.Taken = err, []engine.Part{part("spam", 8, 0, 40)}
			r.Log.Reset()
			own := r.sender.publish(t.Context())
			if logged := r.Log.Len() > 0; len(own) != 1 || len(r.Bus.Sent) != 0 || logged != (err == errBroken) {
				t.Errorf("%v: %d sent, states %v, log %q", err, len(r.Bus.Sent), own, r.Log)
			}
		}
	})
}

// TestSmallRounds checks that a sender's stored rounds are bounded even if all are small, and are
// dropped with their arrays.
func TestSmallRounds(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		r := newRig(t, k, nil)
		s := r.sender
		r.Engine.Mine = []engine.ArrayState{}
		const n = 200_000
		for i := range uint64(n) {
			s.remember(&wire.Round{Ref: wire.Ref{Array: engine.ArrayCounts, Start: 7}, From: i, To: i + 1, Data: make([]byte,
				20)})
		}
		if kept, limit := len(s.arrays[wire.Ref{Array: engine.ArrayCounts,
			Start: 7}].rounds), maxHistory/wire.RoundCost; kept == 0 || kept > limit {
			t.Errorf("%d rounds are kept, want 1 to %d", kept, limit)
		}
		s.head(context.Background()) // generation 7 is dropped
		if len(s.arrays)+len(s.order)+s.history > 0 {
			t.Errorf("%d arrays, %d rounds, %d bytes are kept of what has expired", len(s.arrays), len(s.order), s.history)
		}
	})
}

// TestRestAfter checks that rounds and images rest for as long as a slow link needs for them, between two
// bounds.
func TestRestAfter(t *testing.T) {
	for bytes, want := range map[int]time.Duration{0: imageRest, 4000: imageRest, 8000: 4 * time.Second,
		60_000: longRest, 1 << 30: longRest} {
		if got := restAfter(bytes); got != want {
			t.Errorf("%d bytes rest for %v, want %v", bytes, got, want)
		}
	}
}
