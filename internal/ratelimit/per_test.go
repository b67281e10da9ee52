package ratelimit

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bulkhead-mail/bulkhead/filter"
)

// TestPer checks what each of Exim's names counts, and in which states.
func TestPer(t *testing.T) {
	for _, tt := range []struct {
		per, state, unique, count string
		requests                  [][]string
		rates                     []float64 // of the key after each request; -1: the rule does not apply
	}{
		{"conn", "", "", "", [][]string{{"CONNECT"}, {"EHLO"}, {"RCPT"}, {"CONNECT"}}, []float64{1, -1, -1, 2}},
		{"cmd", "", "", "", [][]string{{"CONNECT"}, {"EHLO"}, {"RCPT"}, {"VRFY"}}, []float64{1, 2, 3, 4}},
		{"cmd", "EHLO", "{helo_name}", "", [][]string{{"EHLO", "helo_name", "a"}, {"HELO", "helo_name", "b"},
			{"HELO", "helo_name", "a"}, {"MAIL", "helo_name", "c"}}, []float64{1, 2, 2, -1}},
		{"mail", "", "", "", [][]string{{"MAIL"}, {"RCPT"}, {"MAIL"}}, []float64{1, -1, 2}},
		{"mail", "RCPT", "", "", [][]string{{"RCPT", "instance", "1"}, {"RCPT", "instance", "1"},
			{"RCPT", "instance", "2"}}, []float64{1, 1, 2}},
		{"mail", "", "{sender}", "", [][]string{{"MAIL", "sender", "a@b"}, {"MAIL", "sender", "A@b"},
			{"MAIL", "sender", ""}}, []float64{1, 1, 2}},
		{"mail", "", "", "0.5", [][]string{{"MAIL"}, {"MAIL"}, {"MAIL"}}, []float64{0.5, 1, 1.5}},
		{"rcpt", "", "", "", [][]string{{"RCPT", "recipient", "a"}, {"RCPT", "recipient", "a"},
			{"DATA", "recipient_count", "2"}}, []float64{1, 2, -1}},
		{"rcpt", "DATA", "", "", [][]string{{"RCPT"}, {"DATA", "recipient_count", "2"},
			{"DATA", "recipient_count", "40"}}, []float64{-1, 2, 42}},
		{"rcpt", "END-OF-MESSAGE", "", "", [][]string{{"END-OF-MESSAGE", "recipient_count", "2"}, {"END-OF-MESSAGE"}},
			[]float64{2, -1}},
		{"addr", "", "", "", [][]string{{"RCPT", "recipient", "a"}, {"RCPT", "recipient", "a"},
			{"RCPT", "recipient", "b"}}, []float64{1, 1, 2}},
		{"addr", "", "", "2.5", [][]string{{"RCPT", "recipient", "a"}, {"RCPT", "recipient", "a"},
			{"RCPT", "recipient", "b"}}, []float64{2.5, 2.5, 5}},
		{"byte", "", "", "", [][]string{{"END-OF-MESSAGE", "size", "100"}, {"MAIL", "size", "5"},
			{"END-OF-MESSAGE", "size", "1"}}, []float64{100, -1, 101}},
		{"byte", "MAIL", "", "", [][]string{{"MAIL", "size", "100"}, {"MAIL", "size", "0"},
			{"END-OF-MESSAGE", "size", "7"}}, []float64{100, 100, -1}},
	} {
		r := Rule{Name: "r", Key: "all", Per: tt.per, State: tt.state, Unique: tt.unique, Count: tt.count, Limit: 1e6,
			Period: time.Hour}
		l := open(t, Options{Rules: []Rule{r}, Now: (&testClock{epoch}).Now})
		for i, req := range tt.requests {
			_, _, outcomes, err := l.Apply(request(append([]string{"protocol_state"}, req...)...))
			got := -1.0
			if len(outcomes) == 1 {
				got = outcomes[0].Rate
			}
			if err != nil || got != tt.rates[i] {
				t.Errorf("per %s, state %q, unique %q, request %d %v: rate %g, %v, want %g", tt.per, tt.state, tt.unique, i+1,
					req, got, err, tt.rates[i])
			}
		}
	}
	commented := filepath.Join(t.TempDir(), "limits")
	if err := os.WriteFile(commented, []byte("# of the list server\nann 500\t#7\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, r := range map[string]Rule{
		"per \"day\" is none of":           {Per: "day"},
		"unique is {recipient}":            {Per: "addr", Unique: "{sender}"},
		"is counted in [\"CONNECT\"]":      {Per: "conn", State: StateRcpt},
		"state \"DATA\": per \"addr\"":     {Per: "addr", State: StateData},
		"state \"VRFY\" is none of":        {State: "VRFY"},
		"count \"1e9\" is no number":       {Count: "1e9"},
		"accepted \"all\"":                 {Accepted: "all"},
		"not in END-OF-MESSAGE":            {Accepted: TellHeader, Count: "{size}"},
		"not in any":                       {Accepted: TellHeader, State: AnyState},
		"header \"X Rate\"":                {Accepted: TellHeader, Header: "X Rate"},
		"no rule that counts is called":    {Reads: "r"},
		"has no key, unique":               {Reads: "other", Count: "1"},
		"\"ann\" is not a key and a limit": {Limits: []string{"ann"}},
		"limit \"0\" is none of":           {Limits: []string{"ann 0"}},
		"limit \"-1\" is none of":          {Limits: []string{"ann -1"}},
		"\"# as agreed 100\" after a limit: a comment must be on a line of its own": {
			Limits: []string{"ann 500 # as agreed 100"},
		},
		"line 2: \"#7\" after a limit": {LimitsFile: commented},
		"key \"ANN\" has two limits":   {Limits: []string{"ann 1", "ANN 2"}},
		"limits_file: open": {LimitsFile: filepath.Join(
			t.TempDir(), "none")},
		"takes up to": {Unique: "{recipient}",
			Limits: []string{"ann 10000000"}},
	} {
		r.Name, r.Limit = "r", 10
		if r.Reads == "" {
			r.Key, r.Period = "{sender}", time.Hour
		} else if r.Reads == "other" {
			r.Key = "x"
		}
		if _, err := Open(Options{Rules: []Rule{r}}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%+v: %v, want %q", r, err, name)
		}
	}
}

// TestReads checks that a rule that reads another one judges its counts and adds none, and that
// Peek adds none either.
func TestReads(t *testing.T) {
	c := &testClock{epoch}
	dir := t.TempDir()
	events := 0
	rules := []Rule{
		{Name: "early", Reads: "rcpts", State: StateConnect, Limit: 4.5, Action: Reject},
		{Name: "rcpts", Key: "{client_address}", Per: PerAddr, Limit: 20, Period: time.Hour},
	}
	l := open(t, Options{Rules: rules, Now: c.Now, Dir: dir, Notify: func(Event) { events++ }})
	connect := request("protocol_state", "CONNECT", "client_address", "192.0.2.1")
	to := func(i int) Attributes {
		return request("protocol_state", "RCPT", "client_address", "192.0.2.1", "recipient", fmt.Sprint(i))
	}
	for i := range 10 {
		want := Dunno
		if i >= 5 {
			want = Reject
		}
		for range 3 {
			if action, _, outcomes, err := l.Apply(connect); err != nil || action != want || len(outcomes) != 1 ||
				outcomes[0].Rate != float64(i) || outcomes[0].Limit != 4.5 {
				t.Fatalf("after %d recipients: %s, %+v, %v, want %s", i, action, outcomes, err, want)
			}
		}
		for range 2 {
			if action, _, outcomes, err := l.Peek(to(i)); err != nil || action != Dunno || len(outcomes) != 1 ||
				outcomes[0].Rate != float64(i) || !outcomes[0].New {
				t.Fatalf("peeked at recipient %d: %s, %+v, %v", i, action, outcomes, err)
			}
		}
		if got := limit(t, l, to(i)); got != Dunno {
			t.Fatalf("recipient %d: %s", i, got)
		}
	}
	if events != 1 || l.Stats.Refused.Load() != 15 {
		t.Errorf("%d events, %d refused, want that of the rule that reads, and 15", events, l.Stats.Refused.Load())
	}
	c.now = c.now.Add(2 * time.Hour) // 10 / e^2
	if action, _, _, err := l.Apply(connect); err != nil || action != Dunno {
		t.Errorf("two periods later: %s, %v", action, err)
	}
	status, err := l.Show("", "192.0.2.1")
	if err != nil || len(status) != 2 || status[0].Rate != status[1].Rate || status[0].Limit != 4.5 {
		t.Errorf("shown: %+v, %v", status, err)
	}
	if u := l.Usage(); u[0].Keys != 0 || u[1].Keys != 1 || u[0].Rule.Key != "{client_address}" {
		t.Errorf("usage %+v", u)
	}
	if err := l.Save(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "early"+stateFile)); err == nil {
		t.Error("states were saved twice")
	}
	rules[0].Limit = 1
	if err := l.Reload(rules); err != nil {
		t.Fatal(err)
	}
	if got := limit(t, l, connect); got != Reject {
		t.Errorf("after a reload: %s, want the counts kept", got)
	}
	if n := l.Reset("", "192.0.2.1"); n != 1 {
		t.Errorf("reset in %d rules", n)
	}
	if got := limit(t, l, connect); got != Dunno {
		t.Errorf("after a reset: %s", got)
	}
}

