package signature

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"image"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/mail"
	"github.com/bulkhead-mail/bulkhead/internal/mail/picture"
	"github.com/bulkhead-mail/bulkhead/internal/testing/mailtest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/picturetest"
)

// pictureMail is a message of a page and pictures that are sent with it.
func pictureMail(page string, files ...[]byte) []byte {
	var b bytes.Buffer
	b.WriteString("From: a@example.com\nTo: b@example.com\nSubject: x\nMIME-Version: 1.0\n" +
		"Content-Type: multipart/related; boundary=b\n\n" +
		"--b\nContent-Type: text/html\n\n" + page + "\n")
	for i, file := range files {
		fmt.Fprintf(&b, "--b\nContent-Type: image/x\nContent-ID: <i%d>\nContent-Transfer-Encoding: base64\n\n", i)
		for text := base64.StdEncoding.EncodeToString(file); text != ""; text = text[min(76, len(text)):] {
			b.WriteString(text[:min(76, len(text))] + "\n")
		}
	}
	b.WriteString("--b--\n")
	return b.Bytes()
}

func of(t testing.TB, raw []byte, scheme bulkhead.Scheme) (sums []string) {
	t.Helper()
	for _, sig := range compute(t, raw) {
		if sig.Scheme() == scheme {
			sums = append(sums, string(sig.Sum()))
		}
	}
	return sums
}

func common(a, b []string) bool {
	return slices.ContainsFunc(a, func(s string) bool { return slices.Contains(b, s) })
}

// TestPictureAndLink: a message that is nothing but a picture and a link is known by a
// copy, and by its picture where that and the link are changed. So it is where words
// that say nothing stand around it.
func TestPictureAndLink(t *testing.T) {
	page := func(i int, around string) string {
		return fmt.Sprintf(`<html><body>%s<a href="http://www.d%d.example/%d"><img src="cid:i0"></a></body></html>`,
			around, i, i)
	}
	n, alike := 0, 0
	for i := range 12 {
		r := rand.New(rand.NewPCG(uint64(i), 77))
		m := picturetest.Ad(r)
		if i%2 == 0 {
			m = picturetest.Text(r)
		}
		first := pictureMail(page(i, ""), picturetest.JPEG(m, 80))
		if exact := of(t, first, bulkhead.Exact); len(exact) != 1 ||
			!slices.Equal(exact, of(t, slices.Clone(first), bulkhead.Exact)) {
			t.Fatalf("picture %d: exact signatures %x", i, exact)
		}
		for _, change := range []string{"a little noise", "size", "colours", "cut by 1 %", "dots", "several"} {
			changed := pictureMail(page(i+100, "<p>"+mailtest.Letter),
				picturetest.JPEG(picturetest.Changes[change](r, m), 50+r.IntN(40)))
			n++
			if common(of(t, first, bulkhead.Image), of(t, changed, bulkhead.Image)) {
				alike++
			}
		}
	}
	if t.Logf("%d of %d changed pictures recognised", alike, n); alike*10 < 9*n {
		t.Errorf("%d of %d changed pictures recognised, want 90 %%", alike, n)
	}
	remote := mailtest.Page(`<a href="http://example.com/c/8372"><img src="http://example.com/i/8372.gif" alt=""></a>` +
		`<p>You receive this because you subscribed. ` +
		`<a href="http://example.com/u">Unsubscribe</a>`)
	if len(of(t, remote, bulkhead.Exact)) != 1 {
		t.Error("a picture elsewhere and a link have no signature")
	}
}

// TestManyPictures: the largest pictures have signatures, and as many as there may be.
func TestManyPictures(t *testing.T) {
	var files [][]byte
	r := rand.New(rand.NewPCG(5, 5))
	large := picturetest.JPEG(picturetest.Scale(picturetest.Ad(r), 0.7, 0.7), 60)
	for range 12 {
		files = append(files, picturetest.JPEG(picturetest.Scale(picturetest.Ad(r), 0.3, 0.3), 60))
	}
	all := of(t, pictureMail("x", append(files, large)...), bulkhead.Image)
	if len(all) == 0 || len(all) > maxImageKeys || !common(all, of(t, pictureMail("x", large), bulkhead.Image)) {
		t.Errorf("%d signatures, the largest picture's: %t", len(all),
			common(all, of(t, pictureMail("x", large), bulkhead.Image)))
	}
	if icons := of(t, pictureMail("x", picturetest.PNG(image.NewGray(image.Rect(0, 0, 16, 16))),
		[]byte("no picture"), nil), bulkhead.Image); icons != nil {
		t.Errorf("icons have %d signatures", len(icons))
	}
}

// TestPixelsOfMessage: a few bytes that are many pixels are not decoded.
func TestPixelsOfMessage(t *testing.T) {
	wide := image.NewGray(image.Rect(0, 0, 1000, 1000))
	for i := range wide.Pix {
		wide.Pix[i] = uint8(i / 40_000 * 9)
	}
	file := picturetest.PNG(wide)
	if n := picture.Pixels(file); n != 1_000_000 || len(file)*pixelsAByte+minPixels > n {
		t.Fatalf("%d bytes, %d pixels", len(file), n)
	}
	if sigs := of(t, pictureMail("x", file), bulkhead.Image); sigs != nil {
		t.Errorf("%d signatures", len(sigs))
	}
}

func TestPicturesEnd(t *testing.T) {
	m := mailtest.Must(mail.Read(t.Context(),
		pictureMail("x", picturetest.JPEG(picturetest.Ad(rand.New(rand.NewPCG(1, 1))), 80))))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if sigs, err := imageSignatures(ctx, m, [16]byte{}); sigs != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("%d signatures, %v", len(sigs), err)
	}
}

// TestPicturesOfKeys: every facet of pictures depends on the network's secret.
func TestPicturesOfKeys(t *testing.T) {
	raw := pictureMail("x", picturetest.JPEG(picturetest.Ad(rand.New(rand.NewPCG(2, 2))), 80))
	sums := make(map[bulkhead.Signature]bool)
	for _, key := range [][16]byte{{}, {1}} {
		for _, sig := range mailtest.Must(Compute(t.Context(), raw, Options{Key: key})) {
			if sig.Scheme() == bulkhead.Image {
				if sums[sig] {
					t.Fatal("two networks have a signature in common")
				}
				sums[sig] = true
			}
		}
	}
	if len(sums) == 0 {
		t.Errorf("%d signatures", len(sums))
	}
}
