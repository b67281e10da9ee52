package dnsbl

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"net/netip"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// Cookies (RFC 7873): a client that returns the cookie sent to its address owns that
// address, and may get an answer of any size.
const (
	cookieOption     = 10 // RFC 7873 section 4
	clientCookieSize = 8
	serverCookieSize = 16 // RFC 9018 section 4: version, three reserved bytes, time, hash
	minServerCookie  = 8
	maxServerCookie  = 32

	cookieVersion = 1
	// A cookie is valid for an hour, and up to five minutes ahead of the clock; after
	// half an hour the client gets a new one (RFC 9018 section 4.3).
	cookieAge   = time.Hour
	cookieRenew = 30 * time.Minute
	cookieAhead = 5 * time.Minute
)

// A cookie is the COOKIE option of a query.
type cookie struct {
	client [clientCookieSize]byte
	server [serverCookieSize]byte
	given  bool // the query has the option
	whole  bool // server may hold a cookie of ours
}

// read reads the data of the option. It reports false for a length that RFC 7873 section
// 5.2.2 answers with FORMERR.
func (c *cookie) read(data []byte) bool {
	rest := len(data) - clientCookieSize
	if rest != 0 && (rest < minServerCookie || rest > maxServerCookie) {
		return false
	}
	c.given = true
	copy(c.client[:], data)
	if c.whole = rest == serverCookieSize; c.whole {
		copy(c.server[:], data[clientCookieSize:])
	}
	return true
}

// A baker makes and checks server cookies. It stores none. Its secret is random in each
// process: after a restart clients get new cookies.
type baker struct{ secret [32]byte }

func newBaker() *baker {
	b := new(baker)
	rand.Read(b.secret[:])
	return b
}

// check reports whether the cookie was made for a client's address, and sets the one for
// the answer.
func (b *baker) check(c *cookie, addr netip.Addr) bool {
	now := time.Now()
	age := time.Duration(int32(uint32(now.Unix())-binary.BigEndian.Uint32(c.server[4:8]))) * time.Second
	good := c.whole && c.server[0] == cookieVersion && age >= -cookieAhead && age <= cookieAge
	if good {
		sum := b.sum(c, addr)
		good = hmac.Equal(sum[:], c.server[8:])
	}
	if !good || age > cookieRenew {
		c.server = [serverCookieSize]byte{cookieVersion}
		binary.BigEndian.PutUint32(c.server[4:], uint32(now.Unix()))
		sum := b.sum(c, addr)
		copy(c.server[8:], sum[:])
	}
	return good
}

// sum is the hash of RFC 9018 section 4.4, by HMAC-SHA-256 in place of SipHash: servers need the
// same function only if they share one address.
func (b *baker) sum(c *cookie, addr netip.Addr) (sum [8]byte) {
	h := hmac.New(sha256.New, b.secret[:])
	h.Write(c.client[:])
	h.Write(c.server[:8])
	h.Write(addr.Unmap().AsSlice())
	copy(sum[:], h.Sum(nil))
	return sum
}

// append appends the option as it stands in an OPT record.
func (c *cookie) append(dst []byte) []byte {
	dst = append(dst, 0, cookieOption, 0, clientCookieSize+serverCookieSize)
	dst = append(dst, c.client[:]...)
	return append(dst, c.server[:]...)
}

// readOptions looks for a cookie among the options of an OPT record, and ignores others.
func (q *query) readOptions(p *dnsmessage.Parser) dnsmessage.RCode {
	opt, err := p.OPTResource()
	if err != nil {
		return dnsmessage.RCodeFormatError
	}
	for _, o := range opt.Options {
		// RFC 7873 section 5.2: all but the first are ignored.
		if o.Code == cookieOption && !q.cookie.given && !q.cookie.read(o.Data) {
			return dnsmessage.RCodeFormatError
		}
	}
	return dnsmessage.RCodeSuccess
}
