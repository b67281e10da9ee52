package web

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client/admin"
)

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
			g.If(len(lists) > 0, table(g.Group{col("List"), col("Tone"), num("Entries"), num("Memory"),
				num("Wrong finds"), col("Updated")},
				g.Map(lists, func(l admin.List) g.Node {
					if l.Unknown {
						return h.Tr(rowHead(g.Text(l.Name)),
							h.Td(g.Attr("colspan", "5"), g.Text("not known: "+l.Fault)))
					}
					return h.Tr(rowHead(g.Text(l.Name), g.If(l.Allowed > 0,
						dim(entries(l.Allowed)+" taken out"))), h.Td(g.Text(l.Tone)), number(count(l.Entries)),
						number(size(l.Bytes)), number(chance(l.Error)), h.Td(g.Text(date(l.Updated))))
				})))),
		listForm(v, lists),
		white,
		h.Section(h.H2(g.Text("Rate limits")),
			g.If(len(limits) == 0, h.P(h.Class("dim"),
				g.Text("No limit yet. [[ratelimit]] in the configuration makes one; docs/protocols/policy.md has examples."))),
			g.If(len(limits) > 0, table(g.Group{col("Rule"), col("Counts"), num("Limit"), col("Action"), num("Keys"),
				num("Memory"), num("Given up")},
				g.Map(limits, func(l admin.RateLimit) g.Node {
					counts := l.Key
					if l.Unique != "" {
						counts = "different " + l.Unique + " for each " + l.Key
					}
					return h.Tr(rowHead(g.Text(l.Name)), h.Td(h.Code(g.Text(counts))),
						number(fmt.Sprintf("%g in %s", l.Limit, l.Period)), h.Td(g.Text(l.Action)),
						number(count(uint64(l.Keys))), number(size(uint64(l.Bytes))), number(count(uint64(l.Evicted))))
				})))),
		g.Map(most, topKeys),
	}, nil
}

// topKeys shows the keys of a rule with the highest rates.
func topKeys(t admin.TopKeys) g.Node {
	if len(t.Keys) == 0 {
		return nil
	}
	return h.Section(h.H2(g.Text("Top keys of "+t.Rule), dim("with the highest rates now")),
		table(g.Group{col("Key"), h.Th(h.Class("fill"), g.Text("Of the limit")), num("Rate"), num("Limit"),
			col("Actions")},
			g.Map(t.Keys, func(k admin.TopKey) g.Node {
				share := 0.0
				if k.Limit > 0 {
					share = k.Rate / k.Limit
				}
				return h.Tr(rowHead(h.Class("sig"), g.Text(k.Key)),
					h.Td(h.Class("fill"), gauge(share), g.Text(percent(share))), number(fmt.Sprintf("%.1f", k.Rate)),
					number(fmt.Sprintf("%g", k.Limit)),
					h.Td(act("/rules", k.Key, "reset "+t.Rule, "Forget", nil)))
			})))
}

