package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/bulkhead-mail/bulkhead/internal/cli"
	"github.com/bulkhead-mail/bulkhead/lab/learning"
	"github.com/bulkhead-mail/bulkhead/lab/real"
	"github.com/bulkhead-mail/bulkhead/lab/stream"
)

// A realCommand is the flags of the command.
type realCommand struct {
	seed       uint64
	worlds     int
	size       int
	topologies []string
	jobs       int
	after      time.Duration
	heldOut    string
	program    string
	compare    bool
	bounds     bool
	file       string // for the results as JSON
	answers    string // file for the answer to each delivery
	wantedLost float64
	unlearned  bool
	condemn    bool

	commercial int
	further    bool
	collection real.CollectionOptions
}

func newRealCommand() *cobra.Command {
	var c realCommand
	cmd := &cobra.Command{
		Use:   "real [--seed N] [--worlds N] [--json FILE] [MAIL...]",
		Short: "Judge real processes by whole mail, through their doors and the shipped ways to report",
		Long: "Build the program as releases are, with a clock that can be moved, and run it: one node,\n" +
			"three nodes that share, an edge in front of a node, or five nodes\n" +
			"that share votes and words. Play worlds of made-up mail to these\n" +
			"processes, or with MAIL the real mail of collections: whole messages through milter, HTTP\n" +
			"and dccifd, votes by Dovecot's script, abuse mailboxes, plugins and Pyzor. Print how much\n" +
			"was called spam, by kind, with 95 % confidence intervals that take campaigns as clusters.\n\n" +
			"MAIL is a folder as for \"bulkhead-lab stream\". All traffic is on loopback addresses.",
		RunE: c.run,
	}
	f := cmd.Flags()
	f.Uint64Var(&c.seed, "seed", 1, "seed of the first world")
	f.IntVar(&c.worlds, "worlds", 6, "worlds that are drawn, each from a seed of its own")
	f.IntVar(&c.size, "size", real.DefaultSize, "deliveries of a world, at most, about")
	f.StringSliceVar(&c.topologies, "topology", []string{"one", "three", "edge"},
		"processes of the worlds in turn: one, three, five, edge")
	f.IntVar(&c.jobs, "jobs", 2, "worlds that are played at the same time")
	f.DurationVar(&c.after, "after", 0, "count only what is delivered after this time of a world, for example 72h")
	f.StringVar(&c.heldOut, "held-out", "",
		"`FILE` with the seed that was made at release: every tenth world is drawn from it")
	f.StringVar(&c.program, "program", "", "`FILE` of a program built with the tag simclock; otherwise it is built")
	f.BoolVar(&c.compare, "compare", false,
		"also play each world to a node in this process, as \"stream\" does, and print the differences")
	f.BoolVar(&c.bounds, "bounds", false,
		"play the kinds of mail that have bounds, or those named, and compare with the bounds")
	f.Float64Var(&c.wantedLost, "wanted-lost", 2, "wanted_lost in the configuration of the nodes")
	f.BoolVar(&c.unlearned, "unlearned", false, "do not learn words and style")
	f.BoolVar(&c.condemn, "condemn", false, "let words and style alone make a message spam, from a score of 0.999 on")
	f.StringVar(&c.file, "json", "", "`FILE` for the results as JSON")
	f.StringVar(&c.answers, "answers", "",
		"`FILE` for the class, rule and score of each delivery, one JSON object a line; each mail is checked once more")
	f.Float64Var(&c.collection.PerDay, "per-day", 200, "deliveries of MAIL in a day")
	f.Float64Var(&c.collection.Reporting, "reporting", 0.1, "share of the readers of MAIL who report spam")
	f.Float64Var(&c.collection.Mistakes, "mistakes", 0, "share of the readers of genuine MAIL who report it")
	f.IntVar(&c.collection.Users, "users", 50, "users of each site that receives MAIL")
	f.IntVar(&c.collection.Sites, "sites", len(real.Doors), "sites that receive MAIL")
	f.IntVar(&c.commercial, "commercial", 0, "made messages of each commercial sender, beside MAIL; see learn")
	f.BoolVar(&c.further, "further", false, "take the 20 senders that no rule was chosen with in place of the 30")
	f.Float64Var(&c.collection.Late, "late", 0, "share of the time after which the commercial senders begin, 0 to 1")
	f.BoolVar(&c.collection.Signed, "signed", false,
		"take genuine MAIL without a server's results as signed by its author's domain")
	return cmd
}

