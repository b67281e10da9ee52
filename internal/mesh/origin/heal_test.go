package origin

import (
	"context"
	"errors"
	"fmt"
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
	"github.com/bulkhead-mail/bulkhead/internal/testing/enginetest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/meshtest"
)

var (
	// many is the shape of an array of 40 pages.
	many        = filter.Geometry{Kind: filter.Bitmap, Lines: 40 * filter.PageLines, K: 8, KeyID: enginetest.Secret.ID()}
	spam        = wire.Ref{Array: engine.ArraySpam, Start: 7}
	revocations = wire.Ref{Array: engine.ArrayRevoked, Start: 7}

	errBroken = errors.New("broken")
)

// lost returns pages of an array as the engine reports them.
func lost(x wire.Ref, from, to int) (out []engine.Wound) {
	for page := from; page < to; page++ {
		out = append(out, engine.Wound{Array: x.Array, Start: x.Start, Page: page, Geometry: many})
	}
	return out
}

// numbers returns the numbers from, from+1, and so on up to to-1.
func numbers(from, to uint64) (out []uint64) {
	for page := from; page < to; page++ {
		out = append(out, page)
	}
	return out
}

// asks returns the pages that the published messages ask for, by array.
func (r *rig) asks(t *testing.T) (out []string) {
	t.Helper()
	for _, m := range r.Bus.Messages(t) {
		if m.Kind != wire.KindPages || m.Lost.Geometry != many {
			t.Errorf("a message of kind %q about %v", byte(m.Kind), m.Lost.Geometry)
		}
		out = append(out, fmt.Sprint(m.Lost.Ref, m.Lost.List))
	}
	return out
}

// wantAsks checks the pages that were asked for since the last call.
func (r *rig) wantAsks(t *testing.T, what string, want ...string) {
	t.Helper()
	if got := r.asks(t); !slices.Equal(got, want) {
		t.Errorf("%s: asked for %q, want %q", what, got, want)
	}
}

// TestStart checks that a node whose store was salvaged publishes nothing until its pages are back, and
// that every other node begins at once: in a new incarnation unless its arrays are whole.
func TestStart(t *testing.T) {
	one := lost(spam, 3, 4)
	for name, tt := range map[string]struct {
		missing                   engine.Wounds
		role                      member.Role
		first                     bool // the node has had no incarnation
		healing, renewed, forgets bool
	}{
		"nothing is lost":       {renewed: true},
		"pages are lost":        {missing: engine.Wounds{Store: "old", Pages: one}, healing: true},
		"pages of a spam trap":  {missing: engine.Wounds{Store: "old", Pages: one}, role: member.Publish, healing: true},
		"all that was shared":   {missing: engine.Wounds{Store: "old", Whole: true}, forgets: true},
		"what cannot come back": {missing: engine.Wounds{Store: "old"}, renewed: true, forgets: true},
		"pages of another store": {missing: engine.Wounds{Store: "older", Whole: true, Pages: one}, renewed: true,
			forgets: true},
		"pages of a subscriber": {missing: engine.Wounds{Store: "old", Whole: true, Pages: one}, role: member.Subscribe,
			renewed: true, forgets: true},
		"before it ever shared": {missing: engine.Wounds{Store: "old", Whole: true, Pages: one}, first: true, renewed: true,
			forgets: true},
		"nothing of a subscriber": {role: member.Subscribe, renewed: true},
	} {
		meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
			r := newRig(t, k, func(o *member.Options) { o.Store, o.Role = "new", tt.role })
			r.State.Store, r.Engine.Missing = "old", tt.missing
			if tt.first {
				r.State.Incarnation = 0
			}
			before := r.State.Boot
			if err := r.sender.Start(t.Context()); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if r.sender.Healing() != tt.healing || r.sender.renewed != tt.renewed || (r.State.Boot == before) != tt.healing {
				t.Errorf("%s: healing %v, renewed %v, boot %d after %d", name, r.sender.Healing(), r.sender.renewed,
					r.State.Boot, before)
			}
			if got := r.Engine.Ended > 0; got != tt.forgets {
				t.Errorf("%s: the lost pages are given up: %v, want %v", name, got, tt.forgets)
			}
			records := tt.role != member.Subscribe && !tt.healing
			if err := r.sender.Record(t.Context()); err != nil || (r.Engine.Recorded == 1) != records {
				t.Errorf("%s: %d times recorded, %v; want %v", name, r.Engine.Recorded, err, records)
			}
			if r.Engine.RecordErr = errBroken; records {
				if err := r.sender.Record(t.Context()); !errors.Is(err, errBroken) {
					t.Errorf("%s: error %v, want the engine's", name, err)
				}
			}
			r.Engine.MissingErr = errBroken
			if err := r.sender.Start(t.Context()); !errors.Is(err, errBroken) {
				t.Errorf("%s: error %v, want the engine's", name, err)
			}
		})
	}
}

