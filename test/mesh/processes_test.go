//go:build interop

package mesh

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

// three starts a hub and two nodes that reach it through proxies.
func three(t testing.TB) (nodes []*node, proxies []*nodetest.Wire) {
	t.Helper()
	address := ownAddress(t)
	hub := newNode(t, "hub", "", fmt.Sprintf("mode = \"hub\"\nlisten = %q", address))
	nodes = []*node{hub}
	secret := hub.secret()
	for i := range 2 {
		p := nodetest.NewWire(t, address)
		proxies = append(proxies, p)
		nodes = append(nodes, newNode(t, fmt.Sprint("join ", i), secret,
			fmt.Sprintf("mode = \"join\"\nservers = [%q]", p.Address())))
	}
	for _, n := range nodes {
		n.start()
	}
	befriend(t, nodes...)
	return nodes, proxies
}

const signatures = 60

// TestPartitionAndHub: a node that is cut off goes on alone, and everything
// comes together when it is back; so it does when the hub was killed, and when a
// node was killed in the middle of its reports.
func TestPartitionAndHub(t *testing.T) {
	t.Parallel()
	nodes, proxies := three(t)
	all := func(count uint32) {
		for i, n := range nodes {
			for sig := range signatures / 3 {
				n.report(sig*3+i, count)
				n.report(sig, count)
			}
		}
	}
	all(1)
	agree(t, nodes, signatures)

	proxies[0].Partition(true)
	all(2)
	nodetest.Settle(t, nodetest.Patience, "those who are connected agree", func() string {
		v, err := check(nodes[2], 3)
		if want := nodes[0].truth[3][0] + nodes[2].truth[3][0]; err != nil || v < want {
			return fmt.Sprintf("%d sightings, want %d of the hub and its own: %v", v, want, err)
		}
		return ""
	})
	if v, err := check(nodes[1], 3); err != nil || v < nodes[1].truth[3][0] {
		t.Errorf("cut off: %d sightings, %v; want its own at least, %d", v, err, nodes[1].truth[3][0])
	}
	proxies[0].Partition(false)
	agree(t, nodes, signatures)

	nodes[0].kill()
	nodes[1].report(1, 5)
	nodes[2].report(1, 7)
	nodes[0].start()
	agree(t, nodes, signatures)

	for _, n := range nodes {
		done := make(chan struct{})
		go func() {
			defer close(done)
			for i := range 60 {
				n.report(i%signatures, 1)
			}
		}()
		<-time.After(time.Duration(rand.Int64N(int64(60 * time.Millisecond))))
		n.kill()
		n.start()
		<-done
	}
	agree(t, nodes, signatures)
}

func check(n *node, sig int) (uint32, error) {
	v, err := n.client.Check(n.ctx(), checkOf(sig))
	if err != nil {
		return 0, err
	}
	return v.Sightings, nil
}

var (
	schedules = flag.Int("schedules", 3, "random schedules of TestSchedules")
	firstSeed = flag.Uint64("seed", 1, "seed of the first one")
)

// TestSchedules: random schedules of all that may happen to three processes. A
// soak: go test -tags interop ./test/mesh -run Schedules -schedules 30 -seed 100
func TestSchedules(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	all := make(map[string]int)
	t.Run("seed", func(t *testing.T) {
		for i := range *schedules {
			seed := *firstSeed + uint64(i)
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				done := runSchedule(t, seed)
				mu.Lock()
				defer mu.Unlock()
				for what, n := range done {
					all[what] += n
				}
			})
		}
	})
	t.Logf("steps: %v", all)
	for _, what := range []string{
		"reports", "pause", "cut off or connected", "connections ended", "slow", "killed", "stopped", "backup", "restored",
		"machine rolled back",
	} {
		if all[what] == 0 {
			t.Errorf("no step of kind %q in %d schedules", what, *schedules)
		}
	}
}

