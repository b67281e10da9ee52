package network

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/cli"
	"github.com/bulkhead-mail/bulkhead/internal/command"
	"github.com/bulkhead-mail/bulkhead/internal/consequence"
	"github.com/bulkhead-mail/bulkhead/internal/node"
)

// invitedFor is how long the code of "bulkhead standby invite" is valid.
const invitedFor = time.Hour

// A pairing is an invitation or its use, as --json prints it.
type pairing struct {
	Address string `json:"address"` // of the first node
	Code    string `json:"code,omitempty"`
}

func newStandbyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "standby",
		Short: "Pair a node with a standby, which takes over when the node dies",
		Long: "Pair a node with a standby, which takes over when the node dies. Both need an address for\n" +
			"each other in their configuration, such as\n\n    [standby]\n    listen = \"0.0.0.0:8430\"\n\n" +
			"Type \"bulkhead standby invite\" on the first machine, and what that prints on the second.",
		Args: cli.Args(cobra.NoArgs),
		RunE: command.NeedCommand,
	}
	cmd.AddCommand(newStandbyInviteCommand(), newStandbyJoinCommand(), newStandbyShowCommand())
	return cmd
}

func newStandbyInviteCommand() *cobra.Command {
	var data string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "invite HOST:PORT",
		Short: "Print what to type on the second machine",
		Long: "Print the command that makes a new node the standby of this one, to be typed on the second\n" +
			"machine. HOST:PORT is where the second machine reaches [standby] listen of this node. The\n" +
			"code in it admits one node within an hour, and ends the invitation before. It is a secret.",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return cli.Usagef("give HOST:PORT, where the second machine reaches [standby] listen of this node")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			code, err := node.Invite(command.NodeFolder(data, ""), args[0], invitedFor)
			if err != nil {
				return err
			}
			if asJSON {
				return command.PrintJSON(cmd.OutOrStdout(), []pairing{{Address: args[0], Code: code}})
			}
			fmt.Fprintln(cmd.ErrOrStderr(), "on the second machine, as the user of its node, within an hour:")
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "bulkhead standby join %s\n", code)
			return err
		},
	}
	command.OwnDataFlag(cmd.Flags(), &data)
	command.JSONFlag(cmd.Flags(), &asJSON)
	return cmd
}

func newStandbyJoinCommand() *cobra.Command {
	var data string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "join CODE",
		Short: "Make the new node of this machine the standby of another node",
		Long: "Make the new node of this machine the standby of another node. Its data folder must be empty.\n" +
			"The next start copies the first node's state, and follows it from then on.",
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := command.DataFolder(data, "")
			address, err := node.JoinPair(dir, args[0])
			if err != nil {
				return err
			}
			if asJSON {
				return command.PrintJSON(cmd.OutOrStdout(), []pairing{{Address: address}})
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "%s follows the node at %s from its next start; its configuration needs "+
				"[standby] listen\n", dir, address)
			return nil
		},
	}
	command.DataFlag(cmd.Flags(), &data)
	command.JSONFlag(cmd.Flags(), &asJSON)
	return cmd
}

func newStandbyShowCommand() *cobra.Command {
	var u adminFlags
	cmd := &cobra.Command{
		Use: "show", Short: "Print the node's part in its pair, and how far the standby is behind",
		Args: cli.Args(cobra.NoArgs),
		RunE: u.Ask(func(cmd *cobra.Command, c *admin.Client, _ []string) error {
			state, err := c.Node(cmd.Context())
			if err != nil {
				return err
			}
			return u.printStandby(cmd.OutOrStdout(), state)
		}),
	}
	u.Flags(cmd.Flags())
	return cmd
}

func newPromoteCommand() *cobra.Command {
	var u adminFlags
	var confirm command.Confirmation
	cmd := &cobra.Command{
		Use:   "promote",
		Short: "Let the standby of this machine take over",
		Long: "Let the standby of this machine take over. A first node that lives hands over, and nothing is\n" +
			"lost. A first node that is dead becomes the standby when it comes back; what it had taken and\n" +
			"not sent is set aside there.",
		Args: cli.Args(cobra.NoArgs),
		RunE: u.Ask(func(cmd *cobra.Command, c *admin.Client, _ []string) error {
			state, err := c.Node(cmd.Context())
			if err != nil {
				return err
			}
			if s := state.Standby; s != nil && s.Role == "second" { // the node refuses otherwise
				if err := confirm.Ask(cmd, promotion(state)); err != nil {
					return err
				}
			}
			if state, err = c.Promote(cmd.Context()); err != nil {
				return err
			}
			return u.printStandby(cmd.OutOrStdout(), state)
		}),
	}
	u.Flags(cmd.Flags())
	confirm.Flag(cmd.Flags())
	return cmd
}

// promotion returns the question before a take-over, on the second node of a pair.
func promotion(state *admin.NodeState) consequence.Question {
	q := consequence.Question{Title: "Take over?"}
	s := state.Standby
	q.Facts = append(q.Facts,
		fmt.Sprintf("this node has %d entries, and lacks %d of those that it knows of", s.Copied, s.Lag))
	switch {
	case s.Connected:
		q.Facts = append(q.Facts, "the first node at "+s.Address+" lives: it stops taking votes, and follows this one")
	case s.Heard.IsZero():
		q.Facts = append(q.Facts, "the first node was not heard since this one started")
	default:
		q.Facts = append(q.Facts, fmt.Sprintf("the first node was last heard %s ago: what it has taken since is not here",
			state.Now.Sub(s.Heard).Round(time.Second)))
	}
	switch {
	case s.Witness != nil && s.Witness.Holder == "other":
		q.Facts = append(q.Facts, "the first node holds the lease of the pair: this node waits until it ends, and fails if "+
			"the first node renews it")
	case !s.Connected:
		q.Facts = append(q.Facts, "if it lives and only the network between the two is broken, stop it first")
	}
	return q
}

func (u *adminFlags) printStandby(w io.Writer, state *admin.NodeState) error {
	if u.JSON {
		return command.PrintJSON(w, []admin.NodeState{*state})
	}
	s := state.Standby
	if s == nil {
		_, err := fmt.Fprintln(w, "the node is not one of a pair; see \"bulkhead standby --help\"")
		return err
	}
	flow := "connected"
	switch {
	case s.Copying:
		flow = "the whole state is being copied"
	case !s.Connected:
		flow = "not connected"
	}
	other := "the other at " + s.Address
	if s.Address == "" {
		other = "no other was paired yet"
	}
	_, err := fmt.Fprintf(w, "%s node of a pair, term %d; %s: %s\nlast entry %d, on the standby's disk %d: "+
		"%d behind for %.1f s\n", s.Role, s.Term, other, flow, s.Last, s.Copied, s.Lag, s.Age)
	if err == nil && s.Problem != "" {
		_, err = fmt.Fprintln(w, "problem:", s.Problem)
	}
	if err == nil && s.Witness != nil {
		_, err = fmt.Fprintln(w, "witness:", witnessText(s.Witness))
	}
	return err
}

// witnessText describes the lease of a pair.
func witnessText(w *admin.Witness) string {
	text := map[string]string{"this": "this node holds the lease", "other": "the other node holds the lease",
		"none": "no node holds the lease"}[w.Holder]
	if text == "" {
		text = "unknown who holds the lease"
	}
	if w.Behind {
		text += "; the standby may lack something, and takes over by command only"
	}
	if w.Problem != "" {
		text += "; it does not answer: " + w.Problem
	}
	return text
}
