package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/arrays"
	"github.com/bulkhead-mail/bulkhead/internal/engine/replica"
	"github.com/bulkhead-mail/bulkhead/internal/store"
)

// A Refill is an earlier state of the same node, from a backup, from which a damaged node is
// repaired.
type Refill struct {
	// From has every entry of the journal up to Index, and none after it.
	From  *Engine
	Index uint64
}

// Doubts returns the parts of the node's data that may be lower than acknowledged, since its store
// was salvaged. A doubt ends with its generation, or when a peer has sent its counts again.
func (e *Engine) Doubts() []Doubt {
	p := e.doubts.Load()
	if p == nil {
		return nil
	}
	v := e.view()
	return slices.DeleteFunc(slices.Clone(*p), func(d Doubt) bool {
		switch {
		case d.Start == 0:
			return false
		case d.Origin != "":
			return d.Start < v.oldest() || !v.remote.Lacks(d.Origin, replica.Key{Array: replica.Array(d.Array), Start: d.Start})
		}
		return v.tally.Find(d.Start) == nil && v.block.Find(d.Start) == nil
	})
}

// oldest returns the start of the oldest generation of either book, in Unix seconds.
func (v *view) oldest() uint64 {
	start := uint64(math.MaxUint64)
	for _, g := range v.tally.Live {
		start = min(start, g.Start)
	}
	for _, g := range v.block.Live {
		start = min(start, g.Start)
	}
	return start
}

// salvage records the losses in the checkpoint of a damaged store, after everything readable was
// loaded, and takes lost data from opts.Refill if it is there.
func (e *Engine) salvage(n *store.Inspection) error {
	lost, err := Inspect(n)
	if err != nil {
		return err
	}
	v := e.view()
	var newest uint64 // newest generation of the blocklist: the effects of a lost entry end with it
	for _, g := range v.block.Live {
		newest = max(newest, g.Start)
	}
	var fresh []Doubt
	exact := e.opts.Refill != nil && e.opts.Refill.Index+1 >= n.Manifest.Start
	for _, d := range lost {
		if d.Array == "journal" && e.opts.Refill != nil {
			d.First = max(d.First, e.opts.Refill.Index+1) // the store got the earlier entries from the backup
			if d.First > d.Last {
				continue
			}
		}
		refilled, err := e.refill(&d)
		if err != nil {
			return err
		}
		if refilled && exact {
			continue
		}
		if refilled && d.Pages > 0 {
			d.Stale = true
		}
		if d.Start == 0 {
			d.Start = newest
		}
		fresh = append(fresh, d)
	}
	doubts := append(e.Doubts(), e.examine(n, fresh)...)
	e.doubts.Store(&doubts)
	for i := range doubts {
		e.opts.Log.Warn("counts may be low", "what", doubts[i].String())
	}
	return nil
}

// refill takes the data of a doubt from opts.Refill, and reports whether it was there.
func (e *Engine) refill(d *Doubt) (bool, error) {
	if e.opts.Refill == nil || d.Origin != "" {
		return false, nil
	}
	from := e.opts.Refill.From
	switch d.Array {
	case "journal":
		return false, nil
	case "accounts", "ballots":
		// One index covers both accounts and ballots: if the backup is ahead of the checkpoint,
		// both are taken from it.
		both := e.opts.Refill.Index >= e.accountsIndex
		if both {
			e.accountsIndex = e.opts.Refill.Index
		}
		var err error
		if both || d.Array == "ballots" {
			err = e.ballots.Decode(from.ballots.Encode())
		}
		if both || d.Array == "accounts" {
			data, encErr := from.accounts.Encode()
			if encErr != nil {
				return false, encErr
			}
			err = errors.Join(err, e.accounts.Decode(data))
		}
		return err == nil, err
	}
	mine, theirs := e.ownArray(d), from.ownArray(d)
	if mine == nil || theirs == nil {
		return false, nil
	}
	if theirs.Geometry() != mine.Geometry() {
		return false, nil
	}
	for page := d.Page; page < d.Page+d.Pages; page++ {
		if err := mine.Load(theirs.Image(page)); err != nil {
			return false, fmt.Errorf("engine: refilling %s: %w", d, err)
		}
	}
	return true, nil
}

// An imaged is an array whose pages can be copied: *arrays.Counting or *arrays.Bits.
type imaged interface {
	Geometry() filter.Geometry
	Image(page int) *arrays.Image
	Load(m *arrays.Image) error
	LoadAt(index uint64, m *arrays.Image) error
	PageOf(k filter.Key) int
}

// ownArray returns the node's own array that a doubt is about, or nil.
func (e *Engine) ownArray(d *Doubt) imaged {
	v := e.view()
	var array any
	if g := v.tally.Find(d.Start); g != nil {
		switch d.Array {
		case "counts":
			array = g.Counts
		case "unique":
			array = g.Unique
		}
	}
	if g := v.block.Find(d.Start); g != nil {
		spam, revoked := g.Shared()
		switch d.Array {
		case "spam":
			array = spam
		case "revoked":
			array = revoked
		case listedArray:
			array = g.Spam
		case unlistedArray:
			array = g.Revoked
		case "weights":
			array = g.Weights
		case "votes":
			array = g.Votes
		case "names":
			array = g.Names
		}
	}
	a, _ := array.(imaged)
	return a
}

// orphaned reports whether votes are for an unknown generation, because the entry that opened it is
// lost.
func (e *Engine) orphaned(v *votes) bool {
	view := e.view()
	unknown := func(gen uint64, known bool) bool { return !known && gen > view.newest() }
	return unknown(v.TallyGen, view.tally.Find(v.TallyGen) != nil) ||
		unknown(v.BlockGen, view.block.Find(v.BlockGen) != nil)
}

// doubtEntry records a journal entry that could not be applied.
func (e *Engine) doubtEntry(index uint64) {
	doubts := e.Doubts()
	if n := len(doubts); n > 0 && doubts[n-1].Array == "journal" && doubts[n-1].Last+1 == index {
		doubts[n-1].Last = index
	} else {
		view := e.view()
		doubts = append(doubts, Doubt{Array: "journal", Start: view.newest(), First: index, Last: index})
	}
	e.doubts.Store(&doubts)
	if e.wounds != nil {
		e.wounds.broken = true
	}
}

// newest returns the start of the newest generation of either book, in Unix seconds.
func (v *view) newest() (start uint64) {
	for _, g := range v.tally.Live {
		start = max(start, g.Start)
	}
	for _, g := range v.block.Live {
		start = max(start, g.Start)
	}
	return start
}

// Known returns the doubts since an earlier salvage that the checkpoint of a store records.
func Known(n *store.Inspection) []Doubt {
	var m meta
	if json.Unmarshal(n.Manifest.Meta, &m) != nil {
		return nil
	}
	live := make(map[uint64]bool)
	for _, g := range m.Tally {
		live[g.Start] = true
	}
	for _, g := range m.Block {
		live[g.Start] = true
	}
	return slices.DeleteFunc(m.Doubts, func(d Doubt) bool { return d.Start != 0 && d.Origin == "" && !live[d.Start] })
}

// settle rewrites all data recovered from a damaged store, before anything else is written to it.
func (e *Engine) settle(ctx context.Context) error {
	here := func(f func()) { f() }
	s, err := e.snapshot(here, nil)
	if err != nil {
		return err
	}
	if err := e.opts.Store.Recover(ctx, s.start, s.meta, s.files); err != nil {
		return err
	}
	e.taken(s, here)
	return nil
}
