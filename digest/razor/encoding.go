package razor

import (
	"encoding/base64"
	"fmt"
	"math/bits"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/text/scan"
)

// Text returns the bytes of b in the alphabet that Razor writes on the
// wire: two characters for three hexadecimal digits, each digit with its bits
// reversed. Source: docs/specs/razor2.md#encoding.
func Text(b []byte) string { return textDigits(b, 2*len(b)) }

// TextHex is [Text] for hexadecimal digits of any number, as the login
// response needs it. Digits other than 0-9 and a-f count as 0.
func TextHex(digits string) string {
	b := make([]byte, (len(digits)+1)/2)
	for i := range len(digits) {
		v, _ := scan.Hex(digits[i])
		b[i/2] |= v << (4 * (1 - i%2))
	}
	return textDigits(b, len(digits))
}

func textDigits(b []byte, digits int) string {
	padded := make([]byte, (digits+2)/3*3/2+1)
	for i, c := range b {
		padded[i] = reverseNibbles(c)
	}
	text := base64.RawURLEncoding.EncodeToString(padded)
	return text[:(digits+2)/3*2]
}

func reverseNibbles(c byte) byte {
	c = bits.Reverse8(c)
	return c<<4 | c>>4
}

// Parse reads a signature as clients write it. The scheme, E4 or
// E8, determines its length in bytes. The error wraps
// [bulkhead.ErrMalformed] and describes the signatures of that engine;
// no other text stands for the same signature.
func Parse(scheme bulkhead.Scheme, text string) (bulkhead.Signature, error) {
	size := 20
	if scheme == bulkhead.RazorE8 {
		size = 8
	} else if scheme != bulkhead.RazorE4 {
		return bulkhead.Signature{}, fmt.Errorf("%w: %s is not a Razor engine", bulkhead.ErrMalformed, scheme)
	}
	chars := (2*size + 2) / 3 * 2
	if len(text) != chars {
		return bulkhead.Signature{}, fmt.Errorf("%w: %s signature of %d characters, want %d", bulkhead.ErrMalformed,
			scheme, len(text), chars)
	}
	// base64 wants a multiple of four characters; the padding decodes to zero.
	var buf [32]byte
	n, err := base64.URLEncoding.Decode(buf[:], []byte(text+"AAAA"[:(4-chars%4)%4]))
	if err != nil {
		return bulkhead.Signature{}, fmt.Errorf("%w: %s signature: %v", bulkhead.ErrMalformed, scheme, err)
	}
	for i := range buf[:n] {
		buf[i] = reverseNibbles(buf[i])
	}
	sig, err := bulkhead.NewSignature(scheme, buf[:size])
	if err != nil {
		return bulkhead.Signature{}, err
	}
	// Only one of the texts that decode to these bytes is the client's.
	if Text(buf[:size]) != text {
		return bulkhead.Signature{}, fmt.Errorf("%w: %s signature with stray bits at its end", bulkhead.ErrMalformed, scheme)
	}
	return sig, nil
}
