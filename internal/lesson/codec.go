package lesson

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/bulkhead-mail/bulkhead/internal/learn"
)

// Bounds on lessons.
const (
	MaxGenerations = 4    // of one origin
	MaxEntries     = 8192 // of one lesson
	maxParts       = 1 << 12
)

var errLesson = errors.New("lesson: malformed")

// An Entry is what an origin has counted of a token in one generation, in messages.
type Entry struct {
	Token                          learn.Token
	Reported, Withdrawn, Delivered uint32
}

// A Mark is the state of a generation: how far it was taught or studied. All is the number of all
// messages in the generation at that round; its token is 0.
type Mark struct {
	Start uint64 // Unix seconds
	KeyID uint64 // of the secret of its tokens
	Round uint32 // 0: nothing
	All   Entry
}

// A Study asks an origin for what it teaches.
type Study struct {
	Table uint64 // of the origin, as held; 0: none
	Held  []Mark // of which Start and Round are sent
}

// A Lesson is a part of what an origin teaches.
type Lesson struct {
	Table uint64 // another number: the origin begins anew, and what was held of it is void
	Live  []Mark // generations that the origin has, newest first
	// The entries are a part of one generation. They changed after the round Since, up to the round of its
	// mark. A lesson with no parts is about no generation.
	Of          int // index in Live
	Since       uint32
	Part, Parts uint32
	Entries     []Entry // tokens ascending
}

// Append appends the encoded study to b.
func (s *Study) Append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, s.Table)
	b = binary.AppendUvarint(b, uint64(len(s.Held)))
	for _, m := range s.Held {
		b = binary.AppendUvarint(b, m.Start)
		b = binary.AppendUvarint(b, uint64(m.Round))
	}
	return b
}

// ParseStudy reads a study. Its error wraps that of malformed bytes.
func ParseStudy(b []byte) (*Study, error) {
	d := decoder{left: b}
	s := &Study{Table: d.uint64()}
	for range d.count(MaxGenerations, 2) {
		s.Held = append(s.Held, Mark{Start: d.uvarint(), Round: d.uint32()})
	}
	return s, d.end()
}

// Append appends the encoded lesson to b.
func (l *Lesson) Append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, l.Table)
	b = binary.AppendUvarint(b, uint64(len(l.Live)))
	for _, m := range l.Live {
		b = binary.AppendUvarint(b, m.Start)
		b = binary.LittleEndian.AppendUint64(b, m.KeyID)
		b = binary.AppendUvarint(b, uint64(m.Round))
		b = appendCounts(b, &m.All)
	}
	for _, n := range []uint32{uint32(l.Of), l.Since, l.Part, l.Parts} {
		b = binary.AppendUvarint(b, uint64(n))
	}
	b = binary.AppendUvarint(b, uint64(len(l.Entries)))
	for i := range l.Entries {
		b = binary.LittleEndian.AppendUint64(b, uint64(l.Entries[i].Token))
		b = appendCounts(b, &l.Entries[i])
	}
	return b
}

func appendCounts(b []byte, e *Entry) []byte {
	b = binary.AppendUvarint(b, uint64(e.Reported))
	b = binary.AppendUvarint(b, uint64(e.Withdrawn))
	return binary.AppendUvarint(b, uint64(e.Delivered))
}

// Parse reads a lesson. It returns an error unless the generations are distinct, newest first, and the
// tokens ascend.
func Parse(b []byte) (*Lesson, error) {
	d := decoder{left: b}
	l := &Lesson{Table: d.uint64()}
	for range d.count(MaxGenerations, 13) {
		l.Live = append(l.Live, Mark{Start: d.uvarint(), KeyID: d.uint64(), Round: d.uint32(), All: d.counts()})
	}
	l.Of, l.Since, l.Part, l.Parts = int(d.uint32()), d.uint32(), d.uint32(), d.uint32()
	n := d.count(MaxEntries, 11)
	if n > 0 {
		l.Entries = make([]Entry, n)
	}
	for i := range l.Entries {
		t := learn.Token(d.uint64())
		l.Entries[i] = d.counts()
		l.Entries[i].Token = t
	}
	if err := d.end(); err != nil {
		return nil, err
	}
	return l, l.check()
}

func (l *Lesson) check() error {
	for i := 1; i < len(l.Live); i++ {
		if l.Live[i].Start >= l.Live[i-1].Start {
			return fmt.Errorf("%w: generations out of order", errLesson)
		}
	}
	for i := 1; i < len(l.Entries); i++ {
		if l.Entries[i].Token <= l.Entries[i-1].Token {
			return fmt.Errorf("%w: tokens out of order", errLesson)
		}
	}
	if l.Parts == 0 && l.Part == 0 && l.Of == 0 && l.Since == 0 && len(l.Entries) == 0 {
		return nil
	}
	if l.Of >= len(l.Live) || l.Part >= l.Parts || l.Parts > maxParts {
		return fmt.Errorf("%w: part %d of %d of generation %d of %d", errLesson, l.Part, l.Parts, l.Of, len(l.Live))
	}
	return nil
}

// A decoder reads numbers; after the first error each read returns zero.
type decoder struct {
	left []byte
	bad  bool
}

func (d *decoder) uint64() uint64 {
	if d.bad || len(d.left) < 8 {
		d.bad = true
		return 0
	}
	x := binary.LittleEndian.Uint64(d.left)
	d.left = d.left[8:]
	return x
}

func (d *decoder) uvarint() uint64 {
	x, n := binary.Uvarint(d.left)
	if d.bad || n <= 0 {
		d.bad = true
		return 0
	}
	d.left = d.left[n:]
	return x
}

func (d *decoder) uint32() uint32 {
	x := d.uvarint()
	if x > math.MaxUint32 {
		d.bad = true
		return 0
	}
	return uint32(x)
}

// count reads a number of items of at least size bytes each.
func (d *decoder) count(limit, size int) int {
	n := d.uvarint()
	if d.bad || n > uint64(limit) || n > uint64(len(d.left)/size) {
		d.bad = true
		return 0
	}
	return int(n)
}

func (d *decoder) counts() Entry {
	return Entry{Reported: d.uint32(), Withdrawn: d.uint32(), Delivered: d.uint32()}
}

func (d *decoder) end() error {
	switch {
	case d.bad:
		return fmt.Errorf("%w: a number ends early or is over its limit", errLesson)
	case len(d.left) > 0:
		return fmt.Errorf("%w: %d bytes too many", errLesson, len(d.left))
	}
	return nil
}
