package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
)

// A node answers every request with the next of its answers, the last one again and
// again, and keeps the requests.
type node struct {
	asked   []string // method, path, headers that matter, body
	answers []string
	status  int    // 0: 200
	media   string // of the answers
}

func (n *node) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(err)
	}
	line := r.Method + " " + r.URL.RequestURI()
	for _, h := range []string{"Content-Type", "Authorization", "Idempotency-Key"} {
		if v, ok := r.Header[h]; ok {
			line += " [" + v[0] + "]"
		}
	}
	n.asked = append(n.asked, strings.TrimSpace(line+" "+string(body)))
	w.Header().Set("Content-Type", n.media)
	if n.status != 0 {
		w.WriteHeader(n.status)
	}
	if len(n.answers) > 0 {
		fmt.Fprint(w, n.answers[0])
		n.answers = n.answers[min(1, len(n.answers)-1):]
	}
}

// start runs n and returns a client of it.
func (n *node) start(t *testing.T) *Client {
	t.Helper()
	s := httptest.NewServer(n)
	t.Cleanup(s.Close)
	return &Client{Server: s.URL + "/", Token: "secret"}
}

func signatures(n int) []bulkhead.Signature {
	out := make([]bulkhead.Signature, n)
	for i := range out {
		sum := make([]byte, 20)
		sum[0], sum[1], sum[2] = byte(i>>16), byte(i>>8), byte(i)
		out[i] = bulkhead.MustSignature(bulkhead.PyzorDigest, sum)
	}
	return out
}

// TestRequests: each call sends the request that the node's API document describes.
func TestRequests(t *testing.T) {
	ctx := context.Background()
	sig := signatures(1)
	one := sig[0].String()
	from := bulkhead.Source{Sender: "a@example.com", Client: netip.MustParseAddr("192.0.2.1"), ListID: "l.example.com",
		DKIM: []string{"d.example", "e.example"}}
	const auth = " [Bearer secret]"
	const mail = " [message/rfc822]" + auth
	const jsons = " [application/json]" + auth
	for _, tt := range []struct {
		want string
		call func(c *Client) error
	}{
		{"POST /v1/check" + mail + " raw", func(c *Client) error {
			_, err := c.CheckMessage(ctx, []byte("raw"), MessageOptions{})
			return err
		}},
		{"POST /v1/check?client=192.0.2.1&dkim=d.example&dkim=e.example&list_id=l.example.com&" +
			"sender=a%40example.com&threshold=7" + mail + " raw", func(c *Client) error {
			_, err := c.CheckMessage(ctx, []byte("raw"), MessageOptions{Source: from, Threshold: 7, Count: 9})
			return err
		}},
		{"POST /v1/report?vote=spam" + mail + " raw", func(c *Client) error {
			_, err := c.ReportMessage(ctx, []byte("raw"),
				MessageOptions{Vote: bulkhead.Spam, Recipients: []string{"not@of.a.vote"}})
			return err
		}},
		{"POST /v1/report?count=3&rcpt=a&rcpt=b&user=ann&vote=sighting [message/rfc822] [Bearer secret] [key] raw",
			func(c *Client) error {
				_, err := c.ReportMessage(ctx, []byte("raw"), MessageOptions{Vote: bulkhead.Sighting, Count: 3,
					Recipients: []string{"a", "b"}, User: "ann", ID: "key"})
				return err
			}},
		{"POST /v1/signatures" + mail + " raw", func(c *Client) error {
			_, err := c.MessageSignatures(ctx, []byte("raw"))
			return err
		}},
		{"GET /v1/node?a=b" + auth, func(c *Client) error {
			return c.Do(ctx, "GET", "/v1/node", url.Values{"a": {"b"}}, nil, new(any))
		}},
		{"POST /v1/reports" + jsons + ` {"message_id":"a@b","vote":"ham"}`, func(c *Client) error {
			_, err := c.ReportMessageID(ctx, MessageVote{MessageID: "a@b", Vote: "ham"})
			return err
		}},
		{"POST /v1/report" + jsons + ` {"signatures":["` + one +
			`"],"vote":"spam","trap":true,"reporter":"192.0.2.9","user":"ann","id":"x"}`, func(c *Client) error {
			_, err := c.Report(ctx, bulkhead.Report{Signatures: sig, Vote: bulkhead.Spam, Trap: true, Recipients: []string{"a"},
				ID:       "x",
				Reporter: bulkhead.Reporter{Account: "left out", Addr: netip.MustParseAddr("::ffff:192.0.2.9"), User: "ann"}})
			return err
		}},
		{"POST /v1/report" + jsons + ` {"signatures":["` + one + `"],"vote":"sighting","count":2,"recipients":["a"]}`,
			func(c *Client) error {
				_, err := c.Report(ctx, bulkhead.Report{Signatures: sig, Vote: bulkhead.Sighting, Trap: true,
					Count: 2, Recipients: []string{"a"},
					Reporter: bulkhead.Reporter{Addr: netip.MustParseAddr("127.0.0.1")}})
				return err
			}},
		{"POST /v1/count" + jsons + ` {"signatures":["` + one + `"],"counts":[5]}`, func(c *Client) error {
			return c.Count(ctx, sig, []uint32{5})
		}},
	} {
		n := &node{answers: []string{"null"}}
		if strings.Contains(tt.want, "/v1/report [") {
			n.answers = []string{`{"signatures":1,"counted":1}`}
		}
		if err := tt.call(n.start(t)); err != nil || len(n.asked) != 1 || n.asked[0] != tt.want {
			t.Errorf("sent %q, %v; want %q", n.asked, err, tt.want)
		}
		for status, want := range map[int]error{403: bulkhead.ErrForbidden, 500: nil} {
			n := &node{status: status, media: "application/problem+json",
				answers: []string{fmt.Sprintf(`{"title":"No","status":%d}`, status)}}
			var p *Problem
			if err := tt.call(n.start(t)); !errors.As(err, &p) || p.Status != status || want != nil && !errors.Is(err, want) {
				t.Errorf("%s: refused with %d: %v", tt.want, status, err)
			}
		}
	}
}

