//go:build interop

package torture

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client"
	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

func TestMain(m *testing.M) { nodetest.Main(m) }

const signatures = 2000

// A victim is a node with what it has acknowledged of each signature, and what it was
// sent at most: an answer that was lost says nothing.
type victim struct {
	t        *testing.T
	rng      *rand.Rand
	bin, dir string
	data     string // the data folder, seen from dir
	client   *admin.Client
	others   *others
	acked    [signatures]uint32
	sent     [signatures]uint32
	sigs     []bulkhead.Signature
	faults   map[string]int
	counted  int
	lost     bool          // counts are known to be too low
	started  time.Duration // how long the last start took
}

// TestTorture goes on until its time is over.
func TestTorture(t *testing.T) {
	v := newVictim(t, filepath.Join(t.TempDir(), "data"), settings)
	kinds := []string{"killed while counting"}
	v.torture(20*time.Second, kinds, func() {
		switch v.rng.IntN(8) {
		case 0, 1, 2:
			v.kill()
		case 3:
			v.starve()
		case 4, 5:
			v.damage()
		case 6:
			v.squeeze()
		default:
			v.wreck()
		}
	})
	v.finish(kinds)
}

// newVictim returns a node that has not been started yet.
func newVictim(t *testing.T, data, settings string) *victim {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	v := &victim{t: t, rng: rand.New(rand.NewPCG(seed, 1)), bin: nodetest.Binary(t), dir: t.TempDir(), data: data,
		others: newOthers(t), faults: make(map[string]int)}
	t.Logf("seed %d", seed)
	t.Cleanup(v.report)
	for i := range signatures {
		sig, err := bulkhead.NewSignature(bulkhead.DCCBody, fmt.Appendf(nil, "torture signature %4d", i))
		if err != nil {
			t.Fatal(err)
		}
		v.sigs = append(v.sigs, sig)
	}
	address := nodetest.Address(t)
	v.client = admin.New("http://"+address, "")
	for file, others := range map[string]string{"node.toml": v.others.config(), "few.toml": ""} {
		config := fmt.Sprintf("[listen]\nhttp = %q\n%s%s", address, others, settings)
		if err := os.WriteFile(filepath.Join(v.dir, file), []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return v
}

// settings configure a node that counts exactly, often makes checkpoints and new generations, and
// has generous limits.
const settings = `
[node]
log_level = "warn"
checkpoint = "1s"
[tally]
capacity = 100000
error = 1e-9
[blocklist]
error = 1e-9
[policy]
checkpoint = "1s"
` + lenient

// lenient is the configuration of a node with default settings and generous limits.
const lenient = `
[trust]
accounts_per_network = 20000
[razor2]
registrations_per_minute = 1000000
[[ratelimit]]
name = "rcpts"
key = "{sasl_username}"
unique = "{recipient}"
limit = 1000000
period = "1h"
action = "defer"
[[ratelimit]]
name = "few"
key = "{sender}"
unique = "{recipient}"
limit = 5
period = "1h"
action = "defer"
`

// torture does something at random, once and again, until the time of the run is over: after
// $TORTURE, or as long as it takes otherwise. It goes on until everything was seen that a run
// must have seen, since chance and the machine decide what fits into a short one.
func (v *victim) torture(otherwise time.Duration, kinds []string, once func()) {
	v.t.Helper()
	if text := os.Getenv("TORTURE"); text != "" {
		var err error
		if otherwise, err = time.ParseDuration(text); err != nil {
			v.t.Fatal(err)
		}
	}
	begin := time.Now()
	for !v.t.Failed() {
		if took := time.Since(begin); took > otherwise+patienceForMore || took > otherwise && len(v.unseen(kinds)) == 0 {
			return
		}
		once()
	}
}

// patienceForMore is how much longer than its time a run may take to see everything.
const patienceForMore = 8 * time.Minute

// unseen says which of some faults, and what of clients, there was nothing of so far.
func (v *victim) unseen(kinds []string) (missed []string) {
	for _, what := range kinds {
		if v.faults[what] == 0 {
			missed = append(missed, what)
		}
	}
	for _, door := range []string{"dccifd", "milter"} {
		if v.others.later[door] == 0 {
			missed = append(missed, "mail counted of "+door)
		}
	}
	if v.counted == 0 {
		missed = append(missed, "counts acknowledged")
	}
	if len(v.others.acked) != len(v.others.address) {
		missed = append(missed, fmt.Sprintf("an answer at each of the %d doors", len(v.others.address)))
	}
	return missed
}

// finish compares a last time. The run must have seen some faults.
func (v *victim) finish(kinds []string) {
	p := v.serve()
	v.compare("at the end")
	p.Stop()
	if missed := v.unseen(kinds); len(missed) > 0 {
		v.t.Errorf("the run never saw: %s", strings.Join(missed, "; "))
	}
}

// report says what was done, also of a run that failed.
func (v *victim) report() {
	t := v.t
	for _, what := range slices.Sorted(maps.Keys(v.faults)) {
		t.Logf("%7d  %s", v.faults[what], what)
	}
	t.Logf("%7d  counts acknowledged", v.counted)
	for _, door := range slices.Sorted(maps.Keys(v.others.acked)) {
		t.Logf("%7d  requests to %s answered", v.others.acked[door], door)
	}
	for _, door := range []string{"dccifd", "milter"} {
		t.Logf("%7d  mails of %s counted", v.others.later[door], door)
	}
}

// serve starts the node and waits until it answers.
func (v *victim) serve() *nodetest.Process {
	v.t.Helper()
	return v.serveWith("node.toml")
}

func (v *victim) serveWith(config string) *nodetest.Process {
	v.t.Helper()
	begin := time.Now()
	p := nodetest.Run(v.t, v.dir, v.bin, "serve", "--config", config, "--data", v.data)
	nodetest.Settle(v.t, patienceAtStart, "the node", func() string {
		if err := v.client.Ready(v.t.Context()); err != nil {
			return err.Error()
		}
		return ""
	})
	v.started = time.Since(begin)
	return p
}

// patienceAtStart is for a run of hours on a machine with more to do.
const patienceAtStart = 5 * nodetest.Patience

// await is [nodetest.Await] with [patienceAtStart].
func (v *victim) await(what string, ok func() bool) {
	v.t.Helper()
	nodetest.Settle(v.t, patienceAtStart, what, func() string {
		if ok() {
			return ""
		}
		return "not yet"
	})
}

// use has clients at all doors until ctx ends, or count ends.
func (v *victim) use(ctx context.Context) {
	v.useBy(ctx, v.anotherRand(), v.anotherRand())
}

// useBy is use that does not draw from the victim's source.
func (v *victim) useBy(ctx context.Context, count, others *rand.Rand) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { v.others.use(ctx, others) })
	v.count(ctx, count)
	cancel()
	wg.Wait()
}

