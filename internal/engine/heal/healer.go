package heal

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/arrays"
	"github.com/bulkhead-mail/bulkhead/internal/engine/codec"
	"github.com/bulkhead-mail/bulkhead/internal/engine/pages"
	"github.com/bulkhead-mail/bulkhead/internal/engine/replica"
	"github.com/bulkhead-mail/bulkhead/internal/engine/view"
	"github.com/bulkhead-mail/bulkhead/internal/store"
)

// A Healer records what a damaged store has lost of the node's own data, and which of it is
// restored. Doubts and Healings may be called concurrently; only the writer calls the other methods.
type Healer struct {
	store   *store.Store // nil: nothing is durable, and nothing is ever lost
	log     *slog.Logger
	current *view.Current

	doubts   atomic.Pointer[[]Doubt] // since a salvage; nil for none
	healed   atomic.Pointer[[]Healing]
	wounds   *wounds           // nil for none
	healings map[string]uint64 // pages made whole since the start, by peer
}

// A Healing is the number of pages that were healed since the start with pages of one peer.
type Healing struct {
	Peer  string
	Pages uint64
}

// Broker takes the place of a peer in a [Healing] if the pages come from the node's own messages
// that a broker had stored.
const Broker = "broker"

// New returns a healer of the arrays of a view, whose checkpoint is in a store.
func New(s *store.Store, log *slog.Logger, current *view.Current) *Healer {
	return &Healer{store: s, log: log, current: current}
}

// Load restores the state that a checkpoint has.
func (h *Healer) Load(m *codec.Meta) error {
	if len(m.Doubts) > 0 {
		h.doubts.Store(&m.Doubts)
	}
	if m.Wounds == "" {
		return nil
	}
	data, err := ReadFile(h.store, m.Wounds)
	if data == nil {
		return err // if this file is lost, lost pages stay as they are
	}
	if h.wounds, err = decodeWounds(data); err != nil {
		return pages.Damaged(m.Wounds, err)
	}
	return nil
}

