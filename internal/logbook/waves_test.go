package logbook

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/testing/await"
)

// put notes an entry with the reporter, sender and links of e, as a House does.
func put(b *Book, at time.Time, e Entry, sigs []bulkhead.Signature) {
	for _, d := range e.Domains {
		sigs = append(slices.Clone(sigs), bulkhead.NamedSignature(bulkhead.Link, d))
	}
	who := bulkhead.Reporter{Account: e.Account, User: e.User}
	who.Addr, _ = netip.ParseAddr(e.Network)
	e.ID, e.packed = uint64(at.UnixMicro()), pack(sigs)
	b.add(&note{Entry: e, who: who, from: e.From, sum: uint64(at.UnixNano())})
}

// band returns the signature of a band.
func band(number, value int) bulkhead.Signature {
	return bulkhead.MustSignature(bulkhead.Near, []byte{byte(number), byte(value), byte(value >> 8), byte(value >> 16)})
}

func exact(value int) bulkhead.Signature {
	return bulkhead.MustSignature(bulkhead.Exact, []byte{1, byte(value), byte(value >> 8), byte(value >> 16)})
}

func wavesOf(t testing.TB, b *Book) []Wave {
	t.Helper()
	all, err := b.Waves(context.Background(), time.Hour)
	if err != nil || !all.Whole {
		t.Fatalf("whole %v, %v", all.Whole, err)
	}
	return all.Waves
}

// TestWaves compares the waves with the waves of a plain list: each message belongs to the earlier
// wave that shares most with it: a text, or else bands. Of several such waves it belongs to the
// oldest. After the file is closed and opened again, the waves are the same.
func TestWaves(t *testing.T) {
	type group struct {
		first, messages int
	}
	common := exact(999)
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 1))
		c := newClock()
		options := Options{MaxBytes: MinBytes, MaxAge: 24 * time.Hour, Now: func() time.Time {
			return c.now
		}, Common: []bulkhead.Signature{common}}
		path := filepath.Join(t.TempDir(), "history.db")
		b, err := Open(path, options)
		if err != nil {
			t.Fatal(err)
		}
		var want []*group
		owner := make(map[bulkhead.Signature]*group)
		for i := range 300 {
			c.now = c.now.Add(time.Second)
			campaign := r.IntN(12)
			var texts, bands []bulkhead.Signature
			if r.IntN(4) > 0 {
				texts = append(texts, exact(campaign*4+r.IntN(4)))
			}
			if r.IntN(3) == 0 {
				texts = append(texts, common)
			}
			for n := range 5 {
				value := campaign
				if r.IntN(2) == 0 {
					value = 1000 + r.IntN(1e6)
				}
				bands = append(bands, band(n, value))
			}
			if r.IntN(5) == 0 {
				bands = nil
			}
			put(b, c.now, Entry{Kind: Checked, Door: "http"}, append(slices.Clone(texts), bands...))
			texts = slices.DeleteFunc(texts, func(s bulkhead.Signature) bool { return s == common })
			if len(texts)+len(bands) == 0 {
				continue
			}
			var best *group
			score := func(g *group) (n int) {
				for _, s := range texts {
					if owner[s] == g {
						n += 1000
					}
				}
				for _, s := range bands {
					if owner[s] == g {
						n++
					}
				}
				return n
			}
			for _, g := range want {
				if n := score(g); n >= 2 && (best == nil || n > score(best)) {
					best = g
				}
			}
			if best == nil {
				best = &group{first: i}
				want = append(want, best)
			}
			best.messages++
			for _, s := range append(texts, bands...) {
				if owner[s] == nil && countOf(owner, best) < maxKeys {
					owner[s] = best
				}
			}
		}
		var sizes []string
		for _, g := range want {
			if g.messages > 1 {
				sizes = append(sizes, fmt.Sprintf("%d from %d", g.messages, g.first))
			}
		}
		for range 2 {
			var got []string
			for _, w := range wavesOf(t, b) {
				got = append(got, fmt.Sprintf("%d from %d", w.Messages, int(w.First.Sub(newClock().now)/time.Second)-1))
			}
			slices.Sort(sizes)
			slices.Sort(got)
			if !slices.Equal(got, sizes) || len(got) < 3 {
				t.Fatalf("seed %d: waves %q, want %q", seed, got, sizes)
			}
			if err := b.Close(); err != nil {
				t.Fatal(err)
			}
			if b, err = Open(path, options); err != nil {
				t.Fatal(err)
			}
		}
		b.Close()
	}
}

// countOf returns the number of signatures of a group.
func countOf[K comparable, V comparable](owner map[K]V, of V) (n int) {
	for _, v := range owner {
		if v == of {
			n++
		}
	}
	return n
}