// begin is use beside what follows, until the function that it returns is called.
func (v *victim) begin() (end func()) {
	ctx, cancel := context.WithCancel(v.t.Context())
	count, others := v.anotherRand(), v.anotherRand()
	done := make(chan struct{})
	go func() {
		defer close(done)
		v.useBy(ctx, count, others)
	}()
	return func() {
		cancel()
		<-done
	}
}

// runFor lets the node run for d, under the load that others put on it. Faults come at random
// moments: no condition leads to them.
func runFor(d time.Duration) { time.Sleep(d) }

func (v *victim) anotherRand() *rand.Rand { return rand.New(rand.NewPCG(v.rng.Uint64(), 0)) }

// count sends sightings until ctx ends or the node does not answer.
func (v *victim) count(ctx context.Context, rng *rand.Rand) {
	for ctx.Err() == nil {
		var sigs []bulkhead.Signature
		var n []uint32
		picked := rng.Perm(signatures)[:1+rng.IntN(40)]
		for _, i := range picked {
			by := 1 + rng.Uint32N(3)
			sigs, n = append(sigs, v.sigs[i]), append(n, by)
			v.sent[i] += by
		}
		if err := v.client.Count(ctx, sigs, n); err != nil {
			var refused *client.Problem
			if errors.As(err, &refused) {
				runFor(time.Millisecond)
				continue // it says that nothing was counted
			}
			return
		}
		v.counted++
		for k, i := range picked {
			v.acked[i] += n[k]
		}
	}
}

