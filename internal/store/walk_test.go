package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// A walked is the result of a walk over one segment.
type walked struct {
	entries []uint64
	faults  []Fault
	torn    bool
}

// walkOver walks over a segment of these records, whose header names salt 7.
func walkOver(t *testing.T, header bool, records ...[]byte) walked {
	t.Helper()
	const incarnation = "00112233445566778899aabbccddeeff"
	s := segment{path: filepath.Join(t.TempDir(), segmentName(1, 1)), epoch: 1, first: 1, salt: 7}
	b := s.header(incarnation)
	if !header {
		b[3] ^= 0xff
	}
	if err := os.WriteFile(s.path, append(b, bytes.Join(records, nil)...), 0o600); err != nil {
		t.Fatal(err)
	}
	s.salt = 0
	var w walked
	var err error
	w.faults, w.torn, err = s.walk(t.Context(), osFS{}, incarnation, func(index uint64, entry []byte) error {
		w.entries = append(w.entries, index)
		if want := fmt.Sprint("entry ", index); len(entry) > 0 && !bytes.HasPrefix(entry, []byte(want)) {
			t.Errorf("entry %d is %q", index, entry)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// entryOf returns the record of an entry, which contains text.
func entryOf(salt, index uint64, text []byte) []byte {
	r := record{salt: salt, index: index, durable: index - 1,
		data: append([]byte(fmt.Sprint("entry ", index, " ")), text...)}
	return r.append(nil)
}

// broken returns a record with several damaged bytes at its start, which cannot be mended.
func broken(rec []byte) []byte {
	rec = bytes.Clone(rec)
	for i := range 8 {
		rec[i] ^= 0xff
	}
	return rec
}

// TestWalk walks over segments with damaged, repeated, missing and forged records. Each entry is
// passed once, and each loss is reported once.
func TestWalk(t *testing.T) {
	one, two, three, four := entryOf(7, 1, nil), entryOf(7, 2, nil), entryOf(7, 3, nil), entryOf(7, 4, nil)
	head := int64(segmentHead)
	len1 := int64(len(one))
	// A client chose the content of entry 2: it contains a record, and further ones that follow it.
	forged := entryOf(7, 2, entryOf(12345, 3, nil))
	flipped := bytes.Clone(two)
	flipped[recordHead+3] ^= 4
	empty := (&record{salt: 7, index: 2}).append(nil)
	empty[9] ^= 4 // of its length
	type fault struct {
		offset      int64
		first, last uint64
		mended      bool
	}
	for _, tt := range []struct {
		name    string
		header  bool
		records [][]byte
		entries []uint64
		faults  []fault
		torn    bool
	}{
		{"nothing", true, nil, nil, nil, false},
		{"sound", true, [][]byte{one, two, three}, []uint64{1, 2, 3}, nil, false},
		{"an entry twice", true, [][]byte{one, two, two, three}, []uint64{1, 2, 3}, []fault{{offset: head + 2*len1}}, false},
		{"the last entry twice", true, [][]byte{one, two, two}, []uint64{1, 2}, []fault{{offset: head + 2*len1}}, true},
		{"an entry before the last again", true, [][]byte{one, two, one, three}, []uint64{1, 2, 3},
			[]fault{{offset: head + 2*len1}}, false},
		{"a missing entry", true, [][]byte{one, three}, []uint64{1, 3}, []fault{{offset: head + len1, first: 2, last: 2}},
			false},
		{"two missing entries", true, [][]byte{one, four}, []uint64{1, 4}, []fault{{offset: head + len1, first: 2, last: 3}},
			false},
		{"the first is missing", true, [][]byte{two}, []uint64{2}, []fault{{offset: head, first: 1, last: 1}}, false},
		{"a broken entry", true, [][]byte{one, broken(two), three}, []uint64{1, 3},
			[]fault{{offset: head + len1, first: 2, last: 2}}, false},
		{"two broken entries", true, [][]byte{one, broken(two), broken(three), four}, []uint64{1, 4},
			[]fault{{offset: head + len1, first: 2, last: 3}}, false},
		{"two broken entries, each by itself", true, [][]byte{broken(one), two, broken(three), four}, []uint64{2, 4},
			[]fault{{offset: head, first: 1, last: 1}, {offset: head + 2*len1, first: 3, last: 3}}, false},
		{"the last is broken", true, [][]byte{one, broken(two)}, []uint64{1}, []fault{{offset: head + len1}}, true},
		{"a flipped bit", true, [][]byte{one, flipped, three}, []uint64{1, 2, 3},
			[]fault{{offset: head + len1, mended: true}}, false},
		{"a flipped bit of the last entry", true, [][]byte{one, flipped}, []uint64{1, 2},
			[]fault{{offset: head + len1, mended: true}}, false},
		{"a flipped bit of the last entry, which is empty", true, [][]byte{one, empty}, []uint64{1, 2},
			[]fault{{offset: head + len1, mended: true}}, false},
		{"a flipped bit of an entry that comes too late", true, [][]byte{one, one, flipped}, []uint64{1, 2},
			[]fault{{offset: head + len1}, {offset: head + 2*len1, mended: true}}, false},
		{"a flipped bit, and an entry is missing after it", true, [][]byte{one, flipped, four}, []uint64{1, 2, 4},
			[]fault{{offset: head + len1, mended: true}, {offset: head + 2*len1, first: 3, last: 3}}, false},
		{"bytes between two entries", true, [][]byte{one, make([]byte, 100), two}, []uint64{1, 2},
			[]fault{{offset: head + len1}}, false},
		{"bytes at the end", true, [][]byte{one, make([]byte, 100)}, []uint64{1}, []fault{{offset: head + len1}}, true},
		{"a record of another segment", true, [][]byte{one, entryOf(8, 2, nil), two}, []uint64{1, 2},
			[]fault{{offset: head + len1}}, false},

		// The salt distinguishes a record from bytes that a client chose.
		{"a record inside an entry", true, [][]byte{one, forged, three}, []uint64{1, 2, 3}, nil, false},
		{"inside a broken entry", true, [][]byte{one, broken(forged), three}, []uint64{1, 3},
			[]fault{{offset: head + len1, first: 2, last: 2}}, false},
		{"inside a broken entry, and the file ends", true, [][]byte{one, broken(forged)}, []uint64{1},
			[]fault{{offset: head + len1}}, true},

		// Without the header, the first record determines the salt.
		{"no header", false, [][]byte{one, two}, []uint64{1, 2}, []fault{{}}, false},
		{"no header and no record", false, nil, nil, []fault{{}}, true},
		{"no header, the first entry is broken", false, [][]byte{broken(one), two, three}, []uint64{2, 3},
			[]fault{{}, {offset: head, first: 1, last: 1}}, false},
		{"no header, a forged record in the first", false,
			[][]byte{broken(entryOf(7, 1, entryOf(12345, 2, nil))), two, three}, []uint64{2, 3},
			[]fault{{}, {offset: head, first: 1, last: 1}}, false},
	} {
		w := walkOver(t, tt.header, tt.records...)
		var got []fault
		for _, f := range w.faults {
			got = append(got, fault{f.Offset, f.First, f.Last, f.Mended})
		}
		if !slices.Equal(w.entries, tt.entries) || !slices.Equal(got, tt.faults) || w.torn != tt.torn {
			t.Errorf("%s: entries %v, torn %v, faults %+v\nwant %v, %v, %+v", tt.name, w.entries, w.torn, w.faults, tt.entries,
				tt.torn, tt.faults)
		}
	}
}

// zeros is a file that begins with these bytes and continues with zeros.
type zeros []byte

func (z zeros) ReadAt(b []byte, at int64) (int, error) {
	clear(b)
	copy(b, z[min(at, int64(len(z))):])
	return len(b), nil
}

// TestFindRecord finds the next record of a segment among others.
func TestFindRecord(t *testing.T) {
	one, two, three := entryOf(7, 1, nil), entryOf(7, 2, nil), entryOf(7, 3, nil)
	other := entryOf(8, 2, nil)
	numbered := func(index uint64) []byte { return (&record{salt: 7, index: index}).append(nil) }
	for _, tt := range []struct {
		name       string
		bytes      []byte
		from       int64
		salt, last uint64
		want       int // -1: none
	}{
		{"at the start", slices.Concat(two, three), 0, 7, 1, 0},
		{"after the start", slices.Concat(two, three), 1, 7, 1, len(two)},
		{"behind other bytes", slices.Concat([]byte("some bytes"), two, three), 0, 7, 1, 10},
		{"nothing", nil, 0, 7, 0, -1},
		{"less than a head", two[:recordHead-1], 0, 7, 0, -1},
		{"a head without its entry", two[:recordHead], 0, 7, 0, -1},
		{"all but the last byte", two[:len(two)-1], 0, 7, 0, -1},
		{"an empty entry", numbered(2), 0, 7, 1, 0},
		{"of another salt", other, 0, 7, 1, -1},
		{"behind one of another salt", slices.Concat(other, two), 0, 7, 1, len(other)},
		{"of an index that was read", slices.Concat(one, two, three), 0, 7, 2, len(one) + len(two)},
		{"all were read", slices.Concat(one, two, three), 0, 7, 3, -1},
		{"the largest number", numbered(maxNumber), 0, 7, 1, 0},
		{"a larger number", numbered(maxNumber + 1), 0, 7, 1, -1},
		{"a broken one", slices.Concat(broken(two), three), 0, 7, 1, len(two)},
		// Without a salt, a record needs a neighbour, or the end of the file.
		{"no salt, at the end", two, 0, 0, 1, 0},
		{"no salt, before bytes", slices.Concat(two, make([]byte, 99)), 0, 0, 1, -1},
		{"no salt, before its successor", slices.Concat(two, three, make([]byte, 99)), 0, 0, 1, 0},
		{"no salt, before part of its successor", slices.Concat(two, three[:recordHead]), 0, 0, 1, 0},
		{"no salt, before less than a head", slices.Concat(two, three[:recordHead-8]), 0, 0, 1, -1},
		{"no salt, before one of another salt", slices.Concat(one, other, make([]byte, 99)), 0, 0, 0, -1},
		{"no salt, before a later one", slices.Concat(one, three, make([]byte, 99)), 0, 0, 0, -1},
	} {
		at, found, err := findRecord(bytes.NewReader(tt.bytes), tt.from, int64(len(tt.bytes)), tt.salt, tt.last)
		if err != nil || found != (tt.want >= 0) || found && at != int64(tt.want) {
			t.Errorf("%s: %d, %v, %v; want %d", tt.name, at, found, err, tt.want)
		}
	}
	for length, want := range map[uint32]bool{MaxEntry: true, MaxEntry + 1: false} {
		head := (&record{salt: 7, index: 2}).append(nil)
		binary.LittleEndian.PutUint32(head[8:], length)
		binary.LittleEndian.PutUint32(head, crc32.Checksum(head[4:], castagnoli))
		_, found, err := findRecord(zeros(head), 0, recordHead+int64(length), 7, 1)
		if found != want || err != nil {
			t.Errorf("an entry of %d bytes: found %v, %v", length, found, err)
		}
	}
	// A record is found wherever it is in the window that is searched at once.
	for _, n := range []int{256<<10 - recordHead - 1, 256<<10 - recordHead, 256<<10 - recordHead + 1, 256<<10 - 1,
		256 << 10, 256<<10 + 1, 1 << 20} {
		b := slices.Concat(make([]byte, n), two, three)
		if at, found, err := findRecord(bytes.NewReader(b), 0, int64(len(b)), 7, 1); !found || at != int64(n) || err != nil {
			t.Errorf("behind %d bytes: %d, %v, %v", n, at, found, err)
		}
	}
}

// failingFS fails reads at and behind an offset of a file.
type failingFS struct {
	osFS
	from int64
}

var errRead = errors.New("input/output error")

func (f failingFS) OpenFile(name string, flag int, perm fs.FileMode) (Handle, error) {
	h, err := f.osFS.OpenFile(name, flag, perm)
	return failingFile{h, f.from}, err
}

type failingFile struct {
	Handle
	from int64
}

func (f failingFile) ReadAt(b []byte, at int64) (int, error) {
	if at+int64(len(b)) > f.from {
		return 0, errRead
	}
	return f.Handle.ReadAt(b, at)
}

// TestWalkReadError checks that a walk ends with the error of a disk that cannot be read, and does not take
// the rest of the segment for torn.
func TestWalkReadError(t *testing.T) {
	s := segment{path: filepath.Join(t.TempDir(), segmentName(1, 1)), epoch: 1, first: 1, salt: 7}
	const incarnation = "00112233445566778899aabbccddeeff"
	b := s.header(incarnation)
	for i := range uint64(3) {
		b = append(b, entryOf(7, i+1, make([]byte, 300<<10))...) // longer than what a scanner reads at once
	}
	if err := os.WriteFile(s.path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	entries := 0
	_, torn, err := s.walk(t.Context(), failingFS{from: 700 << 10}, incarnation, func(uint64, []byte) error {
		entries++
		return nil
	})
	if !errors.Is(err, errRead) || torn || entries == 0 || entries == 3 {
		t.Errorf("%d entries, torn %v, error %v; want the error of the disk", entries, torn, err)
	}
}

// TestMendChecksum checks that one flipped bit of a checksum is put down to the checksum, and leaves the bytes alone.
func TestMendChecksum(t *testing.T) {
	b := []byte("what was written")
	sum := crc32.Checksum(b, castagnoli)
	for i := range 32 {
		if c := bytes.Clone(b); !MendBit(c, sum, sum^1<<i) || !bytes.Equal(c, b) {
			t.Errorf("bit %d of the checksum: %q", i, c)
		}
	}
}

// TestMendRecord checks that a record is mended with one flipped bit in its head and one in its entry, and with
// no more.
func TestMendRecord(t *testing.T) {
	whole := entryOf(7, 1, []byte("text"))
	for _, tt := range []struct {
		head, entry int // flipped bits
		want        bool
	}{{0, 0, true}, {1, 0, true}, {0, 1, true}, {1, 1, true}, {2, 0, false}, {0, 2, false}} {
		b := bytes.Clone(whole)
		for i := range tt.head {
			b[5+9*i] ^= 1 << i
		}
		for i := range tt.entry {
			b[recordHead+2+i] ^= 1 << i
		}
		rec, ok, err := mendRecord(bytes.NewReader(b), 0, int64(len(b)), 7, 1)
		if err != nil || ok != tt.want || ok && !bytes.Equal(rec.append(nil), whole) {
			t.Errorf("%+v: record %+v, %v, %v", tt, rec, ok, err)
		}
	}
}
