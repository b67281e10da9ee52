package web

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/bulkhead-mail/bulkhead/client/admin"
)

// The line with the result of a change offers to take the change back. The page has only a token: the
// server holds the action, so a forged form cannot make the node do anything else.

// undoLife is how long a change can be taken back by its line, and maxUndos the number of changes held;
// the oldest gives way.
const (
	undoLife = 30 * time.Minute
	maxUndos = 256
)

// An undoing takes a change back, and returns the result in words.
type undoing struct {
	account string // who made the change, and may take it back
	back    string // path of the page to show then
	until   time.Time
	do      func(ctx context.Context, node *admin.Client) (notice string, err error)
}

// undos holds what can be taken back. Its methods may be called concurrently. The zero value is empty.
type undos struct {
	mu    sync.Mutex
	all   map[string]*undoing
	order []string // tokens, the oldest first
}

// put returns a token of an undoing.
func (u *undos) put(of *undoing) string {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.all == nil {
		u.all = make(map[string]*undoing)
	}
	for len(u.order) >= maxUndos {
		delete(u.all, u.order[0])
		u.order = u.order[1:]
	}
	token := rand.Text()
	u.all[token] = of
	u.order = append(u.order, token)
	return token
}

// take returns the undoing of a token once, to the account that made the change.
func (u *undos) take(token, account string, now time.Time) (*undoing, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	of := u.all[token]
	if of == nil || of.account != account || !of.until.After(now) {
		return nil, false
	}
	delete(u.all, token)
	return of, true
}

// offer makes the notice of a view offer to take the change back. back is the path of the page to show
// then, with its query.
func (s *Site) offer(v *view, back string, do func(context.Context, *admin.Client) (string, error)) {
	if v.viewer.Account == "" {
		return // any other browser could take it back
	}
	v.undo = s.undos.put(&undoing{account: v.viewer.Account, back: back, until: time.Now().Add(undoLife), do: do})
}

// undo takes a change back, and shows the page of the change.
func (s *Site) undo(w http.ResponseWriter, r *http.Request) {
	node := s.client(r)
	back := "/"
	var notice string
	viewer, err := node.Whoami(r.Context())
	if err == nil {
		err = r.ParseForm()
	}
	if err == nil {
		if of, ok := s.undos.take(r.PostForm.Get("undo"), viewer.Account, time.Now()); ok {
			back = of.back
			notice, err = of.do(r.Context(), node)
		} else {
			err = badForm(errors.New("this change can no longer be taken back here"))
		}
	}
	path, query, _ := strings.Cut(back, "?")
	page := r.Clone(r.Context())
	page.Method, page.URL, page.Form, page.PostForm = http.MethodGet, &url.URL{Path: path, RawQuery: query}, nil, nil
	page.Body, page.ContentLength = http.NoBody, 0
	if err != nil {
		s.show("Undo", func(*view) (g.Node, error) { return nil, err })(w, page)
		return
	}
	content, ok := s.pages()[path]
	if !ok {
		content = s.now
	}
	s.show("Undo", func(v *view) (g.Node, error) {
		v.notice = notice
		return content(v)
	})(w, page)
}

// pages are the pages that an undone change leads back to.
func (s *Site) pages() map[string]func(*view) (g.Node, error) {
	return map[string]func(*view) (g.Node, error){
		"/history": s.history, "/waves": s.waves, "/people": s.people, "/rules": s.rules, "/peers": s.peers,
	}
}

// notice shows the result of a form.
func notice(v *view) g.Node {
	if v.notice == "" {
		return nil
	}
	return h.Div(h.Class("notice"), h.Role("status"), h.P(g.Text(v.notice)),
		g.If(v.undo != "", h.Form(h.Method("post"), h.Action("/undo"),
			hidden("undo", v.undo), h.Button(g.Text("Undo")))))
}

// offerVotes makes the notice offer to take back the votes that the viewer gave since a time.
func (s *Site) offerVotes(v *view, back string, since time.Time) {
	name := "account:" + v.viewer.Account
	s.offer(v, back, func(ctx context.Context, node *admin.Client) (string, error) {
		undone, err := node.UndoVotes(ctx, name, since)
		if err != nil {
			return "", err
		}
		return undoneWords(spoken(name), undone), nil
	})
}
