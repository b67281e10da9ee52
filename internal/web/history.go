package web

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/bulkhead-mail/bulkhead/client"
	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/web/search"
)

// rowsShown is the number of messages on a page. facetRows is the number of which the facets are counted.
const (
	rowsShown = 100
	facetRows = 500
)

// oldFields are search parameters of earlier versions, whose addresses people may have kept, by the
// words that replace them.
var oldFields = map[string]string{"domain": "domain", "reporter": "by", "message_id": "id", "signature": "signature",
	"door": "door", "kind": "kind", "class": "verdict"}

// lineOf returns the search line of an address.
func lineOf(q url.Values) string {
	line := strings.TrimSpace(q.Get("q"))
	for _, old := range []string{"domain", "reporter", "message_id", "signature", "door", "kind", "class"} {
		if value := strings.Join(strings.Fields(q.Get(old)), ""); value != "" {
			line = search.With(line, oldFields[old], value)
		}
	}
	return line
}

// history returns the page of recorded checks and votes, with one of them beside it if the address
// names one.
func (s *Site) history(v *view) (g.Node, error) {
	address := v.URL.Query()
	line := lineOf(address)
	query, mistake := search.Parse(line, v.status.Now)
	before, err := number64(address.Get("before"))
	if err != nil {
		return nil, err
	}
	id, err := number64(address.Get("id"))
	if err != nil {
		return nil, err
	}
	query.Before, query.Limit = before, facetRows
	page := &admin.HistoryPage{}
	if mistake == nil {
		if page, err = v.node.History(v.Context(), query); absent(err) {
			return h.P(h.Class("card"), g.Text("This node remembers no mail: [history] in its configuration says so.")), nil
		}
	}
	if refused := new(client.Problem); errors.As(err, &refused) && refused.Status == http.StatusBadRequest {
		mistake, page = errors.New(refused.Detail), &admin.HistoryPage{}
	} else if err != nil {
		return nil, err
	}
	var opened g.Node
	if id != 0 {
		if opened, err = entry(v, id, line, before); err != nil {
			return nil, err
		}
	}
	shown := page.Entries[:min(len(page.Entries), rowsShown)]
	next := page.Next
	if len(shown) < len(page.Entries) {
		next = shown[len(shown)-1].ID
	}
	class := "messages"
	if id != 0 {
		class += " split"
	}
	at := place{line: line, before: before, id: id}
	return g.Group{
		searchForm(line, page.Entries),
		g.If(mistake != nil, h.P(h.Class("alarm"), h.Role("alert"), g.Text(fmt.Sprint(mistake)))),
		h.Input(h.Type("checkbox"), h.Class("showfacets"), h.ID("showfacets")),
		h.Label(h.Class("button filterbutton"), h.For("showfacets"), g.Text("Filter")),
		h.Div(h.Class(class),
			facetsOfPage(line, page.Entries),
			h.Section(h.Aria("label", "List"),
				g.If(len(shown) == 0 && mistake == nil, nothingIn(line, page)),
				g.If(len(shown) > 0, messageList(v, at, shown)),
				g.If(next != 0, h.P(link(place{line: line, before: next}.address(), "Earlier messages"))),
				helpOnKeys()),
			opened),
	}, nil
}

// A place is a page of messages: a search, the entry before which it begins, and the entry shown beside.
type place struct {
	line       string
	before, id int64
}

// address returns the path of a place.
func (p place) address() string {
	q := make(url.Values)
	if p.line != "" {
		q.Set("q", p.line)
	}
	if p.before != 0 {
		q.Set("before", strconv.FormatInt(p.before, 10))
	}
	if p.id != 0 {
		q.Set("id", strconv.FormatInt(p.id, 10))
	}
	if len(q) == 0 {
		return "/history"
	}
	return "/history?" + q.Encode()
}

