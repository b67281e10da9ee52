package engine

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/trust"
)

// county is three nodes that share, of which each sees a third of the mail. Counts are shared from a
// floor on.
type county struct {
	*testing.T
	*clock
	nodes [3]*Engine
	texts int
}

func newCounty(t *testing.T, floor uint32) *county { return newCountyOf(t, Options{}, floor) }

func newCountyOf(t *testing.T, o Options, floor uint32) *county {
	c := &county{T: t, clock: newClock()}
	for i := range c.nodes {
		o.Now = c.Now
		o.Tally = BookOptions{Generation: 24 * time.Hour, Keep: 7, Capacity: 100_000, Error: 1e-4, Floor: floor}
		o.Block = BookOptions{Generation: 7 * 24 * time.Hour, Keep: 8, Capacity: 50_000, Error: 1e-6, Floor: o.Block.Floor}
		c.nodes[i] = open(t, o)
		site := trust.Account{Name: "site", Role: trust.Trusted, Weight: 1}
		if err := c.nodes[i].PutAccount(t.Context(), site); err != nil {
			t.Fatal(err)
		}
		if err := c.nodes[i].Record(t.Context(), true); err != nil {
			t.Fatal(err)
		}
	}
	for i, n := range c.nodes {
		var peers []Origin
		for k := range c.nodes {
			if k != i {
				peers = append(peers, Origin{ID: fmt.Sprint("node", k), Weight: 1})
			}
		}
		if err := n.SetOrigins(t.Context(), peers); err != nil {
			t.Fatal(err)
		}
	}
	for range 4 {
		for i := range 180 {
			c.deliver(i%3, fmt.Sprint("usual", i, ".example"), "")
		}
		c.share()
		c.Advance(24 * time.Hour)
	}
	return c
}

// share lets all nodes see what the others took.
func (c *county) share() {
	c.Helper()
	for i, n := range c.nodes {
		parts, _, err := n.TakeRounds(c.Context())
		if err != nil {
			c.Fatal(err)
		}
		for k, to := range c.nodes {
			for _, p := range parts {
				if k == i {
					continue
				}
				if err := applyParts(to, fmt.Sprint("node", i), []Part{p}); err != nil {
					c.Fatal(err)
				}
			}
		}
	}
}

// mail is a new text of a verified sender with a link.
func (c *county) mail(sender, link string) []bulkhead.Signature {
	c.texts++
	sigs := []bulkhead.Signature{sig(bulkhead.Exact, c.texts), bulkhead.NamedSignature(bulkhead.Sender, sender)}
	if link != "" {
		sigs = append(sigs, bulkhead.NamedSignature(bulkhead.Link, link))
	}
	return sigs
}

func (c *county) deliver(node int, sender, link string) []bulkhead.Signature {
	c.Helper()
	sigs := c.mail(sender, link)
	report(c, c.nodes[node], bulkhead.Report{Signatures: sigs, Reporter: bulkhead.Reporter{Account: "site"},
		Recipients: []string{fmt.Sprintf("user%d@here.example", c.texts)}})
	return sigs
}

// TestCommonOverNodes: no node knows a link from five senders, and together they do. Six reports of
// spam with the link make other mail neither spam nor suspected. Without peers they do.
func TestCommonOverNodes(t *testing.T) {
	for _, share := range []bool{false, true} {
		c := newCounty(t, 2)
		for i := range 9 { // three on each node
			c.deliver(i%3, fmt.Sprint("firm", i, ".example"), "forms.example")
			if share {
				c.share()
			}
			c.Advance(20 * time.Hour)
		}
		// The tally has forgotten the first senders. Mail of known ones shows them to peers again.
		for i := range 3 {
			c.deliver(i, fmt.Sprint("firm", i, ".example"), "forms.example")
		}
		if share {
			c.share()
		}
		for i := range 6 {
			spam := c.mail(fmt.Sprint("evil", i, ".example"), "forms.example")
			report(t, c.nodes[0], bulkhead.Report{Signatures: spam, Vote: bulkhead.Spam,
				Reporter: bulkhead.Reporter{Account: "site", User: fmt.Sprint("user", i)}})
		}
		if share {
			c.share()
		}
		for n, node := range c.nodes[:1] {
			v := verdictOf(t, node, c.mail("other.example", "forms.example")...)
			if flagged := v.Class >= bulkhead.ClassSuspected; flagged == share {
				t.Errorf("shared %v, node %d: %v by %s: %q", share, n, v.Class, v.Rule, v.Reasons)
			}
		}
	}
}

