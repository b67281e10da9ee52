package signature

import (
	"context"

	"github.com/bulkhead-mail/bulkhead/signature/internal/pace"
	"github.com/bulkhead-mail/bulkhead/signature/mail"
)

// maxSkeletons is how many bytes of skeletons of parts are kept at a time; those
// of further parts are made twice.
const maxSkeletons = 1 << 20

// maxBeside is how many parts are looked at that are shown beside the text.
const maxBeside = 16

// skeletonOf folds the visible text of m: of each text part that is not an
// attachment, and of alternatives the last one that has enough words. Without
// any words, text attachments are looked at, and with so few that they tell no
// message from others, those that are pages or plain text: somebody says "see the
// attachment" there. Then come pages and documents that are not sent as text. The other
// parts are what is shown beside. Its error is that of ctx.
func skeletonOf(ctx context.Context, m *mail.Message, texts *attachedTexts, p *pace.Pace) (*skeleton, error) {
	b := skeletonBuilder{ctx: ctx, m: m, texts: texts, pace: p, recipient: recipientWords(m.To), taken: make([]bool, len(m.Parts))}
	for _, attachments := range []bool{false, true} {
		if err := b.take(attachments); err != nil {
			return nil, err
		}
		if b.enough() {
			break
		}
	}
	if err := b.beside(); err != nil {
		return nil, err
	}
	err := b.inside()
	return &b.whole, err
}

// A skeletonBuilder puts together the skeletons of the parts of a message.
type skeletonBuilder struct {
	ctx       context.Context
	m         *mail.Message
	texts     *attachedTexts
	pace      *pace.Pace
	recipient *wordSet
	whole     skeleton
	taken     []bool // by part
}

// enough reports whether the words are enough to tell the message from others.
func (b *skeletonBuilder) enough() bool {
	return enough(exactMinWords, exactMinLetters, &b.whole.words, &b.whole.quoted)
}

// inside takes what is in attachments that are not text: as the text, if there is too
// little else, or as what is shown beside it.
func (b *skeletonBuilder) inside() error {
	all, err := withInside(b.ctx, b.m)
	if err != nil {
		return err
	}
	b.whole.inside = b.whole.empty()
	add := b.whole.take
	if b.enough() {
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
			f := folder{recipient: b.recipient, pace: b.pace}
			if f.add(text, false); b.pace.Err() == nil {
				b.texts.add(&in.Parts[i], &f.words)
			}
			add(&f.skeleton)
		}
	}
	return nil
}

// of returns the skeleton of a part.
func (b *skeletonBuilder) of(part int) (*skeleton, error) {
	text, err := b.m.Visible(b.ctx, part)
	f := folder{recipient: b.recipient, pace: b.pace}
	f.add(text, b.m.Parts[part].Embedded)
	if p := &b.m.Parts[part]; p.Attachment && !p.Embedded && b.pace.Err() == nil && err == nil {
		b.texts.add(p, &f.words)
	}
	s := f.skeleton
	return &s, err
}

// take takes the text parts that are attachments, or those that are not.
func (b *skeletonBuilder) take(attachments bool) error {
	m := b.m
	parts := make([]*skeleton, len(m.Parts))
	words := make([]int, len(m.Parts)) // of the parts that count; of others -1
	kept := 0
	for i := len(m.Parts) - 1; i >= 0; i-- {
		words[i] = -1
		if part := &m.Parts[i]; part.IsText() && part.Attachment == attachments && (b.whole.empty() || readable(part)) && !superseded(m, i, words) {
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

// beside takes what the other text parts show: alternatives, and attachments that
// people read.
func (b *skeletonBuilder) beside() error {
	n := 0
	for i := range b.m.Parts {
		if part := &b.m.Parts[i]; b.taken[i] || !part.IsText() || !readable(part) || n == maxBeside || b.whole.rest.len() >= maxWords {
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

// superseded reports whether a later alternative to part i shows the same text
// with at least a few words, in a form that every mail program shows. words says how
// many the later parts have.
func superseded(m *mail.Message, i int, words []int) bool {
	p := &m.Parts[i]
	if p.Alternative == 0 {
		return false
	}
	for j := i + 1; j < len(m.Parts); j++ {
		q := &m.Parts[j]
		if q.Alternative == p.Alternative && q.Branch > p.Branch && (q.HTML || q.Type == "text/plain") && words[j] >= nearMinWords {
			return true
		}
	}
	return false
}
