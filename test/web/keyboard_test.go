//go:build interop

package web

import (
	"slices"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// controls gives each control that can be seen a number, and returns how many there are.
const controls = `(() => {
	const all = [...document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex]")].filter(e => e.type != "hidden" && e.checkVisibility());
	all.forEach((e, i) => e.dataset.number = i);
	return all.length;
})()`

// focused is the control with the keyboard, and what of it is to be seen.
const focused = `(() => {
	const e = document.activeElement, s = getComputedStyle(e), r = e.getBoundingClientRect();
	return {
		Number: Number(e.dataset.number ?? -1), HTML: e.outerHTML.slice(0, 150),
		Ring: s.outlineStyle != "none" && parseFloat(s.outlineWidth) >= 2,
		Seen: r.width > 0 && r.height > 0 && r.right > 0 && r.bottom > 0 && r.left < innerWidth && r.top < innerHeight,
	};
})()`

// TestKeyboard: the Tab key goes to every control of every page, in their order, and one
// sees where it is.
func TestKeyboard(t *testing.T) {
	n := full(t)
	b := open(t, n.url)
	b.logIn(n)
	b.window(1200)
	for _, path := range append(b.paths(), "/login") {
		b.visit(path)
		want := look[int](b, controls)
		var order []int
		for range want {
			b.run(chromedp.KeyEvent(kb.Tab))
			at := look[struct {
				Number     int
				HTML       string
				Ring, Seen bool
			}](b, focused)
			if !at.Ring || !at.Seen {
				t.Errorf("%s: %s has the keyboard: ring %v, seen %v", path, at.HTML, at.Ring, at.Seen)
			}
			order = append(order, at.Number)
		}
		if !slices.IsSorted(order) || len(slices.Compact(order)) != want || want == 0 {
			t.Errorf("%s: the Tab key goes to %v of %d controls", path, order, want)
		}
		b.well(path)
	}
}
