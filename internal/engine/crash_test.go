package engine

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/store"
)

const crashEnv = "BULKHEAD_ENGINE_CRASH_CHILD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(crashEnv); dir != "" {
		if err := crashChild(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if os.Getenv(stallsEnv) != "" {
		printStalls(os.Stdin, os.Stdout)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// crashKeys is few enough that every key is reported many times and every
// entry touches pages that other entries touch.
const crashKeys = 500

func crashOptions(st *store.Store) Options {
	o := small(Options{Store: st})
	o.CheckpointEvery = 30 * time.Millisecond // the kill must find checkpoints half done
	o.CheckpointBytes = 64 << 10
	return o
}

// crashChild reports until it is killed and prints the key of every report
// that was acknowledged.
func crashChild(dir string) error {
	st, err := store.Open(dir, store.Options{SegmentBytes: 128 << 10})
	if err != nil {
		return err
	}
	e, err := Open(context.Background(), crashOptions(st))
	if err != nil {
		return err
	}
	fmt.Println("ready")
	var mu sync.Mutex
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(w), uint64(time.Now().UnixNano())))
			for {
				n := rng.IntN(crashKeys)
				mu.Lock()
				fmt.Printf("sent %d\n", n)
				mu.Unlock()
				_, err := e.CountAndReport(context.Background(), []bulkhead.Signature{sig(bulkhead.DCCBody, n)}, []uint32{1},
					bulkhead.Report{Signatures: []bulkhead.Signature{sig(bulkhead.Exact, n)}})
				if err != nil {
					fmt.Fprintln(os.Stderr, err)
					return
				}
				mu.Lock()
				fmt.Printf("acked %d\n", n)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return errors.New("every reporter stopped")
}

// TestKill: the process is killed with SIGKILL at random points, again and
// again; every acknowledged report is counted, and none more often than sent.
// A signature that is counted in one step with a report is counted exactly as often.
func TestKill(t *testing.T) {
	const rounds, leastAcked = 30, 300
	dir := filepath.Join(t.TempDir(), "data")
	var sent, acked [crashKeys]uint32
	total := func() (n uint32) {
		for _, a := range acked {
			n += a
		}
		return n
	}
	// A slow machine acknowledges few between two kills: then it takes more of them.
	kills := 0
	for ; kills < rounds || kills < 10*rounds && total() < leastAcked; kills++ {
		runUntilKilled(t, dir, time.Duration(5+rand.IntN(150))*time.Millisecond, &sent, &acked)
		if kills%5 == 4 {
			verifyCounts(t, dir, &sent, &acked)
		}
	}
	verifyCounts(t, dir, &sent, &acked)
	t.Logf("%d reports acknowledged over %d kills", total(), kills)
	if total() < leastAcked {
		t.Errorf("only %d reports acknowledged: the test tests nothing", total())
	}
}

func runUntilKilled(t *testing.T, dir string, after time.Duration, sent, acked *[crashKeys]uint32) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), crashEnv+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() || lines.Text() != "ready" {
		cmd.Process.Kill()
		cmd.Wait()
		t.Fatalf("child did not start: %q", lines.Text())
	}
	timer := time.AfterFunc(after, func() { cmd.Process.Kill() })
	defer timer.Stop()
	for lines.Scan() {
		word, num, _ := strings.Cut(lines.Text(), " ")
		n, err := strconv.Atoi(num)
		if err != nil || n >= crashKeys {
			continue // a line cut by the kill: its report was not acknowledged
		}
		switch word {
		case "sent":
			sent[n]++
		case "acked":
			acked[n]++
		}
	}
	cmd.Wait()
}

