package verdict

import (
	"fmt"
	"slices"
	"sort"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/bulkhead-mail/bulkhead"
)

// drawSignatures draws the signatures of a message, in any order, several of a kind.
func drawSignatures(t *rapid.T) (sigs []bulkhead.Signature, evidence []Evidence) {
	senders := []string{"example.org", "free.example", "al-1.example", "ann@example.org", "bob@example.org",
		"esp.example|example.org", "|example.org"}
	links := []string{"example.org", "www.example.org", "badexample.org", "example.org/a", "www.example.org/b",
		"evil.example", "evil.example/c",
		"two.example", "three.example", "four.example", "free.example", "org"}
	claims := []string{"theexampieshop", "exampie", "al", "free", "bank"}
	for i := range rapid.IntRange(0, 24).Draw(t, "signatures") {
		scheme := rapid.SampledFrom(append(bulkhead.Schemes(), bulkhead.Near, bulkhead.Link, bulkhead.Link, bulkhead.Link,
			bulkhead.Sender)).Draw(t, "scheme")
		var s bulkhead.Signature
		switch scheme {
		case bulkhead.Sender:
			s = bulkhead.NamedSignature(scheme, rapid.SampledFrom(senders).Draw(t, "sender"))
		case bulkhead.Link:
			s = bulkhead.NamedSignature(scheme, rapid.SampledFrom(links).Draw(t, "link"))
		case bulkhead.Claim:
			s = bulkhead.NamedSignature(scheme, rapid.SampledFrom(claims).Draw(t, "claim"))
		default:
			s = bulkhead.MustSignature(scheme, []byte(fmt.Sprint(i)))
		}
		e := Evidence{Old: rapid.Uint32Range(0, 3).Draw(t, "old"), New: rapid.Uint32Range(0, 3).Draw(t, "new")}
		if strings.HasPrefix(s.Name(), "free.") {
			e.Addresses = 90
		}
		sigs, evidence = append(sigs, s), append(evidence, e)
	}
	return sigs, evidence
}

// TestPartsAgainstPlain compares the relations between parts with the same
// worked out on strings.
func TestPartsAgainstPlain(t *testing.T) {
	var p Parts // the same one for all: nothing of one message is left in the next
	rapid.Check(t, func(t *rapid.T) {
		sigs, evidence := drawSignatures(t)
		p.Set(sigs)
		of := func(is func(s *bulkhead.Signature) bool) []int {
			out := []int{}
			for i := range sigs {
				if is(&sigs[i]) {
					out = append(out, i)
				}
			}
			return out
		}
		scheme := func(which ...bulkhead.Scheme) []int {
			return of(func(s *bulkhead.Signature) bool { return slices.Contains(which, s.Scheme()) })
		}
		one := func(has, hasNot string) int {
			all := of(func(s *bulkhead.Signature) bool {
				return s.Scheme() == bulkhead.Sender && strings.Contains(s.Name(), has) &&
					(hasNot == "" || !strings.ContainsAny(s.Name(), hasNot))
			})
			if len(all) == 0 {
				return -1
			}
			return all[0]
		}
		first := func(all []int, n int) []int { return all[:min(n, len(all))] }
		texts := scheme(bulkhead.Near)
		if len(texts) == 0 {
			texts = scheme(bulkhead.Exact, bulkhead.PyzorDigest, bulkhead.DCCBody, bulkhead.RazorE4)
		}
		wholeMail := of(func(s *bulkhead.Signature) bool { return strings.HasPrefix(s.Scheme().String(), "bulkhead/") })
		for _, x := range []struct {
			what      string
			got, want any
		}{
			{"links", p.Links, scheme(bulkhead.Link)},
			{"senders", p.Senders, scheme(bulkhead.Sender)},
			{"attachments", p.Attachments, scheme(bulkhead.Attachment)},
			{"contacts", p.Contacts, scheme(bulkhead.Contact)},
			{"claims", p.Claims, scheme(bulkhead.Claim)},
			{"texts", p.Texts, first(texts, 8)},
			{"digests", p.Digests, len(wholeMail) == 0},
			{"domain", p.Domain, one("", "@|")},
			{"address", p.Address, one("@", "|")},
			{"other", p.Other, one("|", "")},
		} {
			if fmt.Sprint(x.got) != fmt.Sprint(x.want) {
				t.Fatalf("%s of %v: %v, want %v", x.what, sigs, x.got, x.want)
			}
		}
		domain := "" // with a sender that answers for it
		if p.Domain >= 0 && !evidence[p.Domain].Shared() {
			domain = sigs[p.Domain].Name()
		}
		speaks := p.Other
		switch {
		case domain != "":
			speaks = p.Domain
		case p.Address >= 0 && (p.Other < 0 || evidence[p.Other].Old <= evidence[p.Address].Old):
			speaks = p.Address
		}
		if got := p.Sender(evidence); got != speaks {
			t.Fatalf("for the sender of %v speaks %d, want %d", sigs, got, speaks)
		}
		var foreign []int
		for _, i := range p.Links {
			host, _, path := strings.Cut(sigs[i].Name(), "/")
			own := domain != "" && (host == domain || strings.HasSuffix(host, "."+domain))
			if p.Domain >= 0 && domain == "" { // it is shared, and all customers link to it
				own = sigs[i].Name() == sigs[p.Domain].Name()
			}
			if got := p.Foreign(sigs, evidence, i); got == own {
				t.Fatalf("%q in mail of %q: foreign %v", sigs[i].Name(), domain, got)
			}
			if !own && !path {
				foreign = append(foreign, i)
			}
		}
		sort.SliceStable(foreign, func(a, b int) bool {
			x, y := &evidence[foreign[a]], &evidence[foreign[b]]
			return x.Old+x.New < y.Old+y.New
		})
		want := []int{77}
		if speaks >= 0 {
			want = append(want, speaks)
		}
		want = append(want, first(foreign, 3)...)
		if got := p.Contexts(sigs, evidence, []int{77}); !slices.Equal(got, want) {
			t.Fatalf("the text of %v is paired with %v, want %v", sigs, got, want)
		}
		// The label of example.org has letters enough, al-1.example has not.
		for _, i := range p.Claims {
			want := domain == "example.org" && strings.Contains(sigs[i].Name(), "exampie")
			if got := p.OwnName(sigs, evidence, i); got != want {
				t.Fatalf("%q of %q: its own name %v", sigs[i].Name(), domain, got)
			}
		}
	})
}