// TestTreat checks which pages are requested from which peer, and when again.
func TestTreat(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		r := newRig(t, k, nil)
		s, h := r.sender, r.Peer.Hint()
		r.Engine.Lose(slices.Concat(lost(spam, 0, 20), lost(revocations, 5, 6)))
		c := newCure(time.Now())
		s.treat(t.Context(), c)
		first := fmt.Sprint(spam, numbers(0, 16))
		r.wantAsks(t, "at first", first)
		bubble.Advance(healWait - 1)
		s.treat(t.Context(), c)
		r.wantAsks(t, "before an answer")
		bubble.Advance(1)
		s.treat(t.Context(), c)
		r.wantAsks(t, "without an answer", first)
		// An answer about some pages: the next request is for the others.
		c.answered[h] = make(map[lostPage]bool)
		for page := range uint64(18) {
			c.answered[h][lostPage{spam, page}] = true
		}
		delete(c.asked, h)
		s.treat(t.Context(), c)
		r.wantAsks(t, "after an answer", fmt.Sprint(spam, numbers(18, 20)))
		c.answered[h][lostPage{spam, 18}], c.answered[h][lostPage{spam, 19}] = true, true
		delete(c.asked, h)
		s.treat(t.Context(), c)
		r.wantAsks(t, "of another array", fmt.Sprint(revocations, numbers(5, 6)))

		// A second peer is asked for other pages first.
		if err := r.AddPeer(t.Context(), meshtest.Identity(t).ID(), "second", 1); err != nil {
			t.Fatal(err)
		}
		c = newCure(time.Now())
		s.treat(t.Context(), c)
		r.wantAsks(t, "of two peers", first, fmt.Sprint(spam, append(numbers(10, 20), numbers(0, 6)...)))

		r.Engine.Lose(nil)
		if c = newCure(time.Now()); !s.treat(t.Context(), c) || c.reading {
			t.Error("not over though nothing is missing")
		}
		r.Engine.MissingErr = errBroken
		if s.treat(t.Context(), newCure(time.Now())) {
			t.Error("healing is over though the engine does not answer")
		}
		r.wantAsks(t, "without the engine's answer")
	})
}

// TestGivenUp checks how long a node waits for pages that do not come.
func TestGivenUp(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		r := newRig(t, k, nil)
		s, h, beat := r.sender, r.Peer.Hint(), r.Options.Heartbeat
		r.Engine.Lose(lost(spam, 3, 4))
		answer := func(c *cure) {
			delete(c.asked, h)
			c.answered[h] = map[lostPage]bool{{spam, 3}: true}
		}
		over := func(c *cure, want bool, what string) {
			t.Helper()
			if got := s.treat(t.Context(), c); got != want {
				t.Errorf("%s: over %v, want %v", what, got, want)
			}
			synctest.Wait()
			for len(c.reads) > 0 {
				s.remind(t.Context(), c, <-c.reads)
			}
		}
		c := newCure(time.Now())
		over(c, false, "at first")
		if c.reading || len(c.read) != 0 {
			t.Error("the broker is read before the peers have answered")
		}
		bubble.Advance(healBeats*beat - 1)
		over(c, false, "after nearly 20 heartbeats without an answer")
		if len(c.read) != 1 {
			t.Error("the broker is not read")
		}
		bubble.Advance(1)
		over(c, true, "after 20 heartbeats without an answer")

		c = newCure(time.Now())
		answer(c)
		over(c, false, "answered at once")
		if len(c.read) != 1 {
			t.Error("the broker is not read after all have answered")
		}
		bubble.Advance(beat - 1)
		if over(c, false, "before a heartbeat"); len(c.answered) != 1 {
			t.Error("asked again before a heartbeat has passed")
		}
		bubble.Advance(1)
		if over(c, false, "after a heartbeat"); len(c.answered) != 0 || !c.again.Equal(time.Now()) {
			t.Error("not asked again after a heartbeat")
		}
		answer(c)
		bubble.Advance((healHeard-1)*beat - 1)
		over(c, false, "after nearly four heartbeats")
		answer(c)
		bubble.Advance(1)
		c.reading = true
		over(c, false, "while a broker is read")
		c.reading = false
		answer(c)
		over(c, true, "after four heartbeats")

		c = newCure(time.Now())
		r.Bus.Set(false)
		bubble.Advance(time.Hour)
		if over(c, false, "without a connection"); !c.last.Equal(time.Now()) || len(c.read) != 0 {
			t.Error("the time without a connection counts")
		}
		r.Bus.Set(true)
		if err := r.EvictPeer(t.Context(), r.Peer.ID()); err != nil {
			t.Fatal(err)
		}
		c = newCure(time.Now())
		c.read[r.Bus] = true
		over(c, true, "without peers")
	})
}

