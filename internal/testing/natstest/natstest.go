// Package natstest starts NATS servers for tests.
package natstest

import (
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/bulkhead-mail/bulkhead/internal/testing/await"
)

// Start starts a NATS server with JetStream on the loopback address, and returns its host and port. The server ends
// with the test.
func Start(t testing.TB) (address string) {
	t.Helper()
	o := &server.Options{Host: "127.0.0.1", Port: -1, NoSigs: true, JetStream: true, StoreDir: t.TempDir()}
	return Server(t, o).Addr().String()
}

// Server starts a NATS server with options. The server ends with the test, if not before.
func Server(t testing.TB, o *server.Options) *server.Server {
	t.Helper()
	ns, err := server.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	ns.Start()
	t.Cleanup(func() {
		ns.Shutdown()
		ns.WaitForShutdown()
	})
	await.True(t, "a NATS server", func() bool { return ns.ReadyForConnections(time.Second) })
	return ns
}
