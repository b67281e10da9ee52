package verify

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"hash"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// The limits of what is read of one message for DKIM.
const (
	maxSignatures = 8       // that are verified, from the top
	maxHeader     = 1 << 20 // bytes of the header, its empty line included
	maxFields     = 10_000  // in the header
	maxSignature  = 64 << 10
	maxNames      = 256 // in the tag h of a signature
)

// step is how many bytes are worked on between two looks at the context.
const step = 64 << 10

const signatureName = "dkim-signature"

// Errors of messages and signatures that exceed a limit.
var (
	errHeader    = errors.New("header too large")
	errSignature = errors.New("signature too large")
)

// errInvalid is the error of a signature that cannot be valid.
var errInvalid = errors.New("invalid signature")

// A signed is a message with DKIM signatures, as far as all of them share it.
type signed struct {
	ctx        context.Context
	now        time.Time
	body       []byte
	fields     [][]byte         // each with the lines that continue it and their ends
	signatures []int            // indexes into fields
	byName     map[string][]int // indexes into fields, by lower-case name; nil before the first use
	bodyHashes map[bool][]byte  // by whether the body is in relaxed form
	buf        []byte           // one canonical header field, or a step of the body

	work    int // bytes worked on, each as often as it was read
	checked int // the work at the last look at ctx
}

// did counts n bytes of work, and returns the error of the context once a step.
func (m *signed) did(n int) error {
	m.work += n
	if m.work-m.checked < step {
		return nil
	}
	m.checked = m.work
	return m.ctx.Err()
}

// readSigned splits a message into header fields and body. Without an empty line after the
// header, a message has no signatures.
func readSigned(ctx context.Context, raw []byte, now time.Time) (*signed, error) {
	m := &signed{ctx: ctx, now: now, bodyHashes: make(map[bool][]byte)}
	begin, at := 0, 0 // of the field, of the line
	endField := func() {
		if at == begin {
			return
		}
		field := raw[begin:at]
		name, _, _ := bytes.Cut(field, []byte(":"))
		if bytes.EqualFold(bytes.TrimSpace(name), []byte(signatureName)) {
			m.signatures = append(m.signatures, len(m.fields))
		}
		m.fields = append(m.fields, field)
		begin = at
	}
	for {
		n := bytes.IndexByte(raw[at:min(len(raw), maxHeader)], '\n') + 1
		if n == 0 && len(raw) > maxHeader || len(m.fields) > maxFields {
			return m, errHeader
		}
		if n == 0 {
			m.signatures = nil
			return m, nil
		}
		if err := m.did(n); err != nil {
			return m, err
		}
		line := raw[at : at+n]
		if n == 1 || n == 2 && line[0] == '\r' {
			endField()
			m.body = raw[at+n:]
			if len(m.fields) > maxFields {
				return m, errHeader
			}
			return m, nil
		}
		if line[0] != ' ' && line[0] != '\t' {
			endField()
		}
		at += n
	}
}

// named returns the index of the header fields by name.
func (m *signed) named() (map[string][]int, error) {
	if m.byName != nil {
		return m.byName, nil
	}
	index := make(map[string][]int)
	for i, field := range m.fields {
		name, _ := splitField(field)
		index[name] = append(index[name], i)
		if err := m.did(len(field)); err != nil {
			return nil, err
		}
	}
	m.byName = index
	return index, nil
}

// splitField returns the name of a header field in lower case, and its value. A field without
// a colon is all name.
func splitField(field []byte) (name string, value []byte) {
	before, value, _ := bytes.Cut(field, []byte(":"))
	return strings.TrimSpace(strings.ToLower(string(before))), value
}

// A signature is a DKIM-Signature field.
type signature struct {
	field         int // index into the fields of the message
	domain        string
	selector      string
	kind          string // "rsa" or "ed25519"
	names         []string
	relaxedHeader bool
	relaxedBody   bool
	bodyHash      []byte
	value         []byte
	bare          []byte // the field without the value of its tag b
}

