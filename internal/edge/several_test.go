package edge

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client"
	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/shard"
	"github.com/bulkhead-mail/bulkhead/internal/testing/await"
)

// TestSeveralQuestions checks that questions and counts go to the next node while the first is away.
func TestSeveralQuestions(t *testing.T) {
	first, second := new(desk), new(desk)
	u, ctx := Several(first, second), t.Context()
	for name, ask := range map[string]func() error{
		"look":  func() error { return u.Look(ctx, query(1).Signatures, make([]bulkhead.Look, 1), 0) },
		"count": func() error { return u.Count(ctx, query(1).Signatures, []uint32{1}) },
		"node": func() error {
			state, err := u.Node(ctx)
			if err == nil && state == nil {
				err = errors.New("no state")
			}
			return err
		},
		"checks": func() error {
			got, err := u.CheckBatch(ctx, []bulkhead.Query{query(1)})
			if err == nil && len(got) != 1 {
				err = errors.New("no verdict")
			}
			return err
		},
	} {
		for _, away := range []*desk{first, second} {
			away.set(true)
			if err := ask(); err != nil {
				t.Errorf("%s: one of two is away: %v", name, err)
			}
			away.set(false)
		}
		first.set(true)
		second.set(true)
		if err := ask(); !errors.Is(err, errDial) {
			t.Errorf("%s: both are away: %v", name, err)
		}
		first.set(false)
		second.set(false)
	}
	if Several(first) != Upstream(first) {
		t.Error("one node is not asked directly")
	}
}

// A scripted upstream answers as a test wants, and records what it was asked.
type scripted struct {
	Upstream
	err     error            // of whole requests
	refuses map[string]error // of reports, by ID
	onAsk   func()           // called by each request; nil: nothing
	asked   []string         // "count", or the IDs of a batch
	turns   []context.Context
}

func (s *scripted) ask(ctx context.Context, what string) error {
	s.asked, s.turns = append(s.asked, what), append(s.turns, ctx)
	if s.onAsk != nil {
		s.onAsk()
	}
	return s.err
}

func (s *scripted) ReportBatch(ctx context.Context, reports []bulkhead.Report) ([]client.Reported, error) {
	var ids []string
	out := make([]client.Reported, len(reports))
	for i, r := range reports {
		ids = append(ids, r.ID)
		out[i].Err = s.refuses[r.ID]
	}
	return out, s.ask(ctx, strings.Join(ids, " "))
}

func (s *scripted) Count(ctx context.Context, _ []bulkhead.Signature, _ []uint32) error {
	return s.ask(ctx, "count")
}

func (s *scripted) Node(ctx context.Context) (*admin.NodeState, error) {
	return new(admin.NodeState), s.ask(ctx, "node")
}

func reportsOf(ids ...string) (all []bulkhead.Report) {
	for _, id := range ids {
		all = append(all, bulkhead.Report{ID: id, Signatures: query(1).Signatures})
	}
	return all
}

var (
	errLost     = errors.New("connection reset") // the request may have arrived
	errReadOnly = fmt.Errorf("%w: disk full", bulkhead.ErrReadOnly)
)

// TestSeveralRepeats checks which requests go to the next node: those that the first one does not take, and those that
// may have arrived only if a repetition does not count.
func TestSeveralRepeats(t *testing.T) {
	malformed := fmt.Errorf("%w: a report", bulkhead.ErrMalformed)
	for _, tt := range []struct {
		err  error
		ids  []string // nil: a count
		next bool
	}{
		{errDial, []string{"a", ""}, true},
		{errReadOnly, []string{"a", ""}, true},
		{errLost, []string{"a", "b"}, true},
		{errLost, []string{"a", ""}, false},
		{errLost, []string{"", "b"}, false},
		{malformed, []string{"a", "b"}, false},
		{errDial, nil, true},
		{errReadOnly, nil, true},
		{errLost, nil, false},
		{malformed, nil, false},
	} {
		first, second := &scripted{err: tt.err}, new(scripted)
		u, err, n := Several(first, second), error(nil), 0
		if tt.ids == nil {
			err = u.Count(t.Context(), query(1).Signatures, []uint32{1})
		} else {
			var out []client.Reported
			out, err = u.ReportBatch(t.Context(), reportsOf(tt.ids...))
			n = len(out)
		}
		if len(first.asked) != 1 || len(second.asked) == 1 != tt.next || !slices.Equal(first.asked, second.asked) && tt.next {
			t.Errorf("%v, reports %q: the nodes are asked for %q and %q", tt.err, tt.ids, first.asked, second.asked)
		}
		if tt.next && (err != nil || n != len(tt.ids)) || !tt.next && !errors.Is(err, tt.err) {
			t.Errorf("%v, reports %q: %d answers, %v", tt.err, tt.ids, n, err)
		}
	}
}

