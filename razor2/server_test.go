package razor2

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/digest/razor"
	"github.com/bulkhead-mail/bulkhead/door"
	"github.com/bulkhead-mail/bulkhead/internal/mail"
	"github.com/bulkhead-mail/bulkhead/internal/testing/prototest"
	"github.com/bulkhead-mail/bulkhead/signature"
)

// book holds accounts in a map.
type book struct {
	mu      sync.Mutex
	secrets map[string]string
	closed  string
	err     error
}

func (b *book) Secret(_ context.Context, name string) ([]byte, bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil {
		return nil, false, b.err
	}
	if name == b.closed {
		return nil, false, bulkhead.ErrForbidden
	}
	s, ok := b.secrets[name]
	return []byte(s), ok, nil
}

func (b *book) Register(_ context.Context, name string, secret []byte, _ netip.Addr) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil {
		return b.err
	}
	if _, taken := b.secrets[name]; taken {
		return ErrTaken
	}
	if b.secrets == nil {
		b.secrets = make(map[string]string)
	}
	b.secrets[name] = string(secret)
	return nil
}

func read(ctx context.Context, raw []byte) ([]bulkhead.Signature, bulkhead.Source, error) {
	m, err := mail.Read(ctx, raw)
	if err != nil {
		return nil, bulkhead.Source{}, err
	}
	sigs, err := signature.Compute(ctx, raw, signature.Options{})
	return sigs, m.Source(), err
}

// start serves s on a free port of the loopback address until the test ends.
func start(t testing.TB, s *Server) string {
	t.Helper()
	if s.Accounts == nil {
		s.Accounts = &book{secrets: map[string]string{"ana": "s3cret"}}
	}
	return prototest.ServeStream(t, "127.0.0.1:0", s).String()
}

