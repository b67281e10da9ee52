//go:build interop

package mesh

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/nodetest"
)

// A cluster is three nats-server processes.
type cluster struct {
	urls []string
	cmds []*exec.Cmd
}

func startCluster(t *testing.T) *cluster {
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
		conf := fmt.Sprintf("listen: %q\nserver_name: n%d\njetstream { store_dir: %q }\ncluster { name: c, listen: %q, routes: [%s] }\n",
			clients[i], i, t.TempDir(), routes[i], strings.Join(others, ", "))
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
	c := startCluster(t)
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

// waited waits for a process that was killed.
func waited(cmd *exec.Cmd) error {
	var exit *exec.ExitError
	if err := cmd.Wait(); err != nil && !errors.As(err, &exit) {
		return err
	}
	return nil
}
