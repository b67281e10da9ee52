package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestLargestEntry checks that an entry of the largest size passes through everything that reads and writes entries.
func TestLargestEntry(t *testing.T) {
	largest := bytes.Repeat([]byte("largest "), MaxEntry/8)
	if _, err := open(t, newDir(t), Options{FS: fastFS{}}).Append(largest); err != nil {
		t.Fatal(err)
	}
	s := open(t, newDir(t), Options{FS: fastFS{}})
	if err := s.AppendAll([]Entry{{1, largest}}); err != nil {
		t.Fatal(err)
	}
	check := func(what string, replay func(fn func(uint64, []byte) error) error) {
		t.Helper()
		n := 0
		err := replay(func(_ uint64, e []byte) error {
			if n++; !bytes.Equal(e, largest) {
				t.Errorf("%s: entry %d is another", what, n)
			}
			return nil
		})
		if err != nil || n != 1 {
			t.Errorf("%s: %d entries, %v", what, n, err)
		}
	}
	check("an open store", func(fn func(uint64, []byte) error) error { return s.Replay(t.Context(), 1, fn) })
	var saved bytes.Buffer
	if _, err := s.Backup(t.Context(), &saved); err != nil {
		t.Fatal(err)
	}
	s = reopen(t, s, Options{FS: fastFS{}})
	check("a start", func(fn func(uint64, []byte) error) error { return s.Replay(t.Context(), 1, fn) })
	n, err := Inspect(t.Context(), s.Dir())
	if err != nil || len(n.Faults) > 0 {
		t.Fatalf("%+v, %v", n, err)
	}
	check("an inspection", func(fn func(uint64, []byte) error) error { return n.Replay(t.Context(), fn) })
	dir := newDir(t)
	if _, err := Restore(t.Context(), &saved, dir, Options{FS: fastFS{}}); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir, Options{FS: fastFS{}})
	check("a restored store", func(fn func(uint64, []byte) error) error { return s.Replay(t.Context(), 1, fn) })
}

// TestSegmentSize checks that the journal continues in a new file at the size of a segment, and not before.
func TestSegmentSize(t *testing.T) {
	const full = segmentHead + 2*(recordHead+50) // two entries
	for size, want := range map[int64]int{full - 1: 2, full: 2, full + 1: 3} {
		s := open(t, newDir(t), Options{FS: fastFS{}, SegmentBytes: size})
		appendN(t, s, want, 50)
		if n := segments(t, s); n != 1 {
			t.Errorf("segments of %d bytes: %d entries are in %d segments, want 1", size, want, n)
		}
		appendN(t, s, 1, 50)
		if n := segments(t, s); n != 2 {
			t.Errorf("segments of %d bytes: %d entries are in %d segments, want 2", size, want+1, n)
		}
	}
}

func segments(t *testing.T, s *Store) int {
	t.Helper()
	names, err := os.ReadDir(s.path(journalDir))
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}

