package lists

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead/filter"
)

// TestBitsList checks that a list of bits answers, grows, merges and compares like the two-part
// list of the same text, and that any damage to its file is noticed.
func TestBitsList(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, from, to int) string {
		t.Helper()
		var lines strings.Builder
		for i := from; i < to; i++ {
			fmt.Fprintf(&lines, "name%d.example\n", i)
		}
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(lines.String()+"192.0.2.0/24\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	first, second, all := write("first.txt", 0, 6000), write("second.txt", 4000, 9000), write("all.txt", 0, 9000)
	const rate = 1e-4
	made := make(map[Structure]*List)
	for _, structure := range []Structure{TwoPart, Bits} {
		path := filepath.Join(dir, string(structure))
		if _, err := Build(t.Context(), path, []string{first}, Options{Structure: structure, Error: rate,
			Capacity: 10_000, Hash: SHA1}); err != nil {
			t.Fatal(err)
		}
		r, err := Add(t.Context(), path, DefaultMaxBytes, []string{second}, false, Options{})
		// By chance, some names are found that were never added: more than 9 with a probability
		// below 1e-11.
		if err != nil || r.New > 3000 || r.New < 2991 {
			t.Fatalf("%s: %+v, %v", structure, r, err)
		}
		l, err := Open(path, DefaultMaxBytes)
		if err != nil {
			t.Fatal(err)
		}
		if l.Structure() != structure || l.Count() < 8900 || l.Count() > 9100 || l.ErrorRate() > rate {
			t.Errorf("%s: a %s list of %d, %s, error %g", structure, l.Structure(), l.Count(), l.Shape(), l.ErrorRate())
		}
		made[structure] = l

		// Two halves of the list, built like each other, merge into the same list.
		halves := []string{path + ".1", path + ".2"}
		if _, err := Build(t.Context(), halves[0], []string{first}, Options{Like: l, Hash: SHA1}); err != nil {
			t.Fatal(err)
		}
		if _, err := Build(t.Context(), halves[1], []string{second}, Options{Like: l, Hash: SHA1}); err != nil {
			t.Fatal(err)
		}
		both, err := Merge(path+".both", DefaultMaxBytes, halves, nil)
		if err != nil || both.Structure() != structure || both.Count() < 8900 || both.Count() > 9100 {
			t.Errorf("%s: merged: %v", structure, err)
		}
		var half [2]*List
		for i := range half {
			if half[i], err = Open(halves[i], DefaultMaxBytes); err != nil {
				t.Fatal(err)
			}
		}
		d, err := Diff(half[0], half[1])
		if near := func(n, want uint64) bool { return n > want*95/100 && n < want*105/100 }; err != nil ||
			!near(d.Old, 6000) || !near(d.New, 5000) || !near(d.Added, 3000) || !near(d.Removed, 4000) {
			t.Errorf("%s: compared: %+v, %v", structure, d, err)
		}
		if d, err := l.DiffNewer(t.Context(), all, nil); err != nil || d.New != 9001 || d.Added != 0 {
			t.Errorf("%s: beside all text: %+v, %v", structure, d, err)
		}
		if _, err := Add(t.Context(), path, DefaultMaxBytes, []string{write("more.txt", 20_000, 40_000)}, false,
			Options{}); err == nil {
			t.Errorf("%s: twice its capacity is taken", structure)
		}
	}
	for _, ask := range []string{"name0.example", "www.name8999.example", "name9000.example", "x@name3.example",
		"192.0.2.77", "192.0.3.1"} {
		e, err := ParseEntry(ask)
		if err != nil {
			t.Fatal(err)
		}
		want, found := made[TwoPart].Find(e)
		got, foundToo := made[Bits].Find(e)
		if found != foundToo || got.Element != want.Element {
			t.Errorf("%s: %+v %v, the two-part list %+v %v", ask, got, foundToo, want, found)
		}
	}
	plain := filepath.Join(dir, "plain")
	if _, err := Build(t.Context(), plain, []string{first}, Options{Structure: Bits}); err != nil {
		t.Fatal(err)
	}
	l, err := Open(plain, DefaultMaxBytes)
	if err != nil || !l.hasAddr(netip.MustParseAddr("192.0.2.9")) || l.hasAddr(netip.MustParseAddr("192.0.9.9")) {
		t.Errorf("addresses are not found as DNS asks for them (%v)", err)
	}
	if _, err := Merge(plain, DefaultMaxBytes, []string{filepath.Join(dir, "bits"), filepath.Join(dir, "two-part")},
		nil); !errors.Is(err, filter.ErrGeometry) {
		t.Errorf("merged with a two-part list: %v", err)
	}
	if _, err := Build(t.Context(), filepath.Join(dir, "x"), []string{first},
		Options{Structure: Bits, Eigen: filter.EigenChars}); err == nil {
		t.Error("an eigenvalue is taken")
	}
	file, err := os.ReadFile(plain)
	if err != nil {
		t.Fatal(err)
	}
	damaged(t, file, 97)
}
