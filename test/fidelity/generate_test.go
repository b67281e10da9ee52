package fidelity

import (
	"bytes"
	"crypto/sha256"
	"testing"
)

// TestMailIsTheSame: a seed gives the same mails each time, and another seed others.
func TestMailIsTheSame(t *testing.T) {
	seen := make(map[[32]byte]bool)
	for n := range uint64(500) {
		raw := Mail(1, n)
		if !bytes.Equal(raw, Mail(1, n)) {
			t.Fatalf("mail %d is not the same twice", n)
		}
		if bytes.Equal(raw, Mail(2, n)) {
			t.Errorf("mail %d does not depend on the seed", n)
		}
		seen[sha256.Sum256(raw)] = true
	}
	if len(seen) < 495 {
		t.Errorf("%d different mails of 500", len(seen))
	}
}

// TestMailIsHard: the mails hold what readers disagree about.
func TestMailIsHard(t *testing.T) {
	const mails = 2000
	got := make(map[string]int)
	least := map[string]int{
		"multipart/alternative": 300, "multipart/mixed": 150, "message/rfc822": 15, "base64": 400, "quoted-printable": 400,
		"charset=gb": 10, "charset=koi8": 10,
		"charset=iso-2022-jp": 5, "alt=\"": 50, "color:#ffffff": 50, "display:none": 20, "format=flowed": 200, "\r\n": 50,
		"\x00": 3, "<!--": 100, "&nbsp;": 100,
	}
	for n := range uint64(mails) {
		raw := Mail(3, n)
		for what := range least {
			if bytes.Contains(raw, []byte(what)) {
				got[what]++
			}
		}
	}
	for what, want := range least {
		if got[what] < want {
			t.Errorf("%d of %d mails have %q, want %d at least", got[what], mails, what, want)
		}
	}
}
