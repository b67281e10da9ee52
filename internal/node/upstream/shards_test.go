package upstream

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/api"
	"github.com/bulkhead-mail/bulkhead/internal/config"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/shard"
	"github.com/bulkhead-mail/bulkhead/internal/shard/bucket"
	"github.com/bulkhead-mail/bulkhead/internal/testing/await"
	"github.com/bulkhead-mail/bulkhead/internal/testing/enginetest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/natstest"
)

// A pair is a shard: two nodes in front of the state that they share. One of them takes reports.
type pair struct {
	name    string
	engine  *engine.Engine
	first   atomic.Int32 // the node that takes reports
	servers [2]*httptest.Server
	lost    atomic.Int32 // one in this number of answers to reports is lost; 0: none
	n       atomic.Int64
}

// A node is one of the two nodes of a pair.
type node struct {
	*engine.Engine
	pair *pair
	no   int32
}

// Report implements [bulkhead.Clearinghouse].
func (n *node) Report(ctx context.Context, r bulkhead.Report) (bulkhead.Receipt, error) {
	if n.pair.first.Load() != n.no {
		return bulkhead.Receipt{}, fmt.Errorf("%w: the standby", bulkhead.ErrReadOnly)
	}
	r.Reporter = bulkhead.Reporter{User: r.Reporter.User}
	receipt, err := n.Engine.Report(ctx, r)
	if every := n.pair.lost.Load(); err == nil && every > 0 && n.pair.n.Add(1)%int64(every) == 0 {
		return bulkhead.Receipt{}, errors.New("the answer is lost")
	}
	return receipt, err
}

func newPair(t testing.TB, name string) *pair {
	t.Helper()
	e, err := engine.Open(context.Background(), engine.Options{Secret: enginetest.Secret,
		Tally: engine.BookOptions{Generation: 24 * time.Hour, Keep: 3, Capacity: 20_000, Error: 1e-6},
		Block: engine.BookOptions{Generation: 7 * 24 * time.Hour, Keep: 2, Capacity: 20_000, Error: 1e-6}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close(context.Background()) })
	p := &pair{name: name, engine: e}
	for i := range p.servers {
		handler, err := api.New(api.Options{Clearinghouse: &node{e, p, int32(i)},
			Read: func(context.Context, []byte, []string) ([]bulkhead.Signature, bulkhead.Source, error) {
				return nil, bulkhead.Source{}, errors.New("no mail here")
			}})
		if err != nil {
			t.Fatal(err)
		}
		p.servers[i] = httptest.NewServer(handler)
		t.Cleanup(p.servers[i].Close)
	}
	return p
}

// kill ends the first node as a dead process would; the standby takes over by promote.
func (p *pair) kill() {
	p.servers[0].CloseClientConnections()
	p.servers[0].Close()
}

func (p *pair) shard() shard.Shard {
	return shard.Shard{Name: p.name, URLs: []string{p.servers[0].URL, p.servers[1].URL}}
}

// A site is shards behind edges, and what was acknowledged.
type site struct {
	t     *testing.T
	pairs []*pair
	nats  *server.Server
	url   string // of nats
	o     *server.Options
	admin *bucket.Bucket

	mu    sync.Mutex
	seen  map[int]uint32          // by text: acknowledged deliveries
	voted map[int]map[string]bool // by text: who called it spam
}

