package main

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/bulkhead-mail/bulkhead/client"
	"github.com/bulkhead-mail/bulkhead/internal/cli"
	"github.com/bulkhead-mail/bulkhead/internal/config"
	"github.com/bulkhead-mail/bulkhead/internal/node"
	"github.com/bulkhead-mail/bulkhead/internal/units"
)

func newDoctorCommand() *cobra.Command {
	var data, configPath string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor --data FOLDER",
		Short: "Verify every file of a node's data folder",
		Long: "Read every file of a node's data folder to its end, and say what is damaged, missing or\n" +
			"open to others: which file, at which byte, and what that puts in doubt, by array,\n" +
			"generation and page. With --config, the files of lists and the states of rate limits\n" +
			"are read, too. Nothing is changed, and the node may be running.\n\n" +
			"The exit code is 0 if all is well, 65 if not, and 66 if the folder cannot be read.",
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			cfg := config.Default()
			if configPath != "" {
				if cfg, err = config.Load(configPath); err != nil {
					return err
				}
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
	return cmd
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
	for i, d := range x.Doubts {
		if i == maxDoubts {
			p.printf("in doubt: %d more, which --json names\n", len(x.Doubts)-i)
			break
		}
		p.printf("in doubt: %s\n", d.Text)
	}
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
