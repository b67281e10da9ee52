package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
	"github.com/bulkhead-mail/bulkhead/internal/web/chart"
)

// waves is the page of campaigns, or of one of them.
func (s *Site) waves(v *view) (g.Node, error) {
	if text := v.URL.Query().Get("id"); text != "" {
		id, err := number64(text)
		if err != nil {
			return nil, err
		}
		return waveDetail(v, id)
	}
	q := v.URL.Query()
	page, err := v.node.Waves(v.Context(), admin.WaveQuery{Class: q.Get("class"),
		Sort: cmp.Or(q.Get("sort"), "growth"), Posts: q.Get("posts") == "true"})
	if absent(err) {
		return h.P(h.Class("card"),
			g.Text("This node remembers no mail, and so knows no campaigns: [history] in its configuration says so.")), nil
	}
	if err != nil {
		return nil, err
	}
	sort := cmp.Or(q.Get("sort"), "growth")
	return g.Group{
		h.Form(h.Class("fields card"), h.Method("get"), h.Action("/waves"),
			choice("class", "Verdict", q, "unknown", "good", "bulk", "suspected", "spam"),
			h.Div(h.Label(h.For("sort"), g.Text("First")), h.Select(h.ID("sort"), h.Name("sort"),
				g.Map([]struct {
					value, name string
				}{{"growth", "growing fastest"}, {"size", "the largest"}, {"recent", "the latest"}, {"new", "the newest"}},
					func(o struct {
						value, name string
					}) g.Node {
						return h.Option(h.Value(o.value), g.If(o.value == sort, g.Attr("selected")), g.Text(o.name))
					}))),
			h.Button(g.Text("Show"))),
		h.Section(h.H2(g.Text("Campaigns"), dim("messages with the same text, or nearly so")),
			g.If(!page.Whole, h.P(h.Class("alarm soft"), g.Text(unread(page)))),
			g.If(len(page.Waves) == 0, h.P(h.Class("dim"),
				g.Text("No text has come twice yet. Campaigns show here as mail servers ask this node about mail, or count it."))),
			g.If(len(page.Waves) > 0, campaigns(page.Waves, v.status.Now)),
			g.If(page.Of > len(page.Waves), h.P(h.Class("dim"),
				g.Text(fmt.Sprintf("The first %d of %d.", len(page.Waves), page.Of)))),
			g.If(page.Posts > 0, h.P(h.Class("dim"), g.Text(fmt.Sprintf("%s of mailing lists left out, as none was reported. ",
				plural(uint64(page.Posts), "group"))), link("/waves?posts=true", "Show them too")))),
	}, nil
}

// campaigns returns the table of campaigns.
func campaigns(all []admin.Wave, now time.Time) g.Node {
	head := func(class, text string) g.Node { return h.Th(h.Class(class), g.Attr("scope", "col"), g.Text(text)) }
	return h.Div(h.Class("scroll"), g.Attr("tabindex", "0"), h.Table(h.Class("campaigns"),
		h.THead(h.Tr(head("", "Campaign"), head("c-spark", "Growth"), head("c-n num", "Last hour"), head("c-n num", "Copies"),
			head("c-who", "Reporters"), head("c-verdict", "Verdict"), head("c-acts", "Actions"))),
		h.TBody(g.Map(all, func(w admin.Wave) g.Node { return campaignRow(&w, now) }))))
}

// titleOf returns the title of a campaign: its subject, link, sender, or number of messages.
func titleOf(w *admin.Wave) string {
	switch {
	case w.Subject != "":
		return w.Subject
	case len(w.Domains) > 0:
		return "links to " + w.Domains[0].Name
	case len(w.Senders) > 0:
		return "from " + w.Senders[0].Name
	}
	return plural(w.Messages, "message")
}

