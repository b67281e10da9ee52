package api

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client"
	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/door"
	"github.com/bulkhead-mail/bulkhead/internal/testing/prototest"
)

// readMail stands in for package signature: one signature over the body, none
// for a short one, and the sender from the first header line.
func readMail(_ context.Context, raw []byte, dkim []string) ([]bulkhead.Signature, bulkhead.Source, error) {
	head, body, _ := bytes.Cut(raw, []byte("\n\n"))
	source := bulkhead.Source{DKIM: dkim,
		Sender: string(bytes.TrimPrefix(bytes.SplitN(head, []byte("\n"), 2)[0], []byte("From: ")))}
	if name, _, ok := strings.Cut(source.Sender, " <"); len(body) < 20 && ok {
		return []bulkhead.Signature{bulkhead.NamedSignature(bulkhead.Claim, name)}, source, nil
	} else if len(body) < 20 {
		return nil, source, nil
	}
	sum := sha256.Sum256(body)
	sig, err := bulkhead.NewSignature(bulkhead.Exact, sum[:])
	return []bulkhead.Signature{sig}, source, err
}

const sample = "From: shop@example.com\nSubject: offer\n\nBuy two and get the third one free, today only.\n"

func sign(t testing.TB, text string) bulkhead.Signature {
	t.Helper()
	sig, err := bulkhead.ParseSignature(text)
	if err != nil {
		t.Fatal(err)
	}
	return sig
}

type fakeNode struct{}

func (fakeNode) ConfirmClock(context.Context) error { return nil }
func (fakeNode) BringBack(context.Context) (opened, expired int, err error) {
	return 0, 0, nil
}
func (fakeNode) Promote(context.Context) error { return nil }

func (fakeNode) Learn(context.Context, bulkhead.Reporter, []bulkhead.Signature, []string, bool) error {
	return nil
}

func (fakeNode) Rules(int) []admin.Rule { return []admin.Rule{{Name: "exact-text", Verdict: "spam"}} }

func (fakeNode) State(context.Context) admin.NodeState {
	return admin.NodeState{
		Name: "test", Version: "v0", Started: time.Unix(1, 0).UTC(), Durability: "always", Threshold: 20,
		Counters: admin.Counters{Checks: 9, Recoveries: 2},
		Doors:    []admin.Door{{Name: "http", Address: "127.0.0.1:8420"}},
		Books: []admin.Book{{Name: "tally", Bytes: 64, Generations: []admin.Generation{{
			Start: time.Unix(0, 0).UTC(), End: time.Unix(86400, 0).UTC(), Capacity: 10,
			Arrays: []admin.Array{{Name: "counts", Bytes: 64, Keys: 3, Fill: 0.5, Ghost: 0.01}},
		}}}},
	}
}

