package signature

import (
	"bytes"
	"slices"
)

// RazorMinText is the least number of bytes of text, blanks at the ends aside,
// that make the engine-4 signature of a part worth listing: shorter parts are
// what unrelated mails have in common ("Sent from my phone").
const RazorMinText = 32

// Listable says whether the engine-4 signature of the part may be listed.
func (p *RazorPart) Listable() bool { return !p.Empty && p.TextLen >= RazorMinText }

// RazorMessage puts a mail together again from what razor-report sends of it: its
// header, with LF line ends, and its parts in their prepared form. The client
// flattens nested multiparts; a plain and an HTML text in front are taken for
// alternatives, as they are in nearly all mail. The text of the parts is exact,
// so signatures that rest on text are those of the mail.
func RazorMessage(header []byte, parts [][]byte) []byte {
	header = bytes.TrimRight(header, "\r\n")
	if len(parts) == 1 {
		_, end := razorBlankLine(parts[0])
		if end < 0 {
			end = len(parts[0])
		}
		out := append(slices.Clone(header), "\n\n"...)
		return append(out, parts[0][end:]...)
	}
	boundary, ok := razorBoundary(razorKeep(append(slices.Clone(header), '\n'), nil))
	if !ok {
		// The client cut the mail at a boundary, so there is one; this header is
		// not the mail's.
		return append(slices.Clone(header), "\n\n"...)
	}
	out := append(slices.Clone(header), "\n\n"...)
	if len(parts) > 2 && razorPartIs(parts[0], "text/plain") && razorPartIs(parts[1], "text/html") {
		inner := boundary + ".alternative"
		out = append(out, "--"+boundary+"\nContent-Type: multipart/alternative; boundary=\""+inner+"\"\n\n"...)
		out = razorAppendParts(out, parts[:2], inner)
		parts = parts[2:]
	}
	return razorAppendParts(out, parts, boundary)
}

func razorAppendParts(out []byte, parts [][]byte, boundary string) []byte {
	for _, p := range parts {
		out = append(out, "--"+boundary+"\n"...)
		for len(p) > 0 && hasPrefixFold(p, "X-Razor2-") {
			_, p, _ = bytes.Cut(p, []byte{'\n'})
		}
		out = append(append(out, p...), '\n')
	}
	return append(out, "--"+boundary+"--\n"...)
}

// razorPartIs says whether the header of a prepared part names a type.
func razorPartIs(part []byte, contentType string) bool {
	start, _ := razorBlankLine(part)
	if start < 0 {
		return false
	}
	return razorLineStart(part[:start], "Content-Type: "+contentType) >= 0
}
