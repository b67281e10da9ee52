package signature

import (
	"slices"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/signature/mail"
)

// AboveFloor removes the signatures of the text from those of m, if m has too little
// text for a bulkhead/exact or bulkhead/near signature and no part other than text.
// The schemes of other clearinghouses have a sum even for next to nothing, and one report of
// such a sum would list every message like it. Use AboveFloor wherever whole messages are
// judged; clients of those schemes send what they compute. It may change sigs.
func AboveFloor(m *mail.Message, sigs []bulkhead.Signature) []bulkhead.Signature {
	for i := range sigs {
		if s := sigs[i].Scheme(); s == bulkhead.Exact || s == bulkhead.Near {
			return sigs
		}
	}
	for i := range m.Parts {
		if p := &m.Parts[i]; !p.IsText() && len(p.Data) > 0 {
			return sigs
		}
	}
	return slices.DeleteFunc(sigs, func(s bulkhead.Signature) bool { return s.Scheme().Facet() == bulkhead.TextFacet })
}
