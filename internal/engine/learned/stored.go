package learned

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/bulkhead-mail/bulkhead/internal/learn"
)

// A Stored is a generation in a checkpoint.
type Stored struct {
	Spec
	File      string `json:"counts_file"`
	Reported  int64  `json:"reported"`
	Withdrawn int64  `json:"withdrawn"`
	Delivered int64  `json:"delivered"`
}

// A Manifest is a book in the manifest of a checkpoint, without its arrays.
type Manifest struct {
	Generations []Stored `json:"generations,omitempty"` // newest first
	Share       uint64   `json:"share,omitempty"`       // in millionths
	Shown       uint64   `json:"shown,omitempty"`
	Messages    string   `json:"messages,omitempty"` // file
}

// Manifest returns the manifest of the book.
func (b *Book) Manifest() *Manifest {
	m := &Manifest{Share: b.share.Load(), Shown: b.shown.Load()}
	for _, g := range b.Live() {
		m.Generations = append(m.Generations, Stored{Spec: g.Spec, Reported: g.reported.Load(),
			Withdrawn: g.withdrawn.Load(), Delivered: g.delivered.Load()})
	}
	return m
}

// Restore makes the book as a manifest describes it, with empty arrays.
func (b *Book) Restore(m *Manifest) error {
	live := make([]*Generation, 0, len(m.Generations))
	for i := range m.Generations {
		s := &m.Generations[i]
		g, err := Make(s.Spec)
		if err != nil {
			return err
		}
		g.reported.Store(s.Reported)
		g.withdrawn.Store(s.Withdrawn)
		g.delivered.Store(s.Delivered)
		live = append(live, g)
	}
	b.live.Store(&live)
	b.share.Store(m.Share)
	b.shown.Store(m.Shown)
	return nil
}

const messagesVersion = 1

// Messages is the memory of messages at one moment. It never changes.
type Messages []*message

// Messages returns the present memory of messages. It copies none of them, so it is fast.
func (b *Book) Messages() Messages { return slices.Clone(b.messages.oldest) }

// Encode returns the memory of messages: a version byte, and each message as its text, the ID of its
// secret and its tokens.
func (m Messages) Encode() []byte {
	out := []byte{messagesVersion}
	for _, x := range m {
		out = binary.LittleEndian.AppendUint64(out, uint64(x.text))
		out = binary.LittleEndian.AppendUint64(out, x.keyID)
		out = appendTokens(out, x.tokens)
	}
	return out
}

// DecodeMessages replaces the memory of messages by the one that [Messages.Encode] wrote. On an error
// it changes nothing.
func (b *Book) DecodeMessages(data []byte) error {
	fresh := newMemory(uint64(b.messages.limit))
	d := decoder{left: data}
	if d.byte() != messagesVersion {
		return fmt.Errorf("%w: version of the messages", errFormat)
	}
	for len(d.left) > 0 {
		text, id, tokens := learn.Token(d.uint64()), d.uint64(), d.tokens()
		if d.bad {
			return fmt.Errorf("%w: messages", errFormat)
		}
		fresh.add(text, id, tokens)
	}
	m := &b.messages
	m.of, m.oldest = fresh.of, fresh.oldest
	m.n.Store(fresh.n.Load())
	m.bytes.Store(fresh.bytes.Load())
	return nil
}
