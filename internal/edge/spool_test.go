package edge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client"
	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/boltfile"
	"github.com/bulkhead-mail/bulkhead/internal/testing/await"
	"github.com/bulkhead-mail/bulkhead/internal/testing/logtest"
)

// A flaky upstream counts reports by their IDs, and is away, read-only or silent after counting, at random.
type flaky struct {
	mu    sync.Mutex
	rng   *rand.Rand
	fault int // 0: none, 1: unreachable, 2: read-only, 3: answers are lost, 4: any of these
	house *shared
}

// shared is what a node and its standby have counted: reports by ID, and the votes of each user in order.
type shared struct {
	counted map[string]int // by ID: number of deliveries that were not repeated
	votes   map[string][]bulkhead.Vote
}

var errDial = &net.OpError{Op: "dial", Err: errors.New("connection refused")}

func (f *flaky) set(fault int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault = fault
}

func (f *flaky) ReportBatch(_ context.Context, reports []bulkhead.Report) ([]client.Reported, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fault := f.fault
	if fault == 4 {
		fault = f.rng.IntN(4)
	}
	out := make([]client.Reported, len(reports))
	switch fault {
	case 1:
		return nil, errDial
	case 2:
		for i := range out {
			out[i].Err = fmt.Errorf("%w: disk full", bulkhead.ErrReadOnly)
		}
		return out, nil
	}
	for i, r := range reports {
		if r.Signatures[0] == sig(13) {
			out[i].Err = []error{bulkhead.ErrForbidden, bulkhead.ErrOverLimit}[f.rng.IntN(2)]
			continue
		}
		if _, repeated := f.house.counted[r.ID]; !repeated {
			f.house.counted[r.ID] = 1
			f.house.votes[r.Reporter.User] = append(f.house.votes[r.Reporter.User], r.Vote)
		}
		out[i].Receipt.Counted = 1
	}
	if fault == 3 {
		return nil, errors.New("connection reset")
	}
	return out, nil
}

func (f *flaky) err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fault == 1 || f.fault == 3 {
		return errDial
	}
	return nil
}

func (f *flaky) CheckBatch(_ context.Context, q []bulkhead.Query) ([]client.Checked, error) {
	return make([]client.Checked, len(q)), f.err()
}

func (f *flaky) Look(context.Context, []bulkhead.Signature, []bulkhead.Look, bulkhead.Aspect) error {
	return f.err()
}

func (f *flaky) Count(context.Context, []bulkhead.Signature, []uint32) error { return f.err() }

func (f *flaky) Node(context.Context) (*admin.NodeState, error) { return new(admin.NodeState), f.err() }

// TestSpool reports through edges that end without notice and begin anew, to a node and its standby that fail
// in all ways. In the end, everything that the edge acknowledged was counted, once, and the votes of each user
// arrived in their order.
func TestSpool(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { spool(t, rand.New(rand.NewPCG(seed, 5))) })
	}
}

