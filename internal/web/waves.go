package web

import (
	"errors"
	"fmt"
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
	page, err := v.node.Waves(v.Context(), admin.WaveQuery{Class: q.Get("class"), Sort: q.Get("sort")})
	if absent(err) {
		return h.P(h.Class("card"),
			g.Text("This node remembers no mail, and so knows no waves: [history] in its configuration says so.")), nil
	}
	if err != nil {
		return nil, err
	}
	return g.Group{
		h.Form(h.Class("card fields"), h.Method("get"), h.Action("/waves"),
			choice("class", "Answer", q, "unknown", "good", "bulk", "suspected", "spam"),
			h.Div(h.Label(h.For("sort"), g.Text("First")), h.Select(h.ID("sort"), h.Name("sort"),
				g.Map([]struct {
					value, name string
				}{{"size", "the largest"}, {"recent", "the latest"}, {"new", "the newest"}}, func(o struct {
					value, name string
				}) g.Node {
					return h.Option(h.Value(o.value), g.If(o.value == q.Get("sort"), g.Attr("selected")), g.Text(o.name))
				}))),
			h.Button(g.Text("Show"))),
		h.Section(h.H2(g.Text("Waves"),
			dim("messages with the same text, or nearly so; the number behind a name is of checks and reports")),
			g.If(!page.Whole, h.P(h.Class("alarm soft"), g.Text(unread(page)))),
			g.If(len(page.Waves) == 0, h.P(h.Class("dim"),
				g.Text("No text has come twice yet. Waves show here as mail servers ask this node about mail, or count it."))),
			g.Map(page.Waves, func(w admin.Wave) g.Node { return waveCard(&w, v.status.Now) }),
			g.If(page.Of > len(page.Waves), h.P(h.Class("dim"),
				g.Text(fmt.Sprintf("The first %d of %d.", len(page.Waves), page.Of))))),
	}, nil
}

// unread describes the part of its history that the node has not yet read for the waves.
func unread(page *admin.WavePage) string {
	if page.Since.IsZero() {
		return "The node is still reading its history, and has come to " + date(page.Upto) + "."
	}
	return "The node is still reading its history. These are the waves since " + date(page.Since) + "."
}

func waveAddress(id int64) string { return "/waves?id=" + strconv.FormatInt(id, 10) }

// answer returns the latest answer to a check of a wave, in words.
func answer(w *admin.Wave) string {
	if w.Confidence > 0 {
		return fmt.Sprintf("%s %d", w.Class, w.Confidence)
	}
	return w.Class
}

func waveCard(w *admin.Wave, now time.Time) g.Node {
	return g.El("article", h.Class("card wave"),
		g.El("h3", h.Span(h.Class("key key-"+w.Class)), link(waveAddress(w.ID), plural(w.Messages, "message")),
			dim(answer(w)), dim(votes(w))),
		spark(w),
		waveFacts(w, 3, now))
}

