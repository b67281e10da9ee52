package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bulkhead-mail/bulkhead/internal/cli"
	"github.com/bulkhead-mail/bulkhead/internal/mailbox"
	"github.com/bulkhead-mail/bulkhead/lab/load"
)

func newHTTPCommand() *cobra.Command {
	var o load.HTTP
	cmd := &cobra.Command{
		Use:   "http",
		Short: "POST /v1/check or /v1/report with one ready signature",
		Args:  cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Op != "check" && o.Op != "report" {
				return cli.Usagef("--op %q, want check or report", o.Op)
			}
			return measure(cmd, "http "+o.Op, o.Options, o.Connect)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Address, "address", "127.0.0.1:8420", "loopback host:port of the node")
	f.StringVar(&o.Op, "op", "check", "check or report")
	f.StringVar(&o.Token, "token", "", "bearer token; empty: anonymous")
	loadFlags(cmd, &o.Options, 64)
	f.Uint64Var(&o.Known, "signatures", 1_000_000, "distinct signatures in requests; 0: a new one in each request")
	return cmd
}

func newPolicyCommand() *cobra.Command {
	var o load.Policy
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "Postfix policy requests at RCPT, each with a new recipient",
		Args:  cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return measure(cmd, "policy", o.Options, o.Connect)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Address, "address", "127.0.0.1:10040", "loopback host:port of the policy server, or unix:/path")
	f.IntVar(&o.Accounts, "accounts", 10_000, "accounts (sasl_username) in requests")
	loadFlags(cmd, &o.Options, 16)
	return cmd
}

func newDNSBLCommand() *cobra.Command {
	var o load.DNSBL
	cmd := &cobra.Command{
		Use:   "dnsbl",
		Short: "DNS block list queries over UDP; every second name is listed",
		Long: "Send DNS block list queries over UDP, to this server or another. Every second query is\n" +
			"for a name in the file, the others for names that are not. A request in the result\n" +
			"is a batch of --flight queries.",
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			names, err := load.ReadNames(o.Names)
			if err != nil {
				return err
			}
			res, err := load.Run(cmd.Context(), o.Options, func(i int) (load.Client, error) { return o.Connect(i, names) })
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "dnsbl, %d clients with %d queries in flight: %.0f queries/s; batches: %v\n",
				o.Clients, o.Flight, res.PerSecond()*float64(o.Flight), res)
			return res.First
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Address, "address", "127.0.0.1:5300", "loopback host:port of the server")
	f.StringVar(&o.Zone, "zone", "bl.example.com", "zone to query")
	f.StringVar(&o.Names, "names", "", "file of listed domains, one on each line")
	f.IntVar(&o.Flight, "flight", 32, "queries in flight for each client, 1 to 256")
	loadFlags(cmd, &o.Options, 8)
	_ = cmd.MarkFlagRequired("names") // the flag exists
	return cmd
}

// mostMail is the number of messages that are read for a measurement, from each folder.
const mostMail = 500

// mailFlag adds the flag for readMail's folders.
func mailFlag(f *pflag.FlagSet, folders *[]string) {
	f.StringSliceVar(folders, "mail", nil,
		fmt.Sprintf("folders of mail to send, the first %d messages of each, in place of made ones", mostMail))
}

// readMail returns the first messages of each folder.
func readMail(ctx context.Context, folders []string) (all [][]byte, err error) {
	for _, folder := range folders {
		n := 0
		for m, err := range mailbox.Read(ctx, folder, mailbox.Options{}) {
			if err != nil {
				return nil, err
			}
			all = append(all, m.Raw)
			if n++; n == mostMail {
				break
			}
		}
	}
	return all, nil
}

