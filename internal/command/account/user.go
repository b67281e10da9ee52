package account

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/bulkhead-mail/bulkhead/client/admin"

	"github.com/spf13/cobra"

	"github.com/bulkhead-mail/bulkhead/internal/cli"
	"github.com/bulkhead-mail/bulkhead/internal/command"
	"github.com/bulkhead-mail/bulkhead/internal/consequence"
	"github.com/bulkhead-mail/bulkhead/internal/node"
	"github.com/bulkhead-mail/bulkhead/internal/units"
)

func newUserCommand() *cobra.Command {
	var u adminFlags
	cmd := &cobra.Command{
		Use: "user", Aliases: []string{"reporter"},
		Short: "Manage the accounts of a node",
		Long:  "Manage the accounts of a node.\n" + command.AdminHelp,
		Args:  cli.Args(cobra.NoArgs),
		RunE:  command.NeedCommand,
	}
	u.Flags(cmd.PersistentFlags())
	cmd.AddCommand(
		newUserAdd(&u), newUserList(&u), newUserWeights(&u), newUserRemove(&u), newUserPasswd(&u),
		newUserWeigh(&u), newUserRole(&u), newUserClose(&u), newUserReopen(&u),
		newUserLink(&u), newUserParent(&u), newUserUndo(&u), newUserRecover(&u),
	)
	roles := []string{"anonymous", "reporter", "trusted", "admin"}
	for _, sub := range cmd.Commands() {
		switch sub.Name() {
		case "add":
			command.CompleteWords(sub, "role", roles...)
		case "list", "recover":
		case "role":
			u.Complete(command.AccountNames, roles, sub)
		default:
			u.Complete(command.AccountNames, nil, sub)
		}
	}
	return cmd
}

func newUserAdd(u *adminFlags) *cobra.Command {
	var role, weight string
	cmd := &cobra.Command{
		Use: "add NAME", Short: "Create an account and print its token, once",
		Long: "Create an account and print its token on standard output, once, and on standard error what\n" +
			"its votes are worth. On the node of this machine the account is trusted: its votes have\n" +
			"full weight, and it may name the users for whom it reports. On another node it is a\n" +
			"reporter, whose votes gain weight with time. --role and --weight choose otherwise.",
		Example: "  bulkhead user add ann\n  bulkhead user add guests --role reporter",
		Args:    cli.Args(cobra.ExactArgs(1)),
		RunE: u.Ask(func(cmd *cobra.Command, c *admin.Client, args []string) error {
			in := admin.NewUser{Name: args[0], Role: role}
			if role == "" && u.IsOwn() {
				in.Role = "trusted"
			}
			if weight != "" {
				w, err := command.ParseWeight(weight)
				if err != nil {
					return err
				}
				in.Weight = &w
			}
			token, err := c.AddUser(cmd.Context(), in)
			if err != nil {
				return err
			}
			if err := u.printToken(cmd.OutOrStdout(), token); err != nil {
				return err
			}
			user, err := c.User(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.ErrOrStderr(), worth(user))
			return err
		}),
	}
	cmd.Flags().StringVar(&role, "role", "",
		"anonymous, reporter, trusted or admin (default: trusted on the node of\nthis machine, else reporter)")
	cmd.Flags().StringVar(&weight, "weight", "",
		"weight of its reports, 0 to 1 (default: what the configuration gives to the role)")
	return cmd
}

// worth describes what the votes of a new account are worth.
func worth(u *admin.User) string {
	text := fmt.Sprintf("%s is %s: its votes weigh %.3g", u.Name, u.Role, u.Worth)
	switch {
	case u.Worth >= 1:
		return text + ", the full weight"
	case u.Worth <= 0:
		return text + " and count for nothing"
	}
	return text + " of 1. \"bulkhead user role " + u.Name + " trusted\" gives them full weight"
}

func (u *adminFlags) printToken(w io.Writer, t *admin.Token) error {
	if u.JSON {
		return json.NewEncoder(w).Encode(t)
	}
	_, err := fmt.Fprintln(w, t.Token)
	return err
}

func newUserList(u *adminFlags) *cobra.Command {
	return command.NewList(&u.Admin, "list", "Print every account", (*admin.Client).Users, u.printUsers)
}

func (u *adminFlags) printUsers(w io.Writer, users []admin.User) error {
	return command.PrintTable(w, u.JSON, users,
		"NAME\tROLE\tWEIGHT\tWORTH NOW\tCONFIRMED\tDAYS\tREVOKED\tACCURACY\tSINCE\tSECRETS\tSTATE",
		func(t io.Writer, a *admin.User) {
			secrets := a.Protocols
			if a.Token {
				secrets = append([]string{"token"}, secrets...)
			}
			state := "open"
			if a.Closed {
				state = "closed"
			}
			fmt.Fprintf(t, "%s\t%s\t%.3g\t%.3g\t%d\t%d\t%d\t%s\t%s\t%s\t%s\n", a.Name, a.Role, a.Weight, a.Worth,
				a.Confirmed, a.Days, a.Reverted, accuracy(a), a.Created.Format(time.DateOnly), strings.Join(secrets, ","), state)
		})
}

