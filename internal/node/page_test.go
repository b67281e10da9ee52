package node

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"log/slog"
	"mime/multipart"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client"
	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/testing/await"
)

// A browser has cookies, follows redirects, and sends the headers of a browser.
type browser struct {
	t    *testing.T
	http *http.Client
	base string
	site string // Sec-Fetch-Site of its forms
}

func newBrowser(t *testing.T, base string) *browser {
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &browser{t, &http.Client{Jar: jar, Timeout: time.Minute}, base, "same-origin"}
}

func (b *browser) do(method, path, contentType string, body io.Reader) (int, string) {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), method, b.base+path, body)
	if err != nil {
		b.t.Fatal(err)
	}
	r.Header.Set("Accept", "text/html")
	if method == "POST" {
		r.Header.Set("Content-Type", contentType)
		r.Header.Set("Sec-Fetch-Site", b.site)
	}
	resp, err := b.http.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return resp.StatusCode, string(all)
}

func (b *browser) get(path string) (int, string) { return b.do("GET", path, "", nil) }

func (b *browser) form(path string, values url.Values) (int, string) {
	return b.do("POST", path, "application/x-www-form-urlencoded", strings.NewReader(values.Encode()))
}

// agreement is the token in the question of a page.
var agreement = regexp.MustCompile(`name="agreed" value="([^"]+)"`)

// sinceField is the time in the question of a page.
var sinceField = regexp.MustCompile(`name="since" value="([^"]+)"`)

// agree sends a form, checks that the answer asks with the given text, and agrees.
func (b *browser) agree(path string, values url.Values, question ...string) (int, string) {
	b.t.Helper()
	status, page := b.form(path, values)
	wants(b.t, "question of "+values.Encode(), status, page, 200, append(question, ">Cancel</a>")...)
	token := agreement.FindStringSubmatch(page)
	if token == nil {
		b.t.Fatalf("no question: %.500s", page)
	}
	second := url.Values{"name": values["name"], "do": values["do"], "agreed": {token[1]}}
	if since := sinceField.FindStringSubmatch(page); since != nil {
		second.Set("since", since[1])
	}
	return b.form(path, second)
}

// paste looks up a text pasted into the form of the page.
func (b *browser) paste(text string) (int, string) {
	var body bytes.Buffer
	w := multipart.NewWriter(&body)
	if err := errors.Join(w.WriteField("text", text), w.Close()); err != nil {
		b.t.Fatal(err)
	}
	return b.do("POST", "/lookup", w.FormDataContentType(), &body)
}

// upload sends the form of the page that looks a message up.
func (b *browser) upload(text string) (int, string) {
	var body bytes.Buffer
	w := multipart.NewWriter(&body)
	f, err := w.CreateFormFile("file", "a.eml")
	if err != nil {
		b.t.Fatal(err)
	}
	io.WriteString(f, text)
	w.Close()
	return b.do("POST", "/lookup", w.FormDataContentType(), &body)
}

func wants(t *testing.T, what string, status int, page string, wantStatus int, text ...string) {
	t.Helper()
	if status != wantStatus {
		t.Errorf("%s: status %d, want %d: %.300s", what, status, wantStatus, page)
	}
	for _, s := range text {
		if !strings.Contains(page, s) {
			t.Errorf("%s: the page lacks %q", what, s)
		}
	}
}

const advert = "From: Ann <ann@shop.example>\r\nSubject: cheap watches\r\nMessage-ID: <1@shop.example>\r\n\r\n" +
	"Dear customer, our finest watches are cheaper than ever before this week.\r\n" +
	"Order today and we will send you another one without any charge at all.\r\n" +
	"Nobody else offers such quality at such a price, as our customers confirm.\r\n"

// pagesOf opens a node, and makes a client of its administrator.
func pagesOf(t *testing.T) (base string, root *admin.Client, stop func() error) {
	n, stop := start(t, Options{Config: httpDoor(t), Dir: filepath.Join(t.TempDir(), "data"), Version: "v1"})
	token, err := ReadSecret(n.AdminTokenFile())
	if err != nil {
		t.Fatal(err)
	}
	base = address(t, n, "http")
	root = admin.New(base, token)
	root.HTTP = &http.Client{Timeout: time.Minute}
	return base, root, stop
}

