// Package gate compares two builds of the server by the processor time of a request at each door.
// It runs both as processes, side by side and in turns, so that other work on the machine slows both.
//
//	rows, err := gate.Compare(ctx, gate.Options{Old: "old/bulkhead", New: "bin/bulkhead", Rounds: 15}, os.Stdout)
package gate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/perf/benchmath"

	"github.com/bulkhead-mail/bulkhead/lab/load"
)

// Options are two builds, and how long to measure them.
type Options struct {
	Old, New string        // paths of the two programs
	Rounds   int           // pairs of measurements of each case, MinRounds to 100
	Slice    time.Duration // length of one measurement, 50 ms to 10 s
	Limit    float64       // ratio new/old above which a case is slower, for example 1.1
	Costs    Costs         // what requests take since the old build
	Mail     [][]byte      // whole messages for a further case; nil: there is none
}

// MinRounds is the least number of pairs from which a median has a 95 % confidence interval.
const MinRounds = 6

func (o *Options) validate() error {
	if o.Rounds < MinRounds || o.Rounds > 100 {
		return fmt.Errorf("gate: %d rounds, want %d to 100", o.Rounds, MinRounds)
	}
	if o.Slice < 50*time.Millisecond || o.Slice > 10*time.Second {
		return fmt.Errorf("gate: measurements of %v, want 50ms to 10s", o.Slice)
	}
	if o.Limit <= 1 {
		return fmt.Errorf("gate: limit %v, want more than 1", o.Limit)
	}
	return nil
}

// A Row is the comparison of one case.
type Row struct {
	Case             string
	Old, New         time.Duration // median processor time of the server for each request
	Ratio, Low, High float64       // median of new/old over the rounds, and its 95 % confidence interval
	Missing          error         // why the case was not measured: the old program may lack it
	Cost             Cost          // of the case since the old build; zero: none
}

// Slower reports whether the new build takes more than limit times as long as the old one and the cost of the case,
// with 95 % confidence.
func (r *Row) Slower(limit float64) bool {
	return r.Missing == nil && r.Low > limit*max(1, r.Cost.Ratio)
}

// Compare measures all cases and prints a line for each to out. It returns an error if a program
// does not start, or if the new one refuses a request.
func Compare(ctx context.Context, o Options, out io.Writer) ([]Row, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "bulkhead-gate-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	var nodes [2]*node
	for i, program := range []string{o.Old, o.New} {
		n, err := start(ctx, program, filepath.Join(dir, fmt.Sprint(i)), "", "")
		if err != nil {
			return nil, err
		}
		defer n.stop()
		nodes[i] = n
	}
	fmt.Fprintf(out, "%-22s %10s %10s  %s\n", "request", "old", "new", "new/old, 95 % confidence")
	var rows []Row
	for _, c := range cases(o.Mail) {
		if only := os.Getenv("ONLY"); only != "" && c.name != only {
			continue
		}
		row, err := compare(ctx, c, nodes, o)
		if err != nil {
			return rows, err
		}
		row.Cost = o.Costs.Of[c.name]
		rows = append(rows, row)
		fmt.Fprintln(out, &row)
	}
	return rows, nil
}

// String returns the row as a line of a table.
func (r *Row) String() string {
	if r.Missing != nil {
		return fmt.Sprintf("%-22s not compared: %v", r.Case, r.Missing)
	}
	us := func(d time.Duration) string { return fmt.Sprintf("%.2f us", float64(d)/1e3) }
	text := fmt.Sprintf("%-22s %10s %10s  %.2f (%.2f to %.2f)", r.Case, us(r.Old), us(r.New), r.Ratio, r.Low, r.High)
	if r.Cost.Ratio > 0 {
		text += fmt.Sprintf("; known %.2f: %s", r.Cost.Ratio, r.Cost.Reason)
	}
	return text
}

// compare measures one case at both nodes in turns. Which of the two comes first in a round is
// drawn, because the second one finds a warmer machine.
func compare(ctx context.Context, c benchmark, nodes [2]*node, o Options) (Row, error) {
	row := Row{Case: c.name}
	var each [2][]float64
	ratios := make([]float64, 0, o.Rounds)
	for round := -1; round < o.Rounds; round++ { // the first one warms up
		var took [2]time.Duration
		first := rand.IntN(2)
		for _, i := range []int{first, 1 - first} {
			var err error
			took[i], err = c.measure(ctx, nodes[i], o.Slice)
			if ctx.Err() != nil {
				return row, ctx.Err()
			}
			if err == nil && took[i] <= 0 {
				err = errors.New("no processor time was measured")
			}
			if err != nil && i == 0 {
				row.Missing = fmt.Errorf("old program: %w", err)
				return row, nil
			}
			if err != nil {
				return row, fmt.Errorf("gate: %s, new program: %w", c.name, err)
			}
		}
		if round < 0 {
			continue
		}
		for i := range took {
			each[i] = append(each[i], float64(took[i]))
		}
		ratios = append(ratios, float64(took[1])/float64(took[0]))
	}
	s := summary(ratios)
	row.Old, row.New = time.Duration(summary(each[0]).Center), time.Duration(summary(each[1]).Center)
	row.Ratio, row.Low, row.High = s.Center, s.Lo, s.Hi
	return row, nil
}

func summary(values []float64) benchmath.Summary {
	return benchmath.AssumeNothing.Summary(benchmath.NewSample(values, &benchmath.DefaultThresholds), 0.95)
}

// perRequest measures a run of clients that wait for their answers.
func perRequest(ctx context.Context, n *node, o load.Options, connect func(int) (load.Client, error)) (
	time.Duration, error,
) {
	before := load.ProcessorTime(n.pid())
	res, err := load.Run(ctx, o, connect)
	if err != nil {
		return 0, err
	}
	if res.First != nil {
		return 0, res.First
	}
	if res.Requests == 0 {
		return 0, errors.New("no request was answered")
	}
	return (load.ProcessorTime(n.pid()) - before) / time.Duration(res.Requests), nil
}

// measurements is how often a run of datagrams is measured until one is answered: on a busy machine, a short
// measurement may see no answer.
const measurements = 10

// perDatagram measures a run of datagrams, of which some may be lost.
func perDatagram(ctx context.Context, d *load.Datagrams) (time.Duration, error) {
	for range measurements {
		t, err := d.Measure(ctx)
		if err != nil {
			return 0, err
		}
		if t.Answered > 0 {
			return t.Spent / time.Duration(t.Answered), nil
		}
	}
	return 0, errors.New("no request was answered")
}
