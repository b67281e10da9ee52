package lesson

import (
	"bytes"
	"errors"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/learn"
)

// A plainSource counts messages in maps.
type plainSource struct {
	all    map[uint64]Entry
	counts map[uint64]map[learn.Token]Entry
}

func newPlainSource() *plainSource {
	return &plainSource{make(map[uint64]Entry), make(map[uint64]map[learn.Token]Entry)}
}

func (s *plainSource) Entries(start uint64, tokens []learn.Token) (all Entry, out []Entry, ok bool) {
	for _, t := range tokens {
		e := s.counts[start][t]
		e.Token = t
		out = append(out, e)
	}
	all, ok = s.all[start]
	return all, out, ok
}

// A what is what a message counts as.
type what int

const (
	reported what = iota
	withdrawn
	delivered
)

func (w what) add(e *Entry) { *[]*uint32{&e.Reported, &e.Withdrawn, &e.Delivered}[w]++ }

func (s *plainSource) count(start uint64, w what, tokens []learn.Token) {
	if s.counts[start] == nil {
		s.counts[start] = make(map[learn.Token]Entry)
	}
	for _, t := range tokens {
		e := s.counts[start][t]
		w.add(&e)
		s.counts[start][t] = e
	}
	all := s.all[start]
	w.add(&all)
	s.all[start] = all
}

// always admits every secret and discards combinations.
func newTestClass(bytes uint64, ids ...string) *Class {
	c := NewClass(bytes, func(uint64) bool { return true }, func(*learn.Others) {})
	weights := make(map[string]float64)
	for _, id := range ids {
		weights[id] = 1
	}
	c.Keep(weights)
	return c
}

// held returns what a class holds of an origin.
func held(c *Class, id string) map[uint64]map[learn.Token]Entry {
	out := make(map[uint64]map[learn.Token]Entry)
	for _, g := range c.origins[id].gens {
		out[g.Start] = make(map[learn.Token]Entry)
		for _, e := range g.entries {
			out[g.Start][e.Token] = e
		}
	}
	return out
}

// TestTeaching compares a peer of a teacher with plain maps: after random messages, rounds and losses, the
// peer has the counts of exactly those tokens that two messages of two persons had, as of the last round of each
// generation. A generation has one only after 50 of its own messages.
func TestTeaching(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		source := newPlainSource()
		teacher, class := NewTeacher(source), newTestClass(1<<20, "a")
		type sight struct {
			text learn.Token
			who  Person
		}
		sights := make(map[uint64]map[learn.Token][]sight)
		want := make(map[uint64]map[learn.Token]Entry)
		since := make(map[uint64]int)
		for range rapid.IntRange(100, 400).Draw(t, "messages") {
			start := uint64(rapid.IntRange(1, 2).Draw(t, "start"))
			text := learn.Token(rapid.IntRange(1, 60).Draw(t, "text"))
			who := PersonOf(uint64(rapid.IntRange(0, 3).Draw(t, "who")), rapid.Bool().Draw(t, "mailbox"))
			if rapid.IntRange(0, 9).Draw(t, "unknown") == 0 {
				who = 0
			}
			var tokens []learn.Token
			for n := range 12 {
				if rapid.IntRange(0, 3).Draw(t, "has") == 0 {
					tokens = append(tokens, learn.Token(10*(n+1)))
				}
			}
			source.count(start, what(rapid.IntRange(0, 2).Draw(t, "what")), tokens)
			old := rapid.IntRange(0, 9).Draw(t, "old") == 0
			if old {
				who = 0
			}
			teacher.Learnt(Learnt{Start: start, KeyID: 7, Text: text, Who: who, Tokens: tokens, Old: old})
			if sights[start] == nil {
				sights[start] = make(map[learn.Token][]sight)
			}
			for _, k := range tokens {
				if who != 0 {
					sights[start][k] = append(sights[start][k], sight{text, who})
				}
			}
			if !old {
				since[start]++
			}
			if teacher.Round() != (since[start] >= LeastRound) {
				t.Fatalf("a round after %d messages", since[start])
			}
			if since[start] >= LeastRound {
				since[start] = 0
				want[start] = make(map[learn.Token]Entry)
				for k, list := range sights[start] {
					second := func(s sight) bool { return s.text != list[0].text && s.who.other(list[0].who) }
					if slices.ContainsFunc(list, second) {
						e := source.counts[start][k]
						e.Token = k
						want[start][k] = e
					}
				}
			}
			if rapid.IntRange(0, 9).Draw(t, "asks") == 0 {
				for _, l := range teacher.Answer(class.Study("a")) {
					if rapid.IntRange(0, 3).Draw(t, "lost") > 0 {
						if err := class.Take("a", l); err != nil {
							t.Fatal(err)
						}
					}
				}
			}
		}
		for _, l := range teacher.Answer(class.Study("a")) {
			if err := class.Take("a", l); err != nil {
				t.Fatal(err)
			}
		}
		if got := held(class, "a"); !reflect.DeepEqual(got, want) {
			t.Fatalf("holds %v, want %v", got, want)
		}
	})
}

