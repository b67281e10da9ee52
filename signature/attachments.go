package signature

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"slices"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/signature/internal/pace"
	"github.com/bulkhead-mail/bulkhead/signature/mail"
)

const (
	// MaxAttachments is how many parts of a message have bulkhead/attachment
	// signatures: the largest, so that small ones hide none.
	MaxAttachments = 16
	// MinAttachment is how many bytes such a part has: smaller ones are icons and
	// pixels that unrelated messages share.
	MinAttachment = 2000

	// minMarkup is how many elements of a page have a bulkhead/markup signature.
	minMarkup = 30
)

// attachmentSignatures returns the bulkhead/attachment signatures of m: the SHA-256
// hashes of its decoded parts that are no text.
func attachmentSignatures(ctx context.Context, m *mail.Message) ([]bulkhead.Signature, error) {
	var parts [][]byte
	for i := range m.Parts {
		if data := m.Parts[i].Data; len(data) > MinAttachment {
			parts = append(parts, data)
		}
	}
	slices.SortStableFunc(parts, func(a, b []byte) int { return cmp.Compare(len(b), len(a)) })
	p := pace.New(ctx)
	var sigs []bulkhead.Signature
	for _, data := range parts[:min(len(parts), MaxAttachments)] {
		h := sha256.New()
		pace.Write(h, data, p)
		sigs = appendSignature(sigs, bulkhead.Attachment, h.Sum(nil))
	}
	return sigs, pace.Ended(p)
}

// markupSignatures returns the bulkhead/markup signature of the page of m with the
// most elements, if they are enough to tell a page from others: the SHA-256 hash of
// their names.
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
