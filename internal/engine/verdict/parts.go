package verdict

import (
	"bytes"

	"github.com/bulkhead-mail/bulkhead"
)

const (
	pairTexts = 8 // bands of bulkhead/near that a text is paired by
	pairLinks = 3 // links that a text is paired with
)

// Parts are the signatures of a message by facet, as indexes in their order. [Parts.Set] reuses the
// slices.
type Parts struct {
	Links, Senders, Attachments, Images, Contacts, Claims []int
	// Networks is the delivering network, if no sender was verified. It is known only if the door
	// could verify senders.
	Networks []int
	// Texts are the signatures by which the text is paired with links and senders: the first bands
	// of bulkhead/near or, without any, the signatures of the whole text.
	Texts []int
	// The sender's domain, its address, and a list or a verified domain other than the
	// sender's; -1 without one.
	Domain, Address, Other int
	// Near means that there is enough text to recognise a changed copy.
	Near bool
	// Digests means that all signatures are from clients of other clearinghouses, which sign the
	// text alone.
	Digests bool
}

// Set sorts sigs into the facets.
func (p *Parts) Set(sigs []bulkhead.Signature) {
	*p = Parts{
		Links: p.Links[:0], Senders: p.Senders[:0], Attachments: p.Attachments[:0], Images: p.Images[:0],
		Contacts: p.Contacts[:0], Claims: p.Claims[:0],
		Networks: p.Networks[:0], Texts: p.Texts[:0], Domain: -1, Address: -1, Other: -1, Digests: true,
	}
	for i := range sigs {
		p.add(i, &sigs[i])
	}
	if len(p.Texts) > 0 {
		return
	}
	for i := range sigs {
		switch sigs[i].Scheme() {
		case bulkhead.Exact, bulkhead.PyzorDigest, bulkhead.DCCBody, bulkhead.RazorE4:
			if len(p.Texts) < pairTexts {
				p.Texts = append(p.Texts, i)
			}
		}
	}
}

func (p *Parts) add(i int, sig *bulkhead.Signature) {
	switch sig.Scheme().Facet() {
	case bulkhead.LinkFacet:
		p.Links = append(p.Links, i)
	case bulkhead.SenderFacet:
		p.Senders = append(p.Senders, i)
		p.sender(i, sig.Sum())
	case bulkhead.AttachmentFacet:
		p.Attachments = append(p.Attachments, i)
	case bulkhead.ImageFacet:
		p.Images = append(p.Images, i)
	case bulkhead.ContactFacet:
		p.Contacts = append(p.Contacts, i)
	case bulkhead.ClaimFacet:
		p.Claims = append(p.Claims, i)
	case bulkhead.NetworkFacet:
		p.Networks = append(p.Networks, i)
	}
	switch sig.Scheme() {
	case bulkhead.Near:
		if len(p.Texts) < pairTexts {
			p.Texts = append(p.Texts, i)
		}
		p.Digests, p.Near = false, true
	case bulkhead.Exact, bulkhead.Part, bulkhead.Sketch, bulkhead.Link, bulkhead.Sender, bulkhead.Network,
		bulkhead.Attachment, bulkhead.Contact, bulkhead.Markup, bulkhead.Claim, bulkhead.Image:
		p.Digests = false
	}
}

func (p *Parts) sender(i int, name []byte) {
	which := [...]*int{Domain: &p.Domain, Address: &p.Address, Other: &p.Other}[KindOf(name)]
	if *which < 0 {
		*which = i
	}
}

// A SenderKind is the kind of a sender's name.
type SenderKind uint8

// The kinds. Other is a list, or a verified domain other than the sender's.
const (
	Domain SenderKind = iota
	Address
	Other
)

// KindOf returns the kind of a sender's name.
func KindOf(name []byte) SenderKind {
	switch {
	case bytes.IndexByte(name, '|') >= 0:
		return Other
	case bytes.IndexByte(name, '@') >= 0:
		return Address
	}
	return Domain
}

// Within reports whether host equals domain or is a subdomain of it.
func Within(host, domain []byte) bool {
	sub, ok := bytes.CutSuffix(host, domain)
	return ok && (len(sub) == 0 || sub[len(sub)-1] == '.')
}

// Sender returns the index of the sender's signature, or -1 without one. It is the sender's domain,
// or its address if the domain is shared, or the mailing list if more mail came from the list.
// evidence is the evidence of all signatures.
func (p *Parts) Sender(evidence []Evidence) int {
	switch {
	case p.Domain >= 0 && !evidence[p.Domain].Shared():
		return p.Domain
	case p.Address >= 0 && (p.Other < 0 || evidence[p.Address].Old >= evidence[p.Other].Old):
		return p.Address
	}
	return p.Other
}

// Foreign reports whether the link sigs[i] leads outside the sender's own domain, for which the
// sender answers. A shared domain is no sender's own, but its customers all link to it. A place in it is foreign,
// because it is one customer's.
func (p *Parts) Foreign(sigs []bulkhead.Signature, evidence []Evidence, i int) bool {
	if p.Domain < 0 {
		return true
	}
	own := sigs[p.Domain].Sum()
	if evidence[p.Domain].Shared() {
		return !bytes.Equal(sigs[i].Sum(), own)
	}
	host, _, _ := bytes.Cut(sigs[i].Sum(), []byte{'/'})
	return !Within(host, own)
}

// ownLetters is the number of letters of a domain that a claimed name must contain to belong to the
// domain.
const ownLetters = 4

// OwnName reports whether the claimed name sigs[i] is the name of the sender's domain: "Example
// Shop" at example.org impersonates no other sender.
func (p *Parts) OwnName(sigs []bulkhead.Signature, evidence []Evidence, i int) bool {
	if p.Domain < 0 || evidence[p.Domain].Shared() {
		return false
	}
	label, _, _ := bytes.Cut(sigs[p.Domain].Sum(), []byte{'.'})
	var own [bulkhead.MaxSignature]byte
	n := 0
	for _, c := range label {
		if c == 'l' {
			c = 'i' // as bulkhead/claim folds it
		}
		if 'a' <= c && c <= 'z' {
			own[n] = c
			n++
		}
	}
	return n >= ownLetters && bytes.Contains(sigs[i].Sum(), own[:n])
}

// Contexts appends the signatures that a text is paired with to out: the sender's, and
// the domains of the three foreign links with the fewest deliveries.
func (p *Parts) Contexts(sigs []bulkhead.Signature, evidence []Evidence, out []int) []int {
	if s := p.Sender(evidence); s >= 0 {
		out = append(out, s)
	}
	links := len(out)
	for _, i := range p.Links {
		if bytes.IndexByte(sigs[i].Sum(), '/') >= 0 || !p.Foreign(sigs, evidence, i) {
			continue
		}
		at := len(out)
		for at > links && evidence[out[at-1]].deliveries() > evidence[i].deliveries() {
			at--
		}
		if at-links == pairLinks {
			continue
		}
		if len(out)-links < pairLinks {
			out = append(out, 0)
		}
		copy(out[at+1:], out[at:])
		out[at] = i
	}
	return out
}