// newServer returns a server on the fakes; change edits its options.
func newServer(t testing.TB, house bulkhead.Clearinghouse, change func(*Options)) *Server {
	t.Helper()
	users := newFakeUsers()
	o := Options{Clearinghouse: house, Read: readMail, Accounts: users, Users: users, Node: fakeNode{}, Version: "v0"}
	if change != nil {
		change(&o)
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// send serves one request from the given client address.
func send(s *Server, from, method, target, mediaType, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	r.RemoteAddr, r.Host = from, "127.0.0.1:8420"
	if mediaType != "" {
		r.Header.Set("Content-Type", mediaType)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

const (
	local  = "127.0.0.1:40000"
	remote = "203.0.113.9:40000"
	ready  = `{"signatures":["pyzor/digest:da39a3ee5e6b4b0d3255bfef95601890afd80709"]}`
)

// TestCheckReportRevoke drives a server through the client, as mail and as
// ready signatures.
func TestCheckReportRevoke(t *testing.T) {
	house := &prototest.House{}
	srv := httptest.NewServer(newServer(t, house, nil))
	defer srv.Close()
	c := &admin.Client{Client: client.Client{Server: srv.URL + "/", HTTP: srv.Client()}}
	ctx := t.Context()

	verdict := func(want bool) {
		t.Helper()
		v, err := c.CheckMessage(ctx, []byte(sample), client.MessageOptions{Threshold: 3})
		if err != nil || v.Spam != want || v.Unwanted != want || v.Threshold != 3 || len(v.Findings) != 1 {
			t.Errorf("CheckMessage = %+v, %v; want spam %v and one finding", v, err, want)
		}
		sigs, err := c.MessageSignatures(ctx, []byte(sample))
		if err != nil || len(sigs.Signatures) != 1 || sigs.Source.Sender != "shop@example.com" {
			t.Fatalf("MessageSignatures = %+v, %v", sigs, err)
		}
		ready, err := c.Check(ctx, bulkhead.Query{Signatures: sigs.Signatures})
		if err != nil || ready.Spam() != want || ready.Findings[0].Signature != sigs.Signatures[0] {
			t.Errorf("Check = %+v, %v; want spam %v", ready, err, want)
		}
	}
	verdict(false)
	rcpt, err := c.ReportMessage(ctx, []byte(sample), client.MessageOptions{Vote: bulkhead.Spam, Count: 2, ID: "k1"})
	if err != nil || *rcpt != (client.Receipt{Signatures: 1, Counted: 1, Listed: 1}) {
		t.Errorf("ReportMessage = %+v, %v", rcpt, err)
	}
	verdict(true)
	rcpt, err = c.ReportMessage(ctx, []byte(sample), client.MessageOptions{Vote: bulkhead.Revocation})
	if err != nil || rcpt.Revoked != 1 {
		t.Errorf("ReportMessage, revoking = %+v, %v", rcpt, err)
	}
	verdict(false)

	// The same with ready signatures.
	ready := bulkhead.Report{Signatures: []bulkhead.Signature{sign(t,
		"pyzor/digest:da39a3ee5e6b4b0d3255bfef95601890afd80709")}, Vote: bulkhead.Spam, Count: 3, ID: "k2"}
	if got, err := c.Report(ctx, ready); err != nil || got != (bulkhead.Receipt{Counted: 1, Listed: 1}) {
		t.Errorf("Report = %+v, %v", got, err)
	}
	ready.Vote = bulkhead.Revocation
	if got, err := c.Report(ctx, ready); err != nil || got.Revoked != 1 {
		t.Errorf("Report, revoking = %+v, %v", got, err)
	}
	// /v1/revoke does the same for clients that name no vote.
	for _, path := range []string{"/v1/revoke", "/v1/revoke?count=2"} {
		kind, body := requestType, `{"signatures":["pyzor/digest:da39a3ee5e6b4b0d3255bfef95601890afd80709"]}`
		if strings.Contains(path, "?") {
			kind, body = mailType, sample
		}
		if w := send(srv.Config.Handler.(*Server), local, "POST", path, kind, body); w.Code != 200 {
			t.Errorf("POST %s: %d %s", path, w.Code, w.Body)
		}
		if all := house.Reports(); all[len(all)-1].Vote != bulkhead.Revocation {
			t.Errorf("POST %s reported %+v", path, all[len(all)-1])
		}
	}

	got := house.Reports()
	if len(got) != 6 || got[2].Count != 3 || got[2].ID != "k2" || got[2].Vote != bulkhead.Spam ||
		got[3].Vote != bulkhead.Revocation {
		t.Errorf("the house saw %+v", got)
	}
	if len(got) < 2 || got[0].Count != 2 || got[0].ID != "k1" || got[0].Source.Sender != "shop@example.com" ||
		!got[0].Reporter.Addr.IsLoopback() || got[1].Vote != bulkhead.Revocation {
		t.Errorf("the house saw %+v", got)
	}
}

// TestTooLittleText: a message without signatures is unknown, not an error.
func TestTooLittleText(t *testing.T) {
	house := &prototest.House{}
	s := newServer(t, house, nil)
	for range 2 {
		w := send(s, local, "POST", "/v1/check", mailType, "From: a@b.example\n\nhi\n")
		if w.Code != 200 || !strings.Contains(w.Body.String(), noSignature) ||
			!strings.Contains(w.Body.String(), `"findings":[]`) {
			t.Errorf("check = %d %s, want a verdict that says why", w.Code, w.Body)
		}
		send(s, local, "POST", "/v1/report", mailType, "From: a@b.example\n\nhi\n")
	}
}

func TestQueryOverridesHeaders(t *testing.T) {
	house := &prototest.House{}
	s := newServer(t, house, nil)
	w := send(s, local, "POST",
		"/v1/report?vote=ham&count=7&sender=a@b.example&client=192.0.2.7&list_id=l.example&dkim=x.example&dkim=y.example",
		mailType, sample)
	if w.Code != 200 {
		t.Fatalf("report = %d %s", w.Code, w.Body)
	}
	got := house.Reports()[0]
	if got.Vote != bulkhead.Ham || got.Count != 7 || got.Source.Sender != "a@b.example" ||
		got.Source.Client.String() != "192.0.2.7" ||
		got.Source.ListID != "l.example" || !slices.Equal(got.Source.DKIM, []string{"x.example", "y.example"}) {
		t.Errorf("report = %+v", got)
	}
}

func TestBatch(t *testing.T) {
	house := &prototest.House{}
	srv := httptest.NewServer(newServer(t, house, nil))
	defer srv.Close()
	c := &admin.Client{Client: client.Client{Server: srv.URL, HTTP: srv.Client()}}
	var reports []bulkhead.Report
	var checks []bulkhead.Query
	for i := range 200 {
		sig := sign(t, fmt.Sprintf("bulkhead/exact:%08x", i))
		checks = append(checks, bulkhead.Query{Signatures: []bulkhead.Signature{sig}})
		if i%2 == 0 {
			reports = append(reports, bulkhead.Report{Signatures: []bulkhead.Signature{sig}, Vote: bulkhead.Spam})
		}
	}
	receipts, err := c.ReportBatch(t.Context(), reports)
	if err != nil || len(receipts) != len(reports) {
		t.Fatalf("ReportBatch = %d answers, %v", len(receipts), err)
	}
	verdicts, err := c.CheckBatch(t.Context(), checks)
	if err != nil || len(verdicts) != len(checks) {
		t.Fatalf("CheckBatch = %d answers, %v", len(verdicts), err)
	}
	for i, v := range verdicts {
		if v.Err != nil || v.Verdict.Findings[0].Signature != checks[i].Signatures[0] || v.Verdict.Spam() != (i%2 == 0) {
			t.Errorf("answer %d = %+v", i, v)
		}
	}
	house.Err = bulkhead.ErrReadOnly
	receipts, err = c.ReportBatch(t.Context(), reports[:2])
	if err != nil || receipts[1].Receipt != (bulkhead.Receipt{}) || !errors.Is(receipts[1].Err, bulkhead.ErrReadOnly) {
		t.Errorf("ReportBatch on a read-only node = %+v, %v; want a problem for each", receipts, err)
	}
}

func TestIdempotencyKeys(t *testing.T) {
	house := &prototest.House{}
	s := newServer(t, house, nil)
	send(s, local, "POST", "/v1/report", requestType, ready, "Idempotency-Key", "one")
	send(s, local, "POST", "/v1/report", requestType, `{"id":"own",`+ready[1:], "Idempotency-Key", "one")
	var ids []string
	for _, r := range house.Reports() {
		ids = append(ids, r.ID)
	}
	if want := []string{"one", "own"}; !slices.Equal(ids, want) {
		t.Errorf("IDs = %q, want %q", ids, want)
	}
	house = &prototest.House{}
	s = newServer(t, house, nil)
	send(s, local, "POST", "/v1/report", requestType, "["+ready+","+ready+"]", "Idempotency-Key", "one")
	ids = nil
	for _, r := range house.Reports() {
		ids = append(ids, r.ID)
	}
	slices.Sort(ids)
	if want := []string{"one#0", "one#1"}; !slices.Equal(ids, want) {
		t.Errorf("IDs of a batch = %q, want %q", ids, want)
	}
}

func TestRefusals(t *testing.T) {
	many := `{"signatures":["dcc/body:00"` + strings.Repeat(`,"dcc/body:00"`, 1024) + `]}`
	tests := []struct {
		name, from, method, target, mediaType, body string
		headers                                     []string
		status                                      int
		detail                                      string
	}{
		{"nothing there", local, "GET", "/v2/check", "", "", nil, 404, `nothing is at "/v2/check"`},
		{"wrong method", local, "GET", "/v1/check", "", "", nil, 405, "want POST"},
		{"wrong method for text", local, "POST", "/healthz", "", "", nil, 405, "want GET, HEAD"},
		{"no type", local, "POST", "/v1/check", "", ready, nil, 415, "want message/rfc822 or application/json"},
		{"form", local, "POST", "/v1/report", "application/x-www-form-urlencoded", "a=b", nil, 415,
			"application/x-www-form-urlencoded"},
		{"signatures of JSON", local, "POST", "/v1/signatures", requestType, ready, nil, 415, "want message/rfc822"},
		{"empty mail", local, "POST", "/v1/check", mailType, "", nil, 400, "the body is empty"},
		{"empty JSON", local, "POST", "/v1/check", requestType, "", nil, 400, "body: it is empty"},
		{"not JSON", local, "POST", "/v1/report", requestType, "{", nil, 400, "body: it ends inside a value"},
		{"text as JSON", local, "POST", "/v1/report", requestType, `"x"`, nil, 400, "body: want an object, not a string"},
		{"text as number", local, "POST", "/v1/report", requestType, `{"count":"5"}`, nil, 400,
			"body: count: unexpected string"},
		{"packed mail", local, "POST", "/v1/check", mailType, "x", []string{"Content-Encoding", "gzip"}, 415,
			`content coding "gzip"`},
		{"unknown field", local, "POST", "/v1/report", requestType, `{"sigs":[]}`, nil, 400, `unknown field "sigs"`},
		{"two values", local, "POST", "/v1/report", requestType, ready + ready, nil, 400, "after the end"},
		{"no signature", local, "POST", "/v1/report", requestType, `{"signatures":[]}`, nil, 400,
			"0 signatures, want 1 to 1024"},
		{"null signature", local, "POST", "/v1/report", requestType, `{"signatures":[null]}`, nil, 400,
			"signature 1 of 1 is missing"},
		{"too many signatures", local, "POST", "/v1/report", requestType, many, nil, 400, "1025 signatures"},
		{"unknown scheme", local, "POST", "/v1/report", requestType, `{"signatures":["md5:00"]}`, nil, 400,
			`malformed request: body: unknown signature scheme "md5"`},
		{"odd digits", local, "POST", "/v1/report", requestType, `{"signatures":["dcc/body:0"]}`, nil, 400, "odd length"},
		{"negative count", local, "POST", "/v1/report", requestType, `{"count":-1,"signatures":["dcc/body:00"]}`, nil,
			400, "count"},
		{"unknown vote", local, "POST", "/v1/report", requestType, `{"vote":"maybe","signatures":["dcc/body:00"]}`, nil, 400,
			`vote "maybe", want sighting, spam, ham or revoke`},
		{"vote in a revoke", local, "POST", "/v1/revoke", requestType, `{"vote":"spam","signatures":["dcc/body:00"]}`, nil,
			400, "a revoke has no vote"},
		{"bad address", local, "POST", "/v1/report", requestType, `{"source":{"client":"x"},"signatures":["dcc/body:00"]}`,
			nil, 400, "body: "},
		{"empty batch", local, "POST", "/v1/report", requestType, `[]`, nil, 400, "batch of 0 messages"},
		{"open batch", local, "POST", "/v1/report", requestType, `[`, nil, 400, "body: it ends inside a value"},
		{"batch that goes on", local, "POST", "/v1/report", requestType, `[` + ready + `,`, nil, 400,
			"body: it ends inside a value"},
		{"one bad in a batch", local, "POST", "/v1/report", requestType, "[" + ready + `,{"signatures":[]}]`, nil, 400,
			"message 2 of the batch"},
		{"unknown query parameter", local, "POST", "/v1/report?votes=ham", mailType, sample, nil, 400,
			`unknown query parameter "votes"`},
		{"query with JSON", local, "POST", "/v1/report?vote=ham", requestType, ready, nil, 400,
			`unknown query parameter "vote"`},
		{"parameter twice", local, "POST", "/v1/report?vote=ham&vote=spam", mailType, sample, nil, 400, "given 2 times"},
		{"vote of a mail", local, "POST", "/v1/report?vote=invalid", mailType, sample, nil, 400,
			`vote: expected value to be one of`},
		{"vote of a revoked mail", local, "POST", "/v1/revoke?vote=revoke", mailType, sample, nil, 400,
			"a revoke has no vote"},
		{"count of a mail", local, "POST", "/v1/report?count=4294967296", mailType, sample, nil, 400, "is not a number"},
		{"client of a mail", local, "POST", "/v1/report?client=here", mailType, sample, nil, 400, "is not an address"},
		{"mail with too little text", local, "POST", "/v1/report", mailType, "From: a@b.example\n\nhi\n", nil, 422,
			"too little text"},
		{"mail with a name and too little text", local, "POST", "/v1/report", mailType,
			"From: Ann Example <a@b.example>\n\nhi\n", nil, 422, "too little text"},
		{"long key", local, "POST", "/v1/report", requestType, ready, []string{"Idempotency-Key", strings.Repeat("k", 256)},
			400, "256 bytes, limit 255"},
		{"long body", local, "POST", "/v1/report", mailType, sample + strings.Repeat("x", 1<<16), nil, 413, "limit 65536"},
		{"anonymous from elsewhere", remote, "POST", "/v1/report", requestType, ready, nil, 401, "need a token to report"},
		{"anonymous check from elsewhere", remote, "POST", "/v1/check", requestType, ready, nil, 401,
			"need a token to check"},
		{"anonymous look from elsewhere", remote, "GET", "/metrics", "", "", nil, 401, "need a token"},
		{"wrong token", local, "POST", "/v1/report", requestType, ready, []string{"Authorization", "Bearer nonsense"}, 401,
			"unauthorised"},
		{"basic authentication", local, "POST", "/v1/report", requestType, ready, []string{"Authorization", "Basic YTpi"},
			401, "bearer tokens only"},
		{"other web page", local, "POST", "/v1/report", requestType, ready, []string{"Sec-Fetch-Site", "cross-site"}, 403,
			"forbidden"},
		{"users, anonymous", local, "GET", "/v1/users", "", "", nil, 401, "an administrator's token is needed"},
		{"users, not an administrator", local, "GET", "/v1/users", "", "", []string{"Authorization", "Bearer token-bob"}, 403,
			"is not an administrator"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			house := &prototest.House{}
			s := newServer(t, house, func(o *Options) { o.Access.MaxBody = 1 << 16 })
			w := send(s, tt.from, tt.method, tt.target, tt.mediaType, tt.body, tt.headers...)
			var p client.Problem
			if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil ||
				w.Header().Get("Content-Type") != "application/problem+json" {
				t.Fatalf("answer %d %q %q is no problem document: %v", w.Code, w.Header(), w.Body, err)
			}
			if w.Code != tt.status || p.Status != tt.status || !strings.Contains(p.Detail, tt.detail) {
				t.Errorf("answer = %d %+v, want %d with %q", w.Code, p, tt.status, tt.detail)
			}
			if n := len(house.Reports()); n != 0 {
				t.Errorf("a refused request changed something: %d reports", n)
			}
		})
	}
}

func TestFaults(t *testing.T) {
	tests := []struct {
		err    error
		status int
		detail string
	}{
		{fmt.Errorf("%w: x", bulkhead.ErrMalformed), 400, "malformed request: x"},
		{bulkhead.ErrUnauthorised, 401, "unauthorised"},
		{bulkhead.ErrForbidden, 403, "forbidden"},
		{bulkhead.ErrGeometry, 412, "wrong geometry"},
		{bulkhead.ErrOverLimit, 429, "over limit"},
		{bulkhead.ErrReadOnly, 503, "temporarily read-only"},
		{context.DeadlineExceeded, 503, "not finished in time"},
		{errors.New("open /secret/path: gone"), 500, "internal error"},
	}
	for _, tt := range tests {
		var log bytes.Buffer
		s := newServer(t, &prototest.House{Err: tt.err}, func(o *Options) {
			o.Log = slog.New(slog.NewTextHandler(&log, nil))
		})
		for _, path := range []string{"/v1/check", "/v1/report", "/v1/revoke"} {
			w := send(s, local, "POST", path, requestType, ready)
			if w.Code != tt.status || !strings.Contains(w.Body.String(), tt.detail) ||
				strings.Contains(w.Body.String(), "secret") {
				t.Errorf("%s with %v = %d %s, want %d with %q and nothing private", path, tt.err, w.Code, w.Body,
					tt.status, tt.detail)
			}
		}
		if tt.status == 500 && !strings.Contains(log.String(), "/secret/path") {
			t.Errorf("a fault of the node is not in the log: %q", log.String())
		}
	}
}

func TestClientSeesSentinels(t *testing.T) {
	for _, want := range []error{bulkhead.ErrMalformed, bulkhead.ErrForbidden, bulkhead.ErrOverLimit, bulkhead.ErrReadOnly,
		bulkhead.ErrUnauthorised} {
		srv := httptest.NewServer(newServer(t, &prototest.House{Err: want}, nil))
		_, err := (&admin.Client{Client: client.Client{Server: srv.URL, HTTP: srv.Client()}}).Check(t.Context(),
			bulkhead.Query{Signatures: []bulkhead.Signature{sign(t, "dcc/body:00")}})
		srv.Close()
		if !errors.Is(err, want) {
			t.Errorf("client got %v, want it to wrap %v", err, want)
		}
	}
}

func TestClientAndOtherServers(t *testing.T) {
	for _, body := range []string{"", "<html>", "{", `{"status":400}`} {
		for _, status := range []int{200, 204, 302, 404, 500} {
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(status)
				io.WriteString(w, body)
			}))
			v, err := (&client.Client{Server: srv.URL, HTTP: srv.Client()}).CheckMessage(t.Context(), []byte(sample),
				client.MessageOptions{})
			srv.Close()
			if status != 204 && !(status == 200 && strings.HasPrefix(body, `{"`)) && (err == nil || v != nil) {
				t.Errorf("server answering %d %q: got %v, %v; want an error", status, body, v, err)
			}
		}
	}
}

