// Package live is a list for DNS of what a node lists now.
package live

import (
	"context"
	"encoding/hex"
	"log/slog"
	"net/netip"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/wellknown"
)

// patience is the longest time that a look-up for a DNS query may take.
const patience = 2 * time.Second

const (
	// leastConfidence is the least confidence of a listed link or attachment. A vote of full weight on mail
	// that few received gives more.
	leastConfidence = 45
	// mostSightings is the number of times for each vote that it may have been seen: mail that many received
	// and few reported is a newsletter.
	mostSightings = 10
)

// A List is a list for DNS of what the node itself lists now. It asks the node as every client does,
// and is in no history.
type List struct {
	Judge bulkhead.Clearinghouse
	Log   *slog.Logger // of look-ups that fail
}

// HasDomain implements the List of package dnsbl: a domain or host to which reported messages link.
func (l List) HasDomain(name string) bool {
	return l.lists(bulkhead.NamedSignature(bulkhead.Link, name)) ||
		l.lists(bulkhead.NamedSignature(bulkhead.Link, name+"/"))
}

// HasDigest implements the List of package dnsbl: the SHA-256 of an attachment, or of the canonical text, of
// reported messages.
func (l List) HasDigest(hexadecimal string) bool {
	sum, err := hex.DecodeString(hexadecimal)
	if err != nil {
		return false
	}
	for _, scheme := range []bulkhead.Scheme{bulkhead.Attachment, bulkhead.Exact} {
		// Both schemes are of SHA-256, so a shorter digest is no signature.
		if sig, err := bulkhead.NewSignature(scheme, sum); err == nil && l.lists(sig) {
			return true
		}
	}
	return false
}

// HasAddr implements the List of package dnsbl. Networks alone are never listed.
func (List) HasAddr(netip.Addr) bool { return false }

// Describe implements the List of package dnsbl.
func (List) Describe() string { return "reported by users of this node, and not wanted by others" }

// Updated implements the List of package dnsbl: the list changes with each report.
func (List) Updated() time.Time { return time.Now() }

// lists reports whether a signature is listed, and not one of what wanted mail often has.
func (l List) lists(sig bulkhead.Signature) bool {
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	v, err := l.Judge.Check(ctx, bulkhead.Query{Signatures: []bulkhead.Signature{sig}, Terse: true})
	if err != nil {
		l.Log.Warn("look-up in the live zone failed", "err", err, "consequence", "the answer is that it is not listed")
		return false
	}
	if v.Class == bulkhead.ClassSpam || v.Class == bulkhead.ClassSuspected {
		return true
	}
	// A young node does not judge mail by its links alone. A client of the zone only scores a hit, beside
	// the other rules of its filter.
	f := &v.Findings[0]
	return v.Whitelisted == "" && f.Judged != bulkhead.Revoked && !f.Contested && f.Confidence >= leastConfidence &&
		f.Sightings <= mostSightings*max(f.Spam, 1) && !wellknown.Domain(sig.Sum())
}
