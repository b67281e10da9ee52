package main

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bulkhead-mail/bulkhead/internal/cli"
	"github.com/bulkhead-mail/bulkhead/internal/mailbox"
	"github.com/bulkhead-mail/bulkhead/internal/units"
	"github.com/bulkhead-mail/bulkhead/lab/reliability"
	"github.com/bulkhead-mail/bulkhead/lab/stream"
)

// A streamCommand is what the flags of the command say.
type streamCommand struct {
	stream.Options
	reporting []float64
	lone      bool
	rules     []string
	templates []string
	// unverified is the share of ham of which nothing is verified.
	unverified float64
	picture    string
	reliable   string // file for the picture of the confidences, "" for none
	json       bool
}

func newStreamCommand() *cobra.Command {
	var s streamCommand
	cmd := &cobra.Command{
		Use:   "stream [--templates DIR] [--json] [--svg FILE] MAIL...",
		Short: "Simulate a month of campaigns, ham and complaints for the users of many sites",
		Long: "Make streams of labelled mail: spam campaigns with heavy-tailed numbers of copies, ham sent\n" +
			"to one recipient, to a list or to many, mail from templates, and clones of that. Each copy goes to a\n" +
			"user of a site, is checked and counted, and may be reported later. Print how much was\n" +
			"called spam, by kind, over several seeds.\n\n" +
			"MAIL is a folder with an index.tsv (columns file, label, time; optionally kind and family).\n" +
			"Spam of one cluster in a clusters.tsv beside it (columns file, cluster) is one campaign. Nothing\n" +
			"is stored, and no node is contacted.",
		Args: cli.Args(cobra.MinimumNArgs(1)),
		RunE: s.run,
	}
	s.Spread = 48 * time.Hour
	f := cmd.Flags()
	f.IntVar(&s.Sites, "sites", 20, "sites that share one node")
	f.BoolVar(&s.lone, "lone", false, "also run the streams with one node for each site")
	f.IntVar(&s.Users, "users", 50, "users of each site")
	f.Float64SliceVar(&s.reporting, "reporting", []float64{0.1},
		"shares of the recipients who report spam, for example 0.1,0.02")
	f.Float64Var(&s.Objecting, "objecting", 0.2, "share of recipients who object to ham called spam")
	f.Float64Var(&s.Mistakes, "mistakes", 1, "factor for the rates of mistaken reports, 0.05 to 0.3 % by kind of ham")
	f.StringSliceVar(&s.templates, "templates", nil,
		"folders of mail from templates and clones, with kinds and families in index.tsv")
	f.Float64Var(&s.unverified, "unverified", 0, "share of the ham without a server's results whose sender was "+
		"not verified")
	f.IntVar(&s.Days, "days", 30, "days that a stream lasts")
	f.Float64Var(&s.Tail, "tail", 1.1, "exponent of the number of copies of a campaign; a smaller one makes larger "+
		"campaigns")
	f.DurationVar(&s.Spread, "spread", s.Spread, "mean time from the first copy of spam to the others")
	f.BoolVar(&s.Apart, "apart", false, "take each message as a campaign of its own, also the messages of one cluster")
	f.DurationVar(&s.After, "after", 0, "count only what is first sent after this time of the stream, for example 168h")
	f.IntVar(&s.Runs, "runs", 5, "streams for each setting, each with its own seed")
	f.Uint64Var(&s.Seed, "seed", 1, "seed of the first stream")
	f.StringSliceVar(&s.rules, "rule", []string{string(stream.Node)},
		"rules that judge: node, and for comparison text-alone, text-or-link, first-report, first-report-of-part")
	f.BoolVar(&s.Exact, "exact", false, "use exact maps instead of filters")
	f.BoolVar(&s.json, "json", false, "print the results as JSON")
	f.StringVar(&s.reliable, "reliability", "", "file for a plot of how much was spam by the confidence of the node "+
		"(.svg or .png)")
	f.StringVar(&s.picture, "svg", "", "file for a plot of the catch rate by position in the campaign (.svg or .png)")
	return cmd
}

func (s *streamCommand) run(cmd *cobra.Command, args []string) error {
	if err := noZero(cmd.Flags()); err != nil {
		return err
	}
	settings, err := s.settings()
	if err != nil {
		return err
	}
	progress := newReplayProgress(cmd.ErrOrStderr())
	defer progress.end()
	letters, err := stream.Read(cmd.Context(), streamMail(cmd, slices.Concat(args, s.templates)), s.unverified,
		func(done int) { progress.show("reading", done, 0) })
	if err != nil {
		return err
	}
	var results stream.Results
	for i, o := range settings {
		o.Progress = func(stage string, done, total int) {
			progress.show(fmt.Sprintf("%s, setting %d of %d", stage, i+1, len(settings)), done, total)
		}
		r, err := stream.Run(cmd.Context(), letters, o)
		if err != nil {
			return err
		}
		results = append(results, r)
	}
	progress.end()
	if s.picture != "" {
		if err := writePicture(s.picture, results); err != nil {
			return err
		}
	}
	if s.reliable != "" {
		if err := writePicture(s.reliable, reliabilityOf(results)); err != nil {
			return err
		}
	}
	if s.json {
		out := json.NewEncoder(cmd.OutOrStdout())
		out.SetIndent("", "  ")
		return out.Encode(results)
	}
	return printStream(cmd.OutOrStdout(), results)
}

// noZero refuses a number of 0, which in the options of a stream would mean the default, of
// all but --after, which has none.
func noZero(flags *pflag.FlagSet) (err error) {
	flags.Visit(func(f *pflag.Flag) {
		switch f.Value.String() {
		case "0", "0s":
			if f.Name == "after" {
				return
			}
			err = cli.Usagef("--%s 0, want more than 0", f.Name)
		}
	})
	return err
}

