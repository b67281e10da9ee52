package admin

import "time"

// A Network describes a node's part in a network of nodes.
type Network struct {
	Key         string            `json:"key" doc:"Public key of the node: its peers add it."`
	Mode        string            `json:"mode" enum:"hub,join,external"`
	Role        string            `json:"role" enum:"both,subscribe,publish"`
	Incarnation uint64            `json:"incarnation" doc:"Grows whenever the node was restored from a backup."`
	Memory      uint64            `json:"memory_bytes" doc:"Memory that the counts of peers take."`
	MaxMemory   uint64            `json:"max_memory_bytes"`
	Merged      int               `json:"merged_arrays" doc:"Arrays of peers without memory of their own: they were merged, because the memory of all would exceed the limit."`
	MergedInto  int               `json:"merged_into" doc:"Arrays that they were merged into."`
	Published   uint64            `json:"published" doc:"Messages since the start."`
	Bytes       uint64            `json:"published_bytes"`
	Rounds      uint64            `json:"published_rounds"`
	Images      uint64            `json:"published_images" doc:"Pages."`
	Dropped     uint64            `json:"dropped" doc:"Messages that no broker took in time; peers ask for what was in them."`
	Healing     bool              `json:"healing,omitempty" doc:"The node has lost pages of its own arrays, asks peers for their replicas of them, and publishes nothing until it has them."`
	Twin        bool              `json:"twin,omitempty" doc:"Another server uses this node's key: a copied disk or data folder. Peers count neither of the two."`
	Strangers   map[string]uint64 `json:"strangers" doc:"Messages refused of senders that are no peers, by reason."`
	Secret      *SecretChange     `json:"secret_change,omitempty" doc:"Change of the network's secret that was announced last; absent if none was."`
	Aggregate   *Aggregate        `json:"aggregate,omitempty" doc:"Sum of the node and peers that it publishes; absent if it publishes none."`
	Brokers     []Broker          `json:"brokers"`
	Peers       []Peer            `json:"peers"`
}

// An Aggregate is the sum of a node and some of its peers, which is published as one origin.
type Aggregate struct {
	Key           string  `json:"key" doc:"Its public key: those add it who count the members through it."`
	Members       int     `json:"members" doc:"Peers in it, beside the node."`
	Organisations int     `json:"organisations" doc:"Organisations in it, the node and those of members that are aggregates included."`
	Arrays        int     `json:"arrays"`
	Memory        uint64  `json:"memory_bytes"`
	Ghost         float64 `json:"ghost" doc:"Probability that it shows a signature that was never reported, 0 to 1."`
	Sums          uint64  `json:"sums" doc:"How often it was made anew since the start."`
	Fault         string  `json:"fault,omitempty" doc:"Why it is not published, or what is missing in it."`
}

// A Broker is a connection to a server that carries messages.
type Broker struct {
	Server    string  `json:"server"`
	Connected bool    `json:"connected"`
	Error     string  `json:"error,omitempty"`
	BytesIn   uint64  `json:"bytes_in"`
	BytesOut  uint64  `json:"bytes_out"`
	Trouble   string  `json:"trouble,omitempty" enum:"jetstream,storage,replicas,permission,slow,streams" doc:"Fault of a NATS server that is not run by this node; absent if there is none."`
	Answer    float64 `json:"answer_seconds,omitempty" doc:"What such a server took to answer when it was asked last."`
}

