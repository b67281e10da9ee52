package picture

import (
	"bytes"
	"context"
	"errors"
	"image"
	"image/color"
	"image/color/palette"
	"image/draw"
	"image/gif"
	"image/png"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/testing/picturetest"
)

func look(t testing.TB, data []byte) *Look {
	t.Helper()
	l, err := Read(t.Context(), data)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// alike reports whether two pictures have a key in common.
func alike(h *Hasher, a, b *Look) bool {
	keys := h.Keys(a)
	return slices.ContainsFunc(h.Keys(b), func(k [KeySize]byte) bool { return slices.Contains(keys, k) })
}

// made returns picture i of a kind, as PNG or JPEG. Kinds have seeds of their own.
func made(kind string, i int) (*rand.Rand, *image.RGBA, []byte) {
	r := rand.New(rand.NewPCG(uint64(1000+i), uint64(len(kind))))
	m := picturetest.Kinds[kind](r)
	if i%2 == 0 {
		return r, m, picturetest.JPEG(m, 85)
	}
	return r, m, picturetest.PNG(m)
}

// TestChanges changes made pictures, compresses them anew, and wants them recognised.
// The shape of the keys was chosen on pictures of other seeds. It prints the table of
// docs/specs/facets.md.
func TestChanges(t *testing.T) {
	n := 50
	if testing.Short() {
		n = 4
	}
	least := map[string]int{"margin": 60, "cut by 2 %": 75} // percent; others 85
	h := NewHasher([16]byte{})
	hits, of := make(map[string]int), make(map[string]int)
	for _, kind := range slices.Sorted(maps.Keys(picturetest.Kinds)) {
		for i := range n {
			r, m, data := made(kind, i)
			before := look(t, data)
			for _, change := range slices.Sorted(maps.Keys(picturetest.Changes)) {
				after := look(t, picturetest.JPEG(picturetest.Changes[change](r, m), 40+r.IntN(50)))
				for _, row := range []string{change, kind, "all"} {
					of[row]++
					if alike(h, before, after) {
						hits[row]++
					}
				}
			}
		}
	}
	for _, row := range slices.Sorted(maps.Keys(of)) {
		percent := 100 * hits[row] / of[row]
		t.Logf("%-16s %d of %d", row, hits[row], of[row])
		want := 85
		if l, ok := least[row]; ok {
			want = l
		}
		if percent < want {
			t.Errorf("%s: %d %% recognised, want %d", row, percent, want)
		}
	}
}

// TestDifferent wants no key in common of pictures that are not the same, although
// lines of text are much alike.
func TestDifferent(t *testing.T) {
	n := 25
	if testing.Short() {
		n = 8
	}
	h := NewHasher([16]byte{1})
	owner := make(map[[KeySize]byte]int)
	number := 0
	for kind := range picturetest.Kinds {
		for i := range n {
			number++
			_, _, data := made(kind, i)
			for _, k := range h.Keys(look(t, data)) {
				if o := owner[k]; o != 0 && o != number {
					t.Errorf("%s %d has a key of another picture", kind, i)
				}
				owner[k] = number
			}
		}
	}
}

// TestKeysAreSecret: who lacks the key of the network knows none.
func TestKeysAreSecret(t *testing.T) {
	_, _, data := made("advertisement", 1)
	l := look(t, data)
	keys := NewHasher([16]byte{1}).Keys(l)
	if len(keys) != len(l.views)*ViewKeys {
		t.Errorf("%d keys of %d views", len(keys), len(l.views))
	}
	for _, k := range NewHasher([16]byte{2}).Keys(l) {
		if slices.Contains(keys, k) {
			t.Fatalf("key %x is that of another network, too", k)
		}
	}
}

// TestFormats wants the same of one picture in all formats that are written here, and of
// one with an alpha channel what it looks like on white ground.
func TestFormats(t *testing.T) {
	h := NewHasher([16]byte{})
	_, m, _ := made("text", 3)
	want := look(t, picturetest.PNG(m))
	paletted := image.NewPaletted(m.Rect, palette.Plan9)
	draw.FloydSteinberg.Draw(paletted, m.Rect, m, image.Point{})
	clear := image.NewNRGBA(m.Rect)
	grey, grey16 := image.NewGray(m.Rect), image.NewGray16(m.Rect)
	ground := m.At(1, 1)
	for y := range m.Rect.Dy() {
		for x := range m.Rect.Dx() {
			grey.Set(x, y, m.At(x, y))
			grey16.Set(x, y, m.At(x, y))
			if clear.Set(x, y, m.At(x, y)); m.At(x, y) == ground {
				clear.Set(x, y, color.NRGBA{0, 0, 0, 0})
			}
		}
	}
	var animation bytes.Buffer
	if err := gif.EncodeAll(&animation,
		&gif.GIF{Image: []*image.Paletted{paletted, image.NewPaletted(m.Rect, paletted.Palette)},
			Delay: []int{1, 1}}); err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{
		"JPEG": picturetest.JPEG(m, 95), "paletted": picturetest.PNG(paletted), "grey": picturetest.PNG(grey),
		"16 bits":     picturetest.PNG(grey16),
		"transparent": picturetest.PNG(clear), "grey JPEG": picturetest.JPEG(grey, 90), "animation": animation.Bytes(),
	} {
		if !alike(h, want, look(t, data)) {
			t.Errorf("%s looks different", name)
		}
	}
}

// TestFloor checks that pictures that unrelated messages share, or that show nothing distinctive, have no keys.
func TestFloor(t *testing.T) {
	r, m, whole := made("advertisement", 5)
	surface := image.NewGray(image.Rect(0, 0, 300, 200))
	shade := image.NewGray(surface.Rect)
	for i := range shade.Pix {
		shade.Pix[i] = uint8(i % shade.Stride * 255 / shade.Stride)
	}
	for name, data := range map[string][]byte{
		"nothing":       nil,
		"text":          []byte("GIF is a format"),
		"icon":          picturetest.PNG(m.SubImage(image.Rect(0, 0, 32, 32))),
		"spacer":        picturetest.PNG(image.NewGray(image.Rect(0, 0, 1, 1))),
		"bar":           picturetest.PNG(m.SubImage(image.Rect(0, 0, 400, 49))),
		"too many":      picturetest.PNG(image.NewGray(image.Rect(0, 0, 1025, 1024))),
		"surface":       picturetest.PNG(surface),
		"shade":         picturetest.PNG(shade),
		"noisy surface": picturetest.JPEG(picturetest.Noise(r, rgba(surface), 3), 60),
		"cut off":       whole[:len(whole)/2],
		"header":        whole[:40],
		"many scans":    append(slices.Clone(picturetest.JPEG(m, 80)), bytes.Repeat([]byte("\xff\xda"), maxScans)...),
	} {
		l, err := Read(t.Context(), data)
		if err == nil || l != nil || !errors.Is(err, bulkhead.ErrOverLimit) && !errors.Is(err, bulkhead.ErrMalformed) {
			t.Errorf("%s: %v, %v", name, l, err)
		}
	}
}

func rgba(m image.Image) *image.RGBA {
	out := image.NewRGBA(m.Bounds())
	for y := range out.Rect.Dy() {
		for x := range out.Rect.Dx() {
			out.Set(x, y, m.At(x, y))
		}
	}
	return out
}

// TestReadEnds: a picture is not decoded under a context that has ended, which is said.
func TestReadEnds(t *testing.T) {
	_, _, data := made("text", 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if l, err := Read(ctx, data); l != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("Read = %v, %v", l, err)
	}
}

func FuzzRead(f *testing.F) {
	for kind := range picturetest.Kinds {
		_, m, _ := made(kind, 0)
		small := m.SubImage(image.Rect(0, 0, 140, 100))
		f.Add(picturetest.PNG(small))
		f.Add(picturetest.JPEG(small, 50))
		var b bytes.Buffer
		if err := gif.Encode(&b, small, nil); err != nil {
			f.Fatal(err)
		}
		f.Add(b.Bytes())
	}
	f.Add([]byte("RIFF\x1a\x00\x00\x00WEBPVP8L\x0d\x00\x00\x00\x2f\x63\xc0\x18\x10\x07\x10\x11\x11\x88\x88\xfe\x07\x00"))
	h := NewHasher([16]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		n := Pixels(data)
		l, err := Read(t.Context(), data)
		if (l == nil) != (err != nil) {
			t.Fatalf("Read = %v, %v", l, err)
		}
		if l == nil {
			return
		}
		if n < minPixels || n > MaxPixels {
			t.Fatalf("read although there are %d pixels", n)
		}
		keys := h.Keys(l)
		again, err := Read(t.Context(), data)
		if err != nil || !slices.Equal(keys, h.Keys(again)) || len(keys) != len(l.views)*ViewKeys {
			t.Fatalf("%d keys, then others: %v", len(keys), err)
		}
	})
}

func BenchmarkRead(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	large := picturetest.Scale(picturetest.Ad(r), 2, 2)
	noise := picturetest.Noise(r, large, 40)
	flat := image.NewPaletted(image.Rect(0, 0, 1024, 1024), color.Palette{color.White, color.Black})
	for i := 0; i < len(flat.Pix); i += 4099 {
		flat.Pix[i] = 1
	}
	for name, data := range map[string][]byte{
		"PNG": picturetest.PNG(large), "JPEG": picturetest.JPEG(large, 80), "PNG of noise": picturetest.PNG(noise),
		"JPEG of noise": picturetest.JPEG(noise, 90),
		"flat PNG": func() []byte {
			var out bytes.Buffer
			_ = (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, flat)
			return out.Bytes()
		}(),
		"flat GIF": func() []byte { var out bytes.Buffer; _ = gif.Encode(&out, flat, nil); return out.Bytes() }(),
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				_, _ = Read(b.Context(), data)
			}
			if n := Pixels(data); n > 0 {
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/pixel")
			}
		})
	}
}
