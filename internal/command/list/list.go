package list

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/cli"
	"github.com/bulkhead-mail/bulkhead/internal/command"
	"github.com/bulkhead-mail/bulkhead/internal/lists"
)

func newListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "Build and query lists of addresses, domains, URLs and networks",
		Long: "Build and query black, white and grey lists of mail addresses, domains, URLs and IP\n" +
			"networks, which are stored in filter files. A text file has one entry per line; \"#\"\n" +
			"begins a comment; \"-\" is standard input. A running node loads a changed list by\n" +
			"itself. An entry may have a return code and a text for DNS, as in rbldnsd's files:\n" +
			"\"192.0.2.7 :127.0.0.3:open relay\". A line \":127.0.0.3:TEXT\" is for the entries after it.",
		Args: cli.Args(cobra.NoArgs),
		RunE: command.NeedCommand,
	}
	cmd.AddCommand(newListBuild(), newListAdd(), newListCheck(), newListInfo(), newListDiff(), newListMerge())
	command.CompleteLists(cmd.Commands()...)
	for _, sub := range cmd.Commands() {
		run := sub.RunE
		sub.RunE = func(cmd *cobra.Command, args []string) error { return listError(run(cmd, args)) }
	}
	return cmd
}

// listError distinguishes faults of a list, a text file or an entry from failures of the
// system.
func listError(err error) error {
	var code cli.Code
	var wrong cli.UsageError
	var path *fs.PathError
	var link *os.LinkError
	if err == nil || errors.As(err, &code) || errors.As(err, &wrong) || errors.As(err, &path) || errors.As(err, &link) ||
		errors.Is(err, context.Canceled) {
		return err
	}
	return cli.DataError{Err: err}
}

func newListBuild() *cobra.Command {
	var o lists.Options
	var asJSON bool
	var tone, eigen, like, structure, kind string
	cmd := &cobra.Command{
		Use: "build LIST TEXT...", Short: "Build a list from text files",
		Args: cli.Args(cobra.MinimumNArgs(2)),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			o.Tone, o.Structure = lists.Tone(tone), lists.Structure(structure)
			if kind != "" && !slices.Contains(lists.Rbldnsd, kind) {
				return cli.Usagef("--rbldnsd %.20q is none of %s", kind, strings.Join(lists.Rbldnsd, ", "))
			}
			if o.Eigen, err = filter.ParseEigenvalue(eigen); err != nil {
				return cli.UsageError{Err: err}
			}
			if like != "" {
				if o.Like, err = lists.Open(like, lists.DefaultMaxBytes); err != nil {
					return err
				}
			}
			sources, done, err := spooled(cmd.InOrStdin(), args[1:])
			if err != nil {
				return err
			}
			defer done()
			c := lists.Conversion{Kind: kind}
			if kind != "" {
				converted, done, err := convert(&c, sources, cmd.ErrOrStderr())
				if err != nil {
					return err
				}
				defer done()
				sources, o.Exact = converted, o.Exact || c.Names > 0
			}
			o.Progress = progress(cmd.ErrOrStderr())
			// A node that reads in between must not find what is excluded.
			if len(c.Excluded) > 0 {
				if err := lists.Exclude(args[0], c.Excluded); err != nil {
					return err
				}
			}
			r, err := lists.Build(cmd.Context(), args[0], sources, o)
			if err != nil {
				return err
			}
			if err := lists.Exclude(args[0], c.Excluded); err != nil {
				return err
			}
			return printBuilt(cmd.OutOrStdout(), args[0], r, asJSON)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Name, "name", "", "name inside the file (default: the name of the file)")
	f.StringVar(&tone, "tone", "black", "black, white or grey")
	f.StringVar(&o.Reason, "reason", "", "text for those who are refused")
	f.Float64Var(&o.Error, "error", lists.DefaultError,
		"accepted probability that an entry is found which was never added")
	f.Uint64Var(&o.Capacity, "capacity", 0, "make room for this many entries (default: those in the text)")
	f.BoolVar(&o.Exact, "exact", false, "a domain stands only for itself, not for its subdomains")
	f.StringVar(&o.Hash, "hash", "", "make a list of hashes: md5, sha1 or sha256")
	f.StringVar(&eigen, "eigenvalue", "hash",
		"what goes into the second section: hash, chars, domain, length, mid-square, division; all but hash are experiments")
	f.StringVar(&structure, "structure", "two-part",
		"two-part; bits, which is faster and takes two fifths more; both can be added to; or fuse, a fifth smaller, which "+
			"never changes")
	f.StringVar(&like, "like", "", "use the shape and key of this `LIST`, so that the two can be merged")
	f.StringVar(&kind, "rbldnsd", "",
		"the text files are data sets of rbldnsd of this `KIND`: "+strings.Join(lists.Rbldnsd, ", "))
	f.BoolVar(&o.SkipBad, "skip-bad", false, "skip lines that are not entries, instead of failing")
	command.JSONFlag(f, &asJSON)
	command.CompleteWords(cmd, "rbldnsd", lists.Rbldnsd...)
	return cmd
}

