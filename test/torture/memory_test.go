//go:build interop

package torture

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// squeeze runs the node with little memory while it is sent large mail: in a control group
// if the test may make one, whose end is the kernel's killing, or else with a limit for
// its data, whose end is a crash.
func (v *victim) squeeze() {
	t := v.t
	limit := (30 + v.rng.IntN(200)) << 20
	group, before := controlGroup(limit)
	how := "control group"
	if group == "" {
		how, before = "limit for data", fmt.Sprintf("ulimit -d %d;", limit>>10)
	} else {
		defer func() {
			if err := os.Remove(group); err != nil {
				t.Error(err)
			}
		}()
	}
	p, _ := v.tryServe(before, "node.toml")
	if p == nil {
		v.faults[how+": too little memory for a start"]++
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	for i := range 6 {
		line := fmt.Sprintf("%s %d of many words\n", strings.Repeat("large ", 10), i)
		wg.Go(func() {
			for size := 1 << 20; ctx.Err() == nil; size = min(2*size, 16<<20) {
				head := "header\n192.0.2.7\nmx.example.com\nann@shop.example\nbob@example.net\n\nFrom: Ann <ann@shop.example>\n" +
					"Subject: large\n\n"
				// A refusal, or no answer, is as good as any.
				_, _ = v.others.ask("dccifd", head+strings.Repeat(line, size/len(line)))
			}
		})
	}
	v.use(ctx)
	wg.Wait()
	select {
	case <-p.Exited():
		v.faults[how+": killed for lack of memory"]++
	default:
		v.faults[how+": little memory, and it went on"]++
	}
	p.Kill()
}

var groups int

// controlGroup makes a control group with so much memory, of version 2 or 1, and returns
// its folder, and the commands of the shell by which a process enters it; "" if that
// cannot be done here.
func controlGroup(limit int) (group, enter string) {
	for _, version := range []struct {
		root, file string
	}{{"/sys/fs/cgroup", "memory.max"}, {"/sys/fs/cgroup/memory", "memory.limit_in_bytes"}} {
		groups++
		group = filepath.Join(version.root, fmt.Sprintf("torture-%d-%d", os.Getpid(), groups))
		if err := os.Mkdir(group, 0o755); err != nil {
			continue
		}
		file := filepath.Join(group, version.file)
		if f, err := os.OpenFile(file, os.O_WRONLY, 0); err == nil { // the kernel has made it
			_, err = fmt.Fprint(f, limit)
			if errors.Join(err, f.Close()) == nil {
				return group, fmt.Sprintf("echo $$ >%s/cgroup.procs;", group)
			}
		}
		_ = os.Remove(group)
	}
	return "", ""
}
