package signature

import (
	"slices"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/testing/mailtest"
)

// TestUnseenWithin: characters that no browser shows divide no word, and rare look-alikes are letters.
func TestUnseenWithin(t *testing.T) {
	const bands = 20
	plain := mailtest.Must(Compute(t.Context(), []byte("From: a@b.example\n\n"+unseenText), Options{}))
	for _, change := range []func(string) string{
		func(s string) string { return strings.ReplaceAll(s, "ar", "a\x01r") },
		func(s string) string { return strings.ReplaceAll(s, "ar", "a\x7fr") },
		func(s string) string { return strings.ReplaceAll(s, "ar", "a\u0081r") },
		func(s string) string { return strings.ReplaceAll(s, "ar", "a\u2065r") },
		func(s string) string { return strings.ReplaceAll(s, "ar", "a\ufff0r") },
		func(s string) string { return strings.ReplaceAll(s, "ar", "a\ufffer") },
		func(s string) string { return strings.NewReplacer("e", "🅔", "r", "🆁").Replace(s) },
		func(s string) string { return strings.NewReplacer("a", "ᗩ", "r", "ᖇ", "c", "ᑕ").Replace(s) },
		func(s string) string { return strings.NewReplacer("a", "₳", "s", "₴", "t", "₮").Replace(s) },
		func(s string) string {
			return strings.NewReplacer("e", "ɛ", "f", "ʄ", "n", "ŋ", "y", "ყ").Replace(s)
		},
		func(s string) string { return strings.NewReplacer("e", "ⲉ", "o", "ⲟ", "r", "ꮢ").Replace(s) },
		func(s string) string { return strings.NewReplacer("e", "ǝ", "b", "ɓ", "t", "ꓔ").Replace(s) },
	} {
		text := change(unseenText)
		got := mailtest.Must(Compute(t.Context(), []byte("From: a@b.example\n\n"+text), Options{}))
		shared := 0
		for _, sig := range got {
			if sig.Scheme() == bulkhead.Near && slices.Contains(plain, sig) {
				shared++
			}
		}
		if shared != bands {
			t.Errorf("%q shares %d of %d bands", text[:30], shared, bands)
		}
	}
}

// TestUnseenAlternative: no program shows an alternative of a kind that it does not know.
func TestUnseenAlternative(t *testing.T) {
	mail := func(kind, text string) []bulkhead.Signature {
		raw := "From: a@b.example\nContent-Type: multipart/alternative; boundary=b\n\n--b\nContent-Type: text/html\n\n<p>" +
			unseenText + "\n--b\nContent-Type: " + kind + "\n\n" + text + "\n--b--\n"
		sigs := mailtest.Must(Compute(t.Context(), []byte(raw), Options{}))
		return slices.DeleteFunc(sigs, func(s bulkhead.Signature) bool { return s.Scheme() != bulkhead.Near })
	}
	const chaff = "Seven unlike words about melons that differ from copy to copy."
	plain := mail("text/html", "<p>"+unseenText)
	for _, kind := range []string{"text/css", "text/x-amp-html", "text/watch-html", "text/x-other"} {
		if !slices.Equal(mail(kind, chaff), plain) {
			t.Errorf("%s counts beside a page", kind)
		}
	}
	if slices.Equal(mail("text/enriched", chaff), plain) {
		t.Error("text/enriched does not count: some programs prefer it")
	}
}

const unseenText = "The warden of the harbour barters scarce carpets and large jars for a share of the early barley " +
	"harvest, and carts are parked near the market garden where charcoal burners and their partners gather " +
	"before the fair begins. Bargains start at dark, and guards with torches march around the yard until the " +
	"last article has found its buyer.\n"
