package ratelimit

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/testing/await"
)

// TestRuleBounds checks that the largest and smallest values of a rule are accepted, and values
// beyond them refused.
func TestRuleBounds(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*Rule)
		ok     bool
	}{
		{"longest name", func(r *Rule) { r.Name = strings.Repeat("n", 64) }, true},
		{"longer name", func(r *Rule) { r.Name = strings.Repeat("n", 65) }, false},
		{"letters of a name", func(r *Rule) { r.Name = "az09-_" }, true},
		{"capital", func(r *Rule) { r.Name = "A" }, false}, {"before a", func(r *Rule) { r.Name = "`" }, false},
		{"behind z", func(r *Rule) { r.Name = "{" }, false}, {"before 0", func(r *Rule) { r.Name = "/" }, false},
		{"behind 9", func(r *Rule) { r.Name = ":" }, false},
		{"least memory", func(r *Rule) { r.Memory = 64 << 10 }, true},
		{"less memory", func(r *Rule) { r.Memory = 64<<10 - 1 }, false},
		{"most memory", func(r *Rule) { r.Memory = 1 << 40 }, true},
		{"more memory", func(r *Rule) { r.Memory = 1<<40 + 1 }, false},
		{"highest warning", func(r *Rule) { r.Warn = 1000 }, true}, {"higher warning", func(r *Rule) { r.Warn = 1000.1 },
			false},
		{"longest text", func(r *Rule) { r.Text = strings.Repeat("x", 512) }, true},
		{"longer text", func(r *Rule) { r.Text = strings.Repeat("x", 513) }, false},
		{"blank and beyond", func(r *Rule) { r.Text = " ~\u00e9" }, true},
		{"tab", func(r *Rule) { r.Text = "\t" }, false}, {"DEL", func(r *Rule) { r.Text = "\x7f" }, false},
		{"longest template", func(r *Rule) { r.Key = "{sender}" + strings.Repeat("x", 1016) }, true},
		{"longer template", func(r *Rule) { r.Key = "{sender}" + strings.Repeat("x", 1017) }, false},
		{"not UTF-8", func(r *Rule) { r.Key = "{sender}\xff" }, false},
		{"no attribute", func(r *Rule) { r.Key = "{}" }, false}, {"} behind", func(r *Rule) { r.Key = "{sender}}" }, false},
		{"literal alone", func(r *Rule) { r.Key = "all" }, true},
		{"count of no attribute", func(r *Rule) { r.Count = "{bytes}" }, false},
		{"every state", func(r *Rule) { r.State = StateData }, true}, {"every action", func(r *Rule) { r.Action = Hold },
			true},
	} {
		r := recipients(10)
		tt.change(&r)
		if _, err := Open(Options{Rules: []Rule{r}}); (err == nil) != tt.ok {
			t.Errorf("%s: %v, want it taken: %v", tt.name, err, tt.ok)
		}
	}
	var rules []Rule
	for i := range maxRules {
		r := recipients(10)
		r.Name, r.Memory = fmt.Sprint("r", i), minMemory
		rules = append(rules, r)
	}
	l := open(t, Options{Rules: rules})
	if err := l.Reload(append(rules, recipients(1))); err == nil || !strings.Contains(err.Error(), "65 rules, limit 64") {
		t.Errorf("a rule more: %v", err)
	}
}