// TestAnonymous: without a token and with a client of the caller's.
func TestAnonymous(t *testing.T) {
	n := &node{answers: []string{"null"}}
	c := n.start(t)
	c.Token, c.HTTP = "", &http.Client{Transport: http.DefaultTransport}
	_, err := c.MessageSignatures(context.Background(), []byte("raw"))
	if err != nil || n.asked[0] != "POST /v1/signatures [message/rfc822] raw" {
		t.Errorf("%q, %v", n.asked, err)
	}
	c.HTTP = &http.Client{Transport: refusing{}}
	if _, err := c.MessageSignatures(context.Background(), []byte("raw")); !errors.Is(err, errRefused) {
		t.Errorf("the caller's own client is not used: %v", err)
	}
}

var errRefused = errors.New("no connection")

type refusing struct{}

func (refusing) RoundTrip(*http.Request) (*http.Response, error) { return nil, errRefused }

// TestVerdictTravels: a verdict survives the way through JSON unchanged.
func TestVerdictTravels(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	pick := func() bool { return rng.IntN(2) == 0 }
	date := func() (d time.Time) {
		if pick() {
			d = time.Unix(rng.Int64N(1<<31), 0).UTC()
		}
		return d
	}
	judgements := []bulkhead.Judgement{bulkhead.Unjudged, bulkhead.JudgedSpam, bulkhead.Revoked}
	sigs := signatures(5)
	for range 500 {
		v := bulkhead.Verdict{
			Class: bulkhead.Class(rng.IntN(int(bulkhead.NumClasses))), Judged: judgements[rng.IntN(3)],
			Confidence: rng.IntN(101), Bulk: pick(), Threshold: rng.Uint32(),
			Sightings: rng.Uint32(), SpamVotes: rng.Uint32(), HamVotes: rng.Uint32(), First: date(),
			Error: rng.Float64(), Findings: []bulkhead.Finding{},
		}
		if pick() {
			v.Whitelisted, v.Reasons = "sender a@example.com", []string{"one", "two"}
		}
		for i := range rng.IntN(5) {
			v.Findings = append(v.Findings, bulkhead.Finding{
				Signature: sigs[i], Sightings: rng.Uint32(), Spam: rng.Uint32(), Ham: rng.Uint32(), Judged: judgements[rng.IntN(3)],
				Contested:  pick(),
				Confidence: rng.IntN(101), Bulk: pick(), First: date(), Last: date(), Error: rng.Float64(),
			})
		}
		text, err := json.Marshal(NewVerdict(&v))
		if err != nil {
			t.Fatal(err)
		}
		var back Verdict
		if err := json.Unmarshal(text, &back); err != nil || back.Spam != v.Spam() || back.Unwanted != v.Unwanted() ||
			!strings.Contains(string(text), `"reasons":[`) {
			t.Fatalf("%s: %v", text, err)
		}
		if got, err := back.Bulkhead(); err != nil || !reflect.DeepEqual(got, v) {
			t.Fatalf("%+v, %v; want %+v", got, err, v)
		}
		l := bulkhead.Look{Sightings: rng.Uint32N(2), Spam: rng.Uint32N(2), Judged: judgements[rng.IntN(3)],
			Confidence: rng.IntN(101), First: rng.Int64N(2), Error: rng.Float64()}
		travels := NewLook(&l)
		if got, err := travels.Bulkhead(); err != nil || got != l {
			t.Fatalf("%+v, %v; want %+v", got, err, l)
		}
		r := bulkhead.Receipt{Counted: rng.IntN(9), Duplicate: rng.IntN(9), Pending: rng.IntN(9), Listed: rng.IntN(9),
			Revoked: rng.IntN(9), Whitelisted: rng.IntN(9)}
		if got := NewReceipt(r, 7); got.Bulkhead() != r || got.Signatures != 7 {
			t.Fatalf("%+v; want %+v", got, r)
		}
	}
}

