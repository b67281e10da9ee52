package policy

import (
	"bufio"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/door"
	"github.com/bulkhead-mail/bulkhead/internal/testing/bubble"
	"github.com/bulkhead-mail/bulkhead/internal/testing/logtest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/prototest"
)

// TestLyingLimiter: whatever a limiter answers, only a valid action refuses mail, an error is not
// an answer, and no text adds a line.
func TestLyingLimiter(t *testing.T) {
	fault := errors.New("disk on fire")
	type stats struct{ requests, deferred, rejected, held, faults, informed, delayed int64 }
	for _, tt := range []struct {
		name      string
		action    Action
		text      string
		err       error
		failDefer bool
		want      string
		stats     stats
	}{
		{"dunno", Dunno, "never shown", nil, true, "action=DUNNO\n\n", stats{requests: 1}},
		{"nothing", "", "", nil, true, "action=DUNNO\n\n", stats{requests: 1}},
		{"no action of ours", "OK", "x", nil, true, "action=DUNNO\n\n", stats{requests: 1}},
		{"defer", Defer, "slow down", nil, false, "action=450 4.7.1 slow down\n\n", stats{requests: 1, deferred: 1}},
		{"reject", Reject, "too much", nil, false, "action=550 5.7.1 too much\n\n", stats{requests: 1, rejected: 1}},
		{"hold", Hold, "look at it", nil, false, "action=HOLD look at it\n\n", stats{requests: 1, held: 1}},
		{"header", Header, "X-Rate: 1\nSubject: x", nil, true, "action=PREPEND X-Rate: 1?Subject: x\n\n",
			stats{requests: 1, informed: 1}},
		{"log", Log, "rate 1", nil, true, "action=INFO rate 1\n\n", stats{requests: 1, informed: 1}},
		{"delay", Delay, "10", nil, true, "action=sleep 10\n\n", stats{requests: 1, delayed: 1}},
		{"no delay", Delay, "", nil, true, "action=DUNNO\n\n", stats{requests: 1}},
		{"no seconds", Delay, "-1", nil, true, "action=DUNNO\n\n", stats{requests: 1}},
		{"more than seconds", Delay, "5, reject", nil, true, "action=DUNNO\n\n", stats{requests: 1}},
		{"too long", Delay, "1000", nil, true, "action=DUNNO\n\n", stats{requests: 1}},
		{"fault", Reject, "too much", fault, false, "action=DUNNO\n\n", stats{requests: 1, faults: 1}},
		{"fault, defer", Reject, "too much", fault, true,
			"action=450 4.7.1 policy service is out of order, try again later\n\n", stats{requests: 1, deferred: 1, faults: 1}},
		{"refusal", Reject, "", bulkhead.ErrForbidden, false, "action=DUNNO\n\n", stats{requests: 1, faults: 1}},
	} {
		s := &Server{FailDefer: tt.failDefer, Log: slog.New(slog.DiscardHandler),
			Limiter: limiter(func(func(string) []byte) (Action, string, error) {
				return tt.action, tt.text, tt.err
			})}
		if got := string(s.answer(t.Context(), new(Request), []byte("kept "))); got != "kept "+tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, "kept "+tt.want)
		}
		st := &s.Stats
		if got := (stats{st.Requests.Load(), st.Deferred.Load(), st.Rejected.Load(), st.Held.Load(), st.Faults.Load(),
			st.Annotated.Load(), st.Delayed.Load()}); got != tt.stats {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.stats)
		}
	}
	for _, text := range []string{"a\nb", "a\r\n\r\naction=OK", "a\x00b", "caf\xc3\xa9", "\x7f"} {
		s := &Server{Log: slog.New(slog.DiscardHandler), Limiter: limiter(func(func(string) []byte) (Action, string, error) {
			return Reject, text, nil
		})}
		got := string(s.answer(t.Context(), new(Request), nil))
		line, tail, _ := strings.Cut(got, "\n")
		if tail != "\n" || strings.ContainsFunc(line, func(r rune) bool { return r < ' ' || r > '~' }) ||
			!strings.HasPrefix(line, "action=550 5.7.1 ") {
			t.Errorf("text %q: answer %q, want one line of ASCII", text, got)
		}
	}
}

