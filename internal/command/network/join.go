package network

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/netip"
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

func newInviteCommand() *cobra.Command {
	var u adminFlags
	var in admin.NewInvitation
	var weight, withdraw string
	var lifetime time.Duration
	cmd := &cobra.Command{
		Use:   "invite",
		Short: "Print one line with which another node joins this node's network",
		Long: "Print one line with which another node joins this node's network: \"bulkhead join LINE\"\n" +
			"there. The node must be a hub that the other one can reach. The line is a secret until\n" +
			"it has been used. A node that presents it waits until you accept it, see \"bulkhead peer\n" +
			"requests\"; with --accept it joins at once.",
		Args: cli.Args(cobra.NoArgs),
		RunE: u.Ask(func(cmd *cobra.Command, c *admin.Client, _ []string) error {
			if withdraw != "" {
				return c.Withdraw(cmd.Context(), withdraw)
			}
			w, err := command.ParseWeight(weight)
			if err != nil {
				return err
			}
			in.Weight, in.Seconds = w, lifetime.Seconds()
			v, err := c.Invite(cmd.Context(), in)
			if err != nil {
				return err
			}
			if len(v.Hubs) > 0 && !slices.ContainsFunc(v.Hubs, reachable) {
				fmt.Fprintf(cmd.ErrOrStderr(), "warning: only this machine reaches %s: set mesh.listen to another address, "+
					"or name one with --hub\n", strings.Join(v.Hubs, ", "))
			}
			if u.JSON {
				return command.PrintJSON(cmd.OutOrStdout(), []admin.Invitation{*v})
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "Invitation %s, for %s, until %s. There: bulkhead join LINE\n", v.ID,
				units.Plural(v.Uses, "node"), v.Expires.Local().Format(time.DateTime))
			_, err = fmt.Fprintln(cmd.OutOrStdout(), v.Line)
			return err
		}),
	}
	f := cmd.Flags()
	u.Flags(f)
	f.StringVar(&in.Name, "name", "", "name of the new peer, for people (default: what it calls itself)")
	f.StringVar(&weight, "weight", "0.5", "weight of what it says, 0 to 1; below trust.promotion it lists nothing alone")
	f.StringVar(&in.Group, "group", "",
		"group whose member the new peer becomes: members count each other, with the weight that each gave to \"join\"")
	f.BoolVar(&in.Accept, "accept", false, "accept nodes that present the line without asking")
	f.IntVar(&in.Uses, "uses", 1, "how many nodes may join with the line")
	f.DurationVar(&lifetime, "lifetime", 48*time.Hour, "how long the line is good")
	f.StringSliceVar(&in.Hubs, "hub", nil,
		"`ADDRESS` where this node is found, host:port; may be repeated (default: this machine's name and the port of "+
			"mesh.listen)")
	f.StringVar(&withdraw, "withdraw", "", "make the invitation of this `ID` void instead; nodes that have joined stay "+
		"peers")
	return cmd
}

// reachable reports whether another machine may reach a hub, whose address is host:port.
func reachable(hub string) bool {
	host, _, err := net.SplitHostPort(hub)
	ip, _ := netip.ParseAddr(host)
	return err == nil && host != "localhost" && !ip.IsLoopback()
}

