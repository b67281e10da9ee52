package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/cli"
	"github.com/bulkhead-mail/bulkhead/internal/mailbox"
	"github.com/bulkhead-mail/bulkhead/lab/reliability"
	"github.com/bulkhead-mail/bulkhead/lab/replay"
	"github.com/bulkhead-mail/bulkhead/signature"
)

// A replayCommand is what the flags of the command say.
type replayCommand struct {
	replay.Options
	label    string
	tail     string // how many recipients a message has
	skip     []string
	servers  []int
	picture  string // file to draw into, "" for none
	reliable string // file to draw the confidences into, likewise
	curves   string // file to draw what is caught by what is wrongly caught, likewise
	delays   string // file to draw the times until spam is caught, likewise
	// templates are folders of mail from templates and clones of it.
	templates []string
	json      bool
}

// What --recipients may say.
const (
	fixed       = "fixed"
	heavyTailed = "heavy-tailed"
)

func newReplayCommand() *cobra.Command {
	var r replayCommand
	cmd := &cobra.Command{
		Use:   "replay [--templates DIR] [--json] [--svg FILE] MAIL...",
		Short: "Replay labelled mail through simulated sites",
		Long: "Deliver labelled mail in the order of its arrival to sites that share one clearinghouse,\n" +
			"let some of the recipients report missed spam, and print how much spam was caught,\n" +
			"how much ham was wrongly called spam, and where the filters differ from exact maps. Beside them\n" +
			"Razor, Pyzor, DCC and rspamd's fuzzy storage judge the same deliveries, each with exact counts\n" +
			"of its own digests, with the rule that its usual client has, and with the reports of what it missed.\n\n" +
			"With --servers the sites belong to that many servers, each with its own clearinghouse. The\n" +
			"catch rates of servers alone and of servers that share are compared.\n\n" +
			"MAIL is a folder with an index.tsv (columns file, label, time), or an mbox, a Maildir or a\n" +
			"folder of *.eml files whose messages all have the --label. Nothing is stored, and no node is contacted.",
		Args: cli.Args(cobra.MinimumNArgs(1)),
		RunE: r.run,
	}
	f := cmd.Flags()
	f.StringVar(&r.label, "label", "", "label of messages without a label: ham or spam")
	f.IntVar(&r.Sites, "sites", 10, "sites that share the clearinghouse")
	f.IntVar(&r.Copies, "copies", 1, "sites that each message is delivered to")
	f.StringVar(&r.tail, "recipients", fixed, "sites that each message goes to: fixed (--copies) or heavy-tailed (most "+
		"to one, few to many, k as 1/k^2)")
	f.BoolVar(&r.Interleave, "interleave", false,
		"spread ham evenly over the time of the spam, for collections of different years")
	f.BoolVar(&r.Verified, "verified", false, "senders are verified: by Authentication-Results, and ham without them as "+
		"if its author's or list's domain had signed it")
	f.DurationVar(&r.Spread, "spread", 10*time.Minute, "mean time between two copies of a message")
	f.Float64Var(&r.Share, "share", 0.3, "share of recipients who act on a wrong verdict")
	f.DurationVar(&r.Delay, "delay", time.Hour, "mean time until they act")
	f.IntSliceVar(&r.servers, "servers", nil, "numbers of servers to compare, for example 1,2,5,10")
	f.Uint32Var(&r.ShareFrom, "share-counts-from", 1, "count from which servers share a signature")
	f.Uint32Var(&r.ShareVotesFrom, "share-votes-from", 1,
		"voters of a server from which on it shares what they list")
	f.Float64Var(&r.Mistakes, "mistakes", 0, "share of recipients of ham who report it as spam")
	f.Float64Var(&r.Weight, "weight", 1, "trust in each site; a total weight of 1 lists a signature")
	f.Uint32Var(&r.Threshold, "threshold", 0, "count at which a message is bulk (default: the engine's own)")
	f.IntVar(&r.NearMatch, "near-match", 0, fmt.Sprintf("bulkhead/near bands that must agree (default %d)",
		signature.NearMatch))
	f.StringSliceVar(&r.skip, "skip", nil, "schemes to leave out, for example razor/e4,dcc/fuz1")
	f.Uint64Var(&r.Capacity, "capacity", 0, "signatures that a generation is sized for (default: as many as the mail "+
		"needs)")
	f.Uint64Var(&r.Seed, "seed", 1, "seed of all choices")
	f.BoolVar(&r.json, "json", false, "print the result as JSON")
	f.StringSliceVar(&r.templates, "templates", nil,
		"folders of mail from templates and clones, which is spread over the time of the rest and also counted apart")
	f.StringVar(&r.curves, "roc", "", "file for a plot of the spam that each judge catches by the ham it calls spam, at "+
		"every limit of its score (.svg or .png)")
	f.StringVar(&r.delays, "delays", "", "file for a plot of the time until spam with several deliveries is caught "+
		"(.svg or .png)")
	f.StringVar(&r.reliable, "reliability", "", "file for a plot of how much was spam by the confidence of the node "+
		"(.svg or .png)")
	f.StringVar(&r.picture, "svg", "", "file for a plot of the catch rate over time, or over --servers (.svg or .png)")
	return cmd
}

