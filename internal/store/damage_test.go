package store

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// copyTree copies a store, so that a test may damage the copy.
func copyTree(t testing.TB, from string) string {
	t.Helper()
	to := newDir(t)
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{to, filepath.Join(to, filesDir), filepath.Join(to, journalDir)} {
		if err := os.Chmod(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return to
}

// readAll reads everything, as a starting node does. It returns the content of the store in one
// string.
func readAll(dir string, o Options) (string, error) {
	s, err := Open(dir, o)
	if err != nil {
		return "", err
	}
	defer s.Close()
	var b strings.Builder
	m := s.Manifest()
	fmt.Fprintf(&b, "%s %d %q\n", m.Incarnation, m.Start, m.Meta)
	for _, f := range m.Files {
		r, err := s.OpenFile(f.Name)
		if err != nil {
			return "", err
		}
		content, err := io.ReadAll(r)
		r.Close()
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "%s %x\n", f.Name, content)
	}
	err = s.Replay(noContext{}, m.Start, func(i uint64, e []byte) error {
		fmt.Fprintf(&b, "%d %x\n", i, e)
		return nil
	})
	return b.String(), err
}

// named reports whether err names the damaged file to the operator.
func named(err error, file string) bool {
	var damage *DamageError
	return err != nil && (errors.As(err, &damage) || errors.Is(err, ErrFormat)) && strings.Contains(err.Error(),
		filepath.Base(file))
}

// victims returns a closed store with files of several blocks and a journal of several segments,
// and the paths in it that hold data.
func victims(t testing.TB) (dir, want string, paths []string) {
	t.Helper()
	o := Options{SegmentBytes: 40_000, FS: fastFS{}}
	s := open(t, newDir(t), o)
	appendN(t, s, 5, 100)
	content := strings.Repeat("what the filter knows ", 9000) // three blocks and a bit
	if err := s.Checkpoint(t.Context(), 3, []byte("meta"), []File{text("pages", content),
		text("small", "x")}); err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{50, 4000, 33000, 100, 9000, 70000, 1, 5000, 200} {
		if _, err := s.Append(entry(s.LastIndex()+1, size)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	want, err := readAll(copyTree(t, s.Dir()), o)
	if err != nil {
		t.Fatal(err)
	}
	err = fs.WalkDir(os.DirFS(s.Dir()), ".", func(path string, d fs.DirEntry, err error) error {
		if !d.IsDir() && path != lockFile && path != manifestCopy { // the copy, which only Salvage reads
			paths = append(paths, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(paths) < 7 { // MANIFEST, watermark, two files, three segments
		t.Fatalf("only %v", paths)
	}
	return s.Dir(), want, paths
}

// tryDamage applies change to one file of a copy and reports whether it was detected. The test
// fails if the damage was neither detected, with the file named, nor without effect.
func tryDamage(t *testing.T, dir, want, path, what string, change func([]byte) []byte) bool {
	t.Helper()
	c := copyTree(t, dir)
	defer os.RemoveAll(c)
	file := filepath.Join(c, path)
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, change(bytes.Clone(b)), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := readAll(c, Options{FS: fastFS{}})
	if err == nil && got != want {
		t.Errorf("%s: %s: other content, and no error", path, what)
	}
	if err != nil && !named(err, path) {
		t.Errorf("%s: %s: error does not name the file: %v", path, what, err)
	}
	return err != nil
}

// TestDamageIsNamed flips bits in files of every kind, and cuts them, at random places.
func TestDamageIsNamed(t *testing.T) {
	dir, want, paths := victims(t)
	rng := rand.New(rand.NewPCG(1, 2))
	const perFile = 40
	for _, path := range paths {
		size := fileSize(t, filepath.Join(dir, path))
		for range perFile {
			at, bit := rng.Int64N(size), rng.IntN(8)
			if !tryDamage(t, dir, want, path, fmt.Sprintf("bit %d of byte %d flipped", bit, at), func(b []byte) []byte {
				b[at] ^= 1 << bit
				return b
			}) {
				t.Errorf("%s: bit %d of byte %d flipped: not detected", path, bit, at)
			}
			cut := rng.Int64N(size)
			if !tryDamage(t, dir, want, path, fmt.Sprintf("cut to %d of %d bytes", cut, size),
				func(b []byte) []byte { return b[:cut] }) {
				t.Errorf("%s: cut to %d of %d bytes: not detected", path, cut, size)
			}
		}
		for _, n := range []int{1, 7, 512, 40000} {
			zeros := make([]byte, n)
			if !tryDamage(t, dir, want, path, "zeros behind the end",
				func(b []byte) []byte { return append(b, zeros...) }) && !strings.HasPrefix(path, journalDir) {
				t.Errorf("%s: %d zeros behind the end: not detected", path, n)
			}
		}
		tryDamage(t, dir, want, path, "a zeroed sector", func(b []byte) []byte {
			at := len(b) / 2 &^ 511
			clear(b[at:min(at+512, len(b))])
			return b
		})
	}
}

// TestDamageOffset flips bits of files and segments, and checks that the error has the offset of the block or the
// record that has the bit.
func TestDamageOffset(t *testing.T) {
	dir, _, paths := victims(t)
	rng := rand.New(rand.NewPCG(7, 8))
	for _, path := range paths {
		b, err := os.ReadFile(filepath.Join(dir, path))
		if err != nil {
			t.Fatal(err)
		}
		starts := []int64{0} // of the parts that have a checksum each
		switch filepath.Dir(path) {
		case filesDir:
			for at := int64(fileHead); at < int64(len(b)); at += blockBytes + 4 {
				starts = append(starts, at)
			}
		case journalDir:
			sc := scannerAt(bytes.NewReader(b), segmentHead, int64(len(b)))
			for _, err := sc.next(); err == nil; _, err = sc.next() {
				starts = append(starts, sc.start)
			}
		default:
			continue
		}
		for range 30 {
			at := rng.Int64N(int64(len(b)))
			n, found := slices.BinarySearch(starts, at)
			if !found {
				n--
			}
			c := copyTree(t, dir)
			bad := bytes.Clone(b)
			bad[at] ^= 1 << rng.IntN(8)
			if err := os.WriteFile(filepath.Join(c, path), bad, 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := readAll(c, Options{FS: fastFS{}})
			var damage *DamageError
			if !errors.As(err, &damage) || damage.Offset != starts[n] {
				t.Errorf("%s: byte %d was changed, in the part at offset %d: %v", path, at, starts[n], err)
			}
		}
	}
}

func fileSize(t testing.TB, path string) int64 {
	t.Helper()
	st, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return st.Size()
}

func TestMissingFilesAreNamed(t *testing.T) {
	dir, want, paths := victims(t)
	for _, path := range paths {
		c := copyTree(t, dir)
		if err := os.Remove(filepath.Join(c, path)); err != nil {
			t.Fatal(err)
		}
		got, err := readAll(c, Options{FS: fastFS{}})
		if damage := (*DamageError)(nil); errors.As(err, &damage) && damage.Offset != 0 &&
			damage.Offset != fileSize(t, damage.File) { // where the segment before ends
			t.Errorf("%s missing: noticed at offset %d of %s", path, damage.Offset, damage.File)
		}
		switch {
		case path == watermarkFile: // what its advice says must work
			if err != nil || got != want {
				t.Errorf("no watermark: %v", err)
			}
		case strings.HasPrefix(path, journalDir):
			// A lost segment is noticed in its neighbour or in the directory.
			if !named(err, "") || !strings.Contains(err.Error(), journalDir) {
				t.Errorf("%s missing: %v", path, err)
			}
		case !named(err, path):
			t.Errorf("%s missing: %v", path, err)
		}
	}
}

// TestExchangedFiles replaces files with intact files from elsewhere.
func TestExchangedFiles(t *testing.T) {
	dir, want, paths := victims(t)
	other, _, _ := victims(t)
	for _, path := range paths {
		for _, from := range paths {
			for _, src := range []string{dir, other} {
				if src == dir && from == path || path == watermarkFile && from == path {
					continue // the watermarks are the same
				}
				b, err := os.ReadFile(filepath.Join(src, from))
				if errors.Is(err, fs.ErrNotExist) {
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				if path == manifestFile && from == manifestFile {
					continue // then the others are the exchanged ones
				}
				if !tryDamage(t, dir, want, path, "replaced by "+from, func([]byte) []byte { return b }) {
					t.Errorf("%s replaced by %s: not detected", path, from)
				}
			}
		}
	}
}

// TestTornTail cuts the journal in the last entry, which was not acknowledged: the watermark is
// from before it. The entry is dropped with a warning that names file and offset, the other entries
// stay, and its index is used again.
func TestTornTail(t *testing.T) {
	for _, last := range []int{10, 5000, 100_000} {
		s := open(t, newDir(t), Options{})
		appendN(t, s, 4, 300)
		mark, err := os.ReadFile(s.path(watermarkFile))
		if err != nil {
			t.Fatal(err)
		}
		path, before := s.tail.path, s.tail.size
		appendN(t, s, 1, last)
		size := s.tail.size
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(s.path(watermarkFile), mark, 0o600); err != nil {
			t.Fatal(err)
		}
		for _, cut := range []int64{1, 6, 7, 20, size - before - 1} {
			for _, zeroed := range []bool{false, true} {
				c := copyTree(t, s.Dir())
				file := filepath.Join(c, journalDir, filepath.Base(path))
				if err := os.Truncate(file, before+cut); err != nil {
					t.Fatal(err)
				}
				if zeroed { // the size was written but the content was not
					if err := os.Truncate(file, size); err != nil {
						t.Fatal(err)
					}
				}
				var log bytes.Buffer
				r := open(t, c, Options{Logger: logTo(&log), FS: fastFS{}})
				checkReplay(t, r, 1, 4, 300)
				if r.LastIndex() != 4 || !strings.Contains(log.String(), filepath.Base(file)) || !strings.Contains(log.String(),
					fmt.Sprintf("offset=%d", before)) {
					t.Errorf("cut at %d: last %d, log %s", cut, r.LastIndex(), log.String())
				}
				appendN(t, r, 3, 300)
				r = reopen(t, r, Options{FS: fastFS{}})
				checkReplay(t, r, 1, 7, 300)
			}
		}
	}
}

// TestTornTailComesBack restores an obsolete segment by a power cut. A torn write at its end had
// been cut off, but the disk failed to sync that. The missing entry is not needed, although its
// number was acknowledged since. If the checkpoint does not hold everything that was acknowledged,
// it is damage.
func TestTornTailComesBack(t *testing.T) {
	s := open(t, newDir(t), Options{})
	appendN(t, s, 3, 300)
	old, sound := s.tail.path, s.tail.size
	appendN(t, s, 1, 300)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	segment, err := os.ReadFile(old)
	if err != nil {
		t.Fatal(err)
	}
	torn := segment[:sound+100]
	for _, path := range []string{old, s.path(watermarkFile)} {
		b := torn
		if path != old {
			b = watermark{epoch: s.epoch, acked: 3, durable: 3}.encode()
		}
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s = open(t, s.Dir(), Options{}) // cuts off the fourth entry, and reuses its number
	appendN(t, s, 2, 300)
	if err := s.Checkpoint(t.Context(), 6, nil, nil); err != nil {
		t.Fatal(err)
	}
	again := s.tail.path
	for _, after := range []int{0, 1} {
		appendN(t, s, after, 300)
		c := copyTree(t, s.Dir())
		if err := errors.Join(os.Remove(filepath.Join(c, journalDir, filepath.Base(again))),
			os.WriteFile(filepath.Join(c, journalDir, filepath.Base(old)), torn, 0o600)); err != nil {
			t.Fatal(err)
		}
		n, err := Inspect(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		r, err := Open(c, Options{FS: fastFS{}})
		if damage := new(DamageError); after > 0 {
			if !errors.As(err, &damage) || len(n.Faults) == 0 {
				t.Errorf("an entry behind the checkpoint is missing: %v, faults %v", err, n.Faults)
			}
			continue
		}
		if err != nil || len(n.Faults) > 0 || r.LastIndex() != 5 {
			t.Fatalf("nothing is missing: %v, faults %v", err, n.Faults)
		}
		appendN(t, r, 2, 300)
		r = reopen(t, r, Options{FS: fastFS{}})
		if r.LastIndex() != 7 {
			t.Errorf("the last entry is %d, want 7", r.LastIndex())
		}
		checkReplay(t, r, 6, 7, 300)
	}
}

// TestDamageBeforeDurableEntry flips every bit of an entry while the watermark is out of date, as
// after a power loss. The entry after it proves that it was acknowledged.
func TestDamageBeforeDurableEntry(t *testing.T) {
	s := open(t, newDir(t), Options{})
	appendN(t, s, 2, 60)
	mark, err := os.ReadFile(s.path(watermarkFile))
	if err != nil {
		t.Fatal(err)
	}
	path, from := s.tail.path, s.tail.size
	appendN(t, s, 1, 60)
	to := s.tail.size
	appendN(t, s, 1, 60)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.path(watermarkFile), mark, 0o600); err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for bit := from * 8; bit < to*8; bit++ {
		b := bytes.Clone(good)
		b[bit/8] ^= 1 << (bit % 8)
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := readAll(s.Dir(), Options{FS: fastFS{}}); !named(err, path) || !strings.Contains(err.Error(),
			fmt.Sprintf("offset %d", from)) {
			t.Fatalf("bit %d flipped: %v, want damage at offset %d", bit, err, from)
		}
		if now, _ := os.ReadFile(path); !bytes.Equal(now, b) {
			t.Fatalf("bit %d flipped: the damaged file was changed", bit)
		}
	}
}

// TestForgedRecordInEntry checks that a client who chooses the content of an entry cannot make a
// torn write look like damage.
func TestForgedRecordInEntry(t *testing.T) {
	s := open(t, newDir(t), Options{})
	appendN(t, s, 1, 10)
	mark, _ := os.ReadFile(s.path(watermarkFile))
	forged := record{salt: 12345, index: 100, durable: 99, data: []byte("forged")}
	if _, err := s.Append(append(forged.append(nil), make([]byte, 100)...)); err != nil {
		t.Fatal(err)
	}
	path, size := s.tail.path, s.tail.size
	s.Close()
	if err := errors.Join(os.Truncate(path, size-1), os.WriteFile(s.path(watermarkFile), mark, 0o600)); err != nil {
		t.Fatal(err)
	}
	s = open(t, s.Dir(), Options{})
	checkReplay(t, s, 1, 1, 10)
}

func TestNewerFormats(t *testing.T) {
	dir, want, _ := victims(t)
	tryDamage(t, dir, want, manifestFile, "newer", func(b []byte) []byte {
		return bytes.Replace(b, []byte(" 1 "), []byte(" 2 "), 1)
	})
	c := copyTree(t, dir)
	file := filepath.Join(c, manifestFile)
	b, _ := os.ReadFile(file)
	os.WriteFile(file, bytes.Replace(b, []byte(" 1 "), []byte(" 2 "), 1), 0o600)
	if _, err := Open(c, Options{}); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "format 2") {
		t.Errorf("manifest of version 2: %v", err)
	}
}

// TestMisplacedBlocks checks intact blocks in the wrong place, or from another version of the file.
func TestMisplacedBlocks(t *testing.T) {
	s := open(t, newDir(t), Options{})
	content := func(n int) string { return strings.Repeat(fmt.Sprintf("%08d", n), 3*blockBytes/8) }
	read := func(n int) []byte {
		t.Helper()
		if err := s.Checkpoint(t.Context(), 1, nil, []File{text("f", content(n))}); err != nil {
			t.Fatal(err)
		}
		info := s.Manifest().Files[0]
		b, err := os.ReadFile(s.path(filesDir, info.stored()))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	old, now := read(1), read(1) // the same content, twice
	info := s.Manifest().Files[0]
	path := s.path(filesDir, info.stored())
	const stored = blockBytes + 4
	for from := range 3 {
		for to := range 3 {
			for _, src := range [][]byte{old, now} {
				b := bytes.Clone(now)
				copy(b[fileHead+to*stored:], src[fileHead+from*stored:][:stored])
				if err := os.WriteFile(path, b, 0o600); err != nil {
					t.Fatal(err)
				}
				err := verifyFile(t.Context(), s.fs, path, info)
				if bytes.Equal(b, now) {
					if err != nil {
						t.Fatal(err)
					}
				} else if !named(err, path) || !strings.Contains(err.Error(), fmt.Sprintf("offset %d", fileHead+to*stored)) {
					t.Errorf("block %d in the place of %d: %v", from, to, err)
				}
			}
		}
	}
}

// TestCutBehindRoll checks that the beginning of a segment proves that everything before it was on
// the disk, even if the watermark is out of date and the segment has no entry.
func TestCutBehindRoll(t *testing.T) {
	s := open(t, newDir(t), Options{SegmentBytes: 300})
	appendN(t, s, 2, 100)
	mark, err := os.ReadFile(s.path(watermarkFile))
	if err != nil {
		t.Fatal(err)
	}
	first, second := s.tail.path, s.tail.size
	appendN(t, s, 1, 100)
	third := s.tail.size
	appendN(t, s, 1, 100)
	next := s.tail.path
	if next == first {
		t.Fatal("one segment only")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(s.path(watermarkFile), mark, 0o600), os.Truncate(next, segmentHead)); err != nil {
		t.Fatal(err)
	}
	for cut := second; cut < third; cut++ {
		dir := copyTree(t, s.Dir())
		if err := os.Truncate(filepath.Join(dir, journalDir, filepath.Base(first)), cut); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(dir, Options{}); !named(err, first) {
			t.Fatalf("cut at %d of %d: %v", cut, third, err)
		}
	}
}

// TestLaterEpoch checks that a journal of a later epoch than the manifest's is not ignored if it
// holds entries, however few: they were acknowledged.
func TestLaterEpoch(t *testing.T) {
	for _, entries := range []int{0, 1} {
		s := open(t, newDir(t), Options{})
		appendN(t, s, 2, 20)
		dir := s.Dir()
		old := make(map[string][]byte)
		for _, name := range []string{manifestFile, watermarkFile} {
			b, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			old[name] = b
		}
		if err := s.Recover(t.Context(), 3, nil, nil); err != nil {
			t.Fatal(err)
		}
		appendN(t, s, entries, 20)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		for name, b := range old {
			if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		_, err := readAll(dir, Options{})
		if named := err != nil && strings.Contains(err.Error(), "the manifest is out of date"); named != (entries > 0) {
			t.Errorf("%d entries in a later epoch: %v", entries, err)
		}
		aside := filepath.Join(t.TempDir(), "aside")
		if _, err := Open(dir, Options{Salvage: &Salvage{Aside: aside}}); entries > 0 &&
			(err == nil || !strings.Contains(err.Error(), "out of date") || strings.Contains(err.Error(), "--repair")) {
			t.Errorf("a salvage by a manifest that is out of date: %v", err)
		}
		if _, err := os.Stat(aside); entries > 0 && !errors.Is(err, os.ErrNotExist) {
			t.Errorf("a refused salvage has set something aside: %v", err)
		}
	}
}

// TestFormerEpoch checks that a segment of a former epoch, which a crash left behind, is removed by the next start.
func TestFormerEpoch(t *testing.T) {
	s := open(t, newDir(t), Options{})
	appendN(t, s, 2, 20)
	dir := s.Dir()
	former, err := listSegments(filepath.Join(dir, journalDir))
	if err != nil || len(former) != 1 {
		t.Fatalf("%d segments, %v", len(former), err)
	}
	content, err := os.ReadFile(former[0].path)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Recover(t.Context(), 3, nil, nil); err != nil {
		t.Fatal(err)
	}
	appendN(t, s, 2, 20)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(former[0].path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := open(t, dir, Options{}).LastIndex(); got != 4 {
		t.Errorf("last index %d after a start, want 4", got)
	}
	if _, err := os.Stat(former[0].path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the segment of the former epoch is there: %v", err)
	}
}
