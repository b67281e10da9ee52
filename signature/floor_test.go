package signature

import (
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/testing/mailtest"
)

// TestAboveFloor checks that a note that many people write keeps the signatures of names and files
// alone, and that a letter keeps all signatures.
func TestAboveFloor(t *testing.T) {
	note := "From: Ann Example <ann@example.com>\nContent-Type: multipart/mixed; boundary=b\n\n--b\n\nThanks, I got it.\n"
	for name, tt := range map[string]struct {
		raw  []byte
		all  bool // nothing is left out
		text int  // signatures of the text that are left, if something is left out
		left bulkhead.Scheme
	}{
		"letter": {mailtest.Plain(mailtest.Letter), true, 0, bulkhead.PyzorDigest},
		"note": {[]byte("From: Ann Example <ann@example.com>\n\nThanks, I got it.\n"), false, 0,
			bulkhead.Claim},
		"note with a link": {[]byte("From: ann@example.com\n\nThanks, I got it: http://example.org/a\n"), false,
			1, bulkhead.DCCBody},
		"note of a telephone": {[]byte("From: ann@example.com\n\nGet Outlook for Android http://aka.example.org/a\n"), false,
			0, bulkhead.Link},
		"note with a thumbnail": {[]byte(note + "--b\nContent-Type: image/png\n\npicture\n--b--\n"), false, 0,
			bulkhead.Claim},
		"note with a file": {
			[]byte(note + "--b\nContent-Type: application/zip; name=a.zip\n\n" + "PK\x03\x04" +
				strings.Repeat("\x00\x01\xfe\xff", minAttachment) + "--b--\n"),
			false, 1, bulkhead.RspamdText,
		},
		"encrypted": {[]byte("From: Ann Example <ann@example.com>\nContent-Type: multipart/encrypted; boundary=b\n\n" +
			"--b\nContent-Type: application/pgp-encrypted\n\nVersion: 1\n\n--b\nContent-Type: application/octet-stream\n\n" +
			strings.Repeat("9bFlIkpYt5HfavHYMD5hzcS7hsPRxCcQPDRMQYnrLx571dR+RG/OwqPYEXNhEOV4\n", 20) + "--b--\n"), false,
			0, bulkhead.Claim},
	} {
		n := len(mailtest.Must(Compute(t.Context(), tt.raw, Options{})))
		text, left := 0, false
		above := mailtest.Must(Compute(t.Context(), tt.raw, Options{AboveFloor: true}))
		for i := range above {
			if above[i].Scheme().Facet() == bulkhead.TextFacet {
				text++
			}
			left = left || above[i].Scheme() == tt.left
		}
		if (len(above) == n) != tt.all || !tt.all && text != tt.text || !left {
			t.Errorf("%s: %d of %d signatures, %d of the text, %v among them: %v", name, len(above), n, text, tt.left, left)
		}
	}
}
