package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/bulkhead-mail/bulkhead/internal/cli"
	"github.com/bulkhead-mail/bulkhead/internal/interval"
	"github.com/bulkhead-mail/bulkhead/lab/learning"
)

// A learnCommand is the flags of a command.
type learnCommand struct {
	o          learning.Options
	first      uint64
	seeds      int
	commercial int
	late       float64
	further    bool
	beside     bool
	all        bool
	asJSON     bool
	exposed    int
}

func newLearnCommand() *cobra.Command {
	c := learnCommand{o: learning.Options{Sites: 20, Reported: 0.1}}
	cmd := &cobra.Command{
		Use:   "learn [--sites N] [--reported SHARE] [--seeds N] [--all] COLLECTION...",
		Short: "Measure learning of words and style from reports against deliveries",
		Long: "Play labelled mail through a network of sites that learn its words and style. Each message\n" +
			"comes once, to one site; a share of the spam is reported. A COLLECTION is a folder with an\n" +
			"index.tsv whose first columns are the name of a file and its label. Print the share of spam\n" +
			"with a score of a level or more, and the number of wanted messages with it.\n\n" +
			"With --commercial, mix in made mail of 30 shops, banks, newsletters and notices. With --beside,\n" +
			"also play the same mail and reports to the Bayes classifiers of SpamAssassin and rspamd. These\n" +
			"programs and redis-server must be installed.\n\n" +
			"With --exposed, print what a site of that many people would share of all the mail instead.\n\n" +
			"With --all, also play lying sites, spam with words of wanted mail, and mistaken reports. See\n" +
			"docs/learning.md.",
		Args: cli.Args(cobra.MinimumNArgs(1)),
		RunE: c.run,
	}
	f := cmd.Flags()
	f.IntVar(&c.o.Sites, "sites", c.o.Sites, "sites of the network")
	f.Float64Var(&c.o.Reported, "reported", c.o.Reported, "share of the spam that is reported, 0 to 1")
	f.Float64Var(&c.o.Mistaken, "mistaken", c.o.Mistaken, "share of the wanted mail that is reported, 0 to 1")
	f.BoolVar(&c.o.Unlearnt, "unlearnt", false,
		"leave out deliveries with 0.99 or more even if the sender is of good standing")
	f.BoolVar(&c.o.Passed, "passed", false, "leave out reports of spam with 0.99 or more, which readers see marked")
	f.BoolVar(&c.o.Known, "known", false, "leave out deliveries of spam that is not reported, as if nodes knew them")
	f.Uint64Var(&c.first, "seed", 1, "seed of the first run")
	f.IntVar(&c.seeds, "seeds", 3, "runs of each case, with different choices")
	f.IntVar(&c.commercial, "commercial", 0, "made messages of each commercial sender")
	f.Float64Var(&c.late, "late", 0, "share of the time after which the commercial senders begin, 0 to 1")
	f.BoolVar(&c.further, "further", false, "take the 20 senders that no rule was chosen with in place of the 30")
	f.BoolVar(&c.beside, "beside", false, "also play the mail to SpamAssassin and rspamd")
	f.IntVar(&c.exposed, "exposed", 0, "people of a site whose shared words are counted; 0: none")
	f.BoolVar(&c.all, "all", false, "also play attacks and mistakes")
	f.BoolVar(&c.asJSON, "json", false, "print JSON")
	return cmd
}

func (c *learnCommand) run(cmd *cobra.Command, args []string) error {
	switch {
	case c.seeds < 1 || c.seeds > 1000:
		return cli.Usagef("--seeds %d, want 1 to 1000", c.seeds)
	case c.late < 0 || c.late >= 1:
		return cli.Usagef("--late %v, want 0 or more, and less than 1", c.late)
	}
	ctx := cmd.Context()
	letters, err := learning.Read(ctx, args...)
	if err != nil {
		return err
	}
	if c.commercial > 0 {
		senders := learning.Commercial
		if c.further {
			senders = learning.Further
		}
		made, err := senders(ctx, c.commercial, c.first)
		if err != nil {
			return err
		}
		letters = learning.Late(letters, made, c.late)
	}
	if c.exposed > 0 {
		x, err := learning.Expose(ctx, letters, c.exposed, c.first)
		if err != nil {
			return err
		}
		return printExposure(cmd.OutOrStdout(), x)
	}
	cases := []learning.Case{{Name: "as given", Options: c.o}}
	if c.all {
		cases = learning.Cases(c.o)
	}
	rows, err := c.play(ctx, letters, cases)
	if err == nil && c.beside {
		var others []learningRow
		others, err = c.playBeside(ctx, letters)
		rows = append(rows, others...)
	}
	if err != nil {
		return err
	}
	if c.asJSON {
		return json.NewEncoder(cmd.OutOrStdout()).Encode(rows)
	}
	return printLearning(cmd.OutOrStdout(), rows)
}