// made returns a lesson of n tokens of a generation, and the entries in it.
func made(table, start uint64, round uint32, seed uint64, n int) *Lesson {
	rng := rand.New(rand.NewPCG(seed, 1))
	all := Entry{Reported: 500, Withdrawn: 3, Delivered: 4000}
	l := &Lesson{Table: table, Live: []Mark{{Start: start, KeyID: 7, Round: round, All: all}}, Parts: 1}
	for range n {
		l.Entries = append(l.Entries, Entry{learn.Token(rng.Uint64N(uint64(3 * n))), rng.Uint32N(40), rng.Uint32N(4),
			rng.Uint32N(200)})
	}
	slices.SortFunc(l.Entries, func(a, b Entry) int { return int(int64(a.Token) - int64(b.Token)) })
	l.Entries = slices.CompactFunc(l.Entries, func(a, b Entry) bool { return a.Token == b.Token })
	return l
}

// TestCombine compares the combination of seven origins with the formula, token by token. Origins of no
// weight and evicted ones do not count.
func TestCombine(t *testing.T) {
	var got *learn.Others
	c := NewClass(1<<20, func(uint64) bool { return true }, func(o *learn.Others) { got = o })
	weights := map[string]float64{"quarantined": 0}
	names := []string{"a", "b", "c", "d", "e", "f", "g"}
	for _, n := range names {
		weights[n] = 1
	}
	weights["evicted"] = 1
	c.Keep(weights)
	plain := make([]map[learn.Token]learn.Counts, len(names))
	for i, n := range append(slices.Clone(names), "quarantined", "evicted") {
		l := made(uint64(i+1), 50, 1, uint64(i), 200)
		l.Live[0].All.Reported *= uint32(1 + i*i) // some are above twice the median
		if err := c.Take(n, l); err != nil {
			t.Fatal(err)
		}
		if i < len(names) {
			plain[i] = map[learn.Token]learn.Counts{}
			for _, e := range append(l.Entries, l.Live[0].All) {
				plain[i][e.Token] = learn.Counts{Reported: max(0, float64(e.Reported)-float64(e.Withdrawn)),
					Delivered: float64(e.Delivered)}
			}
			plain[i][0] = learn.Counts{Reported: float64(500*(1+i*i) - 3), Delivered: 4000}
		}
	}
	delete(weights, "evicted")
	c.Keep(weights)
	if !c.Combine() || c.Combine() {
		t.Error("a combination is made once after a change")
	}
	reported, delivered := make([]float64, 7), make([]float64, 7)
	tokens := make(map[learn.Token]bool)
	for i := range plain {
		reported[i], delivered[i] = plain[i][0].Reported, plain[i][0].Delivered
		for k := range plain[i] {
			tokens[k] = true
		}
	}
	reported, delivered = learn.Scales(reported), learn.Scales(delivered)
	for k := range tokens {
		all := make([]learn.Counts, 7)
		for i := range plain {
			all[i] = plain[i][k]
		}
		want, have := learn.Together(all, reported, delivered), got.Of[k]
		if k == 0 {
			have = got.Totals
		}
		if have != want {
			t.Fatalf("token %d: %v, want %v", k, have, want)
		}
	}
	if len(got.Of) < 50 {
		t.Errorf("%d tokens count", len(got.Of))
	}
	c.Keep(nil)
	if c.Combine(); len(got.Of) > 0 || got.Totals != (learn.Known{}) || got.Number != 0 {
		t.Errorf("%v without peers", got)
	}
}

