package main

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bulkhead-mail/bulkhead/internal/cli"
)

// groups are the groups of commands in "bulkhead help", in its order, with the commands of each.
var groups = []struct{ id, title, commands string }{
	{"mail", "Mail and votes:", "check report revoke waiting abuse learn signatures"},
	{"start", "Set-up and health:", "setup serve doctor ready login config size version"},
	{"look", "Messages and verdicts:", "history wave whitelist rules verdicts audit"},
	{"people", "Accounts and limits:", "user ratelimit"},
	{"network", "Sharing with other nodes:", "invite join leave peer network rekey standby promote shard"},
	{"keep", "Data:", "backup restore clock list filter"},
}

// examples has an example of each command that its package gives none, without "bulkhead".
var examples = map[string]string{
	"abuse":            "abuse --maildir /var/mail/spam --host mx.example.com --once",
	"audit":            "audit --since 7d",
	"backup":           "backup bulkhead.backup",
	"check":            "check message.eml",
	"clock":            "clock show",
	"clock confirm":    "clock confirm",
	"clock restore":    "clock restore",
	"clock show":       "clock show",
	"config":           "config check bulkhead.toml",
	"config check":     "config check bulkhead.toml",
	"config reference": "config reference",
	"config reload":    "config reload",
	"config show":      "config show listen",
	"doctor":           "doctor",
	"filter":           "filter info counts.bkh",
	"filter info":      "filter info counts.bkh",
	"history":          "history --since 1d --kind spam",
	"invite":           "invite",
	"join":             "join -",
	"learn":            "learn --spam Junk --delivered Archive",
	"leave":            "leave --yes",
	"list":             "list build domains.list domains.txt",
	"list add":         "list add domains.list more.txt",
	"list build":       "list build domains.list domains.txt",
	"list check":       "list check domains.list shop.example.com",
	"list diff":        "list diff domains.list newer.list",
	"list info":        "list info domains.list",
	"list merge":       "list merge all.list domains.list newer.list",
	"login":            "login",
	"network":          "network show",
	"network nats":     "network nats",
	"network new":      "network new --data other",
	"network rotate":   "network rotate",
	"network show":     "network show",
	"peer":             "peer list",
	"peer accept":      "peer accept mx2",
	"peer add":         "peer add UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4",
	"peer evict":       "peer evict mx2 --yes",
	"peer forget":      "peer forget mx2",
	"peer list":        "peer list",
	"peer refuse":      "peer refuse mx2",
	"peer requests":    "peer requests",
	"peer rollback":    "peer rollback mx2 36h --yes",
	"peer weigh":       "peer weigh mx2 0.5",
	"promote":          "promote --yes",
	"ratelimit":        "ratelimit top",
	"ratelimit reset":  "ratelimit reset ann@example.com",
	"ratelimit show":   "ratelimit show",
	"ratelimit top":    "ratelimit top",
	"ready":            "ready",
	"rekey":            "rekey --status",
	"report":           "report message.eml",
	"restore":          "restore --data restored bulkhead.backup",
	"revoke":           "revoke message.eml",
	"rules":            "rules",
	"serve":            "serve --config /etc/bulkhead/bulkhead.toml",
	"setup":            "setup --print",
	"shard":            "shard show",
	"shard add":        "shard add b https://b.example.com https://b2.example.com",
	"shard default":    "shard default b",
	"shard drain":      "shard drain b --yes",
	"shard history":    "shard history",
	"shard move":       "shard move b --yes",
	"shard remove":     "shard remove b --yes",
	"shard restore":    "shard restore 7 --yes",
	"shard set":        "shard set b https://b2.example.com https://b.example.com",
	"shard show":       "shard show ann@example.com",
	"signatures":       "signatures message.eml",
	"size":             "size",
	"standby":          "standby show",
	"standby invite":   "standby invite first.example.com:8430",
	"standby join":     "standby join standby1-eyJhIjoi...",
	"standby show":     "standby show",
	"user":             "user list",
	"user close":       "user close guests --yes",
	"user link":        "user link ann.phone ann",
	"user list":        "user list",
	"user parent":      "user parent guests ann",
	"user passwd":      "user passwd ann",
	"user recover":     "user recover",
	"user remove":      "user remove guests",
	"user reopen":      "user reopen guests",
	"user role":        "user role guests trusted",
	"user undo":        "user undo guests --since 36h --yes",
	"user weigh":       "user weigh guests 0.5",
	"user weights":     "user weights ann",
	"verdicts":         "verdicts",
	"version":          "version",
	"wave":             "wave list",
	"wave clear":       "wave clear 7",
	"wave list":        "wave list",
	"wave report":      "wave report 7",
	"wave revoke":      "wave revoke 7",
	"wave show":        "wave show 7",
	"whitelist":        "whitelist list",
	"whitelist add":    "whitelist add 1795894015913253",
	"whitelist list":   "whitelist list",
	"whitelist remove": "whitelist remove bulkhead/exact:1ba00c9bfd7c5990bbfc4573698b0a4e9b4a2857e5e982e7ebe4bf4bf5db83ed",
}

