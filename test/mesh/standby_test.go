//go:build interop

package mesh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client"
	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

// A half is one node of a pair.
type half struct {
	t          *testing.T
	dir        string
	http, port int
	process    *nodetest.Process
	admin      *admin.Client
}

// newHalf returns a node that is not started. witness is the quoted URL of its witness, or "".
func newHalf(t *testing.T, away, witness string) *half {
	t.Helper()
	return newHalfWith(t, "standby", fmt.Sprintf("away = %q\nwitness = [%s]\n", away, witness))
}

// newHalfWith is newHalf with a durability and further keys of [standby], which other sections may follow.
func newHalfWith(t *testing.T, durability, sections string) *half {
	t.Helper()
	h := &half{t: t, dir: t.TempDir(), http: nodetest.FreePort(t), port: nodetest.FreePort(t)}
	h.configure(durability, sections)
	h.admin = &admin.Client{Client: client.Client{Server: h.url()}}
	return h
}

// configure writes the configuration that the next start reads, see newHalfWith. The first node waits for a second one
// that stalls on a busy machine: what it acknowledged alone would be lost with it.
func (h *half) configure(durability, sections string) {
	h.t.Helper()
	config := fmt.Sprintf(`[node]
durability = %q
checkpoint = "2s"
[listen]
http = "127.0.0.1:%d"
[http]
anonymous_report = "loopback"
[limits]
requests_per_second = 0
[standby]
listen = "127.0.0.1:%d"
wait = "10s"
%s`, durability, h.http, h.port, sections)
	if err := os.WriteFile(filepath.Join(h.dir, "bulkhead.toml"), []byte(config), 0o600); err != nil {
		h.t.Fatal(err)
	}
}

func (h *half) url() string { return fmt.Sprintf("http://127.0.0.1:%d", h.http) }

func (h *half) data() string { return filepath.Join(h.dir, "data") }

func (h *half) start() {
	h.t.Helper()
	h.process = nodetest.Run(h.t, h.dir, nodetest.Binary(h.t), "serve", "--config", "bulkhead.toml", "--data", "data")
	nodetest.Await(h.t, "a node that answers", func() bool { return h.admin.Ready(h.t.Context()) == nil })
	token, err := os.ReadFile(filepath.Join(h.data(), "admin.token"))
	if err != nil {
		h.t.Fatal(err)
	}
	h.admin.Token = strings.TrimSpace(string(token))
}

// state returns the node's part in its pair; nil while it does not answer.
func (h *half) state() *admin.Standby { return h.stateSince(time.Time{}) }

// stateSince is state, and nil if the answer is older than a time: a node describes itself at most once in a second.
func (h *half) stateSince(since time.Time) *admin.Standby {
	ctx, cancel := context.WithTimeout(h.t.Context(), 20*time.Second)
	defer cancel()
	s, err := h.admin.Node(ctx)
	if err != nil || s.Now.Before(since) {
		return nil
	}
	return s.Standby
}

// promote promotes the node by the command.
func (h *half) promote() {
	h.t.Helper()
	code, out := nodetest.Command(h.t, "", nodetest.Binary(h.t), "promote", "--yes", "--server", h.url(), "--token-file",
		filepath.Join(h.data(), "admin.token"))
	if code != 0 || !strings.Contains(out, "first node of a pair") {
		h.t.Fatalf("promote ends with %d: %s", code, out)
	}
}

// pairUp starts two nodes without a witness, and pairs them.
func pairUp(t *testing.T, away string) (first, second *half) { return pairWith(t, away, "") }

// pairWith starts two nodes and pairs them by the commands that an administrator types.
func pairWith(t *testing.T, away, witness string) (first, second *half) {
	t.Helper()
	first, second = newHalf(t, away, witness), newHalf(t, away, witness)
	meet(t, first, second)
	return first, second
}

