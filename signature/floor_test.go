package signature

import (
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/testing/mailtest"
	"github.com/bulkhead-mail/bulkhead/signature/mail"
)

// TestAboveFloor: of a note that many people write nothing but names is left, of a
// letter and of a note with a picture everything.
func TestAboveFloor(t *testing.T) {
	for name, tt := range map[string]struct {
		raw  []byte
		all  bool // nothing is left out
		left bulkhead.Scheme
	}{
		"letter":           {mailtest.Plain(mailtest.Letter), true, bulkhead.PyzorDigest},
		"note":             {[]byte("From: Ann Example <ann@example.com>\n\nThanks, I got it.\n"), false, bulkhead.Claim},
		"note with a link": {[]byte("From: ann@example.com\n\nThanks, I got it: http://example.org/a\n"), false, bulkhead.Link},
		"note with a picture": {[]byte("From: Ann Example <ann@example.com>\nContent-Type: multipart/mixed; boundary=b\n\n" +
			"--b\n\nThanks, I got it.\n--b\nContent-Type: image/png\n\npicture\n--b--\n"), true, bulkhead.PyzorDigest},
	} {
		m, err := mail.Read(t.Context(), tt.raw)
		if err != nil {
			t.Fatal(err)
		}
		all, err := Of(t.Context(), m, Options{})
		if err != nil {
			t.Fatal(err)
		}
		text, left := 0, false
		n := len(all)
		above := AboveFloor(m, all)
		for i := range above {
			if above[i].Scheme().Facet() == bulkhead.TextFacet {
				text++
			}
			left = left || above[i].Scheme() == tt.left
		}
		if (len(above) == n) != tt.all || !tt.all && text > 0 || !left {
			t.Errorf("%s: %d of %d signatures, %d of the text, %v among them: %v", name, len(above), n, text, tt.left, left)
		}
	}
}
