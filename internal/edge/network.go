package edge

import (
	"context"
	"sync/atomic"
	"time"
)

// network compares the secrets of both nodes.
type network struct {
	own   string        // fingerprint of this node's secret
	other atomic.Bool   // the upstream has another secret
	retry time.Duration // wait for the next try after none was answered
}

// Watch requests the fingerprint of the upstream's secret, now and whenever the upstream is
// reachable again, until ctx ends. It logs if the fingerprint differs from the edge's: then the
// doors of both nodes compute different bulkhead/near signatures of a message, and neither finds
// near copies that the other reported. It must be called only once.
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

// compare compares the fingerprints, and returns false if the upstream did not answer. A missing
// answer does not mark the upstream as unreachable; only requests of the doors do.
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
		log.Error("the upstream has another network secret", "network", e.network.own, "of_upstream", state.Network,
			"consequence", "near copies are not recognised", "hint", "see \"bulkhead network\" there and here")
		return true
	}
	log.Info("the upstream has this node's network secret now", "network", e.network.own)
	return true
}