func newJoinCommand() *cobra.Command {
	var u adminFlags
	var weight string
	var confirm command.Confirmation
	var wait time.Duration
	cmd := &cobra.Command{
		Use:   "join LINE",
		Short: "Join the network of a node that has printed LINE with \"bulkhead invite\"",
		Long: "Join the network of a node that has printed LINE with \"bulkhead invite\". This node\n" +
			"may have run for months: what it has counted stays, and goes on answering until it\n" +
			"expires. Reports and checks continue. With \"-\" LINE is read from standard\n" +
			"input, where other users of the machine do not see it.\n\n" +
			"The exit code is 75 if the inviter has not accepted in the time of --wait.",
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: u.Ask(func(cmd *cobra.Command, c *admin.Client, args []string) error {
			in := bufio.NewReader(cmd.InOrStdin())
			j := admin.Join{Line: args[0], Dry: true}
			var err error
			if j.Weight, err = command.ParseWeight(weight); err != nil {
				return err
			}
			if j.Line == "-" {
				if j.Line, err = in.ReadString('\n'); err != nil && err != io.EOF {
					return err
				}
			}
			plan, err := c.Join(cmd.Context(), j)
			if err != nil {
				return err
			}
			if err := printPlan(cmd.ErrOrStderr(), plan, j.Weight); err != nil {
				return err
			}
			if err := confirm.Agree(cmd, in, "Join?"); err != nil {
				return err
			}
			j.Dry = false
			out, err := joined(cmd, c, j, wait)
			if err != nil {
				return err
			}
			if err := u.printJoining(cmd.OutOrStdout(), out); err != nil {
				return err
			}
			if out.State == "waiting" {
				return cli.Temporary
			}
			return nil
		}),
	}
	f := cmd.Flags()
	u.Flags(f)
	f.StringVar(&weight, "weight", "0.5",
		"weight of what the inviter says, 0 to 1; below trust.promotion it lists nothing alone")
	confirm.Flag(f)
	f.DurationVar(&wait, "wait", 10*time.Minute, "how long to wait until the inviter accepts; the same line goes on later")
	return cmd
}

// joined joins, and waits until the inviter has accepted, at most for a time. The result has the state
// "waiting" if the inviter has not.
func joined(cmd *cobra.Command, c *admin.Client, j admin.Join, wait time.Duration) (*admin.Joining, error) {
	end := time.Now().Add(wait)
	for first := true; ; first = false {
		out, err := c.Join(cmd.Context(), j)
		if err != nil || out.State != "waiting" || time.Now().After(end) {
			return out, err
		}
		if first {
			fmt.Fprintf(cmd.ErrOrStderr(),
				"Waiting for %s to accept, with \"bulkhead peer accept\" there; see \"bulkhead peer requests\".\n",
				command.Dash(out.Name))
		}
		select {
		case <-cmd.Context().Done():
			return nil, cmd.Context().Err()
		case <-time.After(time.Second):
		}
	}
}

// printPlan prints the consequences of joining.
func printPlan(w io.Writer, p *admin.Joining, weight float64) error {
	t := command.NewTable(w)
	fmt.Fprintf(t, "network\t%s\n", p.Network)
	fmt.Fprintf(t, "invited by\t%s %s\n", command.Dash(p.Name), p.Inviter)
	fmt.Fprintf(t, "found at\t%s\n", strings.Join(p.Hubs, ", "))
	fmt.Fprintf(t, "valid until\t%s\n", p.Expires.Local().Format(time.DateTime))
	if err := t.Flush(); err != nil {
		return err
	}
	if p.Rekey {
		fmt.Fprintf(w,
			"This node counts from then on under the secret of that network, and no longer under its own (%s). Its counts\n"+
				"until then stay here, answer until they expire, and are not shared.\n", p.From)
	} else {
		fmt.Fprintln(w, "This node is in that network already; its inviter becomes a peer.")
	}
	whom := "the inviter"
	if p.Group != "" {
		whom += fmt.Sprintf(", and every node that it admits to group %q,", p.Group)
	}
	_, err := fmt.Fprintf(w, "It shares what it counts, and counts %s with weight %.3g.\n", whom, weight)
	return err
}

func (u *adminFlags) printJoining(w io.Writer, p *admin.Joining) error {
	if u.JSON {
		return command.PrintJSON(w, []admin.Joining{*p})
	}
	if p.State == "waiting" {
		_, err := fmt.Fprintf(w, "not yet: %s has to accept; give the same command again\n", command.Dash(p.Name))
		return err
	}
	_, err := fmt.Fprintf(w, "joined network %s; see \"bulkhead peer list\"\n", p.Network)
	return err
}

