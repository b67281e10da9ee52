package scan

import "sync/atomic"

// Pages of a table of characters: what most texts are written in.
const (
	pageSize = 1 << 8
	maxPages = 0x20000 / pageSize
)

// Runes remembers what a function says of characters. It must be cheap to call for
// those above U+1FFFF, which are not remembered. Many goroutines may use it.
type Runes struct {
	of    func(rune) rune
	pages [maxPages]atomic.Pointer[[pageSize]rune]
}

// NewRunes returns the table of a function, which always returns the same for a character.
// A page of it is made when one of its characters is first asked for, of 1 KiB each.
func NewRunes(of func(rune) rune) *Runes { return &Runes{of: of} }

// At returns what the function returns for r.
func (t *Runes) At(r rune) rune {
	n := uint32(r) / pageSize
	if n >= maxPages {
		return t.of(r)
	}
	page := t.pages[n].Load()
	if page == nil {
		page = new([pageSize]rune)
		for i := range page {
			page[i] = t.of(rune(n)*pageSize + rune(i))
		}
		t.pages[n].Store(page)
	}
	return page[uint32(r)%pageSize]
}
