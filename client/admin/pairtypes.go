package admin

import "time"

// A NewInvitation describes the guests whom a node invites into its network.
type NewInvitation struct {
	Name    string   `json:"name,omitempty" maxLength:"64" doc:"Of who is invited, as this node will call him."`
	Weight  float64  `json:"weight" minimum:"0" maximum:"1" doc:"With which this node will count him."`
	Seconds float64  `json:"lifetime_seconds,omitempty" minimum:"0" maximum:"7776000" doc:"For which the invitation is good; absent: two days."`
	Uses    int      `json:"uses,omitempty" minimum:"0" maximum:"1024" doc:"How many nodes may join with it; absent: one."`
	Accept  bool     `json:"accept,omitempty" doc:"A node that shows it joins at once. Otherwise an administrator has to accept the node."`
	Group   string   `json:"group,omitempty" maxLength:"64" doc:"Group whose member he becomes: its members count each other."`
	Hubs    []string `json:"hubs,omitempty" maxItems:"8" doc:"Where this node is found, host:port each; absent: the host's name and the port of mesh.listen."`
}

// A NewSecret is the next secret of the network, and the time from which it is used.
type NewSecret struct {
	Seconds float64 `json:"after_seconds,omitempty" minimum:"0" maximum:"2592000" doc:"From now, in which peers fetch it."`
	Secret  string  `json:"secret,omitempty" pattern:"^[0-9a-fA-F]{32}$" doc:"16 bytes in hexadecimal, for a network without hubs, whose nodes are given the same one each. Absent: a hub makes one, and sends it to its peers."`
	Anyway  bool    `json:"anyway,omitempty" doc:"Announce it although members have answered that they cannot take another secret; they stay behind."`
}

// A SecretChange is a change of the network's secret. It does not contain the secret.
type SecretChange struct {
	From    string    `json:"from" doc:"Fingerprint of the network before."`
	To      string    `json:"to"`
	At      time.Time `json:"at" doc:"When it is used, or was."`
	By      string    `json:"by" doc:"Key of the hub that announced it; the node's own if it was announced here."`
	Done    bool      `json:"done" doc:"Whether this node counts under it."`
	Fetched []string  `json:"told" doc:"Keys of the peers that have fetched it here."`
	// Through is taken from the head of an aggregate. This node does not know whether the
	// aggregate's node has passed the secret on.
	Through []string `json:"through" doc:"Keys of the peers that have not, but are in a sum that has: its node sends it to them."`
	Missing []string `json:"untold" doc:"Keys of all other peers."`
	Unable  []string `json:"unable,omitempty" doc:"Peers that have answered that they cannot take another secret, with their reasons."`
}

// An Invitation is an invitation that a node has made.
type Invitation struct {
	ID      string    `json:"id"`
	Line    string    `json:"line,omitempty" doc:"What to hand over: a secret. It is returned once, when the invitation is made."`
	Hubs    []string  `json:"hubs,omitempty" doc:"Addresses where the line finds this node, host:port. They are returned with the line."`
	Name    string    `json:"name,omitempty"`
	Weight  float64   `json:"weight"`
	Uses    int       `json:"uses"`
	Accept  bool      `json:"accept"`
	Group   string    `json:"group,omitempty"`
	Expires time.Time `json:"expires"`
	Joiners []Joiner  `json:"joiners" doc:"Who has shown it."`
}

// A Joiner is a node that has shown an invitation.
type Joiner struct {
	Key   string    `json:"key"`
	Name  string    `json:"name,omitempty" doc:"What it calls itself."`
	At    time.Time `json:"at"`
	State string    `json:"state" enum:"waiting,accepted,refused"`
}

// A Join is a request to join a network.
type Join struct {
	Line   string  `json:"line" maxLength:"4096" doc:"The invitation."`
	Weight float64 `json:"weight" minimum:"0" maximum:"1" doc:"With which this node will count its inviter."`
	Dry    bool    `json:"dry,omitempty" doc:"Only say what would happen."`
}

// A Joining is the outcome of a request to join.
type Joining struct {
	State   string    `json:"state" enum:"possible,waiting,joined" doc:"Waiting: the inviter has to accept; ask again."`
	Network string    `json:"network" doc:"Fingerprint of the network."`
	Inviter string    `json:"inviter" doc:"Its key."`
	Name    string    `json:"name,omitempty" doc:"What the inviter calls itself."`
	Group   string    `json:"group,omitempty" doc:"Group whose member this node becomes."`
	Hubs    []string  `json:"hubs"`
	Expires time.Time `json:"expires"`
	From    string    `json:"from_network" doc:"Fingerprint of the network that this node is in, or was in before."`
	Rekey   bool      `json:"rekey" doc:"Whether this node has to change the secret that signatures are hashed with. Its earlier counts then answer under the former secret until they expire."`
}

// A Left is the outcome of leaving a network.
type Left struct {
	Network string `json:"network" doc:"Fingerprint of the secret that the node has now."`
	Peers   int    `json:"peers" doc:"Peers whose counts were dropped."`
}
