package mesh

import (
	"crypto/ed25519"
	"crypto/sha512"
	"encoding/binary"
	"fmt"
)

// An envelope is a message whose claim has not been parsed, or a statement.
type envelope struct {
	kind      kind
	from      hint
	head      []byte // everything up to the end of the claim
	claim     []byte
	data      []byte // nil in a statement
	sum       [sha512.Size256]byte
	signature []byte
}

func dataSum(data []byte) [sha512.Size256]byte { return sha512.Sum512_256(data) }

// openEnvelope finds the parts of a message. Its error wraps errMessage or errNewer.
func openEnvelope(b []byte) (*envelope, error) {
	e, rest, err := openClaim(b)
	if err != nil {
		return nil, err
	}
	e.data, e.signature = rest[:len(rest)-ed25519.SignatureSize], rest[len(rest)-ed25519.SignatureSize:]
	e.sum = dataSum(e.data)
	return e, nil
}

// openStatement finds the parts of a statement, as written by [envelope.statement].
func openStatement(b []byte) (*envelope, error) {
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
func openClaim(b []byte) (*envelope, []byte, error) {
	const fixed = 2 + len(hint{})
	const least = fixed + 1 + 4 + ed25519.SignatureSize
	switch {
	case len(b) < 2 || len(b) > maxMessage:
		return nil, nil, fmt.Errorf("%w: %d bytes, want %d to %d", errMessage, len(b), least, maxMessage)
	case b[0] != messageVersion:
		return nil, nil, fmt.Errorf("%w: version %d, this program speaks %d", errNewer, b[0], messageVersion)
	case len(b) < least:
		return nil, nil, fmt.Errorf("%w: %d bytes, want %d to %d", errMessage, len(b), least, maxMessage)
	}
	e := &envelope{kind: kind(b[1]), from: hint(b[2:fixed])}
	size, n := binary.Uvarint(b[fixed:])
	if n <= 0 || size > uint64(len(b)-fixed-n) || uint64(len(b)-fixed-n)-size < ed25519.SignatureSize {
		return nil, nil, fmt.Errorf("%w: claim of %d bytes in a message of %d", errMessage, size, len(b))
	}
	end := fixed + n + int(size)
	e.head, e.claim = b[:end:end], b[fixed+n:end:end]
	return e, b[end:], nil
}

// signedBy reports whether the holder of the key signed the message.
func (e *envelope) signedBy(key *public) bool {
	text := make([]byte, 0, len(signatureText)+len(e.head)+len(e.sum))
	text = append(text, signatureText...)
	text = append(text, e.head...)
	text = append(text, e.sum[:]...)
	return ed25519.Verify(key[:], text, e.signature)
}

// statement returns the message without its data, in a form that can still be verified.
func (e *envelope) statement() []byte {
	b := make([]byte, 0, len(e.head)+len(e.sum)+len(e.signature))
	b = append(b, e.head...)
	b = append(b, e.sum[:]...)
	return append(b, e.signature...)
}
