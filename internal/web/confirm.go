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

	"github.com/bulkhead-mail/bulkhead/internal/consequence"
	h "github.com/bulkhead-mail/bulkhead/internal/web/element"
)

// A change that is hard to take back needs two forms. The first one only asks, and is answered
// with what the change would do and a second form. The second one has a token that the
// server made for this very change and this account.

// agreementLife is how long a question may be answered.
const agreementLife = 10 * time.Minute

// agreements makes and checks the tokens. They end with the process.
type agreements struct{ key [sha256.Size]byte }

func newAgreements() agreements {
	var a agreements
	rand.Read(a.key[:]) // never fails
	return a
}

// A deed is a change that an account may agree to.
type deed struct {
	account  string // of the browser
	path, do string
	name     string    // of the account, voter or peer
	since    time.Time // zero if the change has none
}

// token returns the token with which a deed may be done until a time.
func (a *agreements) token(d *deed, until time.Time) string {
	mac := hmac.New(sha256.New, a.key[:])
	end := strconv.FormatInt(until.Unix(), 10)
	// No part runs into the next one: each is quoted.
	fmt.Fprintf(mac, "%q", []string{end, d.account, d.path, d.do, d.name, d.since.UTC().Format(time.RFC3339Nano)})
	return end + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// agreed reports whether a token was made for a deed and is still good.
func (a *agreements) agreed(d *deed, token string, now time.Time) bool {
	end, _, _ := strings.Cut(token, ".")
	until, err := strconv.ParseInt(end, 10, 64)
	return err == nil && until > now.Unix() && hmac.Equal([]byte(token), []byte(a.token(d, time.Unix(until, 0))))
}

// deed returns the change that a form asks for, at or after a time if that is not zero.
func (v *view) deed(since time.Time) *deed {
	return &deed{account: v.viewer.Account, path: v.URL.Path, do: v.PostForm.Get("do"), name: v.PostForm.Get("name"),
		since: since}
}

// agreed reports whether a form has the token of its change.
func (s *Site) agreed(v *view, d *deed) bool {
	return s.agreements.agreed(d, v.PostForm.Get("agreed"), time.Now())
}

// ask shows what a change would do, with the form that makes it.
func (s *Site) ask(v *view, d *deed, q consequence.Question) g.Node {
	hidden := func(name, value string) g.Node {
		return h.Input(h.Type("hidden"), h.Name(name), h.Value(value))
	}
	return h.Section(h.Class("card ask"), h.Aria("labelledby", "question"),
		h.If(v.PostForm.Has("agreed"), h.P(h.Class("alarm"), h.Role("alert"),
			h.Text("Nothing was changed: the question had expired. Here it is again."))),
		h.H2(h.ID("question"), h.Text(q.Title)),
		h.Ul(g.Map(q.Facts, func(fact string) g.Node { return h.Li(h.Text(fact)) })),
		h.Form(h.Class("acts"), h.Method("post"), h.Action(d.path),
			hidden("name", d.name), hidden("agreed", s.agreements.token(d, time.Now().Add(agreementLife))),
			h.If(!d.since.IsZero(), hidden("since", d.since.UTC().Format(time.RFC3339Nano))),
			h.Button(h.Class("danger"), h.Name("do"), h.Value(d.do), h.Text(q.Verb)), link(d.path, "Cancel")))
}
