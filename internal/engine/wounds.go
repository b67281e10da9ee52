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
	"github.com/bulkhead-mail/bulkhead/internal/engine/pages"
	"github.com/bulkhead-mail/bulkhead/internal/engine/replica"
	"github.com/bulkhead-mail/bulkhead/internal/store"
)

// ErrOtherPage says that a page is not the one that was lost.
var ErrOtherPage = errors.New("engine: not the page that was lost")

// Wounds are the pages of shared arrays that a damaged store has lost, and that peers may
// still have.
type Wounds struct {
	// Store is the incarnation that the store had before it was salvaged; "" if it was not,
	// or if that is over: see [Engine.EndHealing].
	Store string
	// Whole says that the shared arrays will be, once no page is missing, what they were.
	Whole bool
	Pages []Wound // that are missing
}

// A Wound is one such page.
type Wound struct {
	Array    Array
	Start    uint64 // of the generation
	Page     int
	Geometry filter.Geometry // of the array
}

// A Healing is how many pages were made whole since the start with those of one peer.
type Healing struct {
	Peer  string
	Pages uint64
}

// maxSince is how many adds the lost pages may take, all together, before they are given up:
// 20 MB.
const maxSince = 1 << 20

// A place is a page of an own array.
type place struct {
	replica.Key
	page int
}

// wounds is what it takes to make lost pages whole. It is the writer's.
type wounds struct {
	store  string
	broken bool // something of the shared arrays is lost that no page brings back
	pages  map[place]*wound
	adds   int
}

// A wound is what a lost page was in the checkpoint, and what it took since, in order.
type wound struct {
	sum  pages.Sum
	keys []filter.Key
	n    []uint32 // of keys; nil in sets
}

// note notes what an entry adds to pages that are lost.
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

// sumsOf is the name of the file with the sums of the pages of an array's.
func sumsOf(file string) string { return "sums-" + file }

// shared reports whether an array is one that peers have replicas of.
func shared(array string) bool { return slices.Contains(sharedArrays[:], Array(array)) }

// examine looks, after a salvage, at which of the lost pages peers may still have. It
// returns the doubts that are left: a page that had nothing has lost nothing.
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
				w.broken = true // it has shown nothing, so nobody has anything of it
			default:
				w.pages[at] = &wound{sum: sums[page]}
				// What was below the floor is lost, so what comes is not shown as it would be.
				w.broken = w.broken || floor > 0
			}
		}
		left = append(left, rest...)
	}
	return left
}

