package dcc

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/testing/mailtest"
)

// The functions below follow the protocol's description step by step. The package does the
// same work faster, by tables and by runs.

func (b *bodySum) naiveWrite(p []byte) {
	var out []byte
	for _, c := range p {
		if b.held >= 0 {
			if c == quotedFrom[b.held] {
				if b.held++; b.held == len(quotedFrom) {
					out = append(out, quotedFrom[1:]...)
					b.held = -1
				}
				continue
			}
			out = append(out, quotedFrom[:b.held]...)
			b.held = -1
		}
		switch c {
		case '\n':
			b.held = 0
		case ' ', '\t', '\r', '=':
		default:
			out = append(out, c)
		}
	}
	b.total += len(out)
	b.hash.Write(out)
}

func (f *fuz1Sum) naiveChunk(p []byte) {
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
		if f.rules == Rules1 {
			f.mark = 0
		} else if f.n > 0 {
			f.mark = -1
		}
		f.n = 0
	}
}

// TestFastAsNaive holds the fast ways to the slow ones on random text made to
// break them.
func TestFastAsNaive(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 4000 {
		text := mailtest.Text(r)
		if r.IntN(4) == 0 { // a path of as many bytes as are left out, or more
			path := slices.Concat([]byte("=\"http://www.Shop.example/"), bytes.Repeat([]byte("x/"), 950+r.IntN(100)),
				mailtest.Text(r), bytes.Repeat([]byte("&"), r.IntN(2)))
			text = slices.Insert(text, r.IntN(len(text)+1), path[r.IntN(3):]...)
		}
		for rules := range Rules1 + 1 {
			var fast1, slow1 fuz1Sum
			var fast2, slow2 bodySum
			fast1.init(rules)
			slow1.init(rules)
			fast2.init()
			slow2.init()
			for rest := bytes.Repeat(text, 1+r.IntN(40)); len(rest) > 0; {
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
	}
}
