//go:build interop

package mesh

import (
	"flag"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

var soaks = flag.Int("soak", 4, "random schedules of TestSoak; the first has the seed of -seed")

// brokerVariable makes the test program a NATS server at the address that it names.
const brokerVariable = "BULKHEAD_TEST_BROKER"

// runBroker is that server, which stores in a folder. It runs until it is killed.
func runBroker(address, dir string) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		panic(err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		panic(err)
	}
	ns, err := server.NewServer(&server.Options{Host: host, Port: port, NoSigs: true, JetStream: true, StoreDir: dir,
		JetStreamMaxStore: 1 << 40})
	if err != nil {
		panic(err)
	}
	ns.Start()
	ns.WaitForShutdown()
}

// Kinds of steps that a soak without them would not be worth much.
var soakSteps = []string{
	"reports", "pause", "cut off", "connected", "connections ended", "slow", "killed", "stopped", "backup", "restored",
	"machine rolled back",
	"broker killed", "expelled", "taken back", "weighed", "peer rolled back", "clock forward", "clock back", "one time",
}

const (
	furthest = 10 * 24 * time.Hour // that a clock is moved ahead of the machine's
	behind   = 4 * 24 * time.Hour  // and back
)

// TestSoak runs random schedules of all that may happen to two to five processes and their broker,
// and to the clocks and the peer lists of their administrators, and compares at the end what each
// node counts with maps of what was acknowledged, by generation: exactly who was counted, with
// which weight, and without what was rolled back. Reports that a peer lost with a former
// incarnation may count until the node's administrator forgets them. After that, each count is exact.
// "make soak-mesh" runs many; a seed determines the events, but not the timing of the processes.
func TestSoak(t *testing.T) {
	nodetest.Simulated(t)
	s := &soakTally{n: make(map[string]int), of: *soaks, began: time.Now()}
	t.Run("seed", func(t *testing.T) {
		for i := range *soaks {
			seed := *firstSeed + uint64(i)
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				w := newSoak(t, seed)
				t.Cleanup(func() { s.ended(w, t.Failed()) })
				w.run()
			})
		}
	})
	fmt.Printf(
		"soak-mesh: %d schedules, seeds %d to %d, of which %d were not exact: %v; %d nodes, %d counts compared, %d of them "+
			"too high by chance, %v; steps: %v\n",
		s.done, *firstSeed, *firstSeed+uint64(*soaks)-1, len(s.failed), s.failed, s.nodes, s.compared, s.over,
		time.Since(s.began).Round(time.Second), s.n)
	for _, what := range soakSteps {
		if s.n[what] == 0 && *soaks >= 20 {
			t.Errorf("no step of kind %q in %d schedules", what, *soaks)
		}
	}
}

// A soakTally is what all schedules have done.
type soakTally struct {
	mu                    sync.Mutex
	n                     map[string]int
	of, done              int
	nodes, compared, over int
	failed                []uint64
	began                 time.Time
	longest               map[string][2]time.Duration // by fault: until a take-over, and without an acknowledgement
}

// ended notes that a schedule has ended, and says how far the soak is.
func (s *soakTally) ended(w *soak, failed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done++
	s.nodes, s.compared, s.over = s.nodes+len(w.nodes), s.compared+w.compared, s.over+w.over
	for what, n := range w.done {
		s.n[what] += n
	}
	word := "exact"
	if failed {
		s.failed = append(s.failed, w.seed)
		word = fmt.Sprintf("NOT EXACT; again: make soak-mesh SOAK=1 SEED=%d", w.seed)
		w.t.Logf("steps: %s", strings.Join(w.log, "; "))
	}
	fmt.Printf("soak-mesh: %d of %d: seed %d, %d nodes, %s, %v: %s\n", s.done, s.of, w.seed, len(w.nodes), w.kind,
		time.Since(w.began).Round(100*time.Millisecond), word)
}