// TestDiskOperations counts the operations that change the disk: an entry costs no more than the promise of its
// durability needs, and what is on the disk is not synced again.
func TestDiskOperations(t *testing.T) {
	const write, sync, mark, open, dir = 1, 1, 1, 1, 1
	for d, want := range map[Durability][4]int{
		Always:  {open + write + sync + dir + mark, write + sync + mark, 0, 0},
		Relaxed: {open + write + sync + dir + mark, write + mark, sync + mark, 0},
	} {
		fs := newPowerFS()
		s, err := Open(newDir(t), Options{FS: fs, Durability: d, SyncEvery: 1 << 40})
		if err != nil {
			t.Fatal(err)
		}
		var got [4]int
		for i, do := range []func() error{
			func() error { _, err := s.Append([]byte("first")); return err },
			func() error { _, err := s.Append([]byte("second")); return err },
			s.Sync, s.Sync,
		} {
			before := fs.count
			if err := do(); err != nil {
				t.Fatal(err)
			}
			got[i] = fs.count - before
		}
		if got != want {
			t.Errorf("%v: %v operations, want %v", d, got, want)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRestoreSyncs checks that a restore does not sync every entry by itself.
func TestRestoreSyncs(t *testing.T) {
	cost := func(entries int) int {
		s := open(t, newDir(t), Options{FS: fastFS{}})
		appendN(t, s, entries, 10)
		var saved bytes.Buffer
		if _, err := s.Backup(t.Context(), &saved); err != nil {
			t.Fatal(err)
		}
		fs := newPowerFS()
		if _, err := Restore(t.Context(), &saved, newDir(t), Options{FS: fs}); err != nil {
			t.Fatal(err)
		}
		return fs.count
	}
	if few, many := cost(10), cost(20); many-few != 2*10 { // the entry and the watermark
		t.Errorf("10 entries more cost %d operations, want 20", many-few)
	}
}

// TestCheckName checks every byte of a name, in the first place and in a later one, and the length of a name.
func TestCheckName(t *testing.T) {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
	for c := range 256 {
		first, later := string([]byte{byte(c)}), "a"+string([]byte{byte(c)})
		known := strings.IndexByte(letters, byte(c)) >= 0
		if err := checkName(first); (err == nil) != known {
			t.Errorf("%q: %v", first, err)
		}
		if err := checkName(later); (err == nil) != (known || c == '.') {
			t.Errorf("%q: %v", later, err)
		}
	}
	for length, ok := range map[int]bool{0: false, 1: true, maxNameBytes: true, maxNameBytes + 1: false} {
		if err := checkName(strings.Repeat("x", length)); (err == nil) != ok {
			t.Errorf("%d bytes: %v", length, err)
		}
	}
}

// TestIsStored checks which names a file of a checkpoint can have.
func TestIsStored(t *testing.T) {
	for name, want := range map[string]bool{
		"a.000000000000001a": true, "a.000000000000001a.tmp": true, "a.b.ffffffffffffffff": true,
		"a.000000000000001A": false, "a.00000000000001a": false, "a.0000000000000001a": false, "a.000000000000001g": false,
		".000000000000001a": false, "000000000000001a": false, "a/b.000000000000001a": false, ".tmp": false, "a": false,
		"a.000000000000001a.tmp.tmp": false, "a.": false, ".": false, "a000000000000001a": false,
	} {
		if got := isStored(name); got != want {
			t.Errorf("%q: %v", name, got)
		}
	}
}

// TestLockNamesProcess checks that the lock has the number of the process that holds it, and nothing else, whatever
// was in it.
func TestLockNamesProcess(t *testing.T) {
	s := open(t, newDir(t), Options{FS: fastFS{}})
	dir := s.Dir()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, lockFile), []byte("the number of another process"), 0o600); err != nil {
		t.Fatal(err)
	}
	open(t, dir, Options{FS: fastFS{}})
	b, err := os.ReadFile(filepath.Join(dir, lockFile))
	if want := fmt.Sprintln(os.Getpid()); err != nil || string(b) != want {
		t.Errorf("%q, %v; want %q", b, err, want)
	}
}

// TestFrameSize checks that a frame may have the largest size, and that a larger one is refused before it is read.
func TestFrameSize(t *testing.T) {
	for size, want := range map[uint32]string{maxFrame: errTruncated.Error(), maxFrame + 1: "limit"} {
		b := binary.LittleEndian.AppendUint16([]byte(backupMagic), backupVersion)
		b = binary.LittleEndian.AppendUint32(append(b, frameManifest), size)
		_, err := Restore(t.Context(), bytes.NewReader(b), newDir(t), Options{FS: fastFS{}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a frame of %d bytes: %v, want %q", size, err, want)
		}
	}
}

// TestFollowerLimits checks that a Following holds entries up to its limit, and passes on few large ones at once.
func TestFollowerLimits(t *testing.T) {
	s := open(t, newDir(t), Options{FS: fastFS{}})
	exact, small, all := s.Follow(100), s.Follow(99), s.Follow(1<<30)
	appendN(t, s, 2, 50)
	if entries, err := exact.Next(t.Context()); err != nil || len(entries) != 2 {
		t.Errorf("entries of the limit: %d, %v", len(entries), err)
	}
	if entries, err := small.Next(t.Context()); !errors.Is(err, ErrLag) {
		t.Errorf("entries above the limit: %d, %v", len(entries), err)
	}
	if entries, err := all.Next(t.Context()); err != nil || len(entries) != 2 {
		t.Fatalf("%d entries, %v", len(entries), err)
	}
	for range 5 {
		if _, err := s.Append(make([]byte, maxTaken/4)); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []int{4, 1} {
		if entries, err := all.Next(t.Context()); err != nil || len(entries) != want {
			t.Errorf("%d large entries at once, %v; want %d", len(entries), err, want)
		}
	}
}

// TestUntouched checks what is not read or written without need: a file that a checkpoint carries over, segments before
// the entries that a replay is asked for, and the copy of the manifest at a start.
func TestUntouched(t *testing.T) {
	o := Options{FS: fastFS{}, SegmentBytes: 200}
	s := open(t, newDir(t), o)
	if err := s.Checkpoint(t.Context(), 1, nil, []File{text("a", "content")}); err != nil {
		t.Fatal(err)
	}
	spoil := func(path string) {
		t.Helper()
		if err := os.Truncate(path, 10); err != nil {
			t.Fatal(err)
		}
	}
	carried := s.Manifest().Files[0]
	path := s.path(filesDir, carried.stored())
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	spoil(path)
	if err := s.Checkpoint(t.Context(), 1, nil, []File{{Name: "a"}}); err != nil {
		t.Errorf("a checkpoint that carries a damaged file over: %v", err)
	}
	if err := s.Recover(t.Context(), 1, nil, []File{{Name: "a"}}); !named(err, path) {
		t.Errorf("a recovery that carries a damaged file over: %v", err)
	}
	if err := os.WriteFile(path, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	appendN(t, s, 6, 50)
	spoil(s.segs[0].path)
	second := s.segs[0].last + 1
	checkReplay(t, s, second, 6, 50)
	if err := s.Replay(t.Context(), second-1, func(uint64, []byte) error { return nil }); !named(err, s.segs[0].path) {
		t.Errorf("a replay of a damaged segment: %v", err)
	}
	if err := s.Checkpoint(t.Context(), second, nil, []File{{Name: "a"}}); err != nil {
		t.Fatal(err)
	}
	stat := func() fs.FileInfo {
		t.Helper()
		info, err := os.Stat(s.path(manifestCopy))
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	before := stat()
	s = reopen(t, s, o)
	if !os.SameFile(before, stat()) {
		t.Error("a start has written the copy of the manifest anew")
	}
	for _, old := range []bool{true, false} {
		if err := os.Remove(s.path(manifestCopy)); err != nil {
			t.Fatal(err)
		}
		if old {
			if err := os.WriteFile(s.path(manifestCopy), []byte("old"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		s = reopen(t, s, o)
		if m, err := readManifest(fastFS{}, s.path(manifestCopy)); err != nil || m.Checkpoint != s.Manifest().Checkpoint {
			t.Errorf("a copy of the manifest, there before: %v, is not made: %+v, %v", old, m, err)
		}
	}
}

// TestWholeLimit checks that a file of the largest size that is mended is mended, and a larger one is not read.
func TestWholeLimit(t *testing.T) {
	for size, want := range map[int]bool{maxManifestBytes: true, maxManifestBytes + 1: false} {
		s := open(t, newDir(t), Options{FS: fastFS{}})
		content := make([]byte, size)
		file := File{"large", func(w io.Writer) error { _, err := w.Write(content); return err }}
		if err := s.Checkpoint(t.Context(), 1, nil, []File{file}); err != nil {
			t.Fatal(err)
		}
		n, err := Inspect(t.Context(), s.Dir())
		if err != nil || len(n.Faults) > 0 {
			t.Fatalf("%+v, %v", n, err)
		}
		if b, ok := n.Whole("large"); ok != want || ok && len(b) != size {
			t.Errorf("a file of %d bytes: %d bytes, %v", size, len(b), ok)
		}
	}
}

// A meteredFS counts the bytes that are read from files.
type meteredFS struct {
	fastFS
	n *int64
}

func (m meteredFS) OpenFile(name string, flag int, perm fs.FileMode) (Handle, error) {
	h, err := m.fastFS.OpenFile(name, flag, perm)
	return meteredFile{h, m.n}, err
}

type meteredFile struct {
	Handle
	read *int64
}

func (f meteredFile) Read(b []byte) (int, error) {
	n, err := f.Handle.Read(b)
	*f.read += int64(n)
	return n, err
}

// TestReadsEnd checks that a small file that a fault has made huge is not read into memory: one byte too many shows
// that the file is damaged.
func TestReadsEnd(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, manifestFile)
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 1<<30); err != nil { // sparse
		t.Fatal(err)
	}
	content := make([]byte, 100)
	for name, tt := range map[string]struct {
		read func(FS) bool // whether the file is taken
		want int64
	}{
		"watermark": {func(f FS) bool {
			_, _, err := readWatermark(f, path)
			return err == nil
		}, watermarkBytes + 1},
		"manifest": {func(f FS) bool {
			_, err := readManifest(f, path)
			return err == nil
		}, maxManifestFile},
		"inspection": {func(f FS) bool {
			n, err := inspect(t.Context(), f, dir)
			return err != nil || n.Readable
		}, maxManifestFile},
		"comparison": {func(f FS) bool {
			same, err := holds(f, path, content)
			return same || err != nil
		}, int64(len(content)) + 1},
	} {
		var n int64
		if taken := tt.read(meteredFS{n: &n}); taken || n != tt.want {
			t.Errorf("%s: taken %v, read %d bytes, want %d", name, taken, n, tt.want)
		}
	}
}

// TestLockText checks that the error for a store in use has the number in the lock, and no more of a damaged lock.
func TestLockText(t *testing.T) {
	dir := newDir(t)
	open(t, dir, Options{FS: fastFS{}})
	number := strings.Repeat("7", 20) // the longest
	if err := os.WriteFile(filepath.Join(dir, lockFile), []byte(strings.Repeat(number, 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Open(dir, Options{FS: fastFS{}})
	if !errors.Is(err, ErrInUse) || !strings.HasSuffix(err.Error(), "by process "+number) {
		t.Errorf("%.200v, want process %s", err, number)
	}
}

// TestBatchFreed checks that a large batch does not hold on to its memory, and that small ones share theirs.
func TestBatchFreed(t *testing.T) {
	s := open(t, newDir(t), Options{FS: fastFS{}})
	for _, tt := range []struct{ size, least, most int }{{100, 1, 1 << 20}, {1 << 20, 0, 0}, {100, 1, 1 << 20}} {
		if _, err := s.Append(make([]byte, tt.size)); err != nil {
			t.Fatal(err)
		}
		if n := cap(s.tail.buf); n < tt.least || n > tt.most {
			t.Errorf("after an entry of %d bytes: memory of %d bytes, want %d to %d", tt.size, n, tt.least, tt.most)
		}
	}
}

// TestMendedRecord checks that a record is read whichever one bit of its head and one of its entry are flipped, the
// checksum included.
func TestMendedRecord(t *testing.T) {
	sound := (&record{salt: 5, index: 7, durable: 6, data: []byte("entry")}).append(nil)
	for bit := range 8 * recordHead {
		b := bytes.Clone(sound)
		b[bit/8] ^= 1 << (bit % 8)
		b[len(b)-1] ^= 4
		rec, ok, err := mendRecord(bytes.NewReader(b), 0, int64(len(b)), 5, 7)
		if err != nil || !ok || string(rec.data) != "entry" || rec.index != 7 || rec.durable != 6 {
			t.Errorf("bit %d: %+v, %v, %v", bit, rec, ok, err)
		}
	}
}
