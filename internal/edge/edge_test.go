package edge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/bulkheadtest"
	"github.com/bulkhead-mail/bulkhead/client"
	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/api"
	"github.com/bulkhead-mail/bulkhead/internal/shard"
	"github.com/bulkhead-mail/bulkhead/internal/testing/logtest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/prototest"
)

// node serves house over HTTP on an address, or on any free address for "".
func node(t testing.TB, house bulkhead.Clearinghouse, address string) *httptest.Server {
	t.Helper()
	read := func(context.Context, []byte, []string) ([]bulkhead.Signature, bulkhead.Source, error) {
		return nil, bulkhead.Source{}, errors.New("no mail here")
	}
	handler, err := api.New(api.Options{Clearinghouse: house, Read: read})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewUnstartedServer(handler)
	if address != "" {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		srv.Listener.Close()
		srv.Listener = l
	}
	srv.Start()
	t.Cleanup(srv.Close)
	return srv
}

func upstream(t testing.TB, url string) *admin.Client {
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &admin.Client{Client: client.Client{Server: url, HTTP: &http.Client{Transport: transport}}}
}

// clock is a time that only moves on request.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func newClock() *clock { return &clock{now: time.Unix(1e9, 0)} }

// only returns the only target of an edge.
func only(e *Edge) *target { return e.current().rest }

func sig(n int) bulkhead.Signature {
	return bulkhead.MustSignature(bulkhead.DCCBody, fmt.Appendf(nil, "%08d", n))
}

func query(n ...int) bulkhead.Query {
	var q bulkhead.Query
	for _, i := range n {
		q.Signatures = append(q.Signatures, sig(i))
	}
	return q
}

// TestClearinghouse checks that an edge is a Clearinghouse and a Counter like its upstream,
// without a cache and with one that outlives the test, and so is an edge of a site with one shard.
func TestClearinghouse(t *testing.T) {
	white := sig(77)
	for _, ttl := range []time.Duration{0, time.Hour} {
		for _, sharded := range []bool{false, true} {
			t.Run(fmt.Sprint(ttl, " shards ", sharded), func(t *testing.T) {
				bulkheadtest.Suite{White: white, Open: func(t testing.TB) bulkhead.Clearinghouse {
					house := prototest.NewTally(3)
					house.White = map[bulkhead.Signature]bool{white: true}
					url := node(t, house, "").URL
					o := Options{Timeout: 10 * time.Second, Cache: ttl}
					if !sharded {
						o.Upstream = upstream(t, url)
						return New(o)
					}
					m, err := shard.New(shard.Shard{Name: "a", URLs: []string{url}}, shard.Note{At: time.Unix(1e9, 0)})
					if err != nil {
						t.Fatal(err)
					}
					o.Open = func(s shard.Shard) Upstream { return upstream(t, s.URLs[0]) }
					e := New(o)
					e.Use(m)
					return e
				}}.Run(t)
			})
		}
	}
}

