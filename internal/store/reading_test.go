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
	"strings"
	"testing"
	"testing/iotest"
)

// pagesOf is the content of the file "pages" of [victims].
var pagesOf = strings.Repeat("what the filter knows ", 9000)

// contentOf returns what an Inspection reads of a checkpoint file, without checks.
func contentOf(t *testing.T, n *Inspection, name string) string {
	t.Helper()
	r, err := n.Content(name)
	return drain(t, r, err)
}

// TestInspectionContent checks what is read of a checkpoint file that is whole, changed, cut short or gone, and in
// which of these cases all of it can be recovered.
func TestInspectionContent(t *testing.T) {
	dir, _, _ := victims(t)
	rng := rand.New(rand.NewPCG(3, 1))
	const path = filesDir + "/pages.0000000000000001"
	at := func(i int) int { return fileHead + i + 4*(i/blockBytes) } // where a byte of the content is
	flip := func(bits ...int) func([]byte) []byte {
		return func(b []byte) []byte {
			for _, bit := range bits {
				b[bit/8] ^= 1 << (bit % 8)
			}
			return b
		}
	}
	none := func([]byte) []byte { return nil }
	for range 5 {
		i := rng.IntN(len(pagesOf) - 1)
		for what, tt := range map[string]struct {
			change  func([]byte) []byte
			length  int  // of the content that is read
			same    bool // the content is as it was
			whole   bool // all of it can be recovered
			damaged bool
		}{
			"as it was": {flip(), len(pagesOf), true, true, false},
			"header":    {flip(rng.IntN(8 * fileHead)), len(pagesOf), true, true, true},
			"one bit":   {flip(8*at(i) + rng.IntN(8)), len(pagesOf), false, true, true},
			"two bits":  {flip(8*at(i), 8*at(i+1)+3), len(pagesOf), false, false, true},
			"a sum":     {flip(8 * (fileHead + blockBytes)), len(pagesOf), true, true, true},
			"cut short": {func(b []byte) []byte { return b[:at(i)] }, i, false, false, true},
			"gone":      {none, 0, false, false, true},
		} {
			n := inspected(t, dir, path, tt.change)
			got := contentOf(t, n, "pages")
			if len(got) > len(pagesOf) {
				got = got[:len(pagesOf)] // the checksum of the last block follows
			}
			if len(got) != tt.length || (got == pagesOf) != tt.same {
				t.Errorf("%s at %d: %d bytes, the same %v; want %d, %v", what, i, len(got), got == pagesOf, tt.length, tt.same)
			}
			b, whole := n.Whole("pages")
			if whole != tt.whole || whole && string(b) != pagesOf || !whole && b != nil {
				t.Errorf("%s at %d: recovered %v, %d bytes, want %v", what, i, whole, len(b), tt.whole)
			}
			if n.Damaged("pages") != tt.damaged || n.Damaged("small") || n.Damaged("other") {
				t.Errorf("%s at %d: damaged %v, want %v", what, i, n.Damaged("pages"), tt.damaged)
			}
			if b, ok := n.Whole("small"); !ok || string(b) != "x" {
				t.Errorf("the other file: %q, %v", b, ok)
			}
			if _, err := n.Content("other"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("a file that the checkpoint lacks: %v", err)
			}
			if _, ok := n.Whole("other"); ok {
				t.Error("a file that the checkpoint lacks is recovered")
			}
		}
	}
}

// TestContentOfBlocks checks that the content of a file of whole blocks ends with its last block.
func TestContentOfBlocks(t *testing.T) {
	s := open(t, newDir(t), Options{FS: fastFS{}})
	want := strings.Repeat("x", 2*blockBytes)
	if err := s.Checkpoint(t.Context(), 1, nil, []File{text("a", want)}); err != nil {
		t.Fatal(err)
	}
	n, err := Inspect(t.Context(), s.Dir())
	if err != nil {
		t.Fatal(err)
	}
	if got := contentOf(t, n, "a"); got != want {
		t.Errorf("%d bytes, want %d", len(got), len(want))
	}
}

