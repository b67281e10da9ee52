package api

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/testing/prototest"
)

// fakeMTA has one rule and one list.
type fakeMTA struct{ known map[string]int }

func (f fakeMTA) ApplyRateLimits(_ context.Context, a map[string]string, readonly bool) (admin.RateDecision, error) {
	if readonly {
		return admin.RateDecision{Action: "dunno",
			Rules: []admin.RateOutcome{{Rule: "r", Key: a["sasl_username"], Rate: float64(f.known[a["sasl_username"]])}}}, nil
	}
	f.known[a["sasl_username"]]++
	return admin.RateDecision{Action: "defer", Text: "slow",
		Rules: []admin.RateOutcome{{Rule: "r", Key: a["sasl_username"], Over: true}}}, nil
}
func (f fakeMTA) RateLimits() []admin.RateLimit {
	return []admin.RateLimit{{Name: "r", Keys: len(f.known)}}
}
func (f fakeMTA) RateKeys(rule, key string) ([]admin.RateKey, error) {
	if f.known[key] == 0 {
		return nil, nil
	}
	return []admin.RateKey{{Rule: rule, Rate: float64(f.known[key])}}, nil
}
func (f fakeMTA) TopRateKeys(n int) ([]admin.TopKeys, error) {
	return []admin.TopKeys{{Rule: "r", Keys: []admin.TopKey{{Key: "ann", Rate: float64(n)}}}}, nil
}
func (f fakeMTA) ResetRateKey(_, key string) int { n := f.known[key]; delete(f.known, key); return n }
func (f fakeMTA) Lists() []admin.List            { return []admin.List{{Name: "bad", Tone: "black"}} }
func (f fakeMTA) FindInLists(entry string) ([]admin.ListMatch, error) {
	if entry == "" {
		return nil, fmt.Errorf("%w: empty entry", bulkhead.ErrMalformed)
	}
	return []admin.ListMatch{{List: "bad", Element: entry, Updated: time.Unix(0, 0).UTC()}}, nil
}

func TestRateLimitsAndLists(t *testing.T) {
	f, users := fakeMTA{known: make(map[string]int)}, newFakeUsers()
	s, err := New(Options{
		Clearinghouse: &prototest.House{}, RateLimits: f, Lists: f, Accounts: users, Users: users,
		Read: func(context.Context, []byte, []string) ([]bulkhead.Signature, bulkhead.Source, error) {
			return nil, bulkhead.Source{}, nil
		},
		Access: Access{AnonymousCheck: Everyone, AnonymousReport: Everyone, MaxBody: 1 << 20, MaxBatch: 1, MaxSignatures: 1},
	})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(s)
	defer web.Close()
	c := admin.New(web.URL, "")
	d, err := c.ApplyRateLimits(t.Context(), map[string]string{"sasl_username": "ann"})
	if err != nil || d.Action != "defer" || len(d.Rules) != 1 || d.Rules[0].Key != "ann" {
		t.Errorf("ApplyRateLimits = %+v, %v", d, err)
	}
	for range 2 { // does not count
		if d, err = c.PeekRateLimits(t.Context(), map[string]string{"sasl_username": "ann"}); err != nil ||
			d.Action != "dunno" || d.Rules[0].Rate != 1 {
			t.Errorf("PeekRateLimits = %+v, %v", d, err)
		}
	}
	if _, err := c.ApplyRateLimits(t.Context(), nil); !errors.Is(err, bulkhead.ErrMalformed) {
		t.Errorf("no attributes: %v", err)
	}
	if rules, err := c.RateLimits(t.Context()); err != nil || len(rules) != 1 || rules[0].Keys != 1 {
		t.Errorf("RateLimits = %+v, %v", rules, err)
	}
	// Only an administrator may list keys.
	if _, err := c.RateKeys(t.Context(), "", "ann"); !errors.Is(err, bulkhead.ErrUnauthorised) &&
		!errors.Is(err, bulkhead.ErrForbidden) {
		t.Errorf("RateKeys without a token: %v", err)
	}
	if _, err := c.ResetRateKey(t.Context(), "", "ann"); err == nil || f.known["ann"] != 1 {
		t.Errorf("ResetRateKey without a token: %v", err)
	}
	if lists, err := c.Lists(t.Context()); err != nil || len(lists) != 1 || lists[0].Name != "bad" {
		t.Errorf("Lists = %+v, %v", lists, err)
	}
	if found, err := c.FindInLists(t.Context(), "evil.example"); err != nil || len(found) != 1 ||
		found[0].Element != "evil.example" {
		t.Errorf("FindInLists = %+v, %v", found, err)
	}
	// A misspelt parameter is an error, and not taken for an absent one.
	admin := []string{"Authorization", "Bearer token-alice"}
	for _, path := range []string{"/v1/ratelimits/keys?key=ann&rules=r", "/v1/ratelimits/keys",
		"/v1/ratelimits/keys?key=ann&key=bob"} {
		if w := send(s, local, "DELETE", path, "", "", admin...); w.Code != 400 || f.known["ann"] != 1 {
			t.Errorf("DELETE %s = %d %s, %d events left; want 400 and 1", path, w.Code, w.Body, f.known["ann"])
		}
	}
	if w := send(s, local, "DELETE", "/v1/ratelimits/keys?key=ann&rule=r", "", "", admin...); w.Code != 200 ||
		f.known["ann"] != 0 {
		t.Errorf("DELETE of a key = %d %s, %d events left; want 200 and none", w.Code, w.Body, f.known["ann"])
	}
	if w := send(s, local, "GET", "/v1/lists/find?entries=evil.example", "", ""); w.Code != 400 {
		t.Errorf("find without an entry = %d %s, want 400", w.Code, w.Body)
	}
	if _, err := c.FindInLists(t.Context(), ""); !errors.Is(err, bulkhead.ErrMalformed) {
		t.Errorf("FindInLists of nothing: %v", err)
	}
}