// A Peer is a node that this one shares with.
type Peer struct {
	Key           string            `json:"key"`
	Name          string            `json:"name"`
	Weight        float64           `json:"weight" minimum:"0" maximum:"1" doc:"What its word is worth here."`
	Quarantine    string            `json:"quarantine,omitempty" doc:"Why it is kept and not counted; absent if it is counted."`
	Expels        bool              `json:"expels,omitempty" doc:"It is a hub that has expelled this node: it refuses the node, and admitted it before."`
	Added         time.Time         `json:"added"`
	Group         string            `json:"group,omitempty" doc:"Group by which it is a peer."`
	Organisations int               `json:"organisations,omitempty" doc:"Organisations whose counts are in its arrays, as it says; absent if it is no aggregate."`
	Heard         time.Time         `json:"heard,omitzero" doc:"Last message; absent if there was none."`
	Silent        float64           `json:"silent_seconds" doc:"Since then, once that is ten heartbeats; 0 until then."`
	Network       string            `json:"other_network,omitempty" doc:"Fingerprint of the network that it is in, if its secret is another one: nothing is shared."`
	Lag           float64           `json:"lag_seconds" doc:"From when the peer counted to when this node did, of its last message; the clocks of both count."`
	Behind        float64           `json:"behind_seconds" doc:"For how long something of it has been missing; 0 if nothing is."`
	Missing       uint64            `json:"missing" doc:"Changes of its arrays that have not arrived."`
	Incarnation   uint64            `json:"incarnation"`
	Messages      uint64            `json:"messages" doc:"Taken since the start, as are the figures below."`
	Bytes         uint64            `json:"bytes"`
	Rounds        uint64            `json:"rounds"`
	Images        uint64            `json:"images" doc:"Pages."`
	Asked         uint64            `json:"asked" doc:"Times that the node asked it for something missing."`
	Served        uint64            `json:"served_bytes" doc:"Sent again because it asked."`
	Refused       map[string]uint64 `json:"refused" doc:"Messages and parts refused, by reason."`
	Error         string            `json:"error,omitempty" doc:"The last refusal."`
	Keys          uint64            `json:"keys" doc:"Distinct keys of all its arrays, about."`
	Memory        uint64            `json:"memory_bytes" doc:"Of its arrays that are not merged."`
	Merged        int               `json:"merged_arrays" doc:"Arrays of it that are merged with those of others."`
	Ghost         float64           `json:"ghost" doc:"Probability that its arrays, or those they are merged into, show a signature that was never reported, 0 to 1."`
	Former        []Incarnation     `json:"former,omitempty" doc:"What is kept of incarnations that it has lost, oldest first. It counts until it ages out or is forgotten."`
}

// An Incarnation describes the counts that are kept of an incarnation that a peer has lost with its
// store.
type Incarnation struct {
	Incarnation uint64 `json:"incarnation"`
	Arrays      int    `json:"arrays"`
	Keys        uint64 `json:"keys" doc:"Distinct keys of all its arrays, about."`
	Listed      uint64 `json:"listed" doc:"Of them, those in its blocklist."`
	Memory      uint64 `json:"memory_bytes" doc:"Of its arrays that are not merged."`
}

// FormerKeys returns about how many distinct keys are kept of incarnations that the peer has lost.
func (p *Peer) FormerKeys() (sum uint64) {
	for _, f := range p.Former {
		sum += f.Keys
	}
	return sum
}

// A NewPeer is a node to share with.
type NewPeer struct {
	Key    string  `json:"key" minLength:"56" maxLength:"56" doc:"Its public key, as \"bulkhead network show\" prints it there."`
	Name   string  `json:"name,omitempty" maxLength:"64"`
	Weight float64 `json:"weight" minimum:"0" maximum:"1"`
	Group  string  `json:"group,omitempty" maxLength:"64" doc:"Group whose other members learn of it from this node, the keeper; absent for none."`
	Keeper bool    `json:"keeper,omitempty" doc:"It is the keeper of the group: this node takes the other members from its list."`
}

// A PeerChange is what to change of a peer.
type PeerChange struct {
	Weight *float64 `json:"weight" minimum:"0" maximum:"1" doc:"Another weight also ends a quarantine."`
}

// A Rollback is the time from which a peer's counts are dropped.
type Rollback struct {
	Since time.Time `json:"since" doc:"Generations that started at or after it are dropped."`
}

// A PeerLoss describes the counts that evicting a peer, or rolling it back, would drop. Each key
// counts once in each generation.
type PeerLoss struct {
	Counted uint64    `json:"counted" doc:"Keys that it counted."`
	Listed  uint64    `json:"listed" doc:"Keys that it listed as spam."`
	Revoked uint64    `json:"revoked" doc:"Keys that it took off the blocklist."`
	Arrays  int       `json:"arrays" doc:"Arrays of generations that are dropped."`
	Memory  uint64    `json:"memory_bytes" doc:"Memory that becomes free; without arrays that are merged with those of others."`
	From    time.Time `json:"from,omitzero" doc:"Start of the oldest generation that is dropped; absent if nothing is."`
}
