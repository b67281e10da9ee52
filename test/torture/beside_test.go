//go:build interop

package torture

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

// TestBeside measures what a client of a door feels of others there: CROWD connections that say
// nothing or begin and do not go on, as many that send a byte every four seconds, and 10,000
// datagrams a second of garbage, half of it random and half a request that was cut short or
// changed. With NODE_CPUS, a list as of taskset, the node has these processors alone, and no client
// may wait more than twice as long at the 99th percentile of 1,000 requests, in the median of five
// rounds with and without the others; what the node does by itself, such as a checkpoint, falls
// into few of them, and there on either side. Give the test other processors, and let the machine
// have nothing else to do. Arrays hold what the clients count in those minutes, so that no
// generation ends early; else the configuration is the default one.
//
//	NODE_CPUS=0 CROWD=10000 taskset -c 1 go test -tags interop -run Beside -timeout 30m -v ./test/torture
func TestBeside(t *testing.T) {
	crowd, rounds, requests, cpus := crowdOf(t), 1, 50, os.Getenv("NODE_CPUS")
	settle := func() {}
	if cpus != "" {
		rounds, requests = 5, 1000
		// The node accepts or closes the connections that arrived at once and wait in the kernel. The
		// test measures the effect of its presence.
		settle = func() { runFor(2 * time.Second) }
	}
	v := newVictim(t, filepath.Join(t.TempDir(), "data"),
		sized+lenient+fmt.Sprintf("[limits]\nconnections = %d\n", crowd+1000))
	args := []string{"serve", "--config", "node.toml", "--data", v.data}
	cmd := exec.Command(v.bin, args...)
	if cpus != "" {
		cmd = exec.Command("taskset", append([]string{"-c", cpus, v.bin}, args...)...)
	}
	cmd.Dir = v.dir
	p := nodetest.Start(t, cmd)
	defer p.Stop()
	v.await("the node", func() bool { return v.client.Ready(t.Context()) == nil })
	o := v.others
	t.Logf("| door | beside it | p50, p99 alone | p50, p99 beside it | ratio of p99 | of the rounds |")
	row := func(door, what string, use func(context.Context, *rand.Rand) error, begin func() (end func())) {
		var alone, beside []time.Duration
		var ratios []float64
		for range rounds {
			a := v.served(requests, door, use)
			end := begin()
			settle()
			b := v.served(requests, door, use)
			end()
			settle()
			alone, beside = append(alone, a...), append(beside, b...)
			ratios = append(ratios, float64(p99(b))/float64(p99(a)))
		}
		slices.Sort(alone)
		slices.Sort(beside)
		slices.Sort(ratios)
		ratio := ratios[len(ratios)/2]
		t.Logf("| %s | %s | %v, %v | %v, %v | %.2f | %.2f |", door, what,
			alone[len(alone)/2], p99(alone), beside[len(beside)/2], p99(beside), ratio, ratios)
		if cpus != "" && ratio >= 2 {
			t.Errorf("%s beside %s: the 99th percentile is %.2f times as high", door, what, ratio)
		}
	}
	for _, d := range v.tcpDoors() {
		row(d.name, fmt.Sprintf("%d half-open connections", crowd), d.use, func() func() { return v.crowd(d, crowd, 0) })
		row(d.name, fmt.Sprintf("%d slow senders", crowd), d.use, func() func() { return v.crowd(d, crowd, 4*time.Second) })
	}
	for _, d := range []tcpDoor{
		{"pyzor", "Op: report\nThread: 3000\nPV: 2.1\nUser: anonymous\nTime: 0\n", o.pyzor},
		{"dcc", "\x00\x24\x02\x08\x00\x00\x80\x00", o.dcc},
		{"fuzzy", "\x04\x00\x01\x00rspa", o.fuzzy},
		{"dnsbl", "\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x3f", o.dnsbl},
	} {
		row(d.name, "garbage, 10,000/s", again(d.use), func() func() { return v.flood(d, 10000) })
	}
}

// again sends a request again that gets no answer, as clients do: beside a flood, the kernel may drop a datagram.
func again(use func(context.Context, *rand.Rand) error) func(context.Context, *rand.Rand) error {
	return func(ctx context.Context, rng *rand.Rand) (err error) {
		for range 5 {
			if err = use(ctx, rng); err == nil {
				break
			}
		}
		return err
	}
}

