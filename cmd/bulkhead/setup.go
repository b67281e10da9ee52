package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bulkhead-mail/bulkhead/internal/cli"
	"github.com/bulkhead-mail/bulkhead/internal/command"
	"github.com/bulkhead-mail/bulkhead/internal/config"
	"github.com/bulkhead-mail/bulkhead/internal/setup"
)

func newSetupCommand() *cobra.Command {
	var o setup.Options
	var printOnly, yes, undo, asJSON bool
	cmd := &cobra.Command{
		Use:   "setup",
		Short: "Make the mail programs of this machine ask the node",
		Long: "Find Postfix, rspamd, SpamAssassin, Amavis, Exim, Dovecot and the clients of Razor,\n" +
			"Pyzor and DCC on this machine, and make those ask the node that see whole mail: the\n" +
			"changes of their configuration are shown as a diff, made after you agree, and kept as\n" +
			"they were, so that --undo takes the latest changes back. A second run changes nothing.\n" +
			"No program is started or restarted; the commands to do so are printed.",
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			w := cmd.OutOrStdout()
			for i, name := range o.For {
				if o.For[i] = strings.TrimSpace(name); !slices.Contains(setup.Programs(), o.For[i]) {
					return cli.Usagef("--for %.40q is none of %s", name, strings.Join(setup.Programs(), ", "))
				}
			}
			if printOnly && (yes || undo) {
				return cli.Usagef("--print excludes --yes and --undo: it changes nothing")
			}
			if asJSON && !printOnly && !yes && !undo {
				return cli.Usagef("--json asks nothing: it takes --print, --yes or --undo")
			}
			if undo {
				return undoSetup(w, o.Root, asJSON)
			}
			if asJSON {
				p, err := look(o)
				if err != nil {
					return err
				}
				defer p.Close()
				return setupJSON(w, p, printOnly)
			}
			return runSetup(w, o, &question{in: bufio.NewReader(cmd.InOrStdin()), out: w, yes: yes}, printOnly)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Root, "root", "/", "`FOLDER` that stands for /; nothing outside of it is touched")
	f.StringSliceVar(&o.For, "for", nil, "`PROGRAMS` to set up, of "+strings.Join(setup.Programs(), ", ")+
		" (default: those found that see whole mail)")
	f.StringVar(&o.Config, "config", "", "configuration `FILE` of the node, below the root (default: "+
		setup.DefaultConfig+", or the node's defaults without that file)")
	f.BoolVar(&printOnly, "print", false, "print the changes, and make none")
	f.BoolVar(&yes, "yes", false, "make the changes without asking")
	f.BoolVar(&undo, "undo", false, "put back what the latest setup has changed; it does not ask")
	command.JSONFlag(f, &asJSON)
	command.CompleteWords(cmd, "for", setup.Programs()...)
	return cmd
}

func undoSetup(w io.Writer, root string, asJSON bool) error {
	last, err := setup.Last(root)
	var paths []string
	if err == nil {
		paths, err = setup.Undo(root)
	}
	if errors.Is(err, setup.ErrNoBackup) {
		return cli.InputError{Err: fmt.Errorf("no changes of setup are left to undo below %s", root)}
	}
	if err != nil {
		return cli.DataError{Err: err}
	}
	if asJSON {
		return command.PrintJSON(w, []undone{{paths, append([]string{}, last.Removed...), append([]string{}, last.After...)}})
	}
	for _, path := range last.PutBack {
		fmt.Fprintf(w, "put back: %s\n", path)
	}
	for _, path := range last.Removed {
		fmt.Fprintf(w, "removed: %s\n", path)
	}
	printAfter(w, last.After)
	return nil
}

func printAfter(w io.Writer, commands []string) {
	if len(commands) > 0 {
		fmt.Fprintf(w, "\nThen run:\n\n    %s\n    bulkhead doctor\n", strings.Join(commands, "\n    "))
	}
}

// An undone is what --undo did, as --json prints it.
type undone struct {
	PutBack []string `json:"put_back"` // every file, as before the changes
	Removed []string `json:"removed"`  // the files among them that were not there before
	After   []string `json:"after"`    // commands to run now
}

// A plan is a plan of package setup with its outcome, as --json prints it.
type plan struct {
	Found   []string  `json:"found"`
	For     []string  `json:"for"`
	Keyed   bool      `json:"keyed"` // the node has a key
	Changes []planned `json:"changes"`
	Notes   []string  `json:"notes"`
	After   []string  `json:"after"`            // commands to run once the changes are made
	Backup  string    `json:"backup,omitempty"` // of what was changed; absent if nothing was
}

// A planned is the planned change of one file.
type planned struct {
	Path    string `json:"path"`
	Program string `json:"program"`
	Created bool   `json:"created"`
	Diff    string `json:"diff"`
}

// setupJSON prints a plan as JSON. Unless printOnly is set, it carries the plan out first.
func setupJSON(w io.Writer, p *setup.Plan, printOnly bool) (err error) {
	list := func(all []string) []string { return append([]string{}, all...) } // so that no list is null
	out := plan{Found: list(p.Found), For: list(p.For), Keyed: p.Keyed, Changes: []planned{}, Notes: list(p.Notes),
		After: list(p.After)}
	for i := range p.Changes {
		c := &p.Changes[i]
		out.Changes = append(out.Changes, planned{c.Path, c.Program, c.Created, string(c.Diff())})
	}
	if !printOnly {
		if out.Backup, err = p.Apply(time.Now()); err != nil {
			return err
		}
	}
	return command.PrintJSON(w, []plan{out})
}