// dress gives the commands below root their groups and examples, and errors of flags the words of this
// program.
func dress(root *cobra.Command) {
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return cli.UsageError{Err: fmt.Errorf("%s: %s", cmd.CommandPath(), flagError(err))}
	})
	root.InitDefaultHelpCmd()
	if help, _, err := root.Find([]string{"help"}); err == nil {
		help.Args = cli.Args(func(_ *cobra.Command, args []string) error {
			_, _, err := root.Find(args)
			return err
		})
	}
	root.InitDefaultCompletionCmd()
	if complete, _, err := root.Find([]string{"completion"}); err == nil { // an unknown shell is no question for help
		complete.Args = cli.Args(cobra.NoArgs)
		complete.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	}
	for _, g := range groups {
		root.AddGroup(&cobra.Group{ID: g.id, Title: g.title})
		for _, name := range strings.Fields(g.commands) {
			for _, cmd := range root.Commands() {
				if cmd.Name() == name {
					cmd.GroupID = g.id
				}
			}
		}
	}
	exemplify(root, "")
}

func exemplify(cmd *cobra.Command, path string) {
	for _, sub := range cmd.Commands() {
		name := strings.TrimSpace(path + " " + sub.Name())
		if example, ok := examples[name]; ok && sub.Example == "" {
			sub.Example = "  bulkhead " + example
		}
		exemplify(sub, name)
	}
}

var (
	flagValue = regexp.MustCompile(`^invalid argument (".*?") for "(?:-\w, )?(--[\w-]+)" flag: (.*)$`)
	parsing   = regexp.MustCompile(`^strconv\.Parse(\w+): parsing ".*": (.*)$`)
)

// flagError returns an error of a flag's value without the words of the library: what is wrong, and
// which values are right.
func flagError(err error) string {
	m := flagValue.FindStringSubmatch(err.Error())
	if m == nil {
		return err.Error()
	}
	value, flag, why := m[1], m[2], m[3]
	switch p := parsing.FindStringSubmatch(why); {
	case p != nil && strings.Contains(p[2], "range"):
		return fmt.Sprintf("%s %s is out of range", flag, value)
	case p != nil && p[1] == "Float":
		return fmt.Sprintf("%s %s is not a number", flag, value)
	case p != nil && p[1] == "Bool":
		return fmt.Sprintf("%s %s is neither true nor false", flag, value)
	case p != nil:
		return fmt.Sprintf("%s %s is not a whole number", flag, value)
	case strings.HasPrefix(why, "time: "):
		return fmt.Sprintf("%s %s is not a time such as 10s, 5m or 36h", flag, value)
	}
	return fmt.Sprintf("%s %s: %s", flag, value, why)
}
