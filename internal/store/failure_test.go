package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/testing/bubble"
)

// failOnce returns a fault that hits the first operation of the kind on a path that contains part,
// and a flag that is set when it has.
func failOnce(kind, part string) (fault func(op, path string) bool, hit *bool) {
	hit = new(bool)
	return func(op, path string) bool {
		if *hit || op != kind || !strings.Contains(path, part) {
			return false
		}
		*hit = true
		return true
	}, hit
}

// TestFailedAppend makes each operation of Append fail once. The store must report it and accept
// nothing until it has recovered. It must never give the index of the failed entry to another
// entry, whether it recovers or the process dies.
func TestFailedAppend(t *testing.T) {
	for _, tt := range []struct{ op, part string }{
		{"write", journalDir}, {"sync", journalDir}, {"write", watermarkFile},
		{"open", journalDir}, {"syncdir", journalDir}, // the first entry begins a segment
	} {
		for _, dies := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s %s, dies %v", tt.op, tt.part, dies), func(t *testing.T) {
				fs := newPowerFS()
				o := Options{FS: fs}
				s := open(t, newDir(t), o)
				if tt.op != "open" && tt.op != "syncdir" {
					appendN(t, s, 3, 50)
				}
				last := s.LastIndex()
				fault, hit := failOnce(tt.op, tt.part)
				fs.fault = fault
				if index, err := s.Append([]byte("failed")); !errors.Is(err, ErrFailed) || !errors.Is(err, errFault) || index != 0 {
					t.Fatalf("Append = %d, %v", index, err)
				}
				if !*hit || s.LastIndex() != last {
					t.Fatalf("hit %v, last index %d, want %d", *hit, s.LastIndex(), last)
				}
				for i, err := range []error{s.Err(), s.Sync(), s.Checkpoint(t.Context(), last+1, nil, nil)} {
					if !errors.Is(err, ErrFailed) || !errors.Is(err, errFault) {
						t.Errorf("call %d on a failed store: %v", i, err)
					}
				}
				if err := s.Recover(t.Context(), last+2, nil, nil); err == nil {
					t.Error("Recover with more than was acknowledged: no error")
				}
				if dies {
					fs.left = 0
					s.Close()
					fs.left = -1
					s = open(t, s.Dir(), o)
					found := ""
					if err := s.Replay(t.Context(), 1, func(i uint64, e []byte) error {
						if i > last {
							found = string(e)
						}
						return nil
					}); err != nil {
						t.Fatal(err)
					}
					if found != "" && found != "failed" || s.LastIndex() > last+1 {
						t.Errorf("after a death: entry %q, last index %d", found, s.LastIndex())
					}
				} else if err := s.Recover(t.Context(), last+1, []byte("m"), []File{text("a", "memory")}); err != nil {
					t.Fatal(err)
				}
				next, err := s.Append([]byte("next"))
				if err != nil || next <= last {
					t.Fatalf("Append = %d, %v", next, err)
				}
				s = reopen(t, s, o)
				seen := map[uint64]string{}
				if err := s.Replay(t.Context(), s.Manifest().Start, func(i uint64, e []byte) error {
					seen[i] += string(e)
					return nil
				}); err != nil {
					t.Fatal(err)
				}
				if seen[next] != "next" || !dies && len(seen) != 1 {
					t.Errorf("journal %v, want %q at %d", seen, "next", next)
				}
				if !dies && (next != last+2 || readFile(t, s, "a") != "memory") {
					t.Errorf("index %d after recovery, want %d", next, last+2)
				}
			})
		}
	}
}

