package main

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/units"
	"github.com/bulkhead-mail/bulkhead/lab/replay"
)

// printReplay prints the result of a replay for people.
func printReplay(w io.Writer, r *replay.Result, opts *replay.Options) {
	unsigned := ""
	if r.Unsigned > 0 {
		unsigned = fmt.Sprintf(", %d of them without any signature", r.Unsigned)
	}
	fmt.Fprintf(w, "%s%s.\n%s\n", deliveries(r.Messages, r.First, r.Last, r.Spam, r.Ham), unsigned, setting(opts))

	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "\tfilters\texact maps\t")
	row := func(name string, f, e any) { fmt.Fprintf(t, "%s\t%v\t%v\t\n", name, f, e) }
	a, b := &r.Filters, &r.Exact
	row("spam caught", share(a.Caught, r.Spam), share(b.Caught, r.Spam))
	row("further spam suspected", share(a.SpamSuspected, r.Spam), share(b.SpamSuspected, r.Spam))
	row("further spam called bulk", share(a.SpamBulk, r.Spam), share(b.SpamBulk, r.Spam))
	row("ham called spam", share(a.HamFlagged, r.Ham), share(b.HamFlagged, r.Ham))
	row("further ham suspected", share(a.HamSuspected, r.Ham), share(b.HamSuspected, r.Ham))
	row("further ham called bulk", share(a.HamBulk, r.Ham), share(b.HamBulk, r.Ham))
	row("reports, withdrawals", fmt.Sprintf("%d, %d", a.Reports, a.Revokes), fmt.Sprintf("%d, %d", b.Reports, b.Revokes))
	row("state", units.ByteSize(a.StateBytes), units.ByteSize(b.StateBytes))
	row("messages/s", a.PerSecond, b.PerSecond)
	t.Flush()

	fmt.Fprintln(w)
	t = tabwriter.NewWriter(w, 0, 0, 3, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "listed signatures of\tspam caught\tby no other\tham called spam\t")
	for _, s := range a.Schemes {
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t\n", s.Scheme, share(s.Caught, r.Spam), s.Only, s.HamFlagged)
	}
	t.Flush()

	printGroups(w, r.Groups)
	printJudges(w, r)
	fmt.Fprintln(w)
	_ = a.Reliability.Print(w) // as of what else is printed here

	d := &r.Differences
	fmt.Fprintf(w, "\nFilters against exact maps: %s of %d differ (spam or not: %d, bulk or not: %d).\n",
		units.Plural(d.Spam+d.Bulk, "verdict"), d.Verdicts, d.Spam, d.Bulk)
	fmt.Fprintf(w, "Of %d look-ups, %d counts differ (rate %.1e, stated %.0e for each generation) and %d judgements "+
		"(rate %.1e, stated %.0e).\n",
		d.Findings, d.Counts, d.CountRate, d.Stated, d.Judged, d.JudgeRate, d.StatedJ)
	for i, name := range a.Flagged {
		if i == 0 {
			fmt.Fprintln(w, "\nHam that was called spam:")
		}
		if i == 20 {
			fmt.Fprintf(w, "  ... and %d more\n", a.HamFlagged-i)
			break
		}
		fmt.Fprintf(w, "  %s\n", name)
	}
	fmt.Fprintf(w, "\n%d different signatures of %s read in %.1f s. Every generation of the filters has room for %d,\n"+
		"twice the busiest one's need; the maps take what they hold.\n", r.Signatures, units.ByteSize(uint64(r.Bytes)),
		r.ReadSeconds, r.Capacity)
}

// printGroups prints what the filters said of the mail of each group.
func printGroups(w io.Writer, groups []replay.Group) {
	if len(groups) == 0 {
		return
	}
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "of these\tspam\tcaught\tsuspected\tham\tcalled spam\tsuspected\t")
	for _, g := range groups {
		fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%d\t%s\t%s\t\n", g.Name, g.Spam, share(g.Caught, g.Spam),
			share(g.SpamSuspected, g.Spam),
			g.Ham, share(g.HamFlagged, g.Ham), share(g.HamSuspected, g.Ham))
	}
	t.Flush()
}

// printJudges prints how this project and its peers did, and by which rules.
func printJudges(w io.Writer, r *replay.Result) {
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "judge\tspam caught\tham called spam\treports, withdrawals\tof several deliveries caught\tat "+
		"once\tmissed before\t")
	for i := range r.Judges {
		j := &r.Judges[i]
		missed := "-"
		if j.Detection.Missed >= 0 {
			missed = fmt.Sprint(j.Detection.Missed)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%d, %d\t%s\t%s\t%s\t\n", j.Name, share(j.Caught, r.Spam), share(j.HamFlagged, r.Ham),
			j.Reports, j.Revokes,
			share(j.Detection.Caught, j.Detection.Messages), share(j.Detection.AtOnce, j.Detection.Messages), missed)
	}
	t.Flush()
	for i := range r.Judges[1:] {
		fmt.Fprintf(w, "%s: spam if %s.\n", r.Judges[i+1].Name, r.Judges[i+1].Rule)
	}
	fmt.Fprintln(w, "missed before: the median number of deliveries until one was caught; -: half were never caught.")
}

// printServers prints what servers caught alone and together.
func printServers(w io.Writer, r *replay.ServersResult, opts *replay.Options) {
	fmt.Fprintf(w, "%s.\n%s\n", deliveries(r.Messages, r.First, r.Last, r.Spam, r.Ham), setting(opts))
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "servers\tspam caught alone\tsharing\tsuspected alone\tsharing\tham called spam "+
		"alone\tsharing\treports alone\tsharing\tsent\t")
	for _, row := range r.Rows {
		a, b := &row.Alone, &row.Shared
		fmt.Fprintf(t, "%d\t%s\t%s\t%s\t%s\t%s\t%s\t%d\t%d\t%s\t\n", row.Servers, share(a.Caught, r.Spam),
			share(b.Caught, r.Spam), share(a.Suspected, r.Spam), share(b.Suspected, r.Spam),
			share(a.HamFlagged, r.Ham), share(b.HamFlagged, r.Ham), a.Reports, b.Reports, units.ByteSize(b.SentBytes))
	}
	t.Flush()
}

// deliveries describes the replayed deliveries.
func deliveries(messages int, first, last time.Time, spam, ham int) string {
	return fmt.Sprintf("%s, %s to %s: %d deliveries of spam and %d of ham", units.Plural(messages, "message"),
		first.Format(time.DateOnly), last.Format(time.DateOnly), spam, ham)
}

// setting says among whom it was replayed, in a line.
func setting(o *replay.Options) string {
	copies := fmt.Sprintf("%d of %d get each message", o.Copies, o.Sites)
	if o.HeavyTail {
		copies = "most messages go to one and few to many"
	}
	return fmt.Sprintf("%d sites, %s; %.0f %% of recipients act on a wrong verdict after %v.\n", o.Sites, copies,
		100*o.Share, o.Delay)
}

func share(n, of int) string {
	if of == 0 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%d (%.1f %%)", n, 100*float64(n)/float64(of))
}
