package verdict

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/trust"
)

// A part is one signature of a message and its evidence.
type part struct {
	scheme bulkhead.Scheme
	name   string
	Evidence
	counts bulkhead.Finding
	aged   bool // votes are weighed, and no longer counted one by one
}

// voted is n roots' votes for spam and ham against, with what the node itself made of
// them.
func voted(spam, ham int) Evidence {
	e := Evidence{Votes: trust.Balance{Spam: int64(spam * Unit), Ham: int64(ham * Unit)}}
	if spam > ham {
		e.Own = Listed
	} else if spam > 0 {
		e.Own = ListedRevoked
	}
	return e
}

// delivered adds deliveries of four earlier days.
func (e Evidence) delivered(n int) Evidence {
	e.Old, e.Days = uint32(n), min(4, n)
	return e
}

// wellSent is a link of n deliveries, all of them from senders of good standing.
func wellSent(n int) Evidence {
	e := Evidence{Good: uint32(n)}
	return e.delivered(n)
}

func body(scheme bulkhead.Scheme, e Evidence) part {
	return part{scheme: scheme, name: "text", Evidence: e}
}

func link(name string, e Evidence) part {
	return part{scheme: bulkhead.Link, name: name, Evidence: e}
}

func from(name string, e Evidence) part {
	return part{scheme: bulkhead.Sender, name: name, Evidence: e}
}

// nearly is 20 bands of which two say what e does.
func nearly(e Evidence) (out []part) {
	for i := range 20 {
		p := part{scheme: bulkhead.Near, name: fmt.Sprint("band", i)}
		if i < 2 {
			p.Evidence = e
		}
		out = append(out, p)
	}
	return out
}

func network(e Evidence) part {
	return part{scheme: bulkhead.Network, name: "192.0.2.0/24", Evidence: e}
}

// unflagged is a network that nine voters called spam, with mails of the last days that were not flagged.
func unflagged(mails uint32) part {
	e := voted(9, 0)
	e.Good = mails
	return network(e)
}

// regular is a network with reports, and settled mail that was neither flagged nor spam.
func regular(reports uint32, mails int) part {
	e := Evidence{Good: uint32(mails)}.delivered(mails)
	e.Votes.Spam = int64(reports) * Unit
	p := network(e)
	p.counts.Spam = reports
	return p
}

// like is a changed copy of a text that was delivered twice before, without a verified sender, from a network and
// with a link.
func like(text, from, to Evidence) []part {
	return append(nearly(text.delivered(2)), network(from), link("shop.example", to))
}

// page is a new text with a link to lists.example, and to a place at a host.
func page(host string, domain, place Evidence) []part {
	return []part{body(bulkhead.Exact, Evidence{}), link("lists.example", domain), link(host+"/birds", place)}
}

func message(parts ...[]part) []part { return slices.Concat(parts...) }

// pairVotes is what was voted on pairs: by the name of the sender or link.
type pairVotes struct {
	sigs  []bulkhead.Signature
	votes map[string]Evidence
	asked int
	// senders are those that peers know, by name of the link or claimed name.
	senders map[string]uint32
	// vouched are the names that peers have seen in earlier weeks.
	vouched map[string]bool
}

func (p *pairVotes) Vouched(i int) bool { return p.vouched[p.sigs[i].Name()] }

func (p *pairVotes) Senders(i int) uint32 { return p.senders[p.sigs[i].Name()] }

func (p *pairVotes) Pairs(pairs []Pair, out []Evidence) {
	p.asked++
	for i, x := range pairs {
		out[i] = Evidence{}
		if e, ok := p.votes[p.sigs[x.Context].Name()]; ok && x.Text == pairs[0].Text {
			out[i] = e
		}
	}
}

func (p part) signature() bulkhead.Signature {
	switch p.scheme {
	case bulkhead.Link, bulkhead.Sender, bulkhead.Contact, bulkhead.Network, bulkhead.Claim:
		return bulkhead.NamedSignature(p.scheme, p.name)
	}
	return bulkhead.MustSignature(p.scheme, []byte(p.name))
}

// judge judges a message at the default step.
func judge(parts []part, pairs map[string]Evidence, white string) (bulkhead.Verdict, Outcome, int) {
	return judgeBy(Policy{Promotion: 1, NearMatch: 2, Mature: true}, parts, pairs, white)
}

// A stepped judges messages at a step that is drawn: what always holds, holds at every step.
type stepped struct{ policy Policy }

func drawStep(t *rapid.T) stepped {
	return stepped{Policy{Promotion: 1, NearMatch: 2, Mature: true,
		Step: Step(rapid.IntRange(int(LeastStep), int(MostStep)).Draw(t, "step"))}}
}

func (s stepped) judge(parts []part, pairs map[string]Evidence, white string) (bulkhead.Verdict, Outcome, int) {
	return judgeBy(s.policy, parts, pairs, white)
}

func judgeBy(policy Policy, parts []part, pairs map[string]Evidence, white string) (bulkhead.Verdict, Outcome, int) {
	return judgeWith(policy, parts, &pairVotes{votes: pairs}, white)
}

func judgeWith(policy Policy, parts []part, asked *pairVotes, white string) (bulkhead.Verdict, Outcome, int) {
	d := Decider{Policy: policy}
	var c Case
	for _, p := range parts {
		f := p.counts
		f.Signature = p.signature()
		f.Spam = uint32(max(0, p.Votes.Spam/Unit))
		f.Ham = uint32(max(0, p.Votes.Ham/Unit))
		if p.aged {
			f.Spam, f.Ham = 0, 0
		}
		d.Policy.Finding(&f, &p.Evidence, Exact())
		c.Signatures, c.Findings, c.Evidence = append(c.Signatures, f.Signature), append(c.Findings, f),
			append(c.Evidence, p.Evidence)
	}
	asked.sigs = c.Signatures
	c.Pairs = asked
	v := bulkhead.Verdict{Findings: c.Findings, Threshold: 20, Whitelisted: white}
	out := d.Message(&v, &c)
	return v, out, asked.asked
}

