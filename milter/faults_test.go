package milter

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/mail"
	"github.com/bulkhead-mail/bulkhead/internal/testing/prototest"
	"github.com/bulkhead-mail/bulkhead/policy"
)

// brokenLimits is a Limiter whose state cannot be read.
type brokenLimits struct{}

func (brokenLimits) Limit(context.Context, func(string) []byte) (policy.Action, string, error) {
	return policy.Reject, "broken", errors.New("disk on fire")
}

// TestLimiterFails checks that a recipient passes, and that the fault is counted and logged, if the limits have no
// answer.
func TestLimiterFails(t *testing.T) {
	var log bytes.Buffer
	house := &prototest.House{}
	s := &Server{Clearinghouse: house, Limiter: brokenLimits{}, Log: slog.New(slog.NewTextHandler(&log, nil))}
	m := serve(t, s)(6, everything)
	m.connect("198.51.100.7")
	r := m.message("x@shop.example", []string{"a@example.com", "b@example.com"}, text("", offer))
	s.Flush()
	if r.code != replyAccept || s.Stats.Faults.Load() != 2 || s.Stats.Limited.Load() != 0 ||
		len(house.Reports()) != 1 || house.Reports()[0].Count != 2 {
		t.Errorf("%+v, %d faults, %d limited, reports %+v", r, s.Stats.Faults.Load(), s.Stats.Limited.Load(),
			house.Reports())
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(log.String(), "disk on fire"); n != 2 {
		t.Errorf("the fault is logged %d times: %s", n, log.String())
	}
}

// TestActionsOfMailServers checks each action with each set of actions that a mail server may permit: it gets no
// change that it did not permit, and every message is counted by its class and action.
func TestActionsOfMailServers(t *testing.T) {
	for _, permitted := range []uint32{0, actAddHeaders, actChangeHeaders, actQuarantine,
		actAddHeaders | actChangeHeaders | actQuarantine} {
		for _, action := range []Action{None, Header, Quarantine, Tempfail, Reject} {
			house := &prototest.House{}
			report(t, house, offer)
			s := &Server{Clearinghouse: house, Policies: []Policy{{Spam: action}}}
			m := serveWith(t, s, permitted)(6, everything)
			m.connect("198.51.100.7")
			r := m.message("x@shop.example", []string{"bob@example.com"}, text("X-Bulkhead: forged\n", offer))
			refused := action == Reject || action == Tempfail
			if (r.code == replyCode) != refused || !refused && r.code != replyAccept {
				t.Errorf("%s, permitted %x: %+v", action, permitted, r)
			}
			added := !refused && action != None && permitted&actAddHeaders != 0
			removed := !refused && permitted&actChangeHeaders != 0
			held := action == Quarantine && permitted&actQuarantine != 0
			if (len(r.inserted) == 2) != added || (len(r.deleted) == 1) != removed || (r.quarantine != "") != held {
				t.Errorf("%s, permitted %x: %+v; want headers %v, removed %v, held %v", action, permitted, r, added, removed,
					held)
			}
			n := &s.Stats
			got := [5]int64{n.Classes.Spam.Load(), n.Actions.Rejected.Load(), n.Actions.Tempfailed.Load(),
				n.Actions.Quarantined.Load(), n.Forged.Load()}
			one := func(b bool) int64 {
				if b {
					return 1
				}
				return 0
			}
			if want := [5]int64{1, one(action == Reject), one(action == Tempfail), one(action == Quarantine),
				one(removed)}; got != want {
				t.Errorf("%s, permitted %x: counted %v, want %v", action, permitted, got, want)
			}
		}
	}
}

// TestVotesThatFail checks that a fault while votes are taken refuses the mail for now, and that no vote is counted.
func TestVotesThatFail(t *testing.T) {
	for name, s := range map[string]*Server{
		"panic": {Unpack: func([]byte) ([][]byte, error) { panic("corrupt") }},
		"features": {Unpack: unpack, Features: func(context.Context, []byte) ([]string, error) {
			return nil, errors.New("no time")
		}},
	} {
		house := &prototest.House{}
		s.Clearinghouse, s.Ballots = house, ballots
		m := serve(t, s)(6, everything)
		m.connect("198.51.100.7")
		m.macro(cmdMail, "{auth_authen}", "ann")
		r := m.message("ann@example.com", []string{"spam@example.com"}, ballotMailOf(prose(1)))
		if r.code != replyCode || !strings.HasPrefix(r.text, "451 4.3.0 ") || len(house.Reports()) != 0 ||
			s.Stats.Faults.Load() != 1 || s.Stats.Ballots.Refused.Load() != 0 {
			t.Errorf("%s: %+v, reports %v, %d faults", name, r, house.Reports(), s.Stats.Faults.Load())
		}
	}
}

// TestDecidesAgainstModel compares the class and action for some recipients with a search through all policies.
func TestDecidesAgainstModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	domains := []string{"", "example", "a.example", "b.a.example", "example.net"}
	hosts := []string{"example", "a.example", "x.a.example", "b.a.example", "y.b.a.example", "example.net", "xexample",
		"other.org"}
	actions := []Action{None, Header, Quarantine, Tempfail, Reject}
	for range 3000 {
		var all []Policy
		for _, d := range domains {
			if rng.IntN(2) == 0 {
				continue
			}
			pick := func() Action { return actions[rng.IntN(len(actions))] }
			all = append(all, Policy{Domain: d, Spam: pick(), Listed: pick(), Suspected: pick(), Bulk: pick(), Grey: pick(),
				Confidence: rng.IntN(101), Threshold: uint32(rng.IntN(3) * 10)})
		}
		f := &findings{verdict: bulkhead.Verdict{Confidence: rng.IntN(101), Sightings: uint32(rng.IntN(30)),
			Threshold: uint32(rng.IntN(2) * 15), Class: bulkhead.Class(rng.IntN(5))}}
		if f.verdict.Class == bulkhead.ClassSpam {
			f.verdict.Judged = bulkhead.JudgedSpam
		}
		for _, slot := range []**Match{&f.white, &f.black, &f.grey} {
			if rng.IntN(5) == 0 {
				*slot = &Match{}
			}
		}
		var to []string
		for range rng.IntN(4) {
			to = append(to, "bob@"+hosts[rng.IntN(len(hosts))])
		}
		p, err := newPolicies(all)
		if err != nil {
			t.Fatal(err)
		}
		_, class, action := p.decide(to, f)
		wantClass, wantAction := plainDecision(all, to, f)
		if class != wantClass || action != wantAction {
			t.Fatalf("%+v for %v: %s, %s, want %s, %s; policies %+v", f.verdict, to, class, action, wantClass, wantAction, all)
		}
	}
}

