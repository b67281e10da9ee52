// Package mesh holds the tests of sharing with real processes: nodes that are
// built from cmd/bulkhead, with proxies between them that cut and delay, and the
// nats-server that Debian packages. Nodes are killed at random moments, restored
// from backups, set back with their whole folder, and run out of disk. It has no
// code of its own.
package mesh