func dial(t testing.TB, address string) *Client {
	t.Helper()
	c, err := Dial(t.Context(), address, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func login(t testing.TB, address string) *Client {
	t.Helper()
	c := dial(t, address)
	if err := c.Login(t.Context(), Credentials{"ana", "s3cret"}); err != nil {
		t.Fatal(err)
	}
	return c
}

// A mail of one part, as razor-report sends it.
var (
	header = []byte("From: Ana <ana@sender.example>\nSubject: offers\nMessage-ID: <1@sender.example>\n")
	part   = []byte("X-Razor2-Agent: Razor-Agents v2.84\n\nDear reader, this is the offer of the day.\n" +
		"See http://www.cheap-lamps.example/buy for lamps.\nBest wishes from the lamp shop round the corner.\n")
)

func mustParse(t testing.TB, p []byte) razor.Part {
	t.Helper()
	got, ok := razor.Prepared(p)
	if !ok || len(got.E8) == 0 {
		t.Fatal("the part has no signatures")
	}
	return got
}

func TestReportAndRevoke(t *testing.T) {
	house := &prototest.House{}
	address := start(t, &Server{Clearinghouse: house, Read: read})
	sigs := append([]bulkhead.Signature{mustParse(t, part).E4}, mustParse(t, part).E8...)
	c := login(t, address)
	expect := func(when string, spam bool) {
		t.Helper()
		answers, err := c.Check(t.Context(), sigs...)
		if err != nil {
			t.Fatal(err)
		}
		for i, a := range answers {
			if a.Spam != spam || spam != (a.Confidence >= 51) {
				t.Errorf("%s: %v is %+v, want spam %v", when, sigs[i], a, spam)
			}
		}
	}
	expect("before", false)
	rows, err := c.Do(t.Context(), row("r", &sigs[0]))
	if err != nil || rows[0].Get("err") != "230" {
		t.Errorf("first step of a report: %v, %v, want err=230", rows, err)
	}
	if err := c.Report(t.Context(), header, [][]byte{part}); err != nil {
		t.Fatal(err)
	}
	expect("reported", true)

	reports := house.Reports()
	if len(reports) != 1 || reports[0].Reporter.Account != "ana" || !reports[0].Reporter.Addr.IsLoopback() ||
		reports[0].Vote != bulkhead.Spam {
		t.Errorf("reports %+v, want one by ana", reports)
	}
	schemes := make(map[bulkhead.Scheme]bool)
	for _, s := range reports[0].Signatures {
		schemes[s.Scheme()] = true
	}
	for _, s := range []bulkhead.Scheme{bulkhead.RazorE4, bulkhead.RazorE8, bulkhead.PyzorDigest,
		bulkhead.Exact, bulkhead.DCCBody} {
		if !schemes[s] {
			t.Errorf("the report has no %s, only %v", s, slices.Collect(maps.Keys(schemes)))
		}
	}

	if err := c.Revoke(t.Context(), sigs...); err != nil {
		t.Fatal(err)
	}
	expect("revoked", false)
	if err := c.Revoke(t.Context(), sigs[0]); err != nil {
		t.Errorf("revoking what is not listed: %v", err)
	}
	expect("revoked twice", false)
}

func TestTwoConnections(t *testing.T) {
	address := start(t, &Server{Clearinghouse: &prototest.House{}})
	if err := login(t, address).Report(t.Context(), header, [][]byte{part}); err != nil {
		t.Fatal(err)
	}
	answers, err := dial(t, address).Check(t.Context(), mustParse(t, part).E4)
	if err != nil || !answers[0].Spam {
		t.Errorf("another connection: %+v, %v", answers, err)
	}
}

// TestTranscripts replays golden dialogs: lines of the client (C) and the whole
// answers of the server (S).
func TestTranscripts(t *testing.T) {
	data, err := os.ReadFile("testdata/transcripts.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range strings.Split(string(data), "\n\n") {
		name, text, _ := strings.Cut(strings.TrimSpace(text), "\n")
		t.Run(strings.TrimPrefix(name, "# "), func(t *testing.T) {
			house := &prototest.House{}
			if _, err := house.Report(t.Context(), bulkhead.Report{Vote: bulkhead.Spam,
				Signatures: mustSigs(t, "razor/e4", "7p6JNvfDEfoYAybuYapBiCjFEC0A")}); err != nil {
				t.Fatal(err)
			}
			// "ana" with the challenge of the connection cannot be golden, so the
			// dialogs that need a login begin after it.
			address := start(t, &Server{Clearinghouse: house,
				Names: []string{"razor-a.example.org:2703", "razor-b.example.org:2703"}})
			conn, err := net.Dial("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			conn.SetDeadline(time.Now().Add(20 * time.Second))
			for line := range strings.Lines(text) {
				kind, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
				wire := strings.NewReplacer(`\r`, "\r", `\n`, "\n", `\0`, "\x00").Replace(rest)
				switch kind {
				case "C":
					io.WriteString(conn, wire)
				case "S":
					got := make([]byte, len(wire))
					if n, err := io.ReadFull(conn, got); err != nil || string(got) != wire {
						t.Fatalf("answer %q, %v, want %q", got[:n], err, wire)
					}
				case "CLOSED":
					if n, err := conn.Read(make([]byte, 1)); n != 0 || err == nil {
						t.Errorf("connection still open: %d, %v", n, err)
					}
				default:
					t.Fatalf("line %q", line)
				}
			}
		})
	}
}

func mustSigs(t testing.TB, scheme string, texts ...string) []bulkhead.Signature {
	t.Helper()
	s, err := bulkhead.ParseScheme(scheme)
	if err != nil {
		t.Fatal(err)
	}
	var sigs []bulkhead.Signature
	for _, text := range texts {
		sig, err := razor.Parse(s, text)
		if err != nil {
			t.Fatal(err)
		}
		sigs = append(sigs, sig)
	}
	return sigs
}

func TestRegister(t *testing.T) {
	accounts := &book{secrets: map[string]string{"ana": "s3cret"}}
	s := &Server{Clearinghouse: &prototest.House{}, Accounts: accounts}
	c := dial(t, start(t, s))
	tests := []struct {
		user, pass string
		want       error
	}{
		{"bob@example.org", "p&=% w+d", nil},
		{"", "", nil},
		{"carol", "", nil},
		{"ana", "other", ServerError(210)},
		{"a/b", "secret", ServerError(200)},
		{"a,b", "secret", ServerError(200)},
		{" a", "secret", ServerError(200)},
		{"a", "secret ", ServerError(200)},
		{"a\x00", "secret", ServerError(200)},
		{strings.Repeat("u", 65), "secret", ServerError(200)},
		{"u", strings.Repeat("p", 65), ServerError(200)},
		{strings.Repeat("u", 64), strings.Repeat("p", 64), nil},
	}
	for _, tt := range tests {
		got, err := c.Register(t.Context(), Credentials{tt.user, tt.pass})
		if !errors.Is(err, tt.want) || tt.want == nil && err != nil {
			t.Errorf("register %q, %q: %v, want %v", tt.user, tt.pass, err, tt.want)
		}
		if err != nil {
			continue
		}
		if tt.user != "" && got.User != tt.user || tt.pass != "" && got.Password != tt.pass || len(got.User) < 4 &&
			tt.user == "" || len(got.Password) < 6 {
			t.Errorf("register %q, %q gives %q, %q", tt.user, tt.pass, got.User, got.Password)
		}
		if err := c.Login(t.Context(), got); err != nil {
			t.Errorf("login as %q: %v", got.User, err)
		}
	}
	if accounts.secrets["ana"] != "s3cret" {
		t.Errorf("password of ana is now %q", accounts.secrets["ana"])
	}
	accounts.err = errors.New("disk on fire")
	if _, err := c.Register(t.Context(), Credentials{"dave", "secret"}); !errors.Is(err, ServerError(220)) {
		t.Errorf("register with a broken store: %v", err)
	}
}

func TestRegistrationLimit(t *testing.T) {
	s := &Server{Clearinghouse: &prototest.House{}, Registrations: door.Rate{PerSecond: 1e-6, Burst: 2}}
	c := dial(t, start(t, s))
	for i, want := range []error{nil, nil, ServerError(203)} {
		if _, err := c.Register(t.Context(), Credentials{}); !errors.Is(err, want) {
			t.Errorf("registration %d: %v, want %v", i, err, want)
		}
	}
}

func TestLogin(t *testing.T) {
	accounts := &book{secrets: map[string]string{"ana": "s3cret", "nopass": ""}, closed: "gone"}
	address := start(t, &Server{Clearinghouse: &prototest.House{}, Accounts: accounts})
	c := dial(t, address)
	if err := c.Login(t.Context(), Credentials{"nobody", "x"}); !errors.Is(err, ServerError(213)) {
		t.Errorf("unknown user: %v, want err=213", err)
	}
	for user, pass := range map[string]string{"ana": "wrong", "gone": "x", "nopass": ""} {
		if err := c.Login(t.Context(), Credentials{user, pass}); !errors.Is(err, bulkhead.ErrUnauthorised) {
			t.Errorf("login as %q: %v, want a refusal", user, err)
		}
	}
	if err := c.Report(t.Context(), header, [][]byte{part}); !errors.Is(err, ServerError(202)) {
		t.Errorf("report after a failed login: %v, want err=202", err)
	}
	if err := c.Revoke(t.Context(), mustParse(t, part).E4); !errors.Is(err, ServerError(202)) {
		t.Errorf("revoke after a failed login: %v, want err=202", err)
	}
	if err := c.Login(t.Context(), Credentials{"ana", "s3cret"}); err != nil {
		t.Fatal(err)
	}
	// A second login that fails ends the first.
	if err := c.Login(t.Context(), Credentials{"ana", "wrong"}); err == nil {
		t.Error("wrong password taken")
	}
	if err := c.Report(t.Context(), header, [][]byte{part}); !errors.Is(err, ServerError(202)) {
		t.Errorf("report after a second login failed: %v, want err=202", err)
	}
	// A challenge is valid once.
	rows, err := c.Do(t.Context(), Values{{"a", "ai"}, {"user", "ana"}})
	if err != nil {
		t.Fatal(err)
	}
	answer := Values{{"a", "auth"}, {"aresp", Response("s3cret", rows[0].Get("achal"))}}
	for i, want := range []string{"1", "0"} {
		rows, err := c.Do(t.Context(), answer)
		if err != nil || rows[0].Get("res") != want {
			t.Errorf("use %d of a challenge: %v, %v, want res=%s", i, rows, err, want)
		}
	}
	if rows, err := c.Do(t.Context(),
		Values{{"a", "auth"}, {"aresp", Response("", "")}}); err != nil || rows[0].Get("res") != "0" {
		t.Errorf("a=auth without a challenge: %v, %v", rows, err)
	}
}

// TestResponse has the vectors of docs/specs/razor2.md#login.
func TestResponse(t *testing.T) {
	const challenge = "abcdefghij0123456789"
	for password, want := range map[string]string{
		"hunter2":               "9jhrdDVnjO-ChlNTo5d6clw_fmcA",
		"p&=% w+d":              "CwqVk8ubIV2TyQHHViqSJml75PkA",
		strings.Repeat("k", 70): "bpu9If6zTd_ss20NiLaKntt6HZEA",
	} {
		if got := Response(password, challenge); got != want {
			t.Errorf("Response(%q) = %q, want %q", password, got, want)
		}
	}
}

// TestOneWrite: the client takes the first 1,024 bytes that it reads for the
// whole answer, so the largest batch must be answered within them.
func TestOneWrite(t *testing.T) {
	house := &prototest.House{}
	address := start(t, &Server{Clearinghouse: house})
	rows := make([]Values, batchRows)
	for i := range rows {
		e4 := mustParse(t, bytes.ReplaceAll(part, []byte("lamp"), []byte(fmt.Sprint("lamp", i)))).E4
		for who, vote := range map[string]bulkhead.Vote{"ana": bulkhead.Spam, "bob": bulkhead.Spam, "cyd": bulkhead.Ham} {
			r := bulkhead.Report{Signatures: []bulkhead.Signature{e4}, Vote: vote, Reporter: bulkhead.Reporter{Account: who}}
			if _, err := house.Report(t.Context(), r); err != nil {
				t.Fatal(err)
			}
		}
		rows[i] = row("c", &e4)
	}
	var request []byte
	request = append(request, '-')
	for _, r := range rows {
		request = append(r.append(request), "\r\n"...)
	}
	request = append(request, ".\r\n"...)
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := bufio.NewReader(conn).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write(request); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 1024)
	n, err := conn.Read(buf)
	if err != nil || !bytes.HasSuffix(buf[:n], []byte("\r\n.\r\n")) ||
		bytes.Count(buf[:n], []byte("p=1&cf=100&ct=1\r\n")) != batchRows {
		t.Errorf("one read of the answer gives %d bytes %q, %v", n, buf[:n], err)
	}
}

// TestBatchTooLong: a batch of one row more than the announced limit is refused whole, and the
// connection ends.
func TestBatchTooLong(t *testing.T) {
	s := &Server{Clearinghouse: &prototest.House{}}
	e4 := mustParse(t, part).E4
	request := []byte("-")
	for range batchRows + 1 {
		request = append(row("c", &e4).append(request), "\r\n"...)
	}
	conn, err := net.Dial("tcp", start(t, s))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(20 * time.Second))
	// The line with the dot is never sent: nothing but the limit ends this.
	if _, err := conn.Write(request); err != nil {
		t.Fatal(err)
	}
	reply, err := io.ReadAll(conn)
	if err != nil || !bytes.HasSuffix(reply, []byte("err=200\r\n")) {
		t.Errorf("%d rows are answered with %q, %v; want err=200 and the end", batchRows+1, reply, err)
	}
	if n, checks := s.Stats.Malformed.Load(), s.Stats.Checks.Load(); n != 1 || checks != 0 {
		t.Errorf("%d malformed requests, %d checks; want 1, 0", n, checks)
	}
}

func TestBatchOrder(t *testing.T) {
	house := &prototest.House{}
	address := start(t, &Server{Clearinghouse: house})
	p := mustParse(t, part)
	if err := login(t, address).Report(t.Context(), header, [][]byte{part}); err != nil {
		t.Fatal(err)
	}
	unknown := mustSigs(t, "razor/e8", "OK-8mIdLyA0A")[0]
	answers, err := dial(t, address).Check(t.Context(), unknown, p.E4, unknown, p.E8[0], p.E4)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []bool{false, true, false, true, true} {
		if answers[i].Spam != want {
			t.Errorf("row %d: spam %v, want %v", i, answers[i].Spam, want)
		}
	}
}

func TestNeverListed(t *testing.T) {
	house := &prototest.House{}
	s := &Server{Clearinghouse: house, ExemptHosts: []string{"popular.example"}, MaxHosts: 3}
	address := start(t, s)
	c := login(t, address)
	agent := "X-Razor2-Agent: Razor-Agents v2.84\n"
	tests := []struct {
		name, part string
		listed     int // signatures of the report; 0: refused
	}{
		{"only tags", agent + "Content-Type: text/html\n\n<html><body></body></html>\n", 0},
		{"tiny", agent + "\nSent from my phone\n", 0},
		{"exempt host alone", agent + "\nhttp://popular.example/\n", 0},
		{"exempt host in a mail", agent + "\nRead the news of today at http://popular.example/ today\n", 1},
		{"host under an exempt one", agent + "\nRead the news of today at http://x.popular.example/ today\n", 1},
		{"many hosts", agent + "\nall the links http://a.example/ http://b.example/ http://c.example/ " +
			"http://d.example/ http://e.example/\n", 4},
	}
	for _, tt := range tests {
		before := len(house.Reports())
		err := c.Report(t.Context(), header, [][]byte{[]byte(tt.part)})
		reports := house.Reports()[before:]
		if tt.listed == 0 {
			if !errors.Is(err, bulkhead.ErrForbidden) || len(reports) != 0 {
				t.Errorf("%s: %v, reports %+v; want a refusal", tt.name, err, reports)
			}
			continue
		}
		if err != nil || len(reports) != 1 || len(reports[0].Signatures) != tt.listed {
			t.Errorf("%s: %v, reports %+v; want %d signatures", tt.name, err, reports, tt.listed)
		}
	}
	// Even if it is listed in another way, it is not answered as listed.
	empty, err := razor.Parse(bulkhead.RazorE4, emptySum)
	if err != nil {
		t.Fatal(err)
	}
	popular := mustParse(t, []byte(tests[3].part)).E8[0]
	if _, err := house.Report(t.Context(), bulkhead.Report{Signatures: []bulkhead.Signature{empty, popular},
		Vote: bulkhead.Spam}); err != nil {
		t.Fatal(err)
	}
	answers, err := c.Check(t.Context(), empty, popular)
	if err != nil || answers[0].Spam || answers[1].Spam {
		t.Errorf("answers %+v, %v; want neither to be spam", answers, err)
	}
}

// TestReadAddsNoRazor: the Razor signatures of a reported mail that is read whole come from the
// parts as the client sent them. Signatures that the server omits from these, such as links to
// exempt hosts, do not come back in another way.
func TestReadAddsNoRazor(t *testing.T) {
	house := &prototest.House{}
	agent := "X-Razor2-Agent: Razor-Agents v2.84\n\n"
	mail := []byte(agent + "Read the news of today at http://popular.example/ today\n")
	of := mustParse(t, mail)
	exact := bulkhead.MustSignature(bulkhead.Exact, []byte("the whole mail"))
	other := mustParse(t, part).E4
	s := &Server{Clearinghouse: house, ExemptHosts: []string{"popular.example"},
		Read: func(context.Context, []byte) ([]bulkhead.Signature, bulkhead.Source, error) {
			return append([]bulkhead.Signature{exact, of.E4, other, exact}, of.E8...), bulkhead.Source{}, nil
		}}
	if err := login(t, start(t, s)).Report(t.Context(), header, [][]byte{mail}); err != nil {
		t.Fatal(err)
	}
	reports := house.Reports()
	if want := []bulkhead.Signature{of.E4, exact}; len(reports) != 1 || !slices.Equal(reports[0].Signatures, want) {
		t.Errorf("reports %+v, want one of %v", reports, want)
	}
}

func TestMultipartReport(t *testing.T) {
	house := &prototest.House{}
	address := start(t, &Server{Clearinghouse: house, Read: read})
	mail := "From: a@sender.example\nContent-Type: multipart/alternative; boundary=b\n\n--b\n" +
		"Content-Type: text/plain\n\nThe text of the plain part is here, long enough.\n--b\n" +
		"Content-Type: text/html\n\n<p>The text of the other part is here, <b>long</b> enough.\n--b--\n"
	head, _, _ := strings.Cut(mail, "\n\n")
	parts := [][]byte{
		[]byte("X-Razor2-Agent: Razor-Agents v2.84\nContent-Type: text/plain\n\nThe text of the plain part is " +
			"here, long enough."),
		[]byte("X-Razor2-Agent: Razor-Agents v2.84\nContent-Type: text/html\n\n<p>The text of the other part is " +
			"here, <b>long</b> enough."),
	}
	if err := login(t, address).Report(t.Context(), []byte(head+"\n"), parts); err != nil {
		t.Fatal(err)
	}
	want, _, err := read(t.Context(), []byte(mail))
	if err != nil {
		t.Fatal(err)
	}
	got := house.Reports()[0].Signatures
	for _, s := range want {
		if !slices.Contains(got, s) {
			t.Errorf("the report lacks %v of the mail", s)
		}
	}
}

// TestLongLastLine: a mail ends correctly if its last line fills the reader's buffer up to the CR.
func TestLongLastLine(t *testing.T) {
	c := login(t, start(t, &Server{Clearinghouse: &prototest.House{}}))
	c.timeout = 5 * time.Second
	for _, n := range []int{maxLine - 2, maxLine - 1, maxLine, 2*maxLine - 1, 3*maxLine - 1} {
		long := append(bytes.Clone(part), strings.Repeat("x", n)...)
		if err := c.Report(t.Context(), header, [][]byte{long}); err != nil {
			t.Fatalf("last line of %d bytes: %v", n, err)
		}
	}
}

func TestHouseErrors(t *testing.T) {
	tests := []struct {
		err                   error
		check, report, revoke string
	}{
		{bulkhead.ErrReadOnly, "err=220", "err=220", "err=220"},
		{bulkhead.ErrOverLimit, "err=203", "err=203", "err=203"},
		{bulkhead.ErrForbidden, "err=201", "res=0", "res=0"},
		{errors.New("disk on fire"), "err=220", "err=220", "err=220"},
	}
	for _, tt := range tests {
		house := &prototest.House{}
		c := login(t, start(t, &Server{Clearinghouse: house}))
		house.Fail(tt.err)
		e4 := mustParse(t, part).E4
		check, err1 := c.Do(t.Context(), row("c", &e4))
		revoke, err2 := c.Do(t.Context(), row("revoke", &e4))
		report, err3 := c.exchange(t.Context(), []byte("-a=r&message=*\r\nA: b\n\r\n"+string(part)+"\r\n.\r\n"), 1)
		if err := errors.Join(err1, err2, err3); err != nil {
			t.Fatal(err)
		}
		if check[0].String() != tt.check || report[0].String() != tt.report || revoke[0].String() != tt.revoke {
			t.Errorf("%v: check %s, report %s, revoke %s; want %s, %s, %s", tt.err, check[0], report[0],
				revoke[0], tt.check, tt.report, tt.revoke)
		}
	}
}

// TestUnlisted: a report is refused if and only if nothing in it may be listed.
func TestUnlisted(t *testing.T) {
	e4 := mustParse(t, part).E4
	other := append(bytes.Clone(part), "and some more text that is in no other part of a mail\n"...)
	for _, tt := range []struct {
		part []byte
		want string
	}{{part, "res=0"}, {other, "res=1"}} {
		house := &prototest.House{White: map[bulkhead.Signature]bool{e4: true}}
		for _, sig := range mustParse(t, part).E8 {
			house.White[sig] = true
		}
		c := login(t, start(t, &Server{Clearinghouse: house}))
		report, err := c.exchange(t.Context(), []byte("-a=r&message=*\r\nA: b\n\r\n"+string(tt.part)+"\r\n.\r\n"), 1)
		if err != nil || report[0].String() != tt.want {
			t.Errorf("report of %.40q: %v, %v, want %s", tt.part, report, err, tt.want)
		}
	}
}

func TestRate(t *testing.T) {
	s := &Server{Clearinghouse: &prototest.House{}, Rate: door.Rate{PerSecond: 1e-6, Burst: 3}}
	c := dial(t, start(t, s))
	e4 := mustParse(t, part).E4
	if _, err := c.Check(t.Context(), e4, e4, e4); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Check(t.Context(), e4, e4); !errors.Is(err, ServerError(203)) {
		t.Errorf("beyond the rate: %v, want err=203", err)
	}
}

func TestDiscoveryNames(t *testing.T) {
	address := start(t, &Server{Clearinghouse: &prototest.House{}})
	c := dial(t, address)
	for _, list := range []string{"csl", "nsl"} {
		rows, err := c.exchange(t.Context(), []byte("a=g&pm="+list+"\r\n"), 1)
		if err != nil || rows[0].Get(list) != address {
			t.Errorf("%s: %v, %v; want %s", list, rows, err, address)
		}
	}
	elsewhere := prototest.ServeStream(t, "127.9.3.7:0",
		&Server{Clearinghouse: &prototest.House{}, Accounts: &book{}}).String()
	if rows, err := dial(t, elsewhere).exchange(t.Context(), []byte("a=g&pm=csl\r\n"), 1); err != nil ||
		rows[0].Get("csl") != elsewhere {
		t.Errorf("csl at %s: %v, %v", elsewhere, rows, err)
	}
	state, err := c.State(t.Context())
	if err != nil || state.Get("bql") != "50" || state.Get("ac") != "20" || state.Get("se") != "88" ||
		state.Get("srl") != "1" {
		t.Errorf("state %v, %v", state, err)
	}
}

func TestHelper(t *testing.T) {
	house := &prototest.House{}
	mail := append(append(bytes.Clone(header), '\n'), part[bytes.Index(part, []byte("\n\n"))+2:]...)
	h := &Helper{Clearinghouse: house, MailServer: door.MailServer{MaxMail: 1 << 16}}
	address := prototest.ServeStream(t, "127.0.0.1:0", h)
	ask := func(mail []byte) string {
		got, _ := prototest.Ask(t, address, mail) // it hangs up on what it refuses
		return got
	}
	if got := ask(mail); got != "ham" {
		t.Errorf("unknown mail: %q, want ham", got)
	}
	sigs, err := razor.Signatures(t.Context(), mail)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := house.Report(t.Context(), bulkhead.Report{Signatures: sigs, Vote: bulkhead.Spam}); err != nil {
		t.Fatal(err)
	}
	if got := ask(mail); got != "spam" {
		t.Errorf("reported mail: %q, want spam", got)
	}
	if got := ask(nil); got != "ham" {
		t.Errorf("empty mail: %q, want ham", got)
	}
	if got := ask(make([]byte, 1<<17)); got != "" {
		t.Errorf("huge mail: %q, want no answer", got)
	}
	house.Fail(bulkhead.ErrReadOnly)
	if got := ask(mail); got != "" {
		t.Errorf("house that refuses: %q, want no answer", got)
	}
}

// TestHelperWhitelisted: whitelisted mail is ham, whatever its parts are.
func TestHelperWhitelisted(t *testing.T) {
	mail := append(append(bytes.Clone(header), '\n'), part[bytes.Index(part, []byte("\n\n"))+2:]...)
	for white, want := range map[string]string{"": "spam", "sender": "ham"} {
		v := bulkhead.Verdict{Whitelisted: white, Findings: []bulkhead.Finding{{Judged: bulkhead.JudgedSpam}}}
		h := &Helper{Clearinghouse: &verdicts{v: v}, MailServer: door.MailServer{MaxMail: 1 << 16}}
		if got, err := prototest.Ask(t, prototest.ServeStream(t, "127.0.0.1:0", h), mail); got != want || err != nil {
			t.Errorf("whitelisted as %q: %q, %v, want %q", white, got, err, want)
		}
	}
}

// TestHelperEnds: reading a mail ends with its context, and the mail gets no
// answer.
func TestHelperEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	h := &Helper{Clearinghouse: &prototest.House{}}
	if _, err := h.spam(ctx, append(bytes.Clone(header), part...), bulkhead.Reporter{}); !errors.Is(err,
		context.Canceled) {
		t.Errorf("a mail judged after the end of its context: %v", err)
	}
}