func campaignRow(w *admin.Wave, now time.Time) g.Node {
	title := titleOf(w)
	about := names(w.Senders, 1)
	if len(w.Domains) > 0 {
		about += ", links to " + names(w.Domains, 1)
	}
	of := g.Group{hidden("id", strconv.FormatInt(w.ID, 10)), hidden("entry", strconv.FormatInt(w.Entry, 10)),
		hidden("all", "true")}
	button := func(do, verb string) g.Node {
		return h.Button(h.Name("do"), h.Value(do), h.Aria("label", verb+": "+title), g.Text(verb))
	}
	return h.Tr(
		h.Th(h.Class("title"), g.Attr("scope", "row"), h.A(h.Href(waveAddress(w.ID)), h.Title(title), g.Text(title)),
			dim(about+", through "+names(w.Doors, 2)+", "+age(w.Last, now)+" ago")),
		h.Td(spark(w)), number(count(w.Recent)), number(count(w.Messages)),
		h.Td(g.Text(votes(w)), g.If(len(w.Reporters) > 0, dim(names(w.Reporters, 2)))),
		h.Td(h.Span(h.Class("pill pill-"+w.Class), g.Text(answer(w)))),
		h.Td(h.Div(h.Class("acts"), h.Form(h.Method("post"), h.Action("/waves"), of, button("spam", "List"),
			button("ham", "Wanted"), h.A(h.Class("button"), h.Href(waveAddress(w.ID)), h.Aria("label", "Explain: "+title),
				g.Text("Explain"))))))
}

// unread describes the part of its history that the node has not yet read for the waves.
func unread(page *admin.WavePage) string {
	if page.Since.IsZero() {
		return "The node is still reading its history, and has come to " + date(page.Upto) + "."
	}
	return "The node is still reading its history. These are the campaigns since " + date(page.Since) + "."
}

func waveAddress(id int64) string { return "/waves?id=" + strconv.FormatInt(id, 10) }

// answer returns the latest answer to a check of a wave, in words.
func answer(w *admin.Wave) string {
	if w.Confidence > 0 {
		return fmt.Sprintf("%s %d", w.Class, w.Confidence)
	}
	return w.Class
}

// votes describes people's reports of a wave. Several reports of one person are one vote.
func votes(w *admin.Wave) string {
	var all []string
	for _, n := range []struct {
		count uint64
		name  string
	}{{w.Spam, "spam report"}, {w.Ham, "wanted report"}, {w.Revoked, "revocation"}} {
		if n.count > 0 {
			all = append(all, plural(n.count, n.name))
		}
	}
	if len(all) == 0 {
		return "no reports"
	}
	return strings.Join(all, ", ")
}

func plural(n uint64, name string) string {
	if n == 1 {
		return "1 " + name
	}
	return count(n) + " " + name + "s"
}

// waveFacts shows the time, doors and senders of a wave, with up to most names of each kind.
func waveFacts(w *admin.Wave, most int, now time.Time) g.Node {
	fact := func(name, value string) g.Node { return h.Div(h.Dt(g.Text(name)), h.Dd(g.Text(value))) }
	return h.Dl(h.Class("facts"),
		fact("First seen", date(w.First)), fact("Latest", age(w.Last, now)+" ago"),
		fact("Through doors", names(w.Doors, most)), fact("From", names(w.Senders, most)),
		fact("Links to", names(w.Domains, most)), fact("Reported by", names(w.Reporters, most)))
}

// names lists up to most names with their counts.
func names(all []admin.NamedCount, most int) string {
	if len(all) == 0 {
		return "–"
	}
	var out []string
	for _, n := range all[:min(most, len(all))] {
		out = append(out, n.Name+" "+count(n.Count))
	}
	if len(all) > most {
		out = append(out, fmt.Sprintf("%d more", len(all)-most))
	}
	return strings.Join(out, ", ")
}

// leastSlots is the smallest number of slots on a curve, so that a young wave is not one broad bar.
const leastSlots = 24

// spark draws the growth of a campaign as bars.
func spark(w *admin.Wave) g.Node {
	most := uint64(0)
	for _, n := range w.Growth {
		most = max(most, n)
	}
	return chart.Spark(w.Class, fmt.Sprintf("%s in %s, at most %s in %s", plural(w.Messages, "message"),
		age(w.First, w.Last), count(most), spell(time.Duration(w.Slot)*time.Second)), w.Growth)
}

// spell formats a duration without zero units.
func spell(d time.Duration) string { return age(time.Time{}, time.Time{}.Add(d)) }

