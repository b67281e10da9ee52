package signature

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"mime/quotedprintable"
	"strings"
	"testing"

	"golang.org/x/text/encoding/charmap"
	"pgregory.net/rapid"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/mail"
	"github.com/bulkhead-mail/bulkhead/internal/testing/mailtest"
)

func compute(t testing.TB, raw []byte) []bulkhead.Signature {
	t.Helper()
	sigs, err := Compute(t.Context(), raw, Options{})
	if err != nil {
		t.Fatalf("Compute: %v", err)
	}
	return sigs
}

// own returns the sum of the exact signature, "" for none, and the near ones.
func own(t testing.TB, raw []byte) (exact string, near map[string]bool) {
	t.Helper()
	near = make(map[string]bool)
	for _, sig := range compute(t, raw) {
		switch sig.Scheme() {
		case bulkhead.Exact:
			if exact != "" {
				t.Fatal("two exact signatures")
			}
			exact = string(sig.Sum())
		case bulkhead.Near:
			near[string(sig.Sum())] = true
		}
	}
	return exact, near
}

func shared(a, b map[string]bool) int {
	n := 0
	for sum := range a {
		if b[sum] {
			n++
		}
	}
	return n
}

func TestComputeNormalMail(t *testing.T) {
	exact, near := own(t, mailtest.Plain(mailtest.Letter))
	if len(exact) != 32 || len(near) != NearBands {
		t.Fatalf("got an exact sum of %d bytes and %d bands, want 32 and %d", len(exact), len(near), NearBands)
	}
	seen := make(map[byte]bool)
	for sum := range near {
		seen[sum[0]] = true
	}
	if len(seen) != NearBands {
		t.Errorf("bands carry %d different numbers, want %d", len(seen), NearBands)
	}
}

func TestComputeRefuses(t *testing.T) {
	for _, tt := range []struct {
		name string
		raw  []byte
		want error
	}{
		{"nil", nil, bulkhead.ErrMalformed},
		{"empty", []byte{}, bulkhead.ErrMalformed},
		{"too long", make([]byte, mail.MaxMessage+1), bulkhead.ErrOverLimit},
	} {
		if sigs, err := Compute(t.Context(), tt.raw, Options{}); !errors.Is(err, tt.want) || sigs != nil {
			t.Errorf("Compute(%s) = %v, %v, want %v", tt.name, sigs, err, tt.want)
		}
	}
}

