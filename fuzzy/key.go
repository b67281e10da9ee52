package fuzzy

import (
	"crypto/rand"
	"fmt"
	"io"
	"strings"

	"golang.org/x/crypto/blake2b"
	"golang.org/x/crypto/curve25519"

	"github.com/bulkhead-mail/bulkhead"
)

// A KeyPair is an X25519 key pair. Clients need the public half.
type KeyPair struct {
	Secret [32]byte
	Public [32]byte
}

// NewKeyPair makes a key pair from random; nil means crypto/rand.
func NewKeyPair(random io.Reader) (KeyPair, error) {
	if random == nil {
		random = rand.Reader
	}
	var secret [32]byte
	if _, err := io.ReadFull(random, secret[:]); err != nil {
		return KeyPair{}, fmt.Errorf("fuzzy: random secret: %w", err)
	}
	return keyPairOf(secret)
}

// ParseSecret returns the key pair of a secret in the 52 characters that rspamd
// writes. Its error wraps bulkhead.ErrMalformed and does not reveal the secret.
func ParseSecret(text string) (KeyPair, error) {
	secret, err := ParsePublic(text)
	if err != nil {
		return KeyPair{}, fmt.Errorf("fuzzy: %w: a secret is 52 characters of rspamd's base32", bulkhead.ErrMalformed)
	}
	return keyPairOf(secret)
}

func keyPairOf(secret [32]byte) (KeyPair, error) {
	public, err := curve25519.X25519(secret[:], curve25519.Basepoint)
	if err != nil {
		return KeyPair{}, fmt.Errorf("fuzzy: public key: %w", err)
	}
	return KeyPair{Secret: secret, Public: [32]byte(public)}, nil
}

// ID returns the id that rspamd prints for the pair.
func (k *KeyPair) ID() string {
	sum := blake2b.Sum512(k.Public[:])
	return EncodeBase32(sum[:])
}

// ParsePublic reads a public key in the 52 characters that rspamd writes. Its
// error wraps bulkhead.ErrMalformed.
func ParsePublic(text string) (key [32]byte, err error) {
	b, err := DecodeBase32(text)
	if err != nil {
		return key, err
	}
	if len(b) != len(key) {
		return key, fmt.Errorf("fuzzy: %w: key of %d bytes, want %d", bulkhead.ErrMalformed, len(b), len(key))
	}
	return [32]byte(b), nil
}

const base32Alphabet = "ybndrfg8ejkmcpqxot1uwisza345h769"

// EncodeBase32 writes b as rspamd writes keys: like z-base-32, but bits are
// taken least significant first.
//
// Source: docs/specs/rspamd-fuzzy.md#encryption.
func EncodeBase32(b []byte) string {
	var out strings.Builder
	acc, held := uint32(0), 0
	for _, c := range b {
		acc |= uint32(c) << held
		for held += 8; held >= 5; held -= 5 {
			out.WriteByte(base32Alphabet[acc&31])
			acc >>= 5
		}
	}
	if held > 0 {
		out.WriteByte(base32Alphabet[acc&31])
	}
	return out.String()
}

// DecodeBase32 reads what [EncodeBase32] writes, in either case. Its error
// wraps bulkhead.ErrMalformed. Text is at most 1024 characters long.
func DecodeBase32(text string) ([]byte, error) {
	const maxText = 1024
	if len(text) > maxText {
		return nil, fmt.Errorf("fuzzy: %w: base32 text of %d characters, limit %d", bulkhead.ErrMalformed, len(text), maxText)
	}
	out := make([]byte, 0, len(text)*5/8)
	acc, held := uint32(0), 0
	for i := range len(text) {
		c := text[i]
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		v := strings.IndexByte(base32Alphabet, c)
		if v < 0 {
			return nil, fmt.Errorf("fuzzy: %w: %q at %d is not a character of rspamd's base32", bulkhead.ErrMalformed, text[i],
				i)
		}
		acc |= uint32(v) << held
		if held += 5; held >= 8 {
			out = append(out, byte(acc))
			acc >>= 8
			held -= 8
		}
	}
	if held >= 5 || acc != 0 {
		return nil, fmt.Errorf("fuzzy: %w: base32 text of %d characters ends inside a byte", bulkhead.ErrMalformed, len(text))
	}
	return out, nil
}