// TestWaveNumbers: the doors, senders, links, votes and growth of a wave.
func TestWaveNumbers(t *testing.T) {
	c := newClock()
	start := c.now
	b := open(t, filepath.Join(t.TempDir(), "history.db"), c, 1<<24, 30*24*time.Hour)
	sigs := []bulkhead.Signature{exact(1), band(0, 1), band(1, 1)}
	digest := []bulkhead.Signature{exact(1)}
	for i := range 500 {
		e := Entry{Kind: Checked, Door: "milter", Class: bulkhead.ClassUnknown, From: fmt.Sprintf("%d.example.com", i%2),
			Domains: []string{"example.net"}}
		if i >= 400 {
			e.Class, e.Confidence = bulkhead.ClassSpam, 90
		}
		put(b, start.Add(time.Duration(i)*time.Minute), e, sigs)
	}
	at := start.Add(500 * time.Minute)
	put(b, at, Entry{Kind: Sighted, Door: "dcc", Count: 7}, digest)
	put(b, at.Add(time.Second), Entry{Kind: CalledSpam, Door: "http", Account: "ann"}, sigs)
	put(b, at.Add(2*time.Second), Entry{Kind: CalledSpam, Door: "http", Account: "mx", User: "bob"}, digest)
	put(b, at.Add(3*time.Second), Entry{Kind: Withdrawn, Door: "http", Network: "192.0.2.0"}, digest)
	c.now = at.Add(time.Minute)
	all := wavesOf(t, b)
	if len(all) != 1 {
		t.Fatalf("%d waves", len(all))
	}
	w := all[0]
	if !w.First.Equal(start) || !w.Last.Equal(at.Add(3*time.Second)) || w.Messages != 507 ||
		w.Class != bulkhead.ClassSpam || w.Confidence != 90 ||
		w.Classes[bulkhead.ClassSpam] != 100 || w.Classes[bulkhead.ClassUnknown] != 400 || w.Votes[CalledSpam] != 2 ||
		w.Votes[Withdrawn] != 1 || w.Votes[CalledHam] != 0 {
		t.Errorf("wave %+v", w)
	}
	if got := fmt.Sprint(w.Doors, w.Senders, w.Domains,
		w.Reporters); got != "[{milter 500 0} {http 3 0} {dcc 1 0}] [{0.example.com 250 0} {1.example.com 250 0}] "+
		"[{example.net 500 0}] [{192.0.2.0 1 0} {ann 1 0} {bob 1 0}]" {
		t.Errorf("names %s", got)
	}
	if w.Slot != 8*time.Minute || len(w.Growth) != 500/8+1 || w.Growth[0] != 8 || w.Growth[62] != 4+7 {
		t.Errorf("growth of %v: %v", w.Slot, w.Growth)
	}
	sum := uint64(0)
	for _, n := range w.Growth {
		sum += n
	}
	if sum != w.Messages {
		t.Errorf("the curve has %d messages of %d", sum, w.Messages)
	}
	if e, ok, err := b.Get(w.Entry); !ok || err != nil || e.Account != "ann" || len(e.Signatures()) != 3 {
		t.Errorf("the wave is represented by %+v, %v, %v", e, ok, err)
	}
	if again, ok, err := b.Wave(t.Context(), time.Hour, w.ID); !ok || err != nil || !reflect.DeepEqual(again, w) {
		t.Errorf("by its ID the wave is %+v, %v, want %+v", again, ok, w)
	}
	if _, ok, err := b.Wave(t.Context(), time.Hour, w.ID+1); ok || err != nil {
		t.Error("there is a wave that nobody began")
	}
	c.now = w.Last.Add(31 * 24 * time.Hour)
	if all := wavesOf(t, b); len(all) != 0 {
		t.Errorf("old waves %+v", all)
	}
}

// TestWaveBounds: different messages never take more memory than the limits allow, and an active
// wave is not forgotten among them.
func TestWaveBounds(t *testing.T) {
	c := newClock()
	b := open(t, filepath.Join(t.TempDir(), "history.db"), c, 1<<28, 24*time.Hour)
	n := 3 * maxSingles
	for i := range n {
		c.now = c.now.Add(time.Second)
		put(b, c.now, Entry{Kind: Checked, Door: "http"}, []bulkhead.Signature{exact(i), band(0, i), band(1, i)})
		if i%1000 == 0 { // a new text each time, and two bands of the first
			put(b, c.now.Add(time.Millisecond), Entry{Kind: Checked, Door: "http"},
				[]bulkhead.Signature{exact(1e6 + i), band(0, 1e6), band(1, 1e6)})
		}
		if i%1024 == 0 {
			b.Flush()
		}
	}
	all := wavesOf(t, b)
	if len(all) != 1 || all[0].Messages != uint64(n/1000+1) {
		t.Errorf("waves %+v", all)
	}
	w := b.waves
	if w.singles.Len() != maxSingles || len(w.keys) != 3*maxSingles+min(maxKeys, n/1000+3) {
		t.Errorf("%d entries with %d keys are held", w.singles.Len(), len(w.keys))
	}
	for i := range 2 * maxWaves { // pairs
		for j := range 2 {
			c.now = c.now.Add(time.Second)
			put(b, c.now, Entry{Kind: Checked, Door: "http"}, []bulkhead.Signature{exact(2e6 + i), exact(3e6 + 2*i + j)})
		}
		if i%1024 == 0 {
			b.Flush()
		}
	}
	if all := wavesOf(t, b); len(all) != maxWaves || all[0].Messages != 2 {
		t.Errorf("%d waves, the first %+v", len(all), all[0])
	}
	for e := w.groups.Front(); e != nil; e = e.Next() {
		for _, k := range e.Value.(*wave).keys {
			if w.keys[k] != e.Value {
				t.Fatal("a key is not its wave's")
			}
		}
	}
}

