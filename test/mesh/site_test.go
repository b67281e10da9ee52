//go:build interop

package mesh

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

const (
	siteShares = 16 // of the mailboxes; a share moves as a whole
	siteTexts  = 60
)

// A place has the mail of some mailboxes: one node, or a pair.
type place struct {
	nodes []*node // of a pair first the one that decides
	at    atomic.Pointer[node]

	mu    sync.Mutex
	voted map[int]bool // texts
	truth votes
}

func newPlace(nodes ...*node) *place {
	p := &place{nodes: nodes, voted: make(map[int]bool), truth: make(votes)}
	p.at.Store(nodes[0])
	return p
}

// take reports to one node of the place after the other until it is acknowledged.
func (p *place) take(r bulkhead.Report) error {
	for deadline := time.Now().Add(90 * time.Second); ; {
		n := p.at.Load()
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		_, err := n.client.Report(ctx, r)
		cancel()
		if err == nil || time.Now().After(deadline) {
			return err
		}
		other := n
		for _, o := range p.nodes {
			if o != n {
				other = o
			}
		}
		p.at.CompareAndSwap(n, other)
		<-time.After(10 * time.Millisecond)
	}
}

// A site is split among places, which share as servers of one operator do. The first place is a pair and the hub.
type site struct {
	t      *testing.T
	rng    *rand.Rand
	places []*place
	owner  [siteShares]atomic.Pointer[place]
	pair   [2]*node // the one that decides, and the one that follows
	ids    atomic.Int64
	note   func(fault string)
}

func newSite(t *testing.T, rng *rand.Rand, note func(string)) *site {
	s := &site{t: t, rng: rng, note: note}
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
	s.places = []*place{newPlace(first, second)}
	all := []*node{first}
	for i := range 2 {
		n := newNode(t, fmt.Sprint("member ", i), first.secret(), fmt.Sprintf("mode = \"join\"\nservers = [%q, %q]", hubs[0],
			hubs[1]))
		s.places, all = append(s.places, newPlace(n)), append(all, n)
	}
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
	for i := range s.owner {
		s.owner[i].Store(s.places[i%len(s.places)])
	}
	return s
}

// inStep waits until the second node of the pair has everything.
func (s *site) inStep() {
	s.t.Helper()
	nodetest.Settle(s.t, 2*nodetest.Patience, "a standby that has everything", func() string {
		for i, role := range []string{"first", "second"} {
			state, err := s.pair[i].client.Node(s.pair[i].ctx())
			if err != nil {
				return err.Error()
			}
			if p := state.Standby; p == nil || p.Role != role || !p.Connected || p.Lag > 0 {
				return fmt.Sprintf("%+v, want %s", p, role)
			}
		}
		return ""
	})
}

// one delivers a message to a mailbox, or votes on one, where the mailbox is.
func (s *site) one(rng *rand.Rand) error {
	p, text := s.owner[rng.IntN(siteShares)].Load(), rng.IntN(siteTexts)
	r := bulkhead.Report{ID: fmt.Sprint("site ", s.ids.Add(1)), Vote: bulkhead.Sighting}
	kind := 0
	if rng.IntN(10) == 0 && p.votes(siteTexts+text) {
		text += siteTexts // texts of which no delivery is known
		r.Vote, kind = bulkhead.Spam, 1
	}
	r.Signatures = []bulkhead.Signature{signature(text)}
	if err := p.take(r); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	v := p.truth[text]
	v[kind]++
	p.truth[text] = v
	return nil
}

// votes reports whether a text is voted on for the first time: who votes twice is counted once.
func (p *place) votes(text int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	was := p.voted[text]
	p.voted[text] = true
	return !was
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
	"member killed in a change of the secret", "mailboxes moved"}

// fault does something at random while reports go on.
func (s *site) fault(fault string) {
	s.note(fault)
	s.t.Log(fault)
	end := s.load()
	defer func() { end() }()
	wait := func(most int) { <-time.After(time.Duration(s.rng.IntN(most)) * time.Millisecond) }
	member := s.places[1+s.rng.IntN(len(s.places)-1)].nodes[0]
	for range 1 + s.rng.IntN(4) {
		s.owner[s.rng.IntN(siteShares)].Store(s.places[s.rng.IntN(len(s.places))])
	}
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
		member.recovered()
	case "member killed in a change of the secret":
		s.rekey()
		wait(1500)
		member.kill()
		wait(1500)
		member.start()
	case "mailboxes moved":
		for i := range s.owner {
			s.owner[i].Store(s.places[s.rng.IntN(len(s.places))])
			wait(100)
		}
	}
	wait(500)
	end()
	s.inStep()
}

// exact waits until all nodes are in one network, and count what was reported anywhere, once.
func (s *site) exact() {
	s.t.Helper()
	nodes := []*node{s.pair[0]}
	var reported []*node
	for i, p := range s.places {
		reported = append(reported, &node{truth: p.truth})
		if i > 0 {
			nodes = append(nodes, p.nodes[0])
		}
	}
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

// account returns what each node knows of its peers, and what it counts of the texts that were delivered, beside what
// each place acknowledged.
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
	}
	for text := range siteTexts {
		fmt.Fprintf(&b, "%d: acknowledged", text)
		for _, p := range s.places {
			fmt.Fprintf(&b, " %d", p.truth[text][0])
		}
		b.WriteString(", counted")
		for _, n := range nodes {
			got, err := check(n, text)
			fmt.Fprintf(&b, " %d", got)
			if err != nil {
				return err.Error()
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

// TestSoakSite runs random schedules of a site that is split among a pair, which is the hub, and two members. Mailboxes
// move between them under load. The network's secret changes while the second node of the pair takes over, or while a
// member is killed, and members lose their stores and take them back from their peers. In the end all nodes are in one
// network, and each counts exactly what was acknowledged anywhere.
func TestSoakSite(t *testing.T) {
	s := &soakTally{n: make(map[string]int), of: *soaks, began: time.Now()}
	t.Run("seed", func(t *testing.T) {
		for i := range *soaks {
			seed := *firstSeed + uint64(i)
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				began := time.Now()
				defer func() { s.schedule("soak-site", seed, "a pair and two members", began, t.Failed()) }()
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