// A soak is one schedule.
type soak struct {
	t     *testing.T
	seed  uint64
	rng   *rand.Rand
	kind  string // of broker
	nodes []*soaked
	// broker is the process of an external one, at an address and with a folder; nil while
	// it is away, or if a node is the hub.
	broker  *nodetest.Process
	address string
	folder  string
	ahead   time.Duration // of the clock that was ever furthest

	began          time.Time
	done           map[string]int
	log            []string
	compared, over int
}

// A soaked is a node with the reports to it, by generation, and its peer list.
type soaked struct {
	*node
	i       int
	wire    *nodetest.Wire // nil of a hub
	ahead   time.Duration  // of its clock
	counted map[int64]votes
	lost    []map[int64]votes // that it counted, and lost with a former incarnation
	peers   map[*soaked]listed
	copies  map[string]soakCopy
}

// A listed is a line of a peer list.
type listed struct {
	weight  float64
	refused [][2]int64 // generations that were rolled back: from, to
}

// A soakCopy is what a copy on disk holds.
type soakCopy struct {
	counted map[int64]votes
	peers   map[*soaked]listed
}

func newSoak(t *testing.T, seed uint64) *soak {
	w := &soak{t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 12)), began: time.Now(), done: make(map[string]int),
		address: ownAddress(t), kind: "a hub"}
	if w.rng.IntN(2) == 0 {
		w.kind, w.folder = "a NATS server", t.TempDir()
		w.startBroker()
	}
	secret := ""
	for i := range 2 + w.rng.IntN(4) {
		n := &soaked{i: i, counted: make(map[int64]votes), peers: make(map[*soaked]listed), copies: make(map[string]soakCopy)}
		mesh := fmt.Sprintf("mode = \"hub\"\nlisten = %q\n", w.address)
		if i > 0 || !w.hub() {
			n.wire = nodetest.NewWire(t, w.address)
			mesh = fmt.Sprintf("mode = \"join\"\nservers = [%q]\n", n.wire.Address())
			if !w.hub() {
				mesh = fmt.Sprintf("mode = \"external\"\nservers = [%q]\ncredentials = \"none\"\n", "nats://"+n.wire.Address())
			}
		}
		// Nothing expires in a schedule, and nothing that a peer counts is above its share.
		n.node = newNodeOf(t, nodetest.Simulated(t), fmt.Sprint("node ", i), secret, mesh+"stream_bytes = 67108864\n")
		n.settings("[tally]\n", "[tally]\nkeep = 60\nthreshold = 16777215\n")
		if secret == "" {
			secret = n.secret()
		}
		n.start()
		w.nodes = append(w.nodes, n)
	}
	for _, n := range w.nodes {
		for _, o := range w.nodes {
			if n != o {
				w.list(n, o, 1)
			}
		}
	}
	return w
}

// settings edits the configuration.
func (n *node) settings(old, new string) {
	n.t.Helper()
	path := filepath.Join(n.dir, "bulkhead.toml")
	text, err := os.ReadFile(path)
	if err == nil && !strings.Contains(string(text), old) {
		err = fmt.Errorf("no %q in %s", old, path)
	}
	if err == nil {
		err = os.WriteFile(path, []byte(strings.Replace(string(text), old, new, 1)), 0o600)
	}
	if err != nil {
		n.t.Fatal(err)
	}
}

// hub reports whether the first node is the broker.
func (w *soak) hub() bool { return w.folder == "" }

func (w *soak) startBroker() {
	w.t.Helper()
	path, err := os.Executable()
	if err != nil {
		w.t.Fatal(err)
	}
	cmd := exec.Command(path, w.folder)
	cmd.Env = append(os.Environ(), brokerVariable+"="+w.address)
	w.broker = nodetest.Start(w.t, cmd)
	nodetest.AwaitTCP(w.t, w.address)
}

func (w *soak) one() *soaked { return w.nodes[w.rng.IntN(len(w.nodes))] }