// TestReportTimeout: a report whose mail is not read in time is not counted, and the client is
// asked to try later.
func TestReportTimeout(t *testing.T) {
	house := &prototest.House{}
	s := &Server{Clearinghouse: house, Read: func(ctx context.Context, _ []byte) ([]bulkhead.Signature, bulkhead.Source,
		error) {
		if _, ok := ctx.Deadline(); !ok {
			t.Error("a mail is read without a deadline")
		}
		return nil, bulkhead.Source{}, context.DeadlineExceeded
	}}
	err := login(t, start(t, s)).Report(t.Context(), header, [][]byte{part})
	if err == nil || !strings.Contains(err.Error(), "220") || len(house.Reports()) != 0 {
		t.Errorf("report: %v, %d taken; want error 220 and none", err, len(house.Reports()))
	}
}

// TestSplitBlock: the header and the parts of a report, whatever their line
// ends.
func TestSplitBlock(t *testing.T) {
	for _, tt := range []struct {
		block, header string
		parts         []string
	}{
		{"", "", nil},
		{"A: b\r\n c", "A: b\n c", nil},
		{"A: b\n\r\nX-Razor2-Agent: y\n\nz", "A: b\n", []string{"X-Razor2-Agent: y\n\nz"}},
		{"A\r\nX-Razor2-1\r\n\r\nb\r\nX-Razor2-2", "A", []string{"X-Razor2-1\r\n\r\nb", "X-Razor2-2"}},
		{"X-Razor2-1\r\nb", "X-Razor2-1\nb", nil},
	} {
		header, parts := splitBlock([]byte(tt.block))
		var got []string
		for _, p := range parts {
			got = append(got, string(p))
		}
		if string(header) != tt.header || !slices.Equal(got, tt.parts) {
			t.Errorf("splitBlock(%q) = %q, %q; want %q, %q", tt.block, header, got, tt.header, tt.parts)
		}
	}
	many := bytes.Repeat([]byte("\r\n"), 1<<20)
	if n := testing.AllocsPerRun(1, func() { splitBlock(append([]byte("A\r\nX-Razor2-1"), many...)) }); n > 20 {
		t.Errorf("a part of a million lines takes %.0f allocations", n)
	}
}

