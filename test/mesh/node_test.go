//go:build interop

package mesh

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client"
	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

func TestMain(m *testing.M) {
	if address := os.Getenv(brokerVariable); address != "" {
		runBroker(address, os.Args[1])
		return
	}
	nodetest.Main(m)
}

// votes is what was reported of each signature: sightings and spam votes.
type votes map[int][2]uint32

// A node is one running bulkhead, with a map of what it acknowledged.
type node struct {
	t      testing.TB
	name   string
	bin    string
	dir    string // holds the configuration and data/
	http   string // address
	key    string
	log    *os.File
	proc   *nodetest.Process // nil while the node does not run
	client *admin.Client
	reqs   int // ids given to reports

	truth  votes
	copies map[string]votes // what a copy on disk holds
}

// newNode prepares a node of the network whose secret is in secretFile, or of a
// new one; mesh is the section of that name.
func newNode(t testing.TB, name, secretFile, mesh string) *node {
	t.Helper()
	return newNodeOf(t, nodetest.Binary(t), name, secretFile, mesh)
}

// newNodeOf is newNode of another program than today's.
func newNodeOf(t testing.TB, bin, name, secretFile, mesh string) *node {
	t.Helper()
	n := prepare(t, bin, name, mesh)
	args := []string{"network", "new", "--json", "--data", n.data()}
	if secretFile != "" {
		args = append(args, "--secret-file", secretFile)
	}
	var info struct{ Key string }
	if err := json.Unmarshal(n.run(args...), &info); err != nil {
		t.Fatal(err)
	}
	n.key = info.Key
	return n
}

// prepare returns a node with a configuration and without a data folder.
func prepare(t testing.TB, bin, name, mesh string) *node {
	t.Helper()
	if filepath.Base(bin) != "released" {
		mesh = "share_counts_from = 1\n" + mesh // the last release knows no other
	}
	n := &node{t: t, name: name, bin: bin, dir: t.TempDir(), http: ownAddress(t), truth: make(votes),
		copies: make(map[string]votes)}
	config := fmt.Sprintf(
		"[node]\nname = %q\n[listen]\nhttp = %q\n[tally]\ncapacity = 5000\n[blocklist]\ncapacity = 1000\n"+
			"[mesh]\npublish_interval = \"100ms\"\nheartbeat = \"1s\"\n%s\n", name, n.http, mesh)
	if err := os.WriteFile(filepath.Join(n.dir, "bulkhead.toml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	var err error
	if n.log, err = os.Create(filepath.Join(n.dir, "log")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		n.kill()
		if t.Failed() {
			text, _ := os.ReadFile(n.log.Name())
			t.Logf("log of %s:\n%s", n.name, text[max(0, len(text)-8000):])
		}
		n.log.Close()
	})
	return n
}

func (n *node) data() string { return filepath.Join(n.dir, "data") }

// run runs the program and returns its output.
func (n *node) run(args ...string) []byte {
	n.t.Helper()
	return []byte(nodetest.Output(n.t, "", n.bin, args...))
}

// secret writes the network's secret to a file and returns its path.
func (n *node) secret() string {
	n.t.Helper()
	var info struct{ Secret string }
	if err := json.Unmarshal(n.run("network", "show", "--secret", "--json", "--data", n.data()), &info); err != nil {
		n.t.Fatal(err)
	}
	path := filepath.Join(n.dir, "secret")
	if err := os.WriteFile(path, []byte(info.Secret), 0o600); err != nil {
		n.t.Fatal(err)
	}
	return path
}

// start runs the node until kill or stop.
func (n *node) start(flags ...string) {
	n.t.Helper()
	cmd := exec.Command(n.bin,
		append([]string{"serve", "--config", filepath.Join(n.dir, "bulkhead.toml"), "--data", n.data()}, flags...)...)
	cmd.Stdout, cmd.Stderr = n.log, n.log
	n.proc = nodetest.Start(n.t, cmd)
	nodetest.Settle(n.t, nodetest.Patience, n.name+" answers", func() string {
		token, err := os.ReadFile(filepath.Join(n.data(), "admin.token"))
		if err != nil {
			return err.Error()
		}
		n.client = admin.New("http://"+n.http, strings.TrimSpace(string(token)))
		_, err = n.client.Node(n.ctx())
		return text(err)
	})
}

func (n *node) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), nodetest.Patience)
	n.t.Cleanup(cancel)
	return ctx
}

