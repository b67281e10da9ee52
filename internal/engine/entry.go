package engine

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/engine/ballots"
	"github.com/bulkhead-mail/bulkhead/internal/engine/resolve"
	"github.com/bulkhead-mail/bulkhead/internal/trust"
)

// A journal entry is one byte of kind, one of version, and a body. The body is binary for votes,
// which are the decisions of one batch, and for parts of peers. It is JSON for all other kinds,
// which are small and rare. Source: docs/specs/journal.md#entries.
const (
	entryVotes    byte = 'V'
	entryRotation byte = 'R'
	entryAccount  byte = 'A'
	entryOrigins  byte = 'O'
	entryRemote   byte = 'M'
	entryForget   byte = 'F'
	entryRenew    byte = 'N'
	entryHeal     byte = 'H'
	entryVersion  byte = 5 // up to 4 votes were in the tally's generations
)

var (
	errEntry    = errors.New("engine: malformed journal entry")
	errOldEntry = errors.New("engine: journal entry of a version before 0.1.0")
)

// votes are the decisions about a batch of reports: the body of a votes entry.
type votes resolve.Decisions

func appendKey(b []byte, k filter.Key) []byte {
	b = binary.LittleEndian.AppendUint64(b, k.Hi)
	return binary.LittleEndian.AppendUint64(b, k.Lo)
}

const keyBytes = 16

// appendEntry appends the journal entry of v to b.
func (v *votes) appendEntry(b []byte) []byte {
	b = append(b, entryVotes, entryVersion)
	b = binary.AppendUvarint(b, v.TallyGen)
	b = binary.AppendUvarint(b, v.BlockGen)
	for _, a := range []*resolve.Adds{&v.Counts, &v.Names, &v.Weights} {
		b = appendAdds(b, a)
	}
	b = binary.AppendUvarint(b, uint64(len(v.Late)))
	for i := range v.Late {
		b = binary.AppendUvarint(b, v.Late[i].Gen)
		b = appendAdds(b, &v.Late[i].Adds)
	}
	for _, keys := range [][]filter.Key{v.Unique, v.Voted, v.Spam, v.Revoked} {
		b = appendKeys(b, keys)
	}
	b = binary.AppendUvarint(b, uint64(len(v.Credits)))
	for _, c := range v.Credits {
		b = binary.AppendUvarint(b, uint64(len(c.Account)))
		b = append(b, c.Account...)
		for _, n := range []uint32{c.Confirmed, c.Reverted, c.Day, c.Network, c.By} {
			b = binary.AppendUvarint(b, uint64(n))
		}
	}
	b = binary.AppendUvarint(b, uint64(len(v.Ballots)))
	for i := range v.Ballots {
		b = v.Ballots[i].Append(b)
	}
	if len(v.ToldSpam)+len(v.ToldRevoked) > 0 {
		b = appendKeys(appendKeys(b, v.ToldSpam), v.ToldRevoked)
	}
	return b
}

func appendKeys(b []byte, keys []filter.Key) []byte {
	b = binary.AppendUvarint(b, uint64(len(keys)))
	for _, k := range keys {
		b = appendKey(b, k)
	}
	return b
}

func appendAdds(b []byte, a *resolve.Adds) []byte {
	b = binary.AppendUvarint(b, uint64(len(a.Keys)))
	for i, k := range a.Keys {
		b = appendKey(b, k)
		b = binary.AppendUvarint(b, uint64(a.N[i]))
	}
	return b
}

// decoder reads a binary body; after the first error every read returns zero.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) fail() { d.bad, d.b = true, nil }

func (d *decoder) uvarint() uint64 {
	x, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.fail()
	} else {
		d.b = d.b[n:]
	}
	return x
}

// count reads a number of items, each of at least size bytes, and checks that allocating them is
// safe.
func (d *decoder) count(size int) (n int) {
	x := d.uvarint()
	if x > uint64(len(d.b)/size) {
		d.fail()
		return n
	}
	return int(x)
}

// bytes returns the next n bytes, or nil if there are fewer.
func (d *decoder) bytes(n uint64) []byte {
	if n > uint64(len(d.b)) {
		d.fail()
		return nil
	}
	out := d.b[:n:n]
	d.b = d.b[n:]
	return out
}

func (d *decoder) byte() (x byte) {
	if b := d.bytes(1); b != nil {
		x = b[0]
	}
	return x
}

