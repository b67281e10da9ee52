package signature

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/clipperhouse/uax29/v2/words"
	"github.com/dchest/siphash"
)

// The functions of this file do slowly, as the protocols describe it, what the
// package does by tables, in blocks and by runs.

// naiveTokens are what the fast ways have to tell apart.
var naiveTokens = []string{
	"a", "I", "word", "Lighthouse", "rhythmsss", "WWW.", "www.shop.example", "x.com", "a@b.example", "http://h.example/x", "=", "=3D", "=\n", "h", "H",
	"hTTp", "://", "&amp;", "&#104;ttp://x.y/", "'", "\"", "don't", "v.i.a", "v i a g r a", "1", "3.14", "4u", "$", "!", ",", ".", ";", ":", "?", ")", "(",
	"-", "--", "\n", "\n", "\r\n", "\r", "\n\n", "\t", " ", " ", " ", "  ", "\v", "\x1c", "\x85", "\xa0", "\u00a0", "é", "e\u0301", "\u0301", "а", "你好",
	"\u200b", "\xff", "\x00", "\n>From ", "\n>Fr", "\n> ", ">", "Dear ", "Dear Bob,", "dear", "hello you", "\nFrom ", "confidential intended recipient", "<b>",
	"/", "\\", "averyveryverylongwordthatnobodywrites", "\u2028", "10:30", "x:y", "€5", "walked_far", "flying-fish", "Bob", "miller",
}

func naiveText(r *rand.Rand) []byte {
	var b []byte
	for range r.IntN(120) {
		b = append(b, naiveTokens[r.IntN(len(naiveTokens))]...)
		if r.IntN(3) > 0 {
			b = append(b, ' ')
		}
	}
	return b
}

func (f *folder) naiveFold(line []byte) {
	start := f.paragraph.len()
	for at := 0; at < len(line); {
		if line[at] == ' ' || line[at] == '\t' {
			at++
			continue
		}
		chunk := line[at:min(at+maxChunk, len(line))]
		if i := bytes.IndexAny(chunk, " \t"); i >= 0 {
			chunk = chunk[:i]
		}
		at += len(chunk)
		f.chunk(chunk)
		n := f.paragraph.len() - start
		if n > 0 && n <= 6 && greetings.words[string(f.paragraph.at(start))] && (at >= len(line) || endsGreeting(chunk[len(chunk)-1])) {
			f.flushSingles()
			f.paragraph.truncate(start)
			start = -maxWords
		}
	}
	f.flushSingles()
}

func naiveMinima(k *nearKey, list *wordList, salt uint64) (minima [NearBands * nearRows]uint64) {
	for i := range minima {
		minima[i] = math.MaxUint64
		for n := 1; n < list.len(); n++ {
			x := mix(mix(salt^siphash.Hash(k.k0, k.k1, list.at(n-1))) ^ siphash.Hash(k.k0, k.k1, list.at(n)))
			minima[i] = min(minima[i], x*k.mul[i]+k.add[i])
		}
	}
	return minima
}

func (b *dccBodySum) naiveWrite(p []byte) {
	for _, c := range p {
		if b.held >= 0 {
			if c == quotedFrom[b.held] {
				if b.held++; b.held == len(quotedFrom) {
					b.out = append(b.out, quotedFrom[1:]...)
					b.held = -1
				}
				continue
			}
			b.out = append(b.out, quotedFrom[:b.held]...)
			b.held = -1
		}
		switch c {
		case '\n':
			b.held = 0
		case ' ', '\t', '\r', '=':
		default:
			b.out = append(b.out, c)
		}
	}
	b.total += len(b.out)
	b.hash.Write(b.out)
	b.out = b.out[:0]
}

func (f *dccFuz1) naiveChunk(p []byte) {
	for _, c := range p {
		c = lowerASCII(c)
		if f.url.wants(c) && f.url.feed(c) {
			continue
		}
		switch {
		case c >= 'a' && c <= 'z':
			f.buf[f.n] = c
			if f.n++; f.n == fuz1Line {
				f.flush()
				f.url.reset()
			}
		case c == '\n':
			f.newline()
		}
	}
	if f.mark == f.n {
		f.add(f.n)
		if f.rules == DCCRules1 {
			f.mark = 0
		} else if f.n > 0 {
			f.mark = -1
		}
		f.n = 0
	}
}

// naiveLines returns the lines that Pyzor counts, normalised: of each, words of
// ten and more characters, addresses, URLs and white space are removed.
func naiveLines(text []rune) (lines []string) {
	for len(text) > 0 {
		end := slices.IndexFunc(text, pyzorLineEnd[rune])
		if end < 0 {
			end = len(text)
		}
		var normal []rune
		for line := text[:end]; len(line) > 0; {
			n := slices.IndexFunc(line, pyzorSpace[rune])
			if n < 0 {
				n = len(line)
			}
			if word := line[:n]; n < 10 && !pyzorAddress(word) {
				normal = append(normal, word[:pyzorURL(word)]...)
			}
			line = line[min(n+1, len(line)):]
		}
		if len(normal) >= 8 {
			lines = append(lines, string(normal))
		}
		text = text[min(end+1, len(text)):]
	}
	return lines
}

