//go:build !simclock

package clock

import "time"

// Now returns the time.
func Now() time.Time { return time.Now() }

// Since returns how long ago t was.
func Since(t time.Time) time.Duration { return time.Since(t) }
