package natstest

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/bulkhead-mail/bulkhead/internal/testing/await"
	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

// A Cluster is three NATS servers with JetStream in this process, on the loopback address.
type Cluster struct {
	t       testing.TB
	options [3]server.Options
	servers [3]*server.Server // nil: it is stopped
}

// StartCluster starts a cluster that keeps three replicas. It ends with the test.
func StartCluster(t testing.TB) *Cluster {
	t.Helper()
	c := &Cluster{t: t}
	var routes []string
	for i := range c.options {
		clients, peers := nodetest.FreePort(t), nodetest.FreePort(t)
		routes = append(routes, fmt.Sprintf("nats-route://127.0.0.1:%d", peers))
		c.options[i] = server.Options{ServerName: fmt.Sprint("n", i), Host: "127.0.0.1", Port: clients, NoSigs: true,
			JetStream: true, StoreDir: t.TempDir(), JetStreamMaxStore: room,
			Cluster: server.ClusterOpts{Name: "c", Host: "127.0.0.1", Port: peers}}
	}
	t.Cleanup(func() {
		for i := range c.servers {
			c.Stop(i)
		}
	})
	for i := range c.options {
		c.options[i].Routes = server.RoutesFromStr(strings.Join(routes, ","))
		c.Start(i)
	}
	js := JetStream(t, strings.Join(c.URLs(), ","))
	// The leader may not have heard yet that each server has JetStream, and places nothing on the others.
	await.True(t, "a cluster that places three replicas", func() bool {
		probe := jetstream.StreamConfig{Name: "probe", Replicas: len(c.servers)}
		_, err := js.CreateOrUpdateStream(t.Context(), probe)
		return err == nil
	})
	await.True(t, "the end of the probe", func() bool {
		err := js.DeleteStream(t.Context(), "probe")
		return err == nil || errors.Is(err, jetstream.ErrStreamNotFound)
	})
	return c
}

// URLs returns the addresses of the servers for clients.
func (c *Cluster) URLs() (urls []string) {
	for i := range c.options {
		urls = append(urls, fmt.Sprintf("nats://127.0.0.1:%d", c.options[i].Port))
	}
	return urls
}

// Start starts a server that is stopped, with the data that it has.
func (c *Cluster) Start(i int) {
	c.t.Helper()
	o := c.options[i]
	s, err := server.NewServer(&o)
	if err != nil {
		c.t.Fatal(err)
	}
	s.Start()
	c.servers[i] = s
	await.True(c.t, "a NATS server", func() bool { return s.ReadyForConnections(time.Second) })
}

// Stop stops a server, if it runs.
func (c *Cluster) Stop(i int) {
	if s := c.servers[i]; s != nil {
		s.Shutdown()
		s.WaitForShutdown()
		c.servers[i] = nil
	}
}

// Leader returns the server that leads a stream, -1 if none does.
func (c *Cluster) Leader(stream string) int {
	for i, s := range c.servers {
		if s != nil && s.JetStreamIsStreamLeader(server.DEFAULT_GLOBAL_ACCOUNT, stream) {
			return i
		}
	}
	return -1
}