// plainDecision is the decision for each recipient alone, of which the mildest is the first in the list of actions.
func plainDecision(all []Policy, to []string, f *findings) (class Class, action Action) {
	order := []Action{None, Header, Quarantine, Tempfail, Reject}
	if len(to) == 0 {
		to = []string{"nobody@"}
	}
	best := len(order)
	for _, r := range to {
		_, domain, _ := strings.Cut(r, "@")
		p := Policy{Spam: Header, Listed: Header, Suspected: Header, Bulk: Header, Grey: Header}
		longest := -1
		for _, x := range all {
			if len(x.Domain) > longest && (x.Domain == "" || domain == x.Domain || strings.HasSuffix(domain, "."+x.Domain)) {
				p, longest = x, len(x.Domain)
			}
		}
		threshold := f.verdict.Threshold
		if p.Threshold > 0 {
			threshold = p.Threshold
		}
		spam := f.verdict.Class == bulkhead.ClassSpam
		c, a := ClassNone, Header
		switch {
		case f.white != nil:
			c = ClassWhite
		case spam && f.verdict.Confidence >= p.Confidence:
			c, a = ClassSpam, p.Spam
		case f.black != nil:
			c, a = ClassListed, p.Listed
		case spam || f.verdict.Class == bulkhead.ClassSuspected:
			c, a = ClassSuspected, p.Suspected
		case threshold > 0 && f.verdict.Sightings >= threshold:
			c, a = ClassBulk, p.Bulk
		case f.grey != nil:
			c, a = ClassGrey, p.Grey
		}
		if i := slices.Index(order, a); i < best {
			best, class, action = i, c, a
		}
	}
	return class, action
}

