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

const unseenText = "The warden of the harbour barters scarce carpets and large jars for a share of the early barley " +
	"harvest, and carts are parked near the market garden where charcoal burners and their partners gather " +
	"before the fair begins. Bargains start at dark, and guards with torches march around the yard until the " +
	"last article has found its buyer.\n"
