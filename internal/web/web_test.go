package web

import (
	"context"
	"encoding/json"
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
		notFound(w)
		return
	}
	io.WriteString(w, `{"check":true}`)
}

// notFound answers as the API does about an operation that the node does not have.
func notFound(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(http.StatusNotFound)
	io.WriteString(w, `{"title":"Not Found","status":404}`)
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

// TestShards checks that the page Network of an edge has the map of its site, and what is wrong with it.
func TestShards(t *testing.T) {
	m := &admin.Shards{Site: "main", Problem: errNATS}
	site := New(source(Status{}), shardsAPI{m})
	if got := get(t, site, "/peers"); !strings.Contains(got, "There is no map yet") || !strings.Contains(got, errNATS) {
		t.Errorf("an edge without a map: %s", got)
	}
	*m = admin.Shards{Site: "main", Version: 3, By: "ann", Change: "move to <b>", Shards: []admin.Shard{
		{Name: "a", URLs: []string{"https://a1.example", "https://a2.example"}, Slots: 512, Default: true, Up: true},
		{Name: "dead", Slots: 511, Waiting: 17}}}
	got := get(t, site, "/peers")
	for _, want := range []string{"https://a1.example https://a2.example", ">512<", ">17<", "does not answer", "Version 3",
		"by ann: move to &lt;b&gt;"} {
		if !strings.Contains(got, want) {
			t.Errorf("page lacks %q", want)
		}
	}
	if strings.Count(got, ">default<") != 1 || strings.Contains(got, "cannot be read") {
		t.Errorf("the page of a map in use: %s", got)
	}
}

const errNATS = "nats: no servers available for connection"

// shardsAPI is an API that allows every client to check, and has the state of an edge.
type shardsAPI struct{ m *admin.Shards }

func (a shardsAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/v1/node" {
		fake{}.ServeHTTP(w, r)
		return
	}
	json.NewEncoder(w).Encode(&admin.NodeState{Shards: a.m})
}

// numbers is an API that allows every client to check, and has an overview and verdicts.
type numbers struct {
	overview admin.Overview
	verdicts admin.Verdicts
}

func (n *numbers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var answer any = &admin.Viewer{Check: true}
	switch r.URL.Path {
	case "/v1/whoami":
	case "/v1/overview":
		answer = &n.overview
	case "/v1/verdicts":
		answer = &n.verdicts
	default:
		notFound(w)
		return
	}
	json.NewEncoder(w).Encode(answer)
}

