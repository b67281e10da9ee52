package node

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client"
	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/testing/await"
)

// TestConfigPage checks that the page has the configuration without secrets, checks a text without
// changing anything, and makes the node read its file again.
func TestConfigPage(t *testing.T) {
	cfg := parse(t, "[listen]\nhttp = \"127.0.0.1:0\"\n[fuzzy]\nhash_key = \"hush-hush\"\n[tally]\nthreshold = 33\n")
	var n *Node
	wrong := errors.New("the file is broken")
	fail := true
	n, _ = start(t, Options{Config: cfg, Dir: filepath.Join(t.TempDir(), "data"),
		Reread: func() (changed, restart []string, err error) {
			if fail {
				return nil, nil, wrong
			}
			return n.Reload(
				parse(t, "[listen]\nhttp = \"127.0.0.1:0\"\n[fuzzy]\nhash_key = \"another\"\n[tally]\nthreshold = 44\n"))
		}})
	token, err := ReadSecret(n.AdminTokenFile())
	if err != nil {
		t.Fatal(err)
	}
	base := address(t, n, "http")
	root := &admin.Client{Client: client.Client{Server: base, Token: token, HTTP: &http.Client{Timeout: time.Minute}}}
	b := newBrowser(t, base)
	status, page := b.get("/config")
	wants(t, "a stranger's", status, page, 401, "for administrators")
	logIn(t, b, root)
	status, page = b.get("/config")
	wants(t, "configuration", status, page, 200, "threshold", ">33<", "(hidden)", "Read the file again", "[mesh]")
	if strings.Contains(page, "hush") {
		t.Error("the page shows a secret")
	}
	do := func(what, text string) (int, string) {
		return b.form("/config", url.Values{"do": {what}, "text": {text}})
	}
	status, page = do(
		"check", "[listen]\r\nhttp = \"127.0.0.1:0\"\r\n[tally]\r\nthreshold = 55\r\n[node]\r\nname = \"x\"\r\n")
	wants(t, "a good text", status, page, 200, "No mistakes", "tally.threshold", "node.name")
	status, page = do("check", "[tally]\nthreshhold = 55\nnear_match = 0\n")
	wants(t, "a bad text", status, page, 200, "Nothing was changed", "threshhold")
	status, page = do("reload", "")
	wants(t, "a broken file", status, page, 200, "1 mistake", "the file is broken", ">33<")
	fail = false
	status, page = do("reload", "")
	wants(t, "reloaded", status, page, 200, "was read again", "tally.threshold", "fuzzy.hash_key", ">44<")
	status, page = do("drop", "")
	wants(t, "an unknown button", status, page, 400, "unknown action")
	audit, err := root.Audit(t.Context(), admin.AuditQuery{Action: "reloadConfig"})
	if err != nil || len(audit.Entries) != 2 || !strings.Contains(audit.Entries[0].About["changed"], "tally.threshold") {
		t.Errorf("recorded %+v, %v", audit, err)
	}
}

// TestWithoutFile checks that a node without a configuration file reports that.
func TestWithoutFile(t *testing.T) {
	_, root, _ := pagesOf(t)
	if c, err := root.Config(t.Context()); err != nil || c.Reloadable || len(c.Settings) < 100 {
		t.Errorf("%+v, %v", c, err)
	}
	if _, err := root.ReloadConfig(t.Context()); statusOf(err) != http.StatusConflict {
		t.Errorf("a reload: %v", err)
	}
}

// TestPeoplePage checks that the page has the weights of each account over time, and the actions of
// administrators. An attempt at an action reserved to them is recorded once.
func TestPeoplePage(t *testing.T) {
	base, root, _ := pagesOf(t)
	bob, err := root.AddUser(t.Context(), admin.NewUser{Name: "bob", Role: "reporter"})
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if _, err := (&admin.Client{Client: client.Client{Server: base,
			Token: bob.Token}}).Users(t.Context()); statusOf(err) != http.StatusForbidden {
			t.Fatal(err)
		}
	}
	got, err := root.Audit(t.Context(), admin.AuditQuery{Action: "refused"})
	if err != nil || len(got.Entries) != 1 || got.Entries[0].Account != "bob" ||
		got.Entries[0].About["path"] != "/v1/users" || got.Entries[0].Error == "" {
		t.Fatalf("recorded %+v, %v", got, err)
	}
	b := newBrowser(t, base)
	logIn(t, b, root)
	await.True(t, "weights are recorded after the start", func() bool {
		w, err := root.Weights(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return len(w) > 0
	})
	status, page := b.get("/people")
	wants(t, "people", status, page, 200, "Worth of admin: 1.00", "Record of administration", "addUser", "account bob",
		"refused", "failed")
	b2 := newBrowser(t, base)
	b2.form("/login", url.Values{"token": {bob.Token}})
	status, page = b2.get("/people")
	wants(t, "a reporter's", status, page, 403, "bob is none")
}