// TestAway checks that while the upstream is away checks are answered, nothing is acknowledged, and
// the log says so once, and that all requests succeed when it is back.
func TestAway(t *testing.T) {
	house := &prototest.House{}
	address, now := nodetest.Address(t), newClock()
	srv := node(t, house, address)
	var log bytes.Buffer
	e := New(Options{
		Upstream: upstream(t, srv.URL), Timeout: 10 * time.Second, Now: now.Now,
		Log: slog.New(slog.NewTextHandler(&log, nil)),
	})
	ctx := t.Context()
	spam := bulkhead.Report{Signatures: query(1).Signatures, Vote: bulkhead.Spam}
	if _, err := e.Report(ctx, spam); err != nil {
		t.Fatal(err)
	}
	if v, err := e.Check(ctx, query(1)); err != nil || !v.Spam() {
		t.Fatalf("%+v, %v; want spam", v, err)
	}
	srv.CloseClientConnections()
	srv.Close()
	for range 5 {
		v, err := e.Check(ctx, query(1, 2))
		if err != nil || v.Unwanted() || len(v.Findings) != 2 || v.Findings[1].Signature != sig(2) || v.Findings[0].Known() ||
			len(v.Reasons) == 0 {
			t.Errorf("away: check %+v, %v; want unknown", v, err)
		}
		if r, err := e.Report(ctx, spam); !errors.Is(err, bulkhead.ErrReadOnly) || r != (bulkhead.Receipt{}) {
			t.Errorf("away: report %+v, %v; want ErrReadOnly", r, err)
		}
		if err := e.Count(ctx, spam.Signatures, []uint32{1}); !errors.Is(err, bulkhead.ErrReadOnly) {
			t.Errorf("away: count %v; want ErrReadOnly", err)
		}
		looks := []bulkhead.Look{{Sightings: 9}}
		if err := e.Look(ctx, spam.Signatures, looks, bulkhead.Counts); err != nil || looks[0] != (bulkhead.Look{}) {
			t.Errorf("away: look %+v, %v; want nothing known", looks, err)
		}
		if _, err := e.Check(ctx, bulkhead.Query{}); !errors.Is(err, bulkhead.ErrMalformed) {
			t.Errorf("away: malformed check: %v, want ErrMalformed", err)
		}
		now.advance(probeEvery)
	}
	if e.Up() || e.Stats.FailOpen.Load() != 10 || e.Stats.Temporary.Load() != 10 {
		t.Errorf("up %v, %d checks and looks and %d reports failed; want 10 of each", e.Up(), e.Stats.FailOpen.Load(),
			e.Stats.Temporary.Load())
	}
	node(t, house, address)
	if _, err := e.Report(ctx, spam); err != nil {
		t.Errorf("back: report: %v", err)
	}
	if v, err := e.Check(ctx, query(1)); err != nil || !v.Spam() || !e.Up() {
		t.Errorf("back: %+v, %v; want spam", v, err)
	}
	if got := log.String(); strings.Count(got, "the upstream is unreachable") != 1 ||
		strings.Count(got, "the upstream is reachable again") != 1 {
		t.Errorf("log:\n%s\nwant one line for each change", got)
	}
}

// asks returns one request of each kind to an edge.
func asks(e *Edge) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"check": func(ctx context.Context) error { _, err := e.Check(ctx, query(1)); return err },
		"report": func(ctx context.Context) error {
			_, err := e.Report(ctx, bulkhead.Report{Signatures: query(1).Signatures})
			return err
		},
		"look": func(ctx context.Context) error {
			return e.Look(ctx, query(1).Signatures, make([]bulkhead.Look, 1), bulkhead.Counts)
		},
		"count": func(ctx context.Context) error { return e.Count(ctx, query(1).Signatures, []uint32{1}) },
	}
}

// TestProbe checks, for each kind of request, that one in each probeEvery tries an upstream that is away, and that the
// others do not reach it.
func TestProbe(t *testing.T) {
	for name := range asks(nil) {
		u, now := &desk{away: true}, newClock()
		e := New(Options{Upstream: u, Timeout: time.Minute, Now: now.Now})
		ask := func(wait time.Duration, want int64, up bool) {
			t.Helper()
			now.advance(wait)
			err := asks(e)[name](t.Context())
			if n := e.Stats.Requests.Load(); n != want || e.Up() != up {
				t.Errorf("%s: %d requests, up %v; want %d, %v", name, n, e.Up(), want, up)
			}
			if took := name == "check" || name == "look"; !up && took != (err == nil) {
				t.Errorf("%s: %v", name, err)
			}
		}
		ask(0, 1, false)
		ask(0, 1, false)
		ask(probeEvery-1, 1, false)
		ask(1, 2, false)
		ask(0, 2, false)
		u.set(false)
		ask(probeEvery, 3, true)
		ask(0, 4, true)
		if failed, temporary := e.Stats.FailOpen.Load(), e.Stats.Temporary.Load(); failed+temporary != 5 {
			t.Errorf("%s: %d are answered \"unknown\" and %d refused, want 5", name, failed, temporary)
		}
	}
}

// patient is an upstream that answers once the test ends, or once the context of the request does.
type patient struct {
	Upstream
	end <-chan struct{}
}

