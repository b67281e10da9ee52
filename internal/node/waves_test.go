package node

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead/client"
	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/node/manage"
)

// campaign returns a changed copy of one text.
func campaign(i int) []byte {
	return fmt.Appendf(
		nil, "From: Shop <news%[1]d@shop.example.com>\r\nMessage-ID: <w%[1]d@shop.example.com>\r\nSubject: Watches\r\n\r\n"+
			"Dear customer %[1]d, our warehouse sells wonderful golden watches for a fraction of their price this "+
			"week only.\r\n"+
			"Visit https://watches.example.net/sale today, choose among hundreds of models and pay when the parcel "+
			"arrives.\r\n", i*7919)
}

// TestWavesOfMail checks that changed copies of one text are one wave, which is explained, listed,
// revoked and whitelisted, and that other mail is not in it. The wave and the whitelist survive a
// restart, and looking at a wave adds nothing to it.
func TestWavesOfMail(t *testing.T) {
	dir := t.TempDir()
	c, stop := historyNode(t, dir, "")
	for i := range 5 {
		if _, err := c.CheckMessage(t.Context(), campaign(i), client.MessageOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.CheckMessage(t.Context(), []byte(advert), client.MessageOptions{}); err != nil {
		t.Fatal(err)
	}
	only := func() admin.Wave {
		t.Helper()
		page, err := c.Waves(t.Context(), admin.WaveQuery{})
		if err != nil || len(page.Waves) != 1 || page.Of != 1 || !page.Whole {
			t.Fatalf("waves %+v, %v", page, err)
		}
		return page.Waves[0]
	}
	w := only()
	if w.Messages != 5 || w.Class != "unknown" || len(w.Doors) != 1 || w.Doors[0].Name != "http" ||
		len(w.Senders) != 1 || w.Senders[0].Count != 5 || len(w.Domains) == 0 {
		t.Errorf("wave %+v", w)
	}
	for range 2 {
		d, err := c.Wave(t.Context(), w.ID)
		if err != nil || d.Verdict == nil || d.Verdict.Class != "unknown" || len(d.Verdict.Findings) < 20 ||
			d.Wave.Messages != 5 {
			t.Fatalf("detail %+v, %v", d, err)
		}
	}
	if _, err := c.ReportEntry(t.Context(), w.Entry, admin.RememberedVote{Vote: "spam"}); err != nil {
		t.Fatal(err)
	}
	if w = only(); w.Spam != 1 || len(w.Reporters) != 1 || w.Reporters[0].Name != "admin" || w.Messages != 5 {
		t.Errorf("after a vote: %+v", w)
	}
	if d, err := c.Wave(t.Context(), w.ID); err != nil || d.Verdict.Class != "spam" {
		t.Errorf("after a vote: %+v, %v", d, err)
	}
	if page, err := c.Waves(t.Context(), admin.WaveQuery{Class: "spam"}); err != nil || len(page.Waves) != 0 {
		t.Errorf("no check was answered with spam: %+v, %v", page, err)
	}
	added, err := c.Clear(t.Context(), admin.Clear{Entry: w.Entry, Note: "our own newsletter"})
	if err != nil || len(added) != 1 || added[0].By != "admin" {
		t.Fatalf("put on the whitelist: %+v, %v", added, err)
	}
	if again, err := c.Clear(t.Context(), admin.Clear{Entry: w.Entry}); err != nil || len(again) != 0 {
		t.Errorf("put there again: %+v, %v", again, err)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	c, stop = historyNode(t, dir, "[whitelist]\nsenders = [\"boss@example.com\"]\n")
	if w = only(); w.Messages != 5 || w.Spam != 1 {
		t.Errorf("after a restart: %+v", w)
	}
	if d, err := c.Wave(t.Context(), w.ID); err != nil || d.Verdict.Class != "good" || d.Verdict.Whitelisted == "" {
		t.Errorf("on the whitelist: %+v, %v", d, err)
	}
	white, err := c.Whitelist(t.Context())
	if err != nil || len(white) != 1 || white[0].Note != "our own newsletter" {
		t.Fatalf("whitelist %+v, %v", white, err)
	}
	for range 2 {
		err := c.Unclear(t.Context(), white[0].Signature)
		if white, err2 := c.Whitelist(t.Context()); err2 != nil || len(white) != 0 {
			t.Errorf("whitelist %+v, %v", white, err2)
		}
		if status := statusOf(err); err != nil && status != http.StatusNotFound {
			t.Error(err)
		}
	}
	if d, err := c.Wave(t.Context(), w.ID); err != nil || d.Verdict.Class != "spam" {
		t.Errorf("off the whitelist: %+v, %v", d, err)
	}
	if _, err := c.Wave(t.Context(), w.ID+1); statusOf(err) != http.StatusNotFound {
		t.Errorf("an unknown wave: %v", err)
	}
	if _, err := c.Clear(t.Context(), admin.Clear{Entry: 1}); statusOf(err) != http.StatusNotFound {
		t.Errorf("an unknown entry: %v", err)
	}
	if _, err := c.Waves(t.Context(),
		admin.WaveQuery{Sort: "colour"}); statusOf(err) != http.StatusUnprocessableEntity &&
		statusOf(err) != http.StatusBadRequest {
		t.Errorf("an unknown order: %v", err)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	// A damaged whitelist must not drop the cleared signatures.
	if err := os.WriteFile(filepath.Join(dir, manage.WhitelistFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(),
		Options{Config: parse(t, "[listen]\nhttp = \"127.0.0.1:0\"\n"), Dir: dir}); err == nil ||
		!strings.Contains(err.Error(), manage.WhitelistFile) {
		t.Errorf("with a damaged whitelist: %v", err)
	}
}

// TestWavesPage checks that the page lists waves and explains one, and that its buttons list,
// revoke and whitelist.
func TestWavesPage(t *testing.T) {
	base, root, _ := pagesOf(t)
	b := newBrowser(t, base)
	status, page := b.get("/waves")
	wants(t, "a stranger's", status, page, 401, "for administrators")
	logIn(t, b, root)
	status, page = b.get("/waves")
	wants(t, "empty", status, page, 200, "No text has come twice yet")
	for i := range 3 {
		if _, err := root.CheckMessage(t.Context(), campaign(i), client.MessageOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	status, page = b.get("/waves")
	wants(t, "waves", status, page, 200, "3 messages", "unknown", "no reports", "shop.example.com 3", "http 3", "<svg")
	got, err := root.Waves(t.Context(), admin.WaveQuery{})
	if err != nil || len(got.Waves) != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	w := got.Waves[0]
	id := strconv.FormatInt(w.ID, 10)
	form := func(do string) url.Values {
		return url.Values{"id": {id}, "entry": {strconv.FormatInt(w.Entry, 10)}, "do": {do}, "note": {"ours"}}
	}
	status, page = b.get("/waves?id=" + id)
	wants(t, "one wave", status, page, 200, "20 bands: 0 listed", "Changed copies of the text", "It is spam",
		"White-list this text", "Growth")
	status, page = b.form("/waves", form("spam"))
	wants(t, "listed", status, page, 200, "Voted spam", "20 listed", "1 spam vote", "20 bands: 20 listed")
	status, page = b.form("/waves", form("revoke"))
	wants(t, "revoked", status, page, 200, "Voted revoke", "20 revoked", "1 revocation")
	status, page = b.form("/waves", form("clear"))
	wants(t, "white-listed", status, page, 200, "1 signature put on the whitelist", "good")
	status, page = b.get("/rules")
	wants(t, "the whitelist", status, page, 200, "White-listed texts", "ours", "bulkhead/exact:")
	white, err := root.Whitelist(t.Context())
	if err != nil || len(white) != 1 {
		t.Fatalf("%+v, %v", white, err)
	}
	status, page = b.form("/rules", url.Values{"do": {"unclear"}, "name": {white[0].Signature.String()}})
	wants(t, "removed", status, page, 200, "off the whitelist", "None yet")
	status, page = b.form("/waves", form("burn"))
	wants(t, "an unknown button", status, page, 400, "unknown action")
	b.site = "cross-site"
	status, page = b.form("/waves", form("spam"))
	wants(t, "another site's form", status, page, 403)
}