// TestEndOfHealing checks that a node goes on in its incarnation only if nothing is missing, and that
// it then looks at what has waited.
func TestEndOfHealing(t *testing.T) {
	for name, tt := range map[string]struct {
		missing engine.Wounds
		renewed bool
	}{
		"all is back":             {engine.Wounds{Whole: true}, false},
		"a page is missing":       {engine.Wounds{Whole: true, Pages: lost(spam, 3, 4)}, true},
		"what has no page is not": {engine.Wounds{}, true},
	} {
		meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
			r := newRig(t, k, func(o *member.Options) { o.Store = "new" })
			s := r.sender
			r.State.Store = "old"
			s.healing.Store(true)
			s.fills <- &wire.Message{}
			c := newCure(time.Now())
			c.by["peer"], c.by[engine.Broker] = 2, 3
			bubble.Advance(90 * time.Second)
			s.endHealing(t.Context(), c, &tt.missing)
			if s.Healing() || s.renewed != tt.renewed || r.Engine.Ended != 1 || r.Engine.Recorded != 1 || len(s.fills) != 0 ||
				len(s.hello) != 1 {
				t.Errorf("%s: healing %v, renewed %v, %d ends, %d times recorded, %d fills, %d greetings", name, s.Healing(),
					s.renewed, r.Engine.Ended, r.Engine.Recorded, len(s.fills), len(s.hello))
			}
			log := r.Log.String()
			if !strings.Contains(log, "pages_healed=5") || !strings.Contains(log, "after=1m30s") ||
				strings.Contains(log, "new incarnation") != tt.renewed {
				t.Errorf("%s: log %q", name, log)
			}
			life := r.State.Incarnation
			c.pasts = []wire.Past{{Stamp: wire.Stamp{Incarnation: life + 50}}}
			s.endHealing(t.Context(), c, &tt.missing)
			if r.State.Incarnation <= life+50 {
				t.Errorf("%s: incarnation %d after a past of %d", name, r.State.Incarnation, life+50)
			}
		})
	}
}

