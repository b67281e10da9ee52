package signature

import (
	"slices"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/signature/mail"
)

// AboveFloor removes the signatures of the text from those of m, if m has too little text for a
// bulkhead/exact or bulkhead/near signature. The schemes of other clearinghouses have a sum even
// for next to nothing, such as the line "Version: 1" of encrypted mail, and one report of such a
// sum would list every message like it. AboveFloor keeps rspamd/text of a message with a part
// that has a bulkhead/attachment signature: rspamd computes no sum of a text as short as that.
// Use AboveFloor wherever whole messages are judged; clients of those schemes send their own
// sums. AboveFloor may change sigs.
func AboveFloor(m *mail.Message, sigs []bulkhead.Signature) []bulkhead.Signature {
	for i := range sigs {
		if s := sigs[i].Scheme(); s == bulkhead.Exact || s == bulkhead.Near {
			return sigs
		}
	}
	file := slices.ContainsFunc(m.Parts, func(p mail.Part) bool { return !p.IsText() && len(p.Data) > MinAttachment })
	return slices.DeleteFunc(sigs, func(s bulkhead.Signature) bool {
		return s.Scheme().Facet() == bulkhead.TextFacet && !(file && s.Scheme() == bulkhead.RspamdText)
	})
}