func TestNoSignatureBelowFloor(t *testing.T) {
	sig := "-- \nAnn Example\n" +
		"Head of Widgets, Example Widgets Limited\nTelephone +44 1632 960000\nhttp://www.example.com/\n"
	bodies := map[string][]byte{
		"no body":             []byte("Subject: x\n\n"),
		"header only":         []byte("Subject: x\n"),
		"empty":               mailtest.Plain(""),
		"white space":         mailtest.Plain(" \t\r\n\r\n   \n"),
		"NBSP":                mailtest.Plain(strings.Repeat("\u00a0\n", 40)),
		"zero width":          mailtest.Plain(strings.Repeat("\u200b\ufeff \n", 40)),
		"hi":                  mailtest.Plain("Hi"),
		"thanks":              mailtest.Plain("Hi Bob,\n\nThanks, see you!\n\nAnn\n"),
		"signature":           mailtest.Plain("\n" + sig),
		"short and signature": mailtest.Plain("Ok.\n\n" + sig),
		"disclaimer":          mailtest.Plain(mailtest.Disclaimer),
		"disclaimer as HTML":  mailtest.Page("<p>" + mailtest.Disclaimer + "</p>"),
		"list footer": mailtest.Plain("\n_______________________________________________\nWidgets mailing list\n" +
			"Widgets@lists.example.com\n" +
			"http://lists.example.com/mailman/listinfo/widgets\n"),
		"subscription footer": mailtest.Page(`<p>You receive this newsletter because you subscribed. ` +
			`<a href="#">Unsubscribe</a> ` +
			`or change your preferences.
			Copyright Example Ltd, all rights reserved. Privacy policy.</p>`),
		"sent from": mailtest.Plain("Sent from my iPhone\n"),
		"image":     mailtest.Page(`<img src="http://example.com/i/8372.gif" alt="">`),
		"image, link unseen": mailtest.Page(`<img src="http://example.com/i/8372.gif" alt="">` +
			`<a style="display:none" href="http://example.com/c/8372">x</a>`),
		"link":             mailtest.Page(`<a href="http://example.com/c/8372">http://example.com/c/8372</a>`),
		"bare link":        mailtest.Plain("http://example.com/offers/today?id=8372\n"),
		"HTML no text":     mailtest.Page(`<table><tr><td>&nbsp;</td></tr></table><br><hr>`),
		"HTML hidden text": mailtest.Page(`<div style="display: none">` + mailtest.Letter + `</div>`),
		"HTML comment":     mailtest.Page(`<!-- ` + mailtest.Letter + ` -->`),
		"HTML style":       mailtest.Page(`<style>` + mailtest.Letter + `</style><script>` + mailtest.Letter + `</script>`),
		"numbers":          mailtest.Plain(strings.Repeat("12 3456 78.90 2024-01-02\n", 40)),
		"one word":         mailtest.Plain(strings.Repeat("buy ", 400)),
		"two empty parts": mailtest.Composed("multipart/alternative; boundary=b", "7bit",
			"--b\n\n\n--b\nContent-Type: text/html\n\n<html></html>\n--b--\n"),
		"tiny attachment": mailtest.Composed("multipart/mixed; boundary=b", "7bit",
			"--b\n\n\n--b\nContent-Type: image/gif\nContent-Transfer-Encoding: base64\n\nR0lGODlhAQABAAAAACw=\n--b--\n"),
		"blank attachment": mailtest.Composed("application/octet-stream", "7bit", strings.Repeat("\x00", 100_000)),
	}
	for name, raw := range bodies {
		if exact, near := own(t, raw); exact != "" || len(near) > 0 {
			t.Errorf("%s: got exact %x and %d near signatures, want none", name, exact, len(near))
		}
	}
	// The floor must not swallow mail that has such a footer.
	for name, body := range map[string]string{"signature": mailtest.Letter + "\n" + sig,
		"disclaimer": mailtest.Letter + "\n" + mailtest.Disclaimer} {
		if exact, near := own(t, mailtest.Plain(body)); exact == "" || len(near) == 0 {
			t.Errorf("letter with %s has no signature", name)
		}
	}
}

// TestNeverHashOfNothing checks that no signature is the hash of the empty string or of
// the canonical form of an empty part.
func TestNeverHashOfNothing(t *testing.T) {
	var nothing wordList
	nothing.add(nil)
	nothing.add(nil)
	for _, s := range []*skeleton{{}, {footer: true}, {words: nothing}, {quoted: nothing}} {
		m := &mail.Message{Parts: []mail.Part{{Type: "text/plain"}}}
		if sum := mailtest.Must(exactSum(t.Context(), m, s, nil)); sum != nil {
			t.Errorf("exactSum of %+v = %x, want none", *s, sum)
		}
		key := newNearKey([16]byte{})
		if sigs := key.near(s, key.hashes(s)); len(sigs) > 0 {
			t.Errorf("near of %+v = %v, want none", *s, sigs)
		}
		if sigs := parts(s, key.hashes(s)); len(sigs) > 0 {
			t.Errorf("parts of %+v = %v, want none", *s, sigs)
		}
	}
}