// TestTake checks which pages of an answer are taken, and when a peer counts as having answered.
func TestTake(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		r := newRig(t, k, nil)
		s, h := r.sender, r.Peer.Hint()
		c := newCure(time.Now())
		c.asked[h] = &asked{pages: map[lostPage]bool{{spam, 1}: true, {spam, 2}: true, {spam, 3}: true, {spam, 4}: true,
			{spam, 5}: true, {revocations, 6}: true}}
		give := func(from wire.Hint, list []uint64, pages ...string) {
			m := &wire.Message{Kind: wire.KindRefill, From: from, Lost: wire.LostPages{Ref: spam, List: list}}
			for _, page := range pages {
				m.Lost.Pages = append(m.Lost.Pages, []byte(page))
			}
			s.take(t.Context(), c, m)
		}
		bubble.Advance(time.Second)
		give(h, []uint64{9, 6}, "not asked for", "of another array")
		give(wire.Hint{9}, []uint64{1}, "of a stranger")
		if len(r.Engine.Restored) != 0 || len(c.answered) != 0 || c.last.Equal(time.Now()) {
			t.Errorf("taken %q, answered %v", r.Engine.Restored, c.answered)
		}
		give(h, []uint64{2}, "") // the peer has no such page
		if len(r.Engine.Restored) != 0 || !c.answered[h][lostPage{spam, 2}] || c.last.Equal(time.Now()) {
			t.Errorf("taken %q, answered %v", r.Engine.Restored, c.answered)
		}
		give(h, []uint64{1, 1}, "one", "one again")
		if !slices.Equal(r.Engine.Restored, []string{"one"}) || !c.answered[h][lostPage{spam, 1}] || c.by["peer"] != 1 ||
			!c.last.Equal(time.Now()) {
			t.Errorf("taken %q, answered %v, by %v", r.Engine.Restored, c.answered, c.by)
		}
		for i, tt := range []struct {
			err      error
			refused  string
			answered bool
		}{{bulkhead.ErrMalformed, member.ReasonAbsurd, true}, {engine.ErrOtherPage, "", true}, {errBroken, "", false}} {
			r.Engine.HealErr = tt.err
			page := uint64(3 + i)
			refused := r.Refused(func() { give(h, []uint64{page}, "bad") })
			if refused != tt.refused || c.answered[h][lostPage{spam, page}] != tt.answered || c.asked[h].pages[lostPage{spam,
				page}] {
				t.Errorf("%v: refused %q, answered %v", tt.err, refused, c.answered[h])
			}
		}
		if c.by["peer"] != 1 || len(c.asked[h].pages) != 1 {
			t.Errorf("by %v, %v are not answered", c.by, c.asked[h].pages)
		}
		delete(c.asked, h)
		r.Engine.HealErr = nil
		if give(h, []uint64{1}, "unasked"); len(r.Engine.Restored) != 1 {
			t.Errorf("taken %q", r.Engine.Restored)
		}
	})
}

// TestHealing checks what a node does while it waits for its pages, and that it ends.
func TestHealing(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		r := newRig(t, k, nil)
		s, h := r.sender, r.Peer.Hint()
		if !s.heal(t.Context()) || len(r.Bus.Sent) != 0 {
			t.Fatal("a node that has lost nothing does not publish at once")
		}
		r.Engine.Missing = engine.Wounds{Whole: true, Pages: lost(spam, 3, 5)}
		r.Engine.Copies = map[string][][]byte{r.Peer.ID(): {[]byte("zero")}}
		s.healing.Store(true)
		ended := make(chan bool, 1)
		go func() { ended <- s.heal(t.Context()) }()
		kinds := func() (out string) {
			synctest.Wait()
			for _, m := range r.Bus.Messages(t) {
				out += string(rune(m.Kind))
			}
			return out
		}
		want := func(what, want string) {
			t.Helper()
			if got := kinds(); got != want {
				t.Errorf("%s: messages %q, want %q", what, got, want)
			}
		}
		bubble.Advance(r.Options.Interval)
		want("the first interval", "p")
		s.Want(&wire.Message{To: h})
		want("a wish for a peer's arrays", "a")
		s.Ask(&wire.Message{Kind: wire.KindAsk, From: h})
		want("a question for its own arrays", "")
		s.Ask(&wire.Message{Kind: wire.KindPages, From: h, Lost: wire.LostPages{Ref: spam, Geometry: many,
			List: []uint64{0}}})
		want("a question for a peer's pages", "r")
		s.Greet()
		want("another connection", "a")
		bubble.Advance(r.Options.Interval)
		want("the interval after another connection", "p")
		for range maxPasts + 5 {
			s.Recall(wire.Past{})
			synctest.Wait()
		}
		s.Refilled(&wire.Message{From: h, Lost: wire.LostPages{Ref: spam, List: []uint64{3}, Pages: [][]byte{{1}}}})
		want("half of the pages", "")
		r.Engine.Lose(nil)
		s.Refilled(&wire.Message{From: h, Lost: wire.LostPages{Ref: spam, List: []uint64{4}, Pages: [][]byte{{2}}}})
		answered := time.Now()
		if !<-ended || !time.Now().Equal(answered) {
			t.Errorf("healing ended %v after the last page", time.Since(answered))
		}
		if s.Healing() || !slices.Equal(r.Engine.Restored, []string{"\x01", "\x02"}) {
			t.Errorf("healing %v, %q restored", s.Healing(), r.Engine.Restored)
		}
		s.Refilled(&wire.Message{From: h})
		if len(s.fills) != 0 {
			t.Error("pages are taken that nobody waits for")
		}
		ctx, cancel := context.WithCancel(t.Context())
		s.healing.Store(true)
		r.Engine.Lose(lost(spam, 3, 5))
		go func() { ended <- s.heal(ctx) }()
		bubble.Advance(r.Options.Interval)
		want("the first interval of another time, after the greeting of the end", "ap")
		r.Engine.Lose(nil) // given up, or expired
		bubble.Advance(r.Options.Interval)
		synctest.Wait()
		if len(ended) != 1 || !<-ended {
			t.Error("healing goes on though nothing is missing")
		}
		s.healing.Store(true)
		r.Engine.Lose(lost(spam, 3, 5))
		go func() { ended <- s.heal(ctx) }()
		synctest.Wait()
		cancel()
		if <-ended {
			t.Error("a node that is stopped publishes")
		}
	})
}

