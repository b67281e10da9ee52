package verdict

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/trust"
)

// drawEvidence draws possible evidence of a signature. The state in the node's own blocklist
// follows from the votes, as the writer maintains it.
func drawEvidence(t *rapid.T, f bulkhead.Facet) Evidence {
	votes := func(name string) int64 {
		return rapid.SampledFrom([]int64{0, 0, 0, 50, 100, 200, 300, 2000}).Draw(t, name)
	}
	few := func(name string) uint32 {
		return rapid.SampledFrom([]uint32{0, 0, 1, 3, 9, 40, 200, 3000}).Draw(t, name)
	}
	e := Evidence{
		Votes: trust.Balance{Spam: votes("spam"), Ham: votes("ham"), StrangerSpam: votes("strangers"),
			StrangerHam: votes("strangers against")},
		Old: few("old"), New: few("new"), Days: rapid.IntRange(0, 9).Draw(t, "days"),
		Good: rapid.Uint32Range(0, 4).Draw(t, "good"), Addresses: rapid.SampledFrom([]uint32{0, 0, 5, 500}).Draw(t,
			"addresses"),
		Contexts: rapid.Uint32Range(0, 3).Draw(t, "contexts"),
		Peers:    Peers{Spam: rapid.SampledFrom([]float64{0, 0, 0, 0.5, 1}).Draw(t, "peers")},
	}
	e.Late = e.Old / rapid.SampledFrom([]uint32{1 << 20, 1, 2}).Draw(t, "late") // most draws have none
	e.settle(f)
	return e
}

// settle makes of the votes what the writer makes of them in the blocklist.
func (e *Evidence) settle(f bulkhead.Facet) {
	p := Policy{Promotion: 1, NearMatch: 2}
	e.Own = Nothing
	switch alone := (Evidence{Votes: e.Votes, Old: e.Old, New: e.New, Late: e.Late}); {
	case p.Lists(f, &alone):
		e.Own = Listed
	case e.Votes.Ham > 0 && e.Votes.Spam > 0:
		e.Own = ListedRevoked
	}
}

// drawMessage draws a message with text, and perhaps sender, links and the rest.
func drawMessage(t *rapid.T) ([]part, map[string]Evidence) {
	var parts []part
	add := func(scheme bulkhead.Scheme, name string) {
		if rapid.Bool().Draw(t, name) {
			parts = append(parts, part{scheme: scheme, name: name, Evidence: drawEvidence(t, scheme.Facet())})
		}
	}
	for i := range 3 {
		add(bulkhead.Near, fmt.Sprint("band", i))
	}
	add(bulkhead.PyzorDigest, "digest")
	add(bulkhead.Sender, "own.example")
	add(bulkhead.Sender, "ann@own.example")
	add(bulkhead.Link, "own.example")
	add(bulkhead.Link, "other.example")
	add(bulkhead.Link, "other.example/abc")
	add(bulkhead.Attachment, "attachment")
	add(bulkhead.Contact, "+15550100")
	add(bulkhead.Image, "picture")
	add(bulkhead.Network, "192.0.2.0/24")
	// With it, the message is more than digests.
	parts = append(parts, part{scheme: bulkhead.Exact, name: "text", Evidence: drawEvidence(t, bulkhead.TextFacet)})
	pairs := make(map[string]Evidence)
	for _, name := range []string{"own.example", "ann@own.example", "other.example"} {
		if rapid.Bool().Draw(t, "pair "+name) {
			pairs[name] = drawEvidence(t, bulkhead.NoFacet)
		}
	}
	return parts, pairs
}

// badness orders the classes. Good and unknown rank alike, because neither is refused: whether a
// text is wanted is looked up only while it is listed.
func badness(c bulkhead.Class) int {
	return [bulkhead.NumClasses]int{bulkhead.ClassBulk: 1, bulkhead.ClassSuspected: 2, bulkhead.ClassSpam: 3}[c]
}

