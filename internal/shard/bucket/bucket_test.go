package bucket

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/bulkhead-mail/bulkhead/internal/shard"
	"github.com/bulkhead-mail/bulkhead/internal/testing/await"
	"github.com/bulkhead-mail/bulkhead/internal/testing/natstest"
)

func open(t testing.TB, url string) *Bucket {
	t.Helper()
	b, err := Open(Options{Servers: []string{url}, Site: "main", Wait: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

func note(what string) shard.Note { return shard.Note{At: time.Now(), By: "test", What: what} }

func first(t testing.TB) *shard.Map {
	t.Helper()
	m, err := shard.New(shard.Shard{Name: "a", URLs: []string{"http://127.0.0.1:1"}}, note("first"))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestTwoAdministrators has administrators change the map at once, each from the map that they read. Every change that
// succeeded is in the last map, and the history has each version once.
func TestTwoAdministrators(t *testing.T) {
	url := "nats://" + natstest.Start(t)
	ctx, cancel := context.WithTimeout(t.Context(), await.Patience) // not the default time of a request
	defer cancel()
	if _, _, err := open(t, url).Get(ctx); !errors.Is(err, ErrNone) {
		t.Fatalf("an empty server: %v", err)
	}
	const administrators, changes = 3, 6
	var running sync.WaitGroup
	var mu sync.Mutex
	conflicts := 0
	for admin := range administrators {
		b := open(t, url)
		running.Go(func() {
			for n := range changes {
				name := fmt.Sprintf("s%d-%d", admin, n)
				s := shard.Shard{Name: name, URLs: []string{fmt.Sprintf("http://127.0.0.1:%d", 1000+10*admin+n)}}
				for {
					m, revision, err := b.Get(ctx)
					var next *shard.Map
					switch {
					case errors.Is(err, ErrNone):
						next, err = shard.New(s, note("first "+name))
					case err == nil:
						if next, err = m.Add(s, note("add "+name)); err == nil {
							if next, err = next.Move(name, "", 10, note("move to "+name)); err == nil {
								next.Version = m.Version + 1 // both are one change
							}
						}
					}
					if err != nil {
						t.Error(err)
						return
					}
					if err = b.Put(ctx, next, revision); err == nil {
						break
					}
					if !errors.Is(err, ErrChanged) {
						t.Error(err)
						return
					}
					mu.Lock()
					conflicts++
					mu.Unlock()
				}
			}
		})
	}
	running.Wait()
	b := open(t, url)
	m, _, err := b.Get(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Shards) != administrators*changes || m.Version != administrators*changes {
		t.Errorf("%d shards, version %d, want %d", len(m.Shards), m.Version, administrators*changes)
	}
	for _, s := range m.Shards {
		if n := len(m.SlotsOf(s.Name)); n == 0 {
			t.Errorf("shard %s has no slots: its move was lost", s.Name)
		}
	}
	if conflicts == 0 {
		t.Log("no two changes met")
	}
	all, err := b.History(ctx)
	if err != nil || len(all) != administrators*changes {
		t.Fatalf("%d versions in the history: %v", len(all), err)
	}
	for i, h := range all {
		if h.Version != uint64(i+1) || i > 0 && !h.Note.At.After(all[i-1].Note.At) {
			t.Errorf("entry %d is version %d of %v", i, h.Version, h.Note.At)
		}
	}
}

// TestFollow follows a map through changes, broken values, an older map and servers that are away. It begins again with
// the last good map while the servers are down.
func TestFollow(t *testing.T) {
	options := &server.Options{Host: "127.0.0.1", Port: -1, NoSigs: true, JetStream: true, StoreDir: t.TempDir()}
	ns := natstest.Server(t, options)
	url := "nats://" + ns.Addr().String()
	b, path := open(t, url), filepath.Join(t.TempDir(), "shards.json")
	var log bytes.Buffer
	follow := func() (*Follower, func()) {
		f := Follow(open(t, url), path, 5*time.Millisecond, slog.New(slog.NewTextHandler(&log, nil)))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			f.Run(ctx, func(m *shard.Map) {
				if f.State().Map == m {
					t.Errorf("version %d is the map in use before it is used", m.Version)
				}
			})
		}()
		return f, func() { cancel(); <-done }
	}
	f, stop := follow()
	has := func(version uint64, problem bool) {
		t.Helper()
		await.True(t, fmt.Sprintf("version %d, problem %v", version, problem), func() bool {
			s := f.State()
			return (s.Map == nil && version == 0 || s.Map != nil && s.Map.Version == version) && (s.Problem != nil) == problem
		})
	}
	has(0, true) // there is no map
	m := first(t)
	put := func(next *shard.Map, err error) {
		t.Helper()
		_, revision, got := b.Get(t.Context())
		if err != nil || got != nil && revision == 0 && !errors.Is(got, ErrNone) {
			t.Fatal(err, got)
		}
		if err := b.Put(t.Context(), next, revision); err != nil {
			t.Fatal(err)
		}
		m = next
	}
	put(m, nil)
	has(1, false)
	put(m.Add(shard.Shard{Name: "b", URLs: []string{"http://127.0.0.1:2"}}, note("add")))
	has(2, false)
	// A broken value is not followed.
	kv, err := b.js.KeyValue(t.Context(), Name)
	if err == nil {
		_, err = kv.Put(t.Context(), "main", []byte(`{"format":1,"shards":[]}`))
	}
	if err != nil {
		t.Fatal(err)
	}
	has(2, true)
	older := first(t)
	older.Note.At = time.Now().Add(-time.Hour)
	put(older, nil) // over the broken value, whose revision Get returns
	has(2, true)
	m, _ = older.Add(shard.Shard{Name: "c", URLs: []string{"http://127.0.0.1:3"}}, note("add"))
	put(m, nil) // a change of the older map is a later one
	await.True(t, "shard c", func() bool { s := f.State(); return s.Map.Has("c") && s.Problem == nil })
	ns.Shutdown()
	ns.WaitForShutdown()
	await.True(t, "the problem", func() bool { return f.State().Problem != nil })
	stop()
	f, stop = follow()
	if s := f.State(); s.Map == nil || !s.Map.Has("c") || !s.Read.IsZero() {
		t.Fatalf("a start while the servers are down: %+v", s)
	}
	natstest.Server(t, options)
	await.True(t, "the servers again", func() bool { s := f.State(); return s.Problem == nil && !s.Read.IsZero() })
	stop()
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if f = Follow(b, path, 0, slog.New(slog.DiscardHandler)); f.State().Map != nil {
		t.Error("a broken file has a map")
	}
	if _, err := ReadFile(path + "x"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// TestRights runs a follower with the rights that docs/large-sites.md names, which cannot write.
func TestRights(t *testing.T) {
	o := &server.Options{Host: "127.0.0.1", Port: -1, NoSigs: true, JetStream: true, StoreDir: t.TempDir(),
		Users: []*server.User{{Username: "admin", Password: "x"},
			{Username: "edge", Password: "x", Permissions: &server.Permissions{
				Publish: &server.SubjectPermission{Allow: []string{"$JS.API.STREAM.INFO.KV_bulkhead-shards",
					"$JS.API.DIRECT.GET.KV_bulkhead-shards.>"}},
				Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX.>"}}}}}}
	address := natstest.Server(t, o).Addr().String()
	admin, edge := open(t, "nats://admin:x@"+address), open(t, "nats://edge:x@"+address)
	m := first(t)
	if err := admin.Put(t.Context(), m, 0); err != nil {
		t.Fatal(err)
	}
	got, revision, err := edge.Get(t.Context())
	if err != nil || got.Version != 1 {
		t.Fatalf("the edge reads %v: %v", got, err)
	}
	next, err := m.Add(shard.Shard{Name: "evil", URLs: []string{"http://127.0.0.1:9"}}, note("add"))
	if err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if err := edge.Put(short, next, revision); err == nil {
		t.Error("an edge without the right has changed the map")
	}
	if got, _, err := admin.Get(t.Context()); err != nil || got.Has("evil") {
		t.Errorf("%v, %v", got, err)
	}
}
