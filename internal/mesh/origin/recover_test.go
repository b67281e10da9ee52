package origin

import (
	"context"
	"errors"
	"fmt"
	"os"
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

var (
	counts = wire.Ref{Array: engine.ArrayCounts, Start: 9}
	older  = wire.Ref{Array: engine.ArraySpam, Start: 5}
)

// newLoser returns a sender that takes its arrays back, and has counted in one array since.
func newLoser(t *testing.T, k *meshtest.Broker, change func(*member.Options)) *rig {
	t.Helper()
	r := newRig(t, k, change)
	r.Engine.Mine = []engine.ArrayState{{Array: engine.ArrayCounts, Start: 100, Version: 1, Geometry: meshtest.Cells}}
	if err := (&member.Recovery{}).Save(r.Options.Dir); err != nil {
		t.Fatal(err)
	}
	if err := r.sender.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r
}

// requests returns the requests that were published since the last call: an array that stands for all,
// or the pages of one array.
func (r *rig) requests(t *testing.T) (out []string) {
	t.Helper()
	for _, m := range r.Bus.Messages(t) {
		text := fmt.Sprintf("%c %s%d", m.Kind, m.Lost.Array, m.Lost.Start)
		if n := len(m.Lost.List); n > 0 {
			text += fmt.Sprintf(" %d-%d", m.Lost.List[0], m.Lost.List[n-1])
		}
		out = append(out, text)
	}
	return out
}

func (r *rig) wantRequests(t *testing.T, what string, want ...string) {
	t.Helper()
	if got := r.requests(t); !slices.Equal(got, want) {
		t.Errorf("%s: requests %q, want %q", what, got, want)
	}
}

// name returns the answer of the peer that names one of a number of arrays.
func (r *rig) name(number uint64, x wire.Ref, g filter.Geometry) *wire.Message {
	return &wire.Message{Kind: wire.KindRefill, From: r.Peer.Hint(), Lost: wire.LostPages{Ref: x, Geometry: g,
		List: []uint64{number}, Pages: [][]byte{{nameMark}}}}
}

// pages returns the answer of the peer with pages of an array, all with one content.
func (r *rig) pages(x wire.Ref, content string, list ...uint64) *wire.Message {
	m := &wire.Message{Kind: wire.KindRefill, From: r.Peer.Hint(), Lost: wire.LostPages{Ref: x, List: list}}
	for range list {
		m.Lost.Pages = append(m.Lost.Pages, []byte(content))
	}
	return m
}

// TestStartRecovery checks whether a node that has lost its store holds its counts back, and which
// peers it will ask.
func TestStartRecovery(t *testing.T) {
	for name, tt := range map[string]struct {
		file     string
		weights  [2]float64
		role     member.Role
		hold     bool
		recovers bool
		asked    int
		err      bool
	}{
		"no file":              {weights: [2]float64{1, 1}},
		"peers of full weight": {file: "{}", weights: [2]float64{1, 1}, hold: true, recovers: true, asked: 2},
		"one of full weight":   {file: "{}", weights: [2]float64{1, 0.99}, hold: true, recovers: true, asked: 1},
		"peers of less weight": {file: "{}", weights: [2]float64{0.5, 0.99}, recovers: true},
		"peers of any weight": {file: `{"all":true}`, weights: [2]float64{0.5, 0}, hold: true, recovers: true,
			asked: 2},
		"a node that shares nothing": {file: "{}", weights: [2]float64{1, 1}, role: member.Subscribe},
		"a damaged file":             {file: "{", weights: [2]float64{1, 1}, err: true},
	} {
		meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
			r := newRig(t, k, func(o *member.Options) { o.Role = tt.role })
			second := meshtest.Identity(t)
			err := errors.Join(r.AddPeer(t.Context(), second.ID(), "second", tt.weights[1]),
				r.WeighPeer(t.Context(), r.Peer.ID(), tt.weights[0]))
			if err != nil {
				t.Fatal(err)
			}
			if tt.file != "" {
				if err := os.WriteFile(filepath.Join(r.Options.Dir, member.RecoveryFile), []byte(tt.file), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			before := r.State.Boot
			err = r.sender.Start(t.Context())
			if (err != nil) != tt.err || r.sender.Healing() != tt.hold || (r.sender.recovery != nil) != tt.recovers ||
				r.sender.recovering.Load() != tt.recovers {
				t.Errorf("%s: %v, healing %v, recovery %v", name, err, r.sender.Healing(), r.sender.recovery)
			}
			if begun := r.State.Boot != before; begun == (tt.hold || tt.err) {
				t.Errorf("%s: the process has begun: %v", name, begun)
			}
			if warned := strings.Contains(r.Log.String(), "weight is below 1"); warned != (tt.recovers && tt.asked < 2) {
				t.Errorf("%s: log %q", name, r.Log)
			}
			if tt.recovers {
				if asked, others := r.sender.sources(); len(asked) != tt.asked || len(others) != 2-tt.asked {
					t.Errorf("%s: %d peers are asked, %d are not", name, len(asked), len(others))
				}
			}
		})
	}
}

// TestTakeBack plays a peer that holds arrays of the node: first it names them, then it sends their
// pages as they are requested.
func TestTakeBack(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		r := newLoser(t, k, nil)
		s := r.sender
		give := func(m *wire.Message) { s.takeBack(t.Context(), m) }
		give(r.name(1, spam, many)) // nothing was asked for
		const all = "p counts100"
		s.askSources()
		r.wantRequests(t, "at first", all)
		bubble.Advance(healWait - 1)
		s.askSources()
		r.wantRequests(t, "before an answer")
		bubble.Advance(1)
		s.askSources()
		r.wantRequests(t, "without an answer", all)
		x := s.recovery.sources[r.Peer.Hint()]

		// Other messages than answers to the question are ignored.
		stranger := r.name(1, spam, many)
		stranger.From = wire.Hint{9}
		two := r.name(1, spam, many)
		two.Lost.List, two.Lost.Pages = []uint64{1, 2}, [][]byte{{nameMark}, {nameMark}}
		for _, m := range []*wire.Message{stranger, two, r.pages(spam, "nn", 1), r.pages(spam, "m", 1),
			r.name(maxArrays+1, spam, many)} {
			give(m)
		}
		if x.number >= 0 || len(x.arrays) != 0 || s.recovery.last.Equal(time.Now()) || s.amid() || s.complete() {
			t.Errorf("%d arrays of %d are named", len(x.arrays), x.number)
		}

		give(r.name(3, older, many))
		if x.number != 3 || len(x.arrays) != 1 || !s.recovery.last.Equal(time.Now()) || !s.amid() {
			t.Errorf("%d arrays of %d are named, amid %v", len(x.arrays), x.number, s.amid())
		}
		give(r.name(3, older, many)) // a repetition
		give(r.name(3, spam, many))
		r.wantRequests(t, "before all are named")
		bubble.Advance(healWait)
		s.askSources()
		r.wantRequests(t, "while an array is missing", all)
		give(r.name(3, counts, meshtest.Cells))
		r.wantRequests(t, "the newest array first", "p counts9 0-0")
		if got := slices.Sorted(slices.Values(r.Engine.Adoptions)); !slices.Equal(got, []uint64{5, 7, 9}) {
			t.Errorf("generations %v are opened", got)
		}
		record, _, err := member.ReadRecovery(r.Options.Dir)
		slices.Sort(record.Block)
		if err != nil || !slices.Equal(record.Tally, []uint64{9}) || !slices.Equal(record.Block, []uint64{5, 7}) {
			t.Errorf("recorded %+v, %v", record, err)
		}

		give(r.name(3, spam, many))        // a repetition of an answer
		give(r.pages(spam, "too soon", 0)) // not requested yet
		give(r.pages(counts, "cells", 0, 1))
		if !slices.Equal(r.Engine.TakenBack, []string{"cells"}) || s.recovery.pages != 1 {
			t.Errorf("%q taken back, %d pages", r.Engine.TakenBack, s.recovery.pages)
		}
		r.wantRequests(t, "the next array", "p spam7 0-15")
		if give(r.name(3, spam, many)); len(r.Engine.TakenBack) != 1 || s.recovery.pages != 1 {
			t.Error("a name is taken for a page")
		}
		give(r.pages(spam, "", numbers(0, 16)...)) // the peer has none of them
		r.wantRequests(t, "more of the array", "p spam7 16-31")
		r.Engine.TakeErr = bulkhead.ErrMalformed
		if got := r.Refused(func() { give(r.pages(spam, "bad", 16)) }); got != member.ReasonAbsurd || s.recovery.pages != 1 {
			t.Errorf("refused %q, %d pages", got, s.recovery.pages)
		}
		r.Engine.TakeErr = nil
		bubble.Advance(time.Second)
		if give(r.pages(spam, "good", numbers(16, 31)...)); s.recovery.pages != 15 || !s.recovery.last.Equal(time.Now()) {
			t.Errorf("%d pages", s.recovery.pages)
		}
		r.wantRequests(t, "before the last page of a request")
		give(r.pages(spam, "good", 31))
		r.wantRequests(t, "the rest of the array", "p spam7 32-39")
		bubble.Advance(healWait)
		s.askSources()
		r.wantRequests(t, "without an answer", "p spam7 32-39")
		give(r.pages(spam, "good", numbers(32, 40)...))
		r.wantRequests(t, "the oldest array", "p spam5 0-15")
		give(r.pages(older, "good", numbers(0, 16)...))
		give(r.pages(older, "good", numbers(16, 32)...))
		r.requests(t)
		if s.complete() || !s.amid() {
			t.Error("complete before the last page")
		}
		give(r.pages(older, "good", numbers(32, 40)...))
		if !s.complete() || s.amid() || !x.done || !s.recovery.from["peer"] || len(s.recovery.from) != 1 {
			t.Errorf("not complete, taken from %v", s.recovery.from)
		}
		give(r.pages(older, "good", 0))
		if s.askSources(); len(r.requests(t)) != 0 || s.recovery.pages != 1+15+8+40 {
			t.Errorf("%d pages", s.recovery.pages)
		}
	})
}

