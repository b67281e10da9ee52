package stream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/store"
	"github.com/bulkhead-mail/bulkhead/internal/testing/await"
	"github.com/bulkhead-mail/bulkhead/internal/testing/natstest"
)

// A place is where a journal is kept. Its journals are opened, as a node's are, with all that the node knows.
type place interface {
	// open opens the journal for a writer whose state ends at a position. It fails if another one may not write now.
	open(t *testing.T, at store.Position) (store.Journal, error)
	// checkpoint makes a checkpoint of the entries below an index.
	checkpoint(t *testing.T, j store.Journal, before uint64)
	// recovered reopens a journal whose Append has failed, and reports the entries that were found beyond at.
	recovered(t *testing.T, j store.Journal, at store.Position) ([]store.Entry, error)
	// fill lets the place take no more than some bytes from now on, and with 0 any number.
	fill(bytes int)
}

// local is a journal in files.
type local struct {
	dir  string
	room *limitedFS
}

func (l *local) open(t *testing.T, _ store.Position) (store.Journal, error) {
	return store.Open(l.dir, store.Options{FS: l.room, SegmentBytes: 4 << 10})
}

func (l *local) checkpoint(t *testing.T, j store.Journal, before uint64) {
	t.Helper()
	if err := j.(*store.Store).Checkpoint(t.Context(), before, nil, nil); err != nil {
		t.Fatal(err)
	}
}

func (l *local) recovered(t *testing.T, j store.Journal, at store.Position) ([]store.Entry, error) {
	return nil, j.(*store.Store).Recover(t.Context(), j.LastIndex()+1, nil, nil)
}

func (l *local) fill(bytes int) { l.room.left.Store(int64(bytes)) }

// A limitedFS is the file system of the machine, which runs full.
type limitedFS struct {
	left atomic.Int64 // bytes; 0: there is no limit
}

type limitedFile struct {
	*os.File
	fs *limitedFS
}

func (f *limitedFS) OpenFile(name string, flag int, perm fs.FileMode) (store.Handle, error) {
	h, err := os.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return &limitedFile{h, f}, nil
}

func (f *limitedFS) Rename(from, to string) error { return os.Rename(from, to) }
func (f *limitedFS) Remove(name string) error     { return os.Remove(name) }
func (f *limitedFS) SyncDir(string) error         { return nil }

func (h *limitedFile) WriteAt(b []byte, at int64) (int, error) {
	if left := h.fs.left.Load(); left > 0 {
		if left <= int64(len(b)) {
			return 0, syscall.ENOSPC
		}
		h.fs.left.Add(-int64(len(b)))
	}
	return h.File.WriteAt(b, at)
}

func (h *limitedFile) DropCache() {}

// remote is a journal in a stream.
type remote struct {
	urls []string
	max  int64 // bytes of the stream
	part int   // bytes of a message
}

func (r *remote) journal(t *testing.T) *Journal {
	t.Helper()
	j, err := Open(Options{Servers: r.urls, Name: "test", MaxBytes: r.max, Key: [32]byte{1}, Wait: await.Patience})
	if err != nil {
		t.Fatal(err)
	}
	j.largest = r.part
	t.Cleanup(func() { j.Close() })
	return j
}

func (r *remote) open(t *testing.T, at store.Position) (store.Journal, error) {
	j := r.journal(t)
	_, err := j.Join(t.Context(), at, true, func(_ context.Context, _ store.Position, e []store.Entry) error {
		return fmt.Errorf("%d entries after the last one", len(e))
	})
	return j, err
}

func (r *remote) checkpoint(*testing.T, store.Journal, uint64) {}

func (r *remote) recovered(t *testing.T, j store.Journal, at store.Position) (found []store.Entry, err error) {
	_, err = j.(*Journal).Join(t.Context(), at, true, func(_ context.Context, _ store.Position, e []store.Entry) error {
		found = append(found, e...)
		return nil
	})
	if err == nil {
		err = j.(*Journal).Room(t.Context())
	}
	return found, err
}

