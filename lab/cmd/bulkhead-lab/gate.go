package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bulkhead-mail/bulkhead/internal/cli"
	"github.com/bulkhead-mail/bulkhead/lab/gate"
)

func newGateCommand() *cobra.Command {
	var o gate.Options
	var folders []string
	var costs string
	cmd := &cobra.Command{
		Use:   "gate --old PROGRAM --new PROGRAM",
		Short: "Compare the speed of two builds of the server, door by door",
		Long: "Run two builds of the server side by side, send the same requests to both in turns, and compare the\n" +
			"processor time of a request. The command fails if a request takes more than the limit times as\n" +
			"long with the new build, with 95 % confidence. A door that the old build lacks is not compared.\n" +
			"--costs names a table of what requests are known to take since the old build, and why. It must be\n" +
			"of the old build's release: the limit then is on what comes on top.",
		Example: "  bulkhead-lab gate --old old/bulkhead --new bin/bulkhead",
		Args:    cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if o.Mail, err = readMail(cmd.Context(), folders); err != nil {
				return err
			}
			if costs != "" {
				if o.Costs, err = readCosts(costs); err != nil {
					return err
				}
			}
			rows, err := gate.Compare(cmd.Context(), o, cmd.OutOrStdout())
			if err != nil {
				return err
			}
			var slower []string
			for _, r := range rows {
				if r.Slower(o.Limit) {
					slower = append(slower, r.Case)
				}
			}
			if len(slower) > 0 {
				return fmt.Errorf("slower than %.2f times the old build and known costs: %s", o.Limit,
					strings.Join(slower, ", "))
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Old, "old", "", "program to compare with")
	f.StringVar(&o.New, "new", "", "program to judge")
	f.IntVar(&o.Rounds, "rounds", 15, "pairs of measurements of each kind of request")
	f.DurationVar(&o.Slice, "slice", 500*time.Millisecond, "length of one measurement")
	f.Float64Var(&o.Limit, "limit", 1.1, "ratio of processor times above which a request counts as slower")
	f.StringVar(&costs, "costs", "", "`FILE` with the costs since the old build")
	mailFlag(f, &folders)
	_ = cmd.MarkFlagRequired("old") // the flags exist
	_ = cmd.MarkFlagRequired("new")
	return cmd
}

func readCosts(path string) (gate.Costs, error) {
	f, err := os.Open(path)
	if err != nil {
		return gate.Costs{}, err
	}
	defer f.Close()
	return gate.ReadCosts(f)
}
