package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/cli"
	"github.com/bulkhead-mail/bulkhead/internal/command"
)

func newRatelimitCommand() *cobra.Command {
	var u adminFlags
	var rule string
	var limit int
	cmd := &cobra.Command{
		Use:   "ratelimit",
		Short: "Show or reset the rate limits of a node",
		Long: "Show or reset the rate limits of a node. Write a key as the template of its rule\n" +
			"produces it, for example as an account or an address.\n" +
			command.AdminHelp,
		Args: cli.Args(cobra.NoArgs),
		RunE: command.NeedCommand,
	}
	u.Flags(cmd.PersistentFlags())
	cmd.PersistentFlags().StringVar(&rule, "rule", "", "only this `RULE` (default: all)")
	u.CompleteFlag(cmd, "rule", command.RateRuleNames)
	top := &cobra.Command{
		Use: "top", Short: "Print the keys of each rule with the highest rates", Args: cli.Args(cobra.NoArgs),
		RunE: u.Ask(func(cmd *cobra.Command, c *admin.Client, _ []string) error {
			all, err := c.TopRateKeys(cmd.Context(), limit)
			if err != nil {
				return err
			}
			if rule != "" {
				all = slices.DeleteFunc(all, func(t admin.TopKeys) bool { return t.Rule != rule })
			}
			return u.printTopKeys(cmd.OutOrStdout(), all)
		}),
	}
	top.Flags().IntVarP(&limit, "limit", "n", 20, "most keys of a rule, up to 128")
	cmd.AddCommand(
		top,
		&cobra.Command{
			Use: "show [KEY]", Short: "Print every rule, or what is counted of a key",
			Args: cli.Args(cobra.MaximumNArgs(1)),
			RunE: u.Ask(func(cmd *cobra.Command, c *admin.Client, args []string) error {
				if len(args) == 0 {
					return showRules(cmd, c, u.JSON)
				}
				return showKey(cmd, c, rule, args[0], u.JSON)
			}),
		},
		&cobra.Command{
			Use: "reset KEY", Short: "Forget a key: it may send again at once",
			Args: cli.Args(cobra.ExactArgs(1)),
			RunE: u.Ask(func(cmd *cobra.Command, c *admin.Client, args []string) error {
				r, err := c.ResetRateKey(cmd.Context(), rule, args[0])
				if err != nil {
					return err
				}
				if u.JSON {
					return json.NewEncoder(cmd.OutOrStdout()).Encode(r)
				}
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: forgotten in %d rules\n", cli.Visible(args[0]), r.Reset)
				return err
			}),
		},
	)
	return cmd
}

func (u *adminFlags) printTopKeys(w io.Writer, all []admin.TopKeys) error {
	return command.PrintTable(w, u.JSON, all, "RULE\tKEY\tRATE\tLIMIT\tDIFFERENT ITEMS",
		func(t io.Writer, rule *admin.TopKeys) {
			for _, k := range rule.Keys {
				fmt.Fprintf(t, "%s\t%s\t%.1f\t%g\t%.0f\n", rule.Rule, k.Key, k.Rate, k.Limit, k.Items)
			}
		})
}

func showRules(cmd *cobra.Command, c *admin.Client, asJSON bool) error {
	rules, err := c.RateLimits(cmd.Context())
	if err != nil {
		return err
	}
	if asJSON {
		return json.NewEncoder(cmd.OutOrStdout()).Encode(rules)
	}
	w := command.NewTable(cmd.OutOrStdout())
	fmt.Fprintln(w, "RULE\tKEY\tUNIQUE\tLIMIT\tPERIOD\tACTION\tKEYS\tBYTES\tEVICTED")
	for _, r := range rules {
		fmt.Fprintf(w, "%s\t%s\t%s\t%g\t%s\t%s\t%d\t%d\t%d\n", r.Name, r.Key, r.Unique, r.Limit, r.Period, r.Action, r.Keys,
			r.Bytes, r.Evicted)
	}
	return w.Flush()
}

func showKey(cmd *cobra.Command, c *admin.Client, rule, key string, asJSON bool) error {
	keys, err := c.RateKeys(cmd.Context(), rule, key)
	if err != nil {
		return err
	}
	if asJSON {
		return json.NewEncoder(cmd.OutOrStdout()).Encode(keys)
	}
	if len(keys) == 0 {
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s: nothing is counted\n", cli.Visible(key))
		return err
	}
	w := command.NewTable(cmd.OutOrStdout())
	fmt.Fprintln(w, "RULE\tRATE\tLIMIT\tPERIOD\tDIFFERENT ITEMS")
	for _, k := range keys {
		fmt.Fprintf(w, "%s\t%.1f\t%g\t%s\t%.0f\n", k.Rule, k.Rate, k.Limit, k.Period, k.Items)
	}
	return w.Flush()
}