func (d *decoder) uint64() (x uint64) {
	if b := d.bytes(8); b != nil {
		x = binary.LittleEndian.Uint64(b)
	}
	return x
}

func (d *decoder) key() filter.Key { return filter.Key{Hi: d.uint64(), Lo: d.uint64()} }

func (d *decoder) keys() []filter.Key {
	keys := make([]filter.Key, d.count(keyBytes))
	for i := range keys {
		keys[i] = d.key()
	}
	return keys
}

func (d *decoder) adds() resolve.Adds {
	size := d.count(keyBytes + 1)
	a := resolve.Adds{Keys: make([]filter.Key, size), N: make([]uint32, size)}
	for i := range a.Keys {
		a.Keys[i] = d.key()
		a.N[i] = d.small(filter.Many)
	}
	return a
}

func (d *decoder) small(limit uint64) uint32 {
	x := d.uvarint()
	d.bad = d.bad || x > limit
	return uint32(x)
}

// decodeVotes reads the output of appendEntry without its first two bytes.
func decodeVotes(body []byte) (*votes, error) {
	d := &decoder{b: body}
	v := &votes{TallyGen: d.uvarint(), BlockGen: d.uvarint(), Counts: d.adds(), Names: d.adds(), Weights: d.adds()}
	if n := d.count(2); n > 0 {
		v.Late = make([]resolve.Late, n)
	}
	for i := range v.Late {
		v.Late[i].Gen = d.uvarint()
		v.Late[i].Adds = d.adds()
	}
	v.Unique, v.Voted, v.Spam, v.Revoked = d.keys(), d.keys(), d.keys(), d.keys()
	v.Credits = make([]trust.Credit, d.count(6))
	for i := range v.Credits {
		c := &v.Credits[i]
		c.Account = string(d.bytes(d.uvarint()))
		for _, n := range []*uint32{&c.Confirmed, &c.Reverted, &c.Day, &c.Network, &c.By} {
			*n = d.small(1<<32 - 1)
		}
	}
	v.Ballots = make([]ballots.Ballot, d.count(10))
	for i := range v.Ballots {
		if d.bad {
			break
		}
		var err error
		if v.Ballots[i], d.b, err = ballots.Read(d.b); err != nil {
			d.bad = true
		}
	}
	if !d.bad && len(d.b) > 0 {
		v.ToldSpam, v.ToldRevoked = d.keys(), d.keys()
		d.bad = d.bad || len(v.ToldSpam)+len(v.ToldRevoked) == 0 // must be left out if there are none
	}
	if d.bad || len(d.b) != 0 {
		return nil, fmt.Errorf("%w: votes of %d bytes", errEntry, len(body))
	}
	return v, nil
}

func encodeJSONEntry(kind byte, body any) ([]byte, error) {
	data, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("engine: journal entry: %w", err)
	}
	return append([]byte{kind, entryVersion}, data...), nil
}

// An entry is the body of a journal entry.
type entry interface {
	// apply applies the entry with the given index, on start or once it is durable.
	apply(e *Engine, index uint64) error
}

// decodeEntry reads a journal entry.
func decodeEntry(data []byte) (entry, error) {
	if len(data) < 2 {
		return nil, fmt.Errorf("%w: %d bytes", errEntry, len(data))
	}
	if data[1] < entryVersion {
		return nil, fmt.Errorf("%w: kind %q, version %d", errOldEntry, data[0], data[1])
	}
	if data[1] != entryVersion {
		return nil, fmt.Errorf("%w: version %d, this program reads up to %d", errEntry, data[1], entryVersion)
	}
	if data[0] == entryVotes {
		return decodeVotes(data[2:])
	}
	if data[0] == entryRemote {
		return decodeRemote(data[2:])
	}
	var body entry
	switch data[0] {
	case entryRotation:
		body = new(rotation)
	case entryAccount:
		body = new(accountChange)
	case entryOrigins:
		body = new(originsChange)
	case entryForget:
		body = new(forgetChange)
	case entryRenew:
		body = new(renewChange)
	case entryHeal:
		body = new(healed)
	default:
		return nil, fmt.Errorf("%w: kind %q", errEntry, data[0])
	}
	if err := json.Unmarshal(data[2:], body); err != nil {
		return nil, fmt.Errorf("%w: %v", errEntry, err)
	}
	return body, nil
}