// TestFaultInEveryOperation makes Checkpoint and Recover fail at their first, second, ...
// operation. Each must return the error, and leave a store that a new process finds complete, old
// or new.
func TestFaultInEveryOperation(t *testing.T) {
	for _, recovers := range []bool{false, true} {
		done := false
		for n := 0; !done; n++ {
			fs := newPowerFS()
			o := Options{FS: fs}
			s := open(t, newDir(t), o)
			appendN(t, s, 4, 50)
			if err := s.Checkpoint(t.Context(), 3, []byte("old"), []File{text("a", "old"), text("same", "same")}); err != nil {
				t.Fatal(err)
			}
			at := fs.count + n
			fs.fault = func(string, string) bool { return fs.count-1 == at }
			call := s.Checkpoint
			if recovers {
				call = s.Recover
			}
			err := call(t.Context(), 5, []byte("new"), []File{text("a", "new"), {Name: "same"}, text("b", "new")})
			if err != nil && !errors.Is(err, errFault) {
				t.Fatal(err)
			}
			done = fs.count <= at
			if done && err != nil {
				t.Fatalf("no fault and %v", err)
			}
			fs.fault = nil
			meta := string(s.Manifest().Meta)
			if err == nil && meta != "new" {
				t.Errorf("operation %d: no error, and the old checkpoint", n)
			}
			s = reopen(t, s, o)
			m := s.Manifest()
			if string(m.Meta) != meta || readFile(t, s, "a") != meta || readFile(t, s, "same") != "same" {
				t.Errorf("operation %d: manifest %+v after reopening, want %s", n, m, meta)
			}
			checkReplay(t, s, m.Start, 4, 50)
			appendN(t, s, 1, 50)
			if err := s.Checkpoint(t.Context(), 6, []byte("newest"), []File{{Name: "a"}}); err != nil {
				t.Fatal(err)
			}
			if left, _ := filepath.Glob(s.path(filesDir, "*")); len(left) != 1 {
				t.Errorf("operation %d: left %v", n, left)
			}
		}
	}
}

// TestRelaxedSync checks that nothing stays unsynced for longer than SyncEvery.
func TestRelaxedSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := newPowerFS()
		s := open(t, newDir(t), Options{Durability: Relaxed, SyncEvery: time.Minute, FS: fs})
		appendN(t, s, 3, 50)
		durable := func() uint64 {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.durable
		}
		if got := durable(); got != 1 { // the segment was created and synced with the first entry
			t.Errorf("durable %d at once, want 1", got)
		}
		bubble.Advance(time.Minute)
		synctest.Wait()
		if got := durable(); got != 3 {
			t.Errorf("durable %d after a minute, want 3", got)
		}
		appendN(t, s, 1, 50)
		fs.mu.Lock()
		fs.fault, _ = failOnce("sync", journalDir)
		fs.mu.Unlock()
		bubble.Advance(time.Minute)
		synctest.Wait()
		if _, err := s.Append(nil); !errors.Is(err, ErrFailed) || !errors.Is(err, errFault) {
			t.Errorf("Append after a sync that failed: %v", err)
		}
		if err := s.Recover(t.Context(), s.LastIndex()+1, nil, nil); err != nil {
			t.Fatal(err)
		}
		appendN(t, s, 1, 50)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestRelaxedLossIsTold checks that the entries lost from a relaxed store by a power loss are
// logged, with their indexes.
func TestRelaxedLossIsTold(t *testing.T) {
	s := open(t, newDir(t), Options{Durability: Relaxed, SyncEvery: 1 << 40})
	appendN(t, s, 2, 50)
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	size := s.tail.size
	appendN(t, s, 3, 50)
	dir := copyTree(t, s.Dir())
	f, err := osFS{}.OpenFile(filepath.Join(dir, journalDir, filepath.Base(s.tail.path)), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Truncate(size), f.Close()); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	r := open(t, dir, Options{Logger: logTo(&log)})
	if r.LastIndex() != 2 || !strings.Contains(log.String(), "first=3 last=5") {
		t.Errorf("last index %d, log %s", r.LastIndex(), log.String())
	}
}