// TestTemplateValues checks the value of each placeholder for a request.
func TestTemplateValues(t *testing.T) {
	attr := request("sender", "a@B@Example.COM", "recipient", "nobody", "client_address", "192.0.2.77",
		"server_address", "2001:db8:1:2:3::4",
		"helo_name", "@[`{AZ\x00", "client_name", "::ffff:198.51.100.9", "reverse_client_name", "fe80::1%eth0",
		"instance", "@example.org", "queue_id", "example.org@")
	for key, want := range map[string]string{
		"{sender}": "a@b@example.com", "{sender:domain}": "example.com", "{sender:local}": "a@b",
		"{instance:domain}": "example.org", "{queue_id:local}": "example.org", "{helo_name}": "@[`{az\x00",
		"{client_address:net}": "192.0.2.0/24", "{server_address:net}": "2001:db8:1:2::/64",
		"{client_name:net}": "198.51.100.0/24", "{reverse_client_name:net}": "fe80::/64",
		"{sasl_username|sender}": "a@b@example.com", "{sender|recipient}": "a@b@example.com",
		"{recipient|sender:domain}":            "example.com",
		"By {recipient} FROM {client_address}": "by nobody from 192.0.2.77",
		"{recipient:domain}":                   "none", "{recipient:local}": "none", "{helo_name:net}": "none",
		"{instance:local}": "none", "{queue_id:domain}": "none", "{sasl_username}": "none",
	} {
		l := open(t, Options{Rules: []Rule{{Name: "r", Key: key, Limit: 10, Period: time.Hour}}})
		_, _, outcomes, err := l.Apply(attr)
		got := "none"
		if len(outcomes) == 1 {
			got = outcomes[0].Key
		}
		if err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", key, got, err, want)
		}
	}
	// An empty sender can be counted, but not limited.
	bounce := request("sender", "", "sasl_username", "ann")
	for _, tt := range []struct {
		key, unique string
		want        int
	}{{"{sasl_username}", "{sender}", 1}, {"{sender}", "", 0}, {"{sasl_username}", "{recipient}", 0},
		{"{sasl_username}", "{sender|recipient}", 1}, {"{sasl_username}", "{recipient|sender}", 0}} {
		l := open(t, Options{Rules: []Rule{{Name: "r", Key: tt.key, Unique: tt.unique, Limit: 10, Period: time.Hour}}})
		if _, _, outcomes, err := l.Apply(bounce); err != nil || len(outcomes) != tt.want {
			t.Errorf("key %s, unique %s: %+v, %v, want %d", tt.key, tt.unique, outcomes, err, tt.want)
		}
	}
	l := open(t, Options{Rules: []Rule{{Name: "r", Key: "{sasl_username}", Unique: "{sender}", Limit: 10,
		Period: time.Hour}}})
	for i, sender := range []string{"", "<>", ""} {
		if _, _, outcomes, err := l.Apply(request("sender", sender, "sasl_username", "ann")); err != nil ||
			len(outcomes) != 1 || outcomes[0].New != (i == 0) {
			t.Errorf("sender %q: %+v, %v, want one item for both ways to write it", sender, outcomes, err)
		}
	}
	if tmpl, err := ParseTemplate("a {sender}"); err != nil || tmpl.String() != "a {sender}" || tmpl.Empty() ||
		!(Template{}).Empty() {
		t.Errorf("%q, %v", tmpl, err)
	}
}

// TestAmounts checks that a request counts the amount that its template yields, if that is a
// decimal number.
func TestAmounts(t *testing.T) {
	for size, want := range map[string]float64{"5": 5, "0": 0, "9007199254740992": 1 << 53,
		"9007199254740992.0": 1 << 53, "9007199254740991.9": 1 << 53, "1.5": 1.5, "0.25": 0.25, "007.50": 7.5} {
		l := open(t, Options{Rules: []Rule{{Name: "r", Key: "{sender}", Count: "{size}", Limit: 1e18, Period: time.Hour}},
			Now: (&testClock{epoch}).Now})
		if _, _, outcomes, err := l.Apply(request("sender", "a", "size", size)); err != nil || len(outcomes) != 1 ||
			outcomes[0].Rate != want {
			t.Errorf("size %s: %+v, %v, want a rate of %g", size, outcomes, err, want)
		}
	}
	for _, size := range []string{"9007199254740993", "9007199254740992.5", "-1", "+1", ".5", "5.", "1.5.5", "1e3",
		"1_000", " 1", "", "x", "inf", "NaN", "0x10", "99999999999999999999", strings.Repeat("1", 41)} {
		l := open(t, Options{Rules: []Rule{{Name: "r", Key: "{sender}", Count: "{size}", Limit: 1, Period: time.Hour}}})
		if action, _, outcomes, err := l.Apply(request("sender", "a", "size", size)); err != nil || len(outcomes) != 0 ||
			action != Dunno {
			t.Errorf("size %q: %s, %+v, %v, want that it counts nothing", size, action, outcomes, err)
		}
	}
}

