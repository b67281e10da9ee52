package node

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client"
	"github.com/bulkhead-mail/bulkhead/client/admin"
)

const remembered = "From: Shop <news@shop.example.com>\r\nTo: ann@example.com\r\n" +
	"Message-ID: <17@shop.example.com>\r\nSubject: Watches\r\n\r\n" +
	"Dear customer, our warehouse sells wonderful golden watches for a fraction of their price this week only.\r\n" +
	"Visit https://watches.example.net/sale today, choose among hundreds of models and pay when the parcel arrives.\r\n"

// historyNode starts a node, and returns a client of its administrator.
func historyNode(t *testing.T, dir, sections string) (*admin.Client, func() error) {
	t.Helper()
	n, stop := start(t, Options{Config: parse(t, "[listen]\nhttp = \"127.0.0.1:0\"\n"+sections), Dir: dir})
	token, err := ReadSecret(n.AdminTokenFile())
	if err != nil {
		t.Fatal(err)
	}
	return admin.New(address(t, n, "http"), token), stop
}

func statusOf(err error) int {
	var p *client.Problem
	if errors.As(err, &p) {
		return p.Status
	}
	return 0
}

// TestVoteByMessageID checks that a checked message is in the history, and that a vote by its
// Message-ID or entry acts on all its signatures, also after a restart.
func TestVoteByMessageID(t *testing.T) {
	dir := t.TempDir()
	c, stop := historyNode(t, dir, "")
	if _, err := c.CheckMessage(t.Context(), []byte(remembered), client.MessageOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	c, _ = historyNode(t, dir, "")
	page, err := c.History(t.Context(), admin.HistoryQuery{MessageID: "<17@shop.example.com>"})
	if err != nil || len(page.Entries) != 1 {
		t.Fatalf("history %+v, %v", page, err)
	}
	e := page.Entries[0]
	if e.Door != "http" || e.Kind != "check" || e.Class != "unknown" || e.Account != "admin" ||
		e.From != "shop.example.com" ||
		!strings.Contains(strings.Join(e.Domains, " "), "example.net") || e.Subject != "" || !e.MessageID ||
		e.SignatureCount < 5 || e.Signatures != nil {
		t.Errorf("entry %+v", e)
	}
	one, err := c.HistoryEntry(t.Context(), e.ID)
	if err != nil || len(one.Signatures) != e.SignatureCount {
		t.Errorf("entry %+v, %v", one, err)
	}
	if _, err := c.ReportMessageID(t.Context(),
		client.MessageVote{MessageID: "nobody@example.com"}); statusOf(err) != http.StatusNotFound {
		t.Errorf("a vote on an unknown message: %v", err)
	}
	receipt, err := c.ReportMessageID(t.Context(), client.MessageVote{MessageID: "17@shop.example.com"})
	if err != nil || receipt.Listed == 0 || receipt.Signatures != e.SignatureCount {
		t.Fatalf("receipt %+v, %v", receipt, err)
	}
	if v, err := c.CheckMessage(t.Context(), []byte(remembered), client.MessageOptions{}); err != nil || !v.Spam {
		t.Errorf("after the vote: %+v, %v", v, err)
	}
	if _, err := c.ReportEntry(t.Context(), e.ID, admin.RememberedVote{Vote: "revoke"}); err != nil {
		t.Fatal(err)
	}
	if v, err := c.CheckMessage(t.Context(), []byte(remembered), client.MessageOptions{}); err != nil || v.Spam {
		t.Errorf("after the revocation: %+v, %v", v, err)
	}
	page, err = c.History(t.Context(), admin.HistoryQuery{Kind: "revoke"})
	if err != nil || len(page.Entries) != 1 || page.Entries[0].Revoked == 0 {
		t.Errorf("revocations %+v, %v", page, err)
	}
}

// TestSeveralMessages checks that a sender cannot prevent votes on a message by another one with the same
// Message-ID where messages are only checked: a vote is on the latest.
func TestSeveralMessages(t *testing.T) {
	c, _ := historyNode(t, t.TempDir(), "")
	latest := strings.NewReplacer("watches", "gardens", "warehouse", "nursery", "parcel", "gardener").Replace(remembered)
	for _, text := range []string{remembered, latest} {
		if _, err := c.CheckMessage(t.Context(), []byte(text), client.MessageOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, user := range []string{"", "ann@example.com"} {
		_, err := c.ReportMessageID(t.Context(), client.MessageVote{MessageID: "17@shop.example.com", User: user})
		if err != nil {
			t.Errorf("a vote of %q on either of two messages: %v", user, err)
		}
	}
	if v, err := c.CheckMessage(t.Context(), []byte(latest), client.MessageOptions{}); err != nil || !v.Spam {
		t.Errorf("the latest: %+v, %v", v, err)
	}
}

// TestWhitelistedIsNotVotedOn checks that votes by name cannot reach a whitelisted message.
func TestWhitelistedIsNotVotedOn(t *testing.T) {
	c, _ := historyNode(t, t.TempDir(), "[whitelist]\ndomains = [\"forgeable:shop.example.com\"]\n")
	if _, err := c.CheckMessage(t.Context(), []byte(remembered), client.MessageOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.ReportMessageID(t.Context(),
		client.MessageVote{MessageID: "17@shop.example.com"}); statusOf(err) != http.StatusUnprocessableEntity {
		t.Errorf("a vote on whitelisted mail: %v", err)
	}
}

// TestDigestAfterRestart checks that a vote by a digest alone acts on the message that was seen
// before the node was restarted.
func TestDigestAfterRestart(t *testing.T) {
	dir := t.TempDir()
	c, stop := historyNode(t, dir, "")
	if _, err := c.CheckMessage(t.Context(), []byte(remembered), client.MessageOptions{}); err != nil {
		t.Fatal(err)
	}
	sigs, err := c.MessageSignatures(t.Context(), []byte(remembered))
	if err != nil {
		t.Fatal(err)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	c, _ = historyNode(t, dir, "")
	for _, s := range sigs.Signatures {
		if s.Scheme() == bulkhead.DCCBody {
			if _, err := c.Report(t.Context(),
				bulkhead.Report{Signatures: []bulkhead.Signature{s}, Vote: bulkhead.Spam}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, s := range sigs.Signatures {
		if s.Scheme() != bulkhead.Exact {
			continue
		}
		if v, err := c.Check(t.Context(), bulkhead.Query{Signatures: []bulkhead.Signature{s}}); err != nil || !v.Spam() {
			t.Errorf("the text of the message is not listed: %+v, %v", v, err)
		}
	}
}

// TestNoHistory checks that without a history there is no file, an existing one is removed, and the
// record of administration is kept all the same.
func TestNoHistory(t *testing.T) {
	dir := t.TempDir()
	_, stop := historyNode(t, dir, "[history]\nsubjects = true\n")
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, historyFile)
	if _, err := os.Stat(path); err != nil {
		t.Fatal(err)
	}
	c, _ := historyNode(t, dir, "[history]\nsize_bytes = 0\n")
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the file is still there: %v", err)
	}
	if _, err := c.History(t.Context(), admin.HistoryQuery{}); statusOf(err) != http.StatusNotFound {
		t.Errorf("history: %v", err)
	}
	if _, err := c.AddUser(t.Context(), admin.NewUser{Name: "ann"}); err != nil {
		t.Fatal(err)
	}
	page, err := c.Audit(t.Context(), admin.AuditQuery{Action: "addUser"})
	if err != nil || len(page.Entries) != 1 || page.Entries[0].About["account"] != "ann" ||
		page.Entries[0].Account != "admin" {
		t.Errorf("record %+v, %v", page, err)
	}
}
