// Package list holds the commands on files of lists and filters, which need no node.
package list

import (
	"github.com/spf13/cobra"
)

// Commands returns the commands of this package.
func Commands() []*cobra.Command {
	return []*cobra.Command{
		newListCommand(),
		newFilterCommand(),
	}
}
