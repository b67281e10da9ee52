package web

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/consequence"
)

// roles are the roles of an account, the weakest first.
var roles = []struct{ name, meaning string }{
	{"reporter", "earns weight"}, {"trusted", "full weight, may report for others"}, {"admin", "administers, too"},
	{"anonymous", "no weight"},
}

// protocols are the protocols for which an account may have a secret, with the clients that use it.
var protocols = []struct{ name, clients string }{
	{"pages", "password for these pages, 12 characters or more"}, {"pyzor", "key of Pyzor clients"},
	{"razor2", "password of Razor clients"}, {"dcc", "password of DCC clients"},
}

// minPassword is the length of the shortest secret that a browser sends.
const minPassword = 1

func accountAddress(name string) string { return "/people?" + url.Values{"name": {name}}.Encode() }

// roleChoice returns a list of roles.
func roleChoice(id, chosen string) g.Node {
	return h.Select(h.ID(id), h.Name("role"), g.Map(roles, func(r struct{ name, meaning string }) g.Node {
		return h.Option(h.Value(r.name), g.If(r.name == chosen, g.Attr("selected")), g.Text(r.name+": "+r.meaning))
	}))
}

// addForm returns the form that makes an account.
func addForm() g.Node {
	return h.Details(h.Class("card"), h.Summary(h.Strong(g.Text("Add an account"))),
		h.Form(h.Class("fields"), h.Method("post"), h.Action("/people"),
			h.Div(h.Label(h.For("new"), g.Text("Name")),
				h.Input(h.ID("new"), h.Name("name"), h.Required(), g.Attr("maxlength", "128"), h.AutoComplete("off"))),
			h.Div(h.Label(h.For("role"), g.Text("Role")), roleChoice("role", "reporter")),
			h.Div(h.Label(h.For("start"), g.Text("Weight, 0 to 1; empty: by role")),
				h.Input(h.ID("start"), h.Name("weight"), g.Attr("size", "4"), g.Attr("inputmode", "decimal"))),
			h.Button(h.Name("do"), h.Value("add"), g.Text("Add"))))
}

// handOver shows a secret once, with a button that copies it.
func handOver(id, title, secret, note string) g.Node {
	return h.Section(h.Class("card"), h.H2(g.Text(title)),
		h.Div(h.Class("handover"), h.Div(h.P(g.Text(note)), h.Code(h.Class("secret"), h.ID(id), g.Text(secret)),
			h.P(h.Button(h.Type("button"), g.Attr("data-copy", id), g.Attr("hidden"), g.Text("Copy"))))))
}

// addAccount makes the account of a form, and shows its token.
func (s *Site) addAccount(v *view) (g.Node, error) {
	u := admin.NewUser{Name: strings.TrimSpace(v.PostForm.Get("name")), Role: v.PostForm.Get("role")}
	if v.PostForm.Get("weight") != "" {
		w, err := weight(v)
		if err != nil {
			return nil, err
		}
		u.Weight = &w
	}
	made, err := v.node.AddUser(v.Context(), u)
	if err != nil {
		return nil, err
	}
	v.notice = fmt.Sprintf("Account %s is made.", u.Name)
	s.offer(v, "/people", func(ctx context.Context, node *admin.Client) (string, error) {
		return fmt.Sprintf("Account %s is removed again.", u.Name), node.RemoveUser(ctx, u.Name)
	})
	page, err := accountPage(v, u.Name)
	return g.Group{handOver("token", "Token of "+u.Name, made.Token,
		"Programs that report for "+u.Name+" need this token. It is shown once: the node keeps only its hash."), page}, err
}

// accountPage shows one account with what can be changed.
func accountPage(v *view, name string) (g.Node, error) {
	u, err := v.node.User(v.Context(), name)
	if err != nil {
		return nil, err
	}
	weights, err := v.node.Weights(v.Context())
	if err != nil {
		return nil, err
	}
	var samples []admin.Weight
	if i := slices.IndexFunc(weights, func(w admin.Weights) bool { return w.Account == name }); i >= 0 {
		samples = weights[i].Samples
	}
	fact := func(title string, value g.Node) g.Node { return h.Div(h.Dt(g.Text(title)), h.Dd(value)) }
	state, closing, verb := "open", "close", "Close the account"
	if u.Closed {
		state, closing, verb = "closed", "open", "Open the account"
	}
	return g.Group{
		h.P(link("/people", "All accounts")),
		h.Section(h.Class("card"), h.H2(g.Text(u.Name), dim(u.Role+", "+state)),
			h.Dl(h.Class("facts"), fact("A report weighs now", g.Text(fmt.Sprintf("%.2f", u.Worth))),
				fact("Over time", weightLine(u.Name, samples, v.status.Now)), fact("Accuracy", accuracy(u)),
				fact("Since", g.Text(date(u.Created))),
				fact("Reports", link(searchPath("by:"+u.Name), "its messages")))),
		h.Section(h.Class("card"), h.H2(g.Text("Change")),
			accountForm(u, "role", "Set role", h.Div(h.Label(h.For("role"), g.Text("Role")), roleChoice("role", u.Role))),
			accountForm(u, "weigh", "Set weight", textField("weight", "Weight, 0 to 1", fmt.Sprintf("%.2f", u.Weight))),
			accountForm(u, "person", "Set person", textField("person", "Same person as the account", u.Person)),
			accountForm(u, "parent", "Set parent", textField("parent", "Account that answers for it", u.Parent))),
		h.Section(h.Class("card"), h.H2(g.Text("Token and passwords"), dim("the node never shows one again")),
			accountForm(u, "token", "Make a new token", h.P(h.Class("dim"), g.If(u.Token, g.Text("It has a token.")),
				g.If(!u.Token, g.Text("It has no token.")))),
			g.Map(protocols, func(p struct{ name, clients string }) g.Node {
				has := "not set"
				if slices.Contains(u.Protocols, p.name) {
					has = "set"
				}
				return accountForm(u, "secret "+p.name, "Set", g.Group{
					// For password managers.
					h.Input(h.Type("text"), h.AutoComplete("username"), h.Value(u.Name), g.Attr("readonly"), g.Attr("hidden")),
					h.Div(h.Label(h.For("secret-"+p.name), g.Text(fmt.Sprintf("%s: %s (%s)", p.name, p.clients, has))),
						h.Input(h.Type("password"), h.ID("secret-"+p.name), h.Name("secret"), h.AutoComplete("new-password"),
							g.Attr("minlength", fmt.Sprint(minPassword)), g.Attr("maxlength", "1024"))),
					g.If(has == "set", h.Button(h.Class("danger"), h.Name("do"), h.Value("unset "+p.name), h.FormNoValidate(),
						h.Aria("label", "Remove "+p.name+" of "+u.Name), g.Text("Remove")))})
			})),
		h.Section(h.Class("card"), h.H2(g.Text("Votes")), h.Div(h.Class("acts"),
			act("/people", "account:"+u.Name, "undo", "Undo votes", days("Days to undo of "+u.Name)),
			act("/people", u.Name, closing, verb, nil))),
	}, nil
}

