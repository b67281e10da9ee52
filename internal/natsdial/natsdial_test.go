package natsdial

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/bulkhead-mail/bulkhead/internal/testing/await"
	"github.com/bulkhead-mail/bulkhead/internal/testing/natstest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

// options are the settings of a connection to some servers, with short waits.
func options(servers ...string) Options {
	return Options{Servers: servers, Name: "test", Wait: time.Second, Retry: 10 * time.Millisecond, Ping: time.Minute,
		Pings: 2}
}

// guarded returns a server for user x with a password, at a port.
func guarded(t *testing.T, port int, password string) (ns *server.Server, address string) {
	t.Helper()
	ns, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: port, NoSigs: true, Username: "x",
		Password: password})
	if err != nil {
		t.Fatal(err)
	}
	ns.Start()
	t.Cleanup(ns.Shutdown)
	await.True(t, "a server", func() bool { return ns.ReadyForConnections(time.Second) })
	return ns, ns.Addr().String()
}

// TestRefusedForAWhile has a server that refuses the node again and again, and then admits it. An error of a request
// names the refusal until then.
func TestRefusedForAWhile(t *testing.T) {
	port := nodetest.FreePort(t)
	refusing, address := guarded(t, port, "other")
	conn, err := Connect(options("nats://x:secret@" + address))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	errLate := errors.New("no answer")
	await.True(t, "several refusals", func() bool {
		state, err := refusing.Varz(nil)
		return err == nil && state.TotalConnections > 5
	})
	if why := Why(conn, errLate); !errors.Is(why, errLate) || !IsRefusal(why) {
		t.Errorf("refused, and the error of a request is %v", why)
	}
	if Why(conn, nil) != nil {
		t.Error("a request without an error has failed")
	}
	refusing.Shutdown()
	refusing.WaitForShutdown()
	guarded(t, port, "secret")
	await.True(t, "the connection", conn.IsConnected)
	if got := Why(conn, errLate); got != errLate {
		t.Errorf("connected, and the error of a request is %v", got)
	}
}

// TestEntry checks the reason why no server admits a node, for each order of a server that is down, one that refuses
// and one that admits.
func TestEntry(t *testing.T) {
	_, refusing := guarded(t, nodetest.FreePort(t), "other")
	_, admitting := guarded(t, nodetest.FreePort(t), "secret")
	urls := map[string]string{"refuses": refusing, "admits": admitting, "down": nodetest.Address(t)}
	for _, order := range []string{"refuses", "down", "admits", "refuses down", "down refuses", "down admits",
		"admits down", "refuses admits", "refuses down admits"} {
		var servers []string
		for _, s := range strings.Fields(order) {
			servers = append(servers, "nats://x:secret@"+urls[s])
		}
		got := Entry(options(servers...))
		switch {
		case strings.Contains(order, "admits"):
			if got != nil {
				t.Errorf("%s: %v", order, got)
			}
		case got == nil, IsRefusal(got) != strings.Contains(order, "refuses"):
			t.Errorf("%s: %v", order, got)
		}
	}
}

// TestRefused checks that unusable options are refused at once, and which errors are refusals.
func TestRefused(t *testing.T) {
	for what, o := range map[string]Options{
		"a bad URL":               options("nats://a b:1"),
		"a CA that is not there":  {Servers: []string{"nats://127.0.0.1:1"}, Access: Access{CA: "/absent"}},
		"a key that is not there": {Servers: []string{"nats://127.0.0.1:1"}, Access: Access{Cert: "/absent", Key: "/absent"}},
	} {
		if conn, err := Connect(o); err == nil {
			conn.Close()
			t.Errorf("%s: connects", what)
		}
		if Entry(o) == nil {
			t.Errorf("%s: admitted", what)
		}
	}
	for err, want := range map[error]bool{nats.ErrAuthorization: true, errors.New("nats: 'Authorization Violation'"): true,
		nats.ErrNoServers: false, nats.ErrTimeout: false} {
		if IsRefusal(err) != want {
			t.Errorf("%v is a refusal: %v", err, !want)
		}
	}
}

// TestNoCredentials checks that a node without credentials signs in at a server that asks for none.
func TestNoCredentials(t *testing.T) {
	for _, credentials := range []string{"", NoCredentials} {
		o := options("nats://" + natstest.Start(t))
		o.Access.Credentials = credentials
		if err := Entry(o); err != nil {
			t.Errorf("%q: %v", credentials, err)
		}
		conn, err := Connect(o)
		if err != nil {
			t.Fatal(err)
		}
		await.True(t, "the connection", conn.IsConnected)
		conn.Close()
	}
}

// TestAllowedAgain withdraws a permission from a connected client and gives it back. The client hears again what it
// could not hear in between. Another subject is denied all the time.
func TestAllowedAgain(t *testing.T) {
	set := &server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true}
	allow := func(subjects ...string) *server.Options {
		o := set.Clone()
		o.Users = []*server.User{{Username: "x", Password: "secret", Permissions: &server.Permissions{
			Publish: &server.SubjectPermission{Allow: []string{"news"}}, Subscribe: &server.SubjectPermission{Allow: subjects}}}}
		return o
	}
	first := allow("news", "other")
	ns := natstest.Server(t, first)
	set.Port = first.Port
	o := options("nats://x:secret@" + ns.Addr().String())
	o.Ping = 10 * time.Millisecond
	o.Pings = 1000
	var denials, foreign atomic.Int64
	var own atomic.Pointer[nats.Conn]
	from := func(conn *nats.Conn) {
		if c := own.Load(); c != nil && c != conn {
			foreign.Add(1)
		}
	}
	o.Further = []nats.Option{nats.ConnectHandler(from),
		nats.DisconnectErrHandler(func(conn *nats.Conn, _ error) { from(conn) }),
		nats.ErrorHandler(func(conn *nats.Conn, _ *nats.Subscription, _ error) {
			from(conn)
			denials.Add(1)
		})}
	conn, err := Connect(o)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	own.Store(conn)
	await.True(t, "the connection", conn.IsConnected)
	received := make(chan *nats.Msg, 1000)
	for _, subject := range []string{"news", "never"} {
		if _, err := conn.ChanSubscribe(subject, received); err != nil {
			t.Fatal(err)
		}
	}
	await.True(t, "a denial", func() bool { return denials.Load() == 1 })
	for range 3 {
		before := denials.Load()
		if err := ns.ReloadOptions(allow("other")); err != nil {
			t.Fatal(err)
		}
		await.True(t, "a denial after a reload", func() bool { return denials.Load() > before })
		for len(received) > 0 {
			<-received
		}
		if err := ns.ReloadOptions(allow("news", "other")); err != nil {
			t.Fatal(err)
		}
		await.True(t, "news", func() bool {
			_ = conn.Publish("news", nil)
			select {
			case <-received:
				return true
			case <-time.After(10 * time.Millisecond):
				return false
			}
		})
	}
	if n := foreign.Load(); n > 0 {
		t.Errorf("the handlers were called %d times for another connection", n)
	}
}
