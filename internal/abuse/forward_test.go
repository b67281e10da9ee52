package abuse

import (
	"encoding/base64"
	"os"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/testing/sharedtest"
)

const spamText = "Buy our copper lanterns, made by hand in a family workshop.\r\n\r\nOnly this week."

// forms returns the headers that mail programs write above what they forward, each in its language and
// order, by the names of the programs.
func forms(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("testdata/forms.txt")
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]string)
	for _, section := range strings.Split("\n"+string(text), "\n== ")[1:] {
		name, form, _ := strings.Cut(section, "\n")
		all[name] = strings.TrimSuffix(form, "\n")
	}
	if len(all) < 40 {
		t.Fatalf("%d forms", len(all))
	}
	return all
}

// TestForms checks that each form is recognised in plain text and in a page, below a comment and without
// one, and gives From, Subject and the text.
func TestForms(t *testing.T) {
	check := func(name, mail string) {
		t.Helper()
		r, err := site.Read([]byte(byAnn + "From: ann@example.com\r\n" + mail))
		if err != nil || len(r.Messages) != 1 || !r.Inline {
			t.Errorf("%s: %+v, %v", name, r, err)
			return
		}
		m := string(r.Messages[0])
		head, body, _ := strings.Cut(m, "\r\n\r\n")
		if from, _, _ := strings.Cut(head, "\r\n"); !strings.HasPrefix(from, "From: ") || !strings.Contains(from,
			"s@spam.example") {
			t.Errorf("%s: From is not that of the spam: %q", name, head)
		}
		if !strings.Contains(head, "\r\nSubject: Lanterns\r\n") {
			t.Errorf("%s: the subject is not that of the spam: %q", name, head)
		}
		if got, want := strings.Fields(body), strings.Fields(spamText); strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("%s: text %q", name, body)
		}
	}
	for name, form := range forms(t) {
		form = strings.ReplaceAll(form, "\n", "\r\n")
		if strings.Count(form, "@") == 0 {
			t.Fatalf("%s names no address", name)
		}
		text := spamText
		if strings.Contains(form, "\n> ") {
			text = "> " + strings.ReplaceAll(spamText, "\r\n", "\r\n> ")
		}
		for _, comment := range []string{"", "please block this\r\n\r\n",
			"Hello,\r\n\r\nplease see: spam!\r\n\r\nAnn\r\n\r\n"} {
			const plain = "Content-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: base64\r\n\r\n"
			whole := comment + form + "\r\n\r\n" + text + "\r\n"
			check(name, plain+base64.StdEncoding.EncodeToString([]byte(whole)))
			page := strings.NewReplacer("<", "&lt;", ">", "&gt;", "\r\n", "<br>\r\n").Replace(whole)
			check(name+", page", "Content-Type: text/html; charset=utf-8\r\n\r\n<html><body><div>"+page+"</div></body></html>")
		}
	}
}

// TestNoForms checks that a mail that only looks like a forward is none.
func TestNoForms(t *testing.T) {
	for _, text := range []string{
		"Hello,\n\nmy data:\nName: Ann\nTel: 12 34\nMail: ann@example.com\n\nregards",
		"On Mon, 2 Nov 2026, bob@example.com wrote:\n> one\n> two\n> three\n\nmy answer",
		"See: http://a.example/x\nand: http://b.example\nalso: c\n\nmore",
		"From: s@spam.example\nSubject: two fields without a line before them\n\ntext",
		"-----\nA line, and text below it: nothing else.\n\nmore",
		strings.Repeat("a: b\n\n", 1000),
	} {
		if m := forwarded(text); m != nil {
			t.Errorf("%q is a forward: %q", text, m)
		}
	}
}

// TestNoAddress: a forward by Outlook of a sender in the site's own directory names no address.
func TestNoAddress(t *testing.T) {
	for _, form := range []string{
		"From: Spam Co\nSent: Monday, November 2, 2026 10:00 AM\nTo: Ann\nSubject: Lanterns\n\n",
		"Von: Spam Co\nGesendet: Montag, 2. November 2026 10:00\nAn: Ann\nBetreff: Lanterns\n\n",
	} {
		m := string(forwarded("please look\n\n" + form + spamText))
		if !strings.HasPrefix(m, "From: Spam Co\r\nSubject: Lanterns\r\n") || !strings.Contains(m, "copper lanterns") {
			t.Errorf("%q: %q", form, m)
		}
	}
}

// TestCases checks the forms of forwarding that were once refused.
func TestCases(t *testing.T) {
	site := &Options{Host: "mx.example.org"}
	for _, name := range []string{"owa-plain", "outlook-nosep", "de", "tb-fr", "owa-html", "digest"} {
		r, err := site.Read(sharedtest.Case(t, "12-abuse-forward-"+name+".eml"))
		if err != nil || len(r.Messages) != 1 || !strings.Contains(string(r.Messages[0]),
			"From: Spam Co <s@spamco.example>") ||
			!strings.Contains(string(r.Messages[0]), "copper garden lanterns") ||
			!strings.Contains(string(r.Messages[0]), "Subject: offer") {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
}
