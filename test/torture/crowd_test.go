//go:build interop

package torture

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"
)

// TestCrowd has far more connections opened at each TCP door than it takes, from many
// networks, half of which say nothing and half of which begin and do not go on. Others must
// be served meanwhile. CROWD is how many there are.
func TestCrowd(t *testing.T) {
	crowd := 600
	if text := os.Getenv("CROWD"); text != "" {
		var err error
		if crowd, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	v := newVictim(t, filepath.Join(t.TempDir(), "data"), settings+fmt.Sprintf("[limits]\nconnections = %d\n", crowd*2/5))
	p := v.serve()
	defer p.Stop()
	o := v.others
	o.address["http"] = v.client.Server[len("http://"):]
	count := func(ctx context.Context, _ *rand.Rand) error {
		return v.client.Count(ctx, v.sigs[:1], []uint32{1})
	}
	for _, door := range []struct {
		name  string
		begin string // of what a client says
		use   func(context.Context, *rand.Rand) error
	}{
		{"http", "POST /v1/count HTTP/1.1\r\n", count}, {"razor2", "a=", o.razor}, {"dccifd", "header\n", o.dccifd}, {"milter", "\x00\x00", o.milter},
		{"policy", "request=", o.policy}, {"pyzor_helper", "From: ", o.pyzorHelper}, {"razor_helper", "From: ", o.razorHelper},
	} {
		const requests = 40
		quiet := v.served(requests, door.name, door.use)
		var conns []net.Conn
		for i := range crowd {
			d := net.Dialer{Timeout: time.Minute, LocalAddr: &net.TCPAddr{IP: net.IPv4(127, byte(1+i/250), byte(i%250), 1)}}
			c, err := d.DialContext(t.Context(), "tcp", o.address[door.name])
			if err != nil {
				t.Fatalf("%s: connection %d: %v", door.name, i, err)
			}
			conns = append(conns, c)
			if i%2 == 0 {
				_, _ = c.Write([]byte(door.begin)) // it may be closed already, to make room
			}
		}
		// A network with one connection does not take the place of another with one before
		// that has been silent for a second.
		v.await("a place at "+door.name, func() bool { return door.use(t.Context(), v.rng) == nil })
		crowded := v.served(requests, door.name, door.use)
		t.Logf("%-12s %d connections that say nothing or little: %d requests beside them, median %v, longest %v; without them %v and %v",
			door.name, crowd, requests, crowded[requests/2], crowded[requests-1], quiet[requests/2], quiet[requests-1])
		for _, c := range conns {
			c.Close()
		}
	}
}

// served wants a number of requests to be answered, and returns how long that took, in
// order.
func (v *victim) served(n int, door string, use func(context.Context, *rand.Rand) error) (took []time.Duration) {
	v.t.Helper()
	for i := range n {
		begin := time.Now()
		if err := use(v.t.Context(), v.rng); err != nil {
			v.t.Fatalf("%s: request %d: %v", door, i, err)
		}
		took = append(took, time.Since(begin).Round(time.Microsecond))
	}
	slices.Sort(took)
	return took
}