func newLeaveCommand() *cobra.Command {
	var u adminFlags
	var confirm command.Confirmation
	cmd := &cobra.Command{
		Use:   "leave",
		Short: "Leave the network: drop all peers and take another secret",
		Long: "Leave the network: drop all peers and what they counted, forget the hubs that an\n" +
			"invitation named, and count under a secret of this node's own. This node's own\n" +
			"counts stay and answer until they expire. Its peers keep what they have of\n" +
			"it until they evict it.",
		Args: cli.Args(cobra.NoArgs),
		RunE: u.Ask(func(cmd *cobra.Command, c *admin.Client, _ []string) error {
			leaving := consequence.Question{Title: "Leave?", Facts: []string{"Leave drops what peers counted here."}}
			if err := confirm.Ask(cmd, leaving); err != nil {
				return err
			}
			out, err := c.Leave(cmd.Context())
			if err != nil {
				return err
			}
			if u.JSON {
				return command.PrintJSON(cmd.OutOrStdout(), []admin.Left{*out})
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "left; %s dropped. This node is alone in network %s\n",
				units.Plural(out.Peers, "peer"), out.Network)
			return err
		}),
	}
	u.Flags(cmd.Flags())
	confirm.Flag(cmd.Flags())
	return cmd
}

func newPeerRequests(u *adminFlags) *cobra.Command {
	return command.NewList(&u.Admin, "requests", "Print every invitation, and who has shown it",
		(*admin.Client).Invitations, u.printInvitations)
}

func (u *adminFlags) printInvitations(w io.Writer, list []admin.Invitation) error {
	return command.PrintTable(w, u.JSON, list,
		"INVITATION\tFOR\tWEIGHT\tEXPIRES\tSTATE\tSINCE\tCALLS ITSELF\tKEY",
		func(t io.Writer, v *admin.Invitation) {
			head := fmt.Sprintf("%s\t%s\t%.3g\t%s", v.ID, command.Dash(v.Name), v.Weight,
				v.Expires.Local().Format(time.DateTime))
			if len(v.Joiners) == 0 {
				fmt.Fprintf(t, "%s\tnot shown\t-\t-\t-\n", head)
			}
			for _, j := range v.Joiners {
				fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", head, j.State, j.At.Local().Format(time.DateTime), command.Dash(j.Name),
					j.Key)
			}
		})
}

func newPeerAccept(u *adminFlags) *cobra.Command {
	return &cobra.Command{
		Use: "accept NODE", Short: "Accept a node that has shown an invitation and waits", Args: cli.Args(cobra.ExactArgs(1)),
		RunE: u.Ask(func(cmd *cobra.Command, c *admin.Client, args []string) error {
			key, err := waiting(cmd, c, args[0])
			if err != nil {
				return err
			}
			p, err := c.AcceptPeer(cmd.Context(), key)
			if err != nil {
				return err
			}
			return u.printPeers(cmd.OutOrStdout(), []admin.Peer{*p})
		}),
	}
}

func newPeerRefuse(u *adminFlags) *cobra.Command {
	return &cobra.Command{
		Use: "refuse NODE", Short: "Refuse a node that has shown an invitation and waits", Args: cli.Args(cobra.ExactArgs(1)),
		RunE: u.Ask(func(cmd *cobra.Command, c *admin.Client, args []string) error {
			key, err := waiting(cmd, c, args[0])
			if err != nil {
				return err
			}
			return c.RefusePeer(cmd.Context(), key)
		}),
	}
}

// waiting returns the key of the waiting node that text names, by its key or by the name of its
// invitation.
func waiting(cmd *cobra.Command, c *admin.Client, text string) (string, error) {
	list, err := c.Invitations(cmd.Context())
	if err != nil {
		return "", err
	}
	var found []string
	for i := range list {
		for _, j := range list[i].Joiners {
			if j.State == "waiting" && (j.Key == text || list[i].Name == text) {
				found = append(found, j.Key)
			}
		}
	}
	switch len(found) {
	case 0:
		return "", cli.DataError{Err: fmt.Errorf(
			"no node that is called %q or has that key waits; see \"bulkhead peer requests\"", text)}
	case 1:
		return found[0], nil
	}
	return "", cli.DataError{Err: fmt.Errorf("%d nodes wait that have shown the invitation for %q: name one by its key",
		len(found), text)}
}