// TestKeyLimits checks limits of single keys, from the configuration and from a file.
func TestKeyLimits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("# key limit\n\n  Bob@example.com   5\nnews letter\t40.5\n")
	r := recipients(10)
	r.Limits = []string{"ann 2", "root measure", "eve block"}
	r.LimitsFile, r.Action = path, Reject
	c := &testClock{epoch}
	l := open(t, Options{Rules: []Rule{r}, Now: c.Now, Checkpoint: time.Minute})
	passed := func(user string) (n int) {
		t.Helper()
		for i := range 60 {
			if limit(t, l, rcpt(user, fmt.Sprint(c.now, i))) == Dunno {
				n++
			}
		}
		return n
	}
	for user, want := range map[string]int{"Ann": 2, "bob@EXAMPLE.com": 5, "news letter": 40, "root": 60, "eve": 0,
		"dan": 10, "bob": 10} {
		if got := passed(user); got != want {
			t.Errorf("%s: %d pass, want %d", user, got, want)
		}
	}
	if status, err := l.Show("", "news letter"); err != nil || len(status) != 1 || status[0].Limit != 40.5 ||
		status[0].Rate != 40 {
		t.Errorf("shown: %+v, %v", status, err)
	}
	if _, text, outcomes, err := l.Apply(rcpt("ann", "x")); err != nil || !strings.Contains(text, "limit of 2 per") ||
		outcomes[0].Limit != 2 {
		t.Errorf("%q, %+v, %v", text, outcomes, err)
	}
	// A file that cannot be read changes nothing; a readable one takes effect within a checkpoint.
	synctest.Test(t, func(t *testing.T) {
		for _, tt := range []struct {
			text   string
			faults int64
			want   int
		}{{"bob@example.com 7\nx", 1, 5}, {"bob@example.com 17\n", 1, 17}, {"", 1, 10}} {
			write(tt.text)
			ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
			if err := l.Run(ctx); err != nil {
				t.Fatal(err)
			}
			cancel()
			c.now = c.now.Add(24 * time.Hour)
			if got := passed("bob@example.com"); got != tt.want || l.Stats.Faults.Load() != tt.faults {
				t.Errorf("%q: %d pass, want %d; %d faults", tt.text, got, tt.want, l.Stats.Faults.Load())
			}
		}
	})
	// Only the keys in the file are limited.
	r.Limit, r.LimitsFile = 0, ""
	if err := l.Reload([]Rule{r}); err != nil {
		t.Fatal(err)
	}
	c.now = c.now.Add(24 * time.Hour)
	for user, want := range map[string]int{"ann": 2, "dan": 60, "eve": 0} {
		if got := passed(user); got != want {
			t.Errorf("%s, without another limit: %d pass, want %d", user, got, want)
		}
	}
}