// TestRefill checks what a peer gets of its own pages, in messages of a bounded size and within its
// budget.
func TestRefill(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		r := newRig(t, k, nil)
		s, h, id := r.sender, r.Peer.Hint(), r.Peer.ID()
		page := func(size int) []byte { return make([]byte, size) }
		r.Engine.Copies = map[string][][]byte{id: {page(10), page(maxRefill - 10), page(1), nil, page(maxRefill + 1),
			page(7)}}
		ask := func(from wire.Hint, list ...uint64) (out []string) {
			s.refill(t.Context(), &wire.Message{Kind: wire.KindPages, From: from, Lost: wire.LostPages{Ref: spam,
				Geometry: many, List: list}})
			for _, m := range r.Bus.Messages(t) {
				if m.Kind != wire.KindRefill || m.To != h || m.Lost.Ref != spam || m.Lost.Geometry != many {
					t.Errorf("sent %+v", m)
				}
				text := ""
				for i, n := range m.Lost.List {
					text += fmt.Sprintf("%d:%d ", n, len(m.Lost.Pages[i]))
				}
				out = append(out, strings.TrimSpace(text))
			}
			return out
		}
		wants := func(what string, got []string, want ...string) {
			t.Helper()
			if !slices.Equal(got, want) {
				t.Errorf("%s: sent %q, want %q", what, got, want)
			}
		}
		full := fmt.Sprint(maxRefill - 10)
		wants("pages of all sizes", ask(h, 0, 1, 2, 3, 4, 5), "0:10 1:"+full, "2:1 3:0 4:0 5:7")
		if got, want := s.refills[h].left, float64(drawLeast-maxRefill-8); got != want {
			t.Errorf("%.0f bytes are left, want %.0f", got, want)
		}
		wants("pages that no array has", ask(h, 6, 1<<40), fmt.Sprintf("6:0 %d:0", 1<<40))
		wants("of a stranger", ask(wire.Hint{9}, 0))
		clear(s.refills)
		r.Engine.Copies = map[string][][]byte{id: {page(maxRefill)}}
		wants("a page of the largest size", ask(h, 0), fmt.Sprintf("0:%d", maxRefill))
		r.Engine.Copies = nil
		wants("of an array that is not here", ask(h, 2), "2:0")
		// A former incarnation has what the present one does not.
		r.Engine.Former = []engine.FormerIncarnation{{ID: "first"}, {ID: "second"}}
		r.Engine.Copies = map[string][][]byte{"first": {page(1)}, "second": {page(2)}}
		wants("of a former incarnation", ask(h, 0), "0:2")
		delete(r.Engine.Copies, "second")
		wants("of the one before", ask(h, 0), "0:1")
		r.Engine.CopiesErr = errBroken
		wants("an array that cannot be read", ask(h, 0))
		r.Engine.CopiesErr = nil

		// The budget is twice the size of all arrays of the peer.
		s.refills[h] = nil
		delete(s.refills, h)
		r.Engine.Copies = map[string][][]byte{id: {page(10)}}
		r.Engine.HeldOf = map[string][]engine.ArrayState{
			id: {{Array: spam.Array, Start: spam.Start, Geometry: many, Keys: 100, Merged: true},
				{Array: revocations.Array, Start: spam.Start, Geometry: meshtest.Bits, Keys: 1 << 40, Merged: true}},
			"first":  {{Array: spam.Array, Start: 3, Geometry: meshtest.Bits, Keys: 5}},
			"second": nil,
		}
		ask(h, 0)
		size := uint64(1024+800) + pageHead*40 + meshtest.Bits.Bytes() + pageHead + 1024 + 40 + pageHead
		if got, want := s.refills[h].left, drawLeast+2*float64(size)-float64(many.Bytes())-10; got != want {
			t.Errorf("%.0f bytes are left, want %.0f: a page of a merged array costs the array", got, want)
		}
		s.refills[h].left = 0
		if got := r.Refused(func() { wants("beyond the budget", ask(h, 0)) }); got != member.ReasonAsks {
			t.Errorf("refused %q", got)
		}
	})
}