func newListAdd() *cobra.Command {
	var o lists.Options
	var allow, overfill, asJSON bool
	cmd := &cobra.Command{
		Use: "add LIST TEXT...", Short: "Add text files to a list, or entries to its allow list",
		Long: "Add text files to a list. With --allow, the arguments are entries that the list must\n" +
			"never find: they go into the exact allow list beside it.",
		Args: cli.Args(cobra.MinimumNArgs(2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if allow {
				if err := lists.Allow(args[0], args[1:]); err != nil {
					return err
				}
				if asJSON {
					return command.PrintJSON(cmd.OutOrStdout(),
						[]built{{List: args[0] + lists.AllowSuffix, Read: uint64(len(args) - 1)}})
				}
				_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s%s: %d entries added\n", args[0], lists.AllowSuffix, len(args)-1)
				return err
			}
			sources, done, err := spooled(cmd.InOrStdin(), args[1:])
			if err != nil {
				return err
			}
			defer done()
			o.Progress = progress(cmd.ErrOrStderr())
			r, err := lists.Add(cmd.Context(), args[0], lists.DefaultMaxBytes, sources, overfill, o)
			if err != nil {
				return err
			}
			return printBuilt(cmd.OutOrStdout(), args[0], r, asJSON)
		},
	}
	cmd.Flags().BoolVar(&allow, "allow", false, "the arguments are entries for the allow list")
	cmd.Flags().BoolVar(&overfill, "overfill", false, "add even if the error rate rises above the accepted one")
	cmd.Flags().BoolVar(&o.SkipBad, "skip-bad", false, "skip lines that are not entries, instead of failing")
	command.JSONFlag(cmd.Flags(), &asJSON)
	return cmd
}

func newListCheck() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "check LIST ENTRY...", Short: "Look entries up; exit code 1 if one is found",
		Args: cli.Args(cobra.MinimumNArgs(2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := lists.Open(args[0], lists.DefaultMaxBytes)
			if err != nil {
				return err
			}
			found := false
			for _, text := range args[1:] {
				e, err := lists.ParseEntry(text)
				if err != nil {
					return err
				}
				m, ok := l.Find(e)
				found = found || ok
				if err := printMatch(cmd.OutOrStdout(), asJSON, text, m, ok); err != nil {
					return err
				}
			}
			if found {
				return cli.Unwanted
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line")
	return cmd
}

func printMatch(w io.Writer, asJSON bool, text string, m lists.Match, ok bool) error {
	if asJSON {
		return json.NewEncoder(w).Encode(map[string]any{
			"entry": text, "found": ok, "list": m.List, "tone": m.Tone, "element": m.Element, "reason": m.Reason,
			"error": m.Error, "code": codeOf(m.Value), "text": m.Value.Text,
		})
	}
	if !ok {
		_, err := fmt.Fprintf(w, "%s: not listed\n", text)
		return err
	}
	reason := ""
	if m.Reason != "" {
		reason = ", " + m.Reason
	}
	_, err := fmt.Fprintf(w, "%s: %s list %s of %s has %s%s%s; expected error %.1e\n",
		text, m.Tone, m.List, m.Built.Format(time.DateOnly), m.Element, reason, valueOf(m.Value), m.Error)
	return err
}

// codeOf returns the code of a value, "" if it has none.
func codeOf(v lists.Value) string {
	if !v.Code.IsValid() {
		return ""
	}
	return v.Code.String()
}

// valueOf returns a value in words, with a comma before it.
func valueOf(v lists.Value) (words string) {
	if code := codeOf(v); code != "" {
		words = ", code " + code
	}
	if v.Text != "" {
		words += fmt.Sprintf(", text %q", v.Text)
	}
	return words
}

func newListInfo() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "info LIST", Short: "Print what a list holds, where it comes from, and its error rate",
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := lists.Open(args[0], lists.DefaultMaxBytes)
			if err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(map[string]any{
					"meta": l.Meta(), "structure": l.Structure(), "count": l.Count(), "bytes": l.Bytes(), "error": l.ErrorRate(),
					"allowed": l.Allowed(), "code": codeOf(l.Value()), "text": l.Value().Text, "codes": l.Valued(),
				})
			}
			return printInfo(cmd.OutOrStdout(), l)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func printInfo(out io.Writer, l *lists.List) error {
	m := l.Meta()
	w := command.NewTable(out)
	row := func(name, format string, args ...any) { fmt.Fprintf(w, name+"\t"+format+"\n", args...) }
	row("name", "%s", m.Name)
	row("tone", "%s", m.Tone)
	if m.Reason != "" {
		row("reason", "%s", m.Reason)
	}
	if m.Hash != "" {
		row("hashes", "%s", m.Hash)
	}
	row("built", "%s", m.Built.Format(time.RFC3339))
	if !m.Updated.Equal(m.Built) {
		row("updated", "%s", m.Updated.Format(time.RFC3339))
	}
	row("entries", "%d of %d", l.Count(), m.Capacity)
	row("filter", "%d bytes, %s", l.Bytes(), l.Shape())
	row("error", "%.3g for one element, wanted %.3g", l.ErrorRate(), m.Error)
	row("subdomains", "%v", m.Subdomains)
	row("allow list", "%d entries", l.Allowed())
	if v := l.Value(); v != (lists.Value{}) {
		row("value", "%s", strings.TrimPrefix(valueOf(v), ", "))
	}
	if n := l.Valued(); n > 0 {
		row("own values", "%d entries", n)
	}
	for _, s := range m.Sources {
		row("source", "%s, %d entries, read %s, sha256 %s", s.Name, s.Entries, s.Read.Format(time.RFC3339), s.SHA256)
	}
	return w.Flush()
}

func newListDiff() *cobra.Command {
	var text, quiet, asJSON bool
	cmd := &cobra.Command{
		Use: "diff OLD NEW", Short: "Compare a newer list with an older one",
		Long: "Compare a newer list with an older one. If one of two lists was built like the\n" +
			"other, they are compared by estimate. With --text, NEW is a text file and OLD is a\n" +
			"list or a text file. The command then prints the entries that are new (\"+\") and, if\n" +
			"both are text files, those that are gone (\"-\").",
		Args: cli.Args(cobra.ExactArgs(2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			out := cmd.OutOrStdout()
			printer := func(sign string) func(lists.Entry) {
				if quiet {
					return nil
				}
				return func(e lists.Entry) {
					if asJSON {
						_ = command.PrintJSON(out, []changed{{e.Text, sign == "+"}})
						return
					}
					fmt.Fprintln(out, sign+e.Text)
				}
			}
			older, listErr := lists.Open(args[0], lists.DefaultMaxBytes)
			var d lists.Difference
			var err error
			switch {
			case text && listErr != nil && !errors.Is(listErr, filter.ErrCorrupt):
				return listErr
			case text && listErr != nil:
				d, err = lists.DiffText(cmd.Context(), args[0], args[1], printer("+"), printer("-"))
			case text:
				d, err = older.DiffNewer(cmd.Context(), args[1], printer("+"))
			case listErr != nil:
				return listErr
			default:
				var newer *lists.List
				if newer, err = lists.Open(args[1], lists.DefaultMaxBytes); err == nil {
					d, err = lists.Diff(older, newer)
				}
			}
			if err != nil {
				return err
			}
			newerOnly := text && listErr == nil
			if asJSON {
				total := difference{Old: d.Old, New: d.New, Added: d.Added, Exact: d.Exact}
				if !newerOnly {
					total.Removed = &d.Removed
				}
				return command.PrintJSON(out, []difference{total})
			}
			return printDifference(cmd.ErrOrStderr(), d, newerOnly)
		},
	}
	cmd.Flags().BoolVar(&text, "text", false, "NEW is a text file")
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "print only the numbers")
	command.JSONFlag(cmd.Flags(), &asJSON)
	return cmd
}

func printDifference(w io.Writer, d lists.Difference, newerOnly bool) error {
	about := "about "
	if d.Exact {
		about = ""
	}
	gone := fmt.Sprintf("%s%d removed", about, d.Removed)
	if newerOnly {
		gone = "a filter does not show removed entries"
	}
	_, err := fmt.Fprintf(w, "%s%d entries to %d: %s%d added, %s\n", about, d.Old, d.New, about, d.Added, gone)
	return err
}

func newListMerge() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "merge RESULT LIST LIST...", Short: "Merge lists that were built with --like",
		Args: cli.Args(cobra.MinimumNArgs(3)),
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := lists.Merge(args[0], lists.DefaultMaxBytes, args[1:], nil)
			if err != nil {
				return err
			}
			if asJSON {
				return command.PrintJSON(cmd.OutOrStdout(),
					[]built{{List: args[0], Read: l.Count(), Bytes: l.Bytes(), Error: l.ErrorRate()}})
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: about %d entries of %d lists, expected error %.3g\n", args[0],
				l.Count(), len(args)-1, l.ErrorRate())
			return err
		},
	}
	command.JSONFlag(cmd.Flags(), &asJSON)
	return cmd
}

