package web

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
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
	"github.com/bulkhead-mail/bulkhead/internal/consequence"
)

// people returns the page of the accounts.
func (s *Site) people(v *view) (g.Node, error) {
	if name := v.URL.Query().Get("name"); name != "" {
		return accountPage(v, name)
	}
	users, err := v.node.Users(v.Context())
	if err != nil {
		return nil, err
	}
	weights, err := v.node.Weights(v.Context())
	if err != nil {
		return nil, err
	}
	record, err := audited(v)
	if err != nil {
		return nil, err
	}
	latest, err := votersOf(v)
	if err != nil {
		return nil, err
	}
	of := make(map[string][]admin.Weight)
	for _, w := range weights {
		of[w.Account] = w.Samples
	}
	return g.Group{addForm(), h.Section(h.H2(g.Text("People"), dim("whose votes weigh what")),
		table(g.Group{col("Name"), col("Role"), num("Weight"), num("Worth now"), col("Over time"), col("Accuracy"),
			col("Since"), col("Actions")},
			g.Map(users, func(u admin.User) g.Node { return userRow(u, of[u.Name], v.status.Now) })), h.P(h.Class("dim"),
			g.Text(
				"“Undo” takes back every vote of the last days that the node still remembers. Weight is 0 to 1. "+
					"Accuracy is of the reports that others have confirmed or taken off the list. "),
			g.Text("The page of an account sets its role, token and passwords."))),
		latest, record}, nil
}

func userRow(u admin.User, weights []admin.Weight, now time.Time) g.Node {
	closing, verb := "close", "Close"
	if u.Closed {
		closing, verb = "open", "Open"
	}
	return h.Tr(
		rowHead(link(accountAddress(u.Name), u.Name),
			g.If(u.Closed, dim("closed")), g.If(u.Person != "", dim("is "+u.Person)),
			g.If(u.Parent != "", dim("of "+u.Parent))),
		h.Td(h.Class("brief"), g.Text(u.Role)), number(fmt.Sprintf("%.2f", u.Weight)), number(fmt.Sprintf("%.2f", u.Worth)),
		h.Td(weightLine(u.Name, weights, now)),
		h.Td(h.Class("brief"), accuracy(&u)), h.Td(h.Class("brief"), g.Text(u.Created.UTC().Format("2 Jan 2006"))),
		h.Td(h.Div(h.Class("acts"),
			act("/people", u.Name, "weigh", "Set", h.Input(h.Name("weight"), h.Value(fmt.Sprintf("%.2f", u.Weight)),
				g.Attr("size", "4"), g.Attr("inputmode", "decimal"), h.Aria("label", "Weight of "+u.Name))),
			act("/people", "account:"+u.Name, "undo", "Undo", days("Days to undo of "+u.Name)),
			act("/people", u.Name, closing, verb, nil))),
	)
}

// accuracy shows how many of an account's reports were right.
func accuracy(u *admin.User) g.Node {
	share, of := u.Accuracy()
	if of == 0 {
		return dim("not known yet")
	}
	return g.Group{g.Text(fmt.Sprintf("%s of %s", percent(share), count(of))),
		dim(fmt.Sprintf("%s confirmed on %s, %s taken off", count(uint64(u.Confirmed)), plural(uint64(u.Days), "day"),
			count(uint64(u.Reverted))))}
}

// A voter is a reporter that has voted recently.
type voter struct {
	name             string // name to show
	reporter         string // reporter in a search of the history
	undo             string // name for undoing the votes of a user or of this machine; "" for others
	spam, ham, other int
	latest           time.Time
}

// localPerson is the reporter of votes from the node's own machine without an account.
const localPerson = "user:local"

// latestVotes is the number of votes of each kind from which the table of voters is made.
const latestVotes = 500

