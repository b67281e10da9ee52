package network

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/bulkhead-mail/bulkhead/client/admin"

	"github.com/spf13/cobra"

	"github.com/bulkhead-mail/bulkhead/internal/cli"
	"github.com/bulkhead-mail/bulkhead/internal/command"
	"github.com/bulkhead-mail/bulkhead/internal/consequence"
	"github.com/bulkhead-mail/bulkhead/internal/units"
)

func newPeerCommand() *cobra.Command {
	var u adminFlags
	cmd := &cobra.Command{
		Use:   "peer",
		Short: "Manage the peers of a node",
		Long: "Manage the peers of a node.\n" + command.AdminHelp + "\n" +
			"A peer is named by its key, or by its name if only one has it.",
		Args: cli.Args(cobra.NoArgs),
		RunE: command.NeedCommand,
	}
	u.Flags(cmd.PersistentFlags())
	cmd.AddCommand(newPeerAdd(&u), newPeerList(&u), newPeerWeigh(&u), newPeerEvict(&u), newPeerRollback(&u),
		newPeerForget(&u), newPeerRequests(&u), newPeerAccept(&u), newPeerRefuse(&u))
	for _, sub := range cmd.Commands() {
		switch sub.Name() {
		case "weigh", "evict", "rollback", "forget":
			u.Complete(command.PeerNames, nil, sub)
		}
	}
	return cmd
}

func newPeerAdd(u *adminFlags) *cobra.Command {
	var name, weight, group string
	var keeper bool
	cmd := &cobra.Command{
		Use: "add KEY", Short: "Add a peer: accept what another node publishes",
		Long: "Add a peer: accept what another node publishes. With --group, the members of a group\n" +
			"become peers of each other: add each member on one node, the keeper, and the keeper\n" +
			"with --keeper on each member.",
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: u.Ask(func(cmd *cobra.Command, c *admin.Client, args []string) error {
			w, err := command.ParseWeight(weight)
			if err != nil {
				return err
			}
			p, err := c.AddPeer(cmd.Context(), admin.NewPeer{Key: args[0], Name: name, Weight: w, Group: group,
				Keeper: keeper})
			if err != nil {
				return err
			}
			return u.printPeers(cmd.OutOrStdout(), []admin.Peer{*p})
		}),
	}
	cmd.Flags().StringVar(&name, "name", "", "name for people (default: what the peer calls itself)")
	cmd.Flags().StringVar(&weight, "weight", "0.5",
		"weight of what it says, 0 to 1; below trust.promotion it lists nothing alone")
	cmd.Flags().StringVar(&group, "group", "", "group that it is a member of, and this node keeps")
	cmd.Flags().BoolVar(&keeper, "keeper", false, "it keeps the group: take the other members from its list")
	return cmd
}

func newPeerList(u *adminFlags) *cobra.Command {
	return command.NewList(&u.Admin, "list", "Print every peer: weight, lag, bytes, refusals, keys, error",
		(*admin.Client).Peers, u.printPeers)
}

func (u *adminFlags) printPeers(w io.Writer, list []admin.Peer) error {
	return command.PrintTable(w, u.JSON, list,
		"NAME\tWEIGHT\tSTATE\tHEARD\tLAG\tMISSING\tBYTES\tKEYS\tMEMORY\tMERGED\tGHOST\tREFUSED\tGROUP\tORGS\tKEY\tERROR",
		func(t io.Writer, p *admin.Peer) {
			contact, lag := "never", "-"
			if !p.Heard.IsZero() {
				contact, lag = p.Heard.Local().Format(time.DateTime), fmt.Sprintf("%.1fs", p.Lag)
			}
			refused := uint64(0)
			for _, n := range p.Refused {
				refused += n
			}
			fmt.Fprintf(t, "%s\t%.3g\t%s\t%s\t%s\t%d\t%s\t%d\t%s\t%d\t%.1g\t%d\t%s\t%d\t%s\t%s\n", command.Dash(p.Name),
				p.Weight, stateOf(p), contact, lag, p.Missing, units.ByteSize(p.Bytes), p.Keys, units.ByteSize(p.Memory),
				p.Merged, p.Ghost, refused, command.Dash(p.Group), max(1, p.Organisations), p.Key, reasons(p))
		})
}

// stateOf describes the state of a peer.
func stateOf(p *admin.Peer) (state string) {
	switch {
	case p.Expels:
		state = "expelled by it"
	case p.Quarantine != "":
		state = "quarantine: " + p.Quarantine
	case p.Network != "":
		state = "other secret: it is in network " + p.Network
	case p.Silent > 0:
		state = "silent for " + seconds(p.Silent)
	case p.Weight == 0:
		state = "kept apart"
	case p.Behind > 0:
		state = "behind " + seconds(p.Behind)
	default:
		state = "counted"
	}
	if n := p.FormerKeys(); n > 0 {
		state += fmt.Sprintf(", and %d keys of before it lost its store", n)
	}
	return state
}

func seconds(n float64) string {
	return time.Duration(n * float64(time.Second)).Round(time.Second).String()
}

