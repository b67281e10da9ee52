package fuzzy

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"sync"

	"golang.org/x/crypto/chacha20"
	"golang.org/x/crypto/curve25519"
	//lint:ignore SA1019 the protocol uses a bare Poly1305 over XChaCha20, which no AEAD of the library offers
	"golang.org/x/crypto/poly1305"

	"github.com/bulkhead-mail/bulkhead"
)

// Layout of an encrypted datagram, docs/specs/rspamd-fuzzy.md#encryption.
const (
	magic         = "rsfe"
	keyIDSize     = 8
	nonceSize     = chacha20.NonceSizeX
	macSize       = poly1305.TagSize
	offKeyID      = len(magic)
	offPublic     = offKeyID + keyIDSize
	offNonce      = offPublic + 32
	offMAC        = offNonce + nonceSize
	cryptHeader   = offMAC + macSize // 84
	replyOverhead = nonceSize + macSize
)

// isEncrypted reports whether a datagram is an encrypted request.
func isEncrypted(data []byte) bool {
	return len(data) >= cryptHeader+commandSize && string(data[:len(magic)]) == magic
}

// A sharedKey is derived by both sides of a pair of keys, and called nm in
// docs/specs/rspamd-fuzzy.md#encryption.
type sharedKey [32]byte

// deriveShared computes the shared key of our secret and the other side's
// public key. A public key of low order is refused.
func deriveShared(secret, public *[32]byte) (*sharedKey, error) {
	s, err := curve25519.X25519(secret[:], public[:])
	if err != nil {
		return nil, fmt.Errorf("fuzzy: %w: public key: %v", bulkhead.ErrMalformed, err)
	}
	nm, err := chacha20.HChaCha20(s, make([]byte, 16))
	if err != nil {
		return nil, fmt.Errorf("fuzzy: shared key: %w", err)
	}
	return (*sharedKey)(nm), nil
}

// cipher returns the key stream for one message, past its first block, and the
// Poly1305 key, which is the first half of that block.
func (k *sharedKey) cipher(nonce []byte) (*chacha20.Cipher, *[32]byte, error) {
	c, err := chacha20.NewUnauthenticatedCipher(k[:], nonce)
	if err != nil {
		return nil, nil, fmt.Errorf("fuzzy: key stream: %w", err)
	}
	var block [64]byte
	c.XORKeyStream(block[:], block[:])
	return c, (*[32]byte)(block[:32]), nil
}

// seal appends nonce, MAC and ciphertext of plain to dst. The nonce must be
// fresh.
func (k *sharedKey) seal(dst, nonce, plain []byte) ([]byte, error) {
	c, polyKey, err := k.cipher(nonce)
	if err != nil {
		return dst, err
	}
	dst = append(dst, nonce...)
	at := len(dst)
	dst = append(dst, make([]byte, macSize)...)
	dst = append(dst, plain...)
	text := dst[at+macSize:]
	c.XORKeyStream(text, text)
	var mac [macSize]byte
	poly1305.Sum(&mac, text, polyKey)
	copy(dst[at:], mac[:])
	return dst, nil
}

// open decrypts text in place and returns it, or an error that wraps
// bulkhead.ErrUnauthorised if the MAC is wrong.
func (k *sharedKey) open(nonce, mac, text []byte) ([]byte, error) {
	c, polyKey, err := k.cipher(nonce)
	if err != nil {
		return nil, err
	}
	if !poly1305.Verify((*[macSize]byte)(mac), text, polyKey) {
		return nil, fmt.Errorf("fuzzy: %w: the message authentication code is wrong", bulkhead.ErrUnauthorised)
	}
	c.XORKeyStream(text, text)
	return text, nil
}

// sealRequest appends the encrypted form of a plain request to dst.
func sealRequest(dst []byte, serverPublic, clientPublic *[32]byte, k *sharedKey, plain []byte) ([]byte, error) {
	dst = append(dst, magic...)
	dst = append(dst, serverPublic[:keyIDSize]...)
	dst = append(dst, clientPublic[:]...)
	var nonce [nonceSize]byte
	rand.Read(nonce[:])
	return k.seal(dst, nonce[:], plain)
}

// openReply returns the plain form of an encrypted reply, decrypted in place.
func (k *sharedKey) openReply(data []byte) ([]byte, error) {
	if len(data) < replyOverhead {
		return nil, fmt.Errorf("%w: encrypted reply of %d bytes", errShort, len(data))
	}
	return k.open(data[:nonceSize], data[nonceSize:replyOverhead], data[replyOverhead:])
}

// A sharedKeys caches shared keys, each of which costs an X25519 multiplication. It
// holds up to twice its size in two halves: when the newer half is full, the older is
// dropped. It may be used concurrently.
type sharedKeys struct {
	size int

	mu       sync.RWMutex
	new, old map[sharedID]*sharedKey
}

type sharedID struct{ server, client [32]byte }

func newSharedKeys(size int) *sharedKeys {
	return &sharedKeys{size: size, new: make(map[sharedID]*sharedKey)}
}

func (s *sharedKeys) get(id *sharedID) *sharedKey {
	s.mu.RLock()
	k, ok := s.new[*id]
	if !ok {
		k = s.old[*id]
	}
	s.mu.RUnlock()
	if !ok && k != nil {
		s.put(id, k)
	}
	return k
}

func (s *sharedKeys) put(id *sharedID, k *sharedKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.new) >= s.size {
		s.old, s.new = s.new, make(map[sharedID]*sharedKey)
	}
	s.new[*id] = k
}

// keyIDOf returns the first bytes of the server key that an encrypted request
// names.
func keyIDOf(data []byte) []byte { return data[offKeyID:offPublic] }

func sameKeyID(public *[32]byte, id []byte) bool { return bytes.Equal(public[:keyIDSize], id) }
