package node

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead/client"
	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/config"
	"github.com/bulkhead-mail/bulkhead/internal/lists"
)

// undoToken is the token in the line that reports a change.
var undoToken = regexp.MustCompile(`name="undo" value="([^"]+)"`)

// undo takes back the change that a page reports.
func (b *browser) undo(page string) (int, string) {
	b.t.Helper()
	token := undoToken.FindStringSubmatch(page)
	if token == nil {
		b.t.Fatalf("nothing to undo: %.500s", page)
	}
	return b.form("/undo", url.Values{"undo": {token[1]}})
}

// TestAccountPage checks that an account is made, changed, given a token and a password on the pages, and
// that each change is undone or asked about.
func TestAccountPage(t *testing.T) {
	base, root, _ := pagesOf(t)
	b := newBrowser(t, base)
	logIn(t, b, root)
	user := func(name string) *admin.User {
		t.Helper()
		u, err := root.User(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	status, page := b.form("/people", url.Values{"do": {"add"}, "name": {"nina"}, "role": {"trusted"}, "weight": {"0.5"}})
	wants(t, "added", status, page, 200, "Account nina is made.", "Token of nina", "It is shown once")
	token := regexp.MustCompile(`id="token">([^<]+)<`).FindStringSubmatch(page)
	if token == nil {
		t.Fatalf("no token: %.1000s", page)
	}
	who, err := (&admin.Client{Client: client.Client{Server: base, Token: token[1]}}).Whoami(t.Context())
	if u := user("nina"); err != nil || who.Account != "nina" || u.Role != "trusted" || u.Weight != 0.5 {
		t.Errorf("%+v, %v, %+v", who, err, u)
	}
	status, page = b.undo(page)
	wants(t, "undone", status, page, 200, "removed again")
	if _, err := root.User(t.Context(), "nina"); statusOf(err) != http.StatusNotFound {
		t.Errorf("nina is still there: %v", err)
	}
	if _, err := root.AddUser(t.Context(), admin.NewUser{Name: "ann"}); err != nil {
		t.Fatal(err)
	}
	status, page = b.form("/people", url.Values{"do": {"role"}, "name": {"ann"}, "role": {"trusted"}})
	wants(t, "role", status, page, 200, "The role of ann is trusted.")
	status, page = b.undo(page)
	wants(t, "role undone", status, page, 200, "The role of ann is reporter.", "All accounts")
	before := user("ann").Weight
	_, page = b.form("/people", url.Values{"do": {"weigh"}, "name": {"ann"}, "weight": {"0.75"}, "page": {"one"}})
	if u := user("ann"); u.Weight != 0.75 {
		t.Errorf("the weight is %v", u.Weight)
	}
	b.undo(page)
	if u := user("ann"); u.Weight != before || u.Role != "reporter" {
		t.Errorf("undone, ann is %+v", u)
	}
	status, page = b.form("/people", url.Values{"do": {"secret pages"}, "name": {"ann"}, "secret": {"short"}})
	wants(t, "a short password", status, page, 400, "12")
	status, page = b.form("/people",
		url.Values{"do": {"secret pages"}, "name": {"ann"}, "secret": {"correct horse battery"}})
	wants(t, "a password", status, page, 200, "The secret of ann for pages is set.")
	if strings.Contains(page, "correct horse") {
		t.Error("the page shows the password")
	}
	status, page = b.agree("/people", url.Values{"do": {"unset pages"}, "name": {"ann"}}, "can no longer log in")
	wants(t, "removed", status, page, 200, "is removed")
	if u := user("ann"); len(u.Protocols) > 0 {
		t.Errorf("ann has secrets for %q", u.Protocols)
	}
	status, page = b.agree("/people", url.Values{"do": {"token"}, "name": {"ann"}}, "stops working at once")
	wants(t, "a new token", status, page, 200, "Token of ann")
	_, page = b.agree("/people", url.Values{"do": {"close"}, "name": {"ann"}})
	if !user("ann").Closed {
		t.Error("ann is open")
	}
	b.undo(page)
	if user("ann").Closed {
		t.Error("ann is closed")
	}
	status, page = b.form("/undo", url.Values{"undo": {"nonsense"}})
	wants(t, "an unknown change", status, page, 400, "can no longer be taken back")
	status, page = b.get("/people?name=nobody")
	wants(t, "no such account", status, page, 404)
}

// TestListPage checks that the entries of a list are added, imported and removed on the page, that a dry
// run changes nothing, and that each change is undone.
func TestListPage(t *testing.T) {
	dir := t.TempDir()
	text, path := filepath.Join(dir, "bad.txt"), filepath.Join(dir, "bad.list")
	if err := os.WriteFile(text, []byte("start.example\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := lists.Build(t.Context(), path, []string{text}, lists.Options{Capacity: 1000}); err != nil {
		t.Fatal(err)
	}
	root, _ := historyNode(t, dir, "[[lists.list]]\nname = \"bad\"\npath = \""+path+"\"\n")
	found := func(entry string) bool {
		t.Helper()
		all, err := root.FindInLists(t.Context(), entry)
		if err != nil {
			t.Fatal(err)
		}
		return len(all) > 0
	}
	edit := func(b *browser, do, entries, dry string) (int, string) {
		return b.form("/rules", url.Values{"list": {"bad"}, "do": {do}, "entries": {entries}, "dry": {dry}})
	}
	b := newBrowser(t, root.Server)
	status, page := edit(b, "list-add", "a.example", "")
	wants(t, "a stranger's", status, page, 401)
	logIn(t, b, root)
	status, page = edit(b, "list-add", "a.example\r\nstart.example\r\n# comment\r\n", "true")
	wants(t, "a dry run", status, page, 200, "which changes nothing: 1 entry added, 1 entry in it already.")
	if found("a.example") {
		t.Error("the dry run added an entry")
	}
	status, page = edit(b, "list-add", "a.example\nb.example", "")
	wants(t, "added", status, page, 200, "List bad: 2 entries added.")
	if !found("www.a.example") || !found("b.example") {
		t.Error("the entries are not in the list")
	}
	status, page = b.undo(page)
	wants(t, "undone", status, page, 200, "2 entries removed")
	if found("a.example") {
		t.Error("an undone entry is in the list")
	}
	status, page = edit(b, "list-remove", "start.example\nabsent.example", "")
	wants(t, "removed", status, page, 200, "1 entry removed, 1 entry not in it")
	if found("start.example") {
		t.Error("a removed entry is in the list")
	}
	status, page = b.undo(page)
	wants(t, "restored", status, page, 200, "1 entry back in")
	if !found("start.example") {
		t.Error("the restored entry is not in the list")
	}
	status, page = edit(b, "list-add", "good.example\nnot an entry", "")
	wants(t, "a mistake", status, page, 400, "line 2")
	if found("good.example") {
		t.Error("a form with a mistake added an entry")
	}
	if _, err := root.EditList(t.Context(), "absent", admin.ListEdit{}); statusOf(err) != http.StatusNotFound {
		t.Errorf("an unknown list: %v", err)
	}
}

// TestReloadPreview checks that reading the configuration file again asks first, with each value that
// differs, and that a preview changes nothing and shows no secret.
func TestReloadPreview(t *testing.T) {
	const before = "[listen]\nhttp = \"127.0.0.1:0\"\n[fuzzy]\nhash_key = \"hush-hush\"\n[tally]\nthreshold = 33\n"
	file := strings.Replace(strings.Replace(before, "33", "44", 1), "hush-hush", "hush-again", 1)
	var n *Node
	n, _ = start(t, Options{Config: parse(t, before), Dir: filepath.Join(t.TempDir(), "data"),
		File:   func() (*config.Config, error) { return config.Examine([]byte(file)) },
		Reread: func() (changed, restart []string, err error) { return n.Reload(parse(t, file)) }})
	token, err := ReadSecret(n.AdminTokenFile())
	if err != nil {
		t.Fatal(err)
	}
	base := address(t, n, "http")
	root := &admin.Client{Client: client.Client{Server: base, Token: token, HTTP: &http.Client{Timeout: time.Minute}}}
	b := newBrowser(t, base)
	logIn(t, b, root)
	status, page := b.form("/config", url.Values{"do": {"reload"}})
	wants(t, "the question", status, page, 200, "Read the configuration file again?", "1 key takes effect at once.",
		"1 key waits until a restart: fuzzy.hash_key.",
		"tally.threshold", ">33<", ">44<")
	got, err := root.PreviewReload(t.Context())
	if err != nil || len(got.Diff) != 1 || got.Diff[0] != (admin.SettingChange{Key: "tally.threshold", Now: "33",
		Then: "44", Reload: true}) || strings.Contains(page, "hush") {
		t.Errorf("%+v, %v", got, err)
	}
	status, page = b.agree("/config", url.Values{"do": {"reload"}})
	wants(t, "reloaded", status, page, 200, "was read again", ">44<")
	file = "[tally]\nthreshhold = 1\n"
	status, page = b.form("/config", url.Values{"do": {"reload"}})
	wants(t, "a mistake", status, page, 200, "Nothing was changed", "threshhold")
}
