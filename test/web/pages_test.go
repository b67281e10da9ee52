//go:build interop

package web

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/bulkhead-mail/bulkhead/client"
	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

// widths are the widths of a phone, a window and a wide screen, in CSS pixels.
var widths = []int64{360, 1200, 3840}

// TestDetects: the browser reports the events that the other tests rely on.
func TestDetects(t *testing.T) {
	n := startNode(t, "")
	b := open(t, n.url)
	b.visit("/")
	b.well("the first page")
	for _, tt := range []struct{ does, says string }{
		{`{const s = document.createElement("script"); s.textContent = "window.ran = true"; document.body.append(s)}`,
			"Content Security Policy"},
		{`{const s = document.createElement("style"); s.textContent = "body { color: red }"; document.body.append(s)}`,
			"Content Security Policy"},
		{`{const i = new Image(); i.src = "http://127.0.0.2:9/x.png"; document.body.append(i)}`, "Content Security Policy"},
		{`setTimeout(() => { throw new Error("broken") })`, "exception"},
		{`console.error("broken")`, "console"},
	} {
		b.run(chromedp.Evaluate(tt.does, nil))
		var all string
		nodetest.Await(t, fmt.Sprintf("%q after %s", tt.says, tt.does), func() bool {
			all += b.complaints()
			return strings.Contains(all, tt.says)
		})
	}
	if look[bool](b, "!!window.ran || getComputedStyle(document.body).color == 'rgb(255, 0, 0)'") {
		t.Error("a foreign script or style came through the policy")
	}
}

// TestPages: every page, of a node that knows nothing and of one that knows much, is shown at all
// widths without a horizontal scroll bar, in light and dark, without a complaint of the browser or
// of axe-core, and makes no request to another host for anything.
func TestPages(t *testing.T) {
	axe := axeCore(t)
	for name, start := range map[string]func(*testing.T) *node{
		"empty": func(t *testing.T) *node { return startNode(t, "") },
		"full":  full,
	} {
		t.Run(name, func(t *testing.T) {
			n := start(t)
			b := open(t, n.url)
			b.visit("/login?refused")
			b.inspect(axe, "the log-in")
			b.visit(strings.TrimPrefix(n.link(), n.url))
			b.inspect(axe, "the log-in link")
			b.logIn(n)
			for _, path := range b.paths() {
				b.visit(path)
				b.inspect(axe, path)
			}
			if name == "full" {
				b.visit("/waves")
				b.follow("Explain")
				b.inspect(axe, "a campaign")
				b.visit("/history?q=kind:check")
				b.visit(look[string](b, `(a => a.pathname + a.search)(document.querySelector("tr[data-row] th a"))`))
				b.inspect(axe, "a message")
			}
			b.visit("/lookup")
			b.fill("#text", string(letter(1, offer)))
			b.press("Look up")
			b.await("confidence")
			b.inspect(axe, "an answer")
			b.visit("/storage")
			b.fill("#signatures", "2000000")
			b.fill("#list_error", "1e-7")
			b.press("Calculate")
			b.await("Memory of all")
			b.inspect(axe, "sizes")
		})
	}
}

// inspect looks at the page at all widths and in both colours.
func (b *tab) inspect(axe, what string) {
	b.t.Helper()
	b.well(what)
	b.run(chromedp.Evaluate(axe, nil))
	for _, width := range widths {
		b.window(width)
		if wide := look[int](b, "document.documentElement.scrollWidth"); int64(wide) > width {
			b.t.Errorf("%s is %d pixels wide in a window of %d: %s", what, wide, width, look[string](b, fmt.Sprintf(
				`[...document.querySelectorAll("main *, header *, footer *")]
				.filter(e => e.getBoundingClientRect().right > %d).slice(0, 5).map(e => e.outerHTML.slice(0, 120)).join("\n")`, width)))
		}
		for _, scheme := range []string{"light", "dark"} {
			b.scheme(scheme)
			if found := look[string](b, axeRun); found != "" {
				b.t.Errorf("%s, %d pixels, %s:\n%s", what, width, scheme, found)
			}
			b.picture(fmt.Sprintf("%s-%d-%s", what, width, scheme))
		}
	}
	b.well(what + " after a while")
}

// picture keeps a picture of the whole page in the folder $BULKHEAD_PICTURES, if that is
// set, for people to look at.
func (b *tab) picture(name string) {
	b.t.Helper()
	dir := os.Getenv("BULKHEAD_PICTURES")
	if dir == "" {
		return
	}
	var image []byte
	b.run(chromedp.FullScreenshot(&image, 100))
	name = strings.NewReplacer("/", "_", " ", "_").Replace(b.t.Name() + name + ".png")
	if err := os.WriteFile(filepath.Join(dir, name), image, 0o600); err != nil {
		b.t.Error(err)
	}
}

