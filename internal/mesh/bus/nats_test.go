package bus

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
	"github.com/bulkhead-mail/bulkhead/internal/natsdial"
	"github.com/bulkhead-mail/bulkhead/internal/testing/await"
)

// A member is an identity without a certificate.
type member struct{ signer }

func (member) Proof() *wire.Succession { return nil }

func (member) Certificate(time.Time) (tls.Certificate, error) {
	return tls.Certificate{}, errors.ErrUnsupported
}

// lines is a log. It may be used concurrently.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *lines) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.buf.String(), text)
}

// TestRefusedOrDown has a node that one server refuses, while another one is down. Its status returns to the
// refusal after an error of the other, and each error is logged once.
func TestRefusedOrDown(t *testing.T) {
	ns, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, NoSigs: true, Username: "a", Password: "b"})
	if err != nil {
		t.Fatal(err)
	}
	ns.Start()
	t.Cleanup(func() {
		ns.Shutdown()
		ns.WaitForShutdown()
	})
	await.True(t, "a server", func() bool { return ns.ReadyForConnections(time.Second) })
	down, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	down.Close()
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	var log lines
	opts := &Options{Identity: member{signer{key}}, Log: slog.New(slog.NewTextHandler(&log, nil))}
	opts.Access.Credentials, opts.Now = natsdial.NoCredentials, time.Now
	c, err := DialExternal(opts, []string{"nats://x:y@" + ns.Addr().String(), "nats://x:y@" + down.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Conn.Close() })
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go c.watchEntry(ctx)
	const refused = "Authorization Violation"
	for range 3 {
		await.True(t, "the node reports the refusal", func() bool { return strings.Contains(c.Status().Error, refused) })
		c.Failed(errors.New("dial tcp: connect: connection refused")) // as the library reports the other server
	}
	if n := log.count(refused); n != 1 {
		t.Errorf("the refusal is logged %d times, want once", n)
	}
}
