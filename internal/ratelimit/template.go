package ratelimit

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// Attributes looks up an attribute of a request by its name in the Postfix policy protocol
// ("sasl_username", "client_address", "recipient", ...). It returns nil or an empty slice if the
// request does not have the attribute. The result is valid until the request is answered.
type Attributes func(name string) []byte

// attributeNames are the attributes that Postfix documents in SMTPD_POLICY_README, up to version
// 3.9. Templates may use no others: a misspelt name would silently disable its rule.
var attributeNames = []string{
	"request", "protocol_state", "protocol_name", "helo_name", "queue_id",
	"sender", "recipient", "recipient_count", "client_address", "client_name",
	"client_port", "reverse_client_name", "instance", "sasl_method",
	"sasl_username", "sasl_sender", "size", "ccert_subject", "ccert_issuer",
	"ccert_fingerprint", "ccert_pubkey_fingerprint", "encryption_protocol",
	"encryption_cipher", "encryption_keysize", "etrn_domain", "stress",
	"policy_context", "server_address", "server_port", "compatibility_level",
	"mail_version",
}

// nullSender is the value that stands for the empty envelope sender of a bounce.
const nullSender = "<>"

// A modifier selects a part of an attribute's value.
type modifier uint8

const (
	whole   modifier = iota
	domain           // the part after the last @
	local            // the part before it
	network          // the IPv4 /24 or IPv6 /64 of an address
)

var modifiers = map[string]modifier{"": whole, "domain": domain, "local": local, "net": network}

// A Template is text with placeholders. "{name}" stands for an attribute, and "{first|second}" for
// the first of these that is not empty. "{name:domain}" and "{name:local}" stand for the halves of
// an address, and "{name:net}" for the IPv4 /24 or IPv6 /64 of an IP address. Values are folded to
// lower case. The zero Template is empty.
type Template struct {
	text  string
	parts []part
}

type part struct {
	literal string
	names   []string // in the order in which they are tried; nil for a literal
	cut     modifier
}

// maxTemplate is the longest template in bytes.
const maxTemplate = 1024

// ParseTemplate parses a template of at most 1024 bytes of UTF-8. It fails for unbalanced braces,
// unknown attributes and unknown modifiers.
func ParseTemplate(text string) (Template, error) {
	if !utf8.ValidString(text) {
		return Template{}, fmt.Errorf("ratelimit: template %q is not UTF-8", text)
	}
	t := Template{text: text}
	if len(text) > maxTemplate {
		return Template{}, fmt.Errorf("ratelimit: template of %d bytes, limit %d", len(text), maxTemplate)
	}
	for rest := text; rest != ""; {
		literal, after, found := strings.Cut(rest, "{")
		if strings.Contains(literal, "}") {
			return Template{}, fmt.Errorf("ratelimit: template %q: } without {", text)
		}
		if literal != "" {
			t.parts = append(t.parts, part{literal: strings.ToLower(literal)})
		}
		if !found {
			break
		}
		inner, after, found := strings.Cut(after, "}")
		if !found {
			return Template{}, fmt.Errorf("ratelimit: template %q: { without }", text)
		}
		p, err := parsePlaceholder(inner)
		if err != nil {
			return Template{}, fmt.Errorf("ratelimit: template %q: %w", text, err)
		}
		t.parts = append(t.parts, p)
		rest = after
	}
	return t, nil
}

func parsePlaceholder(inner string) (part, error) {
	names, suffix, _ := strings.Cut(inner, ":")
	cut, ok := modifiers[suffix]
	if !ok {
		return part{}, fmt.Errorf("modifier %q is none of domain, local, net", suffix)
	}
	p := part{names: strings.Split(names, "|"), cut: cut}
	for _, name := range p.names {
		if !slices.Contains(attributeNames, name) {
			return part{}, fmt.Errorf("unknown attribute %q", name)
		}
	}
	return p, nil
}

// String returns the text from which the template was parsed.
func (t Template) String() string { return t.text }

// Empty reports whether t has no parts.
func (t Template) Empty() bool { return len(t.parts) == 0 }

// constant returns the text if it is the same for all requests.
func (t Template) constant() (string, bool) {
	if t.Empty() {
		return "", true
	}
	return t.parts[0].literal, len(t.parts) == 1 && t.parts[0].names == nil
}

// append appends the text for one request to dst. It returns false if one of the placeholders has
// no value; an empty sender has a value if null is set.
func (t Template) append(dst []byte, attr Attributes, null bool) ([]byte, bool) {
	for i := range t.parts {
		p := &t.parts[i]
		if p.names == nil {
			dst = append(dst, p.literal...)
			continue
		}
		value := p.value(attr)
		if len(value) > 0 {
			dst = p.cut.appendFolded(dst, value)
			continue
		}
		if !null || p.names[0] != "sender" {
			return dst, false
		}
		dst = append(dst, nullSender...)
	}
	return dst, true
}

func (p *part) value(attr Attributes) []byte {
	for _, name := range p.names {
		if v := p.cut.apply(attr(name)); len(v) > 0 {
			return v
		}
	}
	return nil
}

func (m modifier) apply(v []byte) []byte {
	switch m {
	case domain, local:
		at := bytes.LastIndexByte(v, '@')
		switch {
		case at < 0:
			return nil
		case m == domain:
			return v[at+1:]
		}
		return v[:at]
	case network:
		return networkOf(v)
	}
	return v
}

func networkOf(v []byte) []byte {
	addr, err := netip.ParseAddr(string(v))
	if err != nil {
		return nil
	}
	addr = addr.Unmap().WithZone("")
	bits := 24
	if addr.Is6() {
		bits = 64
	}
	p, err := addr.Prefix(bits)
	if err != nil {
		return nil
	}
	return p.AppendTo(nil)
}

// appendFolded appends a value, to which m was applied, in lower case. The domain of an address is in
// ASCII: its two spellings are one key.
//
// Source: RFC 5890 section 2.3.2.1 on U-labels and A-labels.
func (m modifier) appendFolded(dst, v []byte) []byte {
	at := bytes.LastIndexByte(v, '@')
	if !slices.ContainsFunc(v, func(c byte) bool { return c >= utf8.RuneSelf }) || !utf8.Valid(v) || m != domain &&
		(m != whole || at < 0) {
		return appendLower(dst, v)
	}
	name, err := idna.Lookup.ToASCII(string(v[at+1:]))
	if err != nil {
		return appendLower(dst, v)
	}
	return append(appendLower(dst, v[:at+1]), name...)
}

func appendLower(dst, v []byte) []byte {
	for _, c := range v {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		dst = append(dst, c)
	}
	return dst
}
