package signature

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/mail"
	"github.com/bulkhead-mail/bulkhead/internal/testing/mailtest"
)

func names(sigs []bulkhead.Signature) string {
	var all []string
	for i := range sigs {
		all = append(all, sigs[i].Name())
	}
	return strings.Join(all, " ")
}

func TestSenders(t *testing.T) {
	client := netip.MustParseAddr("198.51.100.7")
	for _, tt := range []struct {
		name   string
		source bulkhead.Source
		want   string
	}{
		{"aligned", bulkhead.Source{From: "Alice@Example.com", DKIM: []string{"example.com"}},
			"example.com alice@example.com"},
		{"signed below", bulkhead.Source{From: "alice@example.com", DKIM: []string{"mail.example.com"}},
			"example.com alice@example.com"},
		{"signed above", bulkhead.Source{From: "alice@news.example.co.uk", DKIM: []string{"Example.co.uk."}},
			"example.co.uk alice@news.example.co.uk"},
		{"a second signature", bulkhead.Source{From: "alice@example.com",
			DKIM: []string{"esp.example", "example.com"}}, "example.com alice@example.com"},
		{"envelope", bulkhead.Source{From: "alice@example.com", Sender: "bounce+1@b.example.com"},
			"example.com alice@example.com"},
		{"From is not known", bulkhead.Source{Sender: "Bob@Example.com", ClaimedSender: "x@bank.example"},
			"example.com bob@example.com"},
		{"IDN", bulkhead.Source{From: "alice@Bücher.example", DKIM: []string{"xn--bcher-kva.example"}},
			"xn--bcher-kva.example alice@xn--bcher-kva.example"},
		{"platform", bulkhead.Source{From: "news@example.com", DKIM: []string{"x.esp.example"}}, "esp.example|example.com"},
		{"platforms", bulkhead.Source{From: "news@example.com", DKIM: []string{"z.example", "a.example"},
			Sender: "x@0.example"}, "a.example|example.com z.example|example.com 0.example|example.com"},
		{"list whose mail has a second signature that sorts first", bulkhead.Source{From: "alice@example.com",
			DKIM: []string{"a.example", "lists.example.org"}, ListID: "dev.lists.example.org"},
			"dev.lists.example.org|example.org"},
		{"platform's envelope", bulkhead.Source{From: "news@example.com", Sender: "x@esp.example"},
			"esp.example|example.com"},
		{"a customer of a private suffix", bulkhead.Source{From: "a@b.github.io", DKIM: []string{"b.github.io"}},
			"b.github.io a@b.github.io"},
		{"another customer of it", bulkhead.Source{From: "a@b.github.io", DKIM: []string{"c.github.io"}},
			"c.github.io|b.github.io"},
		{"its owner", bulkhead.Source{From: "a@b.github.io", DKIM: []string{"github.io"}}, "github.io|b.github.io"},
		{"its owner for itself", bulkhead.Source{From: "a@github.io", DKIM: []string{"github.io"}}, "github.io|github.io"},
		{"list", bulkhead.Source{From: "alice@example.com", DKIM: []string{"lists.example.org"},
			ListID: "Dev.Lists.example.org"}, "dev.lists.example.org|example.org"},
		{"newsletter", bulkhead.Source{From: "news@example.com", DKIM: []string{"example.com"},
			ListID: "News.example.com"}, "example.com news@example.com news.example.com|example.com"},
		{"list of another domain", bulkhead.Source{From: "a@example.com",
			DKIM: []string{"example.com", "example.org"}, ListID: "dev.example.org"}, "example.com a@example.com"},
		{"list that is the domain", bulkhead.Source{From: "a@example.com", DKIM: []string{"example.com"},
			ListID: "example.com"}, "example.com a@example.com example.com|example.com"},
		{"list without a name, of one's own", bulkhead.Source{From: "a@example.com", DKIM: []string{"example.com"},
			ListID: "x|example.com"}, "example.com a@example.com"},
		{"nothing", bulkhead.Source{From: "alice@example.com", ClaimedSender: "alice@example.com",
			ClaimedListID: "l.example.com"}, ""},
		{"network", bulkhead.Source{From: "alice@example.com", Client: client}, "198.51.100.0/24"},
		{"network of IPv6", bulkhead.Source{Client: netip.MustParseAddr("2001:db8:1:2::3")}, "2001:db8:1::/48"},
		{"mapped", bulkhead.Source{Client: netip.MustParseAddr("::ffff:198.51.100.7")}, "198.51.100.0/24"},
		{"loopback", bulkhead.Source{Client: netip.MustParseAddr("127.0.0.1")}, ""},
		{"private", bulkhead.Source{Client: netip.MustParseAddr("10.1.2.3")}, ""},
		{"link-local", bulkhead.Source{Client: netip.MustParseAddr("fe80::1%eth0")}, ""},
		{"verified, with a client", bulkhead.Source{From: "alice@example.com", DKIM: []string{"example.com"},
			Client: client}, "example.com alice@example.com"},
		// Results that must verify nothing.
		{"public suffix", bulkhead.Source{From: "a@bank.co.uk", DKIM: []string{"co.uk"}}, ""},
		{"top-level domain", bulkhead.Source{From: "a@bank.com", DKIM: []string{"com"}}, ""},
		{"top-level domain that nobody knows", bulkhead.Source{From: "a@bank.example", DKIM: []string{"example"}}, ""},
		{"empty", bulkhead.Source{From: "a@bank.example", DKIM: []string{"", ".", "@"}}, ""},
		{"the end of a name", bulkhead.Source{From: "a@bank.example", DKIM: []string{"nk.example"}},
			"nk.example|bank.example"},
		{"name of an address", bulkhead.Source{From: "a@192.0.2.1", DKIM: []string{"192.0.2.1"}}, ""},
		{"joined", bulkhead.Source{From: "a@bank.example", DKIM: []string{"evil.example|bank.example"}}, ""},
		{"two addresses in one", bulkhead.Source{From: "a@bank.example@evil.example", DKIM: []string{"evil.example"}}, ""},
		{"blanks", bulkhead.Source{From: "a b@evil.example", DKIM: []string{"evil.example"}}, ""},
		{"no local part", bulkhead.Source{From: "@evil.example", DKIM: []string{"evil.example"}}, ""},
		{"a From that is none", bulkhead.Source{From: "bank.example", DKIM: []string{"bank.example"}}, ""},
		{"a verified sender that is none", bulkhead.Source{From: "a@bank.example", Sender: "bank.example"}, ""},
		{"list without a name", bulkhead.Source{From: "a@b.example", DKIM: []string{"c.example"},
			ListID: "x|y@c.example"}, "c.example|b.example"},
	} {
		if got := names(Senders(tt.source)); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// TestSendersOfMail: what a mail says of itself, with a signature of evil.example
// that was verified, never gives the signature of bank.example.
func TestSendersOfMail(t *testing.T) {
	const verified = "Authentication-Results: mx.example.com; dkim=pass header.d=evil.example\n"
	for _, tt := range []struct{ name, header, want string }{
		{"own", "From: a@evil.example\n", "evil.example a@evil.example"},
		{"bank", "From: a@bank.example\n", "evil.example|bank.example"},
		{"display name", "From: \"a@bank.example\" <a@evil.example>\n", "evil.example a@evil.example"},
		{"display name without quotes", "From: Bank (a, b) [x] <a@evil.example>\n", "evil.example a@evil.example"},
		{"angles in the name", "From: a@bank.example <a@evil.example>\n", ""},
		{"two fields", "From: a@bank.example\nFrom: a@evil.example\n", ""},
		{"two fields, turned", "From: a@evil.example\nfrom : a@bank.example\n", ""},
		{"two addresses", "From: a@bank.example, a@evil.example\n", ""},
		{"two addresses, turned", "From: a@evil.example, a@bank.example\n", ""},
		{"group", "From: Bank: a@bank.example, a@evil.example;\n", ""},
		{"group of one", "From: a@bank.example: a@evil.example;\n", ""},
		{"comment", "From: a@evil.example (a@bank.example)\n", "evil.example a@evil.example"},
		{"encoded", "From: =?utf-8?q?a=40bank.example?= <a@evil.example>\n", "evil.example a@evil.example"},
		{"none", "Sender: a@bank.example\n", ""},
		{"empty", "From:\n", ""},
		{"list of another", "From: a@bank.example\nList-Id: <l.bank.example>\n", "evil.example|bank.example"},
		{"own list", "From: a@bank.example\nList-Id: <bank.example.evil.example>\n",
			"bank.example.evil.example|evil.example"},
		{"cut signature", "DKIM-Signature: v=1; d=evil.example; l=100; b=x\nFrom: a@evil.example\n", ""},
		{"a second, cut signature",
			"DKIM-Signature: v=1; d=evil.example; b=x\n" +
				"DKIM-Signature: v=1;\n d = evil.example;\n l = 0; b=x\nFrom: a@evil.example\n", ""},
		{"cut signature of another", "DKIM-Signature: v=1; d=bank.example; l=100; b=x\nFrom: a@evil.example\n",
			"evil.example a@evil.example"},
	} {
		m := mailtest.Must(mail.Read(t.Context(), []byte(verified+tt.header+"\ntext\n")))
		if got := names(Senders(m.SourceBy([]string{"mx.example.com"}, ""))); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
		if got := names(Senders(m.Source())); got != "" {
			t.Errorf("%s: %q, and nobody is believed", tt.name, got)
		}
	}
}

// FuzzSenders: of whatever source nothing that was not verified has a signature.
func FuzzSenders(f *testing.F) {
	f.Add("a@bank.example", "b@evil.example", "evil.example", "l.evil.example")
	f.Add("a@bank.co.uk", "", "co.uk", "co.uk")
	f.Add("a@x.github.io", "|@x", "github.io|x", "a|b")
	f.Fuzz(func(t *testing.T, from, sender, dkim, list string) {
		if sigs := Senders(bulkhead.Source{From: from, ClaimedSender: sender, ClaimedListID: list}); sigs != nil {
			t.Fatalf("%q of claims alone", names(sigs))
		}
		for _, sig := range Senders(bulkhead.Source{From: from, Sender: sender, DKIM: []string{dkim}, ListID: list}) {
			name := sig.Name()
			if name == "" {
				continue // too long
			}
			_, verified, ok := strings.Cut(name, "|")
			if !ok {
				verified = name[strings.LastIndexByte(name, '@')+1:]
			}
			by, _, _ := strings.Cut(name, "|")
			given := strings.ToLower(dkim + " " + sender)
			if isASCII(given) && !strings.Contains(given, verified) && !strings.Contains(given, by) &&
				!strings.Contains(verified, strings.Trim(given, " .@")) {
				t.Fatalf("%q of DKIM %q, sender %q", name, dkim, sender)
			}
		}
	})
}

func isASCII(s string) bool { return strings.IndexFunc(s, func(r rune) bool { return r >= 0x80 }) < 0 }
