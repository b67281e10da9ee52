//go:build interop

package torture

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/store"
	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

// TestKill does nothing but kill the node, as often as its time allows: at random moments of its
// start, of normal use at all doors, and of what is rare and short, for which it waits: a
// checkpoint, a new segment of the journal, a new generation. The state of the disk shows the step
// that it hit. Now and then it begins with an empty folder.
func TestKill(t *testing.T) {
	// A run of hours has more generations than a tally keeps, so each folder is used for
	// as many as it does.
	const generation, keep = time.Hour, 40
	hourly := strings.Replace(settings, "[tally]", fmt.Sprintf("[tally]\nkeep = %d\ngeneration = %q", keep, generation), 1)
	hourly = strings.Replace(hourly, "[blocklist]",
		fmt.Sprintf("[blocklist]\nkeep = %d\ngeneration = %q", keep, generation), 1)
	v := newVictim(t, filepath.Join(t.TempDir(), "data"), hourly)
	v.bin = nodetest.Simulated(t)
	opened := 0
	kinds := []string{"killed: in use", "killed: in a start, before the store was open",
		"killed: in a start, after the store was open"}
	v.torture(20*time.Second, kinds, func() {
		switch v.rng.IntN(10) {
		case 0, 1, 2:
			v.killStart()
			return
		case 3:
			v.killUse(func() string {
				runFor(v.someTime(1200))
				return "in use"
			})
		case 4, 5, 6:
			v.killUse(v.untilCheckpoint)
		case 7:
			v.killSegment()
		default:
			opened++
			v.killUse(func() string { return v.untilGeneration(time.Duration(opened) * generation) })
		}
		if opened == keep/3 {
			p := v.serve()
			v.compare("before another folder")
			p.Kill()
			opened = 0
			v.data = filepath.Join(t.TempDir(), "data")
			v.acked, v.sent = [signatures]uint32{}, [signatures]uint32{}
			v.others.forget()
			v.faults["empty folders"]++
		}
	})
	v.finish(kinds)
	kills := 0
	for what, n := range v.faults {
		if strings.HasPrefix(what, "killed") {
			kills += n
		}
	}
	t.Logf("%7d  kills in all", kills)
}

// killStart kills the node at a random moment of its start, which takes as long as the last
// one did, and half of the time in the first tenth of it.
func (v *victim) killStart() {
	before := v.modified("store/watermark")
	p := nodetest.Run(v.t, v.dir, v.bin, "serve", "--config", "node.toml", "--data", v.data)
	within := v.started + v.started/10
	if v.rng.IntN(2) == 0 {
		within /= 10
	}
	runFor(time.Duration(v.rng.Int64N(int64(within + time.Millisecond))))
	p.Kill()
	when := "before"
	if v.modified("store/watermark") != before {
		when = "after"
	}
	v.faults["killed: in a start, "+when+" the store was open"]++
	v.sound()
}

// killUse compares, and kills the node under the load of clients at all doors when until
// returns.
func (v *victim) killUse(until func() string) {
	p := v.serve()
	v.compare("after a kill")
	end := v.begin()
	runFor(v.someTime(150))
	what := until()
	p.Kill()
	end()
	v.faults["killed: "+what]++
	v.sound()
}

// killSegment kills the node when the first entry that it writes has begun a new segment of
// the journal, or soon after.
func (v *victim) killSegment() {
	p := v.serve()
	v.compare("after a kill")
	segments, pause := v.segments(), time.Duration(v.rng.IntN(2000))*time.Microsecond
	end := v.begin()
	what := "in use"
	if v.poll(func() bool { return !slices.Equal(v.segments(), segments) }) {
		runFor(pause)
		what = "at a new segment of the journal"
	}
	p.Kill()
	end()
	v.faults["killed: "+what]++
	v.sound()
}

// segments returns the names of the segments of the journal, in order.
func (v *victim) segments() []string {
	return v.files(filepath.Join(v.data, "store/journal"), func(string) bool { return true })
}

