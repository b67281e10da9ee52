package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// A changedSegment is a modified segment that is read twice: with the store's watermark, which
// records the acknowledged entries, and with one from before the first entry, as after a power
// loss.
type changedSegment struct {
	t       *testing.T
	dir     string
	path    string
	good    []byte
	ends    []int // ends of the header and of each entry
	mark    []byte
	entries []string
}

func newChangedSegment(t *testing.T) *changedSegment {
	t.Helper()
	s := open(t, newDir(t), Options{FS: fastFS{}})
	c := &changedSegment{t: t, dir: s.Dir(), ends: []int{segmentHead}}
	for _, size := range []int{30, 0, 90, 50} {
		e := entry(s.LastIndex()+1, size)[:size]
		if _, err := s.Append(e); err != nil {
			t.Fatal(err)
		}
		c.entries = append(c.entries, string(e))
		c.ends = append(c.ends, int(s.tail.size))
	}
	c.path = s.tail.path
	err := s.Close()
	if err == nil {
		c.good, err = os.ReadFile(c.path)
	}
	if err == nil {
		c.mark, err = os.ReadFile(filepath.Join(c.dir, watermarkFile))
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// read returns how many of the entries are present; they must be the first ones.
func (c *changedSegment) read(segment, mark []byte) (n int, err error) {
	c.t.Helper()
	if err := errors.Join(os.WriteFile(c.path, segment, 0o600), os.WriteFile(filepath.Join(c.dir, watermarkFile), mark,
		0o600)); err != nil {
		c.t.Fatal(err)
	}
	s, err := Open(c.dir, Options{FS: fastFS{}})
	if err != nil {
		if now, rerr := os.ReadFile(c.path); rerr != nil || !bytes.Equal(now, segment) {
			c.t.Errorf("refused and changed: %v, %v", err, rerr)
		}
		return 0, err
	}
	defer s.Close()
	err = s.Replay(c.t.Context(), 1, func(i uint64, e []byte) error {
		if n++; int(i) != n || n > len(c.entries) || string(e) != c.entries[n-1] {
			return fmt.Errorf("entry %d is %x", i, e)
		}
		return nil
	})
	return n, err
}

// check reads the modified segment. With the watermark, no entry that it guarantees may be missing.
// Without it, the first least entries, which later content of the segment proves to have been on
// disk, must be present, or there must be an error.
func (c *changedSegment) check(what string, segment []byte, least int) {
	c.t.Helper()
	if n, err := c.read(segment, c.mark); err == nil && n != len(c.entries) || err != nil && !named(err, c.path) &&
		!named(err, journalDir) {
		c.t.Errorf("%s: %d of %d acknowledged entries, %v", what, n, len(c.entries), err)
	}
	if n, err := c.read(segment, watermark{epoch: 1}.encode()); err == nil && n < least || err != nil &&
		!named(err, c.path) {
		c.t.Errorf("%s, watermark out of date: %d entries, want %d or more, %v", what, n, least, err)
	}
}

// TestChangedSegment changes every byte of a segment, cuts it everywhere, and repeats pieces of it.
// The entries read must be those written. Any missing ones are the torn end, or there is an error
// that names the file.
func TestChangedSegment(t *testing.T) {
	c := newChangedSegment(t)
	all := len(c.entries)
	c.check("unchanged", c.good, all)
	rng := rand.New(rand.NewPCG(3, 4))
	for at := range c.good {
		flips := []byte{byte(1 + rng.IntN(255))}
		for bit := range 8 {
			flips = append(flips, 1<<bit)
		}
		for _, flip := range flips {
			b := bytes.Clone(c.good)
			b[at] ^= flip
			// After the last entry nothing proves that it was on disk.
			c.check(fmt.Sprintf("byte %d xor %02x", at, flip), b, all-1)
			if n, err := c.read(b, c.mark); err == nil {
				t.Errorf("byte %d xor %02x: not noticed, %d entries", at, flip, n)
			}
		}
	}
	for cut := range c.good {
		b := c.good[:cut]
		whole := 0
		for whole < all && cut >= c.ends[whole+1] {
			whole++
		}
		c.check(fmt.Sprintf("cut to %d", cut), b, whole)
		if n, err := c.read(b, watermark{epoch: 1}.encode()); err != nil || n != whole {
			t.Errorf("cut to %d, a torn write: %d entries, %v; want %d", cut, n, err, whole)
		}
	}
	for _, from := range c.ends {
		for _, to := range append(c.ends, 0) {
			c.checkTwice(min(from, to), max(from, to))
		}
	}
	for range 1000 {
		from, to := rng.IntN(len(c.good)+1), rng.IntN(len(c.good)+1)
		c.checkTwice(min(from, to), max(from, to))
	}
}

// checkTwice reads the segment with a piece of it repeated, and with the piece overwriting the
// bytes after it.
func (c *changedSegment) checkTwice(from, to int) {
	c.t.Helper()
	piece := c.good[from:to]
	b := append(bytes.Clone(c.good[:to]), piece...)
	c.check(fmt.Sprintf("%d to %d twice", from, to), append(b, c.good[to:]...), len(c.entries)-1)
	if 2*to-from <= len(c.good) {
		c.check(fmt.Sprintf("%d to %d over what follows", from, to), append(b, c.good[2*to-from:]...), 0)
	}
}

// TestScannedRecords checks what is reported of a record that does not follow, and of a file that is shorter than
// before.
func TestScannedRecords(t *testing.T) {
	const id = "00112233445566778899aabbccddeeff"
	seg := segment{path: "s.log", epoch: 1, first: 1, salt: 7}
	b := append(seg.header(id), entryOf(7, 1, nil)...)
	repeated := append(bytes.Clone(b), entryOf(7, 1, nil)...)
	for name, tt := range map[string]struct {
		b    []byte
		size int
		want string
	}{
		"an entry twice":     {repeated, len(repeated), "a record of index 1, want 2; its salt matches the segment: true"},
		"a file that shrank": {repeated[:len(repeated)-3], len(repeated), "the file has become shorter"},
		"cut at a record":    {b, len(repeated), "the file has become shorter"},
	} {
		s, sc := seg, newScanner(bytes.NewReader(tt.b), int64(tt.size))
		err := s.begin(sc, id)
		for err == nil {
			_, err = s.entry(sc)
		}
		var bad *badRecord
		if !errors.As(err, &bad) || bad.what != tt.want || bad.offset != int64(len(b)) || s.last != 1 {
			t.Errorf("%s: after entry %d: %v, want %q at %d", name, s.last, err, tt.want, len(b))
		}
	}
}

// TestStaleRecords checks that records of another segment are not accepted, even with the same
// position and index.
func TestStaleRecords(t *testing.T) {
	a, b := newChangedSegment(t), newChangedSegment(t)
	for i := range a.ends {
		mixed := append(bytes.Clone(a.good[:a.ends[i]]), b.good[a.ends[i]:]...)
		if len(mixed) != len(a.good) {
			t.Fatal("the segments are not alike")
		}
		if n, err := a.read(mixed, watermark{epoch: 1}.encode()); err != nil || n != i {
			t.Errorf("%d entries and then another's: %d, %v", i, n, err)
		}
		if n, err := a.read(mixed, a.mark); (err == nil) != (i == len(a.entries)) {
			t.Errorf("%d entries and then another's, all acknowledged: %d, %v", i, n, err)
		}
	}
}

// FuzzRecords reads records with valid checksums.
func FuzzRecords(f *testing.F) {
	seg := segment{epoch: 1, first: 1, salt: 7}
	const id = "00112233445566778899aabbccddeeff"
	records := func(rr ...record) (b []byte) {
		for _, r := range rr {
			b = r.append(b)
		}
		return b
	}
	one, two := record{salt: 7, index: 1, data: []byte("one")}, record{salt: 7, index: 2, durable: 1}
	f.Add(records(one, two))
	f.Add(records(one, one))
	f.Add(records(two))
	f.Add(records(one, record{salt: 8, index: 2}))
	f.Add(append(records(one), 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff))
	huge := records(two)
	binary.LittleEndian.PutUint32(huge[8:], MaxEntry)
	f.Add(append(records(one), huge...))
	f.Fuzz(func(t *testing.T, b []byte) {
		b = append(seg.header(id), b...)
		// The checksums would keep the fuzzer from reaching the code behind them.
		for at := segmentHead; at+recordHead <= len(b); {
			head := b[at : at+recordHead]
			n := int(binary.LittleEndian.Uint32(head[8:]))
			if data := b[at+recordHead:]; n <= len(data) {
				binary.LittleEndian.PutUint32(head[4:], crc32.Checksum(data[:n], castagnoli))
			}
			binary.LittleEndian.PutUint32(head, crc32.Checksum(head[4:], castagnoli))
			at += recordHead + n
		}
		s, sc := seg, newScanner(bytes.NewReader(b), int64(len(b)))
		if err := s.begin(sc, id); err != nil {
			t.Fatal(err)
		}
		again := seg.header(id)
		for {
			rec, err := s.entry(sc)
			if err != nil {
				break
			}
			again = rec.append(again)
		}
		if !bytes.Equal(again, b[:s.size]) || cap(sc.buf) > 2*len(b)+1024 {
			t.Errorf("%x was read as %x, with a buffer of %d bytes", b, again, cap(sc.buf))
		}
	})
}
