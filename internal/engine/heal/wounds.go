package heal

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/arrays"
	"github.com/bulkhead-mail/bulkhead/internal/engine/codec"
	"github.com/bulkhead-mail/bulkhead/internal/engine/pages"
	"github.com/bulkhead-mail/bulkhead/internal/engine/replica"
	"github.com/bulkhead-mail/bulkhead/internal/store"
)

// ErrOtherPage means that a page is not the one that was lost.
var ErrOtherPage = errors.New("engine: not the page that was lost")

// Wounds are the pages of shared arrays that a damaged store has lost, and that peers may
// still have.
type Wounds struct {
	// Store is the incarnation that the store had before it was salvaged; "" if it was not
	// salvaged, or if healing has ended, see [codec.Heal].
	Store string
	// Whole means that the shared arrays will have their original content once no page is missing.
	Whole bool
	Pages []Wound // the missing pages
}

// A Wound is one missing page.
type Wound struct {
	Array    replica.Array
	Start    uint64 // of the generation
	Page     int
	Geometry filter.Geometry // of the array
}

// maxSince is the maximum number of adds that are recorded for all lost pages, about 20 MB. Beyond
// it, the pages are given up.
const maxSince = 1 << 20

// A place is a page of an own array.
type place struct {
	replica.Key
	page int
}

// wounds is the data needed to heal lost pages. Only the writer uses it.
type wounds struct {
	store  string
	broken bool // data of the shared arrays is lost that no page restores
	pages  map[place]*wound
	adds   int
}

// A wound is the sum of a lost page in the checkpoint, and the page's later adds, in order.
type wound struct {
	sum  pages.Sum
	keys []filter.Key
	n    []uint32 // of keys; nil in sets
}

// A PageFinder is an array that reports which of its pages has a key.
type PageFinder interface{ PageOf(k filter.Key) int }

// note records the adds of an entry to lost pages.
func (w *wounds) note(index uint64, of replica.Key, array PageFinder, keys []filter.Key, n []uint32) {
	if len(w.pages) == 0 {
		return
	}
	for i, k := range keys {
		x := w.pages[place{of, array.PageOf(k)}]
		if x == nil || index <= x.sum.Index {
			continue
		}
		x.keys = append(x.keys, k)
		if n != nil {
			x.n = append(x.n, n[i])
		}
		w.adds++
	}
	if w.adds > maxSince {
		w.pages, w.broken, w.adds = nil, true, 0
	}
}

func (w *wounds) drop(at place) {
	if w == nil || w.pages[at] == nil {
		return
	}
	w.adds -= len(w.pages[at].keys)
	delete(w.pages, at)
}

// examine determines, after a salvage, which of the lost pages peers may still have. It returns the
// remaining doubts: an empty page has lost nothing.
func (h *Healer) examine(n *store.Inspection, doubts []Doubt) (left []Doubt) {
	w := h.wounds
	if w == nil {
		w = &wounds{store: n.Manifest.Incarnation, pages: make(map[place]*wound)}
		h.wounds = w
	}
	for i := range doubts {
		d := &doubts[i]
		if d.Origin != "" || !codec.IsShared(d.Array) {
			w.broken = w.broken || d.Array == "journal"
			left = append(left, *d)
			continue
		}
		sums, err := h.sums(d)
		if err != nil {
			h.log.Warn("peers cannot be asked for what is lost", "what", d.String(), "err", err)
			w.broken = true
			left = append(left, *d)
			continue
		}
		remaining, floor := []Doubt{*d}, floorOf(h.Own(replica.Key{Array: replica.Array(d.Array), Start: d.Start}))
		for page := d.Page; page < d.Page+d.Pages; page++ {
			at := place{replica.Key{Array: replica.Array(d.Array), Start: d.Start}, page}
			switch {
			case w.pages[at] != nil: // lost again
			case sums[page].Version == 0 && !d.Stale && (floor == 0 || sums[page].Index == 0):
				remaining = without(remaining, at)
			case sums[page].Version == 0 && !d.Stale:
				w.broken = true // it has shown nothing, so no peer has any of it
			default:
				w.pages[at] = &wound{sum: sums[page]}
				// Counts below the floor are lost, so later counts will become visible too late.
				w.broken = w.broken || floor > 0
			}
		}
		left = append(left, remaining...)
	}
	return left
}

