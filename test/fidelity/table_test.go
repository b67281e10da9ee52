//go:build interop

package fidelity

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/interval"
)

// A tally counts agreement by source.
type tally struct {
	t      *testing.T
	what   string
	rows   map[string]*row
	shown  int
	floors map[string]float64 // share that must agree, by source; "" for those not named
}

type row struct{ cases, agree int }

func newTally(t *testing.T, what string, floors map[string]float64) *tally {
	return &tally{t: t, what: what, rows: make(map[string]*row), floors: floors}
}

// maxShown is how many disagreements are shown.
const maxShown = 40

// compare counts a case.
func (c *tally) compare(source, name string, agree bool, format string, args ...any) {
	r := c.rows[source]
	if r == nil {
		r = &row{}
		c.rows[source] = r
	}
	r.cases++
	if agree {
		r.agree++
		return
	}
	if c.shown++; c.shown <= maxShown || full() {
		c.t.Logf("%s: %s: %s", c.what, name, fmt.Sprintf(format, args...))
	}
}

// report prints the rows, which test/interop shows, and fails below a floor.
func (c *tally) report() {
	for _, source := range slices.Sorted(maps.Keys(c.rows)) {
		r := c.rows[source]
		low, high := interval.Wilson(r.agree, r.cases)
		fmt.Printf("| %s | %s | %d of %d | %.2f %% | %.2f to %.2f |\n", c.what, source, r.agree, r.cases,
			100*float64(r.agree)/float64(r.cases), 100*low, 100*high)
		floor, ok := c.floors[source]
		if !ok {
			floor = c.floors[""]
		}
		// By the upper end of the interval: a small sample fails when it is worse than chance.
		if high < floor {
			c.t.Errorf("%s, %s: %.2f %% agree, want %.2f", c.what, source, 100*float64(r.agree)/float64(r.cases), 100*floor)
		}
	}
}
