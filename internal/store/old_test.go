package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The folders of testdata/goleveldb were written by version 0.1: entries 1 to 5, of
// which the third has 33000 bytes and so lies in two blocks; one with a checkpoint
// of all, as a clean stop leaves it, one with a checkpoint of the first four.
const oldSegment = journalDir + "/0000000000000001-0000000000000001.log"

func oldStore(t testing.TB, name string) string {
	t.Helper()
	return copyTree(t, filepath.Join("testdata", "goleveldb", name))
}

// TestOldStore: a folder that the old release left with all in its checkpoint is
// opened, and goes on in the new format.
func TestOldStore(t *testing.T) {
	dir := oldStore(t, "checkpointed")
	var backup bytes.Buffer
	if _, err := Backup(t.Context(), dir, &backup); err != nil {
		t.Fatal(err)
	}
	s := open(t, dir, Options{FS: fastFS{}})
	if _, err := os.Stat(filepath.Join(dir, oldSegment)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the old segment is still there: %v", err)
	}
	for range 2 {
		if s.LastIndex() != 5 || s.Manifest().Start != 6 || readFile(t, s, "state") != "what was known" {
			t.Fatalf("last index %d, manifest %+v", s.LastIndex(), s.Manifest())
		}
		checkReplay(t, s, 6, 5, 0)
		s = reopen(t, s, Options{FS: fastFS{}})
	}
	appendN(t, s, 3, 20)
	checkReplay(t, reopen(t, s, Options{FS: fastFS{}}), 6, 8, 20)
	restored := newDir(t)
	if _, err := Restore(t.Context(), &backup, restored, Options{FS: fastFS{}}); err != nil {
		t.Fatal(err)
	}
}

// TestInspectOld: a folder that the old release left with all in its checkpoint lacks the copy of the manifest, which
// that release did not make, and has no other fault. One whose journal has other entries is refused, with the way out.
func TestInspectOld(t *testing.T) {
	n, err := Inspect(t.Context(), oldStore(t, "checkpointed"))
	if err != nil || len(n.Faults) != 1 || filepath.Base(n.Faults[0].File) != manifestCopy || n.LastIndex != 5 ||
		n.Entries != 0 {
		t.Errorf("%+v, %v", n, err)
	}
	if n, err := Inspect(t.Context(), oldStore(t, "entries")); !errors.Is(err, ErrFormat) ||
		!strings.Contains(err.Error(), "SIGTERM") {
		t.Errorf("with old entries: %+v, %v", n, err)
	}
}

// TestOldEntries: a folder whose old journal holds what no checkpoint has, or may
// hold it, is refused with the way out, and not changed. That the watermark is out of
// date, as after a power loss, changes nothing.
func TestOldEntries(t *testing.T) {
	change := map[string]func([]byte) []byte{
		"whole":      func(b []byte) []byte { return b },
		"torn":       func(b []byte) []byte { return b[:len(b)-3] },
		"torn early": func(b []byte) []byte { return b[:100] },
		"few bytes":  func(b []byte) []byte { return append(b, 1, 2, 3) },
		"flipped":    func(b []byte) []byte { b[len(b)-1] ^= 1; return b },
	}
	for name, change := range change {
		for _, old := range []string{"entries", "checkpointed"} {
			if name == "whole" && old == "checkpointed" {
				continue
			}
			dir := oldStore(t, old)
			path := filepath.Join(dir, oldSegment)
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			b = change(b)
			mark := watermark{epoch: 1, acked: 4, durable: 4}
			if err := errors.Join(os.WriteFile(path, b, 0o600),
				os.WriteFile(filepath.Join(dir, watermarkFile), mark.encode(), 0o600)); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if _, err := Open(dir, Options{FS: fastFS{}}); !errors.Is(err, ErrFormat) || !named(err, path) ||
					!strings.Contains(err.Error(), "once more and stop it with SIGTERM") {
					t.Errorf("%s, %s: %v", old, name, err)
				}
			}
			if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, b) {
				t.Errorf("%s, %s: the refused segment was changed, %v", old, name, err)
			}
		}
	}
	if _, err := Backup(t.Context(), oldStore(t, "entries"), io.Discard); !errors.Is(err, ErrFormat) ||
		!strings.Contains(err.Error(), "SIGTERM") {
		t.Errorf("backup of a folder with old entries: %v", err)
	}
}

// FuzzOldSegment: no bytes make the reader of old segments fail, or believe in an
// entry that has no right checksum.
func FuzzOldSegment(f *testing.F) {
	b, err := os.ReadFile(filepath.Join("testdata", "goleveldb", "entries", oldSegment))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add(b[:300])
	f.Add(b[:90])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		isOld(b)
		last, whole, err := oldLast(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		if len(b) == 0 && (last != 0 || !whole) || len(b) > 0 && len(b) < oldChunkHead && whole {
			t.Errorf("%x: last entry %d, whole %v", b, last, whole)
		}
		if longer, _, _ := oldLast(bytes.NewReader(append(bytes.Clone(b), 1))); longer != last {
			t.Errorf("with a byte behind it the last entry is %d, was %d", longer, last)
		}
	})
}

