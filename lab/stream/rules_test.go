package stream

import (
	"fmt"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
)

// of returns letters of messages that each have a text of their own.
func of(t *testing.T, mail ...Mail) []*Letter {
	t.Helper()
	letters, err := Read(t.Context(), each(mail), 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	return letters
}

// asked returns what a judge says of a letter at a site.
func asked(t *testing.T, j judge, l *Letter, site int) bool {
	t.Helper()
	verdict, err := j.deliver(t.Context(), &delivery{letter: l, site: site, campaign: 1})
	if err != nil {
		t.Fatal(err)
	}
	return verdict.class == bulkhead.ClassSpam
}

func says(t *testing.T, j judge, l *Letter, site int, vote bulkhead.Vote) {
	t.Helper()
	if err := j.vote(t.Context(), &delivery{letter: l, site: site}, vote); err != nil {
		t.Fatal(err)
	}
}

// TestTextAlone checks that one report lists a text, and one objection takes it off until the
// week ends, whatever is reported.
func TestTextAlone(t *testing.T) {
	letters := of(t, letter(1, "", "a.example"), letter(2, "", "a.example"))
	for _, lone := range []bool{false, true} {
		j := newTextAlone(&Options{Lone: lone})
		at := func(now time.Time) {
			if err := j.turn(t.Context(), now); err != nil {
				t.Fatal(err)
			}
		}
		at(begin)
		says(t, j, letters[0], 0, bulkhead.Spam)
		if !asked(t, j, letters[0], 0) || asked(t, j, letters[0], 1) != !lone || asked(t, j, letters[1], 0) {
			t.Errorf("lone %v: a report lists something else than that text, where it was reported", lone)
		}
		says(t, j, letters[0], 0, bulkhead.Ham)
		says(t, j, letters[0], 0, bulkhead.Spam)
		if asked(t, j, letters[0], 0) {
			t.Errorf("lone %v: what was taken off is listed again in the same week", lone)
		}
		week := engine.DefaultBlocklist()
		at(begin.Add(week.Generation))
		says(t, j, letters[0], 0, bulkhead.Spam)
		if !asked(t, j, letters[0], 0) {
			t.Errorf("lone %v: what was taken off is not listed in the next week", lone)
		}
		at(begin.Add(time.Duration(week.Keep+1) * week.Generation))
		if asked(t, j, letters[0], 0) {
			t.Errorf("lone %v: a listing outlives its generation", lone)
		}
	}
}

// TestTextOrLink checks that one report lists every link of a message, beside the text, for
// all other mail.
func TestTextOrLink(t *testing.T) {
	with := func(n int, link string) Mail {
		m := letter(n, "", "a.example")
		m.Raw = fmt.Appendf(m.Raw, "\nSee http://%s/x now.\n", link)
		return m
	}
	letters := of(t, with(1, "bad.example.com"), with(2, "bad.example.com"), with(3, "free.example.net"))
	j := newTextAlone(&Options{Rule: TextOrLink})
	if err := j.turn(t.Context(), begin); err != nil {
		t.Fatal(err)
	}
	says(t, j, letters[0], 0, bulkhead.Spam)
	for i, want := range []bool{true, true, false} {
		if got := asked(t, j, letters[i], 0); got != want {
			t.Errorf("letter %d spam %v, want %v", i, got, want)
		}
	}
}

// TestOracles checks that both oracles know campaigns, and one also the parts that no ham has.
func TestOracles(t *testing.T) {
	with := func(n int, kind, link string) Mail {
		m := letter(n, kind, "a.example")
		m.Raw = fmt.Appendf(m.Raw, "\nSee http://%s/x now.\n", link)
		return m
	}
	letters := of(t, with(1, "", "bad.example.com"), with(2, "", "bad.example.com"), with(3, "", "free.example.net"),
		with(4, "", "free.example.net"), with(5, "personal", "free.example.net"))
	p := &plan{}
	for _, l := range letters {
		p.deliveries = append(p.deliveries, delivery{letter: l})
	}
	for _, rule := range []Rule{FirstReport, FirstReportOfPart} {
		j := newOracle(p, &Options{Rule: rule})
		says(t, j, letters[0], 0, bulkhead.Spam) // of campaign 0
		says(t, j, letters[2], 0, bulkhead.Spam)
		says(t, j, letters[4], 0, bulkhead.Spam) // by mistake
		for i, want := range []bool{rule == FirstReportOfPart, rule == FirstReportOfPart, rule == FirstReportOfPart, false,
			false} {
			if got := asked(t, j, letters[i], 0); got != want { // in campaign 1
				t.Errorf("%s: letter %d spam %v, want %v", rule, i, got, want)
			}
		}
		if verdict, _ := j.deliver(t.Context(), &delivery{letter: letters[1]}); verdict.class != bulkhead.ClassSpam {
			t.Errorf("%s: a copy of a campaign that was reported is %v", rule, verdict.class)
		}
	}
}

// TestRules checks that all rules judge equal streams, and that an oracle hits no ham.
func TestRules(t *testing.T) {
	copies := ""
	for _, rule := range Rules {
		r, err := Run(t.Context(), made(t), Options{Runs: 1, Days: 3, Mistakes: 100, Rule: rule})
		if err != nil {
			t.Fatal(err)
		}
		all, hit := "", 0
		for k := range NumKinds {
			c := r.Runs[0].Kinds[k.String()]
			all += fmt.Sprint(c.Copies, " ")
			if !k.Spam() {
				hit += c.Spam
			}
		}
		if copies == "" {
			copies = all
		}
		if all != copies {
			t.Errorf("%s: copies of each kind %s, want %s", rule, all, copies)
		}
		if oracle := rule == FirstReport || rule == FirstReportOfPart; oracle && hit > 0 ||
			r.Runs[0].Kinds["spam"].Spam == 0 {
			t.Errorf("%s: %d ham and %d spam called spam", rule, hit, r.Runs[0].Kinds["spam"].Spam)
		}
	}
}