// parse reads a DKIM-Signature field. It returns an error if the signature cannot be valid,
// whatever the message and the key are.
func (m *signed) parse(i int) (*signature, error) {
	field := m.fields[i]
	if len(field) > maxSignature {
		return nil, errSignature
	}
	if err := m.did(len(field)); err != nil {
		return nil, err
	}
	name, value, _ := bytes.Cut(field, []byte(":"))
	tags, ok := parseTags(string(value))
	if !ok || tags["v"] != "1" {
		return nil, errInvalid
	}
	for _, tag := range []string{"a", "b", "bh", "d", "h", "s"} {
		if _, ok := tags[tag]; !ok {
			return nil, errInvalid
		}
	}
	if strings.Count(tags["h"], ":") >= maxNames {
		return nil, errSignature
	}
	s := &signature{field: i, domain: squeeze(tags["d"]), selector: squeeze(tags["s"]),
		names: list(strings.ToLower(tags["h"]))}
	if user, ok := tags["i"]; ok {
		user = squeeze(user)
		if !strings.HasSuffix(user, "@"+s.domain) && !strings.HasSuffix(user, "."+s.domain) {
			return nil, errInvalid
		}
	}
	var hashName string
	s.kind, hashName, _ = strings.Cut(squeeze(tags["a"]), "-")
	_, partial := tags["l"] // leaves an end of the body unsigned
	methods, hasMethods := tags["q"]
	if s.kind != "rsa" && s.kind != "ed25519" || hashName != "sha256" || partial ||
		!slices.Contains(s.names, "from") || hasMethods && !slices.Contains(list(methods), "dns/txt") ||
		!m.inTime(tags) || !hostName(hostOf(s.domain)) {
		return nil, errInvalid
	}
	header, body, _ := strings.Cut(squeeze(tags["c"]), "/")
	var okHeader, okBody bool
	s.relaxedHeader, okHeader = isRelaxed(header)
	s.relaxedBody, okBody = isRelaxed(body)
	var errHash, errValue error
	s.bodyHash, errHash = base64.StdEncoding.DecodeString(squeeze(tags["bh"]))
	s.value, errValue = base64.StdEncoding.DecodeString(squeeze(tags["b"]))
	if !okHeader || !okBody || errHash != nil || errValue != nil {
		return nil, errInvalid
	}
	s.bare = withoutValue(name, value)
	return s, nil
}

// inTime reports whether the times of a signature are well formed, and it has not expired.
func (m *signed) inTime(tags map[string]string) bool {
	for _, tag := range []string{"t", "x"} {
		text, ok := tags[tag]
		if !ok {
			continue
		}
		seconds, err := strconv.ParseInt(squeeze(text), 10, 64)
		if err != nil || tag == "x" && m.now.After(time.Unix(seconds, 0)) {
			return false
		}
	}
	return true
}

// isRelaxed reads the name of a canonicalization; "" is "simple".
func isRelaxed(name string) (relaxed, ok bool) {
	return name == "relaxed", name == "relaxed" || name == "simple" || name == ""
}

// withoutValue returns a DKIM-Signature field without the value of its tag b, for which the
// signature was made.
func withoutValue(name, value []byte) []byte {
	bare := append(slices.Clone(name), ':')
	for n, tag := range bytes.Split(value, []byte(";")) {
		if n > 0 {
			bare = append(bare, ';')
		}
		if key, _, ok := bytes.Cut(tag, []byte("=")); ok && string(bytes.TrimSpace(key)) == "b" {
			tag = tag[:len(key)+1]
		}
		bare = append(bare, tag...)
	}
	return bare
}

// parseTags reads a list of tags (RFC 6376, section 3.2). It fails if a tag is malformed or
// there twice.
func parseTags(text string) (tags map[string]string, ok bool) {
	tags = make(map[string]string)
	for tag := range strings.SplitSeq(text, ";") {
		name, value, ok := strings.Cut(tag, "=")
		if name = strings.TrimSpace(name); !ok && name == "" {
			continue
		}
		if _, twice := tags[name]; !ok || twice {
			return nil, false
		}
		tags[name] = strings.TrimSpace(value)
	}
	return tags, true
}

// list returns the elements of a list that is separated by colons.
func list(text string) []string {
	all := strings.Split(text, ":")
	for i, s := range all {
		all[i] = squeeze(s)
	}
	return all
}

// squeeze returns text without white space.
func squeeze(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return -1
		}
		return r
	}, text)
}

// read parses a signature, and returns it and the hash that its key must verify. An error means
// that no key can make the signature valid, or that a limit was exceeded.
func (m *signed) read(i int) (*signature, []byte, error) {
	s, err := m.parse(i)
	if err != nil {
		return nil, nil, err
	}
	digest, err := m.digest(s)
	return s, digest, err
}

// signer returns the domain of s if its key verifies a digest, or else "".
func (s *signature) signer(q *questions, digest []byte) string {
	records, err := q.key(s.selector + "._domainkey." + s.domain)
	if err != nil || len(records) != 1 || !s.validBy(records[0], digest) {
		return ""
	}
	return hostOf(s.domain)
}

// hostOf returns a domain in lower case, without a final dot.
func hostOf(domain string) string { return strings.ToLower(strings.TrimSuffix(domain, ".")) }

// digest returns the hash that s is a signature of, if the hash of the body is right.
func (m *signed) digest(s *signature) ([]byte, error) {
	body, err := m.hashBody(s.relaxedBody)
	if err != nil {
		return nil, err
	}
	if subtle.ConstantTimeCompare(body, s.bodyHash) != 1 {
		return nil, errInvalid
	}
	index, err := m.named()
	if err != nil {
		return nil, err
	}
	h := sha256.New()
	left := make(map[string][]int) // fields of each name that are not hashed yet
	for _, name := range s.names {
		of, begun := left[name]
		if !begun {
			of = index[name]
			if name == signatureName {
				of = slices.DeleteFunc(slices.Clone(of), func(i int) bool { return i == s.field })
			}
		}
		if len(of) == 0 {
			continue // signing a field that does not exist keeps others from adding one
		}
		last := len(of) - 1
		left[name] = of[:last]
		field := m.fields[of[last]]
		m.buf = appendField(m.buf[:0], field, s.relaxedHeader)
		h.Write(m.buf)
		if err := m.did(len(field)); err != nil {
			return nil, err
		}
	}
	m.buf = appendField(m.buf[:0], s.bare, s.relaxedHeader)
	h.Write(bytes.TrimRight(m.buf, "\r\n"))
	return h.Sum(nil), m.did(len(s.bare))
}

