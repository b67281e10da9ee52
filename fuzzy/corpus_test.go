package fuzzy

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/digest/rspamd"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/testing/sharedtest"
)

var corpora = []string{"spamassassin-2002", "csdmc-2009-2010", "phishing-2004-2005", "phishing-pot-2023-2024",
	"lists-2019-2020"}

// texts returns the hashes of all texts of a corpus that have shingles.
func texts(t *testing.T, h *rspamd.Hasher, corpus string) []rspamd.Hash {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(sharedtest.Unpack(t, corpus), "*.eml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %d messages, %v", corpus, len(files), err)
	}
	var all []rspamd.Hash
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		hashes, err := h.Hashes(t.Context(), raw, rspamd.Policy{MinWords: 32})
		must(t, err)
		for _, hash := range hashes {
			if hash.Shingles != nil {
				all = append(all, hash)
			}
		}
	}
	return all
}

// An exactStore looks up shingles as rspamd does: the result is the largest number that one stored
// text has in common.
type exactStore struct {
	byShingle map[[2]uint64][]int32
	count     []uint8
}

func newExactStore(stored []rspamd.Hash) *exactStore {
	x := &exactStore{byShingle: make(map[[2]uint64][]int32), count: make([]uint8, len(stored))}
	for i := range stored {
		for j, s := range stored[i].Shingles {
			k := [2]uint64{uint64(j), s}
			x.byShingle[k] = append(x.byShingle[k], int32(i))
		}
	}
	return x
}

func (x *exactStore) equal(shingles *[32]uint64) (most int) {
	var touched []int32
	for j, s := range shingles {
		for _, i := range x.byShingle[[2]uint64{uint64(j), s}] {
			x.count[i]++
			most = max(most, int(x.count[i]))
			touched = append(touched, i)
		}
	}
	for _, i := range touched {
		x.count[i] = 0
	}
	return most
}

// nearServer returns a server on a real engine, and the bytes of its filters. The filters are sized
// for the number of stored texts, so that they are full when all are stored.
func nearServer(t *testing.T, stored []rspamd.Hash) (*Server, uint64) {
	t.Helper()
	opts := engine.Options{Tally: engine.DefaultTally()}
	opts.Tally.Capacity = uint64((2+rspamd.Bands)*len(stored)) + 1
	e, err := engine.Open(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close(context.WithoutCancel(t.Context())) })
	s := &Server{Clearinghouse: e, SpamFlags: []uint8{}, HamFlags: []uint8{}}
	s.prepare()
	var jobs []*job
	for i := range stored {
		j := &job{client: netip.MustParseAddrPort("127.0.0.1:1"), req: Request{
			Version: 4, Command: Write, Flag: 1, Value: 10, Digest: stored[i].Digest,
			Shingled: true, Shingles: *stored[i].Shingles,
		}}
		j.recent, _ = s.seen.updates.enter(recentID{byte(i), byte(i >> 8), byte(i >> 16)}, time.Unix(0, 0))
		if jobs = append(jobs, j); len(jobs) == maxUpdates || i == len(stored)-1 {
			s.updateAll(t.Context(), jobs)
			jobs = jobs[:0]
		}
	}
	if n := s.Stats.Writes.Load(); n != int64(len(stored)) {
		t.Fatalf("%d of %d texts written", n, len(stored))
	}
	awaitOdds(t, e)
	for _, a := range e.Info().Tally[0].Arrays {
		if a.Name == "counts" {
			return s, a.Bytes
		}
	}
	t.Fatal("no array of counts")
	return nil, 0
}

// awaitOdds waits until the engine has measured the odds of its filters, which
// follow the arrays a little later.
func awaitOdds(t *testing.T, e *engine.Engine) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		v, err := e.Check(ctx, bulkhead.Query{Signatures: []bulkhead.Signature{listSignature(1)}})
		if err != nil {
			t.Fatal(err)
		}
		if v.Findings[0].Error > 1e-12 {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatal("the odds are never measured")
		case <-tick.C:
		}
	}
}

func (s *Server) checkOne(ctx context.Context, h *rspamd.Hash) Reply {
	j := &job{req: Request{Version: 4, Command: Check, Digest: h.Digest, Shingled: true, Shingles: *h.Shingles}}
	sc := &scratch{checks: []pendingCheck{{job: j}}}
	s.check(ctx, sc)
	return j.reply
}

// TestNearMatchesOnRealMail stores the texts of one corpus and looks up the texts of the others,
// which other people wrote years apart. A text that is found without 13 shingles in common with any
// stored text is a false match. Within a corpus it stores every second text and counts how many
// near copies are found.
func TestNearMatchesOnRealMail(t *testing.T) {
	if testing.Short() {
		t.Skip("hashes 15,000 mails")
	}
	h := rspamd.NewHasher("", "", rspamd.MumHash)
	all := make([][]rspamd.Hash, len(corpora))
	for i, name := range corpora {
		all[i] = texts(t, h, name)
	}
	asked, wrong := 0, 0
	state := 0.0
	for i := range corpora {
		s, bytes := nearServer(t, all[i])
		state = max(state, float64(bytes)/float64(len(all[i])))
		exact := newExactStore(all[i])
		for k := range corpora {
			if k == i {
				continue
			}
			for q := range all[k] {
				asked++
				if r := s.checkOne(t.Context(), &all[k][q]); r.OK() && exact.equal(all[k][q].Shingles) < 13 {
					wrong++
				}
			}
		}
	}
	t.Logf("unrelated: %d of %d found (%.1e); %.0f bytes a text in full filters", wrong, asked,
		float64(wrong)/float64(asked), state)
	if float64(wrong) > 1e-4*float64(asked) {
		t.Errorf("%d of %d unrelated texts are found, want at most 1 in 10,000", wrong, asked)
	}
	if state > 200 {
		t.Errorf("%.0f bytes for a shingled text, want at most 200", state)
	}
	wantNear := map[int]float64{28: 0.99, 24: 0.95} // least share found with at least this number of equal shingles
	var found, total [33]int
	extra, none := 0, 0
	for i := range corpora {
		var stored, rest []rspamd.Hash
		for k := range all[i] {
			if k%2 == 0 {
				stored = append(stored, all[i][k])
			} else {
				rest = append(rest, all[i][k])
			}
		}
		s, _ := nearServer(t, stored)
		exact := newExactStore(stored)
		for q := range rest {
			n := exact.equal(rest[q].Shingles)
			r := s.checkOne(t.Context(), &rest[q])
			total[n]++
			if r.OK() {
				found[n]++
			}
			if n < 13 {
				none++
				if r.OK() {
					extra++
				}
			}
		}
	}
	t.Logf("related corpus halves: found with fewer than 13 shingles equal: %d of %d", extra, none)
	for n := 13; n <= 32; n++ {
		t.Logf("%2d of 32 shingles equal: %4d of %4d found", n, found[n], total[n])
	}
	for least, want := range wantNear {
		f, n := 0, 0
		for e := least; e <= 32; e++ {
			f, n = f+found[e], n+total[e]
		}
		if share := float64(f) / float64(n); share < want {
			t.Errorf("of copies with %d shingles or more %.3f are found, want %.2f", least, share, want)
		}
	}
}