// TestMoreHamIsNeverWorse: whatever a root's ham vote falls on.
func TestMoreHamIsNeverWorse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts, pairs := drawMessage(t)
		at := drawStep(t)
		before, _, _ := at.judge(parts, pairs, "")
		agree(t, &before)
		i := rapid.IntRange(0, len(parts)-1).Draw(t, "of")
		units := rapid.SampledFrom([]int64{50, 100, 500}).Draw(t, "ham weight")
		parts[i].Votes.Ham += units
		parts[i].settle(parts[i].scheme.Facet())
		for name, e := range pairs {
			if rapid.Bool().Draw(t, "with "+name) {
				e.Votes.Ham += units
				e.settle(bulkhead.NoFacet)
				pairs[name] = e
			}
		}
		after, _, _ := at.judge(parts, pairs, "")
		if badness(after.Class) > badness(before.Class) {
			t.Fatalf("%v became %v: %q, before %q", before.Class, after.Class, after.Reasons, before.Reasons)
		}
	})
}

// TestStrangersDecideNothing: without them a verdict is the same, spam or not.
func TestStrangersDecideNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts, pairs := drawMessage(t)
		at := drawStep(t)
		for i := range parts {
			parts[i].Votes.Spam, parts[i].Peers = 0, Peers{}
			parts[i].settle(parts[i].scheme.Facet())
		}
		for name, e := range pairs {
			e.Votes.Spam, e.Peers = 0, Peers{}
			e.settle(bulkhead.NoFacet)
			pairs[name] = e
		}
		v, _, _ := at.judge(parts, pairs, "")
		if badness(v.Class) >= badness(bulkhead.ClassSuspected) {
			t.Fatalf("strangers alone made a message %v: %q", v.Class, v.Reasons)
		}
	})
}

// TestStrangersTakeNothingOff: what roots made spam stays so whatever strangers say.
func TestStrangersTakeNothingOff(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts, pairs := drawMessage(t)
		at := drawStep(t)
		for i := range parts {
			parts[i].Votes.StrangerSpam, parts[i].Votes.StrangerHam = 0, 0
			parts[i].settle(parts[i].scheme.Facet())
		}
		for name, e := range pairs {
			e.Votes.StrangerSpam, e.Votes.StrangerHam = 0, 0
			pairs[name] = e
		}
		before, _, _ := at.judge(parts, pairs, "")
		for i := range parts {
			parts[i].Votes.StrangerHam = 1e6
		}
		for name, e := range pairs {
			e.Votes.StrangerHam = 1e6
			pairs[name] = e
		}
		after, _, _ := at.judge(parts, pairs, "")
		if badness(before.Class) >= badness(bulkhead.ClassSuspected) && badness(after.Class) < badness(before.Class) {
			t.Fatalf("strangers made %v %v: %q, before %q", before.Class, after.Class, after.Reasons, before.Reasons)
		}
	})
}

// TestEstablishedSender: a sender of good standing never makes a message's class worse.
func TestEstablishedSender(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts, pairs := drawMessage(t)
		at := drawStep(t)
		parts = slices.DeleteFunc(parts, func(p part) bool { return p.scheme == bulkhead.Sender })
		before, _, _ := at.judge(parts, pairs, "")
		n := rapid.SampledFrom([]uint32{3, 9, 300}).Draw(t, "deliveries")
		delete(pairs, "own.example")
		after, _, _ := at.judge(append(parts, from("own.example", Evidence{Old: n, Days: 3})), pairs, "")
		if badness(after.Class) > badness(before.Class) {
			t.Fatalf("%v became %v: %q, before %q", before.Class, after.Class, after.Reasons, before.Reasons)
		}
	})
}

// TestListedLink: an additional listed link never makes a message's class better.
func TestListedLink(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts, pairs := drawMessage(t)
		at := drawStep(t)
		before, _, _ := at.judge(parts, pairs, "")
		e := Evidence{}.delivered(rapid.SampledFrom([]int{0, 5, 90}).Draw(t, "deliveries"))
		least := int(math.Ceil(Need(bulkhead.LinkFacet, &e)))
		e = voted(rapid.IntRange(least, 40).Draw(t, "votes"), 0).delivered(int(e.Old))
		name := rapid.SampledFrom([]string{"evil.example", "own.example/evil"}).Draw(t, "link")
		after, _, _ := at.judge(append(parts, link(name, e)), pairs, "")
		if badness(after.Class) < badness(before.Class) {
			t.Fatalf("%v became %v: %q, before %q", before.Class, after.Class, after.Reasons, before.Reasons)
		}
	})
}

// TestNetworkAloneNeverCondemns: whatever is known of a network, it makes no message spam.
func TestNetworkAloneNeverCondemns(t *testing.T) {
	condemnsNever(t, func(t *rapid.T) part { return network(drawEvidence(t, bulkhead.NetworkFacet)) })
}