// TestSeveralShare checks that the reports of a batch that one node does not take go to the next, and that each report
// has the answer of the last node that had it.
func TestSeveralShare(t *testing.T) {
	first := &scripted{refuses: map[string]error{"b": errReadOnly, "c": errReadOnly, "d": bulkhead.ErrForbidden}}
	second := &scripted{refuses: map[string]error{"c": errReadOnly}}
	third := &scripted{err: errDial}
	out, err := Several(first, second, third).ReportBatch(t.Context(), reportsOf("a", "b", "c", "d"))
	if err != nil || len(out) != 4 {
		t.Fatalf("%+v, %v", out, err)
	}
	for i, want := range []error{nil, nil, errReadOnly, bulkhead.ErrForbidden} {
		if !errors.Is(out[i].Err, want) {
			t.Errorf("report %d: %v, want %v", i, out[i].Err, want)
		}
	}
	asked := slices.Concat(first.asked, second.asked, third.asked)
	if want := []string{"a b c d", "b c", "c"}; !slices.Equal(asked, want) {
		t.Errorf("the nodes are asked for %q, want %q", asked, want)
	}
}

// TestSeveralError checks that the error of a node that answers is preferred, and that the last error counts otherwise.
func TestSeveralError(t *testing.T) {
	other := &net.OpError{Op: "dial", Err: errors.New("no route")}
	for _, tt := range [][3]error{{errDial, errReadOnly, errReadOnly}, {errReadOnly, errDial, errReadOnly},
		{errDial, other, other}} {
		err := Several(&scripted{err: tt[0]}, &scripted{err: tt[1]}).Count(t.Context(), query(1).Signatures, []uint32{1})
		if err != tt[2] {
			t.Errorf("%v, then %v: %v", tt[0], tt[1], err)
		}
	}
}

// TestSeveralTurns checks which node is asked first, and how much of the time of a request each node has.
func TestSeveralTurns(t *testing.T) {
	nodes := []*scripted{{err: errDial}, {err: errDial}, {}}
	u := Several(nodes[0], nodes[1], nodes[2])
	count := func(ctx context.Context) error { return u.Count(ctx, query(1).Signatures, []uint32{1}) }
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	end, _ := ctx.Deadline()
	if err := count(ctx); err != nil {
		t.Fatal(err)
	}
	for i, n := range nodes {
		if until, ok := n.turns[0].Deadline(); !ok || until.Before(end) != (i < 2) {
			t.Errorf("node %d has until %v of %v", i, until, end)
		}
		if n.turns[0].Err() == nil {
			t.Errorf("the turn of node %d lasts on", i)
		}
	}

	var order []int
	expire := func() {}
	for i, n := range nodes {
		n.err, n.onAsk = errDial, func() {
			order = append(order, i)
			expire()
		}
	}
	if err := count(t.Context()); err != errDial {
		t.Error(err)
	}
	if until, ok := nodes[1].turns[1].Deadline(); ok {
		t.Errorf("a node has until %v of a request without a deadline", until)
	}
	for range 4 { // a node takes all the time
		ctx, cancel := context.WithCancel(t.Context())
		expire = cancel
		if err := count(ctx); err != errDial {
			t.Error(err)
		}
	}
	if want := []int{2, 0, 1, 2, 0, 1, 2}; !slices.Equal(order, want) {
		t.Errorf("the nodes are asked in the order %v, want %v", order, want)
	}
}

// TestEach checks that a function runs once for each shard of the map in use, and ends with its shard.
func TestEach(t *testing.T) {
	d := newDivided(t, Options{})
	for _, e := range []*Edge{d.Edge, New(Options{Upstream: new(desk)})} {
		if all := e.Shards(); all != nil {
			t.Errorf("without a map: %+v", all)
		}
	}
	d.Use(d.m)
	var mu sync.Mutex
	var runs []string
	began, together := 0, false
	ctx, cancel := context.WithCancel(t.Context())
	var each sync.WaitGroup
	each.Go(func() {
		d.each(ctx, func(ctx context.Context, on *target) {
			mu.Lock()
			together = together || slices.Contains(runs, on.name)
			runs = append(runs, on.name)
			began++
			mu.Unlock()
			<-ctx.Done()
			for range 100 { // so that another run could begin
				runtime.Gosched()
			}
			mu.Lock()
			defer mu.Unlock()
			runs = slices.DeleteFunc(runs, func(name string) bool { return name == on.name })
		})
	})
	running := func(want ...string) {
		t.Helper()
		await.True(t, "a run for each shard", func() bool {
			mu.Lock()
			defer mu.Unlock()
			now := slices.Clone(runs)
			slices.Sort(now)
			return slices.Equal(now, want)
		})
	}
	running("a", "b", "c")
	d.move(t, "c", "b")
	m, err := d.m.Remove("b", shard.Note{At: time.Unix(3e9, 0)})
	if err != nil {
		t.Fatal(err)
	}
	d.Use(m)
	running("a", "c")
	m, err = m.Set("c", []string{"http://127.0.0.1:4"}, shard.Note{At: time.Unix(4e9, 0)})
	if err != nil {
		t.Fatal(err)
	}
	d.Use(m) // another node
	await.True(t, "another run", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return began == 4
	})
	running("a", "c")
	cancel()
	each.Wait()
	if len(runs) > 0 || began != 4 || together {
		t.Errorf("%d runs began and %v go on, two of one shard at once: %v; want one for each shard and its new nodes", began,
			runs, together)
	}
}
