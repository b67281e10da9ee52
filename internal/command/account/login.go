package account

import (
	"fmt"

	"github.com/bulkhead-mail/bulkhead/client/admin"

	"github.com/spf13/cobra"

	"github.com/bulkhead-mail/bulkhead/internal/cli"
	"github.com/bulkhead-mail/bulkhead/internal/command"
)

func newLoginCommand() *cobra.Command {
	u := &adminFlags{}
	cmd := &cobra.Command{
		Use:   "login",
		Short: "Print a link that logs a browser in to the node's pages",
		Long: "Print a link that logs a browser in to the node's pages, as the account of the token.\n" +
			"On the node's own machine, root, the node's user and members of the group bulkhead\n" +
			"need no token, and are the account \"admin\". It is good once, for ten minutes.",
		Args: cli.Args(cobra.NoArgs),
		RunE: u.Ask(func(cmd *cobra.Command, c *admin.Client, _ []string) error {
			link, err := c.NewLoginLink(cmd.Context())
			if err != nil {
				return err
			}
			server, err := command.PublicURL(cmd.Context(), c)
			if err != nil {
				return err
			}
			if link.Path = server + link.Path; u.JSON {
				return command.PrintJSON(cmd.OutOrStdout(), []admin.LoginLink{*link})
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), link.Path)
			return err
		}),
	}
	u.Flags(cmd.Flags())
	return cmd
}
