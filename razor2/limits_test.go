package razor2

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/digest/razor"
	"github.com/bulkhead-mail/bulkhead/door"
	"github.com/bulkhead-mail/bulkhead/internal/testing/prototest"
)

// say sends bytes as one connection, after a login if loggedIn is set. It returns all bytes that
// the server sends until it hangs up, without its greeting.
func say(t *testing.T, address string, loggedIn bool, request string) string {
	t.Helper()
	c, err := Dial(t.Context(), address, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.conn.Close()
	if loggedIn {
		if err := c.Login(t.Context(), Credentials{"ana", "s3cret"}); err != nil {
			t.Fatal(err)
		}
	}
	c.conn.SetDeadline(time.Now().Add(20 * time.Second))
	c.conn.Write([]byte(request)) // the server may hang up before the end
	c.conn.(*net.TCPConn).CloseWrite()
	got, err := io.ReadAll(c.in)
	if err != nil && !strings.Contains(err.Error(), "reset") {
		t.Fatal(err)
	}
	return string(got)
}

const e4Sum, e8Sum = "7p6JNvfDEfoYAybuYapBiCjFEC0A", "OK-8mIdLyA0A"

// TestRequests: the answer to each request, and its counter.
func TestRequests(t *testing.T) {
	type stats struct{ checks, listed, reports, revokes, logins, badLogins, registered, malformed, limited, faults int64 }
	const mail = "From: a\n\r\nX-Razor2-Agent: x\n\nDear reader, this is the offer of the day for you.\n\r\n.\r\n"
	few := func(s *Server) { s.Rate = door.Rate{PerSecond: 1e-6, Burst: 3} }
	ana := stats{logins: 1}
	with := func(change func(*stats)) stats { s := ana; change(&s); return s }
	for _, tt := range []struct {
		name, request, want string
		login               bool
		set                 func(*Server)
		stats               stats
	}{
		{name: "check", request: "a=c&e=8&s=" + e8Sum + "\r\n", want: "p=0\r\n", stats: stats{checks: 1}},
		{name: "check of what is listed", request: "a=c&e=4&s=" + e4Sum + "\r\n", want: "p=1&cf=100\r\n",
			stats: stats{checks: 1, listed: 1}},
		{name: "batch", request: "-a=c&e=8&s=" + e8Sum + "\r\na=c&e=4&s=" + e4Sum + "\r\na=c\r\n.\r\n",
			want: "-p=0\r\np=1&cf=100\r\nerr=200\r\n.\r\n", stats: stats{checks: 3, listed: 1, malformed: 1}},
		{name: "batch of one", request: "-a=c&e=8&s=" + e8Sum + "\r\n.\r\n", want: "p=0\r\n", stats: stats{checks: 1}},
		{name: "batch of a row without a command", request: "-\r\na=c&e=8&s=" + e8Sum + "\r\n.\r\n",
			want: "-err=200\r\nerr=200\r\n.\r\n"},
		{name: "first step of a report", login: true, request: "a=r&e=4&s=" + e4Sum + "\r\n",
			want: "err=230\r\n", stats: ana},
		{name: "first step, of a link", login: true, request: "a=r&e=8&s=" + e8Sum + "\r\n", want: "res=0\r\n", stats: ana},
		{name: "first step, of another seed", login: true, request: "a=r&e=4&ep4=1-10&s=" + e4Sum + "\r\n", want: "res=0\r\n",
			stats: ana},
		{name: "first step, malformed", login: true, request: "a=r&e=4\r\n", want: "err=200\r\n", stats: with(func(s *stats) {
			s.malformed = 1
		})},
		{name: "first step of nobody", request: "a=r&e=4&s=" + e4Sum + "\r\n", want: "err=202\r\n"},
		{name: "mail", login: true, request: "-a=r&message=*\r\n" + mail, want: "res=1\r\n", stats: with(func(s *stats) {
			s.reports = 1
		})},
		{name: "mail of nobody", request: "-a=r&message=*\r\n" + mail, want: "err=202\r\n"},
		{name: "mail of no part", login: true, request: "-a=r&message=*\r\nFrom: a\r\n.\r\n", want: "res=0\r\n", stats: ana},
		{name: "no mail", login: true, request: "-a=r&message=*\r\n.\r\n", want: "res=0\r\n", stats: ana},
		{name: "mail for another command", login: true, request: "-a=c&message=*\r\n" + mail, want: "err=200\r\n",
			stats: with(func(s *stats) { s.malformed = 1 })},
		{name: "mail and a question", login: true, request: "-a=r&message=*\r\n" + mail + "a=c&e=8&s=" + e8Sum + "\r\n",
			want: "res=1\r\np=0\r\n", stats: with(func(s *stats) { s.reports, s.checks = 1, 1 })},
		{name: "mail that is cut", login: true, request: "-a=r&message=*\r\nFrom: a\r\n", want: "", stats: ana},
		{name: "mail too large", login: true, request: "-a=r&message=*\r\n" + strings.Repeat("text of a line\n", 10000),
			want: "err=200\r\n", stats: with(func(s *stats) { s.malformed = 1 })},
		{name: "revoke", login: true, request: "-a=revoke&e=4&s=" + e4Sum + "\r\na=revoke&e=8&s=" + e8Sum +
			"\r\na=revoke&e=4&s=" + e4Sum + "\r\n.\r\n", want: "-res=1\r\nres=1\r\nres=1\r\n.\r\n", stats: with(func(s *stats) {
			s.revokes = 2
		})},
		{name: "revoke of another seed", login: true, request: "a=revoke&e=4&ep4=1-10&s=" + e4Sum + "\r\n", want: "res=1\r\n",
			stats: ana},
		{name: "revoke of nobody", request: "a=revoke&e=4&s=" + e4Sum + "\r\n", want: "err=202\r\n"},
		{name: "register", request: "a=reg&user=bob&pass=s3cret2\r\n", want: "res=1&user=bob&pass=s3cret2\r\n",
			stats: stats{registered: 1}},
		{name: "register what is taken", request: "a=reg&user=ana&pass=x\r\n", want: "err=210\r\n"},
		{name: "login of an odd name", request: "a=ai&user=a/b\r\n", want: "err=213\r\n"},
		{name: "login without one", request: "a=auth&aresp=x\r\n", want: "res=0\r\n", stats: stats{badLogins: 1}},
		{name: "login with broken accounts", request: "a=ai&user=ana\r\n", want: "err=220\r\n", set: func(s *Server) {
			s.Accounts = &book{err: prototest.ErrFault}
		}, stats: stats{faults: 1}},
		{name: "login that is refused", request: "a=ai&user=ana\r\n", want: "err=203\r\n", set: func(s *Server) {
			s.Accounts = &book{err: bulkhead.ErrOverLimit}
		}},
		{name: "unauthorised", request: "a=ai&user=ana\r\n", want: "err=201\r\n", set: func(s *Server) {
			s.Accounts = &book{err: bulkhead.ErrUnauthorised}
		}},
		{name: "unknown command", request: "a=x\r\n", want: "err=200\r\n", stats: stats{malformed: 1}},
		{name: "unknown question", request: "a=g&pm=x\r\n", want: "err=200\r\n", stats: stats{malformed: 1}},
		{name: "no command", request: "x=y\r\n", want: "err=200\r\n"},
		{name: "nothing", request: "\r\n", want: "err=200\r\n"},
		{name: "the client names itself", request: "cn=x&cv=1\r\n", want: ""},
		{name: "two of what comes alone", request: "-a=g&pm=state\r\na=g&pm=state\r\n.\r\n",
			want: "-err=200\r\nerr=200\r\n.\r\n"},
		{name: "goodbye", request: "a=q\r\na=c&e=8&s=" + e8Sum + "\r\n", want: ""},
		{name: "up to the rate", set: few, request: strings.Repeat("a=c&e=8&s="+e8Sum+"\r\n", 3),
			want: "p=0\r\np=0\r\np=0\r\n", stats: stats{checks: 3}},
		{name: "over the rate", set: few, request: "-" + strings.Repeat("a=c&e=8&s="+e8Sum+"\r\n", 4) + ".\r\n",
			want: "-err=203\r\nerr=203\r\nerr=203\r\nerr=203\r\n.\r\n", stats: stats{limited: 4}},
		{name: "mail over the rate", set: few, login: true, request: "a=c&e=8&s=" + e8Sum + "\r\n-a=r&message=*\r\n" + mail,
			want: "p=0\r\nerr=203\r\n", stats: with(func(s *stats) { s.checks, s.limited = 1, 1 })},
		{name: "longest line", request: "a=c&e=8&s=" + e8Sum + "&x=" +
			strings.Repeat("x", maxLine-len("a=c&e=8&s="+e8Sum+"&x=\r\n")) + "\r\n", want: "p=0\r\n", stats: stats{checks: 1}},
		{name: "longer line", request: "a=c&e=8&s=" + e8Sum + "&x=" +
			strings.Repeat("x", maxLine-len("a=c&e=8&s="+e8Sum+"&x=\r\n")+1) + "\r\n",
			want: "err=200\r\n", stats: stats{malformed: 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			house := &prototest.House{}
			if _, err := house.Report(t.Context(), bulkhead.Report{Vote: bulkhead.Spam,
				Signatures: mustSigs(t, "razor/e4", e4Sum)}); err != nil {
				t.Fatal(err)
			}
			s := &Server{Clearinghouse: house}
			if tt.set != nil {
				tt.set(s)
			}
			if got := say(t, start(t, s), tt.login, tt.request); got != tt.want {
				t.Errorf("answer %q, want %q", got, tt.want)
			}
			st := &s.Stats
			got := stats{
				st.Checks.Load(), st.Listed.Load(), st.Reports.Load(), st.Revokes.Load(), st.Logins.Load(),
				st.BadLogins.Load(), st.Registered.Load(), st.Malformed.Load(), st.Limited.Load(), st.Faults.Load(),
			}
			if got != tt.stats {
				t.Errorf("%+v, want %+v", got, tt.stats)
			}
		})
	}
}

// TestSums: the text of a signature is letters, digits, "-" and "_", at most 128.
func TestSums(t *testing.T) {
	address := start(t, &Server{Clearinghouse: &prototest.House{}})
	for sum, want := range map[string]string{
		"AZaz09-_": "p=0", strings.Repeat("x", 128): "p=0", strings.Repeat("x", 129): "err=200",
		"@": "err=200", "[": "err=200", "`": "err=200", "{": "err=200", "/": "err=200", ":": "err=200",
		"x y": "err=200", "": "err=200",
	} {
		if got := say(t, address, false, "a=c&e=8&s="+sum+"\r\n"); got != want+"\r\n" {
			t.Errorf("%.20q of %d bytes: %q, want %s", sum, len(sum), got, want)
		}
	}
}

// TestParseValues: docs/specs/razor2.md#sis.
func TestParseValues(t *testing.T) {
	for line, want := range map[string]Values{
		"a=b":                {{"a", "b"}},
		"a=b=c&d":            {{"a", "b"}, {"d", ""}},
		"":                   {{"", ""}},
		"a=%41%4a%4A%0a":     {{"a", "AJJ\n"}},
		"a=%4":               {{"a", "%4"}},
		"a=%":                {{"a", "%"}},
		"a=%4g&b=%g4&c=%%41": {{"a", "%4g"}, {"b", "%g4"}, {"c", "%A"}},
		"a=%/0&b=%:0&c=%@0":  {{"a", "%/0"}, {"b", "%:0"}, {"c", "%@0"}},
		"a=%aF&b=%Af&c=%09":  {{"a", "\xaf"}, {"b", "\xaf"}, {"c", "\t"}},
		"a=%`0&b=%G0":        {{"a", "%`0"}, {"b", "%G0"}},
		"%61=x%3Dy":          {{"a", "x=y"}},
	} {
		if got := ParseValues(line); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
	if got := ParseValues(strings.Repeat("a=b&", 40)); len(got) != maxPairs {
		t.Errorf("%d pairs of 41, limit %d", len(got), maxPairs)
	}
	v := Values{{"a", "first"}, {"b", "@[`{/:%&="}, {"a", "last"}, {"c", "AZaz09-_.!~'()*?\x7f"}}
	if got, want := v.String(), "a=first&b=%40%5B%60%7B%2F:%25%26%3D&a=last&c=AZaz09-_.!~'()%2A%3F%7F"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if v.Get("a") != "last" || v.Get("x") != "" || !v.Has("b") || v.Has("x") {
		t.Errorf("%q: a is %q, b there %v, x there %v", v, v.Get("a"), v.Has("b"), v.Has("x"))
	}
}

// verdicts answers every check with one verdict.
type verdicts struct {
	*prototest.House
	v bulkhead.Verdict
}

func (v *verdicts) Check(context.Context, bulkhead.Query) (bulkhead.Verdict, error) { return v.v, nil }

// TestVerdicts: the answer about a signature, for each verdict that a node may give.
func TestVerdicts(t *testing.T) {
	link := mustSigs(t, "razor/e8", e8Sum)[0]
	finding := func(judged bulkhead.Judgement, confidence int, contested bool) bulkhead.Verdict {
		return bulkhead.Verdict{Findings: []bulkhead.Finding{{Signature: link, Judged: judged, Confidence: confidence,
			Contested: contested, Spam: 9}}}
	}
	of := func(class bulkhead.Class, confidence int) bulkhead.Verdict {
		return bulkhead.Verdict{Class: class, Confidence: confidence, Findings: []bulkhead.Finding{{}}}
	}
	white, two := finding(bulkhead.JudgedSpam, 100, false), finding(bulkhead.JudgedSpam, 100, false)
	white.Whitelisted = "sender"
	two.Findings = append(two.Findings, two.Findings[0])
	for _, tt := range []struct {
		name       string
		v          bulkhead.Verdict
		confidence int // of the server
		want, ac   string
	}{
		{"sure", finding(bulkhead.JudgedSpam, 100, false), 0, "p=1&cf=100", "20"},
		{"contested", finding(bulkhead.JudgedSpam, 70, true), 0, "p=1&cf=70&ct=1", "20"},
		{"unsure", finding(bulkhead.JudgedSpam, 52, false), 0, "p=1&cf=52", "20"},
		{"hardly", finding(bulkhead.JudgedSpam, 1, false), 0, "p=1&cf=51", "20"},
		{"below what clients want", finding(bulkhead.JudgedSpam, 60, false), 75, "p=1&cf=75", "75"},
		{"above all", finding(bulkhead.JudgedSpam, 300, false), 300, "p=1&cf=100", "100"},
		{"anything will do", finding(bulkhead.JudgedSpam, 60, false), -1, "p=1&cf=60", "0"},
		{"not listed", finding(bulkhead.Unjudged, 90, false), 0, "p=0", "20"},
		{"suspected", of(bulkhead.ClassSuspected, 42), 0, "p=1&cf=42", "20"},
		{"suspected, and more would be spam", of(bulkhead.ClassSuspected, 77), 0, "p=1&cf=50", "20"},
		{"suspected, and clients want more", of(bulkhead.ClassSuspected, 42), 60, "p=0", "60"},
		{"spam by its text", of(bulkhead.ClassSpam, 90), 0, "p=1&cf=51", "20"},
		{"good", of(bulkhead.ClassGood, 90), 0, "p=0", "20"},
		{"bulk", of(bulkhead.ClassBulk, 90), 0, "p=0", "20"},
		{"revoked", finding(bulkhead.Revoked, 90, true), 0, "p=0", "20"},
		{"white", white, 0, "p=0", "20"},
		{"two findings", two, 0, "p=0", "20"},
		{"nothing", bulkhead.Verdict{}, 0, "p=0", "20"},
	} {
		address := start(t, &Server{Clearinghouse: &verdicts{v: tt.v}, Confidence: tt.confidence, Serial: tt.confidence})
		if got := say(t, address, false, "a=c&e=8&s="+e8Sum+"\r\n"); got != tt.want+"\r\n" {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
		c := dial(t, address)
		state, err := c.State(t.Context())
		if srl := fmt.Sprint(max(tt.confidence, 1)); err != nil || state.Get("ac") != tt.ac || state.Get("srl") != srl ||
			c.Greeting().Get("srl") != srl {
			t.Errorf("%s: state %v, %v, greeting %v", tt.name, state, err, c.Greeting())
		}
	}
}

// TestCredentials: names and passwords that a client can keep are accepted, others are not. The
// server chooses letters and digits.
func TestCredentials(t *testing.T) {
	s := &Server{Clearinghouse: &prototest.House{}, Registrations: door.Rate{PerSecond: 1e-6, Burst: 1000}}
	c := dial(t, start(t, s))
	for text, ok := range map[string]bool{
		"~": true, "!": true, "a b": true, "\x7f": false, "\x1f": false, " a": false, "a ": false, " ": false, ",": false,
		"caf\xe9": false, "+-.:@": true,
	} {
		if _, err := c.Register(t.Context(), Credentials{text, "secret"}); (err == nil) != ok {
			t.Errorf("name %q: %v", text, err)
		}
		if _, err := c.Register(t.Context(), Credentials{"", text}); (err == nil) != ok {
			t.Errorf("password %q: %v", text, err)
		}
	}
	seen := make(map[rune]bool)
	for range 60 {
		got, err := c.Register(t.Context(), Credentials{})
		if err != nil || !regexp.MustCompile(`^[A-Za-z0-9]{10}$`).MatchString(got.User) ||
			!regexp.MustCompile(`^[A-Za-z0-9]{16}$`).MatchString(got.Password) {
			t.Fatalf("registered %q, %q, %v", got.User, got.Password, err)
		}
		for _, r := range got.User + got.Password {
			seen[r] = true
		}
	}
	if len(seen) != len(alphanumerics) { // fails by chance once in 10^9 runs
		t.Errorf("%d letters and digits in use, want %d", len(seen), len(alphanumerics))
	}
	rows, err := c.Do(t.Context(), Values{{"a", "ai"}, {"user", "~"}})
	if err != nil || !regexp.MustCompile(`^[A-Za-z0-9]{20}$`).MatchString(rows[0].Get("achal")) {
		t.Errorf("challenge %v, %v", rows, err)
	}
}

// TestReportLimits: the part of a reported mail that is listed, and whether the mail is read whole.
func TestReportLimits(t *testing.T) {
	const agent = "X-Razor2-Agent: x\n\n"
	links := func(n int, tag string) string {
		var b strings.Builder
		b.WriteString(agent + "Dear reader, these are the offers of the day for " + tag + ":\n")
		for i := range n {
			fmt.Fprintf(&b, "http://%s%d.example/ ", tag, i)
		}
		return b.String() + "\n"
	}
	var many []string
	for i := range 17 {
		many = append(many, links(32, fmt.Sprintf("p%dx", i)))
	}
	of := func(size int) []string {
		return []string{links(1, "a") + strings.Repeat("many words of a long text\n", size/26)}
	}
	for _, tt := range []struct {
		name     string
		parts    []string
		maxHosts int
		want     int // signatures
		read     bool
	}{
		{"text and links", []string{links(3, "a")}, 0, 4, true},
		{"no links wanted", []string{links(3, "a")}, -1, 1, true},
		{"as many links as are listed", []string{links(32, "a")}, 0, 33, true},
		{"more links", []string{links(33, "a")}, 0, 33, true},
		{"the same twice", []string{links(3, "a"), links(3, "a")}, 0, 4, true},
		{"two parts", []string{links(3, "a"), links(3, "b")}, 0, 8, true},
		{"two links of each part", []string{links(2, "a"), links(3, "b")}, 2, 6, true},
		{"all that is listed of a mail", many, 0, maxSignatures, true},
		{"nearly a piece of a mail", of(60 << 10), 0, 2, true},
		{"maybe a piece of a mail", of(64 << 10), 0, 2, false},
		{"what is no part", []string{"X-Razor2-Agent"}, 0, 0, true},
	} {
		house, wasRead := &prototest.House{}, false
		s := &Server{Clearinghouse: house, MaxHosts: tt.maxHosts,
			Read: func(context.Context, []byte) ([]bulkhead.Signature, bulkhead.Source, error) {
				wasRead = true
				return nil, bulkhead.Source{}, bulkhead.ErrMalformed // without any cost
			}}
		var parts [][]byte
		for _, p := range tt.parts {
			parts = append(parts, []byte(p))
		}
		err := login(t, start(t, s)).Report(t.Context(), []byte("From: a\n"), parts)
		got := 0
		for _, r := range house.Reports() {
			got += len(r.Signatures)
		}
		if (err == nil) != (tt.want > 0) || got != tt.want || wasRead != tt.read {
			t.Errorf("%s: %d signatures, %v, read %v; want %d, read %v", tt.name, got, err, wasRead, tt.want, tt.read)
		}
	}
}

// scripted returns a connection to a server that sends the given text and nothing else, whatever it
// receives.
func scripted(t *testing.T, says string) net.Conn {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ours, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ours.Close(); theirs.Close() })
	if _, err := io.WriteString(theirs, says); err != nil {
		t.Fatal(err)
	}
	theirs.(*net.TCPConn).CloseWrite()
	return ours
}

// TestClientReads: the client's result for each answer that a server may give.
func TestClientReads(t *testing.T) {
	sig := mustSigs(t, "razor/e8", e8Sum)[0]
	check := func(c *Client) error { _, err := c.Check(t.Context(), sig); return err }
	revoke := func(c *Client) error { return c.Revoke(t.Context(), sig) }
	report := func(c *Client) error {
		return c.Report(t.Context(), []byte("From: a\n"), [][]byte{[]byte("X-Razor2-Agent: x\n\ntext\n")})
	}
	register := func(c *Client) error { _, err := c.Register(t.Context(), Credentials{"ana", "x"}); return err }
	state := func(c *Client) error { _, err := c.State(t.Context()); return err }
	logIn := func(c *Client) error { return c.Login(t.Context(), Credentials{"ana", "x"}) }
	refused := ServerError(201)
	for _, tt := range []struct {
		name    string
		do      func(*Client) error
		answers string
		want    error
		text    string // in the error
	}{
		{"check", check, "p=0\r\n", nil, ""},
		{"check refused", check, "err=201\r\n", refused, "err=201"},
		{"odd error", check, "err=x\r\n", bulkhead.ErrMalformed, `err="x"`},
		{"two rows for one", check, "-p=0\r\np=1\r\n.\r\n", bulkhead.ErrMalformed, "2 rows in answer to 1"},
		{"no answer", check, "", io.EOF, "answer"},
		{"cut batch", check, "-p=0\r\n", io.EOF, "answer"},
		{"line too long", check, strings.Repeat("x", 5000) + "\r\n", bufio.ErrBufferFull, "answer"},
		{"batch without end", check, "-" + strings.Repeat("p=0\r\n", 1100), bulkhead.ErrMalformed, "rows in answer to 1"},
		{"revoke", revoke, "res=1\r\n", nil, ""},
		{"revoke refused", revoke, "err=201\r\n", refused, "err=201"},
		{"not revoked", revoke, "res=0\r\n", bulkhead.ErrForbidden, "refused by the server"},
		{"revoke, no answer", revoke, "", io.EOF, ""},
		{"report", report, "res=1\r\n", nil, ""},
		{"report refused", report, "err=201\r\n", refused, ""},
		{"not reported", report, "res=0\r\n", bulkhead.ErrForbidden, ""},
		{"report, no answer", report, "", io.EOF, ""},
		{"register", register, "res=1&user=ana&pass=x\r\n", nil, ""},
		{"register refused", register, "err=201\r\n", refused, ""},
		{"register, no answer", register, "", io.EOF, ""},
		{"state", state, "-ac=1\r\nse=88\r\n.\r\n", nil, ""},
		{"state refused", state, "err=201\r\n", refused, ""},
		{"state, no answer", state, "", io.EOF, ""},
		{"login", logIn, "achal=x\r\nres=1\r\n", nil, ""},
		{"login refused", logIn, "err=201\r\n", refused, ""},
		{"login without success", logIn, "achal=x\r\nres=0\r\n", bulkhead.ErrUnauthorised, ""},
		{"login, no answer", logIn, "", io.EOF, ""},
		{"login, no second answer", logIn, "achal=x\r\n", io.EOF, ""},
	} {
		ours := scripted(t, "sn=CND\r\n"+tt.answers)
		c, err := newClient(t.Context(), ours, nil)
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		err = tt.do(c)
		if !errors.Is(err, tt.want) || (err == nil) != (tt.want == nil) || err != nil &&
			!strings.Contains(err.Error(), tt.text) {
			t.Errorf("%s: %v, want %v %q", tt.name, err, tt.want, tt.text)
		}
		ours.Close()
	}
	for greeting, want := range map[string]error{"sn=CND\r\n": nil, "hello\r\n": bulkhead.ErrMalformed, "": io.EOF,
		"-sn=CND\r\nx=y\r\n.\r\n": bulkhead.ErrMalformed} {
		ours := scripted(t, greeting)
		c, err := newClient(t.Context(), ours, nil)
		if !errors.Is(err, want) || (c == nil) != (want != nil) {
			t.Errorf("greeting %q: %v, want %v", greeting, err, want)
		}
		ours.Close()
	}
	if _, err := Dial(t.Context(), "127.0.0.1:nothing", nil); err == nil || !strings.HasPrefix(err.Error(), "razor2: ") {
		t.Errorf("an address that is none: %v", err)
	}
	closed := dial(t, start(t, &Server{Clearinghouse: &prototest.House{}}))
	closed.Close()
	if err := check(closed); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a check after the close: %v", err)
	}
}