// accuracy describes in words how many of an account's reports were right.
func accuracy(u *admin.User) string {
	share, of := u.Accuracy()
	if of == 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f%% of %d", 100*share, of)
}

func newUserWeights(u *adminFlags) *cobra.Command {
	return &cobra.Command{
		Use: "weights [NAME]", Short: "Print what the votes of accounts were worth over time",
		Long: "Print what the votes of each account, or of one, were worth over time: a row for each\n" +
			"change, the oldest first. A node looks every hour, and remembers the latest 64 changes.",
		Args: cli.Args(cobra.MaximumNArgs(1)),
		RunE: u.Ask(func(cmd *cobra.Command, c *admin.Client, args []string) error {
			all, err := c.Weights(cmd.Context())
			if err != nil {
				return err
			}
			if len(args) == 1 {
				if _, err := c.User(cmd.Context(), args[0]); err != nil {
					return err
				}
				all = slices.DeleteFunc(all, func(w admin.Weights) bool { return w.Account != args[0] })
			}
			return command.PrintTable(cmd.OutOrStdout(), u.JSON, all, "NAME\tFROM\tWORTH",
				func(t io.Writer, w *admin.Weights) {
					for _, s := range w.Samples {
						fmt.Fprintf(t, "%s\t%s\t%.3g\n", w.Account, time.Unix(s.Time, 0).UTC().Format(time.DateTime), s.Worth)
					}
				})
		}),
	}
}

func newUserRemove(u *adminFlags) *cobra.Command {
	return &cobra.Command{
		Use: "remove NAME", Short: "Remove an account; close it instead to keep its name reserved",
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: u.Ask(func(cmd *cobra.Command, c *admin.Client, args []string) error {
			return c.RemoveUser(cmd.Context(), args[0])
		}),
	}
}

