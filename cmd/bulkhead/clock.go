package main

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/cli"
	"github.com/bulkhead-mail/bulkhead/internal/command"
	"github.com/bulkhead-mail/bulkhead/internal/units"
)

func newClockCommand() *cobra.Command {
	var u adminFlags
	cmd := &cobra.Command{
		Use:   "clock",
		Short: "Show or confirm the clock by which a node's counts age",
		Long: "Show or confirm the clock by which a node's counts age. A node whose clock\n" +
			"jumps ahead lets nothing age until the clock is right, or until NTP, its peers or an\n" +
			"administrator confirm it.\n" + command.AdminHelp,
		Args: cli.Args(cobra.NoArgs),
		RunE: command.NeedCommand,
	}
	u.Flags(cmd.PersistentFlags())
	cmd.AddCommand(
		&cobra.Command{
			Use: "show", Short: "Print the node's clock, and whether the ageing is held", Args: cli.Args(cobra.NoArgs),
			RunE: u.Ask(func(cmd *cobra.Command, c *admin.Client, _ []string) error {
				state, err := c.Node(cmd.Context())
				if err != nil {
					return err
				}
				return u.printClock(cmd.OutOrStdout(), state)
			}),
		},
		&cobra.Command{
			Use: "confirm", Short: "Take the clock as right, and let the generations expire that are overdue",
			Long: "Take the machine's clock as right, and let the generations expire that are overdue by\n" +
				"it; \"bulkhead clock show\" prints how many. \"bulkhead clock restore\" brings them back\n" +
				"until the node has run for a day. Do this\n" +
				"if the machine was really off for that long. If its clock is wrong, set it right instead.",
			Args: cli.Args(cobra.NoArgs),
			RunE: u.Ask(func(cmd *cobra.Command, c *admin.Client, _ []string) error {
				state, err := c.ConfirmClock(cmd.Context())
				if err != nil {
					return err
				}
				return u.printClock(cmd.OutOrStdout(), state)
			}),
		},
	)
	cmd.AddCommand(&cobra.Command{
		Use: "restore", Short: "Bring counts back that have aged out in the last day",
		Long: "Bring counts and listings back that have aged out since the node has last run for a day.\n" +
			"Do this after a wrong clock was confirmed: set the clock right first. Generations that\n" +
			"have expired by the present clock stay where they are, and the command ends with 1.",
		Args: cli.Args(cobra.NoArgs),
		RunE: u.Ask(func(cmd *cobra.Command, c *admin.Client, _ []string) error {
			b, err := c.BringBack(cmd.Context())
			if err != nil {
				return err
			}
			if u.JSON {
				return command.PrintJSON(cmd.OutOrStdout(), []admin.BroughtBack{*b})
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s brought back, %d have expired by the node's clock\n",
				units.Plural(b.Generations, "generation"), b.Expired)
			if err == nil && b.Expired > 0 && b.Generations == 0 {
				err = errors.New("all generations have expired by the node's clock: if that is wrong, set it right first")
			}
			return err
		}),
	})
	return cmd
}

func (u *adminFlags) printClock(w io.Writer, state *admin.NodeState) error {
	if u.JSON {
		return command.PrintJSON(w, []admin.NodeState{*state})
	}
	a := state.Ageing
	if a == nil {
		_, err := fmt.Fprintf(w, "%s: generations age by this clock\n", state.Now.UTC().Format(time.RFC3339))
		if n := len(state.SetAside); err == nil && n > 0 {
			_, err = fmt.Fprintf(w, "%s aged out since the node has last run for a day; \"bulkhead clock restore\" brings "+
				"back what the clock keeps\n", units.Plural(n, "generation"))
		}
		return err
	}
	_, err := fmt.Fprintf(w, "%s: ageing is held, the newest record is of %s\n"+
		"if confirmed, %d generations of the tally and %d of the blocklist expire at once\n",
		a.Clock.UTC().Format(time.RFC3339), a.Newest.UTC().Format(time.RFC3339), a.Tally, a.Blocklist)
	return err
}