// TestClientAnswers: the fields that the client reads from a row of an answer.
func TestClientAnswers(t *testing.T) {
	for _, tt := range []struct {
		v    bulkhead.Verdict
		want Answer
	}{
		{bulkhead.Verdict{}, Answer{}},
		{bulkhead.Verdict{Class: bulkhead.ClassSpam,
			Findings: []bulkhead.Finding{{Judged: bulkhead.JudgedSpam, Confidence: 77}}}, Answer{Spam: true, Confidence: 77}},
		{bulkhead.Verdict{Class: bulkhead.ClassSpam,
			Findings: []bulkhead.Finding{{Judged: bulkhead.JudgedSpam, Confidence: 77, Contested: true}}},
			Answer{true, 77, true}},
	} {
		got, err := dial(t, start(t, &Server{Clearinghouse: &verdicts{v: tt.v}})).
			Check(t.Context(), mustSigs(t, "razor/e8", e8Sum)...)
		if err != nil || len(got) != 1 || got[0] != tt.want {
			t.Errorf("%+v, %v, want %+v", got, err, tt.want)
		}
	}
}

// TestServeHelper: the helper answers within its limits, from the whole mail if it can be read.
func TestServeHelper(t *testing.T) {
	mail := append(append(bytes.Clone(header), '\n'), part[bytes.Index(part, []byte("\n\n"))+2:]...)
	p, err := razor.Parts(t.Context(), mail)
	if err != nil || len(p) != 1 || len(p[0].E8) == 0 {
		t.Fatalf("%v, %v", p, err)
	}
	listed := func(sigs ...bulkhead.Signature) *prototest.House {
		house := &prototest.House{}
		if _, err := house.Report(t.Context(), bulkhead.Report{Signatures: sigs, Vote: bulkhead.Spam}); err != nil {
			t.Fatal(err)
		}
		return house
	}
	text := bulkhead.MustSignature(bulkhead.Exact, []byte("the text"))
	reads := func(err error) func(context.Context, []byte) ([]bulkhead.Signature, bulkhead.Source, error) {
		return func(context.Context, []byte) ([]bulkhead.Signature, bulkhead.Source, error) {
			if err != nil {
				return nil, bulkhead.Source{}, err
			}
			return []bulkhead.Signature{text, p[0].E4}, bulkhead.Source{}, nil
		}
	}
	cleared := listed(p[0].E4, p[0].E8[0])
	cleared.White = map[bulkhead.Signature]bool{text: true}
	spamAnd := func(f bulkhead.Finding) bulkhead.Verdict {
		return bulkhead.Verdict{Findings: []bulkhead.Finding{{Judged: bulkhead.JudgedSpam}, f}}
	}
	white := spamAnd(bulkhead.Finding{})
	white.Whitelisted = "sender"
	few := door.Rate{PerSecond: 1e-6, Burst: 1}
	limited := func(rate door.Rate, exempt []netip.Prefix, size int) *Helper {
		return &Helper{Clearinghouse: &prototest.House{}, MailServer: door.MailServer{Rate: rate, Exempt: exempt,
			MaxMail: int64(size)}}
	}
	for _, tt := range []struct {
		name string
		h    *Helper
		want string // of two mails
	}{
		{"unknown", &Helper{Clearinghouse: &prototest.House{}, Read: reads(nil)}, "ham ham"},
		{"its text", &Helper{Clearinghouse: listed(p[0].E4)}, "spam spam"},
		{"a link of it", &Helper{Clearinghouse: listed(p[0].E8[len(p[0].E8)-1])}, "spam spam"},
		{"of all of it", &Helper{Clearinghouse: listed(text), Read: reads(nil)}, "spam spam"},
		{"a link, and all of it is read", &Helper{Clearinghouse: listed(p[0].E8[0]), Read: reads(nil)}, "spam spam"},
		{"white", &Helper{Clearinghouse: cleared, Read: reads(nil)}, "ham ham"},
		{"its text, and it is not read", &Helper{Clearinghouse: listed(p[0].E4), Read: reads(bulkhead.ErrMalformed)},
			"spam spam"},
		{"nobody knows", &Helper{Clearinghouse: listed(p[0].E4), Read: reads(prototest.ErrFault)}, " "},
		{"one sure, one not listed", &Helper{Clearinghouse: &verdicts{v: spamAnd(bulkhead.Finding{Contested: true})}},
			"spam spam"},
		{"one sure, one contested", &Helper{Clearinghouse: &verdicts{v: spamAnd(bulkhead.Finding{Judged: bulkhead.JudgedSpam,
			Contested: true})}}, "ham ham"},
		{"white, as far as it is known", &Helper{Clearinghouse: &verdicts{v: white}}, "ham ham"},
		{"fault", &Helper{Clearinghouse: &prototest.House{Err: prototest.ErrFault}}, " "},
		{"over the rate", limited(few, nil, 0), "ham "},
		{"exempt", limited(few, door.Loopback(), 0), "ham ham"},
		{"as large as may be", limited(door.Rate{}, nil, len(mail)), "ham ham"},
		{"too large", limited(door.Rate{}, nil, len(mail)-1), " "},
	} {
		address := prototest.ServeStream(t, "127.0.0.1:0", tt.h)
		first, _ := prototest.Ask(t, address, mail)
		second, _ := prototest.Ask(t, address, mail)
		if got := first + " " + second; got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// TestRandomText checks that a challenge is new each time, and that all letters and digits are equally frequent.
func TestRandomText(t *testing.T) {
	if a, b := randomText(20), randomText(20); a == b || len(a) != 20 || len(b) != 20 {
		t.Errorf("%q, then %q", a, b)
	}
	const each = 1000
	counts := make(map[rune]int)
	for _, c := range randomText(each * len(alphanumerics)) {
		counts[c]++
	}
	for _, c := range alphanumerics {
		// Six standard deviations: it fails once in 10 million runs.
		if n := counts[c]; n < each-190 || n > each+190 {
			t.Errorf("%c is there %d times, want about %d", c, n, each)
		}
	}
}
