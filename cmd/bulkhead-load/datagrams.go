package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/bulkhead-mail/bulkhead/internal/loadgen"
	"github.com/bulkhead-mail/bulkhead/internal/mmsg"
)

// A datagrams measures a server of datagrams: so many sockets, each with a
// window of requests outstanding, sent and received in batches so that the
// generator takes little of the processor that it shares with the server.
type datagrams struct {
	address          string
	sockets, window  int
	duration, warmup time.Duration
	single           bool
	pid              int // of the server, for its processor time; 0: unknown

	// request appends request number n with the given tag, which the answer
	// brings back. answer returns the tag of an answer, or an error.
	request func(dst []byte, tag uint32, n uint64) []byte
	answer  func(data []byte) (tag uint32, err error)
}

// Limits of one run.
const (
	maxSockets = 64
	maxWindow  = 1024
)

func (d *datagrams) flags(cmd *cobra.Command, address string) {
	f := cmd.Flags()
	f.StringVar(&d.address, "address", address, "loopback host:port of the server")
	f.IntVar(&d.sockets, "sockets", 8, "sockets at once")
	f.IntVar(&d.window, "window", 64, "requests outstanding on each")
	f.DurationVar(&d.duration, "duration", 5*time.Second, "measured time")
	f.DurationVar(&d.warmup, "warmup", time.Second, "time before that, not counted")
	f.BoolVar(&d.single, "single", false, "send each request as a datagram of its own, not in trains that the kernel cuts")
	f.IntVar(&d.pid, "pid", 0, "process id of the server, to tell the processor time of a request; 0: not told")
}

// A datagramResult is what one socket saw.
type datagramResult struct {
	answered, lost, refused uint64
	first                   error
	latencies               []time.Duration // of every 16th answer
}

func (d *datagrams) run(ctx context.Context, out io.Writer, what string) error {
	if err := loadgen.LoopbackOnly(d.address); err != nil {
		return err
	}
	if d.sockets < 1 || d.sockets > maxSockets || d.window < 1 || d.window > maxWindow || d.duration <= 0 || d.duration > loadgen.MaxDuration {
		return fmt.Errorf("%d sockets of %d requests for %v: limits %d, %d and %v", d.sockets, d.window, d.duration, maxSockets, maxWindow, loadgen.MaxDuration)
	}
	begin := time.Now().Add(d.warmup)
	end := begin.Add(d.duration)
	results := make([]datagramResult, d.sockets)
	errs := make([]error, d.sockets)
	var wg sync.WaitGroup
	for i := range d.sockets {
		wg.Go(func() { errs[i] = d.drive(ctx, i, begin, end, &results[i]) })
	}
	select {
	case <-time.After(time.Until(begin)):
	case <-ctx.Done():
	}
	before := processorTime(d.pid)
	wg.Wait()
	spent := processorTime(d.pid) - before
	var total datagramResult
	for i := range results {
		r := &results[i]
		total.answered, total.lost, total.refused = total.answered+r.answered, total.lost+r.lost, total.refused+r.refused
		total.latencies = append(total.latencies, r.latencies...)
		if total.first == nil {
			total.first = r.first
		}
	}
	fmt.Fprintf(out, "%s: %.0f/s, p50 %v, p99 %v, %d answered, %d lost, %d refused",
		what, float64(total.answered)/d.duration.Seconds(), percentile(total.latencies, 0.5), percentile(total.latencies, 0.99),
		total.answered, total.lost, total.refused)
	if d.pid != 0 && total.answered > 0 {
		fmt.Fprintf(out, ", server %.2f us of processor each", float64(spent.Microseconds())/float64(total.answered))
	}
	fmt.Fprintln(out)
	if total.first != nil {
		errs = append(errs, fmt.Errorf("a refusal: %w", total.first))
	}
	return errors.Join(errs...)
}

func percentile(l []time.Duration, p float64) time.Duration {
	if len(l) == 0 {
		return 0
	}
	slices.Sort(l)
	return l[int(p*float64(len(l)-1))].Round(10 * time.Microsecond)
}

// A flight is one request on its way.
type flight struct {
	tag  uint32
	sent time.Time
}

// drive keeps the window of one socket full until the end.
func (d *datagrams) drive(ctx context.Context, socket int, begin, end time.Time, r *datagramResult) error {
	c, err := net.Dial("udp", d.address)
	if err != nil {
		return err
	}
	defer c.Close()
	in, err1 := mmsg.NewReader(c.(*net.UDPConn), d.window, 0)
	out, err2 := mmsg.NewWriter(c.(*net.UDPConn), d.window)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	if d.single {
		out.Single()
	}
	stop := context.AfterFunc(ctx, func() { c.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	answers, buffers := make([][]byte, d.window), make([][]byte, d.window)
	for i := range answers {
		answers[i] = make([]byte, 2048)
		in.SetBuffer(i, answers[i])
	}
	flights := make([]flight, d.window)
	free := make([]int, d.window)
	for i := range free {
		free[i] = i
	}
	number, round := uint64(0), uint32(0)
	const patience = 2 * time.Second
	for now := time.Now(); now.Before(end) && ctx.Err() == nil; now = time.Now() {
		for _, slot := range free {
			round++
			tag := round*uint32(d.window) + uint32(slot)
			flights[slot] = flight{tag, now}
			number++
			buffers[slot] = d.request(buffers[slot][:0], tag, number*uint64(d.sockets)+uint64(socket))
			out.Add(nil, nil, buffers[slot])
		}
		if _, refused := out.Flush(); refused > 0 {
			return fmt.Errorf("%d requests could not be sent to %s", refused, d.address)
		}
		free = free[:0]
		c.SetReadDeadline(now.Add(patience))
		n, err := in.Read()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			// Nothing came for so long: all that is outstanding is lost.
			for slot := range flights {
				free = append(free, slot)
			}
			r.lost += uint64(len(free))
			continue
		}
		if err != nil {
			return err
		}
		arrived := time.Now()
		for i := range n {
			tag, err := d.answer(answers[i][:in.Len(i)])
			slot := int(tag % uint32(d.window))
			if flights[slot].tag != tag {
				continue // answered before, or given up
			}
			flights[slot].tag = 0
			free = append(free, slot)
			switch {
			case arrived.Before(begin) || arrived.After(end):
			case err != nil:
				r.refused++
				r.first = err
			default:
				if r.answered++; r.answered%16 == 0 {
					r.latencies = append(r.latencies, arrived.Sub(flights[slot].sent))
				}
			}
		}
		for slot := range flights {
			if f := &flights[slot]; f.tag != 0 && arrived.Sub(f.sent) > patience {
				f.tag = 0
				free = append(free, slot)
				r.lost++
			}
		}
	}
	return nil
}
