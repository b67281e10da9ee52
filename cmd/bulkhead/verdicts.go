package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/cli"
	"github.com/bulkhead-mail/bulkhead/internal/command"
)

func newVerdictsCommand() *cobra.Command {
	var u adminFlags
	var when span
	var by string
	cmd := &cobra.Command{
		Use:   "verdicts",
		Short: "Print how many verdicts and votes there were, by door or over time",
		Long: "Print how many checks had which answer, and how many votes were taken, of each door, or\n" +
			"with --by over time. A node remembers these numbers for 30 days, whether or not it keeps\n" +
			"a history of mail.",
		Args: cli.Args(cobra.NoArgs),
		RunE: u.Ask(func(cmd *cobra.Command, c *admin.Client, _ []string) error {
			q := admin.VerdictsQuery{Slot: by}
			if !slices.Contains([]string{"", "10m", "1h", "24h"}, by) {
				return cli.Usagef("--by %.20q is none of 10m, 1h, 24h", by)
			}
			var err error
			if q.Since, q.Until, err = when.times(time.Now()); err != nil {
				return err
			}
			v, err := c.Verdicts(cmd.Context(), q)
			if err != nil {
				return err
			}
			return u.printVerdicts(cmd.OutOrStdout(), v, by != "")
		}),
	}
	u.Flags(cmd.Flags())
	f := cmd.Flags()
	when.flags(f, "24h")
	f.StringVar(&by, "by", "", "a row for each 10m (of the last day alone), 1h or 24h instead of each door")
	return cmd
}

func (u *adminFlags) printVerdicts(w io.Writer, v *admin.Verdicts, overTime bool) error {
	if u.JSON {
		return command.PrintJSON(w, v.Slots)
	}
	var all admin.DoorSum
	doors, slots := make(map[string]*admin.DoorSum), make([]admin.DoorSum, len(v.Slots))
	for i, s := range v.Slots {
		for name, n := range s.Doors {
			if doors[name] == nil {
				doors[name] = &admin.DoorSum{}
			}
			doors[name].Add(n)
			slots[i].Add(n)
			all.Add(n)
		}
	}
	t := command.NewTable(w)
	row := func(name string, s *admin.DoorSum) {
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\n", name, s.Checks(), s.Spam, s.Suspected, s.Bulk,
			s.Good, s.Unknown,
			s.Looks, s.Sightings, s.SpamVotes, s.HamVotes, s.Revocations)
	}
	first := "DOOR"
	if overTime {
		first = "FROM"
	}
	fmt.Fprintln(t, first+
		"\tCHECKS\tSPAM\tSUSPECTED\tBULK\tGOOD\tUNKNOWN\tLOOKS\tSIGHTINGS\tSPAM VOTES\tHAM VOTES\tREVOKED")
	if overTime {
		for i := range slots {
			row(v.Slots[i].Start.Format("2006-01-02 15:04"), &slots[i])
		}
	} else {
		for _, name := range slices.Sorted(maps.Keys(doors)) {
			row(name, doors[name])
		}
	}
	row("all", &all)
	return t.Flush()
}
