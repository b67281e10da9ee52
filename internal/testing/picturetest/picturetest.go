// Package picturetest draws pictures like those of mail, and changes them as senders do.
package picturetest

import (
	"bytes"
	"image"
	"image/color"
	"image/draw"
	"image/jpeg"
	"image/png"
	"math"
	"math/rand/v2"

	xdraw "golang.org/x/image/draw"
	"golang.org/x/image/font"
	"golang.org/x/image/font/basicfont"
	"golang.org/x/image/math/fixed"
)

// Kinds are the kinds of pictures by name: each draws another one for another r.
var Kinds = map[string]func(r *rand.Rand) *image.RGBA{"text": Text, "document": document, "advertisement": Ad,
	"soft": soft}

// Changes are what is done to pictures so that their files differ.
var Changes = map[string]func(r *rand.Rand, m *image.RGBA) *image.RGBA{
	"a little noise": func(r *rand.Rand, m *image.RGBA) *image.RGBA { return Noise(r, m, 8) },
	"noise":          func(r *rand.Rand, m *image.RGBA) *image.RGBA { return Noise(r, m, 20) },
	"size": func(r *rand.Rand, m *image.RGBA) *image.RGBA {
		f := 0.6 + 0.8*r.Float64()
		return Scale(m, f, f)
	},
	"proportions": func(r *rand.Rand, m *image.RGBA) *image.RGBA {
		return Scale(m, 0.8+0.4*r.Float64(), 0.8+0.4*r.Float64())
	},
	"cut by 1 %": func(r *rand.Rand, m *image.RGBA) *image.RGBA { return Cut(r, m, 0.01) },
	"cut by 2 %": func(r *rand.Rand, m *image.RGBA) *image.RGBA { return Cut(r, m, 0.02) },
	"colours":    Colours,
	"negative":   negative,
	"margin":     Margin,
	"dots":       Dots,
	"several": func(r *rand.Rand, m *image.RGBA) *image.RGBA {
		f := 0.75 + 0.5*r.Float64()
		return Noise(r, Colours(r, Scale(Cut(r, m, 0.01), f, f)), 6)
	},
}

