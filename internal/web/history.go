package web

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client"
	"github.com/bulkhead-mail/bulkhead/client/admin"
)

// historyFields are the search fields of the history, named as in the API.
var historyFields = []struct{ name, label string }{
	{"domain", "Domain"}, {"reporter", "Reporter"}, {"message_id", "Message-ID"}, {"signature", "Signature"},
	{"door", "Door"},
}

// history returns the page of recorded checks and votes, or of one of them.
func (s *Site) history(v *view) (g.Node, error) {
	if id := v.URL.Query().Get("id"); id != "" {
		return entry(v, id)
	}
	return entriesOf(v)
}

func entriesOf(v *view) (g.Node, error) {
	q := v.URL.Query()
	before, err := number64(q.Get("before"))
	if err != nil {
		return nil, err
	}
	page, err := v.node.History(v.Context(), admin.HistoryQuery{
		Door: q.Get("door"), Kind: q.Get("kind"), Class: q.Get("class"), Reporter: q.Get("reporter"),
		Domain: q.Get("domain"), MessageID: q.Get("message_id"), Signature: q.Get("signature"), Before: before,
	})
	var p *client.Problem
	if errors.As(err, &p) && p.Status == http.StatusNotFound {
		return h.P(h.Class("card"), g.Text("This node remembers no mail: [history] in its configuration says so.")), nil
	}
	if err != nil {
		return nil, err
	}
	return g.Group{
		h.Form(h.Class("card fields"), h.Method("get"), h.Action("/history"),
			g.Map(historyFields, func(f struct{ name, label string }) g.Node {
				return h.Div(h.Label(h.For(f.name), g.Text(f.label)), h.Input(h.ID(f.name), h.Name(f.name), h.Value(q.Get(f.name))))
			}),
			choice("kind", "What", q, "check", "sighting", "spam", "ham", "revoke"),
			choice("class", "Answer", q, "unknown", "good", "bulk", "suspected", "spam"),
			h.Button(g.Text("Search"))),
		h.Section(h.H2(g.Text("History"), dim("checks and votes, the latest first")),
			g.If(len(page.Entries) == 0, nothingIn(q, page)),
			g.If(len(page.Entries) > 0, h.Div(h.Class("scroll"), g.Attr("tabindex", "0"), h.Table(
				h.THead(h.Tr(h.Th(g.Text("Time")), h.Th(g.Text("Door")), h.Th(g.Text("What")), h.Th(g.Text("Answer")),
					h.Th(g.Text("By")), h.Th(g.Text("From")), h.Th(g.Text("Links")), h.Th(g.Text("Actions")))),
				h.TBody(g.Map(page.Entries, func(e admin.HistoryEntry) g.Node { return entryRow(&e) })),
			))),
			g.If(page.Next != 0, h.P(link(nextPage(q, page.Next), "Earlier ones")))),
	}, nil
}

// nothingIn explains why a page has no entries, and what to do about it.
func nothingIn(q url.Values, page *admin.HistoryPage) g.Node {
	switch {
	case page.Next != 0:
		return h.P(g.Text(fmt.Sprintf("None among %s entries. The search goes on with earlier ones.",
			count(uint64(page.Read)))))
	case len(q) > 0:
		return h.P(g.Text("Nothing of that kind is remembered here. "), link("/history", "Show everything"))
	}
	return h.P(
		g.Text("No check and no report yet. They show here as mail servers ask this node, and people report mail: "),
		h.Code(g.Text("bulkhead setup")), g.Text(" sees to both."))
}

// nextPage returns the address of the same search continued before an entry.
func nextPage(q url.Values, before int64) string {
	next := url.Values{"before": {strconv.FormatInt(before, 10)}}
	for name, values := range q {
		if name != "before" && values[0] != "" {
			next.Set(name, values[0])
		}
	}
	return "/history?" + next.Encode()
}

