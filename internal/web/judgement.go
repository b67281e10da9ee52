package web

import (
	"cmp"
	"fmt"
	"strconv"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/web/chart"
)

// ruleDays are the ranges of the page of rules, in days. The first is shown at first.
var ruleDays = []int{28, 7, 1}

// judgement returns the page of the rules: how often each decided, and how often readers disagreed.
func (s *Site) judgement(v *view) (g.Node, error) {
	days, err := strconv.Atoi(cmp.Or(v.URL.Query().Get("days"), strconv.Itoa(ruleDays[0])))
	if err != nil {
		days = ruleDays[0]
	}
	rules, err := v.node.Rules(v.Context(), days)
	if err != nil {
		return nil, err
	}
	var rows g.Group
	idle := 0
	for i := range rules {
		if len(rules[i].Classes) == 0 {
			idle++
		}
		for k := range rules[i].Classes {
			rows = append(rows, ruleRow(&rules[i], &rules[i].Classes[k]))
		}
	}
	head := func(class, text string) g.Node { return h.Th(h.Class(class), g.Attr("scope", "col"), g.Text(text)) }
	return h.Section(h.H2(g.Text("Rules"), dim("what they decided, and what readers reported afterwards")),
		h.P(h.Class("small"), g.Map(ruleDays, func(n int) g.Node {
			return g.Group{h.A(h.Href("/judgement?days="+strconv.Itoa(n)), g.If(n == days, h.Aria("current", "true")),
				g.Text(plural(uint64(n), "day"))), g.Text(" ")}
		})),
		g.If(len(rows) == 0, h.P(h.Class("dim"), g.Text("No rule has decided anything in this time."))),
		g.If(len(rows) > 0, table(g.Group{head("", "Rule"), head("", "Verdict"), head("num", "Decided"),
			head("num", "Objected"), head("num", "Confirmed"), head("num", "Missed"), head("num", "Contradicted"),
			head("", "95 % interval")},
			rows)),
		h.P(h.Class("dim"), g.Text(fmt.Sprintf("Objected: a reader wants a message that was called spam or suspected. "+
			"Confirmed: a reader reported such a message. Missed: a reader reported a message that was let through. Most "+
			"readers are silent, so the share is a lower bound. The bar shows 0 to 100 %%, wider near 0. "+
			"%s decided nothing.", plural(uint64(idle), "other rule"))))), nil
}

// ruleRow shows what became of the decisions of a rule for one class.
func ruleRow(r *admin.Rule, c *admin.RuleClass) g.Node {
	between := fmt.Sprintf("%s to %s", percent(c.WrongLow), percent(c.WrongHigh))
	return h.Tr(
		rowHead(h.Title(r.When), h.Code(g.Text(r.Name))),
		h.Td(h.Span(h.Class("pill pill-"+c.Class), g.Text(c.Class))),
		number(count(c.Decided)), number(count(c.Objected)), number(count(c.Confirmed)), number(count(c.Missed)),
		number(percent(c.Wrong)), h.Td(chart.Interval(c.WrongLow, c.Wrong, c.WrongHigh, between), dim(between)))
}
