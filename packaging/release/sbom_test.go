package main

import (
	"bytes"
	"encoding/hex"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/CycloneDX/cyclonedx-go"
)

// TestSBOM builds the server and compares its SBOM with what the go command lists for the same packages: each module
// once, with its version and its checksum, the standard library, and one edge to each. The document is CycloneDX 1.6
// whose references all resolve.
func TestSBOM(t *testing.T) {
	program := filepath.Join(t.TempDir(), "bulkhead")
	root := filepath.Join("..", "..")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-C", root, "-o", program, "./cmd/bulkhead").
		CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	list, err := exec.CommandContext(t.Context(), "go", "-C", root, "list", "-deps", "-f",
		"{{with .Module}}{{if not .Main}}{{.Path}}@{{.Version}}{{end}}{{end}}", "./cmd/bulkhead").Output()
	if err != nil {
		t.Fatal(err)
	}
	want := slices.DeleteFunc(strings.Fields(string(list)), func(s string) bool { return s == "" })
	slices.Sort(want)
	want = slices.Compact(want)

	var text bytes.Buffer
	if err := writeSBOM(&text, program); err != nil {
		t.Fatal(err)
	}
	var bom cyclonedx.BOM
	decoder := cyclonedx.NewBOMDecoder(bytes.NewReader(text.Bytes()), cyclonedx.BOMFileFormatJSON)
	if err := decoder.Decode(&bom); err != nil {
		t.Fatal(err)
	}
	if bom.BOMFormat != "CycloneDX" || bom.SpecVersion != cyclonedx.SpecVersion1_6 || bom.Version < 1 {
		t.Errorf("%s %s, version %d", bom.BOMFormat, bom.SpecVersion, bom.Version)
	}
	if c := bom.Metadata.Component; c.Name != "github.com/bulkhead-mail/bulkhead" ||
		c.Type != cyclonedx.ComponentTypeApplication {
		t.Errorf("the program is %+v", c)
	}
	var got, refs []string
	for _, c := range *bom.Components {
		refs = append(refs, c.BOMRef)
		if c.Name == "" || c.Version == "" || c.Type == "" || c.BOMRef == "" ||
			!strings.HasPrefix(c.PackageURL, "pkg:golang/") {
			t.Errorf("a component %+v", c)
		}
		if c.Name == "std" {
			continue
		}
		got = append(got, c.Name+"@"+c.Version)
		if c.Hashes == nil {
			t.Errorf("%s has no checksum", c.Name)
			continue
		}
		if raw, err := hex.DecodeString((*c.Hashes)[0].Value); err != nil || len(raw) != 32 {
			t.Errorf("%s has the checksum %v", c.Name, *c.Hashes)
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("modules %q, the go command lists %q", got, want)
	}
	if len(want) < 20 {
		t.Errorf("%d modules: too few were listed", len(want))
	}
	edges := *(*bom.Dependencies)[0].Dependencies
	if sorted := slices.Sorted(slices.Values(refs)); len(slices.Compact(sorted)) != len(refs) ||
		!slices.Equal(slices.Sorted(slices.Values(edges)), slices.Sorted(slices.Values(refs))) {
		t.Errorf("edges to %q, components %q", edges, refs)
	}
}