// TestTopKeysPage checks that only administrators see the keys with the highest rates.
func TestTopKeysPage(t *testing.T) {
	root, _ := historyNode(t, t.TempDir(),
		"[[ratelimit]]\nname = \"sent\"\nkey = \"{sasl_username}\"\nlimit = 4\nperiod = \"1h\"\naction = \"reject\"\n")
	for i := range 6 {
		for _, who := range []string{"ann", "bob"}[:1+i%2] {
			if _, err := root.ApplyRateLimits(t.Context(),
				map[string]string{"protocol_state": "RCPT", "sasl_username": who + "@example.com"}); err != nil {
				t.Fatal(err)
			}
		}
	}
	b := newBrowser(t, root.Server)
	status, page := b.get("/rules")
	wants(t, "a stranger's", status, page, 200, "sent")
	if strings.Contains(page, "ann@example.com") {
		t.Error("a stranger sees a key")
	}
	logIn(t, b, root)
	status, page = b.get("/rules")
	wants(t, "the administrator's", status, page, 200, "Top keys of sent", "ann@example.com", "bob@example.com")
	if strings.Index(page, "ann@example.com") > strings.Index(page, "bob@example.com") {
		t.Error("bob is before ann")
	}
	status, page = b.form("/rules", url.Values{"do": {"reset sent"}, "name": {"ann@example.com"}})
	wants(t, "forgotten", status, page, 200, "forgotten in 1 rule", "bob@example.com")
	if strings.Contains(page, "Forget ann@example.com") {
		t.Error("ann is still there")
	}
}

// TestWhoVoted checks that Look up names the reporters of a message, and People the recent voters,
// for administrators alone. Users on whose behalf others report are among them, and their votes can
// be undone there, including those for a service that is another person's account.
func TestWhoVoted(t *testing.T) {
	base, root, _ := pagesOf(t)
	service, err := root.AddUser(t.Context(), admin.NewUser{Name: "imap", Role: "trusted"})
	if err != nil {
		t.Fatal(err)
	}
	person := "local"
	if _, err := root.ChangeUser(t.Context(), "imap", admin.UserChange{Person: &person}); err != nil {
		t.Fatal(err)
	}
	b := newBrowser(t, base)
	logIn(t, b, root)
	status, page := b.get("/people")
	wants(t, "people", status, page, 200, "Who voted lately", "No votes yet", "not known yet")
	status, page = b.get("/history")
	wants(t, "no history", status, page, 200, "No check and no report yet")
	if status, page = b.upload(advert); strings.Contains(page, "Who reported it") {
		t.Errorf("before any report: %d %s", status, page)
	}
	for _, by := range []struct{ token, user string }{{service.Token, "ann@example.com"}, {"", "carl"},
		{root.Token, ""}} {
		if _, err := (admin.New(base, by.token)).ReportMessage(t.Context(), []byte(advert),
			client.MessageOptions{Vote: bulkhead.Spam, User: by.user}); err != nil {
			t.Fatal(by, err)
		}
	}
	status, page = b.upload(advert)
	wants(t, "looked up", status, page, 200, "Who reported it", "ann@example.com by imap", ">carl<", ">admin<", " listed")
	if n := strings.Count(page, "ann@example.com by imap"); n != 1 {
		t.Errorf("ann's report is shown %d times", n)
	}
	status, page = newBrowser(t, base).upload(advert)
	wants(t, "a stranger's", status, page, 200, "confidence")
	if strings.Contains(page, "carl") {
		t.Error("a stranger sees who reported")
	}
	status, page = b.get("/people")
	wants(t, "voters", status, page, 200, ">ann@example.com by imap</a>", `value="user:imap=ann@example.com"`,
		"/history?reporter=ann%40example.com", `value="user:carl"`, `value="account:admin"`, "Undo user carl")
	status, page = b.agree("/people", url.Values{"name": {"imap=ann@example.com"}, "do": {"undo"}, "days": {"1"}})
	wants(t, "ann undone", status, page, 200, "are taken back")
	if strings.Contains(page, "on 0 signatures") {
		t.Error("nothing of ann's was undone")
	}
	status, page = b.agree("/people", url.Values{"name": {"carl"}, "do": {"undo"}, "days": {"1"}})
	wants(t, "carl undone", status, page, 200, "are taken back")
	status, page = b.agree("/people", url.Values{"name": {"admin"}, "do": {"undo"}, "days": {"1"}})
	wants(t, "admin undone", status, page, 200, "are taken back")
	if v, err := root.CheckMessage(t.Context(), []byte(advert), client.MessageOptions{}); err != nil || v.Spam {
		t.Errorf("without a vote it is %+v, %v", v, err)
	}
	status, page = b.form("/people", url.Values{"name": {"imap=../x"}, "do": {"undo"}, "days": {"1"}})
	wants(t, "a user who cannot be", status, page, 400, "contains")
}

