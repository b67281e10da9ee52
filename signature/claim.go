package signature

import (
	"strings"

	"golang.org/x/text/unicode/norm"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/mail"
)

// The bounds of bulkhead/claim: many people share a shorter name, and only the beginning of
// a longer one is read.
const (
	claimMinLetters = 4
	claimMaxBytes   = 128
)

// claims returns the bulkhead/claim signature of a message: the letters of the name that its
// From gives the sender, folded as by bulkhead/near. An address in place of a name, or a name
// of fewer than four letters, gives none.
func claims(m *mail.Message) []bulkhead.Signature {
	if strings.Contains(m.FromName, "@") {
		return nil
	}
	var b strings.Builder
	letters := 0
	for _, r := range norm.NFKD.String(m.FromName[:min(len(m.FromName), claimMaxBytes)]) {
		if r = fold(r); r != 0 {
			b.WriteRune(r)
			letters++
		}
	}
	if letters < claimMinLetters {
		return nil
	}
	return []bulkhead.Signature{bulkhead.NamedSignature(bulkhead.Claim, b.String())}
}
