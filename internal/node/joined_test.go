package node

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client"
	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/recent"
)

// TestVoteIsJoinedWithItsDelivery checks that a report of the mail alone, as Dovecot's script sends
// it, counts for the network of the delivery: from memory, from the history after a restart, and
// from the history if the memory has forgotten.
func TestVoteIsJoinedWithItsDelivery(t *testing.T) {
	for name, restart := range map[string]bool{"memory": false, "history": true} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			c, stop := historyNode(t, dir, "")
			deliver(t, c, remembered, "198.51.100.7", "ann@example.com")
			deliver(t, c, remembered, "203.0.113.7", "bob@example.com")
			if restart {
				if err := stop(); err != nil {
					t.Fatal(err)
				}
				c, _ = historyNode(t, dir, "")
			}
			receipt, err := c.ReportMessage(t.Context(), []byte(remembered),
				client.MessageOptions{Vote: bulkhead.Spam, User: "bob@example.com"})
			if err != nil || receipt.Delivery != "message-id" {
				t.Fatalf("receipt %+v, %v", receipt, err)
			}
			for network, want := range map[string]uint32{"203.0.113.0/24": 1, "198.51.100.0/24": 0} {
				if got := votesOn(t, c, bulkhead.NamedSignature(bulkhead.Network, network)); got != want {
					t.Errorf("%d votes on %s, want %d", got, network, want)
				}
			}
			unseen := strings.ReplaceAll(strings.ReplaceAll(remembered, "watches", "carpets"), "<17@", "<18@")
			unseen = strings.NewReplacer("golden", "woven", "parcel", "carrier", "hundreds", "dozens",
				"warehouse", "mill").Replace(unseen)
			receipt, err = c.ReportMessage(t.Context(), []byte(unseen),
				client.MessageOptions{Vote: bulkhead.Spam, User: "bob@example.com"})
			if err != nil || receipt.Delivery != "unknown" {
				t.Errorf("receipt of a vote on mail that was not delivered %+v, %v", receipt, err)
			}
			state, err := c.Node(t.Context())
			if err != nil || state.Joined == nil || state.Joined.MessageID != 1 || state.Joined.Unknown != 1 {
				t.Errorf("state %+v, %v", state.Joined, err)
			}
		})
	}
}

// deliver checks a message and counts its delivery to a mailbox.
func deliver(t *testing.T, c *admin.Client, message, from, to string) {
	t.Helper()
	o := client.MessageOptions{Source: bulkhead.Source{Client: netip.MustParseAddr(from)}}
	if _, err := c.CheckMessage(t.Context(), []byte(message), o); err != nil {
		t.Fatal(err)
	}
	o.Vote, o.Recipients = bulkhead.Sighting, []string{to}
	if _, err := c.ReportMessage(t.Context(), []byte(message), o); err != nil {
		t.Fatal(err)
	}
}

func votesOn(t *testing.T, c *admin.Client, s bulkhead.Signature) uint32 {
	t.Helper()
	v, err := c.Check(t.Context(), bulkhead.Query{Signatures: []bulkhead.Signature{s}})
	if err != nil {
		t.Fatal(err)
	}
	return v.Findings[0].Spam
}

// TestSeveralMessagesToOneVoter checks that of several messages with one Message-ID a vote is on the
// message that was delivered to the voter: a sender cannot prevent votes on its spam by sending
// another message with the same Message-ID to another user.
func TestSeveralMessagesToOneVoter(t *testing.T) {
	c, _ := historyNode(t, t.TempDir(), "")
	other := strings.NewReplacer("watches", "gardens", "warehouse", "nursery", "parcel", "gardener").Replace(remembered)
	deliver(t, c, remembered, "198.51.100.7", "ann@example.com")
	deliver(t, c, other, "203.0.113.7", "bob@example.com")
	receipt, err := c.ReportMessageID(t.Context(), client.MessageVote{MessageID: "17@shop.example.com", User: "ann"})
	if err != nil || receipt.Delivery != "message-id" {
		t.Fatalf("receipt %+v, %v", receipt, err)
	}
	for text, want := range map[string]bool{remembered: true, other: false} {
		v, err := c.CheckMessage(t.Context(), []byte(text), client.MessageOptions{})
		if err != nil || v.Spam != want {
			t.Errorf("spam %v, want %v: %v", v.Spam, want, err)
		}
	}
}

