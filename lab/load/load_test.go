package load

import (
	"errors"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"
)

type counter struct {
	n    *atomic.Uint64
	fail bool
}

func (c counter) Do() error {
	c.n.Add(1)
	if c.fail {
		return errors.New("no")
	}
	return nil
}
func (c counter) Close() error { return nil }

func TestRunSendsExactly(t *testing.T) {
	var n atomic.Uint64
	res, err := Run(t.Context(), Options{Clients: 7, Requests: 1000}, func(int) (Client, error) {
		return counter{n: &n},
			nil
	})
	if err != nil || res.Requests != 1000 || n.Load() != 1000 || res.Errors != 0 {
		t.Errorf("Run = %v, %v; sent %d, want 1000", res, err, n.Load())
	}
}

func TestRunCountsErrors(t *testing.T) {
	var n atomic.Uint64
	res, err := Run(t.Context(), Options{Clients: 2, Requests: 100}, func(i int) (Client, error) {
		return counter{n: &n, fail: true}, nil
	})
	if err != nil || res.Requests != 0 || res.Errors != 100 || res.First == nil {
		t.Errorf("Run = %+v, %v; want 100 errors", res, err)
	}
}

func TestRunRefuses(t *testing.T) {
	connect := func(int) (Client, error) { return nil, errors.New("refused") }
	for _, o := range []Options{{}, {Clients: 1}, {Clients: MaxClients + 1, Requests: 1},
		{Clients: 1, Duration: MaxDuration + 1}, {Clients: 1, Requests: 1}} {
		if res, err := Run(t.Context(), o, connect); res != nil || err == nil {
			t.Errorf("Run(%+v) = %v, %v; want an error", o, res, err)
		}
	}
}

// TestPercentile compares with the exact percentiles of random durations.
func TestPercentile(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		var h histogram
		var all []time.Duration
		for range 1 + rng.IntN(3000) {
			d := time.Duration(1 + rng.Int64N(1<<uint(1+rng.IntN(40))))
			h.add(d)
			all = append(all, d)
		}
		slices.Sort(all)
		for _, p := range []float64{0.01, 0.5, 0.99, 1} {
			want := all[max(0, int(p*float64(len(all))+0.999999)-1)]
			got := h.percentile(p)
			if diff := float64(got-want) / float64(want); diff > 0.02 || diff < -0.02 {
				t.Errorf("percentile %v of %d durations = %v, want %v", p, len(all), got, want)
			}
		}
	}
}

func TestLoopbackOnly(t *testing.T) {
	for address, ok := range map[string]bool{
		"127.0.0.1:80": true, "[::1]:80": true, "localhost:80": true, "127.9.9.9:1": true,
		"192.0.2.1:80": false, "example.com:80": false, "127.0.0.1": false, ":80": false,
	} {
		if err := LoopbackOnly(address); (err == nil) != ok {
			t.Errorf("LoopbackOnly(%q) = %v, want ok %v", address, err, ok)
		}
	}
}
