package signature

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"slices"
	"sync"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/mail"
	"github.com/bulkhead-mail/bulkhead/internal/pace"
)

const (
	// maxAttachments is the maximum number of parts of a message that have bulkhead/attachment
	// signatures. The largest parts are chosen, so that small ones cannot hide them.
	maxAttachments = 16
	// minAttachment is the minimum size of such a part, in bytes. Smaller parts are icons and pixels
	// that unrelated messages share.
	minAttachment = 2000

	// maxAttachedTexts is the maximum number of texts among them.
	maxAttachedTexts = 8
	// An attached text has at least this many different words, and letters in these.
	minAttachedWords, minAttachedLetters = 12, 48

	// minMarkup is the minimum number of elements of a page that has a bulkhead/markup signature.
	minMarkup = 30
)

// attachmentSignatures returns the bulkhead/attachment signatures of m: the SHA-256 hashes of its
// decoded parts that are not text, of the files in archives, and of the words of attached texts
// and documents.
func attachmentSignatures(ctx context.Context, m *mail.Message, known *attachedTexts) ([]bulkhead.Signature, error) {
	all, err := m.WithInside(ctx)
	if err != nil {
		return nil, err
	}
	p := pace.New(ctx)
	var parts [][]byte
	var sigs []bulkhead.Signature
	var recipient *wordSet
	for _, m := range all {
		for i := range m.Parts {
			part := &m.Parts[i]
			if len(part.Data) > minAttachment {
				parts = append(parts, part.Data)
			}
			if !part.IsText() || !part.Attachment || len(sigs) == maxAttachedTexts {
				continue
			}
			sum, ok := known.of(part)
			if !ok {
				page, err := m.Page(ctx, i)
				if err != nil {
					return nil, err
				}
				if recipient == nil {
					recipient = recipientWords(m.To)
				}
				f := folder{recipient: recipient, pace: p}
				f.add(page.Text, false)
				sum = attachedText(&f.words)
			}
			sigs = appendSignature(sigs, bulkhead.Attachment, sum)
		}
	}
	slices.SortStableFunc(parts, func(a, b []byte) int { return cmp.Compare(len(b), len(a)) })
	for _, data := range parts[:min(len(parts), maxAttachments)] {
		h := sha256.New()
		pace.Write(h, data, p)
		sigs = appendSignature(sigs, bulkhead.Attachment, h.Sum(nil))
	}
	return sigs, pace.Ended(p)
}

// attachedText returns the hash of the words of an attached text as bulkhead/near
// folds them, so that each recipient's name, numbers and links make no difference; nil if
// there are too few.
func attachedText(words *wordList) []byte {
	if !enough(minAttachedWords, minAttachedLetters, words) {
		return nil
	}
	h := sha256.New()
	h.Write([]byte("text\x00"))
	for n := range words.len() {
		h.Write(words.at(n))
		h.Write([]byte{' '})
	}
	return h.Sum(nil)
}

// attachedTexts remembers the hashes of attached texts that were already folded, since the
// skeleton of a message may consist of the words of its attachments. A nil *attachedTexts knows
// none.
type attachedTexts struct{ sums sync.Map } // *mail.Part to []byte

func (t *attachedTexts) add(part *mail.Part, words *wordList) {
	if t != nil {
		t.sums.Store(part, attachedText(words))
	}
}

func (t *attachedTexts) of(part *mail.Part) (sum []byte, ok bool) {
	if t == nil {
		return nil, false
	}
	known, ok := t.sums.Load(part)
	if ok {
		sum = known.([]byte)
	}
	return sum, ok
}

// markupSignatures returns the bulkhead/markup signature of the page of m with the most elements,
// if it has enough elements to distinguish it from other pages: the SHA-256 hash of their names.
func markupSignatures(ctx context.Context, m *mail.Message) ([]bulkhead.Signature, error) {
	var names []byte
	most := minMarkup - 1
	for i := range m.Parts {
		if !m.Parts[i].HTML {
			continue
		}
		page, err := m.Page(ctx, i)
		if err != nil {
			return nil, err
		}
		if n := bytes.Count(page.Markup, []byte{' '}); n > most {
			names, most = page.Markup, n
		}
	}
	if names == nil {
		return nil, nil
	}
	sum := sha256.Sum256(names)
	return appendSignature(nil, bulkhead.Markup, sum[:]), nil
}
