package web

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client"
	"github.com/bulkhead-mail/bulkhead/client/admin"
)

type source Status

func (s source) Status(context.Context) Status { return Status(s) }

func show(t *testing.T, s Status) string {
	t.Helper()
	return get(t, New(source(s), fake{}), "/storage") + get(t, New(source(s), fake{}), "/")
}

// fake is an API that allows every client to check, and has no other operation.
type fake struct{}

func (fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/v1/whoami" {
		http.NotFound(w, r)
		return
	}
	io.WriteString(w, `{"check":true}`)
}

func get(t *testing.T, site http.Handler, path string) string {
	t.Helper()
	w := httptest.NewRecorder()
	site.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
	if w.Code != 200 || w.Header().Get("Content-Type") != "text/html; charset=utf-8" {
		t.Fatalf("page = %d %v", w.Code, w.Header())
	}
	return w.Body.String()
}

func TestPage(t *testing.T) {
	day := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	got := show(t, Status{
		Name: "<mx>", Version: "v1", Started: day, Now: day.Add(26 * time.Hour), Durability: "always", Threshold: 20,
		Doors: []Door{{Name: "http", Address: "http://127.0.0.1:8420", Serves: "API", Rate: 12.5, Slowest: 0.003,
			Answers: 5000, Faults: 2}},
		Counters: []Counter{{"Checks", 1234567}},
		Books: []Book{{Name: "tally", Generations: []Generation{{Start: day, End: day.Add(24 * time.Hour), Capacity: 1000,
			Arrays: []Array{{Name: "counts", Keys: 5, Fill: 0.25, Ghost: 1e-4, Wrong: 0.002, Bulk: 1e-9},
				{Name: "unique", Bits: true}}}}}},
	})
	for _, want := range []string{"&lt;mx&gt;", "Taking reports", "1 d 2 h", "1\u202f234\u202f567",
		"http://127.0.0.1:8420", "12 a second", "99 % within 3 ms", "2 refused or failed", "25 %",
		`width="25.0"`, "1 in 10\u202f000", "1 in 500", "1 in 1.0 · 10⁹", "1 Nov 2026", "Absent key shows\u00a020"} {
		if !strings.Contains(got, want) {
			t.Errorf("page lacks %q", want)
		}
	}
	for _, foreign := range []string{"<mx>", "<script src", "src=", "@import", "url("} {
		if strings.Contains(got, foreign) {
			t.Errorf("page has %q", foreign)
		}
	}
}

func TestPageTellsTrouble(t *testing.T) {
	got := show(t, Status{ReadOnly: "no space left on device", Durability: "relaxed", Books: []Book{{Name: "Tally"}}})
	for _, want := range []string{"Read-only", "no space left on device", "power cut", "No generation yet"} {
		if !strings.Contains(got, want) {
			t.Errorf("page lacks %q", want)
		}
	}
	if strings.Contains(got, "Taking reports") {
		t.Error("a read-only node is said to take reports")
	}
}

// TestNow: the first page has the numbers by door, the lag of each peer, the fill of books and
// disk, and the problems of the node.
func TestNow(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	sums := func(spam, unknown uint64) (n [bulkhead.NumClasses]uint64) {
		n[bulkhead.ClassSpam], n[bulkhead.ClassUnknown] = spam, unknown
		return n
	}
	slots := []Slot{
		{Start: now.Add(-20 * time.Minute)},
		{Start: now.Add(-10 * time.Minute), Verdicts: sums(3, 4),
			Doors: map[string][bulkhead.NumClasses]uint64{"milter": sums(1, 4), "http": sums(2, 0)}},
		{Start: now, Verdicts: sums(5, 0), Doors: map[string][bulkhead.NumClasses]uint64{"milter": sums(5, 0)}},
	}
	s := Status{
		Now: now, Started: now, Mature: true, Day: slots, Month: slots, Free: 1 << 30, Disk: 4 << 30,
		Peers: []admin.Peer{{Name: "well.example", Heard: now.Add(-time.Second), Lag: 0.25},
			{Name: "<mute>", Heard: now.Add(-time.Hour), Silent: 3600}},
		Books: []Book{{Name: "Tally",
			Generations: []Generation{{Arrays: []Array{{Name: "counts", Fill: 0.125, Ghost: 1e-4},
				{Name: "unique", Fill: 0.5, Ghost: 1e-3}}}}}},
	}
	page := func() string { return get(t, New(source(s), fake{}), "/") }
	has := func(got string, all ...string) {
		t.Helper()
		for _, want := range all {
			if !strings.Contains(got, want) {
				t.Errorf("the page lacks %q", want)
			}
		}
	}
	got := page()
	has(got, "each bar 10 minutes, at most 7 messages", "8 spam", "4 unknown",
		`<th scope="row">milter</th><td class="num">6</td>`, `<th scope="row">http</th><td class="num">2</td>`,
		"50 % full", "absent key found: 1 in 1\u202f000", "75 % full", "1.0 GiB free", "0.2 s",
		"All is well here, but of 2 peers 1 cannot be heard or counted.", "&lt;mute&gt;")
	if strings.Index(got, "&lt;mute&gt;") > strings.Index(got, "well.example") {
		t.Error("a peer in trouble comes after one that is well")
	}
	s.Peers, s.Day = nil, slots[:1]
	has(page(), "All is well.", "No message was checked in this time")
	s.Month = nil
	has(page(), "No message was checked yet")
	s.Doubts = 2
	has(page(), "some counts may be too low")
	s.Missing = []string{"greylist"}
	has(page(), "began anew: greylist.")
}