// two returns a node and another one.
func (w *soak) two() (n, o *soaked) {
	n = w.one()
	return n, w.nodes[(n.i+1+w.rng.IntN(len(w.nodes)-1))%len(w.nodes)]
}

func (w *soak) weight() float64 { return []float64{0, 0.25, 0.5, 1, 1, 1}[w.rng.IntN(6)] }

func (w *soak) upTo(d time.Duration) time.Duration { return time.Duration(w.rng.Int64N(int64(d))) }

// say notes a step.
func (w *soak) say(what string, who ...*soaked) {
	w.done[what]++
	for _, n := range who {
		what += " " + strconv.Itoa(n.i)
	}
	w.log = append(w.log, what)
}

func (w *soak) run() {
	for range 60 {
		if w.step(); w.t.Failed() {
			return
		}
	}
	w.calm()
	nodetest.Settle(w.t, 2*nodetest.Patience, fmt.Sprintf("seed %d: all nodes are exact", w.seed), w.wrong)
	for _, n := range w.nodes {
		n.stop()
	}
}

// step does something at random.
func (w *soak) step() {
	n := w.one()
	switch x := w.rng.IntN(100); {
	case x < 38:
		w.done["reports"]++
		w.report(n, func() {
			for range 1 + w.rng.IntN(5) {
				n.report(w.rng.IntN(signatures), uint32(1+w.rng.IntN(20)))
			}
		})
	case x < 50:
		w.done["pause"]++
		<-time.After(w.upTo(300 * time.Millisecond))
	case x < 60:
		w.wires(n)
	case x < 70:
		w.crashes(n)
	case x < 76:
		w.copiesOf(n)
	case x < 79:
		w.brokerAway()
	case x < 90:
		w.lists()
	default:
		w.clocks(n)
	}
}

// report sends a report to a node, and notes the generation in which the node counted it.
func (w *soak) report(n *soaked, do func()) {
	w.t.Helper()
	// The end of a generation must not come in between.
	if left := n.generation().End.Sub(n.now()); 0 < left && left < enough {
		w.moveTo(n, n.ahead+left+time.Second)
	}
	before, was := n.newest(), clone(n.truth)
	do()
	start := n.newest()
	if start != before {
		w.t.Fatalf("%s began a generation while it was told something", n.name)
	}
	if n.counted[start] == nil {
		n.counted[start] = make(votes)
	}
	for sig, v := range n.truth {
		c := n.counted[start][sig]
		n.counted[start][sig] = [2]uint32{c[0] + v[0] - was[sig][0], c[1] + v[1] - was[sig][1]}
	}
}

// enough is a time in which a node takes some reports, also if it is killed and started.
const enough = 5 * time.Minute

// generation returns the generation of the tally that takes what is counted now.
func (n *soaked) generation() admin.Generation {
	n.t.Helper()
	for _, b := range n.state().Books {
		if b.Name == "tally" {
			return b.Generations[0]
		}
	}
	n.t.Fatalf("%s has no tally", n.name)
	return admin.Generation{}
}

// newest returns when that generation began.
func (n *soaked) newest() int64 { return n.generation().Start.Unix() }

func (n *soaked) now() time.Time { return time.Now().Add(n.ahead) }

// wires cuts, delays or ends connections.
func (w *soak) wires(n *soaked) {
	if n.wire == nil {
		n = w.nodes[1]
	}
	switch w.rng.IntN(5) {
	case 0, 1:
		w.say("cut off", n)
		n.wire.Partition(true)
	case 2:
		w.say("connected", n)
		n.wire.Partition(false)
	case 3:
		w.say("connections ended", n)
		n.wire.Sever()
	case 4:
		w.say("slow", n)
		n.wire.Delay.Store(int64(w.upTo(200 * time.Millisecond)))
	}
}

