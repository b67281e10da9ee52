package engine

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/trust"
)

// A journal entry is one byte that names its kind, one byte of version, and a
// body: of votes, the decisions of one batch, and of parts of peers, binary; of all
// others, which are small and rare, JSON. Source: docs/specs/journal.md#entries.
const (
	entryVotes    byte = 'V'
	entryRotation byte = 'R'
	entryAccount  byte = 'A'
	entryOrigins  byte = 'O'
	entryRemote   byte = 'M'
	entryForget   byte = 'F'
	entryRenew    byte = 'N'
	entryVersion  byte = 5 // up to 4 votes were in the tally's generations
)

var (
	errEntry    = errors.New("engine: malformed journal entry")
	errOldEntry = errors.New("engine: journal entry of a version before 0.1.0")
)

// adds are increases of the cells of a counting array.
type adds struct {
	keys []filter.Key
	n    []uint32
}

func (a *adds) add(k filter.Key, n uint32) { a.keys, a.n = append(a.keys, k), append(a.n, n) }

func (a *adds) reset() { a.keys, a.n = a.keys[:0], a.n[:0] }

// votes is what a batch of reports was decided to do: the body of a votes
// entry.
type votes struct {
	tallyGen, blockGen uint64 // generations that take the votes
	// Of the tally.
	counts adds
	unique []filter.Key
	// Of the blocklist.
	names         adds
	weights       adds
	late          []lateWeights
	voted         []filter.Key
	spam, revoked []filter.Key

	credits []trust.Credit
}

// lateWeights are increases of the weights of an older generation of the blocklist.
type lateWeights struct {
	gen uint64
	adds
}

// weigh raises a cell of the weights of a generation.
func (v *votes) weigh(gen uint64, k filter.Key, n uint32) {
	if gen == v.blockGen {
		v.weights.add(k, n)
		return
	}
	i := slices.IndexFunc(v.late, func(l lateWeights) bool { return l.gen == gen })
	if i < 0 {
		i, v.late = len(v.late), append(v.late, lateWeights{gen: gen})
	}
	v.late[i].add(k, n)
}

func (v *votes) empty() bool {
	return len(v.counts.keys)+len(v.unique)+len(v.names.keys)+len(v.weights.keys)+len(v.late)+len(v.voted)+len(v.spam)+len(v.revoked)+len(v.credits) == 0
}

func (v *votes) reset() {
	v.counts.reset()
	v.names.reset()
	v.weights.reset()
	*v = votes{
		counts: v.counts, names: v.names, weights: v.weights,
		unique: v.unique[:0], voted: v.voted[:0], spam: v.spam[:0], revoked: v.revoked[:0], credits: v.credits[:0],
	}
}

func appendKey(b []byte, k filter.Key) []byte {
	b = binary.LittleEndian.AppendUint64(b, k.Hi)
	return binary.LittleEndian.AppendUint64(b, k.Lo)
}

const keyBytes = 16

// appendEntry appends the journal entry of v to b.
func (v *votes) appendEntry(b []byte) []byte {
	b = append(b, entryVotes, entryVersion)
	b = binary.AppendUvarint(b, v.tallyGen)
	b = binary.AppendUvarint(b, v.blockGen)
	for _, a := range []*adds{&v.counts, &v.names, &v.weights} {
		b = a.append(b)
	}
	b = binary.AppendUvarint(b, uint64(len(v.late)))
	for i := range v.late {
		b = binary.AppendUvarint(b, v.late[i].gen)
		b = v.late[i].append(b)
	}
	for _, keys := range [][]filter.Key{v.unique, v.voted, v.spam, v.revoked} {
		b = binary.AppendUvarint(b, uint64(len(keys)))
		for _, k := range keys {
			b = appendKey(b, k)
		}
	}
	b = binary.AppendUvarint(b, uint64(len(v.credits)))
	for _, c := range v.credits {
		b = binary.AppendUvarint(b, uint64(len(c.Account)))
		b = append(b, c.Account...)
		for _, n := range []uint32{c.Confirmed, c.Reverted, c.Day, c.Network, c.By} {
			b = binary.AppendUvarint(b, uint64(n))
		}
	}
	return b
}

func (a *adds) append(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(a.keys)))
	for i, k := range a.keys {
		b = appendKey(b, k)
		b = binary.AppendUvarint(b, uint64(a.n[i]))
	}
	return b
}

// decoder reads a binary body; after the first error every read returns zero.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) uvarint() uint64 {
	x, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.bad, d.b = true, nil
		return 0
	}
	d.b = d.b[n:]
	return x
}

// count reads a number of items of which each takes at least size bytes, so
// that it can be trusted to allocate for.
func (d *decoder) count(size int) int {
	n := d.uvarint()
	if n > uint64(len(d.b)/size) {
		d.bad, d.b = true, nil
		return 0
	}
	return int(n)
}

// bytes returns the next n bytes, nil if there are fewer.
func (d *decoder) bytes(n uint64) []byte {
	if n > uint64(len(d.b)) {
		d.bad, d.b = true, nil
		return nil
	}
	out := d.b[:n:n]
	d.b = d.b[n:]
	return out
}

func (d *decoder) byte() byte {
	if b := d.bytes(1); b != nil {
		return b[0]
	}
	return 0
}

func (d *decoder) uint64() uint64 {
	if b := d.bytes(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (d *decoder) key() filter.Key { return filter.Key{Hi: d.uint64(), Lo: d.uint64()} }

func (d *decoder) keys() []filter.Key {
	keys := make([]filter.Key, d.count(keyBytes))
	for i := range keys {
		keys[i] = d.key()
	}
	return keys
}

func (d *decoder) adds() adds {
	size := d.count(keyBytes + 1)
	a := adds{make([]filter.Key, size), make([]uint32, size)}
	for i := range a.keys {
		a.keys[i] = d.key()
		a.n[i] = d.small(filter.Many)
	}
	return a
}

func (d *decoder) small(limit uint64) uint32 {
	x := d.uvarint()
	if x > limit {
		d.bad = true
		return 0
	}
	return uint32(x)
}

// decodeVotes reads what appendEntry wrote, without the first two bytes.
func decodeVotes(body []byte) (*votes, error) {
	d := &decoder{b: body}
	v := &votes{tallyGen: d.uvarint(), blockGen: d.uvarint(), counts: d.adds(), names: d.adds(), weights: d.adds()}
	if n := d.count(2); n > 0 {
		v.late = make([]lateWeights, n)
	}
	for i := range v.late {
		v.late[i].gen = d.uvarint()
		v.late[i].adds = d.adds()
	}
	v.unique, v.voted, v.spam, v.revoked = d.keys(), d.keys(), d.keys(), d.keys()
	v.credits = make([]trust.Credit, d.count(6))
	for i := range v.credits {
		c := &v.credits[i]
		c.Account = string(d.bytes(d.uvarint()))
		for _, n := range []*uint32{&c.Confirmed, &c.Reverted, &c.Day, &c.Network, &c.By} {
			*n = d.small(1<<32 - 1)
		}
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
	// apply does what the entry of the index says: on start, or once it is durable.
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
	default:
		return nil, fmt.Errorf("%w: kind %q", errEntry, data[0])
	}
	if err := json.Unmarshal(data[2:], body); err != nil {
		return nil, fmt.Errorf("%w: %v", errEntry, err)
	}
	return body, nil
}
