package main

import (
	"os"
	"path/filepath"
	"testing"
)

// TestHeldOut checks that every tenth world, and no other, is drawn from the seed in the file.
func TestHeldOut(t *testing.T) {
	file := filepath.Join(t.TempDir(), "seed")
	if err := os.WriteFile(file, []byte(" 77000\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := realCommand{seed: 5, worlds: 20, size: 200, jobs: 1, topologies: []string{"one", "edge"}, heldOut: file}
	plans, err := c.plans(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range plans {
		want, held := 5+uint64(i), i == 9 || i == 19
		if held {
			want = 77000 + uint64(i)
		}
		if p.World.Seed != want || p.HeldOut != held {
			t.Errorf("world %d has seed %d, held out: %v; want %d, %v", i, p.World.Seed, p.HeldOut, want, held)
		}
		if topology := c.topologies[i%2]; string(p.Topology) != topology {
			t.Errorf("world %d has topology %s, want %s", i, p.Topology, topology)
		}
	}
}