// compare wants every count to be what was acknowledged, or what was sent. From then on
// it is known.
func (v *victim) compare(when string) {
	v.t.Helper()
	for from := 0; from < signatures; from += 500 {
		seen := make([]bulkhead.Look, 500)
		if err := v.client.Look(v.t.Context(), v.sigs[from:from+500], seen, bulkhead.Counts); err != nil {
			v.t.Fatalf("%s: %v", when, err)
		}
		for k := range seen {
			i, got := from+k, seen[k].Sightings
			if got < v.acked[i] || got > v.sent[i] {
				v.t.Errorf("%s: signature %d counts %d, %d were acknowledged and %d sent", when, i, got, v.acked[i], v.sent[i])
			}
			v.acked[i], v.sent[i] = got, got
		}
	}
	wrong, err := v.others.compare(v.t.Context(), v.client, v.lost)
	if err != nil {
		v.t.Fatalf("%s: %v", when, err)
	}
	if !v.lost {
		wrong = append(wrong, v.others.logIn(v.t.Context())...)
	}
	for _, what := range wrong[:min(len(wrong), 20)] {
		v.t.Errorf("%s: %s", when, what)
	}
	v.lost = false
}

// kill ends the process without notice at a random moment, sometimes while it starts.
func (v *victim) kill() {
	if v.rng.IntN(4) == 0 {
		p := nodetest.Run(v.t, v.dir, v.bin, "serve", "--config", "node.toml", "--data", v.data)
		runFor(time.Duration(v.rng.IntN(150)) * time.Millisecond)
		p.Kill()
		v.faults["killed while starting"]++
	}
	p := v.serve()
	v.compare("after a kill")
	pause := time.Duration(20+v.rng.IntN(1500)) * time.Millisecond
	end := v.begin()
	runFor(pause)
	p.Kill()
	end()
	v.faults["killed while counting"]++
}

// starve runs the node with few descriptors, of which others take what is left. It has all
// doors, or that for counts alone and fewer descriptors still.
func (v *victim) starve() {
	few, use, config := 24+v.rng.IntN(16), func(ctx context.Context) { v.count(ctx, v.anotherRand()) }, "few.toml"
	if v.rng.IntN(2) == 0 {
		// The other ten doors hold 15 before there is any client.
		few, use, config = few+15, v.use, "node.toml"
	}
	cmd := exec.Command("sh", "-c", fmt.Sprintf("ulimit -n %d; exec %s serve --config %s --data %s", few, v.bin,
		config, v.data))
	cmd.Dir = v.dir
	p := nodetest.Start(v.t, cmd)
	v.await("the node with few descriptors", func() bool { return v.client.Ready(v.t.Context()) == nil })
	ctx, cancel := context.WithTimeout(v.t.Context(), 1500*time.Millisecond)
	defer cancel()
	use(ctx)
	p.Kill()
	v.faults["few descriptors, "+config]++
}