func TestAppendRequest(t *testing.T) {
	pairs := func(n int) (all []string) {
		for range n {
			all = append(all, "name", "value")
		}
		return all
	}
	const head = len("request=" + requestType + "\n\n")
	long := func(n int) []string { return []string{"a", strings.Repeat("x", n-head-len("a=\n"))} }
	for _, tt := range []struct {
		name  string
		pairs []string
		want  error
	}{
		{"nothing more", nil, nil},
		{"one", []string{"sender", "a=b@example.com"}, nil},
		{"empty value", []string{"sender", ""}, nil},
		{"as many as there may be", pairs(MaxAttributes - 1), nil},
		{"one more", pairs(MaxAttributes), bulkhead.ErrOverLimit},
		{"as long as it may be", long(MaxRequest), nil},
		{"a byte more", long(MaxRequest + 1), bulkhead.ErrOverLimit},
		{"a name alone", []string{"sender", "x", "size"}, bulkhead.ErrOverLimit},
		{"no name", []string{"", "x"}, bulkhead.ErrMalformed},
		{"= for a name", []string{"=", "x"}, bulkhead.ErrMalformed},
		{"= in a name", []string{"a=b", "x"}, bulkhead.ErrMalformed},
		{"line feed in a name", []string{"a\nb", "x"}, bulkhead.ErrMalformed},
		{"line feed in a value", []string{"a", "x\ny=z"}, bulkhead.ErrMalformed},
		{"NUL in a value", []string{"a", "\x00"}, bulkhead.ErrMalformed},
		{"NUL in the second name", []string{"a", "b", "\x00", "d"}, bulkhead.ErrMalformed},
	} {
		got, err := AppendRequest([]byte("kept"), tt.pairs...)
		if !errors.Is(err, tt.want) || (err == nil) != (tt.want == nil) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
		text := strings.TrimPrefix(string(got), "kept")
		if err != nil {
			if text != "" {
				t.Errorf("%s: %q beside an error", tt.name, text)
			}
			continue
		}
		var r Request
		if err := r.ParseRequest([]byte(strings.TrimSuffix(text, "\n"))); err != nil {
			t.Errorf("%s: our own request is not understood: %v", tt.name, err)
		}
		for i := 0; i+1 < len(tt.pairs); i += 2 {
			if got := string(r.Get(tt.pairs[i])); got != tt.pairs[i+1] {
				t.Errorf("%s: %s is %.40q, want %.40q", tt.name, tt.pairs[i], got, tt.pairs[i+1])
			}
		}
	}
}

// TestReadRequest: a request ends with an empty line. The server does not wait for the end of bytes
// that cannot become a request.
func TestReadRequest(t *testing.T) {
	for _, tt := range []struct {
		name, in, want, rest string
		err                  error
	}{
		{"one and a half", "a=b\nc=d\n\ne=", "a=b\nc=d\n", "e=", nil},
		{"empty", "\na=b\n", "", "a=b\n", nil},
		{"nothing", "", "", "", io.EOF},
		{"cut", "a=b\n", "a=b\n", "", io.ErrUnexpectedEOF},
		{"cut within a line", "a=b\nc", "a=b\nc", "", io.ErrUnexpectedEOF},
		{"no attribute", "a=b\nGET /\nc=d\n\n", "a=b\nGET /\n", "c=d\n\n", nil},
		{"a line feed at the end of a full buffer", "a=" + strings.Repeat("x", 14) + "\nb=c\n\n",
			"a=" + strings.Repeat("x", 14) + "\nb=c\n", "", nil},
		{"a long line without = in its second half", "a=" + strings.Repeat("x", 40) + "\n\n",
			"a=" + strings.Repeat("x", 40) + "\n", "", nil},
	} {
		r := bufio.NewReaderSize(strings.NewReader(tt.in), 16)
		got, err := readRequest(r, nil)
		rest, _ := io.ReadAll(r)
		if string(got) != tt.want || err != tt.err || string(rest) != tt.rest {
			t.Errorf("%s: %q, %v, left %q; want %q, %v, %q", tt.name, got, err, rest, tt.want, tt.err, tt.rest)
		}
	}
	endless := bufio.NewReader(strings.NewReader("a=" + strings.Repeat("x", 10*MaxRequest)))
	if got, err := readRequest(endless, nil); err != nil || len(got) <= MaxRequest || len(got) > MaxRequest+4096 {
		t.Errorf("a line without end: %d bytes, %v; want little more than %d", len(got), err, MaxRequest)
	}
}

