package mail

import (
	"bytes"
	"path"
	"strings"

	"github.com/bulkhead-mail/bulkhead/internal/pace"
)

// A holding is the kind of content of a body whose media type does not declare it.
type holding uint8

const (
	holdsFile    holding = iota // what the media type says
	holdsMessage                // a message, attached as a file
	holdsSigned                 // S/MIME: an entity within its signature
)

// holdingOf returns what an entity of a media type and a file name holds.
func holdingOf(kind, name string) holding {
	extension := strings.ToLower(path.Ext(name))
	switch kind {
	case "application/pkcs7-mime", "application/x-pkcs7-mime":
		return holdsSigned
	case "message/rfc2822", "message/news", "message/partial", "application/eml", "application/x-eml":
		return holdsMessage
	case "application/octet-stream", "application/x-unknown", "application/unknown", "application/binary",
		"application/octetstream", "application/force-download", "application/x-download", "text/plain", "text/rfc822",
		"application/email", "application/vnd.ms-outlook", "text/x-mail", "application/rfc822", "application/msword",
		"application/vnd.ms-excel":
		switch {
		case extension == ".eml", isWebArchive(extension) && kind != "text/plain":
			return holdsMessage
		case extension == ".p7m" && kind != "text/plain":
			return holdsSigned
		case kind == "application/octet-stream" && (name == "" || extension == ""):
			return holdsMessage
		}
	}
	return holdsFile
}

// isWebArchive reports whether a file of a name with an extension may be a page in the form of a message. Office
// programs also open these with the extensions of their own files.
func isWebArchive(extension string) bool {
	switch extension {
	case ".mht", ".mhtml", ".doc", ".xls":
		return true
	}
	return false
}

// beginsMessage reports whether data begins with the header of a message. Where the name of the file does
// not say so, it has three fields or more, of which two are among those that messages have.
func beginsMessage(data []byte, named bool) bool {
	const most = 32 // lines that are looked at
	enough, wanted := 3, 2
	if named {
		enough, wanted = 1, 1
	}
	data = trimStart(data)
	if text, ok := bytes.CutPrefix(data, []byte("From ")); ok {
		_, data, _ = cutLine(text)
	}
	fields, usual := 0, 0
	for range most {
		line, rest, ok := cutLine(data)
		if !ok || len(line) == 0 {
			break
		}
		if data = rest; isWhite(line[0]) && fields > 0 {
			continue
		}
		name := fieldName(line)
		if name == nil {
			return false
		}
		fields++
		switch strings.ToLower(string(name)) {
		case "from", "to", "subject", "date", "message-id", "received", "return-path", "delivered-to", "reply-to",
			"mime-version", "content-type", "dkim-signature", "sender", "list-id", "cc", "authentication-results":
			usual++
		}
	}
	return fields >= enough && usual >= wanted
}

// trimStart returns a message without the byte order mark and the empty lines before it.
func trimStart(data []byte) []byte {
	return bytes.TrimLeft(bytes.TrimPrefix(bytes.TrimLeft(data, "\r\n"), []byte("\xef\xbb\xbf")), "\r\n")
}

// unsigned returns the entity that a signature of S/MIME covers and contains, nil for what is encrypted,
// damaged or something else. The result may share memory with data.
//
// Source: RFC 5652 sections 3, 5.1 and 5.2, in BER.
func unsigned(data []byte, p *pace.Pace) []byte {
	// id-signedData, 1.2.840.113549.1.7.2
	signedData := []byte{0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x07, 0x02}
	info, ok := berOf(data, berSequence)
	if !ok {
		return nil
	}
	oid, rest, ok := info.next()
	if !ok || oid.tag != berOID || !bytes.Equal(oid.content, signedData) {
		return nil
	}
	wrapped, ok := berOf(rest, berExplicit0)
	if !ok {
		return nil
	}
	signed, ok := berOf(wrapped.content, berSequence)
	if !ok {
		return nil
	}
	// Version, algorithms, and the content.
	for range 2 {
		if _, signed.content, ok = signed.next(); !ok {
			return nil
		}
	}
	inner, ok := berOf(signed.content, berSequence)
	if !ok {
		return nil
	}
	if _, inner.content, ok = inner.next(); !ok { // its type
		return nil
	}
	content, ok := berOf(inner.content, berExplicit0)
	if !ok {
		return nil
	}
	octets, _, ok := content.next()
	switch {
	case !ok:
		return nil
	case octets.tag == berOctets:
		return octets.content
	case octets.tag != berOctets|berConstructed:
		return nil
	}
	var whole []byte
	for rest := octets.content; len(rest) > 0; {
		var piece ber
		if piece, rest, ok = (ber{content: rest}).next(); !ok || piece.tag != berOctets || p.Over(len(piece.content)+1) {
			break
		}
		whole = append(whole, piece.content...)
	}
	return whole
}

// A ber is an element of BER.
type ber struct {
	tag     byte
	content []byte
}

// Tags of elements.
const (
	berOctets      = 0x04
	berOID         = 0x06
	berSequence    = 0x30
	berExplicit0   = 0xa0
	berConstructed = 0x20
)

// berOf returns the element at the start of data if it has that tag.
func berOf(data []byte, tag byte) (ber, bool) {
	e, _, ok := ber{content: data}.next()
	return e, ok && e.tag == tag
}

// next returns the first element within b, and what follows it. The content of an element of indefinite
// length, or of a truncated element, reaches to the end of b: what follows it is not looked for.
func (b ber) next() (first ber, rest []byte, ok bool) {
	data := b.content
	if len(data) < 2 || data[0]&0x1f == 0x1f {
		return ber{}, nil, false
	}
	first.tag = data[0]
	size, data := int(data[1]), data[2:]
	switch n := size - 0x80; {
	case n == 0:
		first.content = data
		return first, nil, true
	case n > 4 || n > len(data):
		return ber{}, nil, false
	case n > 0:
		size = 0
		for _, c := range data[:n] {
			size = size<<8 | int(c)
		}
		data = data[n:]
	}
	size = min(size, len(data))
	first.content, rest = data[:size:size], data[size:]
	return first, rest, true
}
