// Package mesh shares the counts of servers with each other, exactly and after every failure. It
// carries the rounds and images of package engine between nodes over NATS; no NATS type leaves it.
//
// # What travels
//
// Every node is an origin: it publishes the adds to its own arrays, and nothing that it received
// from others. There are these kinds of messages, all signed with the sender's Ed25519 key:
//
//   - delta: the rounds of one publish interval. A round leads from one version of an array
//     to another. A receiver applies it if it has exactly the first version, ignores it if
//     it has the second, and otherwise keeps it for a while.
//   - head: the versions of all arrays that the origin has open. A receiver with an older
//     version has a gap.
//   - ask: a node names the versions that it holds of some arrays and requests the rest. The
//     origin answers with the rounds since, if it still has them, or with images.
//   - image: some pages of one array at one moment.
//   - pages and refill: a node asks for pages of its own arrays that it has lost, and
//     a peer sends them as they are in its replica.
//
// Correctness rests on the versions, never on the broker. A broker that loses, repeats, reorders or
// forgets messages, or is wiped, costs only time.
//
// # Incarnations
//
// A server that was restored from a backup continues from older versions. It takes a new
// incarnation number, larger than any before. When its first images or rounds arrive, receivers
// keep the replica as a former incarnation. That still counts, except for the arrays that the new
// incarnation was restored with.
//
// A server does not notice when its folder, or its whole machine, was copied back. Its arrays
// therefore carry a lineage: which of its processes found them at which version. A peer with
// content that is missing from the lineage stops accepting rounds and sends the server statements
// that the server itself has signed. The server then begins a new incarnation. It receives the same
// proof from a peer that has seen a later incarnation than the server remembers, and from a broker
// that has stored messages of one. A server believes claims about its past only with its own
// signature. Two incarnations that send alternately are two servers with one key, and are not
// counted.
//
// # Use
//
//	id, err := mesh.OpenIdentity(dir)
//	m, err := mesh.Open(mesh.Options{Dir: dir, Identity: id, Engine: e, Mode: mesh.Hub, Listen: ":8421"})
//	err = m.Run(ctx)
//
// # Rooms
//
// Package wire has the messages, bus the brokers, and member the peer list, invitations and secrets.
// Package origin publishes the node's own arrays, and replica applies the arrays of peers, each peer as
// an object. Only its own goroutine uses the state of each. This package opens, connects and closes the
// rooms and returns their state. Other packages use this one alone.
package mesh
