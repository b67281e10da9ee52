//go:build !simclock

package clock

import "time"

// Now returns the time.
func Now() time.Time { return time.Now() }

var began = time.Now()

// Uptime returns for how long the process has run. Setting the machine's clock does not
// change it.
func Uptime() time.Duration { return time.Since(began) }

// Since returns how long ago t was.
func Since(t time.Time) time.Duration { return time.Since(t) }
