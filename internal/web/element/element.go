// Package element has the elements and attributes of HTML that the pages use. Its functions call
// maragu.dev/gomponents and are not inlined: the pages call hundreds of them, and inlining made the
// program half a megabyte larger.
package element

import (
	g "maragu.dev/gomponents"
	"maragu.dev/gomponents/html"
)

func A(children ...g.Node) g.Node { return El("a", children...) }

func Action(value string) g.Node { return Attr("action", value) }

//go:noinline
func Aria(name, v string) g.Node { return html.Aria(name, v) }

//go:noinline
func Attr(name string, value ...string) g.Node { return g.Attr(name, value...) }

func AutoComplete(value string) g.Node { return Attr("autocomplete", value) }

func Body(children ...g.Node) g.Node { return El("body", children...) }

func Br(children ...g.Node) g.Node { return El("br", children...) }

func Button(children ...g.Node) g.Node { return El("button", children...) }

func Charset(value string) g.Node { return Attr("charset", value) }

func Class(value string) g.Node { return Attr("class", value) }

func Code(children ...g.Node) g.Node { return El("code", children...) }

func ColSpan(value string) g.Node { return Attr("colspan", value) }

func Content(value string) g.Node { return Attr("content", value) }

func Dd(children ...g.Node) g.Node { return El("dd", children...) }

func Details(children ...g.Node) g.Node { return El("details", children...) }

func Div(children ...g.Node) g.Node { return El("div", children...) }

func Dl(children ...g.Node) g.Node { return El("dl", children...) }

//go:noinline
func Doctype(sibling g.Node) g.Node { return html.Doctype(sibling) }

func Dt(children ...g.Node) g.Node { return El("dt", children...) }

//go:noinline
func El(name string, children ...g.Node) g.Node { return g.El(name, children...) }

func EncType(value string) g.Node { return Attr("enctype", value) }

func Footer(children ...g.Node) g.Node { return El("footer", children...) }

func For(value string) g.Node { return Attr("for", value) }

func Form(children ...g.Node) g.Node { return El("form", children...) }

func H1(children ...g.Node) g.Node { return El("h1", children...) }

func H2(children ...g.Node) g.Node { return El("h2", children...) }

func HTML(children ...g.Node) g.Node { return El("html", children...) }

func Head(children ...g.Node) g.Node { return El("head", children...) }

func Header(children ...g.Node) g.Node { return El("header", children...) }

func Height(value string) g.Node { return Attr("height", value) }

func Href(value string) g.Node { return Attr("href", value) }

func ID(value string) g.Node { return Attr("id", value) }

//go:noinline
func If(condition bool, n g.Node) g.Node { return g.If(condition, n) }

func Input(children ...g.Node) g.Node { return El("input", children...) }

func Label(children ...g.Node) g.Node { return El("label", children...) }

func Lang(value string) g.Node { return Attr("lang", value) }

func Li(children ...g.Node) g.Node { return El("li", children...) }

func Main(children ...g.Node) g.Node { return El("main", children...) }

func Meta(children ...g.Node) g.Node { return El("meta", children...) }

func Method(value string) g.Node { return Attr("method", value) }

func Name(value string) g.Node { return Attr("name", value) }

func Nav(children ...g.Node) g.Node { return El("nav", children...) }

func NoScript(children ...g.Node) g.Node { return El("noscript", children...) }

func Option(children ...g.Node) g.Node { return El("option", children...) }

func P(children ...g.Node) g.Node { return El("p", children...) }

func Placeholder(value string) g.Node { return Attr("placeholder", value) }

//go:noinline
func Raw(text string) g.Node { return g.Raw(text) }

func Required() g.Node { return Attr("required") }

func Role(value string) g.Node { return Attr("role", value) }

func RowSpan(value string) g.Node { return Attr("rowspan", value) }

func Rows(value string) g.Node { return Attr("rows", value) }

func SVG(children ...g.Node) g.Node { return El("svg", children...) }

func Script(children ...g.Node) g.Node { return El("script", children...) }

func Section(children ...g.Node) g.Node { return El("section", children...) }

func Select(children ...g.Node) g.Node { return El("select", children...) }

func Span(children ...g.Node) g.Node { return El("span", children...) }

func Strong(children ...g.Node) g.Node { return El("strong", children...) }

func StyleEl(children ...g.Node) g.Node { return El("style", children...) }

func Summary(children ...g.Node) g.Node { return El("summary", children...) }

func TBody(children ...g.Node) g.Node { return El("tbody", children...) }

func THead(children ...g.Node) g.Node { return El("thead", children...) }

func Table(children ...g.Node) g.Node { return El("table", children...) }

func Td(children ...g.Node) g.Node { return El("td", children...) }

//go:noinline
func Text(text string) g.Node { return g.Text(text) }

func Textarea(children ...g.Node) g.Node { return El("textarea", children...) }

func Th(children ...g.Node) g.Node { return El("th", children...) }

func Title(value string) g.Node { return Attr("title", value) }

func TitleEl(children ...g.Node) g.Node { return El("title", children...) }

func Tr(children ...g.Node) g.Node { return El("tr", children...) }

func Type(value string) g.Node { return Attr("type", value) }

func Ul(children ...g.Node) g.Node { return El("ul", children...) }

func Value(value string) g.Node { return Attr("value", value) }

func Width(value string) g.Node { return Attr("width", value) }
