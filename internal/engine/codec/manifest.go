package codec

import (
	"fmt"
	"slices"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/engine/book"
	"github.com/bulkhead-mail/bulkhead/internal/engine/learned"
	"github.com/bulkhead-mail/bulkhead/internal/engine/replica"
)

// A Meta is the engine's data in the manifest of a checkpoint.
type Meta struct {
	Version       int         `json:"version"`
	KeyID         uint64      `json:"key_id"` // of the network's secret
	Tally         []TallyMeta `json:"tally"`
	Block         []BlockMeta `json:"blocklist"`
	Accounts      string      `json:"accounts"`          // file
	Ballots       string      `json:"ballots,omitempty"` // file; an older version has none
	AccountsIndex uint64      `json:"accounts_index"`
	TallyFrom     uint64      `json:"tally_from,omitempty"` // see rotation
	BlockFrom     uint64      `json:"block_from,omitempty"`

	// Clock is the time by which generations open, Unix seconds; absent in older versions.
	Clock uint64 `json:"clock,omitempty"`
	// Wrong is, while the clock is wrong, the first start of the generations of the tally and of the blocklist that are
	// open during that time.
	Wrong *[2]uint64 `json:"wrong_clock,omitempty"`

	Origins []replica.Stored `json:"origins,omitempty"`

	Learned *learned.Manifest `json:"learned,omitempty"` // absent if the node does not learn

	Doubts []Doubt `json:"doubts,omitempty"` // since a salvage
	Wounds string  `json:"wounds,omitempty"` // file

	Term Term `json:"term,omitzero"` // of the node that decides; absent if there never was a standby

	// Link is [store.Position].Link after the last entry of the journal that the checkpoint covers; 0 if the node has
	// no shared journal.
	Link uint64 `json:"journal_link,omitempty"`
}

// A TallyMeta is a generation of the tally, and its files.
type TallyMeta struct {
	book.TallySpec
	Votes      uint64 `json:"votes,omitempty"` // in version 1: now UniqueCapacity
	CountsFile string `json:"counts_file"`
	UniqueFile string `json:"unique_file"`
}

// A BlockMeta is a generation of the blocklist, and its files.
type BlockMeta struct {
	book.BlockSpec
	SpamFile    string `json:"spam_file"`
	RevokedFile string `json:"revoked_file"`
	WeightsFile string `json:"weights_file"` // this and what follows: not in version 1
	VotesFile   string `json:"votes_file"`
	NamesFile   string `json:"names_file"`
	// With a floor, SpamFile and RevokedFile hold the filters that peers see, and these files hold
	// the filters that the node acts upon.
	ListedFile   string `json:"listed_file,omitempty"`
	UnlistedFile string `json:"unlisted_file,omitempty"`
}

// MetaVersion is the version of [Meta] that this program writes. It is 2 since votes are in the
// generations of the blocklist; see [Meta.Convert] for version 1.
const MetaVersion = 2

// Convert converts m from an older version. In version 1 votes were in the tally's
// generations and are dropped: the signatures that they listed stay listed until a vote objects.
func (m *Meta) Convert(block *book.BlockKeeper) error {
	if m.Version == MetaVersion {
		return nil
	}
	if m.Version != 1 {
		return fmt.Errorf("engine: written by a newer version: the data folder has format %d, this program reads 1 and %d",
			m.Version, MetaVersion)
	}
	for i := range m.Tally {
		m.Tally[i].UniqueCapacity = m.Tally[i].Votes
	}
	for i := range m.Block {
		b := &m.Block[i]
		had := b.BlockSpec
		spec, err := block.Least(had.Start)
		if err != nil {
			return err
		}
		spec.Capacity, spec.SpamGeometry, spec.RevokedGeometry = had.Capacity, had.SpamGeometry, had.RevokedGeometry
		b.BlockSpec = spec
	}
	return nil
}

// An ArrayFile is a checkpoint's file with an array in it.
type ArrayFile struct {
	Name     string // of the file
	Array    string
	Origin   string // key of the peer whose array it is; "" for the node's own
	Start    uint64 // of the generation, Unix seconds
	Geometry filter.Geometry
}

// Arrays returns the files of all arrays.
func (m *Meta) Arrays() (out []ArrayFile) {
	add := func(name, array string, start uint64, g filter.Geometry) {
		if name != "" { // of an older version, see [Meta.Convert], or without a floor
			out = append(out, ArrayFile{Name: name, Array: array, Start: start, Geometry: g})
		}
	}
	for _, t := range m.Tally {
		add(t.CountsFile, "counts", t.Start, t.CountsGeometry)
		add(t.UniqueFile, "unique", t.Start, t.UniqueGeometry)
	}
	for _, b := range m.Block {
		add(b.SpamFile, "spam", b.Start, b.SpamGeometry)
		add(b.RevokedFile, "revoked", b.Start, b.RevokedGeometry)
		add(b.ListedFile, book.ListedArray, b.Start, b.SpamGeometry)
		add(b.UnlistedFile, book.UnlistedArray, b.Start, b.RevokedGeometry)
		add(b.WeightsFile, "weights", b.Start, b.WeightsGeometry)
		add(b.VotesFile, "votes", b.Start, b.VotesGeometry)
		add(b.NamesFile, "names", b.Start, b.NamesGeometry)
	}
	for _, o := range m.Origins {
		for _, a := range o.Arrays {
			out = append(out, ArrayFile{Name: a.File, Array: string(a.Array), Origin: o.ID, Start: a.Start,
				Geometry: a.Geometry})
		}
	}
	return out
}

// SumsOf returns the name of the file with the sums of an array file's pages.
func SumsOf(file string) string { return "sums-" + file }

// IsShared reports whether peers have replicas of an array.
func IsShared(array string) bool { return slices.Contains(SharedArrays[:], replica.Array(array)) }