// TestClassOfOldNodes: nodes from before classes give the same information in other fields.
func TestClassOfOldNodes(t *testing.T) {
	for _, tt := range []struct {
		v    Verdict
		want bulkhead.Class
	}{
		{Verdict{Whitelisted: "w", Spam: true, Bulk: true}, bulkhead.ClassGood},
		{Verdict{Spam: true, Bulk: true}, bulkhead.ClassSpam},
		{Verdict{Bulk: true}, bulkhead.ClassBulk},
		{Verdict{}, bulkhead.ClassUnknown},
		{Verdict{Class: "suspected", Spam: true}, bulkhead.ClassSuspected},
	} {
		tt.v.Judged = "none"
		if got, err := tt.v.Bulkhead(); err != nil || got.Class != tt.want {
			t.Errorf("%+v: class %v, %v; want %v", tt.v, got.Class, err, tt.want)
		}
	}
	for _, bad := range []Verdict{{}, {Judged: "guilty"}, {Judged: "none", Class: "ham"},
		{Judged: "none", Findings: []Finding{{Judged: "x"}}}} {
		if got, err := bad.Bulkhead(); err == nil {
			t.Errorf("%+v is taken for %+v", bad, got)
		}
	}
	if got, err := (&Look{Judged: "x"}).Bulkhead(); err == nil {
		t.Errorf("a look of an unknown judgement is taken for %+v", got)
	}
}

