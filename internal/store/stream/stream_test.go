package stream

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/store"
	"github.com/bulkhead-mail/bulkhead/internal/testing/await"
	"github.com/bulkhead-mail/bulkhead/internal/testing/natstest"
)

// start returns a journal with entries "1" to "n", and the position after each.
func start(t *testing.T, r *remote, n int) (*Journal, []store.Position) {
	t.Helper()
	j, err := r.open(t, store.Position{})
	if err != nil {
		t.Fatal(err)
	}
	s := j.(*Journal)
	at := []store.Position{s.at}
	for i := range n {
		appendTo(t, s, fmt.Sprint(i+1))
		at = append(at, s.at)
	}
	return s, at
}

func appendTo(t *testing.T, j *Journal, entry string) {
	t.Helper()
	if _, err := j.Append([]byte(entry)); err != nil {
		t.Fatal(err)
	}
}

// join joins at a position, and returns the entries after it.
func join(t *testing.T, j *Journal, at store.Position, begin bool) (entries string, err error) {
	t.Helper()
	end, err := j.Join(t.Context(), at, begin, func(_ context.Context, _ store.Position, es []store.Entry) error {
		for _, e := range es {
			entries += string(e.Data)
		}
		return nil
	})
	if err == nil && j.at != (store.Position{}) && end != j.at {
		t.Errorf("joined at %+v, and the journal is at %+v", end, j.at)
	}
	return entries, err
}

func one(t *testing.T) *remote {
	t.Helper()
	return &remote{urls: []string{"nats://" + natstest.Start(t)}, max: 1 << 20}
}

// TestJoin joins from every position: the entries after it are passed on. A state that the stream does not lead to is
// refused, whatever it differs in, and so is one whose next entries are gone.
func TestJoin(t *testing.T) {
	r := one(t)
	j, at := start(t, r, 6)
	for i, p := range at {
		got, err := join(t, r.journal(t), p, i%2 == 0)
		if want := "123456"[i:]; err != nil || got != want {
			t.Errorf("after entry %d: %q, want %q: %v", i, got, want, err)
		}
	}
	if got, err := join(t, r.journal(t), store.Position{}, true); err != nil || got != "123456" {
		t.Errorf("an empty state: %q: %v", got, err)
	}
	for what, p := range map[string]store.Position{
		"another link at the end": {Index: 6, Link: at[6].Link + 1}, "another link before": {Index: 3, Link: at[3].Link + 1},
		"no link": {Index: 3}, "no link at the end": {Index: 6}, "entries that the stream lacks": {Index: 7, Link: 1},
		"another state without entries": {Link: 5},
	} {
		if got, err := join(t, r.journal(t), p, true); !errors.Is(err, store.ErrDiverged) {
			t.Errorf("%s: %q: %v", what, got, err)
		}
	}
	if err := j.Drop(t.Context(), 4); err != nil {
		t.Fatal(err)
	}
	for i, p := range append(at, store.Position{}) {
		got, err := join(t, r.journal(t), p, true)
		if p.Index < 3 {
			if !errors.Is(err, store.ErrGap) || got != "" {
				t.Errorf("after entry %d, the next one is gone: %q: %v", i, got, err)
			}
		} else if err != nil || got != "123456"[i:] {
			t.Errorf("after entry %d: %q: %v", i, got, err)
		}
	}
	if err := j.Drop(t.Context(), 7); err != nil {
		t.Fatal(err)
	}
	if got, err := join(t, r.journal(t), at[5], true); err != nil || got != "6" {
		t.Errorf("the last entry of a stream that was dropped: %q: %v", got, err)
	}
	if _, err := join(t, r.journal(t), at[4], true); !errors.Is(err, store.ErrGap) {
		t.Errorf("a state before the last entry of a stream that was dropped: %v", err)
	}
}

// TestBegin begins a stream at a state that has no link yet, and joins it again before and after the first entry.
func TestBegin(t *testing.T) {
	r := one(t)
	j := r.journal(t)
	at := store.Position{Index: 40}
	if got, err := join(t, j, at, false); err != nil || got != "" || j.Err() == nil {
		t.Fatalf("a reader of no stream: %q, %v, and then %v", got, err, j.Err())
	}
	if _, err := join(t, j, at, true); err != nil {
		t.Fatal(err)
	}
	if _, err := join(t, r.journal(t), at, true); err != nil { // as after a crash before the link was kept
		t.Fatal(err)
	}
	known := j.at
	appendTo(t, j, "x")
	if _, err := join(t, r.journal(t), at, true); !errors.Is(err, store.ErrDiverged) {
		t.Errorf("a state without a link, after an entry: %v", err)
	}
	if got, err := join(t, r.journal(t), known, true); err != nil || got != "x" {
		t.Errorf("%q: %v", got, err)
	}
	if _, err := join(t, r.journal(t), store.Position{Index: 39, Link: 5}, true); !errors.Is(err, store.ErrGap) {
		t.Errorf("a state from before the stream: %v", err)
	}
	if j.FirstIndex() != 41 || j.LastIndex() != 41 {
		t.Errorf("entries %d to %d", j.FirstIndex(), j.LastIndex())
	}
}

