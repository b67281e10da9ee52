package signature

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/mail"
	"github.com/bulkhead-mail/bulkhead/internal/mail/link"
	"github.com/bulkhead-mail/bulkhead/internal/testing/mailtest"
)

func linksOf(t testing.TB, raw []byte) string {
	t.Helper()
	var sigs []bulkhead.Signature
	for _, sig := range compute(t, raw) {
		if sig.Scheme() == bulkhead.Link {
			sigs = append(sigs, sig)
		}
	}
	return sorted(names(sigs))
}

func sorted(list string) string {
	all := strings.Fields(list)
	slices.Sort(all)
	return strings.Join(all, " ")
}

func alternative(parts ...string) []byte {
	body := ""
	for _, p := range parts {
		kind, text, _ := strings.Cut(p, ":")
		body += "--b\nContent-Type: text/" + kind + "\n\n" + text + "\n"
	}
	return mailtest.Composed("multipart/alternative; boundary=b", "7bit", body+"--b--\n")
}

func attached(kind, text, file string) []byte {
	return mailtest.Composed("multipart/mixed; boundary=b", "7bit",
		"--b\n\n"+text+"\n--b\nContent-Type: "+kind+"\nContent-Disposition: attachment\n\n"+file+"\n--b--\n")
}

func TestLinks(t *testing.T) {
	for _, tt := range []struct {
		name string
		raw  []byte
		want string
	}{
		{"page", mailtest.Page(`<a href="https://www.Example.com/a/b?c">x</a><form action="http://f.example.org"></form>`),
			"example.com www.example.com/a example.org f.example.org/"},
		{"platform", mailtest.Page(`<a href="https://me.github.io/a">x</a>`), "me.github.io me.github.io/a"},
		{"redirect", mailtest.Page(`<a href="https://g.example/url?q=https%3A%2F%2Fevil.example%2Fx">x</a>`),
			"g.example g.example/url evil.example evil.example/x"},
		{"picture alone", mailtest.Page(`<img src="http://a.example/x.png">`), ""},
		{"text of a link", mailtest.Page(`<a href="http://a.example">http://b.example</a>`), "a.example a.example/"},
		{"text beside a link", mailtest.Page(`<a href="http://a.example">x</a> or go to http://b.example/y`),
			"a.example a.example/ b.example b.example/y"},
		{"plain", mailtest.Plain("see http://a.example/x, www.b.example and hxxp://c[.]example/d"),
			"a.example a.example/x b.example www.b.example/ c.example c.example/d"},
		{"alternatives", alternative("plain:http://a.example", "html:<a href=http://b.example>x</a>"),
			"b.example b.example/"},
		{"alternative without links", alternative("plain:http://a.example", "html:<p>x"), "a.example a.example/"},
		{"alternative with a hidden link", alternative("plain:http://a.example",
			"html:<p hidden><a href=http://b.example>x</a>"), "a.example a.example/ b.example b.example/"},
		{"alternatives, turned", alternative("html:<a href=http://b.example>x</a>", "plain:http://a.example"),
			"a.example a.example/ b.example b.example/"},
		{"page attached",
			attached("text/html", "see attached",
				`<a href="http://a.example/x">x</a><script>location = "http://b.example/y"</script>`),
			"a.example a.example/x b.example b.example/y"},
		{"page attached as data", attached("application/octet-stream; name=Invoice.HTML", "see attached",
			`<a href='http://a.example/x'>x</a><script>location="http://b.example/y"</script>`),
			"a.example a.example/x b.example b.example/y"},
		{"picture attached", attached("image/svg+xml", "see attached", `<svg><a href="http://a.example/x">`),
			"a.example a.example/x"},
		{"other data attached", attached("application/octet-stream; name=html", "see attached",
			`<a href="http://a.example/x">`), ""},
		{"text attached", attached("text/plain", "see attached", "http://a.example/x"), "a.example a.example/x"},
		{"numbers", mailtest.Page(`<a href="http://0xC0000201:8080/x/y">x</a>`), "192.0.2.1 192.0.2.1/x"},
		{"name in a text", mailtest.Plain("Go to evil.example.com or http://a.example/ today."),
			"a.example a.example/ example.com"},
		{"name in the script of a page", attached("text/html", "see attached", "<script>my.example.com = 1</script>"), ""},
		{"name in a server's report", []byte("From: MAILER-DAEMON@a.example\n\nSent by mx.example.com to http://b.example/x"),
			"b.example b.example/x"},
		{"subject", []byte("Subject: see http://a.example/x\n\nmore"), "a.example a.example/x"},
		{"attached text of no type", attached("application/octet-stream; name=a.TXT", "see attached", "http://a.example/x"),
			"a.example a.example/x"},
		{"userinfo", mailtest.Page(`<a href="http://bank.example@evil.example">x</a>`), "evil.example evil.example/"},
		{"none", mailtest.Page(`<a href="#x">x</a> <a href="mailto:a@b.example">x</a>`), ""},
	} {
		if got := linksOf(t, tt.raw); got != sorted(tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, sorted(tt.want))
		}
	}
}

