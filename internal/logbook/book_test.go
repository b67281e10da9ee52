package logbook

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/bulkheadtest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/prototest"
)

// TestCodes: every scheme has a number in the file, and no two share one.
func TestCodes(t *testing.T) {
	for _, s := range bulkhead.Schemes() {
		if c := codeOf(s); c == 0 || codes[c] != s {
			t.Errorf("%v has the number %d, which is of %v", s, c, codes[c])
		}
	}
	if len(codes) != len(bulkhead.Schemes())+1 {
		t.Errorf("%d numbers for %d schemes", len(codes)-1, len(bulkhead.Schemes()))
	}
}

// A testClock is a clock that a test sets.
type testClock struct{ now time.Time }

func newClock() *testClock { return &testClock{time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)} }

func open(t testing.TB, path string, c *testClock, maxBytes int64, age time.Duration) *Book {
	t.Helper()
	b, err := Open(path, Options{MaxBytes: maxBytes, MaxAge: age, Subjects: true, Now: func() time.Time { return c.now }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

func oneOf(r *rand.Rand, words ...string) string { return words[r.IntN(len(words))] }

// visit makes one check or report, with values from a small set so that searches find matches.
func visit(t testing.TB, b *Book, r *rand.Rand) {
	t.Helper()
	tally := prototest.NewTally(3)
	h := NewHouse(bulkhead.CounterOf(tally), b, oneOf(r, "http", "milter", "pyzor"))
	domain := oneOf(r, "example.com", "news.example.com", "example.org")
	sigs := []bulkhead.Signature{
		bulkhead.MustSignature(bulkhead.Exact, []byte{1, byte(r.IntN(60))}),
		bulkhead.NamedSignature(bulkhead.Link, oneOf(r, "shop.example.net/x", "example.net", "example.edu")),
	}
	who := bulkhead.Reporter{Account: oneOf(r, "", "ann", "bob"),
		Addr: netip.MustParseAddr(oneOf(r, "127.0.0.1", "192.0.2.7"))}
	source := bulkhead.Source{From: "someone@" + domain, MessageID: fmt.Sprintf("%d@%s", r.IntN(60), domain),
		Subject: "offer"}
	var err error
	if r.IntN(3) > 0 {
		_, err = h.Check(context.Background(), bulkhead.Query{Signatures: sigs, Source: source, Reporter: who})
	} else {
		_, err = h.Report(context.Background(), bulkhead.Report{Signatures: sigs, Source: source, Reporter: who,
			Vote: bulkhead.Vote(1 + r.IntN(3)), Trap: r.IntN(3) == 0})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// all returns every entry by pages of one size, as a client would.
func all(t testing.TB, b *Book, q Query) (entries []Entry) {
	t.Helper()
	for {
		page, err := b.Search(context.Background(), q)
		if err != nil {
			t.Fatal(err)
		}
		if page.Read > maxRead {
			t.Fatalf("%d entries were read for a page", page.Read)
		}
		entries = append(entries, page.Entries...)
		if page.Next == 0 {
			return entries
		}
		if q.Before != 0 && page.Next >= q.Before {
			t.Fatalf("the next page begins at %d, after %d", page.Next, q.Before)
		}
		q.Before = page.Next
	}
}

// TestSearch compares the results, order and pages of every search with a search through a plain
// list, before and after the file is closed and opened again.
func TestSearch(t *testing.T) {
	path, c, r := filepath.Join(t.TempDir(), "history.db"), newClock(), rand.New(rand.NewPCG(1, 2))
	b := open(t, path, c, 64<<20, time.Hour)
	for range 30 {
		for range r.IntN(120) {
			c.now = c.now.Add(time.Duration(r.IntN(3)) * time.Millisecond)
			visit(t, b, r)
		}
		b.Flush()
	}
	var list []Entry // the oracle
	if err := b.Latest(1<<20, func(e *Entry) {
		own := *e
		own.packed = bytes.Clone(e.packed)
		list = append(list, own)
	}); err != nil {
		t.Fatal(err)
	}
	slices.Reverse(list)
	if int64(len(list)) != b.Stats.Written.Load() || int64(len(list)) != b.State().Entries || len(list) < 3*blockRows {
		t.Fatalf("%d entries, %d were written, %d are said to be there", len(list), b.Stats.Written.Load(), b.State().Entries)
	}
	for _, again := range []bool{false, true} {
		if again {
			if err := b.Close(); err != nil {
				t.Fatal(err)
			}
			b = open(t, path, c, 64<<20, time.Hour)
			if got := b.State().Entries; got != int64(len(list)) {
				t.Errorf("opened again it has %d entries, want %d", got, len(list))
			}
		}
		for range 150 {
			q, want := query(b, r, list)
			got := all(t, b, q)
			if !slices.EqualFunc(got, want, func(x, y Entry) bool { return reflect.DeepEqual(x, y) }) {
				t.Fatalf("%+v: %d entries, want %d", q, len(got), len(want))
			}
		}
	}
}

// query returns a random query, and its matches in a plain list.
func query(b *Book, r *rand.Rand, list []Entry) (q Query, want []Entry) {
	keep := func(ok func(e *Entry) bool) {
		want = slices.DeleteFunc(want, func(e Entry) bool { return !ok(&e) })
	}
	want = slices.Clone(list)
	q.Limit = 1 + r.IntN(80)
	like := &list[r.IntN(len(list))]
	maybe := func() bool { return r.IntN(4) == 0 }
	if maybe() {
		q.Door = like.Door
		keep(func(e *Entry) bool { return e.Door == like.Door })
	}
	if maybe() {
		q.Kind = &like.Kind
		keep(func(e *Entry) bool { return e.Kind == like.Kind })
	}
	if maybe() {
		class := bulkhead.Class(r.IntN(int(bulkhead.NumClasses)))
		q.Class = &class
		keep(func(e *Entry) bool { return e.Kind == Checked && e.Class == class })
	}
	if maybe() {
		q.Reporter = "ann"
		keep(func(e *Entry) bool { return e.Account == "ann" })
	}
	if maybe() {
		q.Domain = "Example.com"
		keep(func(e *Entry) bool { return e.From == "example.com" || e.From == "news.example.com" })
	} else if maybe() {
		q.Domain = "example.net"
		keep(func(e *Entry) bool {
			return slices.Contains(e.Domains, "example.net") || slices.Contains(e.Domains, "shop.example.net")
		})
	}
	if maybe() {
		q.From = "example.com"
		keep(func(e *Entry) bool { return e.From == "example.com" || e.From == "news.example.com" })
	}
	if maybe() {
		q.Link = "example.net"
		keep(func(e *Entry) bool {
			return slices.Contains(e.Domains, "example.net") || slices.Contains(e.Domains, "shop.example.net")
		})
	}
	if maybe() {
		q.Message = b.MessageID(" <7@example.com> ")
		keep(func(e *Entry) bool { return e.Message == b.MessageID("7@example.com") })
	}
	if maybe() {
		sig := like.Signatures()[0]
		q.Signature = &sig
		keep(func(e *Entry) bool { return slices.Contains(e.Signatures(), sig) })
	}
	switch r.IntN(8) {
	case 0:
		q.Outcome = Caught
		keep(func(e *Entry) bool {
			return e.Kind == Checked && slices.Contains([]string{"spam", "suspected"}, e.Class.String())
		})
	case 1:
		q.Outcome = Reported
		keep(func(e *Entry) bool { return e.Kind.String() == "spam" && !e.Trap })
	case 2:
		q.Outcome = Complained
		keep(func(e *Entry) bool { return e.Kind.String() == "ham" || e.Kind.String() == "revoke" })
	}
	if maybe() {
		q.Since = like.Time()
		keep(func(e *Entry) bool { return !e.Time().Before(q.Since) })
	}
	if maybe() {
		q.Until = list[r.IntN(len(list))].Time()
		keep(func(e *Entry) bool { return e.Time().Before(q.Until) })
	}
	return q, want
}

// TestBounds: the file stays within its size while entries arrive, the oldest are dropped first,
// and all others are complete.
func TestBounds(t *testing.T) {
	path, c, r := filepath.Join(t.TempDir(), "history.db"), newClock(), rand.New(rand.NewPCG(3, 4))
	b := open(t, path, c, MinBytes, time.Hour)
	h := NewHouse(bulkhead.CounterOf(prototest.NewTally(3)), b, "http")
	for i := range 12_000 {
		c.now = c.now.Add(time.Millisecond)
		var sigs []bulkhead.Signature
		for range 30 {
			var sum [20]byte
			for j := range sum {
				sum[j] = byte(r.Uint32())
			}
			sigs = append(sigs, bulkhead.MustSignature(bulkhead.Near, sum[:]))
		}
		if _, err := h.Check(t.Context(), bulkhead.Query{Signatures: sigs,
			Reporter: bulkhead.Reporter{Account: "ann"}}); err != nil {
			t.Fatal(err)
		}
		if i%100 == 99 {
			b.Flush()
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			if info.Size() > MinBytes+growth {
				t.Fatalf("after %d entries the file has %d bytes, want at most %d", i+1, info.Size(), MinBytes+growth)
			}
		}
	}
	if lost := b.Stats.Lost.Load() + b.Stats.Failed.Load(); lost != 0 {
		t.Errorf("%d entries lost", lost)
	}
	left := all(t, b, Query{Limit: MaxPage})
	if got := b.State().Entries; got != int64(len(left)) || len(left) < 1000 || len(left) == 12_000 {
		t.Fatalf("%d entries are left, and %d are said to be", len(left), got)
	}
	for i := range left {
		if want := c.now.Add(-time.Duration(i) * time.Millisecond); !left[i].Time().Equal(want) {
			t.Fatalf("entry %d from the end is of %v, want %v", i, left[i].Time(), want)
		}
	}
}

// TestAge: entries that are too old are not shown, and are dropped even while no entries arrive.
func TestAge(t *testing.T) {
	c, r := newClock(), rand.New(rand.NewPCG(5, 6))
	b := open(t, filepath.Join(t.TempDir(), "history.db"), c, 16<<20, time.Hour)
	for range 2 * blockRows {
		c.now = c.now.Add(time.Millisecond)
		visit(t, b, r)
	}
	b.Flush()
	c.now = c.now.Add(30 * time.Minute)
	visit(t, b, r)
	b.Flush()
	c.now = c.now.Add(45 * time.Minute)
	if got := all(t, b, Query{}); len(got) != 1 {
		t.Errorf("%d entries are young enough, want 1", len(got))
	}
	b.Flush()
	if got := b.State(); got.Entries != 1 || c.now.Sub(got.Oldest) > time.Hour {
		t.Errorf("%d entries are left, the oldest of %v", got.Entries, got.Oldest)
	}
	c.now = c.now.Add(time.Hour)
	b.Flush()
	if got := b.State(); got.Entries != 0 || !got.Oldest.IsZero() {
		t.Errorf("%d entries are left when all are too old", got.Entries)
	}
	visit(t, b, r)
	if got := all(t, b, Query{}); len(got) != 1 {
		t.Errorf("%d entries after that, want 1", len(got))
	}
}

// TestQueue: a full queue loses entries, counts them, and keeps a place for votes.
func TestQueue(t *testing.T) {
	c := newClock()
	b := open(t, filepath.Join(t.TempDir(), "history.db"), c, 256<<20, time.Hour)
	h := NewHouse(bulkhead.CounterOf(prototest.NewTally(3)), b, "http")
	sigs := []bulkhead.Signature{bulkhead.MustSignature(bulkhead.Exact, []byte("text"))}
	for range maxNotes + 100 {
		if _, err := h.Check(t.Context(), bulkhead.Query{Signatures: sigs}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := h.Report(t.Context(), bulkhead.Report{Signatures: sigs, Vote: bulkhead.Spam}); err != nil {
		t.Fatal(err)
	}
	b.Flush()
	if lost, written := b.Stats.Lost.Load(), b.Stats.Written.Load(); lost != 100 || written != maxNotes+1 {
		t.Errorf("%d lost and %d written, want 100 and %d", lost, written, maxNotes+1)
	}
}

// TestSightingFollows: the sighting that a door reports right after its check is no entry
// of its own.
func TestSightingFollows(t *testing.T) {
	c := newClock()
	b := open(t, filepath.Join(t.TempDir(), "history.db"), c, 16<<20, time.Hour)
	h := NewHouse(bulkhead.CounterOf(prototest.NewTally(3)), b, "milter")
	one, two := []bulkhead.Signature{bulkhead.MustSignature(bulkhead.Exact, []byte("1"))},
		[]bulkhead.Signature{bulkhead.MustSignature(bulkhead.Exact, []byte("2"))}
	if _, err := h.Check(t.Context(), bulkhead.Query{Signatures: one}); err != nil {
		t.Fatal(err)
	}
	for _, sigs := range [][]bulkhead.Signature{one, two} {
		if _, err := h.Report(t.Context(), bulkhead.Report{Signatures: sigs, Vote: bulkhead.Sighting, Count: 3}); err != nil {
			t.Fatal(err)
		}
	}
	got := all(t, b, Query{})
	if len(got) != 2 || got[1].Kind != Checked || got[1].Count != 3 || got[0].Kind != Sighted || got[0].Count != 3 {
		t.Errorf("entries are %+v", got)
	}
}

// TestDamage: a damaged file is set aside, and the book goes on with an empty one.
func TestDamage(t *testing.T) {
	for name, damage := range map[string]func([]byte) []byte{
		"empty pages": func(b []byte) []byte { clear(b[2*pageSize:]); return b },
		"cut short":   func(b []byte) []byte { return b[:pageSize+100] },
		"text":        func([]byte) []byte { return bytes.Repeat([]byte("no database\n"), 5000) },
	} {
		t.Run(name, func(t *testing.T) {
			path, c, r := filepath.Join(t.TempDir(), "history.db"), newClock(), rand.New(rand.NewPCG(7, 8))
			b := open(t, path, c, 16<<20, time.Hour)
			for range 600 {
				visit(t, b, r)
			}
			if err := b.Close(); err != nil {
				t.Fatal(err)
			}
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, damage(data), 0o600); err != nil {
				t.Fatal(err)
			}
			b = open(t, path, c, 16<<20, time.Hour)
			visit(t, b, r)
			if got := all(t, b, Query{}); len(got) != 1 || b.Stats.Aside.Load() != 1 {
				t.Errorf("%d entries, %d files set aside, want 1 and 1", len(got), b.Stats.Aside.Load())
			}
			if _, err := os.Stat(path + ".damaged"); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestFlippedBit: only a row whose bytes have changed is left out.
func TestFlippedBit(t *testing.T) {
	c, r := newClock(), rand.New(rand.NewPCG(9, 10))
	b := open(t, filepath.Join(t.TempDir(), "history.db"), c, 16<<20, time.Hour)
	for range 10 {
		visit(t, b, r)
	}
	b.Flush()
	if err := b.db.Update(func(tx *bbolt.Tx) error {
		rows := tx.Bucket(rowsBucket)
		k, v := rows.Cursor().First()
		v = bytes.Clone(v)
		v[20] ^= 4
		return rows.Put(bytes.Clone(k), v)
	}); err != nil {
		t.Fatal(err)
	}
	if got := all(t, b, Query{}); len(got) != 9 || b.Stats.Damaged.Load() != 1 {
		t.Errorf("%d entries, %d damaged, want 9 and 1", len(got), b.Stats.Damaged.Load())
	}
}

// TestNoPlace: if no file can be created, doors go on, and the losses are counted.
func TestNoPlace(t *testing.T) {
	c := newClock()
	b := open(t, filepath.Join(t.TempDir(), "absent", "history.db"), c, 16<<20, time.Hour)
	visit(t, b, rand.New(rand.NewPCG(11, 12)))
	b.Flush()
	if got := b.Stats.Failed.Load(); got != 1 {
		t.Errorf("%d entries counted as lost, want 1", got)
	}
	if _, err := b.Search(t.Context(), Query{}); err == nil {
		t.Error("a search without a file succeeds")
	}
}

// TestKilled: a process is killed while it writes. The flushed entries are there, in order.
func TestKilled(t *testing.T) {
	if path := os.Getenv("LOGBOOK_KILLED"); path != "" {
		c := &testClock{time.Now()}
		b, r := open(t, path, c, 16<<20, time.Hour), rand.New(rand.NewPCG(13, 14))
		for {
			c.now = c.now.Add(time.Microsecond)
			visit(t, b, r)
			if r.IntN(20) == 0 {
				b.Flush()
				fmt.Println(b.Stats.Written.Load())
			}
		}
	}
	path := filepath.Join(t.TempDir(), "history.db")
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilled$")
	cmd.Env = append(os.Environ(), "LOGBOOK_KILLED="+path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	acknowledged, n := int64(0), int64(0)
	for acknowledged < 700 {
		if _, err := fmt.Fscan(out, &n); err != nil {
			t.Fatal(err)
		}
		acknowledged = n
	}
	cmd.Process.Kill()
	cmd.Wait()
	b := open(t, path, &testClock{time.Now()}, 16<<20, time.Hour)
	got := all(t, b, Query{Limit: MaxPage})
	if int64(len(got)) < acknowledged || b.State().Entries != int64(len(got)) || b.Stats.Aside.Load() != 0 ||
		b.Stats.Damaged.Load() != 0 {
		t.Errorf("%d entries of at least %d, %d counted, %d damaged", len(got), acknowledged, b.State().Entries,
			b.Stats.Damaged.Load())
	}
}

// TestClearinghouse: a clearinghouse with a book in front still behaves as one.
func TestClearinghouse(t *testing.T) {
	white := bulkhead.MustSignature(bulkhead.Exact, []byte("white"))
	bulkheadtest.Suite{White: white, Open: func(tb testing.TB) bulkhead.Clearinghouse {
		tally := prototest.NewTally(3)
		tally.White = map[bulkhead.Signature]bool{white: true}
		return NewHouse(bulkhead.CounterOf(tally),
			open(tb, filepath.Join(tb.TempDir(), "history.db"), newClock(), 16<<20, time.Hour), "http")
	}}.Run(t)
}

// FuzzDecode: no bytes make the decoder of entries panic, and accepted bytes are encoded the same
// way again.
func FuzzDecode(f *testing.F) {
	e := Entry{Door: "http", Kind: CalledSpam, Reasons: []string{"seen"}, Domains: []string{"example.com"},
		Subject: "offer", Count: 3}
	e.packed = pack([]bulkhead.Signature{bulkhead.MustSignature(bulkhead.Exact, []byte("text"))})
	whole := e.encode()
	f.Add(whole[:len(whole)-4])
	f.Add([]byte{version, 0, 0, 0, 0})
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, body []byte) {
		decode(1, body)
		e, err := decodeBody(1, body)
		if err != nil {
			return
		}
		again, err := decode(1, e.encode())
		if err != nil || !reflect.DeepEqual(e, again) {
			t.Fatalf("%+v is read back as %+v, %v", e, again, err)
		}
	})
}

// FuzzBlock: no stored block makes a look-up read outside its bytes.
func FuzzBlock(f *testing.F) {
	f.Add((&block{first: 1, last: 2, rows: 2}).encode())
	f.Add([]byte{version})
	f.Fuzz(func(t *testing.T, data []byte) {
		if b, err := readBlock(keyOf(1), data); err == nil {
			b.holds([]uint64{0, 1, 1 << 63, ^uint64(0)})
		}
	})
}

// TestInspect: an intact file passes, open or not, and a file with a changed page does not.
func TestInspect(t *testing.T) {
	path, c, r := filepath.Join(t.TempDir(), "history.db"), newClock(), rand.New(rand.NewPCG(15, 16))
	b := open(t, path, c, 16<<20, time.Hour)
	for range 600 {
		visit(t, b, r)
	}
	b.Flush()
	if err := Inspect(path); err != nil {
		t.Errorf("while it is open: %v", err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if err := Inspect(path); err != nil {
		t.Errorf("a right file: %v", err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	clear(data[2*pageSize:])
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Inspect(path); err == nil {
		t.Error("a file without its pages is right")
	}
}

// BenchmarkCheck compares a check without a history, with one that notes it, and with one
// whose queue is full. The machine's load moves all three: only ratios of runs in turn
// (-count) say something.
func BenchmarkCheck(b *testing.B) {
	var sigs []bulkhead.Signature
	for i := range 50 {
		sigs = append(sigs, bulkhead.MustSignature(bulkhead.Near,
			[]byte{byte(i), 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19}))
	}
	book := open(b, filepath.Join(b.TempDir(), "history.db"), newClock(), 1<<30, time.Hour)
	plain := bulkhead.CounterOf(prototest.NewTally(3))
	noting := NewHouse(plain, book, "http")
	run := func(b *testing.B, house bulkhead.Counter, empty bool) {
		n := 0
		for b.Loop() {
			if n++; empty && n%(maxNotes/2) == 0 { // as Run does, in its own time
				b.StopTimer()
				book.take()
				b.StartTimer()
			}
			if _, err := house.Check(b.Context(), bulkhead.Query{Signatures: sigs}); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Run("without", func(b *testing.B) { run(b, plain, false) })
	b.Run("noted", func(b *testing.B) {
		lost := book.Stats.Lost.Load()
		run(b, noting, true)
		if book.take(); book.Stats.Lost.Load() != lost {
			b.Fatal("the queue was full")
		}
	})
	b.Run("full", func(b *testing.B) { run(b, noting, false) })
	book.take()
}
