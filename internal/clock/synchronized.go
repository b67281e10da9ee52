package clock

import (
	"bytes"
	"os"
	"time"
)

// timesyncd is the file that systemd-timesyncd touches whenever it has synchronised the clock.
const timesyncd = "/run/systemd/timesync/synchronized"

// syncedFor is how long a synchronisation of the clock is evidence of its time. The longest pause
// between two is 34 minutes.
const syncedFor = time.Hour

// Synchronized reports whether the system states that its clock is synchronised by NTP: the kernel, or
// systemd-timesyncd. It is false if the system does not state it, and while the clock of this process is not the
// machine's.
func Synchronized() bool {
	now := time.Now()
	if Now().Sub(now).Abs() > time.Minute {
		return false // a test has moved it
	}
	if !filtered() {
		if synced, known := kernelSynchronized(); known {
			return synced
		}
	}
	info, err := os.Stat(timesyncd)
	return err == nil && now.Sub(info.ModTime()).Abs() < syncedFor
}

// filtered reports whether the system may end the process for an unusual system call, or is not known.
func filtered() bool {
	status, err := os.ReadFile("/proc/self/status")
	return err != nil || !bytes.Contains(status, []byte("\nSeccomp:\t0\n"))
}