// TestOwnName: a name is a domain's own if it has the letters of its label, of which
// there must be four.
func TestOwnName(t *testing.T) {
	for _, tt := range []struct {
		domain, claim string
		own           bool
	}{
		{"shop.example", "shop", true},
		{"shop.example", "myshopping", true},
		{"shop.example", "sho", false},
		{"shp.example", "shp", false},
		{"my-shop24.example", "myshop", true},
		{"az-za.example", "azza", true},
		{"hello.example", "heiio", true}, // as claims fold the letter
		{"hello.example", "heio", false},
		{"a-1-b-2-c.example", "abc", false},
		{"example", "exampie", true},
	} {
		sigs := []bulkhead.Signature{bulkhead.NamedSignature(bulkhead.Sender, tt.domain),
			bulkhead.NamedSignature(bulkhead.Claim, tt.claim)}
		evidence := make([]Evidence, 2)
		var p Parts
		p.Set(sigs)
		if got := p.OwnName(sigs, evidence, 1); got != tt.own {
			t.Errorf("%q of %s: its own name %v", tt.claim, tt.domain, got)
		}
	}
}

// TestPairTexts: a text is paired by its first eight bands or, without bands, by the first eight
// signatures of the whole text.
func TestPairTexts(t *testing.T) {
	var near, whole []bulkhead.Signature
	for i := range 10 {
		near = append(near, bulkhead.MustSignature(bulkhead.Near, []byte{byte(i)}))
		whole = append(whole, bulkhead.MustSignature(bulkhead.RazorE4, []byte{byte(i)}))
	}
	for name, sigs := range map[string][]bulkhead.Signature{"bands": near, "signatures of the text": whole,
		"bands before signatures": slices.Concat(near, whole)} {
		for _, n := range []int{0, 7, 8, 9, len(sigs)} {
			var p Parts
			p.Set(sigs[:n])
			if want := []int{0, 1, 2, 3, 4, 5, 6, 7}[:min(n, 8)]; !slices.Equal(p.Texts, want) {
				t.Errorf("%d %s: paired by %v, want %v", n, name, p.Texts, want)
			}
		}
	}
}

// TestContextsOfLinks: a text is paired with the three foreign links that have the fewest deliveries,
// in ascending order.
func TestContextsOfLinks(t *testing.T) {
	for _, tt := range []struct {
		deliveries []int // of the links
		want       []int // their places in the message, after its text
	}{
		{[]int{1}, []int{1}}, {[]int{3, 2}, []int{2, 1}}, {[]int{3, 2, 1}, []int{3, 2, 1}},
		{[]int{4, 3, 2, 1}, []int{4, 3, 2}}, {[]int{1, 2, 3, 4}, []int{1, 2, 3}}, {[]int{2, 4, 1, 3}, []int{3, 1, 4}},
		{[]int{1, 1, 1, 1}, []int{1, 2, 3}},
	} {
		sigs, evidence := []bulkhead.Signature{bulkhead.MustSignature(bulkhead.Exact, []byte{1})}, make([]Evidence, 1)
		for i, n := range tt.deliveries {
			sigs = append(sigs, bulkhead.NamedSignature(bulkhead.Link, fmt.Sprint("link", i, ".example")))
			evidence = append(evidence, Evidence{Old: uint32(n)})
		}
		var p Parts
		p.Set(sigs)
		if got := p.Contexts(sigs, evidence, nil); !slices.Equal(got, tt.want) {
			t.Errorf("links with %v deliveries: %v, want %v", tt.deliveries, got, tt.want)
		}
	}
}