// TestWhereRulesApply checks states, exempt networks and exempt keys.
func TestWhereRulesApply(t *testing.T) {
	nets := []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("2001:db8::/32")}
	for _, tt := range []struct {
		name string
		rule Rule
		req  []string
		want int
	}{
		{"at the recipient", Rule{}, []string{"protocol_state", "RCPT"}, 1},
		{"at the end", Rule{}, []string{"protocol_state", "END-OF-MESSAGE"}, 0},
		{"no state", Rule{}, nil, 1},
		{"size at the recipient", Rule{Count: "{size}"}, []string{"protocol_state", "RCPT", "size", "1"}, 0},
		{"size at the end", Rule{Count: "{size}"}, []string{"protocol_state", "END-OF-MESSAGE", "size", "1"}, 1},
		{"size, anywhere", Rule{Count: "{size}", State: AnyState}, []string{"protocol_state", "RCPT", "size", "1"}, 1},
		{"at DATA", Rule{State: StateData}, []string{"protocol_state", "DATA"}, 1},
		{"exempt", Rule{Exempt: nets}, []string{"client_address", "192.0.2.255"}, 0},
		{"exempt, mapped", Rule{Exempt: nets}, []string{"client_address", "::ffff:192.0.2.1"}, 0},
		{"exempt, of an interface", Rule{Exempt: nets}, []string{"client_address", "2001:db8::1%eth0"}, 0},
		{"beside", Rule{Exempt: nets}, []string{"client_address", "192.0.3.0"}, 1},
		{"unknown address", Rule{Exempt: nets}, []string{"client_address", "unknown"}, 1},
		{"no address", Rule{Exempt: nets}, nil, 1},
		{"exempt key", Rule{ExemptKeys: []string{"ANN"}}, nil, 0},
		{"another exempt key", Rule{ExemptKeys: []string{"an"}}, nil, 1},
	} {
		tt.rule.Name, tt.rule.Key, tt.rule.Limit, tt.rule.Period = "r", "{sasl_username}", 10, time.Hour
		l := open(t, Options{Rules: []Rule{tt.rule}})
		_, _, outcomes, err := l.Apply(request(append(tt.req, "sasl_username", "Ann")...))
		if err != nil || len(outcomes) != tt.want {
			t.Errorf("%s: %+v, %v, want %d", tt.name, outcomes, err, tt.want)
		}
	}
}

