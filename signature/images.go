package signature

import (
	"cmp"
	"context"
	"slices"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/mail"
	"github.com/bulkhead-mail/bulkhead/internal/mail/picture"
)

const (
	// maxImageKeys is the maximum number of bulkhead/image signatures of a message: enough for four
	// pictures, or for two that have a margin.
	maxImageKeys = 4 * picture.ViewKeys

	// The size of a message bounds how many of its pixels are decoded, since a few bytes may
	// be many pixels: at least a picture of 362 by 362, then as many as photographs and
	// drawings of that size usually have, and at most [picture.MaxPixels].
	minPixels   = 1 << 17
	pixelsAByte = 16
)

// isPicture reports whether a part is a picture that is large enough to be one.
func isPicture(p *mail.Part) bool { return picture.Pixels(p.Data) > 0 }

// imageSignatures returns the bulkhead/image signatures of the pictures of m, the largest first,
// so that small ones cannot hide them. A picture that cannot be decoded has none.
func imageSignatures(ctx context.Context, m *mail.Message, key [16]byte) ([]bulkhead.Signature, error) {
	type file struct {
		data   []byte
		pixels int
	}
	var files []file
	all, err := m.WithInside(ctx)
	if err != nil {
		return nil, err
	}
	for _, m := range all {
		for i := range m.Parts {
			if n := picture.Pixels(m.Parts[i].Data); n > 0 {
				files = append(files, file{m.Parts[i].Data, n})
			}
		}
	}
	if len(files) == 0 {
		return nil, nil
	}
	slices.SortStableFunc(files, func(a, b file) int { return cmp.Compare(b.pixels, a.pixels) })
	room := min(picture.MaxPixels, minPixels+pixelsAByte*len(m.Raw))
	h := picture.NewHasher(key)
	var sigs []bulkhead.Signature
	for _, f := range files {
		if f.pixels > room {
			continue
		}
		room -= f.pixels
		look, err := picture.Read(ctx, f.data)
		if ended := ctx.Err(); err != nil && ended != nil {
			return nil, err
		}
		if err != nil {
			continue // damage is no error
		}
		keys := h.Keys(look)
		if len(sigs)+len(keys) > maxImageKeys {
			break
		}
		for i := range keys {
			sigs = appendSignature(sigs, bulkhead.Image, keys[i][:])
		}
	}
	return sigs, nil
}
