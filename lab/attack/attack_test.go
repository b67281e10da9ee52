package attack

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
)

// scenario returns the one of that name and means.
func scenario(t *testing.T, name string, m Means) Scenario {
	t.Helper()
	for _, s := range Scenarios() {
		if s.Name == name && s.Means == m {
			return s
		}
	}
	t.Fatalf("no scenario %q with %s", name, m)
	return Scenario{}
}

func succeeds(t *testing.T, s Scenario, honest, n int) bool {
	t.Helper()
	got, err := s.try(t.Context(), honest, n)
	if err != nil {
		t.Fatal(err)
	}
	return got.won
}

// TestStrangers checks that without an account that an administrator vouches for nothing is listed,
// taken off or made bulk, and no account gains weight, with and without objections.
func TestStrangers(t *testing.T) {
	many := map[Means]int{Fresh: 2000, Aged: 60}
	for _, s := range Scenarios() {
		if many[s.Means] == 0 || s.Name == "help a mistake of half a vote" {
			continue
		}
		t.Run(fmt.Sprint(s.Name, ", ", s.Means), func(t *testing.T) {
			t.Parallel()
			if succeeds(t, s, 0, many[s.Means]) {
				t.Errorf("%d %s are enough", many[s.Means], s.Means)
			}
		})
	}
}

// TestMistake checks that strangers can help an account that was given half of the weight
// that lists, and that one objection ends it.
func TestMistake(t *testing.T) {
	s := scenario(t, "help a mistake of half a vote", Fresh)
	if succeeds(t, s, 0, 1000) {
		t.Error("1000 fresh accounts are enough for an established newsletter")
	}
	s.daily = nil // on its first day
	if !succeeds(t, s, 0, 100) {
		t.Error("100 fresh accounts are no help: nothing was measured")
	}
	if succeeds(t, s, 1, 1000) {
		t.Error("1000 fresh accounts list what a user of full weight wants")
	}
}

// TestCoalition checks that fewer than 50 accounts that earned weight for 30 days, in
// networks of their own, cannot list an established newsletter if 5 users object, even with
// the help of an administrator's mistake.
func TestCoalition(t *testing.T) {
	for _, name := range []string{"list an issue of an established newsletter", "list the next issue as well",
		"help a mistake of half a vote"} {
		s := scenario(t, name, Aged)
		w, err := s.prepared(t.Context(), 5, 1)
		if err != nil {
			t.Fatal(err)
		}
		if got := w.Accounts().Worth(w.attacks[0].Account); got < 0.3 {
			t.Errorf("after %d days an account weighs %.2f: it has earned nothing", agedDays, got)
		}
		if err := w.close(); err != nil {
			t.Error(err)
		}
		if succeeds(t, s, 5, 49) {
			t.Errorf("%s: 49 accounts are enough", name)
		}
	}
}

// TestCampaign checks that it takes as many voices to take a campaign off the list as have
// reported it, and one more user to list it again.
func TestCampaign(t *testing.T) {
	s := scenario(t, "un-list a campaign of 10 reports", Mailboxes)
	for _, honest := range []int{0, 5} {
		r, err := Run(t.Context(), s, honest, 100)
		if err != nil {
			t.Fatal(err)
		}
		if want := campaignReports + honest; r.Takes != want || r.Undone != 1 {
			t.Errorf("%d of full weight un-list what %d reported, and %d list it again; want %d and 1", r.Takes, want, r.Undone,
				want)
		}
	}
	if succeeds(t, scenario(t, s.Name+" as a peer", Peers), 0, 100) {
		t.Error("a hundred peers of little weight un-list what ten users report")
	}
}

// TestWorn checks that a mailbox that changes its mind a hundred times wears no listing out.
func TestWorn(t *testing.T) {
	s := scenario(t, "wear a listing out before one user reports it", Changes)
	if !succeeds(t, s, 0, 1) {
		t.Error("one voice for a text and one against it list it: nothing was measured")
	}
	if succeeds(t, s, 1, 100) {
		t.Error("two users cannot list what one has listed and taken off 100 times")
	}
}