// A realPlan is a plan with what it was made of.
type realPlan struct {
	World    *real.World   `json:"world,omitempty"`
	HeldOut  bool          `json:"held_out,omitempty"`
	Topology real.Topology `json:"topology"`
	Seconds  float64       `json:"seconds"`
	Lines    []real.Line   `json:"lines"`
	Quick    []real.Line   `json:"quick,omitempty"` // what one node in this process answered

	bound        *real.Bound
	plan         *real.Plan
	tally, quick *real.Tally
	razor        *real.Tally // of real mail
	answers      []realAnswer
}

func (c *realCommand) run(cmd *cobra.Command, args []string) error {
	plans, err := c.plans(cmd, args)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "bulkhead-real-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if c.program == "" {
		fmt.Fprintln(cmd.ErrOrStderr(), "building the program")
		if c.program, err = real.Build(cmd.Context(), dir, ""); err != nil {
			return err
		}
	} else if c.program, err = filepath.Abs(c.program); err != nil {
		return err
	}
	began := time.Now()
	if err := c.play(cmd, dir, plans); err != nil {
		return err
	}
	if err := c.writeAnswers(plans); err != nil {
		return err
	}
	return c.print(cmd.OutOrStdout(), plans, time.Since(began))
}

// A realAnswer is a line of --answers.
type realAnswer struct {
	Plan     string        `json:"plan"`
	Topology real.Topology `json:"topology"`
	Place    int           `json:"place"` // of the delivery in the plan, from 0
	Spam     bool          `json:"spam"`
	Kind     string        `json:"kind"`
	Campaign int           `json:"campaign"`
	Site     int           `json:"site"`
	Class    string        `json:"class"`
	Rule     string        `json:"rule"`
	Score    float64       `json:"score"`
}

// writeAnswers writes the answers to all deliveries, if a file for them is named.
func (c *realCommand) writeAnswers(plans []*realPlan) error {
	if c.answers == "" {
		return nil
	}
	var b bytes.Buffer
	to := json.NewEncoder(&b)
	for _, p := range plans {
		for _, a := range p.answers {
			if err := to.Encode(a); err != nil {
				return err
			}
		}
	}
	return os.WriteFile(c.answers, b.Bytes(), 0o644)
}

// plans draws the plans.
func (c *realCommand) plans(cmd *cobra.Command, args []string) (plans []*realPlan, err error) {
	if c.collection.Late < 0 || c.collection.Late >= 1 {
		return nil, cli.Usagef("--late %v, want 0 or more, and less than 1", c.collection.Late)
	}
	if c.worlds < 1 || c.size < 1 || c.jobs < 1 || len(c.topologies) == 0 {
		return nil, cli.Usagef("--worlds, --size, --jobs and --topology want at least one")
	}
	for _, t := range c.topologies {
		if !slices.Contains(real.Topologies, real.Topology(t)) {
			return nil, cli.Usagef("--topology %q, want one, three, five or edge", t)
		}
	}
	if c.bounds {
		return c.boundPlans(args)
	}
	if len(args) > 0 {
		var messages []stream.Mail
		for m, err := range streamMail(cmd, args) {
			if err != nil {
				return nil, err
			}
			messages = append(messages, m)
		}
		if c.commercial > 0 {
			made, err := c.made(cmd.Context())
			if err != nil {
				return nil, err
			}
			messages = append(messages, made...)
		}
		for i, t := range c.topologies {
			o := c.collection
			o.Seed = c.seed + uint64(i)
			plans = append(plans, &realPlan{Topology: real.Topology(t), plan: real.Collection(messages, o)})
		}
		return plans, nil
	}
	var heldOut uint64
	if c.heldOut != "" {
		text, err := os.ReadFile(c.heldOut)
		if err != nil {
			return nil, cli.InputError{Err: err}
		}
		if heldOut, err = strconv.ParseUint(strings.TrimSpace(string(text)), 0, 64); err != nil {
			return nil, cli.InputError{Err: fmt.Errorf("%s: no seed: %w", c.heldOut, err)}
		}
	}
	for i := range c.worlds {
		p := &realPlan{Topology: real.Topology(c.topologies[i%len(c.topologies)])}
		seed := c.seed + uint64(i)
		if p.HeldOut = c.heldOut != "" && i%10 == 9; p.HeldOut {
			seed = heldOut + uint64(i)
		}
		p.World = real.NewWorld(seed, c.size)
		p.plan = p.World.Plan()
		plans = append(plans, p)
	}
	return plans, nil
}

