package trust

import (
	"bytes"
	"encoding/base64"
	"strings"
	"testing"
)

// TestTokens checks that a token has 256 bits and never repeats, and that its hash is the one that
// an account keeps.
func TestTokens(t *testing.T) {
	seen := make(map[string]bool)
	for range 100 {
		token, hash := NewToken()
		body, ok := strings.CutPrefix(token, "bh_")
		raw, err := base64.RawURLEncoding.DecodeString(body)
		if !ok || err != nil || len(raw) != 32 || bytes.Equal(raw, make([]byte, 32)) || seen[token] {
			t.Fatalf("token %q: %d bytes, %v", token, len(raw), err)
		}
		seen[token] = true
		if !bytes.Equal(hash, HashToken(token)) || len(hash) != tokenHashSize || bytes.Equal(hash, HashToken(body)) {
			t.Fatalf("token %q has hash %x", token, hash)
		}
	}
}

// TestSealedTwice checks that equal secrets look different when sealed, and that each opens,
// including with a sealer made later from the same key.
func TestSealedTwice(t *testing.T) {
	key := [32]byte{7, 31: 9}
	var boxes [][]byte
	for _, secret := range []string{"", "s", "secret", "secret", strings.Repeat("x", 5000)} {
		box, err := NewSealer(key).Seal("alice", "razor", []byte(secret))
		if err != nil {
			t.Fatal(err)
		}
		for _, other := range boxes {
			if bytes.Equal(box[:24], other[:24]) || bytes.Equal(box[24:], other[24:]) {
				t.Errorf("%q: sealed as another was", secret)
			}
		}
		boxes = append(boxes, box)
		if got, err := NewSealer(key).Open("alice", "razor", box); err != nil || string(got) != secret {
			t.Errorf("%q opens as %q, %v", secret, got, err)
		}
	}
}

// TestSealedDamage checks that a sealed secret that was cut, extended or changed in any way does
// not open.
func TestSealedDamage(t *testing.T) {
	s := NewSealer([32]byte{1})
	box, err := s.Seal("alice", "razor", []byte("secret"))
	if err != nil {
		t.Fatal(err)
	}
	try := func(what string, at int, b []byte) {
		if got, err := s.Open("alice", "razor", b); err == nil || got != nil {
			t.Errorf("%s %d: opened as %q, %v", what, at, got, err)
		}
	}
	for i := range box {
		try("cut at", i, box[:i])
		flipped := bytes.Clone(box)
		flipped[i] ^= 0x80
		try("flipped at", i, flipped)
	}
	try("longer by", 1, append(bytes.Clone(box), 0))
}
