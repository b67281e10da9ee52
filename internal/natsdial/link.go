package natsdial

import (
	"net"
	"time"
)

const (
	probeEvery = 10 * time.Second // between two probes of a silent link
	probes     = 2                // unanswered, until the link is dead
	// unacknowledged is how long the other machine may leave sent bytes unacknowledged. A slow link
	// acknowledges a few bytes at a time.
	unacknowledged = 30 * time.Second
)

// dialer returns a dialer whose connections end soon if the other machine or the network is gone, however
// much waits to be sent.
func dialer(wait time.Duration) *net.Dialer {
	return &net.Dialer{Timeout: wait, Control: limitSilence,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: probeEvery, Interval: probeEvery, Count: probes}}
}