// crashes kills a node in the middle of reports, or stops and copies it. Its clock is the
// machine's then.
func (w *soak) crashes(n *soaked) {
	if w.rng.IntN(3) == 0 {
		w.say("stopped", n)
		n.stop()
		n.snapshot()
		n.keep("snapshot")
		w.start(n)
		return
	}
	w.say("killed", n)
	w.report(n, func() {
		end := make(chan struct{})
		go func() {
			defer close(end)
			for i := range 10 {
				n.report((i*7+len(w.log))%signatures, 3)
			}
		}()
		<-time.After(w.upTo(20 * time.Millisecond))
		n.kill()
		w.start(n)
		<-end
	})
}

func (w *soak) start(n *soaked) {
	n.start()
	n.ahead = 0
}

func (n *soaked) keep(name string) {
	n.copies[name] = soakCopy{cloneAll(n.counted), maps.Clone(n.peers)}
}

// goBack has a node lose all reports that a copy lacks.
func (n *soaked) goBack(to soakCopy) {
	gone := make(map[int64]votes)
	for start, v := range n.counted {
		gone[start] = make(votes)
		for sig, c := range v {
			had := to.counted[start][sig]
			gone[start][sig] = [2]uint32{c[0] - min(c[0], had[0]), c[1] - min(c[1], had[1])}
		}
	}
	n.lost = append(n.lost, gone)
	n.counted = cloneAll(to.counted)
}

func cloneAll(counted map[int64]votes) map[int64]votes {
	out := make(map[int64]votes)
	for start, v := range counted {
		out[start] = clone(v)
	}
	return out
}

// copiesOf makes a backup of a node, or has it go back to one, or to a copy of all it had.
func (w *soak) copiesOf(n *soaked) {
	backup, saved := n.copies["backup"]
	machine, copied := n.copies["snapshot"]
	switch {
	case copied && w.rng.IntN(3) == 0:
		w.say("machine rolled back", n)
		n.kill()
		n.rollback()
		n.goBack(machine)
		n.peers = maps.Clone(machine.peers)
		w.start(n)
	case saved && w.rng.IntN(2) == 0:
		w.say("restored", n)
		n.kill()
		n.restore()
		n.goBack(backup)
		w.start(n)
	default:
		w.say("backup", n)
		n.backup()
		n.keep("backup")
	}
}

// brokerAway kills the broker, which may lose what it has stored, and starts it again after
// a while. Of a hub it is the node.
func (w *soak) brokerAway() {
	w.say("broker killed")
	if w.hub() {
		w.nodes[0].kill()
	} else {
		w.broker.Kill()
		if w.rng.IntN(3) == 0 {
			if err := os.RemoveAll(w.folder); err != nil {
				w.t.Fatal(err)
			}
		}
	}
	for _, n := range w.nodes[1:] {
		w.report(n, func() { n.report(w.rng.IntN(signatures), 2) })
	}
	<-time.After(w.upTo(500 * time.Millisecond))
	if w.hub() {
		w.start(w.nodes[0])
	} else {
		w.startBroker()
	}
}

// lists has an administrator expel a peer, take one back, weigh or roll back one.
func (w *soak) lists() {
	n, o := w.two()
	line, has := n.peers[o]
	switch x := w.rng.IntN(10); {
	case !has:
		w.say("taken back", n, o)
		w.list(n, o, w.weight())
	case x < 3:
		w.say("expelled", n, o)
		w.expel(n, o)
	case x < 6:
		w.say("weighed", n, o)
		line.weight = w.weight()
		if _, err := n.client.WeighPeer(n.ctx(), o.key, line.weight); err != nil {
			w.t.Fatal(err)
		}
		n.peers[o] = line
	default:
		w.say("peer rolled back", n, o)
		// Whether a generation is dropped that is to begin by n's clock depends on whether
		// it has come here already.
		w.moveTo(n, max(n.ahead, w.ahead))
		var starts []int64
		for start := range o.counted {
			starts = append(starts, start)
		}
		since := n.now().Unix()
		if len(starts) > 0 {
			slices.Sort(starts)
			since = min(since, starts[w.rng.IntN(len(starts))]+w.rng.Int64N(2))
		}
		if _, err := n.client.RollbackPeer(n.ctx(), o.key, time.Unix(since, 0)); err != nil {
			w.t.Fatal(err)
		}
		line.refused = append(slices.Clone(line.refused), [2]int64{since, n.now().Unix()})
		n.peers[o] = line
	}
}

