package network

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/bulkhead-mail/bulkhead/internal/cli"
	"github.com/bulkhead-mail/bulkhead/internal/command"
	"github.com/bulkhead-mail/bulkhead/internal/node"
)

func newNetworkCommand() *cobra.Command {
	var data string
	cmd := &cobra.Command{
		Use:   "network",
		Short: "Make or show the secret of a network and the key of a node",
		Long: "Make or show what a node needs to share with others: the secret of the network,\n" +
			"which all its nodes have, and the node's own key, whose public half its peers add.\n" +
			"Without --data, show, rotate and nats find an installed node as well.",
		Args: cli.Args(cobra.NoArgs),
		RunE: command.NeedCommand,
	}
	command.DataFlag(cmd.PersistentFlags(), &data)
	cmd.AddCommand(newNetworkNew(&data), newNetworkShow(&data), newNetworkRotate(&data), newNetworkNATS(&data))
	return cmd
}

// networkInfo describes a network and a node in it, as it is printed.
type networkInfo struct {
	Network     string `json:"network"` // fingerprint of the secret
	Key         string `json:"key"`     // of the node
	Predecessor string `json:"predecessor,omitempty"`
	Aggregate   string `json:"aggregate,omitempty"` // key of the aggregate that it publishes
	Secret      string `json:"secret,omitempty"`
}

func infoOf(id *node.Identity) *networkInfo {
	return &networkInfo{Network: id.Network(), Key: id.Key, Predecessor: id.Predecessor, Aggregate: id.Aggregate}
}

// printSecret prints only the secret, in the form that "network new --secret-file" reads. If the
// output is a file, it removes the access of other users.
func (n *networkInfo) printSecret(w io.Writer) error {
	if f, ok := cli.Unwrap(w).(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0 {
			if err := f.Chmod(info.Mode().Perm() &^ 0o077); err != nil {
				return fmt.Errorf("the secret is not written to a file that others can read: %w", err)
			}
		}
	}
	_, err := fmt.Fprintln(w, n.Secret)
	return err
}

func (n *networkInfo) print(w io.Writer, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(w).Encode(n)
	}
	t := command.NewTable(w)
	fmt.Fprintf(t, "network\t%s\n", n.Network)
	fmt.Fprintf(t, "key\t%s\n", n.Key)
	if n.Predecessor != "" {
		fmt.Fprintf(t, "predecessor\t%s\n", n.Predecessor)
	}
	if n.Aggregate != "" {
		fmt.Fprintf(t, "aggregate\t%s\n", n.Aggregate)
	}
	return t.Flush()
}

func newNetworkNew(data *string) *cobra.Command {
	var secretFile string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "new",
		Short: "Make the secret of a new network and the node's key, before the node's first start",
		Long: "Make the secret of a new network and the node's key, in the data folder of a node\n" +
			"that has never run. With --secret-file, use the secret of an existing network, as\n" +
			"\"network show --secret\" prints it on another of its nodes.",
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			id, err := node.NewNetwork(command.DataFolder(*data, ""), secretFile)
			if err != nil {
				return err
			}
			return infoOf(&id).print(cmd.OutOrStdout(), asJSON)
		},
	}
	cmd.Flags().StringVar(&secretFile, "secret-file", "",
		"`FILE` with the secret of a network that exists, as \"network show --secret\" prints it")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func newNetworkShow(data *string) *cobra.Command {
	var withSecret, asJSON bool
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Print the fingerprint of the network and the node's public key",
		Long: "Print the fingerprint of the network and the node's public key or, with --secret,\n" +
			"only the network's secret. \"network show --secret > FILE\" writes what \"network new\n" +
			"--secret-file FILE\" reads, and makes the file readable for you alone.",
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			id, err := node.ReadNetwork(command.NodeFolder(*data, ""))
			if err != nil {
				return err
			}
			info := infoOf(&id)
			if withSecret {
				info.Secret = hex.EncodeToString(id.Secret[:])
				if !asJSON {
					return info.printSecret(cmd.OutOrStdout())
				}
			}
			return info.print(cmd.OutOrStdout(), asJSON)
		},
	}
	cmd.Flags().BoolVar(&withSecret, "secret", false,
		"print only the secret, for another node of the network (also with --json)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func newNetworkRotate(data *string) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "rotate",
		Short: "Make a new key for the node, signed by the old one; then restart the node",
		Args:  cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			old, to, err := node.RotateKey(command.NodeFolder(*data, ""))
			if err != nil {
				return err
			}
			if asJSON {
				return command.PrintJSON(cmd.OutOrStdout(), []rotation{{old, to}})
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(),
				"old key  %s\nnew key  %s\nPeers take the new key when the node starts again.\n", old, to)
			return err
		},
	}
	command.JSONFlag(cmd.Flags(), &asJSON)
	return cmd
}

// A rotation holds the node's old and new public keys, as --json prints them.
type rotation struct {
	Old string `json:"old"`
	New string `json:"new"`
}

func newNetworkNATS(data *string) *cobra.Command {
	var fingerprint, domain string
	cmd := &cobra.Command{
		Use:   "nats [KEY...]",
		Short: "Print the users and permissions that a NATS server needs for this node and others",
		Long: "Print the part of a NATS server's configuration that lets this node in, and those whose\n" +
			"keys are given, for mesh.mode \"external\". Each may publish under its own key, read what\n" +
			"the others publish in this network, and nothing else; this node also makes the streams.",
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := node.NATSUsers(command.NodeFolder(*data, ""), fingerprint, domain, args)
			if err != nil {
				return err
			}
			_, err = io.WriteString(cmd.OutOrStdout(), text)
			return err
		},
	}
	cmd.Flags().StringVar(&fingerprint, "network", "",
		"`FINGERPRINT` of another network than the present one, to which \"bulkhead rekey\" will lead")
	cmd.Flags().StringVar(&domain, "domain", "", "JetStream `DOMAIN` that keeps what is published: mesh.domain")
	return cmd
}
