// Package network holds the commands on the network of nodes: its secret, invitations, peers and standbys.
package network

import (
	"github.com/spf13/cobra"

	"github.com/bulkhead-mail/bulkhead/internal/command"
)

// Commands returns the commands of this package.
func Commands() []*cobra.Command {
	return []*cobra.Command{
		newNetworkCommand(),
		newPeerCommand(),
		newInviteCommand(),
		newJoinCommand(),
		newLeaveCommand(),
		newRekeyCommand(),
		newStandbyCommand(),
		newPromoteCommand(),
	}
}

// adminFlags are the flags of a command for administrators. Its methods print the answers.
type adminFlags struct{ command.Admin }