// TestLinkChoice compares the choice with the choice from a plain map of all links.
func TestLinkChoice(t *testing.T) {
	for seed := range uint64(rounds(300)) {
		r := rand.New(rand.NewPCG(seed, 1))
		key := [16]byte{byte(seed)}
		got := newLinkChoice(key)
		best := make(map[string]map[string]mail.LinkUse) // of each domain the places and how they are used
		for range r.IntN(200) {
			domain := fmt.Sprintf("d%d.example", r.IntN(1+r.IntN(30)))
			l, _ := link.Parse(fmt.Sprintf("http://h%d.%s/p%d", r.IntN(3), domain, r.IntN(10)))
			use := mail.FollowedLink
			if l.Domain > "d5" {
				use = mail.HiddenLink // all of a domain: what falls out and comes back is another matter
			}
			got.add(&l, use)
			if best[domain] == nil {
				best[domain] = make(map[string]mail.LinkUse)
			}
			best[domain][l.Place()] = use
		}
		rank := func(use mail.LinkUse, name string) string {
			c := newLinkChoice(key)
			c.insert(&c.domains, name, use)
			return fmt.Sprintf("%d %020d", use, c.domains[0].hash)
		}
		inOrder := func(all map[string]mail.LinkUse) (list []string) {
			for name := range all {
				list = append(list, name)
			}
			slices.SortFunc(list, func(a, b string) int { return strings.Compare(rank(all[a], a), rank(all[b], b)) })
			return list
		}
		domains := make(map[string]mail.LinkUse)
		for d, places := range best {
			domains[d] = mail.HiddenLink
			for _, use := range places {
				domains[d] = min(domains[d], use)
			}
		}
		var want []string
		links := 0
		list := inOrder(domains)
		for round := range maxLinks {
			for _, d := range list[:min(len(list), maxLinks)] {
				if places := inOrder(best[d]); round < len(places) && links < maxLinks {
					links++
					if round == 0 {
						want = append(want, d)
					}
					want = append(want, places[round])
				}
			}
		}
		if names(got.signatures()) != strings.Join(want, " ") {
			t.Fatalf("seed %d: %q, want %q", seed, names(got.signatures()), want)
		}
	}
}

// TestLinksHidden: what a sender does to keep his one link out of the signatures.
func TestLinksHidden(t *testing.T) {
	const evil = `<a href="http://evil.example/x">pay</a>`
	var brand, shown, hidden strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&brand, `<a href="http://www.brand.example/%d">x</a>`, i)
		fmt.Fprintf(&hidden, `<a style="display:none" href="http://d%d.example/">x</a>`, i)
	}
	for i := range 11 {
		fmt.Fprintf(&shown, `<a href="http://d%d.example/">x</a>`, i)
	}
	for name, page := range map[string]string{
		"links to a brand": brand.String() + evil + brand.String(),
		"hidden links":     hidden.String() + evil + hidden.String(), "eleven others": shown.String() + evil,
	} {
		if got := linksOf(t, mailtest.Page(page)); !strings.Contains(got, "evil.example/x") {
			t.Errorf("behind %s: %q", name, got)
		}
	}
	if got := strings.Fields(linksOf(t, mailtest.Page(brand.String()))); len(got) != maxLinks+1 {
		t.Errorf("%d signatures of a thousand links to one domain, want %d", len(got), maxLinks+1)
	}
}
