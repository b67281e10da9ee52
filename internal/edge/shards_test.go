package edge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"
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
	"github.com/bulkhead-mail/bulkhead/internal/testing/logtest"
)

// A desk is a shard that records which messages it was asked about and which reports it has.
type desk struct {
	mu      sync.Mutex
	away    bool
	onAsk   func() // called by the next check or look, before the answer; nil: nothing
	asked   []bulkhead.Query
	reports []bulkhead.Report
}

func (d *desk) set(away bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.away = away
}

func (d *desk) err() error {
	if d.away {
		return errDial
	}
	return nil
}

// ask calls onAsk once.
func (d *desk) ask() {
	d.mu.Lock()
	do := d.onAsk
	d.onAsk = nil
	d.mu.Unlock()
	if do != nil {
		do()
	}
}

func (d *desk) CheckBatch(_ context.Context, queries []bulkhead.Query) ([]client.Checked, error) {
	d.ask()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked = append(d.asked, queries...)
	out := make([]client.Checked, len(queries))
	for i, q := range queries {
		out[i].Verdict = bulkhead.Verdict{Findings: make([]bulkhead.Finding, len(q.Signatures)), Threshold: 7}
	}
	return out, d.err()
}

func (d *desk) ReportBatch(_ context.Context, reports []bulkhead.Report) ([]client.Reported, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.away {
		return nil, errDial
	}
	if slices.ContainsFunc(reports, func(r bulkhead.Report) bool { return r.ID == "malformed" }) {
		return nil, fmt.Errorf("%w: a report", bulkhead.ErrMalformed)
	}
	d.reports = append(d.reports, reports...)
	return make([]client.Reported, len(reports)), nil
}

func (d *desk) Look(_ context.Context, _ []bulkhead.Signature, out []bulkhead.Look, _ bulkhead.Aspect) error {
	d.ask()
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range out {
		out[i].Sightings = 3
	}
	return d.err()
}

func (d *desk) Count(_ context.Context, sigs []bulkhead.Signature, _ []uint32) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reports = append(d.reports, bulkhead.Report{ID: "count", Signatures: sigs})
	return d.err()
}

func (d *desk) Node(context.Context) (*admin.NodeState, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return new(admin.NodeState), d.err()
}

func (d *desk) ids() (ids []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range d.reports {
		ids = append(ids, r.ID)
	}
	return ids
}

// divided is an edge with a map of shards a, b and c, and the desks behind it.
type divided struct {
	*Edge
	m     *shard.Map
	desks map[string]*desk
	clock *clock
}

