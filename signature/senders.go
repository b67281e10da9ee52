package signature

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/mail/link"
)

// Senders returns the signatures of the sender of a message, as far as source reports it as
// verified:
//
//   - Sender "example.com" and "alice@example.com", the registrable domain and the address of
//     From, if a domain that was verified by DKIM, or the domain of the verified Sender, has the
//     same registrable domain; also the domain and address of the verified Sender, if From is not
//     known. If a List-Id of that domain was verified, Sender "news.example.com|example.com" is
//     added: where a list shares the domain of its authors, an author may be new while the list
//     is not;
//   - else Sender "news.lists.example|lists.example", the verified List-Id and the registrable
//     domain that was verified for it, or each that was verified if its own was not;
//   - else Sender "platform.example|example.com" for each registrable domain that was verified, with
//     the one that From claims: a platform that sends on behalf of another domain, which is no
//     evidence about mail from that domain itself;
//   - where nothing was verified, Network "192.0.2.0/24" or "2001:db8:1::/48" of the
//     client.
//
// All verified domains are named, up to 16: a sender can add signatures of domains of its own, but
// cannot hide one that the platform adds. They are in alphabetical order, the domain of the envelope
// last. A public suffix such as "co.uk" verifies
// nothing. A suffix that a company runs for its customers speaks for them, but does not identify
// them.
func Senders(source bulkhead.Source) []bulkhead.Signature {
	verified, sender := signers(source)
	from, ok := addressOf(source.From)
	if source.From == "" {
		from, ok = sender, sender.domain != ""
	}
	if len(verified) == 0 {
		return networkOf(source.Client)
	}
	if !ok {
		return nil
	}
	own, registered := link.Registrable(from.domain)
	list, listed := link.Name(source.ListID)
	if registered && slices.Contains(verified, own) {
		sigs := []bulkhead.Signature{
			bulkhead.NamedSignature(bulkhead.Sender, own),
			bulkhead.NamedSignature(bulkhead.Sender, from.local+"@"+from.domain),
		}
		if of, _ := link.Registrable(list); listed && of == own {
			sigs = append(sigs, bulkhead.NamedSignature(bulkhead.Sender, list+"|"+own))
		}
		return sigs
	}
	if !registered {
		own = from.domain
	}
	of, _ := link.Registrable(list)
	if listed && slices.Contains(verified, of) {
		verified = []string{of}
	}
	var sigs []bulkhead.Signature
	for _, signer := range verified {
		name := signer + "|" + own
		if listed {
			name = list + "|" + signer
		}
		sigs = append(sigs, bulkhead.NamedSignature(bulkhead.Sender, name))
	}
	return sigs
}

// maxSigners is the largest number of verified domains of a message that are named, the first of those
// that its source has.
const maxSigners = 16

// signers returns the domains that speak for a message, each a registrable domain or a suffix
// with an owner, and the verified address.
func signers(source bulkhead.Source) (verified []string, sender address) {
	for _, d := range source.DKIM {
		if name, ok := link.Name(d); ok && len(verified) < maxSigners {
			verified = appendSigner(verified, name)
		}
	}
	slices.Sort(verified)
	sender, ok := addressOf(source.Sender)
	if ok {
		verified = appendSigner(verified, sender.domain)
	}
	return verified, sender
}

func appendSigner(all []string, name string) []string {
	if link.PublicSuffix(name) {
		return all
	}
	if own, ok := link.Registrable(name); ok {
		name = own
	}
	if slices.Contains(all, name) {
		return all
	}
	return append(all, name)
}

// An address is a mail address in lower case, its domain in ASCII.
type address struct{ local, domain string }

// addressOf reads an address. It reports whether text is one, of a domain that has a
// name.
func addressOf(text string) (address, bool) {
	at := strings.LastIndexByte(text, '@')
	if at < 1 {
		return address{}, false
	}
	domain, ok := link.Name(text[at+1:])
	local := strings.ToLower(text[:at])
	if !ok || strings.ContainsFunc(local, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '@' }) {
		return address{}, false
	}
	return address{local, domain}, true
}

// networkOf returns the signature of the network of a client on the internet.
func networkOf(client netip.Addr) []bulkhead.Signature {
	client = client.Unmap().WithZone("")
	if !client.IsGlobalUnicast() || client.IsPrivate() {
		return nil
	}
	bits := 48
	if client.Is4() {
		bits = 24
	}
	network, err := client.Prefix(bits)
	if err != nil {
		return nil
	}
	return []bulkhead.Signature{bulkhead.NamedSignature(bulkhead.Network, network.String())}
}
