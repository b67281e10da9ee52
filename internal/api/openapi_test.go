package api

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"

	"github.com/bulkhead-mail/bulkhead/internal/testing/prototest"
)

// TestAnswersMatchTheDocument compares every answer with the schema that the
// program's own document states for it.
func TestAnswersMatchTheDocument(t *testing.T) {
	s := newServer(t, &prototest.House{}, nil)
	admin := []string{"Authorization", "Bearer token-alice"}
	requests := []struct {
		method, path, target, mediaType, body string
		headers                               []string
	}{
		{"POST", "/v1/check", "/v1/check", requestType, ready, nil},
		{"POST", "/v1/report", "/v1/report", requestType, ready, nil},
		{"POST", "/v1/check", "/v1/check", requestType, ready, nil},
		{"POST", "/v1/check", "/v1/check", requestType, "[" + ready + "," + ready + "]", nil},
		{"POST", "/v1/report", "/v1/report", mailType, sample, nil},
		{"POST", "/v1/report", "/v1/report", requestType, "[" + ready + "]", nil},
		{"POST", "/v1/revoke", "/v1/revoke", mailType, sample, nil},
		{"POST", "/v1/revoke", "/v1/revoke", requestType, ready, nil},
		{"POST", "/v1/check", "/v1/check", mailType, sample, nil},
		{"POST", "/v1/check", "/v1/check", mailType, "", nil},
		{"POST", "/v1/signatures", "/v1/signatures", mailType, sample, nil},
		{"POST", "/v1/signatures", "/v1/signatures", mailType, "x\n\ny", nil},
		{"GET", "/v1/node", "/v1/node", "", "", nil},
		{"GET", "/v1/users", "/v1/users", "", "", admin},
		{"GET", "/v1/users", "/v1/users", "", "", nil},
		{"POST", "/v1/users", "/v1/users", requestType, `{"name":"carol","role":"trusted","weight":0.5}`, admin},
		{"GET", "/v1/users/{name}", "/v1/users/carol", "", "", admin},
		{"PATCH", "/v1/users/{name}", "/v1/users/carol", requestType, `{"closed":true}`, admin},
		{"POST", "/v1/users/{name}/token", "/v1/users/carol/token", "", "", admin},
		{"DELETE", "/v1/users/{name}", "/v1/users/carol", "", "", admin},
		{"DELETE", "/v1/users/{name}", "/v1/users/carol", "", "", admin},
	}
	for _, r := range requests {
		w := send(s, local, r.method, r.target, r.mediaType, r.body, r.headers...)
		op := operation(s.openAPI.Paths[r.path], r.method)
		response := op.Responses["default"]
		if w.Code < 300 {
			response = op.Responses[strings.Fields(w.Result().Status)[0]]
		}
		if response == nil {
			t.Errorf("%s %s answers %d, which the document does not name", r.method, r.target, w.Code)
			continue
		}
		if w.Body.Len() == 0 {
			continue
		}
		media := response.Content[w.Header().Get("Content-Type")]
		if media == nil {
			t.Errorf("%s %s answers with %q, which the document does not name", r.method, r.target,
				w.Header().Get("Content-Type"))
			continue
		}
		var value any
		if err := json.Unmarshal(w.Body.Bytes(), &value); err != nil {
			t.Fatal(err)
		}
		var res huma.ValidateResult
		huma.Validate(s.openAPI.Components.Schemas, media.Schema, huma.NewPathBuffer([]byte{}, 0), huma.ModeReadFromServer,
			value, &res)
		for _, err := range res.Errors {
			t.Errorf("%s %s answers %d %s: %v", r.method, r.target, w.Code, w.Body, err)
		}
	}
}

func operation(item *huma.PathItem, method string) *huma.Operation {
	return map[string]*huma.Operation{
		"GET": item.Get, "POST": item.Post, "PUT": item.Put, "PATCH": item.Patch, "DELETE": item.Delete,
	}[method]
}

func TestDocumentIsServed(t *testing.T) {
	s := newServer(t, &prototest.House{}, nil)
	w := send(s, remote, "GET", "/openapi.json", "", "")
	var doc struct {
		OpenAPI string
		Paths   map[string]map[string]struct{ OperationID string }
	}
	if err := json.Unmarshal(w.Body.Bytes(), &doc); err != nil || doc.OpenAPI != "3.1.0" {
		t.Fatalf("openapi.json: %v, version %q", err, doc.OpenAPI)
	}
	for _, rt := range s.routes() {
		if got := doc.Paths[rt.op.Path][strings.ToLower(rt.op.Method)].OperationID; got != rt.op.OperationID {
			t.Errorf("%s %s is %q in the document, want %q", rt.op.Method, rt.op.Path, got, rt.op.OperationID)
		}
	}
	var all struct {
		Components struct{ Schemas map[string]any }
	}
	if err := json.Unmarshal(w.Body.Bytes(), &all); err != nil {
		t.Fatal(err)
	}
	for _, part := range strings.Split(w.Body.String(), `"$ref": "`)[1:] {
		ref, _, _ := strings.Cut(part, `"`)
		if all.Components.Schemas[strings.TrimPrefix(ref, "#/components/schemas/")] == nil {
			t.Errorf("reference %q leads nowhere", ref)
		}
	}
	w = send(s, remote, "GET", "/openapi.yaml", "", "")
	if w.Code != 200 || !strings.Contains(w.Body.String(), "openapi: 3.1.0") {
		t.Errorf("openapi.yaml = %d %.200s", w.Code, w.Body)
	}
}
