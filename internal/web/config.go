package web

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/bulkhead-mail/bulkhead/client"
	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/consequence"
)

// config returns the page of the configuration.
func (s *Site) config(v *view) (g.Node, error) { return configOf(v, "", nil) }

// configOf shows the configuration, and the result for a text that was checked.
func configOf(v *view, text string, checked g.Node) (g.Node, error) {
	c, err := v.node.Config(v.Context())
	if err != nil {
		return nil, err
	}
	out := g.Group{checked,
		h.Form(h.Class("card"), h.Method("post"), h.Action("/config"),
			h.Label(h.For("text"), g.Text("Check the text of a configuration file. Nothing is changed.")),
			h.Textarea(h.ID("text"), h.Name("text"), h.Rows("6"), g.Attr("spellcheck", "false"), g.Text(text)),
			h.Button(h.Name("do"), h.Value("check"), g.Text("Check"))),
		g.If(c.Reloadable, h.Form(h.Class("card row"), h.Method("post"), h.Action("/config"),
			h.Button(h.Name("do"), h.Value("reload"), g.Text("Read the file again")),
			dim("as SIGHUP does: keys marked ↻ take effect, the others wait for a restart"))),
		g.If(!c.Reloadable, h.P(h.Class("card dim"),
			g.Text("This node was started without a configuration file. bulkhead config reference prints one to begin with.")))}
	for len(c.Settings) > 0 {
		name, _, _ := strings.Cut(c.Settings[0].Key, ".")
		n, changed := 0, 0
		for ; n < len(c.Settings) && strings.HasPrefix(c.Settings[n].Key, name+"."); n++ {
			if !c.Settings[n].Default {
				changed++
			}
		}
		n = max(n, 1)
		out = append(out, section(name, c.Settings[:n], changed))
		c.Settings = c.Settings[n:]
	}
	return out, nil
}

// section shows one section of the configuration. It is expanded if a value differs from its
// default.
func section(name string, settings []admin.Setting, changed int) g.Node {
	what := "as by default"
	if changed > 0 {
		what = fmt.Sprintf("%d of %d not as by default", changed, len(settings))
	}
	return h.Details(g.If(changed > 0, g.Attr("open")), h.Summary(h.Strong(g.Text("["+name+"]")), g.Text(" "), dim(what)),
		h.Div(h.Class("scroll"), g.Attr("tabindex", "0"), h.Table(h.Class("settings"),
			h.THead(h.Tr(h.Th(g.Text("Key")), h.Th(g.Text("Value")), h.Th(g.Text("Meaning")))),
			h.TBody(g.Map(settings, func(s admin.Setting) g.Node {
				value := h.Code(g.Text(s.Value))
				if !s.Default {
					value = h.Strong(value)
				}
				return h.Tr(rowHead(h.Code(g.Text(strings.TrimPrefix(s.Key, name+"."))),
					g.If(s.Reload, dim(" ↻"))), h.Td(value), h.Td(h.Class("dim"), g.Text(s.Meaning)))
			})))))
}

// changeConfig checks a text, or makes the node reload its file.
func (s *Site) changeConfig(v *view) (g.Node, error) {
	if err := v.ParseForm(); err != nil {
		return nil, badForm(err)
	}
	text := v.PostForm.Get("text")
	switch v.PostForm.Get("do") {
	case "check":
		got, err := v.node.CheckConfig(v.Context(), strings.ReplaceAll(text, "\r\n", "\n"))
		if err != nil {
			return nil, err
		}
		return configOf(v, text, verdictOnConfig(got, "No mistakes."))
	case "reload":
		if d := v.deed(time.Time{}); !s.agreed(v, d) {
			preview, err := v.node.PreviewReload(v.Context())
			if err == nil && len(preview.Mistakes) > 0 {
				return configOf(v, "", verdictOnConfig(preview, ""))
			}
			if err != nil && !conflicts(err) {
				return nil, err
			}
			if err == nil && len(preview.Changed)+len(preview.Restart) > 0 {
				return g.Group{s.ask(v, d, consequence.Reload(preview)), diffTable(preview.Diff)}, nil
			}
		}
		got, err := v.node.ReloadConfig(v.Context())
		if err != nil {
			return nil, err
		}
		return configOf(v, "", verdictOnConfig(got, "The file was read again."))
	}
	return nil, badForm(errors.New("unknown action"))
}

// verdictOnConfig shows the result of checking a text or reloading the file.
func verdictOnConfig(c *admin.ConfigCheck, well string) g.Node {
	keys := func(all []string) string {
		if len(all) == 0 {
			return "none"
		}
		return strings.Join(all, ", ")
	}
	if len(c.Mistakes) > 0 {
		return h.Div(h.Class("alarm"), h.Role("alert"),
			h.Strong(g.Text("Nothing was changed. "+plural(uint64(len(c.Mistakes)), "mistake")+":")),
			h.Ul(g.Map(c.Mistakes, func(m string) g.Node { return h.Li(g.Text(m)) })))
	}
	return h.Div(h.Class("card"), h.Role("status"), h.P(h.Strong(g.Text(well))),
		h.P(g.Text("Keys that differ and take effect without a restart: "+keys(c.Changed)+". Keys that need a restart: "+
			keys(c.Restart)+".")), diffTable(c.Diff))
}

// diffTable shows the keys whose values differ.
func diffTable(all []admin.SettingChange) g.Node {
	if len(all) == 0 {
		return nil
	}
	return h.Div(h.Class("scroll"), g.Attr("tabindex", "0"), h.Table(h.Class("settings"),
		h.THead(h.Tr(h.Th(g.Text("Key")), h.Th(g.Text("In force")), h.Th(g.Text("In the file")))),
		h.TBody(g.Map(all, func(c admin.SettingChange) g.Node {
			return h.Tr(rowHead(h.Code(g.Text(c.Key)), g.If(!c.Reload, dim("needs a restart"))),
				h.Td(h.Code(g.Text(dashed(c.Now)))), h.Td(h.Strong(h.Code(g.Text(dashed(c.Then))))))
		}))))
}

// conflicts reports whether an error means that the node cannot do a thing in its present state.
func conflicts(err error) bool {
	var p *client.Problem
	return errors.As(err, &p) && p.Status == http.StatusConflict
}
