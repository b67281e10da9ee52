package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/bulkhead-mail/bulkhead/internal/cli"
	"github.com/bulkhead-mail/bulkhead/lab/load"
)

func newPyzorCommand() *cobra.Command {
	var o load.Pyzor
	cmd := &cobra.Command{
		Use:   "pyzor",
		Short: "Anonymous pings, checks or reports of one digest over UDP, also to pyzord",
		Args:  cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.Prepare(); err != nil {
				return cli.Usagef("%v", err)
			}
			return o.Run(cmd.Context(), cmd.OutOrStdout(), "pyzor "+o.Op)
		},
	}
	datagramFlags(cmd, &o.Datagrams, "127.0.0.1:24441")
	f := cmd.Flags()
	f.StringVar(&o.Op, "op", "check", "ping, check or report")
	f.Uint64Var(&o.Known, "digests", 1_000_000, "distinct digests in requests; 0: a new one in each request")
	return cmd
}

func newDCCCommand() *cobra.Command {
	var o load.DCC
	cmd := &cobra.Command{
		Use:   "dcc",
		Short: "NOP, QUERY or REPORT of three checksums over UDP",
		Args:  cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.Prepare(); err != nil {
				return cli.Usagef("%v", err)
			}
			return o.Run(cmd.Context(), cmd.OutOrStdout(), "dcc "+o.Op)
		},
	}
	datagramFlags(cmd, &o.Datagrams, "127.0.0.1:6277")
	f := cmd.Flags()
	f.StringVar(&o.Op, "op", "query", "nop, query or report")
	f.Uint32Var(&o.Id, "id", 1, "client-ID; 1 is anonymous")
	f.StringVar(&o.Password, "password", "", "its password")
	f.Uint64Var(&o.Known, "messages", 10_000, "distinct messages in requests; 0: a new one in each request")
	return cmd
}

func newFuzzyCommand() *cobra.Command {
	var o load.Fuzzy
	cmd := &cobra.Command{
		Use:   "fuzzy",
		Short: "check, near or write of rspamd's fuzzy protocol over UDP",
		Long: "Load a fuzzy storage, ours or rspamd's. \"write\" stores digests, \"check\" looks up the\n" +
			"same digests, and \"near\" looks up near copies of them, by their shingles. With\n" +
			"--messages 0 every request has a new digest, so that checks miss.",
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.Prepare(); err != nil {
				return cli.Usagef("%v", err)
			}
			return o.Run(cmd.Context(), cmd.OutOrStdout(), "fuzzy "+o.Op)
		},
	}
	datagramFlags(cmd, &o.Datagrams, "127.0.0.1:11335")
	f := cmd.Flags()
	f.StringVar(&o.Op, "op", "check", "check, near or write")
	f.BoolVar(&o.Shingles, "shingles", false, "send shingles with checks and writes")
	f.IntVar(&o.Equal, "equal", 26, "shingles, of 32, that a near copy shares with the original")
	f.Uint64Var(&o.Known, "messages", 100_000, "distinct messages in requests, written in turn; 0: a new one in each "+
		"request")
	f.Uint8Var(&o.Flag, "flag", 1, "list to write to")
	return cmd
}

// datagramFlags adds the flags of what is sent as datagrams.
func datagramFlags(cmd *cobra.Command, d *load.Datagrams, address string) {
	f := cmd.Flags()
	f.StringVar(&d.Address, "address", address, "loopback host:port of the server")
	f.IntVar(&d.Sockets, "sockets", 8, "sockets at once")
	f.IntVar(&d.Window, "window", 64, "outstanding requests of each")
	f.DurationVar(&d.Duration, "duration", 5*time.Second, "measured time")
	f.DurationVar(&d.Warmup, "warmup", time.Second, "time before that, not counted")
	f.BoolVar(&d.Single, "single", false, "send each request as a separate datagram, not in trains that the kernel splits")
	f.IntVar(&d.Pid, "pid", 0, "process id of the server, to print its processor time per request; 0: do not print it")
}