// look makes a plan. Its errors have the exit codes of the command.
func look(o setup.Options) (*setup.Plan, error) {
	p, err := setup.Look(o)
	var wrong *config.Error
	if err != nil && !errors.As(err, &wrong) && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
		return nil, cli.DataError{Err: err}
	}
	return p, err
}

// runSetup asks whether the node joins a network, shows the changes of the programs, and makes them if
// the user agrees. The user may name other programs, whose changes are shown then.
func runSetup(w io.Writer, o setup.Options, asking *question, printOnly bool) error {
	for first := true; ; first = false {
		p, err := look(o)
		if err != nil {
			return err
		}
		again, err := runPlan(w, p, asking, printOnly, first)
		p.Close()
		if err != nil || again == nil {
			return err
		}
		o.For = again
	}
}

// runPlan shows a plan and carries it out if the user agrees. It returns the names of programs if the
// user wants a plan for these.
func runPlan(w io.Writer, p *setup.Plan, asking *question, printOnly, first bool) (again []string, err error) {
	if first {
		fmt.Fprintf(w, "found: %s\n", orNone(p.Found))
	}
	if len(p.For) > 0 {
		fmt.Fprintf(w, "set up: %s\n", orNone(p.For))
	}
	fmt.Fprintln(w)
	if first && !p.Keyed && !printOnly {
		invitation, err := asking.invitation()
		if err != nil {
			return nil, err
		}
		if invitation != "" {
			fmt.Fprintf(w, "First join, before the node starts, and then run setup again:\n\n    bulkhead join %s\n",
				shellQuote(invitation))
			return nil, nil
		}
	}
	if err := p.WriteDiff(w); err != nil {
		return nil, err
	}
	for _, note := range p.Notes {
		fmt.Fprintf(w, "note: %s\n", note)
	}
	if len(p.Changes) == 0 {
		fmt.Fprintln(w, "Nothing to change.")
		return nil, nil
	}
	if !printOnly {
		again, agreed, err := asking.changes(len(p.Changes))
		if err != nil || again != nil {
			return again, err
		}
		if !agreed {
			fmt.Fprintln(w, "Nothing was changed.")
			return nil, nil
		}
		backup, err := p.Apply(time.Now())
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(w, "Done. As it was, it is in %s; \"bulkhead setup --undo\" puts it back.\n", backup)
	}
	printAfter(w, p.After)
	return nil, nil
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "none of " + strings.Join(setup.Programs(), ", ")
	}
	return strings.Join(names, ", ")
}

// shellQuote quotes a text as one word of a shell.
func shellQuote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// A question asks the user, unless everything was agreed to beforehand.
type question struct {
	in  *bufio.Reader
	out io.Writer
	yes bool
}

// line asks for a line. If the input ends without one, the error is a usage error, because there is
// no user to answer.
func (q *question) line(text string) (string, error) {
	if q.yes {
		return "", nil
	}
	io.WriteString(q.out, text)
	answer, err := q.in.ReadString('\n')
	if err != nil && answer == "" {
		fmt.Fprintln(q.out)
		return "", cli.Usagef("standard input has no answer; use --print or --yes")
	}
	return strings.TrimSpace(answer), nil
}

// shortestInvitation is the length below which an answer is certainly no invitation, in bytes.
const shortestInvitation = 16

// invitation asks whether the node stands alone, "", or joins a network by an invitation.
func (q *question) invitation() (string, error) {
	text := "This node has no key yet. Does it stand alone, or join a network?\n" +
		"Press Enter to stand alone, or paste the invitation of the network: "
	for {
		answer, err := q.line(text)
		if err != nil || answer == "" || strings.EqualFold(answer, "alone") {
			return "", err
		}
		if len(answer) >= shortestInvitation {
			return answer, nil
		}
		text = fmt.Sprintf("%q is no invitation. An invitation is one long line, which \"bulkhead invite\"\n"+
			"prints on a member. Press Enter to stand alone, or paste it: ", answer)
	}
}

// changes asks whether to change files. agreed is the answer; programs is not nil if the answer names
// programs.
func (q *question) changes(files int) (programs []string, agreed bool, err error) {
	if q.yes {
		return nil, true, nil
	}
	text := fmt.Sprintf("\nMake these changes of %d files? y, N, or programs to set up in place of these, with commas: ",
		files)
	for {
		answer, err := q.line(text)
		if err != nil || command.IsYes(answer) {
			return nil, err == nil, err
		}
		programs := strings.FieldsFunc(answer, func(r rune) bool { return r == ',' || r == ' ' })
		unknown := slices.IndexFunc(programs, func(name string) bool { return !slices.Contains(setup.Programs(), name) })
		switch {
		case answer == "" || strings.EqualFold(answer, "n") || strings.EqualFold(answer, "no"):
			return nil, false, nil
		case len(programs) > 0 && unknown < 0:
			return programs, false, nil
		}
		text = fmt.Sprintf("%q is none of y, n, %s: ", answer, strings.Join(setup.Programs(), ", "))
	}
}
