package signature

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/mail"
	"github.com/bulkhead-mail/bulkhead/internal/pace"
	"github.com/bulkhead-mail/bulkhead/internal/testing/mailtest"
)

// skeletonOf returns the skeleton of a message, of a builder of its own.
func skeletonOf(ctx context.Context, m *mail.Message, texts *attachedTexts, p *pace.Pace) (*skeleton, error) {
	return new(skeletonBuilder).skeleton(ctx, m, texts, p)
}

// hashes returns the hashes of the words of s.
func (k *nearKey) hashes(s *skeleton) *hashes {
	h := new(hashes)
	h.take(k, s)
	return h
}

// hashed returns the hashes of words.
func (k *nearKey) hashed(words *wordList) (all []uint64) {
	for i := range words.len() {
		all = append(all, k.word(words.at(i)))
	}
	return all
}

// TestHashes checks that a word's hash does not depend on the words around it, on what was
// hashed before, or on the keys used before.
func TestHashes(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 1))
	keys := []*nearKey{newNearKey([16]byte{3}), newNearKey([16]byte{4})}
	var h hashes
	for range 300 {
		var s skeleton
		for range rng.IntN(400) {
			word := make([]byte, 1+rng.IntN(2+rng.IntN(12)))
			for i := range word {
				word[i] = "abcdef\xc3"[rng.IntN(7)]
			}
			[]*wordList{&s.words, &s.quoted, &s.rest}[rng.IntN(3)].add(word)
		}
		key := keys[rng.IntN(2)]
		h.take(key, &s)
		if !slices.Equal(h.words, key.hashed(&s.words)) || !slices.Equal(h.quoted, key.hashed(&s.quoted)) ||
			!slices.Equal(h.rest, key.hashed(&s.rest)) {
			t.Fatalf("hashes of %v, %v, %v differ", &s.words, &s.quoted, &s.rest)
		}
	}
}

// skeletonOfText folds a text that quotes nothing.
func skeletonOfText(text string) *skeleton {
	var f folder
	f.add([]byte(text), false)
	s := f.skeleton
	return &s
}

// samplesOf returns the samples of a message's sketch, and its parts.
func samplesOf(sigs []bulkhead.Signature) (samples []bulkhead.Sample, parts []bulkhead.Signature) {
	for i := range sigs {
		if sigs[i].Scheme() == bulkhead.Part {
			parts = append(parts, sigs[i])
		}
		samples = sigs[i].AppendSamples(samples)
	}
	return samples, parts
}

// randomText returns sentences of random words.
func randomText(rng *rand.Rand, words int) string {
	var b strings.Builder
	for i := range words {
		for range 3 + rng.IntN(6) {
			b.WriteByte("abcdeghimnoprstuv"[rng.IntN(17)])
		}
		b.WriteString("ea ")
		if i%12 == 11 {
			b.WriteString("\n")
		}
	}
	return b.String()
}

// TestPartsOfAPart: what is sampled of a text is sampled of every text that holds it, as
// far as there is room.
func TestPartsOfAPart(t *testing.T) {
	key := newNearKey([16]byte{3})
	rng := rand.New(rand.NewPCG(1, 1))
	of := func(text string) (samples []bulkhead.Sample, parts []bulkhead.Signature) {
		s := skeletonOfText(text)
		return samplesOf(partsOf(s, key))
	}
	for n := range 50 {
		text := randomText(rng, 60)
		known, parts := of(text)
		if len(parts) != partAnchors {
			t.Fatalf("%d parts, want %d", len(parts), partAnchors)
		}
		size := 1 + n%4
		whole, _ := of(randomText(rng, 60*size) + "\n\n" + text + "\n\n" + randomText(rng, 60*size))
		all := make(map[uint64]bool)
		for _, s := range whole {
			all[s.Value] = true
		}
		held := 0
		for _, s := range known {
			if s.Kind == bulkhead.SampleOwn && all[s.Value] {
				held++
			}
		}
		for i := range parts[:4] {
			if s := (bulkhead.Sample{}); !slices.ContainsFunc(whole,
				func(w bulkhead.Sample) bool { s = w; return s.Signature() == parts[i] }) {
				t.Errorf("%d times its words added: part %d of the text is no sample of the whole", 2*size, i)
			}
		}
		// 128 of (1 + 2 size) x 60 runs are sampled, the lowest.
		if want := min(partOwn, 128/(1+2*size)-8); held < want {
			t.Errorf("%d times its words added: %d samples of the text, want %d", 2*size, held, want)
		}
	}
}