// TestHoldsNothing checks the answer of a peer that has no array of the node, and a node that has no
// array to ask with.
func TestHoldsNothing(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		r := newLoser(t, k, nil)
		s := r.sender
		own := r.Engine.Mine
		r.Engine.Mine = []engine.ArrayState{}
		s.askSources()
		r.wantRequests(t, "without an array")
		r.Engine.Mine = own
		bubble.Advance(healWait)
		s.askSources()
		s.takeBack(t.Context(), r.name(0, spam, many))
		if !s.complete() || s.amid() || len(r.Engine.Adoptions) != 0 {
			t.Errorf("not complete, generations %v are opened", r.Engine.Adoptions)
		}
		s.endRecovery(nil)
		if s.recovery != nil || s.recovering.Load() || !strings.Contains(r.Log.String(), "hold nothing of the lost store") {
			t.Errorf("log %q", r.Log)
		}
		if _, wanted, err := member.ReadRecovery(r.Options.Dir); wanted || err != nil {
			t.Errorf("asked again at the next start: %v, %v", wanted, err)
		}
	})
}

// TestAdopt checks that a generation in which the node has counted is left alone, and that one that was
// opened before is not refused.
func TestAdopt(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		r := newLoser(t, k, nil)
		s := r.sender
		r.Engine.Mine = []engine.ArrayState{{Array: spam.Array, Start: spam.Start}, {Array: spam.Array, Start: 70}}
		shapes := map[engine.Array]filter.Geometry{spam.Array: many}
		var adopted []uint64
		if err := s.adoptOne(t.Context(), &adopted, 7, shapes); !errors.Is(err, errCounting) || len(adopted) != 0 ||
			len(r.Engine.Adoptions) != 0 {
			t.Errorf("a generation of the node itself: %v, %v opened", err, adopted)
		}
		list := s.adopt(t.Context(), "peer", map[wire.Ref]filter.Geometry{spam: many, older: many, revocations: many})
		if len(list) != 3 || list[0].Ref != older || !slices.Equal(r.Engine.Adoptions, []uint64{5}) ||
			!strings.Contains(r.Log.String(), "generation=7") {
			t.Errorf("requests %v, generations %v, log %q", list, r.Engine.Adoptions, r.Log)
		}
		// The engine has the generation now, which an earlier answer opened.
		r.Engine.Mine = []engine.ArrayState{{Array: older.Array, Start: older.Start}}
		if list = s.adopt(t.Context(), "peer", map[wire.Ref]filter.Geometry{older: many}); len(list) != 3 {
			t.Errorf("requests %v of a generation that was opened before", list)
		}
		r.Engine.AdoptErr = errBroken
		if err := s.adoptOne(t.Context(), &adopted, 11, shapes); !errors.Is(err, errBroken) || !slices.Equal(adopted,
			[]uint64{11}) {
			t.Errorf("error %v, %v opened", err, adopted)
		}
		// Without a record, a generation is not opened.
		err := errors.Join(os.RemoveAll(r.Options.Dir), os.WriteFile(r.Options.Dir, nil, 0o600))
		if err != nil {
			t.Fatal(err)
		}
		r.Engine.AdoptErr, r.Engine.Adoptions = nil, nil
		if err := s.adoptOne(t.Context(), &adopted, 12, shapes); err == nil || len(r.Engine.Adoptions) != 0 {
			t.Errorf("error %v, %v opened", err, r.Engine.Adoptions)
		}
	})
}

