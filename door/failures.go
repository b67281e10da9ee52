package door

import (
	"context"
	"log/slog"
	"net/netip"
	"sync"
	"time"
)

const (
	freeFailures  = 5                // failures of a network that cost no wait
	firstWait     = time.Second / 10 // after these; each further failure doubles it
	longestWait   = 4 * time.Second
	failureMemory = 10 * time.Minute // without a further failure, a network is forgotten
	maxFailing    = 4096             // networks
	failureLines  = time.Minute      // between two lines of the log
)

// Failures slows down log-ins that fail, and sums them up in the log: the first is logged at once,
// the failures of the next minute in one line. They are counted by network, see [NetworkOf].
// Log-ins that succeed never wait, even if others fail in their network.
//
// One Failures serves all doors of a node. Its methods may be called concurrently; those
// of nil do nothing.
type Failures struct {
	// Told, if not nil, is called for each line of the log, with the door and network of a failure,
	// or the door and network with the most of several failures. Set it before any use.
	Told func(door string, network netip.Addr, failures int)

	log *slog.Logger

	mu       sync.Mutex
	networks map[netip.Addr]failing
	quiet    bool // a line was written within a minute; the next one waits
	untold   summary
}

// failing counts the failures of a network.
type failing struct {
	n    int
	last time.Time
}

// A summary is the failures since the last line of the log.
type summary struct {
	failures int
	networks map[netip.Addr]int
	doors    map[string]int
}

// NewFailures returns a Failures that writes to log.
func NewFailures(log *slog.Logger) *Failures {
	return &Failures{log: log, networks: make(map[netip.Addr]failing)}
}

// Note notes a failed log-in at a door, and returns how long its answer should wait:
// at most four seconds.
func (f *Failures) Note(door string, client netip.Addr, now time.Time) time.Duration {
	if f == nil {
		return 0
	}
	network := NetworkOf(client)
	wait, logged := f.note(door, network, now)
	if logged && f.Told != nil {
		f.Told(door, network, 1)
	}
	return wait
}

// note is Note for a network. told reports whether the log has a line about it.
func (f *Failures) note(door string, network netip.Addr, now time.Time) (wait time.Duration, logged bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	was := f.networks[network]
	if now.Sub(was.last) >= failureMemory {
		was.n = 0
	}
	if _, known := f.networks[network]; !known && len(f.networks) >= maxFailing {
		f.forget(now)
	}
	was.n, was.last = was.n+1, now
	f.networks[network] = was
	logged = f.tell(door, network)
	if was.n <= freeFailures {
		return 0, logged
	}
	return min(longestWait, firstWait<<min(was.n-freeFailures-1, 10)), logged
}

// forget makes room: it drops networks that are silent, or any half of them if all are busy.
func (f *Failures) forget(now time.Time) {
	for k, x := range f.networks {
		if now.Sub(x.last) >= failureMemory {
			delete(f.networks, k)
		}
	}
	for k := range f.networks {
		if len(f.networks) <= maxFailing/2 {
			return
		}
		delete(f.networks, k)
	}
}

// tell logs a failure and returns true, or keeps it for the line at the end of the minute and
// returns false.
func (f *Failures) tell(door string, network netip.Addr) bool {
	if !f.quiet {
		f.quiet = true
		f.log.Warn("log-in failed", "door", door, "network", network)
		time.AfterFunc(failureLines, f.sumUp)
		return true
	}
	s := &f.untold
	if s.networks == nil {
		s.networks, s.doors = make(map[netip.Addr]int), make(map[string]int)
	}
	s.failures++
	s.doors[door]++
	if _, known := s.networks[network]; known || len(s.networks) < maxFailing {
		s.networks[network]++
	}
	return false
}

// sumUp logs the failures of a minute, if there were any.
func (f *Failures) sumUp() {
	f.mu.Lock()
	s := f.untold
	f.untold = summary{}
	f.quiet = s.failures > 0
	f.mu.Unlock()
	if s.failures == 0 {
		return
	}
	door := ""
	for name, n := range s.doors {
		if n > s.doors[door] || n == s.doors[door] && name < door {
			door = name
		}
	}
	var most netip.Addr
	for network, n := range s.networks {
		if n > s.networks[most] || n == s.networks[most] && network.Less(most) {
			most = network
		}
	}
	f.log.Warn("log-ins failed in the last minute", "failures", s.failures, "doors", s.doors, "networks", len(s.networks),
		"most_from", most, "of_it", s.networks[most])
	if f.Told != nil {
		f.Told(door, most, s.failures)
	}
	time.AfterFunc(failureLines, f.sumUp)
}

// Slow notes a failed log-in and waits as long as its answer should, or until ctx ends.
func (f *Failures) Slow(ctx context.Context, door string, client netip.Addr) {
	wait := f.Note(door, client, time.Now())
	if wait == 0 {
		return
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
