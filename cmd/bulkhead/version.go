package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bulkhead-mail/bulkhead/internal/cli"
)

// release is the version of this source: the version in the first section of CHANGELOG.md, or
// between releases the next version with "-dev".
const release = "0.2.0-dev"

// version returns the version of the running program.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return release
	}
	return versionOf(info)
}

// pseudo matches the version that Go gives to a commit without a tag. Its groups are the commit's
// time and revision.
var pseudo = regexp.MustCompile(`^v.*[-.](\d{14})-([0-9a-f]{12})(\+.*)?$`)

// versionOf returns the version recorded in a build: 0.1.0 for a tag, and for example
// 0.2.0-pre1795390000+0123456789ab for another commit. So commits, and packages made from them,
// sort by age and before the release that they lead to. A build that records neither a tag nor a
// commit has the source's version.
func versionOf(info *debug.BuildInfo) string {
	set := make(map[string]string)
	for _, s := range info.Settings {
		set[s.Key] = s.Value
	}
	commit := pseudo.FindStringSubmatch(info.Main.Version)
	if tagged, ok := strings.CutPrefix(info.Main.Version, "v"); ok && commit == nil {
		return tagged
	}
	when, err := time.Parse(time.RFC3339, set["vcs.time"])
	revision := set["vcs.revision"]
	if err != nil && commit != nil { // not built in a clone
		when, err = time.Parse("20060102150405", commit[1])
		revision = commit[2]
	}
	if err != nil || len(revision) < 12 {
		return release
	}
	leadsTo, _, _ := strings.Cut(release, "-")
	v := fmt.Sprintf("%s-pre%d+%s", leadsTo, when.Unix(), revision[:12])
	if set["vcs.modified"] == "true" {
		v += ".dirty"
	}
	return v
}

func newVersionCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			w := cmd.OutOrStdout()
			if asJSON {
				return json.NewEncoder(w).Encode(struct {
					Version string `json:"version"`
					Go      string `json:"go"`
					OS      string `json:"os"`
					Arch    string `json:"arch"`
				}{version(), runtime.Version(), runtime.GOOS, runtime.GOARCH})
			}
			_, err := fmt.Fprintf(w, "bulkhead %s (%s, %s/%s)\n", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