// searchForm returns the search line. The words that it completes come from the words that there are,
// and from the messages on the page.
func searchForm(line string, entries []admin.HistoryEntry) g.Node {
	var words []string
	for _, w := range search.Words() {
		words = append(words, w.Key+":")
		for _, value := range w.Values {
			words = append(words, w.Key+":"+value)
		}
	}
	for _, f := range countFacets(entries) {
		for _, n := range f.values {
			words = append(words, f.key+":"+n.name)
		}
	}
	slices.Sort(words)
	list, err := json.Marshal(slices.Compact(words))
	if err != nil {
		list = []byte("[]") // unreachable: strings alone
	}
	return h.Form(h.Class("search"), h.Method("get"), h.Action("/history"), h.Role("search"),
		h.Input(h.Type("search"), h.ID("q"), h.Name("q"), h.Value(line), h.Aria("label", "Search the messages"),
			h.Placeholder("from:example.com verdict:spam since:24h"), g.Attr("list", "words"), g.Attr("spellcheck", "false"),
			h.AutoComplete("off"), g.Attr("data-words", string(list))),
		h.DataList(h.ID("words"), g.Map(search.Words(), func(w search.Word) g.Node {
			return h.Option(h.Value(strings.TrimSpace(line+" "+w.Key+":")), g.Text(w.Meaning))
		})),
		h.Button(g.Text("Search")))
}

// A facetCount holds the values of a facet on a page, the most frequent first.
type facetCount struct {
	key, title string
	values     []namedCount
}

type namedCount struct {
	name string
	n    int
}

// maxFacet is the largest number of values shown of a facet.
const maxFacet = 8

// countFacets counts the values of the facets of entries.
func countFacets(entries []admin.HistoryEntry) []facetCount {
	facets := []facetCount{{key: "verdict", title: "Verdict"}, {key: "kind", title: "Kind"}, {key: "door", title: "Door"},
		{key: "from", title: "Sender"}, {key: "link", title: "Links to"}, {key: "by", title: "Reported by"}}
	counts := make([]map[string]int, len(facets))
	for i := range counts {
		counts[i] = make(map[string]int)
	}
	for i := range entries {
		e := &entries[i]
		by := ""
		if e.Kind != "check" && e.Kind != "sighting" {
			by = cmp.Or(e.User, e.Account, e.Network)
		}
		for k, values := range [][]string{{e.Class}, {e.Kind}, {e.Door}, {e.From}, e.Domains, {by}} {
			for _, value := range values {
				if value != "" && !strings.ContainsAny(value, " \t") {
					counts[k][value]++
				}
			}
		}
	}
	for i := range facets {
		for name, n := range counts[i] {
			facets[i].values = append(facets[i].values, namedCount{name, n})
		}
		slices.SortFunc(facets[i].values, func(a, b namedCount) int {
			return cmp.Or(cmp.Compare(b.n, a.n), strings.Compare(a.name, b.name))
		})
		facets[i].values = facets[i].values[:min(len(facets[i].values), maxFacet)]
	}
	return facets
}

// facetsOfPage shows the facets of a page as links that narrow the search, or widen it again.
func facetsOfPage(line string, entries []admin.HistoryEntry) g.Node {
	var out g.Group
	for _, f := range countFacets(entries) {
		chosen := search.Value(line, f.key)
		if chosen != "" && !slices.ContainsFunc(f.values, func(n namedCount) bool { return n.name == chosen }) {
			f.values = append(f.values, namedCount{chosen, 0})
		}
		if len(f.values) == 0 {
			continue
		}
		out = append(out, h.H2(g.Text(f.title)), h.Ul(g.Map(f.values, func(n namedCount) g.Node {
			value, current := n.name, n.name == chosen
			if current {
				value = ""
			}
			return h.Li(h.A(h.Href(place{line: search.With(line, f.key, value)}.address()),
				g.If(current, h.Aria("current", "true")), h.Span(h.Title(n.name), g.Text(n.name)),
				h.Span(h.Class("dim"), g.Text(count(uint64(n.n))))))
		})))
	}
	return h.Aside(h.Class("facets"), h.Aria("label", "Filter"), out,
		g.If(len(entries) >= facetRows, h.P(h.Class("dim"), g.Text(fmt.Sprintf("Among the latest %d.", len(entries))))))
}

