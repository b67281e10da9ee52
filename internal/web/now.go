package web

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client"
	"github.com/bulkhead-mail/bulkhead/client/admin"
)

func (s *Site) now(v *view) (g.Node, error) { return overview(v), nil }

// overview returns the content of the first page, which is sent again while the page is open.
func overview(v *view) g.Node {
	s := &v.status
	return g.Group{
		h.P(h.Class("health"), g.Text(health(s))),
		alarms(s), tiles(s),
		charts(s),
		doors(s.Doors), stores(s), lags(s),
	}
}

// health describes the state of the node in one sentence.
func health(s *Status) string {
	bad := 0
	for i := range s.Peers {
		if _, class := stateOf(&s.Peers[i], s.Now); class == "bad" {
			bad++
		}
	}
	switch {
	case s.ReadOnly != "":
		return "Checks are answered; reports are refused until the fault below is gone."
	case s.Held != nil:
		newest := s.Held.Newest.UTC().Format(time.DateTime)
		return "Checks and reports are answered, but the clock is implausibly far ahead of the newest record, " + newest +
			" UTC, so nothing ages. " +
			"Set the clock right. If this machine was really off since then, run bulkhead clock confirm."
	case len(s.Missing) > 0:
		return "Checks and reports are answered, but a part of the data folder was gone at the start and began anew: " +
			strings.Join(s.Missing, ", ") + "."
	case s.Doubts > 0:
		return "Checks and reports are answered; some counts may be too low since a damaged store was salvaged. " +
			"bulkhead doctor says which."
	case bad > 0:
		if bad == len(s.Peers) {
			return "All is well here, but no peer can be heard or counted."
		}
		return fmt.Sprintf("All is well here, but of %s %d cannot be heard or counted.",
			plural(uint64(len(s.Peers)), "peer"), bad)
	case !s.Mature:
		return "All is well. The node is young: links and contacts decide nothing until it has seen 200 messages " +
			"of verified senders on two days."
	}
	return "All is well."
}

// classes lists the classes in the order of the bars, from the bottom.
var classes = []bulkhead.Class{bulkhead.ClassSpam, bulkhead.ClassSuspected, bulkhead.ClassBulk, bulkhead.ClassGood,
	bulkhead.ClassUnknown}

const chartWidth, chartHeight = 720, 120

// charts shows the verdicts of a day and of a month. Before the first verdict it explains how to
// get verdicts.
func charts(s *Status) g.Node {
	if !slices.ContainsFunc(slices.Concat(s.Day, s.Month), func(s Slot) bool {
		return s.Verdicts != [bulkhead.NumClasses]uint64{}
	}) {
		return h.Section(h.H2(g.Text("Verdicts")),
			h.P(g.Text("No message was checked yet. "), h.Code(g.Text("bulkhead setup")),
				g.Text(" makes the mail programs of this machine ask the node, "),
				h.Code(g.Text("bulkhead doctor")), g.Text(" tries every door, and a message can be shown to "),
				link("/lookup", "Look up"), g.Text(".")))
	}
	return g.Group{
		chart("Verdicts of the last 24 hours", "10 minutes", s.Day, time.DateTime[11:16]),
		chart("Verdicts of the last 30 days", "a day", s.Month, "2 Jan"),
	}
}