// TestSourceTwice: if a source is given twice, only the second counts.
func TestSourceTwice(t *testing.T) {
	var in struct{ Source *Source }
	if err := json.Unmarshal([]byte(`{"source":{"sender":"a@example.com"},"Source":{"list_id":"l"}}`), &in); err != nil ||
		!reflect.DeepEqual(*in.Source, Source{ListID: "l"}) {
		t.Errorf("%+v, %v", in.Source, err)
	}
	if err := json.Unmarshal([]byte(`{"source":{"sender":1}}`), &in); err == nil {
		t.Error("a number is taken for a sender")
	}
	if got := (*Source)(nil).Bulkhead(); !reflect.DeepEqual(got, bulkhead.Source{}) {
		t.Errorf("no source: %+v", got)
	}
	fields := []bulkhead.Source{{Sender: "x"}, {Client: netip.MustParseAddr("::1")}, {ListID: "x"}, {DKIM: []string{"x"}},
		{From: "x"}, {ClaimedSender: "x"}, {ClaimedListID: "x"}}
	for _, s := range fields {
		if got := sourceOf(&s); got == nil || !reflect.DeepEqual(got.Bulkhead(), s) {
			t.Errorf("%+v travels as %+v", s, got)
		}
	}
	if got := sourceOf(&bulkhead.Source{}); got != nil {
		t.Errorf("a source of which nothing is known travels as %+v", got)
	}
}

// TestProblem: a refusal as text and as an error of the root package.
func TestProblem(t *testing.T) {
	for status, want := range map[int]error{
		400: bulkhead.ErrMalformed, 401: bulkhead.ErrUnauthorised, 403: bulkhead.ErrForbidden, 404: bulkhead.ErrMalformed,
		412: bulkhead.ErrGeometry,
		413: bulkhead.ErrOverLimit, 422: bulkhead.ErrMalformed, 429: bulkhead.ErrOverLimit, 499: bulkhead.ErrMalformed,
		500: nil, 503: bulkhead.ErrReadOnly, 399: nil,
	} {
		p := &Problem{Title: "Some Title", Status: status}
		if got := p.Unwrap(); got != want {
			t.Errorf("%d is %v, want %v", status, got, want)
		}
		if p.Error() != "some title" {
			t.Errorf("without detail: %q", p.Error())
		}
		p.Detail = "The Detail"
		if p.Error() != "The Detail" {
			t.Errorf("with detail: %q", p.Error())
		}
	}
	for err, want := range map[error]int{
		bulkhead.ErrMalformed: 400, bulkhead.ErrUnauthorised: 401, bulkhead.ErrForbidden: 403, bulkhead.ErrGeometry: 412,
		bulkhead.ErrOverLimit: 429, bulkhead.ErrReadOnly: 503, io.EOF: 0,
	} {
		if got, ok := StatusOf(fmt.Errorf("wrapped: %w", err)); got != want || ok != (want != 0) {
			t.Errorf("%v has status %d, %v; want %d", err, got, ok, want)
		}
	}
}

