package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/bulkhead-mail/bulkhead/client"
	"github.com/bulkhead-mail/bulkhead/internal/cli"
	"github.com/bulkhead-mail/bulkhead/internal/config"
	"github.com/bulkhead-mail/bulkhead/internal/node"
	"github.com/bulkhead-mail/bulkhead/internal/units"
)

func newDoctorCommand() *cobra.Command {
	var data, configPath, backup string
	var asJSON, repair bool
	cmd := &cobra.Command{
		Use:   "doctor --data FOLDER",
		Short: "Verify every file of a node's data folder, and mend it",
		Long: "Read every file of a node's data folder to its end, and say what is damaged, missing or\n" +
			"open to others: which file, at which byte, and what that puts in doubt, by array,\n" +
			"generation and page. With --config, the files of lists and the states of rate limits\n" +
			"are read, too. Nothing is changed, and the node may be running.\n\n" +
			"With --repair, a stopped node's store is written anew with all that can be read of it:\n" +
			"one flipped bit of a page, an entry or a file is put right, and of what is lost the\n" +
			"journal, the backup of --backup, and the peers who counted it give back what they have.\n" +
			"Damaged files are kept in the folder set-aside. Keys are never made anew.\n\n" +
			"The exit code is 0 if all is well, 65 if not: with --repair, if anything could not be\n" +
			"restored. It is 66 if the folder cannot be read.",
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			cfg := config.Default()
			if configPath != "" {
				if cfg, err = config.Load(configPath); err != nil {
					return err
				}
			}
			if backup != "" && !repair {
				return cli.Usagef("--backup is for --repair")
			}
			if repair {
				return mend(cmd, cfg, dataFolder(data, cfg.Node.Data), backup, asJSON)
			}
			found, err := node.Examine(cmd.Context(), cfg, dataFolder(data, cfg.Node.Data))
			if err != nil {
				return err
			}
			if asJSON {
				err = json.NewEncoder(cmd.OutOrStdout()).Encode(found)
			} else {
				err = writeExamination(cmd.OutOrStdout(), found)
			}
			if err == nil && !found.Sound() {
				return cli.Data
			}
			return err
		},
	}
	dataFlag(cmd.Flags(), &data)
	cmd.Flags().StringVar(&configPath, "config", "", "configuration `FILE` of the node")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().BoolVar(&repair, "repair", false, "mend what can be mended; the node must not be running")
	cmd.Flags().StringVar(&backup, "backup", "", "backup `FILE` of the same node, to take from what is lost")
	return cmd
}

// mend is doctor --repair.
func mend(cmd *cobra.Command, cfg *config.Config, dir, backup string, asJSON bool) error {
	o := node.RepairOptions{Config: cfg, Dir: dir, Log: newLogger(cmd.ErrOrStderr(), cfg, new(slog.LevelVar))}
	if backup != "" {
		f, err := os.Open(backup)
		if err != nil {
			return err
		}
		defer f.Close()
		o.Backup = f
	}
	done, err := node.Repair(cmd.Context(), o)
	if err != nil {
		return err
	}
	if asJSON {
		err = json.NewEncoder(cmd.OutOrStdout()).Encode(done)
	} else {
		err = writeRepair(cmd.OutOrStdout(), done)
	}
	if err == nil && (len(done.Lost) > 0 || !done.After.Sound()) {
		return cli.Data
	}
	return err
}

// writeRepair says what was mended, in lines for people.
func writeRepair(w io.Writer, r *client.Repair) error {
	p := &printer{w: w}
	for _, f := range r.Before.Faults {
		p.printf("found: %s: offset %d: %s\n", f.File, f.Offset, f.Problem)
	}
	for _, line := range r.Done {
		p.printf("done: %s\n", line)
	}
	if r.Aside != "" {
		p.printf("what was damaged is kept in %s\n", r.Aside)
	}
	p.doubts("not restored", r.Lost)
	if p.err != nil {
		return p.err
	}
	return writeExamination(w, r.After)
}

// maxDoubts is how many pages are named one by one; --json has them all.
const maxDoubts = 40

// writeExamination says what was found, in lines for people.
func writeExamination(w io.Writer, x *client.Examination) error {
	p := &printer{w: w}
	for _, f := range x.Faults {
		p.printf("%s: offset %d: %s\n", f.File, f.Offset, f.Problem)
		if f.Advice != "" {
			p.printf("    %s\n", f.Advice)
		}
	}
	p.doubts("in doubt", x.Doubts)
	p.doubts("low since an earlier repair", x.Known)
	p.printf("%s: %s with %s read, %d journal entries since the last snapshot: ", x.Folder, units.Plural(x.Files, "file"), units.ByteSize(uint64(x.Bytes)), x.Entries)
	if x.Sound() {
		p.printf("all is well\n")
	} else {
		p.printf("%s, %s in doubt\n", units.Plural(len(x.Faults), "fault"), units.Plural(len(x.Doubts), "part"))
	}
	return p.err
}

// A printer keeps the first error.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) printf(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format, args...)
	}
}

func (p *printer) doubts(what string, doubts []client.Doubt) {
	for i, d := range doubts {
		if i == maxDoubts {
			p.printf("%s: %d more, which --json names\n", what, len(doubts)-i)
			break
		}
		p.printf("%s: %s\n", what, d.Text)
	}
}