// chart draws verdicts over time as stacked bars, with the sums as text. bar names the period of
// each bar.
func chart(title, bar string, slots []Slot, format string) g.Node {
	var sums [bulkhead.NumClasses]uint64
	most, all := uint64(1), uint64(0)
	for i := range slots {
		n := uint64(0)
		for c, k := range slots[i].Verdicts {
			sums[c] += k
			n += k
		}
		most, all = max(most, n), all+n
	}
	if all == 0 {
		return h.Section(h.H2(g.Text(title)), h.P(g.Text("No message was checked in this time. "),
			h.Code(g.Text("bulkhead doctor")), g.Text(" says whether the doors work.")))
	}
	var words []string
	for _, c := range classes {
		words = append(words, count(sums[c])+" "+c.String())
	}
	width := float64(chartWidth) / float64(len(slots))
	var bars g.Group
	for i := range slots {
		y := float64(chartHeight)
		for _, c := range classes {
			n := slots[i].Verdicts[c]
			if n == 0 {
				continue
			}
			height := max(0.7, float64(n)/float64(most)*(chartHeight-4))
			y -= height
			bars = append(bars, g.El("rect", h.Class("class-"+c.String()), g.Attr("x", fmt.Sprintf("%.1f", float64(i)*width)),
				g.Attr("y", fmt.Sprintf("%.1f", y)),
				h.Width(fmt.Sprintf("%.1f", max(0.5, width-0.6))), h.Height(fmt.Sprintf("%.1f", height))))
		}
	}
	var labels g.Group
	for _, i := range []int{0, len(slots) / 3, 2 * len(slots) / 3} {
		labels = append(labels, h.Span(g.Text(slots[i].Start.UTC().Format(format))))
	}
	return h.Section(h.H2(g.Text(title), dim("each bar "+bar+", at most "+plural(most, "message"))),
		h.SVG(h.Class("chart"), g.Attr("viewBox", fmt.Sprintf("0 0 %d %d", chartWidth, chartHeight)),
			g.Attr("preserveAspectRatio", "none"), h.Role("img"),
			h.Aria("label", title+": "+strings.Join(words, ", ")), bars),
		h.P(h.Class("axis"), labels),
		h.P(h.Class("legend"), g.Map(classes, func(c bulkhead.Class) g.Node {
			return h.Span(h.Span(h.Class("key key-"+c.String())), g.Text(count(sums[c])+" "+c.String()))
		})),
		byDoor(slots),
	)
}

// byDoor returns the sums of a chart for each door.
func byDoor(slots []Slot) g.Node {
	sums := make(map[string][bulkhead.NumClasses]uint64)
	for i := range slots {
		for name, n := range slots[i].Doors {
			all := sums[name]
			for c := range n {
				all[c] += n[c]
			}
			sums[name] = all
		}
	}
	if len(sums) == 0 {
		return nil
	}
	return h.Details(h.Summary(g.Text("By door")), h.Div(h.Class("scroll"), g.Attr("tabindex", "0"), h.Table(
		h.THead(h.Tr(h.Th(g.Text("Door")), g.Map(classes, func(c bulkhead.Class) g.Node { return num(c.String()) }))),
		h.TBody(g.Map(slices.Sorted(maps.Keys(sums)), func(name string) g.Node {
			return h.Tr(h.Th(g.Attr("scope", "row"), g.Text(name)), g.Map(classes, func(c bulkhead.Class) g.Node {
				return number(count(sums[name][c]))
			}))
		})))))
}

// stores returns a tile for each book, with the fill and the error rate of its present generation,
// and a tile for the disk.
func stores(s *Status) g.Node {
	var all g.Group
	for i := range s.Books {
		b := &s.Books[i]
		if len(b.Generations) == 0 || len(b.Generations[0].Arrays) == 0 {
			continue
		}
		fullest := &b.Generations[0].Arrays[0]
		for j := range b.Generations[0].Arrays {
			if a := &b.Generations[0].Arrays[j]; a.Fill > fullest.Fill {
				fullest = a
			}
		}
		all = append(all, h.Div(h.Dt(h.Strong(g.Text(b.Name)),
			g.Text(" "+plural(uint64(len(b.Generations)), "generation")+", "+size(b.Bytes))),
			h.Dd(h.Class("fill"), gauge(fullest.Fill), g.Text(percent(fullest.Fill)+" full")),
			h.Dd(h.Class("small"), g.Text("absent key found: "+chance(fullest.Ghost)))))
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
			h.Input(h.Type("hidden"), h.Name("link"), h.Value(secret)),
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
