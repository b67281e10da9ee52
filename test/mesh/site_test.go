//go:build interop

package mesh

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/testing/natstest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

const (
	siteEdges = 2
	siteTexts = 60
)

// A site is divided among a pair, which is the hub, and two members. They share as servers of one operator do. Edges in
// front send each report to the shard of its mailbox, by a map that "bulkhead shard" changes.
type site struct {
	t       *testing.T
	rng     *rand.Rand
	pair    [2]*node // the one that decides, and the one that follows
	members []*node
	edges   []*node
	doors   []*admin.Client // of the edges
	nats    *server.Server
	options *server.Options // of nats
	ids     atomic.Int64
	silent  atomic.Bool // users do not vote
	note    func(fault string)

	mu    sync.Mutex
	truth votes // acknowledged by an edge
}

func newSite(t *testing.T, rng *rand.Rand, note func(string)) *site {
	s := &site{t: t, rng: rng, note: note, truth: make(votes)}
	hubs := [2]string{ownAddress(t), ownAddress(t)}
	var ports [2]int
	// The first node waits for a second one that stalls: what it acknowledged alone would be lost with it.
	for i, hub := range hubs {
		ports[i] = nodetest.FreePort(t)
		mesh := fmt.Sprintf("mode = \"hub\"\nlisten = %q\n[standby]\nlisten = \"127.0.0.1:%d\"\nwait = \"10s\"\n"+
			"away = \"alone\"\n", hub, ports[i])
		if i == 0 {
			s.pair[i] = newNode(t, "pair", "", mesh)
		} else {
			s.pair[i] = prepare(t, nodetest.Binary(t), "pair", mesh)
		}
		s.pair[i].settings("[node]\n", "[node]\ndurability = \"standby\"\ncheckpoint = \"2s\"\n")
	}
	first, second := s.pair[0], s.pair[1]
	second.key = first.key
	for i := range 2 {
		s.members = append(s.members, newNode(t, fmt.Sprint("member-", i), first.secret(),
			fmt.Sprintf("mode = \"join\"\nservers = [%q, %q]", hubs[0], hubs[1])))
	}
	all := append([]*node{first}, s.members...)
	for _, n := range append(slices.Clone(all), second) {
		n.settings("capacity = 5000", "capacity = 5000\nerror = 1e-9\nkeep = 60\nthreshold = 16777215")
		n.settings("capacity = 1000", "capacity = 1000\nerror = 1e-9")
	}
	for _, n := range all {
		n.start()
	}
	befriend(t, all...)
	_, out := nodetest.Command(t, "", first.bin, "standby", "invite", fmt.Sprintf("127.0.0.1:%d", ports[0]), "--data",
		first.data())
	_, rest, found := strings.Cut(out, "bulkhead standby join")
	if !found {
		t.Fatal(out)
	}
	if code, out := nodetest.Command(t, "", second.bin, "standby", "join", strings.Fields(rest)[0], "--data",
		second.data()); code != 0 {
		t.Fatal(out)
	}
	second.start()
	s.inStep()
	s.divide()
	return s
}

// divide starts the servers of the map, divides the site, and starts the edges.
func (s *site) divide() {
	host, text, err := net.SplitHostPort(ownAddress(s.t))
	port, err2 := strconv.Atoi(text)
	if err != nil || err2 != nil {
		s.t.Fatal(err, err2)
	}
	s.options = &server.Options{Host: host, Port: port, NoSigs: true, JetStream: true, StoreDir: s.t.TempDir()}
	s.nats = natstest.Server(s.t, s.options)
	s.shard("add", "pair", "http://"+s.pair[0].http, "http://"+s.pair[1].http)
	for _, n := range s.members {
		s.shard("add", n.name, "http://"+n.http)
		s.shard("move", n.name, "--yes")
	}
	for i := range siteEdges {
		e := newNode(s.t, fmt.Sprint("edge-", i), s.pair[0].secret(), "")
		config := fmt.Sprintf("[node]\nname = %q\n[listen]\nhttp = %q\n[shards]\nservers = [%q]\ntokens = %q\n"+
			"domain = \"site.example\"\n", e.name, e.http, s.mapURL(), filepath.Join(e.dir, "tokens"))
		err := os.Mkdir(filepath.Join(e.dir, "tokens"), 0o700)
		if err == nil {
			err = os.WriteFile(filepath.Join(e.dir, "bulkhead.toml"), []byte(config), 0o600)
		}
		if err != nil {
			s.t.Fatal(err)
		}
		s.edges = append(s.edges, e)
	}
	for _, n := range append([]*node{s.pair[0]}, s.members...) {
		s.accounts(n)
	}
	for _, e := range s.edges {
		e.start()
		s.doors = append(s.doors, e.client)
	}
	s.followed()
}

