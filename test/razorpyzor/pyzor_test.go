//go:build interop

package razorpyzor

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/bulkhead-mail/bulkhead/digest/pyzor"
	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

// A pyzorHome is a user of the pyzor command.
type pyzorHome struct {
	t      *testing.T
	dir    string
	server string
}

func newPyzor(t *testing.T, n *node) *pyzorHome {
	t.Helper()
	h := &pyzorHome{t: t, dir: t.TempDir(), server: n.pyzor}
	h.write("servers", n.pyzor+"\n")
	return h
}

func (h *pyzorHome) write(name, text string) {
	h.t.Helper()
	if err := os.WriteFile(filepath.Join(h.dir, name), []byte(text), 0o600); err != nil {
		h.t.Fatal(err)
	}
}

func (h *pyzorHome) run(want int, input string, args ...string) string {
	h.t.Helper()
	code, out := nodetest.Command(h.t, input, "pyzor", append([]string{"--homedir", h.dir, pyzorPatience}, args...)...)
	if code != want {
		h.t.Errorf("pyzor %s: exit %d, want %d\n%s", strings.Join(args, " "), code, want, out)
	}
	return out
}

// pyzorPatience has pyzor wait longer for an answer than its five seconds: a busy machine may be late.
const pyzorPatience = "--timeout=60"

// counts checks what "pyzor check" prints; a mail is spam to it if it was reported and is not
// whitelisted.
func (h *pyzorHome) counts(input string, spam, ham int) {
	h.t.Helper()
	exit := 1
	if spam > 0 && ham == 0 {
		exit = 0
	}
	want := fmt.Sprintf("%s\t(200, 'OK')\t%d\t%d\n", h.server, spam, ham)
	if got := h.run(exit, input, "check"); got != want {
		h.t.Errorf("pyzor check prints %q, want %q", got, want)
	}
}

// plainCounts has a listed digest show the votes on it and no more.
const plainCounts = "[pyzor]\nlisted_count = 0"

func TestPyzorReport(t *testing.T) {
	n := startNode(t, plainCounts)
	h := newPyzor(t, n)
	ok := n.pyzor + "\t(200, 'OK')\n"
	if got := h.run(0, "", "ping"); got != ok {
		t.Errorf("ping prints %q", got)
	}
	for kind, mail := range mails {
		t.Run(kind, func(t *testing.T) {
			h := &pyzorHome{t: t, dir: h.dir, server: h.server}
			sum, _, _ := pyzor.Sum(t.Context(), []byte(mail))
			if got := strings.TrimSpace(h.run(0, mail, "digest")); got != hex.EncodeToString(sum[:]) {
				t.Errorf("digest %s, ours %x", got, sum)
			}
			h.counts(mail, 0, 0)
			if got := h.run(0, mail, "report"); got != ok {
				t.Errorf("report prints %q", got)
			}
			h.counts(mail, 1, 0)
			if got := h.run(0, mail, "info"); !strings.Contains(got, "Count: 1") || !strings.Contains(got, "WL-Count: 0") {
				t.Errorf("info prints %q", got)
			}
		})
	}
	if got := h.run(1, mails["plain"], "whitelist"); !strings.Contains(got, "403") {
		t.Errorf("anonymous whitelist prints %q", got)
	}
	h.counts(mails["plain"], 1, 0)
	// Revoked through another door, it is no spam here either.
	path := writeMails(t)["plain"]
	n.cli("revoke", path)
	h.counts(mails["plain"], 0, 0)
}

// TestPyzorUnlisted: the command says that a report was refused, because a list has its digest.
func TestPyzorUnlisted(t *testing.T) {
	sum, _, _ := pyzor.Sum(t.Context(), []byte(mails["plain"]))
	n := startNode(t, fmt.Sprintf("%s\n[whitelist]\nsignatures = [\"pyzor/digest:%x\"]", plainCounts, sum))
	h := newPyzor(t, n)
	if got := h.run(1, mails["plain"], "report"); !strings.Contains(got, "422") {
		t.Errorf("report prints %q", got)
	}
	h.counts(mails["plain"], 0, 0)
	h.run(0, mails["multipart"], "report")
	h.counts(mails["multipart"], 1, 0)
}

func TestPyzorAccounts(t *testing.T) {
	n := startNode(t, plainCounts)
	const key = "0123456789abcdef0123456789abcdef01234567"
	n.cli("user", "add", "alice", "--weight", "1")
	n.passwd("alice", "pyzor", key)
	host, port, _ := strings.Cut(n.pyzor, ":")
	alice := newPyzor(t, n)
	alice.write("accounts", fmt.Sprintf("%s : %s : alice : ,%s\n", host, port, key))
	thief := newPyzor(t, n)
	thief.write("accounts", fmt.Sprintf("%s : %s : alice : ,%s\n", host, port, strings.Repeat("a", 40)))
	bob := newPyzor(t, n)
	bob.write("accounts", fmt.Sprintf("%s : %s : bob : ,%s\n", host, port, key))
	nobody := newPyzor(t, n)

	mail := mails["multipart"]
	nobody.run(0, mail, "report")
	nobody.counts(mail, 1, 0)
	for name, h := range map[string]*pyzorHome{"wrong key": thief, "unknown user": bob} {
		for _, op := range []string{"report", "whitelist", "check", "ping"} {
			if got := h.run(1, mail, op); !strings.Contains(got, "401") {
				t.Errorf("%s: %s prints %q", name, op, got)
			}
		}
	}
	nobody.counts(mail, 1, 0)
	alice.run(0, mail, "report")
	nobody.counts(mail, 2, 0)
	// She changes her mind, and her vote outweighs an anonymous one: it is no spam.
	alice.run(0, mail, "whitelist")
	nobody.counts(mail, 0, 1)
}

func TestPyzorMailboxAndDigests(t *testing.T) {
	n := startNode(t, plainCounts)
	h := newPyzor(t, n)
	var box, digests strings.Builder
	kinds := []string{"plain", "multipart", "nested"}
	for _, kind := range kinds {
		box.WriteString("From someone Mon Jan  2 15:04:05 2006\n" + mails[kind] + "\n")
		sum, _, _ := pyzor.Sum(t.Context(), []byte(mails[kind]))
		fmt.Fprintf(&digests, "%x\n", sum)
	}
	if got := strings.Count(h.run(0, box.String(), "-s", "mbox", "report"), "(200, 'OK')"); got != len(kinds) {
		t.Errorf("%d mails reported, want %d", got, len(kinds))
	}
	if got := strings.Count(h.run(0, digests.String(), "-s", "digests", "check"), "\t1\t0\n"); got != len(kinds) {
		t.Errorf("%d digests found, want %d", got, len(kinds))
	}
}

// TestPyzorEmpty: the digest of nothing is answered and never counted, and its reporters are
// informed.
func TestPyzorEmpty(t *testing.T) {
	n := startNode(t, "")
	h := newPyzor(t, n)
	const mail = "Subject: x\n\nhi\n"
	if got := h.run(1, mail, "report"); !strings.Contains(got, "422") {
		t.Errorf("report prints %q", got)
	}
	h.counts(mail, 0, 0)
}

func TestPyzorFiftyClients(t *testing.T) {
	n := startNode(t, plainCounts)
	h := newPyzor(t, n)
	nodetest.Program(t, "pyzor")
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			mail := bytes.ReplaceAll([]byte(mails["plain"]), []byte("lamp"), fmt.Appendf(nil, "l%d", i))
			h.run(0, string(mail), "report")
			h.counts(string(mail), 1, 0)
		})
	}
	wg.Wait()
}
