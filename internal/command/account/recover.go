package account

import (
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/bulkhead-mail/bulkhead/internal/cli"
	"github.com/bulkhead-mail/bulkhead/internal/command"
	"github.com/bulkhead-mail/bulkhead/internal/node"
)

func newUserRecover(u *adminFlags) *cobra.Command {
	var configPath string
	cmd := &cobra.Command{
		Use:   "recover",
		Short: "Give the account \"admin\" of a stopped node a new token, when all others are lost",
		Long: "Give the account \"admin\" of a stopped node on this machine a new token, and write it\n" +
			"to the node's data folder. If need be, the account is created, reopened and made an\n" +
			"administrator again; nothing else changes. A user who can write to the data folder\n" +
			"owns the node, so no token is needed.",
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := command.LoadConfig(configPath)
			if err != nil {
				return err
			}
			dir := command.NodeFolder(u.Data, cfg.Node.Data)
			log := command.NewLogger(cmd.ErrOrStderr(), cfg, new(slog.LevelVar))
			err = node.RecoverAdmin(cmd.Context(), cfg, dir, log)
			command.Record(cmd, dir, "recover", err)
			return err
		},
	}
	cmd.Flags().StringVar(&configPath, "config", "", "configuration `FILE` of the node")
	return cmd
}