func (s *site) mapURL() string { return fmt.Sprintf("nats://%s:%d", s.options.Host, s.options.Port) }

// shard changes the map by the command.
func (s *site) shard(args ...string) {
	s.t.Helper()
	args = append(append([]string{"shard"}, args...), "--nats", s.mapURL(), "--timeout", "1m")
	if code, out := nodetest.Command(s.t, "", s.pair[0].bin, args...); code != 0 {
		s.t.Errorf("%q ends with %d: %s", args, code, out)
	}
}

// move moves some mailboxes to any shard.
func (s *site) move(rng *rand.Rand) {
	s.t.Helper()
	to := append([]*node{s.pair[0]}, s.members...)[rng.IntN(1+len(s.members))]
	s.shard("move", to.name, "--slots", fmt.Sprint(1+rng.IntN(40)), "--yes")
}

// accounts makes an account for each edge on a shard.
func (s *site) accounts(n *node) {
	s.t.Helper()
	for _, e := range s.edges {
		token, err := n.client.AddUser(n.ctx(), admin.NewUser{Name: e.name, Role: "trusted"})
		if err == nil {
			err = os.WriteFile(filepath.Join(e.dir, "tokens", n.name), []byte(token.Token), 0o600)
		}
		if err != nil {
			s.t.Fatal(err)
		}
	}
}

// followed waits until all edges use the present map.
func (s *site) followed() {
	s.t.Helper()
	var m admin.Shards
	out := nodetest.Output(s.t, "", s.pair[0].bin, "shard", "show", "--json", "--nats", s.mapURL())
	if err := json.Unmarshal([]byte(out), &m); err != nil {
		s.t.Fatal(err)
	}
	s.await("the present map", func(has *admin.Shards) bool { return has.Version == m.Version })
}

// delivered waits until no report waits at an edge.
func (s *site) delivered() {
	s.t.Helper()
	s.await("no report that waits", func(has *admin.Shards) bool {
		return !slices.ContainsFunc(has.Shards, func(x admin.Shard) bool { return x.Waiting > 0 })
	})
}

// await waits until each edge has something.
func (s *site) await(what string, ok func(*admin.Shards) bool) {
	s.t.Helper()
	began := time.Now()
	for _, e := range s.edges {
		nodetest.Settle(s.t, 2*nodetest.Patience, e.name+" has "+what, func() string {
			state, err := e.client.Node(e.ctx())
			if err != nil {
				return err.Error()
			}
			if state.Now.After(began) && ok(state.Shards) { // a node describes itself at most once in a second
				return ""
			}
			return fmt.Sprintf("%+v", state.Shards)
		})
	}
}

// inStep waits until the second node of the pair has everything.
func (s *site) inStep() {
	s.t.Helper()
	began := time.Now()
	nodetest.Settle(s.t, 2*nodetest.Patience, "a standby that has everything", func() string {
		for i, role := range []string{"first", "second"} {
			state, err := s.pair[i].client.Node(s.pair[i].ctx())
			if err != nil {
				return err.Error()
			}
			if p := state.Standby; state.Now.Before(began) || p == nil || p.Role != role || !p.Connected || p.Lag > 0 {
				return fmt.Sprintf("%+v, want %s", p, role)
			}
		}
		return ""
	})
}