// TestExactInvariance checks with random texts that the exact signature sees
// through everything that is done to a mail on its way.
func TestExactInvariance(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(rapid.StringMatching(`[a-zà-ÿ]{4,9}`), 24, 80).Draw(t, "words")
		var text strings.Builder
		for i, w := range words {
			text.WriteString(w)
			text.WriteString([]string{" ", " ", "\n", " ", ".\n\n"}[i%5])
		}
		latin, err := charmap.ISO8859_1.NewEncoder().String(text.String())
		if err != nil {
			t.Fatal(err)
		}
		body := text.String()
		var qp bytes.Buffer
		w := quotedprintable.NewWriter(&qp)
		w.Write([]byte(body))
		w.Close()
		var wrapped strings.Builder
		for b64 := base64.StdEncoding.EncodeToString([]byte(body)); b64 != ""; {
			n := min(76, len(b64))
			wrapped.WriteString(b64[:n] + "\r\n")
			b64 = b64[n:]
		}
		want, _ := sums(t, mailtest.Plain(body))
		if want == "" {
			t.Skip("below the floor")
		}
		for name, raw := range map[string][]byte{
			"CRLF":             bytes.ReplaceAll(mailtest.Plain(body), []byte("\n"), []byte("\r\n")),
			"lone CR in body":  mailtest.Plain(strings.ReplaceAll(body, "\n", "\r")),
			"trailing blanks":  mailtest.Plain(strings.ReplaceAll(body, "\n", " \t\n") + "\n\n\n"),
			"quoted-printable": mailtest.Composed("text/plain; charset=utf-8", "quoted-printable", qp.String()),
			"base64":           mailtest.Composed("text/plain; charset=UTF-8", "base64", wrapped.String()),
			"latin-1":          mailtest.Composed("text/plain; charset=ISO-8859-1", "8bit", latin),
			"no charset":       mailtest.Composed("text/plain", "8bit", body),
			"From line":        append([]byte("From ann@example.com Thu Jan  1 00:00:00 2024\n"), mailtest.Plain(body)...),
			"other headers":    append([]byte("Received: by mx.example.net id 42\nX-Spam: no\n"), mailtest.Plain(body)...),
			"multipart": mailtest.Composed("multipart/mixed; boundary=xyz", "7bit",
				"preamble\n--xyz\nContent-Type: text/plain; charset=utf-8\n\n"+body+"\n--xyz--\nepilogue\n"),
			"no end": mailtest.Composed("multipart/mixed; boundary=xyz", "7bit",
				"--xyz\nContent-Type: text/plain; charset=utf-8\n\n"+body),
		} {
			if got, _ := sums(t, raw); got != want {
				t.Fatalf("%s: exact %x, want %x", name, got, want)
			}
		}
		if got, _ := sums(t, mailtest.Plain(body+"postscript")); got == want {
			t.Fatalf("another text has the same signature %x", got)
		}
	})
}

func sums(t *rapid.T, raw []byte) (exact string, near map[string]bool) {
	sigs, err := Compute(t.Context(), raw, Options{})
	if err != nil {
		t.Fatal(err)
	}
	near = make(map[string]bool)
	for _, sig := range sigs {
		switch sig.Scheme() {
		case bulkhead.Exact:
			exact = string(sig.Sum())
		case bulkhead.Near:
			near[string(sig.Sum())] = true
		}
	}
	return exact, near
}

