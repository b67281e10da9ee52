package bus

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
	"github.com/bulkhead-mail/bulkhead/internal/natsdial"
	"github.com/bulkhead-mail/bulkhead/internal/testing/await"
	"github.com/bulkhead-mail/bulkhead/internal/testing/bubble"
	"github.com/bulkhead-mail/bulkhead/internal/testing/logtest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

// A member is an identity without a certificate.
type member struct{ signer }

func (member) Proof() *wire.Succession { return nil }

func (member) Certificate(time.Time) (tls.Certificate, error) {
	return tls.Certificate{}, errors.ErrUnsupported
}

// plainServer returns a NATS server that admits a user with a password.
func plainServer(t *testing.T) *server.Server {
	t.Helper()
	return serverOf(t, server.Options{Username: "a", Password: "b"})
}

func serverOf(t *testing.T, o server.Options) *server.Server {
	t.Helper()
	o.Host, o.Port, o.NoSigs = "127.0.0.1", cmp.Or(o.Port, server.RANDOM_PORT), true
	ns, err := server.NewServer(&o)
	if err != nil {
		t.Fatal(err)
	}
	ns.Start()
	t.Cleanup(func() {
		ns.Shutdown()
		ns.WaitForShutdown()
	})
	await.True(t, "a server", func() bool { return ns.ReadyForConnections(time.Second) })
	return ns
}

// TestRefusedOrDown has a node that one server refuses, while others are down. Its status returns to the refusal after
// an error of another server, and each error is logged once. The library tries the servers in a random order, and
// forgets the refusal when it tries a server that is down.
func TestRefusedOrDown(t *testing.T) {
	ns := plainServer(t)
	down := nodetest.FreePort(t)
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	var log logtest.Log
	opts := &Options{Identity: member{signer{key}}, Log: log.Logger()}
	opts.Access.Credentials, opts.Now = natsdial.NoCredentials, time.Now
	servers := []string{"nats://x:y@" + ns.Addr().String()}
	for n := range 7 {
		servers = append(servers, fmt.Sprintf("nats://x:y@127.0.0.%d:%d", 1+n, down))
	}
	c, err := DialExternal(opts, servers)
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
	// A client shows an error before it logs it.
	await.True(t, "the refusal is logged", func() bool { return log.Count(refused) > 0 })
	if n := log.Count(refused); n != 1 {
		t.Errorf("the refusal is logged %d times, want once", n)
	}
}

