package command

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/config"
)

// completionTime is the longest time for which a shell waits for names of the node.
const completionTime = 2 * time.Second

// A Names returns names of a node that a shell may complete.
type Names func(context.Context, *admin.Client) ([]string, error)

// Complete has the shell complete the first argument of commands by names of the node, and the second
// by fixed words. Where the node gives no names, such as to a user who may not see them, nothing is
// completed.
func (u *Admin) Complete(names Names, words []string, cmds ...*cobra.Command) {
	for _, cmd := range cmds {
		cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
			var all []string
			switch len(args) {
			case 0:
				all = u.ask(cmd, names)
			case 1:
				all = words
			}
			return beginning(all, begun), cobra.ShellCompDirectiveNoFileComp
		}
	}
}

// CompleteFlag has the shell complete the value of a flag by names of the node.
func (u *Admin) CompleteFlag(cmd *cobra.Command, flag string, names Names) {
	// It fails only for a flag that is not defined or is completed twice.
	if err := cmd.RegisterFlagCompletionFunc(flag, func(cmd *cobra.Command, _ []string,
		begun string) ([]string, cobra.ShellCompDirective) {
		return beginning(u.ask(cmd, names), begun), cobra.ShellCompDirectiveNoFileComp
	}); err != nil {
		panic(err)
	}
}

// CompleteWords has the shell complete the value of a flag by fixed words.
func CompleteWords(cmd *cobra.Command, flag string, words ...string) {
	if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words,
		cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err)
	}
}

// ask returns names of the node, none after an error.
func (u *Admin) ask(cmd *cobra.Command, names Names) (all []string) {
	u.Timeout = cmp.Or(min(u.Timeout, completionTime), completionTime)
	ctx := cmd.Context()
	if ctx == nil {
		ctx = context.Background()
	}
	_ = u.AsAdmin(cmd, u.Data, func(c *admin.Client) (err error) { // a shell has no place for the error
		all, err = names(ctx, c)
		return err
	})
	return all
}

func beginning(all []string, begun string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(name string) bool { return !strings.HasPrefix(name, begun) })
}

// AccountNames returns the names of accounts.
func AccountNames(ctx context.Context, c *admin.Client) (all []string, err error) {
	users, err := c.Users(ctx)
	for i := range users {
		all = append(all, users[i].Name)
	}
	return all, err
}

// PeerNames returns the names of peers, and the keys of those without a name.
func PeerNames(ctx context.Context, c *admin.Client) (all []string, err error) {
	peers, err := c.Peers(ctx)
	for i := range peers {
		all = append(all, cmp.Or(peers[i].Name, peers[i].Key))
	}
	return all, err
}

// RateRuleNames returns the names of the node's rate limits.
func RateRuleNames(ctx context.Context, c *admin.Client) (all []string, err error) {
	rules, err := c.RateLimits(ctx)
	for i := range rules {
		all = append(all, rules[i].Name)
	}
	return all, err
}

// DomainNames returns the domains of senders and links in the latest messages of the history.
func DomainNames(ctx context.Context, c *admin.Client) (all []string, err error) {
	page, err := c.History(ctx, admin.HistoryQuery{Limit: 500})
	if err != nil {
		return nil, err
	}
	for i := range page.Entries {
		e := &page.Entries[i]
		all = append(all, e.Domains...)
		if e.From != "" {
			all = append(all, e.From)
		}
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// CompleteLists has the shell complete the first argument of commands by the files of the lists in the
// installed node's configuration. Where none begins so, the shell completes other files.
func CompleteLists(cmds ...*cobra.Command) {
	for _, cmd := range cmds {
		cmd.ValidArgsFunction = func(_ *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
			var all []string
			if cfg, _ := config.Inspect(InstalledConfig); cfg != nil && len(args) == 0 {
				for _, l := range cfg.Lists.Files {
					all = append(all, l.Path)
				}
			}
			return beginning(all, begun), cobra.ShellCompDirectiveDefault
		}
	}
}

// DoorNames returns the open doors of the node.
func DoorNames(ctx context.Context, c *admin.Client) (all []string, err error) {
	state, err := c.Node(ctx)
	if err != nil {
		return nil, err
	}
	for _, d := range state.Doors {
		all = append(all, d.Name)
	}
	return all, nil
}
