//go:build interop

package mesh

import (
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/bus"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/member"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
	"github.com/bulkhead-mail/bulkhead/internal/natsdial"
	"github.com/bulkhead-mail/bulkhead/internal/testing/enginetest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/logtest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/meshtest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

// A cluster is three nats-server processes.
type cluster struct {
	urls  []string
	leafs []string // addresses for leaf nodes
	cmds  []*exec.Cmd
}

// A setup is the additional configuration of each server, in NATS's form.
type setup struct {
	users     string // and other top-level parts
	jetstream string // in its block
	cluster   string // in its block
	leafs     string // in its block; "": there are no leaf nodes
}

// startCluster starts them.
func startCluster(t *testing.T, s setup) *cluster {
	t.Helper()
	c := &cluster{}
	var clients, routes []string
	for range 3 {
		clients, routes, c.leafs = append(clients, freePort(t)), append(routes, freePort(t)), append(c.leafs, freePort(t))
	}
	for i := range 3 {
		var others []string
		for _, r := range routes {
			others = append(others, "nats-route://"+r)
		}
		conf := fmt.Sprintf(
			"listen: %q\nserver_name: n%d\njetstream { store_dir: %q, max_file_store: 1TB, %s }\n"+
				"cluster { name: c, listen: %q, routes: [%s]\n%s }\n%s",
			clients[i], i, t.TempDir(), s.jetstream, routes[i], strings.Join(others, ", "), s.cluster, s.users)
		if s.leafs != "" {
			conf += fmt.Sprintf("leafnodes { listen: %q\n%s }\n", c.leafs[i], s.leafs)
		}
		c.cmds, c.urls = append(c.cmds, runServer(t, conf)), append(c.urls, "nats://"+clients[i])
	}
	return c
}

// runServer runs a nats-server process until the test ends.
func runServer(t *testing.T, conf string) *exec.Cmd {
	t.Helper()
	path := nodetest.Program(t, "nats-server")
	file := filepath.Join(t.TempDir(), "nats.conf")
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "-c", file)
	var statement bytes.Buffer
	cmd.Stdout, cmd.Stderr = &statement, &statement
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		if t.Failed() {
			t.Logf("%s\nsaid:\n%s", conf, statement.Bytes()[max(0, statement.Len()-6000):])
		}
	})
	return cmd
}

// TestCluster shares counts through three nats-server processes of a cluster, one of which is
// killed.
func TestCluster(t *testing.T) {
	c := startCluster(t, setup{})
	var engines []*engine.Engine
	var meshes []*Mesh
	for i := range 3 {
		e := enginetest.Small(t, nil)
		dir, id := meshtest.Folder(t)
		// Each node connects to another server first.
		servers := append(append([]string{}, c.urls[i:]...), c.urls[:i]...)
		m, _ := start(t, quick(Options{Dir: dir, Identity: id, Engine: e, Mode: External, Servers: servers,
			Credentials: natsdial.NoCredentials, Replicas: 3}))
		engines, meshes = append(engines, e), append(meshes, m)
	}
	befriend(t, meshes...)
	for i, e := range engines {
		enginetest.Report(t, e, 1, bulkhead.Sighting, []uint32{1, 10, 100}[i])
	}
	agree(t, engines, 1, 111)
	if err := errors.Join(c.cmds[1].Process.Kill(), waited(c.cmds[1])); err != nil {
		t.Fatal(err)
	}
	for i, e := range engines {
		enginetest.Report(t, e, 1, bulkhead.Sighting, []uint32{2, 20, 200}[i])
	}
	agree(t, engines, 1, 333)
}

// A team is three nodes that share through NATS servers.
type team struct {
	t       *testing.T
	dirs    []string
	ids     []*member.Identity
	engines []*engine.Engine
	meshes  []*Mesh
	stops   []func()
	logs    [3]logtest.Log
}

func newTeam(t *testing.T) *team {
	t.Helper()
	w := &team{t: t}
	t.Cleanup(func() {
		for i := range w.logs {
			if t.Failed() {
				t.Logf("node %d said:\n%s", i, w.logs[i].String())
			}
		}
	})
	for range 3 {
		dir, id := meshtest.Folder(t)
		w.dirs, w.ids, w.engines = append(w.dirs, dir), append(w.ids, id), append(w.engines, enginetest.Small(t, nil))
	}
	return w
}