// TestRefusedLater has a node whose only server is down at first, and then refuses it.
func TestRefusedLater(t *testing.T) {
	port := nodetest.FreePort(t)
	s := &site{T: t, log: new(logtest.Log)}
	o := s.options(newNode(t), network)
	o.Access.Credentials = natsdial.NoCredentials
	c, err := DialExternal(o, []string{fmt.Sprint("nats://x:y@127.0.0.1:", port)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go c.watchEntry(ctx)
	await.True(t, "the server is down", func() bool { return strings.Contains(c.Status().Error, "refused") })
	serverOf(t, server.Options{Port: port, Username: "a", Password: "b"})
	await.True(t, "the server refuses the node", func() bool {
		return strings.Contains(c.Status().Error, "Authorization Violation")
	})
}

// offline returns a client without a connection, of a hub if holder is not nil, and what it logs.
func offline(t *testing.T, holder *wire.Public) (*Client, *logtest.Log) {
	t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	log := new(logtest.Log)
	c := &Client{Server: "hub.example.com", Ups: make(chan struct{}, 1), Opts: &Options{Identity: member{signer{key}},
		Refused: func(wire.Public) {}, Log: log.Logger()}}
	if holder != nil {
		c.keyOfHub = new(atomic.Pointer[wire.Public])
		c.keyOfHub.Store(holder)
	}
	return c, log
}

// TestCertificateLater has the certificate of a server expire, and its file be lost, while the node has no connection.
// The node shows why it does not connect again, logs each reason once, and connects once the file is back.
func TestCertificateLater(t *testing.T) {
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	now, file := time.Now(), filepath.Join(t.TempDir(), "ca.pem")
	issue := func(until time.Time) (tls.Certificate, []byte) {
		c := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: now.Add(-2 * time.Hour), NotAfter: until, IsCA: true,
			BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
		der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
		if err != nil {
			t.Fatal(err)
		}
		return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key},
			pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	}
	good, text := issue(now.Add(time.Hour))
	expired, _ := issue(now.Add(-time.Hour))
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	port := nodetest.FreePort(t)
	var ns *server.Server
	restart := func(c tls.Certificate) {
		if ns != nil {
			ns.Shutdown()
			ns.WaitForShutdown()
		}
		ns = serverOf(t, server.Options{Port: port, TLS: true, TLSTimeout: connectWait.Seconds(),
			TLSConfig: &tls.Config{Certificates: []tls.Certificate{c}}})
	}
	restart(good)
	s := &site{T: t, log: new(logtest.Log)}
	o := s.options(newNode(t), network)
	o.Access = natsdial.Access{Credentials: natsdial.NoCredentials, CA: file}
	c, err := DialExternal(o, []string{fmt.Sprint("tls://127.0.0.1:", port)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	go c.watchEntries(t.Context())
	await.True(t, "the connection", c.Connected)
	shows := func(reason string) {
		t.Helper()
		await.True(t, reason, func() bool { return strings.Contains(c.Status().Error, reason) })
	}
	restart(expired)
	const tooOld = "certificate has expired"
	shows(tooOld)
	first := c.Status().Error
	await.True(t, "the error of a later attempt", func() bool {
		later := c.Status().Error
		return later != first && strings.Contains(later, tooOld)
	})
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	restart(good)
	shows("no such file")
	if n := s.log.Count(tooOld); n != 1 {
		t.Errorf("an expired certificate is logged %d times, want once: %s", n, s.log.String())
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	await.True(t, "the connection to come back", c.Connected)
}

// TestErrorsLoggedOnce checks that a server's errors are logged once as long as they are among the last ones, and that
// a client remembers no more of them: a server chooses their texts.
func TestErrorsLoggedOnce(t *testing.T) {
	c, log := offline(t, nil)
	number := func(i int) error { return fmt.Errorf("error number %d.", i) }
	fail := func(i int, want bool) {
		t.Helper()
		before := log.Count("level=WARN")
		c.Failed(number(i))
		if got := log.Count("level=WARN") - before; got != 0 != want || got > 1 {
			t.Errorf("%v: logged %d times, want it logged: %v", number(i), got, want)
		}
		if c.Last.Error() != number(i).Error() || len(c.logged) > keptErrors {
			t.Errorf("%v: the last error is %v, %d are remembered", number(i), c.Last, len(c.logged))
		}
	}
	for _, want := range []bool{true, false} {
		for i := range keptErrors {
			fail(i, want)
		}
	}
	fail(keptErrors, true)
	fail(1, false)
	fail(0, true) // it made room
	c.CameUp()
	if len(c.Up()) != 1 || c.Last != nil {
		t.Errorf("connected: %d notices, error %v", len(c.Up()), c.Last)
	}
	fail(1, true)
	c.Failed(nil)
	if c.Last == nil {
		t.Error("no error ends an error")
	}
}

// TestRefusalStands checks that a refusal is shown for a while beside the errors of other servers, and that a hub's
// refusal is reported once until the hub admits the node.
func TestRefusalStands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		holder := wire.Public{1, 2, 3}
		for _, hub := range []*wire.Public{nil, &holder} {
			c, _ := offline(t, hub)
			var by []wire.Public
			c.Opts.Refused = func(key wire.Public) { by = append(by, key) }
			down := errors.New("dial tcp: connect: connection refused")
			refusals := func(n int) {
				t.Helper()
				if hub == nil {
					n = 0
				}
				if len(by) != n || n > 0 && by[n-1] != holder {
					t.Errorf("refused by %v, want %d", by, n)
				}
			}
			if c.Failed(down); c.Last != down {
				t.Errorf("the error is %v", c.Last)
			}
			if _, refused := c.RefusedBy(); refused {
				t.Error("refused by a hub that is down")
			}
			refusals(0)
			for range 2 {
				c.Failed(nats.ErrAuthorization)
				bubble.Advance(refusalStands)
				if c.Failed(down); c.Last != nats.ErrAuthorization {
					t.Errorf("%v after the refusal: %v", refusalStands, c.Last)
				}
			}
			refusals(1)
			if key, refused := c.RefusedBy(); refused != (hub != nil) || refused && key != holder {
				t.Errorf("refused %v by %v", refused, key)
			}
			bubble.Advance(time.Nanosecond)
			if c.Failed(down); c.Last != down {
				t.Errorf("later: %v", c.Last)
			}
			c.CameUp()
			if _, refused := c.RefusedBy(); refused {
				t.Error("refused by a hub that has admitted the node")
			}
			c.Failed(nats.ErrAuthorization)
			refusals(2)
		}
	})
}

// TestDenials checks for how long a server's denial is shown: of a publication for as long as it is recent, of a
// subscription until the connection ends, because the server reports it only once.
func TestDenials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := offline(t, nil)
		denied := func(what string) {
			c.Failed(fmt.Errorf("%w: Permissions Violation for %s", nats.ErrPermissionViolation, what))
		}
		shows := func(want string) {
			t.Helper()
			if got := c.deniesSince(time.Now().Add(-time.Minute)); got != want {
				t.Errorf("denied: %q, want %q", got, want)
			}
		}
		shows("")
		denied(`Publish to "x"`)
		shows(`Publish to "x"`)
		bubble.Advance(time.Minute)
		shows(`Publish to "x"`)
		bubble.Advance(time.Nanosecond)
		shows("")
		denied(`Subscription to "y"`)
		bubble.Advance(time.Hour)
		c.Failed(errors.New("something else"))
		shows(`Subscription to "y"`)
		c.lost(nil)
		shows("")
	})
}