// reasons returns why parts of a peer were refused, with the text of the last refusal.
func reasons(p *admin.Peer) string {
	if p.Error == "" {
		return "-"
	}
	var list []string
	for _, reason := range slices.Sorted(maps.Keys(p.Refused)) {
		list = append(list, fmt.Sprintf("%d %s", p.Refused[reason], reason))
	}
	return strings.Join(list, ", ") + "; last: " + p.Error
}

// keyOf returns the key of the peer that text names, by its name or its key.
func keyOf(ctx context.Context, c *admin.Client, text string) (string, error) {
	list, err := c.Peers(ctx)
	if err != nil {
		return "", err
	}
	var found []string
	for i := range list {
		if list[i].Key == text {
			return text, nil
		}
		if list[i].Name == text {
			found = append(found, list[i].Key)
		}
	}
	switch len(found) {
	case 0:
		return "", cli.DataError{Err: fmt.Errorf("no peer has the name or key %q; see \"bulkhead peer list\"", text)}
	case 1:
		return found[0], nil
	}
	return "", fmt.Errorf("%d peers are called %q: use the key of one", len(found), text)
}

func newPeerWeigh(u *adminFlags) *cobra.Command {
	return &cobra.Command{
		Use: "weigh PEER WEIGHT", Short: "Set the weight of a peer, 0 to 1; ends its quarantine",
		Args: cli.Args(cobra.ExactArgs(2)),
		RunE: u.Ask(func(cmd *cobra.Command, c *admin.Client, args []string) error {
			weight, err := command.ParseWeight(args[1])
			if err != nil {
				return err
			}
			key, err := keyOf(cmd.Context(), c, args[0])
			if err != nil {
				return err
			}
			p, err := c.WeighPeer(cmd.Context(), key, weight)
			if err != nil {
				return err
			}
			return u.printPeers(cmd.OutOrStdout(), []admin.Peer{*p})
		}),
	}
}

func newPeerEvict(u *adminFlags) *cobra.Command {
	var confirm command.Confirmation
	cmd := &cobra.Command{
		Use: "evict PEER", Short: "Remove a peer and drop everything it counted",
		Long: "Remove a peer and drop everything it counted. The command prints how many keys that is, and\n" +
			"asks. To come back, the peer needs a new invitation, or \"bulkhead peer add\".",
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: u.Ask(func(cmd *cobra.Command, c *admin.Client, args []string) error {
			key, err := keyOf(cmd.Context(), c, args[0])
			if err != nil {
				return err
			}
			loss, err := c.PreviewEvict(cmd.Context(), key)
			if err != nil {
				return err
			}
			if err := confirm.Ask(cmd, consequence.Evict(args[0], loss)); err != nil {
				return err
			}
			return c.EvictPeer(cmd.Context(), key)
		}),
	}
	confirm.Flag(cmd.Flags())
	return cmd
}

func newPeerForget(u *adminFlags) *cobra.Command {
	var confirm command.Confirmation
	cmd := &cobra.Command{
		Use:   "forget PEER",
		Short: "Drop what is kept of incarnations that a peer has lost",
		Long: "Drop what is kept of incarnations that a peer has lost with its store. Until then it\n" +
			"counts beside what the peer counts anew, and ages as usual. It may be the only copy:\n" +
			"what was dropped cannot be had back. The command prints how much that is, and asks.",
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: u.Ask(func(cmd *cobra.Command, c *admin.Client, args []string) error {
			key, err := keyOf(cmd.Context(), c, args[0])
			if err != nil {
				return err
			}
			p, err := c.Peer(cmd.Context(), key)
			if err != nil {
				return err
			}
			if err := confirm.Ask(cmd, consequence.Forget(args[0], p.Former)); err != nil {
				return err
			}
			if p, err = c.ForgetPeer(cmd.Context(), key); err != nil {
				return err
			}
			return u.printPeers(cmd.OutOrStdout(), []admin.Peer{*p})
		}),
	}
	confirm.Flag(cmd.Flags())
	return cmd
}

func newPeerRollback(u *adminFlags) *cobra.Command {
	var confirm command.Confirmation
	cmd := &cobra.Command{
		Use:   "rollback PEER TIME",
		Short: "Drop what a peer counted in generations that started at or after a time",
		Long: "Drop what a peer counted in generations that started at or after a time, and do not\n" +
			"take them back. Generations that start later count again. The command prints how many\n" +
			"keys that is, and asks. TIME is 2006-01-02, 2006-01-02T15:04:05Z, or a time before now\n" +
			"such as 36h or 30d.",
		Args: cli.Args(cobra.ExactArgs(2)),
		RunE: u.Ask(func(cmd *cobra.Command, c *admin.Client, args []string) error {
			since, err := command.ParseTime(args[1], time.Now())
			if err != nil {
				return err
			}
			key, err := keyOf(cmd.Context(), c, args[0])
			if err != nil {
				return err
			}
			loss, err := c.PreviewRollback(cmd.Context(), key, since)
			if err != nil {
				return err
			}
			if err := confirm.Ask(cmd, consequence.Rollback(args[0], since, loss)); err != nil {
				return err
			}
			p, err := c.RollbackPeer(cmd.Context(), key, since)
			if err != nil {
				return err
			}
			return u.printPeers(cmd.OutOrStdout(), []admin.Peer{*p})
		}),
	}
	confirm.Flag(cmd.Flags())
	return cmd
}