// kill ends the process, if there is one, as a crash would.
func (n *node) kill() {
	if n.proc != nil {
		n.proc.Kill()
	}
	n.proc = nil
}

// stop ends the process in good order.
func (n *node) stop() {
	n.t.Helper()
	if err := n.proc.Stop(); err != nil {
		n.t.Fatalf("%s stops with %v", n.name, err)
	}
	n.proc = nil
}

func signature(i int) bulkhead.Signature {
	var sum [20]byte
	binary.BigEndian.PutUint64(sum[:], uint64(i+1)*0x9e3779b97f4a7c15)
	s, err := bulkhead.NewSignature(bulkhead.Exact, sum[:])
	if err != nil {
		panic(err)
	}
	return s
}

// report reports until it is acknowledged. A client without an answer retries with the same id, so
// that the report is counted once.
func (n *node) report(sig int, count uint32) {
	n.t.Helper()
	vote, kind := bulkhead.Sighting, 0
	if sig%3 == 0 && n.truth[sig][1] == 0 { // who votes twice is counted once
		vote, kind = bulkhead.Spam, 1
		count = 1 // whatever a voter says of more
	}
	n.reqs++
	in := bulkhead.Report{Signatures: []bulkhead.Signature{signature(sig)}, Vote: vote, Count: count,
		ID: fmt.Sprint(n.name, " ", n.reqs)}
	deadline := time.Now().Add(nodetest.Patience)
	for {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		_, err := n.client.Report(ctx, in)
		cancel()
		if err == nil {
			break
		}
		var refusal *client.Problem
		if errors.As(err, &refusal) && !errors.Is(err, bulkhead.ErrReadOnly) || time.Now().After(deadline) {
			n.t.Errorf("%s: report: %v", n.name, err)
			return
		}
		<-time.After(10 * time.Millisecond)
	}
	v := n.truth[sig]
	v[kind] += count
	n.truth[sig] = v
}