// TestForeignAnswers: anything except a node's answer to the question is an error, whichever server
// sends it.
func TestForeignAnswers(t *testing.T) {
	ctx := context.Background()
	sigs := signatures(2)
	query := bulkhead.Query{Signatures: sigs}
	finding := func(i int) string { return `{"signature":"` + sigs[i].String() + `","judged":"none"}` }
	verdict := func(findings ...string) string {
		return `{"judged":"none","findings":[` + strings.Join(findings, ",") + `]}`
	}
	check := func(answer string) error {
		_, err := (&node{answers: []string{answer}}).start(t).Check(ctx, query)
		return err
	}
	if err := check(verdict(finding(0), finding(1))); err != nil {
		t.Errorf("the answer to the question: %v", err)
	}
	for _, bad := range []string{"", "null", "<html>", "[]", verdict(finding(0)), verdict(finding(1), finding(0)),
		verdict(finding(0), finding(1), finding(1)), verdict()} {
		if check(bad) == nil {
			t.Errorf("taken for an answer: %q", bad)
		}
	}
	if _, err := (&node{status: 204}).start(t).Check(ctx, query); err == nil {
		t.Error("no content is taken for a verdict")
	}
	if _, err := (&node{status: 204}).start(t).Report(ctx, bulkhead.Report{Signatures: sigs}); err == nil {
		t.Error("no content is taken for a receipt")
	}
	for _, n := range []*node{
		{status: 403, media: "text/html", answers: []string{`{"title":"x","status":403}`}},
		{status: 403, media: "application/problem+json", answers: []string{`{"title":"x","status":200}`}},
		{status: 403, media: "application/problem+json", answers: []string{`<`}},
		{status: 300, media: "text/html", answers: []string{`null`}},
	} {
		var p *Problem
		if _, err := n.start(t).MessageSignatures(ctx, nil); err == nil || errors.As(err, &p) ||
			!strings.Contains(err.Error(), fmt.Sprint(n.status)) {
			t.Errorf("status %d, %s: %v", n.status, n.media, err)
		}
	}
	n := &node{status: 429, media: "application/problem+json; charset=utf-8",
		answers: []string{`{"title":"x","status":429}`}}
	if _, err := n.start(t).MessageSignatures(ctx, nil); !errors.Is(err, bulkhead.ErrOverLimit) {
		t.Errorf("a problem with a charset: %v", err)
	}
	for answer, ok := range map[string]bool{"ready": true, "ready\n": true, "": false,
		"starting": false, "<html>ready</html>": false} {
		n := &node{answers: []string{answer}}
		if err := n.start(t).Ready(ctx); (err == nil) != ok || n.asked[0] != "GET /readyz [Bearer secret]" {
			t.Errorf("ready answers %q: %v, asked %q", answer, err, n.asked)
		}
	}
	if err := (&node{status: 503, answers: []string{"ready"}}).start(t).Ready(ctx); err == nil {
		t.Error("ready with status 503")
	}
}

