package dnsbl

import (
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"fmt"
	"net/netip"
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

// DefaultTTL is how long an answer may be cached.
const DefaultTTL = 5 * time.Minute

// A Zone serves one list through DNS.
type Zone struct {
	Name string // for example "bl.example.com"
	Form Form
	List List
	// Known reports whether List has its content; nil means always. While it does not, all answers
	// are SERVFAIL, which clients take for neither listed nor not listed. It is called as the
	// methods of List are.
	Known func() bool
	// Code is the address that stands for a hit; the zero Addr means 127.0.0.2.
	Code netip.Addr
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
	apex string // in lower case, without dots at its ends
	// The names of the apex, the zone's server and its administrator.
	name, host, mailbox dnsmessage.Name

	ttl  uint32 // seconds
	code [4]byte
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
	if !z.Code.IsValid() {
		z.Code = listed
	}
	switch {
	case z.List == nil:
		return nil, fmt.Errorf("dnsbl: zone %q has no list", z.Name)
	case z.Form != Addresses && z.Form != Domains && z.Form != Hashes:
		return nil, fmt.Errorf("dnsbl: zone %q: form %.20q is none of ip, domain, hash", z.Name, z.Form)
	case !hitCodes.Contains(z.Code) || errorCode.Contains(z.Code) || z.Code == notListed:
		return nil, fmt.Errorf("dnsbl: zone %q: code %v, want one of 127.0.0.0/8 except 127.0.0.1 and 127.255.255.0/24, which clients read as errors", z.Name, z.Code)
	case z.TTL < time.Second || z.TTL > 7*24*time.Hour:
		return nil, fmt.Errorf("dnsbl: zone %q: TTL %v, want 1s to 168h", z.Name, z.TTL)
	case len(name) > 180:
		return nil, fmt.Errorf("dnsbl: zone name of %d bytes, limit 180", len(name))
	}
	c := &zone{Zone: z, apex: name, ttl: uint32(z.TTL / time.Second), code: z.Code.As4()}
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

// serial follows the time of the list; RFC 1982 arithmetic wraps in 2106.
func (z *zone) serial() uint32 { return uint32(z.List.Updated().Unix()) }

// A status is the result for one name below a zone's apex.
type status uint8

const (
	absent  status = iota // there is no such name
	present               // listed
	test                  // the test entry, always listed
	between               // a name that only has names below it: no error, no data
)

// look reads the labels below the apex, in lower case and without the final dot, and
// looks them up in the list.
func (z *zone) look(labels string) status {
	switch z.Form {
	case Addresses:
		return z.lookAddr(labels)
	case Hashes:
		return z.lookHash(labels)
	}
	switch labels {
	case testDomain:
		return test
	case invalidDomain:
		return absent
	}
	if z.List.HasDomain(labels) {
		return present
	}
	if !strings.Contains(labels, ".") {
		// A top-level domain has names below it: NXDOMAIN would hide them from
		// resolvers that ask label by label (RFC 8020, RFC 9156).
		return between
	}
	return absent
}

func statusOf(hit bool) status {
	if hit {
		return present
	}
	return absent
}

func (z *zone) lookAddr(labels string) status {
	addr, complete, ok := reversedAddr(labels)
	switch {
	case !ok:
		return absent
	case !complete:
		// A part of an address may have listed ones below it: RFC 8020 forbids NXDOMAIN.
		return between
	case addr == listed, addr == mapped(listed):
		return test
	case addr == notListed, addr == mapped(notListed):
		return absent
	}
	return statusOf(z.List.HasAddr(addr.Unmap()))
}

func mapped(a netip.Addr) netip.Addr { return netip.AddrFrom16(a.As16()) }

// reversedAddr reads an address whose octets or nibbles are reversed. complete
// is false if labels are the first octets or nibbles of one.
func reversedAddr(labels string) (addr netip.Addr, complete, ok bool) {
	const most = 32 // nibbles
	var all [most]string
	parts := all[:0]
	for rest, below := labels, true; below; {
		if len(parts) == most {
			return addr, false, false
		}
		var label string
		label, rest, below = strings.Cut(rest, ".")
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
func (z *zone) lookHash(label string) status {
	switch len(label) {
	case 2 * md5.Size, 2 * sha1.Size:
		if isHex(label) {
			return statusOf(z.List.HasDigest(label))
		}
	case base32Size:
		// A label does not identify its alphabet, so both are tried.
		for _, decode := range []func(string) ([]byte, bool){rfc4648, rspamdBase32} {
			if sum, ok := decode(label); ok && z.List.HasDigest(hex.EncodeToString(sum)) {
				return present
			}
		}
	case len(testDomain):
		if label == testDomain {
			return test
		}
	}
	return absent
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

func isHex(s string) bool {
	for i := range len(s) {
		if c := s[i]; !(c >= '0' && c <= '9' || c >= 'a' && c <= 'f') {
			return false
		}
	}
	return true
}
