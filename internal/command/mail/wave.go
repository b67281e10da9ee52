package mail

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/bulkhead-mail/bulkhead/client/admin"

	"github.com/spf13/cobra"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/cli"
	"github.com/bulkhead-mail/bulkhead/internal/command"
)

func newWaveCommand() *cobra.Command {
	var u adminFlags
	cmd := &cobra.Command{
		Use:   "wave",
		Short: "Show the waves of similar messages, and list, revoke or white-list one",
		Long: "Show the waves of messages with the same text, or nearly so, that a node has seen\n" +
			"lately, and list, revoke or white-list one.\n" + command.AdminHelp,
		Args: cli.Args(cobra.NoArgs),
		RunE: command.NeedCommand,
	}
	u.Flags(cmd.PersistentFlags())
	spam, revocation := bulkhead.Spam, bulkhead.Revocation
	report := newWaveVote(&u, "report WAVE", "Vote on a wave: spam, or what --vote says", &spam)
	report.Flags().Var((*voteFlag)(&spam), "vote", "what its messages are: spam or ham")
	cmd.AddCommand(
		newWaveList(&u), newWaveShow(&u), report,
		newWaveVote(&u, "revoke WAVE", "Take a wave off the blocklist", &revocation), newWaveClear(&u),
	)
	return cmd
}

// waveOf fetches the wave that an argument names.
func waveOf(ctx context.Context, c *admin.Client, text string) (*admin.WaveDetail, error) {
	id, err := command.ParseID(text)
	if err != nil {
		return nil, err
	}
	return c.Wave(ctx, id)
}

func newWaveList(u *adminFlags) *cobra.Command {
	var q admin.WaveQuery
	cmd := &cobra.Command{
		Use: "list", Short: "Print the waves, the largest first", Args: cli.Args(cobra.NoArgs),
		RunE: u.Ask(func(cmd *cobra.Command, c *admin.Client, _ []string) error {
			page, err := c.Waves(cmd.Context(), q)
			if err != nil {
				return err
			}
			if !page.Whole {
				fmt.Fprintln(cmd.ErrOrStderr(), "bulkhead: "+unread(page))
			}
			return u.printWaves(cmd.OutOrStdout(), page.Waves)
		}),
	}
	cmd.Flags().StringVar(&q.Class, "class", "", "whose latest answer is unknown, good, bulk, suspected or spam")
	cmd.Flags().StringVar(&q.Sort, "sort", "", "which come first: size, recent or new")
	cmd.Flags().IntVarP(&q.Limit, "limit", "n", 50, "most waves")
	return cmd
}

// unread describes the part of its history that the node has not yet read for the waves.
func unread(page *admin.WavePage) string {
	if page.Since.IsZero() {
		return "the node is still reading its history, and has come to " + page.Upto.Format(time.DateTime)
	}
	return "the node is still reading its history; these are the waves since " + page.Since.Format(time.DateTime)
}

func (u *adminFlags) printWaves(w io.Writer, waves []admin.Wave) error {
	return command.PrintTable(w, u.JSON, waves,
		"ID\tMESSAGES\tANSWER\tSPAM VOTES\tHAM VOTES\tREVOKED\tFIRST SEEN\tLATEST\tDOORS\tSENDERS\tLINKS",
		func(t io.Writer, v *admin.Wave) {
			fmt.Fprintf(t, "%d\t%d\t%s %d\t%d\t%d\t%d\t%s\t%s\t%s\t%s\t%s\n", v.ID, v.Messages, v.Class, v.Confidence, v.Spam,
				v.Ham, v.Revoked,
				v.First.Format(time.DateTime), v.Last.Format(time.DateTime), counted(v.Doors, 3), counted(v.Senders, 3),
				counted(v.Domains, 3))
		})
}

// counted lists up to most names with their counts.
func counted(all []admin.NamedCount, most int) string {
	var out []string
	for _, n := range all[:min(most, len(all))] {
		out = append(out, fmt.Sprintf("%s:%d", n.Name, n.Count))
	}
	if len(all) > most {
		out = append(out, fmt.Sprintf("+%d", len(all)-most))
	}
	return command.Dash(strings.Join(out, " "))
}

func newWaveShow(u *adminFlags) *cobra.Command {
	return &cobra.Command{
		Use: "show WAVE", Short: "Explain one wave: how it grew, from where, and what its verdict rests on",
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: u.Ask(func(cmd *cobra.Command, c *admin.Client, args []string) error {
			d, err := waveOf(cmd.Context(), c, args[0])
			if err != nil {
				return err
			}
			return u.printWave(cmd.OutOrStdout(), d)
		}),
	}
}