// The objects that --json prints: lists that were made, entries that differ, and their totals.
type (
	built struct {
		List  string  `json:"list"`
		Read  uint64  `json:"read"` // entries
		New   uint64  `json:"new,omitempty"`
		Bad   uint64  `json:"bad,omitempty"` // lines left out
		Bytes uint64  `json:"bytes,omitempty"`
		Error float64 `json:"error,omitempty"` // expected, for one element
	}
	changed struct {
		Entry string `json:"entry"`
		Added bool   `json:"added"` // false: removed
	}
	difference struct {
		Old     uint64  `json:"old"` // entries
		New     uint64  `json:"new"`
		Added   uint64  `json:"added"`
		Removed *uint64 `json:"removed,omitempty"` // unknown if only the newer list is a text
		Exact   bool    `json:"exact"`             // false: the counts are estimates
	}
)

func printBuilt(w io.Writer, path string, r lists.Result, asJSON bool) error {
	if asJSON {
		return command.PrintJSON(w, []built{{path, r.Lines, r.New, r.Bad, r.List.Bytes(), r.List.ErrorRate()}})
	}
	bad := ""
	if r.Bad > 0 {
		bad = fmt.Sprintf(", %d lines left out", r.Bad)
	}
	_, err := fmt.Fprintf(w, "%s: %d entries read, %d new%s; %d bytes, expected error %.3g\n",
		path, r.Lines, r.New, bad, r.List.Bytes(), r.List.ErrorRate())
	return err
}