// one has an edge deliver a message to a mailbox, or vote for a user, until the edge acknowledges it. No mailbox gets
// two messages, and no user votes twice.
func (s *site) one(rng *rand.Rand) error {
	id, number, kind := s.ids.Add(1), rng.IntN(siteTexts), 0
	r := bulkhead.Report{ID: fmt.Sprint("site ", id), Recipients: []string{fmt.Sprintf("user%d+x@Site.Example", id)}}
	if rng.IntN(10) == 0 && !s.silent.Load() {
		number += siteTexts // texts of which no delivery is known
		r = bulkhead.Report{Vote: bulkhead.Spam, Reporter: bulkhead.Reporter{User: fmt.Sprint("user", id)}}
		kind = 1
	}
	r.Signatures = []bulkhead.Signature{signature(number)}
	door := s.doors[rng.IntN(len(s.doors))]
	for deadline := time.Now().Add(nodetest.Patience); ; <-time.After(10 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		_, err := door.Report(ctx, r)
		cancel()
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.truth[number]
	v[kind]++
	s.truth[number] = v
	return nil
}

// load delivers and votes until end is called.
func (s *site) load() (end func()) {
	stop, seed := make(chan struct{}), s.rng.Uint64()
	var running sync.WaitGroup
	for i := range 3 {
		running.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(i)))
			for {
				select {
				case <-stop:
					return
				case <-time.After(time.Duration(rng.IntN(20)) * time.Millisecond):
				}
				if err := s.one(rng); err != nil {
					s.t.Errorf("a report is not acknowledged: %v", err)
					return
				}
			}
		})
	}
	return sync.OnceFunc(func() {
		close(stop)
		running.Wait()
	})
}

// rekey has the hub announce another secret. It reports whether the hub did.
func (s *site) rekey() bool {
	out, code := s.pair[0].try("rekey", "--in", "1s", "--json")
	var change admin.SecretChange
	if code != 0 || json.Unmarshal([]byte(out), &change) != nil {
		s.t.Logf("rekey: code %d: %s", code, out)
		s.note("secret refused")
		return false
	}
	return true
}

// takeOver makes the second node of the pair the first. The former first one was killed unless it lives.
func (s *site) takeOver(lives bool) {
	s.t.Helper()
	next := s.pair[1]
	code, out := nodetest.Command(s.t, "", next.bin, "promote", "--yes", "--server", "http://"+next.http, "--token-file",
		filepath.Join(next.data(), "admin.token"))
	if code != 0 || !strings.Contains(out, "first node of a pair") {
		s.t.Fatalf("promote ends with %d: %s", code, out)
	}
	s.pair[0], s.pair[1] = s.pair[1], s.pair[0]
	if !lives {
		<-time.After(time.Duration(s.rng.IntN(500)) * time.Millisecond)
		s.pair[1].start()
	}
}

var siteFaults = []string{"secret in a take-over", "secret in a take-over", "secret before a hand-over", "store lost",
	"member killed in a change of the secret", "shard drained while it is dead", "shard removed and added",
	"two administrators move", "edge killed", "edge killed while its map is away"}

// fault does something at random while reports go on, and mailboxes move.
func (s *site) fault(fault string) {
	s.note(fault)
	s.t.Log(fault)
	edge := s.rng.IntN(len(s.edges))
	s.move(s.rng)
	if strings.HasPrefix(fault, "edge killed") { // it forgets to which shard it has sent what was not acknowledged
		s.followed()
	}
	// A vote that is repeated for want of an answer counts once more in another generation.
	s.silent.Store(strings.Contains(fault, "secret"))
	end := s.load()
	defer func() { end() }()
	wait := func(most int) { <-time.After(time.Duration(s.rng.IntN(most)) * time.Millisecond) }
	member := s.members[s.rng.IntN(len(s.members))]
	wait(500)
	switch fault {
	case "secret in a take-over": // before the change, in it, or after it
		s.rekey()
		wait(1500)
		s.pair[0].kill()
		s.takeOver(false)
	case "secret before a hand-over":
		s.rekey()
		wait(1500)
		s.takeOver(true)
	case "store lost":
		end()
		s.exact() // what was not shared yet would be lost
		member.lose()
		end = s.load()
		wait(1000)
		member.start()
		s.accounts(member)
		for _, e := range s.edges {
			if _, err := e.client.ReloadConfig(e.ctx()); err != nil {
				s.t.Fatal(err)
			}
		}
		member.recovered()
	case "member killed in a change of the secret":
		s.rekey()
		wait(1500)
		member.kill()
		wait(1500)
		member.start()
	case "shard drained while it is dead":
		member.kill()
		wait(1500)
		s.shard("drain", member.name, "--yes")
		wait(3000)
		member.start()
		s.shard("move", member.name, "--yes")
	case "shard removed and added":
		nodes := [][]*node{s.pair[:], s.members[:1], s.members[1:]}
		s.rng.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
		name, again := nodes[0][0].name, []string{"add", nodes[0][0].name}
		for _, n := range nodes[0] {
			again = append(again, "http://"+n.http)
		}
		s.shard("default", nodes[1][0].name)
		s.shard("drain", name, "--yes")
		s.followed()
		end() // what was not acknowledged may be there
		s.delivered()
		s.shard("remove", name, "--yes")
		s.shard(again...)
		end = s.load()
		s.shard("move", name, "--yes")
	case "two administrators move":
		for range 3 {
			var both sync.WaitGroup
			for range 2 {
				own := rand.New(rand.NewPCG(s.rng.Uint64(), 2))
				both.Go(func() { s.move(own) })
			}
			both.Wait()
			wait(1000)
		}
	case "edge killed", "edge killed while its map is away":
		if fault != "edge killed" {
			s.nats.Shutdown()
			s.nats.WaitForShutdown()
			member.kill()
			wait(500)
		}
		s.edges[edge].kill()
		wait(500)
		s.edges[edge].start()
		if fault != "edge killed" {
			member.start()
			s.nats = natstest.Server(s.t, s.options)
		}
	}
	wait(500)
	end()
	s.inStep()
	s.followed()
}

