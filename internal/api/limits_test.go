package api

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client"
	"github.com/bulkhead-mail/bulkhead/internal/testing/prototest"
)

// walker makes requests from the document: valid ones, and for every stated limit a request that
// breaks only this limit.
type walker struct{ schemas huma.Registry }

func (k walker) resolve(s *huma.Schema) *huma.Schema {
	for s.Ref != "" {
		s = k.schemas.SchemaFromRef(s.Ref)
	}
	return s
}

// good returns a value that s allows.
func (k walker) good(name string, s *huma.Schema) any {
	s = k.resolve(s)
	switch {
	case len(s.Enum) > 0:
		return s.Enum[0]
	case s.Type == huma.TypeObject:
		m := map[string]any{}
		for _, field := range s.Required {
			m[field] = k.good(field, s.Properties[field])
		}
		if s.MinProperties != nil {
			m["a"] = "b"
		}
		return m
	case s.Type == huma.TypeArray:
		return []any{k.good(name, s.Items)}
	case s.Type == huma.TypeInteger, s.Type == huma.TypeNumber:
		return 1
	case s.Type == huma.TypeBoolean:
		return true
	case name == "signatures":
		return "dcc/body:00"
	case s.Format == "date-time":
		return "2026-01-02T03:04:05Z"
	case s.MinLength != nil:
		return strings.Repeat("U", *s.MinLength) // keys of nodes begin with U
	}
	return "192.0.2.1" // an address where one is asked for, and a text as good as any
}

// bad calls try with values that break one limit of s each.
func (k walker) bad(name string, s *huma.Schema, try func(limit string, value any)) {
	s = k.resolve(s)
	if s.MaxLength != nil {
		try("maxLength", strings.Repeat("k", *s.MaxLength+1))
	}
	if s.MinLength != nil {
		try("minLength", strings.Repeat("k", *s.MinLength-1))
	}
	if s.Maximum != nil {
		try("maximum", *s.Maximum+1)
	}
	if s.Minimum != nil {
		try("minimum", *s.Minimum-1)
	}
	if len(s.Enum) > 0 {
		try("enum", "none of them")
	}
	if s.MaxItems != nil {
		try("maxItems", slices.Repeat([]any{k.good(name, s.Items)}, *s.MaxItems+1))
	}
	if s.MinItems != nil {
		try("minItems", []any{})
	}
	if s.MaxProperties != nil {
		m := map[string]any{}
		for i := range *s.MaxProperties + 1 {
			m[fmt.Sprint(i)] = "v"
		}
		try("maxProperties", m)
	}
	if s.MinProperties != nil {
		try("minProperties", map[string]any{})
	}
	if s.Type == huma.TypeArray {
		k.bad(name, s.Items, func(limit string, v any) { try(limit+" of an item", []any{v}) })
	}
	if s.Type != huma.TypeObject || len(s.Properties) == 0 {
		return
	}
	whole := k.good(name, s).(map[string]any)
	for _, field := range s.Required {
		without := maps.Clone(whole)
		delete(without, field)
		try("required "+field, without)
	}
	changed := maps.Clone(whole)
	changed["no such field"] = 1
	try("additionalProperties", changed)
	for field, property := range s.Properties {
		k.bad(field, property, func(limit string, v any) {
			broken := maps.Clone(whole)
			broken[field] = v
			try(field+" "+limit, broken)
		})
	}
}

