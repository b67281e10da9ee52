package real

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/textproto"
	"regexp"
	"strings"
)

// signingKey signs for every domain: the resolver publishes its public half under each name.
var signingKey = func() ed25519.PrivateKey {
	seed := sha256.Sum256([]byte("bulkhead-lab real"))
	return ed25519.NewKeyFromSeed(seed[:])
}()

// signedFields are the header fields that signatures cover.
var signedFields = []string{"from", "to", "subject", "date", "message-id"}

// sign returns raw, whose lines end in CRLF, with a DKIM signature of a domain in front. Unlike
// signatures of libraries, it has no time: the same message always has the same signature.
//
// Source: RFC 6376 (relaxed canonicalization), RFC 8463 (Ed25519).
func sign(raw []byte, domain string) []byte {
	head, body, _ := bytes.Cut(raw, []byte("\r\n\r\n"))
	sum := sha256.Sum256(relaxedBody(body))
	field := fmt.Sprintf("DKIM-Signature: v=1; a=ed25519-sha256; c=relaxed/relaxed; d=%s; s=k1;\r\n"+
		"\th=%s;\r\n\tbh=%s;\r\n\tb=", domain, strings.Join(signedFields, ":"), base64.StdEncoding.EncodeToString(sum[:]))
	all := map[string]string{}
	for _, f := range fields(head) {
		name, _, _ := strings.Cut(f, ":")
		all[strings.ToLower(name)] = f
	}
	var signed strings.Builder
	for _, name := range signedFields {
		signed.WriteString(relaxedField(all[name]) + "\r\n")
	}
	signed.WriteString(relaxedField(field))
	digest := sha256.Sum256([]byte(signed.String()))
	field += base64.StdEncoding.EncodeToString(ed25519.Sign(signingKey, digest[:]))
	return append([]byte(field+"\r\n"), raw...)
}

var whiteSpace = regexp.MustCompile(`[ \t\r\n]+`)

// relaxedField returns a header field in relaxed form, without the end of its line.
func relaxedField(field string) string {
	name, value, _ := strings.Cut(field, ":")
	return strings.ToLower(name) + ":" + textproto.TrimString(whiteSpace.ReplaceAllString(value, " "))
}

var (
	blanks    = regexp.MustCompile(`[ \t]+`)
	lineEnds  = regexp.MustCompile(` \r\n`)
	emptyTail = regexp.MustCompile(`(?:\r\n)+$`)
)

// relaxedBody returns a body in relaxed form.
func relaxedBody(body []byte) []byte {
	body = lineEnds.ReplaceAll(blanks.ReplaceAll(body, []byte(" ")), []byte("\r\n"))
	if body = emptyTail.ReplaceAll(body, nil); len(body) == 0 {
		return nil
	}
	return append(bytes.TrimRight(body, " "), "\r\n"...)
}