// TestOwnMail checks that an origin whose counts alone condemn the node's wanted mail is left out, and
// counts again when they no longer do.
func TestOwnMail(t *testing.T) {
	var got *learn.Others
	c := NewClass(1<<20, func(uint64) bool { return true }, func(o *learn.Others) { got = o })
	c.Keep(map[string]float64{"liar": 1, "a": 1, "b": 1})
	var wanted []learn.Token
	for k := range 40 {
		wanted = append(wanted, learn.Token(k+1))
	}
	teach := func(id string, round uint32, spam, ham uint32) {
		t.Helper()
		all := Entry{Reported: 100, Delivered: 1000}
		l := &Lesson{Table: 9, Live: []Mark{{Start: 5, KeyID: 7, Round: round, All: all}}, Parts: 1}
		for _, k := range wanted {
			l.Entries = append(l.Entries, Entry{Token: k, Reported: spam, Delivered: ham})
		}
		if err := c.Take(id, l); err != nil {
			t.Fatal(err)
		}
	}
	teach("liar", 1, 100, 0)
	teach("a", 1, 1, 200)
	teach("b", 1, 1, 300)
	try := func(n int) {
		for range n {
			c.Try(wanted, 7, 0.5)
		}
		c.Combine()
	}
	c.Combine()
	if got.Totals.Delivered != 3000 {
		t.Errorf("%v before", got.Totals)
	}
	try(30)
	for _, s := range c.State() {
		if s.Tried != 10 || s.Condemns != (s.ID == "liar") || s.Condemns && s.Hits != 10 {
			t.Errorf("%+v", s)
		}
	}
	if got.Totals.Delivered != 2000 {
		t.Errorf("%v with a liar", got.Totals)
	}
	teach("liar", 2, 1, 300)
	try(3 * 40000)
	if got.Totals.Delivered != 3000 {
		t.Errorf("%v after the lies have ended: %+v", got.Totals, c.State())
	}
}

