package top

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// TestBounds compares tables with a plain map. Counts are never too low, and too high by no more
// than their Error and the share of the size. Every name with a larger share is present.
func TestBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(1, 12).Draw(t, "size")
		table, want, total := New(size), make(map[string]float64), 0.0
		for range rapid.IntRange(0, 200).Draw(t, "adds") {
			name := fmt.Sprint(rapid.IntRange(0, 30).Draw(t, "name"))
			n := float64(rapid.IntRange(1, 9).Draw(t, "n"))
			if rapid.Bool().Draw(t, "bytes") {
				table.AddBytes([]byte(name), n)
			} else {
				table.Add(name, n)
			}
			want[name] += n
			total += n
			if rapid.IntRange(0, 40).Draw(t, "scale") == 0 {
				table.Scale(0.5)
				total /= 2
				for name := range want {
					want[name] /= 2
				}
			}
		}
		items := table.Items(size + 1)
		if len(items) != min(size, len(want)) {
			t.Fatalf("%d items of %d names in a table of %d", len(items), len(want), size)
		}
		share, found := total/float64(size), make(map[string]bool)
		for i, it := range items {
			found[it.Name] = true
			if it.Count < want[it.Name] || it.Count-it.Error > want[it.Name] || it.Error > share {
				t.Errorf("%+v, want %v, with an error of at most %v", it, want[it.Name], share)
			}
			if i > 0 && items[i-1].Count < it.Count {
				t.Errorf("%+v after %+v", it, items[i-1])
			}
		}
		for name, n := range want {
			if n > share && !found[name] {
				t.Errorf("%s with %v of %v is not in a table of %d", name, n, total, size)
			}
		}
	})
}

func TestRemove(t *testing.T) {
	table := New(3)
	for i, name := range []string{"a", "b", "c"} {
		table.Add(name, float64(i+1))
	}
	table.Remove("b")
	table.Remove("nobody")
	table.Add("d", 1)
	if got := fmt.Sprint(table.Items(9)); got != "[{c 3 0} {a 1 0} {d 1 0}]" {
		t.Errorf("items %s", got)
	}
	if got := len(table.Items(1)); got != 1 {
		t.Errorf("%d items, want 1", got)
	}
}