// TestInventory checks which arrays a node names to the peer that has lost them.
func TestInventory(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		r := newRig(t, k, nil)
		s, h, id := r.sender, r.Peer.Hint(), r.Peer.ID()
		inventory := func() (out []string) {
			s.refill(t.Context(), &wire.Message{Kind: wire.KindPages, From: h, Lost: wire.LostPages{Ref: counts,
				Geometry: meshtest.Cells}})
			for _, m := range r.Bus.Messages(t) {
				if m.Kind != wire.KindRefill || m.To != h || !named(m) {
					t.Fatalf("sent %+v", m)
				}
				out = append(out, fmt.Sprint(m.Lost.Array, m.Lost.Start, " of ", m.Lost.List[0], " k", m.Lost.Geometry.K))
			}
			return out
		}
		other := many
		other.K = 16
		if got, want := inventory(), []string{"counts9 of 0 k4"}; !slices.Equal(got, want) {
			t.Errorf("named %q, want %q", got, want)
		}
		r.Engine.Former = []engine.FormerIncarnation{{ID: "first"}, {ID: "second"}}
		r.Engine.HeldOf = map[string][]engine.ArrayState{
			id: {{Array: spam.Array, Start: spam.Start, Version: 3, Geometry: many}, {Array: revocations.Array,
				Start: revocations.Start, Geometry: many}},
			"first": {{Array: older.Array, Start: older.Start, Version: 1, Geometry: many}},
			"second": {{Array: spam.Array, Start: spam.Start, Version: 9, Geometry: other}, {Array: older.Array,
				Start: older.Start, Version: 1, Geometry: other}},
		}
		if got, want := inventory(), []string{"spam7 of 2 k8", "spam5 of 2 k16"}; !slices.Equal(got, want) {
			t.Errorf("named %q, want %q", got, want)
		}
		r.Engine.HeldOf[id] = nil
		for start := range uint64(maxArrays + 5) {
			r.Engine.HeldOf[id] = append(r.Engine.HeldOf[id], engine.ArrayState{Array: spam.Array, Start: start, Version: 1,
				Geometry: many})
		}
		if got := inventory(); len(got) != maxArrays || got[0] != fmt.Sprintf("spam0 of %d k8", maxArrays) {
			t.Errorf("%d arrays are named, limit %d", len(got), maxArrays)
		}
	})
}

