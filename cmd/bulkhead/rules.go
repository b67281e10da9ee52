package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/cli"
	"github.com/bulkhead-mail/bulkhead/internal/command"
)

func newRulesCommand() *cobra.Command {
	var u adminFlags
	var explain bool
	cmd := &cobra.Command{
		Use:   "rules",
		Short: "Print the rules of the judgement, and how often voters disagreed with each",
		Long: "Print the rules in the order in which they are tried, with the checks that each decided since\n" +
			"the node started. OBJECTED are votes that a message is wanted which the rule calls spam or\n" +
			"suspected, CONFIRMED are votes for spam on such a message, and MISSED are votes for spam on\n" +
			"a message that the rule lets through. The rule is the one that decides at the moment of the vote.",
		Args: cli.Args(cobra.NoArgs),
		RunE: u.Ask(func(cmd *cobra.Command, c *admin.Client, _ []string) error {
			rules, err := c.Rules(cmd.Context())
			if err != nil {
				return err
			}
			if u.JSON {
				return command.PrintJSON(cmd.OutOrStdout(), rules)
			}
			return printRules(cmd.OutOrStdout(), rules, explain)
		}),
	}
	u.Flags(cmd.Flags())
	cmd.Flags().BoolVar(&explain, "explain", false, "print when each rule applies")
	return cmd
}

func printRules(w io.Writer, rules []admin.Rule, explain bool) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "RULE\tVERDICT\tDECIDED\tOBJECTED\tCONFIRMED\tMISSED")
	if explain {
		fmt.Fprint(t, "\tWHEN")
	}
	fmt.Fprintln(t)
	for _, r := range rules {
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%d\t%d", r.Name, r.Verdict, r.Decided, r.Objected, r.Confirmed, r.Missed)
		if explain {
			fmt.Fprint(t, "\t", r.When)
		}
		fmt.Fprintln(t)
	}
	return t.Flush()
}