// TestOutcomes checks the outcome and the count of each rule when several apply.
func TestOutcomes(t *testing.T) {
	l := open(t, Options{Now: (&testClock{epoch}).Now, Rules: []Rule{
		{Name: "seen", Key: "{sasl_username}", Unique: "{recipient}", Limit: 100, Period: time.Hour},
		{Name: "watch", Key: "{sasl_username}", Limit: 2, Period: time.Minute, Action: Dunno, Strict: true},
		{Name: "few", Key: "{sasl_username}", Limit: 3, Period: 90 * time.Second, Action: Hold, Text: "no"},
		{Name: "fewer", Key: "{sasl_username}", Limit: 3, Period: 36 * time.Hour, Action: Reject},
	}})
	type want struct {
		action, text string
		rates        [4]float64
		over         [4]bool
		fresh        bool
	}
	for i, tt := range []struct {
		to string
		want
	}{
		{"bob", want{Dunno, "", [4]float64{1, 1, 1, 1}, [4]bool{}, true}},
		{"bob", want{Dunno, "", [4]float64{1, 2, 2, 2}, [4]bool{}, false}},
		{"eve", want{Dunno, "", [4]float64{2, 3, 3, 3}, [4]bool{false, true, false, false}, true}},
		{"eve", want{Hold, "no", [4]float64{2, 4, 4, 4}, [4]bool{false, true, true, true}, false}},
		{"dan", want{Hold, "no", [4]float64{3, 5, 4, 4}, [4]bool{false, true, true, true}, true}},
		{"dan", want{Hold, "no", [4]float64{3, 6, 4, 4}, [4]bool{false, true, true, true},
			true}}, // the refused item was not recorded as seen
	} {
		action, text, outcomes, err := l.Apply(rcpt("ann", tt.to))
		if err != nil || len(outcomes) != 4 || action != tt.action || text != tt.text || outcomes[0].New != tt.fresh {
			t.Fatalf("request %d: %s %q, %+v, %v, want %+v", i+1, action, text, outcomes, err, tt.want)
		}
		for k, o := range outcomes {
			if o.Rate != tt.rates[k] || o.Over != tt.over[k] || (o.Text != "") != o.Over || o.Key != "ann" {
				t.Errorf("request %d: %+v, want a rate of %g, over %v", i+1, o, tt.rates[k], tt.over[k])
			}
		}
	}
	_, _, outcomes, _ := l.Apply(rcpt("ann", "eve"))
	if got, want := outcomes[1].Text, "limit of 2 per 1m reached, try again later"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := outcomes[3].Text, "limit of 3 per 36h reached"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if st := &l.Stats; st.Requests.Load() != 7 || st.Refused.Load() != 4 || st.Warned.Load() != 3 ||
		st.Faults.Load() != 0 {
		t.Errorf("%d requests, %d refused, %d warned, %d faults; want 7, 4, 3, 0", st.Requests.Load(), st.Refused.Load(),
			st.Warned.Load(), st.Faults.Load())
	}
	if n := l.Reset("watch", "ANN"); n != 1 {
		t.Errorf("reset in %d rules, want 1", n)
	}
	if n := l.Reset("watch", "ann"); n != 0 {
		t.Errorf("reset again in %d rules, want 0", n)
	}
	for rule, want := range map[string]int{"": 3, "few": 1, "watch": 0, "nobody": 0} {
		if got, err := l.Show(rule, "Ann"); err != nil || len(got) != want {
			t.Errorf("shown of %q: %+v, %v, want %d", rule, got, err, want)
		}
	}
	if got, err := l.Show("few", "ann"); err != nil || got[0].Rate != 3 || got[0].Limit != 3 ||
		got[0].Period != 90*time.Second || got[0].Rule != "few" {
		t.Errorf("shown: %+v, %v", got, err)
	}
	usage := l.Usage()
	if len(usage) != 4 || usage[0].Keys != 1 || usage[1].Keys != 0 || usage[0].Bytes == 0 || usage[0].Rule.Name != "seen" {
		t.Errorf("usage %+v", usage)
	}
}

// TestNumbers checks the format of rates, limits and periods, and of long keys.
func TestNumbers(t *testing.T) {
	for _, tt := range []struct {
		limit  float64
		period time.Duration
		want   string
	}{
		{1, time.Hour, "1 1h"}, {1.25, time.Minute, "1.2 1m"}, {1.5, 90 * time.Minute, "1.5 1h30m"},
		{1, 30 * time.Second, "1 30s"}, {1, 10*time.Hour + time.Second, "1 10h0m1s"},
	} {
		l := open(t, Options{Now: (&testClock{epoch}).Now, Rules: []Rule{{Name: "r", Key: "{sender}", Count: "{size}",
			State: AnyState, Limit: tt.limit, Period: tt.period, Text: "{limit} {period}"}}})
		if _, text, err := l.Limit(context.Background(), request("sender", "a", "size", "9")); err != nil || text != tt.want {
			t.Errorf("%q, %v, want %q", text, err, tt.want)
		}
	}
	for n, want := range map[int]string{200: strings.Repeat("x", 200), 201: strings.Repeat("x", 200) + "..."} {
		l := open(t, Options{Rules: []Rule{{Name: "r", Key: "{sender}", Limit: 1, Period: time.Hour, Text: "{key}"}}})
		if _, text, err := l.Limit(context.Background(), request("sender", strings.Repeat("X", n))); err != nil ||
			text != want {
			t.Errorf("key of %d bytes: %q, %v", n, text, err)
		}
	}
}