// curve draws the growth of a campaign: the messages in each slot.
func curve(w *admin.Wave) g.Node {
	if len(w.Growth) == 0 {
		return nil
	}
	slot := time.Duration(w.Slot) * time.Second
	growth := slices.Concat(w.Growth, make([]uint64, max(0, leastSlots-len(w.Growth)))) // no single broad bar
	c := chart.Chart{Title: "Growth of the campaign", Slot: slot,
		Series: []chart.Series{{Class: w.Class, Name: "messages", Values: growth}}}
	for i := range growth {
		c.Starts = append(c.Starts, w.First.Add(time.Duration(i)*slot))
	}
	return h.Section(h.H2(g.Text("Growth"), dim("each bar "+spell(slot))), c.Draw())
}

// waveDetail shows and explains one wave.
func waveDetail(v *view, id int64) (g.Node, error) {
	d, err := v.node.Wave(v.Context(), id)
	if err != nil {
		return nil, err
	}
	w := &d.Wave
	out := g.Group{
		h.Section(h.Class("card"), h.H2(h.Span(h.Class("key key-"+w.Class)), g.Text(titleOf(w)),
			dim(plural(w.Messages, "message")), dim(answer(w)), dim(votes(w))),
			waveFacts(w, 16, v.status.Now),
			h.P(link("/history?id="+strconv.FormatInt(w.Entry, 10), "The message that stands for the campaign"))),
		curve(w),
	}
	if d.Verdict == nil {
		return append(out, h.P(h.Class("card dim"),
			g.Text("The history no longer has a message of this campaign, so that nothing can be explained or voted on."))), nil
	}
	return append(out, waveForms(w), verdictOf(d.Verdict), evidenceOf(d.Verdict), barcode(d.Verdict),
		findings(d.Verdict.Findings)), nil
}

// evidenceOf shows the parts of the message that stands for a campaign.
func evidenceOf(d *client.Verdict) g.Node {
	return h.Section(h.Class("card"),
		h.H2(g.Text("Evidence"), dim("the most that is known of one signature of each kind")),
		evidence(d))
}

// waveForms returns the buttons that list, revoke and whitelist a wave.
func waveForms(w *admin.Wave) g.Node {
	of := g.Group{hidden("id", strconv.FormatInt(w.ID, 10)), hidden("entry", strconv.FormatInt(w.Entry, 10))}
	button := func(do, text string) g.Node { return h.Button(h.Name("do"), h.Value(do), g.Text(text)) }
	return g.Group{
		h.Form(h.Class("card row"), h.Method("post"), h.Action("/waves"), of, button("spam", "It is spam"),
			button("ham", "It is wanted"), button("revoke", "Take it off the list")),
		h.Form(h.Class("card row"), h.Method("post"), h.Action("/waves"), of,
			h.Label(h.For("note"), g.Text("Why")), h.Input(h.ID("note"), h.Name("note"), g.Attr("maxlength", "200")),
			button("clear", "White-list this text"),
			dim("letter for letter; changed copies are judged as before")),
	}
}

// barcode draws a bar for each band of a text. The width of a bar depends on the band's sum, so
// that each text has a look of its own; the colour shows what is known of the band.
func barcode(d *client.Verdict) g.Node {
	var bars g.Group
	counts := make(map[string]int)
	n, x := 0, 0.0
	for i := range d.Findings {
		f := &d.Findings[i]
		if f.Signature.Scheme() != bulkhead.Near {
			continue
		}
		n++
		class := "unknown"
		switch {
		case f.Judged == "spam":
			class = "spam"
		case f.Judged == "revoked":
			class = "good"
		case f.Sightings > 0:
			class = "bulk"
		}
		counts[class]++
		sum := f.Signature.Sum()
		width := 4 + float64(sum[len(sum)-1]%16)
		bars = append(bars, g.El("rect", h.Class("class-"+class), g.Attr("x", fmt.Sprintf("%.1f", x)),
			h.Width(fmt.Sprintf("%.1f", width)), h.Height("48")))
		x += width + 3
	}
	if n == 0 {
		return h.P(h.Class("dim"), g.Text("The text is too short to have bands: only its exact copies are recognised."))
	}
	words := func(class, what string) string { return fmt.Sprintf("%d %s", counts[class], what) }
	all := []struct {
		class, what string
	}{{"spam", "listed"}, {"good", "revoked"}, {"bulk", "seen"}, {"unknown", "not known"}}
	var spoken []string
	for _, c := range all {
		spoken = append(spoken, words(c.class, c.what))
	}
	return h.Section(h.H2(g.Text("Bands"), dim("copies of the text that share some of these are recognised")),
		h.SVG(h.Class("barcode"), g.Attr("viewBox", fmt.Sprintf("0 0 %.0f 48", x)), g.Attr("preserveAspectRatio", "none"),
			h.Role("img"),
			h.Aria("label", fmt.Sprintf("%d bands: %s", n, strings.Join(spoken, ", "))), bars),
		h.P(h.Class("legend"), g.Map(all, func(c struct{ class, what string }) g.Node {
			return h.Span(h.Span(h.Class("key key-"+c.class)), g.Text(words(c.class, c.what)))
		})))
}