// TestRows: the rows that clients send: docs/specs/razor2.md#check.
func TestRows(t *testing.T) {
	p := mustParse(t, part)
	e4, e8 := razor.Text(p.E4.Sum()), razor.Text(p.E8[0].Sum())
	for _, tt := range []struct {
		command string
		sig     bulkhead.Signature
		want    string
	}{
		{"c", p.E4, "a=c&e=4&ep4=" + razor.EP4 + "&s=" + e4},
		{"r", p.E4, "a=r&e=4&ep4=" + razor.EP4 + "&s=" + e4},
		{"revoke", p.E4, "a=revoke&e=4&s=" + e4},
		{"c", p.E8[0], "a=c&e=8&s=" + e8},
		{"revoke", p.E8[0], "a=revoke&e=8&s=" + e8},
	} {
		if got := row(tt.command, &tt.sig).String(); got != tt.want {
			t.Errorf("row %s of %v: %q, want %q", tt.command, tt.sig, got, tt.want)
		}
	}
}

// TestRevokeBatch: each row of a batch has its answer. A malformed row revokes nothing and does not
// affect the other rows.
func TestRevokeBatch(t *testing.T) {
	house := &prototest.House{}
	s := &Server{Clearinghouse: house, Read: read}
	address := start(t, s)
	if err := login(t, address).Report(t.Context(), header, [][]byte{part}); err != nil {
		t.Fatal(err)
	}
	p := mustParse(t, part)
	batch := []Values{row("revoke", &p.E4), {{"a", "revoke"}, {"e", "4"}}, row("revoke", &p.E8[0]),
		{{"a", "revoke"}, {"e", "4"}, {"s", "not a sum!"}}}
	answers := func(c *Client) (got []string) {
		rows, err := c.Do(t.Context(), batch...)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rows {
			got = append(got, r.String())
		}
		return got
	}
	if got, want := answers(dial(t, address)), []string{"err=202", "err=200", "err=202", "err=200"}; !slices.Equal(got,
		want) {
		t.Errorf("without a login: %q, want %q", got, want)
	}
	if got, want := answers(login(t, address)), []string{"res=1", "err=200", "res=1", "err=200"}; !slices.Equal(got,
		want) {
		t.Errorf("answers %q, want %q", got, want)
	}
	if n, bad := s.Stats.Revokes.Load(), s.Stats.Malformed.Load(); n != 2 || bad != 4 {
		t.Errorf("%d revoked, %d malformed; want 2, 4", n, bad)
	}
	got, err := dial(t, address).Check(t.Context(), p.E4, p.E8[0])
	if err != nil || got[0].Spam || got[1].Spam {
		t.Errorf("after the revocation: %+v, %v", got, err)
	}
}

