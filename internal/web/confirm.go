package web

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"time"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/bulkhead-mail/bulkhead/internal/consequence"
)

// A change that is hard to undo needs two forms. The first form only asks; the answer is the effect
// of the change and a second form. The second form has a token that the server made for exactly
// this change and this account.

// agreementLife is the time within which a question must be answered.
const agreementLife = 10 * time.Minute

// agreements makes and checks the tokens. They become invalid when the process ends.
type agreements struct{ key [sha256.Size]byte }

func newAgreements() agreements {
	var a agreements
	rand.Read(a.key[:]) // never fails
	return a
}

// A deed is a change that an account may agree to.
type deed struct {
	account  string // account of the browser
	path, do string
	name     string    // name of the account, voter or peer
	since    time.Time // zero if the change has none
}

// token returns a token that allows a deed until a time.
func (a *agreements) token(d *deed, until time.Time) string {
	mac := hmac.New(sha256.New, a.key[:])
	end := strconv.FormatInt(until.Unix(), 10)
	// The parts are quoted, so that none runs into the next one.
	fmt.Fprintf(mac, "%q", []string{end, d.account, d.path, d.do, d.name, d.since.UTC().Format(time.RFC3339Nano)})
	return end + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// agreed reports whether a token was made for a deed and is still valid.
func (a *agreements) agreed(d *deed, token string, now time.Time) bool {
	end, _, _ := strings.Cut(token, ".")
	until, err := strconv.ParseInt(end, 10, 64)
	return err == nil && until > now.Unix() && hmac.Equal([]byte(token), []byte(a.token(d, time.Unix(until, 0))))
}

// deed returns the change that a form requests. since is its time; zero if the change has none.
func (v *view) deed(since time.Time) *deed {
	return &deed{account: v.viewer.Account, path: v.URL.Path, do: v.PostForm.Get("do"), name: v.PostForm.Get("name"),
		since: since}
}

// agreed reports whether a form has the token of its change.
func (s *Site) agreed(v *view, d *deed) bool {
	return s.agreements.agreed(d, v.PostForm.Get("agreed"), time.Now())
}

// ask shows the effect of a change, with the form that makes the change.
func (s *Site) ask(v *view, d *deed, q consequence.Question) g.Node {
	return h.Section(h.Class("card ask"), h.Aria("labelledby", "question"),
		g.If(v.PostForm.Has("agreed"), h.P(h.Class("alarm"), h.Role("alert"),
			g.Text("Nothing was changed: the question had expired. Here it is again."))),
		h.H2(h.ID("question"), g.Text(q.Title)),
		h.Ul(g.Map(q.Facts, func(fact string) g.Node { return h.Li(g.Text(fact)) })),
		h.Form(h.Class("acts"), h.Method("post"), h.Action(d.path),
			hidden("name", d.name), hidden("agreed", s.agreements.token(d, time.Now().Add(agreementLife))),
			g.If(!d.since.IsZero(), hidden("since", d.since.UTC().Format(time.RFC3339Nano))),
			h.Button(h.Class("danger"), h.Name("do"), h.Value(d.do), g.Text(q.Verb)), link(d.path, "Cancel")))
}
