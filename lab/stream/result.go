package stream

import (
	"fmt"
	"io"
	"math"
	"slices"

	"gonum.org/v1/plot/vg/draw"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/lab/figure"
	"github.com/bulkhead-mail/bulkhead/lab/reliability"
)

// Large is how many copies a campaign must have for its first catch to be measured.
const Large = 10

// Counts is what became of the mail of one kind.
type Counts struct {
	Copies     int `json:"copies"`
	Spam       int `json:"spam"`       // called spam
	Suspected  int `json:"suspected"`  // suspected, and not spam
	Complaints int `json:"complaints"` // recipients who called it spam
	Objections int `json:"objections"` // recipients who said that it is not spam
}

// A RunResult is the outcome of one stream.
type RunResult struct {
	Seed  uint64            `json:"seed"`
	Kinds map[string]Counts `json:"kinds"`
	// Campaigns is how many campaigns of spam and clones had [Large] copies or more. First is
	// the median over them of how many copies passed before the first was called spam, and
	// FirstMarked before the first was called spam or suspected. Where none was, all copies
	// passed.
	Campaigns   int     `json:"campaigns"`
	First       float64 `json:"first"`
	FirstMarked float64 `json:"first_marked"`
	// ByCopy is what became of the copies of spam by their place in their campaign; [Steps]
	// has the places.
	ByCopy []Counts `json:"by_copy"`
	// Reliability is how many of the copies answered with a confidence were spam; nil of
	// rules that state none.
	Reliability *reliability.Table `json:"reliability,omitempty"`
}

// Steps are the first places in a campaign of the entries of [RunResult].ByCopy.
var Steps = []int{1, 2, 3, 4, 6, 9, 13, 20, 30, 50, 80, 130, 200, 300, 500}

// An Estimate is a mean over runs. Error is half the 95 % confidence interval, over the
// choices that a seed makes with the same messages, and Cases the number of cases in all runs
// together.
type Estimate struct {
	Mean  float64 `json:"mean"`
	Error float64 `json:"error"`
	Cases int     `json:"cases"`
}

// A Result is the outcome of the streams of one setting.
type Result struct {
	Options   Options             `json:"options"`
	Messages  int                 `json:"messages"`
	Runs      []*RunResult        `json:"runs"`
	Spam      map[string]Estimate `json:"spam"`      // percent of the copies, by kind, called spam
	Suspected map[string]Estimate `json:"suspected"` // likewise suspected
	// First and FirstMarked are of the runs' medians, in copies.
	First       Estimate `json:"first"`
	FirstMarked Estimate `json:"first_marked"`
}

// Reliability returns how many of the copies answered with a confidence were spam, in all runs
// together; it is empty of rules that state no confidence.
func (r *Result) Reliability() *reliability.Table {
	var all reliability.Table
	for _, run := range r.Runs {
		if run.Reliability != nil {
			all.Merge(run.Reliability)
		}
	}
	return &all
}

// estimate computes what the result says of all runs together.
func (r *Result) estimate() {
	r.Spam, r.Suspected = map[string]Estimate{}, map[string]Estimate{}
	for k := range NumKinds {
		name := k.String()
		var spam, suspected []float64
		cases := 0
		for _, run := range r.Runs {
			if c := run.Kinds[name]; c.Copies > 0 {
				cases += c.Copies
				spam = append(spam, percent(c.Spam, c.Copies))
				suspected = append(suspected, percent(c.Suspected, c.Copies))
			}
		}
		if cases > 0 {
			r.Spam[name], r.Suspected[name] = estimate(spam, cases), estimate(suspected, cases)
		}
	}
	var first, marked []float64
	cases := 0
	for _, run := range r.Runs {
		if run.Campaigns > 0 {
			cases += run.Campaigns
			first, marked = append(first, run.First), append(marked, run.FirstMarked)
		}
	}
	r.First, r.FirstMarked = estimate(first, cases), estimate(marked, cases)
}

func percent(n, of int) float64 { return 100 * float64(n) / float64(of) }

// student is the 97.5 % quantile of Student's distribution, by degrees of freedom
// from 1; the last stands for all beyond.
var student = []float64{
	12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
	2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
}

// estimate returns the mean of values and its error, 0 for a single value.
func estimate(values []float64, cases int) Estimate {
	e := Estimate{Cases: cases}
	if len(values) == 0 {
		return e
	}
	for _, v := range values {
		e.Mean += v / float64(len(values))
	}
	if len(values) == 1 {
		return e
	}
	squares := 0.0
	for _, v := range values {
		squares += (v - e.Mean) * (v - e.Mean)
	}
	free := len(values) - 1
	e.Error = student[min(free, len(student))-1] * math.Sqrt(squares/float64(free)/float64(len(values)))
	return e
}

// A tally counts one run while it is played.
type tally struct {
	reliability reliability.Table
	kinds       [NumKinds]Counts
	byCopy      []Counts
	campaigns   []progress
}

