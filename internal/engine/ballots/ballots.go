// Package ballots remembers which voice voted on what, so that all votes of a voice can be taken
// back together. The filters cannot serve for this: they answer for a given voice and signature,
// and can list neither.
//
// It keeps the latest votes that fit into its memory, whatever their age. A vote that it has
// forgotten cannot be taken back.
package ballots

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
)

// An Item is what a vote weighed on: a signature, or a text together with a link or sender.
type Item struct {
	Key   filter.Key
	Facet bulkhead.Facet
	Pair  bool
}

// A Ballot is one vote for spam or against it on one message.
type Ballot struct {
	Voice uint64 // mark of the voice, see keys.Maker.Voice
	Time  uint64 // seconds since 1970
	Items []Item
}

const (
	itemBytes   = 18
	ballotBytes = 48 // without the items, in memory
	version     = 1
	maxItems    = 1 << 12
	writeBytes  = 1 << 16 // bytes that are written at once
)

// bytes returns the approximate memory of a ballot.
func (b *Ballot) bytes() int { return ballotBytes + 24*len(b.Items) }

// A Book is the latest ballots. Its methods may be called concurrently.
type Book struct {
	limit int

	mu      sync.Mutex
	ballots []Ballot // in the order of their times
	bytes   int
	version uint64 // changes with every change
}

// New returns a book that uses at most about limit bytes.
func New(limit int) *Book { return &Book{limit: limit} }

// Add enters a ballot and retains its items. It forgets the oldest ballots that no longer fit.
// Times must not decrease from one ballot to the next.
func (b *Book) Add(x Ballot) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.add(x)
}

func (b *Book) add(x Ballot) {
	b.ballots = append(b.ballots, x)
	b.bytes += x.bytes()
	b.version++
	n := 0
	for b.bytes > b.limit && n < len(b.ballots) {
		b.bytes -= b.ballots[n].bytes()
		n++
	}
	clear(b.ballots[:n]) // or the array would keep their items alive
	b.ballots = b.ballots[n:]
}

// Of returns the items that a voice has voted on since a time in Unix seconds, each once.
func (b *Book) Of(voice, since uint64) (items []Item) {
	b.mu.Lock()
	defer b.mu.Unlock()
	seen := make(map[filter.Key]bool)
	for i := range b.ballots {
		if x := &b.ballots[i]; x.Voice == voice && x.Time >= since {
			for _, it := range x.Items {
				if !seen[it.Key] {
					seen[it.Key] = true
					items = append(items, it)
				}
			}
		}
	}
	return items
}

// Voices returns the voices that have voted on something since a time in Unix seconds.
func (b *Book) Voices(since uint64) map[uint64]bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	voices := make(map[uint64]bool)
	for i := range b.ballots {
		if x := &b.ballots[i]; x.Time >= since && len(x.Items) > 0 {
			voices[x.Voice] = true
		}
	}
	return voices
}

// Oldest returns the time of the oldest ballot in Unix seconds, and the number of ballots.
func (b *Book) Oldest() (time uint64, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.ballots) > 0 {
		time = b.ballots[0].Time
	}
	return time, len(b.ballots)
}

// Version returns a number that changes whenever the book does.
func (b *Book) Version() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.version
}

// Append appends a ballot to dst in the form that [Read] reads, all little-endian: the voice as
// u64, and the time and the number of items as varints. Each item is its key as two u64, a byte for
// its facet, and a byte that is 1 for a pair.
func (x *Ballot) Append(dst []byte) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, x.Voice)
	dst = binary.AppendUvarint(dst, x.Time)
	dst = binary.AppendUvarint(dst, uint64(len(x.Items)))
	for _, it := range x.Items {
		dst = binary.LittleEndian.AppendUint64(dst, it.Key.Hi)
		dst = binary.LittleEndian.AppendUint64(dst, it.Key.Lo)
		pair := byte(0)
		if it.Pair {
			pair = 1
		}
		dst = append(dst, byte(it.Facet), pair)
	}
	return dst
}

var errFormat = errors.New("ballots: malformed")

// Read reads a ballot from the front of data and returns the rest. An error means that data
// does not begin with a ballot.
func Read(data []byte) (x Ballot, rest []byte, err error) {
	if len(data) < 8 {
		return x, nil, fmt.Errorf("%w: %d bytes of a ballot", errFormat, len(data))
	}
	x.Voice, data = binary.LittleEndian.Uint64(data), data[8:]
	var n uint64
	for _, v := range []*uint64{&x.Time, &n} {
		size := 0
		if *v, size = binary.Uvarint(data); size <= 0 {
			return x, nil, fmt.Errorf("%w: a number", errFormat)
		}
		data = data[size:]
	}
	if n > maxItems || n > uint64(len(data)/itemBytes) {
		return x, nil, fmt.Errorf("%w: %d items in %d bytes", errFormat, n, len(data))
	}
	x.Items = make([]Item, n)
	for i := range x.Items {
		it := &x.Items[i]
		it.Key = filter.Key{Hi: binary.LittleEndian.Uint64(data), Lo: binary.LittleEndian.Uint64(data[8:])}
		it.Facet, it.Pair = bulkhead.Facet(data[16]), data[17] == 1
		if data[17] > 1 {
			return x, nil, fmt.Errorf("%w: item %d", errFormat, i)
		}
		data = data[itemBytes:]
	}
	return x, data, nil
}

// All returns the ballots, oldest first. The caller must not change their items. It takes time in
// proportion to the number of ballots, and not to their items.
func (b *Book) All() []Ballot {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.ballots)
}

// Write writes ballots as [Book.Decode] reads them: a version byte, then each ballot as
// [Ballot.Append] writes it.
func Write(w io.Writer, all []Ballot) error {
	out := bufio.NewWriterSize(w, writeBytes)
	if err := out.WriteByte(version); err != nil {
		return err
	}
	var buf []byte
	for i := range all {
		buf = all[i].Append(buf[:0])
		if _, err := out.Write(buf); err != nil {
			return err
		}
	}
	return out.Flush()
}

// Decode replaces the ballots with the ones that [Write] wrote. It leaves the book unchanged on an
// error.
func (b *Book) Decode(data []byte) error {
	if len(data) == 0 || data[0] != version {
		return fmt.Errorf("%w: version", errFormat)
	}
	fresh := New(b.limit)
	for data = data[1:]; len(data) > 0; {
		x, rest, err := Read(data)
		if err != nil {
			return err
		}
		fresh.add(x)
		data = rest
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ballots, b.bytes = fresh.ballots, fresh.bytes
	b.version++
	return nil
}
