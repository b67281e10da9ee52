package node

import (
	"errors"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/config"
)

// TestCheckSizes checks that books that no machine of this size can hold are errors of the
// configuration. Starting with them would end the process.
func TestCheckSizes(t *testing.T) {
	const memory = 24 << 30
	for _, tt := range []struct {
		file string
		key  string // "" for none
	}{
		{"", ""},
		{"[tally]\ncapacity = 100_000_000", ""},
		{"[tally]\nerror = 1e-15", "tally.capacity"},
		{"[tally]\ncapacity = 10_000_000_000", "tally.capacity"},
		{"[blocklist]\ncapacity = 10_000_000_000", "blocklist.capacity"},
		{"[blocklist]\ncapacity = 10_000_000_000\nerror = 1e-15", "blocklist.capacity"},
		{"[tally]\ncapacity = 2_000_000_000\n[blocklist]\ncapacity = 4_000_000_000", "blocklist.capacity"},
		{"[tally]\nmemory_bytes = 30_000_000", ""},
		{"[tally]\nmemory_bytes = 15_000_000", "tally.memory_bytes"},
		{"[blocklist]\nmemory_bytes = 1_500_000", "blocklist.memory_bytes"},
	} {
		cfg, err := config.Parse([]byte(tt.file))
		if err != nil {
			t.Fatal(err)
		}
		err = checkSizes(cfg, memory)
		var mistake *config.Error
		switch {
		case tt.key == "" && err != nil, tt.key != "" && (!errors.As(err, &mistake) || mistake.Key != tt.key):
			t.Errorf("%q: %v, want a mistake of %q", tt.file, err, tt.key)
		case tt.key != "" && !strings.Contains(err.Error(), "signatures at error"):
			t.Errorf("%q: %v does not say what needs so much", tt.file, err)
		}
		if err := checkSizes(cfg, 0); err != nil && !strings.Contains(err.Error(), "more than") &&
			!strings.HasSuffix(tt.key, "memory_bytes") {
			t.Errorf("%q on a machine of unknown size: %v", tt.file, err)
		}
	}
}

// TestBookMemory checks that a book may take a quarter of the machine's memory, and always has room
// for two generations of the configured size.
func TestBookMemory(t *testing.T) {
	for _, tt := range []struct {
		set                  int64
		first, machine, want uint64
	}{{0, 10 << 20, 1 << 30, 256 << 20}, {0, 200 << 20, 1 << 30, 400 << 20}, {0, 10 << 20, 0, 0},
		{99 << 20, 10 << 20, 1 << 30, 99 << 20}} {
		if got := bookMemory(tt.set, tt.first, tt.machine); got != tt.want {
			t.Errorf("set %d, first %d, machine %d: %d, want %d", tt.set, tt.first, tt.machine, got, tt.want)
		}
	}
}

// TestGarbagePercent checks that garbage is at most as large as all that lives, and without arrays as large.
func TestGarbagePercent(t *testing.T) {
	const mb = 1 << 20
	for _, tt := range []struct {
		live, scanned uint64
		want          int
	}{
		{0, 0, 100}, {6 * mb, 5 * mb, 100}, {20 * mb, 15 * mb, 75}, {32 * mb, 1, 25}, {64 * mb, 20 * mb, 31},
		{800 * mb, 30 * mb, 3}, {800 * mb, 400 * mb, 50}, {800 * mb, 800 * mb, 100}, {64 << 30, 0, 1},
	} {
		if got := garbagePercent(tt.live, tt.scanned); got != tt.want {
			t.Errorf("%d bytes live, of which %d are read: %d %%, want %d", tt.live, tt.scanned, got, tt.want)
		}
	}
}
