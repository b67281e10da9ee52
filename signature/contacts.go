package signature

import (
	"context"
	"strings"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/signature/internal/pace"
	"github.com/bulkhead-mail/bulkhead/signature/mail"
)

// MaxContacts is how many contacts of a message have bulkhead/contact signatures.
const MaxContacts = 8

// maxContactWord is the length of the longest wallet, in letters and digits without a break:
// a Monero address with a payment identifier.
const maxContactWord = 106

// contactSignatures returns the bulkhead/contact signatures of the texts of m that a
// reader sees. More than [MaxContacts] are chosen by a keyed hash, as links are.
func contactSignatures(ctx context.Context, m *mail.Message, key [16]byte) ([]bulkhead.Signature, error) {
	choice := newLinkChoice(key)
	p := pace.New(ctx)
	found := func(name string) { choice.insert(&choice.domains, name, FollowedLink) }
	all, err := withInside(ctx, m)
	if err != nil {
		return nil, err
	}
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
				if number, ok := strings.CutPrefix(strings.ToLower(strings.TrimSpace(h.URL)), "tel:"); ok && !h.Hidden {
					findContacts([]byte(number), p, found)
				}
			}
			findContacts(page.Text, p, found)
		}
	}
	var sigs []bulkhead.Signature
	for _, c := range choice.domains[:min(len(choice.domains), MaxContacts)] {
		sigs = append(sigs, bulkhead.NamedSignature(bulkhead.Contact, c.name))
	}
	return sigs, pace.Ended(p)
}

// findContacts calls found with the names of the telephone numbers and wallets in
// text, repeated ones too. Its time is linear.
func findContacts(text []byte, p *pace.Pace, found func(name string)) {
	before := byte(' ')
	for at := 0; at < len(text); {
		switch c := text[at]; {
		case c == '+' || c == '(' || '0' <= c && c <= '9' || c >= 0x80:
			if number, n := phone(text[at:], before); n > 0 {
				found("tel:" + number)
				at += n
				before = '0'
				if p.Over(n) {
					return
				}
				continue
			}
			fallthrough
		default:
			n := 0
			for n < len(text)-at && alphanumeric(text[at+n]) {
				n++
			}
			if n >= 15 && n <= maxContactWord && !joined(before) {
				if name := wallet(string(text[at : at+n])); name != "" {
					found(name)
				}
			} else if n == 4 {
				if name := iban(text[at:]); name != "" && !joined(before) {
					found(name)
				}
			}
			n = max(n, 1)
			before = text[at+n-1]
			at += n
			if p.Over(n) {
				return
			}
		}
	}
}

func alphanumeric(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}
