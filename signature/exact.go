package signature

import (
	"crypto/sha256"
	"hash"
	"slices"
	"strings"

	"golang.org/x/text/unicode/norm"

	"github.com/bulkhead-mail/bulkhead"
)

// The floor of bulkhead/exact: a text below it has no signature.
const (
	exactMinWords   = 8  // different words of the skeleton, quoted text included
	exactMinLetters = 32 // bytes of the different words together
)

// The floor of the attachments of a message without words.
const (
	exactMinData  = 4 << 10 // bytes
	exactMinBytes = 32      // different byte values
)

// exactSum returns the sum of the bulkhead/exact signature of m, or nil when
// the body is below the floor.
//
// The package doc defines it. Parts that are not text do not enter, since
// senders vary them; a short note with a picture has no signature either, since
// the picture may be the logo below all mail of a company.
func (m *Message) exactSum(s *skeleton) []byte {
	h := sha256.New()
	switch {
	case enough(exactMinWords, exactMinLetters, &s.words, &s.quoted):
		m.hashText(h)
	case s.empty() && !s.footer && m.dataFloor():
		h.Write([]byte("data\x00"))
		m.hashText(h)
		for i := range m.Parts {
			if p := &m.Parts[i]; len(p.Data) > 0 {
				sum := sha256.Sum256(p.Data)
				h.Write(sum[:])
			}
		}
	default:
		return nil
	}
	return h.Sum(nil)
}

// dataFloor reports whether the parts that are not text tell enough.
func (m *Message) dataFloor() bool {
	var seen [256]bool
	size, distinct := 0, 0
	for i := range m.Parts {
		size += len(m.Parts[i].Data)
		for _, c := range m.Parts[i].Data {
			if !seen[c] {
				seen[c] = true
				distinct++
			}
		}
	}
	return size >= exactMinData && distinct >= exactMinBytes
}

func (m *Message) hashText(h hash.Hash) {
	var line []byte
	for i := range m.Parts {
		if p := &m.Parts[i]; p.IsText() {
			line = hashCanonical(h, p.Text, line)
		}
	}
}

// hashCanonical writes the canonical form of text to h. buf is scratch space.
func hashCanonical(h hash.Hash, text string, buf []byte) []byte {
	if !isASCII(text) && !norm.NFC.IsNormalString(text) {
		text = norm.NFC.String(text)
	}
	empty := 0
	begun := false
	buf = slices.Grow(buf[:0], min(len(text), 33<<10)+2)
	for len(text) > 0 {
		end, next := firstLineString(text)
		line := strings.TrimRight(text[:end], " \t\v\f\u00a0")
		text = text[next:]
		if line == "" {
			empty++
			continue
		}
		if begun {
			for range min(empty, 1<<10) {
				buf = append(buf, '\n')
			}
		}
		begun, empty = true, 0
		buf = append(append(buf, line...), '\n')
		if len(buf) > 32<<10 {
			h.Write(buf)
			buf = buf[:0]
		}
	}
	if begun {
		h.Write(append(buf, 0))
	}
	return buf
}

// exact returns the bulkhead/exact signature of m, if it has one.
func (m *Message) exact(s *skeleton) []bulkhead.Signature {
	return appendSignature(nil, bulkhead.Exact, m.exactSum(s))
}
