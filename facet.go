package bulkhead

import (
	"crypto/sha256"
	"fmt"
	"slices"
)

// A Facet is the part or property of a message that a signature identifies. Each
// facet is counted separately, so that a vote can fall on what is new in a message
// and not on what others send, too.
type Facet uint8

// The facets.
const (
	NoFacet         Facet = iota // of none: identifiers and claims of the sender, which inform and never decide
	TextFacet                    // the text, whole or in part
	LinkFacet                    // where its links lead
	SenderFacet                  // who sent it, as far as somebody has verified that
	NetworkFacet                 // which network delivered it, where nobody verified who sent it
	AttachmentFacet              // what is attached
	ContactFacet                 // how its reader is to answer: telephone numbers, wallets, addresses
	MarkupFacet                  // its mark-up
	ClaimFacet                   // who it says that it is from, which anybody can write
	ImageFacet                   // what its pictures look like
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

// Identifies reports whether signatures tell a message from others. They do unless
// all of them are of the network, the mark-up or the claimed name, which unrelated
// messages share, or sketches, which count for nothing. A vote for spam on signatures
// that do not is refused with [ErrMalformed].
func Identifies(sigs []Signature) bool {
	return slices.ContainsFunc(sigs, func(s Signature) bool {
		switch s.Scheme().Facet() {
		case NetworkFacet, MarkupFacet, ClaimFacet:
			return false
		}
		return s.Scheme() != Sketch
	})
}

// hashedName begins the sum of a name that is too long to be its own.
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
	ClassGood                   // whitelisted, wanted, or of a sender with a history that nobody quarrels with
	ClassBulk                   // seen by many, judged by nobody
	ClassSuspected              // like what was reported, on too little evidence to refuse it: to be tagged and scored
	ClassSpam                   // spam
	NumClasses                  // how many classes there are; not a class
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
