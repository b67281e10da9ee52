package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client"
	"github.com/bulkhead-mail/bulkhead/internal/testing/prototest"
)

// votedHouse returns a house that knows some of the signatures that randomCheck picks.
func votedHouse(t testing.TB) *prototest.House {
	house := &prototest.House{White: map[bulkhead.Signature]bool{sign(t, "dcc/body:07"): true}}
	for i := range 8 {
		r := bulkhead.Report{Vote: bulkhead.Vote(i % 3), Count: uint32(10 * i),
			Reporter:   bulkhead.Reporter{Account: fmt.Sprint(i)},
			Signatures: []bulkhead.Signature{sign(t, fmt.Sprintf("dcc/body:%02x", i))}}
		if _, err := house.Report(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	return house
}

func randomCheck(t testing.TB, rng *rand.Rand) client.Check {
	c := client.Check{Terse: rng.IntN(2) == 0, Threshold: uint32(rng.IntN(30))}
	for range 1 + rng.IntN(4) {
		c.Signatures = append(c.Signatures, sign(t, fmt.Sprintf("dcc/body:%02x", rng.IntN(12))))
	}
	if rng.IntN(2) == 0 {
		c.Source = &client.Source{Sender: "ann@sender.example", DKIM: []string{"a.example", "b.example"}}
	}
	return c
}

func encode(t testing.TB, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestBatchAnswersAsSingleChecks compares a batch with one request for each of its messages. A brief
// check has the same verdict without reasons and findings.
func TestBatchAnswersAsSingleChecks(t *testing.T) {
	s := newServer(t, votedHouse(t), nil)
	rng := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		var batch []client.Check
		var want []client.BatchVerdict
		for range 1 + rng.IntN(20) {
			c := randomCheck(t, rng)
			var v client.Verdict
			if w := send(s, local, "POST", "/v1/check", requestType, encode(t, c)); w.Code != 200 ||
				json.Unmarshal(w.Body.Bytes(), &v) != nil || len(v.Findings) != len(c.Signatures) {
				t.Fatalf("%+v: %d %s", c, w.Code, w.Body)
			}
			if rng.IntN(2) == 0 {
				c.Brief = true
				v.Reasons, v.Findings = []string{}, []client.Finding{}
			}
			batch, want = append(batch, c), append(want, client.BatchVerdict{Verdict: &v})
		}
		var got []client.BatchVerdict
		if w := send(s, local, "POST", "/v1/check", requestType, encode(t, batch)); w.Code != 200 ||
			json.Unmarshal(w.Body.Bytes(), &got) != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%s\n= %d %s, want\n%s", encode(t, batch), w.Code, w.Body, encode(t, want))
		}
	}
}

// TestBatchIsBounded: a batch holds at most client.MaxBatchSignatures signatures, however they are
// divided, and nothing is asked about a batch that is refused.
func TestBatchIsBounded(t *testing.T) {
	asked := 0
	s := newServer(t, counting{&asked}, func(o *Options) { o.Access.MaxBatch = 1 << 20 })
	message := func(n int) string {
		return `{"brief":true,"signatures":["dcc/body:00"` + strings.Repeat(`,"dcc/body:00"`, n-1) + `]}`
	}
	full := strings.Repeat(message(1024)+",", client.MaxBatchSignatures/1024-1)
	for body, want := range map[string]int{
		"[" + full + message(1024) + "]":                    200,
		"[" + full + message(1024) + "," + message(1) + "]": 400,
		"[" + full + message(1023) + "," + message(2) + "]": 400,
	} {
		asked = 0
		w := send(s, local, "POST", "/v1/check", requestType, body)
		if w.Code != want || (asked == 0) != (want == 400) {
			t.Errorf("%d bytes: %d %.80s after %d questions, want %d", len(body), w.Code, w.Body, asked, want)
		}
	}
}

// A counting house counts the checks.
type counting struct{ checks *int }

func (h counting) Check(_ context.Context, q bulkhead.Query) (bulkhead.Verdict, error) {
	*h.checks++
	return bulkhead.Verdict{Findings: make([]bulkhead.Finding, len(q.Signatures))}, nil
}

func (counting) Report(context.Context, bulkhead.Report) (bulkhead.Receipt, error) {
	return bulkhead.Receipt{}, errors.New("no report was sent")
}

// FuzzCheckBody compares the decoding of checks with the decoding by the schema: it takes what the
// schema takes, with the same meaning, and what it takes is right by the schema when encoded anew.
func FuzzCheckBody(f *testing.F) {
	for _, body := range []string{ready, `{"signatures":[]}`, `{"signatures":null}`, `{"signatures":["dcc/body:00",null]}`,
		`{"signatures":["dcc/body:00"],"threshold":3,` +
			`"source":{"sender":"a@b.example","client":"192.0.2.1","dkim":["b.example"]}}`,
		`{"signatures":["dcc/body:00"],"source":null,"threshold":null,"terse":null,"brief":true}`,
		`{"signatures":["dcc/body:00"],"source":{"sender":1}}`, `{"signatures":["dcc/body:00"],"source":{"no such":1}}`,
		`{"signatures":["dcc/body:00"],"source":"x"}`, `{"Signatures":["dcc/body:00"],"SOURCE":{"dkim":[null]}}`,
		`{"signatures":["dcc/body:00"],"source":{"sender":"` + strings.Repeat("s", maxName+1) + `"}}`,
		`{"signatures":["dcc/body:00"],"threshold":-1}`, `{"signatures":["dcc/body:00"],"threshold":1.0}`,
		`{"signatures":["dcc/body:00"],"no such":1}`, `null`,
		`{"signatures":["dcc/body:00"],"source":{},"source":{"from":"f"}}`,
	} {
		f.Add([]byte(body))
	}
	s := newServer(f, &prototest.House{}, nil)
	r := &request{Request: httptest.NewRequest("POST", "/v1/check", nil), set: s.settings.Load(),
		schemas: s.openAPI.Components.Schemas}
	bySchema := func(body []byte) (c client.Check, err error) {
		if bytes.HasPrefix(bytes.TrimSpace(body), []byte("[")) {
			return c, errors.New("a batch")
		}
		items, _, err := decode[client.Check](r, body, 1)
		if err == nil {
			c, err = items[0], r.signatures(items[0].Signatures)
		}
		return c, err
	}
	fast := func(body []byte) (c client.Check, err error) {
		if bytes.HasPrefix(bytes.TrimSpace(body), []byte("[")) {
			return c, errors.New("a batch")
		}
		items, _, err := parse[checkBody](body, 1)
		if err != nil {
			return c, err
		}
		in := items[0]
		source, err := r.source(in.Source)
		if err == nil {
			err = r.signatures(in.Signatures)
		}
		c = client.Check{Signatures: in.Signatures, Threshold: in.Threshold, Terse: in.Terse, Brief: in.Brief}
		if sent := client.NewSource(&source); !reflect.DeepEqual(sent, client.Source{}) {
			c.Source = &sent
		}
		return c, err
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		want, err := bySchema(body)
		got, err2 := fast(body)
		if err == nil && err2 != nil {
			t.Fatalf("%q: %v, but the schema has it", body, err2)
		}
		if err2 != nil {
			return
		}
		if err != nil { // a repeated field, of which the schema sees the last value alone
			if want, err = bySchema([]byte(encode(t, got))); err != nil {
				t.Fatalf("%q: taken as %+v, which the schema refuses: %v", body, got, err)
			}
		}
		if want.Source != nil && reflect.DeepEqual(*want.Source, client.Source{}) {
			want.Source = nil
		}
		if encode(t, got) != encode(t, want) {
			t.Errorf("%q: %+v, by the schema %+v", body, got, want)
		}
	})
}

