package seen

import (
	"math"
	"strconv"
	"strings"

	"golang.org/x/image/colornames"

	"github.com/bulkhead-mail/bulkhead/internal/text/scan"
)

// A colour is red, green, blue and opacity, each of 0 to 255.
type colour struct{ r, g, b, a uint8 }

var (
	white    = colour{255, 255, 255, 255}
	black    = colour{0, 0, 0, 255}
	linkBlue = colour{0, 0, 238, 255}
)

// near reports whether two colours are indistinguishable to a reader.
func (c colour) near(o colour) bool {
	const most = 12
	return distance(c.r, o.r) <= most && distance(c.g, o.g) <= most && distance(c.b, o.b) <= most
}

func distance(a, b uint8) uint8 { return max(a, b) - min(a, b) }

// over returns the colour that c gives in front of an opaque one.
func (c colour) over(o colour) colour {
	mix := func(c8, o8 uint8, a uint8) uint8 { return uint8((int(c8)*int(a) + int(o8)*(255-int(a)) + 127) / 255) }
	return colour{mix(c.r, o.r, c.a), mix(c.g, o.g, c.a), mix(c.b, o.b, c.a), 255}
}

// colourOf reads a colour as a style has it.
//
// Source: CSS Color 4.
func colourOf(value string) (c colour, ok bool) {
	switch {
	case strings.HasPrefix(value, "#"):
		return hexColour(value[1:])
	case value == "transparent":
		return colour{}, true
	case value == "rebeccapurple":
		return colour{102, 51, 153, 255}, true
	}
	name, inner, called := strings.Cut(value, "(")
	if !called {
		named, ok := colornames.Map[value]
		return colour{named.R, named.G, named.B, 255}, ok
	}
	parts := strings.FieldsFunc(strings.TrimSuffix(inner, ")"), func(r rune) bool {
		return r == ',' || r == ' ' || r == '/'
	})
	if len(parts) != 3 && len(parts) != 4 {
		return colour{}, false
	}
	var n [4]float64
	n[3] = 1
	for i, part := range parts {
		x, unit, ok := number(part)
		if !ok {
			return colour{}, false
		}
		switch {
		case unit == "%" && (i == 3 || name[0] == 'h'):
			x /= 100
		case unit == "%":
			x *= 2.55
		}
		n[i] = x
	}
	switch name {
	case "rgb", "rgba":
		return colour{channel(n[0]), channel(n[1]), channel(n[2]), channel(n[3] * 255)}, true
	case "hsl", "hsla":
		part := func(k float64) uint8 {
			k = math.Mod(k+n[0]/30, 12)
			return channel(255 * (n[2] - n[1]*min(n[2], 1-n[2])*max(-1, min(k-3, 9-k, 1))))
		}
		return colour{part(12), part(8), part(4), channel(n[3] * 255)}, true
	}
	return colour{}, false
}

// channel returns a number of 0 to 255, the nearest one.
func channel(x float64) uint8 { return uint8(max(0, min(255, math.Round(x)))) }

// hexColour reads 3, 4, 6 or 8 digits.
func hexColour(digits string) (colour, bool) {
	if n := len(digits); n == 3 || n == 4 {
		var twice [8]byte
		for i := range n {
			twice[2*i], twice[2*i+1] = digits[i], digits[i]
		}
		digits = string(twice[:2*n])
	}
	if len(digits) == 6 {
		digits += "ff"
	}
	x, err := strconv.ParseUint(digits, 16, 32)
	if err != nil || len(digits) != 8 {
		return colour{}, false
	}
	return colour{uint8(x >> 24), uint8(x >> 16), uint8(x >> 8), uint8(x)}, true
}

// legacyColour reads a colour as an attribute has it: almost every text is one.
//
// Source: WHATWG HTML, rules for parsing a legacy colour value.
func legacyColour(written string) (c colour, ok bool) {
	const longest = 128
	text := strings.ToLower(strings.TrimSpace(written))
	if text == "" || text == "transparent" {
		return colour{}, false
	}
	if named, ok := colornames.Map[text]; ok {
		return colour{named.R, named.G, named.B, 255}, true
	}
	if len(text) == len("#fff") && text[0] == '#' {
		if c, ok := hexColour(text[1:]); ok {
			return c, true
		}
	}
	text = strings.TrimPrefix(text[:min(len(text), longest)], "#")
	digits := []byte(text)
	for i, d := range digits {
		if _, ok := scan.Hex(d); !ok {
			digits[i] = '0'
		}
	}
	for len(digits) == 0 || len(digits)%3 != 0 {
		digits = append(digits, '0')
	}
	size := len(digits) / 3
	var parts [3][]byte
	for i := range parts {
		parts[i] = digits[i*size : (i+1)*size]
		parts[i] = parts[i][max(0, size-8):]
	}
	for len(parts[0]) > 2 && parts[0][0] == '0' && parts[1][0] == '0' && parts[2][0] == '0' {
		for i := range parts {
			parts[i] = parts[i][1:]
		}
	}
	var levels [3]uint8
	for i, part := range parts {
		for _, d := range part[:min(2, len(part))] {
			digit, _ := scan.Hex(d)
			levels[i] = levels[i]<<4 | digit
		}
	}
	return colour{levels[0], levels[1], levels[2], 255}, true
}