// TestForeign refuses streams of other nodes, and such that lose entries by themselves or were emptied.
func TestForeign(t *testing.T) {
	r := one(t)
	j, at := start(t, r, 3)
	other, err := Open(Options{Servers: r.urls, Name: "test", MaxBytes: r.max, Key: [32]byte{2}})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, err := join(t, other, store.Position{}, true); !errors.Is(err, bulkhead.ErrForbidden) {
		t.Errorf("another node's stream: %v", err)
	}
	if _, err := other.Append([]byte("x")); err == nil {
		t.Error("another node appends")
	}
	good := j.stream.CachedInfo().Config
	for what, change := range map[string]func(*jetstream.StreamConfig){
		"drops old messages":   func(c *jetstream.StreamConfig) { c.Discard = jetstream.DiscardOld },
		"has a largest age":    func(c *jetstream.StreamConfig) { c.MaxAge = 1e12 },
		"has a largest number": func(c *jetstream.StreamConfig) { c.MaxMsgs = 100 },
		"takes other subjects": func(c *jetstream.StreamConfig) { c.Subjects = append(c.Subjects, "more") },
	} {
		bad := good
		bad.Subjects = append([]string(nil), good.Subjects...)
		change(&bad)
		if _, err := j.js.UpdateStream(t.Context(), bad); err != nil {
			t.Fatal(err)
		}
		if _, err := join(t, r.journal(t), at[3], true); !errors.Is(err, bulkhead.ErrMalformed) {
			t.Errorf("a stream that %s: %v", what, err)
		}
		if _, err := j.js.UpdateStream(t.Context(), good); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := join(t, r.journal(t), at[3], true); err != nil {
		t.Fatal(err)
	}
	if err := j.stream.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := join(t, r.journal(t), at[3], true); !errors.Is(err, store.ErrGap) {
		t.Errorf("a stream that was emptied: %v", err)
	}
}

// TestBadBytes puts messages of a stranger into the stream: the writer is refused, and every reader names the message.
// Once it was removed, everything goes on.
func TestBadBytes(t *testing.T) {
	r := one(t)
	j, at := start(t, r, 3)
	forged, err := newSealer([32]byte{9})
	if err != nil {
		t.Fatal(err)
	}
	next := message{writer: j.writer, index: 4, before: at[3].Link, after: at[3].After([]byte("f")).Link, parts: 1,
		data: []byte("f")}
	replayed, _, err := j.get(t.Context(), j.stream, 2)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range [][]byte{nil, []byte("hello"), forged.seal(&next), j.sealer.seal(&next)[:60],
		j.sealer.seal(&replayed)} {
		ack, err := j.js.Publish(t.Context(), j.subject, b)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := j.Append([]byte("x")); err == nil {
			t.Fatalf("an entry was appended after %.20q", b)
		}
		got, err := join(t, j, at[3], true)
		if err == nil || got != "" {
			t.Errorf("after %.20q: %q: %v", b, got, err)
		}
		if _, err := j.Append([]byte("x")); err == nil {
			t.Fatalf("an entry was appended after %.20q", b)
		}
		if err := j.stream.DeleteMsg(t.Context(), ack.Sequence); err != nil {
			t.Fatal(err)
		}
		if got, err := join(t, j, at[3], true); err != nil || got != "" {
			t.Fatalf("after the removal: %q: %v", got, err)
		}
	}
	appendTo(t, j, "4")
	if got := read(t, j, 1); len(got) != 4 {
		t.Errorf("%q", got)
	}
	if err := j.stream.DeleteMsg(t.Context(), 4); err != nil { // an entry in the middle
		t.Fatal(err)
	}
	if got, err := join(t, r.journal(t), at[0], true); !errors.Is(err, store.ErrGap) {
		t.Errorf("an entry was removed: %q: %v", got, err)
	}
}

// TestTorn leaves an entry without its end, as a writer does that dies: no reader sees it, and the next writer appends
// its own entry under the same index.
func TestTorn(t *testing.T) {
	r := one(t)
	r.part = 10
	j, at := start(t, r, 2)
	entry := []byte(strings.Repeat("long ", 10))
	m := message{writer: j.writer, index: 3, before: at[2].Link, after: at[2].After(entry).Link, parts: 5}
	seq := j.seq
	for ; m.part < 3; m.part++ {
		m.data = entry[10*m.part : 10*m.part+10]
		var err error
		if seq, err = j.publish(t.Context(), &m, seq); err != nil {
			t.Fatal(err)
		}
	}
	b := r.journal(t)
	if got, err := join(t, b, at[1], true); err != nil || got != "2" {
		t.Fatalf("%q: %v", got, err)
	}
	m.data = entry[30:40]
	appendTo(t, b, "another long entry")
	if _, err := j.publish(t.Context(), &m, seq); !errors.Is(err, errMoved) {
		t.Errorf("the former writer goes on with its entry: %v", err)
	}
	if got, err := join(t, r.journal(t), at[0], true); err != nil || got != "12another long entry" {
		t.Errorf("%q: %v", got, err)
	}
}

// TestUnanswered loses the answer to an entry: the writer finds its entry in the stream, and goes on.
func TestUnanswered(t *testing.T) {
	r := one(t)
	j, at := start(t, r, 2)
	m := message{writer: j.writer, index: 3, before: at[2].Link, after: at[2].After([]byte("3")).Link, parts: 1,
		data: []byte("3")}
	if _, err := j.publish(t.Context(), &m, j.seq); err != nil { // and the answer is lost
		t.Fatal(err)
	}
	if _, err := j.Append([]byte("4")); err == nil || errors.Is(err, store.ErrFenced) {
		t.Fatalf("an entry beside one that is not known: %v", err)
	}
	if _, err := j.Append([]byte("4")); err == nil {
		t.Fatal("an entry was taken after one that failed")
	}
	if got, err := join(t, j, at[2], true); err != nil || got != "3" {
		t.Fatalf("%q: %v", got, err)
	}
	appendTo(t, j, "4")
}

// TestKeep checks that the latest entries stay, up to a size, although a checkpoint covers them.
func TestKeep(t *testing.T) {
	r := one(t)
	j, _ := start(t, r, 0)
	j.o.Keep = 100_000
	entry := strings.Repeat("x", 1000)
	for range 200 {
		appendTo(t, j, entry)
		if err := j.Drop(t.Context(), j.LastIndex()+1); err != nil {
			t.Fatal(err)
		}
	}
	if s := j.State(); s.Bytes > 110_000 || s.Bytes < 80_000 || s.First != j.FirstIndex() || s.Server == "" {
		t.Errorf("%+v", s)
	}
	read(t, j, j.FirstIndex())
}

// TestRights uses a stream as a user with the rights that docs/standby.md names, and no others.
func TestRights(t *testing.T) {
	text, err := os.ReadFile("../../../docs/standby.md")
	if err != nil {
		t.Fatal(err)
	}
	quoted := regexp.MustCompile(`"([^"\n]*)"`)
	rights := func(key string) (subjects []string) {
		_, rest, ok := strings.Cut(string(text), "\n"+key+": [")
		if !ok {
			t.Fatalf("the document names no rights to %s", key)
		}
		list, _, _ := strings.Cut(rest, "]")
		for _, m := range quoted.FindAllStringSubmatch(list, -1) {
			subjects = append(subjects, strings.ReplaceAll(m[1], "NAME", "test"))
		}
		return subjects
	}
	url := natstest.StartFor(t, rights("publish"), rights("subscribe"))
	r := &remote{urls: []string{url}, max: 1 << 20}
	j, at := start(t, r, 5)
	if err := j.Drop(t.Context(), 4); err != nil || j.FirstIndex() != 4 {
		t.Fatalf("the first entry is %d: %v", j.FirstIndex(), err)
	}
	if got, err := join(t, r.journal(t), at[3], true); err != nil || got != "45" {
		t.Errorf("%q: %v", got, err)
	}
	if err := j.Room(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestDenied has a user who may not append to the stream. The error names what the server denies.
func TestDenied(t *testing.T) {
	url := natstest.StartFor(t, []string{"$JS.API.>"}, []string{"_INBOX.>"})
	j, err := Open(Options{Servers: []string{url}, Name: "test", MaxBytes: 1 << 20, Wait: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	await.True(t, "the denial in the error", func() bool {
		_, err := join(t, j, store.Position{}, true)
		return err != nil && strings.Contains(err.Error(), `Publish to "bulkhead.journal.test"`) &&
			j.State().Problem != nil
	})
}