// TestMessageIDIsNoShield checks that a sender cannot keep a vote by Message-ID from its message by sending
// others with the same Message-ID, however many, to other users; that of two to the voter the latest is
// meant; and that a vote without a user is not refused.
func TestMessageIDIsNoShield(t *testing.T) {
	c, _ := historyNode(t, t.TempDir(), "")
	text := func(i int) string {
		return strings.NewReplacer("watches", fmt.Sprint("gardens", i), "warehouse", fmt.Sprint("nursery", i), "parcel",
			fmt.Sprint("gardener", i), "golden", fmt.Sprint("green", i)).Replace(remembered)
	}
	deliver(t, c, remembered, "198.51.100.7", "ann@example.com")
	for i := range 60 {
		deliver(t, c, text(i), "203.0.113.7", "bob@example.com")
	}
	vote := func(user, want string) {
		t.Helper()
		v := client.MessageVote{MessageID: "17@shop.example.com", User: user}
		if _, err := c.ReportMessageID(t.Context(), v); err != nil {
			t.Fatal(err)
		}
		if v, err := c.CheckMessage(t.Context(), []byte(want), client.MessageOptions{}); err != nil || !v.Spam {
			t.Errorf("vote of %q: spam %v, %v", user, v.Spam, err)
		}
	}
	vote("ann@example.com", remembered)
	vote("bob@example.com", text(59))
	deliver(t, c, text(60), "203.0.113.7", "carl@example.com")
	vote("", text(60))
}

// TestMessageIDOfWantedMail checks that a spammer cannot turn reports of its spam against wanted mail by
// sending that mail once more with the Message-ID of the spam.
func TestMessageIDOfWantedMail(t *testing.T) {
	c, _ := historyNode(t, t.TempDir(), "")
	const own = "From: Choir <choir@singers.example.net>\r\nMessage-ID: <18@singers.example.net>\r\n" +
		"Subject: Rehearsals in spring\r\n\r\nDear singers, our rehearsals begin again in March, every Thursday at " +
		"seven, in the small hall behind the church. We will sing the requiem that many of you asked for, and two " +
		"short motets. Please bring your own scores if you still have them from last year; new ones lie at the door. " +
		"Tenors are needed more than ever, so bring your brothers and neighbours. The concert is on the first Sunday " +
		"of June.\r\n"
	wanted := strings.ReplaceAll(own, "<18@singers.example.net>", "<17@shop.example.com>")
	for i := range 25 {
		deliver(t, c, own, fmt.Sprintf("203.0.%d.7", i), fmt.Sprintf("reader%d@example.com", i))
	}
	class := func(text string) string {
		t.Helper()
		v, err := c.CheckMessage(t.Context(), []byte(text), client.MessageOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return v.Class
	}
	if got := class(own); got != "bulk" {
		t.Fatalf("the wanted mail is %s", got)
	}
	deliver(t, c, remembered, "198.51.100.7", "ann@example.com")
	deliver(t, c, wanted, "198.51.100.7", "ann@example.com")
	for _, user := range []string{"ann@example.com", ""} {
		v := client.MessageVote{MessageID: "17@shop.example.com", User: user}
		if _, err := c.ReportMessageID(t.Context(), v); err != nil {
			t.Fatal(err)
		}
	}
	if spam, bulk := class(remembered), class(own); spam != "spam" || bulk != "bulk" {
		t.Errorf("after votes by Message-ID the spam is %s, the wanted mail %s", spam, bulk)
	}
}

// TestUnjoinedVotesAreLoggedTogether checks that the log has one line for many votes whose deliveries the
// node did not see, and a line for each at level DEBUG.
func TestUnjoinedVotesAreLoggedTogether(t *testing.T) {
	var log bytes.Buffer
	n := &core{log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	n.front.deliveries = recent.NewDeliveries(1<<20, time.Hour, nil)
	unjoined := n.unjoined()
	unjoined(&bulkhead.Report{})
	if log.Len() > 0 {
		t.Errorf("a node that sees no deliveries logs %s", &log)
	}
	n.front.deliveries.Note(&recent.Delivery{Signatures: []bulkhead.Signature{
		bulkhead.MustSignature(bulkhead.Exact, make([]byte, 32))}})
	for range 100 {
		unjoined(&bulkhead.Report{Vote: bulkhead.Spam, Reporter: bulkhead.Reporter{Account: "ann"}})
	}
	for level, want := range map[string]int{"level=INFO": 1, "level=DEBUG": 100} {
		if got := strings.Count(log.String(), level); got != want {
			t.Errorf("%d lines with %s, want %d", got, level, want)
		}
	}
}
