// Package load measures how many requests a server on this machine answers, with a limited
// number of clients, each with one request in flight, for a limited time. A client knows one
// front door.
//
//	res, err := load.Run(ctx, load.Options{Clients: 64, Duration: 5 * time.Second},
//		func(i int) (load.Client, error) { return dial(i) })
//	fmt.Println(res)
package load

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// A Client sends requests one after the other. [Run] uses each from one goroutine only.
type Client interface {
	// Do sends one request and waits for its answer. A refusal is an error.
	Do() error
	// Close frees the client's connection.
	Close() error
}

// A Preparer is a Client that makes its next request before its time is measured.
type Preparer interface {
	Prepare()
}

// Limits of one run.
const (
	MaxClients  = 4096
	MaxDuration = 10 * time.Minute
)

// Options bound a run. One of Duration and Requests is required.
type Options struct {
	Clients  int           // clients at once, 1 to MaxClients
	Duration time.Duration // longest time, at most MaxDuration; 0: MaxDuration
	Requests uint64        // requests in total; 0: no limit
	Warmup   time.Duration // time at the beginning that does not count
}

// A Result holds the measurements of a run.
type Result struct {
	Requests uint64        // answered without an error
	Errors   uint64        // refused, lost or broken
	First    error         // one of the errors, nil if there was none
	Elapsed  time.Duration // measured time, warm-up excluded
	latency  histogram
}

// PerSecond returns the rate of answered requests.
func (r *Result) PerSecond() float64 {
	if r.Elapsed <= 0 {
		return 0
	}
	return float64(r.Requests) / r.Elapsed.Seconds()
}

// Percentile returns the latency that the share p of requests, 0 to 1, did not
// exceed; exact to 2 %.
func (r *Result) Percentile(p float64) time.Duration { return r.latency.percentile(p) }

// String returns the result in one line.
func (r *Result) String() string {
	return fmt.Sprintf("%.0f requests/s, p50 %v, p99 %v, %d requests in %v, %d errors",
		r.PerSecond(), round(r.Percentile(0.5)), round(r.Percentile(0.99)), r.Requests, round(r.Elapsed), r.Errors)
}

func round(d time.Duration) time.Duration {
	switch {
	case d < time.Millisecond:
		return d.Round(time.Microsecond)
	case d < time.Second:
		return d.Round(10 * time.Microsecond)
	}
	return d.Round(10 * time.Millisecond)
}

// LoopbackOnly returns an error unless address, "host:port", is a literal
// loopback address: a load generator has no business elsewhere.
func LoopbackOnly(address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("load: %q is not host:port", address)
	}
	if host == "localhost" {
		return nil
	}
	addr, err := netip.ParseAddr(host)
	if err != nil || !addr.Unmap().IsLoopback() {
		return fmt.Errorf("load: %q is not a loopback address; load is sent nowhere else", address)
	}
	return nil
}

// Run makes the clients, lets them work, and closes them. It stops early when
// ctx ends. A client that fails to connect ends the run with an error; failing
// requests are counted.
func Run(ctx context.Context, o Options, connect func(i int) (Client, error)) (*Result, error) {
	if o.Clients < 1 || o.Clients > MaxClients {
		return nil, fmt.Errorf("load: %d clients, want 1 to %d", o.Clients, MaxClients)
	}
	if o.Duration < 0 || o.Duration > MaxDuration || o.Duration == 0 && o.Requests == 0 {
		return nil, fmt.Errorf("load: duration %v, want up to %v, or a number of requests", o.Duration, MaxDuration)
	}
	if o.Duration == 0 {
		o.Duration = MaxDuration
	}
	clients := make([]Client, 0, o.Clients)
	defer func() {
		for _, c := range clients {
			c.Close()
		}
	}()
	for i := range o.Clients {
		c, err := connect(i)
		if err != nil {
			return nil, fmt.Errorf("load: client %d of %d: %w", i+1, o.Clients, err)
		}
		clients = append(clients, c)
	}
	return drive(ctx, o, clients), nil
}

func drive(ctx context.Context, o Options, clients []Client) *Result {
	ctx, cancel := context.WithTimeout(ctx, o.Warmup+o.Duration)
	defer cancel()
	var budget atomic.Int64
	budget.Store(math.MaxInt64)
	if o.Requests > 0 {
		budget.Store(int64(min(o.Requests, math.MaxInt64)))
	}
	begin := time.Now().Add(o.Warmup)
	parts := make([]Result, len(clients))
	var wg sync.WaitGroup
	for i, c := range clients {
		wg.Go(func() { parts[i].work(ctx, c, begin, &budget) })
	}
	wg.Wait()
	total := &Result{Elapsed: time.Since(begin)}
	for i := range parts {
		p := &parts[i]
		total.Requests += p.Requests
		total.Errors += p.Errors
		if total.First == nil {
			total.First = p.First
		}
		total.latency.merge(&p.latency)
	}
	return total
}

// maxErrors is how many failed requests end a client.
const maxErrors = 1000

func (r *Result) work(ctx context.Context, c Client, begin time.Time, budget *atomic.Int64) {
	preparer, prepares := c.(Preparer)
	for ctx.Err() == nil && r.Errors < maxErrors {
		if prepares {
			preparer.Prepare()
		}
		start := time.Now()
		counted := !start.Before(begin)
		if counted && budget.Add(-1) < 0 {
			return
		}
		err := c.Do()
		if !counted {
			continue
		}
		if err != nil {
			r.Errors++
			if r.First == nil {
				r.First = err
			}
			if errors.Is(err, net.ErrClosed) {
				return
			}
			continue
		}
		r.Requests++
		r.latency.add(time.Since(start))
	}
}

// A histogram counts durations in buckets 1/32 of an octave wide.
type histogram struct {
	counts [64 * 32]uint64
	n      uint64
}

func (h *histogram) add(d time.Duration) {
	h.counts[bucket(uint64(max(d, 1)))]++
	h.n++
}

// bucket returns 32 buckets for each power of two.
func bucket(ns uint64) int {
	exp := max(bits.Len64(ns)-6, 0)
	return exp*32 + int(ns>>exp)
}

// middle returns the middle of bucket i in nanoseconds.
func middle(i int) uint64 {
	exp, low := 0, i
	if i >= 64 {
		exp = i/32 - 1
		low = i - exp*32
	}
	return (uint64(low)<<exp + uint64(low+1)<<exp) / 2
}

func (h *histogram) merge(g *histogram) {
	for i, n := range g.counts {
		h.counts[i] += n
	}
	h.n += g.n
}

func (h *histogram) percentile(p float64) time.Duration {
	want := uint64(math.Ceil(p * float64(h.n)))
	var sum uint64
	for i, n := range h.counts {
		sum += n
		if n > 0 && sum >= want {
			return time.Duration(middle(i))
		}
	}
	return 0
}