// TestSingle checks that a single peer adds nothing but what own reports agree with.
func TestSingle(t *testing.T) {
	var got *learn.Others
	c := NewClass(1<<20, func(uint64) bool { return true }, func(o *learn.Others) { got = o })
	teach := func(id string, spam uint32) {
		t.Helper()
		l := &Lesson{Table: 9, Live: []Mark{{Start: 5, KeyID: 7, Round: 1, All: Entry{Reported: 100, Delivered: 1000}}},
			Parts: 1, Entries: []Entry{{Token: 5, Reported: spam, Delivered: 200}}}
		if err := c.Take(id, l); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(what string, number int, alone, own float64) {
		t.Helper()
		c.Combine()
		for reports, want := range map[float64]float64{0: alone, 9: 9 + own} {
			sum := learn.Beside(learn.Counts{Reported: reports}, got.Of[5], got.Number)
			if got.Number != number || sum.Reported != want {
				t.Errorf("%s: %d peers, %v beside %v reports, want %v", what, got.Number, sum, reports, want)
			}
		}
	}
	c.Keep(map[string]float64{"a": 1, "watched": 0})
	teach("a", 3)
	expect("one peer", 1, 0, 3)
	c.Keep(map[string]float64{"a": 1, "b": 1})
	teach("b", 4)
	expect("two peers", 2, 6, 7)
	c.Keep(map[string]float64{"a": 1})
	expect("one has left", 1, 0, 3)
	c.Keep(map[string]float64{"a": 0})
	expect("of weight 0", 0, 0, 0)
}

// TestLimits checks what a class refuses, and that it then holds what it held.
func TestLimits(t *testing.T) {
	c := newTestClass(2*300*entryBytes, "a", "b")
	if err := c.Take("a", made(3, 5, 1, 1, 250)); err != nil {
		t.Fatal(err)
	}
	before := held(c, "a")
	larger := made(3, 5, 2, 9, 900)
	larger.Since = 1
	if err := c.Take("a", larger); !errors.Is(err, bulkhead.ErrOverLimit) {
		t.Errorf("more than half of the memory: %v", err)
	}
	if err := c.Take("x", made(3, 5, 1, 1, 5)); !errors.Is(err, bulkhead.ErrForbidden) {
		t.Errorf("of a stranger: %v", err)
	}
	gap := made(3, 5, 9, 2, 10)
	gap.Since = 8
	lost := made(3, 5, 3, 2, 10)
	lost.Since, lost.Part, lost.Parts = 1, 1, 2
	for _, l := range []*Lesson{gap, lost} {
		if err := c.Take("a", l); err != nil {
			t.Error(err)
		}
	}
	if got := held(c, "a"); !reflect.DeepEqual(got, before) || c.Study("a").Held[0].Round != 1 {
		t.Errorf("holds %v, want %v", got, before)
	}
	if s := c.State(); len(s) != 1 || !s[0].Full {
		t.Errorf("%+v", s)
	}
	c.known = func(uint64) bool { return false }
	if err := c.Take("b", made(4, 5, 1, 1, 20)); err != nil || len(held(c, "b")) > 0 {
		t.Errorf("another secret: %v, %v", held(c, "b"), err)
	}
	_, _ = c.saved()
	c.Forget("a", func(start uint64) bool { return start >= 5 })
	if got := held(c, "a"); len(got) > 0 {
		t.Errorf("%v after a rollback", got)
	}
	if _, ok := c.saved(); !ok {
		t.Error("a rollback is not saved, and is undone by a restart")
	}
}

// TestGenerations checks that a peer drops a generation that its origin has dropped, and all that an origin
// taught before it began anew.
func TestGenerations(t *testing.T) {
	source := newPlainSource()
	teacher, c := NewTeacher(source), newTestClass(1<<20, "a")
	learnAll := func(start uint64) {
		for n := range LeastRound {
			tokens := []learn.Token{1, 2}
			source.count(start, delivered, tokens)
			who := PersonOf(uint64(n), true)
			teacher.Learnt(Learnt{Start: start, KeyID: 7, Text: learn.Token(n), Who: who, Tokens: tokens})
		}
		if !teacher.Round() {
			t.Fatal("no round")
		}
		for _, l := range teacher.Answer(c.Study("a")) {
			if err := c.Take("a", l); err != nil {
				t.Fatal(err)
			}
		}
	}
	for start := range uint64(6) {
		learnAll(start + 1)
	}
	if got := slices.Sorted(maps.Keys(held(c, "a"))); !slices.Equal(got, []uint64{3, 4, 5, 6}) {
		t.Errorf("generations %v", got)
	}
	delete(source.all, 4)
	learnAll(6)
	if got := slices.Sorted(maps.Keys(held(c, "a"))); !slices.Equal(got, []uint64{3, 5, 6}) {
		t.Errorf("generations %v", got)
	}
	teacher = NewTeacher(source)
	learnAll(7)
	if got := slices.Sorted(maps.Keys(held(c, "a"))); !slices.Equal(got, []uint64{7}) {
		t.Errorf("generations %v of an origin that began anew", got)
	}
}

// TestFiles checks that an exchange continues from its files, and without damaged ones.
func TestFiles(t *testing.T) {
	dir, source := t.TempDir(), newPlainSource()
	open := func(weights map[string]float64) (*Exchange, error) {
		known := func(uint64) bool { return true }
		x := New(Options{Source: source, Bytes: 1 << 20, Known: known, Set: func(*learn.Others) {}})
		return x, x.Load(dir, weights)
	}
	peers := map[string]float64{"a": 1, "b": 1}
	x, err := open(peers)
	if err != nil {
		t.Fatal(err)
	}
	for n := range LeastRound {
		source.count(1, reported, []learn.Token{3, 4})
		who := PersonOf(uint64(n), true)
		x.Learnt(Learnt{Start: 1, KeyID: 7, Text: learn.Token(n), Who: who, Tokens: []learn.Token{3, 4}})
	}
	x.Round()
	if err := errors.Join(x.Take("a", made(5, 9, 4, 1, 300)), x.Take("b", made(6, 9, 4, 2, 300)), x.SaveHeld(dir),
		x.SaveTaught(dir)); err != nil {
		t.Fatal(err)
	}
	again, err := open(map[string]float64{"a": 1})
	if err != nil || !reflect.DeepEqual(held(again.Class, "a"), held(x.Class, "a")) || again.origins["b"] != nil {
		t.Errorf("%v: holds %v", err, held(again.Class, "a"))
	}
	if got, want := again.Answer(&Study{}), x.Answer(&Study{}); !reflect.DeepEqual(got, want) {
		t.Errorf("teaches %+v, want %+v", got, want)
	}
	// One more message with the words, and 49 without: the counts go out although the process is another.
	source.count(1, withdrawn, []learn.Token{3, 4})
	for range LeastRound {
		again.Learnt(Learnt{Start: 1, KeyID: 7, Who: 0, Tokens: nil})
	}
	again.Round()
	if got := again.Answer(&Study{})[0].Entries; len(got) != 2 || got[0].Withdrawn != 1 {
		t.Errorf("teaches %+v", got)
	}
	raw, err := readFile(dir + "/" + heldFile)
	if err != nil || len(raw) != 2 {
		t.Fatalf("%v, %v", raw, err)
	}
	if err := writeFile(dir+"/"+heldFile, raw); err != nil {
		t.Fatal(err)
	}
}

// TestSaveAgain checks that lessons which could not be written are written by the next call.
func TestSaveAgain(t *testing.T) {
	x := New(Options{Source: newPlainSource(), Bytes: 1 << 20, Known: func(uint64) bool { return true },
		Set: func(*learn.Others) {}})
	x.Keep(map[string]float64{"a": 1})
	dir := t.TempDir()
	if err := x.Take("a", made(5, 9, 4, 1, 300)); err != nil {
		t.Fatal(err)
	}
	if err := x.SaveHeld(filepath.Join(dir, "missing")); err == nil {
		t.Fatal("written to a folder that is not there")
	}
	if err := x.SaveHeld(dir); err != nil {
		t.Fatal(err)
	}
	if got, err := readFile(filepath.Join(dir, heldFile)); err != nil || len(got["a"]) == 0 {
		t.Errorf("%v, %v", got, err)
	}
}

func samples() [][]byte {
	empty := &Lesson{Table: 1}
	two := made(1<<60, 9, 3, 1, 40)
	two.Live = append(two.Live, Mark{Start: 2, KeyID: 8, Round: 1})
	return [][]byte{empty.Append(nil), two.Append(nil), made(2, 1, 1, 2, 0).Append(nil)}
}

// FuzzParse checks that every accepted lesson is read as it was written.
func FuzzParse(f *testing.F) {
	for _, s := range samples() {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		l, err := Parse(raw)
		if err != nil {
			return
		}
		again, err := Parse(l.Append(nil))
		if err != nil || !reflect.DeepEqual(again, l) {
			t.Fatalf("%+v, %v; first %+v", again, err, l)
		}
		c := newTestClass(1<<20, "a")
		if err := c.Take("a", l); err != nil && !errors.Is(err, bulkhead.ErrOverLimit) {
			t.Fatal(err)
		}
		c.Combine()
	})
}