func runSchedule(t *testing.T, seed uint64) map[string]int {
	rng := rand.New(rand.NewPCG(seed, 11))
	nodes, proxies := three(t)
	done := make(map[string]int)
	for range 60 {
		n := nodes[rng.IntN(len(nodes))]
		p := proxies[rng.IntN(len(proxies))]
		what := "reports"
		switch x := rng.IntN(100); {
		case x < 45:
			for range 1 + rng.IntN(5) {
				n.report(rng.IntN(signatures), uint32(1+rng.IntN(20)))
			}
		case x < 65:
			what = "pause"
			<-time.After(time.Duration(rng.Int64N(int64(200 * time.Millisecond))))
		case x < 73:
			what = "cut off or connected"
			p.Partition(rng.IntN(2) == 0)
		case x < 76:
			what = "connections ended"
			p.Sever()
		case x < 79:
			what = "slow"
			p.Delay.Store(rng.Int64N(int64(200 * time.Millisecond)))
		case x < 84:
			what = "killed"
			end := make(chan struct{})
			go func() {
				defer close(end)
				for i := range 10 {
					n.report((i*7+len(done))%signatures, 3)
				}
			}()
			<-time.After(time.Duration(rng.Int64N(int64(20 * time.Millisecond))))
			n.kill()
			n.start()
			<-end
		case x < 87, x >= 96 && n.copies["snapshot"] == nil:
			what = "stopped"
			n.stop()
			n.snapshot()
			n.start()
		case x < 90, x < 96 && n.copies["backup"] == nil:
			what = "backup"
			n.backup()
		case x < 96:
			what = "restored"
			n.kill()
			n.restore()
			n.start()
		default:
			what = "machine rolled back"
			n.kill()
			n.rollback()
			n.start()
		}
		done[what]++
	}
	for _, p := range proxies {
		p.Partition(false)
		p.Delay.Store(0)
	}
	agree(t, nodes, signatures)
	return done
}

// TestDiskFull: a node whose disk is full refuses reports, goes on answering, and
// takes part again once there is room.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	nodes, _ := three(t)
	full := nodes[1]
	full.stop()
	full.snapshot()
	if err := syscall.Mount("tmpfs", full.data(), "tmpfs", 0, "size=32m,mode=0700"); err != nil {
		nodetest.Unavailable(t, "a small file system cannot be mounted: %v", err)
	}
	t.Cleanup(func() {
		full.kill()
		if err := syscall.Unmount(full.data(), 0); err != nil {
			t.Error(err)
		}
	})
	restoreInto(full)
	full.start()
	for i, n := range nodes {
		n.report(i, 2)
	}
	agree(t, nodes, signatures)

	filler := filepath.Join(full.data(), "filler")
	fill(t, filler)
	refused := false
	for i := range 200 {
		if _, err := full.client.Report(full.ctx(), reportOf(i%signatures, fmt.Sprint("full ", i))); err != nil {
			refused = true
			t.Logf("after %d reports on a full disk: %v", i, err)
			break
		}
		v := full.truth[i%signatures]
		v[0]++
		full.truth[i%signatures] = v
	}
	if !refused {
		t.Fatal("a full disk takes 200 reports")
	}
	if _, err := check(full, 0); err != nil {
		t.Errorf("check on a full disk: %v", err)
	}
	for i := range signatures {
		nodes[0].report(i, 3)
		nodes[2].report(i, 4)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	full.report(5, 9) // waits until the node takes reports
	agree(t, nodes, signatures)
}

// fill writes a file until nothing more fits.
func fill(t testing.TB, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, block := range []int{1 << 20, 4096} {
		for {
			if _, err := f.Write(make([]byte, block)); err != nil {
				break
			}
		}
	}
}

// TestStopTells: peers know everything that a node acknowledged before it stopped,
// reports that it took while it was stopping too.
func TestStopTells(t *testing.T) {
	t.Parallel()
	nodes, _ := three(t)
	hub, node := nodes[0], nodes[1]
	node.report(0, 1)
	agree(t, nodes, 1)
	var acknowledged [signatures]atomic.Uint32
	var clients sync.WaitGroup
	for i := range 32 {
		clients.Go(func() {
			for n := i; ; n++ {
				if _, err := node.client.Report(node.ctx(), reportOf(n%signatures, "")); err != nil {
					return // it has stopped
				}
				acknowledged[n%signatures].Add(1)
			}
		})
	}
	nodetest.Await(t, "acknowledgements of every signature", func() bool {
		for sig := range acknowledged {
			if acknowledged[sig].Load() == 0 {
				return false
			}
		}
		return true
	})
	node.stop()
	clients.Wait()
	nodetest.Settle(t, nodetest.Patience, "the hub knows what the node had counted", func() string {
		for sig := range signatures {
			if got, err := check(hub, sig); err != nil || got < acknowledged[sig].Load() {
				return fmt.Sprintf("signature %d: %d sightings, %v; want %d", sig, got, err, acknowledged[sig].Load())
			}
		}
		return ""
	})
}
