//go:build interop

package web

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/bulkhead-mail/bulkhead/client"
)

// TestToday: each number of the first page leads to as many messages.
func TestToday(t *testing.T) {
	n := full(t)
	b := open(t, n.url)
	b.logIn(n)
	for name, want := range map[string]int{"Caught": 3, "Slipped through": 3, "Complained about": 0,
		"Wait for a second voice": 0} {
		b.visit("/")
		number := look[struct {
			Text, Path string
		}](b, `(() => {
			const a = [...document.querySelectorAll(".today a")].find(a => a.ariaLabel.startsWith(`+quote(name)+`));
			return {Text: a.innerText, Path: a.pathname + a.search};
		})()`)
		b.visit(number.Path)
		if rows := look[int](b, `document.querySelectorAll("tr[data-row]").length`); number.Text != strconv.Itoa(want) ||
			rows != want {
			t.Errorf("%s: %q, %d messages, want %d", name, number.Text, rows, want)
		}
	}
	b.visit("/?range=1h")
	b.await("1 hour")
	if titles := look[int](b, `document.querySelectorAll("svg.chart title").length`); titles < 60 {
		t.Errorf("%d bars of an hour show their numbers", titles)
	}
	b.well("the first page")
}

// TestMessages: the list is searched, moved in by keys and voted on, many at once, and the votes are
// undone.
func TestMessages(t *testing.T) {
	n := full(t)
	b := open(t, n.url)
	b.logIn(n)
	b.window(1280)
	is := func(want string) {
		t.Helper()
		v, err := n.api.CheckMessage(context.Background(), letter(1, offer), client.MessageOptions{})
		if err != nil || v.Class != want {
			t.Fatalf("the message is %+v, %v, want %s", v, err, want)
		}
	}
	b.visit("/history")
	b.run(input.DispatchKeyEvent(input.KeyDown).WithKey("/").WithText("/")) // a character only if the page lets it
	b.awaitThat("the keyboard in the search", `document.activeElement.id == "q"`)
	b.run(chromedp.KeyEvent("kind:spam from:example.c"))
	if offers := look[[]string](b, `[...document.querySelectorAll("#words option")].map(o => o.value)`); len(offers) !=
		1 || offers[0] != "kind:spam from:example.com" {
		t.Errorf("the search is completed by %q", offers)
	}
	b.run(chromedp.KeyEvent("om" + kb.Enter))
	// The page before has three rows as well.
	b.awaitThat("three reports", `new URLSearchParams(location.search).get("q") == "kind:spam from:example.com" &&
		document.querySelectorAll("tr[data-row]").length == 3`)
	b.run(chromedp.KeyEvent("?"))
	b.awaitThat("the help", `document.getElementById("keys").open`)
	b.visit("/history?q=kind:spam")
	b.run(chromedp.KeyEvent("jxjx"))
	if selected := look[int](b, `document.querySelectorAll("tr[data-row] :checked").length`); selected != 2 {
		t.Fatalf("%d messages are selected", selected)
	}
	is("spam")
	b.run(chromedp.KeyEvent("h"))
	b.await("2 messages. Voted ham")
	b.run(chromedp.KeyEvent("u"))
	b.await("are taken back")
	is("spam")
	b.run(chromedp.KeyEvent("jk" + kb.Enter))
	b.await("Evidence now")
	b.awaitThat("the list beside", `document.querySelectorAll("tr.open").length == 1`)
	if wide := look[int](b, "document.documentElement.scrollWidth"); wide > 1280 {
		t.Errorf("the page is %d pixels wide", wide)
	}
	if bars := look[string](b, `document.querySelector(".parts").innerText`); !strings.Contains(bars, "spam vote") {
		t.Errorf("the evidence has no votes:\n%s", bars)
	}
	b.press("Take it off the list")
	b.await("Voted revoke")
	is("unknown")
	b.press("Undo")
	b.await("are taken back")
	is("spam")
	b.window(390)
	b.awaitThat("a filter behind a button", `getComputedStyle(document.querySelector(".facets")).display == "none" &&
		document.querySelector(".filterbutton").checkVisibility()`)
	b.run(chromedp.Click(".filterbutton", chromedp.ByQuery))
	b.awaitThat("the filter", `document.querySelector(".facets").checkVisibility()`)
	if tall := look[float64](b, `document.querySelector("tr[data-row]").getBoundingClientRect().height`); tall > 70 {
		t.Errorf("a row is %.0f pixels tall on a telephone", tall)
	}
	b.well("messages")
}

// TestCampaigns: a campaign is listed and called wanted from the table, and that is undone; a mailing
// list's posts are shown on request alone.
func TestCampaigns(t *testing.T) {
	n := full(t)
	post := func(sender int) []byte {
		return fmt.Appendf(nil, "List-Id: <bees.example.net>\r\nFrom: keeper%d@bees.example.net\r\nSubject: Meeting\r\n"+
			"Message-ID: <%[1]d@bees.example.net>\r\n\r\nThe meeting of the bee keepers is on the third of May in the hall "+
			"behind the church, at seven in the evening. Bring a jar of last year's honey for the tasting, and tell the "+
			"treasurer by Monday whether you need a new frame or a smoker.\r\n", sender)
	}
	for i := range 2 {
		if _, err := n.api.CheckMessage(context.Background(), post(i), client.MessageOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	b := open(t, n.url)
	b.logIn(n)
	b.visit("/waves")
	titles := func() []string {
		return look[[]string](b, `[...document.querySelectorAll("tbody th a")].map(a => a.innerText)`)
	}
	if got := titles(); len(got) != 1 || !strings.HasPrefix(got[0], "links to ") {
		t.Fatalf("the campaigns are %q", got)
	}
	b.follow("Show them too")
	if got := titles(); len(got) != 2 {
		t.Errorf("with posts, the campaigns are %q", got)
	}
	b.visit("/waves")
	title := titles()[0]
	b.press("Wanted: " + title)
	b.await("Voted ham")
	b.press("Undo")
	b.await("are taken back")
	b.press("List: " + title)
	b.await("Voted spam")
	b.follow("Explain")
	b.await("Evidence")
	b.well("campaigns")
}
