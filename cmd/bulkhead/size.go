package main

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/cli"
	"github.com/bulkhead-mail/bulkhead/internal/command"
	"github.com/bulkhead-mail/bulkhead/internal/node"
	"github.com/bulkhead-mail/bulkhead/internal/units"
)

func newSizeCommand() *cobra.Command {
	var of admin.SizeQuestion
	var listed uint64
	var path string
	var asJSON bool
	cmd := &cobra.Command{
		Use: "size", Short: "Calculate the memory, disk and traffic of a node",
		Long: "Calculate the memory, disk and traffic that a node needs for a steady number of\n" +
			"signatures a day, and how often it errs then, by the formulae by which a node sizes its\n" +
			"books. Nothing is started. A signature that was counted before in a generation adds\n" +
			"nothing.",
		Example: "  bulkhead size --signatures 20000000 --listed 200000\n" +
			"  bulkhead size --config bulkhead.toml --signatures 1000000 --count-error 0.01",
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := command.LoadConfig(path)
			if err != nil {
				return err
			}
			for name, zero := range map[string]bool{"count-error": of.CountError == 0, "list-error": of.ListError == 0,
				"tally-keep": of.TallyKeep == 0, "blocklist-keep": of.BlocklistKeep == 0} {
				if zero && cmd.Flags().Changed(name) {
					return cli.Usagef("--%s is 0", name)
				}
			}
			if cmd.Flags().Changed("listed") {
				of.Listed = &listed
			}
			sizes, err := node.Sizes(cfg, of)
			if err != nil {
				return cli.UsageError{Err: err}
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(sizes)
			}
			return printSizes(cmd.OutOrStdout(), sizes)
		},
	}
	f := cmd.Flags()
	f.Uint64Var(&of.Signatures, "signatures", 1_000_000, "different signatures a day")
	f.Uint64Var(&listed, "listed", 0, "of these, how many are voted spam a day (default: 1 %)")
	f.StringVar(&path, "config", "", "configuration `FILE` (default: the defaults)")
	f.Float64Var(&of.CountError, "count-error", 0, "accepted probability that a count is wrong (default: tally.error)")
	f.Float64Var(&of.ListError, "list-error", 0,
		"accepted probability that an unreported signature is found listed (default: blocklist.error)")
	f.IntVar(&of.TallyKeep, "tally-keep", 0, "generations of the tally (default: tally.keep)")
	f.IntVar(&of.BlocklistKeep, "blocklist-keep", 0, "generations of the blocklist (default: blocklist.keep)")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func printSizes(out io.Writer, p admin.Sizes) error {
	w := command.NewTable(out)
	fmt.Fprintln(w, "\tTALLY\tBLOCKLIST")
	row := func(name, tally, block string) { fmt.Fprintf(w, "%s\t%s\t%s\n", name, tally, block) }
	t, b := p.Tally, p.Blocklist
	days := func(b admin.BookSizes) string { return fmt.Sprintf("%d x %s", b.Keep, b.Generation) }
	row("generations", days(t), days(b))
	row("signatures each", fmt.Sprint(t.Signatures), fmt.Sprint(b.Signatures))
	row("capacity each", fmt.Sprint(t.Capacity), fmt.Sprint(b.Capacity))
	row("memory each", units.ByteSize(t.Array), units.ByteSize(b.Array))
	row("memory of all", units.ByteSize(t.All), units.ByteSize(b.All))
	row("count wrong", fmt.Sprintf("%.1e", t.CountsWrong), "")
	row("unseen, shown as seen", fmt.Sprintf("%.1e", t.Unseen), "")
	row("unseen, shown as bulk", fmt.Sprintf("%.1e", t.BulkWrong), "")
	row("unreported, shown as listed", "", fmt.Sprintf("%.1e", b.Unseen))
	row("listed, hidden by chance", "", fmt.Sprintf("%.1e", b.Hidden))
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out,
		"memory: %s, and what counts above a cell's range take; disk: up to %s; to each peer: %s to %s a day\n",
		units.ByteSize(p.Memory), units.ByteSize(p.Disk), units.ByteSize(p.Peer.Least), units.ByteSize(p.Peer.Most))
	return err
}
