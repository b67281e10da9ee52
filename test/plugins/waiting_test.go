//go:build interop

package plugins

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

// waitingFolder makes the folder below which votes wait, and names it to the commands of the test.
func waitingFolder(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "waiting")
	if err := errors.Join(os.Mkdir(dir, 0o777), os.Chmod(dir, 0o777|os.ModeSticky)); err != nil {
		t.Fatal(err)
	}
	t.Setenv("BULKHEAD_WAITING", dir)
	return dir
}

// sendsOnce has the votes below a folder sent, and compares the only one with what it must be.
func (n *node) sendsOnce(t *testing.T, folder, mail, vote, user string) {
	t.Helper()
	nodetest.Await(t, "a vote that waits", func() bool {
		found, err := filepath.Glob(filepath.Join(folder, "*", "*.vote"))
		return err == nil && len(found) == 1
	})
	found, err := filepath.Glob(filepath.Join(folder, "*"))
	if err != nil || len(found) != 1 {
		t.Fatalf("folders: %v, %v", found, err)
	}
	if info, err := os.Stat(found[0]); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("other users can look into %s: %v, %v", found[0], info.Mode(), err)
	}
	if code, out := nodetest.Command(t, "", nodetest.Binary(t), "waiting", "--send"); code != 75 {
		t.Errorf("while the node is away, the command ends with %d, want 75:\n%s", code, out)
	}
	n.fail(nil)
	n.seen("")
	if code, out := nodetest.Command(t, "", nodetest.Binary(t), "waiting", "--send"); code != 0 {
		t.Errorf("the command ends with %d:\n%s", code, out)
	}
	votes := n.seen("/v1/report")
	if len(votes) != 1 {
		t.Fatalf("%d votes come, want 1", len(votes))
	}
	body, err := io.ReadAll(votes[0].Body)
	q := votes[0].URL.Query()
	if err != nil || q.Get("vote") != vote || q.Get("user") != user || string(body) != mail ||
		votes[0].Header.Get("Idempotency-Key") == "" {
		t.Errorf("the vote is %v with %d bytes, %v; want %s of %q with %d", q, len(body), err, vote, user, len(mail))
	}
}

// TestRspamdWaits: what rspamd learns while the node is away is a vote once the node is back.
func TestRspamdWaits(t *testing.T) {
	n := startNode(t)
	r := startRspamd(t, n.url, "")
	folder := os.Getenv("BULKHEAD_WAITING")
	n.fail(faults["its own 500"])
	letter := mail("late")
	if code, out := nodetest.Command(t, letter, "rspamc", "-t", "100", "-h",
		fmt.Sprintf("127.0.0.1:%d", r.Controller), "-d", "bob@example.org", "learn_spam"); code != 0 {
		t.Fatalf("rspamc: exit %d\n%s", code, out)
	}
	n.sendsOnce(t, folder, letter, "spam", "bob@example.org")
}

// TestSpamAssassinWaits: the same for SpamAssassin. A refusal of the node is no reason to wait.
func TestSpamAssassinWaits(t *testing.T) {
	n := startNode(t)
	folder := waitingFolder(t)
	s := newSpamAssassin(t, n.url, "bulkhead_waiting "+folder+"\n")
	n.fail(faults["unauthorised"])
	s.run(mail("refused"), "spamassassin", "-k")
	n.fail(faults["its own 500"])
	letter := mail("later")
	out := s.run(letter, "spamassassin", "-D", "reporter,bulkhead", "-k")
	if !strings.Contains(out, "waits for the node") {
		t.Errorf("%s", out)
	}
	n.sendsOnce(t, folder, letter, "ham", "")
}
