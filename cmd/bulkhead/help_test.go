package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/bulkhead-mail/bulkhead/internal/cli"
	"github.com/bulkhead-mail/bulkhead/internal/config"
	"github.com/bulkhead-mail/bulkhead/internal/local"
	"github.com/bulkhead-mail/bulkhead/internal/node"
)

// every returns the commands below cmd that the help shows.
func every(cmd *cobra.Command) (all []*cobra.Command) {
	for _, sub := range cmd.Commands() {
		if sub.Name() != "help" && sub.Name() != "completion" && !sub.Hidden {
			all = append(append(all, sub), every(sub)...)
		}
	}
	return all
}

// unattended are commands whose examples no test runs: they serve, change this machine, or need a node that has
// stopped.
var unattended = []string{"bulkhead serve", "bulkhead setup", "bulkhead user recover"}

// TestGroups checks that each heading in the help has a command below it.
func TestGroups(t *testing.T) {
	root := newRootCommand()
	for _, g := range root.Groups() {
		if !slices.ContainsFunc(root.Commands(), func(c *cobra.Command) bool {
			return c.GroupID == g.ID && c.IsAvailableCommand()
		}) {
			t.Errorf("nothing is below %q", g.Title)
		}
	}
}

// TestHelps walks all commands. Each has a short text, a group if it is at the top, and an example,
// which the program accepts: run on a node, no example is a mistake in the command line or an internal
// error.
func TestHelps(t *testing.T) {
	redirect(t.TempDir())
	dir := t.TempDir()
	t.Chdir(dir)
	t.Setenv("HOME", dir)
	cfg, err := config.Parse([]byte("[listen]\nhttp = \"127.0.0.1:0\"\n"))
	if err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(dir, "bulkhead-data")
	n, err := node.Open(t.Context(), node.Options{Config: cfg, Dir: data, Socket: filepath.Join(data, local.Name)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- n.Serve(ctx) }()
	defer func() {
		end()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	letter := "From: a@example.org\nSubject: lamps\n\nLamps for the garden are sold here today at half their price.\n"
	if err := errors.Join(os.WriteFile("message.eml", []byte(letter), 0o600), os.Mkdir("Junk", 0o700),
		os.WriteFile("domains.txt", []byte("shop.example.com\n"), 0o600),
		os.WriteFile("more.txt", []byte("sale.example.com\n"), 0o600),
		os.WriteFile("bulkhead.toml", []byte("[listen]\nhttp = \":8420\"\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, cmd := range every(newRootCommand()) {
		path := cmd.CommandPath()
		if cmd.Short == "" || cmd.Parent().Parent() == nil && cmd.GroupID == "" {
			t.Errorf("%s: short text %q, group %q", path, cmd.Short, cmd.GroupID)
		}
		if cmd.Example == "" {
			t.Errorf("%s has no example", path)
		}
		for line := range strings.Lines(cmd.Example) {
			args := strings.Fields(line)
			if len(args) == 0 {
				continue
			}
			if !strings.HasPrefix(strings.Join(args, " "), path) {
				t.Errorf("%s: the example is of another command: %q", path, line)
			}
			if slices.Contains(unattended, path) {
				continue
			}
			var out, errs bytes.Buffer
			code := run(args[1:], strings.NewReader(""), &out, &errs)
			if code == int(cli.Usage) || code == int(cli.Software) {
				t.Errorf("%q ends with %d: %s", line, code, errs.String())
			}
		}
	}
}

// TestWordsOfErrors gives commands wrong values: no message has the words of a library, and each names
// the value.
func TestWordsOfErrors(t *testing.T) {
	redirect(t.TempDir())
	t.Chdir(t.TempDir())
	if err := os.WriteFile("m.eml", []byte("From: a@b.example\n\nx\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	open := filepath.Join(t.TempDir(), "token")
	if err := errors.Join(os.WriteFile(open, []byte("bh_x\n"), 0o644), os.Chmod(open, 0o644)); err != nil {
		t.Fatal(err)
	}
	empty, two := filepath.Join(t.TempDir(), "empty"), filepath.Join(t.TempDir(), "two")
	if err := errors.Join(os.WriteFile(empty, []byte(" \n"), 0o600),
		os.WriteFile(two, []byte("bh_x\nbh_y\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args []string
		code cli.Code
		want string
	}{
		{[]string{"report", "--count", "x", "m.eml"}, cli.Usage, `--count "x" is not a whole number`},
		{[]string{"report", "--count", "99999999999", "m.eml"}, cli.Usage, `--count "99999999999" is out of range`},
		{[]string{"report", "--count", "0", "m.eml"}, cli.Usage, "--count 0"},
		{[]string{"report", "--sender", "a b", "m.eml"}, cli.Usage, `--sender "a b"`},
		{[]string{"check", "--sender", "a b", "m.eml"}, cli.Usage, `--sender "a b"`},
		{[]string{"check", "--client", "a b", "m.eml"}, cli.Usage, `--client "a b"`},
		{[]string{"history", "--limit", "x"}, cli.Usage, `--limit "x" is not a whole number`},
		{[]string{"check", "--timeout", "5", "m.eml"}, cli.Usage, `--timeout "5" is not a time such as 10s`},
		{[]string{"check", "--server", "http://127.0.0.1:1", "m.eml"}, cli.Unavailable,
			"no node answers at http://127.0.0.1:1: connection refused"},
		{[]string{"check", "--token-file", open, "m.eml"}, cli.NoPerm, "lets others read it"},
		{[]string{"check", "--token-file", empty, "m.eml"}, cli.Data, empty + " has no token: it is empty"},
		{[]string{"check", "--token-file", two, "m.eml"}, cli.Data, two + " has no token: it has more than one word"},
		{[]string{"nonsense"}, cli.Usage, `unknown command "nonsense"`},
		{[]string{"completion", "tcsh"}, cli.Usage, `unknown command "tcsh" for "bulkhead completion"`},
		{[]string{"config", "check"}, cli.Usage, "bulkhead config check takes FILE, and was given nothing"},
		{[]string{"user", "weigh", "ann"}, cli.Usage, `bulkhead user weigh takes NAME WEIGHT, and was given ["ann"]`},
	} {
		var out, errs bytes.Buffer
		code := run(tt.args, strings.NewReader(""), &out, &errs)
		text := errs.String()
		if code != int(tt.code) || !strings.Contains(text, tt.want) {
			t.Errorf("%q ends with %d, want %d: %s", tt.args, code, tt.code, text)
		}
		for _, word := range []string{"strconv", "client: ", "dial tcp", "time: ", "invalid argument"} {
			if strings.Contains(text, word) {
				t.Errorf("%q: the message has the words of a library: %s", tt.args, text)
			}
		}
	}
}
