package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/cli"
	"github.com/bulkhead-mail/bulkhead/internal/command"
)

func newRulesCommand() *cobra.Command {
	var u adminFlags
	var explain, classes bool
	var days int
	cmd := &cobra.Command{
		Use:   "rules",
		Short: "Print the rules of the judgement, and how often voters disagreed with each",
		Long: "Print the rules in the order in which they are tried, with the checks that each decided in the\n" +
			"last days, or since the node started. OBJECTED are votes that a message is wanted which the rule\n" +
			"called spam or suspected, CONFIRMED are votes for spam on such a message, and MISSED are votes for\n" +
			"spam on a message that the rule let through. WRONG is the share of the decisions that votes\n" +
			"contradicted, with its 95 % confidence interval. Most readers are silent, so more may be wrong.",
		Args: cli.Args(cobra.NoArgs),
		RunE: u.Ask(func(cmd *cobra.Command, c *admin.Client, _ []string) error {
			rules, err := c.Rules(cmd.Context(), days)
			if err != nil {
				return err
			}
			if u.JSON {
				return command.PrintJSON(cmd.OutOrStdout(), rules)
			}
			state, err := c.Node(cmd.Context())
			if err != nil {
				return err
			}
			if j := state.Judgement; j != nil {
				fmt.Fprintf(cmd.OutOrStdout(), "wanted_lost %g: step %d of %d\n\n", j.WantedLost, j.Step, j.Steps)
			}
			return printRules(cmd.OutOrStdout(), rules, explain, classes)
		}),
	}
	u.Flags(cmd.Flags())
	cmd.Flags().IntVar(&days, "days", 28, "last `DAYS`, today included, that are counted, 1 to 28")
	cmd.Flags().BoolVar(&classes, "classes", false, "print a row for each class that a rule has decided")
	cmd.Flags().BoolVar(&explain, "explain", false, "print when each rule applies")
	return cmd
}

func printRules(w io.Writer, rules []admin.Rule, explain, classes bool) error {
	t := command.NewTable(w)
	fmt.Fprint(t, "RULE\tVERDICT\tDECIDED\tOBJECTED\tCONFIRMED\tMISSED\tWRONG")
	if explain {
		fmt.Fprint(t, "\tWHEN")
	}
	fmt.Fprintln(t)
	for _, r := range rules {
		verdict := r.Verdict
		if r.LeastVotes > 0 {
			verdict += fmt.Sprintf(" from %g votes", r.LeastVotes)
		}
		fmt.Fprintf(t, "%s\t%s\t%s", r.Name, verdict, outcomes(&r.Outcomes))
		if explain {
			fmt.Fprint(t, "\t", r.When)
		}
		fmt.Fprintln(t)
		for i := range r.Classes {
			if c := &r.Classes[i]; classes {
				fmt.Fprintf(t, "\t%s\t%s\n", c.Class, outcomes(&c.Outcomes))
			}
		}
	}
	return t.Flush()
}

// outcomes writes the columns of what became of decisions.
func outcomes(o *admin.Outcomes) string {
	text := fmt.Sprintf("%d\t%d\t%d\t%d\t", o.Decided, o.Objected, o.Confirmed, o.Missed)
	if o.Decided == 0 {
		return text + "-"
	}
	return text + fmt.Sprintf("%.2f %% (%.2f to %.2f)", 100*o.Wrong, 100*o.WrongLow, 100*o.WrongHigh)
}