// TestManyTold checks that each key over its limit is reported at first, however many there are,
// and that the memory for reported keys is bounded.
func TestManyTold(t *testing.T) {
	c := &testClock{epoch}
	events := 0
	l := open(t, Options{Now: c.Now, Notify: func(Event) { events++ },
		Rules: []Rule{{Name: "r", Key: "{sender}", Limit: 1, Period: time.Hour}}})
	over := func(from, to int) {
		for i := from; i < to; i++ {
			limit(t, l, request("sender", fmt.Sprint(i)))
		}
	}
	over(0, maxReported)
	if over(0, 100); events != maxReported || len(l.reported.till) != maxReported {
		t.Errorf("%d events of %d keys, %d remembered", events, maxReported, len(l.reported.till))
	}
	c.now = c.now.Add(time.Hour)
	if over(maxReported, maxReported+10); events != maxReported+10 || len(l.reported.till) != 10 {
		t.Errorf("%d events, %d remembered a period later, want 10", events-maxReported, len(l.reported.till))
	}
	if over(2*maxReported, 3*maxReported); len(l.reported.till) > maxReported || events != 2*maxReported+10 {
		t.Errorf("%d events, %d remembered of a flood", events, len(l.reported.till))
	}
}

// TestToldOfLate checks that keys reported a period ago make room, and that the other keys are not
// reported again.
func TestToldOfLate(t *testing.T) {
	c := &testClock{epoch}
	events := 0
	l := open(t, Options{Now: c.Now, Notify: func(Event) { events++ },
		Rules: []Rule{{Name: "r", Key: "{sender}", Limit: 1, Period: time.Hour}}})
	over := func(from, to int) {
		for i := from; i < to; i++ {
			limit(t, l, request("sender", fmt.Sprint(i)))
		}
	}
	over(0, maxReported/2)
	c.now = c.now.Add(40 * time.Minute)
	over(maxReported/2, maxReported)
	c.now = c.now.Add(20 * time.Minute)
	events = 0
	if over(maxReported, maxReported+1); events != 1 {
		t.Errorf("%d events of one key", events)
	}
	if over(maxReported/2, maxReported/2+100); events != 1 {
		t.Errorf("%d keys reported again within the period", events-1)
	}
}

// TestRunLogs checks that a failed save is logged, and returned if it was the last.
func TestRunLogs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged strings.Builder
		dir := filepath.Join(t.TempDir(), "states")
		l := open(t, Options{Dir: dir, Rules: []Rule{recipients(10)}, Checkpoint: time.Minute,
			Log: slog.New(slog.NewTextHandler(&logged, nil))})
		limit(t, l, rcpt("ann", "bob"))
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
		defer cancel()
		if err := l.Run(ctx); err == nil || l.Stats.Faults.Load() != 2 ||
			strings.Count(logged.String(), "rate limits not saved") != 1 {
			t.Errorf("%v, %d faults, log %q", err, l.Stats.Faults.Load(), logged.String())
		}
	})
}

// TestFaultsOfFiles checks that a failed read or write is an error and is counted.
func TestFaultsOfFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Options{Dir: file}); err == nil || !strings.HasPrefix(err.Error(), "ratelimit: ") {
		t.Errorf("a folder that is a file: %v", err)
	}
	for name, size := range map[string]int{"short": 15, "long": 17} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, SecretFile), make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(Options{Dir: dir}); err == nil || !strings.Contains(err.Error(),
			fmt.Sprint(size)+" bytes, want 16") && size < 17 {
			t.Errorf("%s secret: %v", name, err)
		}
	}
	for _, dir := range []string{"", t.TempDir()} {
		if _, err := Open(Options{Dir: dir, Random: strings.NewReader("too little")}); err == nil {
			t.Errorf("folder %q: a secret of ten bytes is taken", dir)
		}
	}
	dir := filepath.Join(t.TempDir(), "states")
	l := open(t, Options{Dir: dir, Rules: []Rule{recipients(10)}, Now: (&testClock{epoch}).Now})
	limit(t, l, rcpt("ann", "bob"))
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	for n := int64(1); n <= 2; n++ { // a failed save is tried again
		if err := l.Save(); err == nil || !strings.Contains(err.Error(), `rule "rcpts"`) || l.Stats.Faults.Load() != n {
			t.Errorf("saved to a folder that has gone: %v, %d faults", err, l.Stats.Faults.Load())
		}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "rcpts"+stateFile)
	if err := l.Save(); err != nil {
		t.Error(err)
	}
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := l.Save(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path); err == nil || before.Size() == 0 {
		t.Error("what has not changed is saved again")
	}
	if l.Reset("", "ann"); l.Save() != nil {
		t.Error("not saved after a reset")
	}
	if _, err := os.Stat(path); err != nil {
		t.Errorf("a reset is not saved: %v", err)
	}
}

