package mesh

import (
	"maps"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/bus"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/member"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/replica"
)

// Status is the state of a node's part in the network.
type Status struct {
	ID          string // key of the node
	Name        string
	Mode        member.Mode
	Role        member.Role
	Incarnation uint64
	Memory      engine.RemoteMemory
	Published   uint64 // messages since the start
	Rounds      uint64 // rounds in them
	Bytes       uint64 // of published messages
	Images      uint64 // published pages
	Dropped     uint64 // messages that no broker accepted in time
	Healing     bool   // the node has lost pages, and publishes nothing until they are back
	Twin        bool   // another server uses the node's key
	Strangers   map[string]uint64
	Brokers     []bus.Status
	Peers       []PeerStatus
}

// PeerStatus is the state of one peer, as seen by this node.
type PeerStatus struct {
	ID         string
	Name       string
	Weight     float64
	Quarantine string // why it is not counted; "" if it is
	Expels     bool   // it is a hub that refuses this node, which it has admitted before
	Added      time.Time
	Group      string // group by which it is a peer; "" for none
	// Organisations is the number of organisations in its arrays, by its own account; 0 if it is no
	// aggregate.
	Organisations int

	Heard       time.Time     // last message, including before the start; zero if there was none
	Silent      time.Duration // time since then, or since it was added, if long; 0 otherwise
	Network     string        // fingerprint of another network, with another secret, that it is in; "" for none
	Lag         time.Duration // time from the peer's count to this node's, of the last delta
	Behind      time.Duration // for how long versions have been missing; 0 if none is
	Missing     uint64        // missing versions: changes that this node has not received
	Incarnation uint64
	Traffic
	Refusals map[string]uint64
	Replica
	Error  string                // text of the last refusal
	Former []member.FormerStatus // of lost incarnations, oldest first
}

// silentAfter is how many heartbeats a peer may be silent before its status reports that.
const silentAfter = 10

// twinShown is for how many heartbeats after its last sign another server with the node's key is shown.
const twinShown = 10

// twin reports whether another server uses this node's key.
func (m *Mesh) twin() bool { return m.state.Twin(twinShown * m.opts.Heartbeat) }

// clockTolerance is the largest difference of two clocks that agree.
const clockTolerance = 30 * time.Minute

// Clocks returns how many peers that this node counts were heard lately, and how many of their clocks
// agree with a time of this node's clock.
func (m *Mesh) Clocks(wall time.Time) (agree, all int) {
	m.Each(m.List(), func(p *member.Peer, s *member.Stats) {
		age := time.Since(s.ClockAt)
		if p.Weight == 0 || p.Quarantine != "" || age > silentAfter*m.opts.Heartbeat {
			return
		}
		all++
		if s.Clock.Add(age).Sub(wall).Abs() < clockTolerance {
			agree++
		}
	})
	return agree, all
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Traffic is what was exchanged with one peer since the start.
type Traffic struct {
	Messages uint64 // accepted
	Bytes    uint64 // of these messages
	Applied  uint64 // rounds
	Pages    uint64 // of images
	Asked    uint64 // requests for missing versions
	Served   uint64 // bytes of rounds and images sent because the peer asked
}

// Replica is what this node holds of one peer.
type Replica struct {
	Keys   uint64 // in all its arrays
	Memory uint64 // bytes of its replica, without merged arrays
	Merged int    // its arrays that are merged with those of others
	// Ghost is the probability that its arrays, or the arrays they are merged into, report a signature
	// that was never added.
	Ghost float64
}

// Status returns the state of the node's part in the network.
func (m *Mesh) Status() Status {
	sent := m.origin.Sent()
	s := Status{
		ID: m.opts.Identity.ID(), Name: m.opts.Name, Mode: m.opts.Mode, Role: m.opts.Role,
		Memory:    m.opts.Engine.RemoteMemory(),
		Published: sent.Messages, Rounds: sent.Rounds, Bytes: sent.Bytes, Images: sent.Pages, Dropped: sent.Dropped,
		Healing: m.origin.Healing(),
	}
	for _, b := range m.buses {
		s.Brokers = append(s.Brokers, b.Status())
	}
	replicas, former := make(map[string][]engine.ArrayState), make(map[string][]member.FormerStatus)
	list := m.List()
	for _, p := range list {
		replicas[p.ID], former[p.ID] = m.opts.Engine.Replica(p.ID), m.Former(p.ID)
	}
	expels := make(map[string]bool)
	for _, c := range m.clients() {
		if hub, ok := c.RefusedBy(); ok && m.state.WasAdmitted(hub.ID()) {
			expels[hub.ID()] = true
		}
	}
	s.Incarnation, _ = m.state.Life()
	s.Strangers, s.Twin = m.Strangers(), m.twin()
	m.Each(list, func(p *member.Peer, x *member.Stats) {
		out := PeerStatus{
			ID: p.ID, Name: p.Name, Weight: p.Weight, Quarantine: p.Quarantine, Expels: expels[p.ID],
			Added: p.Added, Group: p.Group,
			Organisations: len(x.Organisations),
			Heard:         x.LastHeard, Lag: x.Lag, Missing: x.Missing, Incarnation: m.opts.Engine.Incarnation(p.ID),
			Traffic: Traffic{Messages: x.Messages, Bytes: x.Bytes, Applied: x.Applied, Pages: x.Pages, Asked: x.Asked,
				Served: x.Served},
			Refusals: maps.Clone(x.Refusals.Count), Error: x.Refusals.Last,
		}
		// A peer that is not counted may only be a hub of the sum, or ask for the sum: it is never heard.
		needed := p.Weight > 0 || !x.LastHeard.IsZero()
		if d := m.opts.Now().Sub(later(x.LastHeard, p.Added)); d > silentAfter*m.opts.Heartbeat &&
			m.opts.Role != member.Publish && needed {
			out.Silent = d
		}
		if !x.Behind.IsZero() {
			out.Behind = time.Since(x.Behind)
		}
		if x.Network != "" && m.opts.Now().Sub(x.NetworkAt) < replica.NetworkRest {
			out.Network = x.Network
		}
		out.Former = former[p.ID]
		if out.Name == "" {
			out.Name = x.OwnName
		}
		for _, a := range replicas[p.ID] {
			out.Keys += a.Keys
			out.Memory += a.Bytes
			out.Ghost = min(1, out.Ghost+a.Ghost)
			if a.Merged {
				out.Merged++
			}
		}
		s.Peers = append(s.Peers, out)
	})
	return s
}
