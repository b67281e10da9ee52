package wire

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/hex"
	"fmt"

	"github.com/nats-io/nkeys"
)

// String returns the hint as 16 hexadecimal digits, as subjects contain it.
func (h Hint) String() string { return hex.EncodeToString(h[:]) }

// ParseHint reads the text that [Hint.String] returns. It reports false for any other text.
func ParseHint(text string) (h Hint, ok bool) {
	// Errors need no check: malformed text differs from the text of the decoded bytes.
	_, _ = hex.Decode(h[:], []byte(text[:min(len(text), hex.EncodedLen(len(h)))]))
	return h, text == h.String()
}

// Text encodes the proof for headers and certificates; "" for nil.
func (s *Succession) Text() string {
	if s == nil {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(append(s.Old[:], s.Signature[:]...))
}

// ParseSuccession reads the text that [Succession.Text] returns; it returns nil for any other text.
func ParseSuccession(text string) *Succession {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	s := &Succession{}
	if err != nil || len(raw) != len(s.Old)+len(s.Signature) {
		return nil
	}
	copy(s.Old[:], raw)
	copy(s.Signature[:], raw[len(s.Old):])
	return s
}

// A Public is the raw public key of an origin.
type Public [ed25519.PublicKeySize]byte

// A Hint is the start of a public key, long enough to find the peer whose signature is to be
// verified.
type Hint [8]byte

// Hint returns the start of the key.
func (p Public) Hint() (h Hint) {
	copy(h[:], p[:])
	return h
}

// ID returns the key in its printed form: an nkey of type user, 56 letters and digits.
func (p Public) ID() string {
	text, err := nkeys.Encode(nkeys.PrefixByteUser, p[:])
	if err != nil {
		panic(err) // 32 bytes under a known prefix always encode
	}
	return string(text)
}

// ParsePublic reads the public key of a node in the form that [Public.ID] returns.
func ParsePublic(text string) (p Public, err error) {
	raw, err := nkeys.Decode(nkeys.PrefixByteUser, []byte(text))
	if err != nil || len(raw) != len(p) {
		return Public{}, fmt.Errorf("mesh: %.80q is not the key of a node: want U and 55 letters and digits", text)
	}
	copy(p[:], raw)
	if p.ID() != text { // another spelling is an error, because ids are compared as text
		return Public{}, fmt.Errorf("mesh: %.80q is not the key of a node: want %s", text, p.ID())
	}
	return p, nil
}

// A Succession is a statement, signed with an old key, that a new key replaces it.
type Succession struct {
	Old       Public                      // the key that is replaced
	Signature [ed25519.SignatureSize]byte // by Old, over the text of the new key
}

// SuccessionText returns the text that the holder of an old key signs so that to succeeds it.
func SuccessionText(to Public) []byte {
	return append([]byte("bulkhead mesh successor v1\x00"), to[:]...)
}

// Names reports whether the holder of s.old has signed that to succeeds it.
func (s *Succession) Names(to Public) bool {
	return ed25519.Verify(s.Old[:], SuccessionText(to), s.Signature[:])
}

// A Signer is the key pair of a node.
type Signer interface {
	Public() Public          // the public key
	Sign(text []byte) []byte // the signature of text with the private key
}
