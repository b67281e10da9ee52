package policy

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/door"
	"github.com/bulkhead-mail/bulkhead/internal/ratelimit"
	"github.com/bulkhead-mail/bulkhead/internal/testing/prototest"
)

// rates are rate limits as a Limiter.
type rates struct{ limits *ratelimit.Limiter }

func (r rates) Limit(ctx context.Context, attr func(string) []byte) (Action, string, error) {
	action, text, err := r.limits.Limit(ctx, attr)
	return Action(action), text, err
}

// limiter is a Limiter made of a function.
type limiter func(attr func(string) []byte) (action Action, text string, err error)

func (f limiter) Limit(_ context.Context, attr func(string) []byte) (Action, string, error) {
	return f(attr)
}

func TestParseRequest(t *testing.T) {
	most := "request=smtpd_access_policy\n" + strings.Repeat("a=b\n", MaxAttributes-1)
	longest := "request=smtpd_access_policy\nsender=" +
		strings.Repeat("x", MaxRequest-len("request=smtpd_access_policy\nsender=\n")) + "\n"
	tests := []struct {
		name, in string
		want     error
	}{
		{"whole", "request=smtpd_access_policy\nsender=ann@example.com\nrecipient=\n", nil},
		{"any order, = in the value", "sender=ann=x@example.com\nrequest=smtpd_access_policy\n", nil},
		{"bytes above ASCII", "request=smtpd_access_policy\nsender=\xff\xfe@example.com\n", nil},
		{"empty", "", bulkhead.ErrMalformed},
		{"no type", "sender=ann@example.com\n", bulkhead.ErrMalformed},
		{"another type", "request=junk\n", bulkhead.ErrMalformed},
		{"no =", "request=smtpd_access_policy\nsender\n", bulkhead.ErrMalformed},
		{"no name", "request=smtpd_access_policy\n=x\n", bulkhead.ErrMalformed},
		{"no line end", "request=smtpd_access_policy\nsender=x", bulkhead.ErrMalformed},
		{"empty line inside", "request=smtpd_access_policy\n\nsender=x\n", bulkhead.ErrMalformed},
		{"NUL", "request=smtpd_access_policy\nsender=\x00\n", bulkhead.ErrMalformed},
		{"NUL in a name", "request=smtpd_access_policy\na\x00=b\n", bulkhead.ErrMalformed},
		{"NUL for a name", "request=smtpd_access_policy\n\x00=b\n", bulkhead.ErrMalformed},
		{"as many as there may be", most, nil},
		{"too many", most + "a=b\n", bulkhead.ErrOverLimit},
		{"as long as it may be", longest, nil},
		{"too long by a byte", strings.Replace(longest, "x", "xx", 1), bulkhead.ErrOverLimit},
		{"too long", "request=smtpd_access_policy\nsender=" + strings.Repeat("x", MaxRequest) + "\n", bulkhead.ErrOverLimit},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var r Request
			err := r.ParseRequest([]byte(tt.in))
			if !errors.Is(err, tt.want) || (err == nil) != (tt.want == nil) {
				t.Fatalf("error %v, want %v", err, tt.want)
			}
			if err != nil && r.Get("request") != nil {
				t.Errorf("a result beside the error %v", err)
			}
		})
	}
}

func FuzzParseRequest(f *testing.F) {
	f.Add([]byte("request=smtpd_access_policy\nprotocol_state=RCPT\nsender=ann@example.com\nsize=12\n"))
	f.Add([]byte("request=smtpd_access_policy\nx\n"))
	f.Add([]byte("="))
	f.Add([]byte("request=other\n"))
	f.Add([]byte("request=smtpd_access_policy\nsender=a\x00\n"))
	f.Add([]byte("request=smtpd_access_policy\nsender=" + strings.Repeat("a", 40) + "\n\nrest"))
	f.Add([]byte("request=smtpd_access_policy\n" + strings.Repeat("a=b\n", MaxAttributes)))
	f.Add([]byte("request=smtpd_access_policy\nsender=" + strings.Repeat("a", MaxRequest) + "\n"))
	f.Add([]byte("request=smtpd_access_policy\nsender=ann@example.com"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if in, err := readRequest(bufio.NewReaderSize(bytes.NewReader(data), 16), nil); len(in) > len(data) ||
			err == nil && !bytes.HasPrefix(data, in) {
			t.Errorf("%q is read as %q, %v", data, in, err)
		}
		var r Request
		if err := r.ParseRequest(data); err != nil {
			return
		}
		var pairs []string
		for _, a := range r.attributes {
			if string(a.name) != "request" {
				pairs = append(pairs, string(a.name), string(a.value))
			}
		}
		out, err := AppendRequest(nil, pairs...)
		if err != nil {
			if len(r.attributes) == MaxAttributes || len(data) > MaxRequest-100 {
				return // AppendRequest adds the type and the end
			}
			t.Fatalf("AppendRequest(%q): %v", pairs, err)
		}
		// The server's way of reading: the empty line is found and cut off.
		in, err := readRequest(bufio.NewReaderSize(bytes.NewReader(out), 16), nil)
		if err != nil {
			t.Fatal(err)
		}
		var again Request
		if err := again.ParseRequest(in); err != nil {
			t.Fatalf("%q: %v", in, err)
		}
		for _, a := range r.attributes {
			if got, want := again.Get(string(a.name)), r.Get(string(a.name)); string(got) != string(want) {
				t.Errorf("%q = %q, want %q", a.name, got, want)
			}
		}
	})
}