// ReadFile returns the content of a file of the last checkpoint. It returns nil without an error for
// a lost file.
func ReadFile(s *store.Store, name string) ([]byte, error) {
	if n := s.Salvaged(); n != nil && n.Damaged(name) {
		data, _ := n.Whole(name)
		return data, nil
	}
	f, err := s.OpenFile(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(f)
	if err != nil {
		return nil, err
	}
	return data, nil
}

// Doubts returns the parts of the node's data that may be lower than acknowledged, since its store
// was salvaged. A doubt ends with its generation, or when a peer has sent its counts again.
func (h *Healer) Doubts() []Doubt {
	p := h.doubts.Load()
	if p == nil {
		return nil
	}
	v := h.current.View()
	return slices.DeleteFunc(slices.Clone(*p), func(d Doubt) bool {
		switch {
		case d.Start == 0:
			return false
		case d.Origin != "":
			return d.Start < v.Oldest() ||
				!v.Remote.Lacks(d.Origin, replica.Key{Array: replica.Array(d.Array), Start: d.Start})
		}
		return v.Tally.Find(d.Start) == nil && v.Block.Find(d.Start) == nil
	})
}

// Healings returns the peers whose replicas have healed pages since the start, and the numbers of
// pages.
func (h *Healer) Healings() []Healing {
	if p := h.healed.Load(); p != nil {
		return *p
	}
	return nil
}

// Healed counts a page that was healed with a page of a peer.
func (h *Healer) Healed(peer string) {
	if h.healings == nil {
		h.healings = make(map[string]uint64)
	}
	h.healings[peer]++
	list := make([]Healing, 0, len(h.healings))
	for _, peer := range slices.Sorted(maps.Keys(h.healings)) {
		list = append(list, Healing{peer, h.healings[peer]})
	}
	h.healed.Store(&list)
}

// Orphaned reports whether votes are for an unknown generation, because the entry that opened it is
// lost.
func (h *Healer) Orphaned(v *codec.Votes) bool {
	b := h.current.Books()
	unknown := func(gen uint64, known bool) bool { return !known && gen > b.Newest() }
	return unknown(v.TallyGen, b.Tally.Find(v.TallyGen) != nil) ||
		unknown(v.BlockGen, b.Block.Find(v.BlockGen) != nil)
}

// DoubtEntry records a journal entry that could not be applied.
func (h *Healer) DoubtEntry(index uint64) {
	doubts := h.Doubts()
	if n := len(doubts); n > 0 && doubts[n-1].Array == "journal" && doubts[n-1].Last+1 == index {
		doubts[n-1].Last = index
	} else {
		newest := h.current.Books().Newest()
		doubts = append(doubts, Doubt{Array: "journal", Start: newest, First: index, Last: index})
	}
	h.doubts.Store(&doubts)
	if h.wounds != nil {
		h.wounds.broken = true
	}
}

// Note records the adds of an entry to lost pages of an own array.
func (h *Healer) Note(index uint64, k replica.Key, array PageFinder, keys []filter.Key, n []uint32) {
	if h.wounds != nil {
		h.wounds.note(index, k, array, keys, n)
	}
}

// Wounds returns the missing pages that peers may have.
func (h *Healer) Wounds() (out Wounds) {
	if h.wounds == nil {
		return out
	}
	out.Store, out.Whole = h.wounds.store, !h.wounds.broken
	for at := range h.wounds.pages {
		if array := h.Own(at.Key); array != nil {
			out.Pages = append(out.Pages, Wound{at.Array, at.Start, at.page, array.Geometry()})
		}
	}
	sortWounds(out.Pages)
	return out
}

// Healing reports whether pages are missing that peers may have.
func (h *Healer) Healing() bool { return h.wounds != nil }

// Encode returns the wounds for a checkpoint, or nil if there are none.
func (h *Healer) Encode() []byte {
	if h.wounds == nil {
		return nil
	}
	return h.wounds.encode()
}

// Own returns the node's own array with a key, or nil if its generation is gone.
func (h *Healer) Own(k replica.Key) Array { return own(h.current.Books(), string(k.Array), k.Start) }

// Grown returns the image of a lost page with all later adds: m is the page of a peer, or of the
// node's own messages if it was published. Grown returns an error that wraps [ErrOtherPage] if the
// page is not the one that was lost. sum is the sum of m.
func (h *Healer) Grown(k replica.Key, m *arrays.Image, sum pages.Sum, published bool) (*arrays.Image, error) {
	var lost *wound
	if h.wounds != nil {
		lost = h.wounds.pages[place{k, m.Page}]
	}
	// The node's own messages may have more than the lost page.
	if lost == nil || !lost.sum.Is(&sum) && !(published && sum.Version > lost.sum.Version) {
		return nil, fmt.Errorf("%w: page %d of %s, generation %d", ErrOtherPage, m.Page, k.Array, k.Start)
	}
	return lost.grown(m, floorOf(h.Own(k)))
}

// Apply applies a heal entry with the given index.
func (h *Healer) Apply(index uint64, entry *codec.Heal) error {
	if entry.End {
		h.wounds = nil
		return nil
	}
	key := replica.Key{Array: entry.Array, Start: entry.Start}
	array := h.Own(key)
	if array == nil {
		return nil // its generation is gone
	}
	m, err := arrays.ParseImage(entry.Image, array.Geometry())
	if err == nil {
		err = array.LoadAt(index, m)
	}
	if err != nil {
		return fmt.Errorf("%w: page of %s: %v", codec.ErrEntry, entry.Array, err)
	}
	at := place{key, m.Page}
	h.wounds.drop(at)
	if floorOf(array) == 0 { // otherwise counts below the floor are still missing
		doubts := without(h.Doubts(), at)
		h.doubts.Store(&doubts)
	}
	return nil
}

// sums returns the sums of the pages of the array that a doubt is about.
func (h *Healer) sums(d *Doubt) ([]pages.Sum, error) {
	array := own(h.current.Books(), d.Array, d.Start)
	if array == nil {
		return nil, errors.New("its generation is gone")
	}
	data, err := ReadFile(h.store, codec.SumsOf(fmt.Sprintf("%s-%d", d.Array, d.Start)))
	if err != nil {
		return nil, err
	}
	return pages.ParseSums(data, array.Geometry().Pages())
}