func naiveWords(text []byte, limit int) (found []string) {
	for it := words.FromBytes(splitPoints(dropLinksIn(text))); len(found) < limit && it.Next(); {
		if w := wordOf(it.Value()); w != "" {
			found = append(found, w)
		}
	}
	return found
}

// TestFastAsNaive holds the fast ways to the slow ones on random text made to
// break them.
func TestFastAsNaive(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	key := newNearKey([16]byte{1})
	rspamd := NewRspamdHasher("", "", RspamdMumHash)
	for range 4000 {
		text := naiveText(r)
		recipient := recipientWords([]string{"Bob Miller <bob@example.com>"})
		fast, slow := folder{recipient: recipient}, folder{recipient: recipient}
		fast.fold(text)
		slow.naiveFold(text)
		if got, want := fast.paragraph.String(), slow.paragraph.String(); got != want {
			t.Fatalf("%q folded: %q, want %q", text, got, want)
		}
		if list := &fast.paragraph; list.len() >= nearMinWords && enough(nearMinDistinct, nearMinLetters, list) {
			minima := naiveMinima(key, list, quotedSalt)
			for b, band := range key.bands(list, quotedSalt) {
				block := []byte{byte(b)}
				for _, m := range minima[b*nearRows : (b+1)*nearRows] {
					block = binary.BigEndian.AppendUint64(block, m)
				}
				hi, lo := siphash.Hash128(key.k0, key.k1, block)
				want := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, hi), lo)
				want[0] = byte(b)
				if !bytes.Equal(band[:], want) {
					t.Fatalf("band %d of %q: %x, want %x", b, list, band, want)
				}
			}
		}
		for rules := range DCCRules1 + 1 {
			var fast1, slow1 dccFuz1
			var fast2, slow2 dccBodySum
			fast1.init(rules)
			slow1.init(rules)
			fast2.init()
			slow2.init()
			for rest := bytes.Repeat(text, 1+r.IntN(20)); len(rest) > 0; {
				n := 1 + r.IntN(len(rest))
				fast1.chunk(rest[:n])
				slow1.naiveChunk(rest[:n])
				fast2.write(rest[:n])
				slow2.naiveWrite(rest[:n])
				rest = rest[n:]
			}
			if fast1.total != slow1.total || fast1.sum() != slow1.sum() {
				t.Fatalf("Fuz1 of %q, rules %d: %d letters, want %d", text, rules, fast1.total, slow1.total)
			}
			if fast2.total != slow2.total || fast2.held != slow2.held || fast2.sum() != slow2.sum() {
				t.Fatalf("Body of %q: %d bytes, want %d", text, fast2.total, slow2.total)
			}
		}
		for _, whole := range []int{0, 1 << 20} { // as it comes, and only what is wanted
			var got []string
			var line []byte
			l := &pyzorLiner{text: func(b []byte) { line = append(line, b...) }, end: func() { got, line = append(got, string(line)), nil }}
			if whole == 0 {
				l.puts(text)
			} else {
				for _, r := range string(text) {
					l.put(r)
				}
			}
			l.endLine()
			runes := []rune(string(text))
			if whole == 0 {
				runes = runes[:0]
				for _, c := range text {
					runes = append(runes, rune(c))
				}
			}
			if want := naiveLines(runes); !slices.Equal(got, want) || l.lines != len(want) {
				t.Fatalf("lines of %q: %q, want %q", text, got, want)
			}
		}
		stripped, limit := stripText([]byte(strings.ToValidUTF8(string(text), "?"))), 1+r.IntN(90)
		list, _ := wordsOf(stripped, limit, nil)
		if want := naiveWords(stripped, limit); !slices.Equal(list, want) {
			t.Fatalf("%d words of %q: %q, want %q", limit, stripped, list, want)
		}
		if len(list) > 0 {
			j := r.IntN(RspamdShingles)
			seed, least := binary.LittleEndian.Uint64(rspamd.keys[j][:]), uint64(math.MaxUint64)
			var older, old uint64
			for _, w := range list[:max(len(list)-2, 1)] {
				v := mumHash(w, seed)
				least, older, old = min(least, older>>16^old>>8^v), old, v
			}
			if got := rspamd.Shingles(list); got[j] != least {
				t.Fatalf("shingle %d of %q: %x, want %x", j, list, got[j], least)
			}
		}
		want := bytes.IndexAny(text, "\r\n")
		if got := lineEnd(text); got != want {
			t.Fatalf("line end of %q at %d, want %d", text, got, want)
		}
		wantEnd, wantNext := len(text), len(text)
		if want >= 0 {
			wantEnd, wantNext = want, want+1
			if bytes.HasPrefix(text[want:], []byte("\r\n")) {
				wantNext++
			}
		}
		end, next := firstLine(text)
		stringEnd, stringNext := firstLine(bytesOf(string(text)))
		if end != wantEnd || next != wantNext || stringEnd != wantEnd || stringNext != wantNext {
			t.Fatalf("first line of %q ends at %d, %d and %d, %d as a string, want %d, %d", text, end, next, stringEnd, stringNext, wantEnd, wantNext)
		}
	}
}
