package learn

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/mail"
)

// A digest is a hash of the features of messages.
type digest []byte

func (d *digest) add(t *testing.T, raw []byte) {
	t.Helper()
	m, err := mail.Read(t.Context(), raw)
	if err != nil {
		t.Fatal(err)
	}
	all, err := Features(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	counting, err := Counting(t.Context(), m, filter.Secret{9})
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(fmt.Appendf(*d, "%q %q", sorted(all), counting))
	*d = sum[:]
}

// TestSameFeatures checks that messages have the features of the first release. With others, what nodes have counted
// would be lost. A change of the features on purpose changes the sum.
func TestSameFeatures(t *testing.T) {
	var d digest
	for _, raw := range []string{sample, typical(), made(2000, true), made(2000, false), made(30_000, true),
		made(30_000, false)} {
		d.add(t, []byte(raw))
	}
	for _, text := range []string{
		"Don't stop: it's 3D, A4-sized, 20% off, x2000000y and 1234567z. ALL CAPS, MiXeD; e.g. 'quoted' (word) [2nd] --",
		"www.shop.example WWW.x a@b.example x://y http:// : :// @ a:b a:// tab\tand\vf\f\r\n\x85 \u00a0nbsp\u2003em a\u00adb",
		"Größe ÄÖÜ naïve Straße İstanbul ΣΊΣΥΦΟΣ Ελλάδα Привет, МИР! שלום مرحبا नमस्ते दुनिया ﬁne ǅ 한국어 책 소식",
		"抽奖券今天结束 これは本です。カタカナ ภาษาไทย ພາສາລາວ ខ្មែរ မြန်မာ word抽奖word 券x",
		"\xff\xfe bad\x80utf \xe6\x8a cut \xf0\x9f\x98\x80 😀 e\u0301tude " + strings.Repeat("long", 30) + " " +
			strings.Repeat("ü", 50) + " a\x00b a\x01 \x7f",
		strings.Repeat("x1y22z333 q ", 900),
	} {
		d.add(t, []byte("From: A <a@b.example>\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n"+text+"\r\n"))
		d.add(t, []byte("From: A <a@b.example>\r\nContent-Type: text/html; charset=utf-8\r\n\r\n<p class=\"A b-1 1234567\" "+
			"style=\"Color : RED ; x:y(z);;a:\tb  c \" lang=\"x\">"+text+"<td ALIGN=Left data-x='"+
			strings.Repeat("v", 30)+"'><style>a{b:c}d{e:f;g:h}</style>\r\n"))
	}
	const want = "b5e7113b2191524f"
	if got := hex.EncodeToString(d[:8]); got != want {
		t.Errorf("sum %s, want %s", got, want)
	}
}