// TestVisible checks that the log warns of what votes prepare, before they have their way:
// strangers of whom a few are there, and voices of full weight, traps, changes of mind and peers of
// which one more would be enough. Mail without a delivery and without an objection looks like any
// other spam.
func TestVisible(t *testing.T) {
	for _, s := range Scenarios() {
		looksLikeMail := s.Means == Sendings || s.Means.mail() || s.learns || strings.HasPrefix(s.Name, "hide ")
		if s.mend == nil || looksLikeMail || s.Means == Peers && s.daily == nil {
			continue // what peers take off achieves nothing
		}
		for _, honest := range []int{0, 5} {
			if honest == 0 && s.daily == nil {
				continue
			}
			t.Run(fmt.Sprint(s.Name, ", ", s.Means, ", against ", honest), func(t *testing.T) {
				t.Parallel()
				r, err := Run(t.Context(), s, honest, 16)
				if err != nil {
					t.Fatal(err)
				}
				// Deliveries that a peer claims look like any others, and achieve nothing.
				if !r.Visible && (s.Means != Peers || r.Takes > 0) {
					t.Errorf("it takes %d, and the log says nothing before", r.Takes)
				}
			})
		}
	}
}

// TestRing checks that the log warns of accounts that raise each other, although they achieve
// nothing.
func TestRing(t *testing.T) {
	r, err := Run(t.Context(), scenario(t, "raise each other in a ring", Fresh), 0, 16)
	if err != nil {
		t.Fatal(err)
	}
	if r.Takes > 0 || !r.Visible {
		t.Errorf("a ring: %d raise each other, the log warns: %v", r.Takes, r.Visible)
	}
}

// TestDeliveries checks that mail to one mailbox, however much, neither makes a text bulk nor
// excuses a sender, and that of many mailboxes half the threshold is needed beside strangers,
// for this one text. The log names the text before, and one user who wants it ends or prevents
// that. Where the sender becomes known, the log names it with the first vote, and one vote more
// is enough.
func TestDeliveries(t *testing.T) {
	const bulk, known = "make personal mail bulk", "be of good standing, then send what is reported"
	least := engine.DefaultThreshold / 2
	for _, tt := range []struct {
		name    string
		means   Means
		honest  int
		limit   int
		takes   int
		visible bool
	}{
		{bulk, Sendings, 0, 2000, 0, false},
		{known, Sendings, 0, 300, 0, true},
		{known, Sendings, 5, 300, 0, true},
		{bulk, Inboxes, 0, 100, least, true},
		{bulk, Inboxes, 1, 400, 0, true},
		{"make bulk what one person will write", Inboxes, 0, 400, 0, true},
		{known, Inboxes, 0, 100, 2, true},
		{known, Inboxes, 5, 400, 0, true},
	} {
		t.Run(fmt.Sprint(tt.name, ", ", tt.means, ", against ", tt.honest), func(t *testing.T) {
			t.Parallel()
			r, err := Run(t.Context(), scenario(t, tt.name, tt.means), tt.honest, tt.limit)
			if err != nil {
				t.Fatal(err)
			}
			if r.Takes != tt.takes || r.Visible != tt.visible {
				t.Errorf("it takes %d and the log warns: %v; want %d and %v", r.Takes, r.Visible, tt.takes, tt.visible)
			}
			if r.mend != nil && r.Takes > 0 && r.Undone != 1 {
				t.Errorf("%d votes undo it, want 1", r.Undone)
			}
		})
	}
}

