package web

import (
	"cmp"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/bulkhead-mail/bulkhead/client"
	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/web/chart"
)

func (s *Site) now(v *view) (g.Node, error) { return overview(v) }

// overview returns the content of the first page, which is sent again while the page is open.
func overview(v *view) (g.Node, error) {
	s := &v.status
	o, err := v.node.Overview(v.Context())
	if err != nil && !absent(err) {
		return nil, err
	}
	drawn, err := verdictChart(v, o)
	if err != nil {
		return nil, err
	}
	var numbers g.Node
	if o != nil {
		numbers = today(o)
	}
	text, class := health(s)
	return g.Group{
		h.P(h.Class("health "+class), h.Role("status"), g.Text(text)),
		alarms(s),
		numbers,
		drawn,
		machinery(s),
	}, nil
}

// health describes the state of the node in a sentence, with the class of its sign: "" if all is well,
// poor or ill.
func health(s *Status) (text, class string) {
	var away []*admin.Peer
	for i := range s.Peers {
		if _, class := stateOf(&s.Peers[i], s.Now); class == "bad" {
			away = append(away, &s.Peers[i])
		}
	}
	partner, class := pairHealth(s)
	switch {
	case s.Standby != nil && s.Standby.Role == second:
		return partner, class // it refuses reports, as it should
	case s.ReadOnly != "":
		return "Mail is checked, but reports are refused until the fault below is mended.", "ill"
	case s.Held != nil:
		return "Mail is checked and reports are taken, but nothing ages: the clock is implausibly far ahead of the newest " +
			"record, " + s.Held.Newest.UTC().Format(time.DateTime) + " UTC. Set the clock right. If this machine was off " +
			"since then, run \"bulkhead clock confirm\".", "poor"
	case partner != "":
		return partner, class
	case len(s.Missing) > 0:
		return "Mail is checked and reports are taken, but a part of the data folder was gone at the start and began anew: " +
			strings.Join(s.Missing, ", ") + ".", "poor"
	case s.Doubts > 0:
		return "Mail is checked and reports are taken, but some counts may be too low since a damaged store was repaired. " +
			"\"bulkhead doctor\" lists them.", "poor"
	case len(away) == 1:
		state, _ := stateOf(away[0], s.Now)
		return fmt.Sprintf("Mail is checked and reports are taken, but the peer %s does not help: %s.",
			nameOf(away[0]), state), "poor"
	case len(away) > 1:
		return fmt.Sprintf("Mail is checked and reports are taken, but %d of %d peers do not help.", len(away),
			len(s.Peers)), "poor"
	case !s.Mature:
		return "All is well. The node is young: links and contacts decide nothing until it has seen 200 messages of " +
			"verified senders on two days.", ""
	}
	return "All is well: mail is checked and reports are taken.", ""
}

// today shows the numbers that an administrator asks for first. Each leads to its messages.
func today(o *admin.Overview) g.Node {
	since := " since:" + o.Since.UTC().Format("2006-01-02T15:04Z")
	tile := func(name, search string, n, before uint64, worse bool) g.Node {
		return h.Div(h.Dt(g.Text(name)),
			h.Dd(h.A(h.Href(searchPath(search)), h.Aria("label", fmt.Sprintf("%s: %s", name, plural(n, "message"))),
				g.Text(count(n)))),
			h.Dd(h.Class("small dim"), compared(o.Known, n, before, worse)))
	}
	waiting := g.Node(nil)
	if o.Waiting != nil {
		text := count(uint64(*o.Waiting))
		if o.More {
			text = "over " + text
		}
		waiting = h.Div(h.Dt(g.Text("Wait for a second voice")),
			h.Dd(h.A(h.Href(searchPath("is:waiting since:7d")), h.Aria("label", "Wait for a second voice: "+text),
				g.Text(text))),
			h.Dd(h.Class("small dim"), g.Text("reported in the last 7 days")))
	}
	return h.Section(h.H2(g.Text("Today"), dim("the last 24 hours, against the same hours a week ago")),
		h.Dl(h.Class("tiles today"),
			tile("Caught", "is:caught"+since, o.Now.Caught, o.Before.Caught, false),
			tile("Slipped through", "is:reported"+since, o.Now.Reported, o.Before.Reported, true),
			tile("Complained about", "is:complained"+since, o.Now.Complained, o.Before.Complained, true),
			waiting),
		h.P(h.Class("dim"), g.Text(fmt.Sprintf("%s checked. Slipped through: a person reported the message as spam. "+
			"Complained about: a person called it wanted, or took it off the blocklist.", plural(o.Now.Checked, "message")))))
}

