package edge

import (
	"context"
	"slices"
	"sync/atomic"
	"time"
)

// network compares the secrets of both nodes.
type network struct {
	own     string        // fingerprint of this node's secret
	other   atomic.Bool   // the upstream has another secret
	timeout time.Duration // of a request
	retry   time.Duration // wait for the next try after none was answered
}

// Watch requests the fingerprint of each upstream's secret, now and whenever the upstream is
// reachable again, until ctx ends. It logs if the fingerprint differs from the edge's: then the
// doors of both nodes compute different bulkhead/near signatures of a message, and neither finds
// near copies that the other reported. It must be called only once.
func (e *Edge) Watch(ctx context.Context) error {
	e.each(ctx, func(ctx context.Context, t *target) { t.watch(ctx) })
	return nil
}

func (t *target) watch(ctx context.Context) {
	for {
		var again <-chan time.Time // never
		if !t.compare(ctx) {
			again = time.After(t.network.retry)
		}
		select {
		case <-ctx.Done():
			return
		case <-t.health.back:
		case <-again:
		}
	}
}

// OtherNetwork reports whether the last fingerprint of an upstream differed from the edge's.
func (e *Edge) OtherNetwork() bool {
	return slices.ContainsFunc(e.current().all, func(t *target) bool { return t.network.other.Load() })
}

// compare compares the fingerprints, and returns false if the upstream did not answer. A missing
// answer does not mark the upstream as unreachable; only requests of the doors do.
func (t *target) compare(ctx context.Context) bool {
	short, cancel := context.WithTimeout(ctx, t.network.timeout)
	defer cancel()
	state, err := t.up.Node(short)
	log := t.health.log
	switch {
	case down(err):
		log.Debug("the upstream does not name its network", "err", err, "next_try", t.network.retry)
		return false
	case err != nil, state == nil, state.Network == "":
		log.Warn("network secret not compared with the upstream's", "err", err)
		return true
	}
	other := state.Network != t.network.own
	switch before := t.network.other.Swap(other); {
	case other && !before:
		log.Error("the upstream has another network secret", "network", t.network.own, "of_upstream", state.Network,
			"consequence", "near copies are not recognised", "hint", "see \"bulkhead network\" there and here")
	case before && !other:
		log.Info("the upstream has this node's network secret now", "network", t.network.own)
	}
	return true
}
