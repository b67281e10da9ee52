package api

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client/admin"
)

// A browser logs in with a link that is valid once, with a token, or with a name and password. It
// then has a session: a random identifier in a cookie that scripts cannot read and other sites
// cannot send.

const (
	linkLife    = 10 * time.Minute // of a log-in link
	sessionLife = 12 * time.Hour
	// maxSessions limits the number of links and the number of sessions; a new one displaces the
	// oldest. Only the holder of a token can make one.
	maxSessions = 1024
	cookieName  = "bulkhead"
)

// A grant is a link or a session of an account. Its secret is stored as a hash, so that a look-up
// takes the same time for all guesses.
type grant struct {
	account string
	until   time.Time
}

// sessions holds the links and sessions of a server. They end with the process.
type sessions struct {
	mu          sync.Mutex
	links, open map[[sha256.Size]byte]grant
	ends        uint64 // how often all of an account were ended
}

// errEnded is returned for a link or session that would begin although its client was identified before the sessions
// of an account were ended, with a secret that may be void since. It is rare, and a second attempt decides.
var errEnded = fmt.Errorf("%w: log-ins of an account were just ended: try again", bulkhead.ErrOverLimit)

// era returns a number that changes whenever all links and sessions of an account are ended.
func (s *sessions) era() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ends
}

func newSessions() *sessions {
	return &sessions{links: make(map[[sha256.Size]byte]grant), open: make(map[[sha256.Size]byte]grant)}
}

// put makes a secret that represents an account until a time.
func put(in map[[sha256.Size]byte]grant, account string, now time.Time,
	life time.Duration) (secret string, until time.Time) {
	for k, g := range in {
		if !g.until.After(now) {
			delete(in, k)
		}
	}
	for len(in) >= maxSessions {
		var oldest [sha256.Size]byte
		var first time.Time
		for k, g := range in {
			if first.IsZero() || g.until.Before(first) {
				oldest, first = k, g.until
			}
		}
		delete(in, oldest)
	}
	secret, until = rand.Text(), now.Add(life)
	in[sha256.Sum256([]byte(secret))] = grant{account, until}
	return secret, until
}

// link makes the secret of a log-in link, for a client that was identified in an era.
func (s *sessions) link(account string, era uint64, now time.Time) (secret string, until time.Time, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ends != era {
		return "", time.Time{}, errEnded
	}
	secret, until = put(s.links, account, now, linkLife)
	return secret, until, nil
}

// redeem returns the account of a link's secret, and makes the link void.
func (s *sessions) redeem(secret string, now time.Time) (account string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := sha256.Sum256([]byte(secret))
	g, ok := s.links[k]
	delete(s.links, k)
	return g.account, ok && g.until.After(now)
}

// begin opens a session, for a client that was identified in an era.
func (s *sessions) begin(account string, era uint64, now time.Time) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ends != era {
		return "", errEnded
	}
	secret, _ := put(s.open, account, now, sessionLife)
	return secret, nil
}

// account returns the account whose session has a secret.
func (s *sessions) account(secret string, now time.Time) (string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, ok := s.open[sha256.Sum256([]byte(secret))]
	return g.account, ok && g.until.After(now)
}

// end ends one session.
func (s *sessions) end(secret string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, sha256.Sum256([]byte(secret)))
}

// endAll ends all links and sessions of an account. It is called after what identified their clients has become void.
func (s *sessions) endAll(account string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ends++
	for _, in := range []map[[sha256.Size]byte]grant{s.links, s.open} {
		for k, g := range in {
			if g.account == account {
				delete(in, k)
			}
		}
	}
}

// count returns how many links and sessions of an account are open.
func (s *sessions) count(account string, now time.Time) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, in := range []map[[sha256.Size]byte]grant{s.links, s.open} {
		for _, g := range in {
			if g.account == account && g.until.After(now) {
				n++
			}
		}
	}
	return n
}

// newLink makes a log-in link for the account that asks.
func (s *Server) newLink(r *request) (any, error) {
	if r.who.Account == "" {
		return nil, fmt.Errorf("%w: a token names the account to log in", bulkhead.ErrUnauthorised)
	}
	if _, local := peerOf(r.Request); local && r.Header.Get("Authorization") == "" {
		if err := s.mayAdminister(r.Context(), r.who); err != nil {
			return nil, err // the account of this machine's administrators is closed or gone
		}
	}
	secret, until, err := s.sessions.link(r.who.Account, r.era, time.Now())
	if err != nil {
		return nil, err
	}
	return &admin.LoginLink{Path: "/login?link=" + secret, Expires: until}, nil
}

// whoami returns the requesting account and its rights.
func (s *Server) whoami(r *request) (any, error) {
	peer, _ := peerOf(r.Request)
	local := peer.Admin && r.Header.Get("Authorization") == ""
	return &admin.Viewer{
		Account: r.who.Account, Local: r.local,
		Check:  allowed(r.set.AnonymousCheck, r.who, r.local, "") == nil,
		Report: allowed(r.set.AnonymousReport, r.who, r.local, "") == nil,
		Admin:  s.mayAdminister(r.Context(), r.who) == nil || local,
	}, nil
}

// doorName is the name of this door in log lines about failed log-ins.
const doorName = "http"

// maxForm is the longest form of a log-in, bytes.
const maxForm = 4 << 10

