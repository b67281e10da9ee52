// Package codec encodes and decodes what the engine makes durable: the entries of the journal, and
// the manifest of a checkpoint. It has the formats and no behaviour. Bytes may come from a damaged
// disk, so every decoder checks what it reads.
package codec

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/bulkhead-mail/bulkhead/internal/engine/book"
	"github.com/bulkhead-mail/bulkhead/internal/engine/replica"
	"github.com/bulkhead-mail/bulkhead/internal/trust"
)

// A journal entry is one byte of kind, one of version, and a body. The body is binary for votes,
// which are the decisions of one batch, and for parts of peers. It is JSON for all other kinds,
// which are small and rare. Source: docs/specs/journal.md#entries.
const (
	kindVotes    byte = 'V'
	kindRotation byte = 'R'
	kindAccount  byte = 'A'
	kindOrigins  byte = 'O'
	kindRemote   byte = 'M'
	kindForget   byte = 'F'
	kindRenew    byte = 'N'
	kindHeal     byte = 'H'
	kindTerm     byte = 'T'
	entryVersion byte = 5 // up to 4 votes were in the tally's generations
)

// ErrEntry means that an entry is malformed. ErrOldEntry means that version 0.1 wrote it.
var (
	ErrEntry = errors.New("engine: malformed journal entry")
	// ErrNewer is ErrEntry of an entry that a newer version wrote.
	ErrNewer    = fmt.Errorf("%w: written by a newer version", ErrEntry)
	ErrOldEntry = errors.New("engine: journal entry of version 0.1")
)

// An Entry is the body of a journal entry: a pointer to one of the types of this package.
type Entry interface {
	// Append appends the encoded entry, with its kind and version, to b.
	Append(b []byte) ([]byte, error)
}

// A Rotation opens and drops generations.
type Rotation struct {
	OpenTally *book.TallySpec `json:"open_tally,omitempty"`
	OpenBlock *book.BlockSpec `json:"open_block,omitempty"`
	DropTally []uint64        `json:"drop_tally,omitempty"`
	DropBlock []uint64        `json:"drop_block,omitempty"`
	// The starts below which generations were dropped for lack of memory.
	TallyFrom uint64 `json:"tally_from,omitempty"`
	BlockFrom uint64 `json:"block_from,omitempty"`
	// Generations that start at these times or later age from Aged on: the clock was wrong while they were open.
	TallySince uint64 `json:"tally_since,omitempty"`
	BlockSince uint64 `json:"block_since,omitempty"`
	Aged       uint64 `json:"aged,omitempty"`
}

// Tally returns the change of the tally.
func (r *Rotation) Tally() book.Change[book.TallySpec] {
	return book.Change[book.TallySpec]{Open: r.OpenTally, Drop: r.DropTally, From: r.TallyFrom,
		Since: r.TallySince, Aged: r.Aged}
}

// Block returns the change of the blocklist.
func (r *Rotation) Block() book.Change[book.BlockSpec] {
	return book.Change[book.BlockSpec]{Open: r.OpenBlock, Drop: r.DropBlock, From: r.BlockFrom,
		Since: r.BlockSince, Aged: r.Aged}
}

// An Account puts or removes an account: one of the two.
type Account struct {
	Put    *trust.Account `json:"put,omitempty"`
	Remove string         `json:"remove,omitempty"`
}

// Origins are all origins that count from now on.
type Origins struct {
	Origins []replica.Origin `json:"origins"`
}

// A Forget drops the generations of an origin's replica that started at or after Since, in Unix
// seconds.
type Forget struct {
	Origin string `json:"origin"`
	Since  uint64 `json:"since"`
}

// A Renew is a new incarnation of an origin, or its new name.
type Renew struct {
	Origin      string `json:"origin"`
	Incarnation uint64 `json:"incarnation,omitempty"`
	To          string `json:"to,omitempty"`
	// Superseded is arrays of former incarnations that are dropped.
	Superseded []replica.Key `json:"superseded,omitempty"`
}

// A Heal is a healed page, or the end of healing.
type Heal struct {
	Array replica.Array `json:"array,omitempty"`
	Start uint64        `json:"start,omitempty"` // of the generation, Unix seconds
	Image []byte        `json:"image,omitempty"` // of the page, with all later adds to it
	End   bool          `json:"end,omitempty"`   // the pages that are still missing are given up
}

// A Term is the time during which one node of a pair decides. Each take-over begins the next one.
type Term struct {
	Number uint64 `json:"number"`         // counted from 1; 0: there never was a standby
	From   uint64 `json:"from,omitempty"` // index of its first entry; in a checkpoint only
}

// Append implements [Entry].
func (r *Rotation) Append(b []byte) ([]byte, error) { return appendJSON(b, kindRotation, r) }

// Append implements [Entry].
func (a *Account) Append(b []byte) ([]byte, error) { return appendJSON(b, kindAccount, a) }

// Append implements [Entry].
func (o *Origins) Append(b []byte) ([]byte, error) { return appendJSON(b, kindOrigins, o) }

// Append implements [Entry].
func (f *Forget) Append(b []byte) ([]byte, error) { return appendJSON(b, kindForget, f) }

// Append implements [Entry].
func (r *Renew) Append(b []byte) ([]byte, error) { return appendJSON(b, kindRenew, r) }

// Append implements [Entry].
func (h *Heal) Append(b []byte) ([]byte, error) { return appendJSON(b, kindHeal, h) }

// Append implements [Entry].
func (t *Term) Append(b []byte) ([]byte, error) { return appendJSON(b, kindTerm, t) }

func appendJSON(b []byte, kind byte, body any) ([]byte, error) {
	data, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("engine: journal entry: %w", err)
	}
	return append(append(b, kind, entryVersion), data...), nil
}

// Decode reads a journal entry. The entry may retain data. Errors wrap [ErrEntry] or [ErrOldEntry].
func Decode(data []byte) (Entry, error) {
	if len(data) < 2 {
		return nil, fmt.Errorf("%w: %d bytes", ErrEntry, len(data))
	}
	if data[1] < entryVersion {
		return nil, fmt.Errorf("%w: kind %q, version %d", ErrOldEntry, data[0], data[1])
	}
	if data[1] != entryVersion {
		return nil, fmt.Errorf("%w: format %d, this program reads up to %d", ErrNewer, data[1], entryVersion)
	}
	var body Entry
	switch data[0] {
	case kindVotes:
		return decodeVotes(data[2:])
	case kindRemote:
		return decodeRemote(data[2:])
	case kindRotation:
		body = new(Rotation)
	case kindAccount:
		body = new(Account)
	case kindOrigins:
		body = new(Origins)
	case kindForget:
		body = new(Forget)
	case kindRenew:
		body = new(Renew)
	case kindHeal:
		body = new(Heal)
	case kindTerm:
		body = new(Term)
	default:
		return nil, fmt.Errorf("%w: kind %q", ErrNewer, data[0])
	}
	if err := json.Unmarshal(data[2:], body); err != nil {
		return nil, fmt.Errorf("%w: %v", ErrEntry, err)
	}
	return body, nil
}
