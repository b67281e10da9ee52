package nodetest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// An Rspamd is a running rspamd with the modules of its test.
type Rspamd struct {
	Worker, Controller int    // ports
	Config             string // its configuration file
	t                  testing.TB
}

// StartRspamd starts rspamd with the filters, and with the configuration of modules. nameServer is the address of its
// name server. If it is "", the name server is a port where nothing listens: rspamd sends no requests to the network.
// A message may take a minute.
func StartRspamd(t testing.TB, nameServer, filters, modules string) *Rspamd {
	t.Helper()
	timeout := "20s"
	if nameServer == "" {
		nameServer, timeout = "127.0.0.1:1", "0.1s"
	}
	program, dir := Program(t, "rspamd"), t.TempDir()
	r := &Rspamd{Worker: FreePort(t), Controller: FreePort(t), Config: filepath.Join(dir, "rspamd.conf"), t: t}
	config := fmt.Sprintf(`
options {
  pidfile = "%[1]s/pid"; filters = "%[2]s"; tempdir = "%[1]s"; history_file = "%[1]s/history"; rrd = "%[1]s/rrd";
  stats_file = "%[1]s/stats"; dynamic_conf = "%[1]s/dynamic"; hs_cache_dir = "%[1]s"; url_tld = "%[1]s/tld";
  local_addrs = [];
  dns { nameserver = ["%[3]s"]; timeout = %[4]s; retransmits = 1; }
  task_timeout = 60s;
}
logging { type = "console"; level = "info"; }
worker "normal" { bind_socket = "127.0.0.1:%[5]d"; count = 1; }
worker "controller" { bind_socket = "127.0.0.1:%[6]d"; count = 1; secure_ip = "127.0.0.1"; }
actions { reject = 15; add_header = 6; unknown_weight = 1; }
%[7]s
`, dir, filters, nameServer, timeout, r.Worker, r.Controller, modules)
	files := map[string]string{
		r.Config: config,
		// The whole list of suffixes takes rspamd a minute to compile on a busy machine.
		filepath.Join(dir, "tld"): "com\norg\nnet\nexample\n",
	}
	for name, text := range files {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	Run(t, dir, program, "-i", "-f", "-c", r.Config)
	for _, port := range []int{r.Worker, r.Controller} {
		AwaitTCP(t, fmt.Sprintf("127.0.0.1:%d", port))
	}
	return r
}

// Post sends a message to a port, and sets answer to the answer in JSON. headers are names and values.
func (r *Rspamd) Post(port int, path, message string, answer any, headers ...string) {
	r.t.Helper()
	q, err := http.NewRequestWithContext(r.t.Context(), http.MethodPost,
		fmt.Sprintf("http://127.0.0.1:%d%s", port, path), strings.NewReader(message))
	if err != nil {
		r.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		q.Header.Add(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(q)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	if err := json.Unmarshal(body, answer); err != nil {
		r.t.Fatalf("%s answers %q: %v", path, body, err)
	}
}

// An RspamdResult is the result of rspamd for a message.
type RspamdResult struct {
	Action  string
	Score   float64
	Symbols map[string]RspamdSymbol
}

// An RspamdSymbol is one symbol of a result.
type RspamdSymbol struct {
	Score   float64
	Options []string
}

// Scan returns the result for a message. headers are names and values that describe its delivery.
func (r *Rspamd) Scan(message string, headers ...string) (result RspamdResult) {
	r.t.Helper()
	r.Post(r.Worker, "/checkv2", message, &result, headers...)
	return result
}