func TestDecide(t *testing.T) {
	const (
		unknown, good, bulk     = bulkhead.ClassUnknown, bulkhead.ClassGood, bulkhead.ClassBulk
		suspected, spam         = bulkhead.ClassSuspected, bulkhead.ClassSpam
		noFacet, byText, byLink = bulkhead.NoFacet, bulkhead.TextFacet, bulkhead.LinkFacet
	)
	var (
		no      Evidence
		seen    = bulkhead.Finding{Sightings: 50}
		one     = voted(1, 0)
		two     = voted(2, 0)
		trapped = Evidence{Own: Listed, Votes: trust.Balance{Spam: 150}}
		bank    = from("bank.example", no.delivered(200))
		evil    = link("evil.example", no)
		several = func(e Evidence) Evidence { e.Contexts = 2; return e }
		sent    = func(e Evidence, n uint32) Evidence { e.Good = n; return e }
		p       = func(parts ...part) []part { return parts }
		picture = func(e Evidence) part { return part{scheme: bulkhead.Image, name: "a", Evidence: e} }
		paired  = func(name string, e Evidence) map[string]Evidence { return map[string]Evidence{name: e} }
		shared  = func(e Evidence) Evidence { e.Addresses = 100; return e }
		used    = func(e Evidence, senders uint32) Evidence { e.Addresses = senders; return e }
	)
	tests := []struct {
		name   string
		parts  []part
		pairs  map[string]Evidence
		white  string
		class  bulkhead.Class
		by     bulkhead.Facet
		reason string
	}{
		{"nothing", p(body(bulkhead.Exact, no)), nil, "", unknown, noFacet, "never seen"},
		{"whitelisted", p(body(bulkhead.Exact, one)), nil, "network 192.0.2.0/24", good, byText, "whitelisted"},
		{"an exact copy of what one reported", p(body(bulkhead.Exact, one)), nil, "", spam, byText, "reported as spam"},
		{"seen by many", p(part{scheme: bulkhead.Exact, name: "text", counts: seen}), nil, "", bulk, noFacet,
			"seen 50 times"},
		{"seen by many, from a known sender", p(part{scheme: bulkhead.Exact, name: "text", counts: seen}, bank), nil, "",
			bulk, noFacet, "seen 50 times"},
		{"and wanted", p(part{scheme: bulkhead.Exact, name: "text", counts: seen}, bank),
			paired("bank.example", voted(0, 1)), "", good, noFacet, "was said to be wanted"},
		{"and wanted by as many as not", p(part{scheme: bulkhead.Exact, name: "text", counts: seen}, bank),
			paired("bank.example", voted(1, 1)), "", bulk, noFacet, "seen 50 times"},
		{"wanted, from nobody known", p(part{scheme: bulkhead.Exact, name: "text", counts: seen}, from("new.example", no)),
			paired("new.example", voted(0, 1)), "", bulk, noFacet, "seen 50 times"},
		{"reported, and wanted from nobody known", p(part{scheme: bulkhead.Exact, name: "text", Evidence: one, counts: seen},
			from("new.example", no)), paired("new.example", voted(0, 1)), "", bulk, noFacet, "seen 50 times"},
		{"wanted by strangers", p(part{scheme: bulkhead.Exact, name: "text", counts: seen}, bank),
			paired("bank.example", Evidence{Votes: trust.Balance{StrangerHam: 900}}), "", bulk, noFacet, "seen 50 times"},

		// 2 and 3: senders of good standing.
		{"a copy from a known sender", p(body(bulkhead.Exact, one), bank), nil, "", good, noFacet,
			"from others; the sender \"bank.example\" is known"},
		{"a changed copy from a known sender", message(nearly(two), p(bank)), nil, "", good, noFacet, "is known"},
		{"a changed copy from a sender that is known by copies of this text",
			message(p(body(bulkhead.Exact, no.delivered(199))), nearly(two), p(bank)), nil, "", good, noFacet,
			"seldom for one that was delivered so often"},
		{"a copy that was often reported, from a sender that is hardly known",
			p(body(bulkhead.Exact, voted(9, 0)), from("new.example", no.delivered(8))), nil, "", spam, byText,
			"reported as spam"},
		{"the same from one known as often", p(body(bulkhead.Exact, voted(9, 0)), from("new.example", no.delivered(9))),
			nil, "", unknown, noFacet, "is known"},
		{"the same, which a root wants", p(body(bulkhead.Exact, voted(9, 0)), from("new.example", no.delivered(8))),
			paired("new.example", voted(0, 1)), "", good, noFacet, "wanted"},
		{"with a link that was reported with it", p(body(bulkhead.Exact, voted(9, 0)),
			from("new.example", no.delivered(8)), evil), map[string]Evidence{"new.example": voted(0, 1), "evil.example": two},
			"", good, noFacet, "wanted"},
		{"a text that is off the list, from a sender known by fewer, with a reported link",
			p(body(bulkhead.Exact, voted(5, 5)), from("new.example", no.delivered(4)), link("evil.example", two)), nil,
			"", unknown, noFacet, ""},
		{"known of one day only", p(body(bulkhead.Exact, one), from("bank.example", Evidence{Old: 50, Days: 1})), nil, "",
			spam, byText, ""},
		{"known by two deliveries", p(body(bulkhead.Exact, one), from("bank.example", Evidence{Old: 2, Days: 2})), nil, "",
			spam, byText, ""},
		{"a known sender reported with this text", p(body(bulkhead.Exact, one), bank), paired("bank.example", voted(2, 0)),
			"", good, noFacet, ""},
		{"and often", p(body(bulkhead.Exact, one), bank), paired("bank.example", voted(3, 0)), "", spam, byText,
			"from this sender"},
		{"a known sender with a reported attachment", p(body(bulkhead.Exact, no), bank,
			part{scheme: bulkhead.Attachment, name: "a", Evidence: two}), nil, "", spam, bulkhead.AttachmentFacet,
			"the attachment"},
		{"a domain that was reported, and a place there that was not", page("lists.example", two, no.delivered(20)), nil, "",
			suspected, byLink, "the places there that it links to were often delivered"},
		{"and delivered less often for the reports", page("lists.example", two, no.delivered(19)), nil, "", spam, byLink, ""},
		{"on another host there", page("www.lists.example", two, Evidence{New: 20}), nil, "", suspected, byLink, ""},
		{"a place that was reported, too", page("lists.example", two, two.delivered(20)), nil, "", spam, byLink, ""},
		{"one of two places that is new", append(page("lists.example", two, no.delivered(40)), link("lists.example/x", no)),
			nil, "", spam, byLink, ""},
		{"a place of another domain", page("birds.example", two, no.delivered(40)), nil, "", spam, byLink, ""},
		{"a known sender with a reported link", p(body(bulkhead.Exact, no), bank, link("evil.example", two)), nil, "", good,
			noFacet, "hardly ever reported"},
		{"a known sender with a contested name", p(body(bulkhead.Exact, one),
			from("bank.example", voted(120, 0).delivered(200))), nil, "", spam, bulkhead.SenderFacet, ""},
		{"a service that some spammers use", p(body(bulkhead.Exact, no),
			from("survey.example", voted(20, 0).delivered(40))), nil, "", suspected, bulkhead.SenderFacet, ""},
		{"and many", p(body(bulkhead.Exact, no), from("survey.example", voted(30, 0).delivered(40))), nil, "", spam,
			bulkhead.SenderFacet, ""},
		{"a known domain with an address that was reported",
			p(body(bulkhead.Exact, one), bank, from("eve@bank.example", two)), nil, "", spam, bulkhead.SenderFacet, ""},
		{"bulk from a known sender", p(part{scheme: bulkhead.Exact, name: "text", counts: seen}, bank), nil, "", bulk,
			noFacet, "bulk"},
		{"a known sender speaking for another", p(body(bulkhead.Exact, one),
			from("esp.example|brand.example", no.delivered(40))), nil, "", good, noFacet, ""},
		{"and beside one who is not known", p(body(bulkhead.Exact, one), from("esp.example|brand.example", no.delivered(40)),
			from("new.example|brand.example", no)), nil, "", spam, byText, ""},
		{"two who are known", p(body(bulkhead.Exact, one), from("esp.example|brand.example", no.delivered(40)),
			from("old.example|brand.example", no.delivered(40))), nil, "", good, noFacet, ""},
		{"and one who is not, beside the domain that wrote it", p(body(bulkhead.Exact, one), bank,
			from("new.example|bank.example", no)), nil, "", good, noFacet, ""},
		{"beside the address that wrote it", p(body(bulkhead.Exact, one), from("ann@bank.example", no.delivered(40)),
			from("new.example|bank.example", no)), nil, "", good, noFacet, ""},

		{"a mailing of a verified sender, reported once",
			p(body(bulkhead.Exact, Evidence{Votes: one.Votes, Own: Listed, New: 68}), from("news.example", Evidence{New: 68})),
			nil, "", unknown, noFacet, "seldom"},
		{"and twice", p(body(bulkhead.Exact, Evidence{Votes: two.Votes, Own: Listed, New: 68}),
			from("news.example", Evidence{New: 68})), nil, "", spam, byText, ""},
		{"of 10 copies, reported once", p(body(bulkhead.Exact, Evidence{Votes: one.Votes, Own: Listed, New: 10}),
			from("news.example", Evidence{New: 10})), nil, "", suspected, byText, "one voice against many"},
		{"of 10 copies, reported once and by a trap", p(body(bulkhead.Exact, Evidence{Votes: trapped.Votes, Own: Listed,
			New: 10}), from("news.example", Evidence{New: 10})), nil, "", spam, byText, "reported as spam"},
		{"of 9", p(body(bulkhead.Exact, Evidence{Votes: one.Votes, Own: Listed, New: 9}),
			from("news.example", Evidence{New: 9})), nil, "", spam, byText, ""},
		{"of 10, reported twice", p(body(bulkhead.Exact, Evidence{Votes: two.Votes, Own: Listed, New: 10}),
			from("news.example", Evidence{New: 10})), nil, "", spam, byText, ""},
		{"of 133, reported twice", p(body(bulkhead.Exact, Evidence{Votes: two.Votes, Own: Listed, New: 133}),
			from("news.example", Evidence{New: 133})), nil, "", spam, byText, ""},
		{"of 134, reported twice", p(body(bulkhead.Exact, Evidence{Votes: two.Votes, Own: Listed, New: 134}),
			from("news.example", Evidence{New: 134})), nil, "", unknown, noFacet, "seldom"},
		{"a sender known by this text alone", p(body(bulkhead.Exact, one.delivered(4)),
			from("new.example", no.delivered(6))), nil, "", spam, byText, "reported as spam"},
		{"and by three others", p(body(bulkhead.Exact, one.delivered(4)), from("new.example", no.delivered(7))), nil, "",
			unknown, noFacet, "is known"},
		{"and by fewer others than reported it", p(body(bulkhead.Exact, voted(4, 0).delivered(9)),
			from("new.example", no.delivered(12))), nil, "", spam, byText, "reported as spam"},
		{"of whom nobody was verified to be", p(body(bulkhead.Exact, Evidence{Votes: one.Votes, Own: Listed, New: 68})),
			nil, "", spam, byText, ""},

		// Shared domains.
		{"an unknown address at everybody's domain", p(body(bulkhead.Exact, one),
			from("freemail.example", shared(no.delivered(500))), from("eve@freemail.example", no)), nil, "", spam, byText, ""},
		{"a known address there", p(body(bulkhead.Exact, one), from("freemail.example", shared(no.delivered(500))),
			from("ann@freemail.example", no.delivered(5))), nil, "", unknown, noFacet, "ann@freemail.example"},
		{"and one known better", p(body(bulkhead.Exact, one), from("freemail.example", shared(no.delivered(500))),
			from("ann@freemail.example", no.delivered(10))), nil, "", good, noFacet, "ann@freemail.example"},
		{"everybody's domain condemns nobody", p(body(bulkhead.Exact, no),
			from("freemail.example", shared(voted(900, 0).delivered(500))), from("ann@freemail.example", no)), nil, "",
			unknown, noFacet, ""},
		{"an address whose mail claims many names condemns none of them", p(body(bulkhead.Exact, no),
			from("calendar.example", voted(20, 0).delivered(20)), from("no-reply@calendar.example",
				used(voted(20, 0).delivered(20), 5))), nil, "", unknown, noFacet, ""},
		{"and neither suspects them", p(body(bulkhead.Exact, no), from("calendar.example", one.delivered(9)),
			from("no-reply@calendar.example", used(one.delivered(9), 5))), nil, "", unknown, noFacet, ""},
		{"an address whose mail claims four does", p(body(bulkhead.Exact, no),
			from("calendar.example", voted(20, 0).delivered(20)), from("no-reply@calendar.example",
				used(voted(20, 0).delivered(20), 4))), nil, "", spam, bulkhead.SenderFacet, "calendar.example"},
		{"an address there does", p(body(bulkhead.Exact, no), from("freemail.example", shared(no.delivered(500))),
			from("eve@freemail.example", two)), nil, "", spam, bulkhead.SenderFacet, "eve@freemail.example"},
		{"a new address on a known list there", p(body(bulkhead.Exact, one),
			from("host.example", shared(no.delivered(500))), from("new@host.example", no),
			from("dev.host.example|host.example", no.delivered(10))), nil, "", good, noFacet, "dev.host.example|host.example"},
		{"a known address on a new list there", p(body(bulkhead.Exact, one),
			from("host.example", shared(no.delivered(500))), from("ann@host.example", no.delivered(10)),
			from("x.host.example|host.example", no)), nil, "", good, noFacet, "ann@host.example"},
		{"neither is known", p(body(bulkhead.Exact, one), from("host.example", shared(no.delivered(500))),
			from("eve@host.example", no), from("x.host.example|host.example", no)), nil, "", spam, byText, ""},
		{"a listed address on a known list", p(body(bulkhead.Exact, no), from("host.example", shared(no.delivered(500))),
			from("eve@host.example", two), from("dev.host.example|host.example", no.delivered(5))), nil, "", spam,
			bulkhead.SenderFacet, "eve@host.example"},
		{"a new list of a domain of one", p(body(bulkhead.Exact, one), from("one.example", no.delivered(10)),
			from("ann@one.example", no.delivered(1)), from("x.one.example|one.example", no)), nil, "", good, noFacet,
			"one.example"},
		{"many addresses at one that sends much", p(body(bulkhead.Exact, one),
			from("big.example", shared(no.delivered(5000))), from("old@big.example", no.delivered(1))), nil, "", good,
			noFacet, ""},
		{"a new address there earns nothing yet", p(body(bulkhead.Exact, one),
			from("big.example", shared(no.delivered(5000))), from("new@big.example", no)), nil, "", unknown, noFacet,
			"is known"},
		{"nor does the tenant of a platform", p(body(bulkhead.Exact, one), from("tenant.onmicrosoft.com", no.delivered(50)),
			from("ann@tenant.onmicrosoft.com", no.delivered(9))), nil, "", unknown, noFacet, "is known"},
		{"but an address there", p(body(bulkhead.Exact, one), from("tenant.onmicrosoft.com", no.delivered(50)),
			from("ann@tenant.onmicrosoft.com", no.delivered(10))), nil, "", good, noFacet, "is known"},

		// 4 to 6: parts.
		{"a link by two", p(body(bulkhead.Exact, no), link("evil.example", two)), nil, "", spam, byLink,
			"links to \"evil.example\": reported as spam by 2 of about 2 recipients"},
		{"a link by one", p(body(bulkhead.Exact, no), link("evil.example", one)), nil, "", suspected, byLink, "second voice"},
		{"and nobody was verified", p(body(bulkhead.Exact, no), link("evil.example", Evidence{Votes: one.Votes,
			Old: 2, New: 15}), network(no)), nil, "", spam, byLink, "reported as spam by 1 of"},
		{"on earlier days", p(body(bulkhead.Exact, no), link("evil.example", Evidence{Votes: one.Votes, Old: 3}),
			network(no)), nil, "", suspected, byLink, "second voice"},
		{"delivered more often", p(body(bulkhead.Exact, no), link("evil.example", one.delivered(18)), network(no)), nil,
			"", unknown, noFacet, ""},
		{"once from a known sender", p(body(bulkhead.Exact, no), link("evil.example", Evidence{Votes: one.Votes,
			Old: 1, Good: 1}), network(no)), nil, "", suspected, byLink, "second voice"},
		{"of a verified sender", p(body(bulkhead.Exact, no), link("evil.example", one.delivered(2)), from("new.example", no)),
			nil, "", spam, byLink, "reported as spam by 1 of"},
		{"of a verified sender, delivered more often", p(body(bulkhead.Exact, no), link("evil.example", one.delivered(3)),
			from("new.example", no)), nil, "", suspected, byLink, "second voice"},
		{"and it was revoked", p(body(bulkhead.Exact, no), link("evil.example", Evidence{Votes: one.Votes,
			Own: ListedRevoked}), network(no)), nil, "", unknown, noFacet, ""},
		{"from a network of other mail", p(body(bulkhead.Exact, no), link("evil.example", one), regular(0, 10)), nil, "",
			suspected, byLink, "second voice"},
		{"that everybody uses", p(body(bulkhead.Exact, no), link("docs.google.com", one), network(no)), nil, "", unknown,
			noFacet, ""},
		{"a place on it", p(body(bulkhead.Exact, no), link("docs.google.com/abcdefgh", one), network(no)), nil, "", spam,
			byLink, "docs.google.com/abcdefgh"},
		{"a picture by two", p(body(bulkhead.Exact, no), picture(two)), nil, "", spam, bulkhead.ImageFacet,
			"a picture that looks the same: reported as spam by 2"},
		{"a picture by one", p(body(bulkhead.Exact, no), picture(one)), nil, "", suspected, bulkhead.ImageFacet,
			"second voice"},
		{"a picture by two beside a text", message(nearly(no), p(picture(voted(2, 0)))), nil, "", suspected,
			bulkhead.ImageFacet, "a picture"},
		{"a picture by two that is often delivered", p(body(bulkhead.Exact, no), picture(two.delivered(200))), nil, "",
			unknown, noFacet, ""},
		{"a known sender with a reported picture", p(body(bulkhead.Exact, no), bank, picture(voted(9, 0))), nil, "", good,
			noFacet, "hardly ever reported"},
		{"a path by two", p(body(bulkhead.Exact, no), link("forms.example", no.delivered(900)),
			link("forms.example/abc", two)), nil, "", spam, byLink, "forms.example/abc"},
		{"a link by two that is often delivered", p(body(bulkhead.Exact, no), link("forms.example", two.delivered(200))),
			nil, "", unknown, noFacet, ""},
		{"a link that two reported and two denied", p(body(bulkhead.Exact, no), link("evil.example", voted(2, 2))), nil, "",
			unknown, noFacet, ""},
		{"the sender's own link", p(body(bulkhead.Exact, no), from("own.example", no), link("www.own.example/x", two),
			link("own.example", two)), nil, "", unknown, noFacet, ""},
		{"a link to another that ends alike", p(body(bulkhead.Exact, no), from("own.example", no),
			link("notown.example", voted(3, 0))), nil, "", spam, byLink, ""},
		{"a link to another that has one letter more", p(body(bulkhead.Exact, no), from("own.example", no),
			link("xown.example", voted(3, 0))), nil, "", spam, byLink, ""},
		{"a link to a host of the sender's with a short name", p(body(bulkhead.Exact, no), from("own.example", no),
			link("w.own.example", voted(3, 0))), nil, "", unknown, noFacet, ""},
		{"two links, of which the first is reported more", p(body(bulkhead.Exact, no), link("worse.example", voted(5, 0)),
			link("evil.example", two)), nil, "", spam, byLink, "worse.example"},
		{"two links, of which the second is reported more", p(body(bulkhead.Exact, no), link("evil.example", two),
			link("worse.example", voted(5, 0))), nil, "", spam, byLink, "worse.example"},
		{"a link by one and a trap, of nobody verified", p(body(bulkhead.Exact, no), link("evil.example", trapped)), nil,
			"", spam, byLink, "links to"},
		{"of a sender of whom nobody reported anything",
			p(body(bulkhead.Exact, no), from("new.example", no), link("evil.example", two.delivered(3))), nil, "", suspected,
			byLink, "never reported"},
		{"and often delivered", p(body(bulkhead.Exact, no), from("new.example", no),
			link("evil.example", Evidence{Own: Listed, Votes: trust.Balance{Spam: 370}}.delivered(100))), nil, "", suspected,
			byLink, "never reported"},
		{"and from three verified senders", p(body(bulkhead.Exact, no), from("new.example", no),
			link("evil.example", used(voted(6, 0).delivered(5), 3))), nil, "", suspected, byLink, "never reported"},
		{"by as many votes as that takes", p(body(bulkhead.Exact, no), from("new.example", no),
			link("evil.example", used(voted(7, 0).delivered(5), 3))), nil, "", spam, byLink, "links to"},
		{"a link by many that four unrelated senders use",
			p(body(bulkhead.Exact, no), link("docs.example", used(voted(9, 0), 4))), nil, "", spam, byLink, "links to"},
		{"and five", p(body(bulkhead.Exact, no), link("docs.example", used(voted(9, 0), 5))), nil, "", unknown, noFacet,
			""},
		{"and five, beside another listed link", p(body(bulkhead.Exact, no), link("docs.example", used(voted(9, 0), 5)),
			link("evil.example", two)), nil, "", spam, byLink, "evil.example"},
		{"of a sender who was reported", p(body(bulkhead.Exact, no), from("new.example", Evidence{Unblamed: 1}),
			link("evil.example", two.delivered(3))), nil, "", spam, byLink, "links to"},
		{"of a sender whom a peer lists", p(body(bulkhead.Exact, no),
			from("new.example", Evidence{Peers: Peers{Spam: 0.5}}), link("evil.example", two.delivered(3))), nil, "", spam,
			byLink, "links to"},
		{"everybody's domain owns no links", p(body(bulkhead.Exact, no), from("host.example", shared(no)),
			link("host.example/x", two)), nil, "", spam, byLink, ""},
		{"a sender by two", p(body(bulkhead.Exact, no), from("evil.example", two)), nil, "", spam, bulkhead.SenderFacet,
			"the sender \"evil.example\""},
		{"a sender by one", p(body(bulkhead.Exact, no), from("evil.example", one)), nil, "", suspected,
			bulkhead.SenderFacet, ""},
		{"a contact by two", p(body(bulkhead.Exact, no), part{scheme: bulkhead.Contact, name: "+15550100", Evidence: two}),
			nil, "", spam, bulkhead.ContactFacet, "+15550100"},
		{"a network by three", p(body(bulkhead.Exact, no), network(voted(3, 0))), nil, "", suspected, bulkhead.NetworkFacet,
			"the network \"192.0.2.0/24\": reported as spam by 3 of about 3 recipients; other senders share " +
				"the network, so it is suspected only"},
		{"a network by two", p(body(bulkhead.Exact, no), network(two)), nil, "", unknown, noFacet, ""},
		{"a network by three of eight deliveries", p(body(bulkhead.Exact, no), network(voted(3, 0).delivered(8))), nil, "",
			suspected, bulkhead.NetworkFacet, ""},
		{"a network by three of nine", p(body(bulkhead.Exact, no), network(voted(3, 0).delivered(9))), nil, "", unknown,
			noFacet, ""},
		{"a network by many, of which a sixteenth was reported",
			p(body(bulkhead.Exact, no), network(voted(60, 0).delivered(960))), nil, "", unknown, noFacet, ""},
		{"a network by three and denied by one", p(body(bulkhead.Exact, no), network(voted(3, 1))), nil, "", unknown,
			noFacet, ""},
		{"a network by five and denied by one", p(body(bulkhead.Exact, no), network(voted(5, 1))), nil, "", unknown,
			noFacet, ""},
		{"a network by six and denied by one", p(body(bulkhead.Exact, no), network(voted(6, 1))), nil, "", suspected,
			bulkhead.NetworkFacet, ""},
		{"a network by nine, with nine unflagged mails", p(body(bulkhead.Exact, no), unflagged(9)), nil, "",
			suspected, bulkhead.NetworkFacet, ""},
		{"with ten", p(body(bulkhead.Exact, no), unflagged(10)), nil, "", unknown, noFacet, ""},
		{"a network by nine, of whom nobody counts any more", p(body(bulkhead.Exact, no),
			part{scheme: bulkhead.Network, name: "192.0.2.0/24", Evidence: voted(9, 0), aged: true}), nil, "", unknown, noFacet,
			""},
		{"a network by many, and a verified sender", p(body(bulkhead.Exact, no), from("new.example", no),
			network(voted(9, 0))), nil, "", unknown, noFacet, ""},
		{"a claimed name by one", p(body(bulkhead.Exact, no),
			part{scheme: bulkhead.Claim, name: "examplebank", Evidence: one}), nil, "", suspected, bulkhead.ClaimFacet,
			"the name \"examplebank\""},
		{"a claimed name by many", p(body(bulkhead.Exact, no),
			part{scheme: bulkhead.Claim, name: "examplebank", Evidence: voted(99, 0)}), nil, "", suspected,
			bulkhead.ClaimFacet, ""},
		{"a claimed name that four unrelated senders use", p(body(bulkhead.Exact, no),
			part{scheme: bulkhead.Claim, name: "examplebank", Evidence: used(one, 4)}), nil, "", suspected,
			bulkhead.ClaimFacet, ""},
		{"a claimed name that five use", p(body(bulkhead.Exact, no),
			part{scheme: bulkhead.Claim, name: "examplebank", Evidence: used(one, 5)}), nil, "", unknown, noFacet, ""},
		{"a claimed name by one, of which much is delivered",
			p(body(bulkhead.Exact, no), part{scheme: bulkhead.Claim, name: "annexample", Evidence: one.delivered(17)}), nil,
			"", unknown, noFacet, ""},
		{"a claimed name, verified", p(body(bulkhead.Exact, no), from("exampie-bank.example", no),
			part{scheme: bulkhead.Claim, name: "exampiebank", Evidence: one}), nil, "", unknown, noFacet, ""},
		{"of another domain", p(body(bulkhead.Exact, no), from("bank-example.example", no),
			part{scheme: bulkhead.Claim, name: "exampiebank", Evidence: one}), nil, "", suspected, bulkhead.ClaimFacet, ""},
		{"of a domain too short to tell", p(body(bulkhead.Exact, no), from("exa.example", no),
			part{scheme: bulkhead.Claim, name: "exampiebank", Evidence: one}), nil, "", suspected, bulkhead.ClaimFacet, ""},
		{"of everybody's domain", p(body(bulkhead.Exact, no), from("exampiebank.example", shared(no)),
			part{scheme: bulkhead.Claim, name: "exampiebank", Evidence: one}), nil, "", suspected, bulkhead.ClaimFacet, ""},
		{"of a writer of a list", p(body(bulkhead.Exact, no), regular(0, 10),
			part{scheme: bulkhead.Claim, name: "exampiebank", Evidence: one}), nil, "", unknown, noFacet, ""},
		{"a claimed name of a known sender", p(body(bulkhead.Exact, no), bank,
			part{scheme: bulkhead.Claim, name: "paypai", Evidence: voted(9, 0)}), nil, "", good, noFacet, ""},
		{"a claimed name, from a regular sender", p(body(bulkhead.Exact, no), from("office.example", one.delivered(3)),
			part{scheme: bulkhead.Claim, name: "annexample", Evidence: one}), nil, "", unknown, noFacet, ""},
		{"from one of one day", p(body(bulkhead.Exact, no), from("office.example", Evidence{Old: 9, Days: 1}),
			part{scheme: bulkhead.Claim, name: "annexample", Evidence: one}), nil, "", suspected, bulkhead.ClaimFacet, ""},
		{"a regular sender by one", p(body(bulkhead.Exact, no), from("office.example", one.delivered(3))), nil, "", unknown,
			noFacet, ""},
		{"a sender of two mails by one", p(body(bulkhead.Exact, no), from("office.example", one.delivered(2))), nil, "",
			suspected, bulkhead.SenderFacet, ""},
		{"a regular sender by two", p(body(bulkhead.Exact, no), from("office.example", two.delivered(3))), nil, "", suspected,
			bulkhead.SenderFacet, "until more voices call it spam"},
		{"a regular sender by three", p(body(bulkhead.Exact, no), from("office.example", voted(3, 0).delivered(25))), nil, "",
			spam, bulkhead.SenderFacet, ""},
		{"and one mail more", p(body(bulkhead.Exact, no), from("office.example", voted(3, 0).delivered(26))), nil, "",
			suspected, bulkhead.SenderFacet, ""},
		{"a sender of two mails by two", p(body(bulkhead.Exact, no), from("office.example", two.delivered(2))), nil, "", spam,
			bulkhead.SenderFacet, ""},
		{"a regular sender by one and a trap, with much mail", p(body(bulkhead.Exact, no), from("office.example",
			trapped.delivered(29))), nil, "", suspected, bulkhead.SenderFacet, ""},
		{"mark-up by many", p(body(bulkhead.Exact, no), part{scheme: bulkhead.Markup, name: "m", Evidence: voted(9, 0)}),
			nil, "", unknown, noFacet, ""},

		// 7: changed copies.
		{"a changed copy by one", nearly(one), nil, "", suspected, byText, "a changed copy is suspected"},
		{"a changed copy by two", nearly(two), nil, "", spam, byText, "2 bands"},
		{"a changed copy by one and a trap", nearly(trapped), nil, "", spam, byText, "2 bands"},
		{"by one and a trap, often delivered, with two contexts", nearly(several(trapped.delivered(45))), nil, "", spam,
			byText, "several senders or links"},
		{"by one and a trap, as often delivered as that outweighs", nearly(trapped.delivered(45)), nil, "", spam, byText, ""},
		{"and once more", nearly(several(trapped.delivered(46))), nil, "", suspected, byText, "often delivered"},
		{"by two, but often delivered", nearly(two.delivered(61)), nil, "", suspected, byText, "often delivered"},
		{"by two, as often delivered today as that outweighs",
			nearly(Evidence{Votes: two.Votes, Own: Listed, New: 200}), nil, "", spam, byText, "2 bands"},
		{"and once more today", nearly(Evidence{Votes: two.Votes, Own: Listed, New: 201}), nil, "", suspected, byText,
			"often delivered"},
		{"by two peers, as often delivered as that outweighs", nearly(Evidence{Peers: Peers{Spam: 2}}.delivered(60)), nil, "",
			spam, byText, "2 bands"},
		{"by two peers, and once more", nearly(Evidence{Peers: Peers{Spam: 2}}.delivered(61)), nil, "", suspected, byText,
			"often delivered"},
		{"by two, with two contexts", nearly(several(two.delivered(41))), nil, "", spam, byText, "several senders or links"},
		{"by one, and nobody answers for it", append(nearly(one), network(no)), nil, "", spam, byText,
			"no sender of this one was verified"},
		{"by one, from a network of ten other mails", append(nearly(one), regular(0, 10)), nil, "", suspected, byText,
			"regularly sends other mail"},
		{"of nine", append(nearly(one), regular(0, 9)), nil, "", spam, byText, "no sender of this one was verified"},
		{"of 22, of which one was reported", append(nearly(one), regular(1, 22)), nil, "", suspected, byText, ""},
		{"of 21", append(nearly(one), regular(1, 21)), nil, "", spam, byText, ""},
		{"of mails of today", append(nearly(one), network(Evidence{Good: 99, New: 99})), nil, "", spam, byText, ""},
		{"of mails of the evening before", append(nearly(one), network(Evidence{Good: 99, Old: 99, Late: 99, Days: 1})), nil,
			"", spam, byText, ""},
		{"of mails that were flagged", append(nearly(one), network(Evidence{Good: 9}.delivered(99))), nil, "", spam, byText,
			""},
		{"by two, from a network of other mails", append(nearly(two), regular(0, 99)), nil, "", spam, byText, "2 bands"},
		{"by two, from a network and with a link of unreported mail", like(several(two), no.delivered(1), no.delivered(1)),
			nil, "", suspected, byText, "delivered on earlier days"},
		{"by one", like(one, no.delivered(1), no.delivered(1)), nil, "", suspected, byText, "delivered on earlier days"},
		{"and with a sender of unreported mail", append(like(several(two), no.delivered(1), no.delivered(1)),
			from("small.example", no.delivered(1))), nil, "", suspected, byText, "delivered on earlier days"},
		{"and with a sender that was reported", append(like(several(two), no.delivered(1), no.delivered(1)),
			from("small.example", Evidence{Unblamed: Unit}.delivered(1))), nil, "", spam, byText, ""},
		{"and with a sender that was never seen", append(like(several(two), no.delivered(1), no.delivered(1)),
			from("small.example", no)), nil, "", spam, byText, ""},
		{"reported more often than delivered before", message(nearly(two.delivered(1)), like(no, no.delivered(1),
			no.delivered(1))[20:]), nil, "", spam, byText, "2 bands"},
		{"with one more link, of no mail", append(like(two, no.delivered(1), no.delivered(1)), evil), nil, "", spam, byText,
			"2 bands"},
		{"with one more link, that all use", append(like(two, no.delivered(1), no.delivered(1)), link("bit.ly",
			Evidence{Unblamed: Unit})), nil, "", suspected, byText, ""},
		{"with one that all use, and none else", message(nearly(two.delivered(2)), p(network(no.delivered(1)),
			link("bit.ly", no.delivered(1)))), nil, "", spam, byText, "2 bands"},
		{"with a place on a platform, of no mail", append(like(two, no.delivered(1), no.delivered(1)), link("bit.ly/x", no)),
			nil, "", spam, byText, "2 bands"},
		{"with no link", message(nearly(two.delivered(2)), p(network(no.delivered(1)))), nil, "", spam, byText, "2 bands"},
		{"with a link that was reported", like(two, no.delivered(1), Evidence{Unblamed: Unit}.delivered(40)), nil, "", spam,
			byText, "2 bands"},
		{"with a link that a peer lists", like(two, no.delivered(1), Evidence{Peers: Peers{Spam: 0.1}}.delivered(40)), nil,
			"", spam, byText, "2 bands"},
		{"with a link of today", like(two, no.delivered(1), Evidence{New: 9}), nil, "", spam, byText, "2 bands"},
		{"with a link of the evening before", like(two, no.delivered(1), Evidence{Old: 9, Late: 9, Days: 1}), nil, "", spam,
			byText, "2 bands"},
		{"from a network of today", like(two, Evidence{New: 9}, no.delivered(1)), nil, "", spam, byText, "2 bands"},
		{"from a network that was reported", like(two, regular(1, 9).Evidence, no.delivered(1)), nil, "", spam, byText,
			"2 bands"},
		{"and exactly the reported text", p(body(bulkhead.Exact, one), network(no.delivered(1)), link("shop.example",
			no.delivered(1))), nil, "", spam, byText, "reported as spam"},
		{"by one, and an unknown sender does", message(nearly(one), p(from("new.example", no), network(no))), nil, "",
			suspected, byText, ""},
		{"by two, and only links of its unreported sender",
			message(nearly(several(two)), p(from("new.example", no.delivered(1)), link("new.example", no))), nil, "", suspected,
			byText, ""},
		{"and nobody has seen that sender", message(nearly(several(two)),
			p(from("new.example", no), link("new.example", no))), nil, "", spam, byText, "several senders or links"},
		{"by two, from a sender that was reported", message(nearly(two), p(from("new.example", Evidence{Unblamed: Unit}))),
			nil, "", spam, byText, ""},
		{"by two, and a link of another", message(nearly(several(two)),
			p(from("new.example", no), link("other.example", no))), nil, "", spam, byText, "several senders or links"},
		{"by one, of 30 deliveries", append(nearly(one.delivered(30)), network(no)), nil, "", spam, byText,
			"no sender of this one was verified"},
		{"by one, of more", append(nearly(one.delivered(31)), network(no)), nil, "", suspected, byText, ""},
		{"by one, while known senders send it", message(nearly(one), p(body(bulkhead.PyzorDigest, sent(no, 1)),
			network(no))), nil, "", suspected, byText, ""},
		{"by one, with two contexts", nearly(several(one)), nil, "", suspected, byText, ""},
		{"by two, while known senders send it", message(nearly(two), p(body(bulkhead.PyzorDigest, sent(no, 1)))), nil, "",
			suspected, byText, "known senders"},
		{"by one with its sender", message(nearly(one), p(from("evil.example", no))), paired("evil.example", two), "", spam,
			byText, "from this sender"},
		{"by one with its link", message(nearly(one), p(evil)), paired("evil.example", two), "", spam, byText,
			"one of its links"},
		{"by one with its link, once, and by a trap", message(nearly(one), p(evil)), paired("evil.example", trapped), "",
			spam, byText, "one of its links"},
		{"by one with its link, once", message(nearly(one), p(evil)), paired("evil.example", one), "", suspected, byText, ""},
		{"by one with its link, and wanted from its sender", message(nearly(one), p(from("ann.example", no), evil)),
			map[string]Evidence{"ann.example": voted(0, 1), "evil.example": two}, "", spam, byText, "one of its links"},
		{"wanted from this sender", message(nearly(two), p(from("ann.example", no))), paired("ann.example", voted(0, 1)),
			"", good, noFacet, "wanted"},
		{"an exact copy, wanted from this sender", p(body(bulkhead.Exact, two), from("ann.example", no)),
			paired("ann.example", voted(0, 1)), "", good, noFacet, "wanted"},
		{"half wanted from this sender", message(nearly(two), p(from("ann.example", no))),
			paired("ann.example", Evidence{Votes: trust.Balance{Ham: Unit / 2}}), "", good, noFacet, "wanted"},
		{"less than half", message(nearly(two), p(from("ann.example", no))),
			paired("ann.example", Evidence{Votes: trust.Balance{Ham: Unit/2 - 1}}), "", suspected, byText, ""},
		{"with links that known senders send", message(nearly(two),
			p(link("shop.example", wellSent(9)), link("shop.example/a", wellSent(9)))), nil, "", unknown, noFacet,
			"all its links"},
		{"with a link of three deliveries from known senders",
			message(nearly(two), p(link("shop.example", wellSent(3)))), nil, "", unknown, noFacet, "all its links"},
		{"with a link of ten deliveries, two of them from known senders",
			message(nearly(two), p(link("shop.example", sent(no.delivered(10), 2)))), nil, "", spam, byText, ""},
		{"with links of its own, delivered for days", message(nearly(two),
			p(link("shop.example", no.delivered(9)), link("shop.example/a", no.delivered(9)))), nil, "", spam, byText, ""},
		{"with one that is not", message(nearly(two), p(link("shop.example", wellSent(9)), evil)), nil, "", spam, byText, ""},
		{"with a known link and an unknown one of the sender's",
			message(nearly(two), p(from("evil.example", no), evil, link("shop.example", wellSent(9)))), nil, "", spam, byText,
			""},
		{"with links that are known less than the text is reported",
			message(nearly(voted(10, 0)), p(link("shop.example", wellSent(9)))), nil, "", spam, byText, ""},
		{"a listing by a peer", nearly(Evidence{Peers: Peers{Spam: 1}}), nil, "", suspected, byText, ""},
		{"listings by two", nearly(Evidence{Peers: Peers{Spam: 2}}), nil, "", spam, byText, ""},
		{"another digest of a changed copy", p(body(bulkhead.Exact, no), body(bulkhead.PyzorDigest, one)), nil, "",
			suspected, byText, ""},
		{"a checksum of the same text", p(body(bulkhead.Exact, no), body(bulkhead.DCCBody, one)), nil, "", spam, byText, ""},
		{"a checksum of the same text, wanted from this sender",
			p(body(bulkhead.Exact, no), body(bulkhead.DCCBody, one), from("ann.example", no)),
			paired("ann.example", voted(0, 1)), "", good, noFacet, "wanted"},
		{"a checksum of a text that was revoked", p(body(bulkhead.Exact, voted(1, 1)), body(bulkhead.DCCBody, one)), nil,
			"", suspected, byText, ""},
		{"revoked", p(body(bulkhead.Exact, voted(1, 1))), nil, "", unknown, noFacet, "was revoked"},
		{"revoked text, listed link", p(body(bulkhead.Exact, voted(1, 1)), link("evil.example", two)), nil, "", spam,
			byLink, "links to"},

		// Digests alone.
		{"a digest by one", p(body(bulkhead.PyzorDigest, one)), nil, "", spam, byText, "reported as spam"},
		{"that two known senders sent", p(body(bulkhead.PyzorDigest, sent(one, 2))), nil, "", spam, byText, ""},
		{"that three known senders sent", p(body(bulkhead.PyzorDigest, sent(one, 3))), nil, "", unknown, noFacet,
			"known senders"},
		{"with a claimed address", p(body(bulkhead.DCCBody, one), part{scheme: bulkhead.DCCIP, name: "ip", Evidence: no}),
			nil, "", spam, byText, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v, out, asked := judge(tt.parts, tt.pairs, tt.white)
			if v.Class != tt.class || out.By != tt.by {
				t.Errorf("class %v by %v, want %v by %v; %q", v.Class, out.By, tt.class, tt.by, v.Reasons)
			}
			if !strings.Contains(strings.Join(v.Reasons, "\n"), tt.reason) {
				t.Errorf("reasons %q, want %q among them", v.Reasons, tt.reason)
			}
			if asked > 1 {
				t.Errorf("pairs were asked for %d times, want once at most", asked)
			}
			agree(t, &v)
			// The place of a signature in the message does not matter.
			for i := range tt.parts {
				turned, by, _ := judge(slices.Concat(tt.parts[i:], tt.parts[:i]), tt.pairs, tt.white)
				if turned.Class != tt.class || by.By != tt.by || turned.Confidence != v.Confidence ||
					by.SenderGood != out.SenderGood || by.History != out.History {
					t.Errorf("with part %d first: class %v by %v, confidence %d, %+v, want %v by %v, %d, %+v", i, turned.Class, by.By,
						turned.Confidence, by, tt.class, tt.by, v.Confidence, out)
				}
			}
		})
	}
}

