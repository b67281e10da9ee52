package verify

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"blitiri.com.ar/go/spf"
)

// The limits of what the DNS is asked for one message. Those of DKIM are in dkim.go.
const (
	maxQuestions = 10              // that the cache does not answer: one for each signature, the others for SPF
	maxTime      = 2 * time.Second // for the answers to all of them
	maxKey       = 2048            // bytes of the record of a key: one of RSA has up to 8192 bits then
)

// Options configure a [Verifier]. The zero Options ask the resolver of the system.
type Options struct {
	// Resolver is the address of the DNS resolver, "192.0.2.53:53"; "" for the resolver of
	// the system.
	Resolver string
	// Now is the clock by which answers and signatures expire; nil means time.Now.
	Now func() time.Time
	// Log takes what exceeded a limit, and panics while a message was verified; nil
	// discards both.
	Log *slog.Logger
}

// A Verifier verifies messages. Its method may be called concurrently.
type Verifier struct {
	// Stats count what was not verified because of a limit.
	Stats Stats

	dns  *cache
	log  *slog.Logger
	wait time.Duration // for DNS answers
}

// Stats are counters of a [Verifier]; all may be read at any time.
type Stats struct {
	Surplus    atomic.Int64 // DKIM signatures below the first eight of a message
	Headers    atomic.Int64 // messages whose header has more than 1 MiB or 10,000 fields: no signature is verified
	Signatures atomic.Int64 // DKIM signatures of more than 64 KiB or 256 header field names
	Queries    atomic.Int64 // messages whose SPF record demands more DNS queries than are made for one
	Late       atomic.Int64 // messages whose time was over while their signatures were read
}

// New returns a verifier. It sends no query before the first message.
func New(o Options) *Verifier {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	r := &net.Resolver{PreferGo: true}
	if o.Resolver != "" {
		r.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, o.Resolver)
		}
	}
	return &Verifier{dns: newCache(r, o.Now), log: o.Log, wait: maxTime}
}

// Verify returns the verified domains of a message, in lower case: the domains of its valid
// DKIM signatures, in the order of the signatures from the top, and the domain of the envelope's
// sender if SPF lets the client send for it, or else "". raw is the message with lines that end
// in CRLF.
//
// The first eight signatures are verified: hosts add theirs at the top, so that no
// signature below hides one of a later host. The work is linear in the size of raw, and ends with
// ctx. DNS answers are waited for no longer than two seconds and half of what is left of ctx. At most ten
// questions are put for one message that the cache does not answer: one for each signature, the others
// for SPF. A record that demands more is verified when the answers to the first are cached.
//
// SPF is not asked for a client without a public address, and a domain that lets every client
// send for it ("+all") is not verified.
func (v *Verifier) Verify(ctx context.Context, raw []byte, client netip.Addr,
	sender string) (dkimDomains []string, spfDomain string) {
	limit := v.wait
	if end, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(end)/2)
	}
	wait, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var message *signed
	v.guard(func() { message = v.read(ctx, raw) })
	keys := 0
	if message != nil {
		keys = len(message.signatures)
	}
	var all sync.WaitGroup
	all.Go(func() {
		v.guard(func() {
			q := &questions{cache: v.dns, wait: wait, left: maxQuestions - keys, v6: client.Unmap().Is6()}
			spfDomain = checkSPF(wait, q, client, sender)
			if q.left < 0 {
				v.Stats.Queries.Add(1)
				v.log.Info("SPF not verified", "why", "too many DNS queries", "sender", sender, "limit", maxQuestions-keys)
			}
		})
	})
	if message != nil {
		v.guard(func() { dkimDomains = v.checkDKIM(ctx, wait, message) })
	}
	all.Wait()
	return dkimDomains, spfDomain
}

// guard runs f, and logs its panic if it has one: f reads what a stranger wrote.
func (v *Verifier) guard(f func()) {
	defer func() {
		if p := recover(); p != nil {
			v.log.Error("panic while verifying a message", "panic", p, "stack", string(debug.Stack()))
		}
	}()
	f()
}

// checkSPF returns the domain of sender if it lets the client send for it.
func checkSPF(ctx context.Context, q *questions, client netip.Addr, sender string) string {
	_, domain, ok := strings.Cut(strings.ToLower(sender), "@")
	client = client.Unmap()
	if !ok || !hostName(domain) || !client.IsGlobalUnicast() || client.IsPrivate() {
		return ""
	}
	result, why := spf.CheckHostWithSender(client.AsSlice(), domain, sender, spf.WithContext(ctx), spf.WithResolver(q))
	if result != spf.Pass || errors.Is(why, spf.ErrMatchedAll) {
		return ""
	}
	return domain
}

// read returns a message with its first signatures, or nil if it exceeds a limit.
func (v *Verifier) read(ctx context.Context, raw []byte) *signed {
	m, err := readSigned(ctx, raw, v.dns.now())
	if err != nil {
		v.exceeded(err)
		return nil
	}
	if n := len(m.signatures) - maxSignatures; n > 0 {
		v.Stats.Surplus.Add(int64(n))
		v.log.Info("DKIM signatures not verified", "why", "too many", "signatures", len(m.signatures), "limit", maxSignatures)
		m.signatures = m.signatures[:maxSignatures]
	}
	return m
}

// checkDKIM returns the domains of the valid signatures of a message, in their order. DNS answers are
// waited for until wait ends.
func (v *Verifier) checkDKIM(ctx, wait context.Context, m *signed) []string {
	// A signature of its own may ask for one key: what SPF has used up hides no signer.
	q := &questions{cache: v.dns, wait: wait, left: maxSignatures}
	found := make([]string, len(m.signatures))
	var keys sync.WaitGroup
	defer keys.Wait()
	for n, i := range m.signatures {
		s, digest, err := m.read(i)
		if err != nil {
			v.exceeded(err)
			if ctx.Err() != nil {
				break
			}
			continue
		}
		keys.Go(func() { v.guard(func() { found[n] = s.signer(q, digest) }) })
	}
	keys.Wait()
	var domains []string
	for _, d := range found {
		if d != "" && !slices.Contains(domains, d) {
			domains = append(domains, d)
		}
	}
	return domains
}

// exceeded counts and logs a signature or message that was not verified because of a limit.
func (v *Verifier) exceeded(err error) {
	switch {
	case errors.Is(err, errHeader):
		v.Stats.Headers.Add(1)
		v.log.Info("DKIM signatures not verified", "why", err, "bytes", maxHeader, "fields", maxFields)
	case errors.Is(err, errSignature):
		v.Stats.Signatures.Add(1)
		v.log.Info("DKIM signature not verified", "why", err, "bytes", maxSignature, "names", maxNames)
	case !errors.Is(err, errInvalid):
		v.Stats.Late.Add(1)
		v.log.Info("DKIM signatures not verified", "why", err)
	}
}

// hostName reports whether a name can be a mail domain: at least two labels
// of letters, digits, hyphens and underscores.
func hostName(name string) bool {
	if len(name) > 253 || !strings.Contains(name, ".") {
		return false
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 {
			return false
		}
		for _, c := range []byte(label) {
			if !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_') {
				return false
			}
		}
	}
	return true
}
