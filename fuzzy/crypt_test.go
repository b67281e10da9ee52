package fuzzy

import (
	"bytes"
	"encoding/hex"
	"errors"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
)

// The encryption vector of docs/specs/rspamd-fuzzy.md#captured-exchanges, which
// the real storage answered.
const (
	vectorSecret       = "10a5f759324a17bceafa50bbe399b7834a7205a87e03e8c79544564dbb0edc7b"
	vectorSecretText   = "oejx9cjgk4famim9o4q86c6sdw1rznyi65yo6dz1r1i4w74bh66y"
	vectorPublic       = "5d97bb6d9f797dd0d6f7ef3ad4ef51b9012e69a0f636076e34fc62e785475b2d"
	vectorPublicText   = "74fz5s7u3m9ypm96xzqe7z8k3pyh1wbwszpqyztghzaq6n6e5kmy"
	vectorClientSecret = "0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f20"
	vectorClientPublic = "07a37cbc142093c8b755dc1b10e86cb426374ad16aa853ed0bdfc0b2b86d1c7c"
	vectorShared       = "b6b6dd8aaa69a0f0c9b74b56b60210aca0263b56fcf35b29d7a8d03c3f9029c2"
	vectorNonce        = "404142434445464748494a4b4c4d4e4f5051525354555657"
	vectorPlain        = "040000000000000004030201000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1" +
		"e1f202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f"
	vectorCipher = "085bb4f2e72b85c5707956992ef3300f1fb02367da285f36c2659c2a66b15be15055d6b1c78eb04f24b08" +
		"994072040934028dcf0b7aea3018d6e49cfbc9f4ee26c4c8c7a74978592e8c133a6"
	vectorMAC   = "b03472bacfdfca273e07ae35f7c67a9e"
	vectorReply = "ee430db6f875d6673a5edb75bab093b497f0373ffc9452f4a896db6882a3e445080d6979cca9d5a5dd8fc" +
		"8417e0ef3b1246e2280a28025226a7de8b705be7d351da3408256d72723335e55730963b71de0b012741cd8825c70444384dc2462" +
		"9e687301ead232a86de4e3dddeef2c627489a8b9e560c05f3811b92bc3c71d7be5e763b0bc7f665a93"
)

func TestBase32Vectors(t *testing.T) {
	for hexText, text := range map[string]string{vectorSecret: vectorSecretText, vectorPublic: vectorPublicText} {
		if got := EncodeBase32(unhex(t, hexText)); got != text {
			t.Errorf("EncodeBase32(%s) = %s, want %s", hexText, got, text)
		}
		if got, err := DecodeBase32(text); err != nil || hex.EncodeToString(got) != hexText {
			t.Errorf("DecodeBase32(%s) = %x, %v, want %s", text, got, err, hexText)
		}
	}
	k, err := ParseSecret(vectorSecretText)
	if err != nil || hex.EncodeToString(k.Public[:]) != vectorPublic {
		t.Errorf("ParseSecret: public %x, %v, want %s", k.Public, err, vectorPublic)
	}
	if n := len(k.ID()); n != 103 {
		t.Errorf("the id has %d characters, want 103", n)
	}
	for _, bad := range []string{"", "oejx", vectorSecretText + "y", vectorSecretText[:51] + "v", vectorSecretText[:51] +
		"9"} {
		if _, err := ParsePublic(bad); !errors.Is(err, bulkhead.ErrMalformed) {
			t.Errorf("ParsePublic(%q): %v, want one that wraps ErrMalformed", bad, err)
		}
	}
}

func TestEncryptionVector(t *testing.T) {
	server, client := [32]byte(unhex(t, vectorSecret)), [32]byte(unhex(t, vectorClientPublic))
	k, err := deriveShared(&server, &client)
	if err != nil || hex.EncodeToString(k[:]) != vectorShared {
		t.Fatalf("shared key %x, %v, want %s", k, err, vectorShared)
	}
	clientSecret, serverPublic := [32]byte(unhex(t, vectorClientSecret)), [32]byte(unhex(t, vectorPublic))
	if other, err := deriveShared(&clientSecret, &serverPublic); err != nil || *other != *k {
		t.Errorf("the client derives %x, %v", other, err)
	}
	sealed, err := k.seal(nil, unhex(t, vectorNonce), unhex(t, vectorPlain))
	if want := unhex(t, vectorNonce, vectorMAC, vectorCipher); err != nil || !bytes.Equal(sealed, want) {
		t.Errorf("seal = %x, %v, want %x", sealed, err, want)
	}
	plain, err := k.openReply(unhex(t, vectorReply))
	want := unhex(t, "00000000 00000000 04030201 00000000", vectorPlain[24:], "00000000000000000000000000000000")
	if err != nil || !bytes.Equal(plain, want) {
		t.Errorf("openReply = %x, %v, want %x", plain, err, want)
	}
	damaged := unhex(t, vectorReply)
	damaged[60] ^= 1
	if _, err := k.openReply(damaged); !errors.Is(err, bulkhead.ErrUnauthorised) {
		t.Errorf("a damaged reply: %v, want one that wraps ErrUnauthorised", err)
	}
}

func TestLowOrderKeyRefused(t *testing.T) {
	secret := [32]byte(unhex(t, vectorSecret))
	if _, err := deriveShared(&secret, new([32]byte)); !errors.Is(err, bulkhead.ErrMalformed) {
		t.Errorf("the zero public key: %v, want one that wraps ErrMalformed", err)
	}
}

func TestSharedKeysBounded(t *testing.T) {
	cache := newSharedKeys(4)
	for i := range 100 {
		id := sharedID{client: [32]byte{byte(i)}}
		cache.put(&id, &sharedKey{byte(i)})
		if got := cache.get(&id); got == nil || got[0] != byte(i) {
			t.Fatalf("key %d is gone at once", i)
		}
		if n := len(cache.new) + len(cache.old); n > 8 {
			t.Fatalf("%d keys in a cache of 4", n)
		}
	}
}

// FuzzBase32: what decodes encodes to the same text, in lower case.
func FuzzBase32(f *testing.F) {
	f.Add(vectorSecretText)
	f.Add("y")
	f.Fuzz(func(t *testing.T, text string) {
		b, err := DecodeBase32(text)
		if err != nil {
			return
		}
		if again := EncodeBase32(b); again != string(bytes.ToLower([]byte(text))) {
			t.Fatalf("%q decodes to %x, which encodes to %q", text, b, again)
		}
	})
}

// TestNonces checks that no two datagrams under one key have the same nonce: the two would reveal each other.
func TestNonces(t *testing.T) {
	k, s := new(sharedKey), &Server{}
	for name, tt := range map[string]struct {
		seal func() []byte
		at   int
	}{
		"request": {func() []byte {
			b, err := sealRequest(nil, new([32]byte), new([32]byte), k, []byte("request"))
			if err != nil {
				t.Fatal(err)
			}
			return b
		}, len(magic) + keyIDSize + 32},
		"reply": {func() []byte { return s.appendOut(nil, &job{shared: k}) }, 0},
	} {
		a, b := tt.seal(), tt.seal()
		if len(a) != len(b) || len(a) < tt.at+nonceSize || bytes.Equal(a[tt.at:][:nonceSize], b[tt.at:][:nonceSize]) {
			t.Errorf("%s: %x, then %x", name, a, b)
		}
	}
}
