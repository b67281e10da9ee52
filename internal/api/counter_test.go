package api

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"net/netip"
	"reflect"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client"
	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/testing/prototest"
)

// recorder is a Counter that records its calls and returns preset answers.
type recorder struct {
	query   bulkhead.Query
	report  bulkhead.Report
	aspect  bulkhead.Aspect
	sigs    []bulkhead.Signature
	n       []uint32
	verdict bulkhead.Verdict
	receipt bulkhead.Receipt
	looks   []bulkhead.Look
	err     error
}

func (r *recorder) Check(_ context.Context, q bulkhead.Query) (bulkhead.Verdict, error) {
	r.query = q
	return r.verdict, r.err
}

func (r *recorder) Report(_ context.Context, in bulkhead.Report) (bulkhead.Receipt, error) {
	r.report = in
	return r.receipt, r.err
}

func (r *recorder) Look(_ context.Context, sigs []bulkhead.Signature, out []bulkhead.Look, what bulkhead.Aspect) error {
	r.sigs, r.aspect = append(r.sigs, sigs...), what
	for i := range out {
		out[i] = r.looks[i%len(r.looks)]
	}
	return r.err
}

func (r *recorder) Count(_ context.Context, sigs []bulkhead.Signature, n []uint32) error {
	r.sigs, r.n = append(r.sigs, sigs...), append(r.n, n...)
	return r.err
}

func dial(t testing.TB, house bulkhead.Clearinghouse, token string) *admin.Client {
	t.Helper()
	srv := httptest.NewServer(newServer(t, house, nil))
	t.Cleanup(srv.Close)
	return &admin.Client{Client: client.Client{Server: srv.URL, HTTP: srv.Client(), Token: token}}
}

// TestEverythingTravels: every request that a door can make to a clearinghouse, and every answer,
// passes through the interface.
func TestEverythingTravels(t *testing.T) {
	sigs := []bulkhead.Signature{sign(t, "dcc/body:00"), sign(t, "pyzor/digest:01")}
	source := bulkhead.Source{
		Sender: "a@example.com", Client: netip.MustParseAddr("192.0.2.1"), ListID: "l.example.com",
		DKIM:          []string{"d.example.com"},
		ClaimedSender: "b@example.com", ClaimedListID: "m.example.com",
	}
	first := time.Unix(86400, 0).UTC()
	house := &recorder{
		verdict: bulkhead.Verdict{
			Judged: bulkhead.JudgedSpam, Confidence: 77, Bulk: true, Threshold: 9, Sightings: 3, SpamVotes: 4, HamVotes: 5,
			First:       first,
			Whitelisted: "x", Reasons: []string{"why"}, Error: 0.25,
			Findings: []bulkhead.Finding{
				{Signature: sigs[0], Sightings: 1, Spam: 2, Ham: 3, Judged: bulkhead.Revoked, Contested: true, Confidence: 4,
					Bulk: true, First: first, Last: first.Add(time.Hour), Error: 0.5},
				{Signature: sigs[1]},
			},
		},
		receipt: bulkhead.Receipt{Counted: 1, Duplicate: 2, Pending: 3, Listed: 4, Revoked: 5, Whitelisted: 6},
		looks: []bulkhead.Look{{Sightings: 1, Spam: 2, Judged: bulkhead.JudgedSpam, Confidence: 77, First: 3, Error: 0.5},
			{}, {Judged: bulkhead.Revoked}},
	}
	c := dial(t, house, "token-alice")
	for _, terse := range []bool{false, true} {
		q := bulkhead.Query{Signatures: sigs, Source: source, Threshold: 9, Terse: terse}
		v, err := c.Check(t.Context(), q)
		if err != nil || !reflect.DeepEqual(v, house.verdict) {
			t.Errorf("verdict %+v, %v; want %+v", v, err, house.verdict)
		}
		q.Reporter = bulkhead.Reporter{Account: "alice", Addr: netip.MustParseAddr("127.0.0.1")}
		if !reflect.DeepEqual(house.query, q) {
			t.Errorf("query %+v, want %+v", house.query, q)
		}
	}
	for vote := range bulkhead.NumVotes {
		r := bulkhead.Report{Signatures: sigs, Vote: vote, Count: 8, Source: source, ID: "id",
			Reporter: bulkhead.Reporter{Addr: netip.MustParseAddr("203.0.113.5")}}
		got, err := c.Report(t.Context(), r)
		if err != nil || got != house.receipt || !reflect.DeepEqual(house.report, r) {
			t.Errorf("receipt %+v, %v of %+v; want %+v", got, err, house.report, r)
		}
	}
	looks := make([]bulkhead.Look, client.MaxLooks+2)
	many := make([]bulkhead.Signature, len(looks))
	for i := range many {
		many[i] = sign(t, fmt.Sprintf("dcc/body:%08x", i))
	}
	if err := c.Look(t.Context(), many, looks, bulkhead.Counts|bulkhead.Judgements|bulkhead.Aside); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(house.sigs, many) || house.aspect != bulkhead.Counts|bulkhead.Judgements|bulkhead.Aside {
		t.Errorf("%d signatures looked at, aspects %b; want those %d asked for, and all aspects", len(house.sigs),
			house.aspect, len(many))
	}
	for i := range looks {
		if want := house.looks[i%client.MaxLooks%3]; looks[i] != want {
			t.Fatalf("look %d is %+v, want %+v", i, looks[i], want)
		}
	}
	house.sigs = nil
	if err := c.Count(t.Context(), sigs, []uint32{1, bulkhead.Many}); err != nil || !reflect.DeepEqual(house.sigs, sigs) ||
		!reflect.DeepEqual(house.n, []uint32{1, bulkhead.Many}) {
		t.Errorf("counted %v %v, %v", house.sigs, house.n, err)
	}
}