// TestCommonPartNeverCondemns: whatever else is known of a link, a file or a contact that five or more unrelated
// senders use, it makes no message spam.
func TestCommonPartNeverCondemns(t *testing.T) {
	for _, scheme := range []bulkhead.Scheme{bulkhead.Link, bulkhead.Attachment, bulkhead.Contact} {
		condemnsNever(t, func(t *rapid.T) part {
			e := drawEvidence(t, scheme.Facet())
			e.Addresses = rapid.Uint32Range(5, 5000).Draw(t, "senders")
			e.Old, e.Late, e.Days = max(e.Old, 5), 0, max(e.Days, 2)
			return part{scheme: scheme, name: "docs.example", Evidence: e}
		})
	}
}

// TestCommonAtPeers: a link that is common only together with the senders that peers know is judged as
// one that is common here.
func TestCommonAtPeers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts, pairs := drawMessage(t)
		at := drawStep(t)
		parts = slices.DeleteFunc(parts, func(p part) bool { return p.name == "docs.example" })
		e := drawEvidence(t, bulkhead.LinkFacet)
		e.Addresses = rapid.Uint32Range(0, 4).Draw(t, "senders here")
		n := rapid.Uint32Range(0, 9).Draw(t, "senders in all")
		far, _, _ := judgeWith(at.policy, append(parts, link("docs.example", e)), &pairVotes{votes: pairs,
			senders: map[string]uint32{"docs.example": n}}, "")
		e.Addresses = max(e.Addresses, n)
		here, _, _ := at.judge(append(parts, link("docs.example", e)), pairs, "")
		if far.Class != here.Class || far.Rule != here.Rule || !slices.Equal(far.Reasons, here.Reasons) {
			t.Fatalf("%v by %s: %q; with the senders here %v by %s: %q", far.Class, far.Rule, far.Reasons, here.Class,
				here.Rule, here.Reasons)
		}
	})
}

// condemnsNever checks that votes and lists that are about one part alone make no message spam.
func condemnsNever(t *testing.T, draw func(*rapid.T) part) {
	rapid.Check(t, func(t *rapid.T) {
		parts, pairs := drawMessage(t)
		at := drawStep(t)
		x := draw(t)
		x.Votes.Spam += 300
		x.settle(x.scheme.Facet())
		parts = slices.DeleteFunc(parts, func(p part) bool { return p.scheme == x.scheme && p.name == x.name })
		for i := range parts {
			parts[i].Votes.Spam, parts[i].Peers = 0, Peers{}
			parts[i].settle(parts[i].scheme.Facet())
		}
		for name, e := range pairs {
			e.Votes.Spam, e.Peers = 0, Peers{}
			e.settle(bulkhead.NoFacet)
			pairs[name] = e
		}
		if v, _, _ := at.judge(append(parts, x), pairs, ""); v.Class == bulkhead.ClassSpam {
			t.Fatalf("spam: %q", v.Reasons)
		}
	})
}

// TestWhitelistWins: whatever was reported, a whitelisted message is good, and the whitelist decided.
func TestWhitelistWins(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts, pairs := drawMessage(t)
		if v, _, _ := drawStep(t).judge(parts, pairs, "sender x"); v.Class != bulkhead.ClassGood ||
			v.Rule != string(byWhitelist) {
			t.Fatalf("%v by %s: %q", v.Class, v.Rule, v.Reasons)
		}
	})
}