// users returns the users of the team's nodes, each with the least privilege.
func (w *team) users(domain string) string {
	w.t.Helper()
	text, err := Grants(member.NetworkOf(enginetest.Secret), domain, w.ids[0].ID(), w.ids[1].ID(), w.ids[2].ID())
	if err != nil {
		w.t.Fatal(err)
	}
	return text
}

// open opens a node that connects first to another server than the others, with options changed by
// with.
func (w *team) open(i int, servers []string, with func(i int, o *Options)) (*Mesh, func()) {
	o := quick(Options{Dir: w.dirs[i], Identity: w.ids[i], Engine: w.engines[i], Mode: External, Replicas: 3,
		Log: w.logs[i].Logger()})
	if servers != nil {
		o.Servers = append(slices.Clone(servers[i:]), servers[:i]...)
	}
	if with != nil {
		with(i, &o)
	}
	return start(w.t, o)
}

// share opens all nodes and makes them count, one of them while another is away. It wants all to
// agree, and nothing to be denied.
func (w *team) share(servers []string, with func(i int, o *Options)) {
	t := w.t
	t.Helper()
	for i := range 3 {
		m, stop := w.open(i, servers, with)
		w.meshes, w.stops = append(w.meshes, m), append(w.stops, stop)
		// The first makes the streams.
		enginetest.Eventually(t, nodetest.Patience, "the streams are there",
			func() bool { b := m.Status().Brokers[0]; return b.Answer > 0 && b.Trouble == "" })
	}
	befriend(t, w.meshes...)
	for i, e := range w.engines {
		enginetest.Report(t, e, 1, bulkhead.Spam, 1)
		enginetest.Report(t, e, 2, bulkhead.Sighting, []uint32{1, 10, 100}[i])
	}
	agree(t, w.engines, 2, 111)
	w.stops[2]()
	for i, e := range w.engines {
		enginetest.Report(t, e, 2, bulkhead.Sighting, []uint32{2, 20, 200}[i])
	}
	agree(t, w.engines[:2], 2, 111+22)
	w.meshes[2], w.stops[2] = w.open(2, servers, with)
	agree(t, w.engines, 2, 333)
	w.well()
}

// well waits until the servers have no trouble, and wants nothing to have been denied.
func (w *team) well() {
	w.t.Helper()
	for i, m := range w.meshes {
		enginetest.Eventually(w.t, nodetest.Patience, "the cluster is well", func() bool {
			b := m.Status().Brokers[0]
			return b.Answer > 0 && b.Trouble == ""
		})
		if w.logs[i].Has("ermissions") {
			w.t.Errorf("node %d lacks a permission: %s", i, w.logs[i].String())
		}
	}
}

// TestClusterPrivilege checks that three nodes that sign in to a cluster with their own keys, and
// with exactly the permissions of Grants, share everything, also with a node that was away. Nothing
// they need is denied. None can publish in another's name, or delete a stream.
func TestClusterPrivilege(t *testing.T) {
	w := newTeam(t)
	c := startCluster(t, setup{users: w.users("")})
	w.share(c.urls, nil)
	ids := w.ids
	eve, err := nats.Connect(c.urls[1], bus.SignIn(ids[1], ""), nats.CustomInboxPrefix(bus.Inbox(ids[1].Hint())))
	if err != nil {
		t.Fatal(err)
	}
	defer eve.Close()
	n := bus.NewNames(enginetest.Secret.ID())
	for _, subject := range []string{
		n.Subject(wire.Topic{Kind: wire.KindDelta, Origin: ids[0].Hint()}), n.HeadsOf(ids[0].Hint()),
		"$JS.API.STREAM.DELETE." + n.DeltaStream(),
		"$JS.API.STREAM.PURGE." + n.ImageStream(), "$JS.API.STREAM.CREATE." + n.DeltaStream(),
		"$JS.API.STREAM.UPDATE." + n.DeltaStream(), "$JS.API.STREAM.NAMES", "other",
	} {
		if err := errors.Join(eve.Publish(subject, []byte("x")), eve.Flush()); err != nil {
			t.Fatal(err)
		}
		enginetest.Eventually(t, nodetest.Patience, subject+" is denied", func() bool {
			return eve.LastError() != nil && strings.Contains(eve.LastError().Error(), `"`+subject+`"`)
		})
	}
}

