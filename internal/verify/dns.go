package verify

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"time"
)

// How long answers are cached. The system does not report their TTL; keys and records
// usually live longer than this.
const (
	keepAnswer  = 5 * time.Minute
	keepNothing = time.Minute      // that there is no such name
	keepFailure = 10 * time.Second // that no server answered
)

const (
	maxAnswers = 1 << 13 // in each half of the cache
	maxAnswer  = 4 << 10 // bytes of one that is kept, about
)

// A question is a query for a name.
type question struct {
	kind byte // 'T' for TXT, 'M' for MX, 'A' and '6' for addresses, 'P' for the names of an address
	name string
}

// An answer is a cached result, and when it expires.
type answer struct {
	value any
	err   error
	until time.Time
}

// A cache holds DNS answers in two halves: the older one is dropped when the younger one
// is full.
type cache struct {
	from *net.Resolver
	now  func() time.Time

	mu         sync.Mutex
	young, old map[question]answer
}

func newCache(from *net.Resolver, now func() time.Time) *cache {
	return &cache{from: from, now: now, young: make(map[question]answer)}
}

func (c *cache) get(q question) (answer, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a, ok := c.young[q]
	if !ok {
		a, ok = c.old[q]
	}
	return a, ok && c.now().Before(a.until)
}

func (c *cache) put(q question, value any, err error) {
	keep := keepAnswer
	var failure *net.DNSError
	switch {
	case errors.As(err, &failure) && failure.IsNotFound:
		keep = keepNothing
	case err != nil:
		keep = keepFailure
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.young) >= maxAnswers {
		c.young, c.old = make(map[question]answer), c.young
	}
	c.young[q] = answer{value, err, c.now().Add(keep)}
}

// questions are the DNS queries of one message. Its methods may be called concurrently,
// and have the names required by [spf.DNSResolver].
type questions struct {
	cache *cache
	wait  context.Context // for the answers
	v6    bool            // only addresses of IPv6 are asked for, else only IPv4

	mu   sync.Mutex
	left int // that may still be put
}

// errEnough means that a message has exceeded its number of queries.
var errEnough = &net.DNSError{Err: "too many questions for one message", IsTemporary: true}

// ask answers from the cache, or else by lookUp; size returns the approximate size of
// its answer in bytes. A name is looked up as it is, never below a domain of this
// machine.
func ask[T any](s *questions, kind byte, name string, lookUp func(context.Context, string) (T, error),
	size func(T) int) (T, error) {
	q := question{kind, strings.ToLower(strings.TrimSuffix(name, "."))}
	if a, ok := s.cache.get(q); ok {
		value, _ := a.value.(T)
		return value, a.err
	}
	s.mu.Lock()
	s.left--
	enough := s.left < 0
	s.mu.Unlock()
	var none T
	if enough || len(q.name) > 253 {
		return none, errEnough
	}
	full := q.name
	if kind != 'P' {
		full += "."
	}
	value, err := lookUp(s.wait, full)
	if size(value) <= maxAnswer {
		s.cache.put(q, value, err)
	}
	return value, err
}

// LookupTXT returns the texts of a name that are not too long for a record of SPF.
func (s *questions) LookupTXT(_ context.Context, name string) ([]string, error) {
	all, err := ask(s, 'T', name, s.cache.from.LookupTXT, func(all []string) (n int) {
		for _, t := range all {
			n += len(t)
		}
		return n
	})
	return slices.DeleteFunc(slices.Clone(all), func(t string) bool { return len(t) > maxAnswer }), err
}

// LookupMX returns the mail hosts of a name.
func (s *questions) LookupMX(_ context.Context, name string) ([]*net.MX, error) {
	return ask(s, 'M', name, s.cache.from.LookupMX, func(all []*net.MX) int { return 64 * len(all) })
}

// LookupIPAddr returns the addresses of a name in the family of the client's address, which takes one
// question and not two.
func (s *questions) LookupIPAddr(_ context.Context, name string) (out []net.IPAddr, err error) {
	kind, network := byte('A'), "ip4"
	if s.v6 {
		kind, network = '6', "ip6"
	}
	lookUp := func(ctx context.Context, name string) ([]net.IP, error) {
		return s.cache.from.LookupIP(ctx, network, name)
	}
	all, err := ask(s, kind, name, lookUp, func(all []net.IP) int { return 64 * len(all) })
	for _, ip := range all {
		out = append(out, net.IPAddr{IP: ip})
	}
	return out, err
}

// LookupAddr returns the names of an address.
func (s *questions) LookupAddr(_ context.Context, addr string) ([]string, error) {
	return ask(s, 'P', addr, s.cache.from.LookupAddr, func(all []string) int { return 64 * len(all) })
}

// key returns the record of a DKIM key, unless it is too long to verify quickly, or in
// testing mode, which counts as none (RFC 6376, section 3.6.1).
func (s *questions) key(name string) ([]string, error) {
	all, err := s.LookupTXT(s.wait, name)
	return slices.DeleteFunc(all, func(t string) bool { return len(t) > maxKey || onTrial(t) }), err
}

// onTrial reports whether the record of a key has the flag y.
func onTrial(record string) bool {
	for tag := range strings.SplitSeq(record, ";") {
		name, flags, _ := strings.Cut(tag, "=")
		if strings.TrimSpace(name) != "t" {
			continue
		}
		for flag := range strings.SplitSeq(flags, ":") {
			if strings.TrimSpace(flag) == "y" {
				return true
			}
		}
	}
	return false
}
