// Command bulkhead is the node of a collaborative spam clearinghouse, and the
// tool that asks one.
//
//	bulkhead serve                     run a node on this machine
//	bulkhead check MESSAGE...          what is known of messages
//	bulkhead report MESSAGE...         say that messages are spam
//	bulkhead revoke MESSAGE...         take that back
//	bulkhead config reference          every configuration key
//	bulkhead help                      every other command
//
// It exits with 0, with 1 when a check has found what was asked about (spam or
// bulk, or an entry of a list), or with a code of sysexits.h, 64 and up, for an
// error.
//
// Each file holds a command or a front door's wiring; serve.go puts a node
// together.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run is the whole program, and returns its exit code.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newRootCommand()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(context.Background())
	if err == nil {
		return exitOK
	}
	var code exitCode
	if errors.As(err, &code) && code < exitUsage {
		return int(code) // an answer, not an error
	}
	complain(stderr, err)
	return codeOf(err)
}

// complain prints an error, each line of a joined one by itself.
func complain(w io.Writer, err error) {
	var code exitCode
	if errors.As(err, &code) && err == error(code) {
		return // whoever returned the bare code has said why
	}
	for line := range strings.Lines(err.Error()) {
		fmt.Fprintln(w, "bulkhead:", strings.TrimSuffix(line, "\n"))
	}
	if hint := hintFor(err); hint != "" {
		fmt.Fprintln(w, "bulkhead: hint:", hint)
	}
}

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "bulkhead",
		Short: "A self-hosted collaborative spam clearinghouse held in Bloom filters",
		Long: "A self-hosted collaborative spam clearinghouse held in Bloom filters.\n\n" +
			"Run a node with \"bulkhead serve\"; ask it with check, report and revoke.",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.AddCommand(
		newServeCommand(),
		newCheckCommand(),
		newReportCommand(),
		newRevokeCommand(),
		newSignaturesCommand(),
		newReplayCommand(),
		newStudyCommand(),
		newUserCommand(),
		newNetworkCommand(),
		newPeerCommand(),
		newConfigCommand(),
		newFilterCommand(),
		newListCommand(),
		newRatelimitCommand(),
		newBackupCommand(),
		newRestoreCommand(),
		newVersionCommand(),
	)
	return root
}