// unreachable waits until a node that cannot sign in reports the reason.
func (w *team) unreachable(i int, servers []string, want string, with func(i int, o *Options)) {
	w.t.Helper()
	m, stop := w.open(i, servers, with)
	defer stop()
	var b bus.Status
	defer func() {
		if w.t.Failed() {
			w.t.Logf("the node says %+v, and has logged:\n%s", b, w.logs[i].String())
		}
	}()
	enginetest.Eventually(w.t, nodetest.Patience, "the node says "+want, func() bool {
		b = m.Status().Brokers[0]
		return !b.Connected && strings.Contains(b.Error, want) && w.logs[i].Has(want)
	})
}

// TestClusterTLS has servers with certificates of their own authority, which require one of each
// node. A node without one, or that trusts other authorities, reports that.
func TestClusterTLS(t *testing.T) {
	w, a := newTeam(t), newAuthority(t)
	cert, key := a.issue("server", nil)
	tls := fmt.Sprintf("tls { cert_file: %q, key_file: %q, ca_file: %q, verify: true }\n", cert, key, a.file)
	c := startCluster(t, setup{users: tls + w.users(""), cluster: tls})
	var servers []string
	for _, u := range c.urls {
		servers = append(servers, "tls"+strings.TrimPrefix(u, "nats"))
	}
	w.unreachable(0, servers, "certificate", func(_ int, o *Options) { o.CA = a.file })
	w.unreachable(0, servers, "unknown authority", func(i int, o *Options) {
		o.CA = newAuthority(t).file
		o.Cert, o.Key = a.issue("node", nil)
	})
	w.share(servers, func(i int, o *Options) {
		o.CA = a.file
		o.Cert, o.Key = a.issue(fmt.Sprint("node", i),
			func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} })
	})
}

// conf is the configuration of servers in operator mode, which know the account.
func (o *tenancy) conf() string {
	o.t.Helper()
	sign := func(claims interface {
		Encode(nkeys.KeyPair) (string, error)
	}) string {
		token, err := claims.Encode(o.operator)
		if err != nil {
			o.t.Fatal(err)
		}
		return token
	}
	system, err := nkeys.CreateAccount()
	if err != nil {
		o.t.Fatal(err)
	}
	account := jwt.NewAccountClaims(publicOf(o.t, o.account))
	account.Limits.JetStreamLimits = jwt.JetStreamLimits{MemoryStorage: 0, DiskStorage: 16 << 30, Streams: 2, Consumer: -1}
	of := jwt.NewOperatorClaims(publicOf(o.t, o.operator))
	of.SystemAccount = publicOf(o.t, system)
	return fmt.Sprintf("operator: %q\nresolver: MEMORY\nresolver_preload: {\n  %s: %q\n  %s: %q\n}\n", sign(of),
		publicOf(o.t, o.account), sign(account), of.SystemAccount, sign(jwt.NewAccountClaims(of.SystemAccount)))
}

// least gives a user the permissions of a node; the first node also makes the streams.
func (w *team) least(i int) func(*jwt.UserClaims) {
	n, api := bus.NewNames(enginetest.Secret.ID()), bus.JetStreamAPI("")
	return func(c *jwt.UserClaims) {
		publish, subscribe := n.Grants(w.ids[i].Hint(), api)
		if i == 0 {
			publish = append(publish, api+"STREAM.CREATE."+n.DeltaStream(), api+"STREAM.CREATE."+n.ImageStream())
		}
		c.Pub.Allow.Add(publish...)
		c.Sub.Allow.Add(subscribe...)
	}
}