// A record of an old segment, with the chunks of the blocks that it lies in.
func appendOld(b []byte, kind uint32, index uint64, data []byte) []byte {
	rec := make([]byte, oldRecordHead, oldRecordHead+len(data))
	binary.LittleEndian.PutUint32(rec[4:], kind)
	binary.LittleEndian.PutUint64(rec[16:], index)
	rec = append(rec, data...)
	binary.LittleEndian.PutUint32(rec, crc32.Checksum(rec[4:], castagnoli))
	for begins := true; begins || len(rec) > 0; begins = false {
		left := oldBlock - len(b)%oldBlock
		if left < oldChunkHead {
			b = append(b, make([]byte, left)...)
			left = oldBlock
		}
		n := min(len(rec), left-oldChunkHead)
		ends := n == len(rec)
		kind := byte(3) // a middle chunk
		switch {
		case begins && ends:
			kind = oldChunkFull
		case begins:
			kind = oldChunkFirst
		case ends:
			kind = oldChunkLast
		}
		b = append(b, 0xcc, 0xcc, 0xcc, 0xcc, byte(n), byte(n>>8), kind)
		b, rec = append(b, rec[:n]...), rec[n:]
	}
	return b
}

// TestOldLast writes old segments of random records, whose ends are often near the end of a block. The reader finds the
// last one, and no more than what is complete when the segment is cut or changed.
func TestOldLast(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	const overhead = oldChunkHead + oldRecordHead
	for range 60 {
		b := appendOld(nil, 0, 0, binary.LittleEndian.AppendUint16([]byte(segmentMagic), oldVersion))
		if !isOld(b) || isOld(b[:len(b)-1]) {
			t.Fatal("the header of an old segment is not recognised")
		}
		ends := []int{len(b)}
		for n := range uint64(1 + rng.IntN(8)) {
			size := rng.IntN(200)
			if room := oldBlock - len(b)%oldBlock - overhead; rng.IntN(2) == 0 && room > 20 {
				size = room + 8 - rng.IntN(17) // around the end of the block
			} else if rng.IntN(4) == 0 {
				size = rng.IntN(3 * oldBlock)
			}
			b = appendOld(b, oldEntry, n+1, make([]byte, size))
			ends = append(ends, len(b))
		}
		check := func(what string, b []byte, last int, whole bool) {
			t.Helper()
			got, ok, err := oldLast(bytes.NewReader(b))
			if err != nil || got != uint64(last) || ok != whole {
				t.Fatalf("%s, %d bytes, records end at %v: entry %d, whole %v, %v; want %d, %v", what, len(b), ends, got, ok, err,
					last, whole)
			}
		}
		entries := len(ends) - 1
		check("as it was written", b, entries, true)
		for i := range 40 {
			cut := rng.IntN(len(b))
			if i < len(ends) {
				cut = max(0, min(len(b), ends[i]+rng.IntN(9)-4))
			}
			n, exact := slices.BinarySearch(ends, cut)
			if exact {
				n++
			}
			padded := n > 0 && cut%oldBlock == 0 && cut-ends[n-1] < oldChunkHead
			check(fmt.Sprint("cut to ", cut), b[:cut], max(0, n-1), exact || padded || cut == 0)
		}
		at := rng.IntN(entries + 1) // its last byte is changed
		bad := bytes.Clone(b)
		bad[ends[at]-1] ^= 1 << rng.IntN(8)
		check("changed", bad, max(0, at-1), false)
	}
}

// TestFormer copies a store before it is opened: the copy is a store of the same contents, whatever happens to
// the original afterwards. It has no entry that was written since, even if the store is opened again before the
// next checkpoint. The copy of another checkpoint takes its place. A refused store leaves no copy.
func TestFormer(t *testing.T) {
	dir, kept := filepath.Join(t.TempDir(), "store"), filepath.Join(t.TempDir(), "aside", "kept")
	s, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		if _, err := s.Append([]byte{byte(i)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for i, n := range []uint64{5, 5, 5, 8} {
		s, err = Open(dir, Options{Former: func([]byte) string { return kept }})
		if err != nil {
			t.Fatal(err)
		}
		if i == 2 {
			if err := s.Checkpoint(t.Context(), s.LastIndex()+1, nil, nil); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := s.Append([]byte{9}); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		found, err := Inspect(t.Context(), kept)
		if err != nil || found.LastIndex != n || len(found.Faults) > 0 {
			t.Fatalf("the copy: %+v, %v, want %d entries", found, err, n)
		}
	}
	refused := oldStore(t, "entries")
	if _, err := Open(refused, Options{Former: func([]byte) string { return kept }}); !errors.Is(err, ErrFormat) {
		t.Errorf("a store that is refused: %v", err)
	}
	if _, err := os.Stat(kept); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a refused store leaves a copy: %v", err)
	}
}
