//go:build interop

package fidelity

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/bulkhead-mail/bulkhead/internal/mail"
	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

//go:embed oracle.js
var oracle string

// A sight is what is seen of a page: its words in order, and its links.
type sight struct {
	words []string
	links []string
}

// sightOf returns the words of a text as both sides have them: in lower case, without marks of quotations, and
// without characters that show nothing.
func sightOf(text string, links []string) sight {
	var s sight
	for line := range strings.Lines(text) {
		for _, word := range strings.Fields(strings.Map(func(r rune) rune {
			switch {
			case r == '\u00ad' || r == '\ufeff' || r >= '\u200b' && r <= '\u200f' || r >= '\u202a' && r <= '\u202e' ||
				unicode.IsControl(r) && !unicode.IsSpace(r):
				return -1
			case unicode.IsSpace(r) || r == '\u2800':
				return ' '
			}
			return unicode.ToLower(r)
		}, line)) {
			if word = strings.TrimLeft(word, ">"); word != "" {
				s.words = append(s.words, word)
			}
		}
	}
	for _, link := range links {
		if plain, err := url.QueryUnescape(strings.TrimSpace(link)); err == nil {
			link = plain
		}
		s.links = append(s.links, strings.Join(strings.Fields(link), ""))
	}
	slices.Sort(s.links)
	s.links = slices.Compact(s.links)
	return s
}

// A browser shows pages without running their scripts.
type browser struct {
	t   *testing.T
	ctx context.Context
}

func startBrowser(t *testing.T) *browser {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Minute)
	t.Cleanup(cancel)
	// The folder of the profile is chromedp's own: a browser that ends still writes to it, and t.TempDir would fail.
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(nodetest.Program(t, "chromium")),
		chromedp.NoSandbox, // the tests run as root, without a network
		chromedp.DisableGPU, chromedp.WSURLReadTimeout(nodetest.Patience), chromedp.WindowSize(1024, 768),
		chromedp.Flag("disable-component-update", true))
	ctx, cancel = chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	b := &browser{t, ctx}
	b.run(chromedp.Navigate("about:blank"), emulation.SetScriptExecutionDisabled(true))
	return b
}

func (b *browser) run(actions ...chromedp.Action) {
	b.t.Helper()
	if err := chromedp.Run(b.ctx, actions...); err != nil {
		b.t.Fatal(err)
	}
}

// sees returns what the browser shows of a page.
func (b *browser) sees(source string) sight {
	b.t.Helper()
	var text string
	// A document of its own: colours of links outlive what is in one.
	b.run(chromedp.Navigate("about:blank"), chromedp.ActionFunc(func(ctx context.Context) error {
		tree, err := page.GetFrameTree().Do(ctx)
		if err != nil {
			return err
		}
		return page.SetDocumentContent(tree.Frame.ID, source).Do(ctx)
	}), chromedp.Evaluate(oracle, &text))
	var seen struct {
		Text  string
		Links []string
	}
	if err := json.Unmarshal([]byte(text), &seen); err != nil {
		b.t.Fatal(err)
	}
	return sightOf(seen.Text, seen.Links)
}

// reads returns what the reader sees of a page.
func reads(t *testing.T, source string) sight {
	t.Helper()
	m, err := mail.Read(t.Context(), []byte("Content-Type: text/html; charset=utf-8\nContent-Transfer-Encoding: 8bit\n\n"+
		source))
	if err != nil {
		t.Fatal(err)
	}
	p, err := m.Page(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	var links []string
	for _, l := range p.Links {
		if !l.Hidden && !l.Loaded {
			links = append(links, l.URL)
		}
	}
	return sightOf(string(p.Text), links)
}

// beyond is what the exam leaves out: what the browser would load, and properties of one mail program.
var beyond = regexp.MustCompile(`(?i)http-equiv=["']?refresh|rel=["']?stylesheet|mso-hide`)

// pagesOf returns the pages of mails.
func pagesOf(t *testing.T, all []sample) (pages []sample, sources []string) {
	t.Helper()
	for _, s := range all {
		m, err := mail.Read(t.Context(), s.raw(t))
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range m.Parts {
			if p.HTML && len(p.Text) < mail.MaxVisible {
				source := beyond.ReplaceAllString(strings.ToValidUTF8(p.Text, "\ufffd"), "x")
				pages, sources = append(pages, s), append(sources, source)
			}
		}
	}
	return pages, sources
}

// TestBrowser compares the words and links that are read of pages with what chromium shows.
func TestBrowser(t *testing.T) {
	b := startBrowser(t)
	count := newTally(t, "page", map[string]float64{"": 0.99})
	kinds := make(map[string]int)
	compare := func(source, name, page string) {
		ours, theirs := reads(t, page), b.sees(page)
		kind := differ(ours, theirs)
		if kind != "" {
			kinds[source+": "+kind]++
		}
		count.compare(source, name, kind == "", "%s: %s", kind, between(ours, theirs))
	}
	samples, pages := pagesOf(t, append(real(t, 20), made(t, 8)...))
	for i, p := range pages {
		compare(samples[i].source, samples[i].name, p)
	}
	seed, n := setting(t, "BULKHEAD_SEED", 7), setting(t, "BULKHEAD_STYLED", 400)
	if full() {
		n *= 10
	}
	for i := range n {
		p := StyledPage(seed, i)
		compare("styled", fmt.Sprintf("styled-%d-%d", seed, i), p)
	}
	count.report()
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		fmt.Printf("| page | %s | %d |  |  |\n", kind, kinds[kind])
	}
}

// differ returns the kind of a difference, "" for none.
func differ(ours, theirs sight) string {
	switch {
	case slices.Equal(ours.words, theirs.words) && slices.Equal(ours.links, theirs.links):
		return ""
	case slices.Equal(ours.words, theirs.words):
		return "links"
	case strings.Join(ours.words, "") == strings.Join(theirs.words, ""):
		return "blanks within words"
	}
	hidden, shown := missing(ours.words, theirs.words), missing(theirs.words, ours.words)
	switch {
	case len(hidden) == 0 && len(shown) == 0:
		return "order of words"
	case len(shown) == 0:
		return "words that the browser does not show"
	case len(hidden) == 0:
		return "words that only the browser shows"
	}
	return "other words"
}

// missing returns the words that a has more often than b.
func missing(a, b []string) (surplus []string) {
	n := make(map[string]int)
	for _, w := range b {
		n[w]++
	}
	for _, w := range a {
		if n[w]--; n[w] < 0 {
			surplus = append(surplus, w)
		}
	}
	return surplus
}

// between shows a difference in brief.
func between(ours, theirs sight) string {
	first := func(all []string) []string { return all[:min(len(all), 6)] }
	return fmt.Sprintf("ours %q, chromium %q; links %q, %q", first(missing(ours.words, theirs.words)),
		first(missing(theirs.words, ours.words)), first(missing(ours.links, theirs.links)),
		first(missing(theirs.links, ours.links)))
}