func (r *remote) fill(int) {} // max is reached

// eachPlace runs a test of a journal in every place.
func eachPlace(t *testing.T, test func(t *testing.T, p place)) {
	t.Run("files", func(t *testing.T) {
		test(t, &local{filepath.Join(t.TempDir(), "store"), &limitedFS{}})
	})
	t.Run("stream", func(t *testing.T) {
		test(t, &remote{urls: []string{"nats://" + natstest.Start(t)}, max: 1 << 20})
	})
	t.Run("stream in parts", func(t *testing.T) {
		test(t, &remote{urls: []string{"nats://" + natstest.Start(t)}, max: 1 << 20, part: 150})
	})
	t.Run("stream of a cluster", func(t *testing.T) {
		if testing.Short() {
			t.Skip("starts three servers")
		}
		test(t, &remote{urls: natstest.StartCluster(t).URLs(), max: 1 << 20, part: 300})
	})
}

// read returns the entries from an index on, and checks their indexes.
func read(t *testing.T, j store.Journal, from uint64) (entries [][]byte) {
	t.Helper()
	err := j.Replay(t.Context(), from, func(index uint64, entry []byte) error {
		if index != from+uint64(len(entries)) {
			t.Fatalf("entry %d after %d entries from %d", index, len(entries), from)
		}
		entries = append(entries, bytes.Clone(entry))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return entries
}

// TestJournal appends, reads, drops and reopens at random, and compares the journal with a slice.
func TestJournal(t *testing.T) {
	eachPlace(t, func(t *testing.T, p place) {
		rng := rand.New(rand.NewPCG(34, 5))
		var all [][]byte // by index - 1
		var at store.Position
		dropped := uint64(1) // the first index that must be there
		j, err := p.open(t, at)
		if err != nil {
			t.Fatal(err)
		}
		if s, ok := j.(*Journal); ok {
			at = s.at
		}
		compare := func() {
			t.Helper()
			if j.LastIndex() != uint64(len(all)) || j.Err() != nil {
				t.Fatalf("last entry %d, want %d: %v", j.LastIndex(), len(all), j.Err())
			}
			first := j.FirstIndex()
			if first > dropped {
				t.Fatalf("the journal begins with entry %d, and only those below %d may be dropped", first, dropped)
			}
			from := first + uint64(rng.IntN(int(j.LastIndex()+2-first)))
			got, want := read(t, j, from), all[min(int(from)-1, len(all)):]
			if len(got) != len(want) {
				t.Fatalf("%d entries from %d, want %d", len(got), from, len(want))
			}
			for i := range want {
				if !bytes.Equal(got[i], want[i]) {
					t.Fatalf("entry %d is %.20q, want %.20q", int(from)+i, got[i], want[i])
				}
			}
		}
		for range 150 {
			switch rng.IntN(12) {
			case 0:
				if len(all) == 0 {
					continue
				}
				before := dropped + uint64(rng.IntN(len(all)+2-int(dropped)))
				p.checkpoint(t, j, before)
				if err := j.Drop(t.Context(), before); err != nil {
					t.Fatal(err)
				}
				dropped = before
			case 1:
				if err := j.Close(); err != nil {
					t.Fatal(err)
				}
				if j, err = p.open(t, at); err != nil {
					t.Fatal(err)
				}
			case 2:
				compare()
			default:
				entry := make([]byte, rng.IntN(400))
				for i := range entry {
					entry[i] = byte(rng.Uint32())
				}
				index, err := j.Append(entry)
				if err != nil || index != uint64(len(all))+1 {
					t.Fatalf("entry %d has index %d: %v", len(all)+1, index, err)
				}
				all, at = append(all, entry), at.After(entry)
			}
		}
		compare()
		stopped := errors.New("enough")
		if err := j.Replay(t.Context(), j.LastIndex(), func(uint64, []byte) error { return stopped }); err != stopped {
			t.Errorf("an error of the reader arrives as %v", err)
		}
		if err := j.Replay(t.Context(), 0, func(uint64, []byte) error { return nil }); err == nil {
			t.Error("entry 0 is read")
		}
		if _, err := j.Append(make([]byte, store.MaxEntry+1)); err == nil || j.Err() != nil {
			t.Errorf("an entry that is too large: %v, and the journal: %v", err, j.Err())
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestFull appends until the place is full. Nothing that was acknowledged is lost, nothing is dropped to make room, and
// the journal goes on once a checkpoint covers its entries.
func TestFull(t *testing.T) {
	eachPlace(t, func(t *testing.T, p place) {
		j, err := p.open(t, store.Position{})
		if err != nil {
			t.Fatal(err)
		}
		var at store.Position
		if s, ok := j.(*Journal); ok {
			at = s.at
		}
		p.fill(1 << 20)
		entry := bytes.Repeat([]byte{7}, 10_000)
		acked := 0
		for {
			_, err = j.Append(entry)
			if err != nil {
				break
			}
			if at = at.After(entry); acked > 200 {
				t.Fatalf("%d bytes are in a place for a megabyte", acked*len(entry))
			}
			acked++
		}
		if acked < 20 {
			t.Fatalf("only %d entries fit: %v", acked, err)
		}
		if _, stream := j.(*Journal); stream && !errors.Is(err, store.ErrFull) {
			t.Errorf("a full stream: %v", err)
		}
		if _, err := j.Append([]byte("more")); err == nil {
			t.Fatal("an entry was taken after one that failed")
		}
		if got := read(t, j, 1); len(got) != acked {
			t.Fatalf("%d entries, and %d were acknowledged", len(got), acked)
		}
		found, err := p.recovered(t, j, at)
		if _, stream := j.(*Journal); stream && !errors.Is(err, store.ErrFull) || len(found) > 0 {
			t.Fatalf("%d entries beyond the last one: %v", len(found), err)
		}
		p.fill(0)
		if _, stream := j.(*Journal); stream { // a store recovers with a checkpoint
			if err := j.Drop(t.Context(), j.LastIndex()+1); err != nil {
				t.Fatal(err)
			}
		}
		if found, err = p.recovered(t, j, at); err != nil || len(found) > 0 {
			t.Fatalf("%d entries beyond the last one: %v", len(found), err)
		}
		last := j.LastIndex()
		if index, err := j.Append(entry); err != nil || index <= last {
			t.Fatalf("after a checkpoint: index %d, %v", index, err)
		}
	})
}

// TestOneWriter opens the journal a second time while a writer lives: either the place refuses that, or the second
// writer is the only one from its first entry on.
func TestOneWriter(t *testing.T) {
	eachPlace(t, func(t *testing.T, p place) {
		a, err := p.open(t, store.Position{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := a.Append([]byte("a1")); err != nil {
			t.Fatal(err)
		}
		var at store.Position
		if s, ok := a.(*Journal); ok {
			at = s.at
		}
		b, err := p.open(t, at)
		if err != nil {
			if !errors.Is(err, store.ErrInUse) {
				t.Fatal(err)
			}
			return
		}
		if _, err := b.Append([]byte("b2")); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if _, err := a.Append([]byte("a2")); err == nil {
				t.Fatal("two writers append")
			}
			if found, err := p.recovered(t, a, at); !errors.Is(err, store.ErrFenced) || len(found) > 0 {
				t.Fatalf("the former writer: %d entries, %v", len(found), err)
			}
		}
		if _, err := b.Append([]byte("b3")); err != nil {
			t.Fatal(err)
		}
		got := read(t, b, 1)
		if want := "[a1 b2 b3]"; fmt.Sprintf("%s", got) != want {
			t.Errorf("%s, want %s", got, want)
		}
	})
}
