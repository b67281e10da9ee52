package fuzzy

import (
	"context"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/engine"
)

// BenchmarkCheck measures checks in batches of 64 without the network: of
// digests that are known and unknown, and of texts with shingles.
func BenchmarkCheck(b *testing.B) {
	const stored, batch = 20_000, 64
	opts := engine.Options{Tally: engine.DefaultTally()}
	e, err := engine.Open(b.Context(), opts)
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close(context.Background())
	s := &Server{Clearinghouse: e}
	s.prepare()
	client := netip.MustParseAddrPort("127.0.0.1:5")
	request := func(n uint64, shingled bool) Request {
		r := Request{Version: 4, Flag: 1, Value: 10, Shingled: shingled, Tag: uint32(n)}
		random := rand.New(rand.NewPCG(n, 1))
		for i := range r.Digest {
			r.Digest[i] = byte(random.Uint32())
		}
		for i := range r.Shingles {
			r.Shingles[i] = random.Uint64()
		}
		return r
	}
	var jobs []*job
	for n := range uint64(stored) {
		j := &job{client: client, req: request(n, n%2 == 1)}
		j.req.Command = Write
		j.recent, _ = s.seen.updates.enter(j.recentID(), time.Now())
		if jobs = append(jobs, j); len(jobs) == maxUpdates {
			s.updateAll(b.Context(), jobs)
			jobs = jobs[:0]
		}
	}
	for _, bb := range []struct {
		name  string
		first uint64 // of the digests asked for
		step  uint64
		sh    bool
		near  bool
	}{{"exact/hit", 0, 2, false, false}, {"exact/miss", 1 << 40, 2, false, false}, {"shingles/hit", 1, 2, true, false},
		{"shingles/miss", 1 << 40, 2, true, false}, {"shingles/near", 1, 2, true, true}} {
		b.Run(bb.name, func(b *testing.B) {
			var datagrams [][]byte
			for n := range uint64(4096) {
				r := request(bb.first+n*bb.step%stored, bb.sh)
				if bb.near {
					r.Digest[0] ^= 0xff
					for i := range 6 {
						r.Shingles[5*i]++
					}
				}
				datagrams = append(datagrams, r.Append(nil))
			}
			sc := new(scratch)
			for range batch {
				sc.spare = append(sc.spare, new(job))
			}
			out := make([]byte, 0, 256)
			b.ReportAllocs()
			b.ResetTimer()
			for i := 0; i < b.N; i += batch {
				sc.jobs = sc.jobs[:0]
				for k := range batch {
					j := sc.spare[k]
					j.reset(client, datagrams[(i+k)%len(datagrams)])
					sc.jobs = append(sc.jobs, j)
				}
				s.answer(b.Context(), sc)
				for _, j := range sc.jobs {
					out = s.appendOut(out[:0], j)
				}
			}
		})
	}
}
