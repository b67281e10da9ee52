package attack

import (
	"fmt"
	"os"
	"testing"
)

// TestNoCheaper checks that no attack takes less than docs/attacks.md has: one less of the means than its
// price does not achieve the goal, and one that never succeeded still does not.
func TestNoCheaper(t *testing.T) {
	file, err := os.Open("../../docs/attacks/prices.tsv")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	prices, err := ReadPrices(file)
	if err != nil {
		t.Fatal(err)
	}
	priced := make(map[string]bool)
	for _, p := range prices {
		priced[p.Name+string(p.Means)] = true
	}
	for _, s := range Scenarios() {
		if !priced[s.Name+string(s.Means)] {
			t.Errorf("%s, %s: no price: bulkhead-lab attack --most 400 --report docs", s.Name, s.Means)
		}
	}
	for _, p := range prices {
		less := p.Takes - 1
		if p.Takes == 0 {
			less = min(p.Limit, 60)
		}
		if less == 0 || p.Honest > 5 || p.Means == Aged && testing.Short() {
			continue
		}
		t.Run(fmt.Sprint(p.Name, ", ", p.Means, ", against ", p.Honest), func(t *testing.T) {
			t.Parallel()
			if succeeds(t, scenario(t, p.Name, p.Means), p.Honest, less) {
				t.Errorf("%d %s are enough, where it took %d of at most %d", less, p.Means, p.Takes, p.Limit)
			}
		})
	}
}
