package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/cli"
	"github.com/bulkhead-mail/bulkhead/internal/command"
	"github.com/bulkhead-mail/bulkhead/internal/config"
	"github.com/bulkhead-mail/bulkhead/internal/node"
	"github.com/bulkhead-mail/bulkhead/internal/setup"
	"github.com/bulkhead-mail/bulkhead/internal/trial"
	"github.com/bulkhead-mail/bulkhead/internal/units"
	"github.com/bulkhead-mail/bulkhead/internal/waiting"
)

func newDoctorCommand() *cobra.Command {
	var data, configPath, backup, root string
	var asJSON, repair, message, stored bool
	var r command.Remote
	cmd := &cobra.Command{
		Use:   "doctor [--data FOLDER]",
		Short: "Ask a running node through each door, or verify its data folder and mend it",
		Long: "Without --data and --config, send a test message through each open door of a running\n" +
			"node, as the clients of that door do, and say of each door that fails why and what to\n" +
			"do. The message is spam for every node, and never counted; --message prints it, to send\n" +
			"it through the mail server. For an administrator, peers and brokers are also listed.\n\n" +
			"With --stored, the running node reads its own files as with --data and --config; that\n" +
			"takes an administrator, see \"bulkhead user --help\".\n\n" +
			"With --data, read every file of a node's data folder to its end, and say what is damaged, missing or\n" +
			"open to others: which file, at which byte, and what that puts in doubt, by array,\n" +
			"generation and page. With --config, the files of lists and the states of rate limits\n" +
			"are also read. Nothing is changed, and the node may be running.\n\n" +
			"With --repair, a stopped node's store is written anew with all that can be read of it:\n" +
			"one flipped bit of a page, an entry or a file is put right, and of what is lost the\n" +
			"journal, the backup of --backup, and the peers who counted it give back what they have.\n" +
			"Damaged files are kept in the folder set-aside. Keys are never made anew.\n\n" +
			"The exit code is 0 if all is well, 65 if not: with --repair, if anything could not be\n" +
			"restored. It is 66 if the folder cannot be read, and 69 if no node answers.",
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			files := data != "" || configPath != "" || repair || backup != ""
			switch {
			case files && (cmd.Flags().Changed("server") || message || stored):
				return cli.Usagef(
					"--data, --config, --repair and --backup are for files; --server, --stored and --message for a running node")
			case message:
				_, err := io.WriteString(cmd.OutOrStdout(), strings.ReplaceAll(trial.Message, "\r\n", "\n"))
				return err
			case stored:
				return askStored(cmd, &r, asJSON)
			case !files:
				if root == "/" && cmd.Flags().Changed("server") {
					root = "" // not the node that this machine's programs use
				}
				return askDoors(cmd, &r, root, asJSON)
			}
			cfg, err := command.LoadConfig(configPath)
			if err != nil {
				return err
			}
			if backup != "" && !repair {
				return cli.Usagef("--backup is for --repair")
			}
			if repair {
				return mend(cmd, cfg, command.NodeFolder(data, cfg.Node.Data), backup, asJSON)
			}
			found, err := node.Examine(cmd.Context(), cfg, command.NodeFolder(data, cfg.Node.Data))
			if err != nil {
				return err
			}
			return tellExamination(cmd.OutOrStdout(), found, asJSON)
		},
	}
	cmd.Flags().StringVar(&data, "data", "", "data `FOLDER` to verify")
	cmd.Flags().StringVar(&configPath, "config", "", "configuration `FILE` of the node whose files are verified")
	r.ServerFlags(cmd.Flags(), "URL of the node whose doors are asked", 5*time.Second)
	cmd.Flags().StringVar(&root, "root", "/",
		"`FOLDER` that stands for / where mail programs are looked at; not with --server, unless it is given")
	cmd.Flags().BoolVar(&stored, "stored", false, "have the running node verify its files")
	cmd.Flags().BoolVar(&message, "message", false, "print the test message")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().BoolVar(&repair, "repair", false, "mend what can be mended; the node must not be running")
	cmd.Flags().StringVar(&backup, "backup", "", "backup `FILE` of the same node, to take from what is lost")
	return cmd
}

// askStored runs doctor on the files of a running node. It waits until the node has answered,
// unless a timeout is given.
func askStored(cmd *cobra.Command, r *command.Remote, asJSON bool) error {
	if !cmd.Flags().Changed("timeout") {
		r.Timeout = time.Hour
	}
	return r.AsAdmin(cmd, "", func(c *admin.Client) error {
		found, err := c.Examine(cmd.Context())
		if err != nil {
			return err
		}
		return tellExamination(cmd.OutOrStdout(), found, asJSON)
	})
}

// tellExamination prints the findings, and returns [cli.Data] if there are any.
func tellExamination(w io.Writer, x *admin.Examination, asJSON bool) (err error) {
	if asJSON {
		err = json.NewEncoder(w).Encode(x)
	} else {
		err = writeExamination(w, x)
	}
	if err == nil && !x.Sound() {
		return cli.Data
	}
	return err
}