// A learningRow is a case with the sums of its runs.
type learningRow struct {
	Case   string
	Seeds  int
	Result learning.Result
}

func (c *learnCommand) play(ctx context.Context, letters []learning.Letter,
	cases []learning.Case) (rows []learningRow, err error) {
	for _, one := range cases {
		row := learningRow{Case: one.Name, Seeds: c.seeds}
		for seed := range c.seeds {
			o := one.Options
			o.Seed = c.first + uint64(seed)
			r, err := learning.Run(ctx, letters, o)
			if err != nil {
				return nil, err
			}
			row.Result.Add(r)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// playBeside plays the letters to the other programs.
func (c *learnCommand) playBeside(ctx context.Context, letters []learning.Letter) (rows []learningRow, err error) {
	for _, program := range []struct {
		name  string
		start func(context.Context, string) (learning.Learner, error)
	}{{"SpamAssassin", learning.SpamAssassin}, {"rspamd", learning.Rspamd}} {
		for _, teaching := range []learning.Teaching{learning.ByDeliveries, learning.ByLabels} {
			row := learningRow{Case: fmt.Sprintf("%s, ham by %s", program.name, teaching), Seeds: c.seeds}
			for seed := range c.seeds {
				o := c.o
				o.Seed = c.first + uint64(seed)
				r, err := playProgram(ctx, letters, program.start, teaching, o)
				if err != nil {
					return nil, err
				}
				row.Result.Add(r)
			}
			rows = append(rows, row)
		}
	}
	return rows, nil
}

// playProgram plays the letters to a program that has learnt nothing.
func playProgram(ctx context.Context, letters []learning.Letter,
	start func(context.Context, string) (learning.Learner, error), teaching learning.Teaching,
	o learning.Options) (_ *learning.Result, err error) {
	dir, err := os.MkdirTemp("", "bulkhead-learn-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	l, err := start(ctx, dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	return learning.Beside(ctx, letters, l, teaching, o)
}

// printLearning prints the rows. The intervals are of 95 %, for the messages of one run: further runs have the
// same messages.
func printLearning(w io.Writer, rows []learningRow) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "case\tspam\tham\t")
	for _, kind := range []string{"spam % at ", "later % at ", "ham at ", "made at ", "aimed at "} {
		for _, level := range learning.Levels {
			fmt.Fprintf(t, "%s%g\t", kind, level)
		}
	}
	fmt.Fprintln(t, "made flagged\t")
	for i := range rows {
		r, seeds := &rows[i].Result, rows[i].Seeds
		fmt.Fprintf(t, "%s\t%d\t%d\t", rows[i].Case, r.Spam, r.Ham)
		for _, n := range r.Caught {
			fmt.Fprint(t, percent(n, r.Spam, seeds), "\t")
		}
		for _, n := range r.LaterCaught {
			fmt.Fprint(t, percent(n, r.LaterSpam, seeds), "\t")
		}
		for _, n := range r.Hit {
			fmt.Fprintf(t, "%d\t", n)
		}
		for _, n := range r.MadeHit {
			fmt.Fprintf(t, "%d/%d\t", n, r.Made)
		}
		for _, n := range r.AimedHit {
			fmt.Fprintf(t, "%d/%d\t", n, r.Aimed)
		}
		fmt.Fprintf(t, "%d\t\n", r.MadeFlagged)
	}
	return t.Flush()
}

func percent(n, of, seeds int) string {
	low, high := interval.Wilson(n/seeds, of/seeds)
	return fmt.Sprintf("%.1f (%.1f-%.1f)", 100*float64(n)/float64(max(of, 1)), 100*low, 100*high)
}

func printExposure(w io.Writer, x *learning.Exposure) error {
	_, err := fmt.Fprintf(w, "%d messages, %d words\nin one message only: %d\nin several messages of one person: %d\n"+
		"shared: %d, of these in one message or of one person: %d\n"+
		"of the words of a message, peers see %.1f %% in the mean; of %.1f %% of the messages, they see all\n",
		x.Messages, x.All, x.Single, x.Alone, x.Shared, x.Leaked, 100*x.Visible, 100*x.Whole)
	return err
}
