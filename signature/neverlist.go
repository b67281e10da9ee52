package signature

import (
	"crypto/sha1"

	"github.com/bulkhead-mail/bulkhead"
)

// NeverList returns the signatures that stand for no content at all: Razor's of
// a part of nothing but tags, and Pyzor's of a mail in which no line survives.
// Clients ask for them all the time, and no report may list them.
func NeverList() []bulkhead.Signature {
	nothing := sha1.Sum(nil)
	return []bulkhead.Signature{
		bulkhead.MustSignature(bulkhead.RazorE4, nothing[:]),
		bulkhead.MustSignature(bulkhead.PyzorDigest, nothing[:]),
	}
}
