package web

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead/client/admin"
)

// rulesOf is an API that answers for the days of a request with rules.
type rulesOf struct {
	asked *string
	rules []admin.Rule
}

func (a rulesOf) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/v1/rules" {
		fake{}.ServeHTTP(w, r)
		return
	}
	*a.asked = r.URL.Query().Get("days")
	json.NewEncoder(w).Encode(a.rules)
}

// TestRules: the page has a row for each class that a rule decided, with its interval, and counts the
// rules that decided nothing.
func TestRules(t *testing.T) {
	asked := ""
	api := rulesOf{&asked, []admin.Rule{
		{Name: "exact-text", Verdict: "spam", When: `It is a "copy".`, Classes: []admin.RuleClass{
			{Class: "spam", Outcomes: admin.Outcomes{Decided: 1200, Objected: 3, Confirmed: 40, Wrong: 0.0025,
				WrongLow: 0.0009, WrongHigh: 0.0073}},
			{Class: "suspected", Outcomes: admin.Outcomes{Decided: 7, Missed: 1, Wrong: 1. / 7, WrongHigh: 0.5}}}},
		{Name: "link", Verdict: "spam"},
	}}
	page := get(t, New(source{}, api), "/judgement?days=7")
	for _, want := range []string{"<code>exact-text</code>", `title="It is a &#34;copy&#34;."`, "1\u202f200", "0.2 %",
		"&lt; 0.1 % to 0.7 %", "14 %", "0 % to 50 %", "1 other rule decided nothing", `aria-current="true">7 days`,
		`pill-suspected`} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if asked != "7" || strings.Contains(page, "<code>link</code>") {
		t.Errorf("asked for %q days; the page:\n%s", asked, page)
	}
	api.rules = nil
	if page := get(t, New(source{}, api), "/judgement?days=x"); asked != "28" ||
		!strings.Contains(page, "No rule has decided anything") {
		t.Errorf("asked for %q days; the page:\n%s", asked, page)
	}
}