// FuzzReportBody compares the decoding of reports with the decoding by the schema: what the schema takes has the same
// meaning, and what is taken is right by the schema when encoded anew.
func FuzzReportBody(f *testing.F) {
	const one = `{"signatures":["dcc/body:00"]`
	for _, fields := range []string{"", `,"vote":"ham","user":"ann"`, `,"vote":null,"user":null`, `,"vote":""`,
		`,"vote":"no such"`,
		`,"count":-1`, `,"count":7,"vote":"sighting","recipients":["Ann@a.example"],"id":"x"`, `,"trap":true`,
		`,"trap":true,"vote":"ham"`, `,"recipients":["a"]`, `,"no such":1`, `,"source":{"no such":1}`, `,"source":null`,
		`,"source":{"client":"192.0.2.1","dkim":["b.example"]},"reporter":"192.0.2.7"`, `,"reporter":"x"`,
		`,"user":"` + strings.Repeat("ü", maxUser) + `"`, `,"user":"` + strings.Repeat("u", maxUser+1) + `"`,
		`,"id":"` + strings.Repeat("i", bulkhead.MaxID+1) + `"`, `,"SOURCE":{"from":"f"},"Vote":"spam"`,
		`,"vote":"sighting","recipients":["` + strings.Repeat("r", maxName+1) + `"]`} {
		f.Add([]byte(one + fields + "}"))
	}
	s := newServer(f, &prototest.House{}, nil)
	r := &request{Request: httptest.NewRequest("POST", "/v1/report", nil), set: s.settings.Load(), local: true,
		schemas: s.openAPI.Components.Schemas}
	bySchema := func(body []byte) (c client.Report, err error) {
		items, batch, err := decode[client.Report](r, body, 1)
		if err == nil && batch {
			err = errors.New("a batch")
		}
		if err == nil {
			c = items[0]
		}
		return c, err
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		items, batch, err := parse[reportBody](body, 1)
		if err != nil || batch {
			if _, err2 := bySchema(body); err2 == nil {
				t.Fatalf("%q: %v, but the schema has it", body, err)
			}
			return
		}
		got, err := s.readyReport(r, &items[0])
		if err == nil {
			err = checkID(got.ID)
		}
		if err != nil {
			return
		}
		c := items[0].Report
		source := client.NewSource(&got.Source)
		c.Source = &source
		again, err := bySchema([]byte(encode(t, c)))
		if err != nil {
			t.Fatalf("%q: taken as %+v, which the schema refuses: %v", body, c, err)
		}
		if encode(t, again) != encode(t, c) {
			t.Errorf("%q: %+v, by the schema %+v", body, c, again)
		}
		if want, err := bySchema(body); err == nil && !reflect.DeepEqual(want.Source.Bulkhead(), got.Source) {
			t.Errorf("%q: source %+v, by the schema %+v", body, got.Source, want.Source)
		}
	})
}