// floorOf returns the floor of an own array.
func floorOf(array Array) uint32 {
	if c, ok := array.(*arrays.Counting); ok {
		return c.Floor()
	}
	return 0
}

// without returns the doubts without a page.
func without(doubts []Doubt, at place) (out []Doubt) {
	for _, d := range doubts {
		if d.Origin != "" || replica.Array(d.Array) != at.Array || d.Start != at.Start || at.page < d.Page ||
			at.page >= d.Page+d.Pages {
			out = append(out, d)
			continue
		}
		each := d.Keys / uint64(d.Pages)
		before, after := d, d
		before.Pages, after.Page = at.page-d.Page, at.page+1
		after.Pages = d.Pages - before.Pages - 1
		for _, part := range []Doubt{before, after} {
			if part.Keys = each * uint64(part.Pages); part.Pages > 0 {
				out = append(out, part)
			}
		}
	}
	return out
}

// sortWounds sorts by generation, newest first, then by array and page.
func sortWounds(pages []Wound) {
	slices.SortFunc(pages, func(a, b Wound) int {
		return cmp.Or(cmp.Compare(b.Start, a.Start), cmp.Compare(a.Array, b.Array), cmp.Compare(a.Page, b.Page))
	})
}

// encode returns the wounds for a checkpoint: v length and incarnation of the store, 1 if data is
// lost that no page restores, v count. For each page follow its array (byte), v start, v page, sum,
// v count and the keys of the later adds, for counts each with v increment.
func (w *wounds) encode() []byte {
	b := codec.AppendBytes(nil, []byte(w.store))
	broken := byte(0)
	if w.broken {
		broken = 1
	}
	b = append(b, broken)
	b = binary.AppendUvarint(b, uint64(len(w.pages)))
	for at, x := range w.pages {
		b = append(b, byte(slices.Index(codec.SharedArrays[:], at.Array)))
		b = binary.AppendUvarint(b, at.Start)
		b = binary.AppendUvarint(b, uint64(at.page))
		b = x.sum.Append(b)
		b = binary.AppendUvarint(b, uint64(len(x.keys)))
		for i, k := range x.keys {
			b = codec.AppendKey(b, k)
			if at.Array == replica.ArrayCounts {
				b = binary.AppendUvarint(b, uint64(x.n[i]))
			}
		}
	}
	return b
}

// decodeWounds reads the output of encode.
func decodeWounds(data []byte) (*wounds, error) {
	d := &codec.Decoder{Left: data}
	w := &wounds{store: string(d.Bytes(d.Uvarint())), broken: d.Byte() != 0, pages: make(map[place]*wound)}
	for range d.Count(1) {
		var at place
		code := int(d.Byte())
		if d.Bad = d.Bad || code >= len(codec.SharedArrays); d.Bad {
			break
		}
		at.Array, at.Start, at.page = codec.SharedArrays[code], d.Uvarint(), int(d.Small(maxPages))
		x := new(wound)
		var ok bool
		if x.sum, d.Left, ok = pages.ReadSum(d.Left); !ok {
			d.Bad = true
			break
		}
		if at.Array == replica.ArrayCounts {
			adds := d.Adds()
			x.keys, x.n = adds.Keys, adds.N
		} else {
			x.keys = d.Keys()
		}
		d.Bad = d.Bad || w.pages[at] != nil
		w.pages[at] = x
		w.adds += len(x.keys)
	}
	if d.Bad || len(d.Left) != 0 || w.adds > maxSince {
		return nil, fmt.Errorf("engine: lost pages in %d bytes: malformed", len(data))
	}
	return w, nil
}

// maxPages is the maximum number of pages of an array.
const maxPages = filter.MaxLines / filter.PageLines
