package mesh

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/bus"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/member"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
	"github.com/bulkhead-mail/bulkhead/internal/natsdial"
	"github.com/bulkhead-mail/bulkhead/internal/testing/enginetest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/logtest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/meshtest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/natstest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

// serveNATS runs a NATS server as its operator has set it up.
func serveNATS(t *testing.T, o server.Options) (url string) {
	t.Helper()
	o.Host, o.Port, o.NoSigs, o.NoLog = "127.0.0.1", server.RANDOM_PORT, true, true
	if o.JetStream {
		o.StoreDir = t.TempDir()
		o.JetStreamMaxStore = cmp.Or(o.JetStreamMaxStore, 1<<40) // else it depends on the free space of the disk
	}
	ns, err := server.NewServer(&o)
	if err != nil {
		t.Fatal(err)
	}
	ns.Start()
	t.Cleanup(func() {
		ns.Shutdown()
		ns.WaitForShutdown()
	})
	if !ns.ReadyForConnections(time.Minute) {
		t.Fatal("the server does not start")
	}
	return "nats://" + ns.Addr().String()
}

// TestTroubles checks that a problem of another operator's server is logged in one line, and
// reported as long as it lasts.
func TestTroubles(t *testing.T) {
	signedIn := func(id *member.Identity, deny ...string) server.Options {
		publish, subscribe := bus.NewNames(enginetest.Secret.ID()).Grants(id.Hint(), "$JS.API.")
		p := &server.Permissions{Publish: &server.SubjectPermission{}, Subscribe: &server.SubjectPermission{}}
		for _, s := range append(publish, "$JS.API.STREAM.CREATE.*") {
			if !strings.Contains(strings.Join(deny, " "), s) {
				p.Publish.Allow = append(p.Publish.Allow, s)
			}
		}
		for _, s := range subscribe {
			if !strings.Contains(strings.Join(deny, " "), s) {
				p.Subscribe.Allow = append(p.Subscribe.Allow, s)
			}
		}
		return server.Options{JetStream: true, Nkeys: []*server.NkeyUser{{Nkey: id.ID(), Permissions: p}}}
	}
	n := bus.NewNames(enginetest.Secret.ID())
	for name, tt := range map[string]struct {
		server   func(id *member.Identity) server.Options
		replicas int
		want     string
		line     string
	}{
		"none": {func(id *member.Identity) server.Options { return signedIn(id) }, 1, "", ""},
		"no JetStream": {func(*member.Identity) server.Options { return server.Options{} }, 1, bus.TroubleJetStream,
			"set jetstream in its configuration"},
		"little storage": {func(*member.Identity) server.Options {
			return server.Options{JetStream: true,
				JetStreamMaxStore: 1 << 20}
		}, 1, bus.TroubleStorage, "lower mesh.stream_bytes"},
		"one server": {func(*member.Identity) server.Options { return server.Options{JetStream: true} }, 3,
			bus.TroubleReplicas,
			"no cluster of 3 servers"},
		"may not make": {func(id *member.Identity) server.Options {
			return signedIn(id, "$JS.API.STREAM.CREATE.*")
		}, 1, bus.TroublePermission, "start the node that printed the users"},
		"another stream": {func(*member.Identity) server.Options { return server.Options{JetStream: true} }, 1,
			bus.TroubleStreams, "subjects overlap with an existing stream"},
		"may not publish": {func(id *member.Identity) server.Options {
			return signedIn(id, n.HeadsOf(id.Hint()))
		}, 1, bus.TroublePermission, `Publish to "bh.`},
		"may not hear": {func(id *member.Identity) server.Options {
			return signedIn(id, n.All(wire.KindDelta))
		}, 1, bus.TroublePermission, `Subscription to "bh.`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, id := meshtest.Folder(t)
			var log logtest.Log
			o, credentials := tt.server(id), ""
			if len(o.Nkeys) == 0 {
				credentials = natsdial.NoCredentials
			}
			url := serveNATS(t, o)
			if name == "another stream" {
				all := jetstream.StreamConfig{Name: "ALL", Subjects: []string{"bh.>"}}
				if _, err := natstest.JetStream(t, url).CreateStream(t.Context(), all); err != nil {
					t.Fatal(err)
				}
			}
			m, _ := start(t, quick(member.Options{Dir: dir, Identity: id, Engine: enginetest.Small(t, nil),
				Mode:     member.External,
				Replicas: tt.replicas,
				Servers:  []string{url}, Credentials: credentials, Log: log.Logger()}))
			status := func() bus.Status { return m.Status().Brokers[0] }
			enginetest.Eventually(t, time.Minute, "the server was asked", func() bool { return status().Answer > 0 })
			if tt.want == "" {
				if got := status(); got.Trouble != "" && got.Trouble != bus.TroubleSlow || log.Has("permission") {
					t.Errorf("%+v", got)
				}
				return
			}
			enginetest.Eventually(t, time.Minute, "trouble "+tt.want, func() bool {
				return status().Trouble == tt.want && log.Has("NATS server ")
			})
			for range 3 { // and stays, without another line
				<-time.After(bus.ProbeBeats * m.opts.Heartbeat)
			}
			text := log.String()
			if got := status(); got.Trouble != tt.want || strings.Count(text, "trouble="+tt.want) != 1 ||
				!strings.Contains(strings.ReplaceAll(text, `\`, ""), tt.line) {
				t.Errorf("%+v; %s", got, text)
			}
		})
	}
}

// TestTroubleEnds checks that a slow server is logged, and its recovery as well.
func TestTroubleEnds(t *testing.T) {
	w := nodetest.NewWire(t, strings.TrimPrefix(serveNATS(t, server.Options{JetStream: true}), "nats://"))
	dir, id := meshtest.Folder(t)
	var log logtest.Log
	m, _ := start(t, quick(member.Options{Dir: dir, Identity: id, Engine: enginetest.Small(t, nil), Mode: member.External,
		Credentials: natsdial.NoCredentials,
		Servers:     []string{"nats://" + w.Address()}, Log: log.Logger()}))
	status := func() bus.Status { return m.Status().Brokers[0] }
	enginetest.Eventually(t, time.Minute, "the server was asked", func() bool { return status().Answer > 0 })
	w.Delay.Store(int64(4 * time.Second))
	enginetest.Eventually(t, 2*time.Minute, "it is slow", func() bool {
		return status().Trouble == bus.TroubleSlow && log.Has("to answer")
	})
	w.Delay.Store(0)
	enginetest.Eventually(t, 2*time.Minute, "it is well", func() bool {
		return status().Trouble == "" &&
			log.Has("has no more trouble")
	})
}

func TestTroubleOf(t *testing.T) {
	api := func(code jetstream.ErrorCode) error {
		return fmt.Errorf("stream: %w", &jetstream.APIError{ErrorCode: code})
	}
	for i, tt := range []struct {
		err    error
		took   time.Duration
		denied string
		want   string
	}{
		{nil, 0, "", ""},
		{nil, bus.SlowBroker, "", bus.TroubleSlow},
		{context.DeadlineExceeded, time.Second, "", bus.TroubleSlow},
		{context.DeadlineExceeded, bus.BrokerWait, "Publish", bus.TroublePermission},
		{nil, 0, "Subscription", bus.TroublePermission},
		{fmt.Errorf("x: %w", nats.ErrNoResponders), 0, "", bus.TroubleJetStream},
		{jetstream.ErrJetStreamNotEnabledForAccount, 0, "", bus.TroubleJetStream},
		{api(bus.CodeStorage), 0, "", bus.TroubleStorage},
		{api(bus.CodeNoResources), 0, "", bus.TroubleStorage},
		{api(10028), 0, "", bus.TroubleStorage}, // no memory
		{api(10122), 0, "", bus.TroubleStorage}, // the limit of an account
		{jetstream.ErrJetStreamNotEnabled, 0, "", bus.TroubleJetStream},
		{nats.ErrPermissionViolation, 0, "", bus.TroublePermission},
		{nats.ErrTimeout, 0, "", bus.TroubleSlow},
		{nil, bus.SlowBroker - 1, "", ""},
		{api(bus.CodeNoPeers), 0, "", bus.TroubleReplicas},
		{api(bus.CodeNoReplicas), 0, "", bus.TroubleReplicas},
		{api(1), 0, "", bus.TroubleStreams},
		{errors.New("another"), 0, "", bus.TroubleStreams},
	} {
		if got := bus.TroubleOf(tt.err, tt.took, tt.denied); got != tt.want {
			t.Errorf("%d: %q, want %q", i, got, tt.want)
		}
	}
}

// TestGrants checks that the printed configuration is valid, and names each node.
func TestGrants(t *testing.T) {
	_, a := meshtest.Folder(t)
	_, b := meshtest.Folder(t)
	network := member.NetworkOf(enginetest.Secret)
	text, err := bus.Grants(network, "", a.ID(), b.ID())
	if err != nil || strings.Count(text, "nkey: ") != 2 || strings.Count(text, "STREAM.CREATE") != 2 ||
		strings.Contains(text, "secret") {
		t.Errorf("%v\n%s", err, text)
	}
	if leaf, err := bus.Grants(network, "hub", a.ID(), b.ID()); err != nil ||
		strings.ReplaceAll(leaf, "$JS.hub.API.", "$JS.API.") != text || leaf == text {
		t.Errorf("in a domain: %v\n%s", err, leaf)
	}
	for _, bad := range [][]string{{network, "", "U"}, {"x", "", a.ID()}, {strings.ToUpper(network) + "A", "", a.ID()},
		{network[:14], "", a.ID()}} {
		if text, err := bus.Grants(bad[0], bad[1], bad[2:]...); !errors.Is(err, bulkhead.ErrMalformed) || text != "" {
			t.Errorf("%v: %v", bad, err)
		}
	}
}