type panicHouse struct{ prototest.House }

func (*panicHouse) Check(context.Context, bulkhead.Query) (bulkhead.Verdict, error) { panic("oops") }

func TestPanicIsAnswered(t *testing.T) {
	var log bytes.Buffer
	s := newServer(t, &panicHouse{}, func(o *Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	w := send(s, local, "POST", "/v1/check", requestType, ready)
	if w.Code != 500 || strings.Contains(w.Body.String(), "oops") || !strings.Contains(log.String(), "oops") {
		t.Errorf("answer = %d %s, log %q; want 500 and the panic in the log alone", w.Code, w.Body, log.String())
	}
}

// oddHouse answers with a number or with a signature that JSON cannot represent.
type oddHouse struct{ prototest.House }

func (*oddHouse) Check(_ context.Context, q bulkhead.Query) (bulkhead.Verdict, error) {
	if q.Threshold > 0 {
		return bulkhead.Verdict{Findings: make([]bulkhead.Finding, 1)}, nil
	}
	return bulkhead.Verdict{Error: math.NaN()}, nil
}

func TestAnswerWithoutForm(t *testing.T) {
	var log bytes.Buffer
	s := newServer(t, &oddHouse{}, func(o *Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	for _, body := range []string{ready, `{"threshold":1,` + ready[1:]} { // no answer must affect the next one
		w := send(s, local, "POST", "/v1/check", requestType, body)
		var p client.Problem
		if err := json.Unmarshal(w.Body.Bytes(), &p); w.Code != 500 || err != nil || strings.Contains(p.Detail, "NaN") {
			t.Errorf("answer = %d %s, want 500 and a problem that names no fault", w.Code, w.Body)
		}
	}
	if !strings.Contains(log.String(), "NaN") || strings.Contains(log.String(), "panicked") {
		t.Errorf("log %q, want the fault, and no panic", log.String())
	}
	if w := send(s, local, "GET", "/metrics", "", ""); !strings.Contains(w.Body.String(),
		`path="/v1/check",status="500"} 2`) {
		t.Errorf("metrics lack the two faults:\n%s", w.Body)
	}
}

func TestRateLimit(t *testing.T) {
	// One request in 1,000 s: the clock stands still and cannot refill the bucket.
	limit := Access{AnonymousCheck: Everyone, Rate: door.Rate{PerSecond: 0.001, Burst: 3}}
	s := newServer(t, &prototest.House{}, func(o *Options) { o.Access = limit })
	codes := func(from string, body string) (got []int) {
		for range 5 {
			got = append(got, send(s, from, "POST", "/v1/check", requestType, body).Code)
		}
		return got
	}
	if got, want := codes(remote, "not parsed"), []int{400, 400, 400, 429, 429}; !slices.Equal(got, want) {
		t.Errorf("remote client: %v, want %v", got, want)
	}
	if got, want := codes("198.51.100.1:1", ready), []int{200, 200, 200, 429, 429}; !slices.Equal(got, want) {
		t.Errorf("another client: %v, want %v", got, want)
	}
	if got, want := codes(local, ready), []int{200, 200, 200, 200, 200}; !slices.Equal(got, want) {
		t.Errorf("loopback client: %v, want %v", got, want)
	}
	limit.LimitLoopback = true
	s.SetAccess(limit)
	if got, want := codes(local, ready), []int{200, 200, 200, 429, 429}; !slices.Equal(got, want) {
		t.Errorf("loopback client with limit_loopback: %v, want %v", got, want)
	}
}

// TestLargeBodies: while messages take all allowed memory, a further large body waits and is
// refused temporarily, and a small one passes while there is room for it.
func TestLargeBodies(t *testing.T) {
	memory := door.NewMemory(4 << 20)
	s := newServer(t, &prototest.House{}, func(o *Options) { o.Memory = memory })
	large := sample + strings.Repeat("Buy two and get the third one free, today only.\n", 6000)
	for range 20 { // memory is released
		if w := send(s, local, "POST", "/v1/check", mailType, large); w.Code != 200 {
			t.Fatalf("large body = %d %s", w.Code, w.Body)
		}
	}
	if _, held, _ := memory.Usage(); held != 0 {
		t.Fatalf("%d bytes are not given back", held)
	}
	others := memory.Hold()
	if err := others.Take(t.Context(), 4<<20-128<<10, 0); err != nil {
		t.Fatal(err)
	}
	if w := send(s, local, "POST", "/v1/check", mailType, sample); w.Code != 200 {
		t.Errorf("small body = %d %s", w.Code, w.Body)
	}
	if w := send(s, local, "POST", "/v1/check", mailType, large); w.Code != 503 || w.Header().Get("Retry-After") == "" {
		t.Errorf("large body for which there is no memory = %d %v %s, want 503 and when to try again", w.Code,
			w.Header(), w.Body)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r := httptest.NewRequestWithContext(ctx, "POST", "/v1/check", strings.NewReader(large))
	r.RemoteAddr, r.Host = local, "localhost"
	r.Header.Set("Content-Type", mailType)
	w := httptest.NewRecorder()
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.ServeHTTP(w, r)
	}()
	cancel()
	<-done
	if w.Code != 503 {
		t.Errorf("large body whose client has gone = %d %s, want 503", w.Code, w.Body)
	}
	if _, held, _ := memory.Usage(); held != 4<<20-128<<10 {
		t.Errorf("%d bytes are held, and the others have %d", held, 4<<20-128<<10)
	}
}

// TestManyValues checks that a JSON body of many short values takes memory for them, and no more than a few times what
// was taken.
func TestManyValues(t *testing.T) {
	memory := door.NewMemory(256 << 20)
	s := newServer(t, &prototest.House{}, func(o *Options) { o.Memory = memory })
	const many = 500_000
	list := func(value string, n int) string { return "[" + strings.Repeat(value+",", n) + value + "]" }
	within := func(field string) string { return strings.TrimSuffix(ready, "}") + "," + field + "}" }
	for _, tt := range []struct{ name, path, body, want string }{
		{"a batch of checks", "/v1/check", list("{}", many), "batch of more than 1024 messages"},
		{"a batch of reports", "/v1/report", list("{}", many), "batch of more than 1024 messages"},
		{"recipients", "/v1/report", within(`"vote":"sighting","recipients":` + list(`""`, many)), "500001 recipients"},
		{"domains", "/v1/check", within(`"source":{"dkim":` + list(`""`, many) + "}"), "array length"},
		{"too many", "/v1/check", list("{}", maxValues+1), "more than 1048576 values"},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		w := send(s, local, "POST", tt.path, requestType, tt.body)
		runtime.ReadMemStats(&after)
		// Growing a list allocates it anew several times, of which the collector takes back the former ones.
		took := after.TotalAlloc - before.TotalAlloc
		if most := uint64(8*len(tt.body) + 2*valueBytes*many); took > most {
			t.Errorf("%s: %d bytes allocate %d, want %d at most", tt.name, len(tt.body), took, most)
		}
		if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), tt.want) {
			t.Errorf("%s: %d %s, want %q", tt.name, w.Code, w.Body, tt.want)
		}
	}
	others := memory.Hold()
	if err := others.Take(t.Context(), 250<<20, 0); err != nil {
		t.Fatal(err)
	}
	for n, want := range map[int]int{10: http.StatusBadRequest, many / 10: http.StatusServiceUnavailable} {
		body := within(`"vote":"sighting","recipients":` + list(`""`, n))
		if w := send(s, local, "POST", "/v1/report", requestType, body); w.Code != want {
			t.Errorf("%d recipients while there is memory for the text alone: %d %s, want %d", n, w.Code, w.Body, want)
		}
	}
}

func TestReadiness(t *testing.T) {
	why := errors.New("reading the journal")
	s := newServer(t, &prototest.House{}, func(o *Options) { o.Ready = func() error { return why } })
	if w := send(s, remote, "GET", "/readyz", "", ""); w.Code != 503 || !strings.Contains(w.Body.String(), "journal") {
		t.Errorf("readyz = %d %s, want 503 and the reason", w.Code, w.Body)
	}
	if w := send(s, remote, "GET", "/healthz", "", ""); w.Code != 200 {
		t.Errorf("healthz = %d, want 200", w.Code)
	}
	why = nil
	if w := send(s, remote, "GET", "/readyz", "", ""); w.Code != 200 || w.Body.String() != "ready\n" {
		t.Errorf("readyz = %d %s, want 200", w.Code, w.Body)
	}
}

func TestMetrics(t *testing.T) {
	s := newServer(t, &prototest.House{}, nil)
	send(s, local, "POST", "/v1/report", requestType, ready)
	send(s, local, "POST", "/v1/check", requestType, ready)
	send(s, local, "POST", "/v1/check", requestType, "x")
	w := send(s, local, "GET", "/metrics", "", "")
	for _, want := range []string{
		`bulkhead_http_requests_total{method="POST",path="/v1/check",status="200"} 1`,
		`bulkhead_http_requests_total{method="POST",path="/v1/check",status="400"} 1`,
		`bulkhead_http_verdicts_total{class="spam"} 1`,
		`bulkhead_http_votes_total{vote="spam"} 1`,
		`bulkhead_array_fill_ratio{array="counts",book="tally",generation="0"} 0.5`,
		`bulkhead_read_only 0`,
		`bulkhead_checks_total 9`,
		`bulkhead_recoveries_total 2`,
	} {
		if !strings.Contains(w.Body.String(), want+"\n") {
			t.Errorf("metrics lack %s:\n%s", want, w.Body)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	if s, err := New(Options{}); s != nil || err == nil {
		t.Errorf("New without a clearinghouse = %v, %v", s, err)
	}
}

// TestSenders: signatures of the sender, from the header, the query or the source of a request, are
// checked and reported with the message.
func TestSenders(t *testing.T) {
	of := func(source bulkhead.Source) []bulkhead.Signature {
		return []bulkhead.Signature{bulkhead.NamedSignature(bulkhead.Sender, fmt.Sprint(source.Sender, source.DKIM))}
	}
	for _, tt := range []struct{ target, kind, body, sender string }{
		{"?dkim=a.example&dkim=b.example", mailType, sample, "shop@example.com[a.example b.example]"},
		{"?sender=c@d.example", mailType, sample, "c@d.example[]"},
		{"", requestType, strings.Replace(ready, "{", `{"source":{"dkim":["e.example"]},`, 1), "[e.example]"},
	} {
		house := &prototest.House{}
		s := newServer(t, house, func(o *Options) { o.Senders = of })
		want := bulkhead.NamedSignature(bulkhead.Sender, tt.sender)
		if w := send(s, local, "POST", "/v1/report"+tt.target, tt.kind, tt.body); w.Code != http.StatusOK ||
			!strings.Contains(w.Body.String(), `"signatures":2`) {
			t.Errorf("%s: report %d %s", tt.sender, w.Code, w.Body)
		}
		v, err := house.Check(t.Context(), bulkhead.Query{Signatures: []bulkhead.Signature{want}})
		if err != nil || v.SpamVotes != 1 {
			t.Errorf("%s: %d votes, %v", tt.sender, v.SpamVotes, err)
		}
		// A request of signatures has an answer for each.
		w := send(s, local, "POST", "/v1/check"+tt.target, tt.kind, tt.body)
		if got := strings.Contains(w.Body.String(), want.String()); w.Code != http.StatusOK || got != (tt.kind == mailType) {
			t.Errorf("%s: check %d %s", tt.sender, w.Code, w.Body)
		}
	}
	// The plugins report the signatures of a check, which knew the author's address. The source, which has only the
	// verified domains, adds none.
	house := &prototest.House{}
	s := newServer(t, house, func(o *Options) { o.Senders = of })
	author := bulkhead.NamedSignature(bulkhead.Sender, "author.example")
	body := fmt.Sprintf(`{"signatures":[%q],"vote":"spam","source":{"dkim":["service.example"]}}`, author)
	if w := send(s, local, "POST", "/v1/report", requestType, body); w.Code != http.StatusOK ||
		!strings.Contains(w.Body.String(), `"signatures":1`) {
		t.Errorf("report of a known sender: %d %s", w.Code, w.Body)
	}
	s = newServer(t, &prototest.House{}, func(o *Options) { o.Senders = of })
	if w := send(s, local, "POST", "/v1/signatures", mailType, sample); !strings.Contains(w.Body.String(),
		bulkhead.NamedSignature(bulkhead.Sender, "shop@example.com[]").String()) {
		t.Errorf("signatures %s", w.Body)
	}
}

// TestReadEnds: the signatures of a message are computed under a deadline and end with the request,
// whose client is asked to try again.
func TestReadEnds(t *testing.T) {
	s := newServer(t, &prototest.House{}, func(o *Options) {
		o.Read = func(ctx context.Context, _ []byte, _ []string) ([]bulkhead.Signature, bulkhead.Source, error) {
			if end, ok := ctx.Deadline(); !ok || time.Until(end) > readTimeout {
				t.Errorf("a message is read with a deadline of %v, %t", end, ok)
			}
			return nil, bulkhead.Source{}, fmt.Errorf("signature: %w", context.DeadlineExceeded)
		}
	})
	for _, target := range []string{"/v1/check", "/v1/report", "/v1/revoke"} {
		if w := send(s, local, "POST", target, "message/rfc822",
			"Subject: x\n\ntext"); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
			t.Errorf("%s: %d, retry after %q; want 503 and a time", target, w.Code, w.Header().Get("Retry-After"))
		}
	}
}
