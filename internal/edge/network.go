package edge

import (
	"context"
	"sync/atomic"
	"time"
)

// network compares the secrets of both nodes.
type network struct {
	own   string        // fingerprint of this node's
	other atomic.Bool   // the upstream has another one
	retry time.Duration // until the next try without an answer
}

// Watch requests the fingerprint of the upstream's secret, now and whenever it is
// reachable again, until ctx ends, and logs if it differs from the edge's: then the
// doors of both compute different bulkhead/near signatures of one message, and neither
// finds near copies that the other reported. It is called once.
func (e *Edge) Watch(ctx context.Context) error {
	for {
		var again <-chan time.Time // never
		if !e.compare(ctx) {
			again = time.After(e.network.retry)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-e.health.back:
		case <-again:
		}
	}
}

// OtherNetwork reports whether the upstream's last fingerprint differed from the edge's.
func (e *Edge) OtherNetwork() bool { return e.network.other.Load() }

// compare returns false if the upstream did not answer. That alone does not make it
// unreachable: requests of the doors decide.
func (e *Edge) compare(ctx context.Context) bool {
	short, cancel := context.WithTimeout(ctx, e.timeout)
	defer cancel()
	state, err := e.up.Node(short)
	log := e.health.log
	switch {
	case down(err):
		log.Debug("the upstream does not name its network", "err", err, "next_try", e.network.retry)
		return false
	case err != nil, state == nil, state.Network == "":
		log.Warn("network secret not compared with the upstream's", "err", err)
		return true
	}
	other := state.Network != e.network.own
	if e.network.other.Swap(other) == other {
		return true
	}
	if other {
		log.Error(
			"the upstream has another network secret: near copies are not recognised; see \"bulkhead network\" there and here",
			"network", e.network.own, "of_upstream", state.Network)
		return true
	}
	log.Info("the upstream has this node's network secret now", "network", e.network.own)
	return true
}