// TestUndoWhom checks that a name shared by an account and users of services is refused if several
// of them have voted. The error lists unambiguous names, and each of these undoes the votes of that
// voter alone.
func TestUndoWhom(t *testing.T) {
	base, root, _ := pagesOf(t)
	tokens := map[string]string{"": ""}
	for _, name := range []string{"ann", "imap", "web"} {
		made, err := root.AddUser(t.Context(), admin.NewUser{Name: name, Role: "trusted"})
		if err != nil {
			t.Fatal(err)
		}
		tokens[name] = made.Token
	}
	since := time.Now().Add(-time.Hour)
	undo := func(name string) (votes int, err error) {
		undone, err := root.UndoVotes(t.Context(), name, since)
		if err != nil {
			return 0, err
		}
		return undone.Votes, nil
	}
	// Each voter has a text of their own.
	voters := []struct{ by, user, name string }{
		{"ann", "", "account:ann"}, {"", "ann", "user:ann"}, {"imap", "ann", "user:imap=ann"}, {"web", "ann", "user:web=ann"},
	}
	vote := func(i int) {
		t.Helper()
		text := fmt.Sprintf(
			"From: a@example.com\r\nSubject: %d\r\n\r\nThe offer of number %[1]d, which nobody else has, for readers "+
				"of list %[1]d.\r\n",
			i)
		c := admin.New(base, tokens[voters[i].by])
		if _, err := c.ReportMessage(t.Context(), []byte(text),
			client.MessageOptions{Vote: bulkhead.Spam, User: voters[i].user}); err != nil {
			t.Fatal(err)
		}
	}
	// If only one has voted, the bare name means that voter.
	for i, v := range voters {
		vote(i)
		if n, err := undo("ann"); n == 0 || err != nil {
			t.Errorf("ann, where only %s has voted: %d, %v", v.name, n, err)
		}
		if n, err := undo(v.name); n == 0 || err != nil { // undone votes stay on record
			t.Errorf("%s: %d, %v", v.name, n, err)
		}
		since = time.Now().Add(time.Second)
		for time.Now().Before(since) {
			time.Sleep(time.Until(since))
		}
	}
	for i := range voters {
		vote(i)
	}
	_, err := undo("ann")
	if statusOf(err) != http.StatusConflict {
		t.Fatalf("ann: %v, want a conflict", err)
	}
	for _, v := range voters {
		if !strings.Contains(err.Error(), v.name) {
			t.Errorf("%v does not name %s", err, v.name)
		}
		if n, err := undo(v.name); n == 0 || err != nil {
			t.Errorf("%s: %d, %v", v.name, n, err)
		}
	}
	for i := range voters {
		text := fmt.Sprintf(
			"From: a@example.com\r\nSubject: %d\r\n\r\nThe offer of number %[1]d, which nobody else has, for readers "+
				"of list %[1]d.\r\n",
			i)
		if v, err := root.CheckMessage(t.Context(), []byte(text), client.MessageOptions{}); err != nil || v.Spam {
			t.Errorf("what %s has voted on is %+v, %v", voters[i].name, v, err)
		}
	}
	if _, err := undo("account:nobody"); statusOf(err) != http.StatusNotFound {
		t.Errorf("no account: %v", err)
	}
	if _, err := undo("user:../x"); statusOf(err) != http.StatusBadRequest {
		t.Errorf("no name: %v", err)
	}
	if n, err := undo("nobody"); n != 0 || err != nil {
		t.Errorf("nobody: %d, %v", n, err)
	}
}