// messageList returns the list with the buttons that act on what is selected.
func messageList(v *view, at place, entries []admin.HistoryEntry) g.Node {
	head := func(class, text string) g.Node { return h.Th(h.Class(class), g.Attr("scope", "col"), g.Text(text)) }
	return h.Form(h.Method("post"), h.Action("/history"),
		hidden("back", at.address()),
		h.Div(h.Class("tools"), g.Text("Selected:"),
			h.Button(h.Name("vote"), h.Value("spam"), g.Text("Spam")),
			h.Button(h.Name("vote"), h.Value("ham"), g.Text("Wanted")),
			h.Button(h.Name("vote"), h.Value("revoke"), g.Text("Take off"))),
		h.Table(h.Class("list"),
			h.THead(h.Tr(h.Th(h.Class("c-box"), g.Attr("scope", "col"),
				h.Input(h.Type("checkbox"), g.Attr("data-all", ""), h.Aria("label", "Select all"))),
				head("c-time", "Time, UTC"), head("c-verdict", "Verdict"), head("c-from", "Sender and subject"),
				head("c-why", "Reason"), head("c-rcpt", "Recipients"), head("c-door", "Door"), head("c-acts", "Actions"))),
			h.TBody(g.Map(entries, func(e admin.HistoryEntry) g.Node { return entryRow(&e, at, v.status.Now) }))))
}

// entryRow returns the row of an entry.
func entryRow(e *admin.HistoryEntry, at place, now time.Time) g.Node {
	id := strconv.FormatInt(e.ID, 10)
	here := e.ID == at.id
	at.id = e.ID
	recipients := "–"
	if e.Count > 0 {
		recipients = count(uint64(e.Count))
	}
	time := e.Time.UTC().Format("2 Jan 15:04:05")
	if now.UTC().Format("2006-01-02") == e.Time.UTC().Format("2006-01-02") {
		time = e.Time.UTC().Format("15:04:05")
	}
	sender := cmp.Or(e.From, "no sender")
	button := func(vote, verb string) g.Node {
		return h.Button(h.Name("one"), h.Value(vote+" "+id), h.Aria("label", verb+": entry "+id), g.Text(verb))
	}
	return h.Tr(g.Attr("data-row", id), h.ID("e"+id), g.If(here, h.Class("open")),
		h.Td(h.Class("c-box"), h.Input(h.Type("checkbox"), h.Name("id"), h.Value(id),
			h.Aria("label", "Select entry "+id+" from "+sender))),
		h.Th(h.Class("c-time"), g.Attr("scope", "row"), h.A(h.Href(at.address()+"#e"+id),
			g.If(here, h.Aria("current", "true")), h.Title(e.Time.UTC().Format("2006-01-02 15:04:05.000 UTC")), g.Text(time))),
		h.Td(h.Class("c-verdict"), pill(e)),
		h.Td(h.Class("c-from"), h.Title(strings.TrimSpace(sender+" "+e.Subject)), g.Text(sender),
			g.If(e.Subject != "", g.Group{g.Text(" "), dim(e.Subject)})),
		h.Td(h.Class("c-why"), h.Title(strings.Join(e.Reasons, "; ")), g.Text(reason(e))),
		h.Td(h.Class("c-rcpt"), g.Text(recipients)), h.Td(h.Class("c-door"), g.Text(e.Door)),
		h.Td(h.Class("c-acts"), button("spam", "Spam"), g.Text(" "), button("ham", "Wanted")))
}

// pill shows the answer to a check, or the vote, as a word on a colour.
func pill(e *admin.HistoryEntry) g.Node {
	class, word := e.Class, e.Class
	switch {
	case e.Whitelisted:
		class, word = "good", "whitelisted"
	case e.Class != "" && e.Confidence > 0:
		word = fmt.Sprintf("%s %d", e.Class, e.Confidence)
	case e.Class != "":
	case e.Kind == "spam":
		class, word = "spam", "reported"
	case e.Kind == "ham":
		class, word = "good", "wanted"
	case e.Kind == "revoke":
		class, word = "good", "taken off"
	default:
		class, word = "unknown", "delivered"
	}
	return h.Span(h.Class("pill pill-"+class), g.Text(word))
}

