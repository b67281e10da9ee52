// Package bus carries messages between nodes over NATS: the connection to a hub or to the servers of
// another operator, and the broker of a hub. No type of NATS leaves it. Correctness never rests on a
// broker: it may lose, repeat, reorder and forget messages.
package bus
