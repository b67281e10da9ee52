package main

import (
	"github.com/spf13/cobra"

	"github.com/bulkhead-mail/bulkhead/internal/cli"
)

// newLabCommand returns a command that replaces one that moved to bulkhead-lab and points there.
func newLabCommand(name string) *cobra.Command {
	return &cobra.Command{
		Use: name, Short: "See bulkhead-lab " + name, Hidden: true, DisableFlagParsing: true,
		RunE: func(*cobra.Command, []string) error {
			return cli.Usagef("%s is a command of bulkhead-lab: run \"bulkhead-lab %s\"", name, name)
		},
	}
}