// batches is a clearinghouse that must be asked in batches.
type batches struct {
	*prototest.House
	sizes []int
}

func (b *batches) Check(context.Context, bulkhead.Query) (bulkhead.Verdict, error) {
	return bulkhead.Verdict{}, errors.New("asked one by one")
}

func (b *batches) CheckBatch(ctx context.Context, queries []bulkhead.Query, verdicts []bulkhead.Verdict) (err error) {
	b.sizes = append(b.sizes, len(queries))
	for i, q := range queries {
		if verdicts[i], err = b.House.Check(ctx, q); err != nil {
			return err
		}
	}
	return nil
}

// TestCheckBatch: a clearinghouse that answers many queries at once is asked in one call, and
// queries left from an earlier, larger batch are not repeated.
func TestCheckBatch(t *testing.T) {
	house := &batches{House: &prototest.House{}}
	p := mustParse(t, part)
	if _, err := house.Report(t.Context(), bulkhead.Report{Signatures: []bulkhead.Signature{p.E4},
		Vote: bulkhead.Spam}); err != nil {
		t.Fatal(err)
	}
	c := dial(t, start(t, &Server{Clearinghouse: house}))
	unknown := mustSigs(t, "razor/e8", "OK-8mIdLyA0A")[0]
	for _, sigs := range [][]bulkhead.Signature{{p.E4, unknown, p.E4}, {unknown}, {unknown, p.E4}} {
		got, err := c.Check(t.Context(), sigs...)
		if err != nil {
			t.Fatal(err)
		}
		for i := range sigs {
			if got[i].Spam != (sigs[i] == p.E4) {
				t.Errorf("batch of %d, row %d: %+v", len(sigs), i, got[i])
			}
		}
	}
	if want := []int{3, 1, 2}; !slices.Equal(house.sizes, want) {
		t.Errorf("batches of %d, want %d", house.sizes, want)
	}
}

// TestNames checks the servers that discovery announces: those that are configured, or else the address that the
// client has reached.
func TestNames(t *testing.T) {
	here, there := net.Pipe()
	defer here.Close()
	defer there.Close()
	for _, tt := range []struct{ names, want []string }{
		{nil, []string{"pipe"}}, {[]string{"a.example:2703"}, []string{"a.example:2703"}},
		{[]string{"a.example:2703", "b.example:2703"}, []string{"a.example:2703", "b.example:2703"}},
	} {
		c := &session{server: &Server{Names: tt.names}, conn: &door.Conn{Conn: here}}
		if got := c.names(); !slices.Equal(got, tt.want) {
			t.Errorf("configured %q: %q are announced, want %q", tt.names, got, tt.want)
		}
	}
}