// meet starts two nodes that were never started, and pairs them.
func meet(t *testing.T, first, second *half) {
	t.Helper()
	first.start()
	_, out := nodetest.Command(t, "", nodetest.Binary(t), "standby", "invite", fmt.Sprintf("127.0.0.1:%d", first.port),
		"--data", first.data())
	words := strings.Fields(out[strings.Index(out, "bulkhead standby join"):])
	code, out := nodetest.Command(t, "", nodetest.Binary(t), "standby", "join", words[3], "--data", second.data())
	if code != 0 {
		t.Fatal(out)
	}
	second.start()
	awaitPair(t, first, second)
}

// awaitPair waits until second follows first without a lag.
func awaitPair(t *testing.T, first, second *half) {
	t.Helper()
	began := time.Now()
	nodetest.Await(t, "a standby that has everything", func() bool { return follows(second, first, began) })
}

// awaitEither is awaitPair for a pair with a witness, in which the second node takes over from a first one that stalls
// on a busy machine. It returns the nodes by their present parts.
func awaitEither(t *testing.T, first, second *half) (_, _ *half) {
	t.Helper()
	began := time.Now()
	nodetest.Await(t, "a standby that has everything", func() bool {
		if follows(first, second, began) {
			first, second = second, first
			return true
		}
		return follows(second, first, began)
	})
	return first, second
}

// follows reports whether second follows first without a lag, by states since a time.
func follows(second, first *half, since time.Time) bool {
	a, b := first.stateSince(since), second.stateSince(since)
	return a != nil && b != nil && a.Role == "first" && b.Role == "second" && a.Connected && b.Connected && a.Lag == 0
}

// leased reports whether the node has had the lease of the witness without a debt since a time.
func (h *half) leased(since time.Time) bool {
	s := h.stateSince(since)
	return s != nil && s.Witness != nil && s.Witness.Holder == "this" && !s.Witness.Behind
}

// awaitLeased is awaitEither, and waits until the first node has the lease without a debt.
func awaitLeased(t *testing.T, first, second *half) (_, _ *half) {
	t.Helper()
	first, second = awaitEither(t, first, second)
	began := time.Now()
	nodetest.Await(t, "a lease without a debt", func() bool {
		if second.leased(began) {
			first, second = second, first
		}
		return first.leased(began)
	})
	return first, second
}

// A crowd reports messages to whichever node of a pair takes reports. Each report has an ID, and is repeated
// until it is acknowledged.
type crowd struct {
	nodes   [2]*half
	at      atomic.Int32
	mu      sync.Mutex
	acked   map[int]uint32
	longest time.Duration // longest time without an acknowledgement
	last    time.Time
}

const (
	messages = 200
	loaded   = 200 // acknowledgements after which a pair is under load
	// turn is how long a client waits for one of both nodes: as an edge does, half of its default timeout.
	turn = time.Second
	// longestTurn is how long it waits after twenty turns without an answer, for the nodes of a busy machine.
	longestTurn = 20 * time.Second
)

func (c *crowd) run(ctx context.Context, who int, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, uint64(who)))
	for i := 0; ctx.Err() == nil; i++ {
		m := rng.IntN(messages)
		r := bulkhead.Report{Signatures: []bulkhead.Signature{signature(m)}, ID: fmt.Sprintf("%d-%d", who, i)}
		for wait, late := turn, 0; ; {
			at := c.at.Load()
			short, cancel := context.WithTimeout(context.Background(), wait)
			_, err := c.nodes[at].admin.Report(short, r)
			cancel()
			if err == nil {
				break
			}
			if errors.Is(err, context.DeadlineExceeded) {
				if late++; late > 20 {
					wait = longestTurn
				}
			}
			c.at.CompareAndSwap(at, 1-at)
			<-time.After(10 * time.Millisecond)
		}
		c.mu.Lock()
		c.acked[m]++
		if now := time.Now(); !c.last.IsZero() {
			c.longest, c.last = max(c.longest, now.Sub(c.last)), now
		} else {
			c.last = now
		}
		c.mu.Unlock()
	}
}

// proceed waits until a number of further reports is acknowledged.
func (c *crowd) proceed(t *testing.T, reports uint32) {
	t.Helper()
	acknowledged := func() (n uint32) {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, of := range c.acked {
			n += of
		}
		return n
	}
	least := acknowledged() + reports
	nodetest.Await(t, "further acknowledgements", func() bool { return acknowledged() >= least })
}

