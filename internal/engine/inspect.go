package engine

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/arrays"
	"github.com/bulkhead-mail/bulkhead/internal/engine/pages"
	"github.com/bulkhead-mail/bulkhead/internal/store"
)

// A Doubt is a part of an engine's data that may differ from the acknowledged data.
type Doubt struct {
	// Array is counts, unique, spam, revoked, weights, votes or names. If the blocklist has a
	// floor, it may also be listed or unlisted. It may also be accounts, ballots or journal, which
	// have no pages.
	Array  string `json:"array"`
	Start  uint64 `json:"start,omitempty"`  // of the generation, Unix seconds
	Origin string `json:"origin,omitempty"` // key of the peer who counted it; "" for the node itself
	// Page is the number of the first of Pages successive pages of the array. Pages is 0 for data
	// without pages.
	Page  int `json:"page"`
	Pages int `json:"pages"`
	// Keys is the approximate number of keys that the pages had; 0 if it is unknown.
	Keys uint64 `json:"keys,omitempty"`
	// First and Last are the first and last of the lost journal entries; 0 for none.
	First uint64 `json:"first_entry,omitempty"`
	Last  uint64 `json:"last_entry,omitempty"`
	// Stale means that the pages can be read, but may be older than they should be.
	Stale bool `json:"stale,omitempty"`
}

// String describes the doubt in one line.
func (d *Doubt) String() string {
	of := ""
	if d.Start != 0 {
		of = " of " + time.Unix(int64(d.Start), 0).UTC().Format("2006-01-02 15:04 UTC")
	}
	if d.Origin != "" {
		of += ", counted by peer " + d.Origin
	}
	keys := "how many keys that had is not known"
	if d.Keys > 0 {
		keys = fmt.Sprintf("about %d keys", d.Keys)
	}
	pages := fmt.Sprintf("page %d", d.Page)
	if d.Pages > 1 {
		pages = fmt.Sprintf("pages %d to %d", d.Page, d.Page+d.Pages-1)
	}
	switch {
	case d.First != 0:
		return fmt.Sprintf("%d entries of the journal, %d to %d", d.Last-d.First+1, d.First, d.Last)
	case d.Pages == 0:
		return "the file of " + d.Array
	case d.Stale:
		return fmt.Sprintf("%s%s: %s can be read and may be out of date: %s", d.Array, of, pages, keys)
	}
	return fmt.Sprintf("%s%s: lost %s: %s", d.Array, of, pages, keys)
}

// An arrayFile is a checkpoint's file with an array in it.
type arrayFile struct {
	name, array, origin string
	start               uint64
	geometry            filter.Geometry
}

// arrays returns the files of all arrays.
func (m *meta) arrays() (out []arrayFile) {
	add := func(name, array string, start uint64, g filter.Geometry) {
		if name != "" { // of an older version, see meta.convert, or without a floor
			out = append(out, arrayFile{name: name, array: array, start: start, geometry: g})
		}
	}
	for _, t := range m.Tally {
		add(t.CountsFile, "counts", t.Start, t.CountsGeometry)
		add(t.UniqueFile, "unique", t.Start, t.UniqueGeometry)
	}
	for _, b := range m.Block {
		add(b.SpamFile, "spam", b.Start, b.SpamGeometry)
		add(b.RevokedFile, "revoked", b.Start, b.RevokedGeometry)
		add(b.ListedFile, listedArray, b.Start, b.SpamGeometry)
		add(b.UnlistedFile, unlistedArray, b.Start, b.RevokedGeometry)
		add(b.WeightsFile, "weights", b.Start, b.WeightsGeometry)
		add(b.VotesFile, "votes", b.Start, b.VotesGeometry)
		add(b.NamesFile, "names", b.Start, b.NamesGeometry)
	}
	for _, o := range m.Origins {
		for _, a := range o.Arrays {
			out = append(out, arrayFile{name: a.File, array: string(a.Array), origin: o.ID, start: a.Start,
				geometry: a.Geometry})
		}
	}
	return out
}

// Inspect returns the doubts that the faults of a store cause. It changes nothing and needs no key:
// the checkpoint itself describes its arrays.
func Inspect(n *store.Inspection) ([]Doubt, error) {
	if !n.Readable {
		return nil, nil
	}
	var m meta
	if len(n.Manifest.Meta) > 0 {
		if err := json.Unmarshal(n.Manifest.Meta, &m); err != nil {
			return nil, pages.Damaged("manifest", err)
		}
	}
	bad := make(map[string]bool)
	var doubts []Doubt
	for _, f := range n.Faults {
		if f.Name != "" {
			bad[f.Name] = true
		}
		if f.Lost() > 0 {
			doubts = append(doubts, Doubt{Array: "journal", First: f.First, Last: f.Last})
		}
	}
	for _, a := range m.arrays() {
		if !bad[a.name] {
			continue
		}
		lost, err := a.scan(n, func(*arrays.Image) error { return nil })
		if err != nil {
			return doubts, err
		}
		doubts = append(doubts, lost...)
	}
	for _, name := range []string{m.Accounts, m.Ballots} {
		if _, whole := n.Whole(name); name != "" && bad[name] && !whole {
			doubts = append(doubts, Doubt{Array: name})
		}
	}
	return doubts, nil
}

// scan calls fn for the readable pages of a damaged file.
func (a *arrayFile) scan(n *store.Inspection, fn func(*arrays.Image) error) ([]Doubt, error) {
	lost, err := pages.Salvage(n, a.name, a.geometry, a.start, fn)
	if err != nil {
		return nil, err
	}
	var out []Doubt
	for _, l := range lost {
		if n := len(out); n > 0 && out[n-1].Page+out[n-1].Pages == l.Page && out[n-1].Stale == l.Stale {
			out[n-1].Pages++
			out[n-1].Keys += l.Keys
			continue
		}
		out = append(out, Doubt{Array: a.array, Start: a.start, Origin: a.origin, Page: l.Page, Pages: 1, Keys: l.Keys,
			Stale: l.Stale})
	}
	return out, nil
}
