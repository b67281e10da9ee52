//go:build interop

package mesh

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

// A tier is two members and the hub of their group, which publishes the sum of the three to
// the hub of a reader that counts nothing else but itself.
type tier struct {
	t       *testing.T
	reader  *node
	hub     *node // of the group
	members []*node
	below   string         // address of the group's hub
	up      *nodetest.Wire // from the sum to the reader
	sum     string         // its key
}

func newTier(t *testing.T) *tier {
	t.Helper()
	above, below := ownAddress(t), ownAddress(t)
	w := &tier{t: t, below: below}
	w.reader = newNode(t, "reader", "", fmt.Sprintf("mode = \"hub\"\nlisten = %q", above))
	secret := w.reader.secret()
	w.up = nodetest.NewWire(t, above)
	w.hub = newNode(t, "hub", secret,
		fmt.Sprintf("mode = \"hub\"\nlisten = %q\n[aggregate]\nmembers = [\"*\"]\nservers = [%q]", below, w.up.Address()))
	for i := range 2 {
		w.members = append(w.members, newNode(t, fmt.Sprint("member ", i), secret,
			fmt.Sprintf("mode = \"join\"\nservers = [%q]", below)))
	}
	for _, n := range w.all() {
		n.start()
	}
	befriend(t, w.group()...)
	w.sum = w.aggregate().Key
	// The reader's hub is known by its key, and answers the hub of the group; neither counts
	// the other.
	w.hub.add(w.reader.key, "reader", 0)
	w.reader.add(w.hub.key, "hub", 0)
	w.reader.add(w.sum, "sum", 1)
	return w
}

func (w *tier) group() []*node { return append([]*node{w.hub}, w.members...) }

func (w *tier) all() []*node { return append(w.group(), w.reader) }

func (n *node) add(key, name string, weight float64) {
	n.t.Helper()
	if _, err := n.client.AddPeer(n.ctx(), admin.NewPeer{Key: key, Name: name, Weight: weight}); err != nil {
		n.t.Fatal(err)
	}
}

func (w *tier) aggregate() *admin.Aggregate {
	w.t.Helper()
	var a *admin.Aggregate
	nodetest.Settle(w.t, nodetest.Patience, "the hub has a sum", func() string {
		s, err := w.hub.client.Network(w.hub.ctx())
		if err != nil || s.Aggregate == nil {
			return fmt.Sprintf("%+v, %v", s, err)
		}
		a = s.Aggregate
		return ""
	})
	return a
}

func (w *tier) report(count uint32) {
	for i, n := range w.all() {
		for sig := range signatures {
			if sig%4 == i || sig%5 == 0 {
				n.report(sig, count)
			}
		}
	}
}

// settle waits until the reader counts all reports to itself and to the members of the aggregate,
// and each member of the group counts all reports to the group.
func (w *tier) settle(what string, in ...*node) {
	w.t.Helper()
	exact := func(n *node, reporters []*node) func() string {
		return func() string {
			over, lacks := compare(n, reporters, signatures)
			if lacks == "" && over > 0 {
				return fmt.Sprintf("%s: %d counts too high", n.name, over)
			}
			return lacks
		}
	}
	nodetest.Settle(w.t, 2*nodetest.Patience, what+": the reader", exact(w.reader, append([]*node{w.reader}, in...)))
	for _, n := range in {
		nodetest.Settle(w.t, nodetest.Patience, what+": "+n.name, exact(n, in))
	}
}

// doctor waits until doctor of the running hub ends with a code, and says so of the sum.
func (w *tier) doctor(code int, verdict, found string) {
	w.t.Helper()
	row := regexp.MustCompile("(?m)^" + verdict + " +sum +" + regexp.QuoteMeta(found))
	nodetest.Settle(w.t, nodetest.Patience, "doctor: "+found, func() string {
		cmd := exec.Command(w.hub.bin, "doctor", "--server", "http://"+w.hub.http, "--token-file",
			filepath.Join(w.hub.data(), "admin.token"))
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState == nil {
			w.t.Fatal(err)
		}
		if got := cmd.ProcessState.ExitCode(); got != code || !row.Match(out) {
			return fmt.Sprintf("code %d: %s", got, out)
		}
		return ""
	})
}

// TestSum: processes that count others through a sum count exactly what was reported, when
// the aggregator is killed, cut off from those who count it, or expels a member and takes it
// back. doctor reports whether messages of the sum arrive.
func TestSum(t *testing.T) {
	t.Parallel()
	w := newTier(t)
	w.report(1)
	w.settle("at first", w.group()...)
	w.doctor(0, "ok", "of 3 organisations, published")

	w.up.Partition(true)
	w.report(2)
	w.doctor(65, "FAIL", "not connected to tls://"+w.up.Address())
	w.hub.kill()
	for _, n := range w.members {
		n.report(1, 3)
	}
	w.hub.start()
	w.up.Partition(false)
	w.settle("after a cut and a crash of the aggregator", w.group()...)

	out := w.members[1]
	if err := w.hub.client.EvictPeer(w.hub.ctx(), out.key); err != nil {
		t.Fatal(err)
	}
	if err := w.members[0].client.EvictPeer(w.members[0].ctx(), out.key); err != nil {
		t.Fatal(err)
	}
	out.report(2, 7)
	w.hub.report(2, 1)
	w.settle("without a member", w.hub, w.members[0])
	w.hub.add(out.key, out.name, 1)
	w.members[0].add(out.key, out.name, 1)
	w.settle("with it again", w.group()...)
}

// TestSumRekey: a network changes its secret while a sum is published. The reader's hub announces
// it, which the group hears through the aggregator alone. Nothing that was acknowledged is lost,
// and nothing is counted twice.
func TestSumRekey(t *testing.T) {
	t.Parallel()
	w := newTier(t)
	w.report(1)
	w.settle("at first", w.group()...)
	before := w.reader.state().Network
	w.reader.admin("rekey", "--in", "4s")
	nodetest.Settle(t, nodetest.Patience, "the group knows the secret to come", func() string {
		for _, n := range w.group() {
			if n.announced() == nil && n.state().Network == before {
				return n.name + " does not"
			}
		}
		return ""
	})
	w.report(2)
	w.hub.kill() // before the change, in it, or after
	w.hub.start()
	for _, n := range w.all() {
		nodetest.Settle(t, nodetest.Patience, n.name+" counts under the new secret", func() string {
			if got := n.state().Network; got == before {
				return got
			}
			return ""
		})
	}
	w.report(3)
	w.settle("under the new secret", w.group()...)
	w.doctor(0, "ok", "of 3 organisations, published")
	nodetest.Settle(t, nodetest.Patience, "the reader's hub knows that the group's hub has it by the sum", func() string {
		if s := w.reader.announced(); s == nil || !s.Done || len(s.Missing) != 0 || len(s.Through) != 1 ||
			s.Through[0] != w.hub.key {
			return fmt.Sprintf("%+v", s)
		}
		return ""
	})
	out := w.members[1]
	for _, n := range []*node{w.hub, w.members[0]} {
		if err := n.client.EvictPeer(n.ctx(), out.key); err != nil {
			t.Fatal(err)
		}
	}
	w.settle("without a member", w.hub, w.members[0])
}