// made returns the made mail of commercial senders, verified by DKIM, as a collection that may begin late.
func (c *realCommand) made(ctx context.Context) (out []stream.Mail, err error) {
	senders := learning.Commercial
	if c.further {
		senders = learning.Further
	}
	letters, err := senders(ctx, c.commercial, c.seed)
	for i := range letters {
		raw, err := letters[i].Raw()
		if err != nil {
			return nil, err
		}
		_, domain, _ := strings.Cut(letters[i].From, "@")
		head := fmt.Sprintf("Authentication-Results: mx.made.example; dkim=pass header.d=%s\r\n", domain)
		out = append(out, stream.Mail{Name: letters[i].Name, Set: real.Made, Time: time.Unix(int64(i), 0), Kind: "made",
			Raw: append([]byte(head), raw...)})
	}
	return out, err
}

// boundPlans returns the plans of the named bounds, or of all, each by a topology of its own.
func (c *realCommand) boundPlans(names []string) (plans []*realPlan, err error) {
	bounds := real.Bounds()
	for _, name := range names {
		if !slices.ContainsFunc(bounds, func(b real.Bound) bool { return b.Name == name }) {
			return nil, cli.Usagef("no bound %q", name)
		}
	}
	for _, b := range bounds {
		if len(names) > 0 && !slices.Contains(names, b.Name) {
			continue
		}
		for i := range c.worlds {
			p := &realPlan{Topology: real.Topology(c.topologies[len(plans)%len(c.topologies)]), bound: &b}
			p.plan = b.Plan(c.seed + uint64(i))
			p.plan.Name = fmt.Sprintf("%s, seed %d", b.Name, c.seed+uint64(i))
			plans = append(plans, p)
		}
	}
	return plans, nil
}

