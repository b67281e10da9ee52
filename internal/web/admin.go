package web

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client"
	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/consequence"
)

// people returns the page of the accounts.
func (s *Site) people(v *view) (g.Node, error) {
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
	return g.Group{h.Section(h.H2(g.Text("People"), dim("whose votes weigh what")),
		h.Div(h.Class("scroll"), g.Attr("tabindex", "0"), h.Table(
			h.THead(h.Tr(h.Th(g.Text("Name")), h.Th(g.Text("Role")), num("Weight"), num("Worth now"), h.Th(g.Text("Over time")),
				h.Th(g.Text("Accuracy")), h.Th(g.Text("Since")), h.Th(g.Text("Actions")))),
			h.TBody(g.Map(users, func(u admin.User) g.Node { return userRow(u, of[u.Name], v.status.Now) })),
		)), h.P(h.Class("dim"),
			g.Text(
				"“Undo” takes back every vote of the last days that the node still remembers. Weight is 0 to 1. "+
					"Accuracy is of the reports that others have confirmed or taken off the list. "),
			h.Code(g.Text("bulkhead user add NAME")), g.Text(" makes an account."))),
		latest, record}, nil
}

func userRow(u admin.User, weights []admin.Weight, now time.Time) g.Node {
	closing, verb := "close", "Close"
	if u.Closed {
		closing, verb = "open", "Open"
	}
	return h.Tr(
		h.Th(g.Attr("scope", "row"), g.Text(u.Name), g.If(u.Closed, dim("closed")), g.If(u.Person != "", dim("is "+u.Person)),
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
		g.If(len(all) > 0, h.Div(h.Class("scroll"), g.Attr("tabindex", "0"), h.Table(
			h.THead(h.Tr(h.Th(g.Text("Who")), num("Spam"), num("Ham"), num("Revoked"), h.Th(g.Text("Latest")),
				h.Th(g.Text("Actions")))),
			h.TBody(g.Map(shown, voterRow))))),
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
	return h.Tr(h.Th(g.Attr("scope", "row"), name), number(count(uint64(x.spam))), number(count(uint64(x.ham))),
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
		g.If(len(page.Entries) > 0, h.Div(h.Class("scroll"), g.Attr("tabindex", "0"), h.Table(
			h.THead(h.Tr(h.Th(g.Text("Time")), h.Th(g.Text("By")), h.Th(g.Text("From")), h.Th(g.Text("Did")),
				h.Th(g.Text("What")))),
			h.TBody(g.Map(page.Entries, func(e admin.AuditEntry) g.Node {
				var about []string
				for _, k := range slices.Sorted(maps.Keys(e.About)) {
					about = append(about, k+" "+e.About[k])
				}
				return h.Tr(h.Th(g.Attr("scope", "row"), g.Text(e.Time.UTC().Format("2 Jan 15:04:05"))),
					h.Td(g.Text(dashed(e.Account))), h.Td(g.Text(dashed(strings.TrimSpace(e.Door+" "+e.From)))),
					h.Td(g.Text(e.Action), g.If(e.Error != "", h.Span(h.Class("state bad"), g.Text("failed")))),
					h.Td(h.Class("sig"), g.Text(strings.Join(about, ", ")), g.If(e.Error != "", dim(e.Error))))
			}))))),
		g.If(page.Next != 0, h.P(link("/people?before="+strconv.FormatInt(page.Next, 10), "Earlier ones")))), nil
}

func number(s string) g.Node { return h.Td(h.Class("num"), g.Text(s)) }

// days returns a field for the number of days to go back.
func days(label string) g.Node {
	return h.Select(h.Name("days"), h.Aria("label", label),
		h.Option(h.Value("1"), g.Text("1 day")), h.Option(h.Value("7"), g.Text("7 days")),
		h.Option(h.Value("30"), g.Text("30 days")))
}

// act returns a button, with an optional field, that acts on one row.
func act(to, name, what, verb string, field g.Node) g.Node {
	return h.Form(h.Method("post"), h.Action(to), h.Input(h.Type("hidden"), h.Name("name"), h.Value(name)), field,
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
	switch what {
	case "weigh":
		w, err := weight(v)
		if err != nil {
			return nil, err
		}
		if _, err := v.node.ChangeUser(v.Context(), name, admin.UserChange{Weight: &w}); err != nil {
			return nil, err
		}
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
		v.notice = fmt.Sprintf("Votes of %s on %d signatures are taken back: %d are off the blocklist, %d on it again.",
			spoken(name), undone.Votes, undone.Off, undone.On)
	default:
		return nil, badForm(errors.New("unknown action"))
	}
	return s.people(v)
}

// peers returns the page of the nodes with which this node shares.
func (s *Site) peers(v *view) (g.Node, error) {
	n, err := v.node.Network(v.Context())
	var p *client.Problem
	if errors.As(err, &p) && p.Status == http.StatusNotFound {
		return h.P(h.Class("card"),
			g.Text("This node shares with no peer. Set mesh.mode in its configuration to share counts with others.")), nil
	}
	if err != nil {
		return nil, err
	}
	invitations, err := v.node.Invitations(v.Context())
	if err != nil && !absent(err) {
		return nil, err
	}
	return g.Group{
		peerMap(n, v.status.Name, v.status.Now),
		h.Section(h.H2(g.Text("Peers"), dim(n.Mode+", "+n.Role)),
			g.If(len(n.Peers) == 0, h.P(h.Class("dim"), g.Text("No peer yet. This node's key is "), h.Code(g.Text(n.Key)),
				g.Text("; bulkhead peer add KEY accepts what another publishes."))),
			g.If(len(n.Peers) > 0, h.Div(h.Class("scroll"), g.Attr("tabindex", "0"), h.Table(
				h.THead(h.Tr(h.Th(g.Text("Peer")), h.Th(g.Text("State")), num("Weight"), num("Lag"), num("Missing"), num("Keys"),
					num("Memory"), num("Refused"), h.Th(g.Text("Actions")))),
				h.TBody(g.Map(n.Peers, func(p admin.Peer) g.Node { return peerRow(&p, v.status.Now) })),
			))), secretRow(n.Secret)),
		aggregateRow(n.Aggregate),
		invite(invitations),
		h.Section(h.H2(g.Text("Brokers")), h.Div(h.Class("scroll"), g.Attr("tabindex", "0"), h.Table(
			h.THead(h.Tr(h.Th(g.Text("Server")), h.Th(g.Text("State")), num("In"), num("Out"))),
			h.TBody(g.Map(n.Brokers, func(b admin.Broker) g.Node {
				state := "connected"
				if !b.Connected {
					state = "not connected"
				}
				return h.Tr(h.Th(g.Attr("scope", "row"), h.Code(g.Text(b.Server))),
					h.Td(g.Text(state), g.If(b.Error != "", dim(b.Error))), number(size(b.BytesIn)), number(size(b.BytesOut)))
			})),
		))),
	}, nil
}

// secretRow announces a change of the network's secret; it returns nothing if there is none.
func secretRow(s *admin.SecretChange) g.Node {
	if s == nil || s.Done {
		return nil
	}
	return h.P(
		g.Text(fmt.Sprintf("The network gets another secret at %s; %d of %d peers have fetched it here. Announced by ",
			s.At.UTC().Format(time.DateTime+" MST"), len(s.Told), len(s.Told)+len(s.Through)+len(s.Untold))),
		h.Code(g.Text(s.By)), g.Text(". "), h.Code(g.Text("bulkhead rekey --cancel")), g.Text(" takes it back."))
}

// aggregateRow describes the aggregate that the node publishes; it returns nothing if there is
// none.
func aggregateRow(a *admin.Aggregate) g.Node {
	if a == nil {
		return nil
	}
	return h.P(g.Text(fmt.Sprintf("This node publishes the sum of %d organisations (%s, %d members) under the key ",
		a.Organisations, size(a.Memory), a.Members)), h.Code(g.Text(a.Key)), g.If(a.Fault != "", dim(a.Fault)))
}

// behind returns the lag of a peer, once a message from it has arrived.
func behind(p *admin.Peer) string {
	if p.Heard.IsZero() {
		return "–"
	}
	return fmt.Sprintf("%.1f s", p.Lag)
}

// stateOf describes the state of a peer in words.
func stateOf(p *admin.Peer, now time.Time) (text, class string) {
	switch {
	case p.Network != "":
		return "in another network", "bad"
	case p.Quarantine != "":
		return "quarantined: " + p.Quarantine, "bad"
	case p.Heard.IsZero():
		return "never heard", "bad"
	case p.Silent > 0:
		return "silent, last heard " + age(p.Heard, now) + " ago", "bad"
	}
	return "heard " + age(p.Heard, now) + " ago", "good"
}

func peerRow(p *admin.Peer, now time.Time) g.Node {
	state, class := stateOf(p, now)
	refused := uint64(0)
	for _, n := range p.Refused {
		refused += n
	}
	name := nameOf(p)
	return h.Tr(
		h.Th(g.Attr("scope", "row"), h.Title(p.Key), g.Text(name),
			g.If(p.Organisations > 0, dim(fmt.Sprintf("%d organisations", p.Organisations)))),
		h.Td(h.Span(h.Class("state "+class), g.Text(state)),
			g.If(p.FormerKeys() > 0, dim(count(p.FormerKeys())+" keys of before it lost its store"))),
		number(fmt.Sprintf("%.2f", p.Weight)), number(behind(p)), number(count(p.Missing)), number(count(p.Keys)),
		number(size(p.Memory)),
		h.Td(h.Class("num"), h.Title(strings.Join(slices.Sorted(maps.Keys(p.Refused)), ", ")), g.Text(count(refused))),
		h.Td(h.Div(h.Class("acts"),
			act("/peers", p.Key, "weigh", "Set", h.Input(h.Name("weight"), h.Value(fmt.Sprintf("%.2f", p.Weight)),
				g.Attr("size", "4"), g.Attr("inputmode", "decimal"), h.Aria("label", "Weight of "+name))),
			act("/peers", p.Key, "rollback", "Roll back", days("Days to roll back of "+name)),
			act("/peers", p.Key, "evict", "Evict", nil))),
	)
}

// peerMap draws the node with its peers around it. The width of a line shows the peer's weight.
func peerMap(n *admin.Network, self string, now time.Time) g.Node {
	if len(n.Peers) == 0 {
		return nil
	}
	const width, height = 360, 220
	var lines, dots g.Group
	well := 0
	for i := range n.Peers {
		p := &n.Peers[i]
		text, class := stateOf(p, now)
		if class == "good" {
			well++
		}
		angle := 2 * math.Pi * (float64(i)/float64(len(n.Peers)) - 0.25)
		x, y := width/2+130*math.Cos(angle), height/2+78*math.Sin(angle)
		lines = append(lines, g.El("line", h.Class("to-"+class), g.Attr("x1", strconv.Itoa(width/2)),
			g.Attr("y1", strconv.Itoa(height/2)),
			g.Attr("x2", fmt.Sprintf("%.0f", x)), g.Attr("y2", fmt.Sprintf("%.0f", y)),
			g.Attr("stroke-width", fmt.Sprintf("%.1f", 0.5+4*p.Weight))))
		dots = append(dots, g.El("circle", h.Class("at-"+class), g.Attr("cx", fmt.Sprintf("%.0f", x)),
			g.Attr("cy", fmt.Sprintf("%.0f", y)), g.Attr("r", "6"),
			g.El("title", g.Text(nameOf(p)+": "+text))))
		if len(n.Peers) <= 12 {
			away := 18.0 // distance from the lines, which start in the middle
			if y < height/2 {
				away = -12
			}
			dots = append(dots, mapLabel(x, y+away, nameOf(p)))
		}
	}
	return h.SVG(h.Class("map"), g.Attr("viewBox", fmt.Sprintf("0 0 %d %d", width, height)), h.Role("img"),
		h.Aria("label", fmt.Sprintf("%s, of which %d are heard and counted", plural(uint64(len(n.Peers)), "peer"), well)),
		lines, g.El("circle", h.Class("self"), g.Attr("cx", strconv.Itoa(width/2)), g.Attr("cy", strconv.Itoa(height/2)),
			g.Attr("r", "9")), mapLabel(width/2, height/2+22, self), dots)
}

func mapLabel(x, y float64, text string) g.Node {
	if r := []rune(text); len(r) > 22 {
		text = string(r[:21]) + "…"
	}
	return g.El("text", g.Attr("x", fmt.Sprintf("%.0f", x)), g.Attr("y", fmt.Sprintf("%.0f", y)),
		g.Attr("text-anchor", "middle"), g.Text(text))
}

// nameOf returns the name of a peer to show.
func nameOf(p *admin.Peer) string {
	if p.Name != "" {
		return p.Name
	}
	return p.Key[:min(8, len(p.Key))]
}

// invite returns a form that makes an invitation, and the nodes that wait to be accepted.
func invite(all []admin.Invitation) g.Node {
	var waiting g.Group
	for i := range all {
		for _, j := range all[i].Joiners {
			if j.State == "waiting" {
				waiting = append(waiting, h.Tr(h.Th(g.Attr("scope", "row"), g.Text(dashed(j.Name))),
					h.Td(h.Code(h.Class("sig"), g.Text(j.Key))), h.Td(g.Text(date(j.At))),
					h.Td(h.Div(h.Class("acts"), act("/peers", j.Key, "accept", "Accept", nil),
						act("/peers", j.Key, "refuse", "Refuse", nil)))))
			}
		}
	}
	return h.Section(h.H2(g.Text("Invite"), dim("another node into this network")),
		h.Form(h.Class("card fields"), h.Method("post"), h.Action("/peers"),
			h.Div(h.Label(h.For("invited"), g.Text("Name")),
				h.Input(h.ID("invited"), h.Name("name"), g.Attr("maxlength", "64"))),
			h.Div(h.Label(h.For("weight"), g.Text("Weight, 0 to 1")),
				h.Input(h.ID("weight"), h.Name("weight"), h.Value("0.5"), g.Attr("size", "4"), g.Attr("inputmode", "decimal"))),
			h.Button(h.Name("do"), h.Value("invite"), g.Text("Make an invitation"))),
		g.If(len(waiting) > 0, h.Div(h.Class("scroll"), g.Attr("tabindex", "0"), h.Table(
			h.THead(h.Tr(h.Th(g.Text("Waits")), h.Th(g.Text("Key")), h.Th(g.Text("Since")), h.Th(g.Text("Actions")))),
			h.TBody(waiting)))))
}

// changePeers handles the forms of the peers.
func (s *Site) changePeers(v *view) (g.Node, error) {
	if err := v.ParseForm(); err != nil {
		return nil, badForm(err)
	}
	key := v.PostForm.Get("name")
	switch v.PostForm.Get("do") {
	case "weigh":
		w, err := weight(v)
		if err != nil {
			return nil, err
		}
		if _, err := v.node.WeighPeer(v.Context(), key, w); err != nil {
			return nil, err
		}
		v.notice = fmt.Sprintf("The peer's word is worth %.2f from now on.", w)
	case "rollback":
		from, err := since(v)
		if err != nil {
			return nil, err
		}
		if d := v.deed(from); !s.agreed(v, d) {
			preview, err := v.node.PreviewRollback(v.Context(), key, from)
			if err != nil {
				return nil, err
			}
			return s.askOfPeer(v, d, func(name string) consequence.Question { return consequence.Rollback(name, from, preview) })
		}
		if _, err := v.node.RollbackPeer(v.Context(), key, from); err != nil {
			return nil, err
		}
		v.notice = "The counts of the peer since " + date(from) + " are dropped."
	case "invite":
		w, err := weight(v)
		if err != nil {
			return nil, err
		}
		made, err := v.node.Invite(v.Context(), admin.NewInvitation{Name: key, Weight: w})
		if err != nil {
			return nil, err
		}
		v.notice = "Hand this over to the new node alone: " + made.Line
	case "accept":
		if _, err := v.node.AcceptPeer(v.Context(), key); err != nil {
			return nil, err
		}
		v.notice = "The node is a peer from now on."
	case "refuse":
		if err := v.node.RefusePeer(v.Context(), key); err != nil {
			return nil, err
		}
		v.notice = "The node is refused."
	case "evict":
		if d := v.deed(time.Time{}); !s.agreed(v, d) {
			preview, err := v.node.PreviewEvict(v.Context(), key)
			if err != nil {
				return nil, err
			}
			return s.askOfPeer(v, d, func(name string) consequence.Question { return consequence.Evict(name, preview) })
		}
		if err := v.node.EvictPeer(v.Context(), key); err != nil {
			return nil, err
		}
		v.notice = "The peer is dropped, with all that it counted."
	default:
		return nil, badForm(errors.New("unknown action"))
	}
	return s.peers(v)
}

// askOfPeer asks to confirm a change of a peer.
func (s *Site) askOfPeer(v *view, d *deed, question func(name string) consequence.Question) (g.Node, error) {
	p, err := v.node.Peer(v.Context(), d.name)
	if err != nil {
		return nil, err
	}
	return s.ask(v, d, question(nameOf(p))), nil
}

// rules returns the page of lists and rate limits, with the result of a look-up in the lists.
func (s *Site) rules(v *view) (g.Node, error) {
	lists, err := v.node.Lists(v.Context())
	if err != nil && !absent(err) {
		return nil, err
	}
	limits, err := v.node.RateLimits(v.Context())
	if err != nil && !absent(err) {
		return nil, err
	}
	found, err := s.find(v)
	if err != nil {
		return nil, err
	}
	most, err := v.node.TopRateKeys(v.Context(), 10)
	if err != nil && !absent(err) && !forbidden(err) {
		return nil, err
	}
	white, err := whitelisted(v)
	if err != nil {
		return nil, err
	}
	return g.Group{
		h.Form(h.Class("card row"), h.Method("post"), h.Action("/rules"),
			h.Label(h.For("entry"), g.Text("Address, domain, URL or IP address")),
			h.Input(h.ID("entry"), h.Name("entry"), h.Required(), h.Value(v.PostFormValue("entry"))),
			h.Button(g.Text("Look up in all lists"))),
		found,
		h.Section(h.H2(g.Text("Lists")),
			g.If(len(lists) == 0, h.P(h.Class("dim"),
				g.Text("No list yet. bulkhead list build makes one, and [[lists.list]] in the configuration loads it."))),
			g.If(len(lists) > 0, h.Div(h.Class("scroll"), g.Attr("tabindex", "0"), h.Table(
				h.THead(h.Tr(h.Th(g.Text("List")), h.Th(g.Text("Tone")), num("Entries"), num("Memory"), num("Wrong finds"),
					h.Th(g.Text("Updated")))),
				h.TBody(g.Map(lists, func(l admin.List) g.Node {
					if l.Unknown {
						return h.Tr(h.Th(g.Attr("scope", "row"), g.Text(l.Name)),
							h.Td(g.Attr("colspan", "5"), g.Text("not known: "+l.Fault)))
					}
					return h.Tr(h.Th(g.Attr("scope", "row"), g.Text(l.Name)), h.Td(g.Text(l.Tone)), number(count(l.Entries)),
						number(size(l.Bytes)), number(chance(l.Error)), h.Td(g.Text(date(l.Updated))))
				})))))),
		white,
		h.Section(h.H2(g.Text("Rate limits")),
			g.If(len(limits) == 0, h.P(h.Class("dim"),
				g.Text("No limit yet. [[ratelimit]] in the configuration makes one; docs/protocols/policy.md has examples."))),
			g.If(len(limits) > 0, h.Div(h.Class("scroll"), g.Attr("tabindex", "0"), h.Table(
				h.THead(h.Tr(h.Th(g.Text("Rule")), h.Th(g.Text("Counts")), num("Limit"), h.Th(g.Text("Action")), num("Keys"),
					num("Memory"), num("Given up"))),
				h.TBody(g.Map(limits, func(l admin.RateLimit) g.Node {
					counts := l.Key
					if l.Unique != "" {
						counts = "different " + l.Unique + " for each " + l.Key
					}
					return h.Tr(h.Th(g.Attr("scope", "row"), g.Text(l.Name)), h.Td(h.Code(g.Text(counts))),
						number(fmt.Sprintf("%g in %s", l.Limit, l.Period)), h.Td(g.Text(l.Action)),
						number(count(uint64(l.Keys))), number(size(uint64(l.Bytes))), number(count(uint64(l.Evicted))))
				})))))),
		g.Map(most, topKeys),
	}, nil
}

// topKeys shows the keys of a rule with the highest rates.
func topKeys(t admin.TopKeys) g.Node {
	if len(t.Keys) == 0 {
		return nil
	}
	return h.Section(h.H2(g.Text("Top keys of "+t.Rule), dim("with the highest rates now")),
		h.Div(h.Class("scroll"), g.Attr("tabindex", "0"), h.Table(
			h.THead(h.Tr(h.Th(g.Text("Key")), h.Th(h.Class("fill"), g.Text("Of the limit")), num("Rate"), num("Limit"),
				h.Th(g.Text("Actions")))),
			h.TBody(g.Map(t.Keys, func(k admin.TopKey) g.Node {
				share := 0.0
				if k.Limit > 0 {
					share = k.Rate / k.Limit
				}
				return h.Tr(h.Th(g.Attr("scope", "row"), h.Class("sig"), g.Text(k.Key)),
					h.Td(h.Class("fill"), gauge(share), g.Text(percent(share))), number(fmt.Sprintf("%.1f", k.Rate)),
					number(fmt.Sprintf("%g", k.Limit)),
					h.Td(act("/rules", k.Key, "reset "+t.Rule, "Forget", nil)))
			})))))
}

// changeRules looks up an entry, or takes a signature off the whitelist.
func (s *Site) changeRules(v *view) (g.Node, error) {
	if err := v.ParseForm(); err != nil {
		return nil, badForm(err)
	}
	if rule, ok := strings.CutPrefix(v.PostForm.Get("do"), "reset "); ok {
		got, err := v.node.ResetRateKey(v.Context(), rule, v.PostForm.Get("name"))
		if err != nil {
			return nil, err
		}
		v.notice = fmt.Sprintf("The counts of the key are forgotten in %s.", plural(uint64(got.Reset), "rule"))
	}
	if v.PostForm.Get("do") == "unclear" {
		sig, err := bulkhead.ParseSignature(v.PostForm.Get("name"))
		if err != nil {
			return nil, badForm(err)
		}
		if err := v.node.Unclear(v.Context(), sig); err != nil {
			return nil, err
		}
		v.notice = "The text is off the whitelist."
	}
	return s.rules(v)
}

// find shows the result of the look-up form.
func (s *Site) find(v *view) (g.Node, error) {
	entry := strings.TrimSpace(v.PostFormValue("entry"))
	if entry == "" {
		return nil, nil
	}
	found, err := v.node.FindInLists(v.Context(), entry)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return h.P(h.Class("card"), h.Role("status"), g.Text(entry+" is in no list.")), nil
	}
	return h.Ul(h.Class("card"), h.Role("status"), g.Map(found, func(m admin.ListMatch) g.Node {
		return h.Li(g.Text(fmt.Sprintf("%s is in the %s list %s, by %s; chance of an error: %s. %s", entry, m.Tone, m.List,
			m.Element, chance(m.Error), m.Reason)))
	})), nil
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