func (r *replayCommand) run(cmd *cobra.Command, args []string) error {
	if err := r.check(); err != nil {
		return err
	}
	progress := newReplayProgress(cmd.ErrOrStderr())
	r.Progress = progress.show
	result, print, err := r.play(cmd.Context(), r.mail(cmd, args))
	progress.end()
	if err != nil {
		return err
	}
	if r.picture != "" {
		if err := writePicture(r.picture, result); err != nil {
			return err
		}
	}
	if sites, ok := result.(*replay.Result); ok {
		for _, p := range []struct {
			file string
			picture
		}{
			{r.reliable, reliability.Picture{{Name: "replay", Table: &sites.Filters.Reliability}}},
			{r.curves, sites.Curves()},
			{r.delays, sites.Delays()},
		} {
			if p.file == "" {
				continue
			}
			if err := writePicture(p.file, p.picture); err != nil {
				return err
			}
		}
	}
	if r.json {
		out := json.NewEncoder(cmd.OutOrStdout())
		out.SetIndent("", "  ")
		return out.Encode(result)
	}
	print(cmd.OutOrStdout())
	return nil
}

// play returns the result, to be drawn or encoded, and a function that prints it for people.
func (r *replayCommand) play(ctx context.Context, mail iter.Seq2[replay.Mail, error]) (result picture,
	print func(io.Writer), err error) {
	if len(r.servers) > 0 {
		servers, err := replay.RunServers(ctx, mail, r.Options, r.servers)
		return servers, func(w io.Writer) { printServers(w, servers, &r.Options) }, err
	}
	sites, err := replay.Run(ctx, mail, r.Options)
	return sites, func(w io.Writer) { printReplay(w, sites, &r.Options) }, err
}

// check checks the flags and completes the options from them.
func (r *replayCommand) check() error {
	if r.label != "" && r.label != mailbox.Ham && r.label != mailbox.Spam {
		return cli.Usagef("--label %q, want ham or spam", r.label)
	}
	if r.HeavyTail = r.tail == heavyTailed; !r.HeavyTail && r.tail != fixed {
		return cli.Usagef("--recipients %q, want %s or %s", r.tail, fixed, heavyTailed)
	}
	for _, name := range r.skip {
		scheme, err := bulkhead.ParseScheme(name)
		if err != nil {
			return cli.UsageError{Err: err}
		}
		r.Skip = append(r.Skip, scheme)
	}
	for _, f := range []struct{ flag, file string }{{"reliability", r.reliable}, {"roc", r.curves}, {"delays", r.delays}} {
		if f.file != "" && len(r.servers) > 0 {
			return cli.Usagef("--%s with --servers, want one of them", f.flag)
		}
	}
	if err := r.Complete(); err != nil {
		return cli.UsageError{Err: err}
	}
	for _, n := range r.servers {
		if n < 1 || n > r.Sites {
			return cli.Usagef("--servers %d with --sites %d, want at least 1 server, and a site for each", n, r.Sites)
		}
	}
	return nil
}

// The groups of mail made from templates.
const (
	templateGroup = "templates" // ham
	cloneGroup    = "clones"    // spam
)

// mail reads the mail of all arguments and of the folders of templates.
func (r *replayCommand) mail(cmd *cobra.Command, args []string) iter.Seq2[replay.Mail, error] {
	return func(yield func(replay.Mail, error) bool) {
		for m, err := range labelled(cmd, args, r.label) {
			if !yield(m, err) || err != nil {
				return
			}
		}
		for m, err := range labelled(cmd, r.templates, "") {
			if m.Group = templateGroup; m.Spam {
				m.Group = cloneGroup
			}
			if !yield(m, err) || err != nil {
				return
			}
		}
	}
}

// labelled reads the mail of all arguments. Mail that cannot be read is an error, since a
// replay of less than was asked for would mislead.
func labelled(cmd *cobra.Command, args []string, label string) iter.Seq2[replay.Mail, error] {
	return func(yield func(replay.Mail, error) bool) {
		for _, arg := range args {
			for m, err := range mailbox.Read(cmd.Context(), arg, mailbox.Options{Label: label, Stdin: cmd.InOrStdin()}) {
				switch {
				case err != nil:
					err = cli.InputError{Err: err}
				case m.Label == "":
					err = cli.Usagef("%s has no label; name one with --label ham or --label spam", m.Name())
				}
				if err != nil {
					yield(replay.Mail{}, err)
					return
				}
				if !yield(replay.Mail{Name: m.Name(), Time: m.Time, Spam: m.Label == mailbox.Spam, Raw: m.Raw}, nil) {
					return
				}
			}
		}
	}
}

// A picture is a result that can be drawn.
type picture interface {
	PlotSVG(io.Writer) error
	PlotPNG(io.Writer) error
}

// writePicture writes the result's picture in the form that the file's name
// asks for.
func writePicture(path string, result picture) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	draw := result.PlotSVG
	if strings.HasSuffix(path, ".png") {
		draw = result.PlotPNG
	}
	return errors.Join(draw(f), f.Close())
}

// A replayProgress shows how far a replay is, if it writes to a terminal.
type replayProgress struct {
	w     io.Writer
	stage string
	bar   *progressbar.ProgressBar
}

func newReplayProgress(w io.Writer) *replayProgress { return &replayProgress{w: w} }

func (p *replayProgress) show(stage string, done, total int) {
	if !cli.UseColor(p.w) {
		return
	}
	if stage != p.stage {
		p.end()
		p.stage = stage
		if total == 0 {
			total = -1
		}
		p.bar = progressbar.NewOptions(total, progressbar.OptionSetWriter(p.w), progressbar.OptionSetDescription(stage),
			progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionSetItsString("messages"),
			progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish(), progressbar.OptionSetWidth(30))
	}
	_ = p.bar.Set(done) // a picture of progress is never worth an error
}

func (p *replayProgress) end() {
	if p.bar != nil {
		_ = p.bar.Finish()
		_ = p.bar.Clear()
		p.bar = nil
	}
}
