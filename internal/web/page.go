package web

import (
	"fmt"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"
)

// navigation lists the pages of the navigation.
var navigation = []struct{ path, name string }{
	{"/", "Now"}, {"/history", "Messages"}, {"/waves", "Campaigns"}, {"/people", "People"}, {"/rules", "Lists"},
	{"/judgement", "Rules"}, {"/peers", "Network"}, {"/config", "Settings"}, {"/lookup", "Look up"},
	{"/storage", "Storage"},
}

// page returns a whole page. Every text and attribute is escaped, except the style and the script,
// which are files of this package.
func page(v *view, title string, body g.Node) g.Node {
	s := &v.status
	for _, part := range []string{s.Name, "bulkhead"} {
		if part != "" && title != "" {
			part = title + " · " + part
		}
		if part != "" {
			title = part
		}
	}
	live := g.Attr("data-live", "/live?range="+spanOf(v).name)
	return h.Doctype(h.HTML(h.Lang("en"),
		h.Head(
			h.Meta(h.Charset("utf-8")),
			h.Meta(h.Name("viewport"), h.Content("width=device-width, initial-scale=1")),
			h.Meta(h.Name("color-scheme"), h.Content("light dark")),
			g.If(v.path == "/", h.NoScript(h.Meta(g.Attr("http-equiv", "refresh"), h.Content("15")))),
			h.TitleEl(g.Text(title)),
			h.StyleEl(g.Raw(styleCSS)),
		),
		h.Body(
			h.A(h.Class("skip"), h.Href("#main"), g.Text("Skip to content")),
			header(v),
			notice(v),
			h.Main(h.ID("main"), g.If(v.path == "/", live), body),
			h.Footer(
				h.P(g.Text("Messages are never stored.")),
				h.P(link("/v1/node", "This node as JSON"), g.Text(" "), link("/metrics", "Metrics"), g.Text(" "),
					link("/openapi.json", "API")),
			),
			h.Script(h.Type("module"), g.Raw(consoleJS)),
		),
	))
}

func header(v *view) g.Node {
	s := &v.status
	state := h.P(h.Class("badge good"), g.Text("Taking reports"))
	if s.ReadOnly != "" {
		state = h.P(h.Class("badge bad"), g.Text("Read-only"))
	}
	return h.Header(
		h.H1(h.SVG(g.Attr("viewBox", "0 0 24 24"), h.Aria("hidden", "true"),
			g.El("path", g.Attr("d", "M3 3h18v18H3z")), g.El("path", g.Attr("d", "M9 3v18M15 3v18M3 12h18"))),
			g.Text("bulkhead")),
		g.If(v.viewer.Check, h.P(h.Class("node"), g.Text(s.Name+" "), dim("version "+s.Version))),
		g.If(v.viewer.Check, state),
		account(v),
		h.Nav(h.Aria("label", "Pages"),
			g.Map(navigation, func(e struct{ path, name string }) g.Node {
				return h.A(h.Href(e.path), g.If(e.path == v.path, h.Aria("current", "page")), g.Text(e.name))
			})),
	)
}

// account shows the logged-in account, with the link to log out or in.
func account(v *view) g.Node {
	if v.viewer.Account == "" {
		return h.A(h.Class("account"), h.Href("/login"), g.If(v.path == "/login", h.Aria("current", "page")),
			g.Text("Log in"))
	}
	return h.Form(h.Class("account"), h.Method("post"), h.Action("/logout"), g.Text(v.viewer.Account+" "),
		h.Button(g.Text("Log out")))
}

func alarms(s *Status) g.Node {
	return g.Group{
		g.If(s.ReadOnly != "", h.P(h.Class("alarm"), h.Strong(g.Text("Reports are refused at present:")),
			g.Text(" "+s.ReadOnly+". Checks are answered."))),
		g.If(s.Durability == "relaxed", h.P(h.Class("alarm soft"), h.Strong(g.Text("Durability is relaxed:")),
			g.Text(" a power cut loses the reports of the last second."))),
	}
}

func tiles(s *Status) g.Node {
	tile := func(name, value string) g.Node { return h.Div(h.Dt(g.Text(name)), h.Dd(g.Text(value))) }
	return h.Dl(h.Class("tiles"),
		tile("Running for", age(s.Started, s.Now)),
		g.Map(s.Counters, func(c Counter) g.Node { return tile(c.Name, count(c.Value)) }),
		tile("Accounts", fmt.Sprint(s.Accounts)),
	)
}

// doors returns a tile for each front door.
func doors(all []Door) g.Node {
	return h.Section(h.H2(g.Text("Front doors"), dim("in the last minutes")),
		h.Dl(h.Class("tiles"), g.Map(all, func(d Door) g.Node {
			return h.Div(h.Dt(h.Strong(g.Text(d.Name)), g.Text(" "+d.Serves)),
				h.Dd(g.Text(perSecond(d.Rate))),
				h.Dd(h.Class("small"), g.Text("99 % "+within(d.Slowest))),
				h.Dd(h.Class("small"), g.Text(count(d.Answers)+" answers since the start, "), faults(d.Faults)),
				h.Dd(h.Class("small"), h.Code(g.Text(d.Address))))
		})))
}

