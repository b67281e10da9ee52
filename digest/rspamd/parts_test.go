package rspamd

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/mail"
	"github.com/bulkhead-mail/bulkhead/internal/testing/mailtest"
)

// pictureOf begins like a picture of that kind and size.
func pictureOf(kind string, width, height int) string {
	b := make([]byte, 2000)
	switch kind {
	case "png":
		copy(b, "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR")
		binary.BigEndian.PutUint32(b[16:], uint32(width))
		binary.BigEndian.PutUint32(b[20:], uint32(height))
	case "gif":
		copy(b, "GIF89a")
		binary.LittleEndian.PutUint16(b[6:], uint16(width))
		binary.LittleEndian.PutUint16(b[8:], uint16(height))
	case "bmp":
		copy(b, "BM")
		binary.LittleEndian.PutUint32(b[18:], uint32(width))
		binary.LittleEndian.PutUint32(b[22:], uint32(height))
	case "jpeg":
		copy(b, "\xff\xd8\xff\xe0\x00\x04JF\xff\xc0\x00\x11\x08")
		binary.BigEndian.PutUint16(b[13:], uint16(height))
		binary.BigEndian.PutUint16(b[15:], uint16(width))
	}
	return string(b)
}

// TestParts: which parts rspamd 3.4 asks for, and as what it reads them.
func TestParts(t *testing.T) {
	const attached, inline = "Content-Disposition: attachment\r\n", "Content-Disposition: inline\r\n"
	page, long := "<html><body>"+strings.Repeat("word ", 100)+"</body></html>", strings.Repeat("word, ", 400)
	for _, test := range []struct {
		kind, header, body, want string
	}{
		{"image/png", inline, pictureOf("png", 500, 500), "data"},
		{"image/png", inline, pictureOf("png", 499, 500), ""}, {"image/png", attached, pictureOf("png", 500, 499), ""},
		{"application/x", attached, pictureOf("gif", 400, 600), ""},
		{"image/gif", "", pictureOf("gif", 600, 600), "data"}, {"image/bmp", "", pictureOf("bmp", 600, 600), "data"},
		{"image/bmp", "", pictureOf("bmp", 6, 600), ""},
		{"image/jpeg", "", pictureOf("jpeg", 500, 512), ""}, {"image/jpeg", "", pictureOf("jpeg", 510, 502), "data"},
		{"image/webp", "", "RIFF" + long, ""}, {"image/webp", attached, "RIFF" + long, "data"},
		{"application/x", "", long, ""}, {"application/x; name=a", "", long, "data"},
		{"application/x; name=a", "Content-Id: <a>\r\n", long, "data"},
		{"application/x", "Content-Disposition: inline; filename=a\r\nContent-Id: <a>\r\n", long, ""},
		{"application/x", attached, long, "data"}, {"application/x", attached, long[:1000], ""},
		{"application/zip", "", "PK\x03\x04" + long[:20], "data"},
		{"application/gzip", "", "\x1f\x8b\x08" + long[:20], "data"}, {"text/plain", attached, long, "text"},
		{"text/calendar", "", "BEGIN:VCALENDAR\r\n" + long, ""},
		{"text/plain", "", long, "text"}, {"text/plain", "", page, "page"}, {"application/x", "", page, "page"},
		{"application/x", attached, page + long, "page"}, {"text/html", "", page, "page"},
		{"text/plain", "", "<P>a<P>b<a>c<div>", "page"},
		{"text/plain", "", "<P>a<P>b<a>c<divan>", "text"}, {"text/plain", "", "<!DOCTYPE html> <br> <ahh> <a",
			"page"}, {"text/plain", "", strings.Repeat(" ", 4090) + page, "text"},
	} {
		raw := fmt.Sprintf("Content-Type: multipart/mixed; boundary=b\r\n\r\n"+
			"--b\r\nContent-Type: %s\r\nContent-Transfer-Encoding: base64\r\n%s\r\n%s\r\n--b--\r\n",
			test.kind, test.header, base64.StdEncoding.EncodeToString([]byte(test.body)))
		m := mailtest.Must(mail.Read(t.Context(), []byte(raw)))
		part := &m.Parts[0]
		data := part.Data
		if part.IsText() {
			data = []byte(part.Text)
		}
		h := NewHasher("", "", MumHash)
		got := ""
		if text, html := readAs(t.Context(), part, data); html && text {
			got = "page"
		} else if text {
			got = "text"
		} else if hashes := mailtest.Must(h.Hashes(t.Context(), m.Raw, Policy{AllTypes: true})); len(hashes) == 1 &&
			hashes[0].Digest == h.Part(data) {
			got = "data"
		} else if len(hashes) > 0 {
			got = "else"
		}
		if got != test.want {
			t.Errorf("%s %q %.20q: %q, want %q", test.kind, test.header, test.body, got, test.want)
		}
	}
}

// FuzzPicture: anything may call itself a picture.
func FuzzPicture(f *testing.F) {
	for _, kind := range []string{"png", "gif", "bmp", "jpeg"} {
		f.Add([]byte(pictureOf(kind, 1, 2)[:40]))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if width, height, ok := pictureSize(data); !ok && (width != 0 || height != 0) {
			t.Errorf("%d x %d of no picture", width, height)
		}
		looksLikePage(data)
	})
}

// TestIsText checks that data with too many unprintable bytes is not taken for text unless its type says so.
func TestIsText(t *testing.T) {
	words := strings.Repeat("word ", 100)
	for _, test := range []struct {
		data string
		want bool
	}{
		{words, true}, {"naïve €5 😀 " + words, true}, {"na\xefve " + words, true},
		{"na\xefve na\xefve " + words, false}, {"\xe4\xf6\xfc " + words, true}, {"\x00\x01" + words, false},
		{words[:200] + "\x00\x01\x02" + words, true}, {words + "\x00\x01", false}, {"na\xefve", false},
		{"tab\tand\r\nline", true}, {words[:159] + "\xe4\xe4" + words, true}, {"\xe4\xf6 \xe4\xf6 " + words, false},
	} {
		if got := isText([]byte(test.data)); got != test.want {
			t.Errorf("%.20q: %v, want %v", test.data, got, test.want)
		}
	}
	raw := "Content-Type: multipart/mixed; boundary=b\n\n--b\n\n" + strings.Repeat("word, ", 100) +
		"\n--b\nContent-Type: message/rfc822\nContent-Disposition: attachment\n\nContent-Type: text/plain\n\n" +
		strings.Repeat("other ", 300) + "\n--b--\n"
	h := NewHasher("", "", MumHash)
	if got := mailtest.Must(h.Hashes(t.Context(), []byte(raw), Policy{AllTypes: true})); len(got) != 3 ||
		got[0].Shingles == nil || got[1].Shingles != nil || got[2].Shingles == nil {
		t.Errorf("%d hashes, want those of a text of no type, of an attached message and of the text in it", len(got))
	}
}