// votersOf returns the recent voters, including users for whom services report. It returns nothing
// if the node keeps no history.
func votersOf(v *view) (g.Node, error) {
	var all []*voter
	known := make(map[string]*voter)
	older := false
	for _, kind := range []string{"spam", "ham", "revoke"} {
		page, err := v.node.History(v.Context(), admin.HistoryQuery{Kind: kind, Limit: latestVotes})
		if absent(err) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		older = older || page.Next != 0
		for i := range page.Entries {
			e := &page.Entries[i]
			one := voterOf(e)
			if known[one.name] == nil {
				known[one.name] = &one
				all = append(all, &one)
			}
			known[one.name].add(e)
		}
	}
	slices.SortStableFunc(all, func(a, b *voter) int { return b.latest.Compare(a.latest) })
	shown := all[:min(len(all), 50)]
	return h.Section(h.H2(g.Text("Who voted lately"), dim("accounts, and the users for whom services report")),
		g.If(len(all) == 0, h.P(g.Text("No votes yet. A vote shows here once a user reports mail: "),
			h.Code(g.Text("bulkhead report message.eml")), g.Text(", or the button of a mail program after "),
			h.Code(g.Text("bulkhead setup")), g.Text("."))),
		g.If(len(all) > 0, table(g.Group{col("Who"), num("Spam"), num("Ham"), num("Revoked"), col("Latest"),
			col("Actions")},
			g.Map(shown, voterRow))),
		g.If(older || len(all) > len(shown), h.P(h.Class("dim"),
			g.Text(fmt.Sprintf("Of the latest votes, up to %d of each kind. The history has all.", latestVotes))))), nil
}

func voterOf(e *admin.HistoryEntry) voter {
	one := voter{name: e.Reporter(), reporter: cmp.Or(e.User, e.Account, e.Network)}
	switch {
	case e.User != "" && e.Account != "":
		one.undo = "user:" + e.Account + "=" + e.User
	case e.User != "":
		one.undo = "user:" + e.User
	}
	if one.name == "" {
		one.name, one.undo = "this machine", localPerson
	}
	return one
}

func (x *voter) add(e *admin.HistoryEntry) {
	switch e.Kind {
	case "spam":
		x.spam++
	case "ham":
		x.ham++
	default:
		x.other++
	}
	if e.Time.After(x.latest) {
		x.latest = e.Time
	}
}

func voterRow(x *voter) g.Node {
	name, undo := g.Text(x.name), g.Node(dim("–")) // accounts are in the table above
	if x.reporter != "" {
		name = link("/history?reporter="+url.QueryEscape(x.reporter), x.name)
	}
	if x.undo != "" {
		undo = act("/people", x.undo, "undo", "Undo", days("Days to undo of "+x.name))
	}
	return h.Tr(rowHead(name), number(count(uint64(x.spam))), number(count(uint64(x.ham))),
		number(count(uint64(x.other))),
		h.Td(h.Class("brief"), g.Text(date(x.latest))), h.Td(h.Div(h.Class("acts"), undo)))
}

// weightLine draws the weight of an account's votes, from the first recorded change to now.
func weightLine(name string, samples []admin.Weight, now time.Time) g.Node {
	if len(samples) == 0 {
		return dim("–")
	}
	const width, height = 120, 24
	start, end := samples[0].Time, max(now.Unix(), samples[len(samples)-1].Time+1)
	at := func(t int64) float64 { return width * float64(t-start) / float64(end-start) }
	var line strings.Builder
	y := 0.0
	for i, s := range samples {
		if i > 0 {
			fmt.Fprintf(&line, "L%.1f %.1f", at(s.Time), y)
		}
		y = height - 1 - (height-2)*min(1, max(0, s.Worth))
		if i == 0 {
			line.WriteString("M")
		} else {
			line.WriteString("L")
		}
		fmt.Fprintf(&line, "%.1f %.1f", at(s.Time), y)
	}
	fmt.Fprintf(&line, "L%d %.1f", width, y)
	return h.SVG(h.Class("weights"), g.Attr("viewBox", fmt.Sprintf("0 0 %d %d", width, height)), h.Role("img"),
		h.Aria("label", fmt.Sprintf("Worth of %s: %.2f since %s, at first %.2f on %s", name, samples[len(samples)-1].Worth,
			date(time.Unix(samples[len(samples)-1].Time, 0)), samples[0].Worth, date(time.Unix(start, 0)))),
		g.El("path", h.Class("sum"), g.Attr("d", line.String())))
}

