package mail

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/cli"
	"github.com/bulkhead-mail/bulkhead/internal/command"
	"github.com/bulkhead-mail/bulkhead/internal/units"
)

// newLearnCommand returns the command that has a node begin with the words of mail that was kept.
func newLearnCommand() *cobra.Command {
	var r command.Remote
	var in input
	var spam, delivered []string
	cmd := &cobra.Command{
		Use:   "learn [--spam FOLDER] [--delivered FOLDER]",
		Short: "Learn the words and the style of mail that was kept",
		Long: "Have a node learn the words and the style of mail: of spam, and of mail that was delivered and\n" +
			"kept. Each argument is a message, an mbox, a Maildir or a folder. Nothing else of the mail\n" +
			"counts: no signature is reported or seen. A message is learnt once, so the command may be\n" +
			"repeated. Give delivered mail as it came, and not only what was kept for long: the node\n" +
			"compares the words of spam with the words of all other mail. See docs/learning.md.\n\n" +
			"It takes a trusted account, or no account on the machine of the node.",
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(spam)+len(delivered) == 0 {
				return cli.Usagef("give --spam, --delivered, or both")
			}
			c, err := r.Client()
			if err != nil {
				return err
			}
			for _, part := range []struct {
				paths []string
				spam  bool
				what  string
			}{{delivered, false, "delivered"}, {spam, true, "spam"}} {
				if err := learnAll(cmd, c, &in, part.paths, part.spam, part.what); err != nil {
					return err
				}
			}
			return nil
		},
	}
	r.Flags(cmd.Flags())
	in.flags(cmd.Flags())
	cmd.Flags().StringArrayVar(&spam, "spam", nil, "`FOLDER` or file with spam; may be repeated")
	cmd.Flags().StringArrayVar(&delivered, "delivered", nil, "`FOLDER` or file with delivered mail; may be repeated")
	return cmd
}

// learnAll has the node learn the mail of some paths. Errors of single messages are printed.
func learnAll(cmd *cobra.Command, c *admin.Client, in *input, paths []string, spam bool, what string) error {
	if len(paths) == 0 {
		return nil
	}
	n := 0
	err := in.each(cmd, paths, func(m *message) error {
		err := c.LearnMessage(cmd.Context(), m.raw, spam)
		if err == nil {
			n++
		}
		return err
	})
	if _, printed := fmt.Fprintf(cmd.OutOrStdout(), "%s: %s learnt\n", what, units.Plural(n, "message")); err == nil {
		err = printed
	}
	return err
}