// TestReadOwn checks that a node reads its own messages once from each broker that it is connected to.
func TestReadOwn(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		r := newRig(t, k, nil)
		s := r.sender
		wounds := &engine.Wounds{Pages: lost(spam, 3, 5)}
		store := func(kind wire.Kind, key string, m *wire.Message) meshtest.Stored {
			m.Kind = kind
			return meshtest.Stored{Topic: wire.Topic{Kind: kind, Origin: r.Options.Identity.Hint(), Key: key}, Data: s.sign(m)}
		}
		image := store(wire.KindImage, "0", &wire.Message{Image: wire.Image{Ref: spam, At: 5, Geometry: many,
			Lineage: r.State.Lineage(spam), Pages: [][]byte{{1}, {2}}}})
		other := store(wire.KindImage, "1", &wire.Message{Image: wire.Image{Ref: revocations, At: 5, Geometry: many,
			Lineage: r.State.Lineage(revocations), Pages: [][]byte{{1}}}})
		k.Images[image.Topic], k.Images[other.Topic] = image, other
		k.Deltas = append(k.Deltas, store(wire.KindDelta, "", &wire.Message{Rounds: []wire.Round{{Ref: spam, From: 5, To: 6,
			Geometry: many, Announce: true, Lineage: r.State.Lineage(spam), Data: []byte{1, 2, 3}}}}))
		c := newCure(time.Now())
		s.readOwn(t.Context(), c, wounds)
		if !c.reading || !c.read[r.Bus] {
			t.Fatal("the broker is not read")
		}
		x := <-c.reads
		a := x.arrays[spam]
		if x.err != nil || len(x.arrays) != 1 || a == nil || a.pages != many.Pages() || len(a.images[5]) != 1 ||
			len(a.rounds) != 1 || x.bytes != len(image.Data)+wire.RoundCost+3 {
			t.Errorf("read %+v of %d bytes, error %v", x.arrays, x.bytes, x.err)
		}
		c.read = make(map[wire.Transport]bool)
		if s.readOwn(t.Context(), c, wounds); len(c.read) != 0 {
			t.Error("two brokers are read at once")
		}
		bubble.Advance(time.Second)
		r.Engine.PublishedErr = errBroken
		if s.remind(t.Context(), c, x); c.reading || c.last.Equal(time.Now()) || len(c.by) != 0 ||
			!strings.Contains(r.Log.String(), "broken") {
			t.Errorf("reading %v, pages of %v, log %q", c.reading, c.by, r.Log)
		}
		r.Log.Reset()
		r.Engine.Published, r.Engine.PublishedErr = 1, nil
		if s.remind(t.Context(), c, x); c.by[engine.Broker] != 1 || !c.last.Equal(time.Now()) || r.Log.Len() != 0 {
			t.Errorf("pages of %v, log %q", c.by, r.Log)
		}
		r.Bus.Breaks, r.Bus.Drops = 0, 1
		s.readOwn(t.Context(), c, wounds)
		if x = <-c.reads; x.err == nil || x.arrays[spam].rounds != nil {
			t.Error("a broken connection is not noticed")
		}
		if s.remind(t.Context(), c, x); !strings.Contains(r.Log.String(), "not read from the broker to its end") {
			t.Errorf("log %q", r.Log)
		}
		if s.readOwn(t.Context(), c, wounds); c.reading {
			t.Error("a broker is read again")
		}
		clear(c.read)
		r.Bus.Set(false)
		if s.readOwn(t.Context(), c, wounds); c.reading {
			t.Error("a broker is read that is not connected")
		}
	})
}