// TestAccepted checks the action and text for accepted requests.
func TestAccepted(t *testing.T) {
	rule := func(name, accepted, header string, limit float64) Rule {
		r := Rule{Name: name, Key: "{sasl_username}", Limit: limit, Period: time.Hour, Accepted: accepted, Header: header}
		if limit == 0 {
			r.Action = Dunno
		}
		return r
	}
	for _, tt := range []struct {
		rules        []Rule
		action, text string
	}{
		{[]Rule{rule("a", "", "", 9)}, Dunno, ""},
		{[]Rule{rule("a", TellLog, "", 9), rule("b", TellLog, "", 0)}, TellLog,
			"rate a 1.0 of 9 per 1h key=ann??; b 1.0 of no limit per 1h key=ann??"},
		{[]Rule{rule("a", TellLog, "", 9), rule("b", TellHeader, "", 8)}, TellHeader, "X-Bulkhead-Rate: b 1.0 of 8 per 1h"},
		{[]Rule{rule("a", TellHeader, "X-A", 9), rule("b", TellHeader, "X-B", 8), rule("c", TellHeader, "X-A", 7.5)},
			TellHeader, "X-A: a 1.0 of 9 per 1h; c 1.0 of 7.5 per 1h"},
		{[]Rule{rule("a", TellHeader, "X-A", 9), rule("b", "", "", 1)}, Defer, "limit of 1 per 1h reached, try again later"},
	} {
		l := open(t, Options{Rules: tt.rules, Now: (&testClock{epoch}).Now})
		action, text, err := l.Limit(context.Background(), rcpt("Ann\n\xff", "bob"))
		if err != nil || action != tt.action || text != tt.text {
			t.Errorf("%s %q, %v, want %s %q", action, text, err, tt.action, tt.text)
		}
	}
}

