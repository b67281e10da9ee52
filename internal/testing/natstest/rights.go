package natstest

import (
	"testing"

	"github.com/nats-io/nats-server/v2/server"
)

// StartFor starts a NATS server with JetStream for one user, "node" with the password "secret", who may publish and
// subscribe to some subjects only. It returns the URL for that user. The server ends with the test.
func StartFor(t testing.TB, publish, subscribe []string) (url string) {
	t.Helper()
	user := &server.User{Username: "node", Password: "secret", Permissions: &server.Permissions{
		Publish: &server.SubjectPermission{Allow: publish}, Subscribe: &server.SubjectPermission{Allow: subscribe}}}
	return "nats://node:secret@" + Server(t, &server.Options{Host: "127.0.0.1", Port: -1, NoSigs: true, JetStream: true,
		StoreDir: t.TempDir(), Users: []*server.User{user}}).Addr().String()
}
