package mail

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/bulkhead-mail/bulkhead/internal/cli"
	"github.com/bulkhead-mail/bulkhead/internal/command"
	"github.com/bulkhead-mail/bulkhead/internal/units"
)

func newSignaturesCommand() *cobra.Command {
	var r command.Remote
	var in input
	cmd := &cobra.Command{
		Use:   "signatures [--server URL] [--json] MESSAGE...",
		Short: "Print the signatures of messages, without asking or counting",
		Long: "Print the signatures of messages as the node computes them, since some depend on\n" +
			"the key of its network. This looks nothing up and counts nothing. " + messageHelp,
		Args: cli.Args(needMessages),
		RunE: func(cmd *cobra.Command, args []string) error {
			node, err := r.Client()
			if err != nil {
				return err
			}
			w := cmd.OutOrStdout()
			return in.each(cmd, args, func(m *message) error {
				sigs, err := node.MessageSignatures(cmd.Context(), m.raw)
				if err != nil {
					return err
				}
				if r.JSON {
					return json.NewEncoder(w).Encode(struct {
						Message string `json:"message"`
						Signed  any    `json:"signed"`
					}{m.name, sigs})
				}
				fmt.Fprintf(w, "%s: %s\n", m.label(), units.Plural(len(sigs.Signatures), "signature"))
				for _, sig := range sigs.Signatures {
					fmt.Fprintf(w, "    %s\n", sig)
				}
				return nil
			})
		},
	}
	r.Flags(cmd.Flags())
	in.flags(cmd.Flags())
	return cmd
}
