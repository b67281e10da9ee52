package document

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"
)

const scriptedText = `<html><body><p>Your account will be closed</p>` +
	`<a href="http://pay.example/x">Pay & go</a></body></html>`

// percented returns text with each character after a mark in hexadecimal digits.
func percented(text, format string) string {
	var b strings.Builder
	for _, c := range []byte(text) {
		fmt.Fprintf(&b, format, c)
	}
	return b.String()
}

// TestScripted checks that pages within the literals of scripts are found in each encoding, and nothing else.
func TestScripted(t *testing.T) {
	coded := base64.StdEncoding.EncodeToString([]byte(scriptedText))
	tests := []struct {
		name, source string
		want         []string
	}{
		{"base64", `<script>document.write(atob("` + coded + `"))</script>`, []string{scriptedText}},
		{"base64 without padding", "<script>atob('" + strings.TrimRight(coded, "=") + "')</script>", []string{scriptedText}},
		{"percent", `<script>write(unescape('` + percented(scriptedText, "%%%02X") + `'))</script>`, []string{scriptedText}},
		{"percent, in part", `<script>a='` + strings.NewReplacer("<", "%3c", ">", "%3E", `"`, "%22").Replace(scriptedText) +
			`'</script>`, []string{scriptedText}},
		{"percent, wide", `<script>a='` + percented(scriptedText, "%%u%04x") + `'</script>`, []string{scriptedText}},
		{"escapes", "<script>a=`" + percented(scriptedText, `\x%02x`) + "`</script>", []string{scriptedText}},
		{"wide escapes", "<script>a=`" + percented(scriptedText, `\u%04X`) + "`</script>", []string{scriptedText}},
		{"pieces", `<script>a="` + coded[:30] + `" + '` + coded[30:60] + "'+\n\"" + coded[60:] + `"</script>`,
			[]string{scriptedText}},
		{"attribute", `<body onload="x('` + coded + `')">`, []string{scriptedText}},
		{"data", `<iframe src="data:text/html;base64,` + coded + `">`, []string{scriptedText}},
		{"twice", `<script>atob("` + base64.StdEncoding.EncodeToString([]byte("<script>atob('"+coded+"')</script>")) +
			`")</script>`,
			[]string{"<script>atob('" + coded + "')</script>", scriptedText}},
		{"as it is", `<script>a='` + scriptedText + `'</script>`, nil}, // what libraries have
		{"a picture", `<img src="data:image/png;base64,` + coded + `">`, nil},
		{"no page", `<script>a="` + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("words ", 40))) +
			`"</script>`, nil},
		{"short", `<script>a="` + base64.StdEncoding.EncodeToString([]byte("<b>short</b>")) + `"</script>`, nil},
		{"behind an apostrophe", `<p>Don't</p><script>a="` + coded + `"`, []string{scriptedText}},
		{"a lone quote at last", "<script>a='" + coded + "';`", []string{scriptedText}},
		{"nothing", "", nil},
	}
	for _, tt := range tests {
		var got []string
		for _, item := range Scripted(t.Context(), "x.html", tt.source, &Budget{Bytes: 1 << 20, Items: 32}) {
			got = append(got, string(item.Data))
			if item.Kind != Page || item.Name != "x.html" {
				t.Errorf("%s: kind %v, name %q", tt.name, item.Kind, item.Name)
			}
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %.200q, want %.200q", tt.name, got, tt.want)
		}
	}
}

// TestScriptedBudget checks that no more than the budget is decoded.
func TestScriptedBudget(t *testing.T) {
	source := strings.Repeat(`a="`+percented(scriptedText, "%%%02X")+`";`, 20)
	for _, b := range []Budget{{Bytes: 5*len(scriptedText) + 4, Items: 32}, {Bytes: 1 << 20, Items: 5}} {
		if n := len(Scripted(t.Context(), "x", source, &b)); n != 5 || b.Bytes < 0 || b.Items < 0 {
			t.Errorf("%d pages, left %+v", n, b)
		}
	}
}

func FuzzScripted(f *testing.F) {
	coded := base64.StdEncoding.EncodeToString([]byte(scriptedText))
	for _, s := range []string{`a="` + coded + `"+"`, `'%3c` + percented(scriptedText, "%%u%04x") + `%'`,
		"`" + percented(scriptedText, `\x%02x`) + `\u00\x` + "`", `"data:text/html;base64,` + coded + `"`, `'%`, `"\`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, source string) {
		b := Budget{Bytes: 1 << 12, Items: 8}
		size := 0
		for _, item := range Scripted(t.Context(), "x", source, &b) {
			size += len(item.Data)
		}
		if b.Items < 0 || b.Bytes < 0 || size > 1<<12 {
			t.Errorf("%d bytes, left %+v", size, b)
		}
	})
}

// TestFrame checks what frames hold that stand in a page.
func TestFrame(t *testing.T) {
	for source, want := range map[string]string{
		"<p>seen":                            "<p>seen",
		"data:text/html,<p>se%65n":           "<p>seen",
		"DATA:text/HTML;charset=utf-8,<p>a":  "<p>a",
		"data:text/html;base64,PHA%2Bc2Vlbg": "<p>seen",
		"data:image/svg+xml;base64,PHN2Zy8+": "<svg/>",
		"data:text/html;base64,!":            "",
		"data:image/png;base64,PHA+":         "",
		"data:text/html,%ff":                 "",
		"data:text/html":                     "",
		"data:":                              "",
		"":                                   "",
	} {
		got := ""
		for _, item := range Frame(t.Context(), "", source, &Budget{Bytes: 1 << 10, Items: 9}) {
			got += string(item.Data)
		}
		if got != want {
			t.Errorf("%q holds %q, want %q", source, got, want)
		}
	}
	if items := Frame(t.Context(), "", "<p>seen", &Budget{Bytes: 3, Items: 9}); len(items) > 0 {
		t.Errorf("%d items beyond the budget", len(items))
	}
}

func FuzzFrame(f *testing.F) {
	for _, s := range []string{"<p>seen", "data:text/html,<p>se%65n", "data:image/svg+xml;base64,PHN2Zy8+", "data:,%",
		"data:text/html;base64,====", `data:text/html,<script>a="data:text/html,%3cp%3e` + scriptedText + `"`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, source string) {
		b := Budget{Bytes: 1 << 12, Items: 8}
		size := 0
		for _, item := range Frame(t.Context(), "x", source, &b) {
			size += len(item.Data)
		}
		if b.Items < 0 || b.Bytes < 0 || size > 1<<12 {
			t.Errorf("%d bytes, left %+v", size, b)
		}
	})
}