// TestBatches: each answer goes to its question, problems too.
func TestBatches(t *testing.T) {
	ctx := context.Background()
	sigs := signatures(3)
	var queries []bulkhead.Query
	var reports []bulkhead.Report
	for i := range sigs {
		queries = append(queries, bulkhead.Query{Signatures: sigs[i : i+1], Threshold: uint32(i)})
		reports = append(reports, bulkhead.Report{Signatures: sigs[i : i+1], Vote: bulkhead.Ham})
	}
	verdict := func(i int) string {
		return fmt.Sprintf(`{"verdict":{"judged":"none","sightings":%d,"findings":[{"signature":%q,"judged":"none"}]}}`, i,
			sigs[i].String())
	}
	const problem = `{"problem":{"title":"x","status":429}}`
	n := &node{answers: []string{"[" + verdict(0) + "," + problem + "," + verdict(2) + "]"}}
	got, err := n.start(t).CheckBatch(ctx, queries)
	if err != nil || len(got) != 3 || got[0].Err != nil || !errors.Is(got[1].Err, bulkhead.ErrOverLimit) ||
		got[2].Err != nil || got[2].Verdict.Sightings != 2 {
		t.Errorf("checks: %+v, %v", got, err)
	}
	if want := `[{"signatures":["` + sigs[0].String() + `"]},{"signatures":["` + sigs[1].String() +
		`"],"threshold":1},`; !strings.Contains(n.asked[0], want) {
		t.Errorf("asked %s, want %s", n.asked[0], want)
	}
	const brief = `{"verdict":{"judged":"none","sightings":7,"findings":[]}}`
	n = &node{answers: []string{"[" + brief + "," + problem + "," + verdict(2) + "]"}}
	got, err = n.start(t).CheckBrief(ctx, queries)
	if err != nil || len(got) != 3 || got[0].Err != nil || got[0].Verdict.Sightings != 7 ||
		!errors.Is(got[1].Err, bulkhead.ErrOverLimit) || got[2].Err == nil {
		t.Errorf("brief checks: %+v, %v", got, err)
	}
	if want := `[{"signatures":["` + sigs[0].String() + `"],"brief":true},`; !strings.Contains(n.asked[0], want) {
		t.Errorf("asked %s, want %s", n.asked[0], want)
	}
	n = &node{answers: []string{"[" + verdict(1) + "," + verdict(1) + ",{}]"}}
	if got, err := n.start(t).CheckBatch(ctx, queries); err != nil || got[0].Err == nil ||
		got[1].Err != nil || got[2].Err == nil {
		t.Errorf("answers to other questions: %+v, %v", got, err)
	}
	for _, short := range []string{"[]", "[" + verdict(0) + "," + verdict(1) + "]", "null", "{}"} {
		if got, err := (&node{answers: []string{short}}).start(t).CheckBatch(ctx, queries); err == nil {
			t.Errorf("%s: %+v", short, got)
		}
		if got, err := (&node{answers: []string{short}}).start(t).ReportBatch(ctx, reports); err == nil {
			t.Errorf("%s: %+v", short, got)
		}
	}
	refusing := &node{status: 403, media: "application/problem+json", answers: []string{`{"title":"No","status":403}`}}
	c := refusing.start(t)
	_, err = c.CheckBatch(ctx, queries)
	_, err2 := c.ReportBatch(ctx, reports)
	_, err3 := c.Check(ctx, queries[0])
	err4 := c.Look(ctx, sigs, make([]bulkhead.Look, len(sigs)), bulkhead.Counts)
	for i, err := range []error{err, err2, err3, err4} {
		if !errors.Is(err, bulkhead.ErrForbidden) {
			t.Errorf("refused question %d: %v", i, err)
		}
	}
	n = &node{answers: []string{`[{"receipt":{"counted":4}},` + problem + `,{}]`}}
	done, err := n.start(t).ReportBatch(ctx, reports)
	if err != nil || done[0].Receipt.Counted != 4 || done[0].Err != nil ||
		!errors.Is(done[1].Err, bulkhead.ErrOverLimit) || done[2].Err == nil {
		t.Errorf("reports: %+v, %v", done, err)
	}
	reports[1].Vote = bulkhead.NumVotes
	if got, err := n.start(t).ReportBatch(ctx, reports); !errors.Is(err, bulkhead.ErrMalformed) {
		t.Errorf("a vote that is none: %+v, %v", got, err)
	}
	reports[1] = bulkhead.Report{Signatures: sigs, ID: "\xff"}
	if got, err := n.start(t).Report(ctx, reports[1]); !errors.Is(err, bulkhead.ErrMalformed) {
		t.Errorf("an id that JSON cannot hold: %+v, %v", got, err)
	}
}

// TestRecipientsAreBounded: recipients that the node would refuse are not sent.
func TestRecipientsAreBounded(t *testing.T) {
	for _, n := range []int{0, 1, bulkhead.MaxRecipients, bulkhead.MaxRecipients + 1} {
		all := slices.Repeat([]string{"bob@example.com"}, n)
		r, err := reportOf(&bulkhead.Report{Vote: bulkhead.Sighting, Recipients: all})
		if err != nil || len(r.Recipients) != min(n, bulkhead.MaxRecipients) {
			t.Errorf("%d recipients: %d, %v", n, len(r.Recipients), err)
		}
	}
}

