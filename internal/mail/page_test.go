package mail

import (
	"archive/zip"
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/mail/link"
	"github.com/bulkhead-mail/bulkhead/internal/mail/seen"
	"github.com/bulkhead-mail/bulkhead/internal/testing/mailtest"
)

// TestPageBounds checks that only the first links of an excessive number are kept, and that
// another part of the message adds none. Asking twice gives the same page.
func TestPageBounds(t *testing.T) {
	var b strings.Builder
	for i := range 2 * seen.MaxLinks {
		fmt.Fprintf(&b, "<a href=http://a.example/%d>x</a>\n", i)
	}
	part := "--b\nContent-Type: text/html\n\n" + b.String() + strings.Repeat("word ", MaxVisible/5) + "\n"
	m := mailtest.Must(Read(t.Context(), mailtest.Composed("multipart/mixed; boundary=b", "7bit",
		strings.Repeat(part, 6)+"--b--\n")))
	links := 0
	for i := range m.Parts {
		page := mailtest.Must(m.Page(t.Context(), i))
		again := mailtest.Must(m.Page(t.Context(), i))
		if string(page.Text) != string(again.Text) || len(page.Links) != len(again.Links) ||
			len(page.Anchors) != len(again.Anchors) || len(page.Text) < MaxVisible {
			t.Errorf("part %d: %d bytes and %d links, then %d and %d", i, len(page.Text), len(page.Links),
				len(again.Text), len(again.Links))
		}
		links += len(page.Links)
	}
	if links != seen.MaxLinks {
		t.Errorf("%d links, want %d", links, seen.MaxLinks)
	}
}

// TestFlowed checks which lines of a text flow together.
func TestFlowed(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"You have wo \nn a pri \n ze\n", "You have won a prize\n"},
		{"One  \r\nmore\r\nline \r\n", "One more\r\nline"},
		{"> quo \n> ted\n>> other \n> depth\n", "> quoted\n>> other\n> depth\n"},
		{"above \n-- \nAnn\n", "above\n-- \nAnn\n"},
		{"begin the pri \n ze\n", "begin the prize\n"},
		{" \n \n\n", "\n\n"},
		{"", ""},
	} {
		for params, want := range map[string]string{"delsp=YES": tt.want, "delsp=no": tt.text} {
			m := mailtest.Must(Read(t.Context(), mailtest.Composed("text/plain; charset=utf-8; format=flowed; "+params, "7bit",
				tt.text)))
			if got := mailtest.Must(m.Page(t.Context(), 0)); string(got.Text) != want {
				t.Errorf("%q, %s: %q, want %q", tt.text, params, got.Text, want)
			}
		}
	}
}

// TestEnriched checks that the commands of enriched texts are left out, with what they hide.
func TestEnriched(t *testing.T) {
	for text, want := range map[string]string{
		"<bold>You have wo</bold>n": "You have won", "a <color><param>red</param>prize</color>": "a prize",
		"1 << 2": "1 < 2", "a<nl>b<lt>": "a\nb<", "<comment>x<comment>y</comment>z</comment>a": "a", "a<b": "a",
		"</param>a": "a", "": "",
	} {
		for _, kind := range []string{"text/enriched", "text/richtext"} {
			m := mailtest.Must(Read(t.Context(), mailtest.Composed(kind, "7bit", text)))
			if got := mailtest.Must(m.Visible(t.Context(), 0)); string(got) != want {
				t.Errorf("%q: %q, want %q", text, got, want)
			}
		}
	}
}

// FuzzEnriched checks that nothing is shown that an enriched text does not hold.
func FuzzEnriched(f *testing.F) {
	for _, text := range []string{"<bold>a</bold>", "<param>a</param>b", "<<a<nl>", "<comment>", "a<", "<>"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if got := unenriched(text); len(got) > len(text) {
			t.Errorf("%q of %q", got, text)
		}
	})
}

// TestForms checks which texts and links are found in forms in which senders write them.
func TestForms(t *testing.T) {
	const url = "http://a.example/"
	file := func(fields, data string) []byte {
		return mailtest.Composed("multipart/mixed; boundary=b", "7bit", "--b\n\nsee\n--b\n"+fields+"\n\n"+data+"\n--b--\n")
	}
	var archive bytes.Buffer
	w := zip.NewWriter(&archive)
	_, _ = mailtest.Must(w.Create("x.eml")).Write([]byte("From: a@b.example\nSubject: x\n\nPay now " + url + "\n"))
	_ = w.Close()
	const page = "<p>Pay<!-- x --> now <a href=" + url + ">x</a>"
	for name, raw := range map[string][]byte{
		"RTF": mailtest.Composed("text/rtf", "7bit", `{\rtf1 Pay {\v x}now {\*\fldinst "`+url+`"}}`),
		"external": file("Content-Type: message/external-body; access-type=URL; URL=\"http://a.ex\n ample/\"",
			"\nPay now"),
		"partial": file("Content-Type: message/partial",
			"From: a@b.example\nTo: c@d.example\nSubject: x\n\nPay now "+url),
		"named page": file("Content-Disposition: attachment; filename=x.html", page),
		"mail in zip": file("Content-Type: application/zip\nContent-Transfer-Encoding: base64",
			base64.StdEncoding.EncodeToString(archive.Bytes())),
		"calendar":      mailtest.Composed("text/calendar", "7bit", "BEGIN:VCALENDAR\nDESCRIPTION:"+page+"<br>"),
		"frame":         mailtest.Composed("text/html", "7bit", `<iframe srcdoc="&lt;p>Pay now `+url+`">`),
		"data":          mailtest.Composed("text/html", "7bit", `<object data="data:text/html,`+page+`">`),
		"picture":       mailtest.Composed("text/html", "7bit", `<img src="data:image/svg+xml,<text>Pay now `+url+`">`),
		"blanks":        mailtest.Composed("text / html", "7bit", page),
		"quoted type":   mailtest.Composed("\"text/html\"", "7bit", page),
		"type and more": mailtest.Composed("(x) text/html, x", "7bit", page),
	} {
		t.Run(name, func(t *testing.T) {
			m := mailtest.Must(Read(t.Context(), raw))
			text, found := "", false
			for _, m := range mailtest.Must(m.WithInside(t.Context())) {
				for i := range m.Parts {
					if m.Parts[i].IsText() {
						text += string(mailtest.Must(m.Visible(t.Context(), i)))
					}
				}
			}
			_ = m.EachLink(t.Context(), func(l link.Link, _ LinkUse) bool {
				found = found || l.Host == "a.example"
				return true
			})
			if !strings.Contains(text, "Pay now") && name != "external" || !found {
				t.Errorf("text %q, link %v", text, found)
			}
		})
	}
	m := mailtest.Must(Read(t.Context(), mailtest.Composed("text/html", "7bit", `<div hidden><iframe srcdoc=a></iframe>`)))
	if all := mailtest.Must(m.WithInside(t.Context())); len(all) != 1 {
		t.Error("a hidden frame is read")
	}
}

// FuzzFlowed checks that a text that flows loses nothing but blanks, line ends and marks of quotations.
func FuzzFlowed(f *testing.F) {
	for _, text := range []string{"one \ntwo\r\n", "> a \n> b\n>> c \nd", " \n-- \n --\n", ">"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		bare := strings.NewReplacer(" ", "", "\r", "", "\n", "", ">", "")
		if got := string(unflowed(text)); bare.Replace(got) != bare.Replace(text) || len(got) > len(text) {
			t.Errorf("%q becomes %q", text, got)
		}
	})
}
