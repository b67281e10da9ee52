package bulkhead

import (
	"encoding/hex"
	"fmt"
	"strings"
)

// MaxSignature is the largest number of bytes in the sum of a [Signature].
const MaxSignature = 64

// A Scheme is the way in which a signature is computed from a message. The set is
// closed: a new protocol adds a constant here and changes nothing else in this
// package. Only the names of schemes are stored or hashed, so their numeric values
// may change between releases.
type Scheme uint8

// The schemes. The comment names the source of the sum.
const (
	InvalidScheme Scheme = iota // the zero Scheme, refused everywhere
	Exact                       // bulkhead/exact: hash of the canonical text of the body
	Near                        // bulkhead/near: one MinHash band of the message's skeleton
	RazorE4                     // razor/e4: Razor engine 4, docs/specs/razor2.md#engine-4
	RazorE8                     // razor/e8: Razor engine 8 (whiplash), docs/specs/razor2.md#engine-8
	PyzorDigest                 // pyzor/digest: docs/specs/pyzor.md#digest
	DCCIP                       // dcc/ip: docs/specs/dcc.md#client-address
	DCCEnvFrom                  // dcc/env-from: docs/specs/dcc.md#header-and-envelope-values
	DCCFrom                     // dcc/from: docs/specs/dcc.md#header-and-envelope-values
	DCCSubstitute               // dcc/substitute: docs/specs/dcc.md#header-and-envelope-values
	DCCMessageID                // dcc/message-id: docs/specs/dcc.md#header-and-envelope-values
	DCCReceived                 // dcc/received: docs/specs/dcc.md#header-and-envelope-values
	DCCBody                     // dcc/body: docs/specs/dcc.md#body
	DCCFuz1                     // dcc/fuz1: docs/specs/dcc.md#fuz1
	DCCFuz2                     // dcc/fuz2: docs/specs/dcc.md#fuz2
	RspamdText                  // rspamd/text: docs/specs/rspamd-fuzzy.md#digests
	RspamdShingle               // rspamd/shingle: docs/specs/rspamd-fuzzy.md#shingles
	Link                        // bulkhead/link: the name of a link's target, see package signature
	Sender                      // bulkhead/sender: the name of a verified sender, see package signature
	Network                     // bulkhead/network: the network that delivered the message
	Attachment                  // bulkhead/attachment: hash of a decoded part that is not text
	Contact                     // bulkhead/contact: a telephone number, wallet or address in the text
	Markup                      // bulkhead/markup: hash of the skeleton of the mark-up
	Claim                       // bulkhead/claim: the name that a message gives its sender
	Image                       // bulkhead/image: one of several keys of the look of a picture
	Part                        // bulkhead/part: a sampled run of words, which identifies a text inside another
	Sketch                      // bulkhead/sketch: a list of sampled runs of words, see Sample
	numSchemes
)

var schemeNames = [numSchemes]string{
	InvalidScheme: "invalid",
	Exact:         "bulkhead/exact",
	Near:          "bulkhead/near",
	RazorE4:       "razor/e4",
	RazorE8:       "razor/e8",
	PyzorDigest:   "pyzor/digest",
	DCCIP:         "dcc/ip",
	DCCEnvFrom:    "dcc/env-from",
	DCCFrom:       "dcc/from",
	DCCSubstitute: "dcc/substitute",
	DCCMessageID:  "dcc/message-id",
	DCCReceived:   "dcc/received",
	DCCBody:       "dcc/body",
	DCCFuz1:       "dcc/fuz1",
	DCCFuz2:       "dcc/fuz2",
	RspamdText:    "rspamd/text",
	RspamdShingle: "rspamd/shingle",
	Link:          "bulkhead/link",
	Sender:        "bulkhead/sender",
	Network:       "bulkhead/network",
	Attachment:    "bulkhead/attachment",
	Contact:       "bulkhead/contact",
	Markup:        "bulkhead/markup",
	Claim:         "bulkhead/claim",
	Image:         "bulkhead/image",
	Part:          "bulkhead/part",
	Sketch:        "bulkhead/sketch",
}

// Schemes returns every valid scheme, in the order of the constants.
func Schemes() []Scheme {
	all := make([]Scheme, 0, numSchemes-1)
	for s := InvalidScheme + 1; s < numSchemes; s++ {
		all = append(all, s)
	}
	return all
}

// String returns the name of s, for example "razor/e4", or "invalid".
func (s Scheme) String() string {
	if s >= numSchemes {
		return schemeNames[InvalidScheme]
	}
	return schemeNames[s]
}

