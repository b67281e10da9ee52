//go:build interop

package mesh

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/nodetest"
)

// A cluster is three nats-server processes.
type cluster struct {
	urls []string
	cmds []*exec.Cmd
}

// startCluster starts them with what users says besides, in NATS's configuration.
func startCluster(t *testing.T, users string) *cluster {
	t.Helper()
	path := nodetest.Program(t, "nats-server")
	c := &cluster{}
	var clients, routes []string
	for range 3 {
		clients, routes = append(clients, freePort(t)), append(routes, freePort(t))
	}
	for i := range 3 {
		var others []string
		for _, r := range routes {
			others = append(others, "nats-route://"+r)
		}
		conf := fmt.Sprintf("listen: %q\nserver_name: n%d\njetstream { store_dir: %q }\ncluster { name: c, listen: %q, routes: [%s] }\n%s",
			clients[i], i, t.TempDir(), routes[i], strings.Join(others, ", "), users)
		file := filepath.Join(t.TempDir(), "nats.conf")
		if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(path, "-c", file)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			cmd.Process.Kill()
			cmd.Wait()
		})
		c.cmds, c.urls = append(c.cmds, cmd), append(c.urls, "nats://"+clients[i])
	}
	return c
}

// TestCluster: the same counts through three nats-server processes of a cluster,
// one of which is killed.
func TestCluster(t *testing.T) {
	c := startCluster(t, "")
	var engines []*engine.Engine
	var meshes []*Mesh
	for i := range 3 {
		e := smallEngine(t, nil)
		dir, id := identity(t)
		// Each node begins with another server.
		servers := append(append([]string{}, c.urls[i:]...), c.urls[:i]...)
		m, _ := start(t, quick(Options{Dir: dir, Identity: id, Engine: e, Mode: External, Servers: servers, Credentials: NoCredentials, Replicas: 3}))
		engines, meshes = append(engines, e), append(meshes, m)
	}
	befriend(t, meshes...)
	for i, e := range engines {
		report(t, e, 1, bulkhead.Sighting, []uint32{1, 10, 100}[i])
	}
	agree(t, engines, 1, 111)
	if err := errors.Join(c.cmds[1].Process.Kill(), waited(c.cmds[1])); err != nil {
		t.Fatal(err)
	}
	for i, e := range engines {
		report(t, e, 1, bulkhead.Sighting, []uint32{2, 20, 200}[i])
	}
	agree(t, engines, 1, 333)
}

// TestClusterPrivilege: three nodes that sign in to a cluster with their own keys, and may do
// what Grants says and no more, share everything, also with one that was away; nothing they
// need is denied. None can publish in the name of another, or do away with a stream.
func TestClusterPrivilege(t *testing.T) {
	var dirs, keys []string
	var ids []*Identity
	for range 3 {
		dir, id := identity(t)
		dirs, ids, keys = append(dirs, dir), append(ids, id), append(keys, id.ID())
	}
	users, err := Grants(networkOf(testSecret), keys...)
	if err != nil {
		t.Fatal(err)
	}
	c := startCluster(t, users)
	var engines []*engine.Engine
	var meshes []*Mesh
	var logs [3]lockedBuffer
	open := func(i int) (*Mesh, func()) {
		return start(t, quick(Options{Dir: dirs[i], Identity: ids[i], Engine: engines[i], Mode: External, Servers: append(slices.Clone(c.urls[i:]), c.urls[:i]...),
			Replicas: 3, Log: slog.New(slog.NewTextHandler(&logs[i], nil))}))
	}
	var stops []func()
	for i := range 3 {
		engines = append(engines, smallEngine(t, nil))
		m, stop := open(i)
		meshes, stops = append(meshes, m), append(stops, stop)
		// The first makes the streams.
		eventually(t, time.Minute, "the streams are there", func() bool { b := m.Status().Brokers[0]; return b.Answer > 0 && b.Trouble == "" })
	}
	befriend(t, meshes...)
	for i, e := range engines {
		report(t, e, 1, bulkhead.Spam, 1)
		report(t, e, 2, bulkhead.Sighting, []uint32{1, 10, 100}[i])
	}
	agree(t, engines, 2, 111)
	stops[2]()
	for i, e := range engines {
		report(t, e, 2, bulkhead.Sighting, []uint32{2, 20, 200}[i])
	}
	agree(t, engines[:2], 2, 111+22)
	meshes[2], _ = open(2)
	agree(t, engines, 2, 333)
	for i, m := range meshes {
		eventually(t, time.Minute, "the cluster is well", func() bool {
			b := m.Status().Brokers[0]
			return b.Answer > 0 && b.Trouble == ""
		})
		if logs[i].has("ermissions") {
			t.Errorf("node %d lacks a permission: %s", i, logs[i].text())
		}
	}
	eve, err := nats.Connect(c.urls[1], signIn(ids[1], ""), nats.CustomInboxPrefix(inbox(ids[1].public.hint())))
	if err != nil {
		t.Fatal(err)
	}
	defer eve.Close()
	n := newNames(testSecret.ID())
	for _, subject := range []string{
		n.subject(topic{kind: kindDelta, origin: ids[0].public.hint()}), n.headsOf(ids[0].public.hint()), "$JS.API.STREAM.DELETE." + n.deltaStream(),
		"$JS.API.STREAM.PURGE." + n.imageStream(), "$JS.API.STREAM.CREATE." + n.deltaStream(), "$JS.API.STREAM.UPDATE." + n.deltaStream(), "$JS.API.STREAM.NAMES", "other",
	} {
		if err := errors.Join(eve.Publish(subject, []byte("x")), eve.Flush()); err != nil {
			t.Fatal(err)
		}
		eventually(t, time.Minute, subject+" is denied", func() bool {
			return eve.LastError() != nil && strings.Contains(eve.LastError().Error(), `"`+subject+`"`)
		})
	}
}

// waited waits for a process that was killed.
func waited(cmd *exec.Cmd) error {
	var exit *exec.ExitError
	if err := cmd.Wait(); err != nil && !errors.As(err, &exit) {
		return err
	}
	return nil
}
