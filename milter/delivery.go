package milter

import "sync"

// maxDeliveries is how many deliveries are remembered at least; twice as many at
// most, in 3 MB.
const maxDeliveries = 1 << 14

// deliveries remembers which deliveries were counted of late, by their IDs. What
// the clearinghouse knows of a message that is sent again, after a temporary
// refusal, has the recipients of the first time in it already. It is forgotten at a
// restart. The zero deliveries is ready to use; its methods may be called
// concurrently.
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
