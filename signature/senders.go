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
//   - else Sender "news.lists.example|lists.example", the verified List-Id and the
//     registrable domain that was verified;
//   - else Sender "platform.example|example.com", the registrable domain that was verified and
//     the one that From claims: a platform that sends on behalf of another domain, which is no
//     evidence about mail from that domain itself;
//   - where nothing was verified, Network "192.0.2.0/24" or "2001:db8:1::/48" of the
//     client.
//
// Of several verified domains, the alphabetically first one is named. Domains verified by DKIM
// take precedence over the domain of the envelope. A public suffix such as "co.uk" verifies
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
	if listed {
		return []bulkhead.Signature{bulkhead.NamedSignature(bulkhead.Sender, list+"|"+verified[0])}
	}
	if !registered {
		own = from.domain
	}
	return []bulkhead.Signature{bulkhead.NamedSignature(bulkhead.Sender, verified[0]+"|"+own)}
}

// signers returns the domains that speak for a message, each a registrable domain or a suffix
// with an owner, and the verified address.
func signers(source bulkhead.Source) (verified []string, sender address) {
	for _, d := range source.DKIM {
		if name, ok := link.Name(d); ok {
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
