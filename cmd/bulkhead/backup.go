package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bulkhead-mail/bulkhead/internal/cli"
	"github.com/bulkhead-mail/bulkhead/internal/command"
	"github.com/bulkhead-mail/bulkhead/internal/node"
	"github.com/bulkhead-mail/bulkhead/internal/units"
	"github.com/bulkhead-mail/bulkhead/internal/wholefile"
)

// aside names the files that a backup leaves out: secrets should not be stored together with
// counts.
func aside() string {
	files := node.SecretFiles()
	last := len(files) - 1
	return "A backup does not contain the keys in the data folder: " + strings.Join(files[:last], ", ") + " and " +
		files[last] +
		".\nThey rarely change, but a backup is useless without them. Keep a separate copy."
}

// A copied is a backup or a restored folder, as --json prints it.
type copied struct {
	Store     string   `json:"store"`
	LastIndex uint64   `json:"last_index"`        // of the journal
	Missing   []string `json:"missing,omitempty"` // files to restore separately
}

func newBackupCommand() *cobra.Command {
	var data string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "backup FILE",
		Short: "Back up what a node has counted, running or not",
		Long: "Write a consistent copy of everything that a node has acknowledged to FILE (- for\n" +
			"standard output). The node may be running, and goes on working. The copy is verified\n" +
			"as it is written. FILE is either complete or not there.\n\n" + aside(),
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if asJSON && args[0] == "-" {
				return cli.Usagef("--json and the backup cannot both go to standard output")
			}
			dir := command.NodeFolder(data, "")
			var made copied
			write := func(w io.Writer) (err error) {
				info, err := node.Backup(cmd.Context(), dir, w)
				made = copied{Store: filepath.Join(dir, node.StoreFolder), LastIndex: info.LastIndex}
				return err
			}
			var err error
			if args[0] == "-" {
				err = write(cli.Unwrap(cmd.OutOrStdout()))
			} else {
				err = wholefile.Replace(args[0], write)
			}
			switch {
			case err != nil:
				return err
			case asJSON:
				return command.PrintJSON(cmd.OutOrStdout(), []copied{made})
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "backup of %s up to journal entry %d\n", made.Store, made.LastIndex)
			return nil
		},
	}
	command.OwnDataFlag(cmd.Flags(), &data)
	command.JSONFlag(cmd.Flags(), &asJSON)
	return cmd
}

func newRestoreCommand() *cobra.Command {
	var data string
	var asJSON, fromPeers bool
	cmd := &cobra.Command{
		Use:   "restore {FILE | --from-peers}",
		Short: "Restore a node from a backup, or from its peers",
		Long: "Make a node's store from the backup in FILE (- for standard input). The node must not\n" +
			"be running, and its data folder must not have a store: move " + node.StoreFolder + "/ away first.\n" +
			"Peers learn that the node has gone back in time, and replace what they hold of it.\n\n" +
			"With --from-peers, the node has its peers send back what it had shared with them, at its next\n" +
			"start. It shares nothing until they have answered. A node whose store is gone does so by\n" +
			"itself with the peers of weight 1; --from-peers asks all of them.\n\n" + aside(),
		Args: func(_ *cobra.Command, args []string) error {
			if fromPeers == (len(args) > 0) || len(args) > 1 {
				return cli.Usagef("give the FILE of a backup, or --from-peers")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := command.DataFolder(data, "")
			if fromPeers {
				return restoreFromPeers(cmd, dir, asJSON)
			}
			in := cmd.InOrStdin()
			if args[0] != "-" {
				f, err := os.Open(args[0])
				if err != nil {
					return err
				}
				defer f.Close()
				in = f
			}
			info, missing, err := node.Restore(cmd.Context(), bufio.NewReader(in), dir)
			command.Record(cmd, dir, "restore", err)
			if err != nil {
				return err
			}
			if asJSON {
				return command.PrintJSON(cmd.OutOrStdout(), []copied{{filepath.Join(dir, node.StoreFolder), info.LastIndex,
					missing}})
			}
			out := cmd.ErrOrStderr()
			fmt.Fprintf(out, "restored %s up to journal entry %d\n", filepath.Join(dir, node.StoreFolder), info.LastIndex)
			for _, name := range missing {
				fmt.Fprintf(out, "put %s back beside it before the node starts\n", name)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&fromPeers, "from-peers", false, "take back from all peers what the node had shared")
	command.DataFlag(cmd.Flags(), &data)
	command.JSONFlag(cmd.Flags(), &asJSON)
	return cmd
}

// restoreFromPeers prepares the next start of a node without a store.
func restoreFromPeers(cmd *cobra.Command, dir string, asJSON bool) error {
	peers, err := node.RestoreFromPeers(dir)
	command.Record(cmd, dir, "restore from peers", err)
	if err != nil {
		return err
	}
	if asJSON {
		return command.PrintJSON(cmd.OutOrStdout(), []struct {
			Peers int `json:"peers"`
		}{{peers}})
	}
	_, err = fmt.Fprintf(cmd.ErrOrStderr(),
		"the next start asks %s for what the node had shared; the log shows what came back\n", units.Plural(peers, "peer"))
	return err
}