// axeCore is the script of axe-core.
func axeCore(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("BULKHEAD_PROGRAMS")
	if dir == "" {
		dir = t.TempDir()
		if out, err := exec.CommandContext(t.Context(), "../axe", filepath.Join(dir, "axe.js")).CombinedOutput(); err != nil {
			nodetest.Unavailable(t, "needs axe-core, from npm: %v\n%s", err, out)
		}
	}
	script, err := os.ReadFile(filepath.Join(dir, "axe.js"))
	if err != nil {
		nodetest.Unavailable(t, "needs axe-core, from npm: %v", err)
	}
	return string(script)
}

// axeRun says what axe-core finds.
const axeRun = `axe.run().then(r => r.violations.map(v => v.id + ": " + v.help + "\n" +
	v.nodes.map(n => "\t" + n.html.slice(0, 200) + "\n\t" + n.failureSummary.replaceAll("\n", " ")).join("\n")).join("\n"))`

// TestLogin: a link is good once, a token each time, and nothing else is.
func TestLogin(t *testing.T) {
	n := startNode(t, "")
	b := open(t, n.url)
	b.visit("/people")
	if status := b.status(); status != http.StatusUnauthorized ||
		!strings.Contains(b.text(), "This page is for administrators") {
		t.Errorf("a stranger sees %d:\n%s", status, b.text())
	}
	link := strings.TrimPrefix(n.link(), n.url)
	b.visit(link)
	b.press("Log in")
	b.await("admin Log out")
	b.visit("/people")
	if b.status() != http.StatusOK {
		t.Errorf("the administrator sees %d:\n%s", b.status(), b.text())
	}
	b.press("Log out")
	b.await("enter a token")
	b.visit("/people")
	if b.status() != http.StatusUnauthorized {
		t.Errorf("after the log-out: %d", b.status())
	}
	b.visit(link)
	b.press("Log in")
	b.await("That did not work")
	for token, says := range map[string]string{"wrong": "That did not work", n.user("ann", "reporter"): "ann Log out"} {
		b.visit("/login")
		b.fill("#token", token)
		b.press("Log in")
		b.await(says)
	}
	b.visit("/people")
	if status := b.status(); status != http.StatusForbidden || !strings.Contains(b.text(), "ann is none") {
		t.Errorf("a reporter sees %d:\n%s", status, b.text())
	}
	if all := look[string](b, "document.cookie"); all != "" {
		t.Errorf("a script can read %q", all)
	}
}

// TestTrain: a message that is dropped on the page is called spam there, is spam then,
// and is none once it is taken off the list; and once all votes of its reporter are undone.
func TestTrain(t *testing.T) {
	n := startNode(t, "")
	file := filepath.Join(t.TempDir(), "offer.eml")
	if err := os.WriteFile(file, letter(1, offer), 0o600); err != nil {
		t.Fatal(err)
	}
	b := open(t, n.url)
	b.logIn(n)
	ask := func() {
		t.Helper()
		b.visit("/lookup")
		b.run(chromedp.SetUploadFiles("#file", []string{file}, chromedp.ByQuery))
		b.press("Look up")
		b.await("Chance that this answer")
	}
	is := func(want string) {
		t.Helper()
		v, err := n.api.CheckMessage(context.Background(), letter(1, offer), client.MessageOptions{})
		if err != nil || v.Class != want {
			t.Fatalf("the message is %+v, %v, want %s", v, err, want)
		}
	}
	ask()
	b.press("It is spam")
	b.await("Voted spam")
	is("spam")
	b.press("Take it off the list")
	b.await("Voted revoke")
	is("unknown")
	ask()
	b.press("It is spam")
	b.await("Voted spam")
	is("spam")
	b.visit("/people")
	b.press("Undo admin")
	b.await("Undo the votes of admin?")
	is("spam") // nothing is done yet
	b.well("question")
	b.press("Undo votes")
	b.await("are taken back")
	is("unknown")
	b.well("training")
}

