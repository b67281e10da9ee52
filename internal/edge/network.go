package edge

import (
	"context"
	"sync/atomic"
	"time"
)

// network is what is known of the secrets of both nodes.
type network struct {
	own   string        // fingerprint of this node's
	other atomic.Bool   // the upstream has another one
	retry time.Duration // after which one asks again who did not answer
}

// Watch asks the upstream for the fingerprint of its secret, now and whenever it is
// back, until ctx ends, and logs if it is another one than the edge's: the doors of
// both then make different bulkhead/near signatures of one message, and neither finds
// near copies of what the other has reported. It is called once.
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

// OtherNetwork reports whether the upstream, when it was last asked, had another
// secret than the edge.
func (e *Edge) OtherNetwork() bool { return e.network.other.Load() }

// compare returns false if the upstream did not answer. That is no reason to take it
// for away: what the doors ask decides.
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
		log.Error("the upstream has another network secret: near copies are not recognised; see \"bulkhead network\" there and here", "network", e.network.own, "of_upstream", state.Network)
		return true
	}
	log.Info("the upstream has this node's network secret now", "network", e.network.own)
	return true
}
