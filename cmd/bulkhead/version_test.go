package main

import (
	"runtime/debug"
	"testing"
)

// TestVersionOf: a tag wins, a commit after it is named by its time, and what was
// built without either is the source's.
func TestVersionOf(t *testing.T) {
	revision := []debug.BuildSetting{{Key: "vcs.revision", Value: "0123456789abcdef0123"}}
	for _, tt := range []struct {
		main     string
		settings []debug.BuildSetting
		want     string
	}{
		{"v0.1.0", revision, "0.1.0"},
		{"v0.1.1-0.20260302091500-0123456789ab", revision, "0.1.1-0.20260302091500-0123456789ab"},
		{"v0.1.0+dirty", revision, "0.1.0+dirty"},
		{"v0.0.0-20260302091500-0123456789ab", revision, release + "+0123456789ab"}, // no tag
		{"(devel)", revision, release + "+0123456789ab"},
		{"(devel)", nil, release},
		{"", nil, release},
	} {
		info := &debug.BuildInfo{Main: debug.Module{Version: tt.main}, Settings: tt.settings}
		if got := versionOf(info); got != tt.want {
			t.Errorf("version of %q, %v: %q, want %q", tt.main, tt.settings, got, tt.want)
		}
	}
}