func newDivided(t testing.TB, o Options) *divided {
	t.Helper()
	d := &divided{desks: make(map[string]*desk), clock: newClock()}
	o.Open = func(s shard.Shard) Upstream {
		if d.desks[s.Name] == nil {
			d.desks[s.Name] = new(desk)
		}
		return d.desks[s.Name]
	}
	o.Timeout, o.Now = 10*time.Second, d.clock.Now
	note := shard.Note{At: time.Unix(1e9, 0)}
	for i, name := range []string{"a", "b", "c"} {
		s := shard.Shard{Name: name, URLs: []string{fmt.Sprintf("http://127.0.0.1:%d", i+1)}}
		var err error
		if i == 0 {
			d.m, err = shard.New(s, note)
		} else if d.m, err = d.m.Add(s, note); err == nil {
			d.m, err = d.m.Level(name, note)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	d.Edge = New(o)
	d.every = 5 * time.Millisecond
	return d
}

// box returns a mailbox of a shard.
func (d *divided) box(of string) string {
	for i := 0; ; i++ {
		if b := fmt.Sprintf("user%d@example.com", i); d.m.Of(b) == of {
			return b
		}
	}
}

// move gives all slots of a shard to another one, and uses that map.
func (d *divided) move(t testing.TB, to, from string) {
	t.Helper()
	m, err := d.m.Move(to, from, len(d.m.SlotsOf(from)), shard.Note{At: time.Unix(2e9, 0)})
	if err != nil {
		t.Fatal(err)
	}
	d.m = m
	d.Use(m)
}

// TestRoutes checks which shard has a request.
func TestRoutes(t *testing.T) {
	for _, def := range []string{"", "c", "none"} {
		d := newDivided(t, Options{Default: def, Domain: "Example.com"})
		d.Use(d.m)
		rest := "a" // of the map
		if def == "c" {
			rest = "c"
		}
		ctx := t.Context()
		b, c := d.box("b"), d.box("c")
		for i, tt := range []struct {
			r    bulkhead.Report
			want string
		}{
			{bulkhead.Report{Recipients: []string{b, c}}, "b"},
			{bulkhead.Report{Recipients: []string{c, b}, Reporter: bulkhead.Reporter{User: b}}, "c"},
			{bulkhead.Report{Vote: bulkhead.Spam, Reporter: bulkhead.Reporter{User: b}}, "b"},
			{bulkhead.Report{Vote: bulkhead.Ham, Reporter: bulkhead.Reporter{User: "USER+x" + b[len("user"):]}}, ""},
			{bulkhead.Report{Vote: bulkhead.Spam, Reporter: bulkhead.Reporter{User: b[:len(b)-len("@example.com")]}}, "b"},
			{bulkhead.Report{Vote: bulkhead.Spam, Trap: true}, rest},
			{bulkhead.Report{}, rest},
		} {
			tt.r.ID, tt.r.Signatures = fmt.Sprint(i), query(i).Signatures
			if tt.want == "" {
				tt.want = d.m.Of(bulkhead.Mailbox(tt.r.Reporter.User))
			}
			if _, err := d.Report(ctx, tt.r); err != nil {
				t.Fatal(err)
			}
			q := bulkhead.Query{Signatures: query(i).Signatures, Reporter: tt.r.Reporter}
			if len(tt.r.Recipients) > 0 {
				q.Mailbox = tt.r.Recipients[0]
			}
			if v, err := d.Check(ctx, q); err != nil || v.Threshold != 7 {
				t.Fatalf("%+v, %v", v, err)
			}
			for name, x := range d.desks {
				if got := slices.Contains(x.ids(), tt.r.ID); got != (name == tt.want) {
					t.Errorf("default %q: report %d is at %s: %v, want %s", def, i, name, got, tt.want)
				}
			}
			asked := d.desks[tt.want].asked
			if len(asked) == 0 || asked[len(asked)-1].Signatures[0] != sig(i) || asked[len(asked)-1].Mailbox != "" {
				t.Errorf("default %q: shard %s was not asked about message %d without its mailbox", def, tt.want, i)
			}
		}
		looks := make([]bulkhead.Look, 1)
		if err := d.Look(ctx, query(1).Signatures, looks, bulkhead.Counts); err != nil || looks[0].Sightings != 3 {
			t.Errorf("%+v, %v", looks, err)
		}
		err := d.Count(ctx, query(1).Signatures, []uint32{1})
		if err != nil || !slices.Contains(d.desks[rest].ids(), "count") {
			t.Errorf("counts went elsewhere: %v", err)
		}
	}
}

// TestPrefer checks that an edge that runs takes another default and another domain.
func TestPrefer(t *testing.T) {
	d := newDivided(t, Options{})
	d.Prefer("b", "") // before there is a map
	d.Use(d.m)
	user := d.box("c")[:len(d.box("c"))-len("@example.com")]
	vote := bulkhead.Report{Vote: bulkhead.Spam, Signatures: query(1).Signatures, Reporter: bulkhead.Reporter{User: user}}
	delivery := bulkhead.Report{Signatures: query(1).Signatures}
	for i, want := range [][2]string{{"b", d.m.Of(user)}, {"c", "c"}} {
		if i == 1 {
			d.Prefer("c", "Example.com")
		}
		delivery.ID, vote.ID = fmt.Sprint("delivery ", i), fmt.Sprint("vote ", i)
		vote.Signatures = query(2 + i).Signatures // no repetition
		for n, r := range []bulkhead.Report{delivery, vote} {
			if _, err := d.Report(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			for name, x := range d.desks {
				if got := slices.Contains(x.ids(), r.ID); got != (name == want[n]) {
					t.Errorf("%s is at %s: %v, want %s", r.ID, name, got, want[n])
				}
			}
		}
	}
}

// TestShardAway checks that a dead shard concerns its own mailboxes alone. The edge is ready until all are dead.
func TestShardAway(t *testing.T) {
	log := new(logtest.Log)
	d := newDivided(t, Options{Log: log.Logger()})
	ctx := t.Context()
	if err := d.Count(ctx, query(1).Signatures, []uint32{1}); !errors.Is(err, bulkhead.ErrReadOnly) {
		t.Errorf("a count without a map: %v", err)
	}
	if err := d.Ready(ctx); !errors.Is(err, errNoMap) || d.Up() {
		t.Errorf("without a map: %v", err)
	}
	if v, err := d.Check(ctx, query(1)); err != nil || len(v.Reasons) == 0 {
		t.Errorf("without a map: %+v, %v", v, err)
	}
	d.Use(d.m)
	d.desks["b"].set(true)
	for range 3 {
		for _, of := range []string{"a", "b", "c"} {
			q := query(1)
			q.Mailbox = d.box(of)
			if v, err := d.Check(ctx, q); err != nil || (v.Threshold == 7) != (of != "b") {
				t.Errorf("shard %s: %+v, %v", of, v, err)
			}
			r := bulkhead.Report{Signatures: query(1).Signatures, Recipients: []string{q.Mailbox}}
			if _, err := d.Report(ctx, r); errors.Is(err, bulkhead.ErrReadOnly) != (of == "b") {
				t.Errorf("shard %s: %v", of, err)
			}
		}
	}
	d.clock.advance(2 * readyFor)
	if err := d.Ready(ctx); err != nil || d.Up() {
		t.Errorf("one of three is away: %v, up %v", err, d.Up())
	}
	for _, x := range d.Shards() {
		if x.Up != (x.Name != "b") || x.Rest != (x.Name == "a") {
			t.Errorf("%+v", x)
		}
	}
	if got := log.String(); strings.Count(got, "unreachable") != 1 || !strings.Contains(got, "shard=b") {
		t.Errorf("the log does not name the shard:\n%s", got)
	}
	for _, x := range d.desks {
		x.set(true)
	}
	d.clock.advance(2 * readyFor)
	if err := d.Ready(ctx); err == nil {
		t.Error("all shards are away, and the edge is ready")
	}
}

// TestMovedWhileAsked moves all slots and the default away from a shard that ends while it is asked. The new shard
// answers.
func TestMovedWhileAsked(t *testing.T) {
	for _, ends := range []bool{true, false} {
		d := newDivided(t, Options{})
		d.Use(d.m)
		moves := func(from, to string) func() {
			return func() {
				d.move(t, to, from)
				d.Prefer(to, "")
				d.desks[from].set(ends)
			}
		}
		q := query(1)
		q.Mailbox = d.box("a")
		d.desks["a"].onAsk = moves("a", "b")
		if v, err := d.Check(t.Context(), q); err != nil || v.Threshold != 7 {
			t.Errorf("the shard ends: %v: a check is answered %+v, %v", ends, v, err)
		}
		d.desks["b"].onAsk = moves("b", "c")
		var look [1]bulkhead.Look
		if err := d.Look(t.Context(), q.Signatures, look[:], 0); err != nil || look[0].Sightings != 3 {
			t.Errorf("the shard ends: %v: a look is answered %+v, %v", ends, look, err)
		}
		for name, want := range map[string]bool{"b": ends, "c": false} {
			if got := len(d.desks[name].asked) > 0; got != want {
				t.Errorf("the shard ends: %v: shard %s is asked: %v", ends, name, got)
			}
		}
		if n := d.Stats.FailOpen.Load(); n != 0 {
			t.Errorf("the shard ends: %v: %d answers are unknown", ends, n)
		}
	}
}

// TestRepeats checks that the repetition of a report goes where the report went, although its mailbox has moved, and is
// forgotten within bounds.
func TestRepeats(t *testing.T) {
	d := newDivided(t, Options{})
	d.Use(d.m)
	box := d.box("b")
	delivery := bulkhead.Report{ID: "x", Signatures: query(1).Signatures, Recipients: []string{box}}
	vote := bulkhead.Report{Vote: bulkhead.Spam, Signatures: query(1, 2).Signatures,
		Reporter: bulkhead.Reporter{User: box}}
	send := func(r bulkhead.Report) {
		t.Helper()
		if _, err := d.Report(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	counts := func(b, c int) {
		t.Helper()
		if gotB, gotC := len(d.desks["b"].ids()), len(d.desks["c"].ids()); gotB != b || gotC != c {
			t.Fatalf("shard b has %d reports and c %d, want %d and %d", gotB, gotC, b, c)
		}
	}
	send(delivery)
	send(vote)
	counts(2, 0)
	d.move(t, "c", "b")
	send(delivery)
	send(vote)
	vote.Vote = bulkhead.Ham // a change of mind
	send(vote)
	counts(5, 0)
	other := delivery
	other.ID = "y"
	send(other)
	send(bulkhead.Report{Signatures: query(1).Signatures, Recipients: []string{box}})
	counts(5, 2)
	d.clock.advance(sentFor)
	send(bulkhead.Report{ID: "z", Signatures: query(1).Signatures, Recipients: []string{box}})
	send(delivery) // remembered for one more
	counts(6, 3)
	d.clock.advance(sentFor)
	send(bulkhead.Report{ID: "z2", Signatures: query(1).Signatures, Recipients: []string{box}})
	d.clock.advance(sentFor)
	send(bulkhead.Report{ID: "z3", Signatures: query(1).Signatures, Recipients: []string{box}})
	send(delivery)
	counts(6, 6)
}

// TestSentIsBounded checks how many reports are remembered, and that those without a key or without a shard take no
// memory.
func TestSentIsBounded(t *testing.T) {
	now := newClock()
	s := sent{now: now.Now}
	for key := range uint64(3 * sentSize) {
		s.put(key+1, "b")
		s.put(0, "b")
		s.put(key+1, "")
		if n := len(s.new); n > sentSize || s.get(key+1) != "b" || key >= sentSize && s.get(key+2-sentSize) != "b" {
			t.Fatalf("%d reports are remembered of the last ones, the limit is %d", n, sentSize)
		}
	}
	if got := s.get(0); got != "" {
		t.Errorf("a report that is never repeated is at %q", got)
	}
	e := New(Options{Upstream: new(desk), Timeout: time.Minute})
	if _, err := e.Report(t.Context(), bulkhead.Report{ID: "a", Signatures: query(1).Signatures}); err != nil {
		t.Fatal(err)
	}
	if n := len(e.sent.new); n > 0 {
		t.Errorf("an edge with one upstream remembers where it sent %d reports", n)
	}
}

// TestRepeatKey checks which reports have one key: sightings with one ID by one reporter, and votes by one voter on one
// message.
func TestRepeatKey(t *testing.T) {
	sighting := func(id, account, user string, sigs ...int) bulkhead.Report {
		return bulkhead.Report{ID: id, Reporter: bulkhead.Reporter{Account: account, User: user},
			Signatures: query(sigs...).Signatures}
	}
	vote := func(id, account, user string, sigs ...int) bulkhead.Report {
		r := sighting(id, account, user, sigs...)
		r.Vote = bulkhead.Spam
		return r
	}
	elsewhere, ham, scheme := vote("", "a", "u", 1), vote("", "a", "u", 1), vote("", "a", "u", 1)
	elsewhere.Reporter.Addr = netip.MustParseAddr("192.0.2.1")
	ham.Vote = bulkhead.Ham
	scheme.Signatures = []bulkhead.Signature{bulkhead.MustSignature(bulkhead.DCCFuz1, scheme.Signatures[0].Sum())}
	keys := make(map[uint64]int)
	for class, same := range [][]bulkhead.Report{
		{sighting("x", "a", "u", 1), sighting("x", "a", "u", 2)},
		{sighting("y", "a", "u", 1)},
		{sighting("x", "a", "v", 1)},
		{sighting("x", "b", "u", 1)},
		{sighting("x", "au", "", 1)},
		{vote("", "a", "u", 1), vote("x", "a", "u", 1), ham},
		{vote("", "a", "u", 2)},
		{vote("", "a", "u", 1, 2)},
		{vote("", "au", "", 1)},
		{vote("", "a", "v", 1)},
		{elsewhere},
		{scheme},
	} {
		for _, r := range same {
			key := repeatKey(&r)
			if of, ok := keys[key]; key == 0 || ok && of != class {
				t.Errorf("report %+v has the key %d of class %d", r, key, of)
			}
			if keys[key] = class; key != repeatKey(&same[0]) {
				t.Errorf("report %+v has another key than %+v", r, same[0])
			}
		}
	}
	if r := sighting("", "a", "u", 1); repeatKey(&r) != 0 {
		t.Error("a sighting without an ID has a key")
	}
}

// TestForgetsSpooled checks that a cached answer is not given any more once a report on its message is in the spool.
func TestForgetsSpooled(t *testing.T) {
	spool, err := OpenSpool(filepath.Join(t.TempDir(), "spool.db"), 1<<20, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer spool.Close()
	d := newDivided(t, Options{Spool: spool, Cache: time.Hour})
	d.Use(d.m)
	a, b := query(1), query(1)
	a.Mailbox, b.Mailbox = d.box("a"), d.box("b")
	cached := func(want int64) {
		t.Helper()
		before := d.Stats.Cached.Load()
		for _, q := range []bulkhead.Query{a, b} {
			if _, err := d.Check(t.Context(), q); err != nil {
				t.Fatal(err)
			}
		}
		if n := d.Stats.Cached.Load() - before; n != want {
			t.Errorf("%d answers are from the cache, want %d", n, want)
		}
	}
	cached(0)
	cached(2)
	d.clock.advance(time.Second)
	if err := spool.put(bulkhead.Report{Signatures: query(2).Signatures, Recipients: []string{b.Mailbox}}, "",
		d.clock.Now()); err != nil {
		t.Fatal(err)
	}
	r := bulkhead.Report{Signatures: query(1).Signatures, Recipients: []string{b.Mailbox}}
	if got, err := d.Report(t.Context(), r); err != nil || got.Pending != 1 { // behind the other one
		t.Fatalf("%+v, %v", got, err)
	}
	cached(1) // of a
}

// TestSpoolOfShards keeps reports for a shard that is away, through a start. Those that it cannot have go to the shard
// that has their mailbox by then; one that it may have waits for it; and no report counts twice.
func TestSpoolOfShards(t *testing.T) {
	path := filepath.Join(t.TempDir(), "spool.db")
	open := func() *Spool {
		s, err := OpenSpool(path, 1<<20, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	d := newDivided(t, Options{Spool: open()})
	send := func(id, box string, pending bool) {
		t.Helper()
		got, err := d.Report(t.Context(), bulkhead.Report{ID: id, Signatures: query(1).Signatures, Recipients: []string{box}})
		if err != nil || (got.Pending > 0) != pending {
			t.Fatalf("report %s: %+v, %v", id, got, err)
		}
	}
	a, b := d.box("a"), d.box("b")
	send("early", b, true) // there is no map yet
	d.Use(d.m)
	d.desks["b"].set(true)
	if n := d.spool.waiting("b"); n != 1 {
		t.Fatalf("%d reports wait for b", n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { d.Deliver(ctx) })
	await.True(t, "an attempt", func() bool { return !d.Up() })
	send("later", b, true)
	send("other", a, false)
	for _, x := range d.Shards() {
		if want := map[string]int{"b": 2}[x.Name]; x.Waiting != want {
			t.Errorf("%d reports wait for %s, want %d", x.Waiting, x.Name, want)
		}
	}
	cancel()
	running.Wait()
	if err := d.spool.Close(); err != nil {
		t.Fatal(err)
	}

	old := d
	d = newDivided(t, Options{Spool: open()})
	d.m, d.desks = old.m, old.desks
	d.Use(d.m)
	d.move(t, "c", "b") // b stays in the map
	if n := d.spool.waiting("b"); n != 1 {
		t.Fatalf("%d reports wait for b, want the one that it may have", n)
	}
	send("early", b, true) // the repetition of a report that b may have
	if n := d.spool.waiting("b"); n != 2 {
		t.Errorf("%d reports wait for b, want the one that it may have and its repetition", n)
	}
	ctx, cancel = context.WithCancel(t.Context())
	running.Go(func() { d.Deliver(ctx) })
	await.True(t, "the report for c", func() bool { return slices.Equal(d.desks["c"].ids(), []string{"later"}) })
	d.desks["b"].set(false)
	await.True(t, "an empty spool", func() bool { n, bytes := d.spool.Len(); return n == 0 && bytes == 0 })
	cancel()
	running.Wait()
	if got := d.desks["b"].ids(); !slices.Equal(got, []string{"early", "early"}) {
		t.Errorf("shard b has %v", got)
	}
	if n := d.Stats.Delivered.Load(); n != 3 {
		t.Errorf("%d reports are counted as delivered, want 3", n)
	}
	if n := len(d.spool.marks); n != 0 {
		t.Errorf("%d shards are remembered for reports that have left the spool", n)
	}
	if err := d.spool.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestRepeatInSpool checks that the repetition of a report that waits in the spool goes to the shard that may have the
// first copy, although the mailbox has moved, the repetition came before, and no request had it.
func TestRepeatInSpool(t *testing.T) {
	spool, err := OpenSpool(filepath.Join(t.TempDir(), "spool.db"), 1<<20, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer spool.Close()
	d := newDivided(t, Options{Spool: spool})
	d.Use(d.m)
	vote := bulkhead.Report{Vote: bulkhead.Spam, Signatures: query(1, 2).Signatures,
		Reporter: bulkhead.Reporter{User: d.box("b")}}
	keep := func(id string) {
		t.Helper()
		vote.ID = id
		if err := spool.put(vote, "", time.Unix(1e9, 0)); err != nil {
			t.Fatal(err)
		}
	}
	waiting := func(b, c int) {
		t.Helper()
		if gotB, gotC := spool.waiting("b"), spool.waiting("c"); gotB != b || gotC != c {
			t.Fatalf("%d reports wait for b and %d for c, want %d and %d", gotB, gotC, b, c)
		}
	}
	keep("first")
	keep("before the first was sent")
	sent, err := spool.claim("b", 1)
	if err != nil || len(sent) != 1 {
		t.Fatal(sent, err)
	}
	d.move(t, "c", "b")
	keep("after the move")
	waiting(3, 0)
	d.sent.put(repeatKey(&vote), "b") // as the delivery does
	if err := spool.remove(sent); err != nil {
		t.Fatal(err)
	}
	d.move(t, "a", "c")
	keep("after the first was taken")
	waiting(3, 0)
}

// BenchmarkRoute measures what choosing a shard costs.
func BenchmarkRoute(b *testing.B) {
	d := newDivided(b, Options{})
	d.Use(d.m)
	vote := bulkhead.Report{Vote: bulkhead.Spam, Reporter: bulkhead.Reporter{User: "ann@example.com"}}
	for i := range 40 {
		vote.Signatures = append(vote.Signatures, sig(i))
	}
	delivery := bulkhead.Report{ID: "<some.message.id@mail.example.com>", Recipients: []string{"ann@example.com"},
		Signatures: vote.Signatures}
	q := bulkhead.Query{Mailbox: "ann@example.com"}
	b.Run("check", func(b *testing.B) {
		for b.Loop() {
			d.current().of(askedFor(&q))
		}
	})
	for name, r := range map[string]*bulkhead.Report{"delivery": &delivery, "vote": &vote} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				d.towards(r, repeatKey(r))
			}
		})
	}
}