// mark begins a new measurement of the time without an acknowledgement.
func (c *crowd) mark() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.longest, c.last = 0, time.Now()
}

func (c *crowd) gap() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return max(c.longest, time.Since(c.last))
}

// compare waits until the counts of a node equal the map: a second node may apply the last entries later.
func (c *crowd) compare(t *testing.T, h *half) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	nodetest.Settle(t, nodetest.Patience, "a node with each acknowledged report, once", func() (wrong string) {
		for m, want := range c.acked {
			v, err := h.admin.Check(t.Context(), bulkhead.Query{Signatures: []bulkhead.Signature{signature(m)}})
			if err != nil {
				return err.Error()
			}
			text := fmt.Sprintf("message %d: %d sightings, and %d were acknowledged\n", m, v.Sightings, want)
			switch {
			case v.Sightings > want:
				t.Fatal(text)
			case v.Sightings < want:
				wrong += text
			}
		}
		return wrong
	})
}

// TestSoakStandby takes over, in random schedules, from a first node that is killed, frozen or asked, and
// lets it come back. The pair has no witness and takes over by command, or it has a witness and takes over by itself,
// or its journal is in a stream as well. The server of witness and stream is also killed. Reports go on all the while,
// each until it is acknowledged. At the end, both nodes have exactly one sighting of each.
func TestSoakStandby(t *testing.T) {
	s := &soakTally{n: make(map[string]int), of: *soaks, began: time.Now()}
	t.Run("seed", func(t *testing.T) {
		for i := range *soaks {
			seed := *firstSeed + uint64(i)
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				began, kind := time.Now(), standbyKinds[seed%uint64(len(standbyKinds))]
				defer func() { s.schedule("soak-standby", seed, kind, began, t.Failed()) }()
				soakStandby(t, kind, seed, s)
			})
		}
	})
	s.print("soak-standby")
}

// count counts a fault.
func (s *soakTally) count(fault string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n[fault]++
}

// took notes the times until a take-over and without an acknowledgement, of which print prints the longest.
func (s *soakTally) took(fault string, takeOver, gap time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.longest == nil {
		s.longest = make(map[string][2]time.Duration)
	}
	l := s.longest[fault]
	s.longest[fault] = [2]time.Duration{max(l[0], takeOver), max(l[1], gap)}
}

// schedule notes that a schedule of a test has ended, and prints its result.
func (s *soakTally) schedule(test string, seed uint64, kind string, began time.Time, failed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done++
	word := "exact"
	if failed {
		s.failed = append(s.failed, seed)
		word = fmt.Sprintf("NOT EXACT; again: make soak-mesh SOAK=1 SEED=%d", seed)
	}
	fmt.Printf("%s: %d of %d: seed %d, %s, %v: %s\n", test, s.done, s.of, seed, kind,
		time.Since(began).Round(100*time.Millisecond), word)
}

// print prints the result of all schedules of a test.
func (s *soakTally) print(test string) {
	fmt.Printf("%s: %d schedules, seeds %d to %d, of which %d were not exact: %v; %v; faults: %v\n", test, s.done,
		*firstSeed, *firstSeed+uint64(*soaks)-1, len(s.failed), s.failed, time.Since(s.began).Round(time.Second), s.n)
	for _, fault := range slices.Sorted(maps.Keys(s.longest)) {
		l := s.longest[fault]
		fmt.Printf("%s: %s: taken over after at most %.1f s, no acknowledgement for at most %.1f s\n", test, fault,
			l[0].Seconds(), l[1].Seconds())
	}
}

// The kinds of pairs of TestSoakStandby.
const (
	refusing  = "by command, refuse"
	lone      = "by command, alone"
	witnessed = "with a witness"
	streamed  = "with a stream"
)

var standbyKinds = []string{refusing, lone, witnessed, streamed}

