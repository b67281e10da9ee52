package main

import (
	"testing"

	"github.com/spf13/cobra"
)

// printsNoData lists the commands without --json, with the reasons.
var printsNoData = map[string]string{
	"bulkhead serve":                 "it runs, and writes a log, which is JSON with log_format",
	"bulkhead config reference":      "it prints a configuration file",
	"bulkhead network nats":          "it prints a part of a NATS server's configuration",
	"bulkhead completion bash":       "it prints a script",
	"bulkhead completion fish":       "it prints a script",
	"bulkhead completion powershell": "it prints a script",
	"bulkhead completion zsh":        "it prints a script",
	"bulkhead help":                  "it prints help",
	"bulkhead replay":                "it only says which program has that command",
	"bulkhead study":                 "it only says which program has that command",
}

// TestEveryCommandHasJSON: every command that prints data can also print it as JSON.
func TestEveryCommandHasJSON(t *testing.T) {
	missing := make(map[string]string)
	for name, why := range printsNoData {
		missing[name] = why
	}
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
		if cmd.HasSubCommands() {
			return
		}
		name := cmd.CommandPath()
		why, listed := missing[name]
		delete(missing, name)
		switch has := cmd.Flag("json") != nil; {
		case has && listed:
			t.Errorf("%s has --json, although %s", name, why)
		case !has && !listed:
			t.Errorf("%s has no --json", name)
		}
	}
	root := newRootCommand()
	root.InitDefaultCompletionCmd()
	root.InitDefaultHelpCmd()
	walk(root)
	for name := range missing {
		t.Errorf("there is no %s", name)
	}
}
