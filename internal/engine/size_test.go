package engine

import (
	"context"
	"encoding/binary"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/store"
)

// BenchmarkSize counts ten million signatures in a node sized for them, and
// says how much memory and disk they take. Run it once, with -benchtime 1x.
func BenchmarkSize(b *testing.B) {
	const signatures, part = 10_000_000, 8192
	for range b.N {
		dir := filepath.Join(b.TempDir(), "store")
		st, err := store.Open(dir, store.Options{Durability: store.Relaxed})
		if err != nil {
			b.Fatal(err)
		}
		opts := Options{Tally: DefaultTally(), Store: st}
		opts.Tally.Capacity = signatures
		before := resident(b)
		e, err := Open(b.Context(), opts)
		if err != nil {
			b.Fatal(err)
		}
		sigs, n := make([]bulkhead.Signature, part), make([]uint32, part)
		for start := 0; start < signatures; start += part {
			k := min(part, signatures-start)
			for i := range k {
				sigs[i], n[i] = numbered(b, uint64(start+i)), 1
			}
			if err := e.Count(b.Context(), sigs[:k], n[:k]); err != nil {
				b.Fatal(err)
			}
		}
		looks := make([]bulkhead.Look, part)
		wrong := func(first uint64, want uint32) (share float64) {
			const rounds = 100
			for r := range uint64(rounds) {
				for i := range sigs {
					sigs[i] = numbered(b, first+r*part+uint64(i))
				}
				if err := e.Look(b.Context(), sigs, looks, bulkhead.Counts); err != nil {
					b.Fatal(err)
				}
				for i := range looks {
					if looks[i].Sightings < want {
						b.Fatalf("signature %d: %d sightings, want %d", i, looks[i].Sightings, want)
					}
					if looks[i].Sightings != want {
						share += 1. / (rounds * part)
					}
				}
			}
			return share
		}
		b.ReportMetric(wrong(0, 1), "wrong-count-share")
		b.ReportMetric(wrong(1<<40, 0), "ghost-share")
		debug.FreeOSMemory()
		b.ReportMetric(float64(resident(b)-before)/1e6, "MB-resident")
		var arrays uint64
		for _, g := range e.Info().Tally {
			for _, a := range g.Arrays {
				if a.Name == "counts" {
					arrays += a.Bytes
				}
			}
		}
		b.ReportMetric(float64(arrays)/1e6, "MB-arrays")
		b.ReportMetric(float64(diskBytes(b, dir))/1e6, "MB-disk-before-checkpoint")
		if err := e.Close(context.WithoutCancel(b.Context())); err != nil {
			b.Fatal(err)
		}
		if err := st.Close(); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(diskBytes(b, dir))/1e6, "MB-disk")
		runtime.KeepAlive(e)
	}
}

func numbered(b testing.TB, n uint64) bulkhead.Signature {
	var sum [16]byte
	binary.LittleEndian.PutUint64(sum[:], n)
	binary.LittleEndian.PutUint64(sum[8:], n*0x9e3779b97f4a7c15)
	sig, err := bulkhead.NewSignature(bulkhead.DCCBody, sum[:])
	if err != nil {
		b.Fatal(err)
	}
	return sig
}

// resident is the memory of this process that is in RAM, in bytes.
func resident(b testing.TB) int64 {
	b.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Skipf("the resident size cannot be told here: %v", err)
	}
	for line := range strings.Lines(string(status)) {
		if text, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, err := strconv.ParseInt(strings.Fields(text)[0], 10, 64)
			if err != nil {
				b.Fatal(err)
			}
			return kb << 10
		}
	}
	b.Fatal("no resident size")
	return 0
}

func diskBytes(b *testing.B, dir string) (n int64) {
	b.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return fmt.Errorf("size of %s: %w", path, err)
		}
		n += info.Size()
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	return n
}
