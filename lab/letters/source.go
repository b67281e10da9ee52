package letters

import (
	"bytes"
	"crypto/sha256"
	"net/netip"
	"regexp"
	"strings"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/mail"
)

// The results of a mail server, in the forms that occur in collections: some lack the name of
// the host that RFC 8601 demands.
var (
	results    = regexp.MustCompile(`(?im)^authentication-results:((?:[^\n]|\n[ \t])*)`)
	passedDKIM = regexp.MustCompile(`(?i)\bdkim=pass\b[^;]*\bheader\.d=([^;\s]+)`)
	passedSPF  = regexp.MustCompile(`(?i)\bspf=pass\b[^;]*\bsmtp\.mailfrom=(?:[^;\s@]*@)?([^;\s]+)`)
	senderIP   = regexp.MustCompile(`(?i)\bsender ip is ([0-9a-f.:]+)`)
	received   = regexp.MustCompile(`(?im)^received:(?:[^\n]|\n[ \t])*?\[([0-9a-f.:]+)\]`)
)

// Header returns the raw header of a message, with lines that end in "\n".
func Header(raw []byte) []byte {
	header, _, _ := bytes.Cut(bytes.ReplaceAll(raw, []byte("\r\n"), []byte("\n")), []byte("\n\n"))
	return header
}

// Source returns the source of a message as the server that received it would have found it,
// with header as m's [Header]: by the topmost Authentication-Results, or else, unless it is taken for unsigned as all
// spam is, as if the author's or the list's domain had signed it.
func Source(m *mail.Message, header []byte, unsigned bool) bulkhead.Source {
	dkim, spf, verified := Verified(header)
	if !verified && !unsigned {
		signer := m.ListID
		if signer == "" {
			_, signer, _ = strings.Cut(m.From, "@")
		}
		if signer != "" {
			dkim = append(dkim, signer)
		}
	}
	source := m.SourceVerified(nil, "", dkim, spf)
	source.Client = Client(header)
	return source
}

// Verified returns what the topmost Authentication-Results of a header say: the domains of valid
// DKIM signatures, and the envelope's domain if SPF has passed, else "". ok is false if there are
// none.
func Verified(header []byte) (dkim []string, spf string, ok bool) {
	field := results.FindSubmatch(header)
	if field == nil {
		return nil, "", false
	}
	for _, d := range passedDKIM.FindAllSubmatch(field[1], -1) {
		dkim = append(dkim, string(d[1]))
	}
	if d := passedSPF.FindSubmatch(field[1]); d != nil {
		spf = string(d[1])
	}
	return dkim, spf, true
}

// Client returns the address of the client that handed the message over. It is the address in the
// authentication results, or else the first public one of a Received field. A server always knows it,
// but some headers do not contain it: then it is an address in a network of the message's own.
func Client(header []byte) netip.Addr {
	var fields [][]byte
	if field := results.FindSubmatch(header); field != nil {
		if ip := senderIP.FindSubmatch(field[1]); ip != nil {
			fields = append(fields, ip[1])
		}
	}
	for _, field := range received.FindAllSubmatch(header, -1) {
		fields = append(fields, field[1])
	}
	for _, field := range fields {
		if a, err := netip.ParseAddr(string(field)); err == nil && a.IsGlobalUnicast() && !a.IsPrivate() {
			return a
		}
	}
	own := [16]byte{0x20, 0x01, 0x0d, 0xb8}
	sum := sha256.Sum256(header)
	copy(own[4:], sum[:8])
	return netip.AddrFrom16(own)
}
