package search

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/bulkhead-mail/bulkhead/client/admin"
)

var now = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)

func TestParse(t *testing.T) {
	for line, want := range map[string]admin.HistoryQuery{
		"":                                {},
		"  verdict:spam   door:milter ":   {Class: "spam", Door: "milter"},
		"verdict:caught since:24h":        {Outcome: "caught", Since: now.Add(-24 * time.Hour)},
		"is:waiting":                      {Outcome: "waiting"},
		"is:caught verdict:caught":        {Outcome: "caught"},
		"from:Example.COM link:@a.test":   {From: "example.com", Link: "a.test"},
		"shop.example.net":                {Domain: "shop.example.net"},
		"@shop.example.net":               {Domain: "shop.example.net"},
		"<1@example.com>":                 {MessageID: "<1@example.com>"},
		"1@example.com by:ann kind:ham":   {MessageID: "1@example.com", Reporter: "ann", Kind: "ham"},
		"id:x:y":                          {MessageID: "x:y"},
		"bulkhead/exact:00ff":             {Signature: "bulkhead/exact:00ff"},
		"signature:pyzor/digest:00":       {Signature: "pyzor/digest:00"},
		"since:7d until:2026-11-28":       {Since: now.Add(-7 * 24 * time.Hour), Until: now.Truncate(24 * time.Hour)},
		"since:2026-11-28T10:30Z":         {Since: now.Add(-90 * time.Minute)},
		"until:2026-11-28T12:30:00+01:00": {Until: now.Add(-30 * time.Minute)},
	} {
		got, err := Parse(line, now)
		if got.Since, got.Until = got.Since.UTC(), got.Until.UTC(); err != nil || got != want {
			t.Errorf("%q: %+v, %v, want %+v", line, got, err, want)
		}
	}
	for line, want := range map[string]string{
		"verdict:":                  "has no value",
		"verdict:bad":               "want one of spam, suspected",
		"is:caught is:caught":       "two words of this kind",
		"colour:red":                "unknown kind of word; there are verdict:",
		"since:soon":                "want a time such as",
		"since:-4h":                 "want a time such as",
		"verdict:caught is:waiting": "contradicts is:caught",
		strings.Repeat("a", 2001):   "limit 2000",
	} {
		if _, err := Parse(line, now); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %v, want %q", line, err, want)
		}
	}
}

// TestWith checks that a facet replaces the word of its kind and leaves the others.
func TestWith(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := map[string]string{}
		var line []string
		for _, w := range Words() {
			if rapid.Bool().Draw(t, w.Key) {
				words[w.Key] = rapid.StringMatching(`[a-z0-9.]{1,8}`).Draw(t, "value")
				if w.Key == "is" || w.Key == "verdict" {
					words[w.Key] = "spam"
				}
				line = append(line, w.Key+":"+words[w.Key])
			}
		}
		key := rapid.SampledFrom(Words()).Draw(t, "key").Key
		got := With(strings.Join(line, "  "), key, "new.example")
		words[key] = "new.example"
		for _, w := range Words() {
			if Value(got, w.Key) != words[w.Key] {
				t.Fatalf("%q: %s is %q, want %q", got, w.Key, Value(got, w.Key), words[w.Key])
			}
		}
		if gone := With(got, key, ""); Value(gone, key) != "" {
			t.Fatalf("%q: %s is still there", gone, key)
		}
	})
	if got := With("is:caught door:http", "verdict", "good"); got != "door:http verdict:good" {
		t.Errorf("got %q", got)
	}
}

func FuzzParse(f *testing.F) {
	for _, line := range []string{
		"", "verdict:spam from:a.test", "since:9999999999h", "since:65536d", ":", "a:b:c", "\x00 @",
		"<>@", "id:<1@example.com> by:x", "is:caught kind:check link:b.test domain:@c.test door:HTTP until:2026-01-02",
		"verdict:caught is:reported", "is:unheard-of", "bulkhead/exact:00 signature:x since:2026-01-02T15:04Z",
		"@d.test e.test since:7d until:90m", "since:soon", "unknown:x"} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		q, err := Parse(line, now)
		if err != nil {
			return
		}
		again, err := Parse(With(line, "door", q.Door), now)
		if err != nil || again != q {
			t.Errorf("%q: %+v, then %+v, %v", line, q, again, err)
		}
	})
}