// login begins a session with the link, the token, or the name and password of a form.
func (s *Server) login(w http.ResponseWriter, r *http.Request) {
	req, err := s.admit(r, open)
	if err != nil {
		writeProblem(w, problem(err))
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	account, err := s.loginAs(r, req.who.Addr)
	session := ""
	if err == nil {
		session, err = s.sessions.begin(account, req.era, time.Now())
	}
	if errors.Is(err, bulkhead.ErrOverLimit) {
		writeProblem(w, problem(err))
		return
	}
	if err != nil {
		s.opts.Failures.Slow(r.Context(), doorName, req.who.Addr)
		http.Redirect(w, r, "/login?refused", http.StatusSeeOther)
		return
	}
	s.record(admin.AuditEntry{Account: account, From: req.who.Addr.String(), Action: "login"}, nil, nil)
	s.opts.Log.Info("logged in", "account", account, "from", r.RemoteAddr)
	http.SetCookie(w, &http.Cookie{
		Name: cookieName, Value: session, Path: "/", MaxAge: int(sessionLife / time.Second),
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: req.set.secure(r),
	})
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

func (s *Server) loginAs(r *http.Request, client netip.Addr) (account string, err error) {
	if err := r.ParseForm(); err != nil {
		return "", fmt.Errorf("%w: form: %v", bulkhead.ErrMalformed, err)
	}
	if secret := r.PostForm.Get("link"); secret != "" {
		account, ok := s.sessions.redeem(secret, time.Now())
		if !ok {
			return "", fmt.Errorf("%w: the link is used, expired or unknown", bulkhead.ErrUnauthorised)
		}
		return account, nil
	}
	if s.opts.Accounts == nil {
		return "", fmt.Errorf("%w: no accounts", bulkhead.ErrUnauthorised)
	}
	// A token identifies its account by itself. The name is ignored, because browsers store tokens
	// under any name and fill it in.
	secret := r.PostForm.Get("token")
	account, err = s.opts.Accounts.Authenticate(r.Context(), secret)
	name := r.PostForm.Get("name")
	if err == nil || name == "" {
		return account, err
	}
	if p, ok := s.opts.Accounts.(Passwords); ok {
		done, err := s.passwords.enter(r.Context(), name, client, time.Now())
		if err != nil {
			return "", err
		}
		account, err = p.AuthenticatePassword(r.Context(), name, secret)
		done(err == nil)
		return account, err
	}
	return "", fmt.Errorf("%w: no passwords", bulkhead.ErrUnauthorised)
}

// logout ends the session of the cookie.
func (s *Server) logout(w http.ResponseWriter, r *http.Request) {
	req, err := s.admit(r, open)
	if err != nil {
		writeProblem(w, problem(err))
		return
	}
	s.record(admin.AuditEntry{Account: req.who.Account, From: req.who.Addr.String(), Action: "logout"}, nil, nil)
	if c, err := r.Cookie(cookieName); err == nil {
		s.sessions.end(c.Value)
	}
	http.SetCookie(w, &http.Cookie{Name: cookieName, Path: "/", MaxAge: -1, HttpOnly: true,
		SameSite: http.SameSiteStrictMode, Secure: req.set.secure(r)})
	http.Redirect(w, r, "/login", http.StatusSeeOther)
}

// pages serves every path that is not an operation of the API. A browser without the right to see a
// page gets the log-in form.
func (s *Server) pages(w http.ResponseWriter, r *http.Request) {
	if s.opts.Page == nil || strings.HasPrefix(r.URL.Path, "/v1/") {
		writeProblem(w, newProblem(http.StatusNotFound, fmt.Sprintf("nothing is at %.80q", r.URL.Path)))
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead && r.Method != http.MethodPost {
		wrongMethod("GET, HEAD, POST")(w, r)
		return
	}
	n := check
	if r.URL.Path == "/login" {
		n = open
	}
	req, err := s.admit(r, n)
	if err == nil {
		defer req.held.Release()
		r = r.WithContext(context.WithValue(r.Context(), formKey{}, &req.held))
		r.Body = http.MaxBytesReader(w, &formBody{r.Body, req}, req.set.MaxBody)
		s.opts.Page.ServeHTTP(w, r)
		return
	}
	switch p := problem(err); {
	case p.Status == http.StatusUnauthorized && r.Method == http.MethodGet && wantsPage(r):
		http.Redirect(w, r, "/login", http.StatusSeeOther)
	default:
		writeProblem(w, p)
	}
}

// A formBody is the body of a form. It takes memory for what is read of it.
type formBody struct {
	io.ReadCloser
	of *request
}

// formCost is how many times its size a form takes: its fields or files, and one of them once more.
const formCost = 2

// formKey is the key of the memory of a form in the context of the requests that its page makes. A request gives that
// back before it takes memory for the same message, so that the two do not need it together.
type formKey struct{}

// Read implements [io.Reader]. Its error wraps a [client.Problem] if there is no memory.
func (b *formBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err := b.of.held.Take(b.of.Context(), int64(formCost*n), patience); err != nil {
		return 0, newProblem(http.StatusServiceUnavailable, err.Error())
	}
	return n, err
}

// wantsPage reports whether a request is from a browser and not from a program that reads JSON.
func wantsPage(r *http.Request) bool {
	return r.Header.Get("Authorization") == "" && strings.Contains(r.Header.Get("Accept"), "text/html")
}
