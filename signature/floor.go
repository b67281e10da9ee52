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

// A kind is what the signatures of a message found out about the message.
type kind struct {
	wordy    bool // the text has as many words of its own as [wordsOf] wants
	template bool // the text has no words but a template's, such as a disclaimer
	abroad   bool // a link leads to another domain than the domain of the author
}

// aboveFloor removes the signatures that [Options.AboveFloor] leaves out of those of m. It may change
// sigs.
func aboveFloor(m *mail.Message, sigs []bulkhead.Signature, k kind) []bulkhead.Signature {
	// A mail server's report needs no link, and a notice of a program leads to its own domain. Phishing that claims
	// to be one of these leads elsewhere.
	phish := m.Daemon && !m.Returned && has(sigs, bulkhead.Link) ||
		m.Role && !m.Automatic && !m.Returned && !m.Daemon && k.abroad
	if wordsOf(m) > 0 && !k.wordy && !phish {
		bare := isBare(sigs, k)
		return slices.DeleteFunc(sigs, func(s bulkhead.Signature) bool {
			facet := s.Scheme().Facet()
			return facet == bulkhead.TextFacet && s.Scheme() != bulkhead.Exact && !(bare && s.Scheme() == bulkhead.DCCBody) ||
				facet == bulkhead.ClaimFacet
		})
	}
	// Like bulkhead/near, the other schemes leave out what differs between copies, and need its floor.
	if has(sigs, bulkhead.Near) {
		return sigs
	}
	exact, bare := has(sigs, bulkhead.Exact), isBare(sigs, k)
	file := slices.ContainsFunc(m.Parts, func(p mail.Part) bool { return !p.IsText() && len(p.Data) > minAttachment })
	return slices.DeleteFunc(sigs, func(s bulkhead.Signature) bool {
		switch s.Scheme() {
		case bulkhead.Exact, bulkhead.Part:
			return !exact
		case bulkhead.RspamdText:
			return !file
		case bulkhead.DCCBody:
			return !bare
		}
		return s.Scheme().Facet() == bulkhead.TextFacet
	})
}

// isBare reports whether a message has links and too little text for a signature of its own. The checksum of its
// body then knows the same message again: the links are in the body. Mail with nothing but what programs write
// below all mail of their users is not bare.
func isBare(sigs []bulkhead.Signature, k kind) bool {
	return !k.template && has(sigs, bulkhead.Link) && !has(sigs, bulkhead.Exact)
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
	case m.Automatic || m.Role:
		return minAutomatic
	}
	return 0
}