// agree checks what holds for every verdict.
func agree(t interface {
	Helper()
	Errorf(string, ...any)
}, v *bulkhead.Verdict) {
	t.Helper()
	spam := v.Class == bulkhead.ClassSpam
	if v.Spam() != spam || spam && v.Confidence < leastSpam {
		t.Errorf("class %v, but Spam is %v, confidence %d", v.Class, v.Spam(), v.Confidence)
	}
	if s := v.Class == bulkhead.ClassSuspected; s && (v.Confidence < leastSuspected || v.Confidence > mostSuspected) {
		t.Errorf("suspected with confidence %d, want %d to %d", v.Confidence, leastSuspected, mostSuspected)
	}
	if v.Whitelisted == "" && v.Class < bulkhead.ClassSuspected && v.Confidence >= leastSuspected {
		t.Errorf("class %v with confidence %d", v.Class, v.Confidence)
	}
	reasons := "\n" + strings.Join(v.Reasons, "\n") + "\n"
	seen := "\nseen " + times(v.Sightings)
	if strings.Contains(reasons, "\nseen ") != (v.Sightings > 0) || v.Sightings > 0 && !strings.Contains(reasons, seen) {
		t.Errorf("%d sightings, but the reasons are%s", v.Sightings, reasons)
	}
	for by, n := range map[string]uint32{"spam by ": v.SpamVotes, "wanted by ": v.HamVotes} {
		if n > 0 && !strings.Contains(reasons, by+plural(n, "voter")) {
			t.Errorf("%d votes %q, but the reasons are%s", n, by, reasons)
		}
	}
}

