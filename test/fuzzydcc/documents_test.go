//go:build interop

package fuzzydcc

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

// snippets returns what our documents put into files of rspamd's local.d, by name:
// the indented block after a line that ends in the name of such a file.
func snippets(t *testing.T) map[string]string {
	t.Helper()
	documents, err := filepath.Glob("../../docs/protocols/*.md")
	if err != nil || len(documents) == 0 {
		t.Fatalf("%d documents, %v", len(documents), err)
	}
	names := regexp.MustCompile("`local\\.d/([a-z_]+\\.conf)`")
	files := make(map[string]string)
	for _, document := range documents {
		text, err := os.ReadFile(document)
		if err != nil {
			t.Fatal(err)
		}
		name := ""
		for line := range strings.Lines(string(text)) {
			switch m := names.FindStringSubmatch(line); {
			case strings.HasPrefix(line, "    "):
				if name != "" {
					files[name] += line
				}
			case m != nil && strings.HasSuffix(strings.TrimRight(line, "\n)*"), ":"),
				m != nil && strings.HasSuffix(line, "of rspamd:\n"):
				name = m[1]
			case strings.TrimSpace(line) != "":
				name = ""
			}
		}
	}
	return files
}

// TestRspamdDocuments: rspamd accepts all configuration from bulkhead's documents together, and
// every symbol in it has a weight.
func TestRspamdDocuments(t *testing.T) {
	rspamadm := nodetest.Program(t, "rspamadm")
	files := snippets(t)
	for _, name := range []string{"fuzzy_check.conf", "external_services.conf", "rbl.conf", "groups.conf", "dcc.conf"} {
		if files[name] == "" {
			t.Errorf("no document has a snippet for %s", name)
		}
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "local.d"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, "local.d", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := func(args ...string) []byte {
		t.Helper()
		command := exec.CommandContext(t.Context(), rspamadm, append([]string{"--var=LOCAL_CONFDIR=" + dir}, args...)...)
		var output strings.Builder
		command.Stderr = &output
		out, err := command.Output()
		if err != nil {
			t.Fatalf("rspamadm %q: %v\n%s%s", args, err, out, output.String())
		}
		return out
	}
	if out := run("configtest", "-c", "/etc/rspamd/rspamd.conf"); !strings.Contains(string(out), "syntax OK") {
		t.Errorf("configtest: %s", out)
	}
	weights := make(map[string]float64)
	out := run("configdump", "-j", "-c", "/etc/rspamd/rspamd.conf", "group")
	for all := json.NewDecoder(bytes.NewReader(out)); all.More(); { // since 4.1 there are several documents
		var groups map[string]struct {
			Symbols map[string]struct{ Weight float64 }
		}
		if err := all.Decode(&groups); err != nil {
			t.Fatalf("%v in %.2000s", err, out)
		}
		for _, g := range groups {
			for name, s := range g.Symbols {
				weights[name] = s.Weight
			}
		}
	}
	for _, symbol := range []string{"FUZZY_DENIED", "FUZZY_PROB", "PYZOR", "RAZOR", "BH_IP", "BH_URL", "BH_EMAIL"} {
		if weights[symbol] <= 0 {
			t.Errorf("%s has the weight %v", symbol, weights[symbol])
		}
	}
}