// start runs a server and returns a function that connects to it.
func start(t testing.TB, s *Server, address string) func() net.Conn {
	t.Helper()
	bound := prototest.ServeStream(t, address, s)
	return func() net.Conn {
		c, err := net.Dial(bound.Network(), bound.String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
}

// ask sends one request and returns the action of the answer.
func ask(t testing.TB, c net.Conn, r *bufio.Reader, pairs ...string) string {
	t.Helper()
	req, err := AppendRequest(nil, pairs...)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write(req); err != nil {
		t.Fatal(err)
	}
	line, err := r.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if empty, err := r.ReadString('\n'); empty != "\n" || err != nil {
		t.Fatalf("answer goes on with %q, %v", empty, err)
	}
	return strings.TrimSpace(line)
}

func TestAnswers(t *testing.T) {
	fault := errors.New("disk on fire")
	for _, tt := range []struct {
		action    Action
		text      string
		err       error
		failDefer bool
		want      string
	}{
		{Dunno, "", nil, false, "action=DUNNO"},
		{Defer, "slow down", nil, false, "action=450 4.7.1 slow down"},
		{Reject, "no", nil, false, "action=550 5.7.1 no"},
		{Hold, "later", nil, false, "action=HOLD later"},
		{Reject, "two\r\n\nlines\xff", nil, false, "action=550 5.7.1 two???lines?"},
		{"unheard of", "x", nil, false, "action=DUNNO"},
		{"", "", fault, false, "action=DUNNO"},
		{"", "", fault, true, "action=450 4.7.1 policy service is out of order, try again later"},
	} {
		s := &Server{FailDefer: tt.failDefer, Limiter: limiter(func(func(string) []byte) (Action, string, error) {
			return tt.action, tt.text, tt.err
		})}
		c := start(t, s, "127.0.0.1:0")()
		if got := ask(t, c, bufio.NewReader(c), "sender", "ann@example.com"); got != tt.want {
			t.Errorf("%q, %q, %v: %q, want %q", tt.action, tt.text, tt.err, got, tt.want)
		}
	}
}

// TestConnections asks many times on each of many connections, some of which
// break off in the middle of a request.
func TestConnections(t *testing.T) {
	var calls atomic.Int64
	s := &Server{Limiter: limiter(func(attr func(string) []byte) (Action, string, error) {
		calls.Add(1)
		return Reject, string(attr("recipient")), nil
	})}
	for _, address := range []string{"127.0.0.1:0", "unix:" + t.TempDir() + "/policy"} {
		dial := start(t, s, address)
		var wg sync.WaitGroup
		calls.Store(0)
		for g := range 50 {
			c := dial()
			wg.Go(func() {
				r := bufio.NewReader(c)
				for i := range 20 {
					to := fmt.Sprintf("%d.%d@example.com", g, i)
					if got := ask(t, c, r, "recipient", to); got != "action=550 5.7.1 "+to {
						t.Errorf("%q, want the text %q", got, to)
					}
				}
				if g%2 == 0 {
					fmt.Fprint(c, "request=smtpd_access_po")
				}
				c.Close()
			})
		}
		wg.Wait()
		if calls.Load() != 1000 {
			t.Errorf("%d requests, want 1000", calls.Load())
		}
		s = &Server{Limiter: s.Limiter}
	}
}

// TestBrokenRequests: the connection is closed without an answer, and the server keeps running.
func TestBrokenRequests(t *testing.T) {
	s := &Server{Limiter: limiter(func(func(string) []byte) (Action, string, error) { return Dunno, "", nil })}
	dial := start(t, s, "127.0.0.1:0")
	broken := []string{
		"\n", "GET / HTTP/1.1\r\n\r\n", "request=other\n\n", "request=smtpd_access_policy\nx\n\n",
		"request=smtpd_access_policy\n" + strings.Repeat("x", 2*MaxRequest), strings.Repeat("a=b\n", 2*MaxRequest),
	}
	for _, in := range broken {
		c := dial()
		go fmt.Fprint(c, in) // fails when the server has closed
		if out, err := io.ReadAll(c); len(out) > 0 || err != nil && !isReset(err) {
			t.Errorf("%.40q: answer %q, %v", in, out, err)
		}
	}
	if got := s.Stats.Malformed.Load(); got != int64(len(broken)) {
		t.Errorf("%d malformed requests, want %d", got, len(broken))
	}
	c := dial()
	if got := ask(t, c, bufio.NewReader(c)); got != "action=DUNNO" {
		t.Errorf("afterwards: %q", got)
	}
}

func isReset(err error) bool { return strings.Contains(err.Error(), "reset") }

func TestRate(t *testing.T) {
	s := &Server{
		Rate:    door.Rate{PerSecond: 0.001, Burst: 3},
		Limiter: limiter(func(func(string) []byte) (Action, string, error) { return Dunno, "", nil }),
	}
	c := start(t, s, "127.0.0.1:0")()
	r := bufio.NewReader(c)
	for range 3 {
		ask(t, c, r)
	}
	fmt.Fprint(c, "request=smtpd_access_policy\n\n")
	if out, err := io.ReadAll(r); len(out) > 0 || err != nil && !isReset(err) {
		t.Errorf("over the rate: %q, %v, want the connection closed", out, err)
	}
}

// TestDrain stops the server while it answers a client that never pauses: the client gets the
// answer, and then the connection ends.
func TestDrain(t *testing.T) {
	begun, stopping := make(chan struct{}), make(chan struct{})
	s := &Server{Limiter: limiter(func(attr func(string) []byte) (Action, string, error) {
		if string(attr("sender")) == "last@example.com" {
			close(begun)
			<-stopping
		}
		return Reject, string(attr("sender")), nil
	})}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	var conns [2]net.Conn
	for i := range conns {
		if conns[i], err = net.Dial("tcp", l.Addr().String()); err != nil {
			t.Fatal(err)
		}
		defer conns[i].Close()
		ask(t, conns[i], bufio.NewReader(conns[i]))
	}
	c, idle := conns[0], conns[1]
	var in []byte
	for _, sender := range []string{"first@example.com", "last@example.com", "late@example.com", "later@example.com"} {
		if in, err = AppendRequest(in, "sender", sender); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Write(in); err != nil { // all of them at once
		t.Fatal(err)
	}
	r := bufio.NewReader(c)
	if line, err := r.ReadString('\n'); line != "action=550 5.7.1 first@example.com\n" {
		t.Fatalf("first answer %q, %v", line, err)
	}
	<-begun
	shut := make(chan error, 1)
	go func() { shut <- s.Shutdown(t.Context()) }()
	// The other connection ends, and is no longer counted when all were closed.
	if rest, err := io.ReadAll(idle); len(rest) > 0 || err != nil && !isReset(err) {
		t.Errorf("idle connection: %q, %v", rest, err)
	}
	for s.ConnStats().Open.Load() > 1 {
		runtime.Gosched()
	}
	close(stopping)
	rest, err := io.ReadAll(r)
	if got := strings.TrimSpace(string(rest)); got != "action=550 5.7.1 last@example.com" || err != nil && !isReset(err) {
		t.Errorf("after the stop: %q, %v; want the answer to the request that was open, and the end", got, err)
	}
	if err := <-shut; err != nil {
		t.Error(err)
	}
	if err := <-ended; err != door.ErrServerClosed {
		t.Errorf("Serve = %v, want %v", err, door.ErrServerClosed)
	}
}

// TestPostfixSnippet: mail passes while a node is down whose Postfix has the documented
// configuration.
func TestPostfixSnippet(t *testing.T) {
	doc, err := os.ReadFile("../docs/protocols/policy.md")
	if err != nil {
		t.Fatal(err)
	}
	_, snippet, _ := strings.Cut(string(doc), "Postfix (`main.cf`):\n\n")
	snippet, _, _ = strings.Cut(snippet, "\n\n")
	services := strings.Split(snippet, "check_policy_service ")[1:]
	if len(services) != 2 {
		t.Fatalf("%d services in the lines for Postfix, want 2:\n%s", len(services), snippet)
	}
	for _, service := range services {
		in, _, ok := strings.Cut(service, "}")
		if !ok || !strings.HasPrefix(in, "{ inet:") || !strings.Contains(in, ", default_action=DUNNO,") {
			t.Errorf("%q defers mail when the node does not answer", service)
		}
	}
}

// TestWithRateLimiter joins the server and the production limiter.
func TestWithRateLimiter(t *testing.T) {
	// A key by chance would once in a while take a new recipient for an old one.
	limits, err := ratelimit.Open(ratelimit.Options{Random: rand.NewChaCha8([32]byte{1}), Rules: []ratelimit.Rule{{
		Name: "rcpts", Key: "{sasl_username}", Unique: "{recipient}", Limit: 10, Period: 3600e9, Action: "defer",
	}}})
	if err != nil {
		t.Fatal(err)
	}
	c := start(t, &Server{Limiter: rates{limits}}, "127.0.0.1:0")()
	r := bufio.NewReader(c)
	for i := range 20 {
		got := ask(t, c, r, "protocol_state", "RCPT", "sasl_username", "ann", "recipient", fmt.Sprint(i, "@example.com"))
		want := "action=DUNNO"
		if i >= 10 {
			want = "action=450 4.7.1 limit of 10 per 1h reached, try again later"
		}
		if got != want {
			t.Errorf("recipient %d: %q, want %q", i, got, want)
		}
	}
}

// TestSilenceThenMany sends to a hundred recipients, is silent for four periods, and then sends to
// four hundred at once, counted by Postfix at the end of the message. The silence must not lower
// their count.
func TestSilenceThenMany(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	var clock sync.Mutex // the server asks for the time, the test moves it
	limits, err := ratelimit.Open(ratelimit.Options{
		Rules: []ratelimit.Rule{
			{Name: "rcpts", Key: "{sasl_username}", Count: "{recipient_count}", Limit: 101, Period: time.Hour, Strict: true},
		},
		Now: func() time.Time { clock.Lock(); defer clock.Unlock(); return now },
	})
	if err != nil {
		t.Fatal(err)
	}
	c := start(t, &Server{Limiter: rates{limits}}, "127.0.0.1:0")()
	r := bufio.NewReader(c)
	for _, tt := range []struct {
		recipients string
		silence    time.Duration // before the messages
		want       string
	}{
		{"100", 0, "action=DUNNO"},
		{"400", 4 * time.Hour, "action=450 4.7.1 limit of 101 per 1h reached, try again later"},
		{"1", 4 * time.Hour, "action=DUNNO"}, // 400 exp(-4) = 7.3
		{"101", 20 * time.Hour, "action=450 4.7.1 limit of 101 per 1h reached, try again later"},
		{"100", 20 * time.Hour, "action=DUNNO"},
	} {
		clock.Lock()
		now = now.Add(tt.silence)
		clock.Unlock()
		got := ask(t, c, r, "protocol_state", "END-OF-MESSAGE", "sasl_username", "ann", "recipient_count", tt.recipients)
		if got != tt.want {
			t.Errorf("%s recipients after %v: %q, want %q", tt.recipients, tt.silence, got, tt.want)
		}
	}
}

// BenchmarkServe asks over loopback, one request in flight on each of 8
// connections; the generator shares the machine.
func BenchmarkServe(b *testing.B) {
	limits, err := ratelimit.Open(ratelimit.Options{Rules: []ratelimit.Rule{{
		Name: "rcpts", Key: "{sasl_username}", Unique: "{recipient}", Limit: 100, Period: 3600e9,
	}}})
	if err != nil {
		b.Fatal(err)
	}
	dial := start(b, &Server{Limiter: rates{limits}}, "127.0.0.1:0")
	req, err := AppendRequest(nil, "protocol_state", "RCPT", "protocol_name", "ESMTP", "client_address", "192.0.2.7",
		"client_name", "client.example.com", "helo_name", "client.example.com", "sender", "ann@example.com",
		"recipient", "bob@example.net", "queue_id", "", "instance", "123.456.7", "size", "12345", "sasl_username", "ann")
	if err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	var wg sync.WaitGroup
	for range 8 {
		c := dial()
		wg.Go(func() {
			buf := make([]byte, 256)
			for range b.N/8 + 1 {
				if _, err := c.Write(req); err != nil {
					b.Error(err)
					return
				}
				if _, err := c.Read(buf); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
}
