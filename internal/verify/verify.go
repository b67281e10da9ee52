package verify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"blitiri.com.ar/go/spf"
	"github.com/emersion/go-msgauth/dkim"
)

// The limits of what is done for one message.
const (
	maxSignatures = 5               // that are tried, the first ones
	maxQuestions  = 40              // to the DNS: SPF alone may put ten, and one for each host of them
	maxTime       = 2 * time.Second // for the answers to all of them
	maxKey        = 2048            // bytes of the record of a key: one of RSA has up to 8192 bits then
)

// Options configure a [Verifier]. The zero Options ask the resolver of the system.
type Options struct {
	// Resolver is the address of the DNS resolver, "192.0.2.53:53"; "" for those of
	// the system.
	Resolver string
	// Now is the clock by which answers get old; nil means time.Now.
	Now func() time.Time
	// Log takes panics of what reads signatures and records; nil discards them.
	Log *slog.Logger
}

// A Verifier verifies messages. Its method may be called concurrently.
type Verifier struct {
	dns *cache
	log *slog.Logger
}

// New returns a verifier. It asks nobody before it is asked.
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
	return &Verifier{dns: newCache(r, o.Now), log: o.Log}
}

// Verify returns the domains that answer for a message, in lower case: those of valid
// DKIM signatures, in the order of the signatures, and the domain of the envelope's
// sender if SPF lets the client send for it, or else "". raw is the message with lines
// that end in CRLF. The answers of the DNS are waited for no longer than two seconds
// and half of what is left of ctx.
//
// What a network without a public address sends is not looked at for SPF, and a
// domain that lets everybody send for it ("+all") verifies nobody.
func (v *Verifier) Verify(ctx context.Context, raw []byte, client netip.Addr, sender string) (dkimDomains []string, spfDomain string) {
	limit := maxTime
	if end, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(end)/2)
	}
	wait, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	q := &questions{cache: v.dns, wait: wait, left: maxQuestions}
	var all sync.WaitGroup
	all.Go(func() {
		v.guard(func() { spfDomain = checkSPF(wait, q, client, sender) })
	})
	candidates := signed(raw)
	found := make([]string, len(candidates))
	for i, c := range candidates {
		all.Go(func() { v.guard(func() { found[i] = checkDKIM(ctx, q, c) }) })
	}
	all.Wait()
	for _, d := range found {
		if d != "" && !slices.Contains(dkimDomains, d) {
			dkimDomains = append(dkimDomains, d)
		}
	}
	return dkimDomains, spfDomain
}

// guard runs f, and logs its panic if it has one: f reads what strangers wrote.
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

// checkDKIM returns the domain of the first signature of a message if it is valid.
func checkDKIM(ctx context.Context, q *questions, message [][]byte) string {
	// One at a time: of several the library starts goroutines, which a panic or the
	// end of ctx would leave behind.
	got, err := dkim.VerifyWithOptions(&ending{ctx: ctx, parts: message}, &dkim.VerifyOptions{LookupTXT: q.key, MaxVerifications: 1})
	if err != nil && !errors.Is(err, dkim.ErrTooManySignatures) || len(got) != 1 || got[0].Err != nil {
		return ""
	}
	domain := strings.ToLower(strings.TrimSuffix(got[0].Domain, "."))
	if !hostName(domain) {
		return ""
	}
	return domain
}

// hostName reports whether a name can be that of a mail domain: at least two labels
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

// signed returns a message once for each of its first signatures, each time without
// the signatures above that one, in parts.
func signed(raw []byte) [][][]byte {
	var all [][][]byte
	var above [][]byte // the header without the signatures before at
	at, from := 0, 0
	for at < len(raw) && len(all) < maxSignatures {
		end := fieldEnd(raw, at)
		field := raw[at:end]
		if len(bytes.TrimRight(field, "\r\n")) == 0 {
			break
		}
		name, _, _ := bytes.Cut(field, []byte(":"))
		if strings.EqualFold(string(bytes.TrimSpace(name)), "DKIM-Signature") {
			above = append(above, raw[from:at])
			all = append(all, append(slices.Clone(above), raw[at:]))
			from = end
		}
		at = end
	}
	return all
}

// fieldEnd returns where the header field that begins at a place ends, with the lines
// that continue it.
func fieldEnd(raw []byte, at int) int {
	for {
		n := bytes.IndexByte(raw[at:], '\n')
		if n < 0 {
			return len(raw)
		}
		if at += n + 1; at == len(raw) || raw[at] != ' ' && raw[at] != '\t' {
			return at
		}
	}
}

// ending reads parts one after the other until ctx ends.
type ending struct {
	ctx   context.Context
	parts [][]byte
}

// Read implements [io.Reader].
func (r *ending) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, fmt.Errorf("verify: %w", err)
	}
	for len(r.parts) > 0 && len(r.parts[0]) == 0 {
		r.parts = r.parts[1:]
	}
	if len(r.parts) == 0 {
		return 0, io.EOF
	}
	n := copy(p, r.parts[0])
	r.parts[0] = r.parts[0][n:]
	return n, nil
}
