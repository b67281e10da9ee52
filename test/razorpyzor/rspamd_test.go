//go:build interop

package razorpyzor

import (
	"fmt"
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

// TestRspamd: a stock rspamd asks the node as its razor and pyzor helpers, and
// needs no helper process.
func TestRspamd(t *testing.T) {
	n := startNode(t, "")
	r := nodetest.StartRspamd(t, "", "", fmt.Sprintf(`
external_services {
  razor { type = "razor"; servers = "%s"; symbol = "RAZOR"; timeout = 50s; }
  pyzor { type = "pyzor"; servers = "%s"; symbol = "PYZOR"; timeout = 50s; }
}
modules { path = "/usr/share/rspamd/plugins/external_services.lua"; }
lua = "/usr/share/rspamd/rules/rspamd.lua";
`, n.razorHelper, n.pyzorHelper))
	h := newHome(t, n, "ana")
	for _, kind := range []string{"plain", "multipart", "quoted-printable HTML"} {
		symbols := r.Scan(mails[kind]).Symbols
		for _, name := range []string{"RAZOR", "PYZOR", "RAZOR_FAIL", "PYZOR_FAIL"} {
			if _, ok := symbols[name]; ok {
				t.Errorf("%s: unknown mail has the symbol %s", kind, name)
			}
		}
		h.run(0, "razor-report", "-f", writeMails(t)[kind])
		// rspamd remembers its verdict on a text, so the reported mail has a new
		// header and the same content.
		symbols = r.Scan("X-Again: yes\n" + mails[kind]).Symbols
		for _, name := range []string{"RAZOR", "PYZOR"} {
			if _, ok := symbols[name]; !ok {
				t.Errorf("%s: reported mail lacks the symbol %s: %v", kind, name, symbols)
			}
		}
	}
}
