//go:build interop

package mesh

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/cli"
	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

// newAlone prepares a node that belongs to no network.
func newAlone(t testing.TB, name, mesh string) *node {
	t.Helper()
	n := newNode(t, name, "", mesh)
	for _, file := range []string{"network.key", "mesh"} {
		if err := os.RemoveAll(filepath.Join(n.data(), file)); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

// admin runs a command of the node's administrator and returns what it prints.
func (n *node) admin(args ...string) string {
	n.t.Helper()
	out, code := n.try(args...)
	if code != 0 {
		n.t.Fatalf("%s: bulkhead %s: code %d\n%s", n.name, strings.Join(args, " "), code, out)
	}
	return out
}

// try runs a command of the node's administrator and returns what it says, and its code.
func (n *node) try(args ...string) (string, int) {
	n.t.Helper()
	cmd := exec.Command(n.bin, append(args, "--server", "http://"+n.http, "--data", n.data())...)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		n.t.Fatal(err)
	}
	return out.String(), cmd.ProcessState.ExitCode()
}

// invite returns the line of an invitation.
func (n *node) invite(args ...string) string {
	n.t.Helper()
	out := n.run(append([]string{"invite", "--json", "--server", "http://" + n.http, "--data", n.data()}, args...)...)
	var v admin.Invitation
	if err := json.Unmarshal(out, &v); err != nil {
		n.t.Fatalf("%v in %q", err, out)
	}
	return v.Line
}

func (n *node) state() *admin.NodeState {
	n.t.Helper()
	s, err := n.client.Node(n.ctx())
	if err != nil {
		n.t.Fatal(err)
	}
	return s
}

// logs waits until the node's log has a text.
func (n *node) logs(want string) {
	n.t.Helper()
	nodetest.Settle(n.t, nodetest.Patience, n.name+" logs "+want, func() string {
		text, err := os.ReadFile(n.log.Name())
		if err != nil || !strings.Contains(string(text), want) {
			return fmt.Sprintf("no such line; %v", err)
		}
		return ""
	})
}

// TestJoin: two nodes that have counted for a while become one network by one line, and
// nothing that either has counted is lost, whatever crashes.
func TestJoin(t *testing.T) {
	hub := ownAddress(t)
	alice := newAlone(t, "alice", fmt.Sprintf("mode = \"hub\"\nlisten = %q", hub))
	bob := newAlone(t, "bob", "")
	const sigs = 60
	both := []*node{alice, bob}
	for i, n := range both {
		n.start()
		for s := range sigs {
			n.report(s, uint32(1+(s+i)%5))
		}
	}
	before := bob.state().Network
	line := alice.invite("--name", "bob", "--weight", "1")
	if out, code := bob.try("join", line); code == 0 || !strings.Contains(out, "nothing was changed") ||
		!strings.Contains(out, "no longer under its own ("+before+")") {
		t.Errorf("nobody said yes: code %d\n%s", code, out)
	}
	if out, code := bob.try("join", "--yes", strings.Replace(line, "A", "B", 1)+"x"); code == 0 ||
		!strings.Contains(out, "mistyped") {
		t.Errorf("mistyped: code %d\n%s", code, out)
	}
	if out, code := bob.try("join", "--yes", "--weight", "1", "--wait", "0s", line); code != int(cli.Temporary) ||
		!strings.Contains(out, "not yet") {
		t.Errorf("before alice accepts: code %d\n%s", code, out)
	}
	alice.logs("wants to join")
	if out := alice.admin("peer", "requests"); !strings.Contains(out, "waiting") {
		t.Errorf("requests: %s", out)
	}
	alice.admin("peer", "accept", "bob")
	if out := bob.admin("join", "--yes", "--weight", "1", line); !strings.Contains(out,
		"joined network "+alice.state().Network) {
		t.Errorf("joined: %s", out)
	}
	if now := bob.state().Network; now != alice.state().Network || now == before {
		t.Errorf("bob is in network %s, alice in %s", now, alice.state().Network)
	}
	// The counts from before remain each node's own; what is counted from now on is everybody's.
	old := []votes{clone(alice.truth), clone(bob.truth)}
	for _, n := range both {
		if lacks := lacking(n, []*node{n}, sigs); lacks != "" {
			t.Error("after the join: ", lacks)
		}
	}
	for i, n := range both {
		n.truth = make(votes)
		for s := range sigs {
			if s%3 == 0 { // who votes twice is counted once
				s += sigs + i
			}
			n.report(s, 2)
		}
	}
	shared := func(what string) {
		t.Helper()
		for i, n := range both {
			nodetest.Settle(t, nodetest.Patience, n.name+" knows all, "+what, func() string {
				return lacking(n, append(both[:2:2], &node{truth: old[i]}), 2*sigs)
			})
		}
	}
	shared("after the join")
	bob.kill()
	bob.start()
	shared("after a crash of bob")
	alice.stop()
	alice.start()
	shared("after a restart of alice")
	if out, code := bob.try("join", "--yes", line); code != 0 || !strings.Contains(out, "joined") {
		t.Errorf("the same line again: code %d\n%s", code, out)
	}

	eve := newAlone(t, "eve", "")
	eve.start()
	if out, code := eve.try("join", "--yes", line); code == 0 || !strings.Contains(out, "used already") {
		t.Errorf("used twice: code %d\n%s", code, out)
	}
	eve.logs("used already")
	alice.logs("used already")
	other := newAlone(t, "other", fmt.Sprintf("mode = \"hub\"\nlisten = %q", ownAddress(t)))
	other.start()
	if out, code := bob.try("join", "--yes", other.invite("--accept")); code == 0 ||
		!strings.Contains(out, "leave that first") {
		t.Errorf("bob joins another network: code %d\n%s", code, out)
	}
	if out := bob.admin("leave", "--yes"); !strings.Contains(out, "1 peer dropped") {
		t.Errorf("leave: %s", out)
	}
	if lacks := lacking(bob, []*node{bob, {truth: old[1]}}, 2*sigs); lacks != "" {
		t.Error("after leaving: ", lacks)
	}
	if out, code := bob.try("peer", "list"); code == 0 || !strings.Contains(out, "shares with no peer") {
		t.Errorf("bob still shares: %s", out)
	}
	if out, code := bob.try("join", "--yes", line); code != 0 || !strings.Contains(out, "joined") {
		t.Errorf("back again: code %d\n%s", code, out)
	}
	shared("after coming back")
}

func clone(v votes) votes {
	out := make(votes)
	for s, n := range v {
		out[s] = n
	}
	return out
}

// TestTenJoin: ten nodes of one operator become a network with ten commands, while they count. All
// others drop a member that the hub removes.
func TestTenJoin(t *testing.T) {
	nodes := []*node{newAlone(t, "n0", fmt.Sprintf("mode = \"hub\"\nlisten = %q", ownAddress(t)))}
	nodes[0].start()
	line := nodes[0].invite("--accept", "--uses", "9", "--weight", "1", "--group", "mail")
	for i := 1; i < 10; i++ {
		n := newAlone(t, fmt.Sprint("n", i), "")
		n.start()
		n.report(i, 3)
		if out := n.admin("join", "--yes", "--weight", "1", line); !strings.Contains(out, "joined") {
			t.Fatalf("%s: %s", n.name, out)
		}
		n.report(i, 4)
		nodes = append(nodes, n)
	}
	// The counts of a node from before it joined remain its own. A vote counts once.
	for i, n := range nodes {
		n.truth = votes{}
		if i%3 != 0 {
			n.truth[i] = [2]uint32{4, 0}
		}
	}
	for _, n := range nodes {
		nodetest.Settle(t, nodetest.Patience, n.name+" knows what all counted", func() string {
			return lacking(n, nodes, 10)
		})
	}
	for _, n := range nodes {
		n.peers(9)
	}
	nodes[0].admin("peer", "evict", "--yes", "n9")
	for _, n := range nodes[1:9] {
		n.logs("expelled from the group")
		n.peers(8)
	}
}

// peers waits until the node has that many.
func (n *node) peers(want int) {
	n.t.Helper()
	nodetest.Settle(n.t, nodetest.Patience, fmt.Sprintf("%s has %d peers", n.name, want), func() string {
		list, err := n.client.Peers(n.ctx())
		if err != nil || len(list) != want {
			return fmt.Sprintf("%d peers, %v", len(list), err)
		}
		return ""
	})
}
