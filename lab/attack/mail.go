package attack

import (
	"fmt"
	"slices"

	"github.com/bulkhead-mail/bulkhead"
)

// nearBands is how many bands of bulkhead/near a text has, and sharedBands how many
// of them a copy with another name and other numbers keeps.
const nearBands, sharedBands = 20, 12

// A mail is a message as a door describes it: by its signatures.
type mail struct {
	text []bulkhead.Signature
	meta []bulkhead.Signature // its links and its sender
	// words are the features that a node learns, where it learns.
	words []string
}

// signatures returns all of them.
func (m mail) signatures() []bulkhead.Signature { return slices.Concat(m.text, m.meta) }

// source returns what a door reads of the mail beside its signatures.
func (m mail) source() bulkhead.Source { return bulkhead.Source{Features: m.words} }

// from returns the mail with a verified sender and a link to a host of the domain's.
func (m mail) from(address, domain string) mail {
	m.meta = []bulkhead.Signature{
		bulkhead.NamedSignature(bulkhead.Sender, domain),
		bulkhead.NamedSignature(bulkhead.Sender, address+"@"+domain),
		bulkhead.NamedSignature(bulkhead.Link, domain),
		bulkhead.NamedSignature(bulkhead.Link, "www."+domain+"/read"),
	}
	return m
}

// withoutLinks returns the mail with its sender alone.
func (m mail) withoutLinks() mail {
	m.meta = m.meta[:2]
	return m
}

// named returns the mail with a claimed name.
func (m mail) named(name string) mail {
	m.meta = append(slices.Clone(m.meta), bulkhead.NamedSignature(bulkhead.Claim, name))
	return m
}

// unverified returns the mail as it comes from a client of whose network nothing is verified
// but the address.
func (m mail) unverified(network string) mail {
	m.meta = []bulkhead.Signature{bulkhead.NamedSignature(bulkhead.Network, network)}
	return m
}

// letter returns a mail with a text that no other has.
func letter(name string) mail { return copyOf(name, "") }

// copyOf returns a copy of a template. All copies share bands; only copies with the same name
// share the whole text.
func copyOf(template, name string) mail {
	whole := template + "/" + name
	var m mail
	for _, s := range []bulkhead.Scheme{bulkhead.Exact, bulkhead.RazorE4, bulkhead.PyzorDigest, bulkhead.DCCBody} {
		m.text = append(m.text, text(s, whole))
	}
	for i := range nearBands {
		of := template
		if i >= sharedBands {
			of = whole
		}
		m.text = append(m.text, text(bulkhead.Near, fmt.Sprintf("%d %s", i, of)))
	}
	return m
}

func text(s bulkhead.Scheme, of string) bulkhead.Signature {
	named := bulkhead.NamedSignature(s, fmt.Sprintf("%-40s", s.String()+of))
	return named
}
