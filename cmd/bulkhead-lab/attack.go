package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/bulkhead-mail/bulkhead/internal/cli"
	"github.com/bulkhead-mail/bulkhead/internal/lab/attack"
)

// honestUsers is against how many honest users attacks are measured.
var honestUsers = []int{0, 5, 50}

func newAttackCommand() *cobra.Command {
	limit, asJSON, only := 200, false, ""
	cmd := &cobra.Command{
		Use:   "attack [--most N] [--only WORDS] [--json]",
		Short: "Measure what it takes to list what is no spam, and to free what is",
		Long: "Let attackers loose on an engine of the default policy, over simulated days, and print\n" +
			"what it takes to succeed: how many fresh accounts, accounts that earned weight for 30\n" +
			"days, mailboxes of users who vote, traps, peers or deliveries, against 0, 5 and 50 honest\n" +
			"users. Found by doubling and bisection. See docs/attacks.md.",
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 1 || limit > attack.MaxMeans {
				return cli.Usagef("--most %d, want 1 to %d", limit, attack.MaxMeans)
			}
			var results []attack.Result
			for _, s := range attack.Scenarios() {
				if !strings.Contains(s.Name+" "+string(s.Means), only) {
					continue
				}
				for _, honest := range honestUsers {
					r, err := attack.Run(cmd.Context(), s, honest, limit)
					if err != nil {
						return err
					}
					results = append(results, r)
				}
			}
			if len(results) == 0 {
				return cli.Usagef("--only %q: no such attack", only)
			}
			if asJSON {
				out := json.NewEncoder(cmd.OutOrStdout())
				out.SetIndent("", "  ")
				return out.Encode(results)
			}
			return printAttacks(cmd.OutOrStdout(), results)
		},
	}
	cmd.Flags().IntVar(&limit, "most", limit, "most accounts, mailboxes, traps, peers or deliveries that the attacker has")
	cmd.Flags().StringVar(&only, "only", only, "only attacks whose name or means holds this")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the results as JSON")
	return cmd
}

// printAttacks prints a line for each attack, and a column for each number of
// honest users.
func printAttacks(w io.Writer, results []attack.Result) error {
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprint(t, "to\tof")
	for _, honest := range honestUsers {
		fmt.Fprintf(t, "\tagainst %d", honest)
	}
	fmt.Fprintln(t)
	for attack := range slices.Chunk(results, len(honestUsers)) {
		fmt.Fprintf(t, "%s\t%s", attack[0].Name, attack[0].Means)
		for _, r := range attack {
			fmt.Fprintf(t, "\t%s", takes(&r))
		}
		fmt.Fprintln(t)
	}
	return t.Flush()
}

// takes says what an attack takes, and how many votes undo it.
func takes(r *attack.Result) string {
	switch {
	case r.Takes == 0:
		return fmt.Sprintf("never up to %d", r.Limit)
	case r.Undone > 0:
		return fmt.Sprintf("%d, undone by %d", r.Takes, r.Undone)
	}
	return fmt.Sprint(r.Takes)
}
