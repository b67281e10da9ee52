package dnsbl

import (
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// A Form is the form of the names below a zone.
type Form string

// The forms.
const (
	// Addresses: an IPv4 address with its octets reversed, or an IPv6 address
	// with its nibbles reversed. RFC 5782 sections 2.1 and 2.4.
	Addresses Form = "ip"
	// Domains: the domain itself. RFC 5782 section 3.
	Domains Form = "domain"
	// Hashes: one label, the hash of an address or URL as queried by SpamAssassin's
	// HashBL and rspamd's rbl module: MD5 and SHA-1 in hexadecimal, SHA-256 (whose 64
	// digits exceed a label) in the Base32 of either. The List must have the same hash.
	Hashes Form = "hash"
)

// A List answers for one zone. Its methods are called concurrently, must not block, and
// must not keep the names, which are in lower case.
type List interface {
	HasDomain(name string) bool
	HasAddr(netip.Addr) bool
	HasDigest(hexadecimal string) bool
	// Describe returns the reason for TXT records, with the expected error.
	Describe() string
	// Updated is the time of the list; the zone's serial number follows it.
	Updated() time.Time
}

// A Valued list has entries with codes and texts of their own. Its methods are called as those of [List] are,
// FindDomain in place of HasDomain and so on. The zero Addr and "" stand for no code and no text.
type Valued interface {
	List
	FindDomain(name string) (code netip.Addr, text string, ok bool)
	FindAddr(netip.Addr) (code netip.Addr, text string, ok bool)
	FindDigest(hexadecimal string) (code netip.Addr, text string, ok bool)
	// Default returns the code and text of the other entries, for zones and parts that set none.
	Default() (code netip.Addr, text string)
}

// A Part is one list of a zone that combines several.
type Part struct {
	List List
	// Known is as in [Zone]. A zone knows its content when all its lists do.
	Known func() bool
	// Code and Text precede the zone's for this list; the zero values mean the zone's.
	Code netip.Addr
	Text string
}

// maxParts bounds the lists that one query looks into, and the records of its answer.
const maxParts = 32

// DefaultTTL is how long an answer may be cached.
const DefaultTTL = 5 * time.Minute

// A Zone serves one list, or several, through DNS. The code of an answer is the first of: the entry's own, the part's,
// the zone's, the list's default, 127.0.0.2. So is its text, and the last resort is the list's Describe. In a text, "$"
// is replaced by the queried name or address, and "$$" by "$".
type Zone struct {
	Name string // for example "bl.example.com"
	Form Form
	List List
	// Known reports whether List has its content; nil means always. While it does not, all answers
	// are SERVFAIL, which clients take for neither listed nor not listed. It is called as the
	// methods of List are.
	Known func() bool
	// Parts are the lists of a combined zone, up to 32, in place of List and Known. A name that is in several has a
	// record for each code, and for each text.
	Parts []Part
	// Code is the address that stands for a hit; the zero Addr means the list's default, or 127.0.0.2.
	Code netip.Addr
	// Text is the text of TXT records; empty means the list's.
	Text string
	// TTL is how long answers, hits and misses, may be cached; 0 means DefaultTTL.
	TTL time.Duration
	// Host is the name in SOA and NS records; empty means the zone's own name.
	Host string
}

var (
	listed    = netip.AddrFrom4([4]byte{127, 0, 0, 2}) // RFC 5782 section 2.1
	notListed = netip.AddrFrom4([4]byte{127, 0, 0, 1}) // RFC 5782 section 5
	errorCode = netip.PrefixFrom(netip.AddrFrom4([4]byte{127, 255, 255, 0}), 24)
	hitCodes  = netip.PrefixFrom(netip.AddrFrom4([4]byte{127, 0, 0, 0}), 8)
)

// The names reserved by RFC 5782 section 5 in a list of domains.
const (
	testDomain    = "test"
	invalidDomain = "invalid"
)

// testReason is the TXT record of a test entry.
const testReason = "test entry of RFC 5782, always listed"

// A zone is a checked Zone.
type zone struct {
	Zone
	parts []Part // List, or Parts, with the zone's code and text
	apex  string // in lower case, without dots at its ends
	// The names of the apex, the zone's server and its administrator.
	name, host, mailbox dnsmessage.Name

	ttl  uint32  // seconds
	code [4]byte // of test entries
	records
}

func newZone(z Zone) (*zone, error) {
	name := strings.ToLower(strings.Trim(z.Name, "."))
	if z.Host == "" {
		z.Host = name
	}
	if z.TTL == 0 {
		z.TTL = DefaultTTL
	}
	if z.List != nil && len(z.Parts) > 0 {
		return nil, fmt.Errorf("dnsbl: zone %q has both a list and parts", z.Name)
	}
	parts := slices.Clone(z.Parts)
	if z.List != nil {
		parts = []Part{{List: z.List, Known: z.Known}}
	}
	for i := range parts {
		p := &parts[i]
		if p.List == nil {
			return nil, fmt.Errorf("dnsbl: zone %q: part %d has no list", z.Name, i+1)
		}
		if p.Code.IsValid() && !ValidCode(p.Code) {
			return nil, badCode(z.Name, p.Code)
		}
		if !p.Code.IsValid() {
			p.Code = z.Code
		}
		if p.Text == "" {
			p.Text = z.Text
		}
	}
	code := z.Code
	if !code.IsValid() {
		code = listed
	}
	switch {
	case len(parts) > maxParts:
		return nil, fmt.Errorf("dnsbl: zone %q: %d lists, limit %d", z.Name, len(parts), maxParts)
	case len(parts) == 0:
		return nil, fmt.Errorf("dnsbl: zone %q has no list", z.Name)
	case z.Form != Addresses && z.Form != Domains && z.Form != Hashes:
		return nil, fmt.Errorf("dnsbl: zone %q: form %.20q is none of ip, domain, hash", z.Name, z.Form)
	case !ValidCode(code):
		return nil, badCode(z.Name, code)
	case z.TTL < time.Second || z.TTL > 7*24*time.Hour:
		return nil, fmt.Errorf("dnsbl: zone %q: TTL %v, want 1s to 168h", z.Name, z.TTL)
	case len(name) > 180:
		return nil, fmt.Errorf("dnsbl: zone name of %d bytes, limit 180", len(name))
	}
	c := &zone{Zone: z, apex: name, ttl: uint32(z.TTL / time.Second), code: code.As4(), parts: parts}
	var err error
	if c.name, err = dnsName(name); err != nil {
		return nil, fmt.Errorf("dnsbl: zone %q: %w", z.Name, err)
	}
	if c.host, err = dnsName(z.Host); err != nil {
		return nil, fmt.Errorf("dnsbl: zone %q: host: %w", z.Name, err)
	}
	if c.mailbox, err = dnsName("hostmaster." + name); err != nil {
		return nil, fmt.Errorf("dnsbl: zone %q: %w", z.Name, err)
	}
	if err := c.makeRecords(); err != nil {
		return nil, fmt.Errorf("dnsbl: zone %q: %w", z.Name, err)
	}
	return c, nil
}

// ValidCode reports whether an address may stand for a hit: one of 127.0.0.0/8 except 127.0.0.1 and 127.255.255.0/24,
// which clients read as errors.
func ValidCode(code netip.Addr) bool {
	return hitCodes.Contains(code) && !errorCode.Contains(code) && code != notListed
}

func badCode(zone string, code netip.Addr) error {
	return fmt.Errorf("dnsbl: zone %q: code %v, want one of 127.0.0.0/8 except 127.0.0.1 and "+
		"127.255.255.0/24, which clients read as errors", zone, code)
}

// serial follows the time of the newest list; RFC 1982 arithmetic wraps in 2106.
func (z *zone) serial() uint32 {
	newest := z.parts[0].List.Updated()
	for i := range z.parts[1:] {
		if t := z.parts[i+1].List.Updated(); t.After(newest) {
			newest = t
		}
	}
	return uint32(newest.Unix())
}

// known reports whether all lists have their content: an answer from some of them would be kept by resolvers.
func (z *zone) known() bool {
	for i := range z.parts {
		if known := z.parts[i].Known; known != nil && !known() {
			return false
		}
	}
	return true
}

// A status is the result for one name below a zone's apex.
type status uint8

const (
	absent  status = iota // there is no such name
	present               // listed
	test                  // the test entry, always listed
	between               // a name that only has names below it: no error, no data
)

// A hit is one list's answer about a listed name.
type hit struct {
	part *Part
	code netip.Addr // the entry's own, or the zero Addr
	text string     // the entry's own, or ""
}

// value returns the code of a hit.
func (h *hit) value() [4]byte {
	code := h.code
	if !code.IsValid() {
		code = h.part.Code
	}
	if v, ok := h.part.List.(Valued); ok && !code.IsValid() {
		code, _ = v.Default()
	}
	if !ValidCode(code) {
		code = listed // never one that means an error
	}
	return code.As4()
}

// describe returns the text of a hit on a queried name or address.
func (h *hit) describe(queried string) string {
	text := h.text
	if text == "" {
		text = h.part.Text
	}
	if v, ok := h.part.List.(Valued); ok && text == "" {
		_, text = v.Default()
	}
	if text == "" {
		return h.part.List.Describe()
	}
	return expand(text, queried)
}

// expand replaces "$" in a text by the queried name and "$$" by "$", as rbldnsd does. The result has at most maxText
// bytes.
func expand(text, queried string) string {
	var b strings.Builder
	for i := 0; i < len(text) && b.Len() < maxText; i++ {
		switch {
		case text[i] != '$':
			b.WriteByte(text[i])
		case i+1 < len(text) && text[i+1] == '$':
			b.WriteByte('$')
			i++
		default:
			b.WriteString(queried)
		}
	}
	return b.String()[:min(b.Len(), maxText)]
}

// appendHits appends the hits of the lists that have an entry: find looks into a list whose entries have values,
// has into another.
func appendHits[K any](hits []hit, parts []Part, entry K, find func(Valued, K) (netip.Addr, string, bool),
	has func(List, K) bool) []hit {
	for i := range parts {
		h, ok := hit{part: &parts[i]}, false
		if v, is := h.part.List.(Valued); is {
			h.code, h.text, ok = find(v, entry)
		} else {
			ok = has(h.part.List, entry)
		}
		if ok {
			hits = append(hits, h)
		}
	}
	return hits
}

// look reads the labels below the apex, in lower case and without the final dot, looks them up in the lists, and
// appends the hits.
func (z *zone) look(labels string, hits []hit) (status, []hit) {
	switch z.Form {
	case Addresses:
		return z.lookAddr(labels, hits)
	case Hashes:
		return z.lookHash(labels, hits)
	}
	switch labels {
	case testDomain:
		return test, hits
	case invalidDomain:
		return absent, hits
	}
	if hits = appendHits(hits, z.parts, labels, Valued.FindDomain, List.HasDomain); len(hits) > 0 {
		return present, hits
	}
	if !strings.Contains(labels, ".") {
		// A top-level domain has names below it: NXDOMAIN would hide them from
		// resolvers that ask label by label (RFC 8020, RFC 9156).
		return between, hits
	}
	return absent, hits
}

func statusOf(hits []hit) (status, []hit) {
	if len(hits) > 0 {
		return present, hits
	}
	return absent, hits
}

func (z *zone) lookAddr(labels string, hits []hit) (status, []hit) {
	addr, complete, ok := reversedAddr(labels)
	switch {
	case !ok:
		return absent, hits
	case !complete:
		// A part of an address may have listed ones below it: RFC 8020 forbids NXDOMAIN.
		return between, hits
	case addr == listed, addr == mapped(listed):
		return test, hits
	case addr == notListed, addr == mapped(notListed):
		return absent, hits
	}
	return statusOf(appendHits(hits, z.parts, addr.Unmap(), Valued.FindAddr, List.HasAddr))
}

func mapped(a netip.Addr) netip.Addr { return netip.AddrFrom16(a.As16()) }

// reversedAddr reads an address whose octets or nibbles are reversed. complete
// is false if labels are the first octets or nibbles of one.
func reversedAddr(labels string) (addr netip.Addr, complete, ok bool) {
	const most = 32 // nibbles
	var all [most]string
	parts := all[:0]
	for rest, found := labels, true; found; {
		if len(parts) == most {
			return addr, false, false
		}
		var label string
		label, rest, found = strings.Cut(rest, ".")
		parts = append(parts, label)
	}
	// Two IPv6 nibbles, "0.8", could be octets too: only the count decides.
	var octets [4]byte
	isV4 := len(parts) <= 4
	for i := 0; isV4 && i < len(parts); i++ {
		p := parts[i]
		n, err := strconv.ParseUint(p, 10, 8)
		isV4 = err == nil && (len(p) == 1 || p[0] != '0')
		octets[len(parts)-1-i] = byte(n)
	}
	if isV4 {
		return netip.AddrFrom4(octets), len(parts) == 4, true
	}
	var nibbles [16]byte
	for i, p := range parts {
		n, err := strconv.ParseUint(p, 16, 4)
		if err != nil || len(p) != 1 {
			return addr, false, false
		}
		at := len(parts) - 1 - i
		nibbles[at/2] |= byte(n) << (4 * (1 - at%2))
	}
	return netip.AddrFrom16(nibbles), len(parts) == 32, true
}

// lookHash reads one label.
func (z *zone) lookHash(label string, hits []hit) (status, []hit) {
	switch len(label) {
	case 2 * md5.Size, 2 * sha1.Size:
		if isHex(label) {
			return statusOf(appendHits(hits, z.parts, label, Valued.FindDigest, List.HasDigest))
		}
	case base32Size:
		// A label does not identify its alphabet, so both are tried.
		for _, decode := range []func(string) ([]byte, bool){rfc4648, rspamdBase32} {
			if sum, ok := decode(label); ok && len(hits) == 0 {
				hits = appendHits(hits, z.parts, hex.EncodeToString(sum), Valued.FindDigest, List.HasDigest)
			}
		}
		return statusOf(hits)
	case len(testDomain):
		if label == testDomain {
			return test, hits
		}
	}
	return absent, hits
}

// base32Size is the length of a SHA-256 in Base32 without padding.
const base32Size = 52

// rfc4648 reads Base32 as SpamAssassin writes it: RFC 4648 in lower case.
func rfc4648(label string) ([]byte, bool) {
	sum, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(strings.ToUpper(label))
	return sum, err == nil && len(sum) == sha256.Size
}

// rspamdBase32 reads Base32 as rspamd writes it: the alphabet of z-base-32, the
// lowest bits first.
func rspamdBase32(label string) ([]byte, bool) {
	const alphabet = "ybndrfg8ejkmcpqxot1uwisza345h769"
	sum := make([]byte, 0, sha256.Size)
	acc, bits := 0, 0
	for i := range len(label) {
		v := strings.IndexByte(alphabet, label[i])
		if v < 0 {
			return nil, false
		}
		acc |= v << bits
		for bits += 5; bits >= 8 && len(sum) < sha256.Size; bits -= 8 {
			sum = append(sum, byte(acc))
			acc >>= 8
		}
	}
	return sum, acc == 0
}

func isHex(s string) bool { return strings.Trim(s, "0123456789abcdef") == "" }