// TestInspectionReplay checks that the entries that the checkpoint does not cover are passed on, in order, without the
// ones that a damaged segment has lost, and that an error of the caller ends it.
func TestInspectionReplay(t *testing.T) {
	dir, _, _ := victims(t)
	segments, err := os.ReadDir(filepath.Join(dir, journalDir))
	if err != nil || len(segments) < 3 {
		t.Fatalf("%d segments, %v", len(segments), err)
	}
	replay := func(n *Inspection) (got []uint64, err error) {
		err = n.Replay(t.Context(), func(index uint64, e []byte) error {
			if got = append(got, index); !bytes.HasPrefix(e, fmt.Appendf(nil, "%d:", index)) {
				t.Errorf("entry %d: %.20q", index, e)
			}
			return nil
		})
		return got, err
	}
	whole := inspected(t, dir, manifestFile, func(b []byte) []byte { return b })
	got, err := replay(whole)
	if want := "[3 4 5 6 7 8 9 10 11 12 13 14]"; err != nil || fmt.Sprint(got) != want {
		t.Errorf("%v, %v; want %s", got, err, want)
	}
	errEnough := errors.New("enough")
	if err := whole.Replay(t.Context(), func(uint64, []byte) error { return errEnough }); err != errEnough {
		t.Errorf("an error of the caller: %v", err)
	}
	for _, s := range segments {
		n := inspected(t, dir, filepath.Join(journalDir, s.Name()), func(b []byte) []byte {
			return b[:min(len(b), segmentHead+recordHead+20)] // not even its first entry is whole
		})
		lost := uint64(0)
		for i := range n.Faults {
			lost += n.Faults[i].Lost()
		}
		got, err := replay(n)
		if err != nil || uint64(len(got))+lost != 12 || lost == 0 {
			t.Errorf("%s cut short: entries %v, %v, %d are lost, want 12 in all", s.Name(), got, err, lost)
		}
	}
}

// TestPosition checks that a position depends on everything before it, and that no position after an entry has the
// link of an unknown one.
func TestPosition(t *testing.T) {
	// Nodes of all versions compute the same links: the first 8 bytes of SHA-256 over link, index and entry.
	want := Position{Index: 42, Link: 0x43bc8d750a7cb347}
	if got := (Position{Index: 41, Link: 7}).After([]byte("entry")); got != want {
		t.Errorf("position %+v, want %+v", got, want)
	}
	seen := make(map[Position]string)
	for _, from := range []Position{{}, {Index: 1}, {Link: 1}, {1, 1}} {
		for _, e := range []string{"", "a", "b", "aa"} {
			p := from.After([]byte(e))
			what := fmt.Sprintf("%q after %+v", e, from)
			if p.Index != from.Index+1 || p.Link == 0 || p != from.After([]byte(e)) {
				t.Errorf("%s: %+v", what, p)
			}
			if other, ok := seen[p]; ok {
				t.Errorf("%s and %s have one position", what, other)
			}
			seen[p] = what
		}
	}
}

