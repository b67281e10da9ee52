package razor

import (
	"bytes"
	"context"
	"sync"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/pace"
)

// EP4 is the seed and separator that this package uses for engine 4, in the
// protocol's notation: docs/specs/razor2.md#engine-4.
const EP4 = "7542-10"

// Limits on the work for one mail, in addition to the limits of the client itself. Real mail
// stays far below them; they bound the work on hostile mail.
const (
	maxDepth = 16   // multiparts within each other
	maxParts = 1000 // parts of a mail
	maxMail  = 256  // signatures that Signatures returns; mail of the corpus has at most 29
	maxHosts = 8192 // hosts in the parts that Parts returns
)

// A Part holds the signatures of one MIME part. Razor has no signature of
// a whole mail.
type Part struct {
	// E4 is the signature of engine 4, 20 bytes.
	E4 bulkhead.Signature
	// E8 holds the signatures of engine 8, 8 bytes each, in the order in which
	// the client asks; a link that occurs twice may be in it twice.
	E8 []bulkhead.Signature
	// Hosts holds the host that each signature of E8 stands for.
	Hosts []string
	// Empty is set if engine 4 hashed nothing at all. Every part without text has
	// this signature, so it must never be listed.
	Empty bool
	// TextLen is the length in bytes of the text that engine 4 looked at, without
	// the blanks at its ends.
	TextLen int
}

// Signatures returns every signature that Razor clients compute for a mail, without repetition:
// the signatures of the mail as it is (SpamAssassin) and, where they differ, of the mail as
// razor-check reads it from a file (see [Mails]). Signatures of parts with next to no text are
// left out, because unrelated messages share them. The result has at most 256 signatures, and
// none if no part is worth one. It fails only when ctx ends, with an error that wraps that of
// ctx. Source: docs/specs/razor2.md#splitting-a-mail to #engine-8.
func Signatures(ctx context.Context, raw []byte) ([]bulkhead.Signature, error) {
	var sigs []bulkhead.Signature
	seen := make(map[bulkhead.Signature]bool)
	add := func(s bulkhead.Signature) {
		if !seen[s] && len(sigs) < maxMail {
			seen[s] = true
			sigs = append(sigs, s)
		}
	}
	take := func(p Part) {
		if p.Listable() {
			add(p.E4)
		}
		for _, s := range p.E8 {
			add(s)
		}
	}
	p := pace.New(ctx)
	each(raw, p, take)
	if mails := Mails(raw); len(mails) == 1 && !bytes.Equal(mails[0], raw) {
		each(mails[0], p, take)
	}
	if err := pace.Ended(p); err != nil {
		return nil, err
	}
	return sigs, nil
}

// Parts returns the signatures of every part of a mail that the client
// would ask for, in its order. It fails only when ctx ends, with an error that
// wraps that of ctx. Source: docs/specs/razor2.md#splitting-a-mail to #engine-8.
func Parts(ctx context.Context, mail []byte) ([]Part, error) {
	var parts []Part
	p := pace.New(ctx)
	hosts := 0
	each(mail, p, func(part Part) {
		if hosts += len(part.Hosts); hosts > maxHosts {
			part.E8, part.Hosts = nil, nil
		}
		parts = append(parts, part)
	})
	if err := pace.Ended(p); err != nil {
		return nil, err
	}
	return parts, nil
}

// A space is reusable working space: for a prepared part, whose size the client bounds, for its
// decoded form, and for the text in which its links are found.
type space struct {
	prepared, decoded [front + maxBody]byte
	unescaped         [maxBody]byte
}

// spaces pools working space. It holds no state.
var spaces = sync.Pool{New: func() any { return new(space) }}

// each calls take for every part of a mail that has signatures.
func each(mail []byte, p *pace.Pace, take func(Part)) {
	s := splitter{pace: p}
	own := spaces.Get().(*space)
	defer spaces.Put(own)
	s.split(mail, 0, func(raw rawPart) {
		prepared, ok := raw.prepare(&own.prepared, p)
		if !ok || p.Over(len(prepared)) {
			return
		}
		if part, ok := signaturesOf(prepared, own); ok {
			take(part)
		}
	})
}

// Prepared returns the signatures of one part in the form in which
// razor-report sends it: header lines, an empty line, the body, LF line ends. It
// reports false for a part that gets no signature. Source:
// docs/specs/razor2.md#reported-mail and #preprocessing to #engine-8.
func Prepared(part []byte) (Part, bool) { return signaturesOf(part, nil) }

// signaturesOf is [Prepared] with optional working space. With working space it may write over
// the part.
func signaturesOf(part []byte, own *space) (Part, bool) {
	over := own != nil
	var room, unescaped []byte
	if over {
		room, unescaped = own.decoded[:0], own.unescaped[:0]
	}
	decoded, joined := decodeBase64(part, room)
	if joined {
		room = nil
	}
	decoded = decodeQuotedPrintable(decoded, room)
	v8 := bodyOf(decoded)
	if isSkipped(v8) {
		return Part{}, false
	}
	hosts := hostsOf(v8, unescaped)
	p := Part{Hosts: hosts, E8: make([]bulkhead.Signature, 0, len(hosts))}
	for _, host := range hosts {
		p.E8 = append(p.E8, engine8(host, len(v8)))
	}
	v4 := bodyOf(plainText(decoded, over))
	p.TextLen = len(bytes.TrimSpace(v4))
	p.E4, p.Empty = engine4(v4)
	return p, true
}

// Mails splits a file into messages as razor-check and razor-report do: at every line
// that starts with "From " if the first line does. Otherwise the file is one message,
// in which such lines, quoted or not, are quoted once more. An empty file has no
// message. Source: docs/specs/razor2.md#splitting-a-mail.
func Mails(file []byte) [][]byte {
	if len(file) == 0 {
		return nil
	}
	from := []byte("From ")
	if !bytes.HasPrefix(file, from) {
		return [][]byte{quoteFrom(file)}
	}
	var mails [][]byte
	start := 0
	for i := 0; i < len(file); {
		if i > start && bytes.HasPrefix(file[i:], from) {
			mails = append(mails, file[start:i])
			start = i
		}
		end := bytes.IndexByte(file[i:], '\n')
		if end < 0 {
			break
		}
		i += end + 1
	}
	return append(mails, file[start:])
}

func quoteFrom(mail []byte) []byte {
	if !hasFrom(mail) {
		return mail
	}
	out := make([]byte, 0, len(mail)+16)
	for line := range bytes.SplitAfterSeq(mail, []byte{'\n'}) {
		if bytes.HasPrefix(bytes.TrimLeft(line, ">"), []byte("From ")) {
			out = append(out, '>')
		}
		out = append(out, line...)
	}
	return out
}

// hasFrom reports whether a line begins with "From ", quoted or not.
func hasFrom(mail []byte) bool {
	from := []byte("From ")
	for at := 0; ; {
		n := bytes.Index(mail[at:], from)
		if n < 0 {
			return false
		}
		at += n
		if before := bytes.TrimRight(mail[:at], ">"); len(before) == 0 || before[len(before)-1] == '\n' {
			return true
		}
		at += len(from)
	}
}
