package codec

import (
	"fmt"
	"time"
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