// sized are the settings of a node that expects the clients of TestBeside.
const sized = `
[node]
log_level = "warn"
[tally]
capacity = 10_000_000
[blocklist]
capacity = 10_000_000
`

// p99 returns the 99th percentile of what is in order.
func p99(took []time.Duration) time.Duration { return took[len(took)*99/100] }

// A tcpDoor is a door at which a crowd may wait, or what datagrams begin with.
type tcpDoor struct {
	name  string
	begin string // of what a client says
	use   func(context.Context, *rand.Rand) error
}

func (v *victim) tcpDoors() []tcpDoor {
	o := v.others
	o.address["http"] = v.client.Server[len("http://"):]
	count := func(ctx context.Context, _ *rand.Rand) error {
		return v.client.Count(ctx, v.sigs[:1], []uint32{1})
	}
	return []tcpDoor{
		{"http", "POST /v1/count HTTP/1.1\r\n", count}, {"razor2", "a=", o.razor}, {"dccifd", "header\n", o.dccifd},
		{"milter", "\x00\x00", o.milter},
		{"policy", "request=", o.policy}, {"pyzor_helper", "From: ", o.pyzorHelper},
		{"razor_helper", "From: ", o.razorHelper},
	}
}

func crowdOf(t *testing.T) int {
	t.Helper()
	text := os.Getenv("CROWD")
	if text == "" {
		return 600
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// crowd opens connections at a door from many networks. Half of them say nothing, and half
// begin and do not go on; but if there is a time, all of them send a byte that often. The
// function that it returns closes them.
func (v *victim) crowd(d tcpDoor, size int, every time.Duration) (end func()) {
	t := v.t
	t.Helper()
	conns := make([]net.Conn, size)
	for i := range conns {
		from := net.Dialer{Timeout: time.Minute, LocalAddr: &net.TCPAddr{IP: net.IPv4(127, byte(1+i/250), byte(i%250), 1)}}
		c, err := from.DialContext(t.Context(), "tcp", v.others.address[d.name])
		if err != nil {
			t.Fatalf("%s: connection %d: %v", d.name, i, err)
		}
		conns[i] = c
		if i%2 == 0 && every == 0 {
			_, _ = c.Write([]byte(d.begin)) // it may be closed already, to make room
		}
	}
	return v.beside(func() {
		for _, c := range conns {
			c.Close()
		}
	}, len(conns), every, func(i, round int) {
		_, _ = conns[i].Write([]byte{d.begin[round%len(d.begin)]})
	})
}

// flood sends datagrams to a door at a given rate per second, from many addresses.
func (v *victim) flood(d tcpDoor, perSecond int) (end func()) {
	t := v.t
	t.Helper()
	conns := make([]net.Conn, 100)
	for i := range conns {
		from := net.Dialer{LocalAddr: &net.UDPAddr{IP: net.IPv4(127, byte(1+i), byte(i), 1)}}
		c, err := from.DialContext(t.Context(), "udp", v.others.address[d.name])
		if err != nil {
			t.Fatal(err)
		}
		conns[i] = c
	}
	rng := rand.New(rand.NewPCG(1, 2))
	buf := make([]byte, 1400)
	return v.beside(func() {
		for _, c := range conns {
			c.Close()
		}
	}, len(conns), time.Duration(len(conns))*time.Second/time.Duration(perSecond), func(i, round int) {
		b := random(rng, buf[:1+rng.IntN(len(buf))])
		if round%2 == 0 {
			copy(b, d.begin)
		}
		_, _ = conns[i].Write(b)
	})
}

// beside calls do for each of n in turn, all of them in the time every, again and again,
// until the function that it returns is called; never if every is 0.
func (v *victim) beside(stop func(), n int, every time.Duration, do func(i, round int)) (end func()) {
	ctx, cancel := context.WithCancel(v.t.Context())
	var wg sync.WaitGroup
	if every > 0 {
		wg.Go(func() {
			tick := time.NewTicker(time.Millisecond)
			defer tick.Stop()
			for begin, done := time.Now(), 0; ; {
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
				}
				for due := int(time.Since(begin) * time.Duration(n) / every); done < due; done++ {
					do(done%n, done/n)
				}
			}
		})
	}
	return func() {
		cancel()
		wg.Wait()
		stop()
	}
}
