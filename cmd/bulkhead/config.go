package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/bulkhead-mail/bulkhead/internal/cli"
	"github.com/bulkhead-mail/bulkhead/internal/config"
	"github.com/bulkhead-mail/bulkhead/internal/node"
)

func newConfigCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "config", Short: "Check a configuration file, or print every key", Args: cli.Args(cobra.NoArgs), RunE: needCommand}
	cmd.AddCommand(
		&cobra.Command{
			Use:   "check FILE",
			Short: "Check a configuration file",
			Long: "Check a configuration file, including the rules of rate limits, the policies of the\n" +
				"milter, and zones. The files of lists and the certificate are read, too.",
			Args: cli.Args(cobra.ExactArgs(1)),
			RunE: func(cmd *cobra.Command, args []string) error {
				cfg, err := config.Inspect(args[0])
				if cfg != nil {
					if wrong := node.CheckConfig(cfg); wrong != nil {
						err = errors.Join(err, fmt.Errorf("%s: %w", args[0], wrong))
					}
				}
				if err != nil {
					return err
				}
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: no mistakes\n", args[0])
				return err
			},
		},
		&cobra.Command{
			Use:   "reference",
			Short: "Print every key with its meaning and default, as a configuration file",
			Args:  cli.Args(cobra.NoArgs),
			RunE: func(cmd *cobra.Command, _ []string) error {
				return config.WriteReference(cmd.OutOrStdout())
			},
		},
	)
	return cmd
}

// needCommand is run for a command that is only a group of others.
func needCommand(cmd *cobra.Command, _ []string) error {
	return cli.Usagef("%s needs a command; see \"%s --help\"", cmd.CommandPath(), cmd.CommandPath())
}