func newSite(t *testing.T, shards int) *site {
	s := &site{t: t, seen: make(map[int]uint32), voted: make(map[int]map[string]bool),
		o: &server.Options{Host: "127.0.0.1", Port: -1, NoSigs: true, JetStream: true, StoreDir: t.TempDir()}}
	s.startNATS()
	var err error
	s.admin, err = bucket.Open(bucket.Options{Servers: []string{s.url}, Site: "main", Wait: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.admin.Close)
	for i := range shards {
		s.pairs = append(s.pairs, newPair(t, fmt.Sprintf("s%02d", i)))
	}
	return s
}

func (s *site) startNATS() {
	s.t.Helper()
	s.nats = natstest.Server(s.t, s.o)
	s.url = "nats://" + s.nats.Addr().String()
}

// change changes the map, as often as another administrator is faster.
func (s *site) change(plan func(m *shard.Map, note shard.Note) (*shard.Map, error)) *shard.Map {
	ctx, cancel := context.WithTimeout(s.t.Context(), await.Patience) // not the default time of a request
	defer cancel()
	for {
		note := shard.Note{At: time.Now(), By: "test", What: "change"}
		m, revision, err := s.admin.Get(ctx)
		var next *shard.Map
		if errors.Is(err, bucket.ErrNone) {
			next, err = shard.New(s.pairs[0].shard(), note)
		} else if err == nil {
			next, err = plan(m, note)
		}
		if errors.Is(err, shard.ErrRefused) {
			return m
		}
		if err == nil {
			err = s.admin.Put(ctx, next, revision)
		}
		if err == nil {
			return next
		}
		if !errors.Is(err, bucket.ErrChanged) {
			s.t.Error(err)
			return m
		}
	}
}

// edge opens an edge of the site, which stop closes.
func (s *site) edge(dir string) (u *Upstream, stop func()) {
	s.t.Helper()
	cfg := config.Default()
	cfg.Shards.Servers = []string{s.url}
	cfg.Shards.Domain = "here.example"
	cfg.Upstream.Cache = 0
	cfg.Upstream.Timeout = config.Duration(time.Minute) // a busy machine is no dead shard
	log := slog.New(slog.NewTextHandler(s.t.Output(), nil))
	u, err := Open(Options{Config: cfg, Dir: dir, Every: 5 * time.Millisecond, Log: log})
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for _, run := range []func(context.Context) error{u.Follow, u.Edge().Deliver, u.Edge().Watch} {
		running.Go(func() {
			if err := run(ctx); err != nil {
				s.t.Error(err)
			}
		})
	}
	return u, sync.OnceFunc(func() {
		cancel()
		running.Wait()
		if err := u.Close(ctx); err != nil {
			s.t.Error(err)
		}
	})
}

// await waits until edges use a version of the map.
func (s *site) await(version uint64, edges ...*Upstream) {
	s.t.Helper()
	for _, u := range edges {
		await.True(s.t, fmt.Sprint("version ", version), func() bool { return u.State().Version == version })
	}
}

// deliver reports the delivery of a text to a mailbox that gets it once, and sometimes repeats the report.
func (s *site) deliver(u *Upstream, rng *rand.Rand, id string, text int) {
	r := bulkhead.Report{ID: id, Signatures: []bulkhead.Signature{enginetest.Signature(text)},
		Recipients: []string{id + "+x@Here.Example"}}
	for range 1 + rng.IntN(6)/5 {
		if _, err := u.Edge().Report(s.t.Context(), r); err != nil {
			s.t.Errorf("report %s: %v", id, err)
			return
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen[text]++
}

// vote has a user call a text spam, sometimes twice.
func (s *site) vote(u *Upstream, rng *rand.Rand, user string, text int) {
	r := bulkhead.Report{Vote: bulkhead.Spam, Signatures: []bulkhead.Signature{enginetest.Signature(text)},
		Reporter: bulkhead.Reporter{User: user}}
	for range 1 + rng.IntN(6)/5 {
		if _, err := u.Edge().Report(s.t.Context(), r); err != nil {
			s.t.Errorf("vote of %s: %v", user, err)
			return
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.voted[text] == nil {
		s.voted[text] = make(map[string]bool)
	}
	s.voted[text][user] = true
}

// compare compares the sums over all shards with what was acknowledged.
func (s *site) compare() {
	s.t.Helper()
	wrong := 0
	for text := range texts {
		var seen, spam uint32
		for _, p := range s.pairs {
			seen += enginetest.Check(s.t, p.engine, text).Sightings
			spam += enginetest.Check(s.t, p.engine, texts+text).Spam
		}
		if want := s.seen[text]; seen != want {
			s.t.Errorf("text %d: the shards have %d deliveries, acknowledged were %d", text, seen, want)
			wrong++
		}
		if want := uint32(len(s.voted[texts+text])); spam != want {
			s.t.Errorf("text %d: the shards have %d votes, acknowledged were %d", text, spam, want)
			wrong++
		}
		if wrong > 10 {
			s.t.FailNow()
		}
	}
}

// TestRemovedToken checks that a reload needs a token for each shard of the map, and none for a removed one.
func TestRemovedToken(t *testing.T) {
	s := newSite(t, 2)
	s.change(nil)
	m := s.change(func(m *shard.Map, n shard.Note) (*shard.Map, error) { return m.Add(s.pairs[1].shard(), n) })
	u, stop := s.edge(t.TempDir())
	defer stop()
	s.await(m.Version, u)
	u.o.Read = func(path string) (string, error) {
		if filepath.Base(path) == s.pairs[0].name {
			return "token", nil
		}
		return "", fs.ErrNotExist
	}
	cfg := *u.o.Config
	cfg.Shards.Tokens = "tokens"
	await.True(t, "a reload that lacks a token", func() bool { _, err := u.Prepare(&cfg); return err != nil })
	m = s.change(func(m *shard.Map, n shard.Note) (*shard.Map, error) { return m.Remove(s.pairs[1].name, n) })
	s.await(m.Version, u)
	if _, err := u.Prepare(&cfg); err != nil {
		t.Error(err)
	}
}

const texts = 200

// load reports at edges until moves has made all its changes of the map. It checks every text as well, and returns
// the number of checks.
func (s *site) load(name string, edges []*Upstream, each int, moves func()) (checks int) {
	var running sync.WaitGroup
	done := make(chan struct{})
	var asked atomic.Int64
	for client := range 2 * len(edges) {
		u := edges[client%len(edges)]
		running.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(client), 3))
			for n := 0; ; n++ {
				select {
				case <-done:
					if n >= each {
						return
					}
				default:
				}
				id, text := fmt.Sprintf("%s-%d-%d", name, client, n), int(texts*rng.Float64()*rng.Float64())
				s.deliver(u, rng, id, text)
				if rng.IntN(5) == 0 {
					s.vote(u, rng, "voter-"+id, texts+text)
				}
				q := bulkhead.Query{Signatures: []bulkhead.Signature{enginetest.Signature(text)}, Mailbox: id + "@here.example"}
				if _, err := u.Edge().Check(s.t.Context(), q); err != nil {
					s.t.Error(err)
				}
				asked.Add(1)
			}
		})
	}
	moves()
	close(done)
	running.Wait()
	return int(asked.Load())
}

func (s *site) empty(edges []*Upstream) {
	s.t.Helper()
	for _, u := range edges {
		await.True(s.t, "an empty spool", func() bool { n, _ := u.spool.Len(); return n == 0 })
	}
}

// TestShards has 16 shards behind 4 edges, in one process. Under load, shards join, slots move, answers are lost, a
// first node dies and its standby takes over, and a whole shard dies and its slots move away. Edges begin again while
// the servers of the map are down. The sums over all shards are what was acknowledged; no check is answered unknown
// because of a move.
func TestShards(t *testing.T) {
	const shards, edgesOf = 16, 4
	each := 150
	if testing.Short() {
		each = 30
	}
	s := newSite(t, shards)
	s.change(nil)
	for _, p := range s.pairs[1 : shards-4] {
		s.change(func(m *shard.Map, n shard.Note) (*shard.Map, error) { return m.Add(p.shard(), n) })
		s.change(func(m *shard.Map, n shard.Note) (*shard.Map, error) { return m.Level(p.name, n) })
	}
	var edges []*Upstream
	var dirs []string
	stops := make([]func(), edgesOf)
	for i := range edgesOf {
		dirs = append(dirs, t.TempDir())
		u, stop := s.edge(dirs[i])
		edges, stops[i] = append(edges, u), stop
	}
	defer func() {
		for _, stop := range stops {
			stop()
		}
	}()
	current := func() uint64 {
		m, _, err := s.admin.Get(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return m.Version
	}
	s.await(current(), edges...)

	rng := rand.New(rand.NewPCG(5, 5))
	name := func() string { return s.pairs[rng.IntN(shards)].name }
	unknown := func() (n int64) {
		for _, u := range edges {
			n += u.Edge().Stats.FailOpen.Load()
		}
		return n
	}
	answered := func(checks int, while string) {
		t.Helper()
		if n := unknown(); n > 0 {
			t.Errorf("%d of %d checks were answered unknown while %s", n, checks, while)
		}
	}
	checks := s.load("a", edges, each, func() {
		for _, p := range s.pairs[shards-4:] { // they join, each with 1/N of the slots
			s.change(func(m *shard.Map, n shard.Note) (*shard.Map, error) { return m.Add(p.shard(), n) })
			m := s.change(func(m *shard.Map, n shard.Note) (*shard.Map, error) { return m.Level(p.name, n) })
			s.await(m.Version, edges...)
		}
		for range 12 { // two administrators at once
			var both sync.WaitGroup
			for range 2 {
				to, slots := name(), 1+rng.IntN(40)
				both.Go(func() {
					s.change(func(m *shard.Map, n shard.Note) (*shard.Map, error) { return m.Move(to, "", slots, n) })
				})
			}
			both.Wait()
			s.await(current(), edges[0])
		}
	})
	s.empty(edges)
	answered(checks, "slots moved")
	s.compare()

	// Answers to reports are lost, and slots move all the while.
	for _, p := range s.pairs[:8] {
		p.lost.Store(7)
	}
	checks += s.load("b", edges, each, func() {
		for range 10 {
			to := name()
			m := s.change(func(m *shard.Map, n shard.Note) (*shard.Map, error) { return m.Move(to, "", 30, n) })
			s.await(m.Version, edges...)
		}
	})
	for _, p := range s.pairs {
		p.lost.Store(0)
	}
	s.empty(edges)
	answered(checks, "slots moved and answers to reports were lost")
	s.compare()

	// A first node dies, and its standby takes over a moment later. Then another shard dies as a whole, and its slots move
	// to the others.
	before := unknown()
	s.load("c", edges, each, func() {
		s.pairs[3].kill()
		await.Within(300*time.Millisecond, func() bool { return false })
		s.pairs[3].first.Store(1)
		s.pairs[5].kill()
		s.pairs[5].servers[1].CloseClientConnections()
		s.pairs[5].servers[1].Close()
		await.True(t, "reports that wait for the dead shard", func() bool {
			for _, x := range edges[0].Edge().Shards() {
				if x.Name == s.pairs[5].name && x.Waiting > 0 && !x.Up {
					return true
				}
			}
			return false
		})
		m := s.change(func(m *shard.Map, n shard.Note) (*shard.Map, error) { return m.Drain(s.pairs[5].name, n) })
		s.await(m.Version, edges...)
	})
	t.Logf("%d checks were answered unknown while nodes were dead", unknown()-before)
	for _, u := range edges { // what the dead shard may have waits for it, and nothing else does
		for _, x := range u.Edge().Shards() {
			if x.Name != s.pairs[5].name {
				await.True(t, "shard "+x.Name, func() bool {
					for _, y := range u.Edge().Shards() {
						if y.Name == x.Name {
							return y.Waiting == 0
						}
					}
					return false
				})
			}
		}
	}

	// The servers of the map go down, and edges begin again with the map that they have.
	version := current()
	s.nats.Shutdown()
	s.nats.WaitForShutdown()
	for i := range edges {
		stops[i]()
		edges[i], stops[i] = s.edge(dirs[i])
		if got := edges[i].State(); got.Version != version {
			t.Fatalf("an edge begins with version %d, want %d", got.Version, version)
		}
	}
	checks = s.load("d", edges, each, func() {})
	answered(checks, "the servers of the map were down")
	// The dead shard comes back with its counts, and gets what waits for it.
	p := s.pairs[5]
	again := newPair(t, p.name)
	for i := range again.servers {
		again.servers[i].Config.Handler = p.servers[i].Config.Handler
	}
	s.startNATS()
	await.True(t, "the servers of the map", func() bool { _, _, err := s.admin.Get(t.Context()); return err == nil })
	m := s.change(func(m *shard.Map, n shard.Note) (*shard.Map, error) { return m.Set(p.name, again.shard().URLs, n) })
	s.await(m.Version, edges...)
	s.empty(edges)
	s.compare()
	deliveries, votes := 0, 0
	for text := range texts {
		deliveries, votes = deliveries+int(s.seen[text]), votes+len(s.voted[texts+text])
	}
	t.Logf("%d deliveries and %d votes were acknowledged, in %d versions of the map", deliveries, votes, m.Version)
	for i := range edges {
		if f, err := bucket.ReadFile(filepath.Join(dirs[i], MapFile)); err != nil || f.Version != m.Version {
			t.Errorf("the file of edge %d: %v", i, err)
		}
	}
}
