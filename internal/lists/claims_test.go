package lists

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/bulkhead-mail/bulkhead/filter"
)

// TestTwoPartClaims measures a claim of Jiang & Zhao with real lists: the error of the two-part
// filter is the product of the rates of its sections. The claim holds if the eigenvalue is an
// independent hash. If it is a feature of the address, similar addresses collide in the second
// section.
func TestTwoPartClaims(t *testing.T) {
	random := rand.New(rand.NewPCG(9, 9))
	address := func() string {
		local := ""
		for range 9 {
			local += string(rune('a' + random.IntN(26)))
		}
		return fmt.Sprintf("%s.%s.%s@example%d.com", local[:3], local[3:6], local[6:], random.IntN(20))
	}
	var lines []string
	for range 30_000 {
		lines = append(lines, address())
	}
	for _, eigen := range []filter.Eigenvalue{filter.EigenHash, filter.EigenChars, filter.EigenDomain} {
		_, l := build(t, Options{Error: 1e-2, Eigen: eigen, Exact: true}, lines...)
		found, asked := 0, 60_000
		for range asked {
			if l.has(Entry{Address, "x" + address()}) {
				found++
			}
		}
		measured, claimed := float64(found)/float64(asked), l.filter.ProductRate()
		t.Logf("eigenvalue %v: claimed %.2g, stated %.2g, measured %.2g, %.1f bits an entry", eigen, claimed,
			l.ErrorRate(), measured, 8*float64(l.Bytes())/30_000)
		if sigma := math.Sqrt(l.ErrorRate() / float64(asked)); measured > l.ErrorRate()+5*sigma {
			t.Errorf("eigenvalue %v: measured %g is more than the list states, %g", eigen, measured, l.ErrorRate())
		}
		if holds := measured < 2*claimed; holds != (eigen == filter.EigenHash) {
			t.Errorf("eigenvalue %v: measured %g, claimed %g: the product holds: %v", eigen, measured, claimed, holds)
		}
	}
}