// logIn logs a browser in by a link, as a person does.
func logIn(t *testing.T, b *browser, root *admin.Client) (link string) {
	t.Helper()
	l, err := root.NewLoginLink(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	status, page := b.get(l.Path)
	wants(t, "the link", status, page, 200, "Log in")
	u, err := url.Parse(l.Path)
	if err != nil {
		t.Fatal(err)
	}
	link = u.Query().Get("link")
	status, page = b.form("/login", url.Values{"link": {link}})
	wants(t, "logged in", status, page, 200, "Log out", "Running for")
	return link
}

// TestPagesWithoutLogin checks that a user of the node's machine may look and vote, and that the
// administrator's pages need a log-in.
func TestPagesWithoutLogin(t *testing.T) {
	base, _, _ := pagesOf(t)
	b := newBrowser(t, base)
	status, page := b.get("/")
	wants(t, "now", status, page, 200, "Running for", "Log in", "The node is young")
	status, page = b.upload(advert)
	wants(t, "unknown mail", status, page, 200, "unknown", "bulkhead/exact:", "It is spam")
	_, message, _ := strings.Cut(page, `name="message" value="`)
	message, _, _ = strings.Cut(message, `"`)
	status, page = b.form("/vote", url.Values{"message": {message}, "vote": {"spam"}})
	wants(t, "vote", status, page, 200, "Voted spam")
	for _, path := range []string{"/people", "/peers", "/history"} {
		status, page = b.get(path)
		wants(t, path, status, page, 401, "for administrators")
	}
	status, page = b.form("/people", url.Values{"name": {"admin"}, "do": {"close"}})
	wants(t, "closing an account", status, page, 401, "for administrators")
	for path, text := range map[string]string{"/rules": "No list yet", "/storage": "Blocklist"} {
		status, page = b.get(path)
		wants(t, path, status, page, 200, text)
	}
	status, page = b.get("/nowhere")
	wants(t, "nowhere", status, page, 404, "nothing is at")
	status, page = b.get("/v1/nowhere")
	wants(t, "no operation", status, page, 404, `"status":404`)
}

// TestHistoryPage checks that an administrator finds checked messages, and votes on one.
func TestHistoryPage(t *testing.T) {
	base, root, _ := pagesOf(t)
	b := newBrowser(t, base)
	logIn(t, b, root)
	status, page := b.get("/history")
	wants(t, "empty", status, page, 200, "No check and no report yet")
	status, page = b.get("/history?kind=spam")
	wants(t, "nothing found", status, page, 200, "Nothing of that kind")
	status, page = b.upload(advert)
	wants(t, "unknown mail", status, page, 200, "unknown")
	var id string
	await.True(t, "the check is in the history, whose entries are written in batches", func() bool {
		status, page = b.get("/history?kind=check&class=unknown")
		wants(t, "history", status, page, 200, "Search")
		_, id, _ = strings.Cut(page, `name="id" value="`)
		id, _, _ = strings.Cut(id, `"`)
		return id != ""
	})
	status, page = b.get("/history?class=spam")
	wants(t, "nothing of that class", status, page, 200, "Nothing of that kind")
	status, page = b.get("/history?id=" + id)
	wants(t, "one entry", status, page, 200, "bulkhead/exact:", "check through http")
	status, page = b.form("/history", url.Values{"id": {id}, "vote": {"spam"}})
	wants(t, "a vote", status, page, 200, "Voted spam")
	if v, err := root.CheckMessage(t.Context(), []byte(advert), client.MessageOptions{}); err != nil || !v.Spam {
		t.Errorf("after a vote on the entry: %+v, %v", v, err)
	}
	for _, path := range []string{"/history?id=x", "/history?id=-1", "/history?before=x"} {
		status, page = b.get(path)
		wants(t, path, status, page, 400, "number of an entry")
	}
	status, page = b.form("/history", url.Values{"id": {"1"}, "vote": {"spam"}})
	wants(t, "no such entry", status, page, 404, "no such message")
	status, page = b.form("/history", url.Values{"id": {id}, "vote": {"perhaps"}})
	wants(t, "no such vote", status, page, 400, "Bad Request")
}

// TestPagesOfAdministrator checks that a link logs in once, that votes are visible and can be
// undone, that accounts are weighed and closed, and that the session ends with the log-out.
func TestPagesOfAdministrator(t *testing.T) {
	base, root, _ := pagesOf(t)
	b := newBrowser(t, base)
	link := logIn(t, b, root)
	status, page := newBrowser(t, base).form("/login", url.Values{"link": {link}})
	wants(t, "a link for the second time", status, page, 200, "That did not work")

	if _, err := root.AddUser(t.Context(), admin.NewUser{Name: "<ann>", Role: "trusted"}); err == nil {
		t.Error("a name like <ann> was taken")
	}
	token, err := root.AddUser(t.Context(), admin.NewUser{Name: "ann", Role: "trusted"})
	if err != nil {
		t.Fatal(err)
	}
	ann := &admin.Client{Client: client.Client{Server: base, Token: token.Token, HTTP: root.HTTP}}
	if _, err := ann.ReportMessage(t.Context(), []byte(advert), client.MessageOptions{Vote: bulkhead.Spam}); err != nil {
		t.Fatal(err)
	}
	status, page = b.upload(advert)
	wants(t, "reported mail", status, page, 200, "key-spam")
	status, page = b.agree("/people", url.Values{"name": {"ann"}, "do": {"undo"}, "days": {"1"}},
		"Undo the votes of ann?", "Undo takes back the votes of ann on ", "from the blocklist", "Votes before 20")
	wants(t, "undo", status, page, 200, "Votes of ann on")
	if v, err := ann.CheckMessage(t.Context(), []byte(advert), client.MessageOptions{}); err != nil || v.Spam {
		t.Errorf("after undo: %+v, %v", v, err)
	}
	status, page = b.form("/people", url.Values{"name": {"ann"}, "do": {"weigh"}, "weight": {"0.25"}})
	wants(t, "weigh", status, page, 200, "weigh 0.25")
	for _, bad := range []url.Values{
		{"name": {"ann"}, "do": {"weigh"}, "weight": {"2"}}, {"name": {"ann"}, "do": {"weigh"}, "weight": {"NaN"}},
		{"name": {"ann"}, "do": {"undo"}, "days": {"0"}},
		{"name": {"ann"}, "do": {"explode"}},
	} {
		status, page = b.form("/people", bad)
		wants(t, bad.Encode(), status, page, 400, "Bad form")
	}
	status, page = b.form("/people", url.Values{"name": {"nobody"}, "do": {"close"}})
	wants(t, "an account that is none", status, page, 404, "no account is called")
	if u, err := root.User(t.Context(), "ann"); err != nil || u.Weight != 0.25 || u.Closed {
		t.Errorf("ann is %+v, %v", u, err)
	}
	status, page = b.get("/peers")
	wants(t, "peers", status, page, 200, "shares with no peer")

	status, page = b.form("/logout", nil)
	wants(t, "log-out", status, page, 200, "enter a token")
	status, page = b.get("/people")
	wants(t, "after the log-out", status, page, 401, "for administrators")
}

// TestLoginByToken checks that a token of any role logs in. Removing the account, or a new token,
// ends the session.
func TestLoginByToken(t *testing.T) {
	base, root, _ := pagesOf(t)
	b := newBrowser(t, base)
	status, page := b.form("/login", url.Values{"token": {"wrong"}})
	wants(t, "a wrong token", status, page, 200, "That did not work")
	token, err := root.AddUser(t.Context(), admin.NewUser{Name: "ann", Role: "trusted"})
	if err != nil {
		t.Fatal(err)
	}
	status, page = b.form("/login", url.Values{"token": {token.Token}})
	wants(t, "a token", status, page, 200, "Log out", "ann")
	status, page = b.get("/people")
	wants(t, "no administrator", status, page, 403, "ann is none")
	if _, err := root.NewToken(t.Context(), "ann"); err != nil {
		t.Fatal(err)
	}
	status, page = b.get("/")
	wants(t, "after a new token", status, page, 200, "Log in")
}

// TestPagesOfOthers checks that a form of another site has no effect, and that a browser from
// elsewhere gets the log-in page, and a program an error about the missing rights.
func TestPagesOfOthers(t *testing.T) {
	base, root, _ := pagesOf(t)
	b := newBrowser(t, base)
	logIn(t, b, root)
	b.site = "cross-site"
	for _, path := range []string{"/people", "/history", "/logout", "/vote", "/lookup", "/login", "/peers", "/v1/login"} {
		status, page := b.form(path, url.Values{"name": {"admin"}, "do": {"close"}})
		wants(t, path, status, page, 403)
	}
	if status, page := b.get("/people"); status != 200 {
		t.Errorf("the session has ended: %d %s", status, page)
	}
	for accept, want := range map[string]int{"text/html,*/*": http.StatusSeeOther, "*/*": http.StatusUnauthorized} {
		r, err := http.NewRequestWithContext(t.Context(), "GET", base+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Forwarded-For", "192.0.2.1")
		r.Header.Set("Accept", accept)
		resp, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("from elsewhere, accepting %s: %d, want %d", accept, resp.StatusCode, want)
		}
	}
}

// TestLivePage checks that the first page is sent again, and does not keep the node from stopping.
func TestLivePage(t *testing.T) {
	base, _, stop := pagesOf(t)
	resp, err := http.Get(base + "/live")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	line, err := bufio.NewReader(resp.Body).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "data: ") || !strings.Contains(line, "Running for") {
		t.Fatalf("%.100q, %v", line, err)
	}
	before := time.Now()
	if err := stop(); err != nil {
		t.Error(err)
	}
	if waited := time.Since(before); waited >= 20*time.Second {
		t.Errorf("stopped after %v", waited)
	}
}