// play plays all plans, several at a time.
func (c *realCommand) play(cmd *cobra.Command, dir string, plans []*realPlan) error {
	progress := newReplayProgress(cmd.ErrOrStderr())
	defer progress.end()
	total := 0
	for _, p := range plans {
		total += len(p.plan.Deliveries)
	}
	var shown sync.Mutex
	var done atomic.Int64
	step := func(int, int) {
		n := done.Add(1)
		shown.Lock()
		defer shown.Unlock()
		progress.show("playing", int(n), total)
	}
	errs := make([]error, len(plans))
	free := make(chan struct{}, c.jobs)
	var all sync.WaitGroup
	for i, p := range plans {
		free <- struct{}{}
		all.Go(func() {
			defer func() { <-free }()
			errs[i] = c.playOne(cmd, filepath.Join(dir, fmt.Sprint(i)), p, step)
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

func (c *realCommand) playOne(cmd *cobra.Command, dir string, p *realPlan, step func(int, int)) (err error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	o := real.Options{Topology: p.Topology, Dir: dir, After: c.after, Progress: step,
		Config: fmt.Sprintf("[judgement]\nwanted_lost = %g\n", c.wantedLost)}
	if c.unlearned {
		o.Learn += "enabled = false\n"
	}
	if c.condemn {
		o.Learn += "condemn = true\n"
	}
	if c.answers != "" {
		o.Answered = func(place int, d *real.Delivery, a real.Answer) {
			p.answers = append(p.answers, realAnswer{p.plan.Name, p.Topology, place, d.Spam, d.Kind, d.Campaign, d.Site,
				a.Class.String(), a.Rule, a.Score})
		}
	}
	if p.tally, err = real.Run(cmd.Context(), c.program, p.plan, o); err != nil {
		return fmt.Errorf("%s, %s: %w", p.plan.Name, p.Topology, err)
	}
	p.Seconds, p.Lines = p.tally.Seconds, p.tally.Lines()
	if p.bound == nil && p.World == nil {
		if p.razor, err = real.Razor(cmd.Context(), p.plan, real.Options{After: c.after}); err != nil {
			return err
		}
	}
	if c.compare {
		if p.quick, err = real.Quick(cmd.Context(), p.plan, real.Options{After: c.after}); err != nil {
			return err
		}
		p.Quick = p.quick.Lines()
	}
	return nil
}

// A realResult is what --json writes.
type realResult struct {
	Seed    uint64                       `json:"seed"`
	Size    int                          `json:"size"`
	Seconds float64                      `json:"seconds"` // of the whole run
	Lines   []real.Line                  `json:"lines"`   // of all plans together
	Doors   map[real.Door]int            `json:"doors"`   // deliveries
	Ways    map[real.Way]*real.WayCounts `json:"ways"`
	Reasons []real.ReasonCount           `json:"reasons"`
	Rules   []real.RuleCount             `json:"rules"`
	Plans   []*realPlan                  `json:"plans"`
}

// print prints the sum of all plans, and writes it as JSON.
func (c *realCommand) print(w io.Writer, plans []*realPlan, took time.Duration) error {
	sum, held := real.NewTally(), real.NewTally()
	quick, razor := real.NewTally(), real.NewTally()
	anyHeld := false
	for _, p := range plans {
		sum.Merge(p.tally)
		if p.HeldOut {
			anyHeld = true
			held.Merge(p.tally)
		}
		if p.quick != nil {
			quick.Merge(p.quick)
		}
		if p.razor != nil {
			razor.Merge(p.razor)
		}
		fmt.Fprintln(w, p.summary())
	}
	if c.bounds {
		return printBounds(w, plans)
	}
	if err := sum.Print(w); err != nil {
		return err
	}
	for _, l := range razor.Lines() {
		if l.Dimension == "kind" && l.Name != "all" || l.Dimension == "verified" {
			fmt.Fprintf(w, "Razor's digests: %.1f %% of %d %s, %s %s, called spam (%.1f to %.1f)\n", l.CalledSpam.Percent,
				l.Cases, map[bool]string{true: "spam", false: "genuine"}[l.IsSpam], l.Dimension, l.Name, l.CalledSpam.Low,
				l.CalledSpam.High)
		}
	}
	if anyHeld {
		fmt.Fprintln(w, "\nHeld-out worlds alone:")
		if err := held.Print(w); err != nil {
			return err
		}
	}
	if c.compare {
		if err := printAgreement(w, sum.Lines(), quick.Lines()); err != nil {
			return err
		}
	}
	fmt.Fprintf(w, "\n%d plans in %.0f s.\n", len(plans), took.Seconds())
	if c.file == "" {
		return nil
	}
	text, err := json.MarshalIndent(realResult{
		Seed: c.seed, Size: c.size, Seconds: took.Seconds(), Lines: sum.Lines(), Doors: sum.Doors, Ways: sum.Ways,
		Reasons: sum.Reasons(), Rules: sum.Rules(), Plans: plans,
	}, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(c.file, append(text, '\n'), 0o644)
}

// printBounds compares what was measured with the bounds. It returns an error if one is not kept.
func printBounds(w io.Writer, plans []*realPlan) error {
	var bounds []*real.Bound
	tallies := map[string]*real.Tally{}
	for _, p := range plans {
		if tallies[p.bound.Name] == nil {
			bounds = append(bounds, p.bound)
			tallies[p.bound.Name] = real.NewTally()
		}
		tallies[p.bound.Name].Merge(p.tally)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "\nbound\tmail\tcases\tmeasure\tmeasured %%\t\tmust be\tkept\t\n")
	broken := 0
	for _, b := range bounds {
		for _, r := range b.Results(tallies[b.Name]) {
			kept := "yes"
			if !r.Kept {
				kept = "NO"
				broken++
			}
			fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%s\t%s\t%s\t\n", b.Name, r.Group.Name, r.Cases, r.Measure, r.Share,
				r.Limit, kept)
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, b := range bounds {
		if err := tallies[b.Name].PrintReasons(w, b.Name); err != nil {
			return err
		}
	}
	if broken > 0 {
		return fmt.Errorf("%d bounds are not kept", broken)
	}
	return nil
}

// summary describes a plan in a line.
func (p *realPlan) summary() string {
	text := fmt.Sprintf("%s, %s: %d deliveries to %d sites, %.0f %% of the spam after a report of its campaign",
		p.plan.Name, p.Topology, len(p.plan.Deliveries), len(p.plan.Sites), 100*p.plan.AfterReport())
	if w := p.World; w != nil {
		text += fmt.Sprintf(" in %.1f days, %.0f genuine a day, %.0f %% spam", w.Days, w.HamPerDay, 100*w.SpamShare)
	}
	return text
}

// printAgreement prints the kinds of two results side by side.
func printAgreement(w io.Writer, processes, quick []real.Line) error {
	type id struct {
		spam bool
		name string
	}
	one := map[id]real.Line{}
	for _, l := range quick {
		if l.Dimension == "kind" {
			one[id{l.IsSpam, l.Name}] = l
		}
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "\n\tcases\tcalled spam %%\tin one process\tdifference\tsuspected %%\tin one process\tdifference\t\n")
	for _, l := range processes {
		if l.Dimension != "kind" {
			continue
		}
		name := l.Name
		if name == "all" {
			name = map[bool]string{true: "all spam", false: "all genuine"}[l.IsSpam]
		}
		spam, suspected := l.CalledSpam.Percent, l.Suspect.Percent
		e := one[id{l.IsSpam, l.Name}]
		fmt.Fprintf(t, "%s\t%d\t%.1f\t%.1f\t%+.1f\t%.1f\t%.1f\t%+.1f\t\n", name, l.Cases,
			spam, e.CalledSpam.Percent, spam-e.CalledSpam.Percent,
			suspected, e.Suspect.Percent, suspected-e.Suspect.Percent)
	}
	return t.Flush()
}
