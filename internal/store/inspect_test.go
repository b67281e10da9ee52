package store

import (
	"bytes"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// inspected returns the result of Inspect for a copy of a store in which one file was changed.
func inspected(t *testing.T, dir, path string, change func([]byte) []byte) *Inspection {
	t.Helper()
	c := copyTree(t, dir)
	file := filepath.Join(c, path)
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if b = change(bytes.Clone(b)); b == nil {
		err = os.Remove(file)
	} else {
		err = os.WriteFile(file, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	n, err := Inspect(t.Context(), c)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return n
}

// TestInspectSound checks that Inspect finds no fault in an undamaged store, whether or not it is
// in use.
func TestInspectSound(t *testing.T) {
	dir, _, paths := victims(t)
	check := func(want uint64) {
		t.Helper()
		n, err := Inspect(t.Context(), dir)
		if err != nil || !n.Readable || len(n.Faults) > 0 || n.LastIndex != want {
			t.Fatalf("%+v, %v; want no fault and last entry %d", n, err, want)
		}
	}
	check(14)
	size := int64(0)
	for _, path := range paths {
		switch filepath.Dir(path) {
		case filesDir:
			n := fileSize(t, filepath.Join(dir, path)) - fileHead
			size += n - 4*((n+blockBytes+3)/(blockBytes+4)) // without checksums
		case journalDir:
			size += fileSize(t, filepath.Join(dir, path))
		}
	}
	size += watermarkBytes
	n, err := Inspect(t.Context(), dir)
	if err != nil || n.Files != len(paths)-1 || n.Bytes != size || n.Entries != 12 { // the manifest counts apart
		t.Errorf("%d files of %d bytes with %d entries were read, %v; want %d, %d, 12", n.Files, n.Bytes, n.Entries, err,
			len(paths)-1, size)
	}
	s := open(t, dir, Options{FS: fastFS{}})
	appendN(t, s, 3, 100)
	check(17)
	if err := s.Checkpoint(t.Context(), s.LastIndex()+1, nil, []File{text("pages", "new")}); err != nil {
		t.Fatal(err)
	}
	check(17)
}

// TestInspectNames damages every file in every way, and checks that the fault is found and named.
// The reported losses of the journal are compared with the entries that are still readable.
func TestInspectNames(t *testing.T) {
	dir, _, paths := victims(t)
	rng := rand.New(rand.NewPCG(3, 4))
	for _, path := range paths {
		size := fileSize(t, filepath.Join(dir, path))
		changes := map[string]func([]byte) []byte{
			"deleted":   func([]byte) []byte { return nil },
			"appended":  func(b []byte) []byte { return append(b, make([]byte, 100)...) },
			"emptied":   func([]byte) []byte { return []byte{} },
			"replaced":  func(b []byte) []byte { return bytes.Repeat([]byte("x"), len(b)) },
			"cut":       func(b []byte) []byte { return b[:rng.Int64N(size)] },
			"zeroed":    func(b []byte) []byte { clear(b[len(b)/3 : 2*len(b)/3+1]); return b },
			"bit":       func(b []byte) []byte { b[rng.Int64N(size)] ^= 1 << rng.IntN(8); return b },
			"first bit": func(b []byte) []byte { b[0] ^= 1; return b },
			"last bit":  func(b []byte) []byte { b[len(b)-1] ^= 1; return b },
		}
		for what, change := range changes {
			n := inspected(t, dir, path, change)
			name := fmt.Sprintf("%s: %s", path, what)
			tail := filepath.Dir(path) == journalDir && path == paths[len(paths)-2]
			if len(n.Faults) == 0 && !(what == "appended" && tail) {
				t.Errorf("%s: nothing found", name)
				continue
			}
			lost := uint64(0)
			for _, f := range n.Faults {
				lost += f.Lost()
			}
			if n.Readable && path != watermarkFile && n.Entries+lost != 12 {
				t.Errorf("%s: %d entries can be read and %d are lost, of 12: %+v", name, n.Entries, lost, n.Faults)
			}
		}
	}
}

// TestInspectForeign checks that a replaced checkpoint file is distinguished from a damaged one.
func TestInspectForeign(t *testing.T) {
	dir, _, paths := victims(t)
	var files []string
	for _, p := range paths {
		if filepath.Dir(p) == filesDir {
			files = append(files, p)
		}
	}
	other, err := os.ReadFile(filepath.Join(dir, files[1]))
	if err != nil {
		t.Fatal(err)
	}
	n := inspected(t, dir, files[0], func([]byte) []byte { return other })
	if !n.Foreign("pages") || n.Foreign("small") || len(n.Faults) == 0 {
		t.Errorf("foreign %v and %v, %+v", n.Foreign("pages"), n.Foreign("small"), n.Faults)
	}
	for what, change := range map[string]func([]byte) []byte{
		"a missing file": func([]byte) []byte { return nil },
		"an empty file":  func([]byte) []byte { return []byte{} },
	} {
		n := inspected(t, dir, files[0], change)
		whole := []Span{{0, n.Manifest.Files[0].Size}}
		if n.Foreign("pages") || !slices.Equal(n.BadSpans("pages"), whole) || n.Faults[0].Offset != 0 {
			t.Errorf("%s: foreign %v, bad spans %v of %v, %+v", what, n.Foreign("pages"), n.BadSpans("pages"), whole, n.Faults)
		}
	}
}

// TestBadSpans damages two bytes of a checkpoint file, and checks that the spans are the blocks that have them.
func TestBadSpans(t *testing.T) {
	dir, _, paths := victims(t)
	pages := paths[slices.IndexFunc(paths, func(p string) bool { return filepath.Dir(p) == filesDir })]
	size := fileSize(t, filepath.Join(dir, pages))
	const stored = blockBytes + 4
	blocks := (size - fileHead + stored - 1) / stored
	content := size - fileHead - 4*blocks
	rng := rand.New(rand.NewPCG(5, 6))
	for range 30 {
		bad := make([]bool, blocks)
		n := inspected(t, dir, pages, func(b []byte) []byte {
			for range 2 {
				k := rng.Int64N(blocks)
				bad[k] = true
				b[fileHead+k*stored+rng.Int64N(min(stored, size-fileHead-k*stored))] ^= 0x5a
			}
			return b
		})
		got := make([]bool, blocks)
		for _, span := range n.BadSpans("pages") {
			if span.From%blockBytes != 0 || span.To != content && span.To%blockBytes != 0 {
				t.Fatalf("span %+v of %d bytes is not of blocks", span, content)
			}
			for at := span.From; at < span.To; at += blockBytes {
				got[at/blockBytes] = true
			}
		}
		if !slices.Equal(got, bad) {
			t.Fatalf("blocks %v are bad, want %v; %+v", got, bad, n.Faults)
		}
		if spans := n.BadSpans("small"); len(spans) > 0 {
			t.Fatalf("spans %+v of a sound file", spans)
		}
	}
}

// TestSpareManifest checks which manifest stands for a damaged one: itself with a bit flipped back, or else its copy.
func TestSpareManifest(t *testing.T) {
	for name, tt := range map[string]struct {
		flip   int // bits of the manifest
		copied bool
		want   bool
	}{
		"one bit, and no copy": {1, false, true}, "one bit, and a copy": {1, true, true},
		"three bits, and a copy": {3, true, true}, "three bits, and no copy": {3, false, false},
	} {
		dir, _, _ := victims(t)
		path := filepath.Join(dir, manifestFile)
		want, err := readManifest(osFS{}, path)
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for i := range tt.flip {
			b[len(b)/2+i] ^= 4
		}
		if err = os.WriteFile(path, b, 0o600); err == nil && !tt.copied {
			err = os.Remove(filepath.Join(dir, manifestCopy))
		}
		if err != nil {
			t.Fatal(err)
		}
		if got, err := spareManifest(osFS{}, dir, b); (err == nil) != tt.want || tt.want && !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v; want %+v: %v", name, got, err, want, tt.want)
		}
	}
}

// TestManifestVersionBit checks that a bit that makes the version of a manifest no number is damage, which is mended,
// and no other format.
func TestManifestVersionBit(t *testing.T) {
	dir, _, _ := victims(t)
	for bit := 4; bit < 8; bit++ {
		n := inspected(t, dir, manifestFile, func(b []byte) []byte {
			b[len(manifestMagic)+1] ^= 1 << bit
			return b
		})
		if !n.Readable || len(n.Faults) != 1 || !n.Faults[0].Mended || n.Entries != 12 {
			t.Errorf("bit %d: %+v", bit, n)
		}
	}
}

// TestShortBy checks how the entries are named that a segment lacks at its end.
func TestShortBy(t *testing.T) {
	seg := &segment{path: "x.log", last: 5, size: 700}
	rest := Fault{File: "x.log", Offset: 700, What: "the file ends after entry 5, want 9", First: 6, Last: 9}
	torn, of := Fault{File: "x.log", Offset: 600, What: "torn"}, Fault{File: "x.log", First: 2, Last: 2}
	named := torn
	named.First, named.Last = 6, 9
	for name, tt := range map[string]struct {
		faults []Fault
		torn   bool
		end    uint64
		want   []Fault
	}{
		"nothing is missing":   {[]Fault{torn}, true, 5, []Fault{torn}},
		"a torn end":           {[]Fault{torn}, true, 9, []Fault{named}},
		"a torn end of two":    {[]Fault{of, torn}, true, 9, []Fault{of, named}},
		"no fault":             {nil, true, 9, []Fault{rest}},
		"a fault before":       {[]Fault{of}, true, 9, []Fault{of, rest}},
		"a first entry lost":   {[]Fault{{First: 1, Last: 1}}, true, 9, []Fault{{First: 1, Last: 1}, rest}},
		"an end that is whole": {[]Fault{torn}, false, 9, []Fault{torn, rest}},
	} {
		if got := shortBy(slices.Clone(tt.faults), tt.torn, seg, tt.end); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %+v, want %+v", name, got, tt.want)
		}
	}
}

// TestInspectBlocks checks how damaged blocks of a file are named: neighbours together.
func TestInspectBlocks(t *testing.T) {
	dir, _, paths := victims(t)
	for _, tt := range []struct {
		blocks []int64
		want   []string
	}{
		{[]int64{0}, []string{"block 1 of 4 is not as it was written"}},
		{[]int64{1, 2}, []string{"blocks 2 to 3 of 4 are not as they were written"}},
		{[]int64{0, 1, 3}, []string{"blocks 1 to 2 of 4 are not as they were written",
			"block 4 of 4 is not as it was written"}},
	} {
		for _, path := range paths {
			if filepath.Dir(path) != filesDir || fileSize(t, filepath.Join(dir, path)) < 3*blockBytes {
				continue
			}
			n := inspected(t, dir, path, func(b []byte) []byte {
				for _, block := range tt.blocks {
					b[fileHead+block*(blockBytes+4)+100] ^= 0xff
				}
				return b
			})
			var got []string
			for _, f := range n.Faults {
				got = append(got, f.What)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("blocks %v: %q, want %q", tt.blocks, got, tt.want)
			}
		}
	}
}

// TestInspectAgrees changes a store at random, and compares Inspect with a start that reads everything. Both find the
// same last entry, or both find a fault.
func TestInspectAgrees(t *testing.T) {
	dir, _, paths := victims(t)
	rng := rand.New(rand.NewPCG(9, 10))
	sound, both := 0, 0
	for range 300 {
		c, what := copyTree(t, dir), ""
		for range 1 + rng.IntN(2) {
			path := paths[rng.IntN(len(paths))]
			if rng.IntN(2) == 0 {
				path = paths[len(paths)-2] // the last segment
			}
			b, err := os.ReadFile(filepath.Join(c, path))
			if err != nil || len(b) == 0 {
				continue
			}
			how := rng.IntN(6)
			switch at := rng.IntN(len(b)); how {
			case 0:
				b = b[:at]
			case 1:
				b[at] ^= 1 << rng.IntN(8)
			case 2:
				clear(b[at:min(len(b), at+1+rng.IntN(600))])
			case 3:
				b = append(b, make([]byte, rng.IntN(100))...)
			case 4:
				b = append(b, b[at:]...)
			}
			if path == watermarkFile || how == 5 { // of another moment
				path = watermarkFile
				acked := uint64(rng.IntN(18))
				b = watermark{epoch: uint64(rng.IntN(3)), acked: acked, durable: uint64(rng.IntN(int(acked) + 1))}.encode()
			}
			what += fmt.Sprintf("%s changed, kind %d; ", path, how)
			if err := os.WriteFile(filepath.Join(c, path), b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		n, err := Inspect(t.Context(), c)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		last := uint64(0)
		_, err = readAll(c, Options{FS: fastFS{}})
		if err == nil {
			s := open(t, c, Options{FS: fastFS{}})
			last = s.LastIndex()
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
		// Entries that were acknowledged and not yet durable may be gone after a power loss.
		relaxed := !slices.ContainsFunc(n.Faults, func(f Fault) bool { return f.First <= last })
		switch {
		case err == nil && relaxed:
			if sound++; len(n.Faults) == 0 && n.LastIndex != last {
				t.Errorf("%s: Inspect finds entry %d at the end, and a start %d", what, n.LastIndex, last)
			}
		case err != nil && len(n.Faults) > 0:
			both++
		default:
			t.Errorf("%s: a start reports %v, and Inspect %+v", what, err, n.Faults)
		}
	}
	if sound < 20 || both < 100 {
		t.Errorf("%d stores are sound and %d damaged", sound, both)
	}
}

// TestInspectCovered damages entries that the checkpoint covers, and the header of a file: nothing is lost with them.
func TestInspectCovered(t *testing.T) {
	dir, _, paths := victims(t)
	for _, path := range paths {
		switch filepath.Dir(path) {
		case journalDir:
			if path != paths[slices.IndexFunc(paths, func(p string) bool { return filepath.Dir(p) == journalDir })] {
				continue
			}
			n := inspected(t, dir, path, func(b []byte) []byte {
				clear(b[segmentHead : segmentHead+recordHead]) // of entry 1; the checkpoint begins with entry 3
				return b
			})
			if len(n.Faults) != 1 || n.Faults[0].First != 0 || n.Faults[0].Last != 0 || n.Entries != 12 {
				t.Errorf("%d entries, faults %+v", n.Entries, n.Faults)
			}
		case filesDir:
			name, _, _ := strings.Cut(filepath.Base(path), ".")
			n := inspected(t, dir, path, func(b []byte) []byte {
				b[1] ^= 0xff
				return b
			})
			if len(n.Faults) != 1 || n.Faults[0].Offset != 0 || len(n.BadSpans(name)) > 0 || !n.Damaged(name) {
				t.Errorf("%s: faults %+v, bad spans %v", name, n.Faults, n.BadSpans(name))
			}
			if b, whole := n.Whole(name); !whole || int64(len(b)) != n.Manifest.Files[0].Size && name == "pages" {
				t.Errorf("%s: %d bytes of it are whole: %v", name, len(b), whole)
			}
		}
	}
}

// TestInspectLaterEpoch checks that a segment of a later epoch shows that the manifest is out of date, unless it is as
// a failed recovery leaves it.
func TestInspectLaterEpoch(t *testing.T) {
	dir, _, _ := victims(t)
	path := filepath.Join(dir, journalDir, segmentName(2, 15))
	for size, sound := range map[int]bool{0: true, segmentHead: true, segmentHead + 1: false} {
		if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
		n, err := Inspect(t.Context(), dir)
		if err != nil || (len(n.Faults) == 0) != sound || (n.newer == "") != sound {
			t.Errorf("%d bytes of a later epoch: %+v, %v", size, n, err)
		}
	}
}

// An unsteadyFS fails to open the watermark a number of times.
type unsteadyFS struct {
	osFS
	fails *int
}

func (f unsteadyFS) OpenFile(name string, flag int, perm fs.FileMode) (Handle, error) {
	if filepath.Base(name) == watermarkFile && *f.fails > 0 {
		*f.fails--
		return nil, &DamageError{File: name, What: "half written"}
	}
	return f.osFS.OpenFile(name, flag, perm)
}

// TestInspectWatermark checks that a watermark which another process overwrites is read again, up to three times.
func TestInspectWatermark(t *testing.T) {
	dir, _, _ := victims(t)
	for fails, sound := range map[int]bool{0: true, 1: true, 2: true, 3: false} {
		n, err := inspect(t.Context(), unsteadyFS{fails: &fails}, dir)
		if err != nil || (len(n.Faults) == 0) != sound {
			t.Errorf("%d failures left: %+v, %v; want sound %v", fails, n, err, sound)
		}
	}
}

// TestSteadyWatermark checks that a backup reads the watermark up to three times.
func TestSteadyWatermark(t *testing.T) {
	dir, _, _ := victims(t)
	for fails, ok := range map[int]bool{0: true, 1: true, 2: true, 3: false} {
		left := fails
		if _, err := steadyWatermark(unsteadyFS{fails: &left}, filepath.Join(dir, watermarkFile)); (err == nil) != ok {
			t.Errorf("%d failures: %v", fails, err)
		}
	}
}