// damage stops the node, and damages a file of its store. With a backup made before,
// repair must give back everything; without one, what is lost must be named.
func (v *victim) damage() {
	t := v.t
	p := v.serve()
	ctx, cancel := context.WithTimeout(t.Context(), 1200*time.Millisecond)
	v.use(ctx)
	cancel()
	if v.rng.IntN(2) == 0 {
		p.Kill() // the journal has entries
	} else {
		p.Stop()
	}
	v.run(0, "backup", "--data", v.data, "node.backup")
	store := filepath.Join(v.data, "store")
	files := v.files(store, func(path string) bool { return filepath.Base(path) != "LOCK" })
	file := files[v.rng.IntN(len(files))]
	how, _ := v.corrupt(filepath.Join(store, file), filepath.Join(store, files[v.rng.IntN(len(files))]))
	if how == "" {
		return
	}
	kind, _, _ := strings.Cut(filepath.Base(file), "-")
	if strings.HasPrefix(file, "journal") {
		kind = "journal"
	}
	kind, _, _ = strings.Cut(kind, ".0")
	v.faults[fmt.Sprintf("%s %s", kind, how)]++
	what := fmt.Sprintf("%s %s", file, how)
	if v.rng.IntN(3) > 0 {
		v.run(0, "doctor", "--data", v.data, "--repair", "--backup", "node.backup")
		v.run(0, "doctor", "--data", v.data)
		p = v.serve()
		v.compare(what + ", repaired with a backup")
		p.Stop()
		return
	}
	out := v.run(-1, "doctor", "--data", v.data, "--repair", "--json")
	var repair admin.Repair
	if err := json.Unmarshal(out, &repair); err != nil {
		t.Fatalf("%s: %v: %s", what, err, out)
	}
	if x := repair.After; len(x.Faults) == 1 && filepath.Base(x.Faults[0].File) == "admin.token" {
		// The accounts are lost, and the administrator does what the fault advises.
		v.run(0, "user", "recover", "--data", v.data)
		v.run(0, "doctor", "--data", v.data)
	} else if !x.Sound() {
		t.Errorf("%s: after the repair: %+v", what, x)
	}
	if len(repair.Lost) > 0 {
		v.acked, v.lost = [signatures]uint32{}, true // and no count may be too high
		clear(v.others.accounts)
	}
	p = v.serve()
	v.compare(what + ", repaired without a backup")
	p.Stop()
}

// files returns the regular files in a folder that pass a filter, by their paths in it.
func (v *victim) files(dir string, filter func(path string) bool) (files []string) {
	v.t.Helper()
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && filter(path) {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		v.t.Fatal(err)
	}
	return files
}

// corrupt damages a file, perhaps by putting another one's content into it, and returns in
// which way and what it held: "" if it is empty, or the other is the same.
func (v *victim) corrupt(path, other string) (how string, before []byte) {
	t := v.t
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(b) == 0 {
		return "", nil
	}
	how = []string{"bit flipped", "byte flipped", "cut short", "deleted", "appended to", "replaced"}[v.rng.IntN(6)]
	after := bytes.Clone(b)
	switch how {
	case "bit flipped":
		after[v.rng.IntN(len(b))] ^= 1 << v.rng.IntN(8)
	case "byte flipped":
		after[v.rng.IntN(len(b))] ^= 0xff
	case "cut short":
		after = after[:v.rng.IntN(len(b))]
	case "deleted":
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		return how, b
	case "appended to":
		after = append(after, "what nobody has written"...)
	case "replaced":
		if after, err = os.ReadFile(other); err != nil {
			t.Fatal(err)
		}
		if bytes.Equal(after, b) {
			return "", nil
		}
	}
	if err := os.WriteFile(path, after, 0o600); err != nil {
		t.Fatal(err)
	}
	return how, b
}

// run runs a command of the program, and wants its exit code, unless that is -1.
func (v *victim) run(want int, args ...string) []byte {
	v.t.Helper()
	cmd := exec.Command(v.bin, args...)
	cmd.Dir = v.dir
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	err := cmd.Run()
	if code := cmd.ProcessState.ExitCode(); want >= 0 && code != want {
		v.t.Fatalf("bulkhead %s: exit code %d, want %d: %v\n%s%s", strings.Join(args, " "), code, want, err, out.Bytes(),
			log.Bytes())
	}
	return out.Bytes()
}