// TestWebhookAnswers checks that only a status of 200 to 299 is success, that events that cannot be
// posted are counted, and that events that do not fit the queue are dropped.
func TestWebhookAnswers(t *testing.T) {
	status := make(chan int, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" ||
			!strings.Contains(string(body), `"rule":"r"`) {
			t.Errorf("%s %s: %s", r.Method, r.Header, body)
		}
		w.WriteHeader(<-status)
	}))
	defer server.Close()
	for _, tt := range []struct {
		url          string
		status       int
		sent, failed int64
	}{
		{server.URL, 200, 1, 0}, {server.URL, 299, 1, 0}, {server.URL, 404, 0, 1}, {server.URL, 500, 0, 1},
		{"http://127.0.0.1:1/", 0, 0, 1}, {"\x7f", 0, 0, 1},
	} {
		var logged strings.Builder
		w := NewWebhook(tt.url, nil, slog.New(slog.NewTextHandler(&logged, nil)))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { w.Run(ctx); close(ended) }()
		if tt.status > 0 {
			status <- tt.status
		}
		w.Notify(Event{Rule: "r"})
		await.True(t, "the event is sent", func() bool { return w.Sent.Load()+w.Failed.Load() > 0 })
		cancel()
		<-ended
		if w.Sent.Load() != tt.sent || w.Failed.Load() != tt.failed || strings.Contains(logged.String(),
			"webhook failed") != (tt.failed > 0) {
			t.Errorf("%q, status %d: %d sent, %d failed, log %q", tt.url, tt.status, w.Sent.Load(), w.Failed.Load(),
				logged.String())
		}
	}
	var logged strings.Builder
	w := NewWebhook("", nil, slog.New(slog.NewTextHandler(&logged, nil)))
	for range webhookQueue + 3 {
		w.Notify(Event{})
	}
	if n := w.Dropped.Load(); n != 3 || strings.Count(logged.String(), "does not keep up") != 1 {
		t.Errorf("%d dropped, log %q, want 3, logged once", n, logged.String())
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { w.Run(ctx); close(ended) }()
	await.True(t, "an event fails, because the URL does not exist", func() bool { return w.Failed.Load() > 0 })
	cancel()
	<-ended
	for range webhookQueue + 1 { // there is room again, but not for the last event
		w.Notify(Event{})
	}
	if n := strings.Count(logged.String(), "does not keep up"); n != 2 {
		t.Errorf("dropped events were logged %d times, want once for each time", n)
	}
}

// TestReplies checks the text of each action: only a deferred client may try again.
func TestReplies(t *testing.T) {
	for action, want := range map[string]string{
		Defer: "limit of 2 per 1h reached, try again later", Reject: "limit of 2 per 1h reached",
		Hold: "limit of 2 per 1h reached",
	} {
		few := Rule{Name: "few", Key: "{sasl_username}", Limit: 2, Period: time.Hour, Action: action}
		l := open(t, Options{Rules: []Rule{few}})
		for range 2 {
			if _, _, err := l.Limit(t.Context(), rcpt("ann", "bob")); err != nil {
				t.Fatal(err)
			}
		}
		if got, text, err := l.Limit(t.Context(), rcpt("ann", "bob")); got != action || text != want || err != nil {
			t.Errorf("%s: %s %q, %v; want %q", action, got, text, err, want)
		}
	}
}