// appendField appends the canonical form of a header field (RFC 6376, section 3.4).
func appendField(to, field []byte, relaxed bool) []byte {
	if !relaxed {
		return appendLines(to, field, 0)
	}
	name, value := splitField(field)
	to = append(append(to, name...), ':')
	begin := len(to)
	gap := false
	for _, c := range value {
		if c == ' ' || c == '\t' || c == '\r' || c == '\n' {
			gap = true
			continue
		}
		if gap && len(to) > begin {
			to = append(to, ' ')
		}
		gap = false
		to = append(to, c)
	}
	return append(to, "\r\n"...)
}

// appendLines appends text with line ends of CRLF. previous is the byte before it.
func appendLines(to, text []byte, previous byte) []byte {
	for _, c := range text {
		if c == '\n' && previous != '\r' {
			to = append(to, '\r')
		}
		to = append(to, c)
		previous = c
	}
	return to
}

// hashBody returns the hash of the canonical body, which is computed once for each form.
func (m *signed) hashBody(relaxed bool) ([]byte, error) {
	if sum := m.bodyHashes[relaxed]; sum != nil {
		return sum, nil
	}
	h := sha256.New()
	err := m.writeBody(h, relaxed)
	if err != nil {
		return nil, err
	}
	m.bodyHashes[relaxed] = h.Sum(nil)
	return m.bodyHashes[relaxed], nil
}

// writeBody hashes the canonical body step by step. White space and empty lines at its end are
// cut first: nothing needs to wait for what follows.
func (m *signed) writeBody(h hash.Hash, relaxed bool) error {
	body := m.body
	if relaxed {
		body = bytes.TrimRight(body, " \t\r\n")
		if len(body) == 0 {
			return nil
		}
	} else {
		for len(body) > 0 && body[len(body)-1] == '\n' {
			body = bytes.TrimSuffix(body[:len(body)-1], []byte("\r"))
		}
	}
	if err := m.did(len(m.body) - len(body)); err != nil {
		return err
	}
	var previous byte
	gap := false // white space was read that is not written
	for part := range slices.Chunk(body, step) {
		if relaxed {
			m.buf, gap = appendRelaxed(m.buf[:0], part, previous, gap)
		} else {
			m.buf = appendLines(m.buf[:0], part, previous)
		}
		previous = part[len(part)-1]
		h.Write(m.buf)
		if err := m.did(len(part)); err != nil {
			return err
		}
	}
	h.Write([]byte("\r\n"))
	return nil
}

// appendRelaxed appends a part of a body in relaxed form. previous is the byte before it, and
// gap reports whether white space before what follows has not been written.
func appendRelaxed(to, part []byte, previous byte, gap bool) (all []byte, gapAfter bool) {
	for _, c := range part {
		switch c {
		case ' ', '\t':
			gap = true
		case '\n', '\r':
			if gap = false; c == '\n' && previous != '\r' {
				to = append(to, '\r')
			}
			to = append(to, c)
		default:
			if gap {
				to = append(to, ' ')
			}
			gap = false
			to = append(to, c)
		}
		previous = c
	}
	return to, gap
}

// validBy reports whether s is a signature of a digest by the key of a record.
func (s *signature) validBy(record string, digest []byte) bool {
	tags, ok := parseTags(record)
	if !ok {
		return false
	}
	if v, ok := tags["v"]; ok && v != "DKIM1" {
		return false
	}
	if hashes, ok := tags["h"]; ok && !slices.Contains(list(hashes), "sha256") {
		return false
	}
	if services, ok := tags["s"]; ok {
		if all := list(services); !slices.Contains(all, "email") && !slices.Contains(all, "*") {
			return false
		}
	}
	kind := tags["k"]
	if kind == "" {
		kind = "rsa"
	}
	data, err := base64.StdEncoding.DecodeString(squeeze(tags["p"])) // empty if the key is revoked
	if err != nil || kind != s.kind {
		return false
	}
	if kind == "ed25519" {
		return len(data) == ed25519.PublicKeySize && ed25519.Verify(data, digest, s.value)
	}
	key := parseRSA(data)
	// RFC 8301, section 3.2: shorter keys count for nothing.
	return key != nil && key.Size()*8 >= 1024 && rsa.VerifyPKCS1v15(key, crypto.SHA256, digest, s.value) == nil
}

// parseRSA reads a public key in either of the two forms that are in use (RFC 6376, erratum
// 3017); nil if it is in none.
func parseRSA(data []byte) *rsa.PublicKey {
	if key, err := x509.ParsePKIXPublicKey(data); err == nil {
		found, _ := key.(*rsa.PublicKey)
		return found
	}
	key, err := x509.ParsePKCS1PublicKey(data)
	if err != nil {
		return nil
	}
	return key
}
