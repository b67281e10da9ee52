package load

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

	"github.com/bulkhead-mail/bulkhead/internal/mmsg"
)

// A Datagrams measures a server of datagrams with a number of sockets, each with a window of
// outstanding requests. It sends and receives in batches, to take little of the processor
// time that it shares with the server.
type Datagrams struct {
	Address          string
	Sockets, Window  int
	Duration, Warmup time.Duration
	Single           bool
	Pid              int // of the server, for its processor time; 0: unknown

	// Request appends request number n with the given tag, which the answer returns. Answer
	// returns the tag of an answer, or an error.
	Request func(dst []byte, tag uint32, n uint64) []byte
	Answer  func(data []byte) (tag uint32, err error)
}

// Limits of one run.
const (
	maxSockets = 64
	maxWindow  = 1024
)

// A datagramResult is what one socket saw.
type datagramResult struct {
	answered, lost, refused uint64
	first                   error
	latencies               []time.Duration // of every 16th answer
}

// Run drives all sockets to the end and prints what they saw to out. It returns an
// error if a request was refused.
func (d *Datagrams) Run(ctx context.Context, out io.Writer, what string) error {
	if err := LoopbackOnly(d.Address); err != nil {
		return err
	}
	if d.Sockets < 1 || d.Sockets > maxSockets || d.Window < 1 || d.Window > maxWindow || d.Duration <= 0 ||
		d.Duration > MaxDuration {
		return fmt.Errorf("%d sockets of %d requests for %v: limits %d, %d and %v", d.Sockets, d.Window, d.Duration,
			maxSockets, maxWindow, MaxDuration)
	}
	begin := time.Now().Add(d.Warmup)
	end := begin.Add(d.Duration)
	results := make([]datagramResult, d.Sockets)
	errs := make([]error, d.Sockets)
	var wg sync.WaitGroup
	for i := range d.Sockets {
		wg.Go(func() { errs[i] = d.drive(ctx, i, begin, end, &results[i]) })
	}
	select {
	case <-time.After(time.Until(begin)):
	case <-ctx.Done():
	}
	before := ProcessorTime(d.Pid)
	wg.Wait()
	spent := ProcessorTime(d.Pid) - before
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
		what, float64(total.answered)/d.Duration.Seconds(), percentile(total.latencies, 0.5), percentile(total.latencies,
			0.99),
		total.answered, total.lost, total.refused)
	if d.Pid != 0 && total.answered > 0 {
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
func (d *Datagrams) drive(ctx context.Context, socket int, begin, end time.Time, r *datagramResult) error {
	c, err := net.Dial("udp", d.Address)
	if err != nil {
		return err
	}
	defer c.Close()
	in, out := mmsg.NewReader(c.(*net.UDPConn), d.Window, 0), mmsg.NewWriter(c.(*net.UDPConn), d.Window)
	if d.Single {
		out.Single()
	}
	stop := context.AfterFunc(ctx, func() { c.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	answers, buffers := make([][]byte, d.Window), make([][]byte, d.Window)
	for i := range answers {
		answers[i] = make([]byte, 2048)
		in.SetBuffer(i, answers[i])
	}
	flights := make([]flight, d.Window)
	free := make([]int, d.Window)
	for i := range free {
		free[i] = i
	}
	number, round := uint64(0), uint32(0)
	const patience = 2 * time.Second
	for now := time.Now(); now.Before(end) && ctx.Err() == nil; now = time.Now() {
		for _, slot := range free {
			round++
			tag := round*uint32(d.Window) + uint32(slot)
			flights[slot] = flight{tag, now}
			number++
			buffers[slot] = d.Request(buffers[slot][:0], tag, number*uint64(d.Sockets)+uint64(socket))
			out.Add(nil, nil, buffers[slot])
		}
		if _, refused := out.Flush(); refused > 0 {
			return fmt.Errorf("%d requests could not be sent to %s", refused, d.Address)
		}
		free = free[:0]
		c.SetReadDeadline(now.Add(patience))
		n, err := in.Read()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			// Nothing has come for so long that everything outstanding is lost.
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
			tag, err := d.Answer(answers[i][:in.Len(i)])
			slot := int(tag % uint32(d.Window))
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
