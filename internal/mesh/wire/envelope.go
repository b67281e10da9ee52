package wire

import (
	"crypto/ed25519"
	"crypto/sha512"
	"fmt"
)

// An Envelope is a message whose claim has not been parsed, or a statement.
type Envelope struct {
	Kind      Kind
	From      Hint
	head      []byte // everything up to the end of the claim
	claim     []byte
	data      []byte // nil in a statement
	sum       [sha512.Size256]byte
	signature []byte
}

func dataSum(data []byte) [sha512.Size256]byte { return sha512.Sum512_256(data) }

// OpenEnvelope finds the parts of a message. Its error wraps errMessage or errNewer.
func OpenEnvelope(b []byte) (*Envelope, error) {
	e, rest, err := openClaim(b)
	if err != nil {
		return nil, err
	}
	e.data, e.signature = rest[:len(rest)-ed25519.SignatureSize], rest[len(rest)-ed25519.SignatureSize:]
	e.sum = dataSum(e.data)
	return e, nil
}

// OpenStatement finds the parts of a statement, as written by [Envelope.Statement].
func OpenStatement(b []byte) (*Envelope, error) {
	e, rest, err := openClaim(b)
	if err != nil {
		return nil, err
	}
	if len(rest) != len(e.sum)+ed25519.SignatureSize {
		return nil, fmt.Errorf("%w: statement with %d bytes after its claim", errMessage, len(rest))
	}
	e.signature = rest[copy(e.sum[:], rest):]
	return e, nil
}

// openClaim finds the claim and returns the bytes after it, which are at least a signature.
func openClaim(b []byte) (*Envelope, []byte, error) {
	const fixed = 2 + len(Hint{})
	const least = fixed + 1 + 4 + ed25519.SignatureSize
	switch {
	case len(b) == 0 || len(b) > MaxMessage:
		return nil, nil, fmt.Errorf("%w: %d bytes, want %d to %d", errMessage, len(b), least, MaxMessage)
	case b[0] != messageVersion:
		return nil, nil, fmt.Errorf("%w: version %d, this program speaks %d", ErrNewer, b[0], messageVersion)
	case len(b) < least:
		return nil, nil, fmt.Errorf("%w: %d bytes, want %d to %d", errMessage, len(b), least, MaxMessage)
	}
	e := &Envelope{Kind: Kind(b[1]), From: Hint(b[2:fixed])}
	r := &reader{b: b[fixed:]}
	e.claim = r.bytes(r.uvarint())
	if len(r.b) < ed25519.SignatureSize { // or the claim has no end
		return nil, nil, fmt.Errorf("%w: claim and %d bytes in a message of %d", errMessage, len(r.b), len(b))
	}
	end := len(b) - len(r.b)
	e.head = b[:end:end]
	return e, r.b, nil
}

// SignedBy reports whether the holder of the key signed the message.
func (e *Envelope) SignedBy(key Public) bool {
	text := make([]byte, 0, len(signatureText)+len(e.head)+len(e.sum))
	text = append(text, signatureText...)
	text = append(text, e.head...)
	text = append(text, e.sum[:]...)
	return ed25519.Verify(key[:], text, e.signature)
}

// Statement returns the message without its data, in a form that can still be verified.
func (e *Envelope) Statement() []byte {
	b := make([]byte, 0, len(e.head)+len(e.sum)+len(e.signature))
	b = append(b, e.head...)
	b = append(b, e.sum[:]...)
	return append(b, e.signature...)
}
