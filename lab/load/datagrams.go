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

// A Traffic is what sockets sent and received in the measured time.
type Traffic struct {
	Answered, Lost, Refused uint64
	Spent                   time.Duration   // processor time of the server, 0 if its process is unknown
	first                   error           // a refusal
	latencies               []time.Duration // of every 16th answer
}

// Measure drives all sockets to the end. It returns an error if a socket failed or a request was
// refused.
func (d *Datagrams) Measure(ctx context.Context) (*Traffic, error) {
	if err := LoopbackOnly(d.Address); err != nil {
		return nil, err
	}
	if d.Sockets < 1 || d.Sockets > maxSockets || d.Window < 1 || d.Window > maxWindow || d.Duration <= 0 ||
		d.Duration > MaxDuration {
		return nil, fmt.Errorf("%d sockets of %d requests for %v: limits %d, %d and %v", d.Sockets, d.Window, d.Duration,
			maxSockets, maxWindow, MaxDuration)
	}
	begin := time.Now().Add(d.Warmup)
	end := begin.Add(d.Duration)
	results := make([]Traffic, d.Sockets)
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
	total := Traffic{Spent: ProcessorTime(d.Pid) - before}
	for i := range results {
		r := &results[i]
		total.Answered, total.Lost, total.Refused = total.Answered+r.Answered, total.Lost+r.Lost, total.Refused+r.Refused
		total.latencies = append(total.latencies, r.latencies...)
		if total.first == nil {
			total.first = r.first
		}
	}
	slices.Sort(total.latencies)
	if total.first != nil {
		errs = append(errs, fmt.Errorf("a refusal: %w", total.first))
	}
	return &total, errors.Join(errs...)
}

// Run is [Datagrams.Measure], and prints the traffic to out in one line.
func (d *Datagrams) Run(ctx context.Context, out io.Writer, what string) error {
	t, err := d.Measure(ctx)
	if t == nil {
		return err
	}
	fmt.Fprintf(out, "%s: %.0f/s, p50 %v, p99 %v, %d answered, %d lost, %d refused", what,
		float64(t.Answered)/d.Duration.Seconds(), t.percentile(0.5), t.percentile(0.99), t.Answered, t.Lost, t.Refused)
	if d.Pid != 0 && t.Answered > 0 {
		fmt.Fprintf(out, ", server %.2f us of processor each", float64(t.Spent.Microseconds())/float64(t.Answered))
	}
	fmt.Fprintln(out)
	return err
}

// percentile returns the latency that the share p of answers did not exceed.
func (t *Traffic) percentile(p float64) time.Duration {
	if len(t.latencies) == 0 {
		return 0
	}
	return t.latencies[int(p*float64(len(t.latencies)-1))].Round(10 * time.Microsecond)
}

// A flight is one request on its way.
type flight struct {
	tag  uint32
	sent time.Time
}

// drive keeps the window of one socket full until the end.
func (d *Datagrams) drive(ctx context.Context, socket int, begin, end time.Time, r *Traffic) error {
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
			r.Lost += uint64(len(free))
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
				r.Refused++
				r.first = err
			default:
				if r.Answered++; r.Answered%16 == 0 {
					r.latencies = append(r.latencies, arrived.Sub(flights[slot].sent))
				}
			}
		}
		for slot := range flights {
			if f := &flights[slot]; f.tag != 0 && arrived.Sub(f.sent) > patience {
				f.tag = 0
				free = append(free, slot)
				r.Lost++
			}
		}
	}
	return nil
}