// TestOneVoteSparesTheEstablished: no single vote on each of its parts makes a message spam whose sender is
// of good standing and whose other parts were delivered for days. The text may be new. Eight votes that name
// text and sender together condemn the same message, so what spares it is that there is one.
func TestOneVoteSparesTheEstablished(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts, pairs := drawMessage(t)
		at := drawStep(t)
		parts = slices.DeleteFunc(parts, func(p part) bool { return p.scheme.Facet() == bulkhead.SenderFacet })
		one := func(e *Evidence, f bulkhead.Facet, least uint32) {
			*e = Evidence{Votes: trust.Balance{Spam: Unit}, Old: rapid.Uint32Range(least, 160).Draw(t, "old"), Days: 4}
			e.settle(f)
		}
		for i := range parts {
			f, least := parts[i].scheme.Facet(), uint32(20)
			if f == bulkhead.TextFacet {
				least = 0
			}
			one(&parts[i].Evidence, f, least)
		}
		pairs["bank.example"] = Evidence{}
		for name, e := range pairs {
			one(&e, bulkhead.NoFacet, 0)
			pairs[name] = e
		}
		var known Evidence
		known = known.delivered(rapid.IntRange(200, 5000).Draw(t, "deliveries"))
		parts = append(parts, from("bank.example", known))
		if v, _, _ := at.judge(parts, pairs, ""); v.Class == bulkhead.ClassSpam {
			t.Fatalf("spam by %s: %q", v.Rule, v.Reasons)
		}
		named := pairs["bank.example"]
		named.Votes.Spam, named.Old = 8*Unit, 0
		named.settle(bulkhead.NoFacet)
		pairs["bank.example"] = named
		for i := range parts {
			if parts[i].scheme.Facet() == bulkhead.TextFacet {
				parts[i].Votes.Spam = 8 * Unit
				parts[i].settle(bulkhead.TextFacet)
			}
		}
		if v, _, _ := at.judge(parts, pairs, ""); v.Class != bulkhead.ClassSpam {
			t.Fatalf("with eight votes on text and sender: %v by %s: %q", v.Class, v.Rule, v.Reasons)
		}
	})
}

// TestWantedFromSenderWins: what votes call wanted from its sender of good standing is no spam by any votes on
// its text, as long as none of them names the sender.
func TestWantedFromSenderWins(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts, pairs := drawMessage(t)
		at := drawStep(t)
		parts = slices.DeleteFunc(parts, func(p part) bool { return p.scheme.Facet() != bulkhead.TextFacet })
		var known Evidence
		known = known.delivered(rapid.IntRange(10, 5000).Draw(t, "deliveries"))
		parts = append(parts, from("bank.example", known))
		pairs["bank.example"] = voted(0, rapid.IntRange(1, 5).Draw(t, "wanted"))
		if v, _, _ := at.judge(parts, pairs, ""); badness(v.Class) >= badness(bulkhead.ClassSuspected) {
			t.Fatalf("%v by %s: %q", v.Class, v.Rule, v.Reasons)
		}
	})
}

// TestOrder: the order of a message's signatures changes nothing but which of
// two equals is named.
func TestOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts, pairs := drawMessage(t)
		at := drawStep(t)
		before, by, _ := at.judge(parts, pairs, "")
		after, byAfter, _ := at.judge(rapid.Permutation(parts).Draw(t, "order"), pairs, "")
		if after.Class != before.Class || after.Judged != before.Judged || byAfter.By != by.By ||
			byAfter.SenderGood != by.SenderGood {
			t.Fatalf("%v by %v became %v by %v: %q, before %q", before.Class, by.By, after.Class, byAfter.By, after.Reasons,
				before.Reasons)
		}
	})
}

// TestErrorOfParts: a verdict may err wherever a part of the kind that decided
// may, and a probability is at most 1.
func TestErrorOfParts(t *testing.T) {
	o := new(Odds)
	o.AddSpam(0.1)
	for _, tt := range []struct {
		links, senders int
		want           float64
	}{{1, 0, 0.1}, {3, 0, 0.3}, {3, 2, 0.3}, {0, 1, 0.1}, {9, 1, 0.9}, {15, 0, 1}} {
		var c Case
		d := Decider{Policy: Policy{Promotion: 1, NearMatch: 2, Mature: true}}
		add := func(p part) {
			f := bulkhead.Finding{Signature: p.signature(), Spam: 2}
			d.Policy.Finding(&f, &p.Evidence, o)
			c.Signatures, c.Findings, c.Evidence = append(c.Signatures, f.Signature), append(c.Findings, f), append(c.Evidence,
				p.Evidence)
		}
		o.counts = [len(levels)]float64{1, 1}
		for i := range tt.links {
			add(link(fmt.Sprint("evil", i, ".example"), voted(3, 0)))
		}
		for i := range tt.senders {
			add(from(fmt.Sprint("user", i, "@evil.example"), voted(2, 0)))
		}
		c.Pairs = noPairs{}
		v := bulkhead.Verdict{Findings: c.Findings, Threshold: 20}
		d.Message(&v, &c)
		if !near(v.Error, tt.want) {
			t.Errorf("%d links and %d senders: error %v, want %v", tt.links, tt.senders, v.Error, tt.want)
		}
	}
}
