package picture

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/gif"
	"image/jpeg"
	"image/png"
	"io"

	"golang.org/x/image/webp"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/pace"
)

// The floor and the limits of a picture.
const (
	// MaxPixels is how many pixels a picture has at most. Decoding one takes up to 16
	// bytes a pixel and its data once more.
	MaxPixels = 1 << 20

	minSide   = 48     // pixels: icons and tracking pixels have less
	minPixels = 12_000 // likewise
	maxAspect = 8      // rules and bars are longer

	// maxScans bounds the scans of a progressive JPEG, each of which may be a few bytes
	// and goes over all pixels. Encoders write ten.
	maxScans = 24
)

// A format is one that is decoded.
type format struct {
	decode func(io.Reader) (image.Image, error)
	config func(io.Reader) (image.Config, error)
}

// formatOf returns the format of data by its first bytes: what senders call it is
// theirs to choose.
func formatOf(data []byte) (format, bool) {
	switch {
	case bytes.HasPrefix(data, []byte("\xff\xd8\xff")):
		return format{jpeg.Decode, jpeg.DecodeConfig}, true
	case bytes.HasPrefix(data, []byte("\x89PNG\r\n\x1a\n")):
		return format{png.Decode, png.DecodeConfig}, true
	case bytes.HasPrefix(data, []byte("GIF8")):
		return format{gif.Decode, gif.DecodeConfig}, true
	case len(data) > 12 && string(data[:4]) == "RIFF" && string(data[8:12]) == "WEBP":
		return format{webp.Decode, webp.DecodeConfig}, true
	}
	return format{}, false
}

// Pixels returns how many pixels the picture in data has, by its header alone. It is 0 if
// data is no picture, or [Read] refuses it because it is below the floor or over the limits.
func Pixels(data []byte) int {
	f, ok := formatOf(data)
	if !ok {
		return 0
	}
	c, err := f.config(bytes.NewReader(data))
	if err != nil || !inBounds(c.Width, c.Height) || bytes.Count(data, []byte("\xff\xda")) > maxScans && isJPEG(data) {
		return 0
	}
	return c.Width * c.Height
}

func isJPEG(data []byte) bool { return data[0] == 0xff }

func inBounds(w, h int) bool {
	return w >= minSide && h >= minSide && w <= MaxPixels/h && w*h >= minPixels && w <= maxAspect*h && h <= maxAspect*w
}

// Read decodes a picture, of an animation the first image: PNG, JPEG, GIF and WebP. It fails with
// an error that wraps [bulkhead.ErrMalformed] if data is not a whole picture, with one that wraps
// [bulkhead.ErrOverLimit] if [Pixels] is 0 or the picture shows too little to be distinguished
// from others, and with one that wraps the error of ctx when ctx ends. Time is linear in the
// pixels and bytes.
func Read(ctx context.Context, data []byte) (*Look, error) {
	if Pixels(data) == 0 {
		return nil, fmt.Errorf("picture: %w: not a picture of %d to %d pixels", bulkhead.ErrOverLimit, minPixels, MaxPixels)
	}
	p := pace.New(ctx)
	f, _ := formatOf(data)
	img, err := decode(f, pace.Reader(bytes.NewReader(data), p))
	if err := pace.Ended(p); err != nil {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("picture: %w: %v", bulkhead.ErrMalformed, err)
	}
	if b := img.Bounds(); !inBounds(b.Dx(), b.Dy()) {
		return nil, fmt.Errorf("picture: %w: decoded to %d by %d pixels, not to the announced size",
			bulkhead.ErrOverLimit, b.Dx(), b.Dy())
	}
	l, err := lookOf(img, p)
	if err := pace.Ended(p); err != nil {
		return nil, err
	}
	return l, err
}

// decode decodes a picture. Senders choose what the libraries' decoders read, so a panic in
// one of them must not end the program.
func decode(f format, r io.Reader) (img image.Image, err error) {
	defer func() {
		if slip := recover(); slip != nil {
			img, err = nil, fmt.Errorf("decoder: %v", slip)
		}
	}()
	return f.decode(r)
}
