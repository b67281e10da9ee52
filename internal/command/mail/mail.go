// Package mail holds the commands on messages: check, report, revoke, signatures, abuse, and the
// waves of similar messages.
package mail

import (
	"github.com/spf13/cobra"

	"github.com/bulkhead-mail/bulkhead/internal/command"
)

// Commands returns the commands of this package.
func Commands() []*cobra.Command {
	return []*cobra.Command{
		newCheckCommand(),
		newReportCommand(),
		newRevokeCommand(),
		newWaitingCommand(),
		newSignaturesCommand(),
		newAbuseCommand(),
		newLearnCommand(),
		newWaveCommand(),
		newWhitelistCommand(),
	}
}

// adminFlags are the flags of a command for administrators. Its methods print the answers.
type adminFlags struct{ command.Admin }
