//go:build !linux

package experiment

import "time"

// ThreadTime returns the time of day: systems other than Linux have no common way to ask
// for the processor time of a thread.
func ThreadTime() time.Duration { return time.Duration(time.Now().UnixNano()) }