// reason returns why a message was judged so, in about three words, or what a vote did.
func reason(e *admin.HistoryEntry) string {
	if e.Class == "" {
		by := cmp.Or(e.User, e.Account, e.Network, "this machine")
		switch {
		case e.Kind == "sighting":
			return "counted"
		case e.Trap:
			return "spam trap"
		case e.Waits:
			return "waits, by " + by
		case e.Listed > 0:
			return "listed by " + by
		case e.Revoked > 0:
			return "taken off by " + by
		}
		return "by " + by
	}
	if len(e.Reasons) == 0 {
		return "nothing known"
	}
	text := e.Reasons[0]
	for _, r := range shortReasons {
		if strings.Contains(text, r.part) {
			return r.short
		}
	}
	words := strings.FieldsFunc(text, func(c rune) bool { return c == ' ' })
	return strings.TrimRight(strings.Join(words[:min(3, len(words))], " "), ",:;(")
}

// shortReasons are the reasons of the judgement in about three words, by a part of each, of which the
// first that is found holds.
var shortReasons = []struct{ part, short string }{
	{"nearly the same as a message", "near a reported text"}, {"quotes a message", "quotes a reported text"},
	{"holds a message", "holds a reported text"}, {"by reporters that are trusted", "text was reported"},
	{"hardly ever reported", "sender rarely reported"}, {"that was revoked", "report was revoked"},
	{"its text was reported", "text was reported"}, {"said to be wanted", "people want it"},
	{"and was not", "known good sender"}, {"delivered so often", "often delivered"},
	{"came from known senders", "known good senders"}, {"links to", "link was reported"},
	{"the sender", "sender was reported"}, {"the name", "name was reported"}, {"the contact", "contact was reported"},
	{"a picture", "picture was reported"}, {"called spam", "voted on before"}, {"called wanted", "people want it"},
	{": bulk", "sent in bulk"}, {"below the threshold", "seen before"},
	{"never seen", "never seen"}, {"words and style", "words like spam"}, {"whitelist", "on the whitelist"},
}

// helpOnKeys explains the keys and the words of the search.
func helpOnKeys() g.Node {
	row := func(key, meaning string) g.Node { return g.Group{h.Dt(g.Text(key)), h.Dd(g.Text(meaning))} }
	return h.Details(h.ID("keys"), h.Summary(g.Text("Keys and search words")),
		h.Dl(h.Class("keys"), row("j, k", "next and previous message"), row("Enter", "open it beside the list"),
			row("x", "select it"), row("s, h", "call the selected, or this one, spam or wanted"), row("u", "undo"),
			row("/", "search"), row("?", "this help"),
			g.Map(search.Words(), func(w search.Word) g.Node {
				meaning := w.Meaning
				if len(w.Values) > 0 {
					meaning += ": " + strings.Join(w.Values, ", ")
				}
				return row(w.Key+":", meaning)
			})))
}

// nothingIn explains why a page has no entries, and what to do about it.
func nothingIn(line string, page *admin.HistoryPage) g.Node {
	switch {
	case page.Next != 0:
		return h.P(g.Text(fmt.Sprintf("None among %s entries. The search goes on with earlier ones.",
			count(uint64(page.Read)))))
	case line != "":
		return h.P(g.Text("Nothing of that kind is remembered here. "), link("/history", "Show everything"))
	}
	return h.P(
		g.Text("No check and no report yet. They show here as mail servers ask this node, and people report mail: "),
		h.Code(g.Text("bulkhead setup")), g.Text(" sees to both."))
}

