package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bulkhead-mail/bulkhead/internal/cli"
)

// release is the version in CHANGELOG.md that this source leads to.
const release = "0.1.0-dev"

// version returns the version of the running program.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return release
	}
	return versionOf(info)
}

// versionOf returns the version that a build of a tag, or of a commit after one,
// knows of itself: 0.1.0, or 0.1.1-0.20260302091500-0123456789ab, which sort by
// age. Other builds have that of the source, and the revision if they know it.
func versionOf(info *debug.BuildInfo) string {
	if tagged, ok := strings.CutPrefix(info.Main.Version, "v"); ok && !strings.HasPrefix(tagged, "0.0.0-") {
		return tagged
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return release + "+" + s.Value[:12]
		}
	}
	return release
}

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "bulkhead %s (%s, %s/%s)\n", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}
