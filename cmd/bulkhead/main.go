// Command bulkhead runs a node of a collaborative spam clearinghouse, and queries one.
//
//	bulkhead serve                     run a node on this machine
//	bulkhead check MESSAGE...          what is known of messages
//	bulkhead report MESSAGE...         say that messages are spam
//	bulkhead revoke MESSAGE...         take that back
//	bulkhead config reference          every configuration key
//	bulkhead help                      every other command
//
// It exits with 0; with 1 if a check found its target (spam, or an entry of a list); with 2 for
// bulk; or with a code of sysexits.h, 64 and up, for an error.
//
// Each file holds one command; the packages of internal/command hold the others by area. The node
// itself is in internal/node.
package main

import (
	"context"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/bulkhead-mail/bulkhead/internal/cli"
	"github.com/bulkhead-mail/bulkhead/internal/command"
	"github.com/bulkhead-mail/bulkhead/internal/command/account"
	"github.com/bulkhead-mail/bulkhead/internal/command/list"
	"github.com/bulkhead-mail/bulkhead/internal/command/mail"
	"github.com/bulkhead-mail/bulkhead/internal/command/network"
	"github.com/bulkhead-mail/bulkhead/internal/command/shard"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run is the whole program. It returns the exit code.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newRootCommand()
	out, complaints := cli.NewScreen(stdout), cli.NewScreen(stderr)
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(out)
	root.SetErr(complaints)
	cmd, err := root.ExecuteContextC(context.Background())
	if failed := out.Flush(); failed != nil {
		err = failed // the command returns the same error, or none
	}
	command.Complain(cmd, err)
	complaints.Flush()
	return command.CodeOf(err)
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
	root.AddCommand(
		newServeCommand(),
		newSetupCommand(),
		newReadyCommand(),
		newVerdictsCommand(),
		newRulesCommand(),
		newHistoryCommand(),
		newClockCommand(),
		newAuditCommand(),
		newConfigCommand(),
		newRatelimitCommand(),
		newSizeCommand(),
		newBackupCommand(),
		newRestoreCommand(),
		newDoctorCommand(),
		newVersionCommand(),
		newLabCommand("replay"),
		newLabCommand("study"),
	)
	for _, area := range [][]*cobra.Command{mail.Commands(), network.Commands(), account.Commands(), list.Commands(),
		shard.Commands()} {
		root.AddCommand(area...)
	}
	root.AddCommand(manCommands()...)
	dress(root)
	return root
}

// adminFlags are the flags of a command for administrators. Its methods print the answers.
type adminFlags struct{ command.Admin }
