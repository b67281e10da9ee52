package signature

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/sharedtest"
)

// BenchmarkCompute measures all schemes over the sample messages, the two own
// schemes alone, and the reading of the message alone.
func BenchmarkCompute(b *testing.B) {
	names, err := filepath.Glob(filepath.Join(sharedtest.Path(b, "corpus", "samples"), "*.eml"))
	if err != nil || len(names) == 0 {
		b.Fatalf("no samples: %v", err)
	}
	var mails [][]byte
	size := 0
	for _, name := range names {
		raw, err := os.ReadFile(name)
		if err != nil {
			b.Fatal(err)
		}
		mails = append(mails, raw)
		size += len(raw)
	}
	each := func(name string, f func(raw []byte)) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				for _, raw := range mails {
					f(raw)
				}
			}
			b.ReportMetric(float64(b.N*len(mails))/b.Elapsed().Seconds(), "messages/s")
		})
	}
	each("all", func(raw []byte) {
		if _, err := Compute(raw, Options{}); err != nil {
			b.Fatal(err)
		}
	})
	each("rspamd", func(raw []byte) {
		m, err := ReadMessage(raw)
		if err != nil {
			b.Fatal(err)
		}
		rspamdContent(m, Options{})
	})
	keys := newNearKey([16]byte{})
	each("own", func(raw []byte) {
		m, err := ReadMessage(raw)
		if err != nil {
			b.Fatal(err)
		}
		s := m.skeleton()
		m.exact(s)
		keys.near(s)
	})
	each("read", func(raw []byte) {
		if _, err := ReadMessage(raw); err != nil {
			b.Fatal(err)
		}
	})
}