func (u patient) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-u.end:
		return nil
	}
}

func (u patient) CheckBatch(ctx context.Context, q []bulkhead.Query) ([]client.Checked, error) {
	return make([]client.Checked, len(q)), u.wait(ctx)
}

func (u patient) ReportBatch(ctx context.Context, r []bulkhead.Report) ([]client.Reported, error) {
	return make([]client.Reported, len(r)), u.wait(ctx)
}

func (u patient) Look(ctx context.Context, _ []bulkhead.Signature, _ []bulkhead.Look, _ bulkhead.Aspect) error {
	return u.wait(ctx)
}

func (u patient) Count(ctx context.Context, _ []bulkhead.Signature, _ []uint32) error {
	return u.wait(ctx)
}

// TestGivenUp checks that the end of a client's request is the client's error, and is no reason to call the upstream
// unreachable.
func TestGivenUp(t *testing.T) {
	for name := range asks(nil) {
		e := New(Options{Upstream: patient{end: t.Context().Done()}, Timeout: time.Minute})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := asks(e)[name](ctx); !errors.Is(err, context.Canceled) || !e.Up() {
			t.Errorf("%s: %v, up %v", name, err, e.Up())
		}
	}
}

// TestAwayInShort checks an answer to a terse check, and one into a longer array, while the upstream is away; and that
// requests for nothing, or malformed ones, do not reach it.
func TestAwayInShort(t *testing.T) {
	e := New(Options{Upstream: &desk{away: true}, Timeout: time.Minute})
	looks := []bulkhead.Look{{Sightings: 8}, {Sightings: 9}}
	for what, err := range map[string]error{
		"look":  e.Look(t.Context(), nil, nil, bulkhead.Counts),
		"count": e.Count(t.Context(), nil, nil),
	} {
		if err != nil {
			t.Errorf("a %s of nothing: %v", what, err)
		}
	}
	invalid := make([]bulkhead.Signature, 1)
	_, check := e.Check(t.Context(), bulkhead.Query{Signatures: invalid})
	_, report := e.Report(t.Context(), bulkhead.Report{Signatures: invalid})
	_, vote := e.Report(t.Context(), bulkhead.Report{Signatures: query(1).Signatures, Vote: bulkhead.NumVotes})
	for what, err := range map[string]error{"check": check, "report": report, "vote": vote,
		"look": e.Look(t.Context(), invalid, looks, bulkhead.Counts), "count": e.Count(t.Context(), invalid, []uint32{1})} {
		if !errors.Is(err, bulkhead.ErrMalformed) {
			t.Errorf("a malformed %s: %v", what, err)
		}
	}
	if n := e.Stats.Requests.Load(); n != 0 {
		t.Errorf("%d requests", n)
	}
	q := query(1)
	q.Terse = true
	if v, err := e.Check(t.Context(), q); err != nil || len(v.Reasons) > 0 || len(v.Findings) != 1 {
		t.Errorf("a terse check: %+v, %v", v, err)
	}
	if err := e.Look(t.Context(), query(1).Signatures, looks, bulkhead.Counts); err != nil ||
		looks[0].Sightings != 0 || looks[1].Sightings != 9 {
		t.Errorf("a look: %+v, %v", looks, err)
	}
}

// held is an upstream whose looks end at the time and with the result that the test chooses.
type held struct {
	Upstream
	asked chan chan error
}

func (u *held) Look(context.Context, []bulkhead.Signature, []bulkhead.Look, bulkhead.Aspect) error {
	end := make(chan error)
	u.asked <- end
	return <-end
}

