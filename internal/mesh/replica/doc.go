// Package replica applies the arrays of peers to the replicas in the engine. A receiver verifies and
// queues what arrives, and has an object for each peer, its origin. The origin decides which rounds
// continue the replica, which wait, and what the peer is asked for.
package replica