// TestPlatformOfCustomers: reports of spam from the address of a platform, whose mail claims many names, make other
// mail from there neither spam nor suspected. On three nodes, each of which has seen four names, they do only
// without peers. They always do if all mail claims one name.
func TestPlatformOfCustomers(t *testing.T) {
	for _, tt := range []struct {
		nodes, names   int
		share, flagged bool
	}{{1, 12, false, false}, {1, 1, false, true}, {3, 12, false, true}, {3, 12, true, false}, {3, 1, true, true}} {
		c := newCounty(t, 2)
		mail := func(name string) []bulkhead.Signature {
			return append(c.mail("calendar.example", ""), bulkhead.NamedSignature(bulkhead.Sender, "no-reply@calendar.example"),
				bulkhead.NamedSignature(bulkhead.Claim, name))
		}
		for i := range 15 {
			report(t, c.nodes[i%tt.nodes], bulkhead.Report{Signatures: mail(fmt.Sprint("customer", i%tt.names)),
				Reporter: bulkhead.Reporter{Account: "site"}, Recipients: []string{fmt.Sprintf("user%d@here.example", i)}})
			if tt.share {
				c.share()
			}
			c.Advance(8 * time.Hour)
		}
		for i := range 6 {
			report(t, c.nodes[0], bulkhead.Report{Signatures: mail(fmt.Sprint("evil", i)), Vote: bulkhead.Spam,
				Reporter: bulkhead.Reporter{Account: "site", User: fmt.Sprint("user", i)}})
		}
		if tt.share {
			c.share()
		}
		v := verdictOf(t, c.nodes[0], mail("another customer")...)
		if flagged := v.Class >= bulkhead.ClassSuspected; flagged != tt.flagged {
			t.Errorf("%+v: %v by %s: %q", tt, v.Class, v.Rule, v.Reasons)
		}
	}
}

// TestSketchOfSenders compares what nodes make of reported links with plain sets of their senders. A
// sketch never shows more senders than there are, so a link of four is never common, even if each of
// them mails through all nodes. A link of nine is common on every node.
func TestSketchOfSenders(t *testing.T) {
	c := newCounty(t, 2)
	rng := rand.New(rand.NewPCG(3, 4))
	site := func(link int) (name string, senders int) {
		return fmt.Sprint("site", link, ".example"), []int{1, 2, 4, 9}[link%4]
	}
	for range 2 { // senders of a first day do not count
		for link := range 40 {
			name, n := site(link)
			for i := range max(n, 12) {
				c.deliver(rng.IntN(3), fmt.Sprint("sender", i%n, ".example"), name)
			}
		}
		c.share()
		c.Advance(24 * time.Hour)
	}
	c.Advance(12 * time.Hour)
	for link := range 40 {
		name, n := site(link)
		for i := range 6 {
			report(t, c.nodes[link%3], bulkhead.Report{Signatures: c.mail(fmt.Sprint("evil", i, ".example"), name),
				Vote: bulkhead.Spam, Reporter: bulkhead.Reporter{Account: "site", User: fmt.Sprint("user", i)}})
		}
		c.share()
		for at, node := range c.nodes {
			v := verdictOf(t, node, c.mail("other.example", name)...)
			if flagged := v.Class >= bulkhead.ClassSuspected; flagged == (n == 9) {
				t.Errorf("link of %d senders, node %d: %v by %s: %q", n, at, v.Class, v.Rule, v.Reasons)
			}
		}
	}
}
