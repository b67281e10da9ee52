package learned

import (
	"bytes"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/learn"
)

var secret = filter.Secret{4}

// A plain is the oracle of a book: it counts in maps and forgets nothing.
type plain struct {
	reported, delivered, seen map[learn.Token]bool // texts
	tokens                    map[learn.Token]learn.Counts
	totals                    learn.Counts
}

func newPlain() *plain {
	return &plain{reported: make(map[learn.Token]bool), delivered: make(map[learn.Token]bool),
		seen:   make(map[learn.Token]bool),
		tokens: make(map[learn.Token]learn.Counts)}
}

func (p *plain) add(tokens []learn.Token, reported, delivered float64) {
	for _, t := range tokens {
		c := p.tokens[t]
		p.tokens[t] = learn.Counts{Reported: c.Reported + reported, Delivered: c.Delivered + delivered}
	}
	p.totals.Reported += reported
	p.totals.Delivered += delivered
}

func (p *plain) act(what What, text learn.Token, tokens []learn.Token) {
	switch {
	case what == Delivered && !p.delivered[text]:
		p.delivered[text] = true
		p.add(tokens, 0, 1)
	case what == Reported && !p.reported[text]:
		p.reported[text] = true
		p.add(tokens, 1, 0)
		if !p.seen[text] && !p.delivered[text] {
			p.delivered[text] = true
			p.add(tokens, 0, 1)
		}
	case what == Withdrawn && p.reported[text]:
		p.reported[text] = false
		p.add(tokens, -1, 0)
	}
	if what != Withdrawn {
		p.seen[text] = true
	}
}

// A message of the tests has the tokens of a few words.
func messageOf(n int) (learn.Token, []learn.Token) {
	var features []string
	for i := range 3 + n%5 {
		features = append(features, fmt.Sprint("w:", (n*7+i*i)%40))
	}
	return learn.Of(secret, fmt.Sprint("text ", n)), learn.Tokens(secret, features)
}

func act(b *Book, what What, text learn.Token, tokens []learn.Token) {
	switch what {
	case Delivered:
		b.Deliver(text, tokens, 0)
	case Reported:
		b.Report(text, tokens, 0)
	case Withdrawn:
		b.Withdraw(text, tokens)
	case Seen:
		b.Remember(text, tokens)
	}
}

// same reports whether two books answer alike.
func same(t interface{ Fatalf(string, ...any) }, name string, a, b *Book) {
	for n := range 60 {
		_, tokens := messageOf(n)
		if x, y := a.Counts(tokens, secret.ID()), b.Counts(tokens, secret.ID()); !slices.Equal(x, y) {
			t.Fatalf("%s: %v and %v", name, x, y)
		}
	}
	if x, y := a.State(), b.State(); x != y {
		t.Fatalf("%s: %+v and %+v", name, x, y)
	}
	if !bytes.Equal(a.Messages().Encode(), b.Messages().Encode()) {
		t.Fatalf("%s: other messages", name)
	}
}

// TestOracle compares random deliveries, reports and withdrawals, in batches, with plain maps. It
// replays the journal into an empty book, and the end of the journal into a checkpoint.
func TestOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b, replayed := New(Options{Bytes: 1 << 20}), New(Options{Bytes: 1 << 20})
		oracle := newPlain()
		var journal [][]byte
		index := uint64(0)
		checkpointAt, checkpoint := rapid.IntRange(0, 10).Draw(t, "checkpoint"), New(Options{Bytes: 1 << 20})
		for batch := range rapid.IntRange(1, 12).Draw(t, "batches") {
			if batch == checkpointAt {
				restore(t, b, checkpoint)
			}
			var out Changes
			b.Begin(&out, 1_700_000_000, secret.ID())
			for range rapid.IntRange(1, 12).Draw(t, "reports") {
				text, tokens := messageOf(rapid.IntRange(0, 20).Draw(t, "message"))
				what := What(rapid.IntRange(int(Reported), int(Seen)).Draw(t, "what"))
				act(b, what, text, tokens)
				oracle.act(what, text, tokens)
			}
			index++
			entry := out.Append(nil)
			journal = append(journal, entry)
			apply(t, b, index, entry)
			if batch >= checkpointAt {
				apply(t, checkpoint, index, entry)
			}
		}
		for n := range 21 {
			_, tokens := messageOf(n)
			for i, c := range b.Counts(tokens, secret.ID()) {
				if c != oracle.tokens[tokens[i]] {
					t.Fatalf("token %d of message %d: %v, want %v", i, n, c, oracle.tokens[tokens[i]])
				}
			}
		}
		if s := b.State(); float64(s.Reported) != oracle.totals.Reported || float64(s.Delivered) != oracle.totals.Delivered {
			t.Fatalf("state %+v, want %v", s, oracle.totals)
		}
		for i, entry := range journal {
			apply(t, replayed, uint64(i+1), entry)
		}
		same(t, "replayed", b, replayed)
		if checkpointAt < len(journal) {
			same(t, "from a checkpoint", b, checkpoint)
		}
		for i, entry := range journal { // a second replay changes nothing
			c, _, _ := ReadChanges(entry)
			if err := b.Apply(uint64(i+1), &c, true); err != nil {
				t.Fatal(err)
			}
		}
		same(t, "replayed twice", b, replayed)
	})
}