// askDoors runs doctor on a running node.
func askDoors(cmd *cobra.Command, r *command.Remote, root string, asJSON bool) error {
	var rows []trial.Row
	err := r.AsAnyone(cmd, func(c *admin.Client) (err error) {
		rows, err = (&trial.Prober{Node: c, Timeout: r.Timeout}).Doors(cmd.Context())
		return err
	})
	if err != nil {
		return err
	}
	rows = append(rows, programRows(root)...)
	if row := waitingRow(); row != nil {
		rows = append(rows, *row)
	}
	w := cmd.OutOrStdout()
	if asJSON {
		err = command.PrintJSON(w, rows)
	} else {
		err = writeRows(w, rows, cli.UseColor(w))
	}
	if err == nil && slices.ContainsFunc(rows, func(r trial.Row) bool { return !r.OK }) {
		return cli.Data
	}
	return err
}

// programRows reports whether the mail programs below a root ask the node.
func programRows(root string) (rows []trial.Row) {
	if root == "" {
		return nil
	}
	found, err := setup.Inspect(setup.Options{Root: root})
	if errors.Is(err, fs.ErrPermission) {
		return nil // only their owner may read the configuration
	}
	if err != nil {
		return []trial.Row{{Name: "programs", Found: err.Error(), Mend: "put the file right that is named"}}
	}
	for _, f := range found {
		rows = append(rows, trial.Row{Name: f.Program, OK: f.OK, Found: f.Found, Mend: f.Mend})
	}
	return rows
}

// waitingRow reports the votes that no node has taken, nil if there are none: of every user for root,
// and else of this user.
func waitingRow() *trial.Row {
	folders := waiting.Folders()
	for _, own := range waiting.Owned() {
		if !slices.Contains(folders, own) {
			folders = append(folders, own)
		}
	}
	votes, oldest := 0, time.Time{}
	for _, f := range folders {
		s, err := f.State()
		if err != nil { // of another user
			continue
		}
		votes += s.Votes
		if s.Votes > 0 && (oldest.IsZero() || s.Oldest.Before(oldest)) {
			oldest = s.Oldest
		}
	}
	if votes == 0 {
		return nil
	}
	return &trial.Row{Name: "waiting", Found: fmt.Sprintf("%s that no node has taken, the oldest since %s",
		units.Plural(votes, "vote"), oldest.Format(time.DateTime)), Mend: "bulkhead waiting --send"}
}

// writeRows prints a row for each door, and a remedy below each door that fails.
func writeRows(w io.Writer, rows []trial.Row, color bool) error {
	p := &printer{w: w}
	for _, r := range rows {
		word, paint := "ok", "\x1b[32m"
		if !r.OK {
			word, paint = "FAIL", "\x1b[1;31m"
		}
		if !color {
			paint = ""
		}
		if p.err == nil {
			p.err = cli.Paint(w, paint, fmt.Sprintf("%-4s", word))
		}
		p.printf("  %-13s %-22s %s\n", r.Name, r.Address, r.Found)
		if r.Mend != "" {
			p.printf("      %s\n", r.Mend)
		}
	}
	return p.err
}

// mend runs doctor --repair.
func mend(cmd *cobra.Command, cfg *config.Config, dir, backup string, asJSON bool) error {
	o := node.RepairOptions{Config: cfg, Dir: dir, Log: command.NewLogger(cmd.ErrOrStderr(), cfg, new(slog.LevelVar))}
	if backup != "" {
		f, err := os.Open(backup)
		if err != nil {
			return err
		}
		defer f.Close()
		o.Backup = f
	}
	done, err := node.Repair(cmd.Context(), o)
	command.Record(cmd, dir, "repair", err)
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

// writeRepair prints what was repaired, as text for people.
func writeRepair(w io.Writer, r *admin.Repair) error {
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

// maxDoubts is the number of pages that are listed individually; --json lists all of them.
const maxDoubts = 40

// writeExamination prints the findings as text for people.
func writeExamination(w io.Writer, x *admin.Examination) error {
	p := &printer{w: w}
	for _, f := range x.Faults {
		p.printf("%s: offset %d: %s\n", f.File, f.Offset, f.Problem)
		if f.Advice != "" {
			p.printf("    %s\n", f.Advice)
		}
	}
	p.doubts("in doubt", x.Doubts)
	p.doubts("low since an earlier repair", x.Known)
	for _, h := range x.Healed {
		from := "the replica of peer " + h.Peer
		if h.Peer == admin.FromBroker {
			from = "what the node had published"
		}
		p.printf("healed: %s with %s\n", units.Plural(int(h.Pages), "page"), from)
	}
	if x.Former != 0 {
		p.printf("%s: the store is of an older version (format %d): the next start converts it, and keeps a copy of it in "+
			"the folder set-aside; rate limits begin anew\n", x.Folder, x.Former)
	}
	p.printf("%s: %s with %s read, %d journal entries since the last snapshot: ", x.Folder, units.Plural(x.Files, "file"),
		units.ByteSize(uint64(x.Bytes)), x.Entries)
	if x.Sound() {
		p.printf("all is well\n")
	} else {
		p.printf("%s, %s in doubt\n", units.Plural(len(x.Faults), "fault"), units.Plural(len(x.Doubts), "part"))
	}
	return p.err
}

// A printer writes formatted text and keeps the first error.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) printf(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format, args...)
	}
}

func (p *printer) doubts(what string, doubts []admin.Doubt) {
	for i, d := range doubts {
		if i == maxDoubts {
			p.printf("%s: %d more, which --json names\n", what, len(doubts)-i)
			break
		}
		p.printf("%s: %s\n", what, d.Text)
	}
}
