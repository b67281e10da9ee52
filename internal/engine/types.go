package engine

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

	"github.com/bulkhead-mail/bulkhead/internal/engine/book"
	"github.com/bulkhead-mail/bulkhead/internal/engine/check"
	"github.com/bulkhead-mail/bulkhead/internal/engine/codec"
	"github.com/bulkhead-mail/bulkhead/internal/engine/heal"
	"github.com/bulkhead-mail/bulkhead/internal/engine/keys"
	"github.com/bulkhead-mail/bulkhead/internal/engine/pages"
	"github.com/bulkhead-mail/bulkhead/internal/engine/replica"
	"github.com/bulkhead-mail/bulkhead/internal/store"
	"github.com/bulkhead-mail/bulkhead/internal/trust"
)

// Types of package book for the node's own books.
type (
	BookOptions = book.Options // the shape of one book
	BookPlan    = book.Plan    // the share of a book in a [Plan]
)

// Types of package check for the whitelist.
type (
	Whitelist        = check.Whitelist
	WhitelistEntries = check.WhitelistEntries
)

// NewWhitelist returns the whitelist with the given entries, or an error that names the
// first invalid entry.
func NewWhitelist(e WhitelistEntries) (*Whitelist, error) { return check.NewWhitelist(e) }

// Types of package replica for the data of peers.
type (
	Array        = replica.Array
	ArrayKey     = replica.Key
	ArrayState   = replica.ArrayState
	Part         = replica.Part
	Parsed       = replica.Parsed
	Origin       = replica.Origin
	Need         = replica.Need
	RemoteMemory = replica.Memory
	// FormerIncarnation is the replica of an incarnation that its origin has lost.
	FormerIncarnation = replica.Former
)

// The arrays that are shared.
const (
	ArrayCounts  = replica.ArrayCounts
	ArraySpam    = replica.ArraySpam
	ArrayRevoked = replica.ArrayRevoked
)

// ErrGap means that a part does not continue its replica. Images of the whole array close the gap.
var ErrGap = replica.ErrGap

// Types of package heal for the data that a damaged store has lost.
type (
	Doubt   = heal.Doubt
	Wounds  = heal.Wounds
	Wound   = heal.Wound
	Healing = heal.Healing
)

// A Term is the time during which one node of a pair decides; see [Engine.Promote].
type Term = codec.Term

// Broker takes the place of a peer in a [Healing] if the pages come from the node's own messages
// that a broker had stored.
const Broker = heal.Broker

// ErrOtherPage means that a page is not the one that was lost.
var ErrOtherPage = heal.ErrOtherPage

// Inspect returns the doubts that the faults of a store cause. It changes nothing and needs no key:
// the checkpoint itself describes its arrays.
func Inspect(n *store.Inspection) ([]Doubt, error) { return heal.Inspect(n) }

// Known returns the doubts since an earlier salvage that the checkpoint of a store records.
func Known(n *store.Inspection) []Doubt { return heal.Known(n) }

// Former returns the format of a checkpoint that an older version wrote, by the Meta of its manifest; 0 if
// this version wrote it, or there is none.
func Former(meta []byte) int {
	var m struct {
		Version int `json:"version"`
	}
	if len(meta) == 0 || json.Unmarshal(meta, &m) != nil || m.Version >= codec.MetaVersion {
		return 0
	}
	return m.Version
}

// Limits.
const (
	// MaxSignatures is the largest number of signatures in one query or report.
	MaxSignatures = check.MaxSignatures
	// MaxSecrets is the maximum number of secrets that the generations of a node may have been made
	// with.
	MaxSecrets = keys.MaxSecrets
	// maxRound is the maximum number of adds in a round of the node's own: about 26 kB, so that a slow link
	// passes on one in a quarter of a minute. Peers may send rounds of up to codec.MaxRound.
	maxRound = 1 << 12
)

// An Owner describes the node that a store belongs to.
type Owner struct {
	Networks []uint64 // IDs of the secrets that its arrays were made with
	Tokens   [][]byte // hashes of the accounts' tokens, including those of accounts that are closed
}

// OwnerOf returns the owner of a store without faults, by its checkpoint and the journal entries after
// it. It changes nothing and needs no key.
func OwnerOf(ctx context.Context, n *store.Inspection) (o Owner, err error) {
	ids := make(map[uint64]bool)
	accounts := trust.NewBook(trust.DefaultPolicy())
	index := uint64(0) // of the last entry that is in the accounts of the checkpoint
	if len(n.Manifest.Meta) > 0 {
		var m codec.Meta
		if err := json.Unmarshal(n.Manifest.Meta, &m); err != nil {
			return o, pages.Damaged("manifest", err)
		}
		index = m.AccountsIndex
		for _, a := range m.Arrays() {
			if a.Origin == "" {
				ids[a.Geometry.KeyID] = true
			}
		}
		if data, ok := n.Whole(m.Accounts); ok {
			if err := accounts.Decode(data); err != nil {
				return o, pages.Damaged(m.Accounts, err)
			}
		}
	}
	err = n.Replay(ctx, func(at uint64, data []byte) error {
		entry, err := codec.Decode(data)
		if err != nil {
			return err
		}
		switch x := entry.(type) {
		case *codec.Account:
			if at <= index {
				return nil
			}
			if x.Put != nil {
				return accounts.Put(*x.Put)
			}
			accounts.Remove(x.Remove)
		case *codec.Rotation:
			if x.OpenTally != nil {
				ids[x.OpenTally.CountsGeometry.KeyID] = true
			}
		}
		return nil
	})
	o.Networks = slices.Sorted(maps.Keys(ids))
	for _, a := range accounts.All() {
		o.Tokens = append(o.Tokens, a.TokenHash)
	}
	return o, err
}

// A Refill is an earlier state of the same node, from a backup, from which a damaged node is
// repaired.
type Refill struct {
	// From has every entry of the journal up to Index, and none after it.
	From  *Engine
	Index uint64
}
