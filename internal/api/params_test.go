package api

import (
	"encoding/json"
	"maps"
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