// TestDeliveryIDs checks that the ID of a delivery depends on everything that makes it another one, and on nothing
// else.
func TestDeliveryIDs(t *testing.T) {
	id := func(client, sender, messageID string, recipients ...string) string {
		e := &envelope{sender: sender, recipients: recipients}
		e.client.addr = netip.MustParseAddr(client)
		return deliveryID(e, &mail.Message{MessageID: messageID})
	}
	one := id("192.0.2.1", "a@b", "x@y", "c@d", "e@f")
	if again := id("192.0.2.1", "a@b", "x@y", "e@f", "c@d"); again != one || len(one) != 32 {
		t.Errorf("%q and %q for one delivery", one, again)
	}
	seen := map[string]bool{one: true}
	for _, other := range []string{id("192.0.2.2", "a@b", "x@y", "c@d", "e@f"),
		id("192.0.2.1", "a@bx", "@y", "c@d", "e@f"),
		id("192.0.2.1", "a@b", "x@yc", "@d", "e@f"), id("192.0.2.1", "a@b", "x@y", "c@de@f"),
		id("192.0.2.1", "a@b", "x@y", "c@d"), id("192.0.2.1", "a@b", "x@y", "c@d", "e@f", "e@f")} {
		if seen[other] {
			t.Errorf("%q is the ID of two deliveries", other)
		}
		seen[other] = true
	}
	if got := id("192.0.2.1", "a@b", ""); got != "" {
		t.Errorf("without a Message-ID: %q", got)
	}
}

// TestMailboxes checks that each mailbox is named once, and no more of them than a report may name.
func TestMailboxes(t *testing.T) {
	if got := mailboxes([]string{"Bob@Example.com", "ann@example.com", "bob@example.com"}); len(got) != 2 ||
		got[0] != bulkhead.Mailbox("bob@example.com") {
		t.Errorf("%q", got)
	}
	var many []string
	for i := range bulkhead.MaxRecipients + 3 {
		many = append(many, fmt.Sprintf("user%d@example.com", i))
	}
	if got := mailboxes(many); len(got) != bulkhead.MaxRecipients || got[0] != many[0] {
		t.Errorf("%d mailboxes, want %d", len(got), bulkhead.MaxRecipients)
	}
}

// TestFirstMatch checks that the first entry of each tone is kept, and which of them the reason names.
func TestFirstMatch(t *testing.T) {
	f := &findings{verdict: bulkhead.Verdict{Whitelisted: "example.com", Reasons: []string{"seen before", "often"}}}
	for i, tone := range []string{"grey", "black", "white", "grey", "black", "white"} {
		f.note(Match{Tone: tone, List: fmt.Sprint(i), Where: "url", Entry: "e", Reason: []string{"", "phishing"}[i%2]})
	}
	for class, want := range map[Class]string{ClassGrey: "url e is in list 0",
		ClassListed: "url e is in list 1 (phishing)",
		ClassWhite:  "url e is in list 2", ClassSpam: "seen before", ClassNone: "seen before"} {
		if got := f.reason(class); got != want {
			t.Errorf("%s: %q, want %q", class, got, want)
		}
	}
	if got := (&findings{verdict: f.verdict}).reason(ClassWhite); got != "whitelisted: example.com" {
		t.Errorf("%q", got)
	}
	if got := new(findings).reason(ClassBulk); got != "nothing is known of it" {
		t.Errorf("%q", got)
	}
}
