package razor

import (
	"bytes"
	"slices"

	"github.com/bulkhead-mail/bulkhead/internal/text/scan"
)

// MinText is the least number of bytes of text, without blanks at the ends, for which
// the engine-4 signature of a part is worth listing. Unrelated messages share shorter
// parts ("Sent from my phone").
const MinText = 32

// Listable reports whether the engine-4 signature of the part may be listed: its text
// has at least [MinText] bytes.
func (p *Part) Listable() bool { return !p.Empty && p.TextLen >= MinText }

// Message reassembles a message from the form in which razor-report sends it: its header, with LF
// line ends, and its prepared parts. The client flattens nested multiparts. A plain and an HTML
// text at the beginning are taken for alternatives, as they are in nearly all mail. The text of
// the parts is exact, so the signatures of the text equal the signatures of the original.
func Message(header []byte, parts [][]byte) []byte {
	header = bytes.TrimRight(header, "\r\n")
	if len(parts) == 1 {
		_, end := blankLine(parts[0])
		if end < 0 {
			end = len(parts[0])
		}
		out := append(slices.Clone(header), "\n\n"...)
		return append(out, parts[0][end:]...)
	}
	boundary, ok := boundaryOf(keepFields(append(slices.Clone(header), '\n'), nil))
	if !ok {
		// The client cut the mail at a boundary, so there is one; this header is
		// not the mail's.
		return append(slices.Clone(header), "\n\n"...)
	}
	out := append(slices.Clone(header), "\n\n"...)
	if len(parts) > 2 && partIs(parts[0], "text/plain") && partIs(parts[1], "text/html") {
		inner := boundary + ".alternative"
		out = append(out, "--"+boundary+"\nContent-Type: multipart/alternative; boundary=\""+inner+"\"\n\n"...)
		out = appendParts(out, parts[:2], inner)
		parts = parts[2:]
	}
	return appendParts(out, parts, boundary)
}

func appendParts(out []byte, parts [][]byte, boundary string) []byte {
	for _, p := range parts {
		out = append(out, "--"+boundary+"\n"...)
		for len(p) > 0 && scan.HasPrefixFold(p, "X-Razor2-") {
			_, p, _ = bytes.Cut(p, []byte{'\n'})
		}
		out = append(append(out, p...), '\n')
	}
	return append(out, "--"+boundary+"--\n"...)
}

// partIs reports whether the header of a prepared part names a type.
func partIs(part []byte, contentType string) bool {
	start, _ := blankLine(part)
	if start < 0 {
		return false
	}
	return lineStart(part[:start], "Content-Type: "+contentType) >= 0
}