// TestNow checks that the first page has the numbers of the day with their messages, the chart of each
// range with its events, and one sentence of health in which a fault comes first.
func TestNow(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 5, 0, 0, time.UTC)
	waiting := 3
	n := &numbers{
		admin.Overview{Since: now.Add(-24 * time.Hour).Truncate(time.Hour), Known: true, Waiting: &waiting,
			Now:    admin.DayNumbers{Checked: 4000, Caught: 1234, Reported: 12, Complained: 2},
			Before: admin.DayNumbers{Caught: 617, Reported: 24, Complained: 2},
			Events: []admin.Event{{Time: now.Add(-time.Hour), Kind: "start", Text: "the node <started>"}}},
		admin.Verdicts{Slots: []admin.VerdictSlot{
			{Start: now.Add(-time.Hour).Truncate(10 * time.Minute), Doors: map[string]admin.DoorSum{
				"milter": {Spam: 3, Unknown: 4}, "http": {Spam: 5, SpamVotes: 6, HamVotes: 1}}}}},
	}
	s := Status{Now: now, Started: now.Add(-time.Hour), Mature: true, Free: 1 << 30, Disk: 4 << 30,
		Books: []Book{{Name: "Tally", Generations: []Generation{{Arrays: []Array{{Name: "counts", Fill: 0.125, Ghost: 1e-4},
			{Name: "unique", Fill: 0.5, Ghost: 1e-3}}}}}}}
	has := func(got string, all ...string) {
		t.Helper()
		for _, want := range all {
			if !strings.Contains(got, want) {
				t.Errorf("the page lacks %q", want)
			}
		}
	}
	page := func(path string) string { return get(t, New(source(s), n), path) }
	got := page("/")
	has(got, "All is well: mail is checked", "1\u202f234</a>", "/history?q=is%3Acaught+since%3A2026-11-22T12%3A00Z",
		"617 a week ago", "▲ 100 %", `class="down">▼ 50 %`, ">2 a week ago<", "/history?q=is%3Awaiting+since%3A7d", ">3</a>",
		"8 spam, 0 suspected", "11:05 the node &lt;started&gt;", "8 spam, 4 unknown",
		`door%3Ahttp">http</a></th><td class="num">5</td>`, "Disk 75 % full · tally 50 % full · 0 doors open",
		`aria-current="true">24 hours</a>`, "absent key found: 1 in 1\u202f000")
	if strings.Contains(got, "<details class=\"quiet\" open") {
		t.Error("the machinery of a sound node is open")
	}
	for path, want := range map[string]string{"/?range=90d": "90 days</a>", "/?range=1h": "1 hour</a>",
		"/?range=7d": "7 days</a>", "/?range=nonsense": "24 hours</a>"} {
		has(page(path), `aria-current="true">`+want)
	}
	n.overview.Known, n.overview.More = false, true
	has(page("/"), "no week to compare with yet", "over 3")
	n.verdicts.Slots = nil
	has(page("/"), "No message was checked in this time")
	if got := get(t, New(source(s), fake{}), "/"); strings.Contains(got, "Slipped") {
		t.Error("a node without an overview shows numbers")
	}
	for _, tt := range []struct {
		change func()
		want   []string
	}{
		{func() { s.Mature = false }, []string{"All is well. The node is young"}},
		{func() {
			s.Peers = []admin.Peer{{Name: "well.example", Heard: now.Add(-time.Second), Lag: 0.25},
				{Name: "<mute>", Heard: now.Add(-time.Hour), Silent: 3600}}
		}, []string{"the peer &lt;mute&gt; does not help: silent, last heard 1 h 0 min ago.", "health poor",
			`<details class="quiet" open`, "0.2 s", "1 of 2 peers heard"}},
		{func() { s.Peers[0].Quarantine = "rolled back" }, []string{"but 2 of 2 peers do not help"}},
		{func() { s.Doubts = 2 }, []string{"some counts may be too low"}},
		{func() { s.Missing = []string{"greylist"} }, []string{"began anew: greylist."}},
		{func() { s.Held = &admin.Ageing{Newest: now} }, []string{"2026-11-23 12:05:00 UTC. Set the clock right."}},
		{func() {
			s.Journal = &admin.Journal{Server: "nats://n1.example", First: 3, Last: 12, Replicas: 3, Bytes: 1 << 20,
				MaxBytes: 4 << 20}
			s.Held = nil
		}, []string{"stream of the journal 25 % full", "nats://n1.example",
			"3 to 12, 1.0 MiB of 4.0 MiB, on 3 servers"}},
		{func() { s.Journal.Bytes = 31 << 17 }, []string{"the stream of the journal is 97 % full.", "health poor"}},
		{func() { s.Journal.Problem = "no server is connected" }, []string{"stream of the journal away",
			"no server is connected"}},
		{func() {
			s.Journal = nil
			s.Standby = &admin.Standby{Role: "first", Address: "b.example:8430", Connected: true, Term: 4, Copied: 1234,
				Lag: 2, Age: 0.25, Witness: &admin.Witness{Holder: "this", Behind: true}}
		}, []string{"standby behind by 2 in the journal, for 0.2 s", "b.example:8430, term 4, entry 1\u202f234",
			"this node has the lease", "by command only"}},
		{func() { s.Standby.Lag = 0 }, []string{"standby in step"}},
		{func() { s.Standby.Witness.Problem = "<timeout>" }, []string{"the witness of the pair does not answer",
			"&lt;timeout&gt;"}},
		{func() { s.Standby.Connected = false }, []string{"the standby b.example:8430 is away", "standby away",
			`<details class="quiet" open`}},
		{func() { s.Standby.Role, s.ReadOnly = "second", "this node follows another one" },
			[]string{"b.example:8430, is not heard", "health poor", "bulkhead promote"}},
		{func() { s.Standby.Connected = true }, []string{"b.example:8430 takes the reports", "first node in step"}},
		{func() { s.Standby, s.ReadOnly = nil, "the disk is full" }, []string{"reports are refused until", "health ill",
			"disk is full."}},
	} {
		tt.change()
		has(page("/"), tt.want...)
	}
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