// Valid reports whether s is one of the constants, InvalidScheme excepted.
func (s Scheme) Valid() bool { return s > InvalidScheme && s < numSchemes }

// ParseScheme returns the scheme called name, or an error that wraps
// [ErrMalformed].
func ParseScheme(name string) (Scheme, error) {
	for s := InvalidScheme + 1; s < numSchemes; s++ {
		if schemeNames[s] == name {
			return s, nil
		}
	}
	return InvalidScheme, fmt.Errorf("%w: unknown signature scheme %.40q", ErrMalformed, name)
}

// A Signature identifies a message, or a part or property of one: a scheme and
// the 1 to [MaxSignature] bytes which that scheme computed. It is comparable
// and holds no pointers, so it may be a map key and is copied freely. The zero
// Signature is invalid and refused by every [Clearinghouse].
type Signature struct {
	scheme Scheme
	n      uint8
	sum    [MaxSignature]byte
}

// NewSignature returns the signature of the given scheme and sum, or an error
// that wraps [ErrMalformed] if the scheme is not valid or the sum is empty or
// longer than [MaxSignature] bytes. It keeps no reference to sum.
func NewSignature(scheme Scheme, sum []byte) (Signature, error) {
	if !scheme.Valid() {
		return Signature{}, fmt.Errorf("%w: signature without a valid scheme", ErrMalformed)
	}
	if len(sum) == 0 || len(sum) > MaxSignature {
		return Signature{}, fmt.Errorf("%w: %s signature of %d bytes, want 1 to %d", ErrMalformed, scheme, len(sum),
			MaxSignature)
	}
	s := Signature{scheme: scheme, n: uint8(len(sum))}
	copy(s.sum[:], sum)
	return s, nil
}

// MustSignature is [NewSignature] for sums that cannot be refused: of a scheme
// known to be valid and a length that the caller fixes. It panics where
// NewSignature would return an error.
func MustSignature(scheme Scheme, sum []byte) Signature {
	s, err := NewSignature(scheme, sum)
	if err != nil {
		panic(err)
	}
	return s
}

// Valid reports whether s was made by [NewSignature] or [ParseSignature].
func (s *Signature) Valid() bool { return s.n > 0 }

// Scheme returns how s was computed.
func (s *Signature) Scheme() Scheme { return s.scheme }

// Sum returns the bytes of s. They are s's own: the caller must not change them.
func (s *Signature) Sum() []byte { return s.sum[:s.n] }

// String returns scheme and sum, for example "pyzor/digest:dc2f1a...", in the
// form that [ParseSignature] reads.
func (s Signature) String() string { return string(s.text()) }

func (s *Signature) text() []byte {
	name := s.scheme.String()
	text := append(make([]byte, 0, len(name)+1+2*int(s.n)), name...)
	return hex.AppendEncode(append(text, ':'), s.sum[:s.n])
}

// ParseSignature reads the form that [Signature.String] writes: the name of a
// scheme, a colon, and the sum in hexadecimal. Its error wraps [ErrMalformed].
func ParseSignature(text string) (Signature, error) {
	name, digits, ok := strings.Cut(text, ":")
	if !ok {
		return Signature{}, fmt.Errorf("%w: signature %.80q is not SCHEME:HEX", ErrMalformed, text)
	}
	scheme, err := ParseScheme(name)
	if err != nil {
		return Signature{}, err
	}
	if len(digits) > 2*MaxSignature {
		return Signature{}, fmt.Errorf("%w: %s signature of %d hex digits, limit %d", ErrMalformed,
			scheme, len(digits), 2*MaxSignature)
	}
	sum, err := hex.DecodeString(digits)
	if err != nil {
		return Signature{}, fmt.Errorf("%w: %s signature: %v", ErrMalformed, scheme, err)
	}
	return NewSignature(scheme, sum)
}

// MarshalText implements [encoding.TextMarshaler] with the form of String.
func (s Signature) MarshalText() ([]byte, error) {
	if !s.Valid() {
		return nil, fmt.Errorf("%w: invalid signature", ErrMalformed)
	}
	return s.text(), nil
}

// UnmarshalText implements [encoding.TextUnmarshaler]; see [ParseSignature].
func (s *Signature) UnmarshalText(text []byte) error {
	sig, err := ParseSignature(string(text))
	if err != nil {
		return err
	}
	*s = sig
	return nil
}
