package web

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed" // for the style and the script
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	g "maragu.dev/gomponents"

	"github.com/bulkhead-mail/bulkhead/client"
	"github.com/bulkhead-mail/bulkhead/client/admin"
)

//go:embed style.css
var styleCSS string

//go:embed console.js
var consoleJS string

// A Site serves the pages of a node. It is an [http.Handler] and may be called concurrently. It
// leaves all access decisions to the API. The handler in front of it must admit clients that may
// check, admit every client to /login, and reject forms from other sites.
type Site struct {
	source Source
	api    http.Handler
	policy string // content security policy
	mux    *http.ServeMux
	every  time.Duration // interval between two fragments of a live page
	closed context.Context
	close  context.CancelFunc

	agreements agreements
	undos      undos
}

// New returns the pages of a node. source describes the node, and api is its API.
func New(source Source, api http.Handler) *Site {
	s := &Site{source: source, api: api, mux: http.NewServeMux(), every: 5 * time.Second, agreements: newAgreements()}
	s.closed, s.close = context.WithCancel(context.Background())
	hash := func(text string) string {
		sum := sha256.Sum256([]byte(text))
		return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	}
	s.policy = "default-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; connect-src " +
		"'self'; style-src " +
		hash(styleCSS) + "; script-src " + hash(consoleJS)
	s.mux.HandleFunc("GET /{$}", s.show("", s.now))
	s.mux.HandleFunc("GET /live", s.live)
	s.mux.HandleFunc("GET /login", s.show("Log in", s.login))
	s.mux.HandleFunc("GET /lookup", s.show("Look up", s.lookup))
	s.mux.HandleFunc("POST /lookup", s.show("Look up", s.lookup))
	s.mux.HandleFunc("POST /vote", s.show("Look up", s.vote))
	s.mux.HandleFunc("GET /waves", s.show("Campaigns", s.waves))
	s.mux.HandleFunc("POST /waves", s.show("Campaigns", s.changeWaves))
	s.mux.HandleFunc("GET /history", s.show("Messages", s.history))
	s.mux.HandleFunc("POST /history", s.show("Messages", s.changeHistory))
	s.mux.HandleFunc("GET /people", s.show("People", s.people))
	s.mux.HandleFunc("POST /people", s.show("People", s.changePeople))
	s.mux.HandleFunc("GET /peers", s.show("Network", s.peers))
	s.mux.HandleFunc("POST /peers", s.show("Network", s.changePeers))
	s.mux.HandleFunc("GET /rules", s.show("Lists", s.rules))
	s.mux.HandleFunc("POST /rules", s.show("Lists", s.changeRules))
	s.mux.HandleFunc("GET /judgement", s.show("Rules", s.judgement))
	s.mux.HandleFunc("GET /config", s.show("Settings", s.config))
	s.mux.HandleFunc("POST /config", s.show("Settings", s.changeConfig))
	s.mux.HandleFunc("GET /storage", s.show("Storage", s.storage))
	s.mux.HandleFunc("POST /undo", s.undo)
	s.mux.HandleFunc("/", s.nothing)
	return s
}

// nothing answers that there is no such page; to programs it answers in JSON.
func (s *Site) nothing(w http.ResponseWriter, r *http.Request) {
	p := &client.Problem{Title: "Not Found", Status: http.StatusNotFound,
		Detail: fmt.Sprintf("nothing is at %.80q", r.URL.Path)}
	if strings.Contains(r.Header.Get("Accept"), "text/html") {
		s.show("Not found", func(*view) (g.Node, error) { return nil, p })(w, r)
		return
	}
	body, err := json.Marshal(p)
	if err != nil {
		return // unreachable: the fields are strings and a number
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	w.Write(append(body, '\n'))
}

// ServeHTTP implements [http.Handler].
func (s *Site) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// Close ends the live pages. Without it, a server that waits for its requests to end would wait for
// ever.
func (s *Site) Close() { s.close() }

// A view is one page as one browser sees it.
type view struct {
	*http.Request
	node   *admin.Client
	viewer *admin.Viewer
	status Status
	path   string // path of the navigation's entry for this page
	notice string // result of the form just sent
	undo   string // token of the change that takes the result back; "" if nothing does
}

// show serves the result of content. It shows a refusal of the node in its place.
func (s *Site) show(title string, content func(*view) (g.Node, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v := &view{Request: r, node: s.client(r), status: s.source.Status(r.Context()), path: r.URL.Path}
		status := http.StatusOK
		var err error
		if v.viewer, err = v.node.Whoami(r.Context()); err != nil {
			v.viewer = &admin.Viewer{}
		}
		var body g.Node
		if err == nil {
			body, err = content(v)
		}
		if err != nil {
			status, body = s.refusal(v, err)
		}
		s.write(w, status, page(v, title, body))
	}
}

// refusal returns the status and the page for an error.
func (s *Site) refusal(v *view, err error) (int, g.Node) {
	p := &client.Problem{Title: "Failed", Status: http.StatusInternalServerError, Detail: "The node's log says more."}
	errors.As(err, &p)
	if p.Status == http.StatusUnauthorized || p.Status == http.StatusForbidden {
		return p.Status, needLogin(v)
	}
	return p.Status, problem(p)
}

func (s *Site) write(w http.ResponseWriter, status int, page g.Node) {
	var b bytes.Buffer
	if err := page.Render(&b); err != nil {
		http.Error(w, "the page cannot be shown", http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", s.policy)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	w.Write(b.Bytes())
}

// live sends the content of the first page as server-sent events, until the browser disconnects.
func (s *Site) live(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	flush := http.NewResponseController(w)
	tick := time.NewTicker(s.every)
	defer tick.Stop()
	for {
		var b bytes.Buffer
		v := &view{Request: r, node: s.client(r), status: s.source.Status(r.Context())}
		var err error
		if v.viewer, err = v.node.Whoami(r.Context()); err != nil || !v.viewer.Check {
			return // the session has ended
		}
		content, err := overview(v)
		if err != nil || content.Render(&b) != nil {
			return
		}
		// A line feed would end the event's line. No element of the page depends on line feeds.
		if _, err := fmt.Fprintf(w, "data: %s\n\n", strings.ReplaceAll(b.String(), "\n", " ")); err != nil {
			return
		}
		if err := flush.Flush(); err != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-s.closed.Done():
			return
		case <-tick.C:
		}
	}
}