// TestLate checks that a request that was sent before the upstream went away or came
// back, and ends after it, does not turn the state back.
func TestLate(t *testing.T) {
	u, now, log := &held{asked: make(chan chan error)}, newClock(), new(logtest.Log)
	e := New(Options{Upstream: u, Timeout: time.Hour, Now: now.Now, Log: slog.New(slog.NewTextHandler(log, nil))})
	// look sends a look, and returns a function that ends it with an error or nil and waits for it.
	look := func() func(error) {
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			if err := e.Look(t.Context(), query(1).Signatures, make([]bulkhead.Look, 1), bulkhead.Counts); err != nil {
				t.Error(err)
			}
		}()
		end := <-u.asked
		return func(err error) {
			end <- err
			<-ended
		}
	}
	early, late, fails := look(), look(), look()
	fails(io.EOF)
	early(nil)
	if e.Up() {
		t.Error("an answer to what was asked before it went away makes the upstream reachable")
	}
	now.advance(probeEvery)
	look()(nil)
	if !e.Up() {
		t.Error("an answer to what was asked while it was away does not make the upstream reachable")
	}
	late(io.EOF)
	if !e.Up() {
		t.Error("what was asked before the upstream came back makes it unreachable")
	}
	for _, text := range []string{"the upstream is unreachable", "the upstream is reachable again"} {
		if got := strings.Count(log.String(), text); got != 1 {
			t.Errorf("%d lines say %q, want 1:\n%s", got, text, log)
		}
	}
}

// TestHangs checks that an upstream that accepts connections and never answers delays no client.
func TestHangs(t *testing.T) {
	hang := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hang }))
	defer srv.Close()
	defer close(hang)
	e := New(Options{Upstream: upstream(t, srv.URL), Timeout: 20 * time.Millisecond, Now: newClock().Now})
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			if v, err := e.Check(t.Context(), query(i)); err != nil || v.Unwanted() {
				t.Errorf("%+v, %v; want unknown", v, err)
			}
		})
	}
	wg.Wait()
}

// TestTokenRefused checks that a token refused by the upstream is logged and delays no mail, and
// that no door gets the error that its client is unknown.
func TestTokenRefused(t *testing.T) {
	var log bytes.Buffer
	up := upstream(t, node(t, &prototest.House{}, "").URL)
	up.Token = "wrong"
	e := New(Options{Upstream: up, Timeout: 10 * time.Second, Log: slog.New(slog.NewTextHandler(&log, nil))})
	if v, err := e.Check(t.Context(), query(1)); err != nil || v.Unwanted() {
		t.Errorf("%+v, %v; want unknown", v, err)
	}
	_, err := e.Report(t.Context(), bulkhead.Report{Signatures: query(1).Signatures})
	if !errors.Is(err, bulkhead.ErrReadOnly) || errors.Is(err, bulkhead.ErrUnauthorised) {
		t.Errorf("report: %v; want ErrReadOnly", err)
	}
	if !strings.Contains(log.String(), "token") {
		t.Errorf("log: %s", log.String())
	}
}

// TestRefused checks that when the upstream refuses the edge, by its account or rate, clients that
// report at the edge are asked to try again, not refused.
func TestRefused(t *testing.T) {
	for _, refusal := range []error{bulkhead.ErrOverLimit, bulkhead.ErrForbidden} {
		e := New(Options{Upstream: upstream(t, node(t, &prototest.House{Err: refusal}, "").URL), Timeout: 10 * time.Second})
		_, report := e.Report(t.Context(), bulkhead.Report{Signatures: query(1).Signatures, Vote: bulkhead.Spam})
		count := e.Count(t.Context(), query(1).Signatures, []uint32{1})
		for what, err := range map[string]error{"report": report, "count": count} {
			if !errors.Is(err, bulkhead.ErrReadOnly) || bulkhead.Tolerate(err) == nil {
				t.Errorf("%s, upstream says %v: %v; want ErrReadOnly", what, refusal, err)
			}
		}
	}
}

// elsewhere is an upstream that only returns its network, or an error.
type elsewhere struct {
	Upstream
	mu      sync.Mutex
	network string
	asked   int
	err     error
}

func (u *elsewhere) Node(context.Context) (*admin.NodeState, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.asked++
	return &admin.NodeState{Network: u.network}, u.err
}

func (u *elsewhere) CheckBatch(ctx context.Context, q []bulkhead.Query) ([]client.Checked, error) {
	u.mu.Lock()
	err := u.err
	u.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return u.Upstream.CheckBatch(ctx, q)
}

