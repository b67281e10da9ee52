package node

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/testing/matrix"
)

// encrypted returns a PGP/MIME mail of a person. Its one readable line is common to all such mail.
func encrypted(person int) []byte {
	return fmt.Appendf(nil, "From: user%d@org%d.example\nSubject: ...\nMIME-Version: 1.0\n"+
		"Content-Type: multipart/encrypted; boundary=b\n\n--b\nContent-Type: application/pgp-encrypted\n\nVersion: 1\n\n"+
		"--b\nContent-Type: application/octet-stream; name=encrypted.asc\n\n-----BEGIN PGP MESSAGE-----\n\n"+
		"%s-----END PGP MESSAGE-----\n\n--b--\n",
		person, person, strings.Repeat(fmt.Sprintf("%064x\n", person*7919), 15))
}

// TestShortTextListsNothing checks that a report of one whole mail does not list the content that
// all mail of its kind has in common, and that the report is refused.
func TestShortTextListsNothing(t *testing.T) {
	m := newMatrix(t)
	if err := m.Doors[0].Report(encrypted(1)); err == nil || !strings.Contains(err.Error(), "422") {
		t.Errorf("a report of encrypted mail: %v, want status 422", err)
	}
	for _, door := range m.Doors {
		for person := 1; person <= 2; person++ {
			if got, err := door.Known(encrypted(person)); got != matrix.Unknown || err != nil {
				t.Errorf("%s, mail %d: %v, %v, want unknown", door.Name, person, got, err)
			}
		}
	}
}
