// Package mesh holds the tests of sharing with real processes: nodes that are
// built from cmd/bulkhead, with proxies between them that cut and delay, and the
// nats-server that Debian packages. Nodes are killed at random moments, restored
// from backups, set back with their whole folder, and run out of disk. "make
// soak-mesh" runs random schedules of all that, with clocks that step by days and
// administrators who expel, weigh and roll back peers. It has no code of its own.
package mesh
