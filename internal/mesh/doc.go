// Package mesh lets servers share what they count, exactly and after every
// failure. It carries the rounds and images of package engine between nodes
// over NATS; no NATS type leaves it.
//
// # What travels
//
// Every node is an origin: it publishes what its own arrays took, and nothing
// that it heard from others. These kinds of messages, all signed by the sender's
// Ed25519 key:
//
//   - delta: the rounds of one publish interval. A round says from which version
//     of an array it goes to which; a receiver applies it when it has exactly
//     the first, ignores it when it has the second, and keeps it for a while
//     otherwise.
//   - head: the versions of all arrays that the origin has open. Whoever holds
//     less has a gap.
//   - ask: a node names what it holds of some arrays and wants the rest. The
//     origin answers with the rounds since, if it still has them, or with images.
//   - image: some pages of one array at one moment.
//   - pages and refill: a node asks for pages of its own arrays that it has lost, and
//     a peer sends them as they are in its replica.
//
// Correctness rests on the versions, never on the broker. A broker that loses, repeats,
// reorders or forgets messages, or is wiped, costs time and nothing else.
//
// # Incarnations
//
// A server that was restored from a backup counts on from older versions. It takes a
// new incarnation number, larger than any before; receivers drop what they held when
// the first image of it arrives.
//
// A server whose folder, or whose machine, was copied back does not know that. With its
// arrays it says which of its processes found them at which version: their lineage. A
// peer that holds what the lineage does not contain takes no more rounds, and shows the
// server what the server itself has signed; the server then begins a new incarnation.
// It is shown the same by a peer that has heard a later life of it than it remembers,
// and by a broker that has stored messages of one. Without its own signature a server
// believes nothing of its past. Two lives that speak in turns are two servers with one
// key, and are not counted.
//
// # Use
//
//	id, err := mesh.OpenIdentity(dir)
//	m, err := mesh.Open(mesh.Options{Dir: dir, Identity: id, Engine: e, Mode: mesh.Hub, Listen: ":8421"})
//	err = m.Run(ctx)
//
// # Locks
//
// Mesh.mu guards the peer book and the figures of the peers; nothing that waits is called
// under it. Two goroutines do the work: the sender owns what is published, the receiver
// what is known of the origins.
package mesh
