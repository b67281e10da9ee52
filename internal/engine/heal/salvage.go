package heal

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/arrays"
	"github.com/bulkhead-mail/bulkhead/internal/engine/ballots"
	"github.com/bulkhead-mail/bulkhead/internal/engine/view"
	"github.com/bulkhead-mail/bulkhead/internal/store"
	"github.com/bulkhead-mail/bulkhead/internal/trust"
)

// A State is the data of a node that a damaged file may have lost and a backup may have.
type State struct {
	Books    *view.Books
	Accounts *trust.Book
	Ballots  *ballots.Book
	// Index is the last journal entry that is in Accounts and Ballots. A backup has every entry up
	// to it in its arrays as well, and no later one.
	Index uint64
}

// An Array is an array whose pages can be copied: *arrays.Counting or *arrays.Bits.
type Array interface {
	PageFinder
	Geometry() filter.Geometry
	Image(page int) *arrays.Image
	Load(m *arrays.Image) error
	LoadAt(index uint64, m *arrays.Image) error
}

// own returns an own array by its name and generation, or nil if there is none.
func own(b *view.Books, name string, start uint64) Array {
	a, _ := b.Array(name, start).(Array)
	return a
}

// Salvage records the losses in the checkpoint of a damaged store, after everything readable was
// loaded into state, and takes lost data from a backup if it is there. Without a backup, that is
// nil. It raises state.Index to the backup's if it takes accounts and ballots from it.
func (h *Healer) Salvage(n *store.Inspection, state, backup *State) error {
	lost, err := Inspect(n)
	if err != nil {
		return err
	}
	var newest uint64 // newest generation of the blocklist: the effects of a lost entry end with it
	for _, g := range state.Books.Block.Live {
		newest = max(newest, g.Start)
	}
	var fresh []Doubt
	exact := backup != nil && backup.Index+1 >= n.Manifest.Start
	for _, d := range lost {
		if d.Array == "journal" && backup != nil {
			d.First = max(d.First, backup.Index+1) // the store got the earlier entries from the backup
			if d.First > d.Last {
				continue
			}
		}
		refilled, err := refill(&d, state, backup)
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
	doubts := append(h.Doubts(), h.examine(n, fresh)...)
	h.doubts.Store(&doubts)
	for i := range doubts {
		h.log.Warn("counts may be low", "what", doubts[i].String())
	}
	return nil
}

// refill takes the data of a doubt from a backup, and reports whether it was there.
func refill(d *Doubt, state, backup *State) (bool, error) {
	if backup == nil || d.Origin != "" {
		return false, nil
	}
	switch d.Array {
	case "journal":
		return false, nil
	case "accounts", "ballots":
		err := refillPeople(d, state, backup)
		return err == nil, err
	}
	mine, theirs := own(state.Books, d.Array, d.Start), own(backup.Books, d.Array, d.Start)
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

// refillPeople takes the accounts or the ballots from a backup. One index covers both: if the
// backup is ahead of the checkpoint, both are taken.
func refillPeople(d *Doubt, state, backup *State) error {
	both := backup.Index >= state.Index
	if both {
		state.Index = backup.Index
	}
	var err error
	if both || d.Array == "ballots" {
		var all bytes.Buffer
		err = errors.Join(ballots.Write(&all, backup.Ballots.All()), state.Ballots.Decode(all.Bytes()))
	}
	if both || d.Array == "accounts" {
		data, encErr := backup.Accounts.Snapshot().Encode()
		if encErr != nil {
			return encErr
		}
		err = errors.Join(err, state.Accounts.Decode(data))
	}
	return err
}
