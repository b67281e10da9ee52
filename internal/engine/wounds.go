package engine

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/arrays"
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
	// salvaged, or if healing has ended, see [Engine.EndHealing].
	Store string
	// Whole means that the shared arrays will have their original content once no page is missing.
	Whole bool
	Pages []Wound // the missing pages
}

// A Wound is one missing page.
type Wound struct {
	Array    Array
	Start    uint64 // of the generation
	Page     int
	Geometry filter.Geometry // of the array
}

// A Healing is the number of pages that were healed since the start with pages of one peer.
type Healing struct {
	Peer  string
	Pages uint64
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

// note records the adds of an entry to lost pages.
func (w *wounds) note(index uint64, a Array, start uint64, pageOf func(filter.Key) int, keys []filter.Key, n []uint32) {
	if len(w.pages) == 0 {
		return
	}
	for i, k := range keys {
		x := w.pages[place{replica.Key{Array: a, Start: start}, pageOf(k)}]
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

// sumsOf returns the name of the file with the sums of an array file's pages.
func sumsOf(file string) string { return "sums-" + file }

// shared reports whether peers have replicas of an array.
func shared(array string) bool { return slices.Contains(sharedArrays[:], Array(array)) }

// examine determines, after a salvage, which of the lost pages peers may still have. It returns the
// remaining doubts: an empty page has lost nothing.
func (e *Engine) examine(n *store.Inspection, doubts []Doubt) (left []Doubt) {
	w := e.wounds
	if w == nil {
		w = &wounds{store: n.Manifest.Incarnation, pages: make(map[place]*wound)}
		e.wounds = w
	}
	for i := range doubts {
		d := &doubts[i]
		if d.Origin != "" || !shared(d.Array) {
			w.broken = w.broken || d.Array == "journal"
			left = append(left, *d)
			continue
		}
		sums, err := e.sums(d)
		if err != nil {
			e.opts.Log.Warn("peers cannot be asked for what is lost", "what", d.String(), "err", err)
			w.broken = true
			left = append(left, *d)
			continue
		}
		rest, floor := []Doubt{*d}, floorOf(e.ownArray(d))
		for page := d.Page; page < d.Page+d.Pages; page++ {
			at := place{replica.Key{Array: Array(d.Array), Start: d.Start}, page}
			switch {
			case w.pages[at] != nil: // lost again
			case sums[page].Version == 0 && !d.Stale && (floor == 0 || sums[page].Index == 0):
				rest = without(rest, at)
			case sums[page].Version == 0 && !d.Stale:
				w.broken = true // it has shown nothing, so no peer has any of it
			default:
				w.pages[at] = &wound{sum: sums[page]}
				// Counts below the floor are lost, so later counts will become visible too late.
				w.broken = w.broken || floor > 0
			}
		}
		left = append(left, rest...)
	}
	return left
}

// floorOf returns the floor of an own array.
func floorOf(array imaged) uint32 {
	if c, ok := array.(*arrays.Counting); ok {
		return c.Floor()
	}
	return 0
}

// sums returns the sums of the pages of the array that a doubt is about.
func (e *Engine) sums(d *Doubt) ([]pages.Sum, error) {
	array := e.ownArray(d)
	if array == nil {
		return nil, errors.New("its generation is gone")
	}
	data, err := e.readFile(sumsOf(fmt.Sprintf("%s-%d", d.Array, d.Start)))
	if err != nil {
		return nil, err
	}
	return pages.ParseSums(data, array.Geometry().Pages())
}

// without returns the doubts without a page.
func without(doubts []Doubt, at place) (out []Doubt) {
	for _, d := range doubts {
		if d.Origin != "" || Array(d.Array) != at.Array || d.Start != at.Start || at.page < d.Page ||
			at.page >= d.Page+d.Pages {
			out = append(out, d)
			continue
		}
		each := d.Keys / uint64(d.Pages)
		before, after := d, d
		before.Pages, after.Page = at.page-d.Page, at.page+1
		after.Pages = d.Pages - before.Pages - 1
		for _, rest := range []Doubt{before, after} {
			if rest.Keys = each * uint64(rest.Pages); rest.Pages > 0 {
				out = append(out, rest)
			}
		}
	}
	return out
}

// Wounds returns the missing pages that peers may have.
func (e *Engine) Wounds(ctx context.Context) (out Wounds, err error) {
	err = e.inTurn(ctx, func() {
		if e.wounds == nil {
			return
		}
		out.Store, out.Whole = e.wounds.store, !e.wounds.broken
		for at := range e.wounds.pages {
			if array := e.own(at.Key); array != nil {
				out.Pages = append(out.Pages, Wound{at.Array, at.Start, at.page, array.Geometry()})
			}
		}
	})
	sort.Slice(out.Pages, func(i, j int) bool { // slices.SortFunc of a large struct is 17 kB of program
		a, b := &out.Pages[i], &out.Pages[j]
		return cmp.Or(cmp.Compare(b.Start, a.Start), cmp.Compare(a.Array, b.Array), cmp.Compare(a.Page, b.Page)) < 0
	})
	return out, err
}

// own returns the node's own array with the key, or nil if its generation is gone.
func (e *Engine) own(k replica.Key) imaged {
	return e.ownArray(&Doubt{Array: string(k.Array), Start: k.Start})
}

// Heal durably restores a page from a peer's replica: an image in the encoding of
// [arrays.Image.Append]. It returns an error that wraps [ErrOtherPage], and changes nothing, if the
// page is not the one that was lost, by its sum in the checkpoint. It returns an error that wraps
// [bulkhead.ErrMalformed] if the image is not a page of the array.
func (e *Engine) Heal(ctx context.Context, peer string, a Array, start uint64, image []byte) error {
	array := e.own(replica.Key{Array: a, Start: start})
	if array == nil {
		return fmt.Errorf("%w: %s of generation %d is gone", ErrOtherPage, a, start)
	}
	m, err := arrays.ParseImage(image, array.Geometry())
	if err == nil && m.Floor() > 0 {
		err = errors.New("it has a floor")
	}
	if err != nil || m.Generation != start {
		return fmt.Errorf("%w: page of %s, generation %d: %v", bulkhead.ErrMalformed, a, start, err)
	}
	return e.change(ctx, &healing{peer: peer, at: place{replica.Key{Array: a, Start: start}, m.Page}, page: m,
		sum: pages.SumOf(m)})
}

// HealSaid restores pages of an array from messages that the node itself has published, and returns
// the number of restored pages. images are the encoded images of all its pages at one moment, or
// none. rounds are the later rounds, or without images all rounds from the beginning, each of which
// continues the one before. The caller vouches for their authenticity. They may lead beyond the
// last checkpoint. Pages for which they do not reach the checkpoint stay lost.
func (e *Engine) HealSaid(ctx context.Context, a Array, start uint64, images [][]byte, rounds []Part) (n int,
	err error) {
	key := replica.Key{Array: a, Start: start}
	array := e.own(key)
	if array == nil {
		return 0, fmt.Errorf("%w: %s of generation %d is gone", ErrOtherPage, a, start)
	}
	past, err := recall(array.Geometry(), start, images, rounds)
	if err != nil {
		return 0, fmt.Errorf("%w: %s of generation %d: %v", bulkhead.ErrMalformed, a, start, err)
	}
	lost, err := e.Wounds(ctx)
	if err != nil {
		return 0, err
	}
	for _, w := range lost.Pages {
		if w.Array != a || w.Start != start {
			continue
		}
		m := past.Image(w.Page)
		err := e.change(ctx, &healing{peer: Broker, at: place{key, w.Page}, page: m, sum: pages.SumOf(m), said: true})
		if err == nil {
			n++
		} else if !errors.Is(err, ErrOtherPage) {
			return n, err
		}
	}
	return n, nil
}

// Broker takes the place of a peer in a [Healing] if the pages come from the node's own messages
// that a broker had stored.
const Broker = "broker"

// A recalled is an array that is rebuilt from published messages.
type recalled interface {
	imaged
	ApplyRound(index uint64, r *arrays.Round, replayed bool) error
	SetGeneration(uint64)
}

func newRecalled(g filter.Geometry, start uint64) (array recalled, err error) {
	if g.Kind == filter.Cells {
		array, err = arrays.NewSparseCounting(g)
	} else {
		array, err = arrays.NewSparseBits(g)
	}
	if err == nil {
		array.SetGeneration(start)
	}
	return array, err
}

// recall returns the array that results from images and rounds.
func recall(g filter.Geometry, start uint64, images [][]byte, rounds []Part) (recalled, error) {
	array, err := newRecalled(g, start)
	if err != nil {
		return nil, err
	}
	for _, b := range images {
		m, err := arrays.ParseImage(b, g)
		if err == nil {
			err = array.Load(m)
		}
		if err != nil {
			return nil, err
		}
	}
	list := make([]*arrays.Round, len(rounds))
	for i := range rounds {
		if list[i], err = arrays.ParseRoundBody(rounds[i].Round, g, start, rounds[i].From); err != nil {
			return nil, err
		}
	}
	// A full round may have been split without regard to time. The state before it existed at some
	// moment, but the state between its parts never did.
	for len(list) > 0 && list[len(list)-1].Len() >= maxRound {
		list = list[:len(list)-1]
	}
	for _, r := range list {
		if err := array.ApplyRound(0, r, false); err != nil {
			return nil, err
		}
	}
	return array, nil
}

// A healing is the change that replaces a lost page.
type healing struct {
	peer string
	at   place
	page *arrays.Image
	sum  pages.Sum
	said bool // published by the node itself: it may have more than the lost page
}

func (c *healing) do(e *Engine) error {
	var lost *wound
	if e.wounds != nil {
		lost = e.wounds.pages[c.at]
	}
	if lost == nil || !lost.sum.Is(&c.sum) && !(c.said && c.sum.Version > lost.sum.Version) {
		return fmt.Errorf("%w: page %d of %s, generation %d", ErrOtherPage, c.at.page, c.at.Array, c.at.Start)
	}
	if err := e.refusing(); err != nil {
		return err
	}
	image, err := lost.grown(c.page, floorOf(e.own(c.at.Key)))
	if err != nil {
		return err
	}
	if err := e.journalled(entryHeal, &healed{Array: c.at.Array, Start: c.at.Start,
		Image: image.Append(nil)}); err != nil {
		return err
	}
	if e.healings == nil {
		e.healings = make(map[string]uint64)
	}
	e.healings[c.peer]++
	e.tellHealings()
	return nil
}

// grown returns the page of an array with the given floor after the later adds. The page may
// already have the first of these adds.
func (w *wound) grown(m *arrays.Image, floor uint32) (*arrays.Image, error) {
	array, err := newRecalled(m.Geometry, m.Generation)
	if err != nil {
		return nil, err
	}
	counts, _ := array.(*arrays.Counting)
	if counts != nil && floor > 0 {
		err = counts.SetFloor(floor)
	}
	if err = errors.Join(err, array.Load(m)); err != nil {
		return nil, err
	}
	changes := m.Info.Version - w.sum.Version
	switch {
	case counts == nil:
		array.(*arrays.Bits).SetBatch(0, w.keys, nil) // keys that it already has change nothing
	case floor > 0 && changes > 0:
		w.raise(counts)
	default:
		has, err := w.has(changes, counts)
		if err != nil {
			return nil, err
		}
		counts.AddBatch(0, w.keys[has:], w.n[has:], nil)
	}
	return array.Image(m.Page), nil
}

// raise raises the count of every key added since to at least its number of adds. With a floor, not
// all adds were shown to peers, so the adds that the page already has cannot be determined.
func (w *wound) raise(page *arrays.Counting) {
	since := make(map[filter.Key]uint64)
	for i, k := range w.keys {
		since[k] += uint64(w.n[i])
	}
	for _, k := range w.keys {
		if n := min(since[k], filter.Many); n > uint64(page.Count(k)) {
			page.Add(k, uint32(n)-page.Count(k))
		}
	}
}

// has returns the number of later adds that a page already has, given the number of changes by
// which it is newer than the lost page. Every add is one change, except an add of 0 or to a count
// at the maximum.
func (w *wound) has(changes uint64, page *arrays.Counting) (n int, err error) {
	for changes > 0 && n < len(w.keys) {
		if w.n[n] > 0 {
			changes--
		}
		if page.Count(w.keys[n]) == filter.Many {
			return 0, fmt.Errorf("%w: which of its adds it has is not known", ErrOtherPage)
		}
		n++
	}
	if changes > 0 {
		return 0, fmt.Errorf("%w: it has more than was ever added", ErrOtherPage)
	}
	return n, nil
}

// tellHealings publishes the healings for readers of [Engine.Healings].
func (e *Engine) tellHealings() {
	list := make([]Healing, 0, len(e.healings))
	for _, peer := range slices.Sorted(maps.Keys(e.healings)) {
		list = append(list, Healing{peer, e.healings[peer]})
	}
	e.healedBy.Store(&list)
}

// Healings returns the peers whose replicas have healed pages since the start, and the numbers of
// pages.
func (e *Engine) Healings() []Healing {
	if p := e.healedBy.Load(); p != nil {
		return *p
	}
	return nil
}

// healed is the body of a heal entry: a healed page, or the end of healing.
type healed struct {
	Array Array  `json:"array,omitempty"`
	Start uint64 `json:"start,omitempty"`
	Image []byte `json:"image,omitempty"` // with all later adds to the page
	End   bool   `json:"end,omitempty"`   // see EndHealing
}

func (h *healed) apply(e *Engine, index uint64) error {
	if h.End {
		e.wounds = nil
		return nil
	}
	key := replica.Key{Array: h.Array, Start: h.Start}
	array := e.own(key)
	if array == nil {
		return nil // its generation is gone
	}
	m, err := arrays.ParseImage(h.Image, array.Geometry())
	if err != nil {
		return fmt.Errorf("%w: page of %s: %v", errEntry, h.Array, err)
	}
	if err := array.LoadAt(index, m); err != nil {
		return fmt.Errorf("%w: page of %s: %v", errEntry, h.Array, err)
	}
	at := place{key, m.Page}
	e.wounds.drop(at)
	delete(e.recorder.rounds, key) // they do not lead to the present content
	if floorOf(array) == 0 {       // otherwise counts below the floor are still missing
		doubts := without(e.Doubts(), at)
		e.doubts.Store(&doubts)
	}
	return nil
}

// EndHealing gives up the pages that are still missing. The node then shares its present content
// with its peers.
func (e *Engine) EndHealing(ctx context.Context) error {
	return e.change(ctx, endHealing{})
}

type endHealing struct{}

func (endHealing) do(e *Engine) error {
	if e.wounds == nil {
		return nil
	}
	if err := e.refusing(); err != nil {
		return err
	}
	return e.journalled(entryHeal, &healed{End: true})
}

// ReplicaPages returns encoded pages of an origin's replica for the origin itself, which has lost
// them. A page that is not here is nil. ReplicaPages returns an error that wraps [ErrGap] if the
// array is missing or has another geometry.
func (e *Engine) ReplicaPages(ctx context.Context, origin string, a Array, start uint64, g filter.Geometry,
	list []int) (out [][]byte, err error) {
	var images []*arrays.Image
	var copied error
	err = e.inTurn(ctx, func() {
		images, copied = e.replicas.CopyPages(origin, replica.Key{Array: a, Start: start}, g, list)
	})
	if err == nil {
		err = copied
	}
	if err != nil {
		return nil, err
	}
	for _, m := range images {
		var page []byte
		if m != nil {
			page = m.Append(nil)
		}
		out = append(out, page)
	}
	return out, nil
}

// encode returns the wounds for a checkpoint: v length and incarnation of the store, 1 if data is
// lost that no page restores, v count. For each page follow its array (byte), v start, v page, sum,
// v count and the keys of the later adds, for counts each with v increment.
func (w *wounds) encode() []byte {
	b := appendBytes(nil, []byte(w.store))
	broken := byte(0)
	if w.broken {
		broken = 1
	}
	b = append(b, broken)
	b = binary.AppendUvarint(b, uint64(len(w.pages)))
	for at, x := range w.pages {
		b = append(b, byte(slices.Index(sharedArrays[:], at.Array)))
		b = binary.AppendUvarint(b, at.Start)
		b = binary.AppendUvarint(b, uint64(at.page))
		b = x.sum.Append(b)
		b = binary.AppendUvarint(b, uint64(len(x.keys)))
		for i, k := range x.keys {
			b = appendKey(b, k)
			if at.Array == ArrayCounts {
				b = binary.AppendUvarint(b, uint64(x.n[i]))
			}
		}
	}
	return b
}

// decodeWounds reads the output of encode.
func decodeWounds(data []byte) (*wounds, error) {
	d := &decoder{b: data}
	w := &wounds{store: string(d.bytes(d.uvarint())), broken: d.byte() != 0, pages: make(map[place]*wound)}
	for range d.count(1) {
		var at place
		code := int(d.byte())
		if d.bad = d.bad || code >= len(sharedArrays); d.bad {
			break
		}
		at.Array, at.Start, at.page = sharedArrays[code], d.uvarint(), int(d.small(maxPages))
		x := new(wound)
		var ok bool
		if x.sum, d.b, ok = pages.ReadSum(d.b); !ok {
			d.bad = true
			break
		}
		if at.Array == ArrayCounts {
			adds := d.adds()
			x.keys, x.n = adds.Keys, adds.N
		} else {
			x.keys = d.keys()
		}
		d.bad = d.bad || w.pages[at] != nil
		w.pages[at] = x
		w.adds += len(x.keys)
	}
	if d.bad || len(d.b) != 0 || w.adds > maxSince {
		return nil, fmt.Errorf("engine: lost pages in %d bytes: malformed", len(data))
	}
	return w, nil
}

// maxPages is the maximum number of pages of an array.
const maxPages = filter.MaxLines / filter.PageLines