func newUserPasswd(u *adminFlags) *cobra.Command {
	var protocol string
	cmd := &cobra.Command{
		Use:   "passwd NAME",
		Short: "Replace an account's token, or the secret that it shares with the clients of a protocol",
		Long: "Replace the token of an account and print the new one. With --protocol, read a\n" +
			"secret from standard input instead, and store it for clients of that protocol; pages\n" +
			"is the password for the log-in page, of 12 characters or more. An empty line removes the\n" +
			"secret.",
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: u.Ask(func(cmd *cobra.Command, c *admin.Client, args []string) error {
			if protocol == "" {
				token, err := c.NewToken(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				return u.printToken(cmd.OutOrStdout(), token)
			}
			secret, err := io.ReadAll(io.LimitReader(cmd.InOrStdin(), 4096))
			if err != nil {
				return err
			}
			return c.SetSecret(cmd.Context(), args[0], protocol, strings.TrimRight(string(secret), "\r\n"))
		}),
	}
	cmd.Flags().StringVar(&protocol, "protocol", "", strings.Join(node.SecretProtocols(), ", "))
	return cmd
}

func newUserWeigh(u *adminFlags) *cobra.Command {
	return &cobra.Command{
		Use: "weigh NAME WEIGHT", Short: "Set the weight of an account's reports, 0 to 1",
		Args: cli.Args(cobra.ExactArgs(2)),
		RunE: u.Ask(func(cmd *cobra.Command, c *admin.Client, args []string) error {
			weight, err := command.ParseWeight(args[1])
			if err != nil {
				return err
			}
			return u.change(cmd, c, args[0], admin.UserChange{Weight: &weight})
		}),
	}
}

func newUserRole(u *adminFlags) *cobra.Command {
	return &cobra.Command{
		Use: "role NAME ROLE", Short: "Make an account anonymous, reporter, trusted or admin",
		Args: cli.Args(cobra.ExactArgs(2)),
		RunE: u.Ask(func(cmd *cobra.Command, c *admin.Client, args []string) error {
			return u.change(cmd, c, args[0], admin.UserChange{Role: &args[1]})
		}),
	}
}

func newUserLink(u *adminFlags) *cobra.Command {
	cmd := u.setOrClear(func(person *string) admin.UserChange { return admin.UserChange{Person: person} })
	cmd.Use, cmd.Short = "link NAME [PERSON]", "Say whose account it is: all accounts of one person are one voter"
	cmd.Long = "Say whose account it is. All accounts of one person are one voter, with one vote on each\n" +
		"message. Without PERSON the account stands for itself. The person \"local\" is the node\n" +
		"itself, together with all clients on its machine that have no account."
	return cmd
}

func newUserParent(u *adminFlags) *cobra.Command {
	cmd := u.setOrClear(func(parent *string) admin.UserChange { return admin.UserChange{Parent: parent} })
	cmd.Use, cmd.Short = "parent NAME [PARENT]", "Make an account answer for another one"
	cmd.Long = "Make the account PARENT answer for the account NAME. NAME then never weighs more than\n" +
		"PARENT, and a report by NAME that is revoked counts against both. Without PARENT the\n" +
		"account answers for itself."
	return cmd
}

// setOrClear returns a command that takes an account and an optional value. It applies the change
// for the value, or for nil without one.
func (u *adminFlags) setOrClear(change func(value *string) admin.UserChange) *cobra.Command {
	return &cobra.Command{
		Args: cli.Args(cobra.RangeArgs(1, 2)),
		RunE: u.Ask(func(cmd *cobra.Command, c *admin.Client, args []string) error {
			value := strings.Join(args[1:], "")
			return u.change(cmd, c, args[0], change(&value))
		}),
	}
}

func newUserUndo(u *adminFlags) *cobra.Command {
	var since string
	var confirm command.Confirmation
	cmd := &cobra.Command{
		Use: "undo NAME --since TIME", Short: "Take back the votes of a person since a time",
		Long: "Take back all votes of a person since a time. NAME is an account, which\n" +
			"stands for all accounts of the same person, or a user on whose behalf services\n" +
			"report. If several of these have voted since then, nothing is taken back, and the error\n" +
			"has the names that mean one of them: account:NAME, user:NAME for a user of programs on\n" +
			"the node's machine, and user:SERVICE=NAME for one of the account SERVICE.\n" +
			"Signatures that only these votes list are taken off the list. Signatures that only they\n" +
			"took off are listed again.\n" +
			"The command prints how much that is, and asks.\n" +
			"TIME is 2006-01-02, 2006-01-02T15:04:05Z, or a time before now such as 36h or 30d.",
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: u.Ask(func(cmd *cobra.Command, c *admin.Client, args []string) error {
			from, err := command.ParseTime(since, time.Now())
			if err != nil {
				return err
			}
			preview, err := c.PreviewUndo(cmd.Context(), args[0], from)
			if err != nil {
				return err
			}
			if err := confirm.Ask(cmd, consequence.Undo(args[0], from, preview)); err != nil {
				return err
			}
			undone, err := c.UndoVotes(cmd.Context(), args[0], from)
			if err != nil {
				return err
			}
			return u.printUndone(cmd.OutOrStdout(), undone, from)
		}),
	}
	cmd.Flags().StringVar(&since, "since", "", "take back votes since this time; required")
	confirm.Flag(cmd.Flags())
	return cmd
}

func (u *adminFlags) printUndone(w io.Writer, undone *admin.Undone, from time.Time) error {
	if u.JSON {
		return command.PrintJSON(w, []admin.Undone{*undone})
	}
	_, err := fmt.Fprintf(w, "votes on %s taken back: %d off the blocklist, %d on it again\n",
		units.Plural(undone.Votes, "signature"), undone.Off, undone.On)
	if err == nil && undone.Oldest.After(from) {
		_, err = fmt.Fprintf(w, "votes from before %s are not remembered, and stand\n", undone.Oldest.Format(time.RFC3339))
	}
	return err
}

func newUserClose(u *adminFlags) *cobra.Command {
	var confirm command.Confirmation
	cmd := &cobra.Command{
		Use: "close NAME", Short: "Close an account: its name stays reserved, and it may do nothing",
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: u.Ask(func(cmd *cobra.Command, c *admin.Client, args []string) error {
			preview, err := c.PreviewClose(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if err := confirm.Ask(cmd, consequence.Close(args[0], preview)); err != nil {
				return err
			}
			closed := true
			return u.change(cmd, c, args[0], admin.UserChange{Closed: &closed})
		}),
	}
	confirm.Flag(cmd.Flags())
	return cmd
}

func newUserReopen(u *adminFlags) *cobra.Command {
	return &cobra.Command{
		Use: "reopen NAME", Short: "Open a closed account again", Args: cli.Args(cobra.ExactArgs(1)),
		RunE: u.Ask(func(cmd *cobra.Command, c *admin.Client, args []string) error {
			closed := false
			return u.change(cmd, c, args[0], admin.UserChange{Closed: &closed})
		}),
	}
}

// change changes an account and prints its new state.
func (u *adminFlags) change(cmd *cobra.Command, c *admin.Client, name string, change admin.UserChange) error {
	user, err := c.ChangeUser(cmd.Context(), name, change)
	if err != nil {
		return err
	}
	return u.printUsers(cmd.OutOrStdout(), []admin.User{*user})
}
