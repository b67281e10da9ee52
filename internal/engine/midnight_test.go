package engine

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/trust"
)

// An event is a delivery, or the vote of its reader, at a time after the first event.
type event struct {
	at   time.Duration
	vote bulkhead.Vote
	mail bulkhead.Report
}

// drawEvents draws what happens to a few campaigns within less than half a day. Copies have the text or
// most of it, a link, and a verified sender or a network. All parts of a campaign are as old as each
// other, so no vote falls on one of them more than on the rest.
func drawEvents(t *rapid.T) (all []event) {
	var at time.Duration
	few := func(name string, most int) int { return rapid.IntRange(0, most).Draw(t, name) }
	for n := range rapid.IntRange(20, 60).Draw(t, "events") {
		at += time.Duration(few("minutes", 10)) * time.Minute
		campaign := few("campaign", 3)
		text := campaign
		if few("changed", 2) == 0 {
			text = 100 + n
		}
		sigs := []bulkhead.Signature{sig(bulkhead.Exact, text),
			bulkhead.NamedSignature(bulkhead.Link, fmt.Sprint("l", campaign, ".example"))}
		for i := range 10 { // of which changed copies share all but one
			of := campaign
			if i == 0 {
				of = text
			}
			sigs = append(sigs, sig(bulkhead.Near, 1000+100*of+i))
		}
		if campaign%2 == 0 {
			sigs = append(sigs, bulkhead.NamedSignature(bulkhead.Network, fmt.Sprint("198.51.", campaign, ".0/24")))
		} else {
			sigs = append(sigs, bulkhead.NamedSignature(bulkhead.Sender, fmt.Sprint("s", campaign, ".example")))
		}
		e := event{at: at, mail: bulkhead.Report{Signatures: sigs, Recipients: []string{fmt.Sprint("user", n)}}}
		if few("voted", 5) == 0 {
			e.vote = rapid.SampledFrom([]bulkhead.Vote{bulkhead.Spam, bulkhead.Spam, bulkhead.Ham}).Draw(t, "vote")
			e.mail.Recipients, e.mail.Reporter = nil, bulkhead.Reporter{Account: "site", User: fmt.Sprint("user", n)}
		}
		e.mail.Vote = e.vote
		all = append(all, e)
	}
	return all
}

// answers plays events from a time on to a mature node, and returns the answer to each delivery.
func answers(t *testing.T, from time.Time, events []event) (all []string) {
	c := &clock{t: from.Truncate(24 * time.Hour).Add(-4*24*time.Hour + 13*time.Hour)}
	e := open(t, Options{Now: c.Now, Tally: week, Exact: true})
	defer e.Close(t.Context())
	put(t, e, "site", trust.Trusted, 1, netip.Addr{})
	for range 2 {
		for n := range 20 {
			report(t, e, bulkhead.Report{Recipients: []string{fmt.Sprint("user", n)}, Signatures: []bulkhead.Signature{
				sig(bulkhead.Exact, 10_000+n), bulkhead.NamedSignature(bulkhead.Sender, "known.example")}})
		}
		c.Advance(24 * time.Hour)
	}
	for _, x := range events {
		c.Advance(from.Add(x.at).Sub(c.Now()))
		if x.vote == bulkhead.Sighting {
			v := verdictOf(t, e, x.mail.Signatures...)
			all = append(all, fmt.Sprint(v.Class, " by ", v.Rule))
		}
		report(t, e, x.mail)
	}
	if !e.checker.Sources().Mature {
		t.Fatal("the node is not mature")
	}
	return all
}

// TestAcrossMidnight: it is of no use to a sender to send some copies before midnight and the rest after
// it. Within half a day, all mail is spam that is spam without a midnight.
func TestAcrossMidnight(t *testing.T) {
	midnight := newClock().Now().Truncate(24 * time.Hour)
	rapid.Check(t, func(rt *rapid.T) {
		events := drawEvents(rt)
		last := rapid.SampledFrom(events[:len(events)*3/4]).Draw(rt, "last event before midnight")
		want, got := answers(t, midnight, events), answers(t, midnight.Add(-last.at-time.Second), events)
		for i := range want {
			if isSpam := strings.HasPrefix(want[i], "spam"); isSpam && !strings.HasPrefix(got[i], "spam") {
				rt.Fatalf("delivery %d: %s, and %s from midnight on", i, got[i], want[i])
			}
		}
	})
}