// TestAccuracy checks that an account's accuracy follows the reports that others confirm or revoke.
func TestAccuracy(t *testing.T) {
	for _, tt := range []struct {
		confirmed, reverted uint32
		share               float64
		of                  uint64
	}{{0, 0, 0, 0}, {3, 1, 0.75, 4}, {0, 2, 0, 2}, {1<<32 - 1, 1<<32 - 1, 0.5, 1<<33 - 2}} {
		if share, of := (&admin.User{Confirmed: tt.confirmed, Reverted: tt.reverted}).Accuracy(); share != tt.share ||
			of != tt.of {
			t.Errorf("%d confirmed, %d reverted: %v of %d, want %v of %d", tt.confirmed, tt.reverted, share, of, tt.share, tt.of)
		}
	}
}

// TestPassword checks that a browser logs in only with the name and password of an account. A new
// password ends the session, and removing the password ends such log-ins.
func TestPassword(t *testing.T) {
	base, root, _ := pagesOf(t)
	for _, name := range []string{"ann", "bob"} {
		if _, err := root.AddUser(t.Context(), admin.NewUser{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	set := func(password string) error { return root.SetSecret(t.Context(), "ann", "pages", password) }
	const password = "correct horse battery"
	if err := set("elevenchars"); statusOf(err) != http.StatusBadRequest {
		t.Errorf("eleven characters: %v", err)
	}
	token, err := root.NewToken(t.Context(), "bob")
	if err != nil {
		t.Fatal(err)
	}
	logsIn := func(b *browser, name, password string) bool {
		t.Helper()
		b.form("/login", url.Values{"name": {name}, "token": {password}})
		_, page := b.get("/")
		return strings.Contains(page, name+" <button>Log out")
	}
	if logsIn(newBrowser(t, base), "ann", password) {
		t.Error("ann logs in before anybody has a password")
	}
	if err := set(password); err != nil {
		t.Fatal(err)
	}
	b := newBrowser(t, base)
	for _, name := range []string{"", "bulkhead", "ann"} { // as browsers keep it
		b.form("/login", url.Values{"name": {name}, "token": {token.Token}})
		if _, page := b.get("/"); !strings.Contains(page, "bob <button>Log out") {
			t.Errorf("bob's token under the name %q does not log bob in", name)
		}
	}
	if b = newBrowser(t, base); !logsIn(b, "ann", password) {
		t.Fatal("ann cannot log in")
	}
	for _, wrong := range [][2]string{{"ann", password + " "}, {"bob", password}, {"bob", ""}, {"nobody", password},
		{"Ann", password}} {
		if logsIn(newBrowser(t, base), wrong[0], wrong[1]) {
			t.Errorf("%q logs in with %q", wrong[0], wrong[1])
		}
	}
	if err := set("another correct horse"); err != nil {
		t.Fatal(err)
	}
	if _, page := b.get("/"); strings.Contains(page, "Log out") {
		t.Error("the session outlives the password")
	}
	if logsIn(b, "ann", password) || !logsIn(b, "ann", "another correct horse") {
		t.Error("the old password still holds")
	}
	closed := true
	if _, err := root.ChangeUser(t.Context(), "ann", admin.UserChange{Closed: &closed}); err != nil {
		t.Fatal(err)
	}
	if logsIn(newBrowser(t, base), "ann", "another correct horse") {
		t.Error("a closed account logs in")
	}
	closed = false
	if _, err := root.ChangeUser(t.Context(), "ann", admin.UserChange{Closed: &closed}); err != nil {
		t.Fatal(err)
	}
	if err := set(""); err != nil {
		t.Fatal(err)
	}
	if logsIn(newBrowser(t, base), "ann", "another correct horse") {
		t.Error("a password that was removed still holds")
	}
}
