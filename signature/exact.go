package signature

import (
	"bytes"
	"context"
	"crypto/sha256"
	"hash"
	"slices"
	"sync"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/mail"
	"github.com/bulkhead-mail/bulkhead/internal/pace"
	"github.com/bulkhead-mail/bulkhead/internal/text/scan"
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

// exactSum returns the sum of the bulkhead/exact signature of m, or nil when the body is below
// the floor. It returns the error of ctx.
//
// The package doc defines it. Parts that are not text do not enter, since
// senders vary them; a short note with a picture has no signature either, since
// the picture may be the logo below all mail of a company.
func exactSum(ctx context.Context, m *mail.Message, s *skeleton, p *pace.Pace) ([]byte, error) {
	h := sha256.New()
	distinctive := s.distinctive()
	switch {
	case s.inside:
		// The text parts have no words; those that were read are in the other parts.
	case distinctive:
		hashText(m, h, p)
		return h.Sum(nil), nil
	case !s.empty():
		return nil, nil
	}
	// A picture and a link are a message, however small the parts.
	linked, err := showsLinkedPicture(ctx, m)
	switch {
	case err != nil:
		return nil, err
	case distinctive || linked || !s.footer && dataFloor(m, p):
		h.Write([]byte("data\x00"))
		hashText(m, h, p)
		for i := range m.Parts {
			if part := &m.Parts[i]; len(part.Data) > 0 {
				sum := sha256.New()
				pace.Write(sum, part.Data, p)
				h.Write(sum.Sum(nil))
			}
		}
		return h.Sum(nil), nil
	}
	return nil, nil
}

// showsLinkedPicture reports whether a page of m, attachments aside, has a link to follow,
// and a picture that is sent with it or loaded.
func showsLinkedPicture(ctx context.Context, m *mail.Message) (bool, error) {
	picture := slices.ContainsFunc(m.Parts, func(p mail.Part) bool { return isPicture(&p) })
	link := false
	for i := range m.Parts {
		if !m.Parts[i].HTML || m.Parts[i].Attachment {
			continue
		}
		page, err := m.Page(ctx, i)
		if err != nil {
			return false, err
		}
		for _, h := range page.Links {
			picture = picture || h.Loaded
			link = link || !h.Loaded && !h.Hidden
		}
	}
	return picture && link, nil
}

// dataFloor reports whether the parts that are not text suffice to identify the message.
func dataFloor(m *mail.Message, p *pace.Pace) bool {
	var seen [256]bool
	size, distinct := 0, 0
	for i := range m.Parts {
		data := m.Parts[i].Data
		size += len(data)
		for len(data) > 0 && distinct < exactMinBytes {
			n := min(len(data), pace.Step)
			if p.Over(n) {
				return false
			}
			for _, c := range data[:n] {
				if !seen[c] {
					seen[c] = true
					distinct++
				}
			}
			data = data[n:]
		}
	}
	return size >= exactMinData && distinct >= exactMinBytes
}

func hashText(m *mail.Message, h hash.Hash, p *pace.Pace) {
	buf := canonicals.Get().(*[]byte)
	defer canonicals.Put(buf)
	for i := range m.Parts {
		if part := &m.Parts[i]; part.IsText() {
			*buf = hashCanonical(h, part.Text, *buf, p)
		}
	}
}

// canonicals keeps the memory of canonical text. It holds no state.
var canonicals = sync.Pool{New: func() any { return new([]byte) }}

// canonicalBuffer is how many bytes of canonical text are hashed at a time.
const canonicalBuffer = 32 << 10

// hashCanonical writes the canonical form of text to h. buf is scratch space.
func hashCanonical(h hash.Hash, text string, buf []byte, p *pace.Pace) []byte {
	rest := scan.Bytes(text)
	empty := 0
	begun := false
	buf = slices.Grow(buf[:0], min(len(rest), canonicalBuffer)+normPiece)
	for len(rest) > 0 {
		end, next := scan.FirstLine(rest)
		line := rest[:end]
		if end > 0 && (line[end-1] <= ' ' || line[end-1] >= utf8.RuneSelf) {
			line = bytes.TrimRight(line, " \t\v\f\u00a0")
		}
		rest = rest[next:]
		if p.Over(next) {
			return buf
		}
		if len(line) == 0 {
			empty++
			continue
		}
		if begun {
			for range min(empty, 1<<10) {
				buf = append(buf, '\n')
			}
		}
		begun, empty = true, 0
		// Line ends touch no character before or after them.
		for ascii := scan.ASCIIPrefix(line) == len(line); len(line) > 0; {
			n := min(len(line), normPiece)
			if ascii {
				buf = append(buf, line[:n]...)
			} else {
				n = cutNormal(norm.NFC, line)
				buf = appendNFC(buf, line[:n])
			}
			if line = line[n:]; len(buf) > canonicalBuffer {
				h.Write(buf)
				buf = buf[:0]
			}
		}
		buf = append(buf, '\n')
	}
	if begun {
		h.Write(append(buf, 0))
	}
	return buf
}

// appendNFC appends text in normal form C.
func appendNFC(buf, text []byte) []byte {
	if isNFC(text) {
		return append(buf, text...)
	}
	return append(buf, norm.NFC.Bytes(text)...)
}

// isNFC is a faster form of the library's IsNormal. A character that stands apart can only
// combine with the character directly after it.
func isNFC(text []byte) bool {
	const long = 16 // bytes of characters apart that are worth passing over
	for {
		start, _ := apart(text, len(text))
		if start == len(text) {
			return true
		}
		end := start
		for end < len(text) {
			n, rune := apart(text[end:], long)
			if n >= long {
				break
			}
			end += n + rune
		}
		_, size := utf8.DecodeLastRune(text[:start])
		if !norm.NFC.IsNormal(text[start-size : end]) {
			return false
		}
		text = text[end:]
	}
}

// apart returns how many bytes at the start of text, enough or a little more at most, are
// characters that are in normal form C and join nothing before them, and the size of the
// character behind these, 0 if there is none.
func apart(text []byte, enough int) (n, next int) {
	for n < len(text) && n < enough {
		if text[n] < utf8.RuneSelf {
			n += scan.ASCIIPrefix(text[n:min(len(text), n+enough)])
			continue
		}
		r, size := rune(text[n]), 2
		if r >= 0xc2 && r < 0xe0 && n+1 < len(text) && text[n+1]&0xc0 == 0x80 {
			r = r&0x1f<<6 | rune(text[n+1]&0x3f)
		} else {
			r, size = scan.Rune(text[n:])
		}
		if standsApart.At(r) == 0 {
			return n, size
		}
		n += size
	}
	return n, 0
}

// standsApart remembers which characters are in normal form C and join nothing before them.
// U+FFFD, which stands for invalid bytes, and rare characters are left to the library.
var standsApart = scan.NewRunes(func(r rune) rune {
	const rare = 0x20000
	if c := string(r); r < rare && r != utf8.RuneError && norm.NFC.IsNormalString(c) &&
		norm.NFC.PropertiesString(c).BoundaryBefore() {
		return 1
	}
	return 0
})

// exact returns the bulkhead/exact signature of m, if it has one.
func exact(ctx context.Context, m *mail.Message, s *skeleton, p *pace.Pace) ([]bulkhead.Signature, error) {
	sum, err := exactSum(ctx, m, s, p)
	return appendSignature(nil, bulkhead.Exact, sum), err
}
