package door

import (
	"net/netip"
	"sync"
)

// The limits of a [Credit].
const (
	maxCredit        = 4096    // bytes of one address
	maxCreditClients = 1 << 14 // in each half
)

// Amplifies reports whether an answer has more than 1.5 times the bytes of its request. Sent to an
// address that has proved nothing, it would let forged requests flood that address.
func Amplifies(request, answer int) bool { return 2*answer > 3*request }

// A Credit bounds what addresses that have proved nothing are sent: in all at most 1.5 times the
// bytes that came from them. It is for protocols that fix the size of an answer above that: a client
// gets the answer when it repeats its request. The zero Credit is ready, has a bounded size, and
// forgets addresses that are silent while many others ask. Its methods may be called concurrently.
type Credit struct {
	mu         sync.Mutex
	young, old map[netip.AddrPort]int // half bytes
}

// Allow adds the bytes of a request to the credit of its sender, and reports whether that covers the
// bytes of an answer, which it then takes away.
func (c *Credit) Allow(client netip.AddrPort, request, answer int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	left, known := c.young[client]
	if !known {
		left = c.old[client]
		delete(c.old, client)
		if len(c.young) >= maxCreditClients || c.young == nil {
			c.young, c.old = make(map[netip.AddrPort]int), c.young
		}
	}
	left = min(left+3*request, 2*maxCredit)
	enough := left >= 2*answer
	if enough {
		left -= 2 * answer
	}
	c.young[client] = left
	return enough
}
