package store

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// BenchmarkAppend appends batches of 64 reports, about 4 KB, and in turns writes the same to a bare
// file with fdatasync. "x-raw" is the ratio of the store's time to the bare file's; "reports/s"
// counts reports.
func BenchmarkAppend(b *testing.B) {
	const size, reports = 4096, 64
	for _, d := range []Durability{Always, Relaxed} {
		b.Run(d.String(), func(b *testing.B) {
			s := open(b, filepath.Join(b.TempDir(), "store"), Options{Durability: d})
			f, err := os.Create(filepath.Join(b.TempDir(), "raw"))
			if err != nil {
				b.Fatal(err)
			}
			defer f.Close()
			raw := osFile{f}
			batch := entry(1, size)
			var ours, theirs time.Duration
			b.SetBytes(size)
			for b.Loop() {
				t0 := time.Now()
				if _, err := s.Append(batch); err != nil {
					b.Fatal(err)
				}
				t1 := time.Now()
				if _, err := raw.Write(batch); err != nil {
					b.Fatal(err)
				}
				if d == Always {
					if err := raw.Sync(); err != nil {
						b.Fatal(err)
					}
				}
				ours, theirs = ours+t1.Sub(t0), theirs+time.Since(t1)
			}
			b.ReportMetric(ours.Seconds()/theirs.Seconds(), "x-raw")
			b.ReportMetric(float64(b.N*reports)/ours.Seconds(), "reports/s")
			b.ReportMetric(float64(ours.Nanoseconds())/float64(b.N), "ns/append")
		})
	}
}

// BenchmarkReplay reads a journal of entries of 4 KB.
func BenchmarkReplay(b *testing.B) {
	const size, n = 4096, 10_000
	s := open(b, filepath.Join(b.TempDir(), "store"), Options{Durability: Relaxed})
	batch := entry(1, size)
	for range n {
		if _, err := s.Append(batch); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(size * n)
	for b.Loop() {
		if err := s.Replay(b.Context(), 1, func(uint64, []byte) error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkFile reads and writes a checkpoint file of 70 MB, about ten million signatures.
func BenchmarkFile(b *testing.B) {
	const size = 70 << 20
	s := open(b, filepath.Join(b.TempDir(), "store"), Options{})
	block := make([]byte, 64<<10)
	file := File{"pages", func(w io.Writer) error {
		for range size / len(block) {
			if _, err := w.Write(block); err != nil {
				return err
			}
		}
		return nil
	}}
	b.Run(fmt.Sprintf("write-%dMB", size>>20), func(b *testing.B) {
		b.SetBytes(size)
		for b.Loop() {
			if err := s.Checkpoint(b.Context(), 1, nil, []File{file}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run(fmt.Sprintf("read-%dMB", size>>20), func(b *testing.B) {
		b.SetBytes(size)
		for b.Loop() {
			r, err := s.OpenFile("pages")
			if err != nil {
				b.Fatal(err)
			}
			if n, err := io.Copy(io.Discard, r); err != nil || n != size {
				b.Fatal(n, err)
			}
			r.Close()
		}
	})
}