// TestUndone checks that whatever users of full weight, peers and traps achieve, as many
// honest votes undo.
func TestUndone(t *testing.T) {
	for _, s := range Scenarios() {
		if s.mend == nil || s.Means == Fresh || s.Means == Aged || s.Means == Names {
			continue // nothing to undo, or one name at a time
		}
		t.Run(fmt.Sprint(s.Name, ", ", s.Means), func(t *testing.T) {
			t.Parallel()
			for _, honest := range []int{0, 2} {
				r, err := Run(t.Context(), s, honest, 16)
				if err != nil {
					t.Fatal(err)
				}
				switch {
				case s.Means == Mailboxes && s.daily == nil && r.Takes == 0:
					t.Errorf("not even 16 mailboxes against %d users: nothing was measured", honest)
				case r.Takes > 0 && (r.Undone == 0 || r.Undone > r.Takes+1):
					t.Errorf("against %d users, %d succeed and %d votes undo it", honest, r.Takes, r.Undone)
				case s.Means == Mailboxes && r.Takes > 0 && r.Takes < honest:
					t.Errorf("%d mailboxes have their way against %d users", r.Takes, honest)
				}
			}
		})
	}
}

// TestBetrayal checks that weight grows with the days on which it is earned, that three lies
// lose it at once, and that it takes more than a week to come back.
func TestBetrayal(t *testing.T) {
	days, err := Betrayal(t.Context(), 3)
	if err != nil {
		t.Fatal(err)
	}
	if len(days) != 3*agedDays {
		t.Fatalf("%d days, want %d", len(days), 3*agedDays)
	}
	before, after := days[agedDays-1].Weight, days[agedDays].Weight
	if before < 0.4 || after > 0.6*before {
		t.Errorf("an account that weighed %.2f weighs %.2f once it has betrayed", before, after)
	}
	if week := days[agedDays+7].Weight; week > 0.8*before {
		t.Errorf("a week later it weighs %.2f again", week)
	}
}

func TestRunRefuses(t *testing.T) {
	for _, lies := range []int{0, -1, 101} {
		if _, err := Betrayal(t.Context(), lies); err == nil {
			t.Errorf("%d lies: no error", lies)
		}
	}
	s := scenario(t, "make personal mail bulk", Fresh)
	for _, n := range [][2]int{{0, 0}, {0, -1}, {0, MaxMeans + 1}, {-1, 1}, {MaxMeans + 1, 1}} {
		if _, err := Run(t.Context(), s, n[0], n[1]); err == nil {
			t.Errorf("%d against %d: no error", n[1], n[0])
		}
	}
}

// TestReport checks that the page has a line for each attack and shows each figure.
func TestReport(t *testing.T) {
	var results []Result
	for _, s := range Scenarios() {
		for _, honest := range Honest() {
			results = append(results, Result{Scenario: s, Honest: honest, Takes: 1 + honest, Limit: 99})
		}
	}
	figures, err := Figures(t.Context(), results)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := Report(&b, results); err != nil {
		t.Fatal(err)
	}
	for _, f := range figures {
		if err := f.Draw(io.Discard, "svg"); err != nil {
			t.Error(err)
		}
		if want := "(attacks/" + f.Name + ".svg)"; !strings.Contains(b.String(), want) {
			t.Errorf("the page does not show %s", want)
		}
	}
	if got := strings.Count(b.String(), " | 51"); got != len(Scenarios()) {
		t.Errorf("%d lines of attacks, want %d", got, len(Scenarios()))
	}
}

// TestMail checks that copies of a template share bands and nothing else, and that letters
// share nothing.
func TestMail(t *testing.T) {
	shared := func(a, b mail) (n int) {
		in := make(map[bulkhead.Signature]bool)
		for _, s := range a.signatures() {
			in[s] = true
		}
		for _, s := range b.signatures() {
			if in[s] {
				n++
			}
		}
		return n
	}
	for _, tt := range []struct {
		what string
		a, b mail
		want int
	}{
		{"two copies", copyOf("t", "a"), copyOf("t", "b"), sharedBands},
		{"two letters", letter("a"), letter("b"), 0},
		{"two letters of one sender", letter("a").from("ann", "home.example"), letter("b").from("ann", "home.example"), 4},
		{"a letter and itself", letter("a"), letter("a"), 4 + nearBands},
	} {
		if got := shared(tt.a, tt.b); got != tt.want {
			t.Errorf("%s share %d signatures, want %d", tt.what, got, tt.want)
		}
	}
}
