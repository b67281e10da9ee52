package scan

import "sync/atomic"

// Pages of a table of characters: what most texts are written in.
const (
	pageSize = 1 << 8
	maxPages = 0x20000 / pageSize
)

// Runes caches the results of a function of characters. The results for characters above U+1FFFF
// are not cached. It is safe for concurrent use.
type Runes struct {
	of    func(rune) rune
	pages [maxPages]atomic.Pointer[[pageSize]rune]
}

// NewRunes returns the table of a pure function. It computes pages of 256 characters, of 1 KiB each,
// on first use.
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