func textField(name, label, value string) g.Node {
	return h.Div(h.Label(h.For(name), g.Text(label)), h.Input(h.ID(name), h.Name(name), h.Value(value),
		g.Attr("maxlength", "128"), h.AutoComplete("off")))
}

// accountForm returns a form with fields of an account and the button that sets them.
func accountForm(u *admin.User, do, verb string, fields g.Node) g.Node {
	return h.Form(h.Class("fields"), h.Method("post"), h.Action("/people"),
		hidden("name", u.Name), hidden("page", "one"),
		fields, h.Button(h.Name("do"), h.Value(do), h.Aria("label", verb+" "+u.Name+" "+strings.TrimPrefix(do, "secret ")),
			g.Text(verb)))
}

// changeAccount handles the forms of one account; ok is false if the form is another one.
func (s *Site) changeAccount(v *view, name, what string) (page g.Node, ok bool, err error) {
	if protocol, is := strings.CutPrefix(what, "secret "); is {
		if v.PostForm.Get("secret") == "" {
			return nil, true, badForm(errors.New("the password is empty; Remove takes one away"))
		}
		page, err = s.setSecret(v, name, protocol)
		return page, true, err
	}
	if protocol, is := strings.CutPrefix(what, "unset "); is {
		if d := v.deed(time.Time{}); !s.agreed(v, d) {
			return s.ask(v, d, consequence.RemoveSecret(name, protocol)), true, nil
		}
		if err := v.node.SetSecret(v.Context(), name, protocol, ""); err != nil {
			return nil, true, err
		}
		v.notice = fmt.Sprintf("The secret of %s for %s is removed.", name, protocol)
		page, err = accountPage(v, name)
		return page, true, err
	}
	switch what {
	case "add":
		page, err = s.addAccount(v)
	case "token":
		page, err = s.newToken(v, name)
	case "role", "person", "parent":
		page, err = s.changeField(v, name, what, strings.TrimSpace(v.PostForm.Get(what)))
	default:
		return nil, false, nil
	}
	return page, true, err
}

func (s *Site) setSecret(v *view, name, protocol string) (g.Node, error) {
	if err := v.node.SetSecret(v.Context(), name, protocol, v.PostForm.Get("secret")); err != nil {
		return nil, err
	}
	v.notice = fmt.Sprintf("The secret of %s for %s is set. Its clients need it from now on.", name, protocol)
	return accountPage(v, name)
}

// newToken replaces the token of an account, after a question if it has one.
func (s *Site) newToken(v *view, name string) (g.Node, error) {
	u, err := v.node.User(v.Context(), name)
	if err != nil {
		return nil, err
	}
	if d := v.deed(time.Time{}); u.Token && !s.agreed(v, d) {
		return s.ask(v, d, consequence.NewToken(name)), nil
	}
	made, err := v.node.NewToken(v.Context(), name)
	if err != nil {
		return nil, err
	}
	v.notice = "Account " + name + " has a new token."
	page, err := accountPage(v, name)
	return g.Group{handOver("token", "Token of "+name, made.Token,
		"It is shown once: the node keeps only its hash. The earlier token no longer works."), page}, err
}

// changeField changes the role, person or parent of an account, and offers the earlier value.
func (s *Site) changeField(v *view, name, field, value string) (g.Node, error) {
	u, err := v.node.User(v.Context(), name)
	if err != nil {
		return nil, err
	}
	change, before := admin.UserChange{}, admin.UserChange{}
	var had string
	switch field {
	case "role":
		change.Role, before.Role, had = &value, &u.Role, u.Role
	case "person":
		change.Person, before.Person, had = &value, &u.Person, u.Person
	default:
		change.Parent, before.Parent, had = &value, &u.Parent, u.Parent
	}
	if _, err := v.node.ChangeUser(v.Context(), name, change); err != nil {
		return nil, err
	}
	words := func(value string) string {
		if value == "" {
			value = "none"
		}
		return fmt.Sprintf("The %s of %s is %s.", field, name, value)
	}
	v.notice = words(value)
	s.offerChange(v, accountAddress(name), name, before, words(had))
	return accountPage(v, name)
}

// offerChange offers to change an account back.
func (s *Site) offerChange(v *view, back, name string, before admin.UserChange, notice string) {
	s.offer(v, back, func(ctx context.Context, node *admin.Client) (string, error) {
		_, err := node.ChangeUser(ctx, name, before)
		return notice, err
	})
}
