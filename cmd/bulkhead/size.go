package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/bulkhead-mail/bulkhead/internal/cli"
	"github.com/bulkhead-mail/bulkhead/internal/config"
	"github.com/bulkhead-mail/bulkhead/internal/node"
	"github.com/bulkhead-mail/bulkhead/internal/units"
)

func newSizeCommand() *cobra.Command {
	var use node.SizeUse
	var path string
	var countError, listError float64
	var tallyKeep, blockKeep int
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
			cfg := config.Default()
			if path != "" {
				var err error
				if cfg, err = config.Load(path); err != nil {
					return err
				}
			}
			f := cmd.Flags()
			if f.Changed("count-error") {
				cfg.Tally.Error = countError
			}
			if f.Changed("list-error") {
				cfg.Blocklist.Error = listError
			}
			if f.Changed("tally-keep") {
				cfg.Tally.Keep = tallyKeep
			}
			if f.Changed("blocklist-keep") {
				cfg.Blocklist.Keep = blockKeep
			}
			if !f.Changed("listed") {
				use.Listed = use.Signatures / 100
			}
			p, err := node.Plan(cfg, use)
			if err != nil {
				return cli.UsageError{Err: err}
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(sizesJSON(p))
			}
			return printSizes(cmd.OutOrStdout(), p)
		},
	}
	f := cmd.Flags()
	f.Uint64Var(&use.Signatures, "signatures", 1_000_000, "different signatures a day")
	f.Uint64Var(&use.Listed, "listed", 0, "of these, how many are voted spam a day (default: 1 %)")
	f.StringVar(&path, "config", "", "configuration `FILE` (default: the defaults)")
	f.Float64Var(&countError, "count-error", 0, "accepted probability that a count is wrong (default: tally.error)")
	f.Float64Var(&listError, "list-error", 0, "accepted probability that an unreported signature is found listed (default: blocklist.error)")
	f.IntVar(&tallyKeep, "tally-keep", 0, "generations of the tally (default: tally.keep)")
	f.IntVar(&blockKeep, "blocklist-keep", 0, "generations of the blocklist (default: blocklist.keep)")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func printSizes(out io.Writer, p node.SizePlan) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\tTALLY\tBLOCKLIST")
	row := func(name, tally, block string) { fmt.Fprintf(w, "%s\t%s\t%s\n", name, tally, block) }
	t, b := p.Tally, p.Blocklist
	days := func(d time.Duration, keep int) string {
		return fmt.Sprintf("%d x %s", keep, config.Duration(d))
	}
	row("generations", days(t.Generation, t.Keep), days(b.Generation, b.Keep))
	row("signatures each", fmt.Sprint(t.Signatures), fmt.Sprint(b.Signatures))
	row("capacity each", fmt.Sprint(t.Capacity), fmt.Sprint(b.Capacity))
	row("memory each", units.ByteSize(t.Array), units.ByteSize(b.Array))
	row("memory of all", units.ByteSize(t.All), units.ByteSize(b.All))
	row("count wrong", fmt.Sprintf("%.1e", t.Wrong), "")
	row("unseen, shown as seen", fmt.Sprintf("%.1e", t.Unseen), "")
	row("unseen, shown as bulk", fmt.Sprintf("%.1e", t.Bulk), "")
	row("unreported, shown as listed", "", fmt.Sprintf("%.1e", b.Unseen))
	row("listed, hidden by chance", "", fmt.Sprintf("%.1e", b.Hidden))
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "memory: %s, and what counts above a cell's range take; disk: up to %s; to each peer: %s to %s a day\n",
		units.ByteSize(p.Memory), units.ByteSize(p.Disk), units.ByteSize(p.PeerLow), units.ByteSize(p.PeerHigh))
	return err
}

// sizesJSON names the fields of a plan.
func sizesJSON(p node.SizePlan) map[string]any {
	of := func(b node.BookPlan) map[string]any {
		return map[string]any{
			"generation": config.Duration(b.Generation).String(), "keep": b.Keep, "signatures": b.Signatures, "capacity": b.Capacity,
			"generation_bytes": b.Array, "bytes": b.All, "unseen_shown": b.Unseen,
		}
	}
	tally, block := of(p.Tally), of(p.Blocklist)
	tally["count_wrong"], tally["bulk_wrong"] = p.Tally.Wrong, p.Tally.Bulk
	block["hidden"] = p.Blocklist.Hidden
	return map[string]any{
		"tally": tally, "blocklist": block, "memory_bytes": p.Memory, "disk_bytes": p.Disk,
		"peer_bytes_a_day": map[string]uint64{"least": p.PeerLow, "most": p.PeerHigh},
	}
}