// TestPairsAreLazy: pairs are looked up only if a text is listed, or is bulk from a known sender.
func TestPairsAreLazy(t *testing.T) {
	parts := []part{body(bulkhead.Exact, Evidence{}), from("evil.example", voted(2, 0)), link("evil.example", voted(2, 0))}
	if _, _, asked := judge(parts, nil, ""); asked != 0 {
		t.Errorf("pairs of a text that is not listed were asked for %d times", asked)
	}
	many := part{scheme: bulkhead.Exact, name: "text", counts: bulkhead.Finding{Sightings: 50}}
	if _, _, asked := judge([]part{many, from("new.example", Evidence{})}, nil, ""); asked != 0 {
		t.Errorf("pairs of bulk of a sender whom nobody knows were asked for %d times", asked)
	}
}

// TestImmature: on a node without known senders, links and contacts, which others also put into
// mail, decide nothing by themselves; the sender and the attachments do.
func TestImmature(t *testing.T) {
	two, no := voted(2, 0), Evidence{}
	for _, tt := range []struct {
		name  string
		parts []part
		pairs map[string]Evidence
		want  bulkhead.Class
	}{
		{"a link", []part{body(bulkhead.Exact, no), link("evil.example", two)}, nil, bulkhead.ClassUnknown},
		{"a contact", []part{body(bulkhead.Exact, no), {scheme: bulkhead.Contact, name: "tel:15550100", Evidence: two}},
			nil, bulkhead.ClassUnknown},
		{"a sender", []part{body(bulkhead.Exact, no), from("evil.example", two)}, nil, bulkhead.ClassSpam},
		{"an attachment", []part{body(bulkhead.Exact, no),
			{scheme: bulkhead.Attachment, name: "01234567890123456789", Evidence: two}}, nil, bulkhead.ClassSpam},
		{"a changed copy for which nobody answers", append(nearly(voted(1, 0)), network(no)), nil, bulkhead.ClassSuspected},
		{"a network", []part{body(bulkhead.Exact, no), network(voted(9, 0))}, nil, bulkhead.ClassUnknown},
		{"a text with its link", append(nearly(voted(1, 0)), link("evil.example", two)),
			map[string]Evidence{"evil.example": two}, bulkhead.ClassSpam},
	} {
		if v, _, _ := judgeBy(Policy{Promotion: 1, NearMatch: 2}, tt.parts, tt.pairs, ""); v.Class != tt.want {
			t.Errorf("%s: class %v, want %v; %q", tt.name, v.Class, tt.want, v.Reasons)
		}
	}
	for _, tt := range []struct {
		old, new, senders uint32
		days              int
		want              bool
	}{
		{199, 0, 100, 5, false}, {200, 0, 200, 1, false}, {200, 0, 200, 2, true}, {20, 0, 10, 2, true}, {20, 0, 11, 2, false},
		{20, 2, 11, 2, true}, {19, 5, 1, 2, false}, {20, 0, 1, 1, false},
	} {
		e := Evidence{Old: tt.old, New: tt.new, Addresses: tt.senders, Days: tt.days}
		if got := Mature(&e); got != tt.want {
			t.Errorf("%+v: mature %v, want %v", tt, got, tt.want)
		}
	}
}

