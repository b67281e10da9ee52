// Package heal finds what a damaged store has lost, and restores it from a backup or from peers.
package heal

import (
	"encoding/json"
	"slices"

	"github.com/bulkhead-mail/bulkhead/internal/arrays"
	"github.com/bulkhead-mail/bulkhead/internal/engine/codec"
	"github.com/bulkhead-mail/bulkhead/internal/engine/pages"
	"github.com/bulkhead-mail/bulkhead/internal/store"
)

// A Doubt is a part of the data that may differ from the acknowledged data.
type Doubt = codec.Doubt

// Inspect returns the doubts that the faults of a store cause. It changes nothing and needs no key:
// the checkpoint itself describes its arrays.
func Inspect(n *store.Inspection) ([]Doubt, error) {
	if !n.Readable {
		return nil, nil
	}
	var m codec.Meta
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
	for _, a := range m.Arrays() {
		if !bad[a.Name] {
			continue
		}
		lost, err := scan(&a, n, func(*arrays.Image) error { return nil })
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
func scan(a *codec.ArrayFile, n *store.Inspection, fn func(*arrays.Image) error) ([]Doubt, error) {
	lost, err := pages.Salvage(n, a.Name, a.Geometry, a.Start, fn)
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
		out = append(out, Doubt{Array: a.Array, Start: a.Start, Origin: a.Origin, Page: l.Page, Pages: 1, Keys: l.Keys,
			Stale: l.Stale})
	}
	return out, nil
}

// Known returns the doubts since an earlier salvage that the checkpoint of a store records.
func Known(n *store.Inspection) []Doubt {
	var m codec.Meta
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
