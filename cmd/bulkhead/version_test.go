package main

import (
	"os"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestVersionOf checks that a tag wins, that another commit is named by its time, and that a
// build without either has the source's version.
func TestVersionOf(t *testing.T) {
	const rev = "0123456789abcdef0123"
	clone := []debug.BuildSetting{{Key: "vcs.revision", Value: rev}, {Key: "vcs.time", Value: "2026-03-02T09:15:00Z"},
		{Key: "vcs.modified", Value: "false"}}
	dirty := append(slices.Clone(clone[:2]), debug.BuildSetting{Key: "vcs.modified", Value: "true"})
	commit := leadsTo(t) + "-pre1772442900+0123456789ab"
	for _, tt := range []struct {
		main     string
		settings []debug.BuildSetting
		want     string
	}{
		{"v0.1.0", clone, "0.1.0"},
		{"v0.1.0", nil, "0.1.0"},
		{"v0.2.0-rc1", clone, "0.2.0-rc1"},
		{"v0.1.0+dirty", dirty, "0.1.0+dirty"},
		{"v0.1.1-0.20260302091500-0123456789ab", clone, commit},
		{"v0.1.1-0.20260302091500-0123456789ab", nil, commit},
		{"v0.2.0-rc1.0.20260302091500-0123456789ab", clone, commit},
		{"v0.0.0-20260302091500-0123456789ab", clone, commit},
		{"v0.0.0-20260302091500-0123456789ab+dirty", dirty, commit + ".dirty"},
		{"v0.0.0-20261302091500-0123456789ab", nil, release}, // no such month
		{"(devel)", clone, commit},
		{"(devel)", clone[:1], release},
		{"(devel)", nil, release},
		{"", nil, release},
	} {
		info := &debug.BuildInfo{Main: debug.Module{Version: tt.main}, Settings: tt.settings}
		if got := versionOf(info); got != tt.want {
			t.Errorf("version of %q, %v: %q, want %q", tt.main, tt.settings, got, tt.want)
		}
	}
}

// leadsTo returns the version of release without "-dev".
func leadsTo(t *testing.T) string {
	t.Helper()
	v, rest, found := strings.Cut(release, "-")
	if found && rest != "dev" {
		t.Fatalf("release is %q, want a version, or one with -dev", release)
	}
	return v
}

// TestReleaseIsNext checks that the source is the last release in the changelog or leads to
// the next one, and that the changelog is in order.
func TestReleaseIsNext(t *testing.T) {
	text, err := os.ReadFile("../../CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	headings := regexp.MustCompile(`(?m)^## (.*)$`).FindAllStringSubmatch(string(text), -1)
	unreleased := len(headings) > 0 && headings[0][1] == "Unreleased"
	if unreleased {
		headings = headings[1:]
	}
	if len(headings) == 0 {
		t.Fatal("the changelog has no release")
	}
	var all [][]int
	for _, h := range headings {
		m := regexp.MustCompile(`^(\d+\.\d+\.\d+) - \d{4}-\d\d-\d\d$`).FindStringSubmatch(h[1])
		if m == nil {
			t.Fatalf("heading %q, want a version and a day", h[1])
		}
		all = append(all, numbers(t, m[1]))
	}
	if !slices.IsSortedFunc(all, func(a, b []int) int { return slices.Compare(b, a) }) {
		t.Errorf("releases %v, want the newest first", all)
	}
	last, next := all[0], numbers(t, leadsTo(t))
	switch {
	case unreleased != strings.HasSuffix(release, "-dev"):
		t.Errorf("release is %q, while the changelog has changes that are not released: %v", release, unreleased)
	case !unreleased && !slices.Equal(next, last):
		t.Errorf("release is %q, that of the changelog %v", release, last)
	case unreleased && !slices.ContainsFunc([][]int{{last[0] + 1, 0, 0}, {last[0], last[1] + 1, 0},
		{last[0], last[1], last[2] + 1}}, func(v []int) bool {
		return slices.Equal(v, next)
	}):
		t.Errorf("release is %q, the last one %v; want one that follows it", release, last)
	}
}

func numbers(t *testing.T, version string) (all []int) {
	t.Helper()
	for part := range strings.SplitSeq(version, ".") {
		n, err := strconv.Atoi(part)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, n)
	}
	return all
}