func verifyCounts(t *testing.T, dir string, sent, acked *[crashKeys]uint32) {
	t.Helper()
	st, err := store.Open(dir, store.Options{SegmentBytes: 128 << 10})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	e, err := Open(context.Background(), crashOptions(st))
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close(context.Background())
	over, apart := 0, 0
	for n := range crashKeys {
		got := verdictOf(t, e, sig(bulkhead.Exact, n)).Sightings
		if got < acked[n] {
			t.Errorf("key %d: %d counted, %d acknowledged", n, got, acked[n])
		}
		if got > sent[n] {
			over++
		}
		if with := verdictOf(t, e, sig(bulkhead.DCCBody, n)).Sightings; with != got {
			apart++
		}
	}
	// 500 keys in an array for 20,000 leave no room for filter errors.
	if over > 1 {
		t.Errorf("%d of %d keys counted more often than sent", over, crashKeys)
	}
	if apart > 1 {
		t.Errorf("%d of %d keys counted more or less often than what was reported with them", apart, crashKeys)
	}
}

// TestDamage: flipped bits and cut files are found and named, whatever the
// file; a count that is lower than it was is never served.
func TestDamage(t *testing.T) {
	master := filepath.Join(t.TempDir(), "data")
	st, err := store.Open(master, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	e, err := Open(context.Background(), small(Options{Store: st}))
	if err != nil {
		t.Fatal(err)
	}
	fill := func(from, to int) {
		for n := from; n < to; n += 50 {
			r := bulkhead.Report{Vote: bulkhead.Spam}
			for i := range 50 {
				r.Signatures = append(r.Signatures, sig(bulkhead.Exact, n+i))
			}
			report(t, e, r)
		}
	}
	fill(0, 3000)
	writeCheckpoint(t, e)
	fill(3000, 6000) // in the journal only
	// Copied while open: what a crash would leave.
	files := make(map[string]string)
	err = filepath.WalkDir(master, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == "LOCK" {
			return err
		}
		data, err := os.ReadFile(path)
		rel, _ := filepath.Rel(master, path)
		files[rel] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(e.Close(context.Background()), st.Close()); err != nil {
		t.Fatal(err)
	}
	if len(files) < 5 {
		t.Fatalf("%d files, want manifest, watermark, journal and arrays", len(files))
	}
	rng := rand.New(rand.NewPCG(1, 2))
	detected, harmless := 0, 0
	for _, name := range slices.Sorted(maps.Keys(files)) { // in one order, for the same damages every time
		data := files[name]
		if len(data) == 0 {
			continue
		}
		for round := range 8 {
			at := rng.IntN(len(data))
			damaged := []byte(data)
			if round%4 == 3 {
				damaged = damaged[:at]
			} else {
				damaged[at] ^= 1 << rng.IntN(8)
			}
			err := reopen(t, files, name, damaged)
			switch {
			case err == nil:
				harmless++ // every count was verified to be there
			case strings.Contains(err.Error(), filepath.Base(name)):
				detected++
			default:
				t.Errorf("%s damaged at %d: error does not name it: %v", name, at, err)
			}
		}
	}
	t.Logf("%d damages detected and named, %d without effect", detected, harmless)
	if detected < harmless {
		t.Errorf("%d damages detected, %d without effect: want most detected", detected, harmless)
	}
}

// reopen starts an engine on a copy of the files, one of them damaged. It
// returns the error, or, after it has checked every count, nil.
func reopen(t *testing.T, files map[string]string, victim string, damaged []byte) error {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	for name, data := range files {
		if name == victim {
			data = string(damaged)
		}
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	st, err := store.Open(dir, store.Options{})
	if err != nil {
		return err
	}
	defer st.Close()
	e, err := Open(context.Background(), small(Options{Store: st}))
	if err != nil {
		return err
	}
	defer e.Close(context.Background())
	for n := range 6000 {
		v := verdictOf(t, e, sig(bulkhead.Exact, n))
		if v.SpamVotes < 1 || !v.Spam() {
			t.Fatalf("%s damaged: opened without an error and lost signature %d: %+v", victim, n, v)
		}
	}
	return nil
}