// exact waits until all nodes are in one network, and count what an edge acknowledged, once. So do the edges.
func (s *site) exact() {
	s.t.Helper()
	s.delivered()
	nodes := append([]*node{s.pair[0]}, s.members...)
	reported := []*node{{truth: s.truth}}
	probes := 0
	nodetest.Settle(s.t, 2*nodetest.Patience, "all nodes are exact", func() string {
		if probes++; probes%10 == 1 {
			if err := forgetFormer(nodes); err != nil {
				return err.Error()
			}
		}
		network := nodes[0].state().Network
		for _, n := range append(slices.Clone(nodes), s.pair[1]) {
			if got := n.state().Network; got != network {
				return fmt.Sprintf("%s is in network %s, and the hub in %s", n.name, got, network)
			}
		}
		for _, n := range slices.Concat(nodes, s.pair[1:], s.edges) {
			over, lacks := compare(n, reported, 2*siteTexts)
			if lacks != "" || over > 0 {
				return fmt.Sprintf("%s, %d counts of %s are too high\n%s", lacks, over, n.name, s.account(nodes))
			}
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

// account returns what each node knows of its peers, and which counts differ from what was acknowledged.
func (s *site) account(nodes []*node) string {
	var b strings.Builder
	for _, n := range nodes {
		list, err := n.client.Peers(n.ctx())
		if err != nil {
			return err.Error()
		}
		for i := range list {
			fmt.Fprintf(&b, "%s of a peer: %+v\n", n.name, list[i])
		}
		for number := range 2 * siteTexts {
			v, err := n.client.Check(n.ctx(), checkOf(number))
			if err != nil {
				return err.Error()
			}
			if f := v.Findings[0]; [2]uint32{f.Sightings, f.Spam} != s.truth[number] {
				fmt.Fprintf(&b, "%s, text %d: %d and %d, acknowledged %v\n", n.name, number, f.Sightings, f.Spam,
					s.truth[number])
			}
		}
	}
	return b.String()
}

// TestSoakSite runs random schedules of a site that is divided among a pair, which is the hub, and two members, behind
// two edges. Administrators move mailboxes under load, and drain, remove and add shards. The network's secret changes
// while the second node of the pair takes over, or while a member is killed. Members lose their stores and take them
// back from their peers. Edges are killed, also while the servers of the map are down. In the end all nodes are in one
// network, and each counts exactly what an edge acknowledged.
func TestSoakSite(t *testing.T) {
	s := &soakTally{n: make(map[string]int), of: *soaks, began: time.Now()}
	t.Run("seed", func(t *testing.T) {
		for i := range *soaks {
			seed := *firstSeed + uint64(i)
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				began := time.Now()
				defer func() { s.schedule("soak-site", seed, "a pair, two members and two edges", began, t.Failed()) }()
				rng := rand.New(rand.NewPCG(seed, 35))
				site := newSite(t, rng, s.count)
				for range 4 {
					site.fault(siteFaults[rng.IntN(len(siteFaults))])
				}
				site.exact()
			})
		}
	})
	s.print("soak-site")
}