// votes describes people's reports of a wave. Several reports of one person are one vote.
func votes(w *admin.Wave) string {
	var all []string
	for _, n := range []struct {
		count uint64
		name  string
	}{{w.Spam, "spam report"}, {w.Ham, "ham report"}, {w.Revoked, "revocation"}} {
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

// spark draws the growth of a wave as bars.
func spark(w *admin.Wave) g.Node {
	most := uint64(1)
	for _, n := range w.Growth {
		most = max(most, n)
	}
	slot := time.Duration(w.Slot) * time.Second
	width := 200 / float64(max(leastSlots, len(w.Growth)))
	var bars g.Group
	for i, n := range w.Growth {
		if n > 0 {
			height := max(1, 30*float64(n)/float64(most))
			bars = append(bars, g.El("rect", h.Class("class-"+w.Class), g.Attr("x", fmt.Sprintf("%.1f", float64(i)*width)),
				g.Attr("y", fmt.Sprintf("%.1f", 32-height)),
				h.Width(fmt.Sprintf("%.1f", max(0.8, width-0.5))), h.Height(fmt.Sprintf("%.1f", height))))
		}
	}
	return h.SVG(h.Class("spark"), g.Attr("viewBox", "0 0 200 33"), g.Attr("preserveAspectRatio", "none"), h.Role("img"),
		h.Aria("label", fmt.Sprintf("%s in %s, at most %s in %s", plural(w.Messages, "message"), age(w.First, w.Last),
			count(most), spell(slot))),
		g.El("rect", h.Class("track"), g.Attr("y", "32"), h.Width("200"), h.Height("1")), bars)
}

// spell formats a duration without zero units.
func spell(d time.Duration) string { return age(time.Time{}, time.Time{}.Add(d)) }

// curve draws the growth of a wave: the messages in each slot, and their sum.
func curve(w *admin.Wave) g.Node {
	most, sum := uint64(1), uint64(0)
	for _, n := range w.Growth {
		most = max(most, n)
	}
	slots := max(leastSlots, len(w.Growth))
	width := float64(chartWidth) / float64(slots)
	var marks g.Group
	var line strings.Builder
	fmt.Fprintf(&line, "M0 %d", chartHeight)
	for i, n := range w.Growth {
		height := float64(n) / float64(most) * (chartHeight - 4)
		if n > 0 {
			marks = append(marks, g.El("rect", h.Class("class-"+w.Class), g.Attr("x", fmt.Sprintf("%.1f", float64(i)*width)),
				g.Attr("y", fmt.Sprintf("%.1f", chartHeight-max(0.7, height))),
				h.Width(fmt.Sprintf("%.1f", max(0.5, width-0.6))), h.Height(fmt.Sprintf("%.1f", max(0.7, height)))))
		}
		sum += n
		fmt.Fprintf(&line, "L%.1f %.1f", float64(i+1)*width,
			chartHeight-float64(sum)/float64(max(1, w.Messages))*(chartHeight-4))
	}
	marks = append(marks, g.El("path", h.Class("sum"), g.Attr("d", line.String())))
	return h.Section(h.H2(g.Text("Growth"), dim("each bar "+spell(time.Duration(w.Slot)*time.Second)+", at most "+
		plural(most, "message")+"; the line is their sum")),
		h.SVG(h.Class("chart"), g.Attr("viewBox", fmt.Sprintf("0 0 %d %d", chartWidth, chartHeight)),
			g.Attr("preserveAspectRatio", "none"), h.Role("img"),
			h.Aria("label", fmt.Sprintf("Growth of the wave: %s from %s to %s", plural(w.Messages, "message"), date(w.First),
				date(w.Last))), marks),
		h.P(h.Class("axis"), h.Span(g.Text(date(w.First))),
			h.Span(h.Class("end"), g.Text(date(w.First.Add(time.Duration(slots)*time.Duration(w.Slot)*time.Second))))))
}

// waveDetail shows and explains one wave.
func waveDetail(v *view, id int64) (g.Node, error) {
	d, err := v.node.Wave(v.Context(), id)
	if err != nil {
		return nil, err
	}
	w := &d.Wave
	out := g.Group{
		h.Section(h.Class("card"), h.H2(h.Span(h.Class("key key-"+w.Class)), g.Text(plural(w.Messages, "message")),
			dim(answer(w)), dim(votes(w))),
			g.If(d.Subject != "", h.P(g.Text("Subject: "+d.Subject))), waveFacts(w, 16, v.status.Now),
			h.P(link("/history?id="+strconv.FormatInt(w.Entry, 10), "The message that stands for the wave"))),
		curve(w),
	}
	if d.Verdict == nil {
		return append(out, h.P(h.Class("card dim"),
			g.Text("The history no longer has a message of this wave, so that nothing can be explained or voted on."))), nil
	}
	return append(out, waveForms(w), verdictOf(d.Verdict), facets(d.Verdict), barcode(d.Verdict),
		findings(d.Verdict.Findings)), nil
}

// waveForms returns the buttons that list, revoke and whitelist a wave.
func waveForms(w *admin.Wave) g.Node {
	hidden := g.Group{h.Input(h.Type("hidden"), h.Name("id"), h.Value(strconv.FormatInt(w.ID, 10))),
		h.Input(h.Type("hidden"), h.Name("entry"), h.Value(strconv.FormatInt(w.Entry, 10)))}
	button := func(do, text string) g.Node { return h.Button(h.Name("do"), h.Value(do), g.Text(text)) }
	return g.Group{
		h.Form(h.Class("card row"), h.Method("post"), h.Action("/waves"), hidden, button("spam", "It is spam"),
			button("ham", "It is wanted"), button("revoke", "Take it off the list")),
		h.Form(h.Class("card row"), h.Method("post"), h.Action("/waves"), hidden,
			h.Label(h.For("note"), g.Text("Why")), h.Input(h.ID("note"), h.Name("note"), g.Attr("maxlength", "200")),
			button("clear", "White-list this text"),
			dim("letter for letter; changed copies are judged as before")),
	}
}

// A facet names a kind of signatures in words.
type facet struct {
	name    string
	schemes []bulkhead.Scheme
}

// facetsOf holds the kinds of signatures that decide a verdict.
var facetsOf = []facet{
	{"The text, letter for letter", []bulkhead.Scheme{bulkhead.Exact, bulkhead.PyzorDigest, bulkhead.RazorE4,
		bulkhead.DCCBody, bulkhead.RspamdText}},
	{"Changed copies of the text", []bulkhead.Scheme{bulkhead.Near, bulkhead.DCCFuz1, bulkhead.DCCFuz2,
		bulkhead.RspamdShingle}},
	{"Parts of the text", []bulkhead.Scheme{bulkhead.Part, bulkhead.Sketch}},
	{"Links", []bulkhead.Scheme{bulkhead.Link, bulkhead.RazorE8}},
	{"Sender and network", []bulkhead.Scheme{bulkhead.Sender, bulkhead.Network, bulkhead.Claim, bulkhead.DCCFrom,
		bulkhead.DCCEnvFrom, bulkhead.DCCIP}},
	{"Contacts", []bulkhead.Scheme{bulkhead.Contact}},
	{"Attachments and pictures", []bulkhead.Scheme{bulkhead.Attachment, bulkhead.Image}},
	{"Mark-up", []bulkhead.Scheme{bulkhead.Markup}},
}

// facets shows what is known about each kind of signature.
func facets(d *client.Verdict) g.Node {
	var rows g.Group
	for _, f := range facetsOf {
		var n, listed, revoked int
		var seen, spam, ham uint32
		worst := 0.0
		for i := range d.Findings {
			one := &d.Findings[i]
			if !has(f.schemes, one.Signature.Scheme()) {
				continue
			}
			n++
			seen, spam, ham = max(seen, one.Sightings), max(spam, one.Spam), max(ham, one.Ham)
			switch one.Judged {
			case "spam":
				listed++
			case "revoked":
				revoked++
			}
			if one.Sightings+one.Spam+one.Ham > 0 {
				worst = max(worst, one.Error)
			}
		}
		if n > 0 {
			rows = append(rows, h.Tr(h.Th(g.Attr("scope", "row"), g.Text(f.name)), number(strconv.Itoa(n)),
				number(strconv.Itoa(listed)), number(strconv.Itoa(revoked)),
				number(count(uint64(seen))), number(count(uint64(spam))), number(count(uint64(ham))), number(chance(worst))))
		}
	}
	return h.Section(h.H2(g.Text("Evidence"), dim("the most that is known of one signature of each kind")),
		h.Div(h.Class("scroll"), g.Attr("tabindex", "0"), h.Table(
			h.THead(h.Tr(h.Th(g.Text("Facet")), num("Signatures"), num("Listed"), num("Revoked"), num("Seen"), num("Spam votes"),
				num("Ham votes"), num("Chance of an error"))),
			h.TBody(rows))))
}

func has(all []bulkhead.Scheme, s bulkhead.Scheme) bool {
	for _, x := range all {
		if x == s {
			return true
		}
	}
	return false
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
	switch do := v.PostForm.Get("do"); do {
	case "spam", "ham", "revoke":
		got, err := v.node.ReportEntry(v.Context(), entry, admin.RememberedVote{Vote: do})
		if err != nil {
			return nil, err
		}
		v.notice = voted(do, got)
	case "clear":
		added, err := v.node.Clear(v.Context(), admin.Clear{Entry: entry, Note: v.PostForm.Get("note")})
		if err != nil {
			return nil, err
		}
		v.notice = plural(uint64(len(added)), "signature") + " put on the whitelist."
	default:
		return nil, badForm(errors.New("unknown action"))
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
		g.If(len(all) == 0, h.P(h.Class("dim"), g.Text("None yet. The page of a wave white-lists its text."))),
		g.If(len(all) > 0, h.Div(h.Class("scroll"), g.Attr("tabindex", "0"), h.Table(
			h.THead(h.Tr(h.Th(g.Text("Signature")), h.Th(g.Text("By")), h.Th(g.Text("Since")), h.Th(g.Text("Why")),
				h.Th(g.Text("Actions")))),
			h.TBody(g.Map(all, func(c admin.Cleared) g.Node {
				text := c.Signature.String()
				return h.Tr(h.Th(g.Attr("scope", "row"),
					h.Code(h.Class("sig"), link("/history?signature="+url.QueryEscape(text), text))),
					h.Td(g.Text(c.By)), h.Td(g.Text(date(c.Time))), h.Td(g.Text(c.Note)),
					h.Td(act("/rules", text, "unclear", "Remove", nil)))
			})))))), nil
}
