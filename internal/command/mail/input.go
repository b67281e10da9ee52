package mail

import (
	"fmt"
	"io"
	"net/netip"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/cli"
	"github.com/bulkhead-mail/bulkhead/internal/command"
	"github.com/bulkhead-mail/bulkhead/internal/mailbox"
	"github.com/bulkhead-mail/bulkhead/internal/units"
)

// input holds the flags of commands that read messages.
type input struct{ folders bool }

func (in *input) flags(f *pflag.FlagSet) {
	f.BoolVar(&in.folders, "folders", false, "also read the folders inside a Maildir")
}

// A message is one message of the input.
type message struct {
	name          string // its place: the file, with an offset in an mbox
	from, subject string // header fields, decoded
	raw           []byte
	several       bool // its file has other messages
}

// label names a message for people; in an mbox it includes From and Subject.
func (m *message) label() string {
	if !m.several || m.from == "" && m.subject == "" {
		return cli.Visible(m.name)
	}
	return cli.Visible(fmt.Sprintf("%s (%s: %s)", m.name, m.from, m.subject))
}

// shown is the number of characters of From and of Subject that are printed.
const shown = 60

// A count shows the progress of a command that prints nothing for a long time.
type count struct {
	w        io.Writer // nil: progress is not shown
	messages int
	shown    bool
}

// countEvery is the number of messages between two updates of the count.
const countEvery = 100

// newCount returns a count for a command whose output is not visible while a user waits for it: it
// goes to a file or a pipe, or is not wanted.
func newCount(cmd *cobra.Command) *count {
	quiet, err := cmd.Flags().GetBool("quiet")
	if !cli.IsTerminal(cmd.ErrOrStderr()) || cli.IsTerminal(cmd.OutOrStdout()) && (err != nil || !quiet) {
		return &count{}
	}
	return &count{w: cli.Unwrap(cmd.ErrOrStderr())}
}

func (c *count) next() {
	if c.messages++; c.w != nil && c.messages%countEvery == 0 {
		c.shown = true
		fmt.Fprintf(c.w, "\r%d messages", c.messages)
	}
}

// end erases the line.
func (c *count) end() {
	if c.shown {
		c.shown = false
		fmt.Fprintf(c.w, "\r%*s\r", len(fmt.Sprintf("%d messages", c.messages)), "")
	}
}

// each calls fn for every message of the arguments: files, mailboxes, folders, or "-" for standard
// input. It prints an error and continues with the next message, and returns the code of the first
// error.
func (in *input) each(cmd *cobra.Command, args []string, fn func(m *message) error) error {
	ctx := cmd.Context()
	count := newCount(cmd)
	defer count.end()
	var first error
	fail := func(err error) {
		count.end()
		command.Complain(cmd, err)
		if first == nil {
			first = cli.Code(command.CodeOf(err))
		}
	}
	for _, arg := range args {
		found := false
		if names := mailbox.Folders(arg); len(names) > 0 && !in.folders {
			fmt.Fprintf(cmd.ErrOrStderr(), "bulkhead: %s: not read: %s inside (%s); --folders reads them\n", arg,
				units.Plural(len(names), "folder"), strings.Join(names, ", "))
		}
		for m, err := range mailbox.Read(ctx, arg, mailbox.Options{Stdin: cmd.InOrStdin(), Folders: in.folders}) {
			found = true
			count.next()
			if err != nil {
				fail(cli.InputError{Err: err})
				continue
			}
			name := m.Name()
			if name == "-" {
				name = "standard input"
			}
			if mailbox.IsOutlook(m.Raw) {
				fail(cli.DataError{Err: fmt.Errorf("%s: a message in Outlook's own form, which is not read: "+
					"save it as .eml", name)})
				continue
			}
			if !mailbox.HasHeader(m.Raw) {
				fail(cli.DataError{Err: fmt.Errorf("%s: no message: it does not begin with a header field", name)})
				continue
			}
			one := &message{name: name, raw: m.Raw, several: m.Mbox}
			one.from, one.subject = mailbox.Envelope(m.Raw, shown)
			if err := fn(one); err != nil {
				if cli.Failed(cmd.OutOrStdout()) {
					continue // votes count without an answer; the end of the program reports this error once
				}
				fail(fmt.Errorf("%s: %w", name, err))
			}
		}
		if !found {
			fail(cli.InputError{Err: fmt.Errorf("%s: no message in it", arg)})
		}
	}
	return first
}

// source holds the flags that give the origin of messages.
type source struct {
	sender, client, listID string
	dkim                   []string
}

func (s *source) flags(f *pflag.FlagSet) {
	f.StringVar(&s.sender, "sender", "", "sender of the messages, verified by SPF for example")
	f.StringVar(&s.client, "client", "", "address of the SMTP client that delivered the messages")
	f.StringVar(&s.listID, "list-id", "", "mailing list that the messages come from, verified likewise")
	f.StringSliceVar(&s.dkim, "dkim", nil, "domains whose DKIM signatures were verified")
}

func (s *source) root() (bulkhead.Source, error) {
	out := bulkhead.Source{Sender: s.sender, ListID: s.listID, DKIM: s.dkim}
	for _, f := range []struct{ flag, value string }{{"--sender", s.sender}, {"--list-id", s.listID},
		{"--dkim", strings.Join(s.dkim, "")}} {
		if strings.ContainsFunc(f.value, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }) {
			return out, cli.Usagef("%s %q holds blanks: give an address or a domain", f.flag, f.value)
		}
	}
	if s.client != "" {
		var err error
		if out.Client, err = netip.ParseAddr(s.client); err != nil {
			return out, cli.Usagef("--client %q is not an address", s.client)
		}
	}
	return out, nil
}

// needMessages rejects a command line without messages.
func needMessages(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cli.Usagef("%s needs a message: a file, or - for standard input", cmd.CommandPath())
	}
	return nil
}
