package clock

import "golang.org/x/sys/unix"

// clockUnsynchronized is TIME_ERROR of adjtimex(2), and statusUnsynchronized its STA_UNSYNC.
const clockUnsynchronized, statusUnsynchronized = 5, 0x40

// kernelSynchronized reports whether the kernel's clock is synchronised; known is false if the kernel
// does not state it. Setting the clock by hand ends the synchronised state.
func kernelSynchronized() (synced, known bool) {
	var t unix.Timex
	state, err := unix.Adjtimex(&t)
	return state != clockUnsynchronized && t.Status&statusUnsynchronized == 0, err == nil
}
