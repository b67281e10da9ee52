package node

import (
	"math"
	"os"
	"path/filepath"
	"testing"
)

// TestGroupMemory checks that the least limit from the process's own group to the root counts.
func TestGroupMemory(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{"": "max\n", "system.slice": "4000000\n",
		"system.slice/bulkhead.service": "max\n", "other": "1000\n", "bad": "lots\n"} {
		if err := os.MkdirAll(filepath.Join(root, name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name, "memory.max"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for groups, want := range map[string]uint64{
		"0::/system.slice/bulkhead.service\n": 4000000,
		"12:memory:/other\n0::/other\n":       1000,
		"0::/\n":                              math.MaxUint64,
		"0::/bad\n":                           math.MaxUint64,
		"0::/../../other\n":                   1000,
		"0::/not/there\n":                     math.MaxUint64,
		"11:memory:/other\n":                  math.MaxUint64,
		"":                                    math.MaxUint64,
	} {
		if got := groupMemory(root, groups); got != want {
			t.Errorf("%q: %d, want %d", groups, got, want)
		}
	}
}

// TestMessageMemory checks that the configured limit counts, and an eighth of the memory otherwise.
func TestMessageMemory(t *testing.T) {
	for _, tt := range []struct {
		set     int64
		machine uint64
		want    int64
	}{{5 << 20, 1 << 40, 5 << 20}, {0, 0, 256 << 20}, {0, 256 << 20, 64 << 20}, {0, 16 << 30, 2 << 30}} {
		if got := messageMemory(tt.set, tt.machine); got != tt.want {
			t.Errorf("%d set on a machine of %d: %d, want %d", tt.set, tt.machine, got, tt.want)
		}
	}
}
