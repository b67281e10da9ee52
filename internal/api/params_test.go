package api

import (
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/testing/prototest"
)

// TestParameters compares what clients rely on with testdata/parameters.txt: of each operation its rights, the types of
// its body, its parameters with their limits, and its answer.
func TestParameters(t *testing.T) {
	s := newServer(t, &prototest.House{}, nil)
	var got strings.Builder
	for _, rt := range s.routes() {
		security, err := json.Marshal(rt.op.Security)
		if err != nil {
			t.Fatal(err)
		}
		got.WriteString(rt.op.Method + " " + rt.op.Path + " " + string(security) + "\n")
		if rt.op.RequestBody != nil {
			got.WriteString("\tbody: " + strings.Join(slices.Sorted(maps.Keys(rt.op.RequestBody.Content)), ", ") + "\n")
		}
		for _, p := range rt.op.Parameters {
			schema := *p.Schema
			schema.Description = ""
			text, err := json.Marshal(&schema)
			if err != nil {
				t.Fatal(err)
			}
			required := ""
			if p.Required {
				required = ", required"
			}
			got.WriteString("\t" + p.Name + " in " + p.In + required + ": " + string(text) + "\n")
		}
		for code, r := range rt.op.Responses {
			if code != "default" {
				got.WriteString("\t" + code + ": ")
				for kind := range r.Content {
					got.WriteString(kind)
				}
				got.WriteString("\n")
			}
		}
	}
	const path = "testdata/parameters.txt"
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		t.Errorf("the parameters are\n%s\nand %s has\n%s", got.String(), path, want)
	}
}

// TestUnknownParameters checks that each operation below /v1 refuses a query parameter that it does not have, and
// names it. The pages of monitoring accept any.
func TestUnknownParameters(t *testing.T) {
	s := (&backstage{}).server(t, true)
	for _, rt := range s.routes() {
		path := strings.NewReplacer("{name}", "bob", "{key}", "k", "{id}", "1", "{protocol}", "dcc").Replace(rt.op.Path)
		kind := requestType
		if rt.op.RequestBody != nil && rt.op.RequestBody.Content[mailType] != nil {
			kind = mailType
		}
		w := send(s, local, rt.op.Method, path+"?sicne=24h", kind, "{}", "Authorization", "Bearer token-alice")
		switch named := strings.Contains(w.Body.String(), `unknown query parameter \"sicne\"`); {
		case !strings.HasPrefix(path, "/v1/"):
			if w.Code != http.StatusOK {
				t.Errorf("%s %s: %d %s", rt.op.Method, path, w.Code, w.Body)
			}
		case w.Code != http.StatusBadRequest || !named:
			t.Errorf("%s %s: %d %s", rt.op.Method, path, w.Code, w.Body)
		}
	}
}
