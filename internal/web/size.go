package web

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/bulkhead-mail/bulkhead/client"
	"github.com/bulkhead-mail/bulkhead/client/admin"
)

// sizeFields are the quantities that determine a node's size, with their names in the API.
var sizeFields = []struct{ name, label, example string }{
	{"signatures", "Signatures a day", "1000000"}, {"listed", "of these, voted spam", "1 %"},
	{"count_error", "Wrong counts, at most", "this node's"}, {"list_error", "Listed by mistake, at most", "this node's"},
	{"tally_keep", "Generations of the tally", "this node's"}, {"blocklist_keep", "of the blocklist", "this node's"},
}

// sizeForm asks for the load of a node, and shows the size that the node would need.
func sizeForm(v *view) g.Node {
	q := v.URL.Query()
	return h.Section(h.ID("size"), h.H2(g.Text("Size"), dim("what this node would take for another use")),
		h.Form(h.Class("card fields"), h.Method("get"), h.Action("/storage#size"),
			g.Map(sizeFields, func(f struct{ name, label, example string }) g.Node {
				return h.Div(h.Label(h.For(f.name), g.Text(f.label)),
					h.Input(h.ID(f.name), h.Name(f.name), h.Value(q.Get(f.name)), h.Placeholder(f.example),
						g.Attr("inputmode", "decimal")))
			}),
			h.Button(g.Text("Calculate"))),
		sizesOf(v, q))
}

// sizesOf shows the sizes for a question, or the mistake in it.
func sizesOf(v *view, q url.Values) g.Node {
	if strings.TrimSpace(q.Get("signatures")) == "" {
		return nil
	}
	of, err := sizeQuestion(q)
	if err != nil {
		return problem(&client.Problem{Title: "That cannot be calculated", Detail: err.Error()})
	}
	sizes, err := v.node.Size(v.Context(), of)
	if err != nil {
		p := &client.Problem{Title: "Failed", Status: http.StatusInternalServerError, Detail: "The node's log says more."}
		errors.As(err, &p)
		return problem(p)
	}
	t, b := &sizes.Tally, &sizes.Blocklist
	row := func(name, tally, block string) g.Node {
		return h.Tr(rowHead(g.Text(name)), number(tally), number(block))
	}
	return g.Group{
		table(g.Group{col("Of a steady use"), num("Tally"), num("Blocklist")},
			row("Generations", fmt.Sprintf("%d × %s", t.Keep, t.Generation), fmt.Sprintf("%d × %s", b.Keep, b.Generation)),
			row("Signatures of one", count(t.Signatures), count(b.Signatures)),
			row("Made for", count(t.Capacity), count(b.Capacity)),
			row("Memory of one", size(t.Array), size(b.Array)),
			row("Memory of all", size(t.All), size(b.All)),
			row("A count is wrong", chance(t.CountsWrong), ""),
			row("Unreported, and shown", chance(t.Unseen), chance(b.Unseen)),
			row("Unreported, and bulk", chance(t.BulkWrong), ""),
			row("Listed, and hidden", "", chance(b.Hidden))),
		h.P(g.Text(fmt.Sprintf("Memory %s, disk up to %s, to each peer %s to %s a day.", size(sizes.Memory), size(sizes.Disk),
			size(sizes.Peer.Least), size(sizes.Peer.Most)))),
		h.P(h.Class("dim"), g.Text("By the formulae by which the node sizes its books. Nothing is changed.")),
	}
}

// sizeQuestion parses the question of a form. The API checks the ranges.
func sizeQuestion(q url.Values) (of admin.SizeQuestion, err error) {
	refuse := func(name string) error {
		return fmt.Errorf("%s %.40q is not a number that is possible", name, q.Get(name))
	}
	whole := func(name string) (n uint64) {
		text := strings.TrimSpace(q.Get(name))
		if text == "" || err != nil {
			return 0
		}
		n, wrong := strconv.ParseUint(text, 10, 31)
		if wrong != nil || n == 0 && name != "listed" {
			err = refuse(name)
		}
		return n
	}
	part := func(name string) (p float64) {
		text := strings.TrimSpace(q.Get(name))
		if text == "" || err != nil {
			return 0
		}
		p, wrong := strconv.ParseFloat(text, 64)
		if wrong != nil || p == 0 {
			err = refuse(name)
		}
		return p
	}
	of.Signatures, of.TallyKeep, of.BlocklistKeep = whole("signatures"), int(whole("tally_keep")),
		int(whole("blocklist_keep"))
	of.CountError, of.ListError = part("count_error"), part("list_error")
	if strings.TrimSpace(q.Get("listed")) != "" {
		listed := whole("listed")
		of.Listed = &listed
	}
	return of, err
}