// TestFreshLinkAfterMidnight checks what copies of a campaign weigh before and after the end of a day: three
// copies of today, or of the evening before, leave its link to one vote. Three older copies do not.
func TestFreshLinkAfterMidnight(t *testing.T) {
	at := Policy{Promotion: 1, NearMatch: 2, Mature: true}
	text := part{scheme: bulkhead.Exact, name: "text"}
	for _, tt := range []struct {
		old, late, today uint32
		want             bulkhead.Class
	}{
		{0, 0, 3, bulkhead.ClassSpam}, {2, 0, 15, bulkhead.ClassSpam}, {3, 3, 0, bulkhead.ClassSpam},
		{17, 17, 0, bulkhead.ClassSpam},
		{5, 3, 12, bulkhead.ClassSpam}, {5, 3, 13, bulkhead.ClassSuspected},
		{3, 0, 0, bulkhead.ClassSuspected}, {6, 3, 0, bulkhead.ClassSuspected},
	} {
		e := voted(1, 0)
		e.Old, e.Late, e.New, e.Own = tt.old, tt.late, tt.today, Nothing
		v, _, _ := judgeBy(at, []part{text, network(Evidence{}), link("fresh.example", e)}, nil, "")
		if v.Class != tt.want {
			t.Errorf("%d earlier copies, %d of them late, and %d of today: %v by %s, want %v", tt.old, tt.late, tt.today,
				v.Class, v.Rule, tt.want)
		}
	}
}

