package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/bulkhead-mail/bulkhead/internal/cli"
	"github.com/bulkhead-mail/bulkhead/lab/learning"
)

func newLearnCommand() *cobra.Command {
	o := learning.Options{Sites: 20, Reported: 0.1}
	seeds, all, asJSON, exposed := 3, false, false, 0
	cmd := &cobra.Command{
		Use:   "learn [--sites N] [--reported SHARE] [--seeds N] [--all] COLLECTION...",
		Short: "Measure learning of words and style from reports against deliveries",
		Long: "Play labelled mail through a network of sites that learn its words and style. Each message\n" +
			"comes once, to one site; a share of the spam is reported. A COLLECTION is a folder with an\n" +
			"index.tsv whose first columns are the name of a file and its label. Print the share of spam\n" +
			"with a score of a level or more, and the number of wanted messages with it.\n\n" +
			"With --exposed, print what a site of that many people would share of all the mail instead.\n\n" +
			"With --all, also play lying sites, spam with words of wanted mail, and mistaken reports. See\n" +
			"docs/learning.md.",
		Args: cli.Args(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if seeds < 1 || seeds > 1000 {
				return cli.Usagef("--seeds %d, want 1 to 1000", seeds)
			}
			letters, err := learning.Read(cmd.Context(), args...)
			if err != nil {
				return err
			}
			if exposed > 0 {
				x, err := learning.Expose(cmd.Context(), letters, exposed, 1)
				if err != nil {
					return err
				}
				return printExposure(cmd.OutOrStdout(), x)
			}
			cases := []learning.Case{{Name: "as given", Options: o}}
			if all {
				cases = learning.Cases(o)
			}
			rows, err := playLearning(cmd.Context(), letters, cases, seeds)
			if err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(rows)
			}
			return printLearning(cmd.OutOrStdout(), rows)
		},
	}
	cmd.Flags().IntVar(&o.Sites, "sites", o.Sites, "sites of the network")
	cmd.Flags().Float64Var(&o.Reported, "reported", o.Reported, "share of the spam that is reported, 0 to 1")
	cmd.Flags().Float64Var(&o.Mistaken, "mistaken", o.Mistaken, "share of the wanted mail that is reported, 0 to 1")
	cmd.Flags().IntVar(&seeds, "seeds", seeds, "runs of each case, with different choices")
	cmd.Flags().IntVar(&exposed, "exposed", exposed, "people of a site whose shared words are counted; 0: none")
	cmd.Flags().BoolVar(&all, "all", all, "also play attacks and mistakes")
	cmd.Flags().BoolVar(&asJSON, "json", asJSON, "print JSON")
	return cmd
}

// A learningRow is a case with the sums of its runs.
type learningRow struct {
	Case   string
	Seeds  int
	Result learning.Result
}

func playLearning(ctx context.Context, letters []learning.Letter, cases []learning.Case,
	seeds int) ([]learningRow, error) {
	var rows []learningRow
	for _, c := range cases {
		row := learningRow{Case: c.Name, Seeds: seeds}
		for seed := range seeds {
			o := c.Options
			o.Seed = uint64(seed + 1)
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

func printLearning(w io.Writer, rows []learningRow) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "case\tspam\tham\t")
	for _, kind := range []string{"spam % at ", "later % at ", "ham at "} {
		for _, level := range learning.Levels {
			fmt.Fprintf(t, "%s%g\t", kind, level)
		}
	}
	fmt.Fprintln(t)
	for i := range rows {
		r := &rows[i].Result
		fmt.Fprintf(t, "%s\t%d\t%d\t", rows[i].Case, r.Spam, r.Ham)
		for _, n := range r.Caught {
			fmt.Fprintf(t, "%.1f\t", 100*float64(n)/float64(max(r.Spam, 1)))
		}
		for _, n := range r.LaterCaught {
			fmt.Fprintf(t, "%.1f\t", 100*float64(n)/float64(max(r.LaterSpam, 1)))
		}
		for _, n := range r.Hit {
			fmt.Fprintf(t, "%d\t", n)
		}
		fmt.Fprintln(t)
	}
	return t.Flush()
}

func printExposure(w io.Writer, x *learning.Exposure) error {
	_, err := fmt.Fprintf(w, "%d messages, %d words\nin one message only: %d\nin several messages of one person: %d\n"+
		"shared: %d, of these in one message or of one person: %d\n"+
		"of the words of a message, peers see %.1f %% in the mean; of %.1f %% of the messages, they see all\n",
		x.Messages, x.All, x.Single, x.Alone, x.Shared, x.Leaked, 100*x.Visible, 100*x.Whole)
	return err
}