// perSecond formats a rate.
func perSecond(rate float64) string {
	switch {
	case rate == 0:
		return "idle"
	case rate < 1:
		return fmt.Sprintf("%.1f a minute", 60*rate)
	case rate < 10:
		return fmt.Sprintf("%.1f a second", rate)
	}
	return count(uint64(rate)) + " a second"
}

// within formats an upper bound of a time, given in seconds.
func within(seconds float64) string {
	switch {
	case seconds == 0:
		return "–"
	case seconds < 1e-3:
		return fmt.Sprintf("within %.0f µs", 1e6*seconds)
	case seconds < 1:
		return fmt.Sprintf("within %.0f ms", 1e3*seconds)
	case seconds <= 10:
		return fmt.Sprintf("within %.0f s", seconds)
	}
	return "in more than 10 s"
}

func faults(n uint64) g.Node {
	if n == 0 {
		return g.Text("none refused or failed")
	}
	return h.Span(h.Class("state bad"), g.Text(count(n)+" refused or failed"))
}

func book(b *Book, threshold uint32) g.Node {
	generations := h.TBody(h.Tr(h.Td(h.ColSpan("8"), h.Class("dim"), g.Text("No generation yet."))))
	if len(b.Generations) > 0 {
		generations = g.Map(b.Generations, func(gen Generation) g.Node { return generation(&gen) })
	}
	return h.Section(
		h.H2(g.Text(b.Name+" "), dim(b.Question)),
		h.Div(h.Class("scroll"), g.Attr("tabindex", "0"), h.Table(h.Class("book"),
			h.THead(h.Tr(h.Th(g.Text("Generation")), h.Th(g.Text("Filter")), h.Th(h.Class("fill"), g.Text("Fill")),
				num("Keys"), num("Memory"),
				num("Absent key found"), num("Count too high"), num(fmt.Sprintf("Absent key shows\u00a0%d", threshold)))),
			generations,
		)),
	)
}

// generation returns a row for each array of a generation, next to one cell that names the
// generation.
func generation(gen *Generation) g.Node {
	rows := make(g.Group, 0, len(gen.Arrays))
	for i := range gen.Arrays {
		rows = append(rows, h.Tr(
			g.If(i == 0, h.Th(g.Attr("scope", "rowgroup"), h.RowSpan(fmt.Sprint(len(gen.Arrays))), g.Text(date(gen.Start)),
				h.Span(h.Class("dim"), g.Text("to "+date(gen.End)), h.Br(), g.Text("sized for "+count(gen.Capacity))))),
			array(&gen.Arrays[i]),
		))
	}
	return h.TBody(rows)
}

func array(a *Array) g.Node {
	wrong, bulk := "–", "–"
	if !a.Bits {
		wrong, bulk = chance(a.Wrong), chance(a.Bulk)
	}
	return g.Group{
		h.Td(g.Text(a.Name), dim(a.Holds)),
		h.Td(h.Class("fill"), gauge(a.Fill), g.Text(percent(a.Fill))),
		number(count(a.Keys)), number(size(a.Bytes)), number(chance(a.Ghost)), number(wrong), number(bulk),
	}
}

// gauge draws a fraction, 0 to 1, as a bar.
func gauge(x float64) g.Node {
	level := func(class, width string) g.Node {
		return g.El("rect", h.Class(class), h.Width(width), h.Height("6"))
	}
	return h.SVG(g.Attr("viewBox", "0 0 100 6"), g.Attr("preserveAspectRatio", "none"), h.Role("img"),
		h.Aria("label", percent(x)+" full"),
		level("track", "100"), level("level", bar(x)))
}

func dim(s string) g.Node { return h.Span(h.Class("dim"), g.Text(s)) }

func link(to, s string) g.Node { return h.A(h.Href(to), g.Text(s)) }

// table returns a table that scrolls in a box of its own. heading has the cells of its first row.
func table(heading g.Group, rows ...g.Node) g.Node {
	return h.Div(h.Class("scroll"), g.Attr("tabindex", "0"), h.Table(h.THead(h.Tr(heading)), h.TBody(rows...)))
}

// col and num return the heading of a column, of text and of numbers. rowHead and number return cells of a row.
func col(name string) g.Node { return h.Th(g.Text(name)) }

func num(name string) g.Node { return h.Th(h.Class("num"), g.Text(name)) }

func rowHead(content ...g.Node) g.Node {
	return h.Th(append(g.Group{g.Attr("scope", "row")}, content...)...)
}

func number(s string) g.Node { return h.Td(h.Class("num"), g.Text(s)) }

// hidden returns a field of a form that is not shown.
func hidden(name, value string) g.Node {
	return h.Input(h.Type("hidden"), h.Name(name), h.Value(value))
}