// TestNamesAreBounded: names in a message that the node would refuse for their length are not sent. The node would
// refuse the whole request, and a door that cannot ask lets the message pass.
func TestNamesAreBounded(t *testing.T) {
	const broken = "\xff" // 3 bytes in JSON
	for _, tt := range []struct {
		name string
		sent bool
	}{
		{"a", true}, {strings.Repeat("a", 998), true}, {strings.Repeat("a", 999), false},
		{strings.Repeat("\u00e4", 499), true}, {strings.Repeat("\u00e4", 500), false},
		{strings.Repeat(broken, 332), true}, {strings.Repeat(broken, 333), false},
	} {
		s := bulkhead.Source{Sender: tt.name, ListID: tt.name, DKIM: []string{"example.com"}, From: tt.name,
			ClaimedSender: tt.name, ClaimedListID: tt.name}
		recipients := []string{"bob@example.com", tt.name, "", "ann@example.com"}
		r, err := reportOf(&bulkhead.Report{Vote: bulkhead.Sighting, Source: s, Recipients: recipients})
		if err != nil {
			t.Fatal(err)
		}
		q := checkOf(&bulkhead.Query{Source: s, Mailbox: tt.name})
		want, to := Source{DKIM: s.DKIM}, []string{"bob@example.com", "ann@example.com"}
		if tt.sent {
			want, to = NewSource(&s), []string{"bob@example.com", tt.name, "ann@example.com"}
		}
		if !reflect.DeepEqual(*q.Source, want) || !reflect.DeepEqual(*r.Source, want) ||
			(q.Mailbox == tt.name) != tt.sent || !slices.Equal(r.Recipients, to) || recipients[1] != tt.name {
			t.Errorf("%.10q of %d bytes: From %.10q, mailbox %.10q, recipients %.10q; sent %v, want %v", tt.name,
				len(tt.name), q.Source.From, q.Mailbox, r.Recipients, !tt.sent, tt.sent)
		}
	}
	signed := bulkhead.Source{DKIM: slices.Repeat([]string{"example.com"}, 1025)}
	if n := len(checkOf(&bulkhead.Query{Source: signed}).Source.DKIM); n != 1024 {
		t.Errorf("%d of 1025 domains are sent, want 1024", n)
	}
	fields := reflect.TypeFor[Source]()
	for i := range fields.NumField() {
		if limit := fields.Field(i).Tag.Get("maxLength"); limit != "" && limit != fmt.Sprint(maxName) {
			t.Errorf("%s has up to %s characters, want %d", fields.Field(i).Name, limit, maxName)
		}
	}
}

// TestLooks: many signatures go in several requests, and come back in their order.
func TestLooks(t *testing.T) {
	ctx := context.Background()
	const n = MaxLooks + 3
	looks := func(from, to int) string {
		var out []string
		for i := from; i < to; i++ {
			out = append(out, fmt.Sprintf(`{"sightings":%d}`, i))
		}
		return `{"looks":[` + strings.Join(out, ",") + `]}`
	}
	node1 := &node{answers: []string{looks(0, MaxLooks), looks(MaxLooks, n)}}
	out := make([]bulkhead.Look, n+1)
	if err := node1.start(t).Look(ctx, signatures(n), out, bulkhead.Counts|bulkhead.Aside); err != nil ||
		len(node1.asked) != 2 {
		t.Fatalf("%d requests, %v", len(node1.asked), err)
	}
	for i := range n {
		if out[i].Sightings != uint32(i) {
			t.Fatalf("look %d is of %d", i, out[i].Sightings)
		}
	}
	for i, want := range []int{MaxLooks, n - MaxLooks} {
		if got := strings.Count(node1.asked[i], bulkhead.PyzorDigest.String()); got != want {
			t.Errorf("request %d has %d signatures, want %d", i, got, want)
		}
	}
	for what, want := range map[bulkhead.Aspect]string{
		bulkhead.Counts: `],"counts":true}`, bulkhead.Judgements: `],"judgements":true}`,
		bulkhead.Counts | bulkhead.Judgements: `],"counts":true,"judgements":true}`,
		bulkhead.Aside | bulkhead.Counts:      `],"counts":true,"aside":true}`,
	} {
		n := &node{answers: []string{looks(0, 1)}}
		if err := n.start(t).Look(ctx, signatures(1), out, what); err != nil || !strings.HasSuffix(n.asked[0], want) {
			t.Errorf("%v: %q, %v", what, n.asked, err)
		}
	}
	for _, bad := range []string{"null", looks(0, 1), looks(0, 3), `{"looks":[{},{"judged":"x"}]}`, "<"} {
		if err := (&node{answers: []string{bad}}).start(t).Look(ctx, signatures(2), out, bulkhead.Counts); err == nil {
			t.Errorf("%s is taken for two looks", bad)
		}
	}
	none := &node{}
	if err := none.start(t).Look(ctx, nil, nil, bulkhead.Counts); err != nil || len(none.asked) != 0 {
		t.Errorf("no signatures: %q, %v", none.asked, err)
	}
}