// soakPair starts a pair of a kind. server is the process of witness and stream, nil for none; restart starts it again.
func soakPair(t *testing.T, kind string) (first, second *half, server *nodetest.Process,
	restart func() *nodetest.Process) {
	t.Helper()
	switch kind {
	case refusing, lone:
		first, second = pairUp(t, map[string]string{refusing: "refuse", lone: "alone"}[kind])
		return first, second, nil, nil
	}
	folder, address := t.TempDir(), ownAddress(t)
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	restart = func() *nodetest.Process {
		cmd := exec.Command(path, folder)
		cmd.Env = append(os.Environ(), brokerVariable+"="+address)
		p := nodetest.Start(t, cmd)
		nodetest.AwaitTCP(t, address)
		return p
	}
	server = restart()
	durability, sections := "standby", fmt.Sprintf("away = \"alone\"\nwitness = [\"nats://%s\"]\n", address)
	if kind == streamed {
		durability, sections = "always", sections+"[journal]\nkind = \"jetstream\"\n"
	}
	first, second = newHalfWith(t, durability, sections), newHalfWith(t, durability, sections)
	meet(t, first, second)
	return first, second, server, restart
}

func soakStandby(t *testing.T, kind string, seed uint64, tally *soakTally) {
	rng := rand.New(rand.NewPCG(seed, 34))
	first, second, server, restart := soakPair(t, kind)
	// takesOver makes the second node the first: by a command, or by itself with a witness.
	takesOver := func() {
		t.Helper()
		if server == nil {
			second.promote()
			return
		}
		nodetest.Await(t, "a take-over", func() bool {
			s := second.state()
			return s != nil && s.Role == "first"
		})
	}
	paired := func() {
		t.Helper()
		if server == nil {
			awaitPair(t, first, second)
		} else {
			first, second = awaitEither(t, first, second)
		}
	}
	inStep := func() {
		t.Helper()
		paired()
		if server == nil {
			return
		}
		began := time.Now()
		nodetest.Await(t, "a lease without a debt", func() bool {
			if second.leased(began) {
				first, second = second, first
			}
			b := second.stateSince(began)
			return first.leased(began) && b != nil && b.Witness != nil && b.Witness.Holder == "other" && !b.Witness.Behind
		})
	}
	c := &crowd{nodes: [2]*half{first, second}, acked: make(map[int]uint32)}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var running sync.WaitGroup
	load := func() (end func()) {
		ctx, stop := context.WithCancel(ctx)
		who := rng.IntN(1 << 30)
		for i := range 4 {
			running.Go(func() { c.run(ctx, who+i, seed) })
		}
		return func() {
			stop()
			running.Wait()
		}
	}
	for range 3 {
		inStep()
		end := load()
		<-time.After(time.Duration(rng.IntN(1500)) * time.Millisecond)
		c.mark()
		began := time.Now()
		faults := []string{"killed", "asked", "frozen", "second killed"}
		if server != nil {
			faults = append(faults, "server killed")
		}
		fault := faults[rng.IntN(len(faults))]
		tally.count(kind + ": " + fault)
		var takeOver time.Duration
		switch fault {
		case "killed":
			first.process.Kill()
			takesOver()
			takeOver = time.Since(began)
			<-time.After(time.Duration(rng.IntN(500)) * time.Millisecond)
			first.start()
		case "asked":
			second.promote()
			takeOver = time.Since(began)
		case "frozen":
			first.process.Freeze()
			takesOver()
			takeOver = time.Since(began)
			<-time.After(time.Duration(rng.IntN(1000)) * time.Millisecond)
			first.process.Thaw()
		case "server killed":
			server.Kill()
			<-time.After(time.Duration(rng.IntN(3000)) * time.Millisecond)
			server = restart()
			back := time.Now()
			nodetest.Await(t, "reports with the server", func() bool {
				c.mu.Lock()
				defer c.mu.Unlock()
				return c.last.After(back)
			})
			// The lease was over, so the second node may have taken over.
			nodetest.Await(t, "a first node", func() bool {
				if s := second.state(); s != nil && s.Role == "first" {
					first, second = second, first
				}
				s := first.state()
				return s != nil && s.Role == "first"
			})
			end()
			continue
		case "second killed":
			second.process.Kill() // the first one must bear it
			if rng.IntN(2) == 0 {
				<-time.After(time.Duration(rng.IntN(1000)) * time.Millisecond)
			}
			second.start()
			if kind == streamed {
				end()
				end = func() {}
			}
			paired()
			end()
			continue
		}
		nodetest.Await(t, "reports that are taken again", func() bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.last.After(began)
		})
		tally.took(kind+": "+fault, takeOver, c.gap())
		first, second = second, first
		if kind == streamed { // under load, the second node always lacks entries
			end()
			end = func() {}
		}
		paired()
		end()
	}
	paired()
	c.compare(t, first)
	c.compare(t, second)
}

