package experiment

import (
	"time"

	"golang.org/x/sys/unix"
)

// ThreadTime returns the processor time that the calling thread has used.
func ThreadTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		return 0
	}
	return time.Duration(t.Nano())
}