func spool(t *testing.T, rng *rand.Rand) {
	path := filepath.Join(t.TempDir(), "spool.db")
	house := &shared{counted: make(map[string]int), votes: make(map[string][]bulkhead.Vote)}
	var nodes [2]*flaky
	for i := range nodes {
		nodes[i] = &flaky{house: house, rng: rand.New(rand.NewPCG(rng.Uint64(), 1))}
	}
	var lock sync.Mutex // both nodes have one journal
	ctx := t.Context()
	var e *Edge
	var end func()
	begin := func() {
		s, err := OpenSpool(path, 1<<20, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		e = New(Options{Upstream: Several(locked{nodes[0], &lock}, locked{nodes[1], &lock}), Timeout: time.Second, Spool: s})
		e.every = 5 * time.Millisecond
		ctx, cancel := context.WithCancel(ctx)
		var running sync.WaitGroup
		running.Go(func() {
			if err := e.Deliver(ctx); err != nil {
				t.Error(err)
			}
		})
		end = func() {
			cancel()
			running.Wait()
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	begin()
	acked := make(map[string]bool)
	want := make(map[string][]bulkhead.Vote)
	for n := range 150 {
		switch rng.IntN(20) {
		case 0, 1:
			nodes[rng.IntN(2)].set(rng.IntN(5))
		case 2:
			end()
			begin()
		}
		r := bulkhead.Report{ID: fmt.Sprint(n), Vote: []bulkhead.Vote{bulkhead.Spam, bulkhead.Ham}[rng.IntN(2)],
			Reporter: bulkhead.Reporter{User: fmt.Sprint(rng.IntN(4))}, Signatures: []bulkhead.Signature{sig(n + 100)}}
		if _, err := e.Report(ctx, r); err != nil {
			t.Fatalf("report %d: %v", n, err)
		}
		acked[r.ID] = true
		if rng.IntN(40) == 0 { // a report that is always refused keeps no other back
			if _, err := e.keep(bulkhead.Report{ID: "bad", Signatures: []bulkhead.Signature{sig(13)}}, "", errAway); err != nil {
				t.Fatal(err)
			}
		}
		want[r.Reporter.User] = append(want[r.Reporter.User], r.Vote)
	}
	for _, node := range nodes {
		node.set(0)
	}
	if !await.Within(await.Patience, func() bool { n, bytes := e.spool.Len(); return n == 0 && bytes == 0 }) {
		n, bytes := e.spool.Len()
		t.Fatalf("%d reports of %d bytes are still in the spool", n, bytes)
	}
	end()
	for id := range acked {
		if house.counted[id] != 1 {
			t.Errorf("report %s was acknowledged and counted %d times", id, house.counted[id])
		}
	}
	for user, votes := range want {
		if !slices.Equal(house.votes[user], votes) {
			t.Errorf("user %s: votes arrived as %v, given as %v", user, house.votes[user], votes)
		}
	}
}

// locked is a flaky node with the lock of its pair.
type locked struct {
	*flaky
	lock *sync.Mutex
}

func (l locked) ReportBatch(ctx context.Context, reports []bulkhead.Report) ([]client.Reported, error) {
	l.lock.Lock()
	defer l.lock.Unlock()
	return l.flaky.ReportBatch(ctx, reports)
}

// TestSpoolIsBounded fills a spool: the report that has no room is refused, and none is lost.
func TestSpoolIsBounded(t *testing.T) {
	s, err := OpenSpool(filepath.Join(t.TempDir(), "spool.db"), 2000, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	up := &flaky{fault: 1}
	e := New(Options{Upstream: up, Timeout: time.Minute, Spool: s})
	taken := 0
	for {
		r := bulkhead.Report{Vote: bulkhead.Spam, Signatures: []bulkhead.Signature{sig(taken)}}
		receipt, err := e.Report(t.Context(), r)
		if err != nil {
			if !errors.Is(err, bulkhead.ErrReadOnly) {
				t.Error(err)
			}
			break
		}
		if receipt.Pending != 1 {
			t.Errorf("receipt %+v", receipt)
		}
		taken++
	}
	if kept, refused := e.Stats.Spooled.Load(), e.Stats.Temporary.Load(); kept != int64(taken) || refused != 1 {
		t.Errorf("%d reports are counted as kept and %d as refused, want %d and 1", kept, refused, taken)
	}
	n, bytes := s.Len()
	all, err := s.claim("", 100)
	if err != nil || n != taken || len(all) != taken || bytes > 2000 || taken < 3 {
		t.Errorf("%d reports taken, %d of %d bytes kept, %d read: %v", taken, n, bytes, len(all), err)
	}
	for i, x := range all {
		if x.Report.ID == "" || x.Report.Signatures[0] != sig(i) {
			t.Errorf("report %d is %+v", i, x.Report)
		}
	}
}

// TestSpoolOrder checks that reports leave a spool in the order of the disk, whatever the order in which those that
// came at once enter its queue.
func TestSpoolOrder(t *testing.T) {
	s, err := OpenSpool(filepath.Join(t.TempDir(), "spool.db"), 2000, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, key := range []uint64{3, 4, 1, 2} {
		s.insert(&entry{key: key})
	}
	all, err := s.claim("", 10)
	if err != nil || len(all) != 4 {
		t.Fatalf("%v, %v", all, err)
	}
	for i, x := range all {
		if x.key != uint64(i+1) {
			t.Errorf("report %d has place %d", x.key, i)
		}
	}
}

// TestSpoolSequence checks that no new report takes the place of one that waits, although the file numbers its reports
// from the beginning again.
func TestSpoolSequence(t *testing.T) {
	path := filepath.Join(t.TempDir(), "spool.db")
	var want []string
	for range 2 {
		s, err := OpenSpool(path, 1<<20, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			id := fmt.Sprint(len(want))
			if err := s.put(bulkhead.Report{ID: id, Signatures: query(1).Signatures}, "", time.Unix(1e9, 0)); err != nil {
				t.Fatal(err)
			}
			want = append(want, id)
		}
		if err := s.db.Update(func(tx *bbolt.Tx) error { return tx.Bucket(spoolBucket).SetSequence(0) }); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if got := reportsIn(t, path); !slices.Equal(got, want) {
		t.Errorf("the spool has %v, want %v", got, want)
	}
}

// TestMalformedInSpool checks that a report which the upstream takes for malformed is dropped, and that those around
// it arrive.
func TestMalformedInSpool(t *testing.T) {
	s, err := OpenSpool(filepath.Join(t.TempDir(), "spool.db"), 2000, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	up := &desk{away: true}
	e := New(Options{Upstream: up, Timeout: time.Minute, Spool: s})
	ids := []string{"first", "malformed", "last", "malformed"}
	for _, id := range ids {
		if _, err := e.Report(t.Context(), bulkhead.Report{ID: id, Signatures: query(1).Signatures}); err != nil {
			t.Fatal(err)
		}
	}
	up.set(false)
	for range ids {
		if whole, err := e.deliver(t.Context(), only(e)); err != nil || !whole {
			t.Fatalf("whole %v, %v", whole, err)
		}
	}
	n, _ := s.Len()
	delivered, dropped := e.Stats.Delivered.Load(), e.Stats.Dropped.Load()
	if got := up.ids(); !slices.Equal(got, []string{"first", "last"}) || n != 0 || delivered != 2 || dropped != 2 {
		t.Errorf("%v arrived, %d wait, %d are counted as delivered and %d as dropped", got, n, delivered, dropped)
	}
	if n := e.Stats.Requests.Load(); n != 1+3*2+1 {
		t.Errorf("%d requests, want one that failed, two for each batch with a malformed report, and one for the last", n)
	}
}

// spooled returns an edge with reports in its spool.
func spooled(t *testing.T, o Options, reports ...bulkhead.Report) *Edge {
	t.Helper()
	s, err := OpenSpool(filepath.Join(t.TempDir(), "spool.db"), 1<<20, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	for _, r := range reports {
		if err := s.put(r, "", time.Unix(1e9, 0)); err != nil {
			t.Fatal(err)
		}
	}
	o.Timeout, o.Spool = time.Minute, s
	return New(o)
}

// TestDelivery checks what becomes of a report in the spool by the answer of the upstream.
func TestDelivery(t *testing.T) {
	type end int
	const (
		kept end = iota // the report and all behind it
		delivered
		dropped
	)
	for _, tt := range []struct {
		one, whole error // of the second report, or of the batch
		want       end
		fails      bool
	}{
		{nil, nil, delivered, false},
		{errReadOnly, nil, kept, false},
		{&client.Problem{Status: 500}, nil, kept, false},
		{fmt.Errorf("%w: rate", bulkhead.ErrOverLimit), nil, kept, false},
		{&client.Problem{Status: 403}, nil, dropped, false},
		{&client.Problem{Status: 400}, nil, dropped, false},
		{nil, errDial, kept, false},
		{nil, errReadOnly, kept, false},
		{nil, &client.Problem{Status: 403}, kept, true},
		{nil, &client.Problem{Status: 429}, kept, true},
	} {
		up := &scripted{err: tt.whole, refuses: map[string]error{"b": tt.one}}
		e := spooled(t, Options{Upstream: up}, reportsOf("a", "b", "c")...)
		for try := range maxWaits - 1 { // it is tried again and again
			whole, err := e.deliver(t.Context(), only(e))
			if (err != nil) != tt.fails || whole != (tt.want != kept && try == 0) {
				t.Fatalf("%v, %v: whole %v, %v", tt.one, tt.whole, whole, err)
			}
			up.err = nil // only the first batch
			if tt.want != kept || tt.whole != nil {
				break
			}
		}
		n, _ := e.spool.Len()
		got := [3]int64{e.Stats.Delivered.Load(), e.Stats.Dropped.Load(), int64(n)}
		want := map[end][3]int64{kept: {1, 0, 2}, delivered: {3, 0, 0}, dropped: {2, 1, 0}}[tt.want]
		if tt.whole != nil {
			want = [3]int64{0, 0, 3}
		}
		if got != want {
			t.Errorf("%v, %v: %d are delivered, %d dropped, %d kept; want %d", tt.one, tt.whole, got[0], got[1], got[2], want)
		}
	}
}

// TestAgain checks how often a report that is over a limit is tried again while it is the oldest.
func TestAgain(t *testing.T) {
	var d delivery
	for _, key := range []uint64{1, 2, 1} {
		for n := 1; n <= maxWaits; n++ {
			if got := d.again(&kept{key: key}); got != (n < maxWaits) {
				t.Fatalf("report %d is tried again after %d times: %v", key, n, got)
			}
			if key == 2 {
				break // another one is the oldest now
			}
		}
	}
}

// TestDeliveryAsks checks when a delivery asks for the state of the node first, and that it sends no empty request.
func TestDeliveryAsks(t *testing.T) {
	up, now := new(scripted), newClock()
	e := spooled(t, Options{Upstream: up, Now: now.Now})
	deliver := func(away bool, want ...string) {
		t.Helper()
		up.asked, up.err = nil, nil
		if away {
			up.err = errDial
		}
		whole, err := e.deliver(t.Context(), only(e))
		if err != nil || whole != (!away && len(want) > 0) || !slices.Equal(up.asked, want) {
			t.Errorf("the node is asked for %q, want %q; whole %v, %v", up.asked, want, whole, err)
		}
	}
	put := func(id string) {
		t.Helper()
		if err := e.spool.put(reportsOf(id)[0], "", now.Now()); err != nil {
			t.Fatal(err)
		}
	}
	deliver(false)
	put("a")
	deliver(true, "a")
	deliver(true, "node")
	deliver(false, "node", "a")
	put("b")
	deliver(false, "b")
	only(e).health.note(only(e).health.sent(), errDial)
	deliver(false)
}

// TestDeliveryOrder checks that votes of one reporter that differ are in different batches, and that all batches of a
// long queue follow each other, as well as a report that comes later.
func TestDeliveryOrder(t *testing.T) {
	vote := func(id, user string, vote bulkhead.Vote) bulkhead.Report {
		return bulkhead.Report{ID: id, Vote: vote, Reporter: bulkhead.Reporter{User: user}, Signatures: query(1).Signatures}
	}
	all := []bulkhead.Report{vote("a", "ann", bulkhead.Spam), vote("b", "ben", bulkhead.Ham),
		vote("c", "ann", bulkhead.Spam), vote("d", "ann", bulkhead.Ham), vote("e", "ben", bulkhead.Ham)}
	want := []string{"a b c", "d e"}
	for i := range 2*batchSize + 1 {
		id := fmt.Sprint(i)
		all = append(all, vote(id, "ben", bulkhead.Ham))
		switch i {
		case batchSize - 2, 2*batchSize - 2:
			want = append(want, id)
		default:
			want[len(want)-1] += " " + id
		}
	}
	up := new(scripted)
	e := spooled(t, Options{Upstream: up}, all...)
	e.every = time.Hour
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { e.Deliver(ctx) })
	empty := func() bool { n, _ := e.spool.Len(); return n == 0 }
	await.True(t, "an empty spool", empty)
	if err := e.spool.put(vote("late", "ben", bulkhead.Ham), "", time.Unix(1e9, 0)); err != nil {
		t.Fatal(err)
	}
	await.True(t, "an empty spool", empty)
	cancel()
	running.Wait()
	if want = append(want, "late"); !slices.Equal(up.asked, want) {
		t.Errorf("the batches are %q, want %q", up.asked, want)
	}
}

// TestDeliveryIsRemembered checks that the repetition of a report goes where the spool delivered it.
func TestDeliveryIsRemembered(t *testing.T) {
	d := newDivided(t, Options{Spool: spooled(t, Options{Upstream: new(desk)}).spool})
	d.Use(d.m)
	r := bulkhead.Report{ID: "x", Signatures: query(1).Signatures, Recipients: []string{d.box("b")}}
	if err := d.spool.put(r, "", time.Unix(1e9, 0)); err != nil {
		t.Fatal(err)
	}
	if whole, err := d.deliver(t.Context(), d.current().named("b")); err != nil || !whole {
		t.Fatal(whole, err)
	}
	d.move(t, "c", "b")
	if _, err := d.Report(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if b, c := d.desks["b"].ids(), d.desks["c"].ids(); len(b) != 2 || len(c) != 0 {
		t.Errorf("shard b has %v and c %v", b, c)
	}
}

// TestSpoolFails checks that a disk which fails loses no report, and that what a shard may have is on disk before the
// shard gets it.
func TestSpoolFails(t *testing.T) {
	log := new(logtest.Log)
	e := spooled(t, Options{Upstream: new(desk), Log: log.Logger()}, reportsOf("a", "b")...)
	s := e.spool
	s.route(func(x entry) string { return cmp.Or(x.may, "z") })
	all, err := s.claim("z", 1)
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	n, bytes := s.Len()
	path := s.db.Path()
	if err := s.db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.put(reportsOf("c")[0], "", time.Unix(1e9, 0)); !errors.Is(err, bulkhead.ErrReadOnly) {
		t.Errorf("a report is added to a file that fails: %v", err)
	}
	if _, err := s.claim("z", 2); err == nil {
		t.Error("reports are read from a file that fails")
	}
	if err := s.remove(all); err == nil {
		t.Error("a report is removed from a file that fails")
	}
	if err := s.remove(nil); err != nil {
		t.Errorf("nothing is removed: %v", err)
	}
	if got, size := s.Len(); got != n || size != bytes {
		t.Errorf("%d reports of %d bytes are left, want %d of %d", got, size, n, bytes)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { e.deliverTo(ctx, e.target("z", new(desk))) })
	await.True(t, "a log line", func() bool { return strings.Contains(log.String(), "cannot be delivered") })
	cancel()
	running.Wait()

	if s.db, err = boltfile.Open(path, nil); err != nil {
		t.Fatal(err)
	}
	writes := func() int64 { stats := s.db.Stats().TxStats; return stats.GetWrite() }
	for i := range 2 {
		before := writes()
		if _, err := s.claim("z", 2); err != nil {
			t.Fatal(err)
		}
		text, want := "", s.waiting("z")
		if err := s.db.View(func(tx *bbolt.Tx) error {
			return tx.Bucket(spoolBucket).ForEach(func(_, v []byte) error { text += string(v); return nil })
		}); err != nil {
			t.Fatal(err)
		}
		if strings.Count(text, `"May":"z"`) != want || want != 2 {
			t.Errorf("of %d reports that a shard may have the file has %s", want, text)
		}
		if i == 1 && writes() != before {
			t.Error("what the file has already is written again")
		}
	}
}

// TestSpoolSetAside checks that no damaged file is lost: not when its new name is taken, and not when only a key is
// damaged.
func TestSpoolSetAside(t *testing.T) {
	path := filepath.Join(t.TempDir(), "spool.db")
	s, err := OpenSpool(path, 1<<20, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.put(reportsOf("a")[0], "", time.Unix(1e9, 0)), InspectSpool(path)); err != nil { // in use
		t.Fatal(err)
	}
	for _, tt := range []struct{ key, value string }{{"short", "{}"}, {"long enough", "{}"}, {"fitting.", "{"}} {
		if err := s.db.Update(func(tx *bbolt.Tx) error {
			return tx.Bucket(spoolBucket).Put([]byte(tt.key), []byte(tt.value))
		}); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if err := InspectSpool(path); !errors.Is(err, boltfile.ErrDamaged) {
			t.Errorf("key %q, value %q: %v", tt.key, tt.value, err)
		}
		damaged, err := os.ReadFile(path)
		if err == nil {
			err = os.MkdirAll(filepath.Join(path+".damaged", "full"), 0o700)
		}
		if err != nil {
			t.Fatal(err)
		}
		aside := len(tt.key) != 8
		s, err = OpenSpool(path, 1<<20, slog.New(slog.DiscardHandler))
		if aside {
			if got, _ := os.ReadFile(path); err == nil || !slices.Equal(got, damaged) {
				t.Fatalf("the damaged file has gone: %v", err)
			}
			if err := os.RemoveAll(path + ".damaged"); err != nil {
				t.Fatal(err)
			}
			s, err = OpenSpool(path, 1<<20, slog.New(slog.DiscardHandler))
		}
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path + ".damaged"); aside && (err != nil || !slices.Equal(got, damaged)) {
			t.Errorf("the damaged file is not kept: %v", err)
		}
		if err := os.RemoveAll(path + ".damaged"); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if ids := reportsIn(t, path); !slices.Contains(ids, "a") {
		t.Errorf("the reports in the spool are %q", ids)
	}
	if _, err := OpenSpool(filepath.Join(path, "no folder"), 1<<20, slog.New(slog.DiscardHandler)); err == nil {
		t.Error("a spool opens in a folder that does not exist")
	}
	empty := filepath.Join(t.TempDir(), "spool.db")
	db, err := boltfile.Open(empty, nil)
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	if err := InspectSpool(empty); !errors.Is(err, boltfile.ErrDamaged) {
		t.Errorf("a file without reports: %v", err)
	}
}

// TestNothingToDeliver checks that an edge without a spool waits for its end.
func TestNothingToDeliver(t *testing.T) {
	e := New(Options{Upstream: new(flaky), Timeout: time.Second})
	ctx, cancel := context.WithCancel(t.Context())
	begun, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		close(begun)
		if err := e.Deliver(ctx); err != nil || ctx.Err() == nil {
			t.Errorf("it ends before its context: %v", err)
		}
	}()
	<-begun
	for range 1000 {
		runtime.Gosched()
	}
	cancel()
	<-ended
}

// TestSeveral checks that a request moves on from a dead, a silent and a read-only node, and stays at the node
// that answers.
func TestSeveral(t *testing.T) {
	house := &shared{counted: make(map[string]int), votes: make(map[string][]bulkhead.Vote)}
	first, second := &flaky{house: house}, &flaky{house: house}
	e := New(Options{Upstream: Several(first, second), Timeout: time.Minute})
	r := bulkhead.Report{Vote: bulkhead.Spam, Signatures: []bulkhead.Signature{sig(1)}}
	for i, fault := range []int{1, 2, 0} {
		first.set(fault)
		r.ID = fmt.Sprint(i)
		if _, err := e.Report(t.Context(), r); err != nil {
			t.Errorf("fault %d: %v", fault, err)
		}
		if v, err := e.Check(t.Context(), bulkhead.Query{Signatures: r.Signatures}); err != nil || len(v.Reasons) > 0 {
			t.Errorf("fault %d: %+v, %v", fault, v, err)
		}
	}
	first.set(1)
	second.set(2) // as a standby that follows a dead node
	for range 3 {
		if _, err := e.Report(t.Context(), r); !errors.Is(err, bulkhead.ErrReadOnly) || !e.Up() {
			t.Errorf("no node takes reports, and one answers: %v, up %v", err, e.Up())
		}
		if v, err := e.Check(t.Context(), bulkhead.Query{Signatures: r.Signatures}); err != nil || len(v.Reasons) > 0 {
			t.Errorf("no node takes reports: %+v, %v", v, err)
		}
	}
	second.set(1)
	if err := e.Ready(t.Context()); err == nil {
		t.Error("an edge whose nodes are dead is ready")
	}
	second.set(0)
	first.set(3)
	e.ready.at = time.Time{}
	if err := e.Ready(t.Context()); err != nil {
		t.Errorf("one of two nodes answers: %v", err)
	}
}

// FuzzSpool reads a report as a spool does.
func FuzzSpool(f *testing.F) {
	f.Add([]byte(`{"At":"2026-01-02T03:04:05Z","Report":{"Vote":1,"Signatures":["dcc/body:00"],"ID":"a"}}`))
	f.Add([]byte(`{"At":"2026-01-02T03:04:05Z","May":"a","Report":{"Signatures":["dcc/body:00"]}}`))
	f.Add([]byte(`{"At":"2026-01-02T03:04:05Z"`))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := OpenSpool(filepath.Join(t.TempDir(), "spool.db"), 2*int64(len(b)), slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		for range 2 {
			if err := s.putText(b); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.putText(append(b, ' ')); !errors.Is(err, bulkhead.ErrReadOnly) {
			t.Fatalf("a full spool: %v", err)
		}
		all, err := s.claim("", 10)
		if err != nil || len(all) != 2 {
			t.Fatalf("%d reports, %v", len(all), err)
		}
		s.route(func(entry) string { return "a" })
		for range 2 { // the second time, the shard is on disk
			if all, err = s.claim("a", 10); err != nil || len(all) != 2 {
				t.Fatalf("%d reports for a shard, %v", len(all), err)
			}
		}
		r := &all[0].Report
		if repeat := repeatKey(r); len(r.Signatures) > 0 && (all[0].May != "a" || repeat != 0 && s.marked(repeat) != "a") {
			t.Fatalf("shard %q may have the report", all[0].May)
		}
		if err := errors.Join(s.remove(nil), s.remove(all)); err != nil {
			t.Fatal(err)
		}
		all, err = s.claim("a", 10)
		if n, bytes := s.Len(); n != 0 || bytes != 0 || err != nil || len(all) > 0 {
			t.Fatalf("%d reports of %d bytes are left, %d claimed: %v", n, bytes, len(all), err)
		}
	})
}

// TestSpoolDamaged damages a spool at each place in turn. It opens all the same, and either has all reports or has put
// the damaged file aside, with the reports that can be read in the new one.
func TestSpoolDamaged(t *testing.T) {
	const reports = 40
	path := filepath.Join(t.TempDir(), "spool.db")
	s, err := OpenSpool(path, 1<<20, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for i := range reports {
		r := bulkhead.Report{ID: fmt.Sprint(i), Vote: bulkhead.Spam, Signatures: []bulkhead.Signature{sig(i)}}
		if err := s.put(r, "", time.Unix(int64(i), 0)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(s.Close(), InspectSpool(path)); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	aside, kept := 0, 0
	for range 300 {
		damaged := slices.Clone(whole)
		switch r.IntN(3) {
		case 0:
			damaged[r.IntN(len(damaged))] ^= 1 << r.IntN(8)
		case 1:
			damaged = damaged[:r.IntN(len(damaged))]
		case 2:
			at := r.IntN(len(damaged))
			clear(damaged[at:min(len(damaged), at+1+r.IntN(4096))])
		}
		path := filepath.Join(t.TempDir(), "spool.db")
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := OpenSpool(path, 1<<20, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		n, _ := s.Len()
		if _, err := os.Stat(path + ".damaged"); err == nil {
			aside++
			kept += n
		}
		if _, err := s.claim("", reports); err != nil {
			t.Error(err)
		}
		r := bulkhead.Report{ID: "new", Signatures: []bulkhead.Signature{sig(1)}}
		if err := errors.Join(s.put(r, "", time.Unix(0, 0)), s.Close()); err != nil {
			t.Error(err)
		}
	}
	if aside < 50 || kept == 0 {
		t.Errorf("%d of 300 files were put aside, %d reports of them kept", aside, kept)
	}
}

// reportsIn opens a spool and returns the reports in it.
func reportsIn(t *testing.T, path string) (ids []string) {
	t.Helper()
	s, err := OpenSpool(path, 1<<20, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	all, err := s.claim("", 1000)
	if err := errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	for _, x := range all {
		ids = append(ids, x.Report.ID)
	}
	if n, _ := s.Len(); n != len(all) {
		t.Errorf("%d reports are counted, and %d are in the spool", n, len(all))
	}
	return ids
}

// TestSpoolCrash crashes after each step of the renewal of whole and damaged spools, and in the middle of the new file.
// The next start has each report that can be read, once and in order, and the damaged file is kept.
func TestSpoolCrash(t *testing.T) {
	whole := filepath.Join(t.TempDir(), "spool.db")
	s, err := OpenSpool(whole, 1<<20, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 200 {
		r := bulkhead.Report{ID: fmt.Sprint(i), Vote: bulkhead.Spam, Signatures: []bulkhead.Signature{sig(i)}}
		if err := s.put(r, "", time.Unix(int64(i), 0)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	spool := func(b []byte) (path string) {
		path = filepath.Join(t.TempDir(), "spool.db")
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	log := slog.New(slog.DiscardHandler)
	r := rand.New(rand.NewPCG(3, 4))
	saved := 0
	for round := range 30 {
		b := slices.Clone(content)
		if round > 0 {
			at := r.IntN(len(b))
			clear(b[at:min(len(b), at+4096)])
		}
		path := spool(b)
		want := reportsIn(t, path)
		_, err := os.Stat(path + ".damaged")
		damaged := err == nil
		if damaged && len(want) > 0 {
			saved++
		}
		for steps := range len(renewal(path, log)) + 1 {
			for _, torn := range []bool{false, true} {
				path := spool(b)
				for _, step := range renewal(path, log)[:steps] {
					if err := step(); err != nil {
						t.Fatal(err)
					}
				}
				if torn { // the new file was not complete yet
					if steps != 2 {
						continue
					}
					info, err := os.Stat(path + ".new")
					if err == nil {
						err = os.Truncate(path+".new", r.Int64N(info.Size()))
					}
					if err != nil {
						t.Fatal(err)
					}
				}
				if got := reportsIn(t, path); !slices.Equal(got, want) {
					t.Errorf("round %d, a crash after step %d, torn %v: %d reports, want %d", round, steps, torn, len(got), len(want))
				}
				if kept, err := os.ReadFile(path + ".damaged"); damaged != (err == nil) || damaged && !slices.Equal(kept, b) {
					t.Errorf("round %d, a crash after step %d: the damaged file is kept: %v", round, steps, err)
				}
				if _, err := os.Stat(path + ".new"); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("round %d, a crash after step %d: the new file is left: %v", round, steps, err)
				}
			}
		}
	}
	if saved < 5 {
		t.Errorf("reports of %d damaged spools can be read", saved)
	}
}
