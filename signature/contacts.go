package signature

import (
	"context"
	"strings"
	"unicode/utf8"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/mail"
	"github.com/bulkhead-mail/bulkhead/internal/pace"
)

// maxContacts is the maximum number of contacts of a message that have bulkhead/contact
// signatures.
const maxContacts = 8

// maxContactWord is the length of the longest wallet, in letters and digits without a break:
// a Monero address with a payment identifier.
const maxContactWord = 106

// contactSignatures returns the bulkhead/contact signatures of the subject and the texts of m that a reader sees.
// If there are more than [maxContacts], a keyed hash chooses among them, as for links.
func contactSignatures(ctx context.Context, m *mail.Message, key [16]byte) ([]bulkhead.Signature, error) {
	choice := newLinkChoice(key)
	p := pace.New(ctx)
	found := func(name string) { choice.insert(&choice.domains, name, mail.FollowedLink) }
	all, err := m.WithInside(ctx)
	if err != nil {
		return nil, err
	}
	findContacts([]byte(m.Subject), p, found)
	for _, m := range all {
		for i := range m.Parts {
			if !m.Parts[i].IsText() {
				continue
			}
			page, err := m.Page(ctx, i)
			if err != nil {
				return nil, err
			}
			for _, h := range page.Links {
				if url := strings.TrimSpace(h.URL); !h.Hidden && len(url) > len("tel:") &&
					strings.EqualFold(url[:len("tel:")], "tel:") {
					findContacts([]byte(strings.ToLower(url)[len("tel:"):]), p, found)
				}
			}
			findContacts(page.Text, p, found)
		}
	}
	var sigs []bulkhead.Signature
	for _, c := range choice.domains[:min(len(choice.domains), maxContacts)] {
		sigs = append(sigs, bulkhead.NamedSignature(bulkhead.Contact, c.name))
	}
	return sigs, pace.Ended(p)
}

// Flags of a byte for findContacts.
const (
	contactWord = 1 << iota // it is a letter or digit
	// a telephone number may begin with it; of the letters and digits of a wallet, one is such a byte
	contactMark
)

var contactBytes = func() (table [256]uint8) {
	for c := range table {
		switch {
		case 'a' <= c && c <= 'z':
			table[c] = contactWord
		case alphanumeric(byte(c)):
			table[c] = contactWord | contactMark
		}
	}
	for _, digit := range []string{"+", "(", "\uff10", "\U0001d7ce"} {
		table[digit[0]] = contactMark
	}
	return table
}()

// isOther reports whether text begins with a character beyond ASCII that neither is a digit nor
// begins a telephone number. Most characters that share their first byte with a mark are letters.
func isOther(text []byte) bool {
	return text[0] >= utf8.RuneSelf && len(text) > 1 && text[1] != "\uff10"[1] && text[1] != "\U0001d7ce"[1]
}

// findContacts calls found with the names of the telephone numbers and wallets in
// text, repeated ones too. Its time is linear.
func findContacts(text []byte, p *pace.Pace, found func(name string)) {
	known := 0   // text before this index has been searched
	number := -1 // where the last telephone number ended
	for at := 0; ; {
		from := at
		for stop := min(at+pace.Step, len(text)); at < stop && (contactBytes[text[at]]&contactMark == 0 ||
			isOther(text[at:])); {
			at++
		}
		if p.Over(at-from) || at == len(text) {
			return
		}
		if contactBytes[text[at]]&contactMark == 0 || isOther(text[at:]) {
			continue
		}
		// A word goes back to letters that are no marks.
		for at > known && contactBytes[text[at]]&contactWord != 0 && contactBytes[text[at-1]]&contactWord != 0 {
			at--
		}
		before := byte(' ')
		switch {
		case at == number:
			before = '0'
		case at > 0:
			before = text[at-1]
		}
		n := 0
		if c := text[at]; c < 'A' || c >= 0x80 {
			var name string
			if name, n = phone(text[at:], before); n > 0 {
				found("tel:" + name)
				number = at + n
			}
		}
		if n == 0 {
			n = word(text[at:], before, found)
		}
		at += n
		known = at
		if p.Over(n) {
			return
		}
	}
}

// word finds the wallet at the start of text, behind another byte, and returns how many
// letters and digits there are; 1 if there are none.
func word(text []byte, before byte, found func(name string)) int {
	n := 0
	for n < len(text) && contactBytes[text[n]]&contactWord != 0 {
		n++
	}
	if n >= 15 && n <= maxContactWord && !joined(before) {
		if name := wallet(string(text[:n])); name != "" {
			found(name)
		}
	} else if n == 4 {
		if name := iban(text); name != "" && !joined(before) {
			found(name)
		}
	}
	return max(n, 1)
}

func alphanumeric(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}
