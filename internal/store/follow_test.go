package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
)

// TestFollowing appends random entries and checkpoints, and copies what a Following returns to a second store by
// AppendAll. Both must have the same entries. A Following that is too slow ends with ErrLag.
func TestFollowing(t *testing.T) {
	for _, durability := range []Durability{Always, Relaxed} {
		t.Run(durability.String(), func(t *testing.T) { followRandomly(t, durability) })
	}
}

func followRandomly(t *testing.T, durability Durability) {
	ctx, rng := context.Background(), rand.New(rand.NewPCG(3, 4))
	open := func(name string) *Store {
		s, err := Open(filepath.Join(t.TempDir(), name), Options{Durability: durability, SegmentBytes: 1 << 10})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	first, second := open("first"), open("second")
	all, slow := first.Follow(1<<20), first.Follow(100)
	defer all.Close()
	defer slow.Close()
	want := make(map[uint64]string)
	for i := range 300 {
		text := fmt.Sprint(i, make([]byte, rng.IntN(100)))
		index, err := first.Append([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		want[index] = text
		switch rng.IntN(10) {
		case 0:
			if err := first.Checkpoint(ctx, index+1, nil, nil); err != nil {
				t.Fatal(err)
			}
		case 1:
			if err := first.Sync(); err != nil {
				t.Fatal(err)
			}
			for second.LastIndex() < index {
				entries, err := all.Next(ctx)
				if err == nil {
					err = second.AppendAll(entries)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		if last := second.Durable(); last > first.Durable() || last != second.LastIndex() {
			t.Fatalf("the copy has %d entries, %d of them on disk, and the original %d on disk", second.LastIndex(), last,
				first.Durable())
		}
	}
	err := second.Replay(ctx, 1, func(index uint64, entry []byte) error {
		if want[index] != string(entry) {
			return fmt.Errorf("entry %d is %q, want %q", index, entry, want[index])
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if _, err := slow.Next(ctx); !errors.Is(err, ErrLag) {
		t.Errorf("a slow receiver: %v", err)
	}
	last := second.LastIndex()
	for _, bad := range []uint64{last, last + 2, 0} {
		if err := second.AppendAll([]Entry{{Index: bad}}); err == nil || second.LastIndex() != last || second.Err() != nil {
			t.Errorf("entry %d after entry %d: %v, then %d, %v", bad, last, err, second.LastIndex(), second.Err())
		}
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	for {
		entries, err := all.Next(ctx)
		if err != nil {
			if !errors.Is(err, ErrClosed) {
				t.Error(err)
			}
			return
		}
		_ = entries
	}
}

// TestFollowers checks that one of several Followings ends alone.
func TestFollowers(t *testing.T) {
	s := open(t, newDir(t), Options{FS: fastFS{}})
	first, second, third := s.Follow(1<<20), s.Follow(1<<20), s.Follow(1<<20)
	second.Close()
	second.Close() // has no further effect
	appendN(t, s, 1, 10)
	for i, f := range []Following{first, third} {
		if entries, err := f.Next(t.Context()); err != nil || len(entries) != 1 || entries[0].Index != 1 {
			t.Errorf("following %d: %+v, %v", i, entries, err)
		}
	}
	if len(s.followers) != 2 {
		t.Errorf("%d followers, want 2", len(s.followers))
	}
	first.Close()
	third.Close()
	if len(s.followers) != 0 {
		t.Errorf("%d followers are left", len(s.followers))
	}
}

// TestFollowerKeepsUp checks that a Following that takes every entry never lags, however much is appended in all.
func TestFollowerKeepsUp(t *testing.T) {
	s := open(t, newDir(t), Options{FS: fastFS{}})
	f := s.Follow(100)
	defer f.Close()
	for i := range 10 {
		appendN(t, s, 1, 60)
		if entries, err := f.Next(t.Context()); err != nil || len(entries) != 1 {
			t.Fatalf("entry %d: %d entries, %v", i+1, len(entries), err)
		}
	}
}

// TestFailedAppendAll makes each operation of AppendAll fail once. The store reports it, and appends nothing
// afterwards.
func TestFailedAppendAll(t *testing.T) {
	for _, op := range []string{"write", "sync"} {
		t.Run(op, func(t *testing.T) {
			fs := newPowerFS()
			s := open(t, newDir(t), Options{FS: fs})
			appendN(t, s, 3, 50)
			fault, hit := failOnce(op, journalDir)
			fs.fault = fault
			err := s.AppendAll([]Entry{{4, entry(4, 50)}})
			if !errors.Is(err, ErrFailed) || !errors.Is(err, errFault) || !*hit {
				t.Fatalf("AppendAll: %v, hit %v", err, *hit)
			}
			last := s.LastIndex()
			for _, index := range []uint64{last, last + 1} {
				if err := s.AppendAll([]Entry{{index, entry(index, 50)}}); !errors.Is(err, ErrFailed) || s.LastIndex() != last {
					t.Errorf("entry %d on a failed store: %v, last index %d, want %d", index, err, s.LastIndex(), last)
				}
			}
		})
	}
}

// TestFollowRecovered checks that a recovery ends a Following, and begins the journal behind the last entry.
func TestFollowRecovered(t *testing.T) {
	s := open(t, newDir(t), Options{FS: fastFS{}})
	f := s.Follow(1 << 20)
	defer f.Close()
	appendN(t, s, 3, 10)
	if err := s.Recover(t.Context(), 4, nil, nil); err != nil {
		t.Fatal(err)
	}
	if entries, err := f.Next(t.Context()); !errors.Is(err, ErrLag) {
		t.Errorf("after a recovery: %+v, %v; want %v", entries, err, ErrLag)
	}
	if first, last := s.FirstIndex(), s.LastIndex(); first != last+1 || first != 4 {
		t.Errorf("first index %d after the last one %d of a recovery", first, last)
	}
}

// TestWaitingFollower checks that a Following that waits learns of an entry, of its being too slow, of a recovery and
// of the end of the store.
func TestWaitingFollower(t *testing.T) {
	for what, tt := range map[string]struct {
		change func(*Store) error
		want   error
	}{
		"an entry":     {func(s *Store) error { _, err := s.Append([]byte("x")); return err }, nil},
		"two entries":  {func(s *Store) error { return s.AppendAll([]Entry{{1, []byte("x")}, {2, nil}}) }, nil},
		"a long entry": {func(s *Store) error { _, err := s.Append(make([]byte, 101)); return err }, ErrLag},
		"a recovery":   {func(s *Store) error { return s.Recover(t.Context(), 1, nil, nil) }, ErrLag},
		"the end":      {(*Store).Close, ErrClosed},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, err := Open(newDir(t), Options{FS: fastFS{}})
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				f := s.Follow(100)
				done := make(chan error, 1)
				go func() {
					entries, err := f.Next(t.Context())
					if err == nil && (len(entries) == 0 || entries[0].Index != 1) {
						err = fmt.Errorf("entries %+v", entries)
					}
					done <- err
				}()
				synctest.Wait() // it waits for an entry
				if err := tt.change(s); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				select {
				case err := <-done:
					if !errors.Is(err, tt.want) {
						t.Errorf("%v, want %v", err, tt.want)
					}
				default:
					t.Error("it waits on")
				}
			})
		})
	}
}

// TestRetain appends, makes checkpoints, retains entries and opens the store again, at random. The journal has all
// entries from its first index on, among them those to retain, unless they are larger than their limit. Of what the
// checkpoint covers, it has no more than the limit. A backup and an inspection have what they have without them.
func TestRetain(t *testing.T) {
	ctx, rng := t.Context(), rand.New(rand.NewPCG(34, 9))
	const segment, size, limit = 500, 50, 3000
	o := Options{FS: fastFS{}, SegmentBytes: segment}
	s := open(t, newDir(t), o)
	wanted, within, beyond := uint64(0), 0, 0 // the first entry to retain, 0 for none
	for range 1500 {
		switch rng.IntN(30) {
		case 0, 1, 2:
			start := s.Manifest().Start
			start += uint64(rng.IntN(int(s.LastIndex() + 2 - start)))
			if err := s.Checkpoint(ctx, start, nil, nil); err != nil {
				t.Fatal(err)
			}
			covered := int64(0)
			for _, seg := range s.segs {
				if seg.last < start {
					covered += seg.size
				}
			}
			first := s.FirstIndex()
			switch {
			case wanted == 0 && (first != start || covered > 0):
				t.Fatalf("the journal begins with entry %d, want %d; %d bytes", first, start, covered)
			case covered > limit:
				t.Fatalf("%d bytes of entries stay, limit %d", covered, limit)
			case wanted > 0 && first > min(wanted, start):
				if beyond++; covered < limit-2*segment {
					t.Fatalf("the journal begins with entry %d, want %d, and has %d bytes", first, wanted, covered)
				}
				wanted = first
			case covered > 0:
				within++
			}
		case 3:
			from := s.FirstIndex() + uint64(rng.IntN(int(s.LastIndex()+2-s.FirstIndex())))
			if wanted = s.Retain(from, limit); wanted != from {
				t.Fatalf("the first entry that stays is %d, want %d", wanted, from)
			}
		case 4:
			if rng.IntN(4) == 0 {
				s, wanted = reopen(t, s, o), 0
			}
		default:
			appendN(t, s, 1, size)
			continue
		}
		for i, e := range entriesOf(t, s, s.FirstIndex()) {
			if e != string(entry(i, size)) {
				t.Fatalf("entry %d is %.20q", i, e)
			}
		}
		if n := len(entriesOf(t, s, s.FirstIndex())); n != int(s.LastIndex()+1-s.FirstIndex()) {
			t.Fatalf("%d entries from %d to %d", n, s.FirstIndex(), s.LastIndex())
		}
	}
	if within < 10 || beyond < 10 {
		t.Errorf("%d checkpoints kept entries within the limit, and %d beyond, want 10 each", within, beyond)
	}
	if n, err := Inspect(ctx, s.Dir()); err != nil || len(n.Faults) > 0 || n.LastIndex != s.LastIndex() {
		t.Errorf("an inspection: %+v, %v", n, err)
	}
	var saved bytes.Buffer
	info, err := s.Backup(ctx, &saved)
	if err != nil || info.LastIndex != s.LastIndex() || info.Manifest.Start != s.Manifest().Start {
		t.Errorf("a backup: %+v, %v", info, err)
	}
	if _, err := Restore(ctx, &saved, newDir(t), o); err != nil {
		t.Error(err)
	}
}

// TestRetainAsMuchAsCheckpoint checks that as many bytes of entries stay as the checkpoint has, if that is more than
// the given limit.
func TestRetainAsMuchAsCheckpoint(t *testing.T) {
	for content, want := range map[int]uint64{0: 20, 10_000: 1} {
		s := open(t, newDir(t), Options{FS: fastFS{}, SegmentBytes: 1})
		s.Retain(1, 1)
		appendN(t, s, 20, 50)
		if err := s.Checkpoint(t.Context(), 21, nil, []File{text("a", strings.Repeat("x", content))}); err != nil {
			t.Fatal(err)
		}
		if got := s.FirstIndex(); got != want { // the last segment always stays
			t.Errorf("with a checkpoint of %d bytes, the journal begins with entry %d, want %d", content, got, want)
		}
	}
}

// TestRecoverReleases checks that a store whose disk is full gives the space of retained entries back before it writes
// a checkpoint.
func TestRecoverReleases(t *testing.T) {
	fs := newPowerFS()
	s := open(t, newDir(t), Options{FS: fs, SegmentBytes: 500})
	s.Retain(1, 1<<20)
	appendN(t, s, 50, 50)
	if err := s.Checkpoint(t.Context(), 51, nil, nil); err != nil {
		t.Fatal(err)
	}
	appendN(t, s, 3, 50)
	segments := func() int {
		all, err := listSegments(s.path(journalDir))
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	if n := segments(); n < 5 {
		t.Fatalf("%d segments stay", n)
	}
	fs.fault = func(op, path string) bool { return op == "write" }
	if _, err := s.Append(entry(54, 50)); !errors.Is(err, ErrFailed) {
		t.Fatal(err)
	}
	if err := s.Recover(t.Context(), 54, nil, []File{text("a", "content")}); !errors.Is(err, errFault) {
		t.Fatalf("a recovery on a full disk: %v", err)
	}
	if n := segments(); n > 2 {
		t.Errorf("%d segments are left", n)
	}
	fs.fault = nil
	if err := s.Recover(t.Context(), 54, nil, nil); err != nil || s.FirstIndex() != s.LastIndex()+1 {
		t.Errorf("a recovery: %v, entries %d to %d", err, s.FirstIndex(), s.LastIndex())
	}
}
