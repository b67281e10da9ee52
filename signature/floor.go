package signature

import (
	"slices"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/mail"
)

// The numbers of different words of its own that the text of a program needs. All mail of such a program has
// its words in common.
const (
	// minReturned is for a mail server's words around a message that it returns, and for invitations. Both
	// are long, and spam seldom looks like them.
	minReturned = 100
	// minAutomatic is for other mail whose header says that a program wrote it. It is low, because any
	// sender can write such a header.
	minAutomatic = 40
)

// aboveFloor removes the signatures that [Options.AboveFloor] leaves out of those of m. It may change
// sigs. wordy is set if the text has as many words as [wordsOf] wants.
func aboveFloor(m *mail.Message, sigs []bulkhead.Signature, wordy bool) []bulkhead.Signature {
	// A mail server's report needs no link. Phishing that claims to be one has a link.
	phish := m.Daemon && !m.Returned && has(sigs, bulkhead.Link)
	if wordsOf(m) > 0 && !wordy && !phish {
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

// wordsOf returns the number of different words that the text of m needs, 0 for the mail of a person.
func wordsOf(m *mail.Message) int {
	switch {
	case m.Returned || m.Daemon || slices.ContainsFunc(m.Parts, func(p mail.Part) bool {
		return p.Type == "text/calendar" && p.Alternative > 0
	}):
		return minReturned
	case m.Automatic:
		return minAutomatic
	}
	return 0
}
