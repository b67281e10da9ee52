package signature

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/pace"
	"github.com/bulkhead-mail/bulkhead/internal/testing/mailtest"
)

func contactsIn(text string) (all []string) {
	findContacts([]byte(text), nil, func(name string) { all = append(all, name) })
	return all
}

// Wallets and accounts that were made for these tests, or are examples of the
// documents that define them.
var wallets = []string{
	"1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa", "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4",
	"bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqzk5jj0",
	"0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed", "DE89370400440532013000", "GB82WEST12345698765432",
	"MT84MALT011000012345MTLCAST001S", "NO9386011117947",
}

func TestContacts(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"call +1 (555) 010-9999 now", "tel:5550109999"},
		{"+15550109999", "tel:5550109999"},
		{"(+1) 555.010.9999", "tel:5550109999"},
		{"1-555-010-9999, 1 (555) 010 9999, 555-010-9999 or 555.010.9999; (555)010-9999",
			"tel:5550109999 tel:5550109999 tel:5550109999 tel:5550109999 tel:5550109999"},
		{"+44 (0)20 7946 0958, 0044 20 7946 0958, 020 7946 0958", "tel:2079460958 tel:2079460958 tel:2079460958"},
		{"+49 171 1234567, 0171/1234567, 0171 123 45 67", "tel:1711234567 tel:1711234567 tel:1711234567"},
		{"+33 6 12 34 56 78, 06 12 34 56 78, 06.12.34.56.78", "tel:612345678 tel:612345678 tel:612345678"},
		{"+354 555 1234", "tel:5551234"},
		{"+１ ５５５ ０１０ ９９９９ and +\U0001d7cf-\U0001d7d3\U0001d7d3\U0001d7d3-010-9999", "tel:5550109999 tel:5550109999"},
		{"+1\u00a0555\u2011010\u20139999 and +1 5\u200b55 0\u00ad10 9999", "tel:5550109999 tel:5550109999"},
		{"Tel.:+15550109999.", "tel:5550109999"},
		// No contacts.
		{"order 112-1234567-1234567, invoice 2024-000123, 4111 1111 1111 1111, ISBN 978-3-16-148410-0", ""},
		{"2024-01-02 03:04:05, 01.02.2024 10, 01/02/2024-03/04/2024, 20240102030405", ""},
		{"1234567890 0123456789 5550109999 15550109999", ""},
		{"192.168.100.200 and 10.20.30.40", ""},
		{"#555-010-9999 x555-010-9999 555-010-9999-1 555-010-9999x http://a.example/555-010-9999 id=+15550109999", ""},
		{"+1234 and +12 34 56 78", ""},
		{"+5.10 906.04 431 452 and Boston, MA 02111-1307", ""},
		{"+1234567890123456", ""},
		{"$555 010 9999 and 155-010-9999 and 055-0109", ""},
		{"1 2 3 4 5 6 7 8 9 10 11 12 13 14", ""},
		{"555\n010-9999", ""},
		// Wallets and accounts.
		{"pay to " + strings.Join(wallets, ", or ") + ".", strings.Join(wallets, " ")},
		{"BC1QW508D6QEJXTDG4Y5R3ZARVARY0C5XW7KV8F3T4", "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4"},
		{"0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed"},
		{"GB82 WEST 1234 5698 7654 32", "GB82WEST12345698765432"},
		{"bitcoin:1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa?amount=1", "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa"},
		{"1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNb 0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAeD" +
			" bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t5 Bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4",
			""},
		{"GB82WEST12345698765433 GB82 WEST 1234 5698 7654 3 DE89 3704 0044 0532 0130 00X", ""},
		{"0x0000000000000000000000000000000000000000 0x5aaeb6053f3e94c9b9a09f33669435e7ef1beae", ""},
		{"/1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa x1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa", ""},
	} {
		if got := strings.Join(contactsIn(tt.text), " "); got != tt.want {
			t.Errorf("%q: %q, want %q", tt.text, got, tt.want)
		}
	}
}

// TestWalletsChecked: a wallet with any one letter changed is none.
func TestWalletsChecked(t *testing.T) {
	const letters = "19AZaz"
	for _, w := range append(slices.Clone(wallets), madeWallets...) {
		if got := contactsIn(w); !slices.Equal(got, []string{w}) {
			t.Errorf("%s: %q", w, got)
		}
		if strings.HasPrefix(w, "0x") {
			continue // of one case it has no checksum
		}
		for i := range w {
			for _, c := range letters {
				if changed := w[:i] + string(c) + w[i+1:]; changed != w && !strings.EqualFold(changed, w) &&
					len(contactsIn(changed)) > 0 {
					t.Errorf("%s is taken for %s", changed, w)
				}
			}
		}
	}
}