// entry shows one entry with the evidence beside the list.
func entry(v *view, id int64, line string, before int64) (g.Node, error) {
	e, err := v.node.HistoryEntry(v.Context(), id)
	if err != nil {
		return nil, err
	}
	known, err := v.node.Explain(v.Context(), id)
	if err != nil && !absent(err) {
		return nil, err
	}
	number := strconv.FormatInt(id, 10)
	fact := func(name string, value g.Node) g.Node { return h.Div(h.Dt(g.Text(name)), h.Dd(value)) }
	domains := g.Group{}
	for i, d := range e.Domains {
		if i > 0 {
			domains = append(domains, g.Text(", "))
		}
		domains = append(domains, link(searchPath("link:"+d), d))
	}
	from := g.Node(g.Text("–"))
	if e.From != "" {
		from = link(searchPath("from:"+e.From), e.From)
	}
	out := g.Group{
		h.H2(h.Span(g.Text(cmp.Or(e.Subject, e.From, "A message"))), h.A(h.Href(place{line: line, before: before}.address()),
			h.Aria("label", "Close"), g.Text("×"))),
		h.P(pill(e), g.Text(" "), dim(fmt.Sprintf("%s through %s, %s UTC", e.Kind, e.Door,
			e.Time.UTC().Format(time.DateTime)))),
		h.Ul(g.Map(e.Reasons, func(r string) g.Node { return h.Li(g.Text(r)) })),
		h.Form(h.Class("acts"), h.Method("post"), h.Action("/history"),
			hidden("id", number),
			hidden("back", place{line, before, id}.address()),
			h.Button(h.Name("vote"), h.Value("spam"), g.Text("It is spam")),
			h.Button(h.Name("vote"), h.Value("ham"), g.Text("It is wanted")),
			h.Button(h.Name("vote"), h.Value("revoke"), g.Text("Take it off the list"))),
		h.Dl(h.Class("facts"), fact("From", from), fact("Links to", g.If(len(domains) > 0, domains)),
			fact("By", g.Text(dashed(e.Reporter()))), fact("Campaign", link("/waves?id="+number, "messages like this"))),
	}
	if known != nil {
		out = append(out, g.El("h3", g.Text("Evidence now")), evidence(known))
	}
	out = append(out, h.Details(h.Summary(g.Text(plural(uint64(len(e.Signatures)), "signature"))),
		h.Div(h.Class("scroll"), g.Attr("tabindex", "0"), g.Map(e.Signatures, signatureLink))))
	return h.Section(h.Class("card beside"), h.Aria("label", "Message"), g.Attr("tabindex", "0"), out), nil
}

func dashed(s string) string {
	if s == "" {
		return "–"
	}
	return s
}

// changeHistory votes on the messages of entries: on one by its own button, or on all that are selected.
func (s *Site) changeHistory(v *view) (g.Node, error) {
	if err := v.ParseForm(); err != nil {
		return nil, badForm(err)
	}
	vote, ids := v.PostForm.Get("vote"), v.PostForm["id"]
	if one := v.PostForm.Get("one"); one != "" {
		var id string
		vote, id, _ = strings.Cut(one, " ")
		ids = []string{id}
	}
	if len(ids) == 0 {
		return nil, badForm(errors.New("nothing is selected"))
	}
	if len(ids) > facetRows {
		return nil, badForm(fmt.Errorf("%d messages are selected, limit %d", len(ids), facetRows))
	}
	since := v.status.Now.Truncate(time.Second)
	var sum client.Receipt
	var failed error
	done := 0
	for _, text := range ids {
		id, err := number64(text)
		if err != nil {
			return nil, err
		}
		got, err := v.node.ReportEntry(v.Context(), id, admin.RememberedVote{Vote: vote})
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		done++
		sum.Counted, sum.Signatures = sum.Counted+got.Counted, sum.Signatures+got.Signatures
		sum.Listed, sum.Revoked = sum.Listed+got.Listed, sum.Revoked+got.Revoked
	}
	if done == 0 {
		return nil, failed
	}
	v.notice = voted(vote, &sum)
	if len(ids) > 1 {
		v.notice = plural(uint64(done), "message") + ". " + v.notice
	}
	if failed != nil {
		first, _, _ := strings.Cut(failed.Error(), "\n")
		v.notice += fmt.Sprintf(" %d failed: %s.", len(ids)-done, first)
	}
	back := v.PostForm.Get("back")
	if !strings.HasPrefix(back, "/history") {
		back = "/history"
	}
	s.offerVotes(v, back, since)
	if _, query, ok := strings.Cut(back, "?"); ok {
		v.Request.URL.RawQuery = query
	}
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