func (u *adminFlags) printWave(w io.Writer, d *admin.WaveDetail) error {
	if u.JSON {
		return json.NewEncoder(w).Encode(d)
	}
	v := &d.Wave
	t := command.NewTable(w)
	for _, row := range []struct{ name, value string }{
		{"wave", fmt.Sprint(v.ID)}, {"messages", fmt.Sprint(v.Messages)},
		{"answer", fmt.Sprintf("%s, confidence %d", v.Class, v.Confidence)},
		{"votes", fmt.Sprintf("%d spam, %d ham, %d revoked", v.Spam, v.Ham, v.Revoked)}, {"subject", command.Dash(d.Subject)},
		{"first seen", v.First.Format(time.DateTime)}, {"latest", v.Last.Format(time.DateTime)},
		{"growth", fmt.Sprintf("%s, each %v", strings.Trim(fmt.Sprint(v.Growth), "[]"), time.Duration(v.Slot)*time.Second)},
		{"doors", counted(v.Doors, len(v.Doors))}, {"senders", counted(v.Senders, len(v.Senders))},
		{"links", counted(v.Domains, len(v.Domains))},
		{"voted", counted(v.Reporters, len(v.Reporters))}, {"message", fmt.Sprintf("bulkhead history %d", v.Entry)},
	} {
		fmt.Fprintf(t, "%s\t%s\n", row.name, row.value)
	}
	if err := t.Flush(); err != nil || d.Verdict == nil {
		return err
	}
	for _, reason := range d.Verdict.Reasons {
		fmt.Fprintf(w, "    %s\n", reason)
	}
	t = command.NewTable(w)
	fmt.Fprintln(t, "SIGNATURE\tJUDGED\tSEEN\tSPAM\tHAM\tERROR")
	for i := range d.Verdict.Findings {
		f := &d.Verdict.Findings[i]
		fmt.Fprintf(t, "%v\t%s\t%d\t%d\t%d\t%.1g\n", f.Signature, f.Judged, f.Sightings, f.Spam, f.Ham, f.Error)
	}
	return t.Flush()
}

// newWaveVote returns a command that votes on the message that represents a wave.
func newWaveVote(u *adminFlags, use, short string, vote *bulkhead.Vote) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Args: cli.Args(cobra.ExactArgs(1)),
		RunE: u.Ask(func(cmd *cobra.Command, c *admin.Client, args []string) error {
			d, err := waveOf(cmd.Context(), c, args[0])
			if err != nil {
				return err
			}
			receipt, err := c.ReportEntry(cmd.Context(), d.Wave.Entry, admin.RememberedVote{Vote: vote.String()})
			if err != nil {
				return err
			}
			return printReceipt(cmd.OutOrStdout(), &message{name: "wave " + args[0]}, receipt, u.JSON)
		}),
	}
}

func newWaveClear(u *adminFlags) *cobra.Command {
	var note string
	cmd := &cobra.Command{
		Use: "clear WAVE", Short: "White-list the text of a wave, letter for letter",
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: u.Ask(func(cmd *cobra.Command, c *admin.Client, args []string) error {
			d, err := waveOf(cmd.Context(), c, args[0])
			if err != nil {
				return err
			}
			return u.clear(cmd, c, admin.Clear{Entry: d.Wave.Entry, Note: note})
		}),
	}
	cmd.Flags().StringVar(&note, "note", "", "why, for those who read the list later")
	return cmd
}

// clear puts the text of an entry on the whitelist and prints what was added.
func (u *adminFlags) clear(cmd *cobra.Command, c *admin.Client, clear admin.Clear) error {
	added, err := c.Clear(cmd.Context(), clear)
	if err != nil {
		return err
	}
	if len(added) == 0 && !u.JSON {
		_, err := fmt.Fprintln(cmd.OutOrStdout(), "it was on the whitelist before")
		return err
	}
	return u.printWhitelist(cmd.OutOrStdout(), added)
}

func newWhitelistCommand() *cobra.Command {
	var u adminFlags
	var note string
	cmd := &cobra.Command{
		Use:   "whitelist",
		Short: "Show and change the texts that administrators put on the whitelist of a node",
		Long: "Show and change the texts that administrators put on the whitelist of a node while it\n" +
			"runs, beside [whitelist] of its configuration.\n" + command.AdminHelp,
		Args: cli.Args(cobra.NoArgs),
		RunE: command.NeedCommand,
	}
	u.Flags(cmd.PersistentFlags())
	add := &cobra.Command{
		Use: "add ENTRY", Short: "White-list the text of a message, by its ID in \"bulkhead history\"",
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: u.Ask(func(cmd *cobra.Command, c *admin.Client, args []string) error {
			id, err := command.ParseID(args[0])
			if err != nil {
				return err
			}
			return u.clear(cmd, c, admin.Clear{Entry: id, Note: note})
		}),
	}
	add.Flags().StringVar(&note, "note", "", "why, for those who read the list later")
	cmd.AddCommand(
		command.NewList(&u.Admin, "list", "Print the signatures of these texts", (*admin.Client).Whitelist,
			u.printWhitelist),
		add,
		&cobra.Command{
			Use: "remove SIGNATURE", Short: "Take a signature off the whitelist", Args: cli.Args(cobra.ExactArgs(1)),
			RunE: u.Ask(func(cmd *cobra.Command, c *admin.Client, args []string) error {
				sig, err := bulkhead.ParseSignature(args[0])
				if err != nil {
					return err
				}
				return c.Unclear(cmd.Context(), sig)
			}),
		},
	)
	return cmd
}

func (u *adminFlags) printWhitelist(w io.Writer, all []admin.Cleared) error {
	return command.PrintTable(w, u.JSON, all,
		"SIGNATURE\tBY\tSINCE\tWHY",
		func(t io.Writer, c *admin.Cleared) {
			fmt.Fprintf(t, "%v\t%s\t%s\t%s\n", c.Signature, c.By, c.Time.Format(time.DateTime), command.Dash(c.Note))
		})
}
