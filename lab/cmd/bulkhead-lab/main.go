// Command bulkhead-lab measures and simulates: the papers' simulations, mail played through
// simulated sites, attacks on the trust in reporters, and load on a node of this machine. A
// node needs none of it.
//
//	bulkhead-lab study                 the papers' simulations, tables and figures
//	bulkhead-lab replay MAIL...        labelled mail through simulated sites
//	bulkhead-lab stream MAIL...        a month of campaigns, ham and complaints
//	bulkhead-lab real                  whole mail through the doors of real processes
//	bulkhead-lab attack                what it takes to deceive a node
//	bulkhead-lab learn COLLECTION...   words and style, from reports against deliveries
//	bulkhead-lab load DOOR             requests that a node on this machine answers
//	bulkhead-lab gate                  two builds of the server, compared in speed
//	bulkhead-lab stub                  a check over HTTP beside the least server of the same library
//
// It exits with 0, or with a code of sysexits.h, 64 and up, for an error.
//
// Each file holds a command.
package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/bulkhead-mail/bulkhead/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the whole program, and returns its exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newRootCommand()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	code, _ := cli.CodeOf(err)
	if err != nil {
		hint := ""
		switch {
		case code == cli.Usage:
			hint = "see \"bulkhead-lab help\""
		case errors.Is(err, syscall.ECONNREFUSED):
			hint = "is a node running? name its address with --address"
		}
		cli.Complain(stderr, "bulkhead-lab", err, hint)
	}
	return int(code)
}

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "bulkhead-lab",
		Short:         "Simulate, replay, attack and load a collaborative spam clearinghouse",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return cli.UsageError{Err: err} })
	root.AddCommand(newStudyCommand(), newReplayCommand(), newStreamCommand(), newRealCommand(),
		newAttackCommand(), newLearnCommand(), newLoadCommand(), newGateCommand(), newStubCommand())
	return root
}
