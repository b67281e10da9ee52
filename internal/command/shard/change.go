package shard

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/bulkhead-mail/bulkhead/internal/cli"
	"github.com/bulkhead-mail/bulkhead/internal/command"
	"github.com/bulkhead-mail/bulkhead/internal/consequence"
	"github.com/bulkhead-mail/bulkhead/internal/shard"
	"github.com/bulkhead-mail/bulkhead/internal/shard/bucket"
	"github.com/bulkhead-mail/bulkhead/internal/units"
)

func newAddCommand() *cobra.Command {
	var p place
	cmd := &cobra.Command{
		Use: "add NAME URL [STANDBY-URL]...", Short: "Add a shard, which has no slots yet",
		Long: "Add a shard: a node, at the URL of its HTTP door, with its standbys. The first shard of a site has\n" +
			"all slots, and further ones have none until \"bulkhead shard move\". The first one makes the map.",
		Args: cli.Args(cobra.MinimumNArgs(2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			s := shard.Shard{Name: args[0], URLs: args[1:]}
			return p.change(cmd, change{what: "add " + s.Name,
				make:  func(m *shard.Map, note shard.Note) (*shard.Map, error) { return m.Add(s, note) },
				first: func(note shard.Note) (*shard.Map, error) { return shard.New(s, note) }})
		},
	}
	p.flags(cmd.Flags())
	return cmd
}

func newSetCommand() *cobra.Command {
	var p place
	cmd := &cobra.Command{
		Use: "set NAME URL [STANDBY-URL]...", Short: "Give a shard other addresses",
		Long: "Give a shard other addresses: of its node, and of its standbys. Edges send to the address that\n" +
			"answered last. The nodes at the new addresses must have the counts of the shard.",
		Args: cli.Args(cobra.MinimumNArgs(2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.change(cmd, change{what: "set " + args[0],
				make: func(m *shard.Map, note shard.Note) (*shard.Map, error) { return m.Set(args[0], args[1:], note) }})
		},
	}
	p.flags(cmd.Flags())
	return cmd
}

func newDefaultCommand() *cobra.Command {
	var p place
	cmd := &cobra.Command{
		Use: "default NAME", Short: "Give a shard the requests that name no mailbox",
		Long: "Give a shard the requests that name neither a recipient nor a user, as those of clients of Pyzor,\n" +
			"Razor and DCC. An edge may have another default, in [shards] of its configuration.",
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.change(cmd, change{what: "default " + args[0],
				make: func(m *shard.Map, note shard.Note) (*shard.Map, error) { return m.SetDefault(args[0], note) }})
		},
	}
	p.flags(cmd.Flags())
	return cmd
}

func newMoveCommand() *cobra.Command {
	var p place
	var confirm command.Confirmation
	var from string
	var slots int
	cmd := &cobra.Command{
		Use: "move TO", Short: "Move slots, and with them mailboxes, to a shard",
		Long: "Move slots, and with them mailboxes, to a shard: as many as make its part even, from the shards that\n" +
			"have most. --slots moves another number, and --from takes them from one shard. Edges follow within\n" +
			"seconds. Counts stay where they were made, and the new shard has them as far as the shards share.",
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			to := args[0]
			if from != "" && slots == 0 {
				return cli.Usagef("--from needs --slots")
			}
			if cmd.Flags().Changed("slots") && slots < 1 {
				return cli.Usagef("--slots %d, want 1 or more", slots)
			}
			what := "move to " + to
			if slots > 0 {
				what = fmt.Sprintf("move %s to %s", units.Plural(slots, "slot"), to)
			}
			if from != "" {
				what += " from " + from
			}
			return p.change(cmd, change{what: what, confirm: &confirm,
				make: func(m *shard.Map, note shard.Note) (*shard.Map, error) {
					if slots == 0 {
						return m.Level(to, note)
					}
					return m.Move(to, from, slots, note)
				},
				ask: func(before, after *shard.Map) consequence.Question {
					return p.moving(cmd.Context(), "Move?", before, after)
				}})
		},
	}
	p.flags(cmd.Flags())
	confirm.Flag(cmd.Flags())
	cmd.Flags().StringVar(&from, "from", "", "`NAME` of the shard that gives the slots (default: those that have most)")
	cmd.Flags().IntVar(&slots, "slots", 0, "`NUMBER` of slots (default: what the shard lacks of its even part)")
	return cmd
}

