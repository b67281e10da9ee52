package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/bulkhead-mail/bulkhead/internal/cli"
	"github.com/bulkhead-mail/bulkhead/lab/study"
	"github.com/bulkhead-mail/bulkhead/lab/study/experiment"
)

func newStudyCommand() *cobra.Command {
	var c experiment.Config
	var draw, family string
	var artefact, check string
	var quiet bool
	cmd := &cobra.Command{
		Use:   "study [--rounds N] [--experiment NAME,...] [--out DIR] [--report DIR | --artefact DIR | --check DIR]",
		Short: "Reproduce the papers' simulations, tables and figures",
		Long: "Repeat the simulations of Yan & Cho (Experiments 1 to 8, Tables I and III to X), Jiang & Zhao and\n" +
			"Finch, and measure what they left open: other hash functions, merging, split storage, false bulk verdicts on\n" +
			"real mail, the arrays that a node runs beside their theory, the speed of queries.\n\n" +
			"Results go to --out: tables.csv in the form of the paper's tables, comparison.csv with the printed\n" +
			"numbers and ours, figures as SVG and PNG. An interrupted run continues where it stopped.\n\n" +
			"--artefact makes a folder of everything that came out, with a manifest: seed, versions, checksums of\n" +
			"all files and of the mail. --check compares such a folder with its manifest, the mail if --corpus\n" +
			"is given, and repeats the parts of --experiment, whose numbers must be the same.\n\n" +
			"Parts for --experiment: " + strings.Join(experiment.Parts(), ", ") + ".",
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			c.Draw, c.Family = experiment.Draw(draw), experiment.HashFamily(family)
			if check != "" {
				m, err := study.CheckArtefact(ctx, check, c.Corpus, c.Only)
				if errors.Is(err, study.ErrArtefact) {
					return cli.DataError{Err: err}
				}
				if err != nil {
					return err
				}
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %d files, as the manifest says; %d parts repeated. %s, %s, commit "+
					"%s\n", check, len(m.Files), len(c.Only), m.Go, m.System, m.Revision)
				return err
			}
			run := study.Run
			if artefact != "" {
				c.Out, run = artefact, study.RunArtefact
			}
			bar := &studyProgress{w: cmd.ErrOrStderr(), began: time.Now(), quiet: quiet}
			c.Progress = bar.show
			err := run(ctx, c)
			bar.end()
			if errors.Is(err, context.Canceled) {
				fmt.Fprintf(cmd.ErrOrStderr(), "bulkhead-lab: stopped; run the same command again to continue\n")
				return cli.Temporary
			}
			if err != nil {
				return err
			}
			return printStudy(cmd.OutOrStdout(), &c)
		},
	}
	f := cmd.Flags()
	f.StringVar(&c.Out, "out", "study-out", "folder for results")
	f.IntVar(&c.Rounds, "rounds", 1000, "rounds of each configuration; all other work scales with it")
	f.StringSliceVar(&c.Only, "experiment", nil, "parts to run (default all)")
	f.Uint64Var(&c.Seed, "seed", 1, "seed of all random choices")
	f.IntVar(&c.Jobs, "jobs", 0, "workers (default one for each processor)")
	f.StringVar(&draw, "draw", string(experiment.DrawPrinted),
		"how often elements are inserted in Experiments 4 to 8: printed (as many zeros and insertions as the paper's "+
			"draw), fixed (one draw) or fresh (one a round)")
	f.StringVar(&family, "family", string(experiment.FamilyUniversal),
		"hash functions of the experiments: universal (the paper's), independent, keyed (a node's), md5 or sha1 (chunks of "+
			"a digest)")
	f.StringVar(&c.Corpus, "corpus", "", "folder of unpacked mail corpora with index.tsv, for the parts that need real "+
		"mail; text files in its other folders are lists")
	f.StringVar(&c.Report, "report", "", "folder for study.md and its figures")
	f.StringVar(&artefact, "artefact", "", "make this `FOLDER`, with results, report and manifest, in place of --out "+
		"and --report")
	f.StringVar(&check, "check", "", "compare the artefact in this `FOLDER` with its manifest")
	cmd.MarkFlagsMutuallyExclusive("artefact", "check")
	cmd.MarkFlagsMutuallyExclusive("artefact", "out")
	cmd.MarkFlagsMutuallyExclusive("artefact", "report")
	f.BoolVar(&quiet, "quiet", false, "show no progress")
	return cmd
}

// printStudy prints where the results are, and how well the tables agree.
func printStudy(w io.Writer, c *experiment.Config) error {
	s, err := study.Summarise(c.Out)
	if err != nil {
		return err
	}
	if s.Compared > 0 {
		fmt.Fprintf(w, "%d of %d printed numbers of Tables III to X lie within 3 standard errors; %d have no error on "+
			"either side.\n",
			s.Within3, s.Compared, s.Empty)
		for _, line := range s.Outside {
			fmt.Fprintln(w, "  outside:", line)
		}
	}
	fmt.Fprintf(w, "Results: %s (tables.csv, comparison.csv, figures)\n", c.Out)
	if c.Report != "" {
		fmt.Fprintf(w, "Report: %s/study.md\n", c.Report)
	}
	return nil
}

// A studyProgress is a bar on a terminal, and a line each half minute elsewhere.
type studyProgress struct {
	w        io.Writer
	began    time.Time
	quiet    bool
	bar      *progressbar.ProgressBar
	last     time.Time
	terminal bool
}

const studySteps = 10_000

func (p *studyProgress) show(done float64, what string) {
	if p.quiet {
		return
	}
	if p.last.IsZero() {
		p.last = time.Now()
		p.terminal = cli.IsTerminal(p.w)
	}
	if !p.terminal {
		if time.Since(p.last) >= 30*time.Second {
			p.last = time.Now()
			fmt.Fprintf(p.w, "%3.0f %% %v (%s)\n", 100*done, time.Since(p.began).Round(time.Second), what)
		}
		return
	}
	if p.bar == nil {
		p.bar = progressbar.NewOptions(studySteps, progressbar.OptionSetWriter(p.w), progressbar.OptionSetPredictTime(true),
			progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionSetWidth(40), progressbar.OptionClearOnFinish())
	}
	p.bar.Describe(fmt.Sprintf("%-22.22s", what))
	_ = p.bar.Set(int(done * studySteps)) // a picture of progress is never worth an error
}

func (p *studyProgress) end() {
	if p.bar != nil {
		_ = p.bar.Finish()
	}
}
