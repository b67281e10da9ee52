package engine

import (
	"time"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/arrays"
	"github.com/bulkhead-mail/bulkhead/internal/engine/book"
	"github.com/bulkhead-mail/bulkhead/internal/engine/learned"
	"github.com/bulkhead-mail/bulkhead/internal/engine/verdict"
)

// Info is the state of a node for administrators and metrics.
type Info struct {
	Tally     []GenerationInfo `json:"tally"`     // newest first
	Blocklist []GenerationInfo `json:"blocklist"` // newest first
	Threshold uint32           `json:"threshold"`
	Accounts  int              `json:"accounts"`
	Learned   learned.State    `json:"learned"` // of words and style
	Bytes     uint64           `json:"bytes"`   // memory of all arrays
	Mature    bool             `json:"mature"`  // see [verdict.Mature]
	Step      verdict.Step     `json:"step"`
	Refusing  string           `json:"refusing"` // why reports are refused, "" if they are accepted
	Doubts    []Doubt          `json:"doubts"`   // data that may be lower than acknowledged
	Healings  []Healing        `json:"healings"` // see [Engine.Healings]

	Checks      uint64 `json:"checks"`  // since the start, like all below
	Reports     uint64 `json:"reports"` // taken
	Refused     uint64 `json:"refused"`
	Entries     uint64 `json:"journal_entries"`
	Checkpoints uint64 `json:"checkpoints"`
	Recoveries  uint64 `json:"recoveries"` // from failed writes
	Forgotten   uint64 `json:"forgotten"`  // generations dropped early for lack of memory
	Gatherings  uint64 `json:"gatherings"` // see [resolve.Gathering]
}

// GenerationInfo is the state of one generation of a book.
type GenerationInfo struct {
	Start    time.Time   `json:"start"`
	Capacity uint64      `json:"capacity"` // signatures it was sized for
	Arrays   []ArrayInfo `json:"arrays"`
}

// ArrayInfo is the state of one array.
type ArrayInfo struct {
	// of the tally: counts or unique; of the blocklist: spam, revoked, weights, votes or names, and
	// with a floor also listed or unlisted
	Name     string  `json:"name"`
	Geometry string  `json:"geometry"`
	Keys     uint64  `json:"keys"`  // approximate number of distinct keys
	Fill     float64 `json:"fill"`  // share of its cells or bits that are in use, 0..1
	Bytes    uint64  `json:"bytes"` // memory
	// The expected errors at the present fill, in 0..1; of bits, Ghost alone.
	Ghost      float64 `json:"ghost"`       // an absent key is found
	CountWrong float64 `json:"count_wrong"` // a count is too high
	BulkWrong  float64 `json:"bulk_wrong"`  // an absent key shows the threshold
}

// Info returns the node's state. It scans the arrays, so it must not be called for each request.
func (e *Engine) Info() Info {
	books := e.current.Books()
	info := Info{
		Threshold:   e.checker.Threshold(),
		Accounts:    e.accounts.Len(),
		Doubts:      e.Doubts(),
		Healings:    e.Healings(),
		Checks:      e.checker.Checks(),
		Reports:     e.counters.reports.Load(),
		Refused:     e.counters.refused.Load(),
		Entries:     e.journal.entries.Load(),
		Checkpoints: e.counters.checkpoints.Load(),
		Recoveries:  e.counters.recoveries.Load(),
		Forgotten:   e.counters.forgotten.Load(),
		Gatherings:  e.counters.gatherings.Load(),
		Mature:      e.checker.Sources().Mature,
		Step:        e.checker.Step(),
		Learned:     e.learned.State(),
	}
	info.Bytes = info.Learned.Bytes
	if err := e.journal.refusing(); err != nil {
		info.Refusing = err.Error()
	}
	for _, g := range books.Tally.Live {
		info.Tally = append(info.Tally, info.generation(g.Start, g.Capacity,
			arrayInfo("counts", g.CountsGeometry, g.Counts.Stats()), arrayInfo("unique", g.UniqueGeometry, g.Unique.Stats())))
	}
	for _, g := range books.Block.Live {
		spam, revoked := g.Shared()
		arrays := []ArrayInfo{
			arrayInfo("spam", g.SpamGeometry, spam.Stats()), arrayInfo("revoked", g.RevokedGeometry, revoked.Stats()),
			arrayInfo("weights", g.WeightsGeometry, g.Weights.Stats()), arrayInfo("votes", g.VotesGeometry, g.Votes.Stats()),
			arrayInfo("names", g.NamesGeometry, g.Names.Stats()),
		}
		if g.Floor > 0 {
			arrays = append(arrays, arrayInfo(book.ListedArray, g.SpamGeometry, g.Spam.Stats()),
				arrayInfo(book.UnlistedArray, g.RevokedGeometry, g.Revoked.Stats()))
		}
		info.Blocklist = append(info.Blocklist, info.generation(g.Start, g.Capacity, arrays...))
	}
	return info
}

func (info *Info) generation(start, capacity uint64, arrays ...ArrayInfo) GenerationInfo {
	for _, a := range arrays {
		info.Bytes += a.Bytes
	}
	return GenerationInfo{Start: time.Unix(int64(start), 0).UTC(), Capacity: capacity, Arrays: arrays}
}

func arrayInfo(name string, g filter.Geometry, s arrays.Stats) ArrayInfo {
	return ArrayInfo{Name: name, Geometry: g.String(), Keys: s.Keys, Fill: s.Fill, Bytes: s.Bytes, Ghost: s.Ghost,
		CountWrong: s.CountWrong, BulkWrong: s.BulkWrong}
}