// untilCheckpoint returns at a random one of the steps of a checkpoint, or soon after it.
func (v *victim) untilCheckpoint() string {
	pause := time.Duration(v.rng.IntN(3000)) * time.Microsecond
	manifest := v.modified("store/MANIFEST")
	steps := []func() bool{
		func() bool { return v.there("store/files/*.tmp") },
		func() bool { return v.there("store/MANIFEST.tmp") },
		func() bool { return v.modified("store/MANIFEST") != manifest },
	}
	if !v.poll(steps[v.rng.IntN(len(steps))]) {
		return "in use"
	}
	runFor(pause)
	return "at a checkpoint"
}

// untilGeneration moves the clock on to another generation, and returns before or soon after
// it is open.
func (v *victim) untilGeneration(ahead time.Duration) string {
	pause := time.Duration(v.rng.IntN(30000)) * time.Microsecond
	opened := make(chan error, 1)
	go func() {
		resp, err := http.Post(v.client.Server+"/v1/clock?advance="+ahead.String(), "message/rfc822", nil)
		if err == nil {
			err = resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				err = errors.Join(err, errors.New(resp.Status))
			}
		}
		opened <- err
	}()
	runFor(pause)
	select {
	case err := <-opened:
		if err != nil {
			v.t.Errorf("the clock: %v", err)
		}
		return "after a generation was opened"
	default:
		return "while a generation was opened"
	}
}

// poll waits until ok returns true, and returns false if that takes longer than there are
// between two checkpoints.
func (v *victim) poll(ok func() bool) bool {
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Microsecond) {
		if ok() {
			return true
		}
	}
	return false
}

// there reports whether any file of the data folder has a name that matches.
func (v *victim) there(pattern string) bool {
	names, err := filepath.Glob(filepath.Join(v.data, pattern))
	return err == nil && len(names) > 0
}

// modified returns when a file of the data folder was written last, or the zero time.
func (v *victim) modified(name string) (at time.Time) {
	if info, err := os.Stat(filepath.Join(v.data, name)); err == nil {
		at = info.ModTime()
	}
	return at
}

// sound examines the store of a node that was killed: a kill damages nothing. It notes
// what the kill has left there half done.
func (v *victim) sound() {
	t := v.t
	t.Helper()
	dir := filepath.Join(v.data, "store")
	if _, err := os.Stat(filepath.Join(dir, "MANIFEST")); errors.Is(err, fs.ErrNotExist) {
		v.faults["left: a store without its first manifest"]++
		return
	}
	n, err := store.Inspect(context.Background(), dir)
	if err != nil {
		t.Fatalf("after a kill: %v", err)
	}
	for _, f := range n.Faults {
		t.Errorf("after a kill: %s, offset %d: %s", f.File, f.Offset, f.What)
	}
	if v.there("store/MANIFEST.tmp") {
		v.faults["left: a manifest half written"]++
	}
	written, newer, unfinished := 0, 0, 0
	for _, name := range v.files(filepath.Join(dir, "files"), func(string) bool { return true }) {
		of, rest, _ := strings.Cut(name[strings.LastIndexByte(strings.TrimSuffix(name, ".tmp"), '.')+1:], ".")
		checkpoint, err := strconv.ParseUint(of, 16, 64)
		if err != nil {
			t.Fatalf("file %s: %v", name, err)
		}
		switch written++; {
		case rest == "tmp":
			unfinished++
		case checkpoint > n.Manifest.Checkpoint:
			newer++
		}
	}
	switch {
	case unfinished > 0:
		v.faults["left: a file of a checkpoint half written"]++
	case newer > 0:
		v.faults["left: files of a checkpoint without its manifest"]++
	case written > len(n.Manifest.Files):
		v.faults["left: files of the checkpoint before"]++
	}
	if len(v.segments()) > 1 {
		v.faults["left: several segments of the journal"]++
	}
}
