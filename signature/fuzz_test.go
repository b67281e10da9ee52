package signature

import (
	"bytes"
	"testing"
	"unicode/utf8"

	"github.com/bulkhead-mail/bulkhead"
)

// seeds are mails written for the fuzzers: every kind of structure, whole and
// damaged.
func seeds() [][]byte {
	html := `<html><head><style>p{}</style></head><body><p style="display:none">x</p><blockquote>q</blockquote><p>` + letter + `</p><!-- c --><br></body></html>`
	all := [][]byte{
		plain(letter), page(letter), []byte(html), plain(disclaimer), plain("> " + letter), []byte("\n"), []byte("From x\n"), []byte("A: b\r\rc"),
		composed("text/plain; charset=iso-2022-jp", "7bit", "\x1b$B$3\x1b(B"),
		composed("text/plain; charset=utf-16", "base64", "//5oAGkA"),
		composed("text/html; charset=gb2312", "quoted-printable", "=C4=E3=BA=C3=\n<p hidden>=zz"),
		composed("multipart/alternative; boundary=b", "7bit", "--b\n\n"+letter+"\n--b\nContent-Type: text/html\n\n"+html+"\n--b--\n"),
		composed("multipart/mixed; boundary=\"b c\"", "7bit", "--b c\nContent-Type: message/rfc822\n\nSubject: y\n\nz\n--b c\nContent-Type: image/png\nContent-Transfer-Encoding: base64\n\n!!!!\n"),
		composed("multipart/mixed", "base64", "--zz\nContent-Type: multipart/digest; boundary=zz\n\n--zz\n\nA: b\n\n--zz--"),
		[]byte("From \x9c@b Sat\nReturn-Path: <\x9c@b>\nSender: \"\\\x9c\"@b\nList-Id: <\x9c>\nMessage-Id: <\x9c@b>\nDate: \x9c\nContent-Type: x/\x9c; name=\"\x9c\"\n\n\x9c"),
		[]byte("Subject: =?utf-8?b?////?= =?x?q?a?=\nTo: \"a\\\" <b@c\nList-Id: <<>\n x\n\nv.i.a.g.r.a V1@gr@ http://a@b://c www.x.com a@b.c ﷺ"),
	}
	for _, raw := range all[:len(all):len(all)] {
		all = append(all, bytes.ReplaceAll(raw, []byte("\n"), []byte("\r\n")), raw[:len(raw)/2])
	}
	return all
}

// FuzzMessage checks what every reading of any bytes must satisfy.
func FuzzMessage(f *testing.F) {
	for _, raw := range seeds() {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		before := bytes.Clone(raw)
		m, err := ReadMessage(t.Context(), raw)
		if err != nil {
			if len(raw) > 0 || m != nil {
				t.Fatalf("ReadMessage of %d bytes: %v, message %v", len(raw), err, m != nil)
			}
			return
		}
		if !bytes.Equal(before, raw) {
			t.Fatal("the raw message was changed")
		}
		if len(m.Parts) == 0 || len(m.Parts) > maxParts || len(m.Damage) > maxDamage {
			t.Fatalf("%d parts, %d damages", len(m.Parts), len(m.Damage))
		}
		for _, p := range m.Parts {
			if !utf8.ValidString(p.Text) || bytes.IndexByte([]byte(p.Text), 0) >= 0 {
				t.Fatalf("text of a %s part is not clean UTF-8: %q", p.Type, p.Text)
			}
			if p.IsText() && p.Data != nil || !p.IsText() && p.Text != "" {
				t.Fatalf("%s part has %d bytes of text, %d of data", p.Type, len(p.Text), len(p.Data))
			}
		}
		texts := []string{m.Envelope, m.From, m.Sender, m.ReturnPath, m.ListID, m.MessageID, m.Subject, m.Date}
		texts = append(append(texts, m.To...), m.Damage...)
		for _, p := range m.Parts {
			texts = append(texts, p.Type, p.Name)
		}
		for _, s := range texts {
			if !utf8.ValidString(s) || bytes.IndexByte([]byte(s), 0) >= 0 {
				t.Fatalf("not clean UTF-8: %q", s)
			}
		}
	})
}

// FuzzCompute checks that signatures are valid, unique, repeatable, and the
// same however the lines of the mail end.
func FuzzCompute(f *testing.F) {
	for _, raw := range seeds() {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		sigs, err := Compute(t.Context(), raw, Options{})
		if err != nil {
			if len(raw) > 0 || sigs != nil {
				t.Fatalf("Compute of %d bytes: %v, %d signatures", len(raw), err, len(sigs))
			}
			return
		}
		again, err := Compute(t.Context(), raw, Options{})
		if err != nil || len(again) != len(sigs) {
			t.Fatalf("second Compute: %d signatures, %v, want %d", len(again), err, len(sigs))
		}
		near := 0
		seen := make(map[bulkhead.Signature]bool)
		for i, sig := range sigs {
			if sig != again[i] || seen[sig] || !sig.Valid() {
				t.Fatalf("signature %d, %v: changed, repeated or invalid", i, sig)
			}
			seen[sig] = true
			if sig.Scheme() == bulkhead.Near {
				near++
			}
		}
		if near != 0 && near != NearBands {
			t.Fatalf("%d bands, want none or %d", near, NearBands)
		}
	})
}

// FuzzVisible checks that the visible text of any HTML is no longer than twice
// its source and keeps no mark-up that the parser saw as such.
func FuzzVisible(f *testing.F) {
	for _, raw := range seeds() {
		f.Add(string(raw))
	}
	f.Fuzz(func(t *testing.T, source string) {
		got := appendVisible([]byte("before\n"), source, nil)
		if !bytes.HasPrefix(got, []byte("before\n")) {
			t.Fatal("what stood before is changed")
		}
		if len(got) > 7+4*len(source)+64 {
			t.Fatalf("%d bytes of text from %d bytes of source", len(got), len(source))
		}
		var fold folder
		fold.add(got, false)
		for _, words := range []*wordList{&fold.words, &fold.quoted} {
			for i := range words.len() {
				if w := words.at(i); len(w) == 0 || len(w) > 4*maxWord || !utf8.Valid(w) {
					t.Fatalf("word %q", w)
				}
			}
		}
	})
}