// TestLimitsHold breaks every limit of the document, one at a time: each request is
// refused with a problem, and the same request without the breach is not refused as
// malformed.
func TestLimitsHold(t *testing.T) {
	mta := &fakeMTA{known: map[string]int{}}
	users := newFakeUsers()
	s := newServer(t, &recorder{looks: []bulkhead.Look{{}}}, func(o *Options) {
		o.Accounts, o.Users, o.RateLimits, o.Lists, o.Peers = users, users, mta, mta, &fakePeers{}
	})
	k := walker{s.openAPI.Components.Schemas}
	tried := map[string]int{}
	send := func(op *huma.Operation, kind, body string, q url.Values, header ...string) int {
		target := strings.NewReplacer("{name}", "bob", "{key}", "k", "{protocol}", "dcc", "{id}", "1").Replace(op.Path) +
			"?" + q.Encode()
		return send(s, local, op.Method, target, kind, body, append(header, "Authorization", "Bearer token-alice")...).Code
	}
	refused := func(op *huma.Operation, what string, status int) {
		t.Helper()
		tried[what[strings.LastIndexByte(what, ' ')+1:]]++
		if status != 400 && status != 422 {
			t.Errorf("%s %s: %s broken: %d, want 400 or 422", op.Method, op.Path, what, status)
		}
	}
	for _, rt := range s.routes() {
		op := rt.op
		if op.RequestBody != nil && op.RequestBody.Content[requestType] != nil {
			schema := op.RequestBody.Content[requestType].Schema
			if len(schema.OneOf) > 0 {
				schema = schema.OneOf[0]
			}
			post := func(v any) int {
				body, err := json.Marshal(v)
				if err != nil {
					t.Fatal(err)
				}
				if len(op.RequestBody.Content[requestType].Schema.OneOf) > 0 {
					if one, many := send(op, requestType, string(body), nil),
						send(op, requestType, "["+string(body)+"]", nil); one != many {
						t.Errorf("%s %s %.80s: %d alone, %d in a batch", op.Method, op.Path, body, one, many)
					}
				}
				return send(op, requestType, string(body), nil)
			}
			if status := post(k.good("", schema)); status == 400 || status == 422 {
				t.Errorf("%s %s: a right body is refused: %d", op.Method, op.Path, status)
			}
			k.bad("", schema, func(limit string, v any) { refused(op, limit, post(v)) })
		}
		right := url.Values{}
		for _, p := range op.Parameters {
			if p.In == "query" && p.Required {
				right.Set(p.Name, fmt.Sprint(k.good(p.Name, p.Schema)))
			}
		}
		kind, body := "", ""
		if op.RequestBody != nil && op.RequestBody.Content[mailType] != nil {
			kind, body = mailType, sample
		}
		for _, p := range op.Parameters {
			k.bad(p.Name, p.Schema, func(limit string, v any) {
				switch q := maps.Clone(right); p.In {
				case "query":
					values := []string{fmt.Sprint(v)}
					if n, ok := v.(float64); ok {
						values = []string{fmt.Sprintf("%.0f", n)}
					}
					if list, ok := v.([]any); ok {
						values = nil
						for _, one := range list {
							values = append(values, fmt.Sprint(one))
						}
					}
					q[p.Name] = values
					refused(op, p.Name+" "+limit, send(op, kind, body, q))
				case "header":
					refused(op, p.Name+" "+limit, send(op, kind, body, q, p.Name, fmt.Sprint(v)))
				default:
					t.Errorf("%s %s: %s of %s is not tried", op.Method, op.Path, limit, p.Name)
				}
			})
		}
	}
	for _, limit := range []string{"maxLength", "minLength", "maximum", "minimum", "enum", "maxItems", "minItems",
		"maxProperties", "minProperties", "additionalProperties"} {
		if tried[limit] == 0 {
			t.Errorf("no limit %s was tried: %v", limit, tried)
		}
	}
}

// TestLimitsAreOneNumber compares the limits in the document with the constants of the packages
// that enforce them.
func TestLimitsAreOneNumber(t *testing.T) {
	s := newServer(t, &prototest.House{}, nil)
	of := func(name, field string) *huma.Schema {
		return s.openAPI.Components.Schemas.Map()[name].Properties[field]
	}
	if got := *of("Report", "id").MaxLength; got != bulkhead.MaxID {
		t.Errorf("ids of %d characters, want %d", got, bulkhead.MaxID)
	}
	if got := *of("LookRequest", "signatures").MaxItems; got != client.MaxLooks {
		t.Errorf("%d looks, want %d", got, client.MaxLooks)
	}
	for _, field := range []string{"signatures", "counts"} {
		if got := *of("CountRequest", field).MaxItems; got != client.MaxCounts {
			t.Errorf("%d %s, want %d", got, field, client.MaxCounts)
		}
	}
	if got := *of("Source", "sender").MaxLength; got != maxName {
		t.Errorf("senders of %d characters, want %d", got, maxName)
	}
}

// TestTwiceGiven: a duplicate field does not evade a limit.
func TestTwiceGiven(t *testing.T) {
	house := &prototest.House{}
	s := newServer(t, house, nil)
	long := strings.Repeat("s", maxName+1)
	w := send(s, local, "POST", "/v1/report", requestType,
		`{"signatures":["dcc/body:00"],"source":{"sender":"`+long+`"},"source":{"list_id":"l"}}`)
	if got := house.Reports(); w.Code == 200 && (got[0].Source.Sender != "" || got[0].Source.ListID != "l") {
		t.Errorf("the source is %.40q %q, want the second one", got[0].Source.Sender, got[0].Source.ListID)
	}
	for _, name := range []string{"SOURCE", "Source"} {
		if w := send(s, local, "POST", "/v1/report", requestType,
			`{"signatures":["dcc/body:00"],"`+name+`":{"sender":"`+long+`"}}`); w.Code != 400 {
			t.Errorf("%s: %d, want 400", name, w.Code)
		}
	}
}
