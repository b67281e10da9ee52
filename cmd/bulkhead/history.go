package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/cli"
	"github.com/bulkhead-mail/bulkhead/internal/command"
)

// A span is the flags of commands that print a stretch of time.
type span struct{ since, until string }

func (s *span) flags(f *pflag.FlagSet, since string) {
	f.StringVar(&s.since, "since", since,
		"from this `TIME` on: 2006-01-02, 2006-01-02T15:04:05Z, or a time before now such as 36h or 30d")
	f.StringVar(&s.until, "until", "", "before this `TIME`")
}

// times returns the bounds; zero for none.
func (s *span) times(now time.Time) (since, until time.Time, err error) {
	if s.since != "" {
		since, err = command.ParseTime(s.since, now)
	}
	if s.until != "" && err == nil {
		until, err = command.ParseTime(s.until, now)
	}
	return since, until, err
}

// pages are the flags of commands that print a record, page by page.
type pages struct {
	span
	limit int
}

func (p *pages) flags(f *pflag.FlagSet) {
	p.span.flags(f, "")
	f.IntVarP(&p.limit, "limit", "n", 50, "most entries")
}

// times returns the bounds; zero for none.
func (p *pages) times(now time.Time) (since, until time.Time, err error) {
	if p.limit < 1 {
		return since, until, cli.Usagef("--limit %d is less than 1", p.limit)
	}
	return p.span.times(now)
}

// all returns at most p.limit entries, from as many pages as that takes. get returns a page of at
// most n entries older than the entry before, and the bound for the next page, which is 0 at the
// end.
func all[E any](p *pages, most int, get func(before int64, n int) ([]E, int64, error)) (entries []E, err error) {
	var before int64
	for {
		page, next, err := get(before, min(p.limit-len(entries), most))
		if err != nil {
			return nil, err
		}
		entries = append(entries, page...)
		if before = next; next == 0 || len(entries) >= p.limit {
			return entries, nil
		}
	}
}

func newHistoryCommand() *cobra.Command {
	var u adminFlags
	var p pages
	var q admin.HistoryQuery
	cmd := &cobra.Command{
		Use:   "history [ID]",
		Short: "Print what a node remembers of checks and votes, the latest first",
		Long: "Print what a node remembers of checks and votes of the last days, the latest first; with\n" +
			"ID one of them with all its signatures.\n" + command.AdminHelp,
		Args: cli.Args(cobra.MaximumNArgs(1)),
		RunE: u.Ask(func(cmd *cobra.Command, c *admin.Client, args []string) error {
			if len(args) == 1 {
				return u.showEntry(cmd, c, args[0])
			}
			var err error
			if q.Since, q.Until, err = p.times(time.Now()); err != nil {
				return err
			}
			entries, err := all(&p, 500, func(before int64, n int) ([]admin.HistoryEntry, int64, error) {
				q.Before, q.Limit = before, n
				page, err := c.History(cmd.Context(), q)
				if err != nil {
					return nil, 0, err
				}
				return page.Entries, page.Next, err
			})
			if err != nil {
				return err
			}
			return u.printHistory(cmd.OutOrStdout(), entries)
		}),
	}
	u.Flags(cmd.Flags())
	p.flags(cmd.Flags())
	f := cmd.Flags()
	f.StringVar(&q.Door, "door", "", "through this door, by its key in the configuration")
	f.StringVar(&q.Kind, "kind", "", "check, or the vote of a report: sighting, spam, ham, revoke")
	f.StringVar(&q.Class, "class", "", "answer to a check: unknown, good, bulk, suspected, spam")
	f.StringVar(&q.Reporter, "reporter", "", "account, user, or first address of a network")
	f.StringVar(&q.Domain, "domain", "", "domain of the sender or of a link, those below it included")
	f.StringVar(&q.MessageID, "message-id", "", "Message-ID")
	f.StringVar(&q.Signature, "signature", "", "SCHEME:HEX")
	u.CompleteFlag(cmd, "door", command.DoorNames)
	u.CompleteFlag(cmd, "reporter", command.AccountNames)
	u.CompleteFlag(cmd, "domain", command.DomainNames)
	command.CompleteWords(cmd, "kind", "check", "sighting", "spam", "ham", "revoke")
	command.CompleteWords(cmd, "class", "unknown", "good", "bulk", "suspected", "spam")
	return cmd
}

func (u *adminFlags) showEntry(cmd *cobra.Command, c *admin.Client, text string) error {
	id, err := command.ParseID(text)
	if err != nil {
		return err
	}
	e, err := c.HistoryEntry(cmd.Context(), id)
	if err != nil {
		return err
	}
	w := cmd.OutOrStdout()
	if err := u.printHistory(w, []admin.HistoryEntry{*e}); err != nil || u.JSON {
		return err
	}
	for _, reason := range e.Reasons {
		fmt.Fprintf(w, "    %s\n", reason)
	}
	for _, sig := range e.Signatures {
		fmt.Fprintln(w, sig)
	}
	return nil
}

func (u *adminFlags) printHistory(w io.Writer, entries []admin.HistoryEntry) error {
	return command.PrintTable(w, u.JSON, entries,
		"ID\tTIME\tDOOR\tWHAT\tANSWER\tBY\tFROM\tLINKS\tSUBJECT",
		func(t io.Writer, e *admin.HistoryEntry) {
			fmt.Fprintf(t, "%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", e.ID, e.Time.Format(time.DateTime), e.Door, e.Kind,
				e.Answer(), command.Dash(e.Reporter()), command.Dash(e.From), command.Dash(strings.Join(e.Domains, " ")), e.Subject)
		})
}

func newAuditCommand() *cobra.Command {
	var u adminFlags
	var p pages
	var q admin.AuditQuery
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Print what administrators of a node did, and who logged in, the latest first",
		Long: "Print what administrators of a node did, and who logged in or failed to, the latest\n" +
			"first.\n" + command.AdminHelp,
		Args: cli.Args(cobra.NoArgs),
		RunE: u.Ask(func(cmd *cobra.Command, c *admin.Client, _ []string) error {
			var err error
			if q.Since, q.Until, err = p.times(time.Now()); err != nil {
				return err
			}
			entries, err := all(&p, 1000, func(before int64, n int) ([]admin.AuditEntry, int64, error) {
				q.Before, q.Limit = before, n
				page, err := c.Audit(cmd.Context(), q)
				if err != nil {
					return nil, 0, err
				}
				return page.Entries, page.Next, err
			})
			if err != nil {
				return err
			}
			return u.printAudit(cmd.OutOrStdout(), entries)
		}),
	}
	u.Flags(cmd.Flags())
	p.flags(cmd.Flags())
	cmd.Flags().StringVar(&q.Account, "account", "", "by this account")
	cmd.Flags().StringVar(&q.Action, "action", "", "of this kind, for example evictPeer")
	return cmd
}

func (u *adminFlags) printAudit(w io.Writer, entries []admin.AuditEntry) error {
	return command.PrintTable(w, u.JSON, entries,
		"TIME\tBY\tFROM\tDOOR\tACTION\tABOUT\tRESULT",
		func(t io.Writer, e *admin.AuditEntry) {
			var about []string
			for _, k := range slices.Sorted(maps.Keys(e.About)) {
				about = append(about, k+"="+e.About[k])
			}
			result := e.Error
			if result == "" {
				result = "done"
			}
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", e.Time.Format(time.DateTime), command.Dash(e.Account),
				command.Dash(e.From), e.Door,
				e.Action, command.Dash(strings.Join(about, " ")), result)
		})
}
