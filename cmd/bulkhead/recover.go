package main

import (
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/bulkhead-mail/bulkhead/internal/cli"
	"github.com/bulkhead-mail/bulkhead/internal/config"
	"github.com/bulkhead-mail/bulkhead/internal/node"
)

func newUserRecover(u *adminFlags) *cobra.Command {
	var configPath string
	cmd := &cobra.Command{
		Use:   "recover",
		Short: "Give the account \"admin\" of a stopped node a new token, when all others are lost",
		Long: "Give the account \"admin\" of a stopped node on this machine a new token, which is\n" +
			"written to the node's data folder. The account is made, opened and made an\n" +
			"administrator again if need be; nothing else changes. Whoever can write the data\n" +
			"folder is taken to own the node: no token is asked for.",
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			cfg := config.Default()
			if configPath != "" {
				if cfg, err = config.Load(configPath); err != nil {
					return err
				}
			}
			dir := dataFolder(u.data, cfg.Node.Data)
			log := newLogger(cmd.ErrOrStderr(), cfg, new(slog.LevelVar))
			return node.RecoverAdmin(cmd.Context(), cfg, dir, log)
		},
	}
	cmd.Flags().StringVar(&configPath, "config", "", "configuration `FILE` of the node")
	return cmd
}
