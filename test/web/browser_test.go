//go:build interop

package web

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

// A tab is one page of a browser of its own.
type tab struct {
	t    *testing.T
	ctx  context.Context
	base string // of the node

	mu     sync.Mutex
	faults []string // what the browser complained of
	served int      // status of the last page
}

// open starts a browser for the pages of a node.
func open(t *testing.T, base string) *tab {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	t.Cleanup(cancel)
	// The folder of the profile is chromedp's own: a browser that ends still writes to it, and t.TempDir would fail.
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(nodetest.Program(t, "chromium")),
		chromedp.NoSandbox, // the tests run as root, and it sees nothing but our pages
		chromedp.DisableGPU, chromedp.WSURLReadTimeout(nodetest.Patience),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true))
	ctx, cancel = chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	b := &tab{t: t, ctx: ctx, base: base}
	chromedp.ListenTarget(ctx, b.note)
	b.run(network.Enable(), log.Enable(), page.Enable())
	return b
}

// note keeps what a page must not do: errors, violations of its policy, requests to
// elsewhere.
func (b *tab) note(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		b.faults = append(b.faults, "exception: "+e.ExceptionDetails.Error())
	case *runtime.EventConsoleAPICalled:
		b.faults = append(b.faults, fmt.Sprintf("console: %s", e.Type))
	case *log.EventEntryAdded:
		if e.Entry.Source == log.SourceNetwork && b.served >= 400 {
			return // a refusal that the page itself shows
		}
		b.faults = append(b.faults, fmt.Sprintf("log: %s: %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL))
	case *network.EventRequestWillBeSent:
		if !strings.HasPrefix(e.Request.URL, b.base+"/") {
			b.faults = append(b.faults, "request to "+e.Request.URL)
		}
	case *network.EventResponseReceived:
		if e.Type == network.ResourceTypeDocument {
			b.served = int(e.Response.Status)
		}
	}
}

// complaints returns what was noted since the last call.
func (b *tab) complaints() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := strings.Join(b.faults, "\n")
	b.faults = nil
	return all
}

func (b *tab) run(actions ...chromedp.Action) {
	b.t.Helper()
	if err := chromedp.Run(b.ctx, actions...); err != nil {
		b.t.Fatal(err)
	}
}

// visit opens a page of the node, and waits until it is there.
func (b *tab) visit(path string) {
	b.t.Helper()
	b.run(chromedp.Navigate(b.base + path))
}

// look evaluates an expression in the page, which may be a promise.
func look[T any](b *tab, expression string) T {
	b.t.Helper()
	var text []byte
	b.run(chromedp.Evaluate(expression, &text, func(p *runtime.EvaluateParams) *runtime.EvaluateParams {
		return p.WithAwaitPromise(true).WithReturnByValue(true)
	}))
	var v T
	if err := json.Unmarshal(text, &v); err != nil {
		b.t.Fatalf("%.80s: %v in %.200s", expression, err, text)
	}
	return v
}

// quote is a text as the script has it.
func quote(text string) string {
	q, err := json.Marshal(text)
	if err != nil {
		panic(err) // no text is
	}
	return string(q)
}

// text is all that the page says.
func (b *tab) text() string {
	b.t.Helper()
	return look[string](b, "document.body.innerText")
}

// await waits until the page says a text.
func (b *tab) await(text string) {
	b.t.Helper()
	b.awaitThat(fmt.Sprintf("%q on the page", text), fmt.Sprintf("document.body.innerText.includes(%s)", quote(text)))
}

// awaitThat waits until an expression is true. Meanwhile the page may go.
func (b *tab) awaitThat(what, expression string) {
	b.t.Helper()
	nodetest.Settle(b.t, nodetest.Patience, what, func() string {
		var ok bool
		switch err := chromedp.Run(b.ctx, chromedp.Evaluate("!!document.body && document.readyState == 'complete' && "+
			expression, &ok)); {
		case err != nil:
			return err.Error()
		case !ok:
			var text string
			_ = chromedp.Run(b.ctx, chromedp.Evaluate("location.pathname + ': ' + document.body?.innerText", &text))
			return text
		}
		return ""
	})
}

// press presses the button that says, or is labelled, so.
func (b *tab) press(name string) {
	b.t.Helper()
	if !look[bool](b, fmt.Sprintf(`(() => {
		const all = [...document.querySelectorAll("button")].filter(e => (e.ariaLabel ?? e.innerText).trim() == %s);
		if (all.length != 1) return false;
		all[0].click();
		return true;
	})()`, quote(name))) {
		b.t.Fatalf("there is not one button %q:\n%s", name, b.text())
	}
}

// follow goes where the one link that says so leads.
func (b *tab) follow(text string) {
	b.t.Helper()
	if !look[bool](b, fmt.Sprintf(`(() => {
		const all = [...document.querySelectorAll("main a")].filter(e => e.innerText.trim() == %s);
		if (all.length != 1) return false;
		window.before = true;
		all[0].click();
		return true;
	})()`, quote(text))) {
		b.t.Fatalf("there is not one link %q:\n%s", text, b.text())
	}
	b.awaitThat("the page behind "+text, "!window.before")
}

// fill writes into the field of a CSS selector, or chooses from it. Lines of a field end
// in line feeds alone, as the script sees them.
func (b *tab) fill(selector, value string) {
	b.t.Helper()
	if !look[bool](b, fmt.Sprintf(`(() => {
		const e = document.querySelector(%s);
		if (!e) return false;
		e.value = %s;
		return e.value == %[2]s;
	})()`, quote(selector), quote(strings.ReplaceAll(value, "\r\n", "\n")))) {
		b.t.Fatalf("%s does not take %q:\n%s", selector, value, b.text())
	}
}

// window makes the page so wide, in CSS pixels.
func (b *tab) window(width int64) {
	b.t.Helper()
	b.run(emulation.SetDeviceMetricsOverride(width, 900, 1, false))
}

// scheme prefers "light" or "dark".
func (b *tab) scheme(name string) {
	b.t.Helper()
	b.run(emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme",
		Value: name}}))
}

// logIn begins a session with a log-in link.
func (b *tab) logIn(n *node) {
	b.t.Helper()
	b.visit(strings.TrimPrefix(n.link(), b.base))
	b.press("Log in")
	b.await("Log out")
}

// paths are the pages of the navigation.
func (b *tab) paths() []string {
	b.t.Helper()
	b.visit("/")
	all := look[[]string](b, `[...document.querySelectorAll("nav a")].map(a => a.getAttribute("href"))`)
	if len(all) < 6 {
		b.t.Fatalf("the navigation has %q", all)
	}
	return all
}

// status is the status of the last page.
func (b *tab) status() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.served
}

// well fails the test if the page was refused, or the browser complains of it.
func (b *tab) well(what string) {
	b.t.Helper()
	if status := b.status(); status != http.StatusOK {
		b.t.Errorf("%s: status %d", what, status)
	}
	if text := b.complaints(); text != "" {
		b.t.Errorf("%s:\n%s", what, text)
	}
}