// audited shows recent actions of administrators.
func audited(v *view) (g.Node, error) {
	before, err := number64(v.URL.Query().Get("before"))
	if err != nil {
		return nil, err
	}
	page, err := v.node.Audit(v.Context(), admin.AuditQuery{Before: before, Limit: 50})
	if absent(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return h.Section(h.H2(g.Text("Record of administration"), dim("who did what, the latest first")),
		g.If(len(page.Entries) == 0, h.P(h.Class("dim"),
			g.Text("Nothing yet. Changes by administrators, log-ins and failed log-ins show here."))),
		g.If(len(page.Entries) > 0, table(g.Group{col("Time"), col("By"), col("From"), col("Did"), col("What")},
			g.Map(page.Entries, func(e admin.AuditEntry) g.Node {
				var about []string
				for _, k := range slices.Sorted(maps.Keys(e.About)) {
					about = append(about, k+" "+e.About[k])
				}
				return h.Tr(rowHead(g.Text(e.Time.UTC().Format("2 Jan 15:04:05"))),
					h.Td(g.Text(dashed(e.Account))), h.Td(g.Text(dashed(strings.TrimSpace(e.Door+" "+e.From)))),
					h.Td(h.Title(e.Action), g.Text(inWords(e.Action)),
						g.If(e.Error != "", h.Span(h.Class("state bad"), g.Text("failed")))),
					h.Td(h.Class("sig"), g.Text(strings.Join(about, ", ")), g.If(e.Error != "", dim(e.Error))))
			}))),
		g.If(page.Next != 0, h.P(link("/people?before="+strconv.FormatInt(page.Next, 10), "Earlier ones")))), nil
}

// deeds are the actions in the record of administration, in words.
var deeds = map[string]string{
	"acceptPeer": "accepted a peer", "addPeer": "added a peer", "addUser": "made an account",
	"checkConfig": "checked a configuration", "changeSecret": "announced another network secret",
	"changeUser": "changed an account", "clear": "put a text on the whitelist",
	"bringBack": "brought aged counts back", "confirmClock": "confirmed the clock",
	"editList": "edited a list", "evictPeer": "evicted a peer",
	"examine": "examined the files", "forgetPeer": "forgot lost incarnations of a peer",
	"invite": "made an invitation", "join": "joined a network", "keepSecret": "kept the network secret",
	"learn": "learned a message", "leave": "left the network", "login": "logged in",
	"loginFailed": "failed to log in", "logout": "logged out", "newLoginLink": "made a log-in link",
	"newToken": "replaced a token", "promote": "promoted the standby", "recover": "recovered the administrator",
	"refused": "was refused a page or request", "refusePeer": "refused a peer",
	"reload": "reloaded the configuration", "reloadConfig": "reloaded the configuration",
	"removeUser": "removed an account", "repair": "repaired the store",
	"reportEntry": "voted on a remembered message", "reportMessageID": "voted by Message-ID",
	"resetRate": "reset a rate limit", "resetRateKey": "reset a rate limit", "restore": "restored a backup",
	"restore from peers": "restored counts from peers", "rollbackPeer": "rolled a peer back",
	"setSecret": "set a password or secret", "start": "started the node",
	"unclear": "took a text off the whitelist", "undoVotes": "undid votes",
	"weighPeer": "changed the weight of a peer", "withdraw": "withdrew an invitation",
}

// inWords returns an action in words: the name itself if it is of a later version.
func inWords(action string) string { return cmp.Or(deeds[action], action) }

// days returns a field for the number of days to go back.
func days(label string) g.Node {
	return h.Select(h.Name("days"), h.Aria("label", label),
		h.Option(h.Value("1"), g.Text("1 day")), h.Option(h.Value("7"), g.Text("7 days")),
		h.Option(h.Value("30"), g.Text("30 days")))
}

// act returns a button, with an optional field, that acts on one row.
func act(to, name, what, verb string, field g.Node) g.Node {
	return h.Form(h.Method("post"), h.Action(to), hidden("name", name), field,
		h.Button(h.Name("do"), h.Value(what), h.Aria("label", verb+" "+spoken(name)), g.Text(verb)))
}

// spoken returns the name of a voter in a form that shows people which kind of voter it is.
func spoken(name string) string {
	if user, ok := strings.CutPrefix(name, "user:"); ok {
		return "user " + user
	}
	return strings.TrimPrefix(name, "account:")
}

// since returns the time in a form, given as a time or as a number of days before now.
func since(v *view) (time.Time, error) {
	if text := v.PostForm.Get("since"); text != "" {
		t, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return t, badForm(errors.New("since: want a time like 2006-01-02T15:04:05Z"))
		}
		return t, nil
	}
	n, err := strconv.Atoi(v.PostForm.Get("days"))
	if err != nil || n < 1 || n > 365 {
		return time.Time{}, badForm(errors.New("days: want 1 to 365"))
	}
	return v.status.Now.Add(-time.Duration(n) * 24 * time.Hour), nil
}

