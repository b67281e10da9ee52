// Package account holds the commands on the accounts of a node: user, recovery, and login.
package account

import (
	"github.com/spf13/cobra"

	"github.com/bulkhead-mail/bulkhead/internal/command"
)

// Commands returns the commands of this package.
func Commands() []*cobra.Command {
	return []*cobra.Command{
		newUserCommand(),
		newLoginCommand(),
	}
}

// adminFlags are the flags of a command for administrators. Its methods print the answers.
type adminFlags struct{ command.Admin }
