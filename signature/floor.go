package signature

import (
	"slices"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/mail"
)

// aboveFloor removes the signatures that [Options.AboveFloor] leaves out of those of m. It may change
// sigs.
func aboveFloor(m *mail.Message, sigs []bulkhead.Signature) []bulkhead.Signature {
	for i := range sigs {
		if s := sigs[i].Scheme(); s == bulkhead.Exact || s == bulkhead.Near {
			return sigs
		}
	}
	file := slices.ContainsFunc(m.Parts, func(p mail.Part) bool { return !p.IsText() && len(p.Data) > minAttachment })
	return slices.DeleteFunc(sigs, func(s bulkhead.Signature) bool {
		return s.Scheme().Facet() == bulkhead.TextFacet && !(file && s.Scheme() == bulkhead.RspamdText)
	})
}
