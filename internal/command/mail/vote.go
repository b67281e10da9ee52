package mail

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client"
	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/cli"
	"github.com/bulkhead-mail/bulkhead/internal/command"
	"github.com/bulkhead-mail/bulkhead/internal/units"
)

func newReportCommand() *cobra.Command {
	vote := bulkhead.Spam
	cmd := newVoteCommand("report", "Report messages as spam, as ham, or as seen", &vote)
	cmd.Flags().Var((*voteFlag)(&vote), "vote", "what the messages are: spam, ham or sighting")
	command.CompleteWords(cmd, "vote", "spam", "ham", "sighting")
	return cmd
}

func newRevokeCommand() *cobra.Command {
	vote := bulkhead.Revocation
	return newVoteCommand("revoke", "Withdraw messages from the blocklist", &vote)
}

// voteFlag is a vote as the value of a flag.
type voteFlag bulkhead.Vote

func (f *voteFlag) Set(text string) error {
	v, err := bulkhead.ParseVote(text)
	if err != nil || v == bulkhead.Revocation {
		return fmt.Errorf("%q is none of spam, ham, sighting", text)
	}
	*f = voteFlag(v)
	return nil
}

func (f *voteFlag) String() string { return bulkhead.Vote(*f).String() }
func (f *voteFlag) Type() string   { return "string" }

// newVoteCommand returns a command that reports messages. A flag may set the vote, so it is read
// when the command runs.
func newVoteCommand(name, short string, vote *bulkhead.Vote) *cobra.Command {
	var r command.Remote
	var src source
	var in input
	var quiet bool
	var count uint32
	var id, user, messageID string
	var entry int64
	cmd := &cobra.Command{
		Use:   name + " [--server URL] [--json] MESSAGE...",
		Short: short,
		Long: short + ". " + messageHelp + " Prints what was\ncounted.\n\n" +
			"A vote that no node takes now is kept, and sent by a later vote or by \"bulkhead waiting\":\n" +
			"the exit code is 75 then.\n\n" +
			"With --message-id or --entry instead of a MESSAGE, the vote is on a message that the node\n" +
			"has seen lately: see \"bulkhead history\".",
		Args: func(cmd *cobra.Command, args []string) error {
			if count == 0 {
				return cli.Usagef("--count 0 reports nothing: give 1 or more")
			}
			if messageID == "" && entry == 0 {
				return cli.Args(needMessages)(cmd, args)
			}
			if len(args) > 0 || messageID != "" && entry != 0 {
				return cli.Usagef("give messages, or --message-id, or --entry")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			o := client.MessageOptions{Vote: *vote, Count: count, User: user, ID: id}
			node, err := r.Client()
			if err != nil {
				return err
			}
			if o.Source, err = src.root(); err != nil {
				return err
			}
			tell := func(m *message, receipt *client.Receipt, err error) error {
				if err != nil || quiet {
					return err
				}
				return printReceipt(cmd.OutOrStdout(), m, receipt, r.JSON)
			}
			if entry != 0 {
				receipt, err := node.ReportEntry(cmd.Context(), entry, admin.RememberedVote{Vote: o.Vote.String(), User: o.User,
					ID: o.ID})
				return tell(&message{name: fmt.Sprintf("entry %d", entry)}, receipt, err)
			}
			v := &voter{remote: &r, node: node}
			v.sendWaiting(cmd)
			if messageID != "" {
				receipt, err := v.cast(cmd.Context(), nil, messageID, o)
				return tell(&message{name: messageID}, receipt, err)
			}
			return in.each(cmd, args, func(m *message) error {
				receipt, err := v.cast(cmd.Context(), m.raw, "", o)
				return tell(m, receipt, err)
			})
		},
	}
	r.Flags(cmd.Flags())
	src.flags(cmd.Flags())
	in.flags(cmd.Flags())
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "print errors alone")
	cmd.Flags().Uint32Var(&count, "count", 1, "recipients of each message")
	cmd.Flags().StringVar(&user, "user", "",
		"report on behalf of a user of this machine or of the account's service, who is one voter")
	cmd.Flags().StringVar(&messageID, "message-id", "",
		"vote on a message that the node has seen lately, by its Message-ID")
	cmd.Flags().Int64Var(&entry, "entry", 0, "vote on a message that the node has seen lately, by its `ID` in the history")
	cmd.Flags().StringVar(&id, "id", "", "idempotency key: a second report with the same key changes nothing")
	return cmd
}

func printReceipt(w io.Writer, m *message, r *client.Receipt, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(w).Encode(struct {
			Message string          `json:"message"`
			Receipt *client.Receipt `json:"receipt"`
		}{m.name, r})
	}
	_, err := fmt.Fprintf(w, "%s: %s\n", m.label(), receiptText(r))
	return err
}

// receiptText describes the effect of a report, for example "3 signatures counted, 2 newly listed,
// 1 counted before".
func receiptText(r *client.Receipt) string {
	parts := []string{units.Plural(r.Counted, "signature") + " counted"}
	for _, p := range []struct {
		n    int
		what string
	}{
		{r.Listed, "newly listed as spam"},
		{r.Revoked, "taken off the blocklist"},
		{r.Pending, "waiting for more reporters"},
		{r.Duplicate, "counted before"},
		{r.Whitelisted, "whitelisted and not counted"},
	} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.what))
		}
	}
	text := strings.Join(parts, ", ")
	if r.Counted > 0 && r.Delivery == bulkhead.NotJoined.String() {
		text += "; delivery unknown"
	}
	return text
}
