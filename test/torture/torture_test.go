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
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client"
	"github.com/bulkhead-mail/bulkhead/internal/nodetest"
)

func TestMain(m *testing.M) { nodetest.Main(m) }

const signatures = 2000

// A victim is a node with what it has acknowledged of each signature, and what it was
// sent at most: an answer that was lost says nothing.
type victim struct {
	t        *testing.T
	rng      *rand.Rand
	bin, dir string
	client   *client.Client
	acked    [signatures]uint32
	sent     [signatures]uint32
	sigs     []bulkhead.Signature
	faults   map[string]int
	counted  int
}

// TestTorture goes on until its time is over.
func TestTorture(t *testing.T) {
	duration := 20 * time.Second
	if text := os.Getenv("TORTURE"); text != "" {
		var err error
		if duration, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	seed := uint64(time.Now().UnixNano())
	v := &victim{t: t, rng: rand.New(rand.NewPCG(seed, 1)), bin: nodetest.Binary(t), dir: t.TempDir(), faults: make(map[string]int)}
	for i := range signatures {
		sig, err := bulkhead.NewSignature(bulkhead.DCCBody, fmt.Appendf(nil, "torture signature %4d", i))
		if err != nil {
			t.Fatal(err)
		}
		v.sigs = append(v.sigs, sig)
	}
	address := nodetest.Address(t)
	v.client = &client.Client{Server: "http://" + address}
	config := fmt.Sprintf("[node]\ncheckpoint = \"1s\"\n[listen]\nhttp = %q\n[tally]\ncapacity = 100000\nerror = 1e-7\n[limits]\nrequests_per_second = 0\n", address)
	if err := os.WriteFile(filepath.Join(v.dir, "node.toml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Logf("seed %d, %v", seed, duration)
	for end := time.Now().Add(duration); time.Now().Before(end) && !t.Failed(); {
		switch v.rng.IntN(6) {
		case 0, 1, 2:
			v.kill()
		case 3:
			v.starve()
		default:
			v.damage()
		}
	}
	p := v.serve()
	v.compare("at the end")
	p.Stop()
	for _, what := range slices.Sorted(maps.Keys(v.faults)) {
		t.Logf("%5d  %s", v.faults[what], what)
	}
	t.Logf("%5d  requests acknowledged, none of them lost", v.counted)
	if v.counted == 0 || v.faults["killed while counting"] == 0 {
		t.Error("the run was too short to say anything")
	}
}

// serve starts the node and waits until it answers.
func (v *victim) serve(flags ...string) *nodetest.Process {
	v.t.Helper()
	args := append([]string{"serve", "--config", "node.toml", "--data", "data"}, flags...)
	p := nodetest.Run(v.t, v.dir, v.bin, args...)
	nodetest.Await(v.t, "the node", func() bool { return v.client.Ready(v.t.Context()) == nil })
	return p
}

// count sends sightings until ctx ends or the node does not answer.
func (v *victim) count(ctx context.Context) {
	for ctx.Err() == nil {
		var sigs []bulkhead.Signature
		var n []uint32
		picked := v.rng.Perm(signatures)[:1+v.rng.IntN(40)]
		for _, i := range picked {
			by := 1 + v.rng.Uint32N(3)
			sigs, n = append(sigs, v.sigs[i]), append(n, by)
			v.sent[i] += by
		}
		if err := v.client.Count(ctx, sigs, n); err != nil {
			var refused *client.Problem
			if errors.As(err, &refused) {
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
}

// kill ends the process without notice at a random moment, sometimes while it starts.
func (v *victim) kill() {
	if v.rng.IntN(4) == 0 {
		p := nodetest.Run(v.t, v.dir, v.bin, "serve", "--config", "node.toml", "--data", "data")
		time.Sleep(time.Duration(v.rng.IntN(150)) * time.Millisecond)
		p.Kill()
		v.faults["killed while starting"]++
	}
	p := v.serve()
	v.compare("after a kill")
	ctx, cancel := context.WithCancel(v.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		v.count(ctx)
	}()
	time.Sleep(time.Duration(20+v.rng.IntN(1500)) * time.Millisecond)
	p.Kill()
	cancel()
	<-done
	v.faults["killed while counting"]++
}

// starve runs the node with few descriptors, of which others take what is left.
func (v *victim) starve() {
	cmd := exec.Command("sh", "-c", fmt.Sprintf("ulimit -n %d; exec %s serve --config node.toml --data data", 24+v.rng.IntN(16), v.bin))
	cmd.Dir = v.dir
	p := nodetest.Start(v.t, cmd)
	nodetest.Await(v.t, "the node with few descriptors", func() bool { return v.client.Ready(v.t.Context()) == nil })
	ctx, cancel := context.WithTimeout(v.t.Context(), 1500*time.Millisecond)
	defer cancel()
	v.count(ctx)
	p.Kill()
	v.faults["few descriptors"]++
}

// damage stops the node, and damages a file of its store. With a backup made before,
// repair must give back everything; without one, what is lost must be named.
func (v *victim) damage() {
	t := v.t
	p := v.serve()
	ctx, cancel := context.WithTimeout(t.Context(), 1200*time.Millisecond)
	v.count(ctx)
	cancel()
	if v.rng.IntN(2) == 0 {
		p.Kill() // the journal has entries
	} else {
		p.Stop()
	}
	v.run(0, "backup", "--data", "data", "node.backup")
	var files []string
	store := filepath.Join(v.dir, "data", "store")
	err := fs.WalkDir(os.DirFS(store), ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && d.Name() != "LOCK" {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	file := files[v.rng.IntN(len(files))]
	path := filepath.Join(store, file)
	b, err := os.ReadFile(path)
	if err != nil || len(b) == 0 {
		return
	}
	how := []string{"bit flipped", "byte flipped", "cut short", "deleted", "appended to", "replaced"}[v.rng.IntN(6)]
	after := bytes.Clone(b)
	switch how {
	case "bit flipped":
		after[v.rng.IntN(len(b))] ^= 1 << v.rng.IntN(8)
	case "byte flipped":
		after[v.rng.IntN(len(b))] ^= 0xff
	case "cut short":
		after = after[:v.rng.IntN(len(b))]
	case "deleted":
		after = nil
	case "appended to":
		after = append(after, "what nobody has written"...)
	case "replaced":
		other, err := os.ReadFile(filepath.Join(store, files[v.rng.IntN(len(files))]))
		if err != nil || bytes.Equal(other, b) {
			return
		}
		after = other
	}
	if after == nil {
		err = os.Remove(path)
	} else {
		err = os.WriteFile(path, after, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	kind, _, _ := strings.Cut(filepath.Base(file), "-")
	if strings.HasPrefix(file, "journal") {
		kind = "journal"
	}
	kind, _, _ = strings.Cut(kind, ".0")
	v.faults[fmt.Sprintf("%s %s", kind, how)]++
	what := fmt.Sprintf("%s %s", file, how)
	if v.rng.IntN(3) > 0 {
		v.run(0, "doctor", "--data", "data", "--repair", "--backup", "node.backup")
		v.run(0, "doctor", "--data", "data")
		p = v.serve()
		v.compare(what + ", repaired with a backup")
		p.Stop()
		return
	}
	out := v.run(-1, "doctor", "--data", "data", "--repair", "--json")
	var repair client.Repair
	if err := json.Unmarshal(out, &repair); err != nil {
		t.Fatalf("%s: %v: %s", what, err, out)
	}
	if !repair.After.Sound() {
		t.Errorf("%s: after the repair: %+v", what, repair.After)
	}
	if len(repair.Lost) > 0 {
		v.acked = [signatures]uint32{} // and no count may be too high
	}
	p = v.serve()
	v.compare(what + ", repaired without a backup")
	p.Stop()
}

// run runs a command of the program, and wants its exit code, unless that is -1.
func (v *victim) run(want int, args ...string) []byte {
	v.t.Helper()
	cmd := exec.Command(v.bin, args...)
	cmd.Dir = v.dir
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	err := cmd.Run()
	if code := cmd.ProcessState.ExitCode(); want >= 0 && code != want {
		v.t.Fatalf("bulkhead %s: exit code %d, want %d: %v\n%s%s", strings.Join(args, " "), code, want, err, out.Bytes(), said.Bytes())
	}
	return out.Bytes()
}
