package network

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/bulkhead-mail/bulkhead/client/admin"

	"github.com/spf13/cobra"

	"github.com/bulkhead-mail/bulkhead/internal/cli"
	"github.com/bulkhead-mail/bulkhead/internal/command"
	"github.com/bulkhead-mail/bulkhead/internal/node"
)

func newRekeyCommand() *cobra.Command {
	var u adminFlags
	var in time.Duration
	var secretFile string
	var status, cancel, anyway bool
	cmd := &cobra.Command{
		Use:   "rekey",
		Short: "Announce another secret of the network, which all nodes then use at one time",
		Long: "Announce another secret of the network on a hub. The hub's peers fetch it until it is\n" +
			"used; peers that are away then fetch it later. Counts until then answer, and are shared,\n" +
			"until they expire; former peers learn nothing of what is counted from then on.\n" +
			"A hub refuses while a member has answered that it cannot take another secret.\n" +
			"Unused invitations become void. A network without hubs is\n" +
			"given the same --secret-file on each of its nodes.",
		Args: cli.Args(cobra.NoArgs),
		RunE: u.Ask(func(cmd *cobra.Command, c *admin.Client, _ []string) error {
			var s *admin.SecretChange
			var err error
			switch {
			case status && cancel:
				return cli.Usagef("--status and --cancel are two questions")
			case status:
				var n *admin.Network
				if n, err = c.Network(cmd.Context()); err == nil {
					s = n.Secret
				}
			case cancel:
				s, err = c.KeepSecret(cmd.Context())
			default:
				s, err = announce(cmd, c, admin.NewSecret{Seconds: in.Seconds(), Anyway: anyway}, secretFile)
			}
			if err != nil {
				return err
			}
			if u.JSON {
				list := []admin.SecretChange{}
				if s != nil {
					list = append(list, *s)
				}
				return command.PrintJSON(cmd.OutOrStdout(), list)
			}
			if cancel {
				_, err := fmt.Fprintf(cmd.OutOrStdout(),
					"network %s keeps its secret; peers that have fetched the other one hear of it when they ask next\n", s.From)
				return err
			}
			return printSecretChange(cmd.OutOrStdout(), s)
		}),
	}
	f := cmd.Flags()
	u.Flags(f)
	f.DurationVar(&in, "in", time.Hour, "when the secret is used, from now: 0 to 720h")
	f.StringVar(&secretFile, "secret-file", "",
		"`FILE` with the secret, 32 hexadecimal digits, instead of one that the hub makes")
	f.BoolVar(&status, "status", false, "print what was announced, and who has fetched it")
	f.BoolVar(&anyway, "anyway", false, "announce it although members cannot take it; they stay behind")
	f.BoolVar(&cancel, "cancel", false, "take back what was announced and is not used yet")
	return cmd
}

func announce(cmd *cobra.Command, c *admin.Client, n admin.NewSecret, secretFile string) (*admin.SecretChange, error) {
	if secretFile != "" {
		text, err := node.ReadSecret(secretFile)
		if err != nil {
			return nil, err
		}
		n.Secret = text
	}
	return c.ChangeSecret(cmd.Context(), n)
}

func printSecretChange(w io.Writer, s *admin.SecretChange) error {
	if s == nil {
		_, err := fmt.Fprintln(w, "no other secret was announced")
		return err
	}
	t := command.NewTable(w)
	fmt.Fprintf(t, "network\t%s\nnext\t%s\n", s.From, s.To)
	when := "used from"
	if s.Done {
		when = "used since"
	}
	fmt.Fprintf(t, "%s\t%s\nannounced by\t%s\n", when, s.At.Local().Format(time.DateTime), s.By)
	if !s.Done {
		fmt.Fprintf(t, "fetched by\t%d of %d peers\n", len(s.Fetched), len(s.Fetched)+len(s.Through)+len(s.Missing))
		if len(s.Through) > 0 {
			fmt.Fprintf(t, "through a sum\t%s\n", strings.Join(s.Through, " "))
		}
		if len(s.Missing) > 0 {
			fmt.Fprintf(t, "not yet by\t%s\n", strings.Join(s.Missing, " "))
		}
	}
	for _, who := range s.Unable {
		fmt.Fprintf(t, "cannot take another\t%s\n", who)
	}
	return t.Flush()
}