// TestServe: the counters after each request, and the connections that a server keeps open.
func TestServe(t *testing.T) {
	const request = "request=smtpd_access_policy\n\n"
	few := door.Rate{PerSecond: 1e-6, Burst: 2}
	for _, tt := range []struct {
		name      string
		s         *Server
		in        string
		want      int // answers
		malformed int64
		log       string // in the log, "" for an empty one
	}{
		{"two requests", &Server{}, request + request, 2, 0, ""},
		{"the client goes away", &Server{}, "", 0, 0, ""},
		{"cut", &Server{}, request + "request=smtpd", 1, 1, "unexpected EOF"},
		{"malformed", &Server{}, request + "GET / HTTP/1.0\n\n" + request, 1, 1, "is not name=value"},
		{"over the rate", &Server{Rate: few}, request + request + request, 2, 0, "exceeds its rate"},
		{"exempt", &Server{Rate: few, Exempt: door.Loopback()}, request + request + request, 3, 0, ""},
		{"many at once", &Server{}, strings.Repeat(request, 300), 300, 0, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var log logtest.Log
			tt.s.Log = log.Logger()
			tt.s.Limiter = limiter(func(func(string) []byte) (Action, string, error) { return Dunno, "", nil })
			got, err := prototest.Ask(t, prototest.ServeStream(t, "127.0.0.1:0", tt.s), []byte(tt.in))
			if err != nil && !isReset(err) {
				t.Error(err)
			}
			if got != strings.Repeat("action=DUNNO\n\n", tt.want) {
				t.Errorf("%q, want %d answers", got, tt.want)
			}
			if err := tt.s.Shutdown(t.Context()); err != nil {
				t.Fatal(err)
			}
			if n, bad := tt.s.Stats.Requests.Load(), tt.s.Stats.Malformed.Load(); n != int64(tt.want) || bad != tt.malformed {
				t.Errorf("%d requests, %d malformed, want %d, %d", n, bad, tt.want, tt.malformed)
			}
			if text := log.String(); !strings.Contains(text, tt.log) || tt.log == "" && text != "" {
				t.Errorf("log %q, want %q", text, tt.log)
			}
		})
	}
}

// TestConnectionCaps: Postfix holds all its connections from one address, so
// only a configured cap applies.
func TestConnectionCaps(t *testing.T) {
	for _, tt := range []struct {
		name                string
		maxConns, perClient int
		want, of            int // 300 are more than other doors allow one client
	}{
		{"none", 0, 0, 300, 300},
		{"of a client", 0, 3, 3, 4},
		{"of all", 2, 0, 2, 4},
		{"none by a negative one", 0, -1, 300, 300},
	} {
		s := &Server{MaxConns: tt.maxConns, MaxConnsPerClient: tt.perClient,
			Limiter: limiter(func(func(string) []byte) (Action, string, error) { return Hold, "x", nil })}
		dial := start(t, s, "127.0.0.1:0")
		served := 0
		for range tt.of {
			c := dial()
			io.WriteString(c, "request=smtpd_access_policy\n\n")
			if line, _ := bufio.NewReader(c).ReadString('\n'); line == "action=HOLD x\n" {
				served++
			}
		}
		if served != tt.want {
			t.Errorf("%s: %d of %d connections served, want %d", tt.name, served, tt.of, tt.want)
		}
	}
}

// TestFull checks what Postfix gets from a full service: mail passes, or comes again, as the administrator wishes.
func TestFull(t *testing.T) {
	for fail, want := range map[bool]string{false: "action=DUNNO\n\n",
		true: "action=450 4.7.1 policy service is busy, try again later\n\n"} {
		s := &Server{MaxConns: 1, FailDefer: fail, Limiter: limiter(func(func(string) []byte) (Action, string, error) {
			return Hold, "x", nil
		})}
		dial := start(t, s, "127.0.0.1:0")
		first := dial()
		io.WriteString(first, "request=smtpd_access_policy\n\n")
		if line, err := bufio.NewReader(first).ReadString('\n'); line != "action=HOLD x\n" {
			t.Fatalf("%q, %v", line, err)
		}
		second := dial()
		io.WriteString(second, "request=smtpd_access_policy\n\n")
		if got, err := io.ReadAll(second); string(got) != want {
			t.Errorf("a full service answers %q, %v; want %q", got, err, want)
		}
	}
}