// FuzzAmount compares parsed numbers with the results of strconv.
func FuzzAmount(f *testing.F) {
	for _, s := range []string{"1", "0.5", "9007199254740992", "9007199254740993", "1e3", ".", "1.", "-0", "0x1p-2",
		"infinity"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		n, ok := parseAmount([]byte(text))
		var want float64
		_, err := fmt.Sscanf(text, "%g", &want)
		if ok && (n != want || err != nil || !(n >= 0 && n <= 1<<53)) {
			t.Errorf("%q is read as %g, want %g, %v", text, n, want, err)
		}
		if strings.Trim(text, "0123456789") == "" && text != "" && len(text) <= 15 && !ok {
			t.Errorf("%q is refused", text)
		}
	})
}

// FuzzLimitsFile checks that any limits file is read or refused, and that every limit read can be
// used.
func FuzzLimitsFile(f *testing.F) {
	for _, s := range []string{"ann 5\n# x\nbob measure\n", "a b c 1.5", "x block\r\n", "x", "x 0", "x 1\nx 2",
		"x 99999999999", "\xff 1", strings.Repeat("x", 5000) + " 1"} {
		f.Add(s)
	}
	l := open(f, Options{Rules: []Rule{recipients(10)}})
	r := (*l.rules.Load())[0]
	f.Fuzz(func(t *testing.T, text string) {
		in := limitReader{rule: r, rates: make(map[float64]*filter.UniqueRate), keys: make(keyLimits)}
		if err := in.file(strings.NewReader(text)); err != nil {
			return
		}
		if len(in.keys) > strings.Count(text, "\n")+1 {
			t.Errorf("%d keys of %q", len(in.keys), text)
		}
		for _, rate := range in.keys {
			state := make([]byte, rate.StateBytes())
			if m, err := rate.Measure(&state, epoch, []byte("x"), 1); err != nil || m.Rate != 1 {
				t.Errorf("%+v, %v", m, err)
			}
		}
	})
}

// TestDelay checks that a delaying rule refuses nothing and counts as its mode demands. The longest
// delay wins, a refusal by another rule takes precedence over all, and a delay carries no other
// text.
func TestDelay(t *testing.T) {
	c := &testClock{epoch}
	l := open(t, Options{Now: c.Now, Rules: []Rule{
		{Name: "slow", Key: "{sender}", Limit: 2, Period: time.Hour, Action: Delay, Delay: 3 * time.Second, Strict: true,
			Accepted: TellLog},
		{Name: "slower", Key: "{sender}", Limit: 4, Period: time.Hour, Action: Delay, Delay: time.Minute},
	}})
	ask := request("sender", "ann@example.com")
	for i, want := range []string{"log rate slow 1.0 of 2 per 1h key=ann@example.com",
		"log rate slow 2.0 of 2 per 1h key=ann@example.com", "delay 3", "delay 3", "delay 60", "delay 60"} {
		action, text, err := l.Limit(t.Context(), ask)
		if got := action + " " + text; err != nil || got != want {
			t.Errorf("request %d: %q, %v, want %q", i, got, err, want)
		}
	}
	action, text, outcomes, err := l.Peek(ask)
	if err != nil || action != Delay || text != "3" || len(outcomes) != 2 || outcomes[0].Rate != 6 ||
		outcomes[1].Rate != 4 {
		t.Errorf("%s %s, %+v, %v: want all 6 in the strict rule, and 4 in the leaky one", action, text, outcomes, err)
	}
	if n := l.Stats.Refused.Load(); n != 0 {
		t.Errorf("%d are said to be refused", n)
	}
	c.now = c.now.Add(3 * time.Hour)
	if action, _, err := l.Limit(t.Context(), ask); err != nil || action != TellLog {
		t.Errorf("three periods later: %s, %v", action, err)
	}
}

// TestDelayAndRefusal checks that requests refused by another rule are not delayed.
func TestDelayAndRefusal(t *testing.T) {
	l := open(t, Options{Now: (&testClock{epoch}).Now, Rules: []Rule{
		{Name: "slow", Key: "{sender}", Limit: 1, Period: time.Hour, Action: Delay, Delay: time.Second},
		{Name: "enough", Key: "{sender}", Limit: 1, Period: time.Hour, Action: Reject},
	}})
	if action, _, err := l.Limit(t.Context(), request("sender", "ann@example.com")); err != nil || action != Reject {
		t.Errorf("%s, %v", action, err)
	}
}
