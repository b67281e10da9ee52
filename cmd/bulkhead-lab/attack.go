package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/bulkhead-mail/bulkhead/internal/cli"
	"github.com/bulkhead-mail/bulkhead/internal/lab/attack"
)

func newAttackCommand() *cobra.Command {
	limit, asJSON := 1000, false
	cmd := &cobra.Command{
		Use:   "attack [--accounts N] [--json]",
		Short: "Measure how many accounts it takes to list what is no spam",
		Long: "Let fresh accounts report a newsletter as spam, one after the other, to an engine of the\n" +
			"default policy, and print how many list it: all from one network, each from a network of\n" +
			"its own, and while subscribers who have earned trust say that they want it.",
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 1 || limit > attack.MaxAccounts {
				return cli.Usagef("--accounts %d, want 1 to %d", limit, attack.MaxAccounts)
			}
			var results []attack.Result
			for _, s := range attack.Scenarios() {
				r, err := attack.Run(cmd.Context(), s, limit)
				if err != nil {
					return err
				}
				results = append(results, r)
			}
			if asJSON {
				out := json.NewEncoder(cmd.OutOrStdout())
				out.SetIndent("", "  ")
				return out.Encode(results)
			}
			return printAttacks(cmd.OutOrStdout(), results)
		},
	}
	cmd.Flags().IntVar(&limit, "accounts", limit, "most accounts that the attacker has")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the results as JSON")
	return cmd
}

func printAttacks(w io.Writer, results []attack.Result) error {
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(t, "attacker's accounts\tthat list a newsletter")
	for _, r := range results {
		took := fmt.Sprint(r.Accounts)
		if r.Accounts == 0 {
			took = fmt.Sprintf("more than %d", r.Limit)
		}
		fmt.Fprintf(t, "%s\t%s\n", r.Name, took)
	}
	return t.Flush()
}
