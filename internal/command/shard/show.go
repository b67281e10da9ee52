package shard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client"
	"github.com/bulkhead-mail/bulkhead/internal/cli"
	"github.com/bulkhead-mail/bulkhead/internal/command"
	"github.com/bulkhead-mail/bulkhead/internal/shard"
	"github.com/bulkhead-mail/bulkhead/internal/shard/bucket"
)

// shown is a map as --json prints it.
type shown struct {
	Version uint64     `json:"version"`
	Changed time.Time  `json:"changed"`
	By      string     `json:"by"`
	Change  string     `json:"change"`
	Shards  []oneShard `json:"shards"`
}

// oneShard is a shard as --json prints it.
type oneShard struct {
	Name    string   `json:"name"`
	Slots   int      `json:"slots"`
	Share   float64  `json:"share"` // of all slots, 0 to 1
	Default bool     `json:"default"`
	URLs    []string `json:"urls"`
	Answers []bool   `json:"answers"` // by URL, as this machine sees it
	State   string   `json:"state"`
}

// answers is the state of a shard all of whose nodes answer.
const answers = "answers"

// mailbox is an address as --json prints it.
type mailbox struct {
	Mailbox string `json:"mailbox"`
	Slot    int    `json:"slot"`
	Shard   string `json:"shard"`
}

func newShowCommand() *cobra.Command {
	var p place
	cmd := &cobra.Command{
		Use: "show [ADDRESS]...", Short: "Print the map, or the shards of mailboxes",
		Long: "Print the map of the shards, and which of their nodes answer this machine. With mail addresses, print\n" +
			"the slot and the shard of each.",
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.with(cmd, func(ctx context.Context, b *bucket.Bucket) error {
				m, _, err := p.get(ctx, b)
				if errors.Is(err, bucket.ErrNone) {
					return cli.Usagef("there is no map yet; begin with \"bulkhead shard add NAME URL\"")
				}
				if err != nil {
					return err
				}
				if len(args) == 0 {
					return p.print(cmd, m)
				}
				var all []mailbox
				for _, a := range args {
					box := bulkhead.Mailbox(a)
					all = append(all, mailbox{box, m.Slot(box), m.Of(box)})
				}
				return command.PrintTable(cmd.OutOrStdout(), p.json, all, "MAILBOX\tSLOT\tSHARD", func(w io.Writer, x *mailbox) {
					fmt.Fprintf(w, "%s\t%d\t%s\n", cli.Visible(x.Mailbox), x.Slot, x.Shard)
				})
			})
		},
	}
	p.flags(cmd.Flags())
	return cmd
}

// print prints a map.
func (p *place) print(cmd *cobra.Command, m *shard.Map) error {
	w := cmd.OutOrStdout()
	shards := p.states(cmd.Context(), m)
	if p.json {
		return command.PrintJSON(w, []shown{{m.Version, m.Note.At, m.Note.By, m.Note.What, shards}})
	}
	t := command.NewTable(w)
	fmt.Fprintln(t, "SHARD\tSLOTS\tSHARE\tSTATE\tADDRESSES")
	for _, s := range shards {
		name := s.Name
		if s.Default {
			name += " (default)"
		}
		fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%s\n", name, s.Slots, share(s.Slots), s.State, cli.Visible(strings.Join(s.URLs, " ")))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "version %d of %s, by %s: %s\n", m.Version, m.Note.At.Format(time.DateTime),
		cli.Visible(m.Note.By), cli.Visible(m.Note.What))
	return err
}

// maxAsk is the longest time that a node has to answer this machine.
const maxAsk = 3 * time.Second

// states asks the nodes of all shards whether they take requests.
func (p *place) states(ctx context.Context, m *shard.Map) []oneShard {
	ctx, cancel := context.WithTimeout(ctx, min(p.timeout, maxAsk))
	defer cancel()
	all := make([]oneShard, len(m.Shards))
	var asking sync.WaitGroup
	for i, s := range m.Shards {
		n := len(m.SlotsOf(s.Name))
		all[i] = oneShard{Name: s.Name, Slots: n, Share: float64(n) / shard.Slots, Default: s.Name == m.Default,
			URLs: s.URLs, Answers: make([]bool, len(s.URLs))}
		for j, address := range s.URLs {
			asking.Go(func() {
				c := client.Client{Server: address, HTTP: http.DefaultClient}
				all[i].Answers[j] = c.Ready(ctx) == nil
			})
		}
	}
	asking.Wait()
	for i := range all {
		all[i].State = state(all[i].Answers)
	}
	return all
}

// state describes which nodes of a shard answer.
func state(nodes []bool) string {
	n := 0
	for _, ok := range nodes {
		if ok {
			n++
		}
	}
	switch {
	case n == len(nodes):
		return answers
	case n == 0:
		return "no answer"
	case !nodes[0]:
		return "standby answers"
	}
	return "no standby answers"
}

// version is a change as --json prints it.
type version struct {
	Version uint64    `json:"version"`
	Changed time.Time `json:"changed"`
	By      string    `json:"by"`
	Change  string    `json:"change"`
	Moved   int       `json:"moved"` // slots that have another shard than in the version before
}

func newHistoryCommand() *cobra.Command {
	var p place
	cmd := &cobra.Command{
		Use: "history", Short: "Print the latest changes of the map",
		Long: "Print the latest changes of the map, at most 64: when, by whom, and how many slots moved.",
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.with(cmd, func(ctx context.Context, b *bucket.Bucket) error {
				var maps []*shard.Map
				if err := p.request(ctx, func(ctx context.Context) (err error) {
					maps, err = b.History(ctx)
					return err
				}); err != nil {
					return err
				}
				var all []version
				for i, m := range maps {
					v := version{m.Version, m.Note.At, m.Note.By, m.Note.What, 0}
					if i > 0 {
						for _, n := range shard.Moved(maps[i-1], m) {
							v.Moved += n
						}
					}
					all = append(all, v)
				}
				return command.PrintTable(cmd.OutOrStdout(), p.json, all, "VERSION\tCHANGED\tMOVED\tBY\tCHANGE",
					func(w io.Writer, x *version) {
						fmt.Fprintf(w, "%d\t%s\t%d\t%s\t%s\n", x.Version, x.Changed.Format(time.DateTime), x.Moved,
							cli.Visible(x.By), cli.Visible(x.Change))
					})
			})
		},
	}
	p.flags(cmd.Flags())
	return cmd
}
