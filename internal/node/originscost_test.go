//go:build unix

package node

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/arrays"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/engine/keys"
	"github.com/bulkhead-mail/bulkhead/internal/store"
)

// originsNode is the environment variable with which a process runs TestOriginsNode; it names the
// node's data folder.
const originsNode = "BULKHEAD_ORIGINS_NODE"

// TestOriginsNode is a node in a process of its own. For every line that it reads it writes its
// processor time so far, in microseconds.
func TestOriginsNode(t *testing.T) {
	dir := os.Getenv(originsNode)
	if dir == "" {
		t.Skip("a process of TestOriginsCost")
	}
	cfg := httpDoor(t)
	cfg.Mesh.Memory = 8 << 30 // for 1,000 origins with all generations, and their indexes
	n, stop := start(t, Options{Config: cfg, Dir: dir})
	fmt.Printf("\naddress %s\n", address(t, n, "http"))
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			t.Fatal(err)
		}
		fmt.Printf("used %d\n", (u.Utime.Nano()+u.Stime.Nano())/1000)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

const (
	costKeys       = 10_000 // of each origin and generation, in arrays for twice as many
	costListed     = 300    // of each origin and generation
	costSignatures = 25     // of a message
)

// costSig is a signature of the n-th message.
func costSig(t *testing.T, n, i int) bulkhead.Signature {
	t.Helper()
	scheme := bulkhead.Near
	if i == 0 {
		scheme = bulkhead.Exact
	}
	sum := filter.Secret{3}.Key(fmt.Appendf(nil, "%d/%d", n, i))
	s, err := bulkhead.NewSignature(scheme, fmt.Appendf(nil, "%016x%016x", sum.Hi, sum.Lo)[:20])
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A costCase is messages of one kind.
type costCase struct {
	name   string
	by     int                         // how many origins know them at most
	times  func(rng *rand.Rand) uint32 // how often each of these origins saw a message
	listed bool                        // and lists it
}

func once(*rand.Rand) uint32 { return 1 }

const everybody = 1 << 20

// costCases returns the messages to check, except unknown ones.
func costCases() []costCase {
	return []costCase{
		{"three know it", 3, once, false},
		{"all know it, once", everybody, once, false},
		{"all know it, 1 to 6 times", everybody, func(rng *rand.Rand) uint32 { return 1 + rng.Uint32N(6) }, false},
		{"all know it, 8 to 30 times", everybody, func(rng *rand.Rand) uint32 { return 8 + rng.Uint32N(23) }, false},
		{"all list it", everybody, once, true},
	}
}

// costMessages is the number of messages of each case, numbered consecutively.
const costMessages = 30

// costFolder makes the data folder of a node that counts origins, each with counts of the last days
// and lists of the last weeks, some of which know the messages of the cases. The node itself has
// counts in as many generations.
func costFolder(t *testing.T, dir string, origins, days, weeks int, cases []costCase) {
	t.Helper()
	ctx := t.Context()
	id, err := NewNetwork(dir, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := writeKey(filepath.Join(dir, sealKeyFile), make([]byte, 32)); err != nil {
		t.Fatal(err)
	}
	st, err := store.Open(filepath.Join(dir, StoreFolder), store.Options{Durability: store.Relaxed})
	if err != nil {
		t.Fatal(err)
	}
	cfg := httpDoor(t)
	var ago atomic.Int64 // the engine reads its clock when it likes
	e, err := engine.Open(ctx, engine.Options{
		Secret: id.Secret, Store: st, Tally: tallyOf(cfg), Block: blocklistOf(cfg),
		Now: func() time.Time { return time.Now().Add(-time.Duration(ago.Load())) },
	})
	if err != nil {
		t.Fatal(err)
	}
	for n := max(days-1, 7*(weeks-1)); n >= 0; n-- {
		if n < days || n%7 == 0 {
			ago.Store(int64(n) * int64(24*time.Hour))
			costReport(t, e, 1<<19+n, true)
		}
	}
	var list []engine.Origin
	for i := range origins {
		list = append(list, engine.Origin{ID: fmt.Sprint("origin", i), Weight: 1})
	}
	if err := e.SetOrigins(ctx, list); err != nil {
		t.Fatal(err)
	}
	maker, bases := keys.NewSecrets(id.Secret).Maker(), make(map[[2]int]filter.Key)
	base := func(message, n int) filter.Key {
		k, ok := bases[[2]int{message, n}]
		if !ok {
			s := costSig(t, message, n)
			k = maker.Base(&s)
			bases[[2]int{message, n}] = k
		}
		return k
	}
	size := func(x filter.Target) filter.Geometry {
		g, err := filter.SizeFor(x)
		if err != nil {
			t.Fatal(err)
		}
		g.KeyID = id.Secret.ID()
		return g
	}
	counts := size(filter.Target{Kind: filter.Cells, Signatures: 2 * costKeys, Rate: 1e-3})
	lists := size(filter.Target{Kind: filter.Bitmap, Signatures: 10 * costListed, Rate: 1e-7})
	day := uint64(cfg.Tally.Generation) / uint64(time.Second)
	week := uint64(cfg.Blocklist.Generation) / uint64(time.Second)
	now := uint64(time.Now().Unix())
	for i, o := range list {
		rng := rand.New(rand.NewPCG(uint64(i), 1))
		random := func(n int) (all []filter.Key) {
			for range n {
				all = append(all, filter.Key{Hi: rng.Uint64(), Lo: rng.Uint64()})
			}
			return all
		}
		for g := range uint64(max(days, weeks)) {
			c, err := arrays.NewCounting(counts)
			if err != nil {
				t.Fatal(err)
			}
			c.SetGeneration(now/day*day - g*day)
			all := random(costKeys)
			times, listed := slices.Repeat([]uint32{1}, len(all)), random(costListed)
			for n := range len(cases) * costMessages {
				of := &cases[n/costMessages]
				if i >= of.by {
					continue
				}
				seen := of.times(rng)
				for j := range costSignatures {
					k := base(n, j)
					all, times = append(all, k.With(0)), append(times, seen)
					if of.listed {
						listed = append(listed, k)
					}
				}
			}
			if g < uint64(days) {
				c.AddBatch(0, all, times, nil)
				costApply(t, e, o.ID, engine.ArrayCounts, counts, c.Generation(), c.Version(), c.AppendPage)
			}
			if g >= uint64(weeks) {
				continue
			}
			for _, array := range []engine.Array{engine.ArraySpam, engine.ArrayRevoked} {
				b, err := arrays.NewBits(lists)
				if err != nil {
					t.Fatal(err)
				}
				b.SetGeneration(now/week*week - g*week)
				if array == engine.ArraySpam {
					b.SetBatch(0, listed, nil)
				} else {
					b.SetBatch(0, random(costListed), nil)
				}
				costApply(t, e, o.ID, array, lists, b.Generation(), b.Version(), b.AppendPage)
			}
		}
	}
	for n := range len(cases) * costMessages {
		costReport(t, e, n, cases[n/costMessages].listed)
	}
	if err := e.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
}

// costReport reports a message to a node itself, so that the answer of a node without origins has
// as much content as the others'.
func costReport(t *testing.T, e *engine.Engine, message int, spam bool) {
	t.Helper()
	var r bulkhead.Report
	for i := range costSignatures {
		r.Signatures = append(r.Signatures, costSig(t, message, i))
	}
	votes := []bulkhead.Vote{bulkhead.Sighting}
	if spam {
		votes = append(votes, bulkhead.Spam)
	}
	for _, r.Vote = range votes {
		if _, err := e.Report(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
}

func costApply(t *testing.T, e *engine.Engine, origin string, array engine.Array, g filter.Geometry, generation,
	version uint64, page func([]byte, int) []byte) {
	t.Helper()
	var parts []engine.Parsed
	for p := range g.Pages() {
		x, err := e.ParsePart(engine.Part{Array: array, Start: generation, Geometry: g, Image: page(nil, p), At: version})
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, x)
	}
	if err := e.ApplyRemote(t.Context(), origin, parts); err != nil {
		t.Fatal(err)
	}
}

// A costNode is a node in a process of its own.
type costNode struct {
	t       *testing.T
	origins int
	program string
	url     string
	in      io.Writer
	out     *bufio.Scanner
	n       int                // the next unknown message
	per     map[string][]int64 // nanoseconds a check, by case
}

func newCostNode(t *testing.T, program, dir string, origins int) *costNode {
	t.Helper()
	cmd := exec.Command(program, "-test.run=^TestOriginsNode$", "-test.timeout=0")
	cmd.Env = append(os.Environ(), originsNode+"="+dir)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		io.Copy(io.Discard, out)
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
	c := &costNode{t: t, origins: origins, program: program, in: in, out: bufio.NewScanner(out), n: 1 << 20,
		per: make(map[string][]int64)}
	c.url = c.line("address ") + "/v1/check"
	return c
}

func (c *costNode) line(prefix string) string {
	c.t.Helper()
	var lines []string
	for c.out.Scan() {
		if rest, ok := strings.CutPrefix(c.out.Text(), prefix); ok {
			return rest
		}
		lines = append(lines, c.out.Text())
	}
	c.t.Fatalf("a node ended before %q: %q", prefix, lines)
	return ""
}

// used returns the processor time of the node.
func (c *costNode) used() time.Duration {
	c.t.Helper()
	fmt.Fprintln(c.in)
	n, err := strconv.Atoi(c.line("used "))
	if err != nil {
		c.t.Fatal(err)
	}
	return time.Duration(n) * time.Microsecond
}

// settle waits until the node does nothing for three seconds: it has written its checkpoint, made
// its indexes and moved them together.
func (c *costNode) settle() {
	c.t.Helper()
	for last, quiet := time.Duration(0), 0; quiet < 15; quiet++ {
		time.Sleep(200 * time.Millisecond)
		now := c.used()
		if now-last > 10*time.Millisecond {
			quiet = 0
		}
		last = now
	}
}

// check checks a message, and returns its sightings.
func (c *costNode) check(message int) uint32 {
	c.t.Helper()
	var names []string
	for i := range costSignatures {
		names = append(names, costSig(c.t, message, i).String())
	}
	body, err := json.Marshal(map[string]any{"signatures": names})
	if err != nil {
		c.t.Fatal(err)
	}
	resp, err := http.Post(c.url, "application/json", bytes.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	var v struct {
		Sightings uint32 `json:"sightings"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&v); err != nil || resp.StatusCode != http.StatusOK {
		c.t.Fatal(resp.Status, err)
	}
	return v.Sightings
}

// unknownMessage names the case of unknown messages.
const unknownMessage = "unknown message"

// measureNobody checks n unknown messages.
func (c *costNode) measureNobody(n int) {
	c.t.Helper()
	before := c.used()
	for range n {
		c.n++
		c.check(c.n)
	}
	c.per[unknownMessage] = append(c.per[unknownMessage], int64(c.used()-before)/int64(n))
}

// measure checks n messages of a case with the given number.
func (c *costNode) measure(number int, of *costCase, n int) {
	c.t.Helper()
	before := c.used()
	for i := range n {
		if got := c.check(number*costMessages + i%costMessages); got < uint32(min(of.by, c.origins)) {
			c.t.Fatalf("a message that %d of %d origins know: %d sightings", of.by, c.origins, got)
		}
	}
	c.per[of.name] = append(c.per[of.name], int64(c.used()-before)/int64(n))
}

// TestOriginsCost measures the processor time of a check over HTTP for nodes that count 0 to 1,000
// origins, for messages that are unknown, or known to a number of origins. The nodes run at once
// and are asked in turn, so that other load of the machine affects all alike.
//
//	BULKHEAD_MEASURE=1 go test ./internal/node -run TestOriginsCost -v
//
// BULKHEAD_GENERATIONS is the number of days of counts of each origin, and of weeks of lists: "7,8"
// is the default of nodes, "4" is four of each, and 1 is the default here. The node itself has as
// many. BULKHEAD_BEFORE names the test program of this package at another commit (go test -c),
// whose nodes are measured next to these.
func TestOriginsCost(t *testing.T) {
	origins, rounds, checks := []int{0, 100, 1000}, 15, 300
	days, weeks := 1, 1
	if os.Getenv("BULKHEAD_MEASURE") == "" {
		origins, rounds, checks = []int{0, 40}, 1, 5 // that it works
	}
	if s := os.Getenv("BULKHEAD_GENERATIONS"); s != "" {
		first, second, two := strings.Cut(s, ",")
		if !two {
			second = first
		}
		var err, err2 error
		days, err = strconv.Atoi(first)
		if weeks, err2 = strconv.Atoi(second); err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
	}
	programs := []string{os.Args[0]}
	if s := os.Getenv("BULKHEAD_BEFORE"); s != "" {
		programs = append(programs, s)
	}
	cases := costCases()
	var nodes []*costNode
	for _, n := range origins {
		for _, program := range programs {
			dir := filepath.Join(t.TempDir(), "data")
			costFolder(t, dir, n, days, weeks, cases)
			nodes = append(nodes, newCostNode(t, program, dir, n))
		}
	}
	for _, c := range nodes {
		c.settle()
		for i := range checks {
			c.check(i)
		}
	}
	for range rounds {
		for _, c := range nodes {
			c.measureNobody(checks)
			for i := range cases {
				c.measure(i, &cases[i], max(1, checks/10))
			}
		}
	}
	for _, c := range nodes {
		c.log(nodes[0], unknownMessage)
		for i := range cases {
			c.log(nodes[0], cases[i].name)
		}
	}
}

// log logs the time of a case's checks, and its ratio to the time at another node.
func (c *costNode) log(than *costNode, of string) {
	c.t.Helper()
	var ratio []float64
	for i, ns := range c.per[of] {
		ratio = append(ratio, float64(ns)/float64(than.per[of][i]))
	}
	slices.Sort(ratio)
	ns := slices.Sorted(slices.Values(c.per[of]))
	n := len(ns)
	c.t.Logf("%s, %4d origins, %s: %6.1f us (%.1f to %.1f), %.2f times as much as without origins (%.2f to %.2f)",
		filepath.Base(
			c.program), c.origins, of, float64(ns[n/2])/1e3, float64(ns[0])/1e3, float64(ns[n-1])/1e3, ratio[n/2], ratio[0],
		ratio[n-1])
}
