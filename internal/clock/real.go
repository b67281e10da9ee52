//go:build !simclock

package clock

import "time"

// Now returns the current time.
func Now() time.Time { return time.Now() }

var began = time.Now()

// Uptime returns how long the process has been running. Setting the machine's clock does not change
// it.
func Uptime() time.Duration { return time.Since(began) }

// Since returns how long ago t was.
func Since(t time.Time) time.Duration { return time.Since(t) }