// TestWaves: a wave is explained, called spam, and white-listed; and judged again once its
// text is off the whitelist.
func TestWaves(t *testing.T) {
	n := full(t)
	b := open(t, n.url)
	b.logIn(n)
	b.visit("/waves")
	b.follow("Explain")
	b.await("20 listed")
	b.press("Take it off the list")
	b.await("Voted revoke")
	b.await("20 revoked")
	b.fill("#note", "our own offers")
	b.press("White-list this text")
	b.await("1 signature put on the whitelist")
	b.await("good")
	b.visit("/rules")
	b.await("our own offers")
	b.press("Remove " + look[string](b,
		`document.querySelector("form.inline input[name=name], td form input[name=name]").value`))
	b.await("None yet")
	b.well("waves")
}

// TestConfiguration: a text is checked, and the file is read again.
func TestConfiguration(t *testing.T) {
	n := startNode(t, "")
	b := open(t, n.url)
	b.logIn(n)
	b.visit("/config")
	b.fill("#text", "[tally]\nthreshhold = 30\n")
	b.press("Check")
	b.await("threshhold")
	b.fill("#text", "[listen]\nhttp = \"127.0.0.1:1\"\n[tally]\nthreshold = 30\n")
	b.press("Check")
	b.await("No mistakes")
	b.await("take effect without a restart: tally.threshold")
	b.press("Read the file again")
	b.await("The file was read again")
	b.well("configuration")
}

// TestInvite: the page of the peers draws them, and makes an invitation.
func TestInvite(t *testing.T) {
	n := full(t)
	b := open(t, n.url)
	b.logIn(n)
	b.visit("/peers")
	if label := look[string](b,
		`document.querySelector("svg.map").getAttribute("aria-label")`); label != "1 peer, of which 0 are heard and counted" {
		t.Errorf("the map is %q", label)
	}
	b.fill("#invited", "mx3.example.org")
	b.press("Make an invitation")
	b.await("Hand this over")
	b.awaitThat("a QR code", `document.querySelector("svg.qr path").getAttribute("d").length > 1000`)
	b.press("Undo")
	b.await("The invitation is withdrawn.")
	b.visit("/people")
	b.await("made an invitation")
	b.well("an invitation")
}

// TestLive: the first page shows what happens while it is looked at.
func TestLive(t *testing.T) {
	n := startNode(t, "")
	b := open(t, n.url)
	b.visit("/")
	b.run(chromedp.Evaluate("window.same = true", nil))
	before := b.text()
	for range 7 {
		if _, err := n.api.CheckMessage(context.Background(), letter(1, offer), client.MessageOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	b.awaitThat("seven verdicts", `document.body.innerText.includes("7 unknown")`)
	if strings.Contains(before, "7 unknown") || !look[bool](b, "window.same === true") {
		t.Error("the page was loaded once more")
	}
	b.well("the live page")
}

// TestWithoutScript: every page is there, and the forms work, where no script runs.
func TestWithoutScript(t *testing.T) {
	n := full(t)
	b := open(t, n.url)
	b.logIn(n)
	all := b.paths()
	b.run(emulation.SetScriptExecutionDisabled(true))
	for _, path := range all {
		b.visit(path)
		b.well(path)
		if text := b.text(); len(text) < 200 {
			t.Errorf("%s without a script: %q", path, text)
		}
	}
	b.visit("/lookup")
	b.key("#text", string(letter(7, offer+" And one more line, which nobody has seen.")))
	b.enter(`form[action="/lookup"] button`)
	b.await("Chance that this answer")
	b.enter(`button[value="ham"]`)
	b.await("Voted ham")
	b.well("voting without a script")
	b.enter(`form[action="/logout"] button`)
	b.await("enter a token")
}

// focus gives the keyboard to the element of a CSS selector, without a script. The number
// of an element is void as soon as the document is read again, by whomever.
func (b *tab) focus(selector string) {
	b.t.Helper()
	nodetest.Settle(b.t, nodetest.Patience, "the keyboard at "+selector, func() string {
		if err := chromedp.Run(b.ctx, chromedp.ActionFunc(func(ctx context.Context) error {
			root, err := dom.GetDocument().Do(ctx)
			if err != nil {
				return err
			}
			id, err := dom.QuerySelector(root.NodeID, selector).Do(ctx)
			if err != nil {
				return err
			}
			return dom.Focus().WithNodeID(id).Do(ctx)
		})); err != nil {
			return err.Error()
		}
		return ""
	})
}

// key types into the element of a CSS selector.
func (b *tab) key(selector, text string) {
	b.t.Helper()
	b.focus(selector)
	b.run(chromedp.KeyEvent(text))
}

// enter presses the button of a CSS selector by the keyboard.
func (b *tab) enter(selector string) {
	b.t.Helper()
	b.focus(selector)
	b.run(chromedp.KeyEvent("\r"))
}