// compared describes a number against an earlier one. worse is set if a rise is bad.
func compared(known bool, n, before uint64, worse bool) g.Node {
	if !known {
		return g.Text("no week to compare with yet")
	}
	was := count(before) + " a week ago"
	if n == before || before == 0 {
		return g.Text(was)
	}
	change, arrow, class := math.Round(100*(float64(n)-float64(before))/float64(before)), "▲", ""
	if change < 0 {
		arrow = "▼"
	}
	if worse {
		class = "up"
		if change < 0 {
			class = "down"
		}
	}
	return g.Group{g.Text(was + ", "), h.Span(h.Class(class), g.Text(fmt.Sprintf("%s %.0f %%", arrow, math.Abs(change))))}
}

// searchPath returns the address of the messages of a search.
func searchPath(line string) string { return "/history?" + url.Values{"q": {line}}.Encode() }

// A span is a range of the chart.
type span struct {
	name   string // in the address
	spoken string
	slot   string // as in the API
	length time.Duration
	slots  int
}

// spans are the ranges of the chart. defaultSpan is shown at first.
var spans = []span{
	{"1h", "1 hour", "1m", time.Minute, 60},
	{"6h", "6 hours", "10m", 10 * time.Minute, 36},
	{"24h", "24 hours", "10m", 10 * time.Minute, 144},
	{"7d", "7 days", "1h", time.Hour, 7 * 24},
	{"30d", "30 days", "24h", 24 * time.Hour, 30},
	{"90d", "90 days", "24h", 24 * time.Hour, 90},
}

const defaultSpan = "24h"

// spanOf returns the range that a request asks for.
func spanOf(v *view) *span {
	name := cmp.Or(v.URL.Query().Get("range"), defaultSpan)
	if i := slices.IndexFunc(spans, func(s span) bool { return s.name == name }); i >= 0 {
		return &spans[i]
	}
	return spanOf(&view{Request: &http.Request{URL: &url.URL{}}})
}

// classes lists the classes in the order of the bars, from the bottom.
var classes = []string{"spam", "suspected", "bulk", "good", "unknown"}

// verdictChart draws the verdicts of a range. Before the first verdict it explains how to get verdicts.
func verdictChart(v *view, o *admin.Overview) (g.Node, error) {
	of := spanOf(v)
	end := v.status.Now.UTC().Truncate(of.length).Add(of.length)
	first := end.Add(-time.Duration(of.slots) * of.length)
	got, err := v.node.Verdicts(v.Context(), admin.VerdictsQuery{Since: first, Until: end, Slot: of.slot})
	if err != nil && !absent(err) {
		return nil, err
	}
	c := chart.Chart{Title: "Verdicts of the last " + of.spoken, Slot: of.length}
	for i := range of.slots {
		c.Starts = append(c.Starts, first.Add(time.Duration(i)*of.length))
	}
	for _, class := range classes {
		c.Series = append(c.Series, chart.Series{Class: class, Name: class, Values: make([]uint64, of.slots)})
	}
	any := false
	doors := make(map[string]admin.DoorSum)
	if got != nil {
		for _, slot := range got.Slots {
			i := int(slot.Start.Sub(first) / of.length)
			if i < 0 || i >= of.slots {
				continue
			}
			for name, sum := range slot.Doors {
				for k, n := range verdictsOf(&sum) {
					c.Series[k].Values[i] += n
				}
				all := doors[name]
				all.Add(sum)
				doors[name] = all
				any = any || sum.Checks() > 0
			}
		}
	}
	if o != nil {
		for _, e := range o.Events {
			c.Marks = append(c.Marks, chart.Mark{At: e.Time, Text: e.Text})
		}
	}
	heading := h.Div(h.Class("heading"), h.H2(g.Text("Verdicts"), dim("on each message that was checked")),
		h.P(h.Class("ranges"), h.Role("group"), h.Aria("label", "Range of the chart"), g.Map(spans, func(s span) g.Node {
			return h.A(h.Href("/?range="+s.name), g.If(s.name == of.name, h.Aria("current", "true")), g.Text(s.spoken))
		})))
	if !any && of.slots < 60 || !any && len(doors) == 0 {
		return h.Section(heading, h.P(h.Class("card"), g.Text("No message was checked in this time. "),
			h.Code(g.Text("bulkhead setup")), g.Text(" makes the mail programs of this machine ask the node, "),
			h.Code(g.Text("bulkhead doctor")), g.Text(" tries every door, and a message can be shown to "),
			link("/lookup", "Look up"), g.Text("."))), nil
	}
	return h.Section(heading, c.Draw(), byDoor(doors)), nil
}