// becomes changes the answer of the upstream, and returns how often it was asked before.
func (u *elsewhere) becomes(network string, err error) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.network, u.err = network, err
	return u.asked
}

func (u *elsewhere) await(t *testing.T, asked int) {
	t.Helper()
	nodetest.Await(t, "a question for the network", func() bool {
		u.mu.Lock()
		defer u.mu.Unlock()
		return u.asked > asked
	})
}

// TestOtherNetwork checks that an edge logs if its upstream has another secret, at its start and
// each time that the upstream comes back.
func TestOtherNetwork(t *testing.T) {
	now := newClock()
	u := &elsewhere{Upstream: upstream(t, node(t, &prototest.House{}, "").URL), network: "b"}
	log := new(logtest.Log)
	e := New(Options{Upstream: u, Timeout: 10 * time.Second, Network: "a", Now: now.Now,
		Log: slog.New(slog.NewTextHandler(log, nil))})
	only(e).network.retry = time.Nanosecond // only for an upstream that does not answer
	ctx, cancel := context.WithCancel(t.Context())
	var watch sync.WaitGroup
	watch.Go(func() {
		if err := e.Watch(ctx); err != nil {
			t.Error(err)
		}
	})
	leave := func(network string) {
		t.Helper()
		asked := u.becomes(network, errors.New("no route"))
		if _, err := e.Check(t.Context(), query(1)); err != nil || e.Up() {
			t.Fatalf("up %v, %v; want the upstream away", e.Up(), err)
		}
		u.becomes(network, nil)
		now.advance(probeEvery)
		if _, err := e.Check(t.Context(), query(1)); err != nil || !e.Up() {
			t.Fatalf("up %v, %v; want the upstream back", e.Up(), err)
		}
		u.await(t, asked)
	}
	nodetest.Await(t, "another network", e.OtherNetwork)
	leave("b")
	leave("a")
	nodetest.Await(t, "the same network", func() bool { return !e.OtherNetwork() })
	leave("a")
	leave("")
	leave("b")
	nodetest.Await(t, "another network", e.OtherNetwork)
	cancel()
	watch.Wait()
	if u.asked != 6 {
		t.Errorf("the upstream was asked %d times, want once at the start and once for each return", u.asked)
	}
	for text, want := range map[string]int{"has another network secret": 2, "network secret now": 1,
		"network secret not compared": 1} {
		if got := strings.Count(log.String(), text); got != want {
			t.Errorf("%d lines say %q, want %d:\n%s", got, text, want, log)
		}
	}

	asked := u.becomes("b", errors.New("no route"))
	e = New(Options{Upstream: u, Timeout: 10 * time.Second, Network: "a", Now: now.Now})
	only(e).network.retry = time.Millisecond
	ctx, cancel = context.WithCancel(t.Context())
	defer watch.Wait()
	defer cancel()
	watch.Go(func() { e.Watch(ctx) })
	u.await(t, asked)
	if e.OtherNetwork() || !e.Up() {
		t.Error("an upstream that does not say has another network, or is away for that")
	}
	u.becomes("b", nil)
	nodetest.Await(t, "another network, found later", e.OtherNetwork)
}

// slow is an upstream whose first request waits.
type slow struct {
	Upstream
	begun, end chan struct{}
	mu         sync.Mutex
	batches    []int
}

func (s *slow) CheckBatch(ctx context.Context, q []bulkhead.Query) ([]client.Checked, error) {
	s.mu.Lock()
	s.batches = append(s.batches, len(q))
	first := len(s.batches) == 1
	s.mu.Unlock()
	if first {
		close(s.begun)
		<-s.end
	}
	return s.Upstream.CheckBatch(ctx, q)
}