// weight returns the weight in a form.
func weight(v *view) (float64, error) {
	w, err := strconv.ParseFloat(strings.TrimSpace(v.PostForm.Get("weight")), 64)
	if err != nil || !(w >= 0 && w <= 1) {
		return 0, badForm(errors.New("weight: want a number from 0 to 1"))
	}
	return w, nil
}

// changePeople handles the forms of the accounts.
func (s *Site) changePeople(v *view) (g.Node, error) {
	if err := v.ParseForm(); err != nil {
		return nil, badForm(err)
	}
	name, what := v.PostForm.Get("name"), v.PostForm.Get("do")
	if page, ok, err := s.changeAccount(v, name, what); ok {
		return page, err
	}
	back := "/people"
	if v.PostForm.Get("page") == "one" {
		back = accountAddress(name)
	}
	switch what {
	case "weigh":
		w, err := weight(v)
		if err != nil {
			return nil, err
		}
		before, err := v.node.User(v.Context(), name)
		if err != nil {
			return nil, err
		}
		if _, err := v.node.ChangeUser(v.Context(), name, admin.UserChange{Weight: &w}); err != nil {
			return nil, err
		}
		s.offerChange(v, back, name, admin.UserChange{Weight: &before.Weight},
			fmt.Sprintf("The votes of %s weigh %.2f again.", name, before.Weight))
		v.notice = fmt.Sprintf("The votes of %s weigh %.2f from now on.", name, w)
	case "close", "open":
		closed := what == "close"
		if d := v.deed(time.Time{}); closed && !s.agreed(v, d) {
			preview, err := v.node.PreviewClose(v.Context(), name)
			if err != nil {
				return nil, err
			}
			return s.ask(v, d, consequence.Close(name, preview)), nil
		}
		if _, err := v.node.ChangeUser(v.Context(), name, admin.UserChange{Closed: &closed}); err != nil {
			return nil, err
		}
		v.notice = fmt.Sprintf("Account %s is %sed.", name, strings.TrimSuffix(what, "e")) // closed, opened
		other := !closed
		s.offerChange(v, back, name, admin.UserChange{Closed: &other}, "The change of account "+name+" is taken back.")
	case "undo":
		from, err := since(v)
		if err != nil {
			return nil, err
		}
		if d := v.deed(from); !s.agreed(v, d) {
			preview, err := v.node.PreviewUndo(v.Context(), name, from)
			if err != nil {
				return nil, err
			}
			return s.ask(v, d, consequence.Undo(spoken(name), from, preview)), nil
		}
		undone, err := v.node.UndoVotes(v.Context(), name, from)
		if err != nil {
			return nil, err
		}
		v.notice = undoneWords(spoken(name), undone)
	default:
		return nil, badForm(errors.New("unknown action"))
	}
	if v.PostForm.Get("page") == "one" {
		return accountPage(v, name)
	}
	return s.people(v)
}

// forbidden reports whether an error means that only administrators may make a request.
func forbidden(err error) bool {
	var p *client.Problem
	return errors.As(err, &p) && (p.Status == http.StatusUnauthorized || p.Status == http.StatusForbidden)
}

// absent reports whether an error means that the node has no such object.
func absent(err error) bool {
	var p *client.Problem
	return errors.As(err, &p) && p.Status == http.StatusNotFound
}

// undoneWords describes votes that were taken back.
func undoneWords(name string, u *admin.Undone) string {
	return fmt.Sprintf("Votes of %s on %d signatures are taken back: %d are off the blocklist, %d on it again.", name,
		u.Votes, u.Off, u.On)
}