// TestStandbyFrozen checks that a first node that was replaced while it was frozen acknowledges nothing when it
// goes on, and follows then.
func TestStandbyFrozen(t *testing.T) {
	first, second := pairUp(t, "refuse")
	c := &crowd{nodes: [2]*half{first, second}, acked: make(map[int]uint32)}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for i := range 4 {
		running.Go(func() { c.run(ctx, i, 7) })
	}
	c.proceed(t, loaded)
	first.process.Freeze()
	second.promote()
	c.proceed(t, loaded)
	first.process.Thaw()
	r := bulkhead.Report{Signatures: []bulkhead.Signature{signature(messages + 1)}, ID: "lone"}
	// Connections may break while the node changes its role, so a report is repeated until it is answered.
	nodetest.Settle(t, nodetest.Patience, "a refusal by a node that was replaced", func() string {
		_, err := first.admin.Report(ctx, r)
		if err == nil {
			t.Fatal("a node that was replaced acknowledges a report")
		}
		if errors.Is(err, bulkhead.ErrReadOnly) {
			return ""
		}
		return err.Error()
	})
	awaitPair(t, second, first)
	stop()
	running.Wait()
	awaitPair(t, second, first)
	c.compare(t, first)
	c.compare(t, second)
	kept, err := filepath.Glob(filepath.Join(first.data(), "set-aside", "*", "store"))
	if err != nil || len(kept) != 1 {
		t.Errorf("stores set aside: %v, %v", kept, err)
	}
}

// TestWitness kills the first node of a pair with a witness, a nats-server, under load, and then freezes its
// successor. The other node takes over each time without a command. Both nodes have each acknowledged report
// once. A node that may lack reports does not take over.
func TestWitness(t *testing.T) {
	dir := t.TempDir()
	port := nodetest.FreePort(t)
	file := filepath.Join(dir, "nats.conf")
	text := fmt.Sprintf("listen: \"127.0.0.1:%d\"\njetstream { store_dir: %q }\n"+
		"authorization { user: bulkhead, password: secret }\n", port, dir)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	witness := nodetest.Run(t, dir, nodetest.Program(t, "nats-server"), "-c", file)
	first, second := pairWith(t, "alone", fmt.Sprintf("%q", fmt.Sprintf("nats://bulkhead:secret@127.0.0.1:%d", port)))
	leased := func() {
		t.Helper()
		first, second = awaitLeased(t, first, second)
	}
	leased()
	c := &crowd{nodes: [2]*half{first, second}, acked: make(map[int]uint32)}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for i := range 4 {
		running.Go(func() { c.run(ctx, i, 13) })
	}
	for _, fault := range []string{"killed", "frozen"} {
		c.proceed(t, loaded)
		c.mark()
		began := time.Now()
		if fault == "killed" {
			first.process.Kill()
		} else {
			first.process.Freeze()
		}
		nodetest.Await(t, "a take-over", func() bool {
			s := second.state()
			return s != nil && s.Role == "first"
		})
		nodetest.Await(t, "reports that are taken again", func() bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.last.After(began)
		})
		t.Logf("%s: no acknowledgement for %v", fault, c.gap())
		if fault == "killed" {
			first.start()
		} else {
			first.process.Thaw()
		}
		first, second = second, first
		leased()
	}
	stop()
	running.Wait()
	leased()
	c.compare(t, first)
	c.compare(t, second)

	// Reports that only the first node has keep the second one from taking over.
	second.process.Kill()
	r := bulkhead.Report{Signatures: []bulkhead.Signature{signature(messages + 1)}, ID: "lone"}
	nodetest.Await(t, "an acknowledgement by the first node alone", func() bool {
		_, err := first.admin.Report(t.Context(), r)
		return err == nil
	})
	first.process.Kill()
	second.start()
	began := time.Now()
	var s *admin.Standby
	nodetest.Await(t, "the end of the lease", func() bool {
		s = second.state()
		return s != nil && s.Witness != nil && s.Witness.Holder == "none" && time.Since(began) > 6*time.Second
	})
	if s.Role != "second" {
		t.Errorf("a standby that lacks a report has become %+v", s)
	}
	first.start()
	leased()
	// Without the witness, the pair goes on.
	witness.Kill()
	nodetest.Await(t, "an acknowledgement without the witness", func() bool {
		_, err := first.admin.Report(t.Context(), bulkhead.Report{Signatures: r.Signatures, ID: "later"})
		return err == nil
	})
}