func newDrainCommand() *cobra.Command {
	var p place
	var confirm command.Confirmation
	cmd := &cobra.Command{
		Use: "drain NAME", Short: "Move all slots of a shard to the others",
		Long: "Move all slots of a shard to the others that have some, evenly. The shard stays in the map, and\n" +
			"gets the reports that it may have already. Remove it when no edge has reports for it any more.",
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.change(cmd, change{what: "drain " + args[0], confirm: &confirm,
				make: func(m *shard.Map, note shard.Note) (*shard.Map, error) { return m.Drain(args[0], note) },
				ask: func(before, after *shard.Map) consequence.Question {
					return p.moving(cmd.Context(), "Drain "+args[0]+"?", before, after)
				}})
		},
	}
	p.flags(cmd.Flags())
	confirm.Flag(cmd.Flags())
	return cmd
}

func newRemoveCommand() *cobra.Command {
	var p place
	var confirm command.Confirmation
	cmd := &cobra.Command{
		Use: "remove NAME", Short: "Remove a shard that has no slots",
		Long: "Remove a shard that has no slots. Reports that wait at edges for it go to the shards of their\n" +
			"mailboxes, and count twice if it had them already.",
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.change(cmd, change{what: "remove " + args[0], confirm: &confirm,
				make: func(m *shard.Map, note shard.Note) (*shard.Map, error) { return m.Remove(args[0], note) },
				ask: func(_, _ *shard.Map) consequence.Question {
					return consequence.Question{Title: "Remove " + args[0] + "?", Facts: []string{
						"Reports that wait at edges for " + args[0] + " go to other shards; bulkhead_shard_spool_reports shows how many.",
						"Its counts stay with it, and with the nodes that share with it."}}
				}})
		},
	}
	p.flags(cmd.Flags())
	confirm.Flag(cmd.Flags())
	return cmd
}

func newRestoreCommand() *cobra.Command {
	var p place
	var confirm command.Confirmation
	cmd := &cobra.Command{
		Use: "restore VERSION", Short: "Make an earlier map of the history the present one",
		Long: "Make an earlier map of \"bulkhead shard history\" the present one, as a new version. This also mends a\n" +
			"map that is not valid.",
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			version, err := strconv.ParseUint(args[0], 10, 64)
			if err != nil {
				return cli.Usagef("%.40q is no version", args[0])
			}
			var earlier *shard.Map
			err = p.with(cmd, func(ctx context.Context, b *bucket.Bucket) error {
				all, err := b.History(ctx)
				if err != nil {
					return err
				}
				i := slices.IndexFunc(all, func(m *shard.Map) bool { return m.Version == version })
				if i < 0 {
					return cli.Usagef("version %d is not in the history", version)
				}
				earlier = all[i]
				return nil
			})
			if err != nil {
				return err
			}
			return p.change(cmd, change{what: fmt.Sprintf("restore version %d", version), confirm: &confirm, mends: true,
				make:  func(m *shard.Map, note shard.Note) (*shard.Map, error) { return m.Restore(earlier, note), nil },
				first: func(note shard.Note) (*shard.Map, error) { return earlier.Restore(earlier, note), nil },
				ask: func(before, after *shard.Map) consequence.Question {
					if before == nil {
						before = earlier // the present map is not valid
					}
					return p.moving(cmd.Context(), fmt.Sprintf("Restore version %d?", version), before, after)
				}})
		},
	}
	p.flags(cmd.Flags())
	confirm.Flag(cmd.Flags())
	return cmd
}

// moving returns the question before slots move.
func (p *place) moving(ctx context.Context, title string, before, after *shard.Map) consequence.Question {
	q := consequence.Question{Title: title}
	moved, sum := shard.Moved(before, after), 0
	var pairs [][2]string
	for pair, n := range moved {
		pairs, sum = append(pairs, pair), sum+n
	}
	slices.SortFunc(pairs, func(a, b [2]string) int { return slices.Compare(a[:], b[:]) })
	q.Facts = append(q.Facts, fmt.Sprintf("%d of %d slots move, with %s of the mailboxes.", sum, shard.Slots, share(sum)))
	for _, pair := range pairs {
		q.Facts = append(q.Facts, fmt.Sprintf("%s to %s: %d; %s keeps %d, %s has %d.", pair[0], pair[1], moved[pair],
			pair[0], len(after.SlotsOf(pair[0])), pair[1], len(after.SlotsOf(pair[1]))))
	}
	to := make(map[string]bool)
	for _, pair := range pairs {
		to[pair[1]] = true
	}
	for _, s := range p.states(ctx, after) {
		if to[s.Name] && s.State != answers {
			q.Facts = append(q.Facts, fmt.Sprintf("Shard %s: %s, asked from this machine.", s.Name, s.State))
		}
	}
	if sum > 0 {
		q.Facts = append(q.Facts, "Counts stay where they were made. A message that comes again to a mailbox that moves "+
			"may count once more today.")
	}
	return q
}

// share returns the part of all slots in words.
func share(slots int) string { return fmt.Sprintf("%.1f %%", 100*float64(slots)/shard.Slots) }
