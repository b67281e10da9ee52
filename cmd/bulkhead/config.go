package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/cli"
	"github.com/bulkhead-mail/bulkhead/internal/command"
	"github.com/bulkhead-mail/bulkhead/internal/config"
	"github.com/bulkhead-mail/bulkhead/internal/node"
)

func newConfigCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Check a configuration file, show or reload a node's, or print every key",
		Args:  cli.Args(cobra.NoArgs),
		RunE:  command.NeedCommand,
	}
	cmd.AddCommand(newConfigCheck(), newConfigShow(), newConfigReload(),
		&cobra.Command{
			Use:   "reference",
			Short: "Print every key with its meaning and default, as a configuration file",
			Args:  cli.Args(cobra.NoArgs),
			RunE: func(cmd *cobra.Command, _ []string) error {
				return config.WriteReference(cmd.OutOrStdout())
			},
		},
	)
	return cmd
}

func newConfigCheck() *cobra.Command {
	var u adminFlags
	var running bool
	cmd := &cobra.Command{
		Use:   "check FILE",
		Short: "Check a configuration file, or compare it with a running node",
		Long: "Check a configuration file, including the rules of rate limits, the policies of the\n" +
			"milter, and zones. The files of lists and the certificate are also read. With --running,\n" +
			"also ask a node which keys differ from its own, and which of these need a restart. That\n" +
			"takes an administrator, see \"bulkhead user --help\".",
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := config.Inspect(args[0])
			if cfg != nil {
				if wrong := node.CheckConfig(cfg); wrong != nil {
					err = errors.Join(err, fmt.Errorf("%s: %w", args[0], wrong))
				}
			}
			var unread *config.Error
			if err != nil && u.JSON && errors.As(err, &unread) {
				if wrong := printChecked(cmd.OutOrStdout(), &admin.ConfigCheck{Mistakes: config.Mistakes(err)}); wrong != nil {
					return wrong
				}
			}
			if err != nil {
				return err
			}
			if running {
				return u.Ask(func(cmd *cobra.Command, c *admin.Client, args []string) error {
					text, err := os.ReadFile(args[0])
					if err != nil {
						return err
					}
					got, err := c.CheckConfig(cmd.Context(), string(text))
					if err != nil {
						return err
					}
					return u.checked(cmd.OutOrStdout(), got, args[0]+": no mistakes")
				})(cmd, args)
			}
			if u.JSON {
				return printChecked(cmd.OutOrStdout(), &admin.ConfigCheck{})
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: no mistakes\n", args[0])
			return err
		},
	}
	u.Flags(cmd.Flags())
	cmd.Flags().BoolVar(&running, "running", false, "also compare with the configuration of a running node")
	return cmd
}

// checked prints what a file would change in a node, or has changed.
func (u *adminFlags) checked(w io.Writer, c *admin.ConfigCheck, well string) error {
	if u.JSON {
		if err := printChecked(w, c); err != nil {
			return err
		}
	}
	if len(c.Mistakes) > 0 {
		var all []error
		for _, m := range c.Mistakes {
			all = append(all, &config.Error{Detail: strings.TrimPrefix(m, "config: ")})
		}
		return errors.Join(all...)
	}
	if u.JSON {
		return nil
	}
	keys := func(all []string) string {
		if len(all) == 0 {
			return "none"
		}
		return strings.Join(all, ", ")
	}
	_, err := fmt.Fprintf(w, "%s\nkeys that differ and need no restart: %s\nkeys that wait for a restart: %s\n", well,
		keys(c.Changed), keys(c.Restart))
	return err
}

// printChecked prints the result as JSON, in which no list is null.
func printChecked(w io.Writer, c *admin.ConfigCheck) error {
	for _, l := range []*[]string{&c.Mistakes, &c.Changed, &c.Restart} {
		*l = append([]string{}, *l...)
	}
	c.Diff = append([]admin.SettingChange{}, c.Diff...)
	return json.NewEncoder(w).Encode(c)
}

func newConfigShow() *cobra.Command {
	var u adminFlags
	var all bool
	cmd := &cobra.Command{
		Use:   "show [KEY...]",
		Short: "Print the configuration of a running node, without its secrets",
		Long: "Print the configuration of a running node, without its secrets: the keys that differ\n" +
			"from the defaults, or with --all every key; with KEY these, or those of sections.\n" + command.AdminHelp,
		RunE: u.Ask(func(cmd *cobra.Command, c *admin.Client, args []string) error {
			cfg, err := c.Config(cmd.Context())
			if err != nil {
				return err
			}
			settings, err := wanted(cfg.Settings, args, all)
			if err != nil {
				return err
			}
			return u.printSettings(cmd.OutOrStdout(), settings)
		}),
	}
	u.Flags(cmd.Flags())
	cmd.Flags().BoolVar(&all, "all", false, "also keys with default values")
	return cmd
}

// wanted returns the settings that differ from the defaults, or all settings. If keys names keys or
// sections, it returns all settings of these.
func wanted(settings []admin.Setting, keys []string, all bool) (out []admin.Setting, err error) {
	for _, key := range append([]string{""}, keys...) {
		found := false
		for _, s := range settings {
			within := s.Key == key || strings.HasPrefix(s.Key, key+".")
			found = found || within
			if within || key == "" && len(keys) == 0 && (all || !s.Default) {
				out = append(out, s)
			}
		}
		if key != "" && !found {
			return nil, cli.Usagef("no key or section is called %.60q; \"bulkhead config reference\" has them all", key)
		}
	}
	return out, nil
}

func (u *adminFlags) printSettings(w io.Writer, settings []admin.Setting) error {
	if u.JSON {
		return command.PrintJSON(w, settings)
	}
	for i := range settings {
		if _, err := fmt.Fprintf(w, "%s = %s\n", settings[i].Key, settings[i].Value); err != nil {
			return err
		}
	}
	return nil
}

func newConfigReload() *cobra.Command {
	var u adminFlags
	cmd := &cobra.Command{
		Use:   "reload",
		Short: "Make a running node read its configuration file again, as SIGHUP does",
		Long: "Make a running node read its configuration file again, as SIGHUP does, and print what it\n" +
			"took over, and what waits for a restart. If the file has a mistake, nothing changes.\n" + command.AdminHelp,
		Args: cli.Args(cobra.NoArgs),
		RunE: u.Ask(func(cmd *cobra.Command, c *admin.Client, _ []string) error {
			got, err := c.ReloadConfig(cmd.Context())
			if err != nil {
				return err
			}
			return u.checked(cmd.OutOrStdout(), got, "the file was read again")
		}),
	}
	u.Flags(cmd.Flags())
	return cmd
}
