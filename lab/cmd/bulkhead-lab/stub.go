package main

import (
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/bulkhead-mail/bulkhead/internal/cli"
	"github.com/bulkhead-mail/bulkhead/lab/gate"
)

func newStubCommand() *cobra.Command {
	var o gate.Options
	cmd := &cobra.Command{
		Use:   "stub --program PROGRAM",
		Short: "Compare a check over HTTP with the least server of the same library",
		Long: "Run the server beside a stub: a server of net/http that decodes the same requests with encoding/json\n" +
			"and encodes a verdict, and that has no rights, limits, validation, metrics and arrays. Send checks of\n" +
			"1 and of 21 signatures to both in turns, over HTTP/1.1 and over HTTP/2 with TLS, and compare the\n" +
			"processor time of a request.",
		Example: "  bulkhead-lab stub --program bin/bulkhead",
		Args:    cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			self, err := os.Executable()
			if err != nil {
				return err
			}
			_, err = gate.Beside(cmd.Context(), o, []string{self, "stub", "serve"}, cmd.OutOrStdout())
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.New, "program", "", "program to measure")
	f.IntVar(&o.Rounds, "rounds", 15, "pairs of measurements of each kind of request")
	f.DurationVar(&o.Slice, "slice", 500*time.Millisecond, "length of one measurement")
	o.Limit = 1.25
	_ = cmd.MarkFlagRequired("program") // the flag exists
	cmd.AddCommand(&cobra.Command{
		Use:    "serve ADDRESS CERT KEY",
		Short:  "The stub itself; with empty CERT and KEY without TLS",
		Hidden: true,
		Args:   cli.Args(cobra.ExactArgs(3)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return gate.ServeStub(cmd.Context(), args[0], args[1], args[2])
		},
	})
	return cmd
}