// TestBatches checks that queries made during a request go into the next one, and that a malformed
// query among them does not affect the others.
func TestBatches(t *testing.T) {
	house := &prototest.House{}
	s := &slow{Upstream: upstream(t, node(t, house, "").URL), begun: make(chan struct{}), end: make(chan struct{})}
	e := New(Options{Upstream: s, Timeout: 10 * time.Second})
	if _, err := e.Report(t.Context(), bulkhead.Report{Signatures: query(7).Signatures, Vote: bulkhead.Spam}); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	ask := func(i int) {
		wg.Go(func() {
			q := query(i)
			if i == 13 { // more signatures than a message may have
				for j := range 2000 {
					q.Signatures = append(q.Signatures, sig(j))
				}
			}
			v, err := e.Check(t.Context(), q)
			switch {
			case i == 13 && !errors.Is(err, bulkhead.ErrMalformed):
				t.Errorf("a malformed question: %v", err)
			case i != 13 && (err != nil || v.Spam() != (i == 7) || v.Findings[0].Signature != sig(i)):
				t.Errorf("question %d: %+v, %v", i, v, err)
			}
		})
	}
	ask(0)
	<-s.begun
	for i := 1; i <= 20; i++ {
		ask(i)
	}
	for gathered := 0; gathered < 20; { // they wait behind the first request
		only(e).checks.mu.Lock()
		gathered = len(only(e).checks.waiting)
		only(e).checks.mu.Unlock()
	}
	close(s.end)
	wg.Wait()
	if s.batches[0] != 1 || s.batches[1] != 20 {
		t.Errorf("requests of %v questions, want 1, then 20, then each of them alone", s.batches)
	}
	full := batcher[int, int]{busy: true, limit: 1, waiting: make([]*question[int, int], 1)}
	if _, err := full.do(t.Context(), 1); !errors.Is(err, bulkhead.ErrOverLimit) {
		t.Errorf("one more than may wait: %v", err)
	}
}

// TestCache checks that only "unknown" is answered again for a while.
func TestCache(t *testing.T) {
	house, now := &prototest.House{}, newClock()
	e := New(Options{Upstream: upstream(t, node(t, house, "").URL), Timeout: 10 * time.Second, Cache: time.Second,
		Now: now.Now})
	check := func(cached int64, q bulkhead.Query) bulkhead.Verdict {
		t.Helper()
		before := e.Stats.Cached.Load()
		v, err := e.Check(t.Context(), q)
		if err != nil || e.Stats.Cached.Load()-before != cached {
			t.Errorf("check: %v, %d from the cache, want %d", err, e.Stats.Cached.Load()-before, cached)
		}
		return v
	}
	v := check(0, query(1, 2))
	v.Findings[0].Sightings, v.Reasons[0] = 99, "" // the caller's own
	v = check(1, query(1, 2))
	if v.Findings[0].Sightings != 0 || v.Reasons[0] == "" {
		t.Errorf("the cache holds the memory of a caller: %+v", v)
	}
	v.Findings[0].Sightings, v.Reasons[0] = 99, ""
	if v := check(1, query(1, 2)); v.Findings[0].Sightings != 0 || v.Reasons[0] == "" {
		t.Errorf("the cache gave away its own memory: %+v", v)
	}
	check(0, query(2, 1))
	check(0, bulkhead.Query{Signatures: query(1, 2).Signatures, Threshold: 3})
	check(0, bulkhead.Query{Signatures: query(1, 2).Signatures, Source: bulkhead.Source{Sender: "a@example.com"}})
	now.advance(time.Second)
	check(0, query(1, 2))
	check(1, query(1, 2))
	now.advance(time.Millisecond)
	if _, err := e.Report(t.Context(), bulkhead.Report{Signatures: query(2).Signatures}); err != nil {
		t.Fatal(err)
	}
	if v := check(0, query(1, 2)); v.Findings[1].Sightings != 1 {
		t.Errorf("after a report: %+v", v)
	}
	check(0, query(1, 2)) // known, hence asked each time
	for i := range 3 * cacheSize {
		only(e).cache.put(cacheKey{byte(i), byte(i >> 8)}, &bulkhead.Verdict{}, now.Now())
		only(e).cache.forget(query(i, i+1, i+2).Signatures)
	}
	if a, r := len(only(e).cache.answers), len(only(e).cache.reported); a > cacheSize || r > 4*cacheSize {
		t.Errorf("the cache holds %d answers and %d reports", a, r)
	}
}