// TestUnbundle checks that the first bundle takes the place of the heads themselves, and that one of another version
// does not. Sums of heads are for the hub's own network.
func TestUnbundle(t *testing.T) {
	c, _ := offline(t, nil)
	c.Opts.KeyID, c.heads = 7, []*nats.Subscription{{}}
	var got []wire.Arrival
	handle := func(a wire.Arrival) { got = append(got, a) }
	good := wire.AppendBundle(nil, []wire.BundledHead{{Network: 7, Origin: wire.Hint{1}, Data: []byte("own")},
		{Network: 8, Origin: wire.Hint{2}, Data: []byte("foreign")},
		{Network: 7, Origin: wire.Hint{3}, Still: wire.HeadSum{4}},
		{Network: 8, Origin: wire.Hint{4}, Still: wire.HeadSum{5}}})
	for _, bad := range [][]byte{nil, {9}, good[:len(good)-1]} {
		if c.Last = nil; len(got) > 0 {
			t.Fatalf("%d heads of no bundle", len(got))
		}
		if c.unbundle(bad, handle); c.Last == nil || len(c.heads) != 1 {
			t.Errorf("%d bytes: error %v, heads themselves are heard: %v", len(bad), c.Last, len(c.heads) == 1)
		}
	}
	c.unbundle(good, handle)
	topic := func(from byte) wire.Topic { return wire.Topic{Kind: wire.KindHead, Origin: wire.Hint{from}} }
	want := []wire.Arrival{{Topic: topic(1), Data: []byte("own")},
		{Topic: topic(2), Data: []byte("foreign"), Network: wire.NetworkName(8)},
		{Topic: topic(3), Data: []byte{}, Still: wire.HeadSum{4}}}
	if !reflect.DeepEqual(got, want) || len(c.heads) != 0 {
		t.Errorf("%+v, want %+v; heads themselves are heard: %v", got, want, len(c.heads) > 0)
	}
}