func partsOf(s *skeleton, key *nearKey) []bulkhead.Signature { return parts(s, key.hashes(s)) }

// TestRuns holds the runs of words to a naive reading of docs/signatures.md#runs-of-words.
func TestRuns(t *testing.T) {
	key := newNearKey([16]byte{4})
	rng := rand.New(rand.NewPCG(2, 1))
	var words wordList
	for range 500 {
		words.add([]byte(strings.Repeat("x", 1+rng.IntN(9)) + fmt.Sprint(rng.IntN(50))))
	}
	hashes := key.hashed(&words)
	var want []uint64
	for i := range words.len() {
		x, letters := uint64(partSalt), 0
		for n := 0; n < partLongest && i+n < words.len(); n++ {
			x = mix(x ^ hashes[i+n])
			letters += len(words.at(i + n))
			if n+1 >= partWords && letters >= partLetters {
				want = append(want, x)
				break
			}
		}
	}
	got := appendRuns(nil, &words, hashes)
	if !slices.Equal(got, want) || len(got) < 400 {
		t.Fatalf("%d runs, want %d, or others", len(got), len(want))
	}
	slices.Sort(want)
	want = slices.Compact(want)
	for most := range 2 * len(want) {
		if low := lowest(got, most); !slices.Equal(low, want[:min(most, len(want))]) {
			t.Fatalf("%d samples: %x, want %x", most, low, want)
		}
	}
}

// TestLowest: the lowest are found however they are spread.
func TestLowest(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	for range rounds(2000) {
		orders := make([]uint64, rng.IntN(3000))
		shift, few := rng.IntN(64), rng.Uint64()>>rng.IntN(64)|1
		for i := range orders {
			if orders[i] = rng.Uint64() >> shift; rng.IntN(2) == 0 {
				orders[i] = orders[i] % few
			}
		}
		want := slices.Compact(slices.Sorted(slices.Values(orders)))
		most := rng.IntN(200)
		if got := lowest(orders, most); !slices.Equal(got, want[:min(most, len(want))]) {
			t.Fatalf("%d of %d: %x, want %x", most, len(orders), got, want)
		}
	}
}

// TestWhatIsSampled: footers and quotes are asked for and not voted on.
func TestWhatIsSampled(t *testing.T) {
	own := randomText(rand.New(rand.NewPCG(5, 1)), 40)
	other := randomText(rand.New(rand.NewPCG(6, 1)), 40)
	quote := "> " + strings.ReplaceAll(strings.TrimSpace(other), "\n", "\n> ")
	for name, c := range map[string]struct {
		mail  string
		kinds [3]bool
	}{
		"own":                 {own, [3]bool{true, true, false}},
		"footer":              {own + "\n-- \n" + other, [3]bool{true, true, false}},
		"nothing else":        {"Hi\n-- \n" + other, [3]bool{false, true, false}},
		"quote":               {own + "\nOn Monday Ann wrote:\n" + quote, [3]bool{true, true, true}},
		"nothing but a quote": {"See below.\n\n" + quote, [3]bool{false, false, true}},
		"below a header": {"See.\n\nFrom: Ann\nSent: today\nTo: Bob\nSubject: x\n\n" + other,
			[3]bool{false, false, true}},
	} {
		samples, parts := samplesOf(compute(t, []byte("Content-Type: text/plain\n\n"+c.mail+"\n")))
		var kinds [3]bool
		for _, s := range samples {
			kinds[s.Kind] = true
		}
		if kinds != c.kinds || (len(parts) > 0) != c.kinds[bulkhead.SampleOwn] {
			t.Errorf("%s: samples of kinds %v, want %v; %d parts", name, kinds, c.kinds, len(parts))
		}
	}
}