// floorOf returns the floor of an own array.
func floorOf(array imaged) uint32 {
	if c, ok := array.(*filter.Counting); ok {
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

// without returns the doubts without what they say of a page.
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

// Wounds returns which pages are missing that peers may have.
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

// own returns an array of the node itself; nil if its generation is gone.
func (e *Engine) own(k replica.Key) imaged {
	return e.ownArray(&Doubt{Array: string(k.Array), Start: k.Start})
}

// Heal makes a page whole again, durably, with the replica of it that a peer has: an image
// in the encoding of [filter.Image.Append]. It returns an error that wraps [ErrOtherPage],
// and changes nothing, if the page is not the one that was lost, which its sum in the
// checkpoint shows, and one that wraps [bulkhead.ErrMalformed] if it is no page of the array.
func (e *Engine) Heal(ctx context.Context, peer string, a Array, start uint64, image []byte) error {
	array := e.own(replica.Key{Array: a, Start: start})
	if array == nil {
		return fmt.Errorf("%w: %s of generation %d is gone", ErrOtherPage, a, start)
	}
	m, err := filter.ParseImage(image, array.Geometry())
	if err == nil && m.Floor() > 0 {
		err = errors.New("it has a floor")
	}
	if err != nil || m.Generation != start {
		return fmt.Errorf("%w: page of %s, generation %d: %v", bulkhead.ErrMalformed, a, start, err)
	}
	return e.change(ctx, &healing{peer: peer, at: place{replica.Key{Array: a, Start: start}, m.Page}, page: m,
		sum: pages.SumOf(m)})
}

// HealSaid makes pages of an array whole again with what the node itself has said of it, and
// returns how many: images of all its pages at one moment, encoded, or none; and the rounds
// since, or from the beginning, each of which continues the one before. The caller vouches for
// them. They may lead beyond the last checkpoint; pages of which they say less stay lost.
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

// Broker stands in a [Healing] for a peer, if the pages are of what the node had said itself
// and a broker had stored.
const Broker = "broker"

// A recalled is an array that is made of what was said of it.
type recalled interface {
	imaged
	ApplyRound(index uint64, r *filter.Round, replayed bool) error
	SetGeneration(uint64)
}

func newRecalled(g filter.Geometry, start uint64) (array recalled, err error) {
	if g.Kind == filter.Cells {
		array, err = filter.NewSparseCounting(g)
	} else {
		array, err = filter.NewSparseBits(g)
	}
	if err == nil {
		array.SetGeneration(start)
	}
	return array, err
}

// recall returns the array that images and rounds lead to.
func recall(g filter.Geometry, start uint64, images [][]byte, rounds []Part) (recalled, error) {
	array, err := newRecalled(g, start)
	if err != nil {
		return nil, err
	}
	for _, b := range images {
		m, err := filter.ParseImage(b, g)
		if err == nil {
			err = array.Load(m)
		}
		if err != nil {
			return nil, err
		}
	}
	list := make([]*filter.Round, len(rounds))
	for i := range rounds {
		if list[i], err = filter.ParseRoundBody(rounds[i].Round, g, start, rounds[i].From); err != nil {
			return nil, err
		}
	}
	// A round that is full may have been split, in no order of time: what comes before it was
	// so at some moment, and what is between its parts was not.
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

// A healing puts a page in the place of the lost one.
type healing struct {
	peer string
	at   place
	page *filter.Image
	sum  pages.Sum
	said bool // by the node itself: it may have more than the page that was lost
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

// grown returns the page with what was added since, of which it may have the first adds, as
// one of an array with a floor.
func (w *wound) grown(m *filter.Image, floor uint32) (*filter.Image, error) {
	array, err := newRecalled(m.Geometry, m.Generation)
	if err != nil {
		return nil, err
	}
	counts, _ := array.(*filter.Counting)
	if counts != nil && floor > 0 {
		err = counts.SetFloor(floor)
	}
	if err = errors.Join(err, array.Load(m)); err != nil {
		return nil, err
	}
	changes := m.Info.Version - w.sum.Version
	switch {
	case counts == nil:
		array.(*filter.Bits).SetBatch(0, w.keys, nil) // what it has already changes nothing
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

// raise raises every key that was added since to as often as that, at least. Which of the adds
// a page has that others were shown cannot be known, since not all of them were shown.
func (w *wound) raise(page *filter.Counting) {
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

// has returns how many of the adds since a page has that is so many changes older than the
// lost one. Every add is a change, unless it is of nothing or the count is as high as it gets.
func (w *wound) has(changes uint64, page *filter.Counting) (n int, err error) {
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

// tellHealings lets everybody read what was healed.
func (e *Engine) tellHealings() {
	list := make([]Healing, 0, len(e.healings))
	for _, peer := range slices.Sorted(maps.Keys(e.healings)) {
		list = append(list, Healing{peer, e.healings[peer]})
	}
	e.healedBy.Store(&list)
}

// Healings returns which peers' replicas have made pages whole since the start.
func (e *Engine) Healings() []Healing {
	if p := e.healedBy.Load(); p != nil {
		return *p
	}
	return nil
}

// healed is the body of a heal entry: a page that is whole again, or that no more will be.
type healed struct {
	Array Array  `json:"array,omitempty"`
	Start uint64 `json:"start,omitempty"`
	Image []byte `json:"image,omitempty"` // with all that the page took since
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
	m, err := filter.ParseImage(h.Image, array.Geometry())
	if err != nil {
		return fmt.Errorf("%w: page of %s: %v", errEntry, h.Array, err)
	}
	if err := array.LoadAt(index, m); err != nil {
		return fmt.Errorf("%w: page of %s: %v", errEntry, h.Array, err)
	}
	at := place{key, m.Page}
	e.wounds.drop(at)
	delete(e.recorder.rounds, key) // they do not lead to what is there now
	if floorOf(array) == 0 {       // else what was below the floor is still missing
		doubts := without(e.Doubts(), at)
		e.doubts.Store(&doubts)
	}
	return nil
}

// EndHealing gives up the pages that are still missing: what the node has now is told to
// its peers.
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

// ReplicaPages returns pages of an origin's replica, encoded, for the origin itself that has
// lost them: nil for those that are not here. An array that is not here is an error that
// wraps [ErrGap], one of another shape has no pages.
func (e *Engine) ReplicaPages(ctx context.Context, origin string, a Array, start uint64, g filter.Geometry,
	list []int) (out [][]byte, err error) {
	var images []*filter.Image
	var copied error
	err = e.inTurn(ctx, func() {
		images, copied = e.replicas.CopyPages(origin, replica.Key{Array: a, Start: start}, g,
			list)
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

// encode returns the wounds for a checkpoint: v length and incarnation of the store, 1 if
// something is lost that no page brings back, v count, and for each page its array (byte), v start, v
// page, sum, v count and keys of what it took since, in counts each with v increment.
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

// decodeWounds reads what encode wrote.
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

// maxPages is how many pages an array has at most.
const maxPages = filter.MaxLines / filter.PageLines
