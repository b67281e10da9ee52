package trust

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/crypto/chacha20poly1305"

	"github.com/bulkhead-mail/bulkhead"
)

const tokenHashSize = sha256.Size

// NewToken returns a fresh bearer token of 256 random bits, and the hash of it that an account
// keeps. The token itself is shown once and never stored.
func NewToken() (token string, hash []byte) {
	var raw [32]byte
	rand.Read(raw[:]) // never fails: crypto/rand ends the process instead
	token = "bh_" + base64.RawURLEncoding.EncodeToString(raw[:])
	return token, HashToken(token)
}

// CheckToken returns an error if text cannot be a token that [NewToken] made.
func CheckToken(text string) error {
	digits, ok := strings.CutPrefix(text, "bh_")
	raw, err := base64.RawURLEncoding.Strict().DecodeString(digits)
	if !ok || err != nil || len(raw) != 32 {
		return fmt.Errorf("%w: not a token", bulkhead.ErrMalformed)
	}
	return nil
}

// HashToken returns the hash of a token that an account keeps. Tokens carry 256 random bits, so a
// plain SHA-256 is enough: they cannot be guessed.
func HashToken(token string) []byte {
	h := sha256.Sum256([]byte(token))
	return h[:]
}

// A Sealer encrypts the secrets that a protocol's handshake needs in the clear, so that a copy of
// the data directory without the node's key file discloses none of them. It uses
// XChaCha20-Poly1305, with each secret bound to its account and protocol. Its methods may be called
// concurrently.
type Sealer struct {
	key [chacha20poly1305.KeySize]byte
}

// NewSealer returns a Sealer with the given key of 32 bytes.
func NewSealer(key [32]byte) *Sealer { return &Sealer{key: key} }

// Seal encrypts secret for the given account and protocol.
func (s *Sealer) Seal(account, protocol string, secret []byte) ([]byte, error) {
	aead, err := chacha20poly1305.NewX(s.key[:])
	if err != nil {
		return nil, fmt.Errorf("trust: seal: %w", err)
	}
	nonce := make([]byte, aead.NonceSize(), aead.NonceSize()+len(secret)+aead.Overhead())
	rand.Read(nonce)
	return aead.Seal(nonce, nonce, secret, additional(account, protocol)), nil
}

// errUnseal gives no reason, so that an attacker who tampers with secrets learns nothing.
var errUnseal = errors.New("trust: secret cannot be decrypted: wrong key file, or the secret was changed or moved")

// Open decrypts what Seal returned for the same account and protocol.
func (s *Sealer) Open(account, protocol string, sealed []byte) ([]byte, error) {
	aead, err := chacha20poly1305.NewX(s.key[:])
	if err != nil {
		return nil, fmt.Errorf("trust: open: %w", err)
	}
	if len(sealed) < aead.NonceSize() {
		return nil, errUnseal
	}
	nonce, box := sealed[:aead.NonceSize()], sealed[aead.NonceSize():]
	secret, err := aead.Open(nil, nonce, box, additional(account, protocol))
	if err != nil {
		return nil, errUnseal
	}
	return secret, nil
}

func additional(account, protocol string) []byte {
	return []byte(protocol + "\x00" + account)
}