// TestClusterJWT has servers in operator mode, and users with credentials of an account, each with
// the least privilege. A node with credentials of another account is refused, and is admitted once
// its file is replaced.
func TestClusterJWT(t *testing.T) {
	w, o := newTeam(t), newTenancy(t)
	c := startCluster(t, setup{users: o.conf()})
	creds := func(i int, options *Options) { options.Credentials = o.user(fmt.Sprint("node", i), w.least(i)) }
	w.unreachable(0, c.urls, "uthorization", func(i int, options *Options) {
		options.Credentials = newTenancy(t).user("stranger", w.least(i))
	})
	w.share(c.urls, creds)

	w.stops[1]()
	file := newTenancy(t).user("stranger", w.least(1))
	w.meshes[1], w.stops[1] = w.open(1, c.urls, func(_ int, options *Options) { options.Credentials = file })
	enginetest.Eventually(t, nodetest.Patience, "the stranger is refused", func() bool {
		return !w.meshes[1].Status().Brokers[0].Connected && w.logs[1].Has("uthorization")
	})
	enginetest.Report(t, w.engines[1], 2, bulkhead.Sighting, 1000)
	if err := os.Rename(o.user("renewed", w.least(1)), file); err != nil {
		t.Fatal(err)
	}
	agree(t, w.engines, 2, 1333)
	w.well()
}

// TestLeaf has a site with its own nats-server, a leaf node of a cluster that keeps the streams, in
// a JetStream domain. The cluster allows the site the network's messages, and the requests that its
// nodes may make. The site's server is killed, and no counts made in that time are missing
// afterwards.
func TestLeaf(t *testing.T) {
	w := newTeam(t)
	const domain = "hub"
	n := bus.NewNames(enginetest.Secret.ID())
	all := "bh." + n.Net + ".>"
	publish, subscribe := []string{all, bus.HeadsOfAll}, []string{all, bus.HeadsOfAll}
	// The first node connects to the cluster, the others to the site.
	for _, id := range w.ids[1:] {
		for _, api := range []string{bus.JetStreamAPI(domain),
			bus.JetStreamAPI("")} { // the server's version decides which one is checked
			p, s := n.Grants(id.Hint(), api)
			publish, subscribe = append(publish, p...), append(subscribe, s...)
		}
	}
	site := fmt.Sprintf("{ user: site, password: secret, permissions: { publish: [\"%s\"], subscribe: [\"%s\"] } }\n",
		strings.Join(publish, `", "`), strings.Join(subscribe, `", "`))
	first, err := Grants(member.NetworkOf(enginetest.Secret), "", w.ids[0].ID())
	if err != nil {
		t.Fatal(err)
	}
	c := startCluster(t, setup{users: strings.Replace(first, "users = [\n", "users = [\n"+site, 1),
		jetstream: "domain: " + domain, leafs: "no_advertise: true"})
	var remotes []string
	for _, at := range c.leafs {
		remotes = append(remotes, fmt.Sprintf("%q", "nats-leaf://site:secret@"+at))
	}
	address := freePort(t)
	leaf := func() *exec.Cmd {
		return runServer(
			t, fmt.Sprintf("listen: %q\nserver_name: leaf\njetstream { store_dir: %q, max_file_store: 1TB, domain: site }\n"+
				"leafnodes { reconnect: 1, remotes: [ { urls: [%s] } ] }\n%s",
				address, t.TempDir(), strings.Join(remotes, ", "), w.users(domain)))
	}
	server := leaf()
	w.share(nil, func(i int, o *Options) {
		o.Domain, o.Servers = domain, []string{"nats://" + address}
		if i == 0 {
			o.Domain, o.Servers = "", c.urls
		}
	})
	if err := errors.Join(server.Process.Kill(), waited(server)); err != nil {
		t.Fatal(err)
	}
	for i, e := range w.engines {
		enginetest.Report(t, e, 2, bulkhead.Sighting, []uint32{1000, 2000, 4000}[i])
	}
	leaf()
	agree(t, w.engines, 2, 7333)
	w.well()
}

// waited waits for a killed process.
func waited(cmd *exec.Cmd) error {
	var exit *exec.ExitError
	if err := cmd.Wait(); err != nil && !errors.As(err, &exit) {
		return err
	}
	return nil
}