// TestVouched checks what deliveries at peers do for changed copies of a text that two votes list: no more than one
// delivery of an earlier day here. They excuse no part that was reported.
func TestVouched(t *testing.T) {
	var no Evidence
	two := Evidence{Votes: trust.Balance{Spam: 2 * Unit}, Own: Listed, Contexts: 2}.delivered(2)
	copyWith := func(parts ...part) []part { return append(nearly(two), parts...) }
	shop, net := link("shop.example", no), network(no)
	reported := link("shop.example", Evidence{Unblamed: Unit})
	for _, tt := range []struct {
		name  string
		parts []part
		known []string
		class bulkhead.Class
	}{
		{"nothing", copyWith(shop, net), nil, bulkhead.ClassSpam},
		{"its link alone", copyWith(shop, net), []string{"shop.example"}, bulkhead.ClassSpam},
		{"its network alone", copyWith(shop, net), []string{"192.0.2.0/24"}, bulkhead.ClassSpam},
		{"both", copyWith(shop, net), []string{"shop.example", "192.0.2.0/24"}, bulkhead.ClassSuspected},
		{"both, and the link was reported", copyWith(reported, net), []string{"shop.example", "192.0.2.0/24"},
			bulkhead.ClassSpam},
		{"no sender", copyWith(from("new.example", no)), nil, bulkhead.ClassSpam},
		{"its sender", copyWith(from("new.example", no)), []string{"new.example"}, bulkhead.ClassSuspected},
		{"its sender, which was reported", copyWith(from("new.example", Evidence{Unblamed: Unit})),
			[]string{"new.example"}, bulkhead.ClassSpam},
	} {
		vouched := make(map[string]bool)
		for _, name := range tt.known {
			vouched[name] = true
		}
		v, _, _ := judgeWith(Policy{Promotion: 1, NearMatch: 2, Mature: true}, tt.parts, &pairVotes{vouched: vouched}, "")
		if v.Class != tt.class {
			t.Errorf("peers know %s: %v by %s, want %v", tt.name, v.Class, v.Rule, tt.class)
		}
	}
}