// choice returns a list of values, with the option to choose none.
func choice(name, label string, q url.Values, values ...string) g.Node {
	return h.Div(h.Label(h.For(name), g.Text(label)),
		h.Select(h.ID(name), h.Name(name), h.Option(h.Value(""), g.Text("any")),
			g.Map(values, func(value string) g.Node {
				return h.Option(h.Value(value), g.If(value == q.Get(name), g.Attr("selected")), g.Text(value))
			})))
}

func entryRow(e *admin.HistoryEntry) g.Node {
	id := strconv.FormatInt(e.ID, 10)
	return h.Tr(
		h.Th(g.Attr("scope", "row"), link("/history?id="+id, e.Time.Format("2 Jan 15:04:05"))),
		h.Td(g.Text(e.Door)), h.Td(g.Text(e.Kind)),
		h.Td(h.Class("brief"), g.If(e.Class != "", h.Span(h.Class("key key-"+e.Class))), g.Text(e.Answer())),
		h.Td(g.Text(dashed(e.Reporter()))),
		h.Td(g.Text(dashed(e.From)), g.If(e.Subject != "", dim(e.Subject))),
		h.Td(g.Text(dashed(strings.Join(e.Domains, " ")))),
		h.Td(h.Div(h.Class("acts"), entryVotes(id))))
}

func entryVotes(id string) g.Node {
	return h.Form(h.Method("post"), h.Action("/history"), h.Input(h.Type("hidden"), h.Name("id"), h.Value(id)),
		g.Map([]struct {
			vote, verb string
		}{{"spam", "Spam"}, {"ham", "Wanted"}, {"revoke", "Take off"}}, func(b struct{ vote, verb string }) g.Node {
			return h.Button(h.Name("vote"), h.Value(b.vote), h.Aria("label", b.verb+": entry "+id), g.Text(b.verb))
		}))
}

// entry shows one entry with all its signatures.
func entry(v *view, text string) (g.Node, error) {
	id, err := number64(text)
	if err != nil {
		return nil, err
	}
	e, err := v.node.HistoryEntry(v.Context(), id)
	if err != nil {
		return nil, err
	}
	return h.Section(h.Class("card"), h.H2(g.Text(e.Answer()),
		dim(fmt.Sprintf("%s through %s, %s", e.Kind, e.Door, e.Time.Format(time.DateTime)))),
		h.P(g.Text("From "+dashed(e.From)+", links to "+dashed(strings.Join(e.Domains, " "))+", by "+dashed(e.Reporter())+
			"."), g.If(e.Subject != "", dim(e.Subject))),
		h.Ul(g.Map(e.Reasons, func(r string) g.Node { return h.Li(g.Text(r)) })),
		entryVotes(text),
		h.Details(h.Summary(g.Text(fmt.Sprintf("%d signatures", len(e.Signatures)))),
			h.Div(h.Class("scroll"), g.Attr("tabindex", "0"),
				g.Map(e.Signatures, func(sig bulkhead.Signature) g.Node {
					return h.Code(h.Class("sig"), link("/history?signature="+url.QueryEscape(sig.String()), sig.String()), h.Br())
				})))), nil
}

func dashed(s string) string {
	if s == "" {
		return "–"
	}
	return s
}

// changeHistory votes on the message of an entry.
func (s *Site) changeHistory(v *view) (g.Node, error) {
	if err := v.ParseForm(); err != nil {
		return nil, badForm(err)
	}
	id, err := number64(v.PostForm.Get("id"))
	if err != nil {
		return nil, err
	}
	vote := v.PostForm.Get("vote")
	got, err := v.node.ReportEntry(v.Context(), id, admin.RememberedVote{Vote: vote})
	if err != nil {
		return nil, err
	}
	v.notice = voted(vote, got)
	return s.history(v)
}

// number64 parses the number of an entry; "" is 0.
func number64(text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 {
		return 0, badForm(errors.New("want the number of an entry"))
	}
	return n, nil
}