// TestNeverReads checks that a client that sends requests and reads no answer loses its connection with the first one,
// and keeps the service busy for no longer.
func TestNeverReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		s := &Server{Limiter: limiter(func(func(string) []byte) (Action, string, error) {
			calls++
			return Hold, "x", nil
		})}
		c, l := prototest.Pipe()
		defer c.Close()
		done := make(chan error, 1)
		go func() { done <- s.Serve(l) }()
		if _, err := io.WriteString(c, strings.Repeat("request=smtpd_access_policy\n\n", 10)); err != nil {
			t.Fatal(err)
		}
		bubble.Advance(time.Hour)
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if err := <-done; !errors.Is(err, door.ErrServerClosed) || calls != 1 {
			t.Errorf("Serve = %v; %d requests are served, want 1", err, calls)
		}
	})
}

// TestIdle: a connection that is idle for too long is closed, which does not count as malformed.
func TestIdle(t *testing.T) {
	s := &Server{IdleTime: 10 * time.Millisecond, Limiter: limiter(func(func(string) []byte) (Action, string, error) {
		return Dunno, "", nil
	})}
	c := start(t, s, "127.0.0.1:0")()
	c.SetReadDeadline(time.Now().Add(20 * time.Second))
	if out, err := io.ReadAll(c); len(out) > 0 || err != nil && !isReset(err) {
		t.Errorf("%q, %v, want the connection closed", out, err)
	}
	if n := s.Stats.Malformed.Load(); n != 0 {
		t.Errorf("%d malformed requests, want none", n)
	}
}

// TestTextEnds: a limiter's text ends with its last character.
func TestTextEnds(t *testing.T) {
	for text, want := range map[string]string{"": "action=HOLD\n\n", "  ": "action=HOLD\n\n",
		"a ~!": "action=HOLD a ~!\n\n", "a  ": "action=HOLD a\n\n", " a": "action=HOLD  a\n\n"} {
		s := &Server{Limiter: limiter(func(func(string) []byte) (Action, string, error) { return Hold, text, nil })}
		if got, err := prototest.Ask(t, prototest.ServeStream(t, "127.0.0.1:0", s),
			[]byte("request=smtpd_access_policy\n\n")); err != nil || got != want {
			t.Errorf("%q: %q, %v, want %q", text, got, err, want)
		}
	}
}

// TestErrorsName: an error names the line, and the limit that it broke.
func TestErrorsName(t *testing.T) {
	for in, want := range map[string]string{
		"a=b\nrequest=x":            "line 2 has no end",
		"a=b\nc=d\nrequest\n":       `line 3 is not name=value: "request"`,
		"a=b\nc=\x00\n":             "line 2 has a NUL byte",
		"request=x\n":               `request type "x", want "smtpd_access_policy"`,
		strings.Repeat("a=b\n", 65): "more than 64 attributes",
		strings.Repeat("a", 16385):  "request of 16385 bytes, limit 16384",
	} {
		var r Request
		if err := r.ParseRequest([]byte(in)); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.HasPrefix(err.Error(), "policy: ") {
			t.Errorf("%.40q: %v, want %q", in, err, want)
		}
	}
}

// TestRequestEnds checks, at every byte, that a connection that ends within a request is a fault, and that one which
// ends between two requests is none.
func TestRequestEnds(t *testing.T) {
	whole := "request=smtpd_access_policy\nsender=a@b.example\n\n"
	for n := range len(whole) + 1 {
		got, err := readRequest(bufio.NewReader(strings.NewReader(whole[:n])), nil)
		want, text := error(io.ErrUnexpectedEOF), whole[:n]
		switch n {
		case 0:
			want = io.EOF
		case len(whole):
			want, text = nil, whole[:n-1]
		}
		if err != want || err == nil && string(got) != text {
			t.Errorf("%d of %d bytes: %q, %v, want %q, %v", n, len(whole), got, err, text, want)
		}
	}
}