// TestNearInvariance checks that what differs from recipient to recipient, and
// what only the eye does not see, changes no band at all.
func TestNearInvariance(t *testing.T) {
	_, want := own(t,
		mailtest.Plain("Dear Bob,\n\n"+mailtest.Letter+"\nSee http://example.com/lighthouse"+
			" or write to office@example.com.\n"))
	mark := strings.NewReplacer("lighthouse", "<b>light</b><!-- x -->house", "noon", "<font size=\"1\">n</font>oon")
	for name, raw := range map[string][]byte{
		"greeting": mailtest.Plain("Hello Mrs. Jane Roe,\n\n" + mailtest.Letter +
			"\nSee http://example.com/lighthouse or write to office@example.com.\n"),
		"no greeting": mailtest.Plain(mailtest.Letter +
			"\nSee http://example.com/lighthouse or write to office@example.com.\n"),
		"links": mailtest.Plain("Dear Bob,\n\n" + mailtest.Letter +
			"\nSee https://other.example.net/?u=8dk2&x=bob or write to a.b.c@mail.example.\n"),
		"identifiers": mailtest.Plain("Dear Bob,\n\n" + mailtest.Letter +
			"\nSee http://example.com/l 829918 or write to x@example.com. 8f3a99d1c200ab #20240101\n"),
		"case": mailtest.Plain("Dear Bob,\n\n" + strings.ToUpper(mailtest.Letter) +
			"\nSEE http://example.com/lighthouse OR WRITE TO office@example.com.\n"),
		"wrapping": mailtest.Plain("Dear Bob,\n\n" + strings.ReplaceAll(mailtest.Letter, "\n", " ") +
			"\n\nSee http://example.com/lighthouse\nor write to office@example.com.\n"),
		"recipient's name": mailtest.Plain("Dear Bob,\n\n" + mailtest.Letter +
			"\nSee http://example.com/lighthouse or write, Bob Miller, to office@example.com.\n"),
		"signature block": mailtest.Plain("Dear Bob,\n\n" + mailtest.Letter +
			"\nSee http://example.com/lighthouse or write to office@example.com.\n-- \nAnn Example\nExample Widgets\n"),
		"disclaimer": mailtest.Plain("Dear Bob,\n\n" + mailtest.Letter +
			"\nSee http://example.com/lighthouse or write to office@example.com.\n\n" + mailtest.Disclaimer),
		"HTML": mailtest.Page("<p>Dear Bob,</p><p>" + mark.Replace(mailtest.Letter) +
			"</p><p>See <a href='x'>http://example.com/</a> or write to office@example.com.</p>"),
		"hidden words": mailtest.Page("<p>Dear Bob,</p><p>" + mailtest.Letter +
			`<span style="font-size:0px">zebra quilt</span></p><p>See or write to</p>`),
		"Cyrillic": mailtest.Plain("Dear Bob,\n\n" + strings.NewReplacer("a", "а", "o", "о", "e", "е", "c",
			"с").Replace(mailtest.Letter) + "\nSee x://y or write to office@example.com\n"),
		"full-width": mailtest.Plain("Dear Bob,\n\n" + strings.ReplaceAll(mailtest.Letter, "noon", "ｎｏｏｎ") +
			"\nSee x://y or write to office@example.com\n"),
		"digits as letters": mailtest.Plain("Dear Bob,\n\n" + strings.NewReplacer("lighthouse", "l1ghth0use",
			"harbour", "h@rb0ur", "soup", "$oup").Replace(mailtest.Letter) +
			"\nSee x://y or write to office@example.com\n"),
		"spelt out": mailtest.Plain("Dear Bob,\n\n" + strings.NewReplacer("lighthouse", "l-i-g-h-t-h-o-u-s-e",
			"noon", "n o o n").Replace(mailtest.Letter) + "\nSee x://y or write to\n"),
		"soft hyphen": mailtest.Plain("Dear Bob,\n\n" + strings.ReplaceAll(mailtest.Letter, "th", "t\u00adh\u200b") +
			"\nSee x://y or write to\n"),
		"reply below": mailtest.Plain("Dear Bob,\n\n" + mailtest.Letter +
			"\nSee x://y or write to\n\nOn Monday, Carol wrote:\n" +
			"> Who paints the lighthouse, and\n> when will the committee meet?\n"),
	} {
		if _, got := own(t, raw); shared(got, want) != NearBands {
			m, _ := mail.Read(t.Context(), raw)
			t.Errorf("%s: %d of %d bands are equal; skeleton %v", name, shared(got, want), NearBands,
				&mailtest.Must(skeletonOf(t.Context(), m, nil, nil)).words)
		}
	}
}