// TestStandbyEdge reports through an edge, kills the first node and then the edge with reports in its spool,
// and promotes the standby. Checks at the edge are answered all the while, and each report that the edge
// acknowledged is counted once.
func TestStandbyEdge(t *testing.T) {
	first, second := pairUp(t, "alone")
	edge := newHalf(t, "alone", "")
	token := filepath.Join(edge.dir, "token")
	if err := os.WriteFile(token, []byte(first.admin.Token), 0o600); err != nil {
		t.Fatal(err)
	}
	config := fmt.Sprintf(`[listen]
http = "127.0.0.1:%d"
[http]
anonymous_report = "loopback"
[limits]
requests_per_second = 0
[upstream]
url = %q
urls = [%q]
token_file = %q
`, edge.http, first.url(), second.url(), token)
	if err := os.WriteFile(filepath.Join(edge.dir, "bulkhead.toml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	edge.start()
	known := signature(messages + 1)
	for i := range 30 {
		r := bulkhead.Report{Signatures: []bulkhead.Signature{known}, ID: fmt.Sprint("known", i)}
		if _, err := edge.admin.Report(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	awaitPair(t, first, second)
	c := &crowd{nodes: [2]*half{edge, edge}, acked: make(map[int]uint32)}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for i := range 3 {
		running.Go(func() { c.run(ctx, i, 11) })
	}
	c.proceed(t, loaded)
	first.process.Kill()
	killed := time.Now()
	var unknown time.Time // when a check was last answered "unknown"
	inARow := 0
	nodetest.Await(t, "an edge that moves on", func() bool {
		v, err := edge.admin.Check(ctx, bulkhead.Query{Signatures: []bulkhead.Signature{known}})
		if inARow++; err != nil || v.Sightings == 0 {
			inARow, unknown = 0, time.Now()
		}
		return inARow == 100
	})
	if !unknown.IsZero() {
		t.Logf("checks are unknown for %v after the first node was killed", unknown.Sub(killed))
		if unknown.Sub(killed) > 3*time.Second {
			t.Error("the edge does not move on")
		}
	}
	nodetest.Await(t, "an edge, whose standby answers checks", func() bool { return edge.admin.Ready(ctx) == nil })
	edge.process.Kill()
	edge.start()
	second.promote()
	stop()
	running.Wait()
	nodetest.Await(t, "an empty spool", func() bool {
		resp, err := http.Get(edge.url() + "/metrics")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		return err == nil && strings.Contains(string(text), "bulkhead_upstream_spool_reports 0\n")
	})
	c.compare(t, second)
}

// remembers waits until the history of a node has a number of deliveries, each once.
func (h *half) remembers(deliveries int) {
	h.t.Helper()
	nodetest.Settle(h.t, nodetest.Patience, "a history with each delivery once", func() string {
		page, err := h.admin.History(h.t.Context(), admin.HistoryQuery{Kind: "sighting", Limit: 500})
		if err != nil {
			return err.Error()
		}
		if len(page.Entries) != deliveries {
			return fmt.Sprintf("%d entries, want %d", len(page.Entries), deliveries)
		}
		return ""
	})
}

// TestStandbyHistory checks that a vote after a take-over is joined with the delivery that the other node saw. The
// parts change twice, once by a command to a first node that lives and once after a kill. Votes name a message by its
// text or by a digest alone. They are compared with a map of the deliveries, and both nodes have each delivery in
// their history once, and each promotion in the record of administration.
func TestStandbyHistory(t *testing.T) {
	const rounds, each = 2, 40
	first, second := pairUp(t, "alone")
	text := func(i int) bulkhead.Signature { return signature(1000 + i) }
	digest := func(i int) bulkhead.Signature {
		return bulkhead.MustSignature(bulkhead.PyzorDigest, append([]byte{byte(i), byte(i >> 8)}, make([]byte, 18)...))
	}
	user := func(i int) string { return fmt.Sprintf("user%d@example.com", i%7) }
	sender := func(i int) string { return fmt.Sprintf("sender%d.example.net", i) }
	delivered := make(map[int]string) // senders by message
	for round := range rounds {
		for i := round * each; i < (round+1)*each; i++ {
			if i%5 == 4 {
				continue // the nodes do not see this one
			}
			delivered[i] = sender(i)
			_, err := first.admin.Report(t.Context(), bulkhead.Report{Vote: bulkhead.Sighting, ID: fmt.Sprint("delivery", i),
				Signatures: []bulkhead.Signature{text(i), digest(i), bulkhead.NamedSignature(bulkhead.Sender, sender(i))},
				Recipients: []string{user(i)}, Source: bulkhead.Source{MessageID: fmt.Sprint(i, "@", sender(i))}})
			if err != nil {
				t.Fatal(err)
			}
		}
		if round == 0 {
			second.promote()
		} else {
			second.remembers(len(delivered)) // the history follows within half a second, or later
			first.process.Kill()
			second.promote()
			first.start()
		}
		first, second = second, first
		awaitPair(t, first, second)
		for i := range (round + 1) * each {
			if i%rounds != round && i/each != round {
				continue // voted on before
			}
			sigs := []bulkhead.Signature{text(i)}
			if i%3 == 0 {
				sigs = []bulkhead.Signature{digest(i)}
			}
			receipt, err := first.admin.Report(t.Context(), bulkhead.Report{Vote: bulkhead.Spam, Signatures: sigs,
				ID: fmt.Sprint("vote", round, i), Reporter: bulkhead.Reporter{User: user(i)}})
			if err != nil {
				t.Fatal(err)
			}
			joined := receipt.Delivery == bulkhead.JoinedByText || receipt.Delivery == bulkhead.JoinedByID
			if _, is := delivered[i]; joined != is {
				t.Errorf("round %d: the vote on message %d is joined: %v; delivered: %v", round, i, receipt.Delivery, is)
			}
			v, err := first.admin.Check(t.Context(), bulkhead.Query{Signatures: []bulkhead.Signature{
				bulkhead.NamedSignature(bulkhead.Sender, sender(i))}})
			if err != nil {
				t.Fatal(err)
			}
			if _, is := delivered[i]; is != (v.Findings[0].Spam > 0) {
				t.Errorf("round %d: the sender of message %d has %d spam votes; delivered: %v", round, i, v.Findings[0].Spam, is)
			}
		}
	}
	for _, h := range []*half{first, second} {
		h.remembers(len(delivered))
		// Each was promoted once, and its record is copied at most every 30 s.
		nodetest.Settle(t, 2*nodetest.Patience, "a record of administration of both nodes", func() string {
			page, err := h.admin.Audit(t.Context(), admin.AuditQuery{Action: "promote"})
			if err != nil {
				return err.Error()
			}
			if len(page.Entries) != rounds {
				return fmt.Sprintf("%d promotions, want %d", len(page.Entries), rounds)
			}
			return ""
		})
	}
}