// TestWhoSpeaksForOthers: only those may count, or report for a stranger, who could do as much in
// their own name; and a named reporter does not become local or an account.
func TestWhoSpeaksForOthers(t *testing.T) {
	const named = `{"signatures":["dcc/body:00"],"reporter":%q}`
	const counts = `{"signatures":["dcc/body:00"],"counts":[7]}`
	tests := []struct {
		from, token, reporter string
		report, count         int
	}{
		{local, "", "203.0.113.5", 200, 204},
		{local, "", "::ffff:203.0.113.5", 200, 204},
		{local, "", "127.0.0.1", 400, 204},
		{local, "", "::ffff:127.0.0.1", 400, 204},
		{local, "", "0.0.0.0", 400, 204},
		{local, "", "::", 400, 204},
		{remote, "", "203.0.113.5", 401, 401},
		{remote, "token-bob", "203.0.113.5", 403, 403},
		{local, "token-bob", "203.0.113.5", 403, 403},
		{remote, "token-carol", "203.0.113.5", 200, 204},
		{remote, "token-alice", "203.0.113.5", 200, 204},
		{remote, "token-alice", "::1", 400, 204},
	}
	for _, tt := range tests {
		house, users := &prototest.House{}, newFakeUsers()
		users.users["carol"], users.tokens["token-carol"] = &admin.User{Name: "carol", Role: "trusted"}, "carol"
		s := newServer(t, house, func(o *Options) { o.Accounts, o.Users, o.Access.AnonymousReport = users, users, Loopback })
		var header []string
		if tt.token != "" {
			header = []string{"Authorization", "Bearer " + tt.token}
		}
		w := send(s, tt.from, "POST", "/v1/report", requestType, fmt.Sprintf(named, tt.reporter), header...)
		if w.Code != tt.report {
			t.Errorf("%s %q reports for %s: %d %s, want %d", tt.from, tt.token, tt.reporter, w.Code, w.Body, tt.report)
		}
		if got := house.Reports(); w.Code == 200 &&
			got[0].Reporter != (bulkhead.Reporter{Addr: netip.MustParseAddr("203.0.113.5")}) {
			t.Errorf("the reporter is %+v", got[0].Reporter)
		}
		if w := send(s, tt.from, "POST", "/v1/count", requestType, counts, header...); w.Code != tt.count {
			t.Errorf("%s %q counts: %d %s, want %d", tt.from, tt.token, w.Code, w.Body, tt.count)
		}
	}
}

func TestCounterRefusals(t *testing.T) {
	house := &recorder{looks: []bulkhead.Look{{}}}
	s := newServer(t, house, nil)
	for _, tt := range []struct{ path, body string }{
		{"/v1/look", `{"signatures":[null]}`},
		{"/v1/look", `[]`},
		{"/v1/count", `{"signatures":["dcc/body:00"],"counts":[]}`},
		{"/v1/count", `{"signatures":["dcc/body:00"],"counts":[0]}`},
		{"/v1/count", `{"signatures":["dcc/body:00"],"counts":[1,2]}`},
		{"/v1/count", `{"signatures":["dcc/body:00"],"counts":[-1]}`},
		{"/v1/count", `{"signatures":["dcc/body:00"],"counts":[16777216]}`},
		{"/v1/count", `{"signatures":["dcc/body:00"],"counts":[4294967295]}`},
		{"/v1/count", `{"signatures":[null],"counts":[1]}`},
	} {
		if w := send(s, local, "POST", tt.path, requestType, tt.body); w.Code != 400 {
			t.Errorf("%s %s: %d %s, want 400", tt.path, tt.body, w.Code, w.Body)
		}
	}
	if house.sigs != nil {
		t.Errorf("refused requests reached the house: %v", house.sigs)
	}
	if w := send(s, local, "POST", "/v1/count", requestType,
		`{"signatures":["dcc/body:00"],"counts":[16777215]}`); w.Code != 204 || house.n[0] != bulkhead.Many {
		t.Errorf("a count of Many: %d, counted %v; want Many", w.Code, house.n)
	}
	c := dial(t, house, "")
	err := c.Count(t.Context(), make([]bulkhead.Signature, client.MaxCounts+1), make([]uint32, client.MaxCounts+1))
	if !errors.Is(err, bulkhead.ErrOverLimit) {
		t.Errorf("too many to count: %v, want ErrOverLimit", err)
	}
	if _, err := c.Report(t.Context(), bulkhead.Report{Signatures: []bulkhead.Signature{sign(t, "dcc/body:00")},
		ID: "\xff"}); !errors.Is(err, bulkhead.ErrMalformed) {
		t.Errorf("an id that is not UTF-8: %v, want ErrMalformed", err)
	}
	house.verdict = bulkhead.Verdict{Findings: []bulkhead.Finding{{Signature: sign(t, "dcc/body:02")}}}
	if v, err := c.Check(t.Context(),
		bulkhead.Query{Signatures: []bulkhead.Signature{sign(t, "dcc/body:01")}}); err == nil {
		t.Errorf("a verdict on another signature is taken: %+v", v)
	}
}