// PNG and JPEG return the file of a picture.
func PNG(m image.Image) []byte {
	var b bytes.Buffer
	if err := png.Encode(&b, m); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// JPEG is PNG for that format.
func JPEG(m image.Image, quality int) []byte {
	var b bytes.Buffer
	if err := jpeg.Encode(&b, m, &jpeg.Options{Quality: quality}); err != nil {
		panic(err)
	}
	return b.Bytes()
}

func colour(r *rand.Rand, from, to int) color.RGBA {
	return color.RGBA{uint8(from + r.IntN(to-from)), uint8(from + r.IntN(to-from)), uint8(from + r.IntN(to-from)), 255}
}

func ground(w, h int, c color.Color) *image.RGBA {
	m := image.NewRGBA(image.Rect(0, 0, w, h))
	draw.Draw(m, m.Rect, image.NewUniform(c), image.Point{}, draw.Src)
	return m
}

func word(r *rand.Rand) string {
	b := make([]byte, 2+r.IntN(9))
	for i := range b {
		b[i] = "etaoinshrdlucmfwypvbgkjqxz"[min(r.IntN(26), r.IntN(26))]
	}
	return string(b)
}

// write draws a word, letters 7 by 13 pixels times size.
func write(m *image.RGBA, text string, x, y, size int, c color.Color) {
	w := 7 * len(text)
	small := image.NewAlpha(image.Rect(0, 0, w, 13))
	d := font.Drawer{Dst: small, Src: image.Opaque, Face: basicfont.Face7x13, Dot: fixed.P(0, 11)}
	d.DrawString(text)
	large := image.NewAlpha(image.Rect(0, 0, w*size, 13*size))
	xdraw.NearestNeighbor.Scale(large, large.Rect, small, small.Rect, draw.Src, nil)
	draw.DrawMask(m, large.Rect.Add(image.Pt(x, y)), image.NewUniform(c), image.Point{}, large, image.Point{}, draw.Over)
}

// lines fills a box with lines of words.
func lines(r *rand.Rand, m *image.RGBA, box image.Rectangle, size int, c color.Color) {
	for y := box.Min.Y; y+13*size <= box.Max.Y; y += 14 * size {
		end := box.Max.X
		if r.IntN(4) == 0 {
			end -= r.IntN(box.Dx() / 2)
		}
		for x := box.Min.X; ; {
			w := word(r)
			if x+7*size*len(w) > end {
				break
			}
			write(m, w, x, y, size, c)
			x += 7 * size * (len(w) + 1)
		}
		if r.IntN(6) == 0 {
			y += 8 * size
		}
	}
}

// clouds fills a box with soft shapes.
func clouds(r *rand.Rand, m *image.RGBA, box image.Rectangle) {
	type cloud struct {
		x, y, size float64
		colour     [3]float64
	}
	all := make([]cloud, 3+r.IntN(10))
	for i := range all {
		all[i] = cloud{
			float64(box.Min.X) + r.Float64()*float64(box.Dx()), float64(box.Min.Y) + r.Float64()*float64(box.Dy()),
			(0.05 + 0.25*r.Float64()) * float64(box.Dx()), [3]float64{r.Float64()*255 - 128, r.Float64()*255 - 128,
				r.Float64()*255 - 128},
		}
	}
	base := [3]float64{60 + 140*r.Float64(), 60 + 140*r.Float64(), 60 + 140*r.Float64()}
	for y := box.Min.Y; y < box.Max.Y; y++ {
		for x := box.Min.X; x < box.Max.X; x++ {
			v := base
			for _, c := range all {
				dx, dy := float64(x)-c.x, float64(y)-c.y
				if d := (dx*dx + dy*dy) / (c.size * c.size); d < 6 {
					for i := range v {
						v[i] += c.colour[i] * math.Exp(-d)
					}
				}
			}
			m.SetRGBA(x, y, color.RGBA{clamp(v[0]), clamp(v[1]), clamp(v[2]), 255})
		}
	}
}

func clamp(v float64) uint8 { return uint8(min(255, max(0, v))) }

// Text draws a headline and lines of text.
func Text(r *rand.Rand) *image.RGBA {
	w, h := 300+r.IntN(300), 150+r.IntN(300)
	m := ground(w, h, colour(r, 200, 256))
	write(m, word(r)+" "+word(r), 10, 8, 3, colour(r, 0, 140))
	lines(r, m, image.Rect(10+r.IntN(20), 60, w-10, h-8), 1+r.IntN(2), colour(r, 0, 120))
	return m
}

func document(r *rand.Rand) *image.RGBA {
	m := ground(595, 842, color.White)
	lines(r, m, image.Rect(50, 60, 545, 782), 1, color.Black)
	return m
}

// Ad draws a picture, a headline and a button.
func Ad(r *rand.Rand) *image.RGBA {
	w, h := 400+r.IntN(300), 300+r.IntN(300)
	m := ground(w, h, colour(r, 150, 256))
	x, y := r.IntN(w/3), r.IntN(h/3)
	clouds(r, m, image.Rect(x, y, x+w/3+r.IntN(w/3), y+h/3+r.IntN(h/3)))
	write(m, word(r)+" "+word(r), 10+r.IntN(40), h-90, 4, colour(r, 0, 140))
	button := image.Rect(0, 0, 120, 30).Add(image.Pt(r.IntN(w/2), h-40))
	draw.Draw(m, button, image.NewUniform(colour(r, 0, 256)), image.Point{}, draw.Src)
	write(m, word(r), button.Min.X+8, button.Min.Y+5, 2, color.White)
	return m
}

func soft(r *rand.Rand) *image.RGBA {
	w, h := 300+r.IntN(400), 200+r.IntN(400)
	m := ground(w, h, color.White)
	clouds(r, m, m.Rect)
	clouds(r, m, image.Rect(w/4, h/4, w/4+w/3, h/4+h/2))
	return m
}

// each returns m with every value of a colour changed: f has the value and which of
// red, green and blue it is.
func each(m *image.RGBA, f func(v float64, of int) float64) *image.RGBA {
	out := image.NewRGBA(m.Rect)
	for i, v := range m.Pix {
		if out.Pix[i] = 255; i%4 < 3 {
			out.Pix[i] = clamp(f(float64(v), i%4))
		}
	}
	return out
}

// Noise adds noise of a standard deviation, in 256 levels.
func Noise(r *rand.Rand, m *image.RGBA, deviation float64) *image.RGBA {
	return each(m, func(v float64, _ int) float64 { return v + deviation*r.NormFloat64() })
}

// Colours changes brightness, contrast and gamma of each colour.
func Colours(r *rand.Rand, m *image.RGBA) *image.RGBA {
	var gamma, by, plus [3]float64
	for i := range gamma {
		gamma[i], by[i], plus[i] = 0.7+0.6*r.Float64(), 0.75+0.5*r.Float64(), 40*r.Float64()-20
	}
	return each(m, func(v float64, of int) float64 { return 255*math.Pow(v/255, gamma[of])*by[of] + plus[of] })
}

func negative(_ *rand.Rand, m *image.RGBA) *image.RGBA {
	return each(m, func(v float64, _ int) float64 { return 255 - v })
}

// Scale changes width and height.
func Scale(m *image.RGBA, wide, high float64) *image.RGBA {
	out := image.NewRGBA(image.Rect(0, 0, int(float64(m.Rect.Dx())*wide), int(float64(m.Rect.Dy())*high)))
	xdraw.BiLinear.Scale(out, out.Rect, m, m.Rect, draw.Src, nil)
	return out
}

// Cut takes up to a part of the width and height off each side.
func Cut(r *rand.Rand, m *image.RGBA, most float64) *image.RGBA {
	n := func(of int) int { return int(r.Float64()*most*float64(of) + 0.5) }
	w, h := m.Rect.Dx(), m.Rect.Dy()
	from := image.Rect(n(w), n(h), w-n(w), h-n(h))
	out := image.NewRGBA(image.Rect(0, 0, from.Dx(), from.Dy()))
	draw.Draw(out, out.Rect, m, from.Min, draw.Src)
	return out
}

// Margin puts a margin of 5 to 40 pixels around m, of the colour of its corner.
func Margin(r *rand.Rand, m *image.RGBA) *image.RGBA {
	n := 5 + r.IntN(25)
	out := ground(m.Rect.Dx()+2*n+r.IntN(20), m.Rect.Dy()+2*n+r.IntN(20), m.At(1, 1))
	draw.Draw(out, m.Rect.Add(image.Pt(n, n)), m, image.Point{}, draw.Src)
	return out
}

// Dots puts specks and lines on m.
func Dots(r *rand.Rand, m *image.RGBA) *image.RGBA {
	out := each(m, func(v float64, _ int) float64 { return v })
	w, h := m.Rect.Dx(), m.Rect.Dy()
	for range w * h / 400 {
		x, y, c := r.IntN(w), r.IntN(h), colour(r, 0, 256)
		out.SetRGBA(x, y, c)
		out.SetRGBA(x+1, y, c)
		out.SetRGBA(x, y+1, c)
	}
	for range 5 {
		x, y, dx, dy := float64(r.IntN(w)), float64(r.IntN(h)), r.NormFloat64()/2, r.NormFloat64()/2
		for c := colour(r, 0, 256); x > 0 && y > 0 && x < float64(w) && y < float64(h); x, y = x+dx, y+dy {
			if out.SetRGBA(int(x), int(y), c); math.Abs(dx)+math.Abs(dy) < 0.1 {
				break
			}
		}
	}
	return out
}