// verdictsOf returns the verdicts of a door in the order of classes.
func verdictsOf(s *admin.DoorSum) [5]uint64 {
	return [5]uint64{s.Spam, s.Suspected, s.Bulk, s.Good, s.Unknown}
}

// byDoor returns the sums of a chart for each door.
func byDoor(sums map[string]admin.DoorSum) g.Node {
	if len(sums) == 0 {
		return nil
	}
	var names []string
	for name := range sums {
		names = append(names, name)
	}
	slices.Sort(names)
	return h.Details(h.Summary(g.Text("By door")), table(g.Group{col("Door"), g.Map(classes, num), num("reported"),
		num("complained about")},
		g.Map(names, func(name string) g.Node {
			s := sums[name]
			row := g.Group{rowHead(link(searchPath("door:"+name), name))}
			for _, n := range verdictsOf(&s) {
				row = append(row, number(count(n)))
			}
			return h.Tr(row, number(count(s.SpamVotes)), number(count(s.HamVotes+s.Revocations)))
		})))
}

// machinery returns a quiet line about storage, peers and doors, with the details behind it. The
// details are open if something is wrong.
func machinery(s *Status) g.Node {
	var words []string
	wrong := false
	if s.Disk > 0 {
		used := 1 - float64(s.Free)/float64(s.Disk)
		words = append(words, "disk "+percent(used)+" full")
		wrong = wrong || used > 0.95
	}
	for i := range s.Books {
		if fill, ok := fullest(&s.Books[i]); ok {
			words = append(words, strings.ToLower(s.Books[i].Name)+" "+percent(fill.Fill)+" full")
			wrong = wrong || fill.Fill > 0.95
		}
	}
	if n := len(s.Peers); n > 0 {
		well := 0
		for i := range s.Peers {
			if _, class := stateOf(&s.Peers[i], s.Now); class == "good" {
				well++
			}
		}
		words = append(words, fmt.Sprintf("%d of %s heard", well, plural(uint64(n), "peer")))
		wrong = wrong || well < n
	}
	with, away := pairWords(s)
	words, wrong = append(words, with...), wrong || away
	words = append(words, plural(uint64(len(s.Doors)), "door")+" open", "running for "+age(s.Started, s.Now))
	text := strings.Join(words, " · ")
	text = strings.ToUpper(text[:1]) + text[1:]
	return h.Details(h.Class("quiet"), g.If(wrong, g.Attr("open")), h.Summary(g.Text(text)),
		doors(s.Doors), stores(s), pair(s), lags(s), tiles(s))
}

// fullest returns the array of a book's present generation with the highest fill.
func fullest(b *Book) (*Array, bool) {
	if len(b.Generations) == 0 || len(b.Generations[0].Arrays) == 0 {
		return nil, false
	}
	full := &b.Generations[0].Arrays[0]
	for i := range b.Generations[0].Arrays {
		if a := &b.Generations[0].Arrays[i]; a.Fill > full.Fill {
			full = a
		}
	}
	return full, true
}

// stores returns a tile for each book, with the fill and the error rate of its present generation,
// and a tile for the disk.
func stores(s *Status) g.Node {
	var all g.Group
	for i := range s.Books {
		b := &s.Books[i]
		full, ok := fullest(b)
		if !ok {
			continue
		}
		all = append(all, h.Div(h.Dt(h.Strong(g.Text(b.Name)),
			g.Text(" "+plural(uint64(len(b.Generations)), "generation")+", "+size(b.Bytes))),
			h.Dd(h.Class("fill"), gauge(full.Fill), g.Text(percent(full.Fill)+" full")),
			h.Dd(h.Class("small"), g.Text("absent key found: "+chance(full.Ghost)))))
	}
	if s.Disk > 0 {
		used := 1 - float64(s.Free)/float64(s.Disk)
		all = append(all, h.Div(h.Dt(h.Strong(g.Text("Disk"))),
			h.Dd(h.Class("fill"), gauge(used), g.Text(percent(used)+" full")),
			h.Dd(h.Class("small"), g.Text(size(s.Free)+" free"))))
	}
	if len(all) == 0 {
		return nil
	}
	return h.Section(h.H2(link("/storage", "Storage"), dim("what is counted into now")), h.Dl(h.Class("tiles"), all))
}