func apply(t *rapid.T, b *Book, index uint64, entry []byte) {
	c, rest, err := ReadChanges(entry)
	if err != nil || len(rest) > 0 {
		t.Fatalf("entry: %v, %d bytes left", err, len(rest))
	}
	if err := b.Apply(index, &c, false); err != nil {
		t.Fatal(err)
	}
}

// restore makes to what a checkpoint of b would restore.
func restore(t *rapid.T, b, to *Book) {
	if err := to.Restore(b.Manifest()); err != nil {
		t.Fatal(err)
	}
	for i, g := range b.Live() {
		for page := range g.Geometry.Pages() {
			if _, err := to.Live()[i].Counts.LoadPage(g.Counts.AppendPage(nil, page)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := to.DecodeMessages(b.Messages().Encode()); err != nil {
		t.Fatal(err)
	}
}

// TestGenerations checks that full generations are followed by others, that the oldest are dropped, and
// that a report is taken back in the generation that has it.
func TestGenerations(t *testing.T) {
	b := New(Options{Bytes: 1 << 20, MessagesEach: 10})
	index := uint64(0)
	step := func(what What, n int) {
		var out Changes
		b.Begin(&out, 1_700_000_000, secret.ID())
		text, tokens := messageOf(n)
		act(b, what, text, tokens)
		index++
		if err := b.Apply(index, &out, false); err != nil {
			t.Fatal(err)
		}
	}
	step(Reported, 1000)
	for n := range 15 {
		step(Delivered, n)
	}
	first := b.Live()[len(b.Live())-1]
	if step(Withdrawn, 1000); first.withdrawn.Load() != 1 || len(b.Live()) != 2 {
		t.Errorf("%d withdrawn of the first of %d generations", first.withdrawn.Load(), len(b.Live()))
	}
	for n := range 100 {
		step(Delivered, 2000+n)
	}
	live := b.Live()
	starts := make(map[uint64]bool)
	for _, g := range live {
		starts[g.Start] = true
		if g.delivered.Load() > 10 {
			t.Errorf("%d messages in a generation", g.delivered.Load())
		}
	}
	if len(live) != Generations || len(starts) != Generations || slices.Contains(slices.Collect(maps.Keys(starts)),
		first.Start) {
		t.Errorf("generations %v", starts)
	}
}

// TestOtherSecret checks that what was learnt under a former secret still has a score, and that new
// mail is learnt under the present one.
func TestOtherSecret(t *testing.T) {
	b := New(Options{Bytes: 1 << 20})
	other := filter.Secret{9}
	index := uint64(0)
	features := []string{"w:prize", "w:claim", "w:winner", "w:lucky", "w:draw"}
	learnt := func(s filter.Secret, n int) {
		var out Changes
		b.Begin(&out, 1_700_000_000, s.ID())
		b.Report(learn.Of(s, fmt.Sprint("spam", n)), learn.Tokens(s, features), 0)
		for i := range 10 {
			b.Deliver(learn.Of(s, fmt.Sprint("ham", n, i)), learn.Tokens(s, []string{"w:minutes", fmt.Sprint("w:", i)}), 0)
		}
		index++
		if err := b.Apply(index, &out, false); err != nil {
			t.Fatal(err)
		}
	}
	for n := range 20 {
		learnt(secret, n)
	}
	score := func(secrets ...filter.Secret) float64 {
		var ids []uint64
		for _, s := range secrets {
			ids = append(ids, s.ID())
		}
		got := b.Score(secrets, ids, features)
		if words := got.Words(2); got.Score > 0 && (len(words) != 2 || !slices.Contains(features, words[0])) {
			t.Errorf("words %q", words)
		}
		return got.Score
	}
	if before, after := score(secret), score(other, secret); before < 0.99 || after != before {
		t.Errorf("score %v under the secret, %v after a change of the secret", before, after)
	}
	if s := score(other); s != 0 {
		t.Errorf("score %v without the former secret", s)
	}
	learnt(other, 100)
	if live := b.Live(); len(live) != 2 || live[0].Geometry.KeyID != other.ID() || live[0].reported.Load() != 1 {
		t.Errorf("%d generations", len(live))
	}
}

// TestMemory checks that a vote without a message takes the tokens of the delivery, and that the memory
// of messages is bounded.
func TestMemory(t *testing.T) {
	const limit = 64 << 10
	b := New(Options{Bytes: 4 * limit})
	for n := range 2000 {
		var out Changes
		b.Begin(&out, 1, secret.ID())
		text, tokens := messageOf(n)
		b.Deliver(text, tokens, 0)
		if err := b.Apply(uint64(n+1), &out, false); err != nil {
			t.Fatal(err)
		}
		if m := &b.messages; m.bytes.Load() > limit || len(m.of) > len(m.oldest) {
			t.Fatalf("%d bytes, %d of %d messages", m.bytes.Load(), len(m.of), len(m.oldest))
		}
	}
	var out Changes
	b.Begin(&out, 1, secret.ID())
	forgotten, _ := messageOf(0)
	known, tokens := messageOf(1999)
	b.Report(forgotten, nil, 0)
	b.Report(known, nil, 0)
	if len(out.Of) != 1 || out.Of[0].Text != known || !slices.Equal(out.Of[0].Tokens, tokens) {
		t.Errorf("changes %+v", out.Of)
	}
}

// TestOff checks that a book without memory learns nothing.
func TestOff(t *testing.T) {
	if b := New(Options{}); b.On() || b.State() != (State{}) {
		t.Errorf("state %+v of a node that does not learn", b.State())
	}
}

// FuzzReadChanges checks that what is read is written again byte by byte.
func FuzzReadChanges(f *testing.F) {
	text, tokens := messageOf(3)
	sample := Changes{Open: &Spec{Start: 7, Geometry: filter.Geometry{Kind: filter.Cells, Lines: 1024, K: 4, KeyID: 9}},
		Of: []Change{{What: Reported, Gen: 7, Text: text, Tokens: tokens, Share: 100_000}, {What: Delivered, Gen: 7}}}
	f.Add(sample.Append(nil))
	f.Add((&Changes{}).Append(nil))
	f.Add([]byte{0, 255, 255, 255, 1})
	f.Fuzz(func(t *testing.T, data []byte) {
		c, rest, err := ReadChanges(data)
		if err != nil {
			return
		}
		again, _, err := ReadChanges(c.Append(nil))
		if err != nil || !reflect.DeepEqual(c, again) || len(rest) > len(data) {
			t.Errorf("%+v became %+v, %v", c, again, err)
		}
	})
}

// FuzzDecodeMessages checks that damaged memories of messages are refused and change nothing.
func FuzzDecodeMessages(f *testing.F) {
	b := New(Options{Bytes: 1 << 20})
	text, tokens := messageOf(3)
	b.messages.add(text, 5, tokens)
	f.Add(b.Messages().Encode())
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		b := New(Options{Bytes: 1 << 20})
		if b.DecodeMessages(data) != nil && b.messages.n.Load() > 0 {
			t.Error("an error changed the memory")
		}
	})
}

// BenchmarkScore measures a score by four full generations, and BenchmarkApply what a delivery costs the
// writer.
func BenchmarkScore(b *testing.B) {
	book, features := filled(b)
	for b.Loop() {
		if s := book.Score([]filter.Secret{secret}, []uint64{secret.ID()}, features); s.Used == 0 {
			b.Fatal("no score")
		}
	}
}

// BenchmarkScoreTogether scores a message beside the counts of peers, of 300,000 words.
func BenchmarkScoreTogether(b *testing.B) {
	book, features := filled(b)
	others := &learn.Others{Totals: learn.Known{Counts: learn.Counts{Reported: 5000, Delivered: 50_000}},
		Of: make(map[learn.Token]learn.Known), Number: 4}
	for i := range 300_000 {
		others.Of[learn.Of(secret, fmt.Sprint("w:", i))] = learn.Known{
			Counts: learn.Counts{Reported: float64(i % 7), Delivered: float64(i % 90)}, Low: 1, High: 3}
	}
	book.SetOthers(others)
	for b.Loop() {
		if s := book.Score([]filter.Secret{secret}, []uint64{secret.ID()}, features); len(s.counts) == 0 {
			b.Fatal("no counts")
		}
	}
}

func BenchmarkDelivery(b *testing.B) {
	book, features := filled(b)
	tokens := learn.Tokens(secret, features)
	index := uint64(1 << 40)
	var out Changes
	for b.Loop() {
		index++
		book.Begin(&out, 1, secret.ID())
		book.Deliver(learn.Token(index*0x9e3779b97f4a7c15), tokens, 0)
		if err := book.Apply(index, &out, false); err != nil {
			b.Fatal(err)
		}
	}
}

// filled returns a book of the default size with four generations, and the features of a message of
// 168 features.
func filled(b *testing.B) (*Book, []string) {
	book := New(Options{Bytes: 64 << 20, MessagesEach: 3000})
	var features []string
	for i := range 168 {
		features = append(features, fmt.Sprint("w:", i))
	}
	var out Changes
	for n := range 10_000 {
		book.Begin(&out, 1, secret.ID())
		var words []string
		for i := range 60 {
			words = append(words, fmt.Sprint("w:", (n*i*i+i*13)%20_000))
		}
		text := learn.Of(secret, fmt.Sprint(n))
		if n%40 == 0 {
			book.Report(text, learn.Tokens(secret, words), 0)
		} else {
			book.Deliver(text, learn.Tokens(secret, words), 0)
		}
		if err := book.Apply(uint64(n+1), &out, false); err != nil {
			b.Fatal(err)
		}
	}
	b.ResetTimer()
	return book, features
}