// TestRecover runs a node that has lost its store, with a peer that answers, one that answers late, and
// one that never does.
func TestRecover(t *testing.T) {
	start := func(t *testing.T, k *meshtest.Broker) (r *rig, ended chan bool, cancel func()) {
		r = newLoser(t, k, nil)
		ctx, cancel := context.WithCancel(t.Context())
		t.Cleanup(cancel)
		ended = make(chan bool, 1)
		go func() { ended <- r.sender.heal(ctx) }()
		synctest.Wait()
		return r, ended, cancel
	}
	shares := func(t *testing.T, r *rig, ended chan bool, want bool) {
		t.Helper()
		synctest.Wait()
		if got := len(ended) == 1 && <-ended; got != want || r.sender.Healing() == want {
			t.Fatalf("shares %v, want %v; log %q", got, want, r.Log)
		}
	}
	answer := func(r *rig) {
		r.sender.Refilled(r.name(1, counts, meshtest.Cells))
		synctest.Wait()
	}
	t.Run("answers", func(t *testing.T) {
		meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
			r, ended, _ := start(t, k)
			r.wantRequests(t, "at first", "p counts100")
			life := r.State.Incarnation
			r.sender.Ask(&wire.Message{Kind: wire.KindAsk, From: r.Peer.Hint()})
			synctest.Wait()
			r.wantRequests(t, "a question for its arrays")
			r.sender.Ask(&wire.Message{Kind: wire.KindPages, From: r.Peer.Hint(), Lost: wire.LostPages{Ref: spam,
				Geometry: many, List: []uint64{0}}})
			synctest.Wait()
			r.wantRequests(t, "a question for a peer's pages", "r spam7 0-0")
			r.sender.Recall(wire.Past{Stamp: wire.Stamp{Incarnation: life + 100}})
			r.sender.Want(&wire.Message{To: r.Peer.Hint()})
			synctest.Wait()
			if list := r.Bus.Messages(t); len(list) != 1 || list[0].Kind != wire.KindAsk || r.State.Incarnation != life {
				t.Errorf("%d messages, incarnation %d", len(list), r.State.Incarnation-life)
			}
			r.sender.Greet()
			synctest.Wait()
			if list := r.Bus.Messages(t); len(list) != 2 || list[0].Kind != wire.KindAsk || list[1].Kind != wire.KindPages {
				t.Errorf("%d messages after another connection", len(list))
			}
			answer(r)
			bubble.Advance(time.Hour) // a part of the counts must not replace the whole at peers
			shares(t, r, ended, false)
			r.sender.Refilled(r.pages(counts, "cells", 0))
			shares(t, r, ended, true)
			if r.sender.recovery != nil || !r.sender.renewed || r.State.Incarnation <= life || r.Engine.Recorded != 1 ||
				len(r.sender.wanted) != 1 || len(r.sender.hello) != 1 {
				t.Errorf("recovery %v, renewed %v, incarnation %d after %d, images of %v", r.sender.recovery, r.sender.renewed,
					r.State.Incarnation, life, r.sender.wanted)
			}
			if log := r.Log.String(); !strings.Contains(log, "pages=1 ") || !strings.Contains(log, "from=[peer]") {
				t.Errorf("log %q", log)
			}
		})
	})
	t.Run("answers late", func(t *testing.T) {
		meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
			r, ended, cancel := start(t, k)
			r.Bus.Set(false)
			bubble.Advance(time.Hour) // no peer can receive the requests
			shares(t, r, ended, false)
			r.Bus.Set(true)
			bubble.Advance(healHeard*r.Options.Heartbeat - r.Options.Interval)
			shares(t, r, ended, false)
			bubble.Advance(2 * r.Options.Interval)
			shares(t, r, ended, true)
			if r.sender.recovery == nil || !strings.Contains(r.Log.String(), "sharing before all peers have answered") {
				t.Errorf("log %q", r.Log)
			}
			// While the node shares, the peer is asked again, and its answer stops the sharing.
			r.requests(t)
			bubble.Advance(healWait)
			if !r.sender.goOn(t.Context(), nil) {
				t.Fatal("ended")
			}
			r.wantRequests(t, "while the node shares", "p counts100")
			go func() { ended <- r.sender.goOn(t.Context(), r.name(1, counts, meshtest.Cells)) }()
			bubble.Advance(time.Hour)
			shares(t, r, ended, false)
			life := r.State.Incarnation
			r.sender.Refilled(r.pages(counts, "cells", 0))
			shares(t, r, ended, true)
			if r.sender.recovery != nil || r.State.Incarnation <= life {
				t.Errorf("recovery %v, incarnation %d after %d", r.sender.recovery, r.State.Incarnation, life)
			}
			cancel()
		})
	})
	t.Run("holds nothing", func(t *testing.T) {
		meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
			r, ended, _ := start(t, k)
			bubble.Advance(healHeard*r.Options.Heartbeat - 1)
			shares(t, r, ended, false)
			bubble.Advance(1)
			shares(t, r, ended, true)
			if !r.sender.goOn(t.Context(), r.name(0, spam, many)) || r.sender.recovery != nil {
				t.Error("asked again after the answer")
			}
		})
	})
	t.Run("stopped", func(t *testing.T) {
		meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
			r, ended, cancel := start(t, k)
			cancel()
			synctest.Wait()
			if len(ended) != 1 || <-ended || !r.sender.Healing() {
				t.Error("a node that is stopped publishes")
			}
		})
	})
}