// progress is the state of a campaign: its copies so far, and how many of them passed before
// one was called spam, and before one was called spam or suspected; -1 if none was.
type progress struct {
	spam          bool
	copies        int
	first, marked int
}

func newTally(p *plan) *tally {
	t := &tally{campaigns: make([]progress, len(p.sizes)), byCopy: make([]Counts, len(Steps))}
	for i := range t.campaigns {
		t.campaigns[i].first, t.campaigns[i].marked = -1, -1
	}
	return t
}

// delivered counts a copy that was judged.
func (t *tally) delivered(d *delivery, verdict answer) {
	class := verdict.class
	if !d.early {
		t.reliability.Add(class, verdict.confidence, d.letter.Kind.Spam())
		t.kinds[d.letter.Kind].add(class)
	}
	c := &t.campaigns[d.campaign]
	c.spam = d.letter.Kind.Spam()
	if c.spam && !d.early {
		t.byCopy[step(c.copies+1)].add(class)
	}
	if class == bulkhead.ClassSpam && c.first < 0 {
		c.first = c.copies
	}
	if class >= bulkhead.ClassSuspected && c.marked < 0 {
		c.marked = c.copies
	}
	c.copies++
}

// step returns the entry of Steps that the nth copy of a campaign belongs to.
func step(n int) int {
	i, exact := slices.BinarySearch(Steps, n)
	if exact {
		return i
	}
	return i - 1
}

func (c *Counts) add(class bulkhead.Class) {
	c.Copies++
	switch class {
	case bulkhead.ClassSpam:
		c.Spam++
	case bulkhead.ClassSuspected:
		c.Suspected++
	}
}

// spoke counts what a recipient said of a delivery.
func (t *tally) spoke(d *delivery, vote bulkhead.Vote) {
	switch {
	case d.early:
	case vote == bulkhead.Spam:
		t.kinds[d.letter.Kind].Complaints++
	default:
		t.kinds[d.letter.Kind].Objections++
	}
}

func (t *tally) result(p *plan) *RunResult {
	r := &RunResult{Kinds: map[string]Counts{}, ByCopy: t.byCopy}
	for k, c := range t.kinds {
		if c.Copies > 0 {
			r.Kinds[Kind(k).String()] = c
		}
	}
	var first, marked []int
	for i, c := range t.campaigns {
		if !c.spam || p.early[i] || p.sizes[i] < Large {
			continue
		}
		first = append(first, passed(c.first, c.copies))
		marked = append(marked, passed(c.marked, c.copies))
	}
	r.Campaigns, r.First, r.FirstMarked = len(first), median(first), median(marked)
	return r
}

func passed(first, copies int) int {
	if first < 0 {
		return copies
	}
	return first
}

// median returns the median, or 0 if there are no values.
func median(values []int) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	n := len(values)
	return float64(values[(n-1)/2]+values[n/2]) / 2
}

// Title describes the setting of the result in a few words.
func (r *Result) Title() string {
	title := fmt.Sprintf("%g %% report, %s", 100*r.Options.Reporting, r.Options.sites())
	if r.Options.Rule != Node {
		title += ": " + string(r.Options.Rule)
	}
	return title
}

func (o *Options) sites() string {
	if o.Lone {
		return "each site alone"
	}
	return fmt.Sprintf("%d sites share", o.Sites)
}

// Results are the outcomes of several settings.
type Results []*Result

// PlotSVG draws, as SVG, which share of the copies of spam was called spam by their place in
// their campaign.
func (r Results) PlotSVG(w io.Writer) error { return r.figure().Draw(w, "svg") }

// PlotPNG is [Results.PlotSVG] as PNG.
func (r Results) PlotPNG(w io.Writer) error { return r.figure().Draw(w, "png") }

func (r Results) figure() *figure.Figure {
	f := &figure.Figure{
		Name: "stream", Title: "Spam caught by its place in its campaign", XLabel: "copy",
		YLabel: "called spam, % (dashed: or suspected)",
		LogX:   true, YMax: 105, LegendBottom: true,
	}
	for i, result := range r {
		caught := figure.Series{Label: result.Title(), Color: figure.Palette(i), Shape: figure.Shapes(i)}
		marked := figure.Series{Color: figure.Palette(i), Dashed: true, Shape: draw.GlyphDrawer(nil)}
		for s, from := range Steps {
			var all Counts
			for _, run := range result.Runs {
				c := run.ByCopy[s]
				all.Copies, all.Spam, all.Suspected = all.Copies+c.Copies, all.Spam+c.Spam, all.Suspected+c.Suspected
			}
			if all.Copies == 0 {
				continue
			}
			caught.Xs, caught.Ys = append(caught.Xs, float64(from)), append(caught.Ys, percent(all.Spam, all.Copies))
			marked.Xs, marked.Ys = append(marked.Xs, float64(from)),
				append(marked.Ys, percent(all.Spam+all.Suspected, all.Copies))
		}
		f.Series = append(f.Series, caught, marked)
	}
	return f
}
