package verdict

import (
	"fmt"
	"math"
	"strings"

	"github.com/bulkhead-mail/bulkhead"
)

// errorReason describes the probability that the filters are wrong, as a share of the messages
// about which they can be wrong.
func errorReason(p float64, who string) string {
	switch {
	case p <= 0:
		return "held exactly: no filter error is possible"
	case p < 1e-18:
		return "a filter error is all but impossible (less than one in 10^18)"
	case p >= 0.5:
		return "the filters are too full to distinguish this from an error"
	}
	return fmt.Sprintf("a filter error would show this for one in %s messages that %s", round(1/p), who)
}

// round writes x, from 1 to 1e18, with two significant digits and thousands separated.
func round(x float64) string {
	n, scale := int64(math.Round(x)), int64(1)
	for n/scale >= 100 {
		scale *= 10
	}
	n = (n + scale/2) / scale * scale
	for _, unit := range []struct {
		size int64
		name string
	}{{1e15, "quadrillion"}, {1e12, "trillion"}, {1e9, "billion"}, {1e6, "million"}} {
		switch rest := n % unit.size; {
		case n < unit.size:
		case rest > 0:
			return fmt.Sprintf("%d.%d %s", n/unit.size, rest/(unit.size/10), unit.name)
		default:
			return fmt.Sprintf("%d %s", n/unit.size, unit.name)
		}
	}
	if n >= 1000 {
		return fmt.Sprintf("%d,%03d", n/1000, n%1000)
	}
	return fmt.Sprint(n)
}

func times(n uint32) string {
	switch {
	case n >= bulkhead.Many:
		return "many times"
	case n == 1:
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// plural returns a number with its noun; a noun in y takes "ies".
func plural(n uint32, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	if stem, ok := strings.CutSuffix(noun, "y"); ok {
		noun = stem + "ie"
	}
	if n >= bulkhead.Many {
		return "many " + noun + "s"
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