// TestCountRefuses: counts that the node would refuse are not sent.
func TestCountRefuses(t *testing.T) {
	n := &node{answers: []string{"null"}}
	c := n.start(t)
	ones := func(n int) []uint32 {
		out := make([]uint32, n)
		for i := range out {
			out[i] = 1
		}
		return out
	}
	for _, tt := range []struct {
		sigs int
		n    []uint32
		want error
	}{
		{0, nil, nil}, {1, nil, bulkhead.ErrMalformed}, {1, []uint32{0}, bulkhead.ErrMalformed},
		{MaxCounts + 1, ones(MaxCounts + 1), bulkhead.ErrOverLimit},
	} {
		if err := c.Count(context.Background(), signatures(tt.sigs), tt.n); !errors.Is(err, tt.want) || len(n.asked) != 0 {
			t.Errorf("%d signatures: %v, %d requests; want %v", tt.sigs, err, len(n.asked), tt.want)
		}
	}
	if err := c.Count(context.Background(), signatures(MaxCounts), ones(MaxCounts)); err != nil || len(n.asked) != 1 {
		t.Errorf("as many as may be: %v, %d requests", err, len(n.asked))
	}
}

// TestNoServer: an invalid base URL is an error of every call, and not a
// panic.
func TestNoServer(t *testing.T) {
	for _, server := range []string{"http://a b/", "::", "http://[::1", ""} {
		c := &Client{Server: server}
		if _, err := c.MessageSignatures(context.Background(), []byte("raw")); err == nil {
			t.Errorf("server %q: no error", server)
		}
	}
}

// TestClosedConnection has a node close each connection at its second request, as if its idle_timeout ended just then.
// Checks and looks are sent again over a new connection, and so is a report with an ID. A report without an ID may have
// been counted, and is not.
func TestClosedConnection(t *testing.T) {
	ctx, sigs := t.Context(), signatures(1)
	verdict, err := json.Marshal(NewVerdict(&bulkhead.Verdict{Findings: []bulkhead.Finding{{Signature: sigs[0]}}}))
	if err != nil {
		t.Fatal(err)
	}
	requests := make(map[string]int) // by connection
	var mu sync.Mutex
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if requests[r.RemoteAddr]++; requests[r.RemoteAddr] > 1 {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, map[string]string{"/v1/check": string(verdict), "/v1/look": `{"looks":[{}]}`, "/v1/signatures": "{}",
			"/v1/report": "{}"}[r.URL.Path])
	}))
	defer s.Close()
	c := &Client{Server: s.URL, HTTP: s.Client()}
	report := func(id string) error {
		_, err := c.ReportMessage(ctx, []byte("x"), MessageOptions{Vote: bulkhead.Spam, ID: id})
		return err
	}
	for _, tt := range []struct {
		what  string
		again bool
		ask   func() error
	}{
		{"a check", true, func() error { _, err := c.Check(ctx, bulkhead.Query{Signatures: sigs}); return err }},
		{"a check of a message", true, func() error {
			_, err := c.CheckMessage(ctx, []byte("x"), MessageOptions{})
			return err
		}},
		{"a look", true, func() error { return c.Look(ctx, sigs, make([]bulkhead.Look, 1), bulkhead.Counts) }},
		{"signatures", true, func() error { _, err := c.MessageSignatures(ctx, []byte("x")); return err }},
		{"a report with an ID", true, func() error { return report("id") }},
		{"a report", false, func() error { return report("") }},
	} {
		s.Client().CloseIdleConnections()
		if err := tt.ask(); err != nil {
			t.Fatalf("%s over a new connection: %v", tt.what, err)
		}
		if err := tt.ask(); (err == nil) != tt.again {
			t.Errorf("%s over a connection that the node closes: %v", tt.what, err)
		}
	}
}
