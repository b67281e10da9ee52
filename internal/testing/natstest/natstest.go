// Package natstest starts NATS servers for tests.
package natstest

import (
	"cmp"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/bulkhead-mail/bulkhead/internal/testing/await"
	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

// room is the largest size in bytes of the streams of a server. By default it depends on the free space of the disk.
const room = 1 << 40

// Start starts a NATS server with JetStream on the loopback address, and returns its host and port. The server ends
// with the test.
func Start(t testing.TB) (address string) {
	t.Helper()
	o := &server.Options{Host: "127.0.0.1", Port: -1, NoSigs: true, JetStream: true, StoreDir: t.TempDir()}
	return Server(t, o).Addr().String()
}

// Server starts a NATS server with options. The server ends with the test, if not before. In place of port -1 it gets
// a reserved port, which is free for another server with the same options afterwards.
func Server(t testing.TB, o *server.Options) *server.Server {
	t.Helper()
	if o.Port == server.RANDOM_PORT {
		o.Port = nodetest.FreePort(t)
	}
	o.JetStreamMaxStore = cmp.Or(o.JetStreamMaxStore, room)
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

// JetStream connects to servers, whose URLs commas separate, until the test ends.
func JetStream(t testing.TB, urls string) jetstream.JetStream {
	t.Helper()
	conn, err := nats.Connect(urls)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	return js
}
