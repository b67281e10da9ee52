package logbook

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"

	"github.com/FastFilter/xorfilter"
	"github.com/dchest/siphash"
	"go.etcd.io/bbolt"

	"github.com/bulkhead-mail/bulkhead/internal/boltfile"
)

// Entries are sealed in blocks, each with a binary fuse filter of all terms of its entries. A
// search reads the entries of a block only if its filter holds the terms of the query. It finds a
// rare term among a million entries with a few reads per block.
const (
	blockRows  = 256
	blockBytes = 1 << 20 // fewer entries if they are large
)

// A block is a run of entries in the order of their IDs.
type block struct {
	first, last uint64
	rows, bytes int
	filter      xorfilter.BinaryFuse[uint8] // of terms; empty: it could not be built
}

// headBytes is the length of a stored block without the fingerprints of its filter.
const headBytes = 1 + 8 + 4 + 4 + 8 + 4*4

// encode returns the stored form of a block, whose key is its first ID.
func (b *block) encode() []byte {
	f := &b.filter
	out := make([]byte, 0, headBytes+len(f.Fingerprints))
	out = append(out, version)
	out = binary.LittleEndian.AppendUint64(out, b.last)
	out = binary.LittleEndian.AppendUint32(out, uint32(b.rows))
	out = binary.LittleEndian.AppendUint32(out, uint32(b.bytes))
	out = binary.LittleEndian.AppendUint64(out, f.Seed)
	for _, n := range []uint32{f.SegmentLength, f.SegmentLengthMask, f.SegmentCount, f.SegmentCountLength} {
		out = binary.LittleEndian.AppendUint32(out, n)
	}
	return append(out, f.Fingerprints...)
}

// readBlock decodes a stored block. Its filter refers to data.
func readBlock(key, data []byte) (block, error) {
	if len(key) != 8 || len(data) < headBytes || data[0] != version {
		return block{}, boltfile.ErrDamaged
	}
	le := binary.LittleEndian
	b := block{first: idOf(key), last: le.Uint64(data[1:]), rows: int(le.Uint32(data[9:])),
		bytes: int(le.Uint32(data[13:]))}
	f := &b.filter
	f.Seed = le.Uint64(data[17:])
	f.SegmentLength, f.SegmentLengthMask = le.Uint32(data[25:]), le.Uint32(data[29:])
	f.SegmentCount, f.SegmentCountLength = le.Uint32(data[33:]), le.Uint32(data[37:])
	f.Fingerprints = data[headBytes:]
	if b.last < b.first || b.last == math.MaxUint64 || !rightFilter(f) {
		return block{}, boltfile.ErrDamaged
	}
	return b, nil
}

// rightFilter reports whether a filter only reads bytes inside its fingerprints.
func rightFilter(f *xorfilter.BinaryFuse[uint8]) bool {
	n, length := uint64(len(f.Fingerprints)), uint64(f.SegmentLength)
	if n == 0 {
		return length == 0
	}
	return length > 0 && length&(length-1) == 0 && uint64(f.SegmentLengthMask) == length-1 &&
		uint64(f.SegmentCountLength) == uint64(f.SegmentCount)*length && f.SegmentCount > 0 &&
		uint64(f.SegmentCountLength)+2*length <= n
}

// holds reports whether entries of b may have all terms.
func (b *block) holds(terms []uint64) bool {
	if len(b.filter.Fingerprints) == 0 {
		return true
	}
	for _, t := range terms {
		if !b.filter.Contains(t) {
			return false
		}
	}
	return true
}

// holdsAny reports whether entries of b may have one of the terms, or there are no terms.
func (b *block) holdsAny(terms []uint64) bool {
	return len(terms) == 0 || len(b.filter.Fingerprints) == 0 || slices.ContainsFunc(terms, b.filter.Contains)
}

// seal makes blocks of the entries that are in no block.
func (b *Book) seal(tx *bbolt.Tx) error {
	rows, blocks := tx.Bucket(rowsBucket), tx.Bucket(blocksBucket)
	blocks.FillPercent = 1
	for b.tail.rows >= blockRows || b.tail.bytes >= blockBytes {
		c := rows.Cursor()
		var made block
		var terms []uint64
		for k, v := c.Seek(keyOf(lastSealed(tx) + 1)); k != nil && made.rows < blockRows && made.bytes < blockBytes; k,
			v = c.Next() {
			if made.last = idOf(k); made.rows == 0 {
				made.first = made.last
			}
			made.rows, made.bytes = made.rows+1, made.bytes+len(v)
			if e, err := decode(made.last, v); err == nil {
				terms = e.terms(terms)
			}
		}
		if made.rows == 0 { // they have expired
			b.tail = tail{}
			return nil
		}
		slices.Sort(terms)
		if f, err := xorfilter.NewBinaryFuse[uint8](slices.Compact(terms)); err == nil {
			made.filter = *f
		}
		data := made.encode()
		made.bytes += len(data)
		if err := blocks.Put(keyOf(made.first), data); err != nil {
			return err
		}
		b.tail.rows, b.tail.bytes = max(0, b.tail.rows-made.rows), max(0, b.tail.bytes-made.bytes+len(data))
	}
	return nil
}

// lastSealed returns the highest ID in a block, 0 for none.
func lastSealed(tx *bbolt.Tx) uint64 {
	k, v := tx.Bucket(blocksBucket).Cursor().Last()
	if len(v) < headBytes {
		return idOf(k)
	}
	return binary.LittleEndian.Uint64(v[1:])
}

// Kinds of terms.
const (
	doorTerm      = 'd'
	classTerm     = 'c'
	kindTerm      = 'k'
	reporterTerm  = 'r'
	domainTerm    = 'n'
	messageTerm   = 'm'
	signatureTerm = 's'
)

// term returns the hash of a value by which entries can be searched. The key need not be secret,
// because a collision only costs a few reads.
func term(kind byte, value []byte) uint64 { return siphash.Hash(0, uint64(kind), value) }

// terms appends all terms of an entry.
func (e *Entry) terms(to []uint64) []uint64 {
	to = append(to, term(doorTerm, []byte(e.Door)), term(kindTerm, []byte{byte(e.Kind)}))
	if e.Kind == Checked {
		to = append(to, term(classTerm, []byte{byte(e.Class)}))
	}
	for _, who := range []string{e.Account, e.User, e.Network} {
		if who != "" {
			to = append(to, term(reporterTerm, []byte(who)))
		}
	}
	for _, name := range append([]string{e.From}, e.Domains...) {
		for name != "" {
			to = append(to, term(domainTerm, []byte(name)))
			if _, name, _ = strings.Cut(name, "."); !strings.Contains(name, ".") {
				break
			}
		}
	}
	if e.Message != (MessageID{}) {
		to = append(to, term(messageTerm, e.Message[:]))
	}
	for one := range packedOnes(e.packed) {
		to = append(to, term(signatureTerm, one))
	}
	return to
}
