package learned

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/learn"
	"github.com/bulkhead-mail/bulkhead/internal/lesson"
)

// A What is what a change does.
type What uint8

// The kinds of changes.
const (
	Reported  What = 1 + iota // a voter called the message spam
	Withdrawn                 // the report was taken back
	Delivered                 // the message was delivered, or marked as wanted
	Seen                      // its tokens are remembered, and nothing is counted
	numWhat
)

// A Change counts one message.
type Change struct {
	What   What
	Gen    uint64      // start of the generation that takes it
	Text   learn.Token // of the whole text
	Tokens []learn.Token
	// Share is the share of spam that is reported after this report, in millionths. 0: the report
	// showed none.
	Share uint32
	// Who: the recipient or the voter. It is not stored.
	Who lesson.Person
	// fresh is set for a change that this process has decided, and not read from a journal.
	fresh bool
}

// Changes are the changes of one batch of reports.
type Changes struct {
	Open *Spec // generation that opens before the changes; nil: none
	Of   []Change
}

// Empty reports whether nothing changes.
func (c *Changes) Empty() bool { return c.Open == nil && len(c.Of) == 0 }

var errFormat = errors.New("learned: malformed")

// leastChange is the smallest number of bytes of an encoded change.
const leastChange = 12

// Append appends the changes to b. Numbers are varints, and tokens eight bytes, little-endian.
func (c *Changes) Append(b []byte) []byte {
	if c.Open == nil {
		b = append(b, 0)
	} else {
		b = append(b, 1, c.Open.Geometry.K)
		b = binary.AppendUvarint(b, c.Open.Start)
		b = binary.AppendUvarint(b, c.Open.Geometry.Lines)
		b = binary.LittleEndian.AppendUint64(b, c.Open.Geometry.KeyID)
	}
	b = binary.AppendUvarint(b, uint64(len(c.Of)))
	for i := range c.Of {
		x := &c.Of[i]
		b = append(b, byte(x.What))
		b = binary.AppendUvarint(b, x.Gen)
		b = binary.LittleEndian.AppendUint64(b, uint64(x.Text))
		b = binary.AppendUvarint(b, uint64(x.Share))
		b = appendTokens(b, x.Tokens)
	}
	return b
}

func appendTokens(b []byte, tokens []learn.Token) []byte {
	b = binary.AppendUvarint(b, uint64(len(tokens)))
	for _, t := range tokens {
		b = binary.LittleEndian.AppendUint64(b, uint64(t))
	}
	return b
}

// ReadChanges reads the output of [Changes.Append] from the front of data and returns the rest.
func ReadChanges(data []byte) (c Changes, rest []byte, err error) {
	d := decoder{left: data}
	switch d.byte() {
	case 0:
	case 1:
		s := Spec{Geometry: filter.Geometry{Kind: filter.Cells, K: d.byte()}}
		s.Start, s.Geometry.Lines, s.Geometry.KeyID = d.uvarint(), d.uvarint(), d.uint64()
		if err := s.Geometry.Validate(); err != nil {
			return c, nil, fmt.Errorf("%w: %w", errFormat, err)
		}
		c.Open = &s
	default:
		d.bad = true
	}
	n := d.uvarint()
	if n > uint64(len(d.left)/leastChange) {
		return c, nil, fmt.Errorf("%w: %d changes in %d bytes", errFormat, n, len(d.left))
	}
	for range n {
		x := Change{What: What(d.byte()), Gen: d.uvarint(), Text: learn.Token(d.uint64())}
		share := d.uvarint()
		x.Share, x.Tokens = uint32(share), d.tokens()
		if d.bad || x.What < Reported || x.What >= numWhat || share > math.MaxUint32 {
			return c, nil, fmt.Errorf("%w: a change", errFormat)
		}
		c.Of = append(c.Of, x)
	}
	if d.bad {
		return c, nil, errFormat
	}
	return c, d.left, nil
}

// A decoder reads binary data. After a failed read, each read returns zero.
type decoder struct {
	left []byte
	bad  bool
}

func (d *decoder) bytes(n int) []byte {
	if d.bad || n > len(d.left) {
		d.bad = true
		return make([]byte, min(n, 8))
	}
	out := d.left[:n]
	d.left = d.left[n:]
	return out
}

func (d *decoder) byte() byte { return d.bytes(1)[0] }

func (d *decoder) uint64() uint64 { return binary.LittleEndian.Uint64(d.bytes(8)) }

func (d *decoder) uvarint() uint64 {
	x, n := binary.Uvarint(d.left)
	if d.bad || n <= 0 {
		d.bad = true
		return 0
	}
	d.left = d.left[n:]
	return x
}

// tokens reads at most [learn.MaxTokens] tokens.
func (d *decoder) tokens() []learn.Token {
	n := d.uvarint()
	if n > learn.MaxTokens || n > uint64(len(d.left)/8) {
		d.bad = true
		return nil
	}
	out := make([]learn.Token, n)
	for i := range out {
		out[i] = learn.Token(d.uint64())
	}
	return out
}
