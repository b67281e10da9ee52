package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/bulkhead-mail/bulkhead/fuzzy"
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
			if o.Op != "ping" && o.Op != "check" && o.Op != "report" {
				return cli.Usagef("--op %q, want ping, check or report", o.Op)
			}
			seed := uint64(time.Now().UnixNano())
			o.Request = func(dst []byte, tag uint32, n uint64) []byte { return o.AppendRequest(dst, tag, n, seed) }
			o.Answer = load.PyzorAnswer
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
			op, ok := map[string]byte{"nop": 1, "report": 2, "query": 3}[o.Op]
			if !ok {
				return cli.Usagef("--op %q, want nop, query or report", o.Op)
			}
			seed := uint64(time.Now().UnixNano())
			o.Request = func(dst []byte, tag uint32, n uint64) []byte { return o.AppendRequest(dst, op, tag, n, seed) }
			o.Answer = load.DCCAnswer
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
			switch o.Op {
			case "check", "near", "write":
			default:
				return cli.Usagef("--op %q, want check, near or write", o.Op)
			}
			if o.Equal < 0 || o.Equal > 32 {
				return cli.Usagef("--equal %d, want 0 to 32", o.Equal)
			}
			o.Request = o.AppendRequest
			o.Answer = func(data []byte) (uint32, error) {
				r, err := fuzzy.ParseReply(data)
				if err != nil {
					return 0, err
				}
				return r.Tag, r.Err()
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
