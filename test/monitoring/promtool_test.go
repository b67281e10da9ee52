//go:build interop

package monitoring

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

func TestMain(m *testing.M) { nodetest.Main(m) }

const folder = "../../packaging/monitoring/"

// promtool runs Prometheus's tool in a folder, and returns what it said.
func promtool(t *testing.T, dir, input string, args ...string) (output string, ok bool) {
	t.Helper()
	cmd := exec.Command(nodetest.Program(t, "promtool"), args...)
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	return string(out), err == nil
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(folder + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestRules: Prometheus accepts the rules, and their tests pass; they would not if the
// alerts never fired.
func TestRules(t *testing.T) {
	rules, tests := read(t, "bulkhead.rules.yml"), read(t, "bulkhead.rules_test.yml")
	dir := t.TempDir()
	write := func(rules string) {
		t.Helper()
		for name, text := range map[string]string{"bulkhead.rules.yml": rules, "bulkhead.rules_test.yml": tests} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	write(rules)
	for _, args := range [][]string{{"check", "rules", "bulkhead.rules.yml"},
		{"test", "rules", "bulkhead.rules_test.yml"}} {
		if output, ok := promtool(t, dir, "", args...); !ok {
			t.Errorf("promtool %q:\n%s", args, output)
		}
	}
	expr := regexp.MustCompile(`(?m)expr: .*$`)
	write(expr.ReplaceAllString(rules, "expr: vector(0) > 1"))
	output, ok := promtool(t, dir, "", "test", "rules", "bulkhead.rules_test.yml")
	if ok {
		t.Error("alerts that never fire pass their tests")
	}
	alerts := regexp.MustCompile(`- alert: (\w+)`).FindAllStringSubmatch(rules, -1)
	for _, m := range alerts {
		if !strings.Contains(output, "alertname: "+m[1]+",") {
			t.Errorf("%s passes its test though it never fires", m[1])
		}
	}
	if len(alerts) != len(expr.FindAllString(rules, -1)) || len(alerts) < 20 {
		t.Errorf("%d alerts", len(alerts))
	}
}

// TestQueries: Prometheus can parse what the dashboard asks.
func TestQueries(t *testing.T) {
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal([]byte(read(t, "bulkhead.dashboard.json")), &dashboard); err != nil {
		t.Fatal(err)
	}
	rules := "groups:\n  - name: dashboard\n    rules:\n"
	n := 0
	for _, p := range dashboard.Panels {
		for _, q := range p.Targets {
			expr := strings.NewReplacer("$__rate_interval", "5m", "$job", ".*", "$instance", ".*").Replace(q.Expr)
			rules += fmt.Sprintf("      - record: q%d\n        expr: '%s'\n        labels: {panel: %q}\n", n,
				strings.ReplaceAll(expr, "'", "''"), p.Title)
			n++
		}
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "dashboard.yml"), []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	if output, ok := promtool(t, dir, "", "check", "rules", "dashboard.yml"); !ok ||
		!strings.Contains(output, fmt.Sprint(n, " rules found")) {
		t.Errorf("of %d queries:\n%s", n, output)
	}
}

// TestExposition: Prometheus's linter finds nothing in what a node with every door exposes.
func TestExposition(t *testing.T) {
	dir, address := t.TempDir(), nodetest.Address(t)
	config := fmt.Sprintf(
		"[listen]\nhttp = %q\nmilter = \"127.0.0.1:0\"\npolicy = \"127.0.0.1:0\"\ndnsbl = \"127.0.0.1:0\"\n"+
			"fuzzy = \"127.0.0.1:0\"\n"+
			"dcc = \"127.0.0.1:0\"\ndccifd = \"127.0.0.1:0\"\npyzor = \"127.0.0.1:0\"\nrazor2 = \"127.0.0.1:0\"\n[mesh]\n"+
			"mode = \"hub\"\nlisten = %q\n", address, nodetest.Address(t))
	if err := os.WriteFile(filepath.Join(dir, "bulkhead.toml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	nodetest.Run(t, dir, nodetest.Binary(t), "serve", "--config", filepath.Join(dir, "bulkhead.toml"), "--data",
		filepath.Join(dir, "data"))
	nodetest.AwaitTCP(t, address)
	resp, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var text bytes.Buffer
	if _, err := text.ReadFrom(resp.Body); err != nil || text.Len() < 10_000 {
		t.Fatalf("%d bytes, %v", text.Len(), err)
	}
	if output, ok := promtool(t, dir, text.String(), "check", "metrics"); !ok {
		t.Errorf("promtool check metrics:\n%s", output)
	}
}