// TestConcurrent runs everything concurrently for the race detector, and checks that nothing is
// lost.
func TestConcurrent(t *testing.T) {
	o := Options{SegmentBytes: 5000, Durability: Relaxed, SyncEvery: time.Millisecond}
	s := open(t, newDir(t), o)
	const n = 400
	stop := make(chan struct{})
	var others sync.WaitGroup
	loop := func(fn func() error) {
		others.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := fn(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	loop(func() error {
		last := s.LastIndex()
		return s.Checkpoint(t.Context(), max(last, 20)-19, fmt.Append(nil, last), []File{text("a", fmt.Sprint(last))})
	})
	loop(func() error {
		start := s.Manifest().Start
		next := start
		err := s.Replay(t.Context(), start, func(i uint64, e []byte) error {
			if i != next {
				return fmt.Errorf("entry %d, want %d", i, next)
			}
			next++
			return nil
		})
		if s.Manifest().Start != start {
			return nil // the segments may have been removed in between
		}
		return err
	})
	loop(func() error {
		_, err := s.Backup(t.Context(), io.Discard)
		return err
	})
	appendN(t, s, n, 200)
	close(stop)
	others.Wait()
	s = reopen(t, s, o)
	if s.LastIndex() != n {
		t.Errorf("last index %d, want %d", s.LastIndex(), n)
	}
	checkReplay(t, s, s.Manifest().Start, n, 200)
}

// TestManifestOfDoubtfulRename makes the last step of a checkpoint fail, which makes the manifest's
// new name durable, and ends the process. The next process must not remove the old checkpoint's
// files before the name is durable.
func TestManifestOfDoubtfulRename(t *testing.T) {
	for seed := range uint64(8) {
		fs := newPowerFS()
		o := Options{FS: fs}
		s := open(t, newDir(t), o)
		if err := s.Checkpoint(t.Context(), 1, []byte("old"), []File{text("a", "old")}); err != nil {
			t.Fatal(err)
		}
		fs.fault = func(op, path string) bool { return op == "syncdir" && path == s.Dir() }
		if err := s.Checkpoint(t.Context(), 1, []byte("new"), []File{text("a", "new")}); !errors.Is(err, errFault) {
			t.Fatalf("Checkpoint: %v", err)
		}
		fs.fault = nil
		for range 2 {
			fs.left = 0
			s.Close()
			fs.left = -1
			s = open(t, s.Dir(), o)
			if m := s.Manifest(); readFile(t, s, "a") != string(m.Meta) {
				t.Errorf("checkpoint %s with another's file", m.Meta)
			}
			fs.left = 0
			s.Close()
			fs.left = -1
			fs = fs.cut(t, rand.New(rand.NewPCG(seed, 0)), s.Dir())
			o.FS = fs
			s = open(t, s.Dir(), o)
		}
	}
}

// TestDoubtfulRecovery checks that even an intact store accepts no entries when Recover cannot
// determine which epoch the manifest will have after a power loss.
func TestDoubtfulRecovery(t *testing.T) {
	fs := newPowerFS()
	o := Options{FS: fs}
	s := open(t, newDir(t), o)
	appendN(t, s, 2, 50)
	fs.fault = func(op, path string) bool { return op == "syncdir" && path == s.Dir() }
	if err := s.Recover(t.Context(), 3, nil, []File{text("a", "two entries")}); !errors.Is(err, errFault) {
		t.Fatalf("Recover: %v", err)
	}
	fs.fault = nil
	if _, err := s.Append(nil); !errors.Is(err, ErrFailed) {
		t.Errorf("Append: %v, want ErrFailed", err)
	}
	if err := s.Recover(t.Context(), 3, nil, []File{text("a", "two entries")}); err != nil {
		t.Fatal(err)
	}
	appendN(t, s, 2, 50)
	s = reopen(t, s, o)
	checkReplay(t, s, 3, 4, 50)
}

// TestPruneInOrder has a disk refuse to remove the oldest of several obsolete segments. The newer
// ones must stay as well, so that the journal has no gap, and the next checkpoint removes all of
// them. Otherwise a power cut could bring back the oldest segment alone, with the torn write that
// was once at its end.
func TestPruneInOrder(t *testing.T) {
	fs := newPowerFS()
	s := open(t, newDir(t), Options{FS: fs, SegmentBytes: 1000})
	appendN(t, s, 30, 200)
	oldest := ""
	fs.fault = func(op, path string) bool { return op == "remove" && path == oldest }
	for i, want := range []int{8, 8, 1} {
		segs, err := listSegments(s.path(journalDir))
		if err != nil {
			t.Fatal(err)
		}
		if oldest = segs[0].path; i == 2 {
			oldest = ""
		}
		if err := s.Checkpoint(t.Context(), s.LastIndex()+1, nil, nil); err != nil {
			t.Fatal(err)
		}
		if segs, err = listSegments(s.path(journalDir)); err != nil || len(segs) != want {
			t.Errorf("checkpoint %d: %d segments, %v, want %d", i+1, len(segs), err, want)
		}
	}
	s = reopen(t, s, Options{FS: fs})
	appendN(t, s, 1, 200)
	checkReplay(t, s, 31, 31, 200)
}

// TestPruneKeepsNewest checks that a checkpoint removes old segments, and keeps a segment that another
// goroutine is creating: it begins behind the last entry.
func TestPruneKeepsNewest(t *testing.T) {
	s := open(t, newDir(t), Options{})
	appendN(t, s, 5, 20)
	epoch := s.Manifest().epoch
	for first, kept := range map[uint64]bool{2: false, 5: false, 6: true, 7: true} {
		path := s.path(journalDir, segmentName(epoch, first))
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := s.Checkpoint(t.Context(), 1, nil, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(path); (err == nil) != kept {
			t.Errorf("a segment that begins with entry %d, after 5 entries: %v, want it kept: %v", first, err, kept)
		}
		if err := removeIfThere(s.fs, path); err != nil {
			t.Fatal(err)
		}
	}
}

// A lyingFS puts other bytes on the disk than it was given, in files whose paths contain part. Reads find them once the
// file's cache is dropped.
type lyingFS struct {
	fastFS
	part *string // "": to none
}

func (f lyingFS) OpenFile(name string, flag int, perm fs.FileMode) (Handle, error) {
	h, err := f.fastFS.OpenFile(name, flag, perm)
	if err != nil || *f.part == "" || !strings.Contains(name, *f.part) {
		return h, err
	}
	return &lyingFile{Handle: h}, nil
}

type lyingFile struct {
	Handle
	end  int64   // of what Write has written
	lies []int64 // offsets of bytes that the disk has changed
}

func (f *lyingFile) Write(b []byte) (int, error) {
	n, err := f.WriteAt(b, f.end)
	f.end += int64(n)
	return n, err
}

func (f *lyingFile) WriteAt(b []byte, at int64) (int, error) {
	if len(b) > 0 {
		f.lies = append(f.lies, at+int64(len(b)/2))
	}
	return f.Handle.WriteAt(b, at)
}

func (f *lyingFile) DropCache() {
	var b [1]byte
	for _, at := range f.lies {
		if _, err := f.ReadAt(b[:], at); err != nil {
			panic(err)
		}
		b[0] ^= 8
		if _, err := f.Handle.WriteAt(b[:], at); err != nil {
			panic(err)
		}
	}
}

// TestReadBack checks that what a checkpoint and a recovery have written is read back. On a disk that keeps other
// bytes, they fail with the name of the file, and the last checkpoint stays in force.
func TestReadBack(t *testing.T) {
	for _, part := range []string{filesDir, manifestFile, journalDir} {
		lying := ""
		o := Options{FS: lyingFS{part: &lying}}
		s := open(t, newDir(t), o)
		appendN(t, s, 3, 50)
		if err := s.Checkpoint(t.Context(), 2, []byte("old"), []File{text("a", "old")}); err != nil {
			t.Fatal(err)
		}
		lying = part
		if part != journalDir { // a checkpoint writes nothing there
			err := s.Checkpoint(t.Context(), 4, []byte("new"), []File{text("a", "new")})
			if !named(err, "") || !strings.Contains(err.Error(), part) {
				t.Errorf("a checkpoint, and a lying disk in %s: %v", part, err)
			}
		}
		err := s.Recover(t.Context(), 4, []byte("new"), []File{text("a", "new")})
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("a recovery, and a lying disk in %s: %v", part, err)
		}
		lying = ""
		s = reopen(t, s, o)
		if m := s.Manifest(); string(m.Meta) != "old" || readFile(t, s, "a") != "old" {
			t.Errorf("a lying disk in %s: checkpoint %q is in force", part, m.Meta)
		}
		checkReplay(t, s, 2, 3, 50)
	}
}

// TestManifestTooLarge checks that a checkpoint and a recovery whose manifest could not be read again are refused, and
// leave the store as it was.
func TestManifestTooLarge(t *testing.T) {
	s := open(t, newDir(t), Options{FS: fastFS{}})
	appendN(t, s, 3, 50)
	meta := make([]byte, maxManifestBytes/4*3) // longer in base64
	for name, call := range map[string]func(context.Context, uint64, []byte, []File) error{
		"checkpoint": s.Checkpoint, "recovery": s.Recover,
	} {
		err := call(t.Context(), 4, meta, []File{text("a", "new")})
		if err == nil || !strings.Contains(err.Error(), "limit") {
			t.Errorf("%s: %v", name, err)
		}
		if left, err := os.ReadDir(s.path(filesDir)); err != nil || len(left) > 0 || s.Manifest().Checkpoint != 0 {
			t.Errorf("%s: left %v, %v, checkpoint %d", name, left, err, s.Manifest().Checkpoint)
		}
	}
	appendN(t, s, 1, 50)
	checkReplay(t, reopen(t, s, Options{FS: fastFS{}}), 1, 4, 50)
}