// FuzzParseStudy does the same for studies.
func FuzzParseStudy(f *testing.F) {
	f.Add((&Study{}).Append(nil))
	f.Add((&Study{Table: 5, Held: []Mark{{Start: 7, Round: 3}, {Start: 1}}}).Append(nil))
	f.Fuzz(func(t *testing.T, raw []byte) {
		s, err := ParseStudy(raw)
		if err != nil {
			return
		}
		if again, err := ParseStudy(s.Append(nil)); err != nil || !reflect.DeepEqual(again, s) {
			t.Fatalf("%+v, %v; first %+v", again, err, s)
		}
	})
}

// FuzzFile checks that no file makes an exchange fail, other than by an error.
func FuzzFile(f *testing.F) {
	for _, s := range samples() {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if _, err := parseFile(raw); err == nil && !bytes.HasPrefix(raw, []byte(fileMagic)) {
			t.Fatal("a file without its first line is read")
		}
	})
}

// TestPersons checks that persons differ by name, and a recipient and an account never certainly do.
func TestPersons(t *testing.T) {
	for a := range uint64(8) {
		for b := range uint64(8) {
			if PersonOf(a, true).other(PersonOf(b, true)) != (a != b) || PersonOf(a, true).other(PersonOf(b, false)) ||
				PersonOf(a, false).other(0) {
				t.Errorf("persons %d and %d", a, b)
			}
		}
	}
}

// TestRefused checks that lessons out of order are refused.
func TestRefused(t *testing.T) {
	l := made(1, 5, 1, 1, 10)
	for name, change := range map[string]func(l *Lesson){
		"generations": func(l *Lesson) { l.Live = append(l.Live, Mark{Start: 6}) },
		"tokens":      func(l *Lesson) { l.Entries[0], l.Entries[1] = l.Entries[1], l.Entries[0] },
		"part":        func(l *Lesson) { l.Part = 1 },
		"parts":       func(l *Lesson) { l.Parts = maxParts + 1 },
		"generation":  func(l *Lesson) { l.Of = 1 },
		"no parts":    func(l *Lesson) { l.Parts = 0 },
	} {
		bad := *l
		bad.Live, bad.Entries = slices.Clone(l.Live), slices.Clone(l.Entries)
		change(&bad)
		if _, err := Parse(bad.Append(nil)); !errors.Is(err, errLesson) {
			t.Errorf("%s: %v", name, err)
		}
	}
	raw := l.Append(nil)
	for n := range raw {
		if _, err := Parse(raw[:n]); !errors.Is(err, errLesson) {
			t.Fatalf("%d of %d bytes: %v", n, len(raw), err)
		}
	}
}