// TestExpectedDenials checks that a client records no denial of what an older hub or a broker of another operator does
// not know, and every other one.
func TestExpectedDenials(t *testing.T) {
	c, log := offline(t, nil)
	own := c.Opts.Identity.Public().Hint()
	for subject, want := range map[string]bool{
		HeadsOfAll:                       false,
		BundleSubject:                    false,
		wire.SecretPrefix + own.String(): false,
		wire.SecretPrefix + wire.Hint{1}.String(): true,
		"bh.*.h." + own.String():                  true,
		BundleSubject + ".x":                      true,
	} {
		c.Last, c.denied = nil, ""
		before := log.Count("level=WARN")
		c.Failed(fmt.Errorf("%w: Permissions Violation for Subscription to %q", nats.ErrPermissionViolation, subject))
		if logged := log.Count("level=WARN") > before; (c.Last != nil) != want || logged != want || (c.denied != "") != want {
			t.Errorf("%s: recorded %v, logged %v, denied %q; want %v", subject, c.Last, logged, c.denied, want)
		}
	}
}

// TestProbe checks that a probe records the state of a server, and logs a problem and its end once each.
func TestProbe(t *testing.T) {
	s := newSite(t)
	lines := func(text string, want int) {
		t.Helper()
		if n := s.log.Count(text); n != want {
			t.Errorf("%q is logged %d times, want %d", text, n, want)
		}
	}
	well := func() bool { // a busy machine may be slow
		s.own.probe(t.Context(), time.Second)
		return s.own.Status().Trouble == ""
	}
	await.True(t, "a server without trouble", well)
	if s.own.Status().Answer <= 0 {
		t.Error("the answer took no time")
	}
	s.own.mu.Lock()
	s.own.trouble = TroubleStorage
	s.own.mu.Unlock()
	before := s.log.Count("has no more trouble")
	await.True(t, "the end of a trouble", well)
	await.True(t, "no other one", well)
	if s.log.Count("has no more trouble") <= before {
		t.Error("the end of a trouble is not logged")
	}

	o := s.options(newNode(t), network)
	o.Access.Credentials = natsdial.NoCredentials
	c, err := DialExternal(o, []string{"nats://a:b@" + plainServer(t).Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	await.True(t, "a connection", c.Connected)
	for range 2 {
		c.probe(t.Context(), time.Second)
		if got := c.Status().Trouble; got != TroubleJetStream {
			t.Errorf("trouble %q, want %q", got, TroubleJetStream)
		}
	}
	lines("NATS server has no JetStream for this node", 1)
	c.Failed(fmt.Errorf("%w: Permissions Violation for Publish to %q", nats.ErrPermissionViolation, "x"))
	c.probe(t.Context(), time.Hour)
	if got := c.Status(); got.Trouble != TroublePermission || !got.Denied() {
		t.Errorf("trouble %q, want %q", got.Trouble, TroublePermission)
	}
	lines("NATS server denies this node: Publish", 1)
	for _, tt := range []struct {
		ago  time.Duration
		want string
	}{{150 * time.Minute, TroubleJetStream}, {90 * time.Minute, TroublePermission}} {
		c.mu.Lock()
		c.deniedAt = time.Now().Add(-tt.ago)
		c.mu.Unlock()
		c.probe(t.Context(), time.Hour)
		if got := c.Status().Trouble; got != tt.want {
			t.Errorf("denied %v ago, with a probe each hour: trouble %q, want %q", tt.ago, got, tt.want)
		}
	}
	c.mu.Lock()
	c.denied = ""
	c.mu.Unlock()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	c.probe(ended, time.Second)
	c.Close()
	c.probe(t.Context(), time.Second)
	if got := c.Status().Trouble; got != TroublePermission {
		t.Errorf("a probe that was cut short, or of no connection, records %q", got)
	}
}