// changeRules looks up an entry, or takes a signature off the whitelist.
func (s *Site) changeRules(v *view) (g.Node, error) {
	if err := parseUpload(v.Request); err != nil {
		return nil, err
	}
	if name := v.PostForm.Get("list"); name != "" {
		return s.editList(v, name)
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

// maxImport is the size of the largest file that is imported into a list, bytes.
const maxImport = 1 << 20

// listForm returns the form that edits a list. It keeps the entries of a dry run.
func listForm(v *view, all []admin.List) g.Node {
	if len(all) == 0 || !v.viewer.Admin {
		return nil
	}
	return h.Form(h.Class("card"), h.Method("post"), h.Action("/rules"), h.EncType("multipart/form-data"),
		h.H2(g.Text("Edit a list")),
		h.Div(h.Class("fields"),
			h.Div(h.Label(h.For("list"), g.Text("List")), h.Select(h.ID("list"), h.Name("list"),
				g.Map(all, func(l admin.List) g.Node {
					return h.Option(h.Value(l.Name), g.If(l.Name == v.PostForm.Get("list"), g.Attr("selected")), g.Text(l.Name))
				}))),
			h.Div(h.Label(h.For("import"), g.Text("Import a text file, up to 1 MiB")),
				h.Input(h.Type("file"), h.ID("import"), h.Name("import")))),
		h.Label(h.For("entries"), g.Text("or entries, one a line: domains, addresses, URLs, networks")),
		h.Textarea(h.ID("entries"), h.Name("entries"), h.Rows("4"), g.Attr("spellcheck", "false"),
			g.Text(v.PostForm.Get("entries"))),
		h.P(h.Input(h.Type("checkbox"), h.ID("dry"), h.Name("dry"), h.Value("true")), g.Text(" "),
			h.Label(h.Class("beside-box"), h.For("dry"), g.Text("dry run: only report the result"))),
		h.Div(h.Class("acts"), h.Button(h.Name("do"), h.Value("list-add"), g.Text("Add to the list")),
			h.Button(h.Name("do"), h.Value("list-remove"), g.Text("Remove from the list"))),
		h.P(h.Class("dim"),
			g.Text("A filter holds no entries that could be taken out. A removed entry goes into the allow list "+
				"beside the list, with all below it.")))
}

// parseUpload reads a form with or without files.
func parseUpload(r *http.Request) error {
	if strings.HasPrefix(r.Header.Get("Content-Type"), "multipart/form-data") {
		if err := r.ParseMultipartForm(2 * maxImport); err != nil {
			return badForm(err)
		}
		return nil
	}
	if err := r.ParseForm(); err != nil {
		return badForm(err)
	}
	return nil
}

// imported returns the lines of the form, from its file and its text.
func imported(r *http.Request) (lines []string, err error) {
	text := r.PostForm.Get("entries")
	if r.MultipartForm != nil {
		defer r.MultipartForm.RemoveAll()
		if f, _, err := r.FormFile("import"); err == nil {
			defer f.Close()
			raw, err := io.ReadAll(io.LimitReader(f, maxImport+1))
			if err != nil {
				return nil, badForm(err)
			}
			if len(raw) > maxImport {
				return nil, badForm(fmt.Errorf("the file has more than %d bytes; use bulkhead list add", maxImport))
			}
			text = string(raw) + "\n" + text
		}
	}
	if strings.TrimSpace(text) == "" {
		return nil, badForm(errors.New("give entries, or choose a file"))
	}
	return strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n"), nil
}

// editList changes a list, and offers the change back.
func (s *Site) editList(v *view, name string) (g.Node, error) {
	lines, err := imported(v.Request)
	if err != nil {
		return nil, err
	}
	edit := admin.ListEdit{Dry: v.PostForm.Get("dry") != ""}
	switch v.PostForm.Get("do") {
	case "list-add":
		edit.Add = lines
	case "list-remove":
		edit.Remove = lines
	default:
		return nil, badForm(errors.New("unknown action"))
	}
	got, err := v.node.EditList(v.Context(), name, edit)
	if err != nil {
		return nil, err
	}
	v.notice = editedWords(name, got, edit.Dry)
	if !edit.Dry {
		v.PostForm.Del("entries")
		if back := (admin.ListEdit{Add: got.Removed, Remove: slices.Concat(got.Added, got.Restored)}); len(back.Add)+
			len(back.Remove) > 0 {
			s.offer(v, "/rules", func(ctx context.Context, node *admin.Client) (string, error) {
				undone, err := node.EditList(ctx, name, back)
				if err != nil {
					return "", err
				}
				return editedWords(name, undone, false), nil
			})
		}
	}
	return s.rules(v)
}

// editedWords describes the result of an edit.
func editedWords(name string, e *admin.ListEdited, dry bool) string {
	var all []string
	for _, n := range []struct {
		count int
		what  string
	}{{len(e.Added), "added"}, {len(e.Restored), "back in"}, {e.Known, "in it already"}, {len(e.Removed), "removed"},
		{e.Absent, "not in it"}} {
		if n.count > 0 {
			all = append(all, fmt.Sprintf("%s %s", entries(n.count), n.what))
		}
	}
	text := "nothing to change"
	if len(all) > 0 {
		text = strings.Join(all, ", ")
	}
	if dry {
		return fmt.Sprintf("A dry run on the list %s, which changes nothing: %s.", name, text)
	}
	return fmt.Sprintf("List %s: %s.", name, text)
}

func entries(n int) string {
	if n == 1 {
		return "1 entry"
	}
	return count(uint64(n)) + " entries"
}