// changeWaves lists, revokes or whitelists a wave.
func (s *Site) changeWaves(v *view) (g.Node, error) {
	if err := v.ParseForm(); err != nil {
		return nil, badForm(err)
	}
	id, err1 := number64(v.PostForm.Get("id"))
	entry, err2 := number64(v.PostForm.Get("entry"))
	if err := errors.Join(err1, err2); err != nil {
		return nil, badForm(err)
	}
	since := v.status.Now.Truncate(time.Second)
	back := waveAddress(id)
	if v.PostForm.Get("all") != "" {
		back = "/waves"
	}
	switch do := v.PostForm.Get("do"); do {
	case "spam", "ham", "revoke":
		got, err := v.node.ReportEntry(v.Context(), entry, admin.RememberedVote{Vote: do})
		if err != nil {
			return nil, err
		}
		v.notice = voted(do, got)
		s.offerVotes(v, back, since)
	case "clear":
		added, err := v.node.Clear(v.Context(), admin.Clear{Entry: entry, Note: v.PostForm.Get("note")})
		if err != nil {
			return nil, err
		}
		v.notice = plural(uint64(len(added)), "signature") + " put on the whitelist."
		s.offer(v, back, func(ctx context.Context, node *admin.Client) (string, error) {
			for _, c := range added {
				if err := node.Unclear(ctx, c.Signature); err != nil {
					return "", err
				}
			}
			return plural(uint64(len(added)), "signature") + " taken off the whitelist again.", nil
		})
	default:
		return nil, badForm(errors.New("unknown action"))
	}
	if v.PostForm.Get("all") != "" {
		return s.waves(v)
	}
	return waveDetail(v, id)
}

// whitelisted returns the table of signatures that administrators whitelisted. Only administrators
// see it.
func whitelisted(v *view) (g.Node, error) {
	all, err := v.node.Whitelist(v.Context())
	if absent(err) || forbidden(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return h.Section(h.H2(g.Text("White-listed texts"), dim("by administrators, beside [whitelist] of the configuration")),
		g.If(len(all) == 0, h.P(h.Class("dim"), g.Text("None yet. The page of a campaign white-lists its text."))),
		g.If(len(all) > 0, table(g.Group{col("Signature"), col("By"), col("Since"), col("Why"), col("Actions")},
			g.Map(all, func(c admin.Cleared) g.Node {
				text := c.Signature.String()
				return h.Tr(rowHead(
					h.Code(h.Class("sig"), link("/history?signature="+url.QueryEscape(text), text))),
					h.Td(g.Text(c.By)), h.Td(g.Text(date(c.Time))), h.Td(g.Text(c.Note)),
					h.Td(act("/rules", text, "unclear", "Remove", nil)))
			})))), nil
}

// choice returns a list of values, with the option to choose none.
func choice(name, label string, q url.Values, values ...string) g.Node {
	return h.Div(h.Label(h.For(name), g.Text(label)),
		h.Select(h.ID(name), h.Name(name), h.Option(h.Value(""), g.Text("any")),
			g.Map(values, func(value string) g.Node {
				return h.Option(h.Value(value), g.If(value == q.Get(name), g.Attr("selected")), g.Text(value))
			})))
}