// TestNearApart checks what must not match: another key, another text, and a
// reply that quotes or forwards the whole message.
func TestNearApart(t *testing.T) {
	_, want := own(t, mailtest.Plain(mailtest.Letter))
	quote := "> " + strings.ReplaceAll(strings.TrimSpace(mailtest.Letter), "\n", "\n> ") + "\n"
	reply := "I can come on Thursday with two ladders and my cousin, but somebody has to lend us\n" +
		"an extension cord and a radio, since the boathouse has neither of them.\n"
	for name, raw := range map[string][]byte{
		"reply":       mailtest.Plain("On Monday, Ann wrote:\n" + quote + "\n" + reply),
		"short reply": mailtest.Plain("Count me in!\n\n" + quote),
		"quote only":  mailtest.Plain(quote),
		"Outlook reply": mailtest.Plain(reply +
			"\n-----Original Message-----\nFrom: Ann\nTo: Bob\nSubject: x\n\n" + mailtest.Letter),
		"Outlook short": mailtest.Plain("Fine.\n\nFrom: Ann\nSent: Monday\nTo: Bob\nSubject: x\n\n" + mailtest.Letter),
		"HTML reply":    mailtest.Page("<p>" + reply + "</p><blockquote type=cite>" + mailtest.Letter + "</blockquote>"),
		"forward attached": mailtest.Composed("multipart/mixed; boundary=b", "7bit",
			"--b\n\nPlease look at this.\n--b\nContent-Type: message/rfc822\n\n"+
				string(mailtest.Plain(mailtest.Letter))+"\n--b--\n"),
		"unrelated": mailtest.Plain(reply + "\n" + reply +
			"Bring tea, sugar, milk and whatever else keeps painters cheerful.\n"),
	} {
		if _, got := own(t, raw); shared(got, want) > 0 {
			t.Errorf("%s: shares %d bands with the message", name, shared(got, want))
		}
	}
	sigs, err := Compute(t.Context(), mailtest.Plain(mailtest.Letter), Options{Key: [16]byte{1}})
	if err != nil {
		t.Fatal(err)
	}
	for _, sig := range sigs {
		if want[string(sig.Sum())] {
			t.Errorf("two keys give the same band %x", sig.Sum())
		}
	}
}

// TestAttachmentOnly checks the exact signature of mail without any words.
func TestAttachmentOnly(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	data := make([]byte, 6000)
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	mailOf := func(text string, data []byte) []byte {
		return mailtest.Composed("multipart/mixed; boundary=b", "7bit",
			"--b\n\n"+text+"\n--b\nContent-Type: image/png; name=x.png\nContent-Transfer-Encoding: base64\n\n"+
				base64.StdEncoding.EncodeToString(data)+"\n--b--\n")
	}
	exact, near := own(t, mailOf("", data))
	if exact == "" || len(near) > 0 {
		t.Fatalf("image only: exact %x, %d bands; want an exact one and no bands", exact, len(near))
	}
	if other, _ := own(t, mailOf("\n \n", data)); other != exact {
		t.Error("white space beside the image changes the signature")
	}
	data[100]++
	if other, _ := own(t, mailOf("", data)); other == exact || other == "" {
		t.Errorf("another image gives %x", other)
	}
	if other, _ := own(t, mailOf("Here it is", data)); other != "" {
		t.Errorf("a short note with an image has the signature %x, want none", other)
	}
	if other, _ := own(t, mailOf("-- \nAnn Example, Example Widgets\n", data)); other != "" {
		t.Errorf("a signature block with a logo has the signature %x, want none", other)
	}
}

func TestSignaturesUnique(t *testing.T) {
	for _, raw := range [][]byte{mailtest.Plain(mailtest.Letter), mailtest.Page("<p>" + mailtest.Letter + "</p>"),
		mailtest.Plain("Hi")} {
		seen := make(map[bulkhead.Signature]bool)
		for _, sig := range compute(t, raw) {
			if seen[sig] || !sig.Valid() {
				t.Errorf("signature %v is repeated or invalid", sig)
			}
			seen[sig] = true
		}
	}
}

func ExampleCompute() {
	raw := []byte("From: ann@example.com\nSubject: lighthouse\n\n" + mailtest.Letter)
	sigs, err := Compute(context.Background(), raw, Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, sig := range sigs {
		if sig.Scheme() == bulkhead.Exact {
			fmt.Println(sig)
		}
	}
	// Output: bulkhead/exact:eeb9edc89cdcb786e2d014c60d18585f03597a2146460aca380f6715209d9fc7
}