// TestAppendAllRefuses checks which entries of another journal are refused, that the refused ones change nothing, and
// where the journal continues after some could not be written.
func TestAppendAllRefuses(t *testing.T) {
	s := open(t, newDir(t), Options{FS: fastFS{}})
	appendN(t, s, 3, 10)
	for _, bad := range [][]Entry{{{3, []byte("x")}}, {{5, []byte("x")}}, {{4, make([]byte, MaxEntry+1)}}} {
		if err := s.AppendAll(bad); err == nil || s.Err() != nil || s.LastIndex() != 3 || s.Durable() != 3 {
			t.Errorf("entry %d of %d bytes: %v, last index %d", bad[0].Index, len(bad[0].Data), err, s.LastIndex())
		}
	}
	if err := s.AppendAll([]Entry{{4, entry(4, 10)}, {5, entry(5, 10)}}); err != nil || s.Durable() != 5 {
		t.Fatalf("%v, durable %d", err, s.Durable())
	}
	checkReplay(t, s, 1, 5, 10)
	s.SkipTo(9)
	s.SkipTo(7)
	if err := s.Recover(t.Context(), 6, nil, nil); err != nil || s.FirstIndex() != 10 || s.LastIndex() != 9 {
		t.Errorf("%v, entries from %d to %d, want none after 9", err, s.FirstIndex(), s.LastIndex())
	}
	for before, ok := range map[uint64]bool{1: true, 10: true, 11: false} {
		if err := s.Drop(t.Context(), before); (err == nil) != ok {
			t.Errorf("drop below %d: %v", before, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.AppendAll([]Entry{{10, nil}}); !errors.Is(err, ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

// stuckFS lets no file take the place of another one while it is stuck.
type stuckFS struct {
	fastFS
	stuck *bool
}

var errStuck = errors.New("the disk is stuck")

func (f stuckFS) Rename(from, to string) error {
	if *f.stuck && filepath.Base(to) == manifestFile {
		return errStuck
	}
	return f.fastFS.Rename(from, to)
}

// TestManifestStuck checks that a checkpoint whose manifest cannot take its place is refused, leaves nothing behind,
// and can be made later.
func TestManifestStuck(t *testing.T) {
	stuck := false
	o := Options{FS: stuckFS{stuck: &stuck}}
	s := open(t, newDir(t), o)
	appendN(t, s, 3, 10)
	if err := s.Checkpoint(t.Context(), 2, nil, []File{text("a", "old")}); err != nil {
		t.Fatal(err)
	}
	files := func() int {
		names, err := os.ReadDir(s.path(filesDir))
		if err != nil {
			t.Fatal(err)
		}
		return len(names)
	}
	for _, broken := range []bool{true, false} {
		stuck = broken
		err := s.Checkpoint(t.Context(), 4, nil, []File{text("a", "new"), text("b", "new")})
		m := s.Manifest()
		if errors.Is(err, errStuck) != broken || (err == nil) == broken || (m.Start == 2) != broken ||
			(files() == 1) != broken || (readFile(t, s, "a") == "old") != broken || s.Err() != nil {
			t.Errorf("stuck %v: %v, start %d, %d files, journal %v", broken, err, m.Start, files(), s.Err())
		}
	}
	stuck = true
	if err := s.Recover(t.Context(), 4, nil, []File{text("a", "third")}); !errors.Is(err, errStuck) || files() != 2 ||
		s.Manifest().Start != 4 {
		t.Errorf("a recovery: %v, %d files", err, files())
	}
	stuck = false
	s = reopen(t, s, o)
	if readFile(t, s, "a") != "new" || s.LastIndex() != 3 {
		t.Errorf("reopened: last index %d", s.LastIndex())
	}
}

// TestRestoreWithoutRandom checks that a restore without a source of random numbers fails and leaves no folder.
func TestRestoreWithoutRandom(t *testing.T) {
	dir, _, _ := victims(t)
	var backup bytes.Buffer
	if _, err := Backup(t.Context(), dir, &backup); err != nil {
		t.Fatal(err)
	}
	to := newDir(t)
	errRandom := errors.New("no random numbers")
	for n := range 3 {
		// The incarnation takes 16 bytes, and what follows takes more.
		random := io.MultiReader(bytes.NewReader(make([]byte, 16*n)), iotest.ErrReader(errRandom))
		_, err := Restore(t.Context(), bytes.NewReader(backup.Bytes()), to, Options{FS: fastFS{}, Random: random})
		if !errors.Is(err, errRandom) {
			t.Errorf("%d random bytes: %v", 16*n, err)
		}
		names, err := os.ReadDir(filepath.Dir(to))
		if err != nil || len(names) != 0 {
			t.Errorf("%d random bytes: left %v, %v", 16*n, names, err)
		}
	}
}