func newMilterCommand() *cobra.Command {
	var o load.Milter
	var folders []string
	cmd := &cobra.Command{
		Use:   "milter",
		Short: "Messages through the milter, each with a new text",
		Args:  cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Size < 100 || o.Size > 10<<20 {
				return cli.Usagef("--size %d, want 100 to %d", o.Size, 10<<20)
			}
			var err error
			if o.Mail, err = readMail(cmd.Context(), folders); err != nil {
				return err
			}
			what := fmt.Sprintf("milter, messages of %d bytes", o.Size)
			if len(o.Mail) > 0 {
				what = fmt.Sprintf("milter, %d messages in turn", len(o.Mail))
			}
			return measure(cmd, what, o.Options, o.Connect)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Address, "address", "127.0.0.1:8891", "loopback host:port of the milter, or unix:/path")
	f.IntVar(&o.Size, "size", 20_000, "bytes of a message's body")
	mailFlag(f, &folders)
	loadFlags(cmd, &o.Options, 1)
	return cmd
}

func newRazor2Command() *cobra.Command {
	var o load.Razor2
	cmd := &cobra.Command{
		Use:   "razor2",
		Short: "Checks of engine-4 signatures over persistent connections",
		Args:  cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := load.LoopbackOnly(o.Address); err != nil {
				return err
			}
			if o.Rows < 1 || o.Rows > 50 {
				return cli.Usagef("--rows %d, want 1 to 50", o.Rows)
			}
			before := load.ProcessorTime(o.Pid)
			res, err := load.Run(cmd.Context(), o.Options, o.Connect)
			if err != nil {
				return err
			}
			out, checks := cmd.OutOrStdout(), res.PerSecond()*float64(o.Rows)
			fmt.Fprintf(out, "razor2 check, %d connections, %d rows each: %v\n", o.Clients, o.Rows, res)
			fmt.Fprintf(out, "%.0f signatures/s, %.1f x the paper's busiest server (%.0f/s)\n", checks, checks/load.PaperChecks,
				load.PaperChecks)
			if o.Pid != 0 && res.Requests > 0 {
				// The processor time includes the warm-up, whose requests do not
				// count, so this is slightly too high.
				spent := load.ProcessorTime(o.Pid) - before
				fmt.Fprintf(out, "server %.2f us of processor a request\n", float64(spent.Microseconds())/float64(res.Requests))
			}
			return failure(res)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Address, "address", "127.0.0.1:2703", "loopback host:port of the server")
	loadFlags(cmd, &o.Options, 64)
	f.Uint64Var(&o.Known, "signatures", 1_000_000, "distinct signatures in requests")
	f.IntVar(&o.Rows, "rows", 1, "signatures in one request")
	f.IntVar(&o.Pid, "pid", 0, "process id of the server, to print its processor time; 0: do not print it")
	return cmd
}

// loadFlags adds the flags that bound a run.
func loadFlags(cmd *cobra.Command, o *load.Options, clients int) {
	f := cmd.Flags()
	f.IntVar(&o.Clients, "clients", clients, "concurrent clients, each on its own connection")
	f.DurationVar(&o.Duration, "duration", 5*time.Second, "measured time")
	f.DurationVar(&o.Warmup, "warmup", time.Second, "time before that, not counted")
}

// measure runs clients on connections of their own and prints what they saw.
func measure(cmd *cobra.Command, what string, o load.Options, connect func(int) (load.Client, error)) error {
	res, err := load.Run(cmd.Context(), o, connect)
	if err != nil {
		return err
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s, %d clients: %v\n", what, o.Clients, res)
	return failure(res)
}

// failure returns the error of requests that failed, if any did.
func failure(r *load.Result) error {
	if r.First == nil {
		return nil
	}
	return fmt.Errorf("%d of %d requests failed, one of them: %w", r.Errors, r.Errors+r.Requests, r.First)
}

func newLoadCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "load DOOR",
		Short: "Measure how many requests a node on this machine answers",
		Long: "Measure how many requests a node on this machine answers, with a limited number of clients,\n" +
			"for a limited time, at loopback addresses only. A refused request is an error.",
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cli.Usagef("%s needs a door: see \"%s --help\"", cmd.CommandPath(), cmd.CommandPath())
		},
	}
	cmd.AddCommand(
		newHTTPCommand(),
		newPolicyCommand(),
		newDNSBLCommand(),
		newMilterCommand(),
		newRazor2Command(),
		newPyzorCommand(),
		newDCCCommand(),
		newFuzzyCommand(),
	)
	return cmd
}
