//go:build man

package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/bulkhead-mail/bulkhead/internal/cli"
)

// manCommands returns the command that writes the manual pages for packages. The released program
// leaves it out because of the libraries it links.
func manCommands() []*cobra.Command {
	return []*cobra.Command{{
		Use:    "man FOLDER",
		Short:  "Write a manual page of each command into a folder",
		Args:   cli.Args(cobra.ExactArgs(1)),
		Hidden: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return fmt.Errorf("man: %w", err)
			}
			// The date of a page is $SOURCE_DATE_EPOCH, or today.
			header := &doc.GenManHeader{Section: "1", Source: "bulkhead " + release, Manual: "bulkhead"}
			cmd.Root().DisableAutoGenTag = true
			return doc.GenManTree(cmd.Root(), header, args[0])
		},
	}}
}
