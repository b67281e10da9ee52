package door

import (
	"io"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// idleEnough is how long a connection must have waited for its client before it gives way to a
// connection from a network that has as many.
const idleEnough = time.Second

// A Crowd bounds open connections so that newcomers get in. A connection beyond the bound takes the
// place of a connection that waits for its client: in the network with the most connections, the
// one that has waited longest. A client that holds many silent connections therefore loses those
// first. The newcomer is refused only if no connection waits. Set the fields before the first
// Enter. Its methods may be called concurrently.
type Crowd struct {
	// Max caps the open connections; 0 and below set no cap.
	Max int
	// PerClient caps the open connections of one client, see [ClientOf]; 0 and below set no cap.
	// The zero Addr (a unix socket) has none.
	PerClient int

	mu      sync.Mutex
	places  map[*Place]struct{}
	clients map[netip.Addr]int
	shares  map[netip.Addr]*share
}

// A share is the part of a crowd that one network has, a /24 or /48. All unix sockets count as one
// network.
type share struct{ conns int }

// A Place is the place of one connection in a [Crowd]. At first, the connection waits for its
// client. Its methods may be called concurrently.
type Place struct {
	crowd *Crowd
	conn  io.Closer
	addr  netip.Addr // of the client
	net   netip.Addr
	share *share
	since atomic.Int64 // when it began to wait for its client, by origin; 0 while it does not
	gone  bool         // guarded by the crowd's mu
}

// origin is the zero of the times since which places wait.
var origin = time.Now()

// Enter gives a connection from addr a place, which Leave gives back. If the place was taken from
// another connection, Enter closes that connection and evicted is true. It returns nil if no place
// is available.
func (c *Crowd) Enter(conn io.Closer, addr netip.Addr) (p *Place, evicted bool) {
	p = &Place{crowd: c, conn: conn, addr: ClientOf(addr), net: NetworkOf(addr)}
	p.Wait()
	c.mu.Lock()
	victim, ok := c.make(p)
	if ok {
		c.enter(p)
	}
	c.mu.Unlock()
	if victim != nil {
		victim.conn.Close()
	}
	if !ok {
		return nil, false
	}
	return p, victim != nil
}

// make makes room for p. The caller holds mu.
func (c *Crowd) make(p *Place) (victim *Place, ok bool) {
	switch {
	case c.PerClient > 0 && p.addr.IsValid() && c.clients[p.addr] >= c.PerClient:
		victim = c.longest(p, func(q *Place) bool { return q.addr == p.addr })
	case c.Max > 0 && len(c.places) >= c.Max:
		victim = c.longest(p, func(*Place) bool { return true })
	default:
		return nil, true
	}
	if victim != nil {
		c.leave(victim)
	}
	return victim, victim != nil
}

// longest returns the place that gives way to p, or nil if none does. The caller holds mu.
func (c *Crowd) longest(p *Place, among func(*Place) bool) (victim *Place) {
	mine, latest := 0, p.since.Load()-int64(idleEnough)
	if s := c.shares[p.net]; s != nil {
		mine = s.conns
	}
	var since int64
	for q := range c.places {
		at := q.since.Load()
		// A network that would still have no fewer connections than the newcomer's is not spared.
		// In other networks only idle connections give way.
		if at == 0 || q.share.conns <= mine+1 && at > latest || !among(q) {
			continue
		}
		if victim == nil || q.share.conns > victim.share.conns || q.share.conns == victim.share.conns && at < since {
			victim, since = q, at
		}
	}
	return victim
}

// enter enters p. The caller holds mu.
func (c *Crowd) enter(p *Place) {
	if c.places == nil {
		c.places, c.clients, c.shares = make(map[*Place]struct{}), make(map[netip.Addr]int), make(map[netip.Addr]*share)
	}
	if p.share = c.shares[p.net]; p.share == nil {
		p.share = new(share)
		c.shares[p.net] = p.share
	}
	p.share.conns++
	c.clients[p.addr]++
	c.places[p] = struct{}{}
}

// leave gives the place of p back, once. The caller holds mu.
func (c *Crowd) leave(p *Place) {
	if p.gone {
		return
	}
	p.gone = true
	delete(c.places, p)
	if c.clients[p.addr]--; c.clients[p.addr] == 0 {
		delete(c.clients, p.addr)
	}
	if p.share.conns--; p.share.conns == 0 {
		delete(c.shares, p.net)
	}
}

// Leave gives the place back. It may be called more than once.
func (p *Place) Leave() {
	p.crowd.mu.Lock()
	defer p.crowd.mu.Unlock()
	p.crowd.leave(p)
}

// Wait notes that the connection waits for its client's next request from now on.
func (p *Place) Wait() { p.since.Store(sinceOrigin()) }

func sinceOrigin() int64 { return max(1, int64(time.Since(origin))) }

// Work notes that a request is being answered, so that the place is not taken away.
func (p *Place) Work() { p.since.Store(0) }

// NetworkOf returns the key of a network of clients: the first address of the /24 of an IPv4
// address, of the /48 of an IPv6 address, which a site commonly holds whole, and the zero Addr as
// it is.
func NetworkOf(a netip.Addr) netip.Addr {
	bits := 24
	if a = a.Unmap().WithZone(""); a.Is6() {
		bits = 48
	}
	p, _ := a.Prefix(bits) // fails for more bits than a has; of the zero Addr it is zero
	return p.Addr()
}