// spooled replaces "-", which may occur once, with a file that holds standard input, because lists
// are built in two passes.
func spooled(in io.Reader, names []string) (files []string, done func(), err error) {
	at := slices.Index(names, "-")
	if at < 0 {
		return names, func() {}, nil
	}
	if slices.Contains(names[at+1:], "-") {
		return nil, nil, cli.Usagef("- (standard input) is given twice")
	}
	f, err := os.CreateTemp("", "stdin-*.txt")
	if err != nil {
		return nil, nil, err
	}
	done = func() { os.Remove(f.Name()) }
	_, err = io.Copy(f, in)
	if err = errors.Join(err, f.Close()); err != nil {
		done()
		return nil, nil, err
	}
	files = slices.Clone(names)
	files[at] = f.Name()
	return files, done, nil
}

// convert writes files of rbldnsd as text files of a list into a new folder, until done is called.
func convert(c *lists.Conversion, names []string, notes io.Writer) (files []string, done func(), err error) {
	dir, err := os.MkdirTemp("", "bulkhead-list-")
	if err != nil {
		return nil, nil, err
	}
	done = func() { os.RemoveAll(dir) }
	for i, name := range names {
		at := filepath.Join(dir, fmt.Sprintf("%d-%s", i, filepath.Base(name)))
		if err := convertFile(c, name, at); err != nil {
			done()
			return nil, nil, err
		}
		files = append(files, at)
	}
	if c.Settings > 0 {
		fmt.Fprintf(notes, "%d settings such as $SOA and $TTL are left out: [[dnsbl.zone]] has host and ttl\n", c.Settings)
	}
	return files, done, nil
}

func convertFile(c *lists.Conversion, from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	if err := errors.Join(c.Convert(in, out), out.Close()); err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}
	return nil
}

// progress prints how many lines were read, if w is a terminal.
func progress(w io.Writer) func(uint64) {
	if !cli.IsTerminal(w) {
		return nil
	}
	w = cli.Unwrap(w)
	return func(lines uint64) { fmt.Fprintf(w, "\r%d entries%s", lines, strings.Repeat(" ", 4)) }
}