// settings returns the options of each setting, checked.
func (s *streamCommand) settings() (all []stream.Options, err error) {
	if !(s.unverified >= 0 && s.unverified <= 1) {
		return nil, cli.Usagef("--unverified %v, want a share in [0, 1]", s.unverified)
	}
	alone := []bool{false}
	if s.lone {
		alone = append(alone, true)
	}
	for _, lone := range alone {
		for _, reporting := range s.reporting {
			if reporting == 0 {
				return nil, cli.Usagef("--reporting 0, want more than 0")
			}
			for _, rule := range s.rules {
				o := s.Options
				o.Lone, o.Reporting, o.Rule = lone, reporting, stream.Rule(rule)
				if err := o.Complete(); err != nil {
					return nil, cli.UsageError{Err: err}
				}
				all = append(all, o)
			}
		}
	}
	if len(all) == 0 {
		return nil, cli.Usagef("--reporting and --rule need at least one value each")
	}
	return all, nil
}

// streamMail reads folders with what their indexes and clusters say.
func streamMail(cmd *cobra.Command, dirs []string) iter.Seq2[stream.Mail, error] {
	return func(yield func(stream.Mail, error) bool) {
		for _, dir := range dirs {
			clusters, err := readClusters(dir)
			if err != nil {
				yield(stream.Mail{}, cli.InputError{Err: err})
				return
			}
			for m, err := range mailbox.Read(cmd.Context(), dir, mailbox.Options{}) {
				switch {
				case err != nil:
					err = cli.InputError{Err: err}
				case m.Label == "":
					err = cli.Usagef("%s has no label: want folders with an index.tsv that has them", m.Name())
				}
				if err != nil {
					yield(stream.Mail{}, err)
					return
				}
				if !yield(streamed(dir, m, clusters), nil) {
					return
				}
			}
		}
	}
}

func streamed(dir string, m *mailbox.Message, clusters map[string]string) stream.Mail {
	row := m.Columns
	one := stream.Mail{
		Name: m.Name(), Set: dir, Time: m.Time, Spam: m.Label == mailbox.Spam, Kind: row["kind"], Origin: row["origin"],
		Raw: m.Raw,
	}
	if one.Spam {
		if one.Campaign = clusters[row["file"]]; one.Campaign == "" {
			one.Campaign = row["family"]
		}
	}
	return one
}

// readClusters returns the cluster of each file that a clusters.tsv of the folder
// puts into one, nil if there is none.
func readClusters(dir string) (map[string]string, error) {
	f, err := os.Open(filepath.Join(dir, "clusters.tsv"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	table := csv.NewReader(f)
	table.Comma, table.LazyQuotes = '\t', true
	rows, err := table.ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("%s: no column names", f.Name())
	}
	file, cluster := slices.Index(rows[0], "file"), slices.Index(rows[0], "cluster")
	if file < 0 || cluster < 0 {
		return nil, fmt.Errorf("%s: want columns file and cluster", f.Name())
	}
	clusters := map[string]string{}
	for _, row := range rows[1:] {
		clusters[row[file]] = row[cluster]
	}
	return clusters, nil
}

// printStream prints a column for each setting.
func printStream(w io.Writer, results stream.Results) error {
	o := &results[0].Options
	fmt.Fprintf(w, "%d messages, %d sites of %d users, %s; %s, seeds from %d on. Percent of the copies, ± at 95 %% "+
		"confidence.\n\n",
		results[0].Messages, o.Sites, o.Users, units.Plural(o.Days, "day"), units.Plural(o.Runs, "run"), o.Seed)
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', tabwriter.AlignRight)
	row := func(name string, cell func(*stream.Result) string) {
		fmt.Fprintf(t, "%s\t", name)
		for _, r := range results {
			fmt.Fprintf(t, "%s\t", cell(r))
		}
		fmt.Fprintln(t)
	}
	row("", (*stream.Result).Title)
	for k := range stream.NumKinds {
		name := k.String()
		if results[0].Spam[name].Cases == 0 {
			continue
		}
		row(name+" called spam", func(r *stream.Result) string { return printEstimate(r.Spam[name], 2) })
		row("suspected", func(r *stream.Result) string { return printEstimate(r.Suspected[name], 2) })
		row("copies", func(r *stream.Result) string { return fmt.Sprint(r.Spam[name].Cases) })
	}
	row("copies before the first called spam", func(r *stream.Result) string { return printEstimate(r.First, 1) })
	row("before the first so called or suspected", func(r *stream.Result) string {
		return printEstimate(r.FirstMarked, 1)
	})
	row(fmt.Sprintf("campaigns of %d copies or more", stream.Large), func(r *stream.Result) string {
		return fmt.Sprint(r.First.Cases)
	})
	if err := t.Flush(); err != nil {
		return err
	}
	for _, r := range reliabilityOf(results) {
		fmt.Fprintf(w, "\n%s:\n", r.Name)
		if err := r.Table.Print(w); err != nil {
			return err
		}
	}
	return nil
}

// reliabilityOf returns what settings in which the node judged say of its confidence.
func reliabilityOf(results stream.Results) (all reliability.Picture) {
	for _, r := range results {
		if r.Options.Rule == stream.Node {
			all = append(all, reliability.Named{Name: r.Title(), Table: r.Reliability()})
		}
	}
	return all
}

func printEstimate(e stream.Estimate, digits int) string {
	return fmt.Sprintf("%.*f ± %.*f", digits, e.Mean, digits, e.Error)
}
