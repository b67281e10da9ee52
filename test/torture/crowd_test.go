//go:build interop

package torture

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// TestCrowd has far more connections opened at each TCP door than it takes, from many networks,
// half of which say nothing and half of which begin and do not go on. Other clients must be served
// during that time. CROWD is how many there are.
func TestCrowd(t *testing.T) {
	crowd := crowdOf(t)
	v := newVictim(t, filepath.Join(t.TempDir(), "data"), settings+fmt.Sprintf("[limits]\nconnections = %d\n", crowd*2/5))
	p := v.serve()
	defer p.Stop()
	for _, d := range v.tcpDoors() {
		const requests = 40
		quiet := v.served(requests, d.name, d.use)
		end := v.crowd(d, crowd, 0)
		// A connection gives way to that of another network with as many only after a second of silence. The
		// first place comes with the silence of the first arrivals, so the last ones need another second.
		v.await("a place at "+d.name, func() bool { return d.use(t.Context(), v.rng) == nil })
		runFor(time.Second)
		crowded := v.served(requests, d.name, d.use)
		end()
		t.Logf(
			"%-12s %d connections that say nothing or little: %d requests beside them, median %v, longest %v; without them %v "+
				"and %v",
			d.name, crowd, requests, crowded[requests/2], crowded[requests-1], quiet[requests/2], quiet[requests-1])
	}
}

// served wants a number of requests to be answered, and returns how long that took, in
// order.
func (v *victim) served(n int, door string, use func(context.Context, *rand.Rand) error) (took []time.Duration) {
	v.t.Helper()
	for i := range n {
		begin := time.Now()
		if err := use(v.t.Context(), v.rng); err != nil {
			v.t.Fatalf("%s: request %d: %v", door, i, err)
		}
		took = append(took, time.Since(begin).Round(time.Microsecond))
	}
	slices.Sort(took)
	return took
}
