package signature

import (
	"crypto/sha1"

	"github.com/bulkhead-mail/bulkhead"
)

// NeverList returns the signatures of empty content: Razor's for a part that has only tags,
// and Pyzor's for a message without a line left. Clients ask for them all the time, and no
// report may list them.
func NeverList() []bulkhead.Signature {
	nothing := sha1.Sum(nil)
	return []bulkhead.Signature{
		bulkhead.MustSignature(bulkhead.RazorE4, nothing[:]),
		bulkhead.MustSignature(bulkhead.PyzorDigest, nothing[:]),
	}
}
