package mesh

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/bulkhead-mail/bulkhead/internal/mesh/member"
	"github.com/bulkhead-mail/bulkhead/internal/natsdial"
	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

var natsSchedules = flag.Int("nats-schedules", 6, "random schedules of TestModelNATS")

// TestModelNATS runs the schedules of TestModel through a NATS server with JetStream, in real time.
// A proxy before each node cuts, delays and ends connections, and the server is killed and
// restarted empty. Repetition and loss follow from that.
func TestModelNATS(t *testing.T) {
	n := *natsSchedules
	if testing.Short() {
		n = 2
	}
	var done tallyOfSteps
	t.Run("seed", func(t *testing.T) {
		for i := range n {
			seed := *firstSeed + uint64(i)
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				runNATSModel(t, seed, &done)
			})
		}
	})
	t.Logf("steps: %v", done.n)
}

func runNATSModel(t *testing.T, seed uint64, done *tallyOfSteps) {
	rng := rand.New(rand.NewPCG(seed, 9))
	w := newWorld(t, rng, done)
	w.net, w.pause = newNATSNet(t, seed), 20*time.Millisecond
	w.populate()
	for range 80 {
		w.step()
	}
	w.calm()
	var wrong []string
	deadline := time.Now().Add(2 * time.Minute)
	for {
		w.forgetFormer()
		if wrong = w.compare(); len(wrong) == 0 || time.Now().After(deadline) {
			break
		}
		<-time.After(100 * time.Millisecond)
	}
	for _, x := range wrong {
		t.Error(x)
	}
	w.stop()
}

// natsNet is a NATS server, and a proxy before each node.
type natsNet struct {
	t       *testing.T
	rng     *rand.Rand
	address string
	server  *server.Server
	wires   []*nodetest.Wire
}

func newNATSNet(t *testing.T, seed uint64) *natsNet {
	k := &natsNet{t: t, rng: rand.New(rand.NewPCG(seed, 10)), address: freePort(t)}
	k.start()
	t.Cleanup(func() { k.stop() })
	return k
}

func (k *natsNet) start() {
	host, port := splitPort(k.t, k.address)
	ns, err := server.NewServer(&server.Options{Host: host, Port: port, NoSigs: true, JetStream: true,
		StoreDir: memoryDir(k.t), JetStreamMaxStore: 1 << 40}) // else it depends on the free memory
	if err != nil {
		k.t.Fatal(err)
	}
	ns.Start()
	if !ns.ReadyForConnections(20 * time.Second) {
		k.t.Fatal("the broker does not start")
	}
	k.server = ns
}

func (k *natsNet) stop() {
	k.server.Shutdown()
	k.server.WaitForShutdown()
}

func (k *natsNet) open(ctx context.Context, n *node, o member.Options) (*Mesh, error) {
	if n.wire == nil {
		n.wire = nodetest.NewWire(k.t, k.address)
		k.wires = append(k.wires, n.wire)
	}
	n.wire.Partition(false)
	o.Mode, o.Servers, o.Credentials = member.External, []string{"nats://" + n.wire.Address()}, natsdial.NoCredentials
	o.Interval, o.Heartbeat = 30*time.Millisecond, 500*time.Millisecond
	return Open(ctx, o)
}

func (k *natsNet) cut(n *node, away bool) { n.wire.Partition(away) }

// faults ends connections with the probability of a loss.
func (k *natsNet) faults(loss, _, delay float64) {
	for _, w := range k.wires {
		w.Delay.Store(int64(delay * float64(30*time.Millisecond)))
		if k.rng.Float64() < loss {
			w.Sever()
		}
	}
}

func (k *natsNet) wipe() {
	k.stop()
	k.start()
}

func splitPort(t *testing.T, address string) (host string, port int) {
	t.Helper()
	host, number, ok := strings.Cut(address, ":")
	if _, err := fmt.Sscan(number, &port); err != nil || !ok {
		t.Fatalf("address %q", address)
	}
	return host, port
}
