//go:build interop

package razorpyzor

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

// TestRspamd: a stock rspamd asks the node as its razor and pyzor helpers, and
// needs no helper process.
func TestRspamd(t *testing.T) {
	path := nodetest.Program(t, "rspamd")
	n := startNode(t, "")
	dir := t.TempDir()
	port := nodetest.FreePort(t)
	if err := os.WriteFile(filepath.Join(dir, "tld"), []byte("com\norg\nnet\nexample\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	config := fmt.Sprintf(`
options {
  pidfile = "%[1]s/pid"; filters = ""; tempdir = "%[1]s"; history_file = "%[1]s/history"; rrd = "%[1]s/rrd";
  stats_file = "%[1]s/stats"; dynamic_conf = "%[1]s/dynamic"; hs_cache_dir = "%[1]s"; url_tld = "%[1]s/tld";
    local_addrs = [];
  dns { nameserver = ["127.0.0.1:1"]; timeout = 0.1s; retransmits = 1; }
}
logging { type = "console"; level = "info"; }
worker "normal" { bind_socket = "127.0.0.1:%[2]d"; count = 1; }
metric { name = "default"; actions { reject = 15; } unknown_weight = 1; }
external_services {
  razor { type = "razor"; servers = "%[3]s"; symbol = "RAZOR"; timeout = 10s; }
  pyzor { type = "pyzor"; servers = "%[4]s"; symbol = "PYZOR"; timeout = 10s; }
}
modules { path = "/usr/share/rspamd/plugins/external_services.lua"; }
lua = "/usr/share/rspamd/rules/rspamd.lua";
`, dir, port, n.razorHelper, n.pyzorHelper)
	file := filepath.Join(dir, "rspamd.conf")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	nodetest.Run(t, dir, path, "-i", "-f", "-c", file)
	worker := fmt.Sprintf("127.0.0.1:%d", port)
	nodetest.AwaitTCP(t, worker)

	scan := func(mail string) map[string]any {
		t.Helper()
		resp, err := http.Post("http://"+worker+"/checkv2", "message/rfc822", strings.NewReader(mail))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		var result struct{ Symbols map[string]any }
		if err := json.Unmarshal(body, &result); err != nil {
			t.Fatalf("%v in %s", err, body)
		}
		return result.Symbols
	}
	h := newHome(t, n, "ana")
	for _, kind := range []string{"plain", "multipart", "quoted-printable HTML"} {
		symbols := scan(mails[kind])
		if symbols["RAZOR"] != nil || symbols["PYZOR"] != nil || symbols["RAZOR_FAIL"] != nil ||
			symbols["PYZOR_FAIL"] != nil {
			t.Errorf("%s: unknown mail has symbols %v", kind, symbols)
		}
		h.run(0, "razor-report", "-f", writeMails(t)[kind])
		// rspamd remembers its verdict on a text, so the reported mail has a new
		// header and the same content.
		symbols = scan("X-Again: yes\n" + mails[kind])
		if symbols["RAZOR"] == nil || symbols["PYZOR"] == nil {
			t.Errorf("%s: reported mail has symbols %v, want RAZOR and PYZOR", kind, symbols)
		}
	}
}