func TestWords(t *testing.T) {
	for _, tt := range []struct{ got, want string }{
		{chance(0), "none"}, {chance(1e-30), "< 1 in 10¹⁸"}, {chance(0.9), "90 %"}, {chance(0.3), "1 in 3"},
		{chance(0.0123), "1 in 81"},
		{chance(-1), "unknown"}, {percent(0.00001), "< 0.1 %"}, {percent(0.054), "5.4 %"}, {count(999), "999"},
		{size(1536), "1.5 KiB"},
		{bar(0), "0"}, {perSecond(0), "idle"}, {perSecond(0.05), "3.0 a minute"}, {perSecond(2.5), "2.5 a second"},
		{within(0), "–"}, {within(1e-4), "within 100 µs"}, {within(3), "within 3 s"}, {within(11), "in more than 10 s"},
		{bar(0.0001), "0.8"}, {bar(2), "100.0"}, {date(time.Time{}), "–"}, {age(time.Unix(9, 0), time.Unix(0, 0)), "0 s"},
	} {
		if tt.got != tt.want {
			t.Errorf("got %q, want %q", tt.got, tt.want)
		}
	}
}

// TestBarcode: the bands of a text are bars next to each other. The width of each depends on its
// own sum and the colour on what is known of the band, regardless of the other findings of a
// verdict.
func TestBarcode(t *testing.T) {
	band := func(last byte) bulkhead.Signature {
		return bulkhead.MustSignature(bulkhead.Near, append(make([]byte, 7), last))
	}
	v := &client.Verdict{Findings: []client.Finding{
		{Signature: band(0), Judged: "spam"},
		{Signature: bulkhead.MustSignature(bulkhead.PyzorDigest, make([]byte, 20)), Judged: "spam"},
		{Signature: band(15), Judged: "revoked"},
		{Signature: band(3), Judged: "none", Sightings: 2},
		{Signature: band(16), Judged: "none"},
	}}
	var b strings.Builder
	if err := barcode(v).Render(&b); err != nil {
		t.Fatal(err)
	}
	var bars []string
	for _, m := range regexp.MustCompile(
		`<rect class="class-(\w+)" x="([0-9.]+)" width="([0-9.]+)"`).FindAllStringSubmatch(b.String(), -1) {
		bars = append(bars, strings.Join(m[1:], " "))
	}
	if want := []string{"spam 0.0 4.0", "good 7.0 19.0", "bulk 29.0 7.0", "unknown 39.0 4.0"}; !slices.Equal(bars, want) {
		t.Errorf("bars %q, want %q in\n%s", bars, want, b.String())
	}
	for _, want := range []string{"4 bands: 1 listed", "1 revoked", "1 seen", "1 not known"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	b.Reset()
	if err := barcode(&client.Verdict{}).Render(&b); err != nil ||
		!strings.Contains(b.String(), "too short to have bands") {
		t.Errorf("of a short text: %v, %s", err, b.String())
	}
}

// TestAgreements: a token is valid only for the change that it was made for, until it expires, and
// in one process.
func TestAgreements(t *testing.T) {
	a, b := newAgreements(), newAgreements()
	now := time.Unix(1_800_000_000, 0)
	d := deed{account: "admin", path: "/people", do: "undo", name: "ann", since: now.Add(-time.Hour)}
	token := a.token(&d, now.Add(agreementLife))
	if !a.agreed(&d, token, now) {
		t.Error("the token is not good for its own change")
	}
	if a.agreed(&d, token, now.Add(agreementLife)) {
		t.Error("the token is good after it has expired")
	}
	if b.agreed(&d, token, now) {
		t.Error("another process takes the token")
	}
	for what, other := range map[string]deed{
		"account": {account: "carol", path: d.path, do: d.do, name: d.name, since: d.since},
		"path":    {account: d.account, path: "/peers", do: d.do, name: d.name, since: d.since},
		"change":  {account: d.account, path: d.path, do: "close", name: d.name, since: d.since},
		"name":    {account: d.account, path: d.path, do: d.do, name: "bob", since: d.since},
		"time":    {account: d.account, path: d.path, do: d.do, name: d.name, since: d.since.Add(time.Second)},
		"split":   {account: d.account, path: d.path, do: d.do + "ann", name: "", since: d.since},
	} {
		if a.agreed(&other, token, now) {
			t.Errorf("the token is good for another %s", what)
		}
	}
	for _, bad := range []string{"", ".", "1", token[:len(token)-1], token + "A", "x" + token,
		"9999999999999999999999." + token} {
		if a.agreed(&d, bad, now) {
			t.Errorf("token %q is good", bad)
		}
	}
}