// befriend makes every node a peer of every other, of full weight.
func befriend(t testing.TB, nodes ...*node) {
	t.Helper()
	for _, n := range nodes {
		for _, o := range nodes {
			if n == o {
				continue
			}
			if _, err := n.client.AddPeer(n.ctx(), admin.NewPeer{Key: o.key, Name: o.name, Weight: 1}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// differ returns how the nodes' counts of signatures below limit differ from the reports to all of
// them, or "". They may never be too low, and at most one in a hundred may be too high.
func differ(nodes []*node, limit int) string {
	over := 0
	for _, n := range nodes {
		high, lacks := compare(n, nodes, limit)
		if lacks != "" {
			return lacks
		}
		over += high
	}
	if over > limit*len(nodes)/100 {
		return fmt.Sprintf("%d of %d counts too high", over, limit*len(nodes))
	}
	return ""
}

// lacking returns a signature that a node counts lower than the reports to a set of nodes, or "".
func lacking(n *node, reporters []*node, limit int) string {
	_, lacks := compare(n, reporters, limit)
	return lacks
}

// compare compares a node's counts of signatures below limit with the reports to a set of nodes:
// how many counts are too high, and one that is too low.
func compare(n *node, reporters []*node, limit int) (over int, lacks string) {
	var sigs []bulkhead.Signature
	for i := range limit {
		sigs = append(sigs, signature(i))
	}
	v, err := n.client.Check(n.ctx(), bulkhead.Query{Signatures: sigs, Terse: true})
	if err != nil {
		return 0, fmt.Sprintf("%s: %v", n.name, err)
	}
	for i, f := range v.Findings {
		var want [2]uint32
		for _, o := range reporters {
			want[0] += o.truth[i][0]
			want[1] += o.truth[i][1]
		}
		switch {
		case f.Sightings < want[0] || f.Spam < want[1]:
			return 0, fmt.Sprintf("%s: signature %d: %d sightings, %d spam votes; want %v", n.name, i, f.Sightings, f.Spam, want)
		case f.Sightings > want[0] || f.Spam > want[1]:
			over++
		}
	}
	return over, ""
}

// agree waits until the nodes' counts equal the reports to all of them, and until no node knows of
// missing pages.
func agree(t testing.TB, nodes []*node, limit int) {
	t.Helper()
	nodetest.Settle(t, nodetest.Patience, "the nodes agree with the oracle", func() string {
		if err := forgetFormer(nodes); err != nil {
			return err.Error()
		}
		if wrong := differ(nodes, limit); wrong != "" {
			return wrong
		}
		for _, n := range nodes {
			list, err := n.client.Peers(n.ctx())
			if err != nil {
				return err.Error()
			}
			for _, p := range list {
				if p.Missing != 0 || p.Quarantine != "" {
					return fmt.Sprintf("%s of %s: %d missing, quarantine %q, %s", n.name, p.Name, p.Missing, p.Quarantine, p.Error)
				}
			}
		}
		return ""
	})
}

// forgetFormer has every node forget what its peers counted before they lost their stores: the
// oracle knows what they have now.
func forgetFormer(nodes []*node) error {
	for _, n := range nodes {
		list, err := n.client.Peers(n.ctx())
		if err != nil {
			return err
		}
		for _, p := range list {
			if _, err := n.client.ForgetPeer(n.ctx(), p.Key); err != nil {
				return err
			}
		}
	}
	return nil
}

func text(err error) string {
	if err != nil {
		return err.Error()
	}
	return ""
}

// backup keeps what the running node has counted in a file.
func (n *node) backup() {
	n.t.Helper()
	n.run("backup", "--data", n.data(), filepath.Join(n.dir, "backup"))
	n.copies["backup"] = maps.Clone(n.truth)
}

// restore puts the backup in the place of what the stopped node had counted.
func (n *node) restore() {
	n.t.Helper()
	if err := os.RemoveAll(filepath.Join(n.data(), "store")); err != nil {
		n.t.Fatal(err)
	}
	n.run("restore", "--data", n.data(), filepath.Join(n.dir, "backup"))
	n.truth = maps.Clone(n.copies["backup"])
}

// snapshot copies the whole folder of the stopped node, with keys, peers and a
// hub's broker; rollback puts the copy back.
func (n *node) snapshot() {
	n.t.Helper()
	n.copyFolder(n.data(), filepath.Join(n.dir, "snapshot"))
	n.copies["snapshot"] = maps.Clone(n.truth)
}

func (n *node) rollback() {
	n.t.Helper()
	n.copyFolder(filepath.Join(n.dir, "snapshot"), n.data())
	n.truth = maps.Clone(n.copies["snapshot"])
}

func (n *node) copyFolder(from, to string) {
	n.t.Helper()
	if err := os.RemoveAll(to); err != nil {
		n.t.Fatal(err)
	}
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		n.t.Fatal(err)
	}
	// CopyFS does not keep modes, and secrets must not be readable for others.
	err := filepath.WalkDir(to, func(path string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		mode := os.FileMode(0o600)
		if e.IsDir() {
			mode = 0o700
		}
		return os.Chmod(path, mode)
	})
	if err != nil {
		n.t.Fatal(err)
	}
}

var loopback atomic.Uint32

// ownAddress returns a loopback address that is and stays unused: a process that is killed must
// find its address free, so each has a network address of its own.
func ownAddress(t testing.TB) string {
	t.Helper()
	i := loopback.Add(1)
	l, err := net.Listen("tcp", fmt.Sprintf("127.%d.%d.%d:0", 64+os.Getpid()%128, i>>8&255, i&255))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
