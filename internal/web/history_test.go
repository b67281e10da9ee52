package web

import (
	"context"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client"
	"github.com/bulkhead-mail/bulkhead/client/admin"
)

// TestReason checks that the reason of a row is short, whatever the node says.
func TestReason(t *testing.T) {
	for _, tt := range []struct {
		entry admin.HistoryEntry
		want  string
	}{
		{admin.HistoryEntry{Class: "spam", Reasons: []string{"reported as spam by reporters that are trusted (x)"}},
			"text was reported"},
		{admin.HistoryEntry{Class: "spam", Reasons: []string{`links to "a.test": reported as spam by 3 of 4`}},
			"link was reported"},
		{admin.HistoryEntry{Class: "bulk", Reasons: []string{"seen 30 times: bulk, the threshold is 20"}}, "sent in bulk"},
		{admin.HistoryEntry{Class: "unknown", Reasons: []string{"called spam by 1 voter"}}, "voted on before"},
		{admin.HistoryEntry{Class: "unknown", Reasons: []string{"called wanted by 2 voters"}}, "people want it"},
		{admin.HistoryEntry{Class: "unknown", Reasons: []string{"never seen and never reported here"}}, "never seen"},
		{admin.HistoryEntry{Class: "unknown"}, "nothing known"},
		{admin.HistoryEntry{Class: "good", Reasons: []string{"a rule, of a later version, decided"}}, "a rule, of"},
		{admin.HistoryEntry{Kind: "spam", Account: "ann", Waits: true}, "waits, by ann"},
		{admin.HistoryEntry{Kind: "spam", User: "u", Account: "ann", Listed: 2}, "listed by u"},
		{admin.HistoryEntry{Kind: "spam", Trap: true}, "spam trap"},
		{admin.HistoryEntry{Kind: "sighting"}, "counted"},
	} {
		if got := reason(&tt.entry); got != tt.want {
			t.Errorf("%+v: %q, want %q", tt.entry, got, tt.want)
		}
	}
}

// TestLean checks that more votes for spam never move a bar towards wanted, and that it stays between
// its ends.
func TestLean(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Uint32Range(0, 1000)
		p := partKnown{listed: rapid.IntRange(0, 3).Draw(t, "listed"), revoked: rapid.IntRange(0, 3).Draw(t, "revoked"),
			spamVotes: n.Draw(t, "spam"), hamVotes: n.Draw(t, "ham")}
		before := p.lean()
		p.spamVotes++
		if after := p.lean(); after < before || before < -1 || after > 1 {
			t.Fatalf("%+v: from %v to %v", p, before, after)
		}
	})
	if x := (&partKnown{}).lean(); x != 0 {
		t.Errorf("a part of which nothing is known leans to %v", x)
	}
}

// TestParts checks that the parts of a verdict hold the most that is known of a signature of each kind,
// and leave out kinds without a signature.
func TestParts(t *testing.T) {
	finding := func(s bulkhead.Scheme, spam, seen uint32, judged string) client.Finding {
		return client.Finding{Signature: bulkhead.MustSignature(s, []byte("12345678")), Spam: spam, Sightings: seen,
			Judged: judged}
	}
	got := parts(&client.Verdict{Findings: []client.Finding{finding(bulkhead.Near, 2, 9, "spam"),
		finding(bulkhead.Near, 3, 1, "none"), finding(bulkhead.Link, 0, 1, "revoked")}})
	want := []partKnown{{name: "Changed copies of the text", signatures: 2, listed: 1, spamVotes: 3, seen: 9},
		{name: "Links", signatures: 1, revoked: 1, seen: 1}}
	if !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if text := got[0].words(); text != "1 of 2 listed, 3 spam votes, 0 wanted, delivered 9 times" {
		t.Errorf("in words: %q", text)
	}
}

// TestUndos checks that a change is taken back once, by whoever made it, in time, and that the oldest of
// too many gives way.
func TestUndos(t *testing.T) {
	var u undos
	now := time.Unix(1_800_000_000, 0)
	nothing := func(context.Context, *admin.Client) (string, error) { return "", nil }
	put := func() string { return u.put(&undoing{account: "ann", until: now.Add(undoLife), do: nothing}) }
	token := put()
	for _, wrong := range []struct {
		token, account string
		now            time.Time
	}{{token, "bob", now}, {token, "", now}, {"", "ann", now}, {token, "ann", now.Add(undoLife)}} {
		if _, ok := u.take(wrong.token, wrong.account, wrong.now); ok {
			t.Errorf("%+v takes ann's change back", wrong)
		}
	}
	if _, ok := u.take(token, "ann", now); !ok {
		t.Error("ann cannot take the change back")
	}
	if _, ok := u.take(token, "ann", now); ok {
		t.Error("ann takes the change back twice")
	}
	oldest := put()
	var latest string
	for range maxUndos {
		latest = put()
	}
	if _, ok := u.take(oldest, "ann", now); ok || len(u.all) > maxUndos {
		t.Errorf("%d changes are held", len(u.all))
	}
	if _, ok := u.take(latest, "ann", now); !ok {
		t.Error("the latest change is lost")
	}
}

// TestDeeds: the record of administration has words for each operation of the API that it records.
func TestDeeds(t *testing.T) {
	source, err := os.ReadFile("../api/openapi.go")
	if err != nil {
		t.Fatal(err)
	}
	route := regexp.MustCompile(`s\.route\("(?:POST|PUT|PATCH|DELETE) [^"]*", "(\w+)",`)
	need := regexp.MustCompile(`, ?\s*(check|report|manage|open),`)
	seen := 0
	for _, at := range route.FindAllSubmatchIndex(source, -1) {
		id, rest := string(source[at[2]:at[3]]), source[at[3]:]
		m := need.FindSubmatch(rest)
		if m == nil {
			t.Fatalf("%s: who may ask?", id)
		}
		if who := string(m[1]); who == "check" || who == "report" {
			continue
		}
		seen++
		if got := inWords(id); got == id || !strings.Contains(got, " ") {
			t.Errorf("%s is %q in the record", id, got)
		}
	}
	if seen < 25 {
		t.Errorf("only %d operations", seen)
	}
}
