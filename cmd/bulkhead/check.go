package main

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client"
	"github.com/bulkhead-mail/bulkhead/internal/cli"
	"github.com/bulkhead-mail/bulkhead/internal/units"
)

func newCheckCommand() *cobra.Command {
	var r remote
	var src source
	var threshold uint32
	cmd := &cobra.Command{
		Use:   "check [--server URL] [--json] MESSAGE...",
		Short: "Ask what is known about messages",
		Long: "Ask a node what is known about messages. " + messageHelp + "\n\n" +
			"The exit code is 0 if no message is spam or bulk (suspected mail is neither), 1 if one\nis, and 64 or more after an error.",
		Args: cli.Args(needMessages),
		RunE: func(cmd *cobra.Command, args []string) error {
			node, err := r.client("")
			if err != nil {
				return err
			}
			from, err := src.root()
			if err != nil {
				return err
			}
			p := &verdictPrinter{w: cmd.OutOrStdout(), json: r.json, color: cli.UseColor(cmd.OutOrStdout())}
			err = eachMessage(cmd, args, func(name string, raw []byte) error {
				v, err := node.CheckMessage(cmd.Context(), raw, client.MessageOptions{Source: from, Threshold: threshold})
				if err != nil {
					return err
				}
				return p.print(name, v)
			})
			p.summary()
			if err == nil && p.unwanted > 0 {
				return cli.Unwanted
			}
			return err
		},
	}
	r.flags(cmd.Flags())
	src.flags(cmd.Flags())
	cmd.Flags().Uint32Var(&threshold, "threshold", 0, "count at which a message is bulk (default: the node's own)")
	return cmd
}

const messageHelp = "A MESSAGE is a file with one message,\nan mbox file, a Maildir, a folder of *.eml files, or - for standard input."

// A verdictPrinter prints verdicts for people or programs, and counts them.
type verdictPrinter struct {
	w                        io.Writer
	json, color              bool
	total, unwanted, unknown int
	spam, suspected, bulk    int
}

func (p *verdictPrinter) print(name string, v *client.Verdict) error {
	p.total++
	word, paint := stateOf(v)
	switch word {
	case "SPAM":
		p.spam++
	case "suspected":
		p.suspected++
	case "BULK":
		p.bulk++
	case "unknown":
		p.unknown++
	}
	if v.Unwanted {
		p.unwanted++
	}
	if p.json {
		return json.NewEncoder(p.w).Encode(struct {
			Message string          `json:"message"`
			Verdict *client.Verdict `json:"verdict"`
		}{name, v})
	}
	if p.color {
		word = paint + word + "\x1b[0m"
	}
	_, err := fmt.Fprintf(p.w, "%s: %s\n", name, word)
	for _, reason := range v.Reasons {
		if err == nil {
			_, err = fmt.Fprintf(p.w, "    %s\n", reason)
		}
	}
	return err
}

// stateOf returns a verdict in one word, in capitals if the message is not
// wanted, and the colour to print it in.
func stateOf(v *client.Verdict) (word, paint string) {
	const red, yellow, green, plain = "\x1b[1;31m", "\x1b[1;33m", "\x1b[32m", "\x1b[2m"
	switch {
	case v.Whitelisted != "":
		return "white-listed", green
	case v.Spam:
		return "SPAM", red
	case v.Class == bulkhead.ClassSuspected.String():
		return "suspected", yellow
	case v.Bulk:
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

// summary adds a line for more than one message.
func (p *verdictPrinter) summary() {
	if p.json || p.total < 2 {
		return
	}
	fmt.Fprintf(p.w, "\n%s: %d spam, %d suspected, %d bulk, %d unknown\n", units.Plural(p.total, "message"), p.spam, p.suspected, p.bulk, p.unknown)
}