// TestFollows: Run reads the entries by itself, while other goroutines query.
func TestFollows(t *testing.T) {
	c := newClock()
	b, err := Open(filepath.Join(t.TempDir(), "history.db"),
		Options{MaxBytes: MinBytes, MaxAge: time.Hour, Every: time.Millisecond, Now: func() time.Time {
			return c.now
		}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- b.Run(ctx) }()
	for i := range 10 {
		put(b, c.now.Add(time.Duration(i)*time.Millisecond), Entry{Kind: Checked, Door: "http"},
			[]bulkhead.Signature{exact(1)})
	}
	await.True(t, "the entries are read", func() bool {
		all := b.waves.snapshot(0).Waves
		return len(all) == 1 && all[0].Messages == 10
	})
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}

// TestEarly: after a start the waves are made of the latest entries alone, and once all entries
// were read, of all entries, as if these had been read in order. A wave is found by any of its
// entries, before and after.
func TestEarly(t *testing.T) {
	path, c, r := filepath.Join(t.TempDir(), "history.db"), newClock(), rand.New(rand.NewPCG(5, 6))
	b := open(t, path, c, 1<<28, 24*time.Hour)
	const entries, late = 3000, 500
	visit := func(b *Book) {
		c.now = c.now.Add(time.Second)
		text := 100 + r.IntN(1e6)
		if r.IntN(4) == 0 {
			text = r.IntN(20)
		}
		put(b, c.now, Entry{Kind: Checked, Door: "http"}, []bulkhead.Signature{exact(text), band(0, text), band(1, text)})
	}
	for range entries {
		visit(b)
	}
	want := wavesOf(t, b)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	b = open(t, path, c, 1<<28, 24*time.Hour)
	b.newest = late
	if err := b.beginEarly(); err != nil {
		t.Fatal(err)
	}
	visit(b) // while it reads
	got, err := b.Waves(t.Context(), time.Hour)
	if err != nil || got.Whole || !got.Since.Equal(newClock().now.Add((entries-late+2)*time.Second)) ||
		!got.Upto.Equal(c.now) {
		t.Fatalf("whole %v, since %v, up to %v, %v", got.Whole, got.Since, got.Upto, err)
	}
	messages := func(all []Wave) (n uint64) {
		for i := range all {
			n += all[i].Messages
		}
		return n
	}
	if n := messages(got.Waves); n < late/8 || n > late || len(got.Waves) < 20 {
		t.Errorf("%d waves of %d messages among the latest %d", len(got.Waves), n, late)
	}
	early := got.Waves[0]
	for {
		unread, err := b.followStep()
		if err != nil {
			t.Fatal(err)
		}
		if !unread {
			break
		}
	}
	all := wavesOf(t, b)
	if len(all) != len(want) || messages(all)-messages(want) > 1 || len(want) < 20 {
		t.Errorf("%d waves of %d messages, want %d of %d", len(all), messages(all), len(want), messages(want))
	}
	for i := range want {
		found, ok, err := b.Wave(t.Context(), time.Hour, want[i].ID)
		if err != nil || !ok || !found.First.Equal(want[i].First) || found.Messages < want[i].Messages {
			t.Errorf("the wave of %v is %+v, %v, %v", want[i].First, found, ok, err)
		}
	}
	found, ok, err := b.Wave(t.Context(), time.Hour, early.ID)
	if err != nil || !ok || !found.First.Before(early.First) || found.Messages <= early.Messages {
		t.Errorf("the wave with the ID from before is %+v, %v, %v, want more than %+v", found, ok, err, early)
	}
}

var benchRows = flag.Int("rows", 20_000, "entries of the history in BenchmarkPages")

// BenchmarkPages makes the pages of a history of n entries, a tenth of which belong to 500
// campaigns: the first page, searches for a rare, a common and an absent term, and the waves.
// Reading all entries for the waves, which happens once in the background, is measured apart.
func BenchmarkPages(b *testing.B) {
	c := newClock()
	o := Options{MaxBytes: 8 << 30, MaxAge: 30 * 24 * time.Hour, Now: func() time.Time { return c.now }}
	path := filepath.Join(b.TempDir(), "history.db")
	book, err := Open(path, o)
	if err != nil {
		b.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 1))
	for i := range *benchRows {
		c.now = c.now.Add(time.Second)
		text := 1_000_000 + i
		if r.IntN(10) == 0 {
			text = r.IntN(500)
		}
		sigs := []bulkhead.Signature{exact(text),
			bulkhead.NamedSignature(bulkhead.Sender, fmt.Sprintf("%d@example.com", text))}
		for n := range 20 {
			sigs = append(sigs, bulkhead.MustSignature(bulkhead.Near,
				append([]byte{byte(n), byte(text), byte(text >> 8), byte(text >> 16)}, make([]byte, 12)...)))
		}
		for n := range 20 {
			sigs = append(sigs, bulkhead.MustSignature(bulkhead.RspamdShingle,
				[]byte{byte(n), byte(text), byte(text >> 8), byte(text >> 16), 5, 6, 7, 8}))
		}
		put(book, c.now, Entry{Kind: Checked, Door: "milter", From: fmt.Sprintf("%d.example.com", text),
			Domains: []string{fmt.Sprintf("shop%d.example.net", text)}, Reasons: []string{"seen by few"}}, sigs)
		if i%2048 == 0 {
			book.Flush()
		}
	}
	if err := book.Close(); err != nil {
		b.Fatal(err)
	}
	if book, err = Open(path, o); err != nil {
		b.Fatal(err)
	}
	defer book.Close()
	b.Run("read", func(b *testing.B) {
		b.ReportMetric(float64(book.State().Bytes), "bytes")
		for b.Loop() {
			book.waves = newWaves(&book.o)
			if n := len(wavesOf(b, book)); n == 0 {
				b.Fatal("no waves")
			}
		}
	})
	b.Run("first", func(b *testing.B) { // until the waves can be shown after a start
		for b.Loop() {
			if err := book.beginEarly(); err != nil {
				b.Fatal(err)
			}
			if all, err := book.Waves(b.Context(), time.Hour); err != nil || len(all.Waves) == 0 {
				b.Fatalf("%d waves, %v", len(all.Waves), err)
			}
			book.early.Store(nil)
		}
	})
	rare := exact(7)
	for name, q := range map[string]Query{
		"latest":    {},
		"domain":    {Domain: "7.example.com"},
		"signature": {Signature: &rare},
		"door":      {Door: "milter"},
		"none":      {Domain: "nobody.example.org"},
		"middle":    {Before: uint64(c.now.Add(-time.Duration(*benchRows/2) * time.Second).UnixMicro())},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := book.Search(b.Context(), q); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("waves", func(b *testing.B) {
		for b.Loop() {
			if _, err := book.Waves(b.Context(), time.Second); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// TestPosts checks which waves are a mailing list's posts and no campaign: every message has a List-Id,
// and none was reported or called spam.
func TestPosts(t *testing.T) {
	for name, tt := range map[string]struct {
		entries []Entry
		post    bool
	}{
		"posts":            {[]Entry{{Post: true}, {Post: true}}, true},
		"wanted posts":     {[]Entry{{Post: true}, {Kind: CalledHam}, {Post: true, Kind: Sighted, Count: 3}}, true},
		"one without":      {[]Entry{{Post: true}, {}}, false},
		"one seen without": {[]Entry{{Post: true}, {Kind: Sighted, Count: 1}}, false},
		"reported":         {[]Entry{{Post: true}, {Post: true, Kind: CalledSpam}}, false},
		"called spam":      {[]Entry{{Post: true}, {Post: true, Class: bulkhead.ClassSpam}}, false},
		"suspected":        {[]Entry{{Post: true}, {Post: true, Class: bulkhead.ClassSuspected}, {Post: true}}, false},
		"none":             {[]Entry{{}, {}}, false},
	} {
		c := newClock()
		b := open(t, filepath.Join(t.TempDir(), "history.db"), c, 64<<20, time.Hour)
		for i, e := range tt.entries {
			put(b, c.now.Add(time.Duration(i)*time.Second), e,
				[]bulkhead.Signature{exact(i), band(1, 1), band(2, 2), band(3, 3)})
		}
		b.Flush()
		c.now = c.now.Add(time.Minute)
		if all := wavesOf(t, b); len(all) != 1 || all[0].Post() != tt.post {
			t.Errorf("%s: %+v, want one wave of posts %v", name, all, tt.post)
		}
	}
}
