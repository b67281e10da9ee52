package main

import (
	"os"
	"strings"

	"github.com/spf13/pflag"
)

// dataFlag adds the flag of commands that work on the data folder itself.
func dataFlag(f *pflag.FlagSet, data *string) {
	f.StringVar(data, "data", "", "data `FOLDER` of the node (default: $STATE_DIRECTORY, else ./bulkhead-data)")
}

// dataFolder returns where the node's state is: the flag, else the configuration, else where
// systemd wants it, else ./bulkhead-data.
func dataFolder(flag, configured string) string {
	if flag != "" {
		return flag
	}
	if configured != "" {
		return configured
	}
	// systemd names several folders with colons between them.
	if dir, _, _ := strings.Cut(os.Getenv("STATE_DIRECTORY"), ":"); dir != "" {
		return dir
	}
	return "bulkhead-data"
}