// FuzzParts: whatever a page says, its parts are among its own samples, and there are no
// more of either than there may be, none twice.
func FuzzParts(f *testing.F) {
	for _, raw := range mailtest.Seeds() {
		f.Add(string(raw))
	}
	f.Add(strings.Repeat("<p>a few words of a sentence that is repeated</p>", 50))
	key := newNearKey([16]byte{})
	f.Fuzz(func(t *testing.T, source string) {
		m, err := mail.Read(t.Context(), mailtest.Page(source))
		if err != nil {
			t.Fatal(err)
		}
		samples, parts := samplesOf(partsOf(mailtest.Must(skeletonOf(t.Context(), m, nil, nil)), key))
		own := slices.DeleteFunc(slices.Clone(samples), func(s bulkhead.Sample) bool { return s.Kind != bulkhead.SampleOwn })
		if len(parts) > partAnchors || len(own) > partOwn || len(samples) > partOwn+partAsked || len(parts) > len(own) {
			t.Fatalf("%d parts, %d own samples, %d in all", len(parts), len(own), len(samples))
		}
		for i := range parts {
			if own[i].Signature() != parts[i] {
				t.Fatalf("part %d is not sample %d", i, i)
			}
		}
		slices.SortFunc(samples, func(a, b bulkhead.Sample) int { return cmp.Compare(a.Value, b.Value) })
		if n := len(slices.CompactFunc(slices.Clone(samples), func(a,
			b bulkhead.Sample) bool {
			return a.Value == b.Value
		})); n != len(samples) {
			t.Fatalf("%d of %d samples are there twice", len(samples)-n, len(samples))
		}
	})
}

// TestFewRuns: five runs have a sketch, twelve of its own make parts of a text, and of
// more the lowest count.
func TestFewRuns(t *testing.T) {
	key := newNearKey([16]byte{6})
	words := func(from, n int) (l wordList) {
		for i := range n {
			l.add(fmt.Appendf(nil, "word%03d", from+i)) // of two such words 14 letters
		}
		return l
	}
	for _, tt := range []struct {
		own, rest, quoted      int // runs
		parts, owns, inSamples int
	}{
		{partLeast - 1, 0, 0, 0, 0, 0}, {partLeast, 0, 0, 0, 0, partLeast}, {2, 2, 1, 0, 0, 5}, {2, 1, 1, 0, 0, 0},
		{0, partLeast, 0, 0, 0, 5}, {0, 0, partLeast, 0, 0, 5},
		{partFloor - 1, 0, 0, 0, 0, partFloor - 1}, {partFloor, 0, 0, partAnchors, partFloor, partFloor},
		{partFloor, 3, 4, partAnchors, partFloor, partFloor + 7},
		{partOwn, 0, 0, partAnchors, partOwn, partOwn}, {partOwn + 1, 0, 0, partAnchors, partOwn, partOwn + 1},
		{partAsked, 0, 0, partAnchors, partOwn, partAsked},
		{partAsked + 1, 0, 0, partAnchors, partOwn, partAsked}, {50, 50, 28, partAnchors, partOwn, 128},
		{3, 200, 0, 0, 0, partAsked},
	} {
		s := &skeleton{}
		for i, n := range []int{tt.own, tt.rest, tt.quoted} {
			if n > 0 {
				*[]*wordList{&s.words, &s.rest, &s.quoted}[i] = words(300*i, n+1)
			}
		}
		samples, parts := samplesOf(partsOf(s, key))
		kinds := make(map[bulkhead.SampleKind]int)
		for _, s := range samples {
			kinds[s.Kind]++
		}
		if len(parts) != tt.parts || kinds[bulkhead.SampleOwn] != tt.owns || len(samples) != tt.inSamples {
			t.Errorf("%+v: %d parts, %d samples, kinds %v", tt, len(parts), len(samples), kinds)
		}
		if tt.rest == 0 && tt.own > 0 && tt.own+tt.quoted <= partAsked && len(samples) > 0 &&
			kinds[bulkhead.SampleQuoted] != tt.quoted {
			t.Errorf("%+v: kinds %v", tt, kinds)
		}
	}
	// A run is two words at least, fourteen letters at least and twelve words at most.
	for _, tt := range []struct {
		words string
		runs  int
	}{
		{"abcdefg hijkimn", 1}, {"abcdefg hijkim", 0}, {"abcdefghijkimnopq", 0}, {"abcdefghijkimnopq a", 1},
		{"abcdefghijkimnopq abcdefghijkimnopq abcdefghijkimnopq", 2},
		{"a b c d e f g h i j kk mm", 1}, {"a b c d e f g h i j kk m", 0}, {"a b c d e f g h i j k mm n", 0},
		{"a b c d e f g h i j k mm nn", 1},
	} {
		var l wordList
		for _, w := range strings.Fields(tt.words) {
			l.add([]byte(w))
		}
		if runs := len(appendRuns(nil, &l, key.hashed(&l))); runs != tt.runs {
			t.Errorf("%q has %d runs, want %d", tt.words, runs, tt.runs)
		}
	}
}
