// Command bulkhead-load measures how many requests a node on this machine
// answers: a bounded number of clients, each with one request in flight, for a
// bounded time, to loopback addresses only.
//
//	bulkhead-load http --clients 64 --duration 10s --op check
//	bulkhead-load dcc --sockets 8 --window 64 --op query --pid 4711
//
// There is a subcommand for each front door: http, policy, dnsbl, milter, razor2,
// pyzor, dcc and fuzzy; "bulkhead-load DOOR --help" prints its flags. A request
// that was refused makes the exit code 1.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	root := &cobra.Command{
		Use:           "bulkhead-load",
		Short:         "Measure how many requests a node on this machine answers",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(
		newHTTPCommand(),
		newPolicyCommand(),
		newDNSBLCommand(),
		newMilterCommand(),
		newRazor2Command(),
		newPyzorCommand(),
		newDCCCommand(),
		newFuzzyCommand(),
	)
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bulkhead-load:", err)
		os.Exit(1)
	}
}
