package mail

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client"
	"github.com/bulkhead-mail/bulkhead/internal/cli"
	"github.com/bulkhead-mail/bulkhead/internal/command"
	"github.com/bulkhead-mail/bulkhead/internal/units"
)

func newCheckCommand() *cobra.Command {
	var r command.Remote
	var src source
	var in input
	var quiet bool
	var threshold uint32
	cmd := &cobra.Command{
		Use:   "check [--server URL] [--json] MESSAGE...",
		Short: "Ask what is known about messages",
		Long: "Ask a node what is known about messages. " + messageHelp + "\n\n" +
			"The exit code is 1 if a message is spam, 2 if none is spam but one is bulk, 0 if none is\n" +
			"either (suspected mail is neither), and 64 or more after an error, such as no node. In a\n" +
			"script:\n\n" +
			"    bulkhead check --quiet \"$file\"; test $? -eq 1 && mv \"$file\" Junk/",
		Args: cli.Args(needMessages),
		RunE: func(cmd *cobra.Command, args []string) error {
			node, err := r.Client()
			if err != nil {
				return err
			}
			from, err := src.root()
			if err != nil {
				return err
			}
			p := &verdictPrinter{w: cmd.OutOrStdout(), json: r.JSON, color: cli.UseColor(cmd.OutOrStdout()), quiet: quiet}
			err = in.each(cmd, args, func(m *message) error {
				v, err := node.CheckMessage(cmd.Context(), m.raw, client.MessageOptions{Source: from, Threshold: threshold})
				if err != nil {
					return err
				}
				return p.print(m, v)
			})
			p.summary()
			switch {
			case err != nil:
				return err
			case p.spam:
				return cli.Unwanted
			case p.bulk:
				return cli.Bulk
			}
			return nil
		},
	}
	r.Flags(cmd.Flags())
	src.flags(cmd.Flags())
	in.flags(cmd.Flags())
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "print errors alone; the exit code is the answer")
	cmd.Flags().Uint32Var(&threshold, "threshold", 0, "count at which a message is bulk (default: the node's own)")
	return cmd
}

const messageHelp = "A MESSAGE is a file with one message,\nan mbox file, a Maildir, a folder of *.eml files, or - " +
	"for standard input."

// A verdictPrinter prints verdicts for people or programs, and counts them.
type verdictPrinter struct {
	w                  io.Writer
	json, color, quiet bool
	spam, bulk         bool           // at least one message was
	total              int            // messages
	words              map[string]int // messages by the word for their verdict
}

func (p *verdictPrinter) print(m *message, v *client.Verdict) error {
	word, paint := stateOf(v)
	if p.words == nil {
		p.words = make(map[string]int)
	}
	p.total++
	p.words[word]++
	p.spam = p.spam || word == "SPAM"
	p.bulk = p.bulk || word == "BULK"
	if p.quiet {
		return nil
	}
	if p.json {
		return json.NewEncoder(p.w).Encode(struct {
			Message string          `json:"message"`
			Verdict *client.Verdict `json:"verdict"`
			From    string          `json:"from,omitempty"`
			Subject string          `json:"subject,omitempty"`
		}{m.name, v, m.from, m.subject})
	}
	if !p.color {
		paint = ""
	}
	if _, err := fmt.Fprintf(p.w, "%s: ", m.label()); err != nil {
		return err
	}
	if err := cli.Paint(p.w, paint, word); err != nil {
		return err
	}
	_, err := fmt.Fprintln(p.w)
	for _, reason := range v.Reasons {
		if err == nil {
			_, err = fmt.Fprintf(p.w, "    %s\n", reason)
		}
	}
	return err
}

// stateOf returns one word for a verdict, in capitals if the message is unwanted, and the colour to
// print it in.
func stateOf(v *client.Verdict) (word, paint string) {
	const red, yellow, green, plain = "\x1b[1;31m", "\x1b[1;33m", "\x1b[32m", "\x1b[2m"
	switch {
	case v.Whitelisted != "":
		return "whitelisted", green
	case v.Spam:
		return "SPAM", red
	case v.Class == bulkhead.ClassSuspected.String():
		return "suspected", yellow
	case v.Bulk && v.Class != bulkhead.ClassGood.String():
		return "BULK", yellow
	case v.Judged == "revoked":
		return "revoked", green
	case v.Class == bulkhead.ClassGood.String():
		return "good", green
	case v.Sightings > 0 || v.SpamVotes > 0 || v.HamVotes > 0:
		return "seen", plain
	}
	return "unknown", plain
}

// words are the words that stateOf returns, in the order of the summary.
var words = []string{"SPAM", "suspected", "BULK", "whitelisted", "good", "revoked", "seen", "unknown"}

// summary prints a line with the totals if there was more than one message.
func (p *verdictPrinter) summary() {
	if p.json || p.quiet || p.total < 2 {
		return
	}
	var parts []string
	for i, word := range words {
		if n := p.words[word]; n > 0 || i < 3 {
			parts = append(parts, fmt.Sprintf("%d %s", n, strings.ToLower(word)))
		}
	}
	fmt.Fprintf(p.w, "\n%s: %s\n", units.Plural(p.total, "message"), strings.Join(parts, ", "))
}