func TestContactsOfMail(t *testing.T) {
	of := func(raw []byte) string {
		var sigs []bulkhead.Signature
		for _, sig := range compute(t, raw) {
			if sig.Scheme() == bulkhead.Contact {
				sigs = append(sigs, sig)
			}
		}
		return sorted(names(sigs))
	}
	for _, tt := range []struct {
		name string
		raw  []byte
		want string
	}{
		{"page", mailtest.Page(`<a href="tel:+15550109998">us</a> or +1 555 <b>010</b> 9999` +
			`<div hidden>+1 555 010 9997</div>`),
			"tel:5550109998 tel:5550109999"},
		{"plain", mailtest.Plain("+15550109999\n\n> +15550109998"), "tel:5550109998 tel:5550109999"},
		{"hidden link", mailtest.Page(`<a style="display:none" href="tel:+15550109998">us</a>`), ""},
		{"a link of another kind", mailtest.Page(`<a href="sms:+15550109998">us</a>`), ""},
		{"upper case", mailtest.Page(`<a href=" TEL:+15550109998">us</a>`), "tel:5550109998"},
		{"twice", mailtest.Plain("+15550109999 555-010-9999"), "tel:5550109999"},
	} {
		if got := of(tt.raw); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
	many := ""
	for i := range 100 {
		many += "+155501099" + string(rune('0'+i/10)) + string(rune('0'+i%10)) + "\n"
	}
	if got := strings.Fields(of(mailtest.Plain(many))); len(got) != maxContacts {
		t.Errorf("%d contacts of 100, want %d", len(got), maxContacts)
	}
}

// FuzzContacts checks that each contact found has a valid form, and that it is found after
// other text as well. A search that looks at each word finds the same contacts.
func FuzzContacts(f *testing.F) {
	f.Add("call +1 (555) 010-9999 now, GB82 WEST 1234 5698 7654 32")
	for _, w := range append(slices.Clone(wallets), madeWallets...) {
		f.Add(w)
		f.Add(strings.Repeat("x", pace.Step-len(w)/2) + w)
		f.Add(strings.Repeat(" x", pace.Step/2-len(w)/4) + w)
	}
	r := rand.New(rand.NewPCG(7, 8))
	pieces := append([]string{"+1 555 010 9999", "(555) 010-9999", "0171 1234567", "\uff10\uff11", "\U0001d7ce",
		"\xef", "\xf0", "0x", "bc1", "+", "(", "1", "Z", "z"}, wallets...)
	for range 300 {
		text := mailtest.Text(r)
		for range r.IntN(20) {
			text = slices.Insert(text, r.IntN(len(text)+1), []byte(pieces[r.IntN(len(pieces))])...)
		}
		f.Add(string(text))
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := contactsIn(text)
		var want []string
		if naiveContacts([]byte(text), func(name string) { want = append(want, name) }); !slices.Equal(got, want) {
			t.Fatalf("%q: %q, want %q", text, got, want)
		}
		for _, name := range got {
			number, phone := strings.CutPrefix(name, "tel:")
			if phone && (strings.Trim(number, "0123456789") != "" || len(number) > maxPhone ||
				strings.HasPrefix(number, "0")) || strings.Trim(name, "\x00\n ") != name || len(name) > maxContactWord {
				t.Fatalf("%q: %q", text, name)
			}
		}
		if behind := contactsIn("Call now:\n" + text); !slices.Equal(behind, got) {
			t.Fatalf("%q: %q, behind a line %q", text, got, behind)
		}
	})
}

var madeWallets = []string{
	"15t38byTmDoPRCwANLzaYskm7xLCsNbW6F", "36a449TuK87mWNdbVSfAyW7hGUcvNmUYjU",
	"LQ6zPpHHqt3Sg1dKYUysptpXLAhV1F2DDN", "MCnCN2ssGEyCJsuVbKeWo9N6bBDNPZ4mQg",
	"DA28frv74dhfxD7m6vz96dvN164WEktWeD", "TErF8fMBuwvLaNznxceJ52Su2k5X7Fqpj5",
	"bc1qxkrh7q35h5w9n5u36aq0x4j34t4vtpnjwlanns",
	"ltc1qxkrh7q35h5w9n5u36aq0x4j34t4vtpnj2r8htq", "bc1p94c3vs4hy6cygqtz0j5lhtpj7hy9xra3jq7vfkczykr30ys6fzqs3kh3lj",
	"43inkCWJ83EAmHxX8AxdozHUs8J3p9VnLQCSJ4rwHWtkWv1TLuRsscpddYRdxcioic1MtiqRqdP8x85TtcMWHtuiAGgCKKu",
	"85TtcMWHtuiEo34PH9Ukt4MWcEA6GcmzUUEBPS8mD8iYawiMjBx44pLhVarVJoEJoW5PdphaqdVVNC7CzUWWJ1G8CyN9ig1",
	"4DTfjsYiHyFAw2qWoDNok1Hec1HirZfiMQNBB4XyhgpmX5kLLaUJ3YqddadcpqeNP71Xdbq6t3Z4y8FCmc2Yi4qjExmwNxBtvp5EvFVSon",
}
