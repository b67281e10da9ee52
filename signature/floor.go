package signature

import (
	"slices"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/mail"
)

// minAutomatic is the number of different words of its own that the text of a program needs. All mail of
// such a program has its words in common: the words of a mail server around the message that it returns.
const minAutomatic = 100

// aboveFloor removes the signatures that [Options.AboveFloor] leaves out of those of m. It may change
// sigs. wordy is set if the text of an automatic message reaches the floor of such texts.
func aboveFloor(m *mail.Message, sigs []bulkhead.Signature, wordy bool) []bulkhead.Signature {
	if isAutomatic(m) && !wordy {
		return slices.DeleteFunc(sigs, func(s bulkhead.Signature) bool {
			facet := s.Scheme().Facet()
			return facet == bulkhead.TextFacet && s.Scheme() != bulkhead.Exact || facet == bulkhead.ClaimFacet
		})
	}
	// Like bulkhead/near, the other schemes leave out what differs between copies, and need its floor.
	if has(sigs, bulkhead.Near) {
		return sigs
	}
	exact := has(sigs, bulkhead.Exact)
	file := slices.ContainsFunc(m.Parts, func(p mail.Part) bool { return !p.IsText() && len(p.Data) > minAttachment })
	return slices.DeleteFunc(sigs, func(s bulkhead.Signature) bool {
		switch s.Scheme() {
		case bulkhead.Exact, bulkhead.Part:
			return !exact
		case bulkhead.RspamdText:
			return !file
		}
		return s.Scheme().Facet() == bulkhead.TextFacet
	})
}

func has(sigs []bulkhead.Signature, scheme bulkhead.Scheme) bool {
	return slices.ContainsFunc(sigs, func(s bulkhead.Signature) bool { return s.Scheme() == scheme })
}

// isAutomatic reports whether a program wrote m: its header says so, or it has a rendering for calendars.
func isAutomatic(m *mail.Message) bool {
	return m.Automatic || slices.ContainsFunc(m.Parts, func(p mail.Part) bool {
		return p.Type == "text/calendar" && p.Alternative > 0
	})
}
