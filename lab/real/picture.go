package real

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"math/rand/v2"
	"strings"

	"golang.org/x/image/font"
	"golang.org/x/image/font/basicfont"
	"golang.org/x/image/math/fixed"
)

// drawText returns a picture of a text as PNG. look chooses its colours and width. Each copy has
// other specks and another margin, as programs that send such pictures make them.
func drawText(r *rand.Rand, text string, look uint64) []byte {
	style := rand.New(rand.NewPCG(look, 1))
	const lineHeight = 15
	columns := 44 + style.IntN(30)
	lines := fold(text, columns)
	margin := 6 + r.IntN(6)
	img := image.NewRGBA(image.Rect(0, 0, columns*7+2*margin, len(lines)*lineHeight+2*margin))
	shade := func(least int) color.RGBA {
		return color.RGBA{uint8(least + style.IntN(60)), uint8(least + style.IntN(60)), uint8(least + style.IntN(60)), 255}
	}
	paper, ink := shade(195), shade(0)
	for i := range img.Pix {
		img.Pix[i] = []byte{paper.R, paper.G, paper.B, paper.A}[i%4]
	}
	pen := font.Drawer{Dst: img, Src: image.NewUniform(ink), Face: basicfont.Face7x13}
	for i, line := range lines {
		pen.Dot = fixed.P(margin, margin+lineHeight*i+12)
		pen.DrawString(line)
	}
	for range 40 {
		img.SetRGBA(r.IntN(img.Rect.Dx()), r.IntN(img.Rect.Dy()), color.RGBA{uint8(r.IntN(256)), 90, 90, 255})
	}
	var out bytes.Buffer
	if err := png.Encode(&out, img); err != nil {
		panic(err) // into memory
	}
	return out.Bytes()
}

// fold breaks a text into lines of a number of columns.
func fold(text string, columns int) (lines []string) {
	line := ""
	for _, w := range strings.Fields(text) {
		if line != "" && len(line)+1+len(w) > columns {
			lines = append(lines, line)
			line = ""
		}
		line = strings.TrimSpace(line + " " + w)
	}
	return append(lines, line)
}
