package bulkhead

import (
	"crypto/sha256"
	"fmt"
	"slices"
)

// A Facet is the part or property of a message that a signature identifies. Each facet is counted
// separately, so that a vote can apply to the new content of a message and not to content that
// others also send.
type Facet uint8

// The facets.
const (
	NoFacet         Facet = iota // none: identifiers and claims of the sender, which inform and never decide
	TextFacet                    // the text, whole or in part
	LinkFacet                    // the targets of its links
	SenderFacet                  // the verified sender
	NetworkFacet                 // the network that delivered it, if the sender is not verified
	AttachmentFacet              // its attachments
	ContactFacet                 // contacts for an answer: telephone numbers, wallets, addresses
	MarkupFacet                  // its mark-up
	ClaimFacet                   // the sender that it claims, which can be forged
	ImageFacet                   // the look of its pictures
)

// Facet returns the part or property of a message that signatures of s identify.
func (s Scheme) Facet() Facet {
	switch s {
	case Exact, Near, Part, RazorE4, RazorE8, PyzorDigest, DCCBody, DCCFuz1, DCCFuz2, RspamdText, RspamdShingle:
		return TextFacet
	case Link:
		return LinkFacet
	case Sender:
		return SenderFacet
	case Network:
		return NetworkFacet
	case Attachment:
		return AttachmentFacet
	case Contact:
		return ContactFacet
	case Markup:
		return MarkupFacet
	case Claim:
		return ClaimFacet
	case Image:
		return ImageFacet
	}
	return NoFacet
}

// String returns the name of f, for example "link".
func (f Facet) String() string {
	switch f {
	case TextFacet:
		return "text"
	case LinkFacet:
		return "link"
	case SenderFacet:
		return "sender"
	case NetworkFacet:
		return "network"
	case AttachmentFacet:
		return "attachment"
	case ContactFacet:
		return "contact"
	case MarkupFacet:
		return "mark-up"
	case ClaimFacet:
		return "claimed name"
	case ImageFacet:
		return "picture"
	}
	return "none"
}

// Identifies reports whether signatures distinguish a message from others. They do unless each of
// them describes the network, the mark-up or the claimed name, which unrelated messages share, or
// is a sketch, which is not counted. A vote for spam without an identifying signature is refused
// with [ErrMalformed].
func Identifies(sigs []Signature) bool {
	return slices.ContainsFunc(sigs, func(s Signature) bool {
		switch s.Scheme().Facet() {
		case NetworkFacet, MarkupFacet, ClaimFacet:
			return false
		}
		return s.Scheme() != Sketch
	})
}

// hashedName is the first byte of a sum that holds the hash of a name in place of the name.
const hashedName = 0

// NamedSignature returns the signature of a name, for the schemes [Link], [Sender],
// [Network], [Contact] and [Claim]. The sum is the name itself if it has 1 to
// [MaxSignature] bytes and does not begin with a zero byte. Otherwise it is a zero
// byte and the SHA-256 hash of the name.
func NamedSignature(scheme Scheme, name string) Signature {
	if name != "" && len(name) <= MaxSignature && name[0] != hashedName {
		return MustSignature(scheme, []byte(name))
	}
	sum := sha256.Sum256([]byte(name))
	return MustSignature(scheme, append([]byte{hashedName}, sum[:]...))
}

// Name returns the name from which [NamedSignature] made s, or "" if s has another
// scheme or the name was too long to be stored.
func (s *Signature) Name() string {
	switch s.scheme {
	case Link, Sender, Network, Contact, Claim:
		if s.n > 0 && s.sum[0] != hashedName {
			return string(s.Sum())
		}
	}
	return ""
}

// A Class is the verdict on a message in one word.
type Class uint8

// The classes.
const (
	ClassUnknown   Class = iota // nothing speaks against it, and too little for it
	ClassGood                   // whitelisted, wanted, or from a sender with an undisputed history
	ClassBulk                   // seen many times, not judged
	ClassSuspected              // resembles reported mail, with too little evidence to refuse it: tag and score it
	ClassSpam                   // spam
	NumClasses                  // number of classes; not a class
)

// ParseClass returns the class whose String is text. Its error wraps [ErrMalformed].
func ParseClass(text string) (Class, error) {
	for c := range NumClasses {
		if c.String() == text {
			return c, nil
		}
	}
	return 0, fmt.Errorf("%w: class %.40q, want unknown, good, bulk, suspected or spam", ErrMalformed, text)
}

// String returns "unknown", "good", "bulk", "suspected", "spam", or "invalid".
func (c Class) String() string {
	switch c {
	case ClassUnknown:
		return "unknown"
	case ClassGood:
		return "good"
	case ClassBulk:
		return "bulk"
	case ClassSuspected:
		return "suspected"
	case ClassSpam:
		return "spam"
	}
	return "invalid"
}
