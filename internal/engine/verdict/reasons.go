package verdict

import (
	"fmt"
	"math"
	"time"

	"github.com/bulkhead-mail/bulkhead"
)

// reasons says in words why the verdict is what it is, the weightiest first.
func reasons(v *bulkhead.Verdict, c collected) []string {
	var out []string
	if v.Whitelisted != "" {
		out = append(out, "white-listed: "+v.Whitelisted)
	}
	switch {
	case c.judged == bulkhead.JudgedSpam && c.bands > 0:
		out = append(out, fmt.Sprintf("nearly the same as a message reported as spam: %d bands of %s agree, confidence %d of 100", c.bands, c.scheme, c.confidence))
	case c.judged == bulkhead.JudgedSpam:
		out = append(out, fmt.Sprintf("reported as spam by reporters that are trusted (%s), confidence %d of 100", c.scheme, c.confidence))
	case c.judged == bulkhead.Revoked:
		out = append(out, fmt.Sprintf("was reported as spam, and that was revoked (%s)", c.scheme))
	}
	// Votes of people are sightings, too, but make nothing bulk.
	if n := max(c.sightings, c.spam); n > 0 && (v.Bulk || n < v.Threshold) {
		out = append(out, countReason(v, c, n))
	}
	if c.spam > 0 || c.ham > 0 {
		text := fmt.Sprintf("%s, %s", plural(c.spam, "spam vote"), plural(c.ham, "ham vote"))
		if c.contested {
			text += ": contested"
		}
		out = append(out, text)
	}
	if len(out) == 0 || c.judged == bulkhead.Unjudged && c.sightings|c.spam|c.ham == 0 {
		return append(out, "never seen and never reported here")
	}
	return append(out, errorReason(c.error))
}

func countReason(v *bulkhead.Verdict, c collected, n uint32) string {
	how := ""
	if classOf(c.bulkBy) == classBand {
		how = " or nearly so"
	}
	text := fmt.Sprintf("seen %s%s (%s)", times(n), how, c.bulkBy)
	if !v.First.IsZero() {
		text += " since " + v.First.Format(time.DateOnly)
	}
	if v.Bulk {
		return text + fmt.Sprintf(": bulk, the threshold is %d", v.Threshold)
	}
	return text + fmt.Sprintf(", below the threshold of %d", v.Threshold)
}

func errorReason(p float64) string {
	switch {
	case p <= 0:
		return "held exactly: no filter error is possible"
	case p < 1e-18:
		return "a filter error is all but impossible (less than one in 10^18)"
	case p >= 0.5:
		return "the filters are too full to tell this from an error"
	}
	return fmt.Sprintf("a filter error would show this for one in %s messages that nobody reported", round(1/p))
}

// round writes x with two significant digits and thousands separated.
func round(x float64) string {
	if x >= 1e6 {
		for _, unit := range []struct {
			size float64
			name string
		}{{1e15, "quadrillion"}, {1e12, "trillion"}, {1e9, "billion"}, {1e6, "million"}} {
			if x >= unit.size {
				return fmt.Sprintf("%.2g %s", math.Min(x/unit.size, 999), unit.name)
			}
		}
	}
	scale := math.Pow(10, math.Max(0, math.Floor(math.Log10(x))-1))
	n := int64(math.Round(x/scale) * scale)
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

func plural(n uint32, noun string) string {
	switch {
	case n >= bulkhead.Many:
		return "many " + noun + "s"
	case n == 1:
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
