// Package bubble advances the simulated clock of testing/synctest.
package bubble

import "time"

// start is the time on the real clock. A simulated clock starts in the year 2000.
var start = time.Now().Unix()

// Advance blocks the goroutine for d on the simulated clock, which costs no real time. Other
// goroutines of the bubble run up to that moment; synctest.Wait waits for those that wake at the
// same moment. Advance panics outside a bubble, where it would be a pause.
func Advance(d time.Duration) {
	if time.Now().Unix() >= start {
		panic("bubble.Advance outside a bubble of testing/synctest")
	}
	time.Sleep(d)
}
