package learned

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/learn"
	"github.com/bulkhead-mail/bulkhead/internal/mail"
	"github.com/bulkhead-mail/bulkhead/internal/testing/sharedtest"
)

// mails reads n messages of a collection, spread over all of it, and the pages that signatures also read.
func mails(b *testing.B, set string, n int) (out []*mail.Message) {
	files, err := filepath.Glob(filepath.Join(sharedtest.Unpack(b, set), "*.eml"))
	if err != nil || len(files) < n {
		b.Fatalf("%d files, %v", len(files), err)
	}
	for i := range n {
		raw, err := os.ReadFile(files[i*len(files)/n])
		if err != nil {
			b.Fatal(err)
		}
		m, err := mail.Read(b.Context(), raw)
		if err != nil {
			b.Fatal(err)
		}
		for i := range m.Parts {
			if _, err := m.Page(b.Context(), i); err != nil {
				b.Fatal(err)
			}
		}
		out = append(out, m)
	}
	return out
}

// BenchmarkCost measures what words and style add to a check of real mail, in microseconds a message: reading, the
// score, and the words of its reason. Each is the mean of the least times of each message in several turns, because
// other programs run beside it.
func BenchmarkCost(b *testing.B) {
	sets := []string{"lists-2019-2020", "phishing-pot-2023-2024"}
	for generations, each := range map[int]uint64{1: 1 << 20, Generations: 500} {
		book := New(Options{Bytes: 64 << 20, MessagesEach: each})
		n := uint64(0)
		for k, set := range sets {
			for i, m := range mails(b, set, 1000) {
				features, err := learn.Counting(b.Context(), m, secret)
				if err != nil {
					b.Fatal(err)
				}
				n++
				text, tokens := learn.Of(secret, fmt.Sprint(n)), learn.Tokens(secret, features)
				var out Changes
				book.Begin(&out, 1, secret.ID())
				if book.Deliver(text, tokens, 0); k == 1 && i%10 == 0 {
					book.Report(text, tokens, 0)
				}
				if err := book.Apply(n, &out, false); err != nil {
					b.Fatal(err)
				}
			}
		}
		if len(book.Live()) != generations {
			b.Fatalf("%d generations", len(book.Live()))
		}
		for _, set := range sets {
			all := mails(b, set, 60)
			b.Run(fmt.Sprintf("%s/%d", set, generations), func(b *testing.B) {
				least := make([][3]time.Duration, len(all))
				for i := range least {
					least[i] = [3]time.Duration{time.Hour, time.Hour, time.Hour}
				}
				for b.Loop() {
					for i, m := range all {
						began := time.Now()
						features, err := learn.Counting(b.Context(), m, secret)
						if err != nil {
							b.Fatal(err)
						}
						read := time.Now()
						score := book.Score([]filter.Secret{secret}, []uint64{secret.ID()}, features)
						scored := time.Now()
						score.Words(8)
						for k, t := range []time.Duration{read.Sub(began), scored.Sub(read), time.Since(scored)} {
							least[i][k] = min(least[i][k], t)
						}
					}
				}
				var sum [3]time.Duration
				for _, t := range least {
					for k := range sum {
						sum[k] += t[k]
					}
				}
				for i, name := range []string{"read-us", "score-us", "reason-us"} {
					b.ReportMetric(float64(sum[i].Nanoseconds())/1000/float64(len(all)), name)
				}
			})
		}
	}
}