func (w *soak) list(n, o *soaked, weight float64) {
	w.t.Helper()
	if _, err := n.client.AddPeer(n.ctx(), admin.NewPeer{Key: o.key, Name: o.name, Weight: weight}); err != nil {
		w.t.Fatal(err)
	}
	n.peers[o] = listed{weight: weight}
}

func (w *soak) expel(n, o *soaked) {
	w.t.Helper()
	if err := n.client.EvictPeer(n.ctx(), o.key); err != nil {
		w.t.Fatal(err)
	}
	delete(n.peers, o)
}

// clocks moves a clock by up to days, or all to one time.
func (w *soak) clocks(n *soaked) {
	by := []time.Duration{time.Minute, 3 * time.Hour, 4 * 24 * time.Hour}[w.rng.IntN(3)]
	by = time.Second + w.upTo(by)
	switch x := w.rng.IntN(10); {
	case x < 2:
		w.say("one time")
		w.oneTime()
	case x < 6 && n.ahead+by < furthest:
		w.say("clock forward", n)
		w.moveTo(n, n.ahead+by)
	case n.ahead-by > -behind:
		w.say("clock back", n)
		w.moveTo(n, n.ahead-by)
	}
}

// moveTo moves a node's clock to so far ahead of the machine's.
func (w *soak) moveTo(n *soaked, ahead time.Duration) {
	w.t.Helper()
	way, by := "advance", ahead-n.ahead
	switch {
	case by == 0:
		return
	case by < 0:
		way, by = "back", -by
	}
	resp, err := http.Post(fmt.Sprintf("http://%s/v1/clock?%s=%s", n.http, way, by), "message/rfc822", nil)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		w.t.Fatalf("%s: clock %s by %v: %s: %s %v", n.name, way, by, resp.Status, text, err)
	}
	n.ahead, w.ahead = ahead, max(w.ahead, ahead)
}

// oneTime moves all clocks to the one that was ever furthest ahead, and to where the newest
// generation of each has begun.
func (w *soak) oneTime() {
	for _, n := range w.nodes {
		w.ahead = max(w.ahead, time.Until(time.Unix(n.newest()+1, 0)))
	}
	for _, n := range w.nodes {
		w.moveTo(n, w.ahead)
	}
}

// calm ends all faults. A node that has expelled a peer takes it back, or is expelled by it as
// well: peers answer only each other's questions.
func (w *soak) calm() {
	for _, n := range w.nodes {
		if n.wire != nil {
			n.wire.Partition(false)
			n.wire.Delay.Store(0)
		}
	}
	w.oneTime()
	for _, n := range w.nodes {
		for _, o := range w.nodes {
			if _, has := n.peers[o]; has || n == o {
				continue
			}
			_, mutual := o.peers[n]
			apart := w.rng.IntN(2) == 0 && !(w.hub() && n.i*o.i == 0) // a hub lets in only who is on its list
			switch {
			case apart && mutual:
				w.expel(o, n)
			case !apart:
				w.list(n, o, w.weight())
				if !mutual {
					w.list(o, n, w.weight())
				}
			}
		}
	}
	w.log = append(w.log, "calm")
}

// want is what a node should count of a signature: sightings and spam votes.
func (w *soak) want(n *soaked, sig int) (want [2]uint32) {
	for _, o := range w.nodes {
		add(&want, n.accepted(o, o.counted, sig))
	}
	return want
}

// most is the most that a node may count of a signature while it keeps former incarnations of its
// peers. How much of an incarnation it has depends on what arrived before the peer lost it.
func (w *soak) most(n *soaked, sig int) [2]uint32 {
	most := w.want(n, sig)
	for _, o := range w.nodes {
		for _, lost := range o.lost {
			if o != n {
				add(&most, n.accepted(o, lost, sig))
			}
		}
	}
	return most
}