// maxLags is the largest number of peers on the first page.
const maxLags = 12

// lags returns a tile for each peer. Peers in trouble come first, then those with the longest lag.
func lags(s *Status) g.Node {
	if len(s.Peers) == 0 {
		return nil
	}
	all := slices.Clone(s.Peers)
	slices.SortStableFunc(all, func(a, b admin.Peer) int {
		_, x := stateOf(&a, s.Now)
		_, y := stateOf(&b, s.Now)
		return cmp.Or(cmp.Compare(x, y), cmp.Compare(b.Lag, a.Lag)) // peers in trouble first
	})
	return h.Section(h.H2(link("/peers", "Peers"), dim("how far they are behind")),
		h.Dl(h.Class("tiles"), g.Map(all[:min(len(all), maxLags)], func(p admin.Peer) g.Node {
			text, class := stateOf(&p, s.Now)
			return h.Div(h.Dt(h.Strong(g.Text(nameOf(&p)))), h.Dd(g.Text(behind(&p))),
				h.Dd(h.Class("small"), h.Span(h.Class("state "+class), g.Text(text))))
		})),
		g.If(len(all) > maxLags, h.P(h.Class("dim"), g.Text(fmt.Sprintf("The first %d of %d.", maxLags, len(all))))))
}

// storage returns the page of the node's arrays.
func (s *Site) storage(v *view) (g.Node, error) {
	st := &v.status
	return g.Group{
		g.Map(st.Books, func(b Book) g.Node { return book(&b, st.Threshold) }),
		h.P(h.Class("dim"), g.Text("The errors are what the filters' formulae expect at their present fill.")),
		sizeForm(v),
	}, nil
}

// login returns the form that begins a session.
func (s *Site) login(v *view) (g.Node, error) {
	q := v.URL.Query()
	secret := q.Get("link")
	return g.Group{
		g.If(q.Has("refused"), h.P(h.Class("alarm"), h.Role("alert"),
			g.Text("That did not work: the link was used, has expired, or there is no such token or password."))),
		g.If(secret != "", h.Form(h.Class("card"), h.Method("post"), h.Action("/login"),
			hidden("link", secret),
			h.P(g.Text("This link logs you in once.")), h.Button(g.Text("Log in")))),
		g.If(secret == "", h.Form(h.Class("card"), h.Method("post"), h.Action("/login"),
			h.P(g.Text("On a machine that has your token, type "), h.Code(g.Text("bulkhead login")),
				g.Text(" and open the link that it prints. Or enter a token, or the name and password of an account:")),
			h.Div(h.Class("fields"),
				h.Div(h.Label(h.For("name"), g.Text("Name, with a password")),
					h.Input(h.ID("name"), h.Name("name"), h.AutoComplete("username"))),
				h.Div(h.Label(h.For("token"), g.Text("Password or token")),
					h.Input(h.Type("password"), h.ID("token"), h.Name("token"), h.Required(), h.AutoComplete("current-password"))),
				h.Button(g.Text("Log in"))))),
	}, nil
}

// needLogin explains that a page is for logged-in users.
func needLogin(v *view) g.Node {
	return h.Div(h.Class("card"),
		g.If(v.viewer.Account == "", h.P(g.Text("This page is for administrators. "), link("/login", "Log in"),
			g.Text(" to see it."))),
		g.If(v.viewer.Account != "", h.P(g.Text("This page is for administrators, and "+v.viewer.Account+" is none."))),
	)
}

func problem(p *client.Problem) g.Node {
	title := p.Title
	if title == "" {
		title = http.StatusText(p.Status)
	}
	return h.Div(h.Class("alarm"), h.Role("alert"), h.Strong(g.Text(title+". ")), g.Text(p.Detail))
}
