//go:build interop

package mesh

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

// TestStreamJournal runs a pair whose journal is in a stream of a nats-server, which is also its witness. Under load,
// the first node is killed, its successor is frozen, and the server is killed. The other node takes over each time
// without a command, and a node that goes on after it was frozen acknowledges nothing. Both nodes have each
// acknowledged report once. In the end, the first node loses its store while the second one is down. It restores a
// backup, and reads the rest from the stream.
func TestStreamJournal(t *testing.T) {
	dir := t.TempDir()
	port := nodetest.FreePort(t)
	file := filepath.Join(dir, "nats.conf")
	conf := fmt.Sprintf("listen: \"127.0.0.1:%d\"\njetstream { store_dir: %q }\n", port, dir)
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	serve := func() *nodetest.Process {
		return nodetest.Run(t, dir, nodetest.Program(t, "nats-server"), "-c", file)
	}
	server := serve()
	sections := fmt.Sprintf("witness = [\"nats://127.0.0.1:%d\"]\n", port)
	first, second := newHalfWith(t, "always", sections), newHalfWith(t, "always", sections)
	meet(t, first, second)
	c := &crowd{nodes: [2]*half{first, second}, acked: make(map[int]uint32)}
	// A node without a lease for a moment, on a busy machine, refuses a report.
	report := func(m int, id string) {
		t.Helper()
		r := bulkhead.Report{Signatures: []bulkhead.Signature{signature(m)}, ID: id}
		nodetest.Settle(t, nodetest.Patience, "a report", func() string {
			_, err := first.admin.Report(t.Context(), r)
			return text(err)
		})
		c.acked[m]++
	}
	for m := range 30 { // with the journal in files
		report(m, fmt.Sprint("before", m))
	}
	for _, h := range []*half{first, second} {
		h.process.Kill()
		h.configure("always", sections+"[journal]\nkind = \"jetstream\"\n")
		h.start()
	}
	leased := func() {
		t.Helper()
		first, second = awaitLeased(t, first, second)
	}
	leased()
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for i := range 4 {
		running.Go(func() { c.run(ctx, i, 13) })
	}
	taken := func(began time.Time) {
		t.Helper()
		nodetest.Await(t, "reports that are taken again", func() bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.last.After(began)
		})
	}
	for _, fault := range []string{"killed", "frozen", "killed"} {
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
		taken(began)
		gap := c.gap()
		if fault == "killed" {
			first.start()
		} else {
			first.process.Thaw()
			r := bulkhead.Report{Signatures: []bulkhead.Signature{signature(messages + 1)}, ID: "lone"}
			for range 20 {
				if _, err := first.admin.Report(t.Context(), r); err == nil {
					t.Fatal("a node that was replaced acknowledges a report")
				}
			}
		}
		first, second = second, first
		back := time.Now()
		leased()
		fmt.Printf("| %s | no acknowledgement for %.1f s | both nodes again after %.1f s |\n", fault, gap.Seconds(),
			time.Since(back).Seconds())
	}
	c.mark()
	server.Kill()
	<-time.After(time.Second)
	serve()
	taken(time.Now())
	fmt.Printf("| server killed for a second | no acknowledgement for %.1f s | |\n", c.gap().Seconds())
	stop()
	running.Wait()
	leased() // it may have ended while the server was away
	c.compare(t, first)
	c.compare(t, second)

	// The stream begins after the counts that were made without it.
	second.process.Kill()
	backup := filepath.Join(dir, "backup")
	if code, out := nodetest.Command(t, "", nodetest.Binary(t), "backup", backup, "--data", first.data()); code != 0 {
		t.Fatal(out)
	}
	for i := range 50 {
		report(i%7, fmt.Sprint("after", i))
	}
	first.process.Kill()
	if err := os.RemoveAll(filepath.Join(first.data(), "store")); err != nil {
		t.Fatal(err)
	}
	code, out := nodetest.Command(t, "", nodetest.Binary(t), "restore", backup, "--data", first.data())
	if code != 0 {
		t.Fatal(out)
	}
	first.start()
	c.compare(t, first)
}
