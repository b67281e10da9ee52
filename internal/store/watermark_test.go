package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestWatermark checks that a written watermark can be read, that nothing else is accepted, and
// that the error names the offset.
func TestWatermark(t *testing.T) {
	for _, m := range []watermark{{}, {epoch: 1, acked: 2, durable: 2}, {epoch: 1 << 63, acked: 1<<64 - 1, durable: 7}} {
		if got, err := decodeWatermark("w", m.encode()); got != m || err != nil || len(m.encode()) != watermarkBytes {
			t.Errorf("%+v: read %+v, %v, in %d bytes", m, got, err, len(m.encode()))
		}
	}
	good := watermark{epoch: 3, acked: 9, durable: 8}.encode()
	for at := range good {
		for bit := range 8 {
			bad := bytes.Clone(good)
			bad[at] ^= 1 << bit
			if got, err := decodeWatermark("w", bad); err == nil || got != (watermark{}) {
				t.Errorf("bit %d of byte %d flipped: %+v, %v", bit, at, got, err)
			}
		}
	}
	resum := func(b []byte) []byte {
		binary.LittleEndian.PutUint32(b[watermarkBytes-4:], crc32.Checksum(b[:watermarkBytes-4], castagnoli))
		return b
	}
	for _, tt := range []struct {
		name   string
		b      []byte
		offset int64 // -1: of another format, and not damaged
	}{
		{"nothing", nil, 0},
		{"short", good[:watermarkBytes-1], watermarkBytes - 1},
		{"long", append(bytes.Clone(good), 0), watermarkBytes},
		{"magic", resum(append([]byte("BHWN"), good[4:]...)), 0},
		{"version", resum(append([]byte("BHWM\x02\x00"), good[6:]...)), -1},
		{"reserved", resum(append([]byte("BHWM\x01\x00\x01\x00"), good[8:]...)), -1},
		{"reserved", resum(append([]byte("BHWM\x01\x00\x00\x01"), good[8:]...)), -1},
		{"more on disk than acknowledged", watermark{epoch: 3, acked: 9, durable: 10}.encode(), 24},
	} {
		_, err := decodeWatermark("dir/watermark", tt.b)
		var damage *DamageError
		if errors.As(err, &damage) != (tt.offset >= 0) || !errors.Is(err, ErrFormat) && damage == nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if damage != nil && (damage.Offset != tt.offset || damage.File != "dir/watermark") {
			t.Errorf("%s: at %d of %s, want %d", tt.name, damage.Offset, damage.File, tt.offset)
		}
		if !strings.Contains(err.Error(), "dir/watermark") {
			t.Errorf("%s: the file is not named: %v", tt.name, err)
		}
	}
}

// TestBackupPassesOverOldSegments checks that a backup leaves out segments that the checkpoint made
// obsolete and a crash left behind, whatever they contain.
func TestBackupPassesOverOldSegments(t *testing.T) {
	o := Options{SegmentBytes: 1000}
	s := open(t, newDir(t), o)
	appendN(t, s, 12, 500)
	journal := filepath.Join(s.Dir(), journalDir)
	old := make(map[string][]byte)
	segs, err := os.ReadDir(journal)
	if err != nil || len(segs) < 5 {
		t.Fatalf("%d segments, %v", len(segs), err)
	}
	for _, e := range segs[:3] {
		if old[e.Name()], err = os.ReadFile(filepath.Join(journal, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	// The journal from entry 10 on begins within a segment, and the journal from entry 11 on begins with one. From 13 on
	// there is none.
	for start := uint64(10); start <= 13; start++ {
		if start == 13 {
			b, err := os.ReadFile(s.tail.path)
			if err != nil {
				t.Fatal(err)
			}
			old[filepath.Base(s.tail.path)] = b
		}
		if err := s.Checkpoint(t.Context(), start, nil, []File{text("a", "content")}); err != nil {
			t.Fatal(err)
		}
		var want bytes.Buffer
		if _, err := s.Backup(t.Context(), &want); err != nil {
			t.Fatal(err)
		}
		for _, damage := range []bool{false, true} {
			for name, b := range old {
				if damage {
					b = b[:len(b)/2]
				}
				if err := os.WriteFile(filepath.Join(journal, name), b, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			var got bytes.Buffer
			info, err := s.Backup(t.Context(), &got)
			if err != nil || info.LastIndex != 12 || info.Manifest.Start != start || !bytes.Equal(got.Bytes(), want.Bytes()) {
				t.Errorf("from %d, damaged %v: %+v, %v; %d bytes, want %d", start, damage, info, err, got.Len(), want.Len())
			}
		}
		dir := newDir(t)
		if _, err := Restore(t.Context(), &want, dir, o); err != nil {
			t.Fatal(err)
		}
		checkReplay(t, open(t, dir, o), start, 12, 500)
	}
}
