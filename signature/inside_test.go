package signature

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"html"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/mail"
	"github.com/bulkhead-mail/bulkhead/internal/testing/mailtest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/picturetest"
)

// withFile is a message of a text and a file.
func withFile(text, kind, name string, file []byte) []byte {
	return []byte("From: a@example.com\nTo: Bob Miller <bob@example.com>\nSubject: x\nMIME-Version: 1.0\n" +
		"Content-Type: multipart/mixed; boundary=b\n\n" +
		"--b\nContent-Type: text/plain\n\n" + text + "\n--b\nContent-Type: " + kind + "; name=\"" + name +
		"\"\nContent-Disposition: attachment\n" +
		"Content-Transfer-Encoding: base64\n\n" + base64.StdEncoding.EncodeToString(file) + "\n--b--\n")
}

func archive(names ...string) []byte {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for i := 0; i < len(names); i += 2 {
		f := mailtest.Must(w.Create(names[i]))
		mailtest.Must(f.Write([]byte(names[i+1])))
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// files returns the letter to one recipient, in each form in which a letter is attached.
func files(greeting, link string) map[string]struct {
	kind string
	data []byte
} {
	letter := greeting + "\n" + mailtest.Letter + "\n" + link
	page := []byte("<html><body><p>" + strings.ReplaceAll(letter, "\n", "<br>") + "<a href='" + link +
		"'>x</a></body></html>")
	var shown strings.Builder
	for line := range strings.Lines(letter) {
		fmt.Fprintf(&shown, "(%s) Tj T*\n", strings.NewReplacer("(", "\\(", ")", "\\)").Replace(strings.TrimSpace(line)))
	}
	type file = struct {
		kind string
		data []byte
	}
	return map[string]file{
		"letter.html":  {"text/html", page},
		"letter.htm":   {"application/octet-stream", page},
		"letter.txt":   {"text/plain", []byte(letter)},
		"letter.xhtml": {"application/xhtml+xml", page},
		"html.zip":     {"application/zip", archive("a.html", string(page))},
		"script.html": {"text/html", []byte("<script>document.write(atob('" + base64.StdEncoding.EncodeToString(page) +
			"'))</script>")},
		"script.zip": {"application/zip", archive("a.html", "<script>document.write(atob('"+
			base64.StdEncoding.EncodeToString(page)+"'))</script>")},
		"letter.docx": {"application/octet-stream", archive("[Content_Types].xml", "x",
			"word/_rels/document.xml.rels", `<R><Relationship TargetMode="External" Target="`+link+`"/></R>`,
			"word/document.xml", "<w:p>"+strings.ReplaceAll(letter, "\n", "</w:p><w:p>")+"</w:p>")},
		"letter.pdf": {"application/pdf", []byte("%PDF-1.4\n1 0 obj\n<</URI (" + link +
			")>>\nendobj\n2 0 obj\n<<>>\nstream\nBT " + shown.String() + " ET\nendstream\nendobj\n")},
	}
}

// TestAttachedText: a text is known again in whatever form it is attached, by its words
// and its link, also where the name of the recipient in it is another, and with
// another note before it by the words of the document.
func TestAttachedText(t *testing.T) {
	plain := compute(t, mailtest.Plain("Dear Ann,\n"+mailtest.Letter))
	for name, f := range files("Dear Bob,", "http://www.offers.example/now") {
		other := files("Dear Carol,", "http://www.offers.example/later")[name]
		first := compute(t, withFile("", f.kind, name, f.data))
		near := 0
		for _, sig := range first {
			for _, p := range plain {
				if p == sig && sig.Scheme() == bulkhead.Near {
					near++
				}
			}
		}
		if near < NearMatch {
			t.Errorf("%s: %d bands of the text itself", name, near)
		}
		for _, second := range [][]byte{withFile("", other.kind, name, other.data),
			withFile("Please find attached what we talked about on Monday when we met at the office"+
				" near the harbour with all of the others.",
				other.kind, name, other.data)} {
			same := make(map[bulkhead.Scheme]int)
			for _, sig := range compute(t, second) {
				for _, s := range first {
					if s == sig {
						same[sig.Scheme()]++
					}
				}
			}
			if same[bulkhead.Link] == 0 || same[bulkhead.Attachment] == 0 {
				t.Errorf("%s: another copy has %v in common", name, same)
			}
		}
	}
}

// TestArchive: a file is known in an archive under any name; an icon is not, nor what is
// in every office document.
func TestArchive(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	program := make([]byte, minAttachment+1)
	for i := range program {
		program[i] = byte(r.Uint32())
	}
	picture := string(picturetest.JPEG(picturetest.Ad(r), 70))
	sums := func(raw []byte, scheme bulkhead.Scheme) []string { return of(t, raw, scheme) }
	bare := withFile("x", "application/x", "a.exe", program)
	for name, raw := range map[string][]byte{
		"zip":        withFile("x", "image/png", "b.zip", archive("c.scr", string(program), "d", "x")),
		"zip in zip": withFile("x", "application/x", "b", archive("c.zip", string(archive("e", string(program))))),
	} {
		if !common(sums(bare, bulkhead.Attachment), sums(raw, bulkhead.Attachment)) {
			t.Errorf("%s: the file is not known", name)
		}
	}
	theme := strings.Repeat("<theme/>", 1000)
	one := withFile("x", "application/x", "a.docx", archive("[Content_Types].xml", "x", "word/theme.xml", theme,
		"word/media/a.jpeg", picture))
	two := withFile("x", "application/x", "a.docx", archive("[Content_Types].xml", "y", "word/theme.xml", theme))
	if common(sums(one, bulkhead.Attachment), sums(two, bulkhead.Attachment)) {
		t.Error("two documents have a file in common that all have")
	}
	if !common(sums(one, bulkhead.Image), sums(pictureMail("x", []byte(picture)), bulkhead.Image)) {
		t.Error("the picture of a document is not known")
	}
}

// TestInsideIsNotNothing: messages of empty texts with different documents differ.
func TestInsideIsNotNothing(t *testing.T) {
	sums := make(map[string]string)
	for name, f := range files("Dear Bob,", "http://www.offers.example/now") {
		if f.kind == "text/html" || f.kind == "text/plain" || name == "letter.xhtml" {
			continue // these are text, and a file that is there twice
		}
		for _, sum := range of(t, withFile("", f.kind, name, f.data), bulkhead.Exact) {
			if sums[sum] != "" {
				t.Errorf("%s has the signature of %s", name, sums[sum])
			}
			sums[sum] = name
		}
	}
	if len(sums) < 3 {
		t.Errorf("%d documents have exact signatures", len(sums))
	}
}

// TestTextsOfPictures checks that alternative texts of pictures are the text of a page without another text. The texts
// of icons are not, nor are they in a page with a text.
func TestTextsOfPictures(t *testing.T) {
	page := func(text, alt string) []byte {
		var pictures strings.Builder
		for line := range strings.Lines(alt) {
			fmt.Fprintf(&pictures, "<img src='http://a.example/x.png' alt=\"%s\">", html.EscapeString(strings.TrimSpace(line)))
		}
		return mailtest.Composed("text/html", "7bit", "<p>"+text+"</p>"+pictures.String())
	}
	near := func(raw []byte) (all []string) { return of(t, raw, bulkhead.Near) }
	letter := near(mailtest.Plain(mailtest.Letter))
	if got := near(page("Hello", mailtest.Letter)); !slices.Equal(got, letter) || len(got) != NearBands {
		t.Errorf("a letter in the texts of pictures: %d bands, want the same as in a text", len(got))
	}
	text := strings.ReplaceAll(mailtest.Letter, "\n", "<br>")
	if got := near(page(text, "Some other words that are beside it")); !slices.Equal(got, letter) {
		t.Errorf("a letter with pictures: %q, want the same as without", got)
	}
	icons := "Facebook\nInstagram\nYouTube\nLinkedIn\nOur logo\nView online\nDownload app\nPinterest\nSnapchat\n" +
		"Shop now\nMenu\nHome"
	if got := near(page("Hello", icons)); len(got) != 0 {
		t.Errorf("icons have %d bands", len(got))
	}
}

func TestCalendarIsRead(t *testing.T) {
	invitation := func(id, day string) []byte {
		return mailtest.Composed("text/calendar; method=REQUEST", "7bit",
			"BEGIN:VCALENDAR\nBEGIN:VEVENT\nUID:"+id+"\nDTSTAMP:"+day+
				"\nSUMMARY:Your account will be closed\nDESCRIPTION:"+strings.ReplaceAll(mailtest.Letter, "\n",
				"\\n")+" http://pay.example/x\nEND:VEVENT\nEND:VCALENDAR\n")
	}
	one, two := compute(t, invitation("a-long-identifier-4711", "20260101T100000Z")),
		compute(t, invitation("another-one-0815", "20260202T110000Z"))
	near, links := 0, 0
	for _, sig := range one {
		for _, s := range two {
			if s == sig && s.Scheme() == bulkhead.Near {
				near++
			} else if s == sig && s.Scheme() == bulkhead.Link {
				links++
			}
		}
	}
	if near != NearBands || links == 0 {
		t.Errorf("two invitations have %d bands and %d links in common", near, links)
	}
}

func TestInsideEnds(t *testing.T) {
	m := mailtest.Must(mail.Read(t.Context(), withFile("x", "application/zip", "a.zip", archive("a", "b"))))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if in, err := m.Inside(ctx); in != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("Inside = %v, %v", in, err)
	}
	if in, err := m.Inside(t.Context()); err != nil || len(in.Parts) != 1 {
		t.Errorf("afterwards: %v, %v", in, err)
	}
}
