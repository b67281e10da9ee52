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
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/bulkhead-mail/bulkhead/internal/cli"
	"github.com/bulkhead-mail/bulkhead/lab/attack"
)

func newAttackCommand() *cobra.Command {
	limit, asJSON, only, report := 200, false, "", ""
	cmd := &cobra.Command{
		Use:   "attack [--most N] [--only WORDS] [--json | --report DIR]",
		Short: "Measure what it takes to list ham or to unlist spam",
		Long: "Attack an engine with the default policy over simulated days, and print how many fresh\n" +
			"accounts, accounts that earned weight for 30 days, users' mailboxes, traps, peers or\n" +
			"deliveries it takes to succeed against 0, 5 and 50 honest users. The smallest number is\n" +
			"found by doubling and bisection. See docs/attacks.md.",
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 1 || limit > attack.MaxMeans {
				return cli.Usagef("--most %d, want 1 to %d", limit, attack.MaxMeans)
			}
			if report != "" && (asJSON || only != "") {
				return cli.Usagef("--report needs all attacks: leave out --only and --json")
			}
			results, err := runAttacks(cmd.Context(), only, limit)
			if err != nil {
				return err
			}
			if report != "" {
				return reportAttacks(cmd.Context(), report, results)
			}
			if asJSON {
				out := json.NewEncoder(cmd.OutOrStdout())
				out.SetIndent("", "  ")
				return out.Encode(results)
			}
			return printAttacks(cmd.OutOrStdout(), results)
		},
	}
	cmd.Flags().IntVar(&limit, "most", limit, "largest number of accounts, mailboxes, traps, peers or deliveries to try")
	cmd.Flags().StringVar(&only, "only", only, "only attacks whose name or means contain this")
	cmd.Flags().StringVar(&report, "report", report, "write attacks.md and its figures into this directory")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the results as JSON")
	return cmd
}

// runAttacks runs the attacks whose name or means holds a text.
func runAttacks(ctx context.Context, only string, limit int) (results []attack.Result, err error) {
	for _, s := range attack.Scenarios() {
		if !strings.Contains(s.Name+" "+string(s.Means), only) {
			continue
		}
		for _, honest := range attack.Honest() {
			r, err := attack.Run(ctx, s, honest, limit)
			if err != nil {
				return nil, err
			}
			results = append(results, r)
		}
	}
	if len(results) == 0 {
		return nil, cli.Usagef("--only %q: no such attack", only)
	}
	return results, nil
}

// reportAttacks writes a page and its figures into a directory.
func reportAttacks(ctx context.Context, dir string, results []attack.Result) error {
	figures, err := attack.Figures(ctx, results)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(dir, "attacks"), 0o755); err != nil {
		return err
	}
	for _, f := range figures {
		var svg bytes.Buffer
		if err := f.Draw(&svg, "svg"); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, "attacks", f.Name+".svg"), svg.Bytes(), 0o644); err != nil {
			return err
		}
	}
	var page, prices bytes.Buffer
	if err := errors.Join(attack.Report(&page, results), attack.Prices(&prices, results)); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "attacks", "prices.tsv"), prices.Bytes(), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "attacks.md"), page.Bytes(), 0o644)
}

// printAttacks prints a line for each attack, and a column for each number of
// honest users.
func printAttacks(w io.Writer, results []attack.Result) error {
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprint(t, "to\tof")
	for _, honest := range attack.Honest() {
		fmt.Fprintf(t, "\tagainst %d", honest)
	}
	fmt.Fprintln(t)
	for of := range slices.Chunk(results, len(attack.Honest())) {
		fmt.Fprintf(t, "%s\t%s", of[0].Name, of[0].Means)
		for i := range of {
			fmt.Fprintf(t, "\t%s", of[i].Says())
		}
		fmt.Fprintln(t)
	}
	return t.Flush()
}
