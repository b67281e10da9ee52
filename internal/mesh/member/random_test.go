package member

import (
	"bytes"
	"crypto/x509"
	"testing"
	"time"

	"golang.org/x/crypto/chacha20poly1305"

	"github.com/bulkhead-mail/bulkhead/filter"
)

// TestRandom checks that keys, secrets, nonces and numbers of certificates differ from one time to the next: one that
// is the same everywhere is known to everybody.
func TestRandom(t *testing.T) {
	now := time.Now()
	for name, draw := range map[string]func() []byte{
		"key": func() []byte { return newIdentityOf(t).key[:] },
		"next key": func() []byte {
			dir := t.TempDir()
			if _, err := OpenIdentity(dir); err != nil {
				t.Fatal(err)
			}
			_, to, err := RotateIdentity(dir)
			if err != nil {
				t.Fatal(err)
			}
			return to.key[:]
		},
		"secret of an invitation": func() []byte {
			s := newInvitationSecret()
			return s[:]
		},
		"secret of the network": randomSecret,
		"nonce": func() []byte {
			return Seal(make([]byte, chacha20poly1305.KeySize), nil, "")[:chacha20poly1305.NonceSizeX]
		},
	} {
		a, b := draw(), draw()
		if bytes.Equal(a, b) || len(a) != len(b) || len(a) < len(filter.Secret{}) {
			t.Errorf("%s: %x, then %x", name, a, b)
		}
	}
	id := newIdentityOf(t)
	serial := func() string {
		c, err := id.Certificate(now)
		if err != nil {
			t.Fatal(err)
		}
		cert, err := x509.ParseCertificate(c.Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		return cert.SerialNumber.String()
	}
	if a, b := serial(), serial(); a == b {
		t.Errorf("two certificates with the number %s", a)
	}
}