// accepted is what n counts of the reports to o, by n's peer list.
func (n *soaked) accepted(o *soaked, reports map[int64]votes, sig int) (sum [2]uint32) {
	line, has := n.peers[o]
	if !has && n != o {
		return sum
	}
	for start, v := range reports {
		if slices.ContainsFunc(line.refused, func(s [2]int64) bool { return s[0] <= start && start <= s[1] }) {
			continue
		}
		for i, c := range v[sig] {
			if n != o {
				c = uint32(math.Ceil(line.weight * float64(c)))
			}
			sum[i] += c
		}
	}
	return sum
}

func add(sum *[2]uint32, c [2]uint32) { sum[0], sum[1] = sum[0]+c[0], sum[1]+c[1] }

// unexplained returns the number of a node's counts that are above [soak.most].
func (w *soak) unexplained(n *soaked) (over int, err error) {
	var q bulkhead.Query
	for sig := range signatures {
		q.Signatures = append(q.Signatures, signature(sig))
	}
	q.Terse = true
	v, err := n.client.Check(n.ctx(), q)
	if err != nil {
		return 0, err
	}
	for sig, f := range v.Findings {
		if most := w.most(n, sig); f.Sightings > most[0] || f.Spam > most[1] {
			over++
		}
	}
	return over, nil
}

// wrong returns what a node counts that it should not, or lacks; "" if all is exact.
func (w *soak) wrong() string {
	compared, over, above := 2*signatures*len(w.nodes), 0, 0
	var all []*node
	for _, n := range w.nodes {
		high, err := w.unexplained(n)
		if err != nil {
			return err.Error()
		}
		all, above = append(all, n.node), above+high
	}
	if above > compared/200 {
		return fmt.Sprintf("%d of %d counts above all reports that their nodes accept, lost ones included", above, compared) +
			w.accounts()
	}
	if err := forgetFormer(all); err != nil {
		return err.Error()
	}
	for _, n := range w.nodes {
		want := make(votes)
		for sig := range signatures {
			want[sig] = w.want(n, sig)
		}
		high, lacks := compare(n.node, []*node{{truth: want}}, signatures)
		if lacks != "" {
			return lacks + "\n" + w.account(n)
		}
		over += high
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
	if over > compared/200 {
		return fmt.Sprintf("%d of %d counts too high", over, compared) + w.accounts()
	}
	w.compared, w.over = compared, over
	return ""
}

// accounts is [soak.account] of all nodes.
func (w *soak) accounts() (text string) {
	for _, n := range w.nodes {
		text += "\n" + w.account(n)
	}
	return text
}

// account says what the numbers of a node are made of, for people.
func (w *soak) account(n *soaked) string {
	var b strings.Builder
	for sig := range signatures {
		v, err := n.client.Check(n.ctx(), checkOf(sig))
		if err != nil {
			return err.Error()
		}
		want := w.want(n, sig)
		if f := v.Findings[0]; f.Sightings == want[0] && f.Spam == want[1] {
			continue
		}
		fmt.Fprintf(&b, "%s, signature %d: %d sightings, %d spam votes; want %v:", n.name, sig, v.Findings[0].Sightings,
			v.Findings[0].Spam, want)
		for _, o := range w.nodes {
			line, has := n.peers[o]
			fmt.Fprintf(&b, " of %d (listed %v, %v)", o.i, has, line)
			for start, c := range o.counted {
				if c[sig] != [2]uint32{} {
					fmt.Fprintf(&b, " %v in %d", c[sig], start)
				}
			}
			for _, lost := range o.lost {
				for start, c := range lost {
					if c[sig] != [2]uint32{} {
						fmt.Fprintf(&b, " lost %v in %d", c[sig], start)
					}
				}
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}
