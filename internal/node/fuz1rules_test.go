package node

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/dcc"
	dccsum "github.com/bulkhead-mail/bulkhead/digest/dcc"
	"github.com/bulkhead-mail/bulkhead/internal/config"
)

// rulesMail returns mails for which the two releases of DCC compute different Fuz1: a long line is
// passed on while a mark is set.
func rulesMail(t *testing.T, subject string) (raw string, fuz1 [2]dcc.Checksum) {
	t.Helper()
	raw = "From: ann@example.org\nSubject: " + subject + "\nMessage-ID: <" + subject + "@example.org>\n\n" +
		strings.Repeat(
			"The ferry to the "+subject+" leaves at nine on every day of the week but Sunday and is back at six ", 4) +
		"\nDear friends of the ferry\nTickets are sold at http://www.shop.example.com/x on board\n"
	for rules := range fuz1 {
		sums, err := dccsum.Sums(t.Context(), []byte(raw), dccsum.Options{Rules: dccsum.Rules(rules)})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range sums {
			if s.Type == dccsum.TypeFuz1 {
				fuz1[rules] = dcc.Checksum{Type: s.Type, Sum: s.Sum}
			}
		}
	}
	if fuz1[0] == fuz1[1] {
		t.Fatalf("both rules give the mail %q one Fuz1", subject)
	}
	return raw, fuz1
}

// TestFuz1OfBothRules checks that whole mail reported through any door, whatever dccifd.rules is,
// is known to DCC clients of both releases, and that dccifd finds the reports of clients of either.
func TestFuz1OfBothRules(t *testing.T) {
	for _, rules := range []string{"1", "2"} {
		ctx := t.Context()
		cfg := config.Default()
		cfg.Dccifd.Verify, cfg.Dccifd.Rules = false, rules
		s, address := startWith(t, cfg, "dcc", "dccifd")
		client, err := dcc.Dial(ctx, address["dcc"], nil)
		if err != nil {
			t.Fatal(err)
		}
		ifd := func(options, raw string) string {
			return say(t, address["dccifd"], options+"\n192.0.2.7\nhelo\nann@example.org\nbob@example.net\n\n"+raw)
		}
		current := func(sum dcc.Checksum) uint32 {
			t.Helper()
			totals, err := client.Query(ctx, []dcc.Checksum{sum})
			if err != nil || len(totals) != 1 {
				t.Fatalf("totals %v, %v", totals, err)
			}
			return totals[0].Current
		}

		// The other doors report whole mail with the signatures of Read.
		raw, fuz1 := rulesMail(t, "whole")
		sigs, _, err := messages{s.core}.Read(ctx, []byte(raw))
		if err != nil {
			t.Fatal(err)
		}
		local := bulkhead.Reporter{Addr: netip.MustParseAddr("127.0.0.1")}
		if _, err := s.engine.Report(ctx,
			bulkhead.Report{Signatures: sigs, Vote: bulkhead.Spam, Reporter: local}); err != nil {
			t.Fatal(err)
		}
		for r, sum := range fuz1 {
			if n := current(sum); n != dcc.Many {
				t.Errorf("dccifd.rules %s: reported whole, Fuz1 of rules %d is %d, want many", rules, 2-r, n)
			}
		}

		raw, fuz1 = rulesMail(t, "island")
		ifd("header", raw)
		ifd("header", raw)
		for r, sum := range fuz1 {
			if n := current(sum); n != 2 {
				t.Errorf("dccifd.rules %s: counted twice, Fuz1 of rules %d is %d", rules, 2-r, n)
			}
		}

		raw, fuz1 = rulesMail(t, "harbour")
		for r, sum := range fuz1 {
			if _, err := client.Report(ctx, uint32(3+4*r), false, []dcc.Checksum{sum}); err != nil {
				t.Fatal(err)
			}
			if reply, want := ifd("header query", raw), fmt.Sprintf("Fuz1=%d", 3+4*r); !strings.Contains(reply, want) {
				t.Errorf("dccifd.rules %s: a client of rules %d reported: %q, want %s", rules, 2-r, reply, want)
			}
		}
		client.Close()
	}
}
