package razor2

import (
	"crypto/rand"
	"crypto/sha1"
	"encoding/hex"
	"fmt"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/digest/razor"
)

// Response returns the answer to a challenge: docs/specs/razor2.md#login. It is not
// HMAC: the pads are swapped, the inner digest is used as hexadecimal text, and a
// password longer than 64 bytes lengthens the pads.
func Response(password, challenge string) string {
	inner := sha1.Sum(append(pad(password, 0x5c), challenge...))
	outer := sha1.Sum(append(pad(password, 0x36), hex.EncodeToString(inner[:])...))
	return razor.TextHex(hex.EncodeToString(outer[:]))
}

func pad(password string, fill byte) []byte {
	p := make([]byte, max(64, len(password)))
	for i := range p {
		if i < 64 {
			p[i] = fill
		}
		if i < len(password) {
			p[i] ^= password[i]
		}
	}
	return p
}

const alphanumerics = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

// randomText returns n random letters and digits.
func randomText(n int) string {
	out := make([]byte, 0, n)
	var buf [64]byte
	for len(out) < n {
		rand.Read(buf[:]) // never fails: crypto/rand ends the process instead
		for _, c := range buf {
			// Values above the largest multiple of 62 would favour some letters.
			if c < 4*62 && len(out) < n {
				out = append(out, alphanumerics[c%62])
			}
		}
	}
	return string(out)
}

const maxCredential = 64 // bytes of a user name or a password

// checkName refuses user names that the client cannot keep: docs/specs/razor2.md#register.
func checkName(name string) error {
	for i := range len(name) {
		if name[i] == '/' {
			return fmt.Errorf("%w: user name contains a slash", bulkhead.ErrMalformed)
		}
	}
	return checkCredential("user name", name)
}

func checkCredential(what, s string) error {
	if len(s) == 0 || len(s) > maxCredential {
		return fmt.Errorf("%w: %s of %d bytes, want 1 to %d", bulkhead.ErrMalformed, what, len(s), maxCredential)
	}
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' || s[i] == ',' {
			return fmt.Errorf("%w: %s contains byte %#02x", bulkhead.ErrMalformed, what, s[i])
		}
	}
	if s[0] == ' ' || s[len(s)-1] == ' ' {
		return fmt.Errorf("%w: %s begins or ends with a blank", bulkhead.ErrMalformed, what)
	}
	return nil
}