// TestFailedLogins checks that wrong tokens make one line in the log in all, which reveals nothing
// of the tokens.
func TestFailedLogins(t *testing.T) {
	log := &journal{}
	n, _ := start(t, Options{Config: httpDoor(t), Dir: filepath.Join(t.TempDir(), "data"), Log: slog.New(log)})
	base := address(t, n, "http")
	wrong := admin.New(base, "nobody-has-this-token")
	wrong.HTTP = &http.Client{Timeout: time.Minute}
	for range 3 {
		if _, err := wrong.Node(t.Context()); err == nil {
			t.Fatal("a wrong token was taken")
		}
		newBrowser(t, base).form("/login", url.Values{"token": {"nobody-has-this-token"}})
	}
	if got := log.count("log-in failed door=http network=127.0.0.0"); got != 1 {
		t.Errorf("%d lines of six failures, want 1", got)
	}
	if got := log.count("nobody-has"); got != 0 {
		t.Errorf("%d lines with the token", got)
	}
}

// TestPagesAsk checks that closing an account and undoing votes change nothing before the second
// form, whose token is valid only for that change of that account.
func TestPagesAsk(t *testing.T) {
	base, root, _ := pagesOf(t)
	b := newBrowser(t, base)
	logIn(t, b, root)
	for _, name := range []string{"ann", "bob"} {
		if _, err := root.AddUser(t.Context(), admin.NewUser{Name: name, Role: "trusted"}); err != nil {
			t.Fatal(err)
		}
	}
	parent := "ann"
	if _, err := root.ChangeUser(t.Context(), "bob", admin.UserChange{Parent: &parent}); err != nil {
		t.Fatal(err)
	}
	closed := func(name string) bool {
		t.Helper()
		u, err := root.User(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		return u.Closed
	}
	status, page := b.form("/people", url.Values{"name": {"ann"}, "do": {"close"}})
	wants(t, "close", status, page, 200, "Close the account ann?", "0 log-ins end now", "Reports of bob weigh nothing",
		"Its votes on 0 signatures stay", `href="/people"`)
	token := agreement.FindStringSubmatch(page)
	if token == nil {
		t.Fatalf("no question: %.500s", page)
	}
	for _, other := range []url.Values{
		{"name": {"bob"}, "do": {"close"}, "agreed": {token[1]}},
		{"name": {"ann"}, "do": {"undo"}, "days": {"1"}, "agreed": {token[1]}},
		{"name": {"ann"}, "do": {"close"}, "agreed": {""}},
		{"name": {"ann"}, "do": {"close"}, "agreed": {"9999999999.AAAA"}},
		{"name": {"ann"}, "do": {"close"}, "agreed": {"1" + token[1]}},
	} {
		status, page = b.form("/people", other)
		wants(t, other.Encode(), status, page, 200, "Nothing was changed: the question had expired")
	}
	if closed("ann") || closed("bob") {
		t.Error("an account is closed without a question")
	}
	// Another administrator's browser cannot use the token either.
	second, err := root.AddUser(t.Context(), admin.NewUser{Name: "carol", Role: "admin"})
	if err != nil {
		t.Fatal(err)
	}
	carol := newBrowser(t, base)
	status, page = carol.form("/login", url.Values{"token": {second.Token}})
	wants(t, "log-in", status, page, 200, "carol")
	status, page = carol.form("/people", url.Values{"name": {"ann"}, "do": {"close"}, "agreed": {token[1]}})
	wants(t, "carol with that token", status, page, 200, "Nothing was changed")
	if closed("ann") {
		t.Error("the token of one administrator is good for another one")
	}
	status, page = b.form("/people", url.Values{"name": {"ann"}, "do": {"close"}, "agreed": {token[1]}})
	wants(t, "agreed", status, page, 200, "Account ann is closed.")
	if !closed("ann") || closed("bob") {
		t.Error("ann is not closed, or bob is")
	}
	if status, page = b.form("/people", url.Values{"name": {"ann"}, "do": {"open"}}); status != 200 || closed("ann") {
		t.Errorf("open: %d %.300s", status, page)
	}
}
