package lists

import (
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"fmt"
	"net/netip"
	"strings"
)

// The limits on the look-ups for one entry.
const (
	maxParents = 8 // of a domain, besides the domain itself: the topmost ones
	maxPaths   = 6 // folders of a URL
)

// The hashes that a list of hashes may consist of.
const (
	NoHash = ""
	MD5    = "md5"
	SHA1   = "sha1"
	SHA256 = "sha256"
)

// base32Size is the length of a SHA-256 in Base32 without padding.
const base32Size = 52

// digestSize returns the size of a hash in bytes, 0 if the hash is unknown.
func digestSize(hash string) int {
	switch hash {
	case MD5:
		return md5.Size
	case SHA1:
		return sha1.Size
	case SHA256:
		return sha256.Size
	}
	return 0
}

// digest returns the hash of text in lower-case hexadecimal.
func digest(hash, text string) string {
	switch hash {
	case MD5:
		sum := md5.Sum([]byte(text))
		return hex.EncodeToString(sum[:])
	case SHA1:
		sum := sha1.Sum([]byte(text))
		return hex.EncodeToString(sum[:])
	}
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// DigestEntry returns the entry of a hash given in hexadecimal, or for SHA-256 also in the Base32 of RFC 4648, without
// padding. It returns an error if hash is not one of [MD5], [SHA1] and [SHA256], or text does not have its length.
func DigestEntry(hash, text string) (Entry, error) {
	want := digestSize(hash)
	if want == 0 {
		return Entry{}, fmt.Errorf("lists: hash %.20q is none of md5, sha1, sha256", hash)
	}
	if hash == SHA256 && len(text) == base32Size {
		sum, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(strings.ToUpper(text))
		if err == nil {
			text = hex.EncodeToString(sum)
		}
	}
	text = strings.ToLower(text)
	if b, err := hex.DecodeString(text); err != nil || len(b) != want {
		return Entry{}, fmt.Errorf("lists: %.80q is not a %s of %d hexadecimal digits", text, hash, 2*want)
	}
	return Entry{Digest, text}, nil
}

// elements calls yield with every element that stands for e: e itself; for an address its domain;
// for a domain its parents of two labels or more; for a URL the URL without its query, its folders
// and its host; for an IP address the networks around it of the lengths that the list holds. It
// stops when yield returns false.
func (l *List) elements(e Entry, yield func(string) bool) {
	switch e.Kind {
	case Address:
		if !yield(e.Text) {
			return
		}
		_, domain, _ := cutAddress(e.Text)
		l.parents(domain, yield)
	case Domain:
		l.parents(e.Text, yield)
	case URL:
		l.locations(e.Text, yield)
	case Network:
		l.networks(e.Text, yield)
	case Digest:
		yield(e.Text)
	}
}

// parents yields a domain and, unless the list is exact, its topmost parents: the owner of a domain
// can create names in it of any depth.
func (l *List) parents(name string, yield func(string) bool) {
	if !yield(name) || !l.meta.Subdomains {
		return
	}
	for labels := strings.Count(name, ".") + 1; labels > maxParents+2; labels-- {
		_, name, _ = strings.Cut(name, ".")
	}
	for range maxParents {
		_, parent, ok := strings.Cut(name, ".")
		if !ok || !strings.Contains(parent, ".") || !yield(parent) {
			return
		}
		name = parent
	}
}

// locations yields "//host/path?query", the same without the query, the folders above it, and the
// host.
func (l *List) locations(url string, yield func(string) bool) {
	if !yield(url) {
		return
	}
	url, query, _ := strings.Cut(url, "?")
	if query != "" && !yield(url) {
		return
	}
	root := 2 + strings.IndexByte(url[2:], '/')
	// Only the topmost folders are looked up; a deeper entry is found by its own URL.
	end := root
	for range maxPaths {
		if end+1 < len(url) && !yield(url[:end+1]) {
			return
		}
		next := strings.IndexByte(url[end+1:], '/')
		if next < 0 {
			break
		}
		end += 1 + next
	}
	host := url[2:root]
	if a, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		l.networks(AddrEntry(a).Text, yield)
		return
	}
	l.parents(host, yield)
}

func (l *List) networks(text string, yield func(string) bool) {
	p, err := netip.ParsePrefix(text)
	if err != nil {
		return
	}
	lengths := l.lengths.V4
	if p.Addr().Is6() {
		lengths = l.lengths.V6
	}
	for _, bits := range lengths {
		if bits > p.Bits() {
			continue
		}
		if around, err := p.Addr().Prefix(bits); err != nil || !yield(around.String()) {
			return
		}
	}
}
