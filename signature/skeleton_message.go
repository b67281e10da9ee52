package signature

import (
	"context"
	"slices"
	"sync"

	"github.com/bulkhead-mail/bulkhead/internal/mail"
	"github.com/bulkhead-mail/bulkhead/internal/pace"
)

// maxSkeletons is the maximum size, in bytes, of the skeletons of parts that are kept at a time.
// The skeletons of further parts are made twice.
const maxSkeletons = 1 << 20

// maxBeside is the maximum number of parts next to the text that are read.
const maxBeside = 16

// A skeletonBuilder joins the skeletons of the parts of a message. Its memory is reused for the
// next message.
type skeletonBuilder struct {
	ctx       context.Context
	m         *mail.Message
	texts     *attachedTexts
	pace      *pace.Pace
	recipient *wordSet
	whole     skeleton
	taken     []bool // by part
	folder    folder
	spare     skeleton // memory of words
	hashes    hashes
}

// builders keeps the working space of finished skeletons; it holds no state.
var builders = sync.Pool{New: func() any { return new(skeletonBuilder) }}

// maxSpare is the maximum size of the words, in bytes, of a builder that is reused.
const maxSpare = 512 << 10

// back returns b, and the skeleton that it has made, to the pool.
func (b *skeletonBuilder) back() {
	if b.renew(); b.spare.size()+b.folder.paragraph.size() <= maxSpare {
		builders.Put(b)
	}
}

// renew resets b, and keeps its memory.
func (b *skeletonBuilder) renew() {
	b.folder.renew()
	*b = skeletonBuilder{taken: b.taken[:0], folder: b.folder, spare: b.whole, hashes: b.hashes}
	b.spare.truncate()
}

// skeleton folds the visible text of m: of each text part that is not an attachment, and of
// alternatives the last one that has enough words. If there are no words, all text attachments
// are read. If the words are too few to distinguish the message, as in "see the attachment",
// attached pages and plain texts are read, and the texts that stand for pictures. Then come pages
// and documents that are not sent as text. The other parts count as content shown next to the text.
// skeleton returns the error of ctx. The skeleton belongs to b.
func (b *skeletonBuilder) skeleton(ctx context.Context, m *mail.Message, texts *attachedTexts,
	p *pace.Pace) (*skeleton, error) {
	b.ctx, b.m, b.texts, b.pace, b.recipient = ctx, m, texts, p, recipientWords(m.To)
	b.taken = slices.Grow(b.taken[:0], len(m.Parts))[:len(m.Parts)]
	clear(b.taken)
	for _, attachments := range []bool{false, true} {
		if err := b.take(attachments); err != nil {
			return nil, err
		}
		if b.whole.distinctive() {
			break
		}
	}
	if err := b.pictured(); err != nil {
		return nil, err
	}
	if err := b.beside(); err != nil {
		return nil, err
	}
	err := b.inside()
	return &b.whole, err
}

// fold returns the skeleton of a text. The skeleton belongs to the caller.
func (b *skeletonBuilder) fold(text []byte, embedded bool) *skeleton {
	f := &b.folder
	f.renew()
	f.recipient, f.pace, f.skeleton = b.recipient, b.pace, b.spare
	b.spare = skeleton{}
	f.add(text, embedded)
	s := f.skeleton
	return &s
}

// inside takes the contents of attachments that are not text: as the text, if there is too little
// other text, or else as content shown next to it.
func (b *skeletonBuilder) inside() error {
	all, err := b.m.WithInside(b.ctx)
	if err != nil {
		return err
	}
	b.whole.inside = b.whole.empty()
	add := b.whole.take
	if b.whole.distinctive() {
		add = b.whole.beside
	}
	n := 0
	for _, in := range all[1:] {
		for i := range in.Parts {
			if !in.Parts[i].IsText() || b.whole.full() || n == maxBeside {
				continue
			}
			n++
			text, err := in.Visible(b.ctx, i)
			if err != nil {
				return err
			}
			s := b.fold(text, false)
			if b.pace.Err() == nil {
				b.texts.add(&in.Parts[i], &s.words)
			}
			add(s)
		}
	}
	return nil
}

// of returns the skeleton of a part.
func (b *skeletonBuilder) of(part int) (*skeleton, error) {
	text, err := b.m.Visible(b.ctx, part)
	s := b.fold(text, b.m.Parts[part].Embedded)
	if p := &b.m.Parts[part]; p.Attachment && !p.Embedded && b.pace.Err() == nil && err == nil {
		b.texts.add(p, &s.words)
	}
	return s, err
}

// take takes the text parts that are attachments, or those that are not.
func (b *skeletonBuilder) take(attachments bool) error {
	m := b.m
	parts := make([]*skeleton, len(m.Parts))
	words := make([]int, len(m.Parts)) // of the parts that count; of others -1
	kept := 0
	for i := len(m.Parts) - 1; i >= 0; i-- {
		words[i] = -1
		if part := &m.Parts[i]; part.IsText() && part.Attachment == attachments &&
			(b.whole.empty() || readable(part)) && !superseded(m, i, words) {
			s, err := b.of(i)
			if err != nil {
				return err
			}
			words[i] = s.words.len() + s.quoted.len()
			if kept += s.size(); kept <= maxSkeletons {
				parts[i] = s
			}
		}
	}
	for i, s := range parts {
		if words[i] < 0 || b.whole.full() {
			continue
		}
		b.taken[i] = true
		if s == nil {
			var err error
			if s, err = b.of(i); err != nil {
				return err
			}
		}
		b.whole.take(s)
	}
	return nil
}

// pictured takes the texts that stand for the pictures of pages, if there is too little other text.
func (b *skeletonBuilder) pictured() error {
	for i := range b.m.Parts {
		if !b.m.Parts[i].HTML || b.whole.distinctive() || b.whole.full() {
			continue
		}
		page, err := b.m.Page(b.ctx, i)
		if err != nil {
			return err
		}
		b.whole.take(b.fold(page.Alt, b.m.Parts[i].Embedded))
	}
	return nil
}

// beside takes the words of the other text parts: alternatives, and attachments that people read.
func (b *skeletonBuilder) beside() error {
	n := 0
	for i := range b.m.Parts {
		if part := &b.m.Parts[i]; b.taken[i] || !part.IsText() || !readable(part) || n == maxBeside ||
			b.whole.rest.len() >= maxWords {
			continue
		}
		n++
		s, err := b.of(i)
		if err != nil {
			return err
		}
		b.whole.beside(s)
	}
	return nil
}

// readable reports whether people read an attachment as they read a letter.
func readable(p *mail.Part) bool { return !p.Attachment || p.HTML || p.Type == "text/plain" }

// superseded reports whether mail programs show another alternative in place of part i: a later one with at least a
// few words, in a form that every program shows, or any one in such a form if part i is in a form that hardly a
// program shows. words has the number of words of each later part.
//
// Source: RFC 2046, section 5.1.4.
func superseded(m *mail.Message, i int, words []int) bool {
	p := &m.Parts[i]
	if p.Alternative == 0 {
		return false
	}
	for j := range m.Parts {
		q := &m.Parts[j]
		if q.Alternative != p.Alternative || q.Branch == p.Branch || !q.HTML && q.Type != "text/plain" {
			continue
		}
		if q.Branch > p.Branch && words[j] >= nearMinWords || !isShown(p.Type) {
			return true
		}
	}
	return false
}

// isShown reports whether some mail programs prefer a type of text to a page.
func isShown(kind string) bool {
	switch kind {
	case "text/html", "text/plain", "text/calendar", "text/enriched", "text/richtext":
		return true
	}
	return false
}
