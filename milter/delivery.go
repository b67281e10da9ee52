package milter

import "sync"

// maxDeliveries is the number of deliveries that are remembered at least. At most twice as many
// are, in 3 MB.
const maxDeliveries = 1 << 14

// deliveries remembers the IDs of recently counted deliveries. If a message is sent
// again after a temporary refusal, its counts already include the first attempt's
// recipients. A restart clears it. The zero deliveries is ready to use; its methods may
// be called concurrently.
type deliveries struct {
	mu         sync.Mutex
	young, old map[string]struct{}
}

// add remembers id, unless it is empty.
func (d *deliveries) add(id string) {
	if id == "" {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.young == nil || len(d.young) >= maxDeliveries {
		d.young, d.old = make(map[string]struct{}), d.young
	}
	d.young[id] = struct{}{}
}

// has reports whether id is remembered.
func (d *deliveries) has(id string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, young := d.young[id]
	_, old := d.old[id]
	return young || old
}
